"""Destinations as one client of STOMP writes them: their real names, where a SEND goes, what it may read. [C]"""

from __future__ import annotations

from typing import Final

from entrepot.base.errors import AccessDenied, InvalidDestination
from entrepot.core.addressing.definition import temporary
from entrepot.core.addressing.routing import Target
from entrepot.core.events.facts import TEMPORARY_TOPIC_ADDED, TEMPORARY_TOPIC_REMOVED, AddressFact
from entrepot.model import address as names
from entrepot.model.address import ANYCAST, MULTICAST, UNTYPED, Destination
from entrepot.protocols.serving.session import ServerSession
from entrepot.protocols.serving.targets import keep_target
from entrepot.protocols.stomp.codec import Reader
from entrepot.protocols.stomp.escapes import text_of

ROUTING_TYPES: Final = {"ANYCAST": ANYCAST, "MULTICAST": MULTICAST}


class Places:
    """What one connection calls destinations. Those that are temporary are made on first use, and its own."""

    def __init__(self, session: ServerSession, reader: Reader) -> None:
        self.session: ServerSession = session
        self.reader: Reader = reader
        self.targets: dict[bytes, Target] = {}
        self.temporary: dict[str, str] = {}  # alias -> queue or topic name that only this connection reads

    def target(self, octets: bytes, special: dict[bytes, bytes]) -> Target:
        """Return where a SEND with this destination goes. Raises InvalidDestination, AccessDenied."""
        wanted = special.get(b"destination-type", b"")
        target = None if wanted else self.targets.get(octets)
        if target is not None:
            return target
        if not octets:
            raise InvalidDestination(
                "a SEND frame has no destination", remedy="add a header like destination:/queue/orders"
            )
        routing = UNTYPED
        if wanted:
            kind = text_of(wanted, self.reader.version)
            if kind not in ROUTING_TYPES:
                raise InvalidDestination(f"destination-type is {kind!r}", remedy="use ANYCAST or MULTICAST")
            routing = ROUTING_TYPES[kind]
        parsed = [self.real(one) for one in names.parse(text_of(octets, self.reader.version), routing)]
        broker = self.session.broker
        broker.access.send(self.session.subject, parsed)
        target = broker.target(parsed)
        if not wanted:
            broker.access.keep(target, self.session.subject, parsed)
            keep_target(self.targets, octets, target)
        return target

    def real(self, destination: Destination) -> Destination:
        """Return ``destination`` under its real name: with dots, where others are used for them.

        A temporary one is made on first use, and private to this connection.
        """
        session = self.session
        broker = session.broker
        separator = broker.options.separator
        if separator and not destination.temporary:
            destination.name = destination.name.replace(separator, ".")
        if not destination.temporary or destination.name.startswith(broker.temporary_prefix):
            return destination
        alias = destination.stomp()
        name = self.temporary.get(alias)
        if name is None:
            name = broker.ids.temporary_name(session.number, destination.name)
            broker.access.create(session.subject, Destination(name, destination.routing, True))
            self.temporary[alias] = name
            if destination.routing != MULTICAST:
                broker.queues.create(temporary(name, str(session.number)))
            else:
                broker.hub.announce(AddressFact(TEMPORARY_TOPIC_ADDED, name, MULTICAST))
        return Destination(name, destination.routing, True)

    def reply_to(self, alias: str) -> str:
        """Return the name under which others reach this connection's temporary destination."""
        destination = self.real(names.parse_one(alias))
        kind = "topic" if destination.routing == MULTICAST else "queue"
        return f"/remote-temp-{kind}/{destination.name}"

    def may_consume(self, destinations: list[Destination], durable: str) -> None:
        """Raise AccessDenied unless this connection may read ``destinations``; temporary ones must be its own."""
        session = self.session
        access = session.broker.access
        access.consume(session.subject, destinations, bool(durable))
        if durable:  # one of that name may be about another topic: it would be removed
            access.forget(session.subject, session.broker.reading.durable(session.client_id, durable))
        self.check_owner(destinations)

    def check_owner(self, destinations: list[Destination]) -> None:
        """Raise AccessDenied for a temporary destination that another connection made, however it is to be read."""
        for one in destinations:
            if one.temporary and one.name not in self.temporary.values():
                raise AccessDenied(f"the temporary destination {one.name!r} is read by the connection that made it")

    def end(self) -> None:
        """Delete what was temporary."""
        broker = self.session.broker
        for alias, name in self.temporary.items():
            queue = broker.table.queues.get(name)
            if names.parse_one(alias).routing == MULTICAST:
                broker.hub.announce(AddressFact(TEMPORARY_TOPIC_REMOVED, name, MULTICAST))
            elif queue is not None:
                broker.queues.delete(queue, "its connection is gone")
