"""Refusals of management in the words of Artemis: its tools print them, and scripts look for their codes."""

from __future__ import annotations

from typing import Final

from entrepot.base.errors import InvalidDestination, Refused
from entrepot.core.broker import BrokerCore
from entrepot.core.operators.views import near_names

LIST: Final = "list them to see their names"


def no_queue(broker: BrokerCore, name: str) -> InvalidDestination:
    """There is no queue ``name``."""
    near = near_names(broker, name)
    remedy = f"did you mean {' or '.join(near)}?" if near else LIST
    return InvalidDestination(f"AMQ229017: Queue {name} does not exist", remedy=remedy)


def no_resource(name: str, remedy: str) -> InvalidDestination:
    """There is no resource ``name``."""
    return InvalidDestination(f"AMQ229067: Cannot find resource with name {name}", remedy=remedy)


def no_address(name: str) -> InvalidDestination:
    """There is no address ``name``."""
    return InvalidDestination(f"AMQ229203: Address Does Not Exist: {name}", remedy=LIST)


def address_exists(name: str) -> InvalidDestination:
    """There is an address ``name`` already."""
    return InvalidDestination(f"AMQ229204: Address already exists: {name}")


def queue_exists(name: str, address: str) -> InvalidDestination:
    """There is a queue ``name`` already."""
    return InvalidDestination(f"AMQ229019: Queue {name} already exists on address {address}")


def has_bindings(name: str) -> InvalidDestination:
    """Queues are bound to the address ``name``."""
    remedy = "remove its queues first, or ask for that too"
    return InvalidDestination(f"AMQ229205: Address {name} has bindings", remedy=remedy)


def has_consumers(name: str) -> InvalidDestination:
    """The queue ``name`` is read."""
    return InvalidDestination(
        f"AMQ229025: Cannot delete queue {name} on binding {name} - it has consumers = "
        "org.apache.activemq.artemis.core.postoffice.impl.LocalQueueBinding",
        remedy="close them, leases too, or ask to remove them too",
    )


def type_in_use(name: str, routing: str) -> InvalidDestination:
    """The address ``name`` has queues of the routing type that it is to lose."""
    return InvalidDestination(
        f"AMQ229209: Can't remove routing type {routing}, queues exists for address: {name}. "
        "Please delete queues before removing this routing type."
    )


def type_not_there(name: str, routing: str, known: str) -> InvalidDestination:
    """The address ``name`` was made for other routing types."""
    return InvalidDestination(
        f"AMQ229207: Can not create queue with routing type: {routing}, "
        f"Supported routing types for address: {name} are {known}",
        remedy="update the address first, or take another one",
    )


def has_messages(name: str, count: int) -> InvalidDestination:
    """The queue ``name`` is not empty."""
    return InvalidDestination(
        f"AMQ229215: Cannot delete queue {name} on binding {name} - it has {count} messages",
        remedy="purge it first, or do not mind",
    )


def no_type(routing: str) -> Refused:
    """``routing`` is no routing type."""
    return Refused(f"there is no routing type {routing!r}", remedy="use ANYCAST, MULTICAST or both with a comma")
