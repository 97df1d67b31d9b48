"""The resources ``acceptor.X``, ``bridge.X``, ``clusterconnection.X`` and others: what is around a core.

The node knows them and says what they are like (`Census.component`); names of attributes are those of Artemis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from entrepot.core.broker import BrokerCore
from entrepot.core.operators import words
from entrepot.core.operators.census import Census, Component
from entrepot.core.operators.control import Control
from entrepot.core.operators.listing import Arguments

KINDS: Final[Mapping[str, str]] = {
    "acceptor": "acceptor",
    "bridge": "bridge",
    "brokerconnection": "broker connection",
    "clusterconnection": "cluster connection",
    "broadcastgroup": "broadcast group",
    "connectionrouter": "connection router",
}
"""Kind of resource -> what it is called."""


class ComponentControl(Control):
    """One of them."""

    def __init__(self, broker: BrokerCore, census: Census, kind: str, name: str) -> None:
        """Raises InvalidDestination when there is none of that name."""
        super().__init__(broker, census)
        self.kind = f"the {KINDS[kind]} {name!r}"
        found = census.component(kind, name)
        if found is None:
            known = ", ".join(census.components(kind)) or "none"
            raise words.no_resource(f"{kind}.{name}", f"there are: {known}")
        self.component: Final[Component] = found

    def attributes(self) -> Mapping[str, Callable[[], object]]:
        """Return what can be asked for."""
        return self.component.attributes

    def operations(self) -> Mapping[str, Callable[[Arguments], object]]:
        """Return what can be done to it."""
        switch = self.component.switch
        known = dict(self.component.operations)
        if switch is not None:
            known |= {"start": lambda given: _silent(switch(True)), "stop": lambda given: _silent(switch(False))}
        return known


def _silent(result: object) -> None:
    """Artemis answers nothing to these."""
