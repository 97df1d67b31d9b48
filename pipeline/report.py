"""The job `entrepot pipeline report` as a program: spark-submit pipeline/report.py DIR... --to DIR (docs/audit.md)."""

import sys

from entrepot.cli.main import cli

if __name__ == "__main__":
    cli.main(["pipeline", "report", *sys.argv[1:]], prog_name="entrepot")
