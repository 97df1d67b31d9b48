"""The job `entrepot pipeline replay` as a program: spark-submit pipeline/replay.py ... (docs/pipeline.md)."""

import sys

from entrepot.cli.main import cli

if __name__ == "__main__":
    cli.main(["pipeline", "replay", *sys.argv[1:]], prog_name="entrepot")
