"""Prepared branches that are large: promised, committed and rolled back over turns, all of it or nothing."""

from __future__ import annotations

import pytest

from entrepot.base.errors import StorageError, TransactionError
from entrepot.core.queue.bereaved import DEAD_CAUSE
from entrepot.core.transactions.carrying import Work
from entrepot.core.transactions.transaction import Transaction
from entrepot.model.address import parse
from kit import Rig

from .test_carrying import MANY, Asker, a_turn, done, rig_with

KEY = b"xid"


def moving(rig: Rig) -> Transaction:
    """Return a transaction that moves all of ``in`` to ``out``."""
    rig.send_all("in", range(MANY))
    reader = rig.reader("in", 1000)
    transaction = Transaction("x")
    target = rig.broker.target(parse("out"))
    for delivery in reader.open:
        transaction.send(rig.message(delivery.body, "out"), target)
        transaction.settle(delivery.consumer, delivery.number)
    return transaction


def preparing(rig: Rig) -> Work:
    transaction = moving(rig)
    rig.broker.tick(rig.now, rig.wall)
    work = rig.broker.branches.prepare(transaction, KEY, "", Asker())
    assert work is not None
    return work


def ending(rig: Rig, how: str) -> Work:
    branches = rig.broker.branches
    rig.broker.tick(rig.now, rig.wall)
    work = branches.commit(KEY, Asker()) if how == "commit" else branches.roll_back(KEY, Asker())
    assert work is not None
    return work


def counts(rig: Rig) -> tuple[int, int]:
    """Return how many messages of each queue are there for readers, or at them."""
    queues = rig.broker.table.queues
    found = [int(queues[name].count - queues[name].leased) if name in queues else 0 for name in ("in", "out")]
    return found[0], found[1]


def left(how: str) -> tuple[int, int]:
    return (0, MANY) if how == "commit" else (MANY, 0)


@pytest.mark.parametrize("how", ["commit", "roll back"])
def test_a_large_branch_is_promised_and_ended_over_turns(how: str) -> None:
    rig = rig_with()
    work = preparing(rig)
    assert rig.broker.branches.prepared == {}
    rig.send("other", "x")
    assert rig.queue("other").count == 1
    done(rig, work)
    assert list(rig.broker.branches.prepared) == [KEY]
    work = ending(rig, how)
    a_turn(rig)
    assert not work.done
    rig.send("other", "y")
    assert rig.queue("other").count == 2
    done(rig, work)
    assert rig.broker.branches.prepared == {}
    assert counts(rig) == left(how)
    rig.restart("kill")
    assert counts(rig) == left(how)
    assert rig.journal.usage().messages == MANY + 2


@pytest.mark.parametrize("turns", range(0, 36, 4))
def test_a_crash_while_it_is_promised_leaves_all_of_the_promise_or_nothing(turns: int) -> None:
    rig = rig_with()
    work = preparing(rig)
    for _ in range(turns):
        a_turn(rig)
    complete = work.done
    rig.turn()
    rig.restart("kill")
    assert list(rig.broker.branches.prepared) == ([KEY] if complete else [])
    assert counts(rig) == ((0, 0) if complete else (MANY, 0))


@pytest.mark.parametrize("how", ["commit", "roll back"])
@pytest.mark.parametrize("turns", range(0, 36, 4))
@pytest.mark.parametrize("restarted", [False, True])
def test_a_crash_while_it_ends_leaves_the_promise_or_its_end(turns: int, how: str, restarted: bool) -> None:
    rig = rig_with()
    done(rig, preparing(rig))
    if restarted:
        rig.turn()
        rig.restart("kill")
        rig.broker.effort.stride, rig.broker.effort.units = 5, 10
    work = ending(rig, how)
    for _ in range(turns):
        a_turn(rig)
    complete = work.decided
    rig.turn()
    rig.restart("kill")
    assert list(rig.broker.branches.prepared) == ([] if complete else [KEY])
    assert counts(rig) == (left(how) if complete else (0, 0))


