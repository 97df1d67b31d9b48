"""The configuration that is obeyed, setting by setting: its value, and where that is said; a page at a time."""

from __future__ import annotations

from typing import Any

from entrepot.base.errors import Refused
from entrepot.base.provenance import DEFAULT, ENVIRONMENT, FILE, OPTION, PROGRAM, Said
from entrepot.core.broker import BrokerCore
from entrepot.core.operators.census import Census
from entrepot.core.operators.listing import Arguments
from entrepot.core.operators.pace import Pace
from entrepot.core.operators.sifting import Sifted

SOURCES = (FILE, OPTION, ENVIRONMENT, DEFAULT, PROGRAM)


def settings_page(broker: BrokerCore, census: Census, given: Arguments) -> Sifted[Said]:
    """Return the page that is wanted; beside what every page takes, ``source`` is one of `SOURCES`. Raises Refused."""
    source = given.mapping(0).get("source", "")
    if source and source not in SOURCES:
        raise Refused(f"there is no source {str(source)[:40]!r}", remedy="use one of " + ", ".join(SOURCES))
    return Sifted(
        given,
        "settings",
        census.written.lines(),
        Pace(broker),
        _text,
        _row,
        facts=census.written.origin(),
        wanted=lambda one: not source or one.source == source,
    )


def _text(one: Said) -> str:
    return f"{one.setting} {one.value} {one.file}"


def _row(one: Said) -> dict[str, Any]:
    return {
        "setting": one.setting,
        "value": one.value,
        "means": one.means,
        "source": one.source,
        "file": one.file,
        "line": one.line,
        "over": one.over,
    }
