"""Queries over lists and wildcards of queues, against brokers that are lists; and that a broken one is found out."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from entrepot.base.errors import InvalidOption, LeaseError
from entrepot.base.patterns import MIXED, matches
from entrepot.driver import shards
from entrepot.driver.offsets import Offsets
from entrepot.driver.scope import parts_of
from entrepot.pipeline import wire
from entrepot.pipeline.subscription import Subscription

from .fakes import FakeBroker, World


class Store(FakeBroker):
    """A broker of many queues, each with one lease."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.queues: dict[str, FakeBroker] = {}
        self.made = 0

    def add(self, queue: str, *messages: str) -> None:
        if queue not in self.queues:
            self.made += 1
            self.queues[queue] = FakeBroker(self.name)
            self.queues[queue].neighbours["token"] = []
            self.queues[queue].__dict__["token"] = f"{self.made}.0"
        self.queues[queue].waiting += messages

    def obey(self, command: str, headers: Mapping[str, str]) -> dict[str, str]:
        self.calls.append(command)
        if command == "BROKERS":
            return {"brokers": ""}
        if command == "QUEUES":
            return self._list(headers)
        name = headers["queue"].removeprefix("/queue/")
        if command == "ATTACH":
            self.add(name)
        if name not in self.queues:
            raise LeaseError(f"there is no queue {name!r}")
        queue = self.queues[name]
        if command != "ATTACH" and queue.epoch == 0:
            raise LeaseError(f"'g' holds no lease on {name!r}")
        return {**queue.obey(command, headers), "token": queue.__dict__["token"]}

    def _list(self, headers: Mapping[str, str]) -> dict[str, str]:
        wanted = [one.removeprefix("/queue/") for one in headers["match"].split(",")]
        found = [name for name in self.queues if any(matches(one, name, MIXED) for one in wanted)]
        tokens = {name: queue.__dict__["token"] for name, queue in self.queues.items()}
        gone = [token for token in headers["known"].split(",") if token and token not in tokens.values()]
        listed = ",".join(f"{tokens[name]}={name}" for name in found[: int(headers["max"])])
        return {"queues": listed, "count": str(len(found)), "gone": ",".join(gone)}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(Store("A"), Store("B"))
    monkeypatch.setattr(wire, "Wire", made.wire)
    monkeypatch.setattr(shards, "LOOK_EVERY", 0.0)
    return made


def stores(world: World) -> tuple[Store, Store]:
    a, b = world.brokers
    assert isinstance(a, Store)
    assert isinstance(b, Store)
    return a, b


def read(world: World, query: Subscription, start: Offsets, end: Offsets) -> list[str]:
    by_name = {store.name: store for store in stores(world)}
    return [
        message
        for piece in query.plan(start, end, 3, 1)
        for message in by_name[piece.broker]
        .queues[piece.destination.removeprefix("/queue/")]
        .read(piece.epoch, piece.low, piece.high)
    ]


def shown(offsets: Offsets) -> dict[str, int]:
    return {"".join(parts_of(key)[::2]): position for key, position in offsets.shards.items()}


def test_a_list_and_a_wildcard_over_two_brokers_are_one_stream(world: World) -> None:
    a, b = stores(world)
    a.add("orders.eu", "e1", "e2")
    b.add("orders.eu", "f1")
    b.add("orders.us", "u1")
    a.add("bills", "b1")
    a.add("other", "never")
    query = Subscription(world.options(queue="bills, orders.>"))
    end = query.latest(query.initial(), 100)
    assert shown(end) == {
        "A/queue/bills": 1, "A/queue/orders.eu": 2, "B/queue/bills": 0, "B/queue/orders.eu": 1, "B/queue/orders.us": 1,
    }  # fmt: skip
    assert sorted(read(world, query, query.initial(), end)) == ["b1", "e1", "e2", "f1", "u1"]
    assert a.queues["other"].waiting == ["never"]


