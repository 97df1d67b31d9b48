"""A queue as an operator describes it: the words of Artemis' QueueConfiguration made into a `QueueDefinition`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from entrepot.base.errors import Refused
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.model.address import ROUTING_NAMES

FIELDS: Final = {
    "durable": "durable",
    "internal": "internal",
    "user": "user",
    "max-consumers": "max_consumers",
    "exclusive": "exclusive",
    "purge-on-no-consumers": "purge_on_no_consumers",
    "consumers-before-dispatch": "consumers_before_dispatch",
    "delay-before-dispatch": "delay_before_dispatch_ms",
    "group-rebalance": "group_rebalance",
    "group-rebalance-pause-dispatch": "group_rebalance_pause",
    "group-buckets": "group_buckets",
    "group-first-key": "group_first_key",
    "last-value": "last_value",
    "last-value-key": "last_value_key",
    "non-destructive": "non_destructive",
    "ring-size": "ring_size",
    "enabled": "enabled",
    "auto-delete": "auto_delete",
    "auto-delete-delay": "auto_delete_delay_ms",
    "auto-delete-message-count": "auto_delete_messages",
}
WITHOUT_EFFECT: Final = (
    "id",
    "name",
    "address",
    "routing-type",
    "filter-string",
    "fqqn",
    "auto-create-address",
    "auto-created",
    "configuration-managed",
    "consumer-priority",
    "transient",
)


def described(address: str, name: str, routing: str, selector: str = "", *, durable: bool = True) -> QueueDefinition:
    """Define a queue by the words of a verb; one of ``address`` and ``name`` may be "" and is the other then.

    Raises Refused for a routing type that is none.
    """
    if routing.upper() not in ROUTING_NAMES[:2]:
        raise Refused(f"the routing type is {routing!r}", remedy="use ANYCAST or MULTICAST")
    return QueueDefinition(
        name=name or address,
        address=address or name,
        routing=ROUTING_NAMES.index(routing.upper()),
        selector=selector.strip(),
        durable=durable,
    )


def configured(said: Mapping[str, Any]) -> QueueDefinition:
    """Define a queue by a configuration of Artemis, as a JSON object has it.

    Raises Refused for what it does not know, or what is of another type: nothing is left out silently.
    """
    definition = described(
        str(said.get("address") or ""),
        str(said.get("name") or ""),
        str(said.get("routing-type") or "MULTICAST"),  # Artemis' default-queue-routing-type
        str(said.get("filter-string") or ""),
    )
    values: dict[str, Any] = msgspec.structs.asdict(definition)
    for word, value in said.items():
        if value is None or (value is False and word not in FIELDS) or word in WITHOUT_EFFECT:
            continue
        field = FIELDS.get(word)
        if field is None:
            raise Refused(f"a queue has no {word!r}", remedy="it has " + ", ".join(FIELDS))
        values[field] = value
    try:
        return msgspec.convert(values, QueueDefinition, strict=False)
    except msgspec.ValidationError as error:
        raise Refused(f"the configuration of the queue {definition.name!r} is wrong: {error}") from None
