"""Brokers of the network that ``url`` does not name: what a broker says about the others, and where to go there.

Decides which place of a broker is used, and never asks anybody: `wire.py` does. A broker that was met over TLS leads
only to places with TLS, for credentials go there too; whoever answers at a place counts only if it is the broker that
was announced, since ``127.0.0.1`` is another machine for everybody.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from entrepot.base.errors import EntrepotError
from entrepot.base.uri import Endpoint, parse

SPOKEN: Final = ("stomp", "stomp+ssl")


def read_list(text: str) -> dict[str, list[Endpoint]]:
    """Return the answer to BROKERS: broker -> its places. What cannot be read is passed over: it is newer than we."""
    found: dict[str, list[Endpoint]] = {}
    for entry in text.split(","):
        broker, mark, places = entry.strip().partition("=")
        if mark and broker:
            found[broker] = [place for each in places.split() if (place := _place(each)) is not None]
    return found


def reachable(places: list[Endpoint], via: Endpoint, tls: Mapping[str, str]) -> Endpoint | None:
    """Return where to go, with the credentials and the TLS options that led to ``via``; None for nowhere."""
    secure = [place for place in places if place.secure]
    chosen = secure if via.secure else [*(place for place in places if not place.secure), *secure]
    if not chosen:
        return None
    options = {**(via.options if via.secure else {}), **tls} if chosen[0].secure else {}
    return replace(chosen[0], user=via.user, password=via.password, options=options)


def _place(text: str) -> Endpoint | None:
    try:
        found = parse(text)
    except EntrepotError:
        return None
    if isinstance(found, Endpoint) and found.host and found.scheme in SPOKEN:
        return found
    return None
