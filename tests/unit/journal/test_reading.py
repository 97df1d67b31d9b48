"""Reading back: from disk, from the open batch, and across the border between them."""

from __future__ import annotations

import random

import pytest

from entrepot.base.errors import StorageError
from entrepot.journal.reading import Heads
from entrepot.model.message import OVERHEAD_BYTES
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


def test_heads_of_what_is_plain_and_no_further() -> None:
    world = World(segment_bytes=2048)
    for number in range(1, 41):
        made = message(number, 100 + number)
        if number == 33:
            made.need_rare().group = "g"
        world.journal.store(made, [7])
        if number % 10 == 0:
            world.journal.flush()
    heads = world.journal.reading.heads(list(range(2, 40)), 1 << 20)
    assert [size - OVERHEAD_BYTES for size in heads.sizes] == [100 + number for number in range(2, 33)]
    assert heads.priorities == [number % 10 for number in range(2, 33)]
    assert heads.expirations == [number * 7 for number in range(2, 33)]
    assert heads.octets == sum(heads.sizes)
    assert len(world.journal.reading.heads(list(range(2, 40)), 1000).sizes) == 2, (
        "with the one that reaches so many octets"
    )
    with pytest.raises(StorageError):
        world.journal.reading.heads(list(range(39, 44)), 1 << 20)


def test_heads_stop_at_a_record_that_is_damaged() -> None:
    world = World()
    for number in range(1, 4):
        world.journal.store(message(number), [7])
    world.confirm()
    index = world.journal.tail.index
    segment = index.find(2)
    assert segment is not None
    offset = int(segment.offsets[index.slot])
    for at in (
        9,
        18,
        21,
        22,
        23,
        30,
        52,
        53,
    ):  # flags, length, queues, durable, the name
        whole = world.disk.read(segment.name, offset, int(segment.lengths[index.slot]))
        damaged = whole[:at] + bytes([whole[at] ^ 0x81]) + whole[at + 1 :]
        assert not Heads().add(damaged, 8, len(damaged)), at
        assert Heads().add(whole, 8, len(whole))
        assert not Heads().add(whole[:at], 8, len(whole)), "it is cut off"
