"""What operators do: nothing is lost, doubled, or taken from its order, and a crash between two steps shows neither."""

from __future__ import annotations

import pytest

from entrepot.base.errors import InvalidDestination, LeaseError, StorageFull
from entrepot.core.broker import selector_or_none
from entrepot.core.operators import upkeep, views
from entrepot.core.operators.upkeep import Move, Progress, Removal, Retry
from entrepot.model.address import parse_one
from kit import Rig

TINY = {"#": {"max_octets": "2000"}}


def numbers(count: int, start: int = 0) -> list[str]:
    return [str(number) for number in range(start, start + count)]


def run(rig: Rig, work: Move | Removal) -> int:
    for _ in range(10_000):
        progress = work.step()
        rig.turn()
        if progress.done:
            return progress.messages
    raise AssertionError("it never ends")


def test_queues_are_listed_with_what_there_is_to_know():
    rig = Rig(redelivery_delay="1000")
    rig.send_all("Q", range(10))
    reader = rig.reader("Q", 3, priority=2, connection="c7")
    reader.give_back()
    lease = rig.broker.leases.need(parse_one("Q"), "g", create=True)
    lease.claim(rig.journal, lease.attach(rig.journal, selector_or_none("TRUE")), 0, 2)
    rig.wait(500)
    rig.reader("topic://T", 5, durable_name="s", client_id="c", selector="n = 1")
    shown = views.list_queues(rig.broker)
    assert [view.name for view in shown] == ["Q", "c.s"]
    view = shown[0]
    assert (view.messages, view.in_flight, view.delayed, view.leased, view.waiting) == (10, 3, 1, 2, 4)
    assert (view.routing, view.consumers, view.paused, view.durable) == ("ANYCAST", 1, False, True)
    assert (view.accepted, view.delivered, view.requeued) == (10, 4, 1)
    assert view.oldest_ms == 500
    assert view.octets == rig.queue("Q").backlog.octets
    assert (shown[1].routing, shown[1].selector) == ("MULTICAST", "n = 1")
    assert [view.name for view in views.list_queues(rig.broker, "Q")] == ["Q"]
    consumer = views.list_consumers(rig.broker, "Q")[0]
    assert (consumer.connection, consumer.priority, consumer.in_flight, consumer.credit) == ("c7", 2, 3, 0)
    assert consumer.idle_ms == 500
    assert len(views.list_consumers(rig.broker)) == 2
    held = views.list_leases(rig.broker)[0]
    assert (held.queue, held.group, held.base, held.tail, held.held, held.selector) == ("Q", "g", 0, 2, 2, "TRUE")
    assert held.begins == "earliest"
    assert upkeep.release(rig.broker, "Q", "g") == 2
    with pytest.raises(LeaseError):
        upkeep.release(rig.broker, "Q", "h")
    with pytest.raises(InvalidDestination):
        views.need(rig.broker, "Nowhere")


def test_a_pause_outlives_a_restart():
    rig = Rig()
    rig.send("Q", "a")
    upkeep.pause(rig.broker, "Q")
    rig.restart("kill")
    assert views.list_queues(rig.broker)[0].paused
    assert rig.reader("Q", 1).bodies == []
    upkeep.resume(rig.broker, "Q")
    rig.restart("kill")
    assert rig.bodies("Q") == ["a"]


@pytest.mark.parametrize("policies", [{}, TINY])
def test_purge_in_steps(policies):
    rig = Rig(policies)
    rig.send_all("Q", range(1300))
    progress = Progress()
    steps = 0
    while not progress.done:
        upkeep.purge(rig.broker, "Q", progress)
        rig.turn()
        steps += 1
    assert (progress.messages, steps) == (1300, 3)
    assert rig.journal.usage().messages == 0


@pytest.mark.parametrize("policies", [{}, TINY])
@pytest.mark.parametrize("durable", [True, False])
def test_a_move_keeps_order_and_identity_and_says_where_from(policies, durable):
    rig = Rig(policies)
    rig.send_all("Q", range(1200), durable=durable)
    identity = rig.broker.ids.identity_of(rig.broker.browse(parse_one("Q"), None).next(1)[0])
    rig.send_all("R", ["before"])
    assert run(rig, Move(rig.broker, "Q", "R")) == 1200
    found = rig.drain("R")
    assert [d.body for d in found] == ["before", *numbers(1200)]
    assert rig.broker.ids.identity_of(found[1].message) == identity
    assert found[1].annotations["_AMQ_ORIG_QUEUE"] == "Q"
    assert found[1].annotations["_AMQ_ORIG_MESSAGE_ID"] == identity
    assert rig.queue("Q").count == 0
    assert rig.broker.memory.used == 0
    assert rig.journal.usage().messages == 0


def test_a_move_of_some_and_of_those_that_a_selector_wants():
    rig = Rig(TINY)
    for number in range(100):
        rig.send("Q", str(number), properties={"n": number})
    assert run(rig, Move(rig.broker, "Q", "R", selector_or_none("n >= 50"), most=10)) == 10
    assert rig.bodies("R") == numbers(10, 50)
    assert run(rig, Move(rig.broker, "Q", "R", most=3)) == 3
    assert rig.bodies("R") == numbers(3)
    assert rig.bodies("Q") == numbers(47, 3) + numbers(40, 60)


