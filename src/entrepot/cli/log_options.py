"""What each command that runs for long lets its operator say about its log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click

LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("text", "json")  # those of `io/logs.py`, which `--help` need not load

_LEVEL: Final = click.option(
    "--log-level",
    type=click.Choice(LEVELS, case_sensitive=False),
    default="info",
    show_default=True,
    help="What to log.",
)
_FORMAT: Final = click.option(
    "--log-format",
    type=click.Choice(FORMATS, case_sensitive=False),
    default="text",
    show_default=True,
    help="Lines for people, or a JSON object a line; the codes are the same.",
)


def log_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give ``command`` the parameters ``log_level`` and ``log_format``."""
    return _LEVEL(_FORMAT(command))


def log_arguments() -> list[str]:
    """Return how this process logs, for the command line of another one."""
    context = click.get_current_context(silent=True)
    said = {} if context is None else context.params
    named = {"--log-level": said.get("log_level"), "--log-format": said.get("log_format")}
    return [part for option, value in named.items() if value for part in (option, str(value))]
