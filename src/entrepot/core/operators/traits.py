"""What a queue does, as a configuration of Artemis has it: its own definition, or what is set for its address."""

from __future__ import annotations

from entrepot.base.environment import MILLISECOND
from entrepot.core.addressing.traits import LAST_VALUE_KEY
from entrepot.core.operators.control import json_of
from entrepot.core.operators.listing import written
from entrepot.core.queue.queue import Queue
from entrepot.model.address import ROUTING_NAMES


def traits(queue: Queue) -> dict[str, object]:
    """Return the attributes of ``queue`` by the names of Artemis' QueueConfiguration (artemis.md 4.1); ms."""
    does = queue.traits
    delay = int(does.delay_before_dispatch)
    key = does.last_value_key
    return {
        "max-consumers": int(does.max_consumers),
        "exclusive": does.exclusive,
        "group-rebalance": does.group_rebalance,
        "group-rebalance-pause-dispatch": does.group_rebalance_pause,
        "group-buckets": int(does.group_buckets),
        "group-first-key": does.group_first_key or None,
        "last-value": key != "",
        "last-value-key": None if key in ("", LAST_VALUE_KEY) else key,
        "non-destructive": does.non_destructive,
        "purge-on-no-consumers": does.purges,
        "enabled": does.enabled,
        "consumers-before-dispatch": int(does.consumers_before_dispatch),
        "delay-before-dispatch": delay // MILLISECOND if delay > 0 else -1,
        "auto-delete": does.auto_delete,
        "auto-delete-delay": int(does.auto_delete_delay) // MILLISECOND,
        "auto-delete-message-count": int(does.auto_delete_messages),
        "ring-size": int(does.ring_size),
    }


def configuration(queue: Queue, *, updated: bool = False) -> str:
    """Return ``queue`` as JSON, fields in Artemis' order; ``updated``: as `updateQueue` answers, with ``enabled``."""
    said: dict[str, object] = {
        "id": int(queue.identity),
        "name": queue.name,
        "address": queue.address,
        "routing-type": ROUTING_NAMES[queue.routing],
    }
    if queue.filter is not None:
        said["filter-string"] = queue.filter.text
    said["durable"] = queue.durable
    if queue.definition.user:
        said["user"] = queue.definition.user
    for name, value in traits(queue).items():
        if value is not None and (name != "enabled" or updated):
            said[name] = value
    said |= {
        "configuration-managed": queue.definition.configured,
        "temporary": queue.temporary,
        "auto-create-address": True,
        "internal": queue.definition.internal,
        "transient": False,
        "auto-created": queue.definition.auto_created,
        "fqqn": False,
    }
    return json_of(said)


def queue_text(queue: Queue) -> str:
    """Return ``queue`` as Artemis writes one in words."""
    does = traits(queue)
    said: dict[str, object] = {
        "name": queue.name,
        "address": queue.address,
        "routingType": ROUTING_NAMES[queue.routing],
    }
    if queue.filter is not None:
        said["filter"] = queue.filter.text
    said["durable"] = queue.durable
    if does["max-consumers"] != -1:
        said["maxConsumers"] = does["max-consumers"]
    said |= {
        "purgeOnNoConsumers": does["purge-on-no-consumers"],
        "autoCreateAddress": queue.definition.auto_created,
        "exclusive": does["exclusive"],
        "lastValue": does["last-value"],
        "lastValueKey": "null" if does["last-value-key"] is None else does["last-value-key"],
        "nonDestructive": does["non-destructive"],
        "consumersBeforeDispatch": does["consumers-before-dispatch"],
        "delayBeforeDispatch": does["delay-before-dispatch"],
    }
    words = ", ".join(f"{name}={written(value)}" for name, value in said.items())
    return f"Queue [{words}, autoCreateAddress={written(queue.definition.auto_created)}]"