def test_a_copy_leaves_the_original():
    rig = Rig(TINY)
    rig.send_all("Q", range(700))
    assert run(rig, Move(rig.broker, "Q", "R", copies=True)) == 700
    assert rig.bodies("Q") == rig.bodies("R") == numbers(700)


def test_a_move_in_a_circle_ends():
    rig = Rig()
    rig.send_all("Q", range(5))
    from entrepot.core.addressing.diversion import divert

    rig.broker.table.add_divert(divert("d", "R", [parse_one("Q")]))
    assert run(rig, Move(rig.broker, "Q", "R")) == 5
    with pytest.raises(InvalidDestination):
        Move(rig.broker, "Q", "Q")
    with pytest.raises(InvalidDestination, match="topic"):
        Move(rig.broker, "Q", "topic://T")


@pytest.mark.parametrize("seed", range(20))
def test_a_crash_during_a_move_neither_loses_nor_doubles(seed):
    rig = Rig(seed=seed, segment_bytes=8192)
    rig.send_all("Q", range(30))
    rig.broker.queues.need(parse_one("R"))
    rig.restart("close")
    move = Move(rig.broker, "Q", "R", most=20)
    while not move.progress.done:
        move.step()
        rig.journal.flush()
    rig.restart("crash")
    assert sorted(rig.bodies("Q") + rig.bodies("R"), key=int) == numbers(30)


def test_a_full_disk_stops_a_move_where_it_is():
    rig = Rig()
    rig.send_all("Q", range(3))
    disk = rig.disk
    assert disk is not None
    disk.room.make(disk.used())
    for _ in range(500):
        if rig.journal.refusal() is not None:
            break
        rig.send("Filler", "f" * 500)
    with pytest.raises(StorageFull):
        Move(rig.broker, "Q", "R").step()
    disk.room.make()
    rig.turn()
    assert rig.bodies("Q") == numbers(3)


def test_retry_returns_dead_letters_to_where_they_came_from_as_they_were():
    rig = Rig(max_deliveries="1")
    rig.send("Q", "q", ttl=1_000_000)
    rig.send("Q", "transient", durable=False)
    reader = rig.reader("Q", 1)
    reader.give_back()
    reader.give_back()
    reader.close()
    subscriber = rig.reader("topic://T", 1, durable_name="s", client_id="c")
    rig.send("topic://T", "t")
    subscriber.reject()
    rig.send("ActiveMQ.DLQ", "stranger")
    assert rig.queue("ActiveMQ.DLQ").count == 4
    retry = Retry(rig.broker, "ActiveMQ.DLQ")
    assert run(rig, retry) == 3
    assert retry.homeless == 1
    found = rig.drain("Q")
    assert [d.body for d in found] == ["q", "transient"]
    assert [d.annotations for d in found] == [{}, {}]
    assert [d.deliveries for d in found] == [0, 0]
    assert found[0].message.expiration == rig.wall + 1_000_000
    assert [d.message.durable for d in found] == [True, False]
    assert subscriber.bodies == ["t", "t"]
    assert rig.bodies("ActiveMQ.DLQ") == ["stranger"]


def test_retry_makes_the_queue_again():
    rig = Rig()
    rig.send("Q", "a")
    reader = rig.reader("Q", 1)
    reader.reject()
    reader.close()
    upkeep.delete(rig.broker, "Q")
    assert run(rig, Retry(rig.broker, "ActiveMQ.DLQ")) == 1
    assert rig.bodies("Q") == ["a"]


@pytest.mark.parametrize("policies", [{}, TINY])
def test_one_message_is_removed_by_its_id(policies):
    rig = Rig(policies)
    rig.send_all("Q", range(50))
    identities = [rig.broker.ids.identity_of(m) for m in rig.broker.browse(parse_one("Q"), None).next(100)]
    assert run(rig, Removal(rig.broker, "Q", identities[30])) == 1
    assert run(rig, Removal(rig.broker, "Q", identities[30])) == 0
    assert rig.bodies("Q") == [*numbers(30), *numbers(19, 31)]


def test_delete_minds_what_the_caller_minds():
    rig = Rig()
    rig.send("Q", "a")
    with pytest.raises(InvalidDestination, match="holds"):
        upkeep.delete(rig.broker, "Q", if_empty=True)
    rig.reader("Q", 1)
    with pytest.raises(InvalidDestination, match="consumers"):
        upkeep.delete(rig.broker, "Q", if_unused=True)
    assert upkeep.delete(rig.broker, "Q") == 1
    rig.turn()
    assert rig.broker.memory.used == 0


@pytest.mark.parametrize("disk", [True, False])
def test_scheduled_messages_are_listed_and_cancelled(disk):
    rig = Rig(disk=disk)
    rig.send("Q", "late", annotations={"AMQ_SCHEDULED_DELAY": 9000})
    rig.send("Q", "soon", annotations={"AMQ_SCHEDULED_DELAY": 1000})
    shown = views.list_scheduled(rig.broker)
    assert [view.deliver_at - rig.wall for view in shown] == [1000, 9000]
    assert [view.target for view in shown] == ["queue://Q"] * 2
    assert upkeep.cancel_scheduled(rig.broker, shown[0].number)
    assert not upkeep.cancel_scheduled(rig.broker, shown[0].number)
    rig.wait(20_000)
    assert rig.bodies("Q") == ["late"]
    assert rig.broker.memory.used == 0
    assert rig.journal.usage().messages == 0
