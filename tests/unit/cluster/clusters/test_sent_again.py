"""`replay` of what moved between nodes: it was in several journals, and is sent again once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from clustered import Node, joined
from entrepot.core.operators.census import Census, Question
from entrepot.core.operators.controls import control
from entrepot.core.operators.replaying import Replay
from entrepot.core.sending.sending import moved
from entrepot.journal.keeping import is_written
from entrepot.journal.retained import Archive, Extent
from entrepot.model import address as names

COUNT = 20
MOVING = {"#": {"redistribution_delay": "0ms"}}


class Octets:
    def __init__(self, read: Callable[[], bytes]) -> None:
        self.done = lambda: True
        self.octets = read


class Files(Archive):
    """What the disk of ``node`` has."""

    def __init__(self, node: Node) -> None:
        assert node.rig.disk is not None
        self.disk = node.rig.disk

    def extents(self) -> list[Extent]:
        return [Extent(name, 0) for name in self.disk.names() if is_written(name)]

    def fetch(self, name: str, offset: int, length: int) -> Octets:
        return Octets(lambda: self.disk.read(name, offset, length))


class Processes:
    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes

    def uuids(self) -> list[bytes]:
        return [one.rig.broker.ids.node.uuid for one in self.nodes]

    def ask(self, asker: str, question: Question) -> None:
        """This one is asked alone."""


class Kept(Census):
    """``together``: the nodes that are processes of one broker."""

    def __init__(self, node: Node, together: list[Node]) -> None:
        self.archive = Files(node)
        self.together = Processes(together)


def replayed(node: Node, together: list[Node], address: str = "Q") -> int:
    """Send again what was sent to ``address``; return how much that was."""
    work = control(node.rig.broker, Kept(node, together), "broker").call("replay", [address, f"again.{address}", None])
    assert isinstance(work, Replay)
    while not work.step():
        node.rig.turn()
    return work.sent


@pytest.mark.parametrize("before", [False, True])
def test_processes_send_again_once_what_moved_between_them(before: bool) -> None:
    world, (a, b) = joined(2, policies=MOVING)
    reader = b.rig.reader("Q") if before else None
    world.wait(50)
    a.send("queue://Q", range(COUNT))
    reader = b.rig.reader("Q") if reader is None else reader
    world.wait(200)
    assert sorted(int(one) for one in reader.ack()) == list(range(COUNT))
    assert [replayed(node, [a, b]) for node in (a, b)] == [COUNT, 0]


def test_what_comes_back_is_sent_again_where_it_came_first() -> None:
    world, (a, b) = joined(2, policies=MOVING)
    there = b.rig.reader("Q", prefetch=0)
    world.wait(50)
    a.send("queue://Q", range(COUNT))
    world.wait(100)
    there.close()
    here = a.rig.reader("Q")
    world.wait(200)
    assert len(here.ack()) == COUNT
    assert [replayed(node, [a, b]) for node in (a, b)] == [COUNT, 0]


def test_what_came_from_a_node_that_is_no_process_of_this_broker_is_sent_again_here() -> None:
    world, (a, b) = joined(2, policies=MOVING)
    a.send("queue://Q", range(COUNT))
    reader = b.rig.reader("Q")
    world.wait(200)
    assert len(reader.ack()) == COUNT
    assert [replayed(node, []) for node in (a, b)] == [COUNT, COUNT]
    assert [replayed(node, [node]) for node in (a, b)] == [COUNT, COUNT]


def test_a_letter_of_what_moved_is_there_under_its_own_address() -> None:
    _, (a, b) = joined(2)
    broker = a.rig.broker
    message = a.message("Q", "m")
    a.act(lambda: broker.send(message, broker.target(names.parse("queue://Q"))))
    copy = moved(broker.ids, message, True)
    copy.address = "DLQ"
    a.act(lambda: broker.send(copy, broker.target(names.parse("queue://DLQ"))))
    assert [replayed(a, [a, b], address) for address in ("Q", "DLQ")] == [1, 1]
