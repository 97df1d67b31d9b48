"""Transactions: all or nothing, now and after a crash (classic.md 4.10, artemis.md 4.9)."""

from __future__ import annotations

import msgspec
import pytest

from entrepot.base.errors import AddressFull, DuplicateRejected, InvalidDestination, Refused, TransactionError
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.owners import ConnectionOwner
from entrepot.core.records import KIND_BRANCH
from entrepot.core.transactions.transaction import OCTETS_MAX, State, Transaction
from entrepot.journal.log import Waiter
from entrepot.model.address import ANYCAST, Destination, parse
from kit import Rig


class Nobody(Waiter):
    def stored(self, token: bytes) -> None:
        pass

    def store_failed(self, token: bytes, error: Exception) -> None:
        raise AssertionError(error)


def sends(rig: Rig, *bodies: str, to: str = "Q", **fields) -> Transaction:
    transaction = Transaction("t")
    target = rig.broker.target(parse(to))
    for body in bodies:
        transaction.send(rig.message(body, target.name, **fields), target)
    return transaction


def test_nothing_is_seen_before_the_commit_and_all_in_order_after():
    rig = Rig()
    reader = rig.reader("Q", 10)
    transaction = sends(rig, "a", "b")
    rig.send("Q", "outside")
    assert reader.bodies == ["outside"]
    rig.commit(transaction)
    assert reader.bodies == ["outside", "a", "b"]
    assert transaction.state is State.COMMITTED
    with pytest.raises(TransactionError):
        rig.commit(transaction)


def test_rolled_back_sends_never_were_and_acknowledged_messages_stay_with_their_reader():
    rig = Rig()
    rig.send("Q", "a")
    reader = rig.reader("Q", 10)
    transaction = sends(rig, "b", to="R")
    transaction.settle(reader.open[0].consumer, reader.open[0].number)
    rig.broker.transactions.roll_back(transaction)
    rig.turn()
    assert rig.bodies("R") == []
    assert rig.queue("Q").in_flight == 1
    assert reader.ack() == ["a"]


def test_a_receive_and_a_send_are_one():
    rig = Rig()
    rig.send("Q", "in")
    reader = rig.reader("Q", 10)
    transaction = sends(rig, "out", to="R")
    transaction.settle(reader.open[0].consumer, reader.open[0].number)
    rig.commit(transaction)
    rig.restart("kill")
    assert (rig.bodies("R"), "Q" in rig.broker.table.queues and rig.bodies("Q")) == (["out"], [])


@pytest.mark.parametrize("seed", range(25))
def test_a_crash_shows_all_of_a_transaction_or_nothing(seed):
    rig = Rig(seed=seed)
    rig.send_all("Q", ["in1", "in2"])
    rig.journal.confirm(Nobody(), b"")
    rig.turn()
    reader = rig.reader("Q", 10)
    transaction = sends(rig, *(f"out{number}" * 40 for number in range(30)), to="R")
    for delivery in reader.open:
        transaction.settle(delivery.consumer, delivery.number)
    rig.broker.transactions.commit(transaction)
    rig.journal.flush()
    rig.restart("crash")
    left = rig.bodies("Q")
    out = len(rig.bodies("R")) if "R" in rig.broker.table.queues else 0
    assert (left, out) in ((["in1", "in2"], 0), ([], 30))


def test_it_may_not_grow_without_limit():
    rig = Rig()
    transaction = Transaction("t")
    target = rig.broker.target(parse("Q"))
    body = "x" * (1 << 20)
    while transaction.octets + rig.message(body, "Q").size <= OCTETS_MAX:
        transaction.send(rig.message(body, "Q"), target)
    with pytest.raises(TransactionError, match="more than"):
        transaction.send(rig.message(body, "Q"), target)
    assert transaction.sends == []
    with pytest.raises(TransactionError, match="doomed"):
        rig.commit(transaction)
    assert rig.bodies("Q") == []


@pytest.mark.parametrize("how", ["inside", "before"])
def test_a_duplicate_id_rejects_the_whole(how):
    rig = Rig()
    if how == "before":
        rig.send("Q", "first", duplicate=b"1")
    transaction = sends(rig, "a", to="R")
    target = rig.broker.target(parse("Q"))
    for _ in range(2 if how == "inside" else 1):
        transaction.send(rig.message("b", "Q", duplicate=b"1"), target)
    with pytest.raises(DuplicateRejected):
        rig.commit(transaction)
    assert rig.bodies("R") == []
    assert rig.bodies("Q") == (["first"] if how == "before" else [])
    assert transaction.state is State.ROLLED_BACK


def test_ids_are_remembered_with_the_commit_and_not_with_a_rollback():
    rig = Rig()
    rig.broker.transactions.roll_back(sends(rig, "a", duplicate=b"1"))
    rig.commit(sends(rig, "b", duplicate=b"1"))
    with pytest.raises(DuplicateRejected):
        rig.commit(sends(rig, "c", duplicate=b"1"))
    assert rig.bodies("Q") == ["b"]


