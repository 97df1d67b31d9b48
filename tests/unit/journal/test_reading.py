"""Reading back: from disk, from the open batch, and across the border between them."""

from __future__ import annotations

import random

import pytest

from entrepot.base.errors import StorageError
from journals import World, message, octets_of


def test_a_bracket_is_read_while_it_is_open_and_stays_whole() -> None:
    world = World(segment_bytes=1 << 20)
    world.journal.store(message(1, 300), [1])
    world.confirm()
    world.journal.begin()
    for number in range(2, 200):
        world.journal.store(message(number, 300), [1])
        assert world.journal.reading.load(number).raw == octets_of(number, 300)
    some = random.Random(7).sample(range(1, 200), 50)
    assert [each.number for each in world.journal.reading.load_range(some)] == some
    assert world.journal.tail.sequence == 1, "a read has handed over half of a bracket"
    world.journal.end()
    world.confirm()
    world.crash()
    assert world.report.messages == 199
    assert [each.raw for each in world.journal.reading.load_range(list(range(1, 200)))] == [
        octets_of(number, 300) for number in range(1, 200)
    ]


def test_one_read_goes_across_the_end_of_what_was_handed_over() -> None:
    world = World(segment_bytes=1 << 20)
    world.journal.store(message(1, 300), [1])
    world.journal.flush()
    world.journal.begin()
    world.journal.store(message(2, 300), [1])
    assert [each.raw for each in world.journal.reading.load_range([1, 2])] == [octets_of(1, 300), octets_of(2, 300)]
    world.journal.end()


def test_without_a_bracket_a_read_hands_the_batch_over() -> None:
    world = World()
    world.journal.store(message(1, 300), [1])
    assert world.journal.reading.load(1).raw == octets_of(1, 300)
    assert world.journal.tail.batch.empty()


def test_what_is_settled_cannot_be_read() -> None:
    world = World()
    world.journal.store(message(1, 300), [1])
    world.journal.settle(1, 1)
    with pytest.raises(StorageError, match="message 1 is not in the journal"):
        world.journal.reading.load(1)
    with pytest.raises(StorageError, match="message 1 is not in the journal"):
        world.journal.reading.load_range([1])


def test_enough_octets_end_a_range_early() -> None:
    world = World(segment_bytes=1 << 20)
    for number in range(1, 11):
        world.journal.store(message(number, 1000), [1])
    assert [each.number for each in world.journal.reading.load_range(list(range(1, 11)), 2500)] == [1, 2, 3]


def test_on_disk_is_what_a_sync_has_covered() -> None:
    world = World()
    reading = world.journal.reading
    world.journal.store(message(1, 300), [1])
    assert not reading.on_disk(1), "it is in the open batch"
    world.journal.flush()
    assert not reading.on_disk(1), "it was handed over, nobody asked for a sync"
    world.journal.confirm(world.waiter, b"1")
    world.journal.flush()
    world.journal.store(message(2, 300), [1])
    world.journal.flush()
    assert not reading.on_disk(1), "a sync is under way"
    world.timeline.run()
    assert world.waiter.tokens == [b"1"]
    assert reading.on_disk(1)
    assert not reading.on_disk(2), "it came while the sync was under way"
    for number in range(3, 40):  # over the border of a segment
        world.journal.store(message(number, 300), [1])
        world.journal.flush()
    assert len(world.segments()) > 2
    assert not any(reading.on_disk(number) for number in range(2, 40))
    world.confirm()
    assert all(reading.on_disk(number) for number in range(1, 40))
    world.crash()
    assert all(world.journal.reading.on_disk(number) for number in range(1, 40))


def test_what_need_not_stay_is_not_waited_for() -> None:
    world = World()
    world.journal.page(message(1, 300, durable=False), [1])
    assert world.journal.reading.on_disk(1)
    assert world.journal.reading.on_disk(99), "the journal never had it"
