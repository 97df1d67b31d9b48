"""What a node learns of another one's queues, notification by notification (artemis.md 1.15)."""

from __future__ import annotations

from typing import Any

from entrepot.cluster.clusters.remotes import Registry, RemoteQueues
from entrepot.core.addressing.binding import ON_DEMAND
from kit import Rig

NODE = "d31bf3ec-e6a6-11f1-bbc2-a385427ca49b"
OTHER = "e31bf3ec-e6a6-11f1-bbc2-a385427ca49b"
OWN = "f31bf3ec-e6a6-11f1-bbc2-a385427ca49b"
BEGIN = {"_AMQ_RESET_QUEUE_DATA": True}
END = {"_AMQ_RESET_QUEUE_DATA_COMPLETE": True}


class Told(Registry):
    """Notes what is told on."""

    def __init__(self, rig: Rig) -> None:
        self.said: list[str] = []
        self.consumers = 0
        super().__init__(rig.broker, "c", ON_DEMAND, OWN, self.said.append)

    def wanted(self, binding: object, selector: str, came: bool) -> None:
        self.consumers += 1 if came else -1


def queue(far: int, distance: int = 0, name: str = "Q") -> dict[str, Any]:
    return {
        "_AMQ_NotifType": "BINDING_ADDED",
        "_AMQ_ClusterName": name + NODE,
        "_AMQ_Address": name,
        "_AMQ_RoutingName": name,
        "_AMQ_Binding_ID": far,
        "_AMQ_Distance": distance,
    }


def consumer(name: str = "Q") -> dict[str, Any]:
    return {"_AMQ_NotifType": "CONSUMER_CREATED", "_AMQ_ClusterName": name + NODE}


def heard(remotes: RemoteQueues, *each: dict[str, Any]) -> None:
    for said in each:
        remotes.take(said)


def test_a_queue_that_was_made_anew_meanwhile_is_known_under_its_new_id() -> None:
    told = Told(Rig())
    remotes = RemoteQueues(told, NODE)
    heard(remotes, BEGIN, queue(7), consumer(), END)
    remotes.disconnected()
    heard(remotes, BEGIN, queue(8), consumer(), END)
    (binding,) = remotes.bindings.values()
    assert (int(binding.far), int(binding.count), binding.connected) == (8, 1, True)


def test_a_queue_that_is_told_of_no_more_is_gone() -> None:
    told = Told(Rig())
    remotes = RemoteQueues(told, NODE)
    heard(remotes, BEGIN, queue(7), queue(9, name="R"), END)
    heard(remotes, BEGIN, queue(7), END)
    assert list(remotes.bindings) == ["Q" + NODE]


def test_consumers_are_not_counted_twice_behind_this_node() -> None:
    told = Told(Rig())
    remotes = RemoteQueues(told, NODE)
    heard(remotes, BEGIN, queue(7), consumer(), consumer(), END)
    assert told.consumers == 2
    heard(remotes, BEGIN, queue(7), consumer(), END)
    assert told.consumers == 1


def test_the_nearer_way_to_a_queue_wins() -> None:
    told = Told(Rig())
    far, near = RemoteQueues(told, OTHER), RemoteQueues(told, NODE)
    heard(far, BEGIN, queue(70, distance=1), END)
    heard(near, BEGIN, queue(7), END)
    assert (list(far.bindings), list(near.bindings)) == ([], ["Q" + NODE])
    heard(far, BEGIN, queue(70, distance=1), END)
    assert not far.bindings
    assert any("AMQ222139" in text for text in told.said)
