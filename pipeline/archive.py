"""The job `entrepot pipeline archive` as a program: spark-submit pipeline/archive.py ... (docs/pipeline.md)."""

import sys

from entrepot.cli.main import cli

if __name__ == "__main__":
    cli.main(["pipeline", "archive", *sys.argv[1:]], prog_name="entrepot")
