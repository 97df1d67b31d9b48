"""`entrepot pipeline`: the jobs that run on PySpark. A module for each command, imported when it is asked for."""

from __future__ import annotations

import importlib
from typing import Final

import click

COMMANDS: Final = {
    "archive": "pipeline_archive",
    "replay": "pipeline_replay",
    "audit": "pipeline_audit",
    "report": "pipeline_report",
    "plan": "pipeline_plan",
}
"""Command -> the module of `entrepot.cli` that has a function of this name."""


class Jobs(click.Group):
    """Imports a job when it is asked for: `--help` needs no PySpark."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the jobs."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a job; None for one that does not exist."""
        module = COMMANDS.get(cmd_name)
        if module is None:
            return None
        command = getattr(importlib.import_module(f"entrepot.cli.{module}"), cmd_name)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=Jobs)
def pipeline() -> None:
    """Run jobs on PySpark: pip install "entrepot[spark]". The programs in pipeline/ are for spark-submit."""
