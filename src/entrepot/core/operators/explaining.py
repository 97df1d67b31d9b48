"""Why the queues of a destination stand as they do, and what bridges do for it: what `explain` says, as one value."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from entrepot.core.addressing.routing import default_routing
from entrepot.core.broker import BrokerCore
from entrepot.core.operators import views
from entrepot.core.operators.census import Census
from entrepot.core.operators.explain import explain
from entrepot.model.address import MULTICAST, UNTYPED, parse_one

EXPLAINED_MOST: Final = 50  # queues of one topic


def explained(broker: BrokerCore, census: Census, text: str) -> dict[str, Any]:
    """Return why the queues of a destination stand as they do, and what bridges do for it: `core/operators/explain.py`.

    A destination that this broker does not have is no error: others may have it. Raises InvalidDestination for text
    that names none.
    """
    queue = broker.table.queues.get(text)
    if queue is not None:
        name, topic, found = queue.address, queue.routing == MULTICAST, [queue]
    else:
        destination = parse_one(text)
        name = destination.name
        address = broker.table.addresses.get(name)
        routing = default_routing(broker.table, name) if destination.routing == UNTYPED else destination.routing
        topic = routing == MULTICAST
        found = [] if address is None else list(address.multicast if topic else address.anycast)
        if destination.queue:
            found = [one for one in found if one.name == destination.queue]
    return {
        "broker": broker.options.name,
        "node": broker.ids.node_id,
        "uuid": broker.ids.node.uuid_text,
        "url": census.url,
        "destination": name,
        "topic": topic,
        "queues": [msgspec.to_builtins(explain(broker, one, census)) for one in found[:EXPLAINED_MOST]],
        "more": max(0, len(found) - EXPLAINED_MOST),
        "near": [] if found or topic else views.near_names(broker, name),
        "bridges": census.outlook(name, topic),
        "elsewhere": census.elsewhere(name, topic),
    }
