"""What a client of CORE calls an address, and what it means here: prefixes, ``address::queue``, routing types. [C]"""

from __future__ import annotations

from typing import Final

from entrepot.base.errors import InvalidDestination
from entrepot.core.broker import BrokerCore
from entrepot.core.queue.queue import Queue
from entrepot.model.address import ANYCAST, MULTICAST, NAME_OCTETS_MAX, UNTYPED, Destination
from entrepot.protocols.artemis.options import CoreOptions
from entrepot.protocols.artemis.refusals import NO_QUEUE, CoreRefused

CORE_MULTICAST: Final = 0  # routing types as they travel
CORE_ANYCAST: Final = 1
CORE_NONE: Final = -1

ROUTING: Final = {CORE_MULTICAST: MULTICAST, CORE_ANYCAST: ANYCAST}
"""Routing type as it travels -> as it is called here."""


def routing_of(octet: int) -> int:
    """Return what the routing type ``octet`` is called here; UNTYPED for none."""
    return ROUTING.get(octet, UNTYPED)


def octet_of(routing: int) -> int:
    """Return how ``routing`` travels."""
    return CORE_MULTICAST if routing == MULTICAST else CORE_ANYCAST


def place(name: str, routing: int, options: CoreOptions) -> Destination:
    """Return what ``name`` means. Raises InvalidDestination for an empty or overlong name."""
    for prefixes, meant in ((options.anycast_prefixes, ANYCAST), (options.multicast_prefixes, MULTICAST)):
        for prefix in prefixes:
            if name.startswith(prefix):
                name = name[len(prefix) :]
                routing = meant
                break
    address, _, queue = name.partition("::")
    check(address)
    if queue:
        check(queue)
    return Destination(address, routing, False, queue)


def check(name: str) -> None:
    """Raise InvalidDestination for what is no name."""
    if not name or len(name.encode("utf-8", "replace")) > NAME_OCTETS_MAX:
        raise InvalidDestination(f"an address has no name, or one of more than {NAME_OCTETS_MAX} octets")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InvalidDestination(f"the name {name!r} is no text", remedy="use characters of Unicode") from None


def unprefixed(name: str, options: CoreOptions) -> str:
    """Return ``name`` without a prefix."""
    found = place(name, UNTYPED, options)
    return f"{found.name}::{found.queue}" if found.queue else found.name


def queue_named(broker: BrokerCore, name: str, options: CoreOptions) -> Queue | None:
    """Return the queue that ``name``, or the last part of ``address::name``, is; None when there is none."""
    where = place(name, UNTYPED, options)
    return broker.table.queues.get(where.queue or where.name)  # in Artemis the address before it means nothing


def need_queue(broker: BrokerCore, name: str, options: CoreOptions) -> Queue:
    """Return the queue ``name``. Raises CoreRefused when there is none."""
    queue = queue_named(broker, name, options)
    if queue is None:
        raise CoreRefused(f"AMQ229017: Queue {name} does not exist", NO_QUEUE)
    return queue


def destination_of(queue: Queue) -> Destination:
    """Return what reads exactly ``queue``."""
    return Destination(queue.address, queue.routing, False, queue.name)
