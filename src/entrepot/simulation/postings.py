"""What producers of simulated brokers send as a client of CORE would: durable, with an identity, large or not.

And ledgers of what becomes of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from entrepot.core.broker import BrokerCore
from entrepot.journal.log import Waiter
from entrepot.model.address import Destination
from entrepot.model.message import Message
from entrepot.protocols.artemis.arriving import message_of
from entrepot.protocols.artemis.bodies import text_body
from entrepot.protocols.artemis.headers import NO_BODY, TYPE_BYTES, TYPE_TEXT, Headers, assembled, properties_in
from entrepot.protocols.artemis.large import LargeArrival
from entrepot.simulation.networks import Network
from entrepot.simulation.sites import Blueprint, Site

IDENTITY: Final = "id"  # a property
PIECE: Final = 1024
LARGE_MAX: Final = 40 * PIECE


def post(
    broker: BrokerCore, destination: Destination, identity: str, octets: int, properties: Mapping[str, object] = {}
) -> None:
    """Send a message called ``identity``; ``octets`` of its body if that is large, 0 for a short text."""
    said = {IDENTITY: identity, **properties}
    if not octets:
        broker.send(short(destination, identity, properties), broker.target([destination]))
        return
    headers = _headers(destination, identity)
    headers.kind = TYPE_BYTES
    large = LargeArrival(broker, assembled(b"", headers, said)[len(NO_BODY) :], "")
    for at in range(0, octets, PIECE):
        large.write(b"x" * min(PIECE, octets - at))
    broker.send(large.complete(-1), broker.target([destination]))
    large.finish()


def short(
    destination: Destination, identity: str, properties: Mapping[str, object] = {}, *, durable: bool = True
) -> Message:
    """Return a message called ``identity`` with a short text."""
    headers = _headers(destination, identity)
    headers.kind = TYPE_TEXT
    headers.durable = durable
    return message_of(assembled(text_body(identity), headers, {IDENTITY: identity, **properties}), "")


def _headers(destination: Destination, identity: str) -> Headers:
    headers = Headers()
    headers.address = destination.name
    headers.durable = True
    headers.user_id = identity.encode().rjust(16, b"\0")
    return headers


class Posted(Network):
    """A network whose producers `post`. ``large``: octets of each large body."""

    def __init__(self, seed: int, blueprints: Mapping[str, Blueprint], *, lines: bool = False) -> None:
        self.large: dict[str, int] = {}
        super().__init__(seed, blueprints, lines=lines)

    def identity_of(self, message: Message) -> str:
        """Return what ``message``, which has come, is called. A body of another length is a violation."""
        identity = str(properties_in(message.raw)[IDENTITY])
        rare = message.rare
        octets = int(rare.large_length) if rare is not None else 0
        if octets != self.large.get(identity, 0):
            self.world.violation(f"{identity} has a body of {octets} octets, not {self.large.get(identity, 0)}")
        return identity


class Settled(Waiter):
    """Notes that a message is settled, on disk."""

    def __init__(self, ledger: dict[str, dict[str, None]], key: str, place: str) -> None:
        self.ledger = ledger
        self.key = key
        self.place = place

    def stored(self, token: bytes) -> None:
        """No crash takes it back."""
        self.ledger.setdefault(self.key, {})[self.place] = None

    def store_failed(self, token: bytes, error: Exception) -> None:
        """It may come again."""


class Promised(Posted):
    """Who must get what. ``wanted``: message -> the queues and subscriptions that must; ``firm``: what got it, where.

    ``came``: what was settled at all, as ``message subscription``.
    """

    def __init__(self, seed: int, blueprints: Mapping[str, Blueprint], *, lines: bool = False) -> None:
        self.wanted: dict[str, tuple[str, ...]] = {}
        self.firm: dict[str, dict[str, None]] = {}
        self.came: dict[str, None] = {}
        super().__init__(seed, blueprints, lines=lines)

    def fulfil(self, site: Site, key: str, message: Message) -> None:
        """``key`` was settled at ``site``; from when it is on disk there, it must not be so elsewhere."""
        self.came[key] = None
        self.world.note(f"consumed {key} at {site.name} as {message.number}")
        assert site.broker is not None
        site.broker.journal.confirm(Settled(self.firm, key, f"{site.name} {message.number}"), b"")

    def missing(self) -> list[str]:
        """Return what was promised and has not come."""
        keys = [f"{identity} {what}" for identity in self.accepted for what in self.wanted[identity]]
        return [key for key in keys if key not in self.came]
