"""The resource ``divert.X``, and how diverts are made and removed while a broker runs.

A divert that an operator made stays until he removes it or the broker stops; the configuration makes others last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from entrepot.base.errors import InvalidDestination, Refused
from entrepot.core.addressing.diversion import divert
from entrepot.core.addressing.routing import Divert
from entrepot.core.broker import BrokerCore, selector_or_none
from entrepot.core.operators.census import Census
from entrepot.core.operators.control import Control
from entrepot.core.operators.listing import Arguments
from entrepot.model.address import ANYCAST, MULTICAST, UNTYPED, Destination

KINDS: Final = {"STRIP": UNTYPED, "PASS": UNTYPED, "ANYCAST": ANYCAST, "MULTICAST": MULTICAST}
FIELDS: Final = [
    "name", "routing-name", "address", "forwarding-address", "exclusive", "filter-string", "transformer-class-name",
]  # fmt: skip
FORMS: Final[dict[int, list[str]]] = {7: FIELDS, 8: [*FIELDS, "routing-type"]}
"""Number of arguments of `createDivert` -> what they are."""


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
            "transformerClassName": lambda: None,
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
    """Make a divert: (configuration as JSON), or one of `FORMS`. Raises Refused for what is not obeyed."""
    form = FORMS.get(len(given))
    said = given.fields(0) if form is None else dict(zip(form, given.values, strict=True))
    name, address, forward = (str(said.get(word) or "") for word in ("name", "address", "forwarding-address"))
    if not (name and address and forward):
        raise Refused("a divert has a name, an address and a forwarding-address", remedy="give all three")
    if said.get("transformer-class-name") or said.get("transformer-configuration"):
        raise Refused("a divert cannot have a transformer: a Java class cannot be loaded here", remedy="leave it out")
    kind = str(said.get("routing-type") or "STRIP").upper()
    if kind not in KINDS:
        raise Refused(f"there is no routing type {kind!r} of diverts", remedy="use STRIP, PASS, ANYCAST or MULTICAST")
    if any(one.name == name for diverts in broker.table.diverts.values() for one in diverts):
        raise InvalidDestination(f"there is a divert {name!r} already", remedy="destroy it first")
    condition = selector_or_none(str(said.get("filter-string") or ""))
    places = [Destination(each.strip(), KINDS[kind]) for each in forward.split(",")]
    exclusive = said.get("exclusive") is True
    broker.table.add_divert(divert(name, address, places, exclusive, condition, passes=kind == "PASS"))


def destroy_divert(broker: BrokerCore, given: Arguments) -> None:
    """Remove the divert that the first argument names. Raises InvalidDestination when there is none."""
    broker.table.remove_divert(divert_named(broker, given.text(0)).name)


def _filter_of(one: Divert) -> str | None:
    condition = one.forwards[0].condition if one.forwards else None
    return None if condition is None else condition.text


def _routing_of(one: Divert) -> str:
    if any(forward.passing for forward in one.forwards):
        return "PASS"
    routing = one.forwards[0].target.routing if one.forwards else UNTYPED
    return {ANYCAST: "ANYCAST", MULTICAST: "MULTICAST"}.get(routing, "STRIP")
