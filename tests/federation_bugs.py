"""Bugs of federations, planted to see that the simulation finds them. None of them is in the product.

They replace a method or a function, which native callers of the compiled build do not notice: they are planted in the
plain build. The last one was in the product until this simulation found it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from bridge_bugs import patched
from entrepot.cluster.federation import demand
from entrepot.cluster.federation.arrival import Arrivals
from entrepot.cluster.federation.connector import FederationConnector
from entrepot.cluster.federation.demand import Demand
from entrepot.cluster.federation.deployed import Deployments
from entrepot.cluster.federation.reader import RemoteReader
from entrepot.core.queue import copying


def _before_the_disk(genuine: Any) -> Any:
    def confirm(self: Arrivals, number: int, octets: int, *, durable: bool) -> None:
        genuine(self, number, octets, durable=False)

    return confirm


def _known_by_nothing(genuine: Any) -> Any:
    return lambda self, number, message, body: self.broker.entropy.token(16)


def _known_by_its_number(genuine: Any) -> Any:
    return lambda self, number, message, body: number.to_bytes(8, "big", signed=True)


def _not_counted(genuine: Any) -> Any:
    return lambda self, octets, at: octets


def _wanted_for_ever(genuine: Any) -> Any:
    def release(self: Demand, holder: Any) -> None:
        if holder[0] != "consumer":
            genuine(self, holder)

    return release


def _nothing(genuine: Any) -> Any:
    return lambda *given, **named: None


def _always(genuine: Any) -> Any:
    return lambda *given: True


def _never(genuine: Any) -> Any:
    return lambda *given: False


BUGS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "what is fetched is acknowledged before the disk has it": lambda: patched(Arrivals, "confirm", _before_the_disk),
    "what comes again is not known": lambda: patched(Arrivals, "_identity", _known_by_nothing),
    "one message is known by the number of another": lambda: patched(Arrivals, "_identity", _known_by_its_number),
    "hops are not counted": lambda: patched(Arrivals, "_counted", _not_counted),
    "who has left is fetched for": lambda: patched(Demand, "_release", _wanted_for_ever),
    "what is gone is fetched for after a pause no more": lambda: patched(RemoteReader, "retry", _nothing),
    "addresses are wanted for who may not have it": lambda: patched(demand, "can_pass_on", _always),
    "what was deployed stays when its connection is gone": lambda: patched(Deployments, "forget", _nothing),
    "upstreams of a file that says otherwise go on": lambda: patched(FederationConnector, "leave", _nothing),
    "a third broker gets what the disk does not have": lambda: patched(copying, "is_to_land", _never),
}


def planted(bug: str) -> AbstractContextManager[None]:
    """Plant ``bug`` for the length of a with statement."""
    return BUGS[bug]()
