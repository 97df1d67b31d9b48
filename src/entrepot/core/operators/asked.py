"""What `createQueue` and `updateQueue` ask for: Artemis' many forms of arguments, as one configuration by its words."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from entrepot.base.errors import Refused
from entrepot.core.addressing.configuration import FIELDS, configured
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.operators.listing import Arguments
from entrepot.model.address import ROUTING_NAMES

CREATES: Final = [
    "address",
    "routing-type",
    "name",
    "filter-string",
    "durable",
    "max-consumers",
    "purge-on-no-consumers",
]
GROUPS: Final = ["exclusive", "group-rebalance", "group-buckets"]
KEEPS: Final = ["last-value", "last-value-key", "non-destructive", "consumers-before-dispatch", "delay-before-dispatch"]
DELETES: Final = ["auto-delete", "auto-delete-delay", "auto-delete-message-count"]
ADDRESS: Final = ["auto-create-address"]
FIRST_KEY: Final = ["group-first-key"]

CREATE_FORMS: Final[dict[int, list[str]]] = {
    8: CREATES + ADDRESS,
    16: CREATES + GROUPS + KEEPS + ADDRESS,
    19: CREATES + GROUPS + KEEPS + DELETES + ADDRESS,
    20: CREATES + GROUPS + FIRST_KEY + KEEPS + DELETES + ADDRESS,
    21: CREATES + GROUPS + FIRST_KEY + KEEPS + DELETES + ADDRESS + ["ring-size"],
}
"""Number of arguments -> what they are."""
UPDATES: Final = ["name", "routing-type", "filter-string", "max-consumers", "purge-on-no-consumers"]
DISPATCHES: Final = ["non-destructive", "consumers-before-dispatch", "delay-before-dispatch", "user"]
UPDATE_FORMS: Final[dict[int, list[str]]] = {
    4: ["name", "routing-type", "max-consumers", "purge-on-no-consumers"],
    5: ["name", "routing-type", "max-consumers", "purge-on-no-consumers", "exclusive"],
    6: ["name", "routing-type", "max-consumers", "purge-on-no-consumers", "exclusive", "user"],
    12: UPDATES + GROUPS + DISPATCHES,
    13: UPDATES + GROUPS + FIRST_KEY + DISPATCHES,
    14: [*UPDATES, *GROUPS, *FIRST_KEY, *DISPATCHES, "ring-size"],
}
"""As `CREATE_FORMS`, of an update."""


class Asked:
    """What is asked for. ``minds``: a queue that exists is an error. ``answer``: "json", "text" or "" for nothing."""

    def __init__(self, said: dict[str, Any], answer: str, *, minds: bool = True) -> None:
        self.said: Final = said
        self.answer: Final = answer
        self.minds: Final = minds

    @property
    def definition(self) -> QueueDefinition:
        """The queue that it describes. Raises Refused."""
        return configured(self.said)


def asked_queue(given: Arguments) -> Asked:
    """Return what a `createQueue` asks for. Raises Refused.

    (configuration as JSON [, ignore if it exists]), (address, name [, [durable,] routing type]),
    (address, routing type, name [, filter [, durable]]), or one of `CREATE_FORMS`.
    """
    first = given.text(0)
    if first.lstrip().startswith("{"):
        return Asked(given.fields(0), "json", minds=not given.flag(1, False))
    form = CREATE_FORMS.get(len(given))
    if form is not None:
        return Asked(dict(zip(form, given.values, strict=True)), "text")
    if given.text(1).upper() in ROUTING_NAMES[:2] and len(given) > 2:
        said = {"routing-type": given.text(1), "name": given.text(2), "filter-string": given.text(3, "")}
        return Asked({"address": first, **said, "durable": given.flag(4, True)}, "")
    at = 3 if given.is_flag(2) else 2
    routing, durable = given.text(at, "MULTICAST"), given.flag(2, True) if at == 3 else True
    return Asked({"address": first, "name": given.text(1), "routing-type": routing, "durable": durable}, "")


def changed(had: QueueDefinition, wanted: Asked) -> QueueDefinition:
    """Return ``had`` with what is said now. Raises Refused: its address and routing type are for good."""
    said = {"name": had.name, "address": had.address, "routing-type": ROUTING_NAMES[had.routing]} | wanted.said
    asked = configured(said)
    if (asked.address, asked.routing) != (had.address, had.routing):
        raise Refused(
            f"the queue {had.name!r} is an {ROUTING_NAMES[had.routing]} queue of {had.address!r}, and stays so",
            remedy="make another queue",
        )
    fields = {FIELDS[word]: getattr(asked, FIELDS[word]) for word in said if word in FIELDS}
    if "filter-string" in said:
        fields["selector"] = asked.selector
    return replace(had, **fields)


def asked_change(given: Arguments) -> Asked:
    """Return what an `updateQueue` asks for: (configuration as JSON), or one of `UPDATE_FORMS`. Raises Refused."""
    form = UPDATE_FORMS.get(len(given))
    if form is None:
        return Asked(given.fields(0), "json")
    return Asked({word: value for word, value in zip(form, given.values, strict=True) if value is not None}, "text")
