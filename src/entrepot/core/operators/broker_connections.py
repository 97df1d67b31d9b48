"""Connections over AMQP that a broker opened, as operators list, start and stop them (artemis.md 2.8)."""

from __future__ import annotations

from entrepot.base.errors import InvalidDestination
from entrepot.core.operators.census import Census
from entrepot.core.operators.control import json_of

KIND = "brokerconnection"
SHOWN = ("name", "protocol", "started", "connected", "uri")


def listed(census: Census) -> str:
    """Return all of them as JSON: what each is called, and how it stands."""
    rows = []
    for name in census.components(KIND):
        found = census.component(KIND, name)
        if found is not None:
            rows.append({word: found.attributes[word]() for word in SHOWN})
    return json_of(rows)


def switch(census: Census, name: str, *, start: bool) -> None:
    """Start or stop the connection ``name``. Raises InvalidDestination when there is none."""
    found = census.component(KIND, name)
    if found is None or found.switch is None:
        known = ", ".join(census.components(KIND)) or "none"
        raise InvalidDestination(f"there is no broker connection {name!r}", remedy=f"there are: {known}")
    found.switch(start)
