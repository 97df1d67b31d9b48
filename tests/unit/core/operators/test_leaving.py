"""To give all to the node behind a connector: what is asked of the drain, and what is refused."""

from __future__ import annotations

import pytest

from entrepot.base.errors import EntrepotError
from entrepot.core.operators.census import Census
from entrepot.core.operators.controls import control
from kit import Rig


class Cluster(Census):
    """One that has two connectors and a drain."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def connectors(self) -> list[dict[str, object]]:
        return [{"name": name, "params": {"host": name, "port": "61616"}} for name in ("north", "south")]

    def drain(self, verb: str, to: str) -> object:
        self.asked.append((verb, to))
        return {}


def test_all_goes_to_the_node_behind_a_connector() -> None:
    census = Cluster()
    broker = control(Rig(disk=False).broker, census, "broker")
    assert broker.call("scaleDown", ["south"]) is None
    assert broker.call("scaleDown", [None]) is None
    assert broker.call("scaleDown", []) is None
    assert census.asked == [("begin", "south:61616"), ("begin", ""), ("begin", "")]
    with pytest.raises(EntrepotError, match="there are: north, south"):
        broker.call("scaleDown", ["east"])
    with pytest.raises(EntrepotError, match="give a text"):
        broker.call("scaleDown", [5])


def test_without_a_cluster_there_is_nobody_to_give_anything_to() -> None:
    broker = control(Rig(disk=False).broker, Census(), "broker")
    with pytest.raises(EntrepotError, match="in no cluster"):
        broker.call("scaleDown", [None])
