"""`python -m entrepot` is the command `entrepot`."""

from entrepot.cli.main import main

main()
