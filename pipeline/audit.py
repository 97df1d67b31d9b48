"""The job `entrepot pipeline audit` as a program: spark-submit pipeline/audit.py DIR... --to DIR (docs/audit.md)."""

import sys

from entrepot.cli.main import cli

if __name__ == "__main__":
    cli.main(["pipeline", "audit", *sys.argv[1:]], prog_name="entrepot")
