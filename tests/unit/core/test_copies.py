"""Copies of other brokers: what is known, over crashes at whatever point, and what is forgotten, and of whom."""

from __future__ import annotations

import random

import pytest

from entrepot.core.copies import Copies, mark_of
from entrepot.core.records import KIND_COPIES
from entrepot.journal.memory import MemoryJournal
from journals import World, message

SENDERS = ("\tID:a", "\tID:b", "\tID:c")


def rebuilt(world: World, kept: int) -> Copies:
    copies = Copies(world.journal, kept)
    copies.recovered({key: value for kind, key, value in world.told.documents if kind == KIND_COPIES})
    copies.check()
    return copies


def take(world: World, copies: Copies, sender: str, number: int, mark: int) -> None:
    world.journal.begin()
    world.journal.store(message(number), [1])
    copies.note(sender, mark, True)
    world.journal.end()


def test_a_mark_tells_queue_message_and_copy_apart() -> None:
    made = [
        mark_of(*one)
        for one in (
            ("q", "ID:1", 1, 5),
            ("r", "ID:1", 1, 5),
            ("q", "ID:2", 1, 5),
            ("q", "ID:1", 2, 5),
            ("q", "ID:1", 1, 6),
        )
    ]
    assert len(set(made)) == 5
    assert mark_of("q", "ID:1", 1, 5) == made[0] > 0
    assert mark_of("q", "\ud800", 1, 0)


@pytest.mark.parametrize("seed", range(40))
def test_what_was_stored_is_known_and_nothing_else_is(seed: int) -> None:
    """The sender's mark of a message is its number, so both can be compared after a crash between any two batches."""
    lots = random.Random(seed)
    world = World(seed, segment_bytes=2048, batch_bytes=lots.choice((300, 1 << 20)))
    copies = rebuilt(world, 1 << 16)
    number = 0
    marks: dict[int, str] = {}
    for _ in range(8):
        for _ in range(lots.randrange(60)):
            number += 1
            marks[number] = lots.choice(SENDERS)
            take(world, copies, marks[number], number, number)
            if lots.random() < 0.2:
                world.journal.flush()
            if lots.random() < 0.1:
                world.settle_down()
            if lots.random() < 0.1:
                world.journal.page(message(number + 100_000, durable=False), [2])
        if lots.random() < 0.3:
            world.compact()
        lots.choice((world.crash, world.kill, world.restart))()
        copies = rebuilt(world, 1 << 16)
        alive = {number for queue, number, _ in world.told.messages if queue == 1}
        assert {each for each, sender in marks.items() if copies.seen(sender, each)} == alive
    assert not any(copies.seen(sender, each) for each, who in marks.items() for sender in SENDERS if sender != who)


def test_who_sends_most_is_forgotten_first_here_and_on_disk() -> None:
    world = World(segment_bytes=1 << 16)
    copies = rebuilt(world, 100)
    for number in range(1, 11):
        take(world, copies, "few", number, number)
    for number in range(11, 1011):
        take(world, copies, "many", number, number)
        if number % 7 == 0:
            world.confirm()
    copies.check()
    assert all(copies.seen("few", number) for number in range(1, 11))
    assert copies.seen("many", 1010)
    assert not copies.seen("many", 11)
    assert copies.count <= 100
    world.confirm()
    world.crash()
    again = rebuilt(world, 100)
    assert {name: sender.known for name, sender in again.senders.items()} == {
        name: sender.known for name, sender in copies.senders.items()
    }
    take(world, again, "few", 2000, 2000)
    assert again.seen("few", 2000)


def test_a_hundred_senders_are_remembered() -> None:
    world = World()
    copies = rebuilt(world, 1000)
    for number in range(1, 151):
        take(world, copies, f"sender {number}", number, number)
    copies.check()
    assert len(copies.senders) == 100
    assert copies.seen("sender 150", 150)
    assert not copies.seen("sender 50", 50)


def test_messages_that_are_not_kept_are_known_until_the_broker_stops() -> None:
    world = World()
    copies = rebuilt(world, 1000)
    copies.note("a", 1, False)
    assert copies.seen("a", 1)
    world.confirm()
    world.kill()
    assert not rebuilt(world, 1000).seen("a", 1)


def test_an_ephemeral_broker_keeps_no_list_of_what_it_would_write() -> None:
    copies = Copies(MemoryJournal(), 1000)
    for mark in range(1, 5000):
        copies.note("a", mark, True)
    copies.check()
    assert not copies._dirty
    assert copies.seen("a", 4999)


def test_one_record_a_batch_and_eight_octets_a_message() -> None:
    world = World(segment_bytes=1 << 20)
    copies = rebuilt(world, 1 << 16)
    for number in range(1, 81):
        take(world, copies, "a", number, number)
    world.confirm()
    assert sum(1 for sender in copies.senders.values() for _ in sender.chunks) == 1
    world.crash()
    ((kind, key, value),) = [one for one in world.told.documents if one[0] == KIND_COPIES]
    assert (kind, len(key), len(value)) == (KIND_COPIES, 8 + 1, 80 * 8)