def test_another_session_cannot_end_what_is_being_ended() -> None:
    rig = rig_with()
    done(rig, preparing(rig))
    work = ending(rig, "commit")
    with pytest.raises(StorageError, match="being finished"):
        rig.broker.branches.roll_back(KEY)
    done(rig, work)
    assert counts(rig) == left("commit")


def test_the_reader_may_leave_while_it_is_promised() -> None:
    rig = rig_with()
    work = preparing(rig)
    a_turn(rig)
    rig.readers[0].close()
    done(rig, work)
    done(rig, ending(rig, "commit"))
    assert counts(rig) == left("commit")
    rig.turn()


def test_a_branch_that_outlived_a_restart_keeps_its_order_where_not_all_of_it_is_durable() -> None:
    rig = Rig(memory_limit=200 << 10)
    transaction = Transaction("x")
    target = rig.broker.target(parse("out"))
    bodies = [f"{number:02}" + "x" * 20_000 for number in range(30)]
    for number, body in enumerate(bodies):
        transaction.send(rig.message(body, "out", durable=number % 3 != 2), target)
    rig.broker.branches.prepare(transaction, KEY)
    rig.turn()
    rig.restart("kill")
    rig.broker.effort.stride = rig.broker.effort.units = 5  # it gets its numbers first, and its places in later turns
    done(rig, ending(rig, "commit"))
    assert rig.queue("out").backlog.paged_count > 0
    assert [body[:2] for body in rig.bodies("out")] == [body[:2] for body in bodies]


@pytest.mark.parametrize("how", ["commit", "roll back"])
@pytest.mark.parametrize("body", ["body-3", "sent-3"])
def test_a_record_that_rotted_is_a_dead_letter_and_the_branch_ends(how: str, body: str) -> None:
    rig = Rig()
    rig.send_all("in", [f"body-{number}" for number in range(6)])
    reader = rig.reader("in", 10)
    transaction = Transaction("x")
    for number, delivery in enumerate(reader.open):
        transaction.send(rig.message(f"sent-{number}", "out"), rig.broker.target(parse("out")))
        transaction.settle(delivery.consumer, delivery.number)
    rig.broker.branches.prepare(transaction, KEY, "", None)
    rig.turn()
    rig.restart("kill")
    rot(rig, body)
    branches = rig.broker.branches
    assert (branches.commit(KEY) if how == "commit" else branches.roll_back(KEY)) is None
    rig.wait(10)
    assert branches.prepared == {}
    kind, name = ("sent", "out") if how == "commit" else ("body", "in")
    expected = [f"{kind}-{number}" for number in range(6)]
    lost = body in expected
    assert rig.bodies(name) == [each for each in expected if each != body]
    rig.wait(10)
    letters = rig.drain("ActiveMQ.DLQ") if lost else []
    assert len(letters) == lost
    for letter in letters:
        assert "fails its checksum" in letter.message.rare.annotations[DEAD_CAUSE]


def test_a_branch_that_is_said_again_is_the_same_though_a_record_of_it_rotted() -> None:
    rig = Rig()

    def said(*, last: str) -> Transaction:
        transaction = Transaction("x")
        for number in (0, 1, 2):
            identity = last if number == 2 else f"id-{number}"
            message = rig.message(f"sent-{number}", "out", identity=identity)
            transaction.send(message, rig.broker.target(parse("out")))
        return transaction

    branches = rig.broker.branches
    branches.prepare(said(last="id-2"), KEY)
    rig.turn()
    rig.restart("kill")
    rot(rig, "sent-1")
    branches = rig.broker.branches
    with pytest.raises(TransactionError, match="with other work"):
        branches.prepare(said(last="another"), KEY)
    with pytest.raises(TransactionError, match="with other work"):
        branches.prepare(Transaction("x"), KEY)
    branches.prepare(said(last="id-2"), KEY)
    assert branches.commit(KEY) is None
    assert rig.bodies("out") == ["sent-0", "sent-2"]


def rot(rig: Rig, body: str) -> None:
    """Damage the records on disk that have ``body``."""
    assert rig.disk is not None
    for name in rig.disk.names():
        at = bytes(rig.disk.read(name, 0, rig.disk.size(name))).find(body.encode())
        if at >= 0:
            rig.disk.medium.damage(name, at)
