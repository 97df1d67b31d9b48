"""What the command line of a broker says, option by option, for who asks the broker later why it is as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import click
from click.core import ParameterSource

from entrepot.base.provenance import DEFAULT, ENVIRONMENT, OPTION, Said
from entrepot.config.ledger import hidden

UNTOLD: Final = ("ports_file", "log_level", "log_format", "help")
"""Nothing of the broker follows from these."""
TOLD_APART: Final = ("settings", "defines")  # each value is a setting of its own
SOURCES: Final[Mapping[ParameterSource, str]] = {
    ParameterSource.COMMANDLINE: OPTION,
    ParameterSource.PROMPT: OPTION,
    ParameterSource.ENVIRONMENT: ENVIRONMENT,
}


def options_of(ctx: click.Context, policies: Mapping[str, Mapping[str, object]]) -> list[Said]:
    """Return a line for each option that was given or has a default; ``policies``: those of ``--set``."""
    found = [line for one in ctx.command.params for line in _lines(ctx, one)]
    for pattern, settings in policies.items():
        found += [
            Said(f"--set[{pattern}]", name, hidden(name, str(value)), source=OPTION) for name, value in settings.items()
        ]
    for text in ctx.params.get("defines", ()):
        name, _, value = text.partition("=")
        found.append(Said("-D", name, hidden(name, value), source=OPTION))
    return found


def _lines(ctx: click.Context, parameter: click.Parameter) -> Iterator[Said]:
    name = str(parameter.name)
    value = ctx.params.get(name)
    if name in UNTOLD or name in TOLD_APART or value is None or value == () or value == "":
        return
    known = ctx.get_parameter_source(name)
    source = DEFAULT if known is None else SOURCES.get(known, DEFAULT)
    written = _written(parameter)
    if isinstance(value, tuple):
        for number, one in enumerate(value, 1):
            yield Said(written, str(number), _text(written, one), source=source)
    else:
        yield Said(written, "", _text(written, value), source=source)


def _written(parameter: click.Parameter) -> str:
    """Return an option as it is written, by its longest name; an argument in capitals."""
    names = [one for one in parameter.opts if one.startswith("-")]
    return max(names, key=len) if names else str(parameter.name).upper()


def _text(written: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return hidden("" if written.endswith("-secret") else written, str(value))  # --replication-secret names a file
