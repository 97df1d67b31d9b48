"""The page of the command line: what `--help` says of every command, read off the commands themselves."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

import click

from source_tree import SOURCE

sys.path.insert(0, str(SOURCE))

from entrepot.cli.main import cli  # the line above must come first

WIDTH: Final = 100

HEAD: Final = """\
<!-- Written by `make generated` from src/entrepot/cli/. -->
# Command line

`python -m entrepot` is the same command. Shells complete it: see `entrepot completion --help`.
"""


def command_line() -> str:
    """Return the page."""
    return HEAD + "".join(_sections(cli, None, "entrepot", 2))


def _sections(command: click.Command, parent: click.Context | None, name: str, level: int) -> Iterator[str]:
    """Yield a section for ``command``, then those of its subcommands."""
    # The width of the terminal, and its colours, must not get into the page.
    context = click.Context(
        command,
        parent,
        name,
        terminal_width=WIDTH,
        max_content_width=WIDTH,
        color=False,
        help_option_names=command.context_settings.get("help_option_names"),
    )
    path = context.command_path
    text = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    yield f"\n{'#' * level} {path}\n\n```text\n{text}\n```\n"
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            assert found is not None
            yield from _sections(found, context, child, level + 1)
