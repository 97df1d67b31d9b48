"""A message to very many queues: they take turns, and none misses it or sees anything before it."""

from __future__ import annotations

import pytest

from entrepot.model.address import MULTICAST
from kit import Reader, Rig

MANY = 40


def rig_with(stride: int = 5, units: int = 40) -> Rig:
    rig = Rig()
    rig.broker.effort.stride = stride
    rig.broker.effort.units = units
    return rig


def read_by(rig: Rig, count: int = MANY) -> list[Reader]:
    return [rig.reader("T", 100, routing=MULTICAST) for _ in range(count)]


def a_turn(rig: Rig) -> None:
    rig.now += 1000
    rig.broker.tick(rig.now, rig.wall)
    rig.broker.effort.go_on()
    rig.turn()


def sent(rig: Rig, body: str, to: str = "T", routing: int = MULTICAST, **fields: object) -> None:
    """Send as a session does: the turn ends, and what is left is left."""
    rig.broker.tick(rig.now, rig.wall)
    rig.send(to, body, routing=routing, **fields)


def test_others_have_their_turn_while_very_many_get_a_message() -> None:
    rig = rig_with()
    readers = read_by(rig)
    sent(rig, "one")
    had = sum(len(reader.bodies) for reader in readers)
    assert 0 < had < MANY
    sent(rig, "between", to="Q", routing=0)
    assert rig.queue("Q").count == 1
    assert sum(len(reader.bodies) for reader in readers) < MANY
    turns = 0
    while rig.broker.effort.waits():
        a_turn(rig)
        turns += 1
    assert turns >= 1
    assert all(reader.bodies == ["one"] for reader in readers)
    rig.turn()


@pytest.mark.parametrize("second", ["topic", "queue"])
def test_nothing_overtakes_what_a_queue_is_owed(second: str) -> None:
    rig = rig_with()
    readers = read_by(rig)
    sent(rig, "one")
    last = readers[-1].consumers[0].queue
    assert last is not None
    assert last.backlog.owed is not None
    if second == "topic":
        sent(rig, "two")
        rig.wait(10)
        assert all(reader.bodies == ["one", "two"] for reader in readers)
    else:
        sent(rig, "two", to=f"T::{last.name}")
        assert readers[-1].bodies == ["one", "two"]
        rig.wait(10)
        assert [reader.bodies for reader in readers] == [["one"]] * (MANY - 1) + [["one", "two"]]


def test_who_comes_meanwhile_gets_nothing_of_it_and_who_leaves_leaves_nothing() -> None:
    rig = rig_with()
    readers = read_by(rig)
    sent(rig, "one")
    late = rig.reader("T", 100, routing=MULTICAST)
    readers.pop().close()
    rig.wait(10)
    assert late.bodies == []
    assert all(reader.bodies == ["one"] for reader in readers)
    for reader in readers:
        reader.ack()
    rig.turn()
    assert rig.broker.memory.used == 0


@pytest.mark.parametrize("how", ["kill", "close"])
def test_what_is_durable_is_there_after_a_restart_in_the_middle(how: str) -> None:
    rig = rig_with()
    for number in range(MANY):
        rig.reader("T", 100, routing=MULTICAST, client_id=f"c{number}", durable_name="d").close()
    sent(rig, "one", durable=True)
    owing = [queue for queue in rig.broker.table.queues.values() if queue.backlog.owed is not None]
    assert 0 < len(owing) < MANY
    if how == "close":
        rig.broker.finish_work()
    rig.restart(how)
    assert sorted(int(queue.count) for queue in rig.broker.table.queues.values()) == [1] * MANY


def test_a_durable_queue_that_is_deleted_in_the_middle_leaves_no_record() -> None:
    rig = rig_with()
    for number in range(MANY):
        rig.reader("T", 100, routing=MULTICAST, client_id=f"c{number}", durable_name="d").close()
    sent(rig, "one", durable=True)
    for queue in list(rig.broker.table.queues.values()):
        assert rig.broker.queues.delete(queue, "test") == 1
    rig.wait(10)
    assert rig.journal.usage().messages == 0
    assert rig.broker.memory.used == 0


def retaining(count: int = MANY) -> Rig:
    rig = Rig({"t.#": {"recall": "LAST"}})
    for number in range(count):
        rig.send(f"t.{number}", str(number), routing=MULTICAST, durable=False)
    rig.broker.effort.stride, rig.broker.effort.units = 5, 60
    rig.broker.tick(rig.now, rig.wall)
    return rig


