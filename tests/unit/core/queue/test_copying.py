"""A long message for many readers: its copies take turns, and wait while peers leave too much unread."""

from __future__ import annotations

import pytest

from entrepot.base.environment import MILLISECOND
from entrepot.core.effort import OCTETS_SHIFT, Effort, Rest
from entrepot.core.queue.copying import LONG_OCTETS, copied
from entrepot.core.room import PATIENCE, UNREAD_SHARE, Room
from entrepot.model.message import Message
from kit import Reader, Rig

READERS = 60
LONG = "x" * (2 * LONG_OCTETS)


def topic(rig: Rig, *, tracked: bool = True) -> list[Reader]:
    readers = [rig.reader("topic://T", tracked=tracked) for _ in range(READERS)]
    rig.broker.effort.begin()
    return readers


def served(readers: list[Reader]) -> int:
    return sum(bool(reader.deliveries) for reader in readers)


@pytest.mark.parametrize("tracked", [True, False])
def test_no_turn_makes_more_copies_than_it_may(tracked: bool) -> None:
    rig = Rig()
    readers = topic(rig, tracked=tracked)
    one = len(LONG) >> OCTETS_SHIFT
    rig.send("topic://T", LONG)
    effort = rig.broker.effort
    turns = 0
    before = served(readers)
    assert 0 < before <= effort.units // one + 1
    while effort.waits():
        effort.go_on()
        turns += 1
        assert served(readers) - before <= effort.units // one + 1
        before = served(readers)
    assert turns > 1
    rig.send("topic://T", "short")
    assert [reader.bodies for reader in readers] == [[LONG, "short"]] * READERS


def test_none_is_made_while_peers_leave_too_much_unread() -> None:
    rig = Rig()
    readers = topic(rig)
    room = rig.broker.room
    room.left(room.most + 1)
    rig.send("topic://T", LONG)
    rig.send("topic://T", "short")
    effort = rig.broker.effort
    effort.go_on()
    assert not effort.waits(), "whoever waits for room asks for no turns"
    assert served(readers) == 0
    readers.pop().close()
    room.left(room.most)
    while effort.waits():
        effort.go_on()
    assert [reader.bodies for reader in readers] == [[LONG, "short"]] * (READERS - 1)
    assert rig.broker.memory.used == readers[0].deliveries[0].message.size + readers[0].deliveries[1].message.size


def test_peers_that_never_read_do_not_keep_others_from_their_messages() -> None:
    rig = Rig()
    readers = topic(rig)[:5]
    room = rig.broker.room
    room.left(room.most + 1)
    rig.send("topic://T", LONG)
    rig.broker.effort.go_on()
    seen = []
    for _ in range(4):
        seen.append(sum(served([reader]) for reader in rig.readers))
        rig.wait(PATIENCE // MILLISECOND)
    assert seen == [0, 1, 2, 3], "one each second, however many wait"
    room.left(room.most)
    while rig.broker.effort.waits():
        rig.broker.effort.go_on()
    assert served(readers) == len(readers)
    rig.wait(READERS * PATIENCE // MILLISECOND)
    room.left(room.most + 1)
    assert not room.take(), "what was left of their patience is forgotten when there is room"


def test_what_waits_for_room_goes_back_where_its_reader_leaves() -> None:
    rig = Rig()
    room = rig.broker.room
    room.left(room.most + 1)
    reader = rig.reader("queue://Q")
    rig.send("queue://Q", LONG)
    reader.close()
    rig.broker.effort.go_on()
    room.left(0)
    while rig.broker.effort.waits():
        rig.broker.effort.go_on()
    assert reader.bodies == []
    other = rig.reader("queue://Q")
    assert [(one.body, one.deliveries) for one in other.deliveries] == [(LONG, 0)]


def test_what_is_compressed_counts_as_what_it_may_become_for_those_who_get_it_inflated() -> None:
    rig = Rig()
    reader = rig.reader("queue://Q")
    consumer = reader.consumers[0]
    message: Message = rig.message("x" * 10_000, "Q")
    assert copied(message, consumer.speaks) == len(message.raw)
    message.need_rare().deflated = True
    assert copied(message, consumer.speaks) == len(message.raw) * 1032
    consumer.speaks = message.language.code
    assert copied(message, consumer.speaks) == len(message.raw)


class Waiter(Rest):
    def resume(self) -> None:
        raise AssertionError("nobody has turns here")


def test_whoever_waits_for_room_asks_for_a_turn_once_there_is_some() -> None:
    effort = Effort()
    room = Room(effort, 100 * UNREAD_SHARE)
    waiter = Waiter()
    room.left(101)
    assert room.wait(waiter, 5) == 5 + PATIENCE
    room.left(150)
    assert not effort.waits()
    room.left(100)
    assert effort.rests == [waiter]
    room.left(101)
    room.left(0)
    assert effort.rests == [waiter]


def test_who_waits_later_does_not_wait_for_the_patience_of_those_who_had_room_before() -> None:
    room = Room(Effort(), 100)
    room.left(101)
    for _ in range(1_000):
        room.wait(Waiter(), 5)
    room.left(0)
    room.left(101)
    assert room.wait(Waiter(), 7) == 7 + PATIENCE
