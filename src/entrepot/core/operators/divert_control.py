"""The resource ``divert.X``, and how diverts are made and removed while a broker runs.

A divert that an operator made stays until he removes it, restarts included.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from entrepot.base.errors import InvalidDestination, Refused
from entrepot.core.addressing.diversion import divert
from entrepot.core.addressing.routing import Divert
from entrepot.core.broker import BrokerCore, selector_or_none
from entrepot.core.operators.census import Census
from entrepot.core.operators.control import Control
from entrepot.core.operators.listing import Arguments
from entrepot.model.address import ANYCAST, MULTICAST, UNTYPED, Destination
from entrepot.model.headers import ADD_HEADERS, Headers, headers_of

KINDS: Final = {"STRIP": UNTYPED, "PASS": UNTYPED, "ANYCAST": ANYCAST, "MULTICAST": MULTICAST}
FIELDS: Final = [
    "name", "routing-name", "address", "forwarding-address", "exclusive", "filter-string", "transformer-class-name",
]  # fmt: skip
FORMS: Final[dict[int, list[str]]] = {7: FIELDS, 8: [*FIELDS, "routing-type"]}
"""Number of arguments of `createDivert` -> what they are."""


CHANGES: Final = [
    "name", "forwarding-address", "filter-string", "transformer-class-name", "transformer-configuration",
    "routing-type",
]  # fmt: skip
"""What the arguments of `updateDivert` are."""


class DivertControl(Control):
    """One divert."""

    def __init__(self, broker: BrokerCore, census: Census, name: str) -> None:
        super().__init__(broker, census)
        self.divert: Final = divert_named(broker, name)
        self.kind = f"the divert {name!r}"

    def attributes(self) -> Mapping[str, Callable[[], object]]:
        """Return what can be asked for."""
        one = self.divert
        return {
            "uniqueName": lambda: one.name,
            "routingName": lambda: one.name,
            "address": lambda: one.address,
            "forwardingAddress": lambda: ",".join(forward.target.name for forward in one.forwards),
            "exclusive": lambda: one.exclusive,
            "filter": lambda: _filter_of(one),
            "transformerClassName": lambda: ADD_HEADERS if one.headers else None,
            "transformerProperties": lambda: dict(one.headers),
            "transformerPropertiesAsJSON": lambda: json.dumps(dict(one.headers)),
            "retroactiveResource": lambda: False,
            "routingType": lambda: _routing_of(one),
        }

    def operations(self) -> Mapping[str, Callable[[Arguments], object]]:
        """Nothing is done to a divert."""
        return {}


def divert_named(broker: BrokerCore, name: str) -> Divert:
    """Return the divert ``name``. Raises InvalidDestination when there is none."""
    for diverts in broker.table.diverts.values():
        for one in diverts:
            if one.name == name:
                return one
    raise InvalidDestination(f"AMQ229012: No binding for divert {name}", remedy="ask the broker for divertNames")


def create_divert(broker: BrokerCore, given: Arguments) -> None:
    """Make a divert: (configuration as JSON), or one of `FORMS`. Raises as `new_divert`."""
    broker.queues.follow(new_divert(broker, given))


def new_divert(broker: BrokerCore, given: Arguments) -> Divert:
    """Return what `create_divert` makes. Raises InvalidDestination, InvalidSelector, and Refused: it is not obeyed."""
    form = FORMS.get(len(given))
    said = given.fields(0) if form is None else dict(zip(form, given.values, strict=True))
    name, address, forward = (str(said.get(word) or "") for word in ("name", "address", "forwarding-address"))
    if not (name and address and forward):
        raise Refused("a divert has a name, an address and a forwarding-address", remedy="give all three")
    if any(one.name == name for diverts in broker.table.diverts.values() for one in diverts):
        raise InvalidDestination(f"there is a divert {name!r} already", remedy="destroy it first")
    return _described(name, address, said.get("exclusive") is True, said)


def _described(name: str, address: str, exclusive: bool, said: Mapping[str, Any]) -> Divert:
    """Return the divert that ``said`` describes. Raises Refused, InvalidSelector."""
    kind = str(said.get("routing-type") or "STRIP").upper()
    if kind not in KINDS:
        raise Refused(f"there is no routing type {kind!r} of diverts", remedy="use STRIP, PASS, ANYCAST or MULTICAST")
    condition = selector_or_none(str(said.get("filter-string") or ""))
    places = [Destination(each.strip(), KINDS[kind]) for each in str(said["forwarding-address"]).split(",")]
    return divert(name, address, places, exclusive, condition, passes=kind == "PASS", headers=_headers(said))


def _headers(said: Mapping[str, Any]) -> Headers:
    """Return what a transformer sets: a class name and its properties, or, as JSON, both in one. Raises Refused."""
    inner = said.get("transformer-configuration")
    name, properties = said.get("transformer-class-name"), inner
    if isinstance(inner, Mapping) and "class-name" in inner:
        name, properties = inner["class-name"], inner.get("properties")
    if not name:
        return ()
    if not isinstance(properties, Mapping):
        properties = {}
    return headers_of(str(name), {str(key): str(value) for key, value in properties.items()})


def update_divert(broker: BrokerCore, given: Arguments) -> None:
    """Change a divert: (configuration as JSON), or (name, forwarding address, filter, transformer, its properties,
    routing type). Its address, and whether it is exclusive, stay, as in Artemis. Raises as `new_divert`.
    """
    broker.queues.follow(changed_divert(broker, given))


def divert_to_change(broker: BrokerCore, given: Arguments) -> Divert:
    """Return which divert `update_divert` is about. Raises InvalidDestination when there is none."""
    return divert_named(broker, str(_changes(given).get("name") or ""))


def _changes(given: Arguments) -> dict[str, Any]:
    return given.fields(0) if len(given) == 1 else dict(zip(CHANGES, given.values, strict=False))


def changed_divert(broker: BrokerCore, given: Arguments) -> Divert:
    """Return what `update_divert` makes of one. Raises as `new_divert`."""
    had, said = divert_to_change(broker, given), _changes(given)
    if not said.get("forwarding-address"):
        said["forwarding-address"] = ",".join(forward.target.name for forward in had.forwards)
    if said.get("filter-string") is None:
        said["filter-string"] = _filter_of(had)
    said.setdefault("routing-type", _routing_of(had))
    if not said.get("transformer-class-name") and not said.get("transformer-configuration") and had.headers:
        said["transformer-class-name"], said["transformer-configuration"] = ADD_HEADERS, dict(had.headers)
    return _described(had.name, had.address, had.exclusive, said)


def destroy_divert(broker: BrokerCore, given: Arguments) -> None:
    """Remove the divert that the first argument names. Raises InvalidDestination when there is none."""
    broker.queues.forget(divert_named(broker, given.text(0)).name)


def _filter_of(one: Divert) -> str | None:
    condition = one.forwards[0].condition if one.forwards else None
    return None if condition is None else condition.text


def _routing_of(one: Divert) -> str:
    if any(forward.passing for forward in one.forwards):
        return "PASS"
    routing = one.forwards[0].target.routing if one.forwards else UNTYPED
    return {ANYCAST: "ANYCAST", MULTICAST: "MULTICAST"}.get(routing, "STRIP")
