"""What is wanted of another broker: by whom, and which names never are."""

from __future__ import annotations

from entrepot.cluster.carrying.demand import ReaderDemand
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.model import address as names
from kit import Rig


class Watched:
    def __init__(self, only: tuple[str, ...] = (), never: tuple[str, ...] = ()) -> None:
        self.rig = Rig()
        self.changes = 0
        self.demand = ReaderDemand(only, never, self._changed)

    def _changed(self) -> None:
        self.changes += 1

    def begin(self) -> None:
        self.demand.begin(self.rig.broker)

    def wanted(self) -> list[str]:
        return list(self.demand.wanted)


def test_readers_of_before_and_of_later_count_until_the_last_one_leaves() -> None:
    one = Watched()
    first = one.rig.reader("queue://Q")
    one.begin()
    assert one.wanted() == ["queue://Q"]
    second = one.rig.reader("queue://Q")
    first.close()
    assert one.wanted() == ["queue://Q"]
    second.close()
    assert one.wanted() == []
    assert one.changes == 2


def test_a_queue_behind_an_address_is_wanted_by_its_own_name() -> None:
    one = Watched()
    one.begin()
    one.rig.reader("A::x", routing=names.ANYCAST)
    (wanted,) = one.demand.wanted.values()
    assert (wanted.name, wanted.is_topic, wanted.place.name, wanted.place.queue) == ("x", False, "A", "x")


def test_a_topic_is_wanted_by_who_keeps_what_is_sent_there() -> None:
    one = Watched()
    one.begin()
    one.rig.reader("topic://T")
    assert one.wanted() == [], "a reader that keeps nothing"
    definition = QueueDefinition(name="sub", address="T", routing=names.MULTICAST)
    one.rig.broker.queues.create(definition)
    one.rig.reader("T::sub", routing=names.MULTICAST)
    (wanted,) = one.demand.wanted.values()
    assert (wanted.name, wanted.is_topic) == ("T", True)


def test_browsers_and_names_of_the_broker_itself_are_no_demand() -> None:
    one = Watched()
    one.begin()
    one.rig.broker.queues.create(QueueDefinition(name="$sys.x", address="$sys.x"))
    one.rig.reader("queue://$sys.x")
    assert one.wanted() == []


def test_only_and_never() -> None:
    one = Watched(only=("A.>", "Q"), never=("A.back",))
    one.begin()
    for name in ("A.x", "A.back", "Q", "B"):
        one.rig.reader(f"queue://{name}")
    assert one.wanted() == ["queue://A.x", "queue://Q"]


def test_after_the_end_nothing_is_heard() -> None:
    one = Watched()
    one.begin()
    one.demand.end(one.rig.broker)
    one.rig.reader("queue://Q")
    assert one.wanted() == []
