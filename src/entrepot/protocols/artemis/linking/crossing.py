"""How a message crosses to another broker: its own octets, with what has to be said of it (artemis.md 1.14, 4.11). [C]

What a bridge adds is the address, where it forwards to one; the routing type, where it is told to; and the duplicate
id by which the other broker knows a repetition: the UUID of this broker and the number that the message has here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mypy_extensions import i64

from entrepot.base.errors import Refused
from entrepot.base.primitive import BYTE, LONG, Primitive
from entrepot.core.addressing.binding import ONWARD_ID, ROUTE_TO, SCALED_DOWN
from entrepot.core.broker import BrokerCore
from entrepot.core.queue.queue import Queue
from entrepot.model.address import ANYCAST, MULTICAST
from entrepot.model.headers import Headers, set_headers
from entrepot.model.ids import NUMBERED_OCTETS
from entrepot.model.message import Message
from entrepot.protocols.artemis.convert import (
    BRIDGE_DUPLICATE,
    DELIVER_AT,
    ROUTING,
    ROUTING_ANYCAST,
    ROUTING_MULTICAST,
    ROUTING_NONE,
    readdressed,
)
from entrepot.protocols.artemis.headers import NO_BODY, headers_at
from entrepot.protocols.artemis.places import octet_of
from entrepot.protocols.artemis.presenting import headers_of, octets_of
from entrepot.protocols.artemis.properties import Entries, entry

PASS: Final = "PASS"
STRIP: Final = "STRIP"
ROUTINGS: Final[Mapping[str, i64]] = {"ANYCAST": ROUTING_ANYCAST, "MULTICAST": ROUTING_MULTICAST}
DATED: Final = b"dated"
"""A route: no queue, each message says when it is to be delivered, and the other broker sends it on then."""
ONWARD: Final = b"onward"
"""A route: each message says for which queues of a third node it is, and the other broker sends it on to that."""
CROSSED: Final = "entrepot.crossed"
"""The internal annotation with the id under which a message with a date went, or may have gone, to another broker.

It waited in another queue then, and under another number: a drain was aborted since, and begins anew.
"""
_DUPLICATE_ENTRY: Final = entry(BRIDGE_DUPLICATE, b"")[:-4]  # all but the length of the octets
_ROUTE_ENTRY: Final = entry(ROUTE_TO, b"")[:-4]
_ONWARD_ENTRY: Final = entry(SCALED_DOWN, b"")[:-4]


class Crossing:
    """Of one bridge. ``forwards``: the address there, "" where each message keeps its own.

    ``route_key``: the annotation with the ids of the queues at the next node of a cluster, "" for a bridge of its own.
    ``route``: such ids that all messages get, of a queue that moves to another node as a whole; `DATED`; `ONWARD`.
    ``routing``: PASS, STRIP, ANYCAST or MULTICAST. ``mark``: what the duplicate ids of this bridge end with, so that
    one message that two queues hold, each with a bridge to the same address, is no repetition of itself.
    ``headers``: properties that a transformer sets on each.
    """

    def __init__(
        self,
        broker: BrokerCore,
        forwards: str,
        routing: str,
        *,
        deduplicates: bool,
        mark: bytes,
        route_key: str = "",
        route: bytes = b"",
        headers: Headers = (),
    ) -> None:
        self.broker: BrokerCore = broker
        self.forwards: str = forwards
        self.deduplicates: bool = deduplicates
        self.mark: bytes = mark
        self.route_key: str = route_key
        self.route: bytes = route
        self._headers: Headers = headers
        self.says_routing: bool = routing != PASS
        self._more: Entries = Entries()  # of the message at hand
        self._routing: bytes = b""
        if routing in ROUTINGS:
            self._routing = entry(ROUTING, Primitive(BYTE, int(ROUTINGS[routing])))

    def address_of(self, message: Message) -> str:
        """Return where ``message`` goes there."""
        return self.forwards or message.address

    def octets(self, message: Message, queue: Queue) -> bytes:
        """Return ``message``, found in ``queue``, as a SEND carries it. Raises EntrepotError."""
        shown, routing = self._transformed(message), self._routing_of(message, queue)
        return self._readdressed(message, octets_of(shown, routing, self.broker.ids, self._told(message)))

    def headers(self, message: Message, queue: Queue) -> bytes:
        """Return the headers of a large ``message`` as SEND_LARGE carries them. Raises EntrepotError."""
        shown, routing = self._transformed(message), self._routing_of(message, queue)
        octets = NO_BODY + headers_of(shown, routing, self.broker.ids, self._told(message))
        return self._readdressed(message, octets)[len(NO_BODY) :]

    def _transformed(self, message: Message) -> Message:
        """Return what is written of ``message``: it, or a copy with what a transformer sets."""
        if not self._headers:
            return message
        made = message.twin(message.address)
        made.number = message.number
        set_headers(made, self._headers)
        return made

    def _routing_of(self, message: Message, queue: Queue) -> i64:
        """Return the routing type of ``message`` (ROUTING_...), which was found in ``queue``.

        The store of messages for another node is multicast, whatever they are: there the bindings of the address say
        it, where they are of one kind. Artemis gives a message to no queue of another type than the message says, and
        drops it, though the message says which queue it is for. One that says no type goes where it is for.
        """
        if not self.route_key:
            return octet_of(queue.routing)
        address = self.broker.table.addresses.get(message.address)
        if address is None or address.has(ANYCAST) == address.has(MULTICAST):
            return ROUTING_NONE
        return octet_of(ANYCAST if address.has(ANYCAST) else MULTICAST)

    def _readdressed(self, message: Message, octets: bytes) -> bytes:
        address = self.forwards
        return readdressed(octets, headers_at(octets), address) if address and address != message.address else octets

    def _told(self, message: Message) -> Entries | None:
        """Return what the other broker is told with ``message``; None: nothing. Raises Refused."""
        route = self.route
        if not self.says_routing and not self.deduplicates and not self.route_key and not route:
            return None
        more = self._more
        more.clear()
        if self.route_key:
            ids = message.marked(self.route_key)
            if not isinstance(ids, bytes):
                raise Refused("it is not known for which queue of the other node it is")
            more.add_octets(_ONWARD_ENTRY if route == ONWARD else _ROUTE_ENTRY, ids)
        elif route == DATED:
            more.replaced.append(DELIVER_AT)
            rare = message.rare
            if rare is not None and rare.deliver_at > 0:
                more.add(entry(DELIVER_AT, Primitive(LONG, int(rare.deliver_at))))
        elif route:
            more.add_octets(_ROUTE_ENTRY, route)
        if self.says_routing:
            more.replaced.append(ROUTING)
            if self._routing:
                more.add(self._routing)
        if self.deduplicates:
            known = self._known_id(message)
            if known:
                more.add_octets(_DUPLICATE_ENTRY, known)
            else:
                more.add_numbered(_DUPLICATE_ENTRY, self.broker.ids.uuid, message.number, self.mark)
        return more

    def duplicate_id(self, message: Message) -> bytes:
        """Return by what the other broker knows ``message`` if it comes again."""
        known = self._known_id(message)
        return known or self.broker.ids.uuid + int(message.number).to_bytes(8, "big") + self.mark

    def _known_id(self, message: Message) -> bytes:
        """Return by what it knows one that may have come to it from elsewhere; b"": by our UUID and the number here."""
        crossed = message.marked(CROSSED) if self.route == DATED else None
        if isinstance(crossed, bytes):
            return crossed
        known = message.marked(ONWARD_ID) if self.route_key else None
        return known[:NUMBERED_OCTETS] + self.mark if isinstance(known, bytes) else b""
