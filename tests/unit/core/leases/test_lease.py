"""Leases: claimed ranges that can be read again, settled once, and survive everything (docs/leases.md)."""

from __future__ import annotations

import random

import pytest

from entrepot.base.compiled import is_compiled
from entrepot.base.errors import LeaseError, StorageError, StorageFull
from entrepot.core.broker import selector_or_none
from entrepot.core.leases.lease import Lease
from entrepot.core.leases.leases import Leases
from entrepot.core.ports import ClaimWaiter
from entrepot.core.queue import walk
from entrepot.core.queue.taking import Taking
from entrepot.model.address import parse_one
from kit import Rig, body_of
from staging import publish, write

TINY = {"#": {"max_octets": "2000"}}


def numbers(count: int, start: int = 0) -> list[str]:
    return [str(number) for number in range(start, start + count)]


class Waiter(ClaimWaiter):
    """Remembers what a claim that waited was told."""

    def __init__(self) -> None:
        self.ends: list[int] = []

    def claimed(self, end: int) -> None:
        self.ends.append(int(end))


def lease_of(rig: Rig, group: str = "g") -> Lease:
    return rig.broker.leases.need(parse_one("Q"), group, create=True)


def read(rig: Rig, lease: Lease, low: int, high: int) -> list[str]:
    return [body_of(message) for message in lease.read(rig.journal, lease.epoch, low, high)]


@pytest.fixture(params=["disk", "tiny", "ephemeral"])
def rig(request):
    return {"disk": lambda: Rig(), "tiny": lambda: Rig(TINY), "ephemeral": lambda: Rig(TINY, disk=False)}[
        request.param
    ]()


@pytest.mark.parametrize("durable", [True, False])
def test_a_range_is_read_as_often_as_one_likes_and_settled_once(rig, durable):
    rig.send_all("Q", range(20), durable=durable)
    lease = lease_of(rig)
    epoch = lease.attach(rig.journal, None)
    assert lease.claim(rig.journal, epoch, 0, 10) == 10
    assert lease.claim(rig.journal, epoch, 0, 10) == 10, "asking again gives the same"
    assert lease.claim(rig.journal, epoch, 5, 10) == 15
    for _ in range(3):
        assert read(rig, lease, 0, 15) == numbers(15)
        assert read(rig, lease, 7, 9) == ["7", "8"]
    rig.turn()
    assert rig.queue("Q").count == 20
    assert lease.settle(rig.journal, epoch, 4) == 4
    assert lease.settle(rig.journal, epoch, 4) == 0
    assert lease.settle(rig.journal, epoch, 2) == 0
    with pytest.raises(LeaseError, match="outside"):
        read(rig, lease, 3, 5)
    with pytest.raises(LeaseError):
        lease.settle(rig.journal, epoch, 16)
    with pytest.raises(LeaseError):
        lease.claim(rig.journal, epoch, 16, 1)
    with pytest.raises(LeaseError):
        lease.claim(rig.journal, epoch, 3, 1)
    assert rig.bodies("Q") == numbers(5, 15), "the rest is anybody's"
    assert lease.settle(rig.journal, epoch, 15) == 11
    rig.turn()
    assert rig.queue("Q").count == 0
    assert rig.broker.memory.used == 0
    assert rig.journal.usage().messages == 0


def test_attaching_fences_the_earlier_reader(rig):
    rig.send_all("Q", range(3))
    lease = lease_of(rig)
    old = lease.attach(rig.journal, None)
    lease.claim(rig.journal, old, 0, 2)
    new = lease.attach(rig.journal, None)
    for verb in (
        lambda: lease.claim(rig.journal, old, 0, 1),
        lambda: lease.read(rig.journal, old, 0, 1),
        lambda: lease.settle(rig.journal, old, 1),
    ):
        with pytest.raises(LeaseError, match="is over"):
            verb()
    assert [body_of(m) for m in lease.read(rig.journal, new, 0, 2)] == ["0", "1"]


