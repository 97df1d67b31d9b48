"""What the driver decides between batches, against brokers that are lists; and whole runs of a Spark that crashes."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.base.errors import InvalidOption, LeaseError, ProtocolViolation, Refused, Unreachable
from entrepot.base.uri import Endpoint
from entrepot.driver import shards
from entrepot.driver.offsets import Offsets
from entrepot.pipeline import wire
from entrepot.pipeline.subscription import Subscription

from .fakes import FakeBroker, World


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(FakeBroker("A"), FakeBroker("B"))
    use(made, monkeypatch)
    return made


def use(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "Wire", world.wire)
    monkeypatch.setattr(shards, "LOOK_EVERY", 0.0)


def read(world: World, query: Subscription, start: Offsets, end: Offsets) -> list[str]:
    by_name = {broker.name: broker for broker in world.brokers}
    return [
        message
        for piece in query.plan(start, end, 3, 1)
        for message in by_name[piece.broker].read(piece.epoch, piece.low, piece.high)
    ]


def test_nothing_is_asked_before_it_is_needed(world: World) -> None:
    query = Subscription(world.options())
    assert query.initial().shards == {}
    assert [broker.calls for broker in world.brokers] == [[], []]


def test_a_budget_is_shared_among_brokers_and_what_one_lacks_the_others_give(world: World) -> None:
    a, b = world.brokers
    a.waiting = [f"a{i}" for i in range(3)]
    b.waiting = [f"b{i}" for i in range(50)]
    query = Subscription(world.options())
    first = query.latest(query.initial(), 20)
    assert first.shards == {"A": 3, "B": 17}
    assert sorted(read(world, query, query.initial(), first)) == sorted([*a.ledger, *b.ledger])


def test_what_a_batch_began_behind_is_settled_and_not_more(world: World) -> None:
    a, _ = world.brokers
    a.waiting = list("abcdef")
    query = Subscription(world.options())
    first = query.latest(query.initial(), 2)
    assert a.base == 0
    second = query.latest(first, 2)
    assert a.base == 2
    assert read(world, query, first, second) == ["c", "d"]
    assert query.latest(second, 2) == query.latest(second, 2)  # asking twice gives the same


def test_everything_is_what_is_there_now(world: World) -> None:
    a, b = world.brokers
    a.waiting, b.waiting = list("abc"), list("de")
    query = Subscription(world.options(maxMessagesPerTrigger="1"))
    assert query.latest(query.initial(), None).shards == {"A": 3, "B": 2}


def test_available_now_ends_where_it_stood_when_it_began(world: World) -> None:
    a, _ = world.brokers
    a.waiting = list("abcde")
    query = Subscription(world.options())
    query.prepare_available_now()
    found: list[str] = []
    at = query.initial()
    for _ in range(20):
        a.waiting.append("late")
        end = query.latest(at, 2)
        if end == at:
            break
        found += read(world, query, at, end)
        at = end
    assert found == list("abcde")


def test_a_broker_that_is_gone_keeps_its_position_and_joins_again(world: World) -> None:
    a, b = world.brokers
    a.waiting, b.waiting = list("abc"), list("de")
    query = Subscription(world.options())
    first = query.latest(query.initial(), 2)
    b.up = False
    second = query.latest(first, 10)
    assert second.shards == {"A": 3, "B": 1}
    b.up = True
    for _ in range(100):
        third = query.latest(second, 10)
        if third != second:
            break
    assert third.shards == {"A": 3, "B": 2}
    assert b.calls.count("ATTACH") == 1


def test_a_broker_that_is_new_is_found(world: World) -> None:
    a, b = world.brokers
    b.up = False
    query = Subscription(world.options())
    a.waiting = ["a"]
    first = query.latest(query.initial(), 10)
    assert first.shards == {"A": 1}
    b.up = True
    b.waiting = ["b"]
    for _ in range(100):
        second = query.latest(first, 10)
        if "B" in second.shards and second.shards["B"] == 1:
            break
    assert read(world, query, first, second) == ["b"]


def test_whoever_took_a_brokers_place_goes_on_with_its_lease(world: World) -> None:
    a, _ = world.brokers
    a.waiting = list("abc")
    world.at = {1: a, 2: FakeBroker("none")}
    world.at[2].up = False
    query = Subscription(world.options())
    first = query.latest(query.initial(), 1)
    a.up = False
    taken_over = FakeBroker("A")
    taken_over.__dict__.update(a.__dict__, up=True)
    world.at[2] = taken_over
    with pytest.raises(Unreachable):
        query.latest(first, 1)
    for _ in range(100):
        try:
            second = query.latest(first, 1)
            break
        except Unreachable:
            continue
    assert second.shards == {"A": 2}
    assert taken_over.read(1, 1, 2) == ["b"]


def found_everywhere(world: World, query: Subscription, at: Offsets, count: int) -> tuple[list[str], Offsets]:
    """Read batches until ``count`` messages came; a scout needs a moment."""
    found: list[str] = []
    for _ in range(10_000):
        end = query.latest(at, 5)
        found += read(world, query, at, end)
        at = end
        if len(found) >= count:
            break
    return sorted(found), at


def test_brokers_of_the_network_are_read_that_the_url_does_not_name(world: World) -> None:
    a, b = world.brokers
    c, d = FakeBroker("C"), FakeBroker("D")
    world.join(3, c, a)
    world.join(4, d, c)  # known to one that is not named either
    for broker in (a, b, c, d):
        broker.waiting = [broker.name]
    query = Subscription(world.options())
    assert found_everywhere(world, query, query.initial(), 4)[0] == list("ABCD")
    assert sorted(query.epochs) == list("ABCD")  # all of them with the first batch: AvailableNow has no second
    only = Subscription(world.options(subscription="other", discover="false"))
    only.latest(only.initial(), 5)
    assert sorted(only.epochs) == ["A", "B"]


def test_a_broker_that_joins_is_found_and_a_new_driver_finds_it_again(world: World) -> None:
    a, b = world.brokers
    query = Subscription(world.options())
    a.waiting = ["a"]
    _, at = found_everywhere(world, query, query.initial(), 1)
    c = FakeBroker("C")
    c.waiting = ["c1", "c2", "c3"]
    world.join(3, c, b)
    found, end = found_everywhere(world, query, at, 3)
    assert found == ["c1", "c2", "c3"]
    again = Subscription(world.options())  # it died before its commit: the batch is planned before anything is claimed
    assert sorted(read(world, again, at, end)) == found


def test_a_broker_of_the_network_that_may_not_be_read_is_passed_over_and_one_that_is_named_is_not(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    a, _ = world.brokers
    c = FakeBroker("C")
    c.refusal = Refused("you may not")
    world.join(3, c, a)
    a.waiting = ["a"]
    query = Subscription(world.options())
    at = query.latest(query.initial(), 5)
    for _ in range(50):
        query.latest(at, 5)
    assert sorted(query.epochs) == ["A", "B"]
    assert [record.args for record in caplog.records] == [("C", c.refusal)]  # said once
    a.refusal = Refused("nor here")
    with pytest.raises(Refused):
        Subscription(world.options()).latest(query.initial(), 5)


def test_another_broker_at_an_announced_place_is_not_taken_for_it(world: World) -> None:
    a = world.brokers[0]
    stranger = FakeBroker("stranger")
    world.join(3, stranger)
    a.neighbours["C"] = [Endpoint("stomp", "h", 3)]
    query = Subscription(world.options())
    query.latest(query.initial(), 5)
    assert sorted(query.epochs) == ["A", "B"]
    assert stranger.calls == []


def test_latest_begins_behind_what_is_there_and_skips_nothing_of_a_broker_that_joins(world: World) -> None:
    a = world.brokers[0]
    a.waiting = ["old"]
    query = Subscription(world.options(startingPosition="latest"))
    at = query.latest(query.initial(), 5)
    assert a.skipped == ["old"]
    a.waiting = ["new"]
    found, at = found_everywhere(world, query, at, 1)
    assert found == ["new"]
    c = FakeBroker("C")
    c.waiting = ["here before it joined"]
    world.join(3, c, a)
    assert found_everywhere(world, query, at, 1)[0] == ["here before it joined"]
    # a run of AvailableNow that finds yet another one
    d = FakeBroker("D")
    d.waiting = ["d"]
    world.join(4, d, a)
    later = Subscription(world.options(startingPosition="latest"))
    later.prepare_available_now()
    assert found_everywhere(world, later, at, 2)[0] == ["d", "here before it joined"]


def test_nobody_there_is_an_error_that_says_so(world: World) -> None:
    for broker in world.brokers:
        broker.up = False
    with pytest.raises(Unreachable):
        Subscription(world.options()).latest(Offsets("/queue/q#g", {}), 1)


def test_a_query_that_was_replaced_learns_it_in_plain_words(world: World) -> None:
    world.brokers[0].waiting = list("abc")
    old, new = Subscription(world.options()), Subscription(world.options())
    first = old.latest(old.initial(), 2)
    new.latest(new.initial(), 2)
    with pytest.raises(LeaseError, match="in use by a newer query"):
        old.latest(first, 2)


def test_a_checkpoint_behind_or_ahead_of_the_broker_is_refused(world: World) -> None:
    a, _ = world.brokers
    a.waiting = list("abcdef")
    query = Subscription(world.options())
    query.latest(query.latest(query.initial(), 8), 1)
    late = Subscription(world.options())
    with pytest.raises(LeaseError, match="is settled"):
        late.latest(Offsets(late.initial().source, {"A": 0}), 1)
    with pytest.raises(LeaseError, match="has given out only"):
        late.latest(Offsets(late.initial().source, {"A": 99}), 1)
    with pytest.raises(InvalidOption, match="the checkpoint is of"):
        late.parse(Offsets("/queue/other#g", {}).as_json())


class Spark:
    """Micro-batches with an offset log, a commit log and an idempotent sink; dies where it is told to."""

    def __init__(self, world: World, *, on_receipt: bool = False) -> None:
        self.world = world
        self.on_receipt = on_receipt
        self.offsets: list[Offsets] = []
        self.commits = 0
        self.sink: dict[int, list[str]] = {}

    def run(self, steps: int, dies_at: int) -> None:
        """Run up to ``steps`` batches in a new process, which dies before its ``dies_at``-th action."""
        actions = 0

        def act() -> None:
            nonlocal actions
            actions += 1
            if actions == dies_at:
                raise KeyboardInterrupt

        query = Subscription(self.world.options())
        try:
            for _ in range(steps):
                start = self.offsets[self.commits - 1] if self.commits else query.initial()
                if len(self.offsets) == self.commits:
                    act()
                    end = query.latest(start, 5)
                    act()
                    if end == start:
                        continue
                    self.offsets.append(end)
                act()
                end = self.offsets[self.commits]
                rows = read(self.world, query, start, end)
                if self.on_receipt:  # what others do: settle when it was read
                    query.settle(end.shards)
                act()
                self.sink[self.commits] = rows
                act()
                self.commits += 1
        except KeyboardInterrupt:
            return


def soak(seed: int, world: World, *, on_receipt: bool = False) -> tuple[list[str], list[str]]:
    """Run Spark with crashes and a competitor; return what was produced and what came out anywhere."""
    lots = random.Random(seed)
    spark = Spark(world, on_receipt=on_receipt)
    produced: list[str] = []
    stolen: list[str] = []
    for round_ in range(12):
        for broker in world.brokers:
            for _ in range(lots.randrange(8)):
                produced.append(f"{broker.name}{len(produced)}")
                broker.waiting.append(produced[-1])
            if lots.random() < 0.3:  # an ordinary consumer of the same queue
                taken = lots.randrange(len(broker.waiting) + 1)
                stolen += broker.waiting[:taken]
                del broker.waiting[:taken]
        spark.run(lots.randrange(1, 5), lots.randrange(1, 14) if round_ < 11 else -1)
    spark.run(40, -1)
    return sorted(produced), sorted([*stolen, *(row for rows in spark.sink.values() for row in rows)])


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 1 << 32))
def test_everything_comes_out_once_wherever_the_driver_dies(seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        world = World(FakeBroker("A"), FakeBroker("B"), FakeBroker("C"))
        use(world, patch)
        produced, found = soak(seed, world)
    assert found == produced


def test_settling_on_receipt_is_found_out() -> None:
    lost = 0
    for seed in range(20):
        with pytest.MonkeyPatch.context() as patch:
            world = World(FakeBroker("A"), FakeBroker("B"))
            use(world, patch)
            try:
                produced, found = soak(seed, world, on_receipt=True)
            except LeaseError:  # the replay asks for what is gone: an error, never an empty answer
                lost += 1
            else:
                lost += found != produced
    assert lost > 5


def test_a_first_batch_that_is_run_again_when_it_is_settled_is_an_error_not_an_empty_batch(world: World) -> None:
    world.brokers[0].waiting = list("abc")
    query = Subscription(world.options())
    first = query.latest(query.initial(), 5)
    query.latest(first, 5)
    again = Subscription(world.options())
    with pytest.raises(LeaseError, match="is settled"):
        again.plan(again.initial(), first, 1, 1)


def test_a_subscription_that_others_used_before_begins_where_they_stopped(world: World) -> None:
    world.brokers[0].waiting = list("abc")
    old = Subscription(world.options())
    old.latest(old.latest(old.initial(), 5), 5)
    world.brokers[0].waiting = ["d"]
    new = Subscription(world.options())
    end = new.latest(new.initial(), 5)
    assert end.first == {"A": 3, "B": 0}
    assert read(world, new, new.initial(), end) == ["d"]


def test_a_batch_ends_with_the_message_that_reaches_its_octets(world: World) -> None:
    a, b = world.brokers
    b.up = False
    a.waiting = ["x" * 40, "y" * 40, "z" * 300, "w" * 10]
    query = Subscription(world.options(maxOctetsPerTrigger="80"))
    at = query.initial()
    found = []
    for _ in range(3):
        low = at.shards.get("A", 0)
        at = query.latest(at, 1000)
        found.append("".join(body[0] for body in a.ledger[low : at.shards["A"]]))
    assert found == ["xy", "z", "w"]


def test_all_brokers_share_the_octets_of_a_batch(world: World) -> None:
    a, b = world.brokers
    a.waiting = ["a" * 10] * 50
    b.waiting = ["b" * 10] * 50
    query = Subscription(world.options(maxOctetsPerTrigger="200"))
    at = query.latest(query.initial(), 1000)
    assert at.shards == {"A": 10, "B": 10}
    b.waiting = b.waiting[:2]
    at = query.latest(at, 1000)
    assert at.shards == {"A": 28, "B": 12}, "what one has no use for is offered to the others"
    assert len(query.latest(at, 5).shards) == 2


def test_what_a_claim_that_waited_has_brought_counts(world: World) -> None:
    a, b = world.brokers
    b.up = False
    query = Subscription(world.options(maxOctetsPerTrigger="50", pollWait="1000"))
    begun = query.latest(query.initial(), 1000)
    a.waiting = ["a" * 10] * 50
    at = query.latest(begun, 1000)
    assert at.shards["A"] == 5
    assert query.latest(at, 1000).shards["A"] == 10


def test_a_broker_that_does_not_count_octets_is_not_taken_for_one_that_does(world: World) -> None:
    for broker in world.brokers:
        broker.counts = False
        broker.waiting = ["a"]
    with pytest.raises(ProtocolViolation, match="octets"):
        Subscription(world.options(maxOctetsPerTrigger="50")).latest(Offsets("/queue/q#g", {}), 10)
    assert Subscription(world.options()).latest(Offsets("/queue/q#g", {}), 10).shards == {"A": 1, "B": 1}


def test_what_a_run_claimed_that_failed_is_the_next_batch_and_nothing_is_added(world: World) -> None:
    a, b = world.brokers
    b.up = False
    a.waiting = ["a" * 10] * 50
    for _ in range(4):
        query = Subscription(world.options(maxOctetsPerTrigger="50"))
        at = query.latest(query.initial(), 1000)
        assert at.shards["A"] == 5
    assert query.latest(at, 1000).shards["A"] == 10