def test_a_full_disk_refuses_the_whole():
    rig = Rig()
    rig.send("Q", "in")
    reader = rig.reader("Q", 10)
    disk = rig.disk
    assert disk is not None
    disk.room.make(disk.used())
    for _ in range(500):
        if rig.journal.refusal() is not None:
            break
        rig.send("Filler", "f" * 500)
    transaction = sends(rig, "a", to="Q")
    transaction.settle(reader.open[0].consumer, reader.open[0].number)
    with pytest.raises(TransactionError):
        rig.commit(transaction)
    disk.room.make()
    rig.turn()
    assert reader.bodies == ["in"]
    assert reader.ack() == ["in"]


def test_a_full_queue_refuses_before_anything_is_done_and_a_granted_one_is_done_whole():
    rig = Rig({"F": {"full": "FAIL", "max_octets": "2000"}})
    rig.commit(sends(rig, *"0123456789", to="F"))
    transaction = sends(rig, "a", to="R")
    transaction.send(rig.message("b", "F"), rig.broker.target(parse("F")))
    with pytest.raises(AddressFull):
        rig.commit(transaction)
    assert rig.bodies("R") == []
    assert rig.bodies("F") == list("0123456789")


@pytest.mark.parametrize("bad", [{"AMQ_SCHEDULED_CRON": "61 * * * *"}, {"AMQ_SCHEDULED_DELAY": "soon"}])
def test_a_schedule_that_cannot_be_kept_refuses_the_whole(bad):
    rig = Rig()
    transaction = sends(rig, "a")
    transaction.send(rig.message("b", "Q", annotations=bad), rig.broker.target(parse("Q")))
    with pytest.raises(Refused):
        rig.commit(transaction)
    assert rig.bodies("Q") == []


def test_a_destination_that_is_gone_refuses_the_whole():
    rig = Rig()
    queue = rig.broker.queues.create(
        QueueDefinition(name="ID:t", address="ID:t", durable=False, owner=ConnectionOwner("1"))
    )
    target = rig.broker.target([Destination("ID:t", ANYCAST, True)])
    transaction = sends(rig, "a")
    transaction.send(rig.message("b", "ID:t"), target)
    rig.broker.queues.delete(queue, "gone")
    with pytest.raises(InvalidDestination):
        rig.commit(transaction)
    assert rig.bodies("Q") == []


def test_scheduled_sends_wait_from_the_commit_on():
    rig = Rig()
    transaction = sends(rig, "later", annotations={"AMQ_SCHEDULED_DELAY": 100})
    rig.wait(500)
    rig.commit(transaction)
    rig.wait(99)
    assert rig.bodies("Q") == []
    rig.wait(1)
    assert rig.bodies("Q") == ["later"]


# -- a consumer that leaves before the end ---------------------------------------------------------------------


def settles(reader, *bodies: str) -> Transaction:
    transaction = Transaction("t")
    for delivery in sorted(reader.open, key=lambda each: bodies.index(each.body) if each.body in bodies else 0):
        if delivery.body in bodies:
            transaction.settle(delivery.consumer, delivery.number)
    return transaction


@pytest.mark.parametrize("durable", [True, False])
def test_a_commit_settles_what_a_consumer_had_that_has_left(durable):
    rig = Rig()
    rig.send_all("Q", ["a", "b", "c"], durable=durable)
    reader = rig.reader("Q", 10)
    transaction = settles(reader, "a", "c")
    reader.close()
    other = rig.reader("Q", 10)
    assert [(each.body, each.deliveries) for each in other.deliveries] == [("b", 1)]
    assert rig.queue("Q").count == 3
    rig.commit(transaction)
    assert rig.queue("Q").count == 1
    assert other.ack() == ["b"]
    rig.restart("kill")
    assert rig.bodies("Q") == []


def test_a_rollback_gives_back_what_a_consumer_had_that_has_left_in_order_and_as_tried():
    rig = Rig()
    rig.send_all("Q", ["a", "b", "c"])
    reader = rig.reader("Q", 10)
    transaction = settles(reader, "a", "b")
    reader.close()
    other = rig.reader("Q", 10)
    assert other.take() == ["c"]
    rig.broker.transactions.roll_back(transaction)
    rig.turn()
    assert [(each.body, each.deliveries) for each in other.deliveries] == [("a", 1), ("b", 1)]


def test_what_a_transaction_would_settle_is_there_again_after_a_kill():
    rig = Rig()
    rig.send("Q", "a")
    reader = rig.reader("Q", 10)
    settles(reader, "a")
    reader.close()
    rig.restart("kill")
    assert rig.bodies("Q") == ["a"]