def test_release_returns_in_order_marked_and_before_younger_ones(rig):
    rig.send_all("Q", range(30))
    lease = lease_of(rig)
    epoch = lease.attach(rig.journal, None)
    lease.claim(rig.journal, epoch, 0, 12)
    lease.settle(rig.journal, epoch, 2)
    rig.send_all("Q", range(30, 35))
    assert lease.release(rig.journal) == 10
    rig.turn()
    with pytest.raises(LeaseError):
        lease.settle(rig.journal, epoch, 5)
    found = rig.drain("Q")
    assert [d.body for d in found] == numbers(33, 2)
    assert [d.deliveries for d in found] == [1] * 10 + [0] * 23
    assert rig.broker.memory.used == 0
    epoch = lease.attach(rig.journal, None)
    rig.send("Q", "x")
    assert lease.base == lease.tail == 12, "positions are never given twice"
    assert lease.claim(rig.journal, epoch, 12, 5) == 13


def test_consumers_are_served_at_once_when_a_lease_goes_back(rig):
    rig.send_all("Q", range(3))
    lease = lease_of(rig)
    epoch = lease.attach(rig.journal, None)
    lease.claim(rig.journal, epoch, 0, 3)
    reader = rig.reader("Q", 10)
    assert reader.bodies == []
    lease.release(rig.journal)
    rig.turn()
    assert reader.bodies == numbers(3)


def test_groups_lease_different_messages_and_consumers_go_on(rig):
    rig.send_all("Q", range(9))
    first = lease_of(rig, "one")
    second = lease_of(rig, "two")
    first.claim(rig.journal, first.attach(rig.journal, None), 0, 3)
    second.claim(rig.journal, second.attach(rig.journal, None), 0, 3)
    assert (read(rig, first, 0, 3), read(rig, second, 0, 3)) == (numbers(3), numbers(3, 3))
    assert rig.bodies("Q") == numbers(3, 6)


def test_priorities_order_a_claim(rig):
    for number in range(12):
        rig.send("Q", f"{number % 3}:{number}", priority=number % 3)
    lease = lease_of(rig)
    lease.claim(rig.journal, lease.attach(rig.journal, None), 0, 100)
    assert read(rig, lease, 0, 12) == [f"{p}:{n}" for p in (2, 1, 0) for n in range(p, 12, 3)]
    lease.release(rig.journal)
    rig.turn()
    assert rig.bodies("Q") == [f"{p}:{n}" for p in (2, 1, 0) for n in range(p, 12, 3)]


def test_a_selector_claims_its_own_and_passes_over_the_rest(rig):
    for number in range(20):
        rig.send("Q", str(number), properties={"n": number % 2})
    lease = lease_of(rig)
    epoch = lease.attach(rig.journal, selector_or_none("n = 1"))
    assert lease.claim(rig.journal, epoch, 0, 3) == 3
    assert lease.claim(rig.journal, epoch, 3, 100) == 10
    assert read(rig, lease, 0, 10) == [str(n) for n in range(1, 20, 2)]
    rig.send("Q", "new", properties={"n": 1})
    assert lease.claim(rig.journal, epoch, 10, 1) == 11
    assert rig.bodies("Q") == [str(n) for n in range(0, 20, 2)]


@pytest.mark.parametrize("picky", [False, True])
def test_what_is_new_ends_with_the_message_that_reaches_the_octets(rig, picky):
    for number in range(20):
        rig.send("Q", str(number % 10) * 100, properties={"n": number % 2})
    lease = lease_of(rig)
    epoch = lease.attach(rig.journal, selector_or_none("n = 1") if picky else None)
    assert lease.claim(rig.journal, epoch, 0, 100, 0) == 0
    assert lease.claimed == 0
    end = lease.claim(rig.journal, epoch, 0, 100, 250)
    assert end == 2
    assert 250 <= lease.claimed < 400
    assert lease.claim(rig.journal, epoch, 0, 100, 0) == 2
    assert lease.claim(rig.journal, epoch, 1, 100, 250) == 2, "what was claimed before is the answer"
    assert lease.claimed == 0
    assert lease.claim(rig.journal, epoch, 2, 100, 1) == 3
    assert lease.claim(rig.journal, epoch, 3, 100) == (10 if picky else 20)
    wanted = range(1, 20, 2) if picky else range(20)
    assert read(rig, lease, 0, len(wanted)) == [str(number % 10) * 100 for number in wanted]


