"""The queue of another node that stands for one of ours: found there, or made with what was said of ours."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from entrepot.cluster.clusters.asking import Asking
from entrepot.core.addressing.configuration import FIELDS
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.model.address import ROUTING_NAMES

Found = Callable[[int, str], None]


def find_queue(asking: Asking, definition: QueueDefinition, found: Found) -> None:
    """Ask which number the other node has for the queue; have it made first where there is none.

    ``found`` is told that number, or why there is none.
    """
    name = definition.name

    def answered(succeeded: bool, value: object) -> None:
        if succeeded and isinstance(value, int):
            found(value, "")
            return
        told = msgspec.json.encode(configuration_of(definition)).decode()
        asking.operation("broker", "createQueue", [told, True], made)

    def made(succeeded: bool, value: object) -> None:
        if not succeeded:
            found(0, f"the target does not make it: {value}")
            return
        asking.attribute(f"queue.{name}", "ID", known)

    def known(succeeded: bool, value: object) -> None:
        if succeeded and isinstance(value, int):
            found(value, "")
        else:
            found(0, f"the target does not say which queue it is: {value}")

    asking.attribute(f"queue.{name}", "ID", answered)


def configuration_of(definition: QueueDefinition) -> dict[str, object]:
    """Return how the target is told to make a queue: the words of Artemis' QueueConfiguration, those that were said."""
    said: dict[str, object] = {
        "name": definition.name,
        "address": definition.address,
        "routing-type": ROUTING_NAMES[definition.routing],
        "durable": definition.durable,
        "auto-create-address": True,
    }
    if definition.selector:
        said["filter-string"] = definition.selector
    default = QueueDefinition(name="", address="")
    for word, field in FIELDS.items():
        value = getattr(definition, field)
        if word not in said and word != "internal" and value != getattr(default, field):
            said[word] = value
    return said
