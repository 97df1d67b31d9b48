"""What people write on a command line, as values: durations, sizes, headers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from entrepot.base.environment import MILLISECOND, SECOND, Duration
from entrepot.base.errors import InvalidOption
from entrepot.base.values import TIMES, duration, octets


def named_values(option: str, texts: Sequence[str], example: str) -> dict[str, str]:
    """Return what an option that is given as NAME=VALUE says, however often. Raises InvalidOption."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InvalidOption(f"{option} {text!r} is not NAME=VALUE", remedy=f"write it like {option} {example}")
        found[name] = value
    return found


class DurationType(click.ParamType[Duration, str | Duration]):
    """``500ms``, ``2s``, ``1.5m``, ``1h``, ``1d``; a bare number means seconds. The value is in ns."""

    name = "duration"

    def convert(self, value: str | Duration, param: click.Parameter | None, ctx: click.Context | None) -> Duration:
        """Return ns."""
        if isinstance(value, int):
            return value
        try:
            found = duration(value, plain=SECOND, fractions=True)
        except ValueError:
            found = -1
        if found < 0:
            self.fail(f"{value!r} is no duration: write 500ms, 2s, 1.5m, 1h or 1d", param, ctx)
        return found


class SizeType(click.ParamType[int, str | int]):
    """``512mb``, ``64k``, ``1g``; a bare number means octets. Units are powers of 1024, as in ActiveMQ."""

    name = "size"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return octets."""
        if isinstance(value, int):
            return value
        try:
            found = octets(value, fractions=True)
        except ValueError:
            found = -1
        if found < 0:
            self.fail(f"{value!r} is no size: write 65536, 64kb, 512mb or 1gb", param, ctx)
        return found


class HeaderType(click.ParamType[tuple[str, str], str | tuple[str, str]]):
    """A header as a command takes it: ``name=value``."""

    name = "name=value"

    def convert(
        self, value: str | tuple[str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Return name and value."""
        if isinstance(value, tuple):
            return value
        name, equals, text = value.partition("=")
        if not equals or not name.strip():
            self.fail(f"{value!r} is no header: write name=value", param, ctx)
        return name.strip(), text


DURATION: Final = DurationType()
SIZE: Final = SizeType()
HEADER: Final = HeaderType()


def in_words(time: Duration) -> str:
    """Return a duration as `DurationType` reads it, with the unit that suits it."""
    for unit in ("d", "h", "m", "s"):
        if time >= TIMES[unit]:
            return f"{time / TIMES[unit]:.4g}{unit}"
    return f"{time / MILLISECOND:.4g}ms"