def test_expired_messages_are_not_claimed(rig):
    rig.send("Q", "short", ttl=10)
    rig.send("Q", "long")
    rig.broker.tick(rig.now, rig.wall + 1000)
    lease = lease_of(rig)
    assert lease.claim(rig.journal, lease.attach(rig.journal, None), 0, 10) == 1
    assert read(rig, lease, 0, 1) == ["long"]


def test_purge_leaves_a_lease_and_deletion_ends_it(rig):
    rig.send_all("Q", range(6))
    lease = lease_of(rig)
    epoch = lease.attach(rig.journal, None)
    lease.claim(rig.journal, epoch, 0, 4)
    queue = rig.queue("Q")
    assert queue.taking.purge() == 2
    assert queue.count == 4
    assert read(rig, lease, 0, 4) == numbers(4)
    rig.broker.queues.delete(queue, "no longer needed")
    rig.turn()
    with pytest.raises(LeaseError, match="no longer needed"):
        lease.read(rig.journal, epoch, 0, 4)
    assert rig.journal.usage().messages == 0
    assert rig.broker.memory.used == 0
    rig.send("Q", "new")
    fresh = lease_of(rig)
    assert fresh is not lease
    assert fresh.claim(rig.journal, fresh.attach(rig.journal, None), 0, 5) == 1


def test_a_paused_queue_gives_no_claim(rig):
    rig.send("Q", "a")
    lease = lease_of(rig)
    rig.queue("Q").gate.pause()
    epoch = lease.attach(rig.journal, None)
    assert lease.claim(rig.journal, epoch, 0, 5) == 0
    rig.queue("Q").dispatcher.resume()
    assert lease.claim(rig.journal, epoch, 0, 5) == 1


@pytest.mark.parametrize("policies", [{}, TINY])
@pytest.mark.parametrize("how", ["close", "kill"])
def test_a_restart_keeps_everything(policies, how):
    rig = Rig(policies)
    rig.send_all("Q", range(20), durable=True)
    rig.send_all("Q", ["transient"], durable=False)
    lease = lease_of(rig)
    epoch = lease.attach(rig.journal, selector_or_none("TRUE"))
    lease.claim(rig.journal, epoch, 0, 6)
    lease.claim(rig.journal, epoch, 6, 4)
    lease.claim(rig.journal, epoch, 10, 11)
    lease.settle(rig.journal, epoch, 8)
    rig.broker.queues.keep(rig.queue("Q"))  # its definition comes behind the lease's in the journal now
    rig.restart(how)
    again = lease_of(rig)
    assert (again.epoch, again.base, again.tail) == (epoch, 8, 21)
    assert again.selector is not None
    assert read(rig, again, 8, 21) == [*numbers(12, 8), "transient"], "what is leased is kept, persistent or not"
    assert rig.queue("Q").count == 13
    assert rig.bodies("Q") == []
    rig.restart(how)
    assert lease_of(rig).release(rig.journal) == 13
    rig.turn()
    found = rig.drain("Q")
    assert [d.body for d in found] == [*numbers(12, 8), "transient"]
    assert {d.deliveries for d in found} == {1}


@pytest.mark.parametrize("durable", [True, False])
def test_counts_of_earlier_deliveries_are_kept_through_a_lease_and_restarts(durable):
    rig = Rig()
    rig.send("Q", "a", durable=durable)
    reader = rig.reader("Q", 1)
    reader.give_back()
    reader.give_back()
    reader.close()
    lease = lease_of(rig)
    lease.claim(rig.journal, lease.attach(rig.journal, None), 0, 1)
    rig.restart("kill")
    lease_of(rig).release(rig.journal)
    rig.turn()
    rig.restart("kill")
    assert rig.drain("Q")[0].deliveries == 4


