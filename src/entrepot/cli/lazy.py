"""A group of commands, each imported when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

import click


class LazyGroup(click.Group):
    """A group whose commands stand in modules of `entrepot.cli`; `modules` maps a command to the one that has it."""

    modules: Mapping[str, str] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which one meets them."""
        return list(self.modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command; None for one that does not exist."""
        module = self.modules.get(cmd_name)
        if module is None:
            return None
        command = getattr(importlib.import_module(f"entrepot.cli.{module}"), cmd_name)
        assert isinstance(command, click.Command)
        return command
