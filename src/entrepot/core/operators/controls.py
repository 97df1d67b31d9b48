"""The resources that an operator addresses by name: `control` finds them. And why a destination stands as it does."""

from __future__ import annotations

from entrepot.core.broker import BrokerCore
from entrepot.core.operators import words
from entrepot.core.operators.address_control import AddressControl
from entrepot.core.operators.broker_control import BrokerControl
from entrepot.core.operators.census import Census
from entrepot.core.operators.component_control import KINDS, ComponentControl
from entrepot.core.operators.control import Control, Work
from entrepot.core.operators.divert_control import DivertControl
from entrepot.core.operators.queue_control import QueueControl, find_queue


def control(broker: BrokerCore, census: Census, resource: str) -> Control:
    """Return the control of ``resource``. Raises InvalidDestination when there is no such resource."""
    if resource == "broker":
        return BrokerControl(broker, census)
    kind, _, name = resource.partition(".")
    if kind == "queue" and name:
        return QueueControl(broker, census, name)
    if kind == "divert" and name:
        return DivertControl(broker, census, name)
    if kind == "address" and name:
        return AddressControl(broker, census, name)
    if kind in KINDS and name:
        return ComponentControl(broker, census, kind, name)
    known = ", ".join(f"{word}.NAME" for word in ("address", "queue", "divert", *KINDS))
    raise words.no_resource(resource, f"name broker, {known}")


__all__ = ["Census", "Control", "Work", "control", "find_queue"]