def test_no_epoch_comes_twice_after_a_release_and_a_restart():
    rig = Rig()
    rig.send("Q", "a")
    lease = lease_of(rig)
    epoch = lease.attach(rig.journal, None)
    lease.release(rig.journal)
    rig.restart("kill")
    assert lease_of(rig).attach(rig.journal, None) > epoch + 1


def test_an_unused_queue_with_a_lease_is_not_deleted():
    rig = Rig(auto_delete="true", auto_delete_delay="0")
    rig.send("Q", "a")
    lease = lease_of(rig)
    epoch = lease.attach(rig.journal, None)
    lease.claim(rig.journal, epoch, 0, 1)
    lease.settle(rig.journal, epoch, 1)
    rig.wait(10_000)
    assert "Q" in rig.broker.table.queues


def test_a_full_disk_refuses_a_claim_and_loses_nothing():
    rig = Rig()
    rig.send_all("Q", range(3), durable=False)
    lease = lease_of(rig)
    epoch = lease.attach(rig.journal, None)
    disk = rig.disk
    assert disk is not None
    disk.room.make(disk.used())
    for _ in range(500):
        if rig.journal.refusal() is not None:
            break
        rig.send("Filler", "f" * 500)
    with pytest.raises(StorageFull):
        lease.claim(rig.journal, epoch, 0, 3)
    disk.room.make()
    rig.turn()
    assert lease.claim(rig.journal, epoch, 0, 3) == 3
    assert read(rig, lease, 0, 3) == numbers(3)


def test_only_attach_makes_a_lease():
    rig = Rig()
    with pytest.raises(LeaseError):
        rig.broker.leases.need(parse_one("Nowhere"), "g", create=False)
    assert list(rig.broker.table.queues) == []


@pytest.mark.parametrize("durable", [True, False])
def test_a_lease_may_begin_behind_what_waits_and_leaves_it_where_it_is(rig, durable):
    rig.send_all("Q", range(10), durable=durable, priority=9)
    rig.send_all("Q", range(10, 20), durable=durable)
    lease = lease_of(rig)
    lease.begin(int(rig.broker.ids.number), 0)
    epoch = lease.attach(rig.journal, None)
    assert lease.claim(rig.journal, epoch, 0, 100) == 0
    rig.send_all("Q", range(20, 30), durable=durable, priority=2)
    rig.send_all("Q", range(30, 40), durable=durable)
    assert lease.claim(rig.journal, epoch, 0, 5) == 5
    assert lease.claim(rig.journal, epoch, 5, 100) == 20
    assert read(rig, lease, 0, 20) == numbers(10, 30) + numbers(10, 20)
    lease.begin(0, 0)  # it has begun: what is said later counts for nothing
    epoch = lease.attach(rig.journal, None)
    assert lease.claim(rig.journal, epoch, 20, 100) == 20
    assert lease.begins == "latest"
    assert lease.queue.backlog.count == 20
    rig.turn()


def test_a_lease_may_begin_at_a_time_which_every_message_tells(rig):
    rig.send_all("Q", range(10))
    rig.wait(60_000)
    since = int(rig.broker.wall)
    rig.send_all("Q", range(10, 20))
    lease = lease_of(rig)
    lease.begin(0, since)
    epoch = lease.attach(rig.journal, selector_or_none("TRUE"))
    assert lease.claim(rig.journal, epoch, 0, 100) == 10
    assert read(rig, lease, 0, 10) == numbers(10, 10)
    assert lease.begins == str(since)
    other = lease_of(rig, "other")
    assert other.claim(rig.journal, other.attach(rig.journal, None), 0, 100) == 10
    assert read(rig, other, 0, 10) == numbers(10)


@pytest.mark.parametrize("how", ["close", "kill"])
def test_nothing_later_than_its_bound_is_claimed_until_it_is_attached_anew(how):
    rig = Rig()
    rig.send_all("Q", range(10))
    until = int(rig.broker.wall)
    rig.wait(60_000)
    rig.send_all("Q", range(10, 15))
    lease = lease_of(rig)
    epoch = lease.attach(rig.journal, None, until)
    assert lease.claim(rig.journal, epoch, 0, 4) == 4
    rig.turn()
    rig.restart(how)
    lease = lease_of(rig)
    assert lease.claim(rig.journal, epoch, 4, 100) == 10
    assert read(rig, lease, 0, 10) == numbers(10)
    assert lease.queue.backlog.count == 5
    epoch = lease.attach(rig.journal, None)
    assert lease.claim(rig.journal, epoch, 10, 100) == 15