def test_a_purge_leaves_what_a_transaction_will_settle_and_a_deletion_takes_it():
    rig = Rig()
    rig.send_all("Q", ["a", "b"])
    reader = rig.reader("Q", 10)
    transaction = settles(reader, "a")
    reader.close()
    assert rig.queue("Q").taking.purge() == 1
    rig.broker.queues.delete(rig.queue("Q"), "test")
    rig.turn()
    rig.commit(transaction)
    assert rig.broker.memory.used == 0
    assert rig.journal.usage().messages == 0


def test_a_branch_takes_over_what_a_consumer_had_that_has_left():
    rig = Rig()
    rig.send_all("Q", ["a", "b"])
    reader = rig.reader("Q", 10)
    transaction = settles(reader, "a", "b")
    reader.close()
    rig.broker.branches.prepare(transaction, b"xid")
    rig.turn()
    other = rig.reader("Q", 10)
    assert other.bodies == []
    rig.broker.branches.roll_back(b"xid")
    rig.turn()
    assert other.bodies == ["a", "b"]


def prepared_settling(rig: Rig, *bodies: str) -> None:
    reader = rig.reader("Q", 10)
    transaction = settles(reader, *bodies)
    rig.broker.branches.prepare(transaction, b"xid")
    rig.turn()
    reader.close()


def test_what_a_branch_gives_back_goes_out_in_the_order_of_the_queue():
    rig = Rig()
    rig.send_all("Q", ["a", "b", "c"])
    prepared_settling(rig, "c", "b", "a")
    other = rig.reader("Q", 10)
    rig.broker.branches.roll_back(b"xid")
    rig.turn()
    assert other.bodies == ["a", "b", "c"]


@pytest.mark.parametrize("how", ["close", "kill"])
@pytest.mark.parametrize("commit", [True, False])
def test_a_branch_that_settles_what_did_not_outlive_a_restart_is_ended_all_the_same(how, commit):
    rig = Rig()
    rig.send("Q", "a", durable=False)
    rig.send("Q", "b")
    prepared_settling(rig, "a", "b")
    rig.restart(how)
    assert rig.queue("Q").count == 1
    if commit:
        rig.broker.branches.commit(b"xid")
    else:
        rig.broker.branches.roll_back(b"xid")
    rig.turn()
    assert rig.bodies("Q") == ([] if commit else ["b"])
    assert rig.queue("Q").leased == 0


def test_what_a_branch_gives_back_after_a_restart_counts_its_earlier_deliveries():
    rig = Rig()
    rig.send("Q", "a")
    reader = rig.reader("Q", 10)
    for _ in range(3):
        rig.queue("Q").give_back(reader.open[-1].consumer, reader.open[-1].number, attempted=True)
    reader.close()
    prepared_settling(rig, "a")
    rig.restart("close")
    rig.broker.branches.roll_back(b"xid")
    rig.turn()
    (found,) = rig.drain("Q")
    assert found.deliveries == 5


def test_a_message_is_settled_by_the_transaction_that_asked_first():
    rig = Rig()
    rig.send("Q", "a")
    reader = rig.reader("Q", 10)
    first = settles(reader, "a")
    second = Transaction("u")
    second.settle(reader.open[0].consumer, reader.open[0].number)
    assert not second.settlements
    rig.broker.transactions.roll_back(first)
    second.settle(reader.open[0].consumer, reader.open[0].number)
    rig.commit(second)
    assert rig.queue("Q").count == 0


def test_it_says_once_that_it_is_doomed_and_forgets_what_comes():
    rig = Rig()
    transaction = Transaction("t")
    target = rig.broker.target(parse("Q"))
    transaction.octets = OCTETS_MAX
    with pytest.raises(TransactionError, match="more than"):
        transaction.send(rig.message("a", "Q"), target)
    held = transaction.octets
    for _ in range(3):
        transaction.send(rig.message("b", "Q"), target)
    assert transaction.sends == []
    assert transaction.octets == held
    with pytest.raises(TransactionError, match="more than"):
        rig.commit(transaction)


def test_the_document_of_a_branch_from_before_its_user_was_kept_is_read():
    rig = Rig()
    rig.send_all("Q", ["a", "b"])
    rig.broker.branches.prepare(settles(rig.reader("Q", 10), "a"), b"xid", "app")
    (branch,) = rig.broker.branches.prepared.values()
    settlements = [(int(hold.queue.identity), hold.number) for hold in branch.holds]
    before = msgspec.msgpack.encode({"name": "t", "sends": [], "settlements": settlements})
    rig.journal.put(KIND_BRANCH, b"xid", before)
    rig.restart("kill")
    assert rig.broker.branches.prepared[b"xid"].user is None
    assert rig.reader("Q", 10).bodies == ["b"]
    rig.broker.branches.commit(b"xid")
    rig.turn()
    assert rig.queue("Q").leased == 0
