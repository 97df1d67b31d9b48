"""`entrepot pipeline`: the jobs that run on PySpark. A module for each command, imported when it is asked for."""

from __future__ import annotations

from typing import Final

import click

from entrepot.cli.lazy import LazyGroup

COMMANDS: Final = {
    "land": "pipeline_land",
    "archive": "pipeline_archive",
    "replay": "pipeline_replay",
    "audit": "pipeline_audit",
    "report": "pipeline_report",
    "plan": "pipeline_plan",
    "calibrate": "pipeline_calibrate",
}
"""Command -> the module of `entrepot.cli` that has a function of this name."""


class Jobs(LazyGroup):
    """The jobs: `--help` needs no PySpark."""

    modules = COMMANDS


@click.group(cls=Jobs)
def pipeline() -> None:
    """Run jobs on PySpark: pip install "entrepot[spark]". The programs in pipeline/ are for spark-submit."""