def test_a_queue_that_is_new_is_read_from_its_beginning(world: World) -> None:
    a, b = stores(world)
    query = Subscription(world.options(queue="orders.>", startingPosition="latest"))
    first = query.latest(query.initial(), 100)
    assert first.shards == {}
    b.add("orders.eu", "x", "y")
    second = query.latest(first, 100)
    assert read(world, query, first, second) == ["x", "y"]
    assert query.latest(second, 100) == second
    assert b.queues["orders.eu"].base == 2
    assert a.queues == {}


def test_a_restart_repeats_the_batch_with_the_same_messages(world: World) -> None:
    a, b = stores(world)
    a.add("q.1", "a", "b", "c")
    b.add("q.2", "d", "e")
    query = Subscription(world.options(queue="q.*"))
    start = query.initial()
    end = query.latest(start, 3)
    before = read(world, query, start, end)
    a.add("q.3", "new")
    again = Subscription(world.options(queue="q.*"))
    kept = again.parse(end.as_json())
    assert read(world, again, again.initial(), kept) == before
    rest = again.latest(kept, 100)
    assert sorted(before + read(world, again, kept, rest)) == ["a", "b", "c", "d", "e", "new"]


def test_a_queue_that_is_deleted_leaves_the_others_running(world: World) -> None:
    a, _ = stores(world)
    a.add("q.1", "a")
    a.add("q.2", "b")
    query = Subscription(world.options(queue="q.*"))
    first = query.latest(query.initial(), 100)
    del a.queues["q.1"]
    a.add("q.2", "c")
    second = query.latest(first, 100)
    assert shown(second) == {"A/queue/q.2": 2}
    assert read(world, query, first, second) == ["c"]


@pytest.mark.parametrize("restarted", [False, True])
def test_one_that_is_made_again_is_another_queue(world: World, restarted: bool) -> None:
    a, _ = stores(world)
    a.add("q.1", "a", "b")
    query = Subscription(world.options(queue="q.*"))
    first = query.latest(query.initial(), 100)
    del a.queues["q.1"]
    a.add("q.1", "c")
    if restarted:
        query = Subscription(world.options(queue="q.*"))
        first = query.parse(first.as_json())
        assert read(world, query, query.initial(), first) == []  # logged, and gone: nobody can read it any more
    second = query.latest(first, 100)
    assert read(world, query, first, second) == ["c"]
    assert len(second.shards) == 1


def test_available_now_ends_though_a_queue_is_deleted(world: World) -> None:
    a, _ = stores(world)
    a.add("q.1", "a", "b")
    a.add("q.2", "c")
    query = Subscription(world.options(queue="q.*"))
    query.prepare_available_now()
    del a.queues["q.1"]
    a.add("q.3", "late")
    end = query.latest(query.initial(), 100)
    assert read(world, query, query.initial(), end) == ["c"]
    assert query.latest(end, 100) == end


def test_too_many_are_an_error_that_says_which_option(world: World) -> None:
    a, b = stores(world)
    a.add("q.1")
    b.add("q.2")
    query = Subscription(world.options(queue="q.*", maxQueues="2"))
    first = query.latest(query.initial(), 100)
    b.add("q.3")
    with pytest.raises(InvalidOption, match="are 3 queues, and maxQueues is 2"):
        query.latest(first, 100)


def test_a_query_that_was_replaced_is_told_so(world: World) -> None:
    a, _ = stores(world)
    a.add("q.1", "a")
    old = Subscription(world.options(queue="q.*"))
    end = old.latest(old.initial(), 100)
    Subscription(world.options(queue="q.*")).latest(end, 100)
    with pytest.raises(LeaseError, match="in use by a newer query"):
        old.latest(end, 100)


def test_a_claim_for_a_batch_names_queue_and_broker(world: World) -> None:
    a, _ = stores(world)
    a.add("q.1", "a")
    a.add("q.2", "b", "c")
    begin, end = Subscription(world.options(queue="q.*")).held(None)
    assert begin.keys() == end.keys()
    assert sum(end.values()) == 3
