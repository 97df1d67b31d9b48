"""Which zone a client belongs to that does not say so itself: rules about its address, its client id, its user.

A rule is ``ZONE=WHAT,WHAT...``; rules are asked in their order, and the first that fits counts. WHAT is a network
(``10.1.0.0/16``, ``fd00::/8``), ``client:PATTERN`` or ``user:PATTERN``, with ``*`` for any run of characters.
A client of ActiveMQ can say its zone in its client id: ``jms.clientIDPrefix=ams-`` in its URL, and a rule
``ams=client:ams-*``.
"""

from __future__ import annotations

import fnmatch
import ipaddress
from collections.abc import Iterable
from typing import Final

from entrepot.base.errors import InvalidOption

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

LETTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")


class ZoneRules:
    """An ordered list of rules."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        """Raises InvalidOption."""
        self.rules: Final = [rule for text in texts for rule in _rules(text)]

    def zone(self, client_id: str, user: str, peer: str) -> str:
        """Return the zone of a client; "" if no rule fits. ``peer``: ``address:port``."""
        if not self.rules:
            return ""
        address = _address(peer)
        for zone, kind, what in self.rules:
            if isinstance(what, str):
                told = client_id if kind == "client" else user
                if told and fnmatch.fnmatchcase(told, what):
                    return zone
            elif address is not None and address.version == what.version and address in what:
                return zone
        return ""


def check_zone(name: str) -> str:
    """Return ``name`` if a zone may be called so. Raises InvalidOption."""
    if not name or any(letter not in LETTERS for letter in name):
        raise InvalidOption(f"{name!r} cannot name a zone", remedy="use letters, digits, '-', '_' and '.'")
    return name


def _rules(text: str) -> list[tuple[str, str, str | Network]]:
    zone, equals, rest = text.partition("=")
    if not equals or not rest.strip():
        raise InvalidOption(f"{text!r} is no rule about clients", remedy="write it like ams=10.1.0.0/16,client:ams-*")
    check_zone(zone.strip())
    found: list[tuple[str, str, str | Network]] = []
    for word in rest.split(","):
        kind, colon, pattern = word.strip().partition(":")
        if colon and kind in ("client", "user") and pattern:
            found.append((zone.strip(), kind, pattern))
            continue
        try:
            found.append((zone.strip(), "network", ipaddress.ip_network(word.strip(), strict=False)))
        except ValueError:
            raise InvalidOption(
                f"{word.strip()!r} says nothing about clients", remedy="use a network, client:PATTERN or user:PATTERN"
            ) from None
    return found


def _address(peer: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    host = peer.rpartition(":")[0].strip("[]") if peer.count(":") == 1 or peer.startswith("[") else peer
    for text in (host, peer, peer.rpartition(":")[0]):
        try:
            return ipaddress.ip_address(text)
        except ValueError:
            continue
    return None