def test_a_claim_that_waits_is_not_told_of_what_is_later_than_its_bound(rig):
    lease = lease_of(rig)
    epoch = lease.attach(rig.journal, None, int(rig.broker.wall))
    waiter = Waiter()
    rig.broker.leases.wait(lease, epoch, 0, 10, 1_000, waiter)
    rig.wait(50)
    rig.send("Q", "late")
    rig.wait(2_000)
    assert waiter.ends == [0]
    assert rig.bodies("Q") == ["late"]


@pytest.mark.parametrize("how", ["close", "kill"])
def test_where_it_began_is_kept_over_restarts_until_it_is_released(how):
    rig = Rig()
    rig.send_all("Q", range(5))
    lease = lease_of(rig)
    lease.begin(int(rig.broker.ids.number), 0)
    lease.attach(rig.journal, None)
    rig.turn()
    rig.restart(how)
    rig.send_all("Q", range(5, 8))
    lease = lease_of(rig)
    lease.begin(0, 1)
    epoch = lease.attach(rig.journal, None)
    assert lease.claim(rig.journal, epoch, 0, 100) == 3
    assert read(rig, lease, 0, 3) == numbers(3, 5)
    rig.broker.leases.release(lease)
    rig.turn()
    rig.restart(how)
    lease = lease_of(rig)
    assert lease.begins == "earliest"
    lease.begin(int(rig.broker.ids.number), 0)
    assert lease.claim(rig.journal, lease.attach(rig.journal, None), 3, 100) == 3
    assert lease.queue.backlog.count == 8


def test_what_several_claims_took_out_of_order_goes_back_in_order(rig):
    rig.send_all("Q", range(4))
    first, second = lease_of(rig, "f"), lease_of(rig, "s")
    first.claim(rig.journal, first.attach(rig.journal, None), 0, 2)
    epoch = second.attach(rig.journal, None)
    second.claim(rig.journal, epoch, 0, 2)
    first.release(rig.journal)
    assert second.claim(rig.journal, epoch, 2, 2) == 4
    assert read(rig, second, 0, 4) == ["2", "3", "0", "1"]
    reader = rig.reader("Q", 10)
    second.release(rig.journal)
    rig.turn()
    assert reader.bodies == numbers(4)


def test_a_queue_that_is_deleted_takes_its_leases_along_and_no_others(rig):
    leases = rig.broker.leases
    assert isinstance(leases, Leases)
    gone, stays = lease_of(rig), leases.need(parse_one("P"), "g", True)
    rig.broker.queues.delete(gone.queue, "it was deleted")
    assert list(leases.held) == [("P", "g")]
    assert leases.on(stays.queue) == [stays]


def assorted(rig: Rig, lots: random.Random) -> None:
    """Let all kinds of messages wait in Q, most of them plain, some redelivered, and all on disk."""
    stages = rig.broker.stages
    stages.publishing.refer_least = 1
    for number in range(80):
        fields = lots.choice(
            [{}, {}, {}, {"priority": 7}, {"ttl": 1_000}, {"ttl": 90_000}, {"group": "g"}, {"durable": False}]
        )
        if lots.random() < 0.3:
            write(rig, f"p{number}", [f"{number}s", f"{number}t"], batch=number, **fields)
            publish(rig, f"p{number}", batch=number)
        else:
            rig.send("Q", str(number), **fields)
    reader = rig.reader("Q", 10)
    reader.give_back()
    reader.close()
    rig.wall += 3_000
    rig.restart("kill")


