"""Large transactions are carried out over turns: all of one or nothing, after whatever happens between two portions."""

from __future__ import annotations

import pytest

from entrepot.base.errors import AddressFull, StorageFull
from entrepot.core.effort import Rest
from entrepot.core.scheduling.timed import SCHEDULED_DELAY
from entrepot.core.transactions.carrying import Work
from entrepot.core.transactions.transaction import State, Transaction
from entrepot.journal.log import Waiter
from entrepot.model.address import parse
from kit import Rig

MANY = 50


class Asker(Rest):
    """Who asked for a commit: counts how often it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.went_on = 0

    def resume(self) -> None:
        self.went_on += 1


class Told(Waiter):
    def __init__(self) -> None:
        self.tokens: list[bytes] = []

    def stored(self, token: bytes) -> None:
        self.tokens.append(token)


def rig_with(stride: int = 5, units: int = 10, **options: object) -> Rig:
    rig = Rig(**options)  # type: ignore[arg-type]
    rig.broker.effort.stride = stride
    rig.broker.effort.units = units
    return rig


def filled(rig: Rig, count: int = MANY, *, to: str = "Q", name: str = "t", **fields: object) -> Transaction:
    transaction = Transaction(name)
    target = rig.broker.target(parse(to))
    for number in range(count):
        transaction.send(rig.message(f"{name}{number}", target.name, **fields), target)
    return transaction


def begun(rig: Rig, transaction: Transaction) -> tuple[Work, Asker]:
    asker = Asker()
    rig.broker.tick(rig.now, rig.wall)
    work = rig.broker.transactions.commit(transaction, asker)
    assert work is not None
    assert not work.done
    return work, asker


def a_turn(rig: Rig) -> None:
    """Have the turn that the world gives for what earlier ones left."""
    rig.now += 1000
    rig.broker.tick(rig.now, rig.wall)
    rig.broker.effort.go_on()
    rig.turn()


def done(rig: Rig, work: Work) -> None:
    for _ in range(1000):
        if work.done:
            return
        a_turn(rig)
    raise AssertionError("it takes too many turns")


def bodies(name: str = "t", count: int = MANY) -> list[str]:
    return [f"{name}{number}" for number in range(count)]


def test_a_large_commit_takes_turns_and_who_asked_goes_on_when_it_is_done() -> None:
    rig = rig_with()
    reader = rig.reader("Q", 1000)
    work, asker = begun(rig, filled(rig))
    turns = 1
    while not work.decided:
        a_turn(rig)
        turns += 1
        assert reader.bodies == [] or work.decided  # nobody sees half of what a crash may take back
    assert turns > 8
    while not work.done:
        a_turn(rig)
        turns += 1
    assert turns > 10
    assert reader.bodies == bodies()
    assert asker.went_on == 0
    a_turn(rig)
    assert asker.went_on == 1
    assert work.transaction.state is State.COMMITTED
    assert work.error is None


def scheduled(rig: Rig) -> Transaction:
    """Return a large transaction whose messages are due a millisecond after they were sent."""
    transaction = Transaction("t")
    target = rig.broker.target(parse("out"))
    for number in range(MANY):
        message = rig.message(f"t{number}", target.name)
        message.annotate(SCHEDULED_DELAY, "1")
        transaction.send(message, target)
    return transaction


@pytest.mark.parametrize("turns", [3, 6, 9])
def test_what_it_schedules_is_not_sent_before_its_end_and_not_at_all_when_it_has_none(turns: int) -> None:
    rig = rig_with()
    work, _ = begun(rig, scheduled(rig))
    for _ in range(turns):
        rig.now += 5_000_000
        rig.wall += 5
        rig.broker.tick(rig.now, rig.wall)
        rig.broker.advance()
        rig.broker.effort.go_on()
        rig.turn()
    assert not work.decided
    assert rig.bodies("out") == []
    rig.restart("kill")
    rig.wait(1000)
    assert rig.bodies("out") == []


def test_what_an_operator_delivers_of_it_before_its_end_is_not_there_without_it() -> None:
    rig = rig_with()
    work, _ = begun(rig, scheduled(rig))
    a_turn(rig)
    a_turn(rig)
    number = min(rig.broker.scheduled.schedules)
    assert rig.broker.journal.parts.has(number)
    rig.broker.scheduled.fire(number, int(rig.wall))
    rig.turn()
    assert not work.decided
    rig.restart("kill")
    rig.wait(1000)
    assert rig.bodies("out") == []


def test_what_it_schedules_is_sent_after_its_end() -> None:
    rig = rig_with()
    work, _ = begun(rig, scheduled(rig))
    done(rig, work)
    rig.wait(1000)
    assert rig.bodies("out") == bodies()


def test_a_small_one_and_one_for_which_nobody_can_wait_are_done_at_once() -> None:
    rig = rig_with()
    asker = Asker()
    assert rig.broker.transactions.commit(filled(rig, 5), asker) is None
    assert rig.broker.transactions.commit(filled(rig, MANY)) is None
    rig.turn()
    assert len(rig.bodies("Q")) == MANY + 5
    assert asker.went_on == 0


def test_one_that_fits_into_a_turn_is_done_though_it_is_large() -> None:
    rig = rig_with(stride=5, units=10_000)
    asker = Asker()
    assert rig.broker.transactions.commit(filled(rig), asker) is None
    rig.turn()
    assert rig.bodies("Q") == bodies()
    assert rig.broker.effort.waits() is False


@pytest.mark.parametrize("how", ["kill", "crash"])
@pytest.mark.parametrize("turns", range(0, 34, 2))
def test_after_a_crash_between_any_two_portions_all_of_it_is_there_or_nothing(turns: int, how: str) -> None:
    rig = rig_with()
    rig.send_all("in", range(MANY))
    reader = rig.reader("in", 1000)
    transaction = filled(rig, to="out")
    for delivery in reader.open:
        transaction.settle(delivery.consumer, delivery.number)
    told = Told()
    rig.journal.confirm(told, b"before")
    rig.turn()
    work, _ = begun(rig, transaction)
    for _ in range(turns):
        a_turn(rig)
    complete = work.decided
    if complete:
        rig.journal.confirm(told, b"commit")
        rig.turn()
    rig.restart(how)
    kept = len(rig.bodies("out")) if "out" in rig.broker.table.queues else 0
    left = len(rig.bodies("in")) if "in" in rig.broker.table.queues else 0
    assert (kept, left) == ((MANY, 0) if complete else (0, MANY))
    assert told.tokens == ([b"before", b"commit"] if complete else [b"before"])


def test_both_fates_of_a_crash_are_tried() -> None:
    """The turns of the test before reach from the first portion to beyond the last."""
    rig = rig_with()
    rig.send_all("in", range(MANY))
    reader = rig.reader("in", 1000)
    transaction = filled(rig, to="out")
    for delivery in reader.open:
        transaction.settle(delivery.consumer, delivery.number)
    work, _ = begun(rig, transaction)
    for _ in range(32):
        a_turn(rig)
    assert work.done


def test_what_others_send_meanwhile_is_confirmed_before_it_and_stays_without_it() -> None:
    rig = rig_with()
    work, _ = begun(rig, filled(rig))
    a_turn(rig)
    told = Told()
    for number in range(5):
        rig.send("Q", f"between{number}")
        rig.journal.confirm(told, b"%d" % number)
        rig.turn()
        assert told.tokens == [b"%d" % at for at in range(number + 1)]
        a_turn(rig)
        assert not work.decided
    rig.restart("crash")
    rig.send("Q", "after")
    rig.restart("kill")
    assert rig.bodies("Q") == [f"between{number}" for number in range(5)] + ["after"]


def test_what_others_send_meanwhile_goes_to_a_reader_at_once() -> None:
    rig = rig_with()
    reader = rig.reader("Q", 1000)
    work, _ = begun(rig, filled(rig))
    a_turn(rig)
    rig.send("Q", "between")
    assert reader.bodies == ["between"]
    rig.turn()
    done(rig, work)
    assert reader.bodies == ["between", *bodies()]
    assert rig.journal.usage().messages == MANY + 1


def test_it_does_not_run_ahead_of_the_disk() -> None:
    """Who has something stored beside it waits for little more than his own: an upper bound in octets, in each sync."""
    rig = rig_with(units=1)
    rig.journal.options.batch_bytes = 512
    work, asker = begun(rig, filled(rig, 400))
    told = Told()
    rig.send("P", "before")
    rig.journal.confirm(told, b"before")
    rig.journal.flush()  # a sync is under way from here on
    most = 0
    for _ in range(200):
        rig.broker.tick(rig.now, rig.wall)
        rig.broker.effort.go_on()
        rig.journal.flush()
        most = max(most, int(rig.journal.tail.unsynced_bytes))
    assert not work.done
    assert not work.decided
    assert rig.broker.effort.waits() is False  # it waits, and does not look again and again
    assert most < 4 * 512
    done(rig, work)
    a_turn(rig)
    assert asker.went_on == 1
    rig.restart("kill")
    assert rig.bodies("Q") == bodies(count=400)


@pytest.mark.parametrize("to", ["Q", "Q,P"])
def test_a_disk_that_is_short_of_space_in_the_middle_refuses_others_and_not_the_rest(to: str) -> None:
    """Several destinations are asked for room before the first one is stored: of a commit that has begun, in vain."""
    rig = rig_with()
    work, _ = begun(rig, filled(rig, to=to))
    a_turn(rig)
    rig.journal.tight(StorageFull("no space"))
    with pytest.raises(StorageFull):
        rig.send("Q", "other")
    done(rig, work)
    assert work.error is None
    rig.journal.relieved()
    rig.turn()
    rig.restart("kill")
    assert rig.bodies("Q") == bodies()


def test_a_disk_that_is_full_before_it_begins_refuses_the_whole() -> None:
    rig = rig_with()
    transaction = filled(rig)
    rig.journal.tight(StorageFull("no space"))
    with pytest.raises(Exception, match="no space"):
        rig.broker.transactions.commit(transaction, Asker())
    assert transaction.state is State.ROLLED_BACK
    rig.turn()
    assert rig.bodies("Q") == []


def test_what_is_refused_when_it_is_looked_at_later_is_refused_as_a_whole() -> None:
    rig = rig_with()
    rig.policies.add("full", {"max-size-bytes": "1", "address-full-policy": "FAIL"})
    rig.send("full", "x")
    transaction = filled(rig)
    target = rig.broker.target(parse("full"))
    transaction.send(rig.message("last", "full"), target)
    work, asker = begun(rig, transaction)
    done(rig, work)
    assert isinstance(work.error, AddressFull)
    assert transaction.state is State.ROLLED_BACK
    assert rig.bodies("Q") == []
    a_turn(rig)
    assert asker.went_on == 1
    rig.send("Q", "after")
    rig.restart("kill")
    assert rig.bodies("Q") == ["after"]


def test_a_queue_that_is_deleted_in_the_middle_goes_with_all_of_it() -> None:
    rig = rig_with()
    work, asker = begun(rig, filled(rig))
    a_turn(rig)
    assert not work.decided
    assert rig.broker.queues.delete(rig.queue("Q"), "test") == MANY
    assert work.done
    rig.turn()
    rig.wait(10)
    assert asker.went_on == 1
    assert "Q" not in rig.broker.table.queues
    rig.send("other")
    rig.restart("kill")
    assert "Q" not in rig.broker.table.queues


def test_a_reader_that_leaves_in_the_middle_has_acknowledged_what_it_acknowledged() -> None:
    rig = rig_with()
    rig.send_all("in", range(MANY))
    reader = rig.reader("in", 1000)
    transaction = filled(rig, to="out")
    for delivery in reader.open[: MANY - 3]:
        transaction.settle(delivery.consumer, delivery.number)
    work, _ = begun(rig, transaction)
    while rig.queue("out").count < MANY:
        a_turn(rig)
    reader.close()
    done(rig, work)
    assert rig.bodies("in") == ["47", "48", "49"]
    assert rig.bodies("out") == bodies()


def test_large_ones_are_carried_out_one_after_the_other_and_handed_over_between() -> None:
    rig = rig_with()
    works = [begun(rig, filled(rig, name=name))[0] for name in ("a", "b", "c")]
    told = Told()
    for at, work in enumerate(works):
        assert [one.done for one in works] == [True] * at + [False] * (3 - at)
        while not work.done:
            a_turn(rig)
        rig.journal.confirm(told, bytes([at]))
        rig.turn()
        assert told.tokens == [bytes([each]) for each in range(at + 1)]  # the next has not begun: it is on disk
    assert rig.bodies("Q") == [*bodies("a"), *bodies("b"), *bodies("c")]


def test_a_small_one_is_done_while_a_large_one_is_under_way() -> None:
    rig = rig_with()
    work, _ = begun(rig, filled(rig))
    a_turn(rig)
    assert rig.broker.transactions.commit(filled(rig, 3, to="R", name="s"), Asker()) is None
    rig.turn()
    assert rig.bodies("R") == ["s0", "s1", "s2"]
    done(rig, work)


def test_a_broker_that_stops_completes_it() -> None:
    rig = rig_with()
    work, _ = begun(rig, filled(rig))
    later, _ = begun(rig, filled(rig, name="b"))
    a_turn(rig)
    rig.broker.finish_work()
    assert work.done
    assert later.done
    rig.restart()
    assert rig.bodies("Q") == [*bodies(), *bodies("b")]


def test_a_journal_that_is_closed_in_the_middle_writes_nothing_of_it() -> None:
    rig = rig_with()
    begun(rig, filled(rig))
    a_turn(rig)
    rig.restart("close")
    assert "Q" not in rig.broker.table.queues or rig.bodies("Q") == []


def test_a_rollback_lets_go_of_many_messages_in_steps() -> None:
    rig = rig_with(units=2)
    transaction = filled(rig)
    rig.broker.tick(rig.now, rig.wall)
    rig.broker.transactions.roll_back(transaction)
    assert len(rig.broker.effort.rests) == 1
    for _ in range(20):
        a_turn(rig)
    assert rig.broker.effort.waits() is False
    assert rig.bodies("Q") == []


def test_without_a_disk_it_is_the_same() -> None:
    rig = rig_with(disk=False)
    reader = rig.reader("Q", 1000)
    work, _ = begun(rig, filled(rig, durable=False))
    done(rig, work)
    assert reader.bodies == bodies()