def test_who_is_told_much_of_before_is_told_it_in_turns_and_before_what_is_new() -> None:
    rig = retaining()
    reader = rig.reader("t.>", 1000, routing=MULTICAST, retroactive=True)
    assert 0 < len(reader.bodies) < MANY
    sent(rig, "new", to="t.0")
    rig.broker.tick(rig.now, rig.wall)
    sent(rig, "between", to="Q", routing=0)
    assert rig.queue("Q").count == 1
    assert "new" not in reader.bodies
    rig.wait(10)
    assert reader.bodies == [*(str(number) for number in range(MANY)), "new"]
    reader.ack()
    rig.turn()


def test_who_leaves_before_he_was_told_all_leaves_nothing() -> None:
    rig = retaining()
    reader = rig.reader("t.>", 1000, routing=MULTICAST, retroactive=True)
    sent(rig, "new", to="t.0")
    reader.close()
    rig.wait(10)
    assert rig.broker.effort.waits() is False
    assert not [name for name in rig.broker.table.queues if name.startswith("t.>")]


def test_a_message_to_many_does_not_end_what_is_told_of_before() -> None:
    rig = retaining()
    readers = [rig.reader("t.>", 1000, routing=MULTICAST) for _ in range(20)]
    late = rig.reader("t.>", 1000, routing=MULTICAST, retroactive=True)
    assert len(late.bodies) < MANY
    rig.broker.tick(rig.now, rig.wall)
    rig.send("t.0", "new", routing=MULTICAST, durable=False)
    rig.wait(10)
    assert late.bodies == [*(str(number) for number in range(MANY)), "new"]
    assert all(reader.bodies == ["new"] for reader in readers)


@pytest.mark.parametrize("durable", [False, True])
def test_what_a_queue_pages_under_a_number_of_its_own_stands_where_it_came(durable: bool) -> None:
    """What the first queues paged has their number; paged by a later one, it gets a number above those given since."""
    rig = Rig(**{"max-octets": "1"})
    rig.broker.effort.stride, rig.broker.effort.units = 5, 40
    names = [f"d{number}" for number in range(MANY)]
    for name in names:
        rig.reader("T", 0, routing=MULTICAST, client_id="c", durable_name=name).close()
    for body in ("first", "one"):  # the first stays in memory
        sent(rig, body, durable=False)
        if body == "first":
            rig.wait(10)
    owing = [queue for queue in rig.broker.table.queues.values() if queue.backlog.owed is not None]
    assert 0 < len(owing) < MANY
    last = owing[-1]
    sent(rig, "two", to=f"T::{last.name}", durable=durable)
    sent(rig, "three", to=f"T::{last.name}", durable=False)
    rig.wait(10)
    last.check()
    number = names[list(rig.broker.table.queues.values()).index(last)]
    reader = rig.reader("T", 100, routing=MULTICAST, client_id="c", durable_name=number)
    bodies = reader.bodies
    if durable:  # it may overtake what is not: that is the order of JMS
        bodies.remove("two")
        assert bodies == ["first", "one", "three"]
    else:
        assert bodies == ["first", "one", "two", "three"]


def test_what_is_told_of_before_keeps_its_order_where_it_must_wait_on_disk() -> None:
    """Half of it is on disk for another queue, and would get new numbers there."""
    rig = Rig({"t.#": {"recall": "LAST", "max-octets": "1000"}})
    rig.reader("t.even.>", 0, routing=MULTICAST)
    for number in range(MANY):
        topic = f"t.{'odd' if number % 2 else 'even'}.{number}"
        rig.send(topic, f"{number} " + "x" * 300, routing=MULTICAST, durable=False)
    rig.broker.effort.stride, rig.broker.effort.units = 5, 60
    rig.broker.tick(rig.now, rig.wall)
    reader = rig.reader("t.>", 0, routing=MULTICAST, retroactive=True)
    rig.wait(10)
    queue = reader.consumers[0].queue
    assert queue is not None
    queue.check()
    reader.window.messages = 1000
    reader.window.reopen()
    rig.wait(10)
    told = [int(body.split()[0]) for body in reader.bodies]
    assert len(told) > MANY // 2
    assert told == sorted(told)
