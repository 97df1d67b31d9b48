"""What people write on a command line, as values: durations, sizes, headers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import click

from entrepot.base.environment import GIB, KIB, MIB, MILLISECOND, MINUTE, SECOND, Duration
from entrepot.base.errors import InvalidOption

_DURATION: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(ms|s|m|h|d)?", re.ASCII)
_DURATION_UNITS: Final = {"ms": MILLISECOND, "s": SECOND, "m": MINUTE, "h": 60 * MINUTE, "d": 24 * 60 * MINUTE}
_SIZE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(b|kb?|mb?|gb?)?", re.ASCII | re.IGNORECASE)
_SIZE_UNITS: Final = {"b": 1, "k": KIB, "m": MIB, "g": GIB}


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
        found = _DURATION.fullmatch(value.strip())
        if found is None:
            self.fail(f"{value!r} is no duration: write 500ms, 2s, 1.5m, 1h or 1d", param, ctx)
        return int(float(found[1]) * _DURATION_UNITS[found[2] or "s"])


class SizeType(click.ParamType[int, str | int]):
    """``512mb``, ``64k``, ``1g``; a bare number means octets. Units are powers of 1024, as in ActiveMQ."""

    name = "size"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return octets."""
        if isinstance(value, int):
            return value
        found = _SIZE.fullmatch(value.strip())
        if found is None:
            self.fail(f"{value!r} is no size: write 65536, 64kb, 512mb or 1gb", param, ctx)
        return int(float(found[1]) * _SIZE_UNITS[(found[2] or "b")[0].lower()])


class HeaderType(click.ParamType[tuple[str, str], str | tuple[str, str]]):
    """``name=value``."""

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


def in_words(duration: Duration) -> str:
    """Return a duration as `DurationType` reads it, with the unit that suits it."""
    for unit in ("d", "h", "m", "s"):
        if duration >= _DURATION_UNITS[unit]:
            return f"{duration / _DURATION_UNITS[unit]:.4g}{unit}"
    return f"{duration / MILLISECOND:.4g}ms"
