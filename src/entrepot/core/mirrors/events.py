"""Addresses and queues that came or went at another broker, made and deleted here.

What is here already stays as it is, and what is gone already is gone: an event may come again.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from entrepot.base.errors import Refused
from entrepot.core.broker import BrokerCore
from entrepot.core.operators.listing import Arguments
from entrepot.core.operators.making import BITS, Making
from entrepot.core.operators.tables import queues_of

ADD_ADDRESS: Final = "addAddress"
DELETE_ADDRESS: Final = "deleteAddress"
CREATE_QUEUE: Final = "createQueue"
DELETE_QUEUE: Final = "deleteQueue"
WHY: Final = "the broker that is mirrored here deleted it"


def carry_out(broker: BrokerCore, event: str, address: str, queue: str, body: object) -> None:
    """Do what happened there. ``body``: an address or a queue as Artemis describes it. Raises Refused."""
    if event == ADD_ADDRESS:
        _add_address(broker, _described(body))
    elif event == DELETE_ADDRESS:
        _delete_address(broker, address)
    elif event == CREATE_QUEUE:
        said = _described(body)
        if said.get("name") not in broker.table.queues:
            Making(broker).create_queue(Arguments(event, [msgspec.json.encode(said).decode(), True]))
    elif event == DELETE_QUEUE:
        found = broker.table.queues.get(queue)
        if found is not None:
            broker.queues.delete(found, WHY)
    else:
        raise Refused(f"a mirror tells of {event!r}, which is unknown here", remedy="update this broker")


def _described(body: object) -> dict[str, Any]:
    try:
        said = msgspec.json.decode(body) if isinstance(body, (str, bytes)) else None
    except msgspec.DecodeError:
        said = None
    if not isinstance(said, dict) or not isinstance(said.get("name"), str) or not said["name"]:
        raise Refused("an event of a mirror does not describe an address or a queue")
    return said


def _add_address(broker: BrokerCore, said: dict[str, Any]) -> None:
    """Make an address that somebody made; one that made itself there does so here, with its first queue."""
    name = said["name"]
    if said.get("auto-created") or name in broker.table.addresses:
        return
    types = said.get("routingTypes", said.get("routing-types", []))
    bits = 0
    for word in types if isinstance(types, list) else []:
        kind = word if isinstance(word, str) else ("MULTICAST", "ANYCAST")[word] if word in (0, 1) else ""
        bits |= BITS.get(kind.upper(), 0)
    broker.queues.declare(name, bits or BITS["MULTICAST"] | BITS["ANYCAST"])


def _delete_address(broker: BrokerCore, name: str) -> None:
    address = broker.table.addresses.get(name)
    if address is None:
        return
    for queue in queues_of(address):
        broker.queues.delete(queue, WHY)
    if broker.table.addresses.get(name) is address:
        broker.queues.undeclare(address)