@pytest.mark.parametrize("prioritized", ["true", "false"])
@pytest.mark.parametrize("seed", range(6))
def test_what_is_claimed_by_heads_is_what_would_be_claimed_by_messages(monkeypatch, seed, prioritized):
    if is_compiled():
        pytest.skip("native callers do not notice a method that is replaced")
    found = []
    for by_heads in (True, False):
        lots = random.Random(seed)
        rig = Rig({"Q": {"prioritized": prioritized}}, seed=seed)
        assorted(rig, lots)
        drawn = []
        genuine = Taking.draw

        def draw(self, into, *rest, by_heads=by_heads, drawn=drawn, genuine=genuine):
            if by_heads:
                genuine(self, into, *rest)
                drawn.extend(into.numbers)

        monkeypatch.setattr(Taking, "draw", draw)
        lease = lease_of(rig)
        epoch = lease.attach(rig.journal, None)
        told = []
        while True:
            base = lease.tail
            octets = lots.choice([None, None, 900])
            end = lease.claim(rig.journal, epoch, base, lots.choice([1, 7, 40]), octets)
            if end == base:
                break
            rows = [(body_of(each), int(each.number)) for each in lease.read(rig.journal, epoch, base, end)]
            told.append((end, lease.claimed, rows, [lease.deliveries(at) for at in range(base, end)]))
            rig.turn()
        monkeypatch.setattr(Taking, "draw", genuine)
        queue = rig.queue("Q")
        told.append((queue.count, queue.leased, queue.stock.expiring, queue.backlog.paged_octets))
        assert bool(drawn) is by_heads
        rig.restart("kill")
        lease = lease_of(rig)
        epoch = lease.attach(rig.journal, None)
        assert lease.tail == told[-2][0]
        assert lease.settle(rig.journal, epoch, lease.tail // 2) == lease.tail // 2
        lease.release(rig.journal)
        rig.restart("kill")
        deliveries = rig.drain("Q")
        told.append([(each.body, each.deliveries) for each in deliveries])
        found.append(told)
    assert found[0] == found[1]


@pytest.mark.parametrize("at", [0, 3])
def test_a_message_whose_record_is_damaged_is_claimed_by_nobody_and_becomes_a_dead_letter(at):
    rig = Rig()
    write(rig, "a", [f"body {number}" for number in range(20)])
    publish(rig, "a")
    rig.restart("close")
    (name,) = [name for name in rig.disk.medium.durable if b'"body 3"' in bytes(rig.disk.medium.durable[name])]
    assert rig.disk.medium.damage(name, bytes(rig.disk.medium.durable[name]).index(b'"body 3"') + 2)
    lease = lease_of(rig)
    epoch = lease.attach(rig.journal, None)
    assert lease.claim(rig.journal, epoch, 0, at) == at
    while lease.claim(rig.journal, epoch, lease.tail, 50) > lease.tail:
        pass
    rig.wait(10)
    assert lease.tail == 19
    assert read(rig, lease, 0, 19) == [f"body {number}" for number in range(20) if number != 3]
    assert rig.queue("ActiveMQ.DLQ").count == 1


def test_a_disk_that_gives_no_more_loses_nothing_of_what_it_gave(monkeypatch):
    if is_compiled():
        pytest.skip("native callers do not notice a method that is replaced")
    rig = Rig()
    write(rig, "a", [str(number) for number in range(300)], group="g")
    publish(rig, "a")
    rig.restart("close")
    lease = lease_of(rig)
    epoch = lease.attach(rig.journal, None)
    genuine = rig.journal.reading.load_range
    looks = [0]

    def load_range(numbers, octets=0):
        looks[0] += 1
        if looks[0] == 4:
            raise StorageError("the disk is slow to answer")
        return genuine(numbers, octets)

    monkeypatch.setattr(rig.journal.reading, "load_range", load_range)
    monkeypatch.setattr(walk, "LOAD_OCTETS", 1_000)
    end = lease.claim(rig.journal, epoch, 0, 300)
    assert 0 < end < 300
    looks[0] = 3
    with pytest.raises(StorageError):
        lease.claim(rig.journal, epoch, end, 300)
    looks[0] = 10
    while lease.claim(rig.journal, epoch, lease.tail, 300) and lease.tail < 300:
        pass
    assert read(rig, lease, 0, 300) == numbers(300)
