"""The job `entrepot pipeline plan` as a program: spark-submit pipeline/plan.py DIR... --to DIR (docs/audit.md)."""

import sys

from entrepot.cli.main import cli

if __name__ == "__main__":
    cli.main(["pipeline", "plan", *sys.argv[1:]], prog_name="entrepot")
