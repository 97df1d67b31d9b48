"""JournalCore: confirmation after sync, atomic batches, reclaiming, compaction, failure, recovery."""

from __future__ import annotations

import pytest

from entrepot.base.errors import CorruptJournal, Fault, StorageError, StorageFull
from entrepot.journal.index import DEAD, Segment, segment_name, segment_range
from entrepot.journal.log import JournalCore, Waiter
from entrepot.journal.memory import MemoryJournal
from journals import Confirmed, Told, World, message, octets_of


def stored(world: World, count: int, *, queue: int = 1, size: int = 100, first: int = 1) -> None:
    for number in range(first, first + count):
        world.journal.store(message(number, size), [queue])


def test_a_confirmation_comes_after_the_sync_and_not_before() -> None:
    world = World()
    stored(world, 1)
    world.journal.confirm(world.waiter, b"a")
    assert world.waiter.tokens == []
    assert world.journal.flush()
    assert world.waiter.tokens == []
    world.timeline.run()
    assert world.waiter.tokens == [b"a"]
    assert world.disk.syncs == 1


def test_a_confirmation_of_what_is_on_disk_comes_at_once() -> None:
    world = World()
    stored(world, 1)
    world.confirm(b"a")
    world.journal.confirm(world.waiter, b"b")
    assert world.waiter.tokens == [b"a", b"b"]


def test_all_that_arrives_during_a_sync_shares_the_next_one() -> None:
    world = World()
    for number in range(1, 51):
        world.journal.store(message(number), [1])
        world.journal.confirm(world.waiter, str(number).encode())
        world.journal.flush()
    world.timeline.run()
    assert len(world.waiter.tokens) == 50
    assert world.disk.syncs == 2


def test_nobody_waits_and_nothing_is_synced_until_much_is_at_stake() -> None:
    world = World(unsynced_bytes_max=10_000)
    stored(world, 20)
    assert not world.journal.flush()
    stored(world, 100, first=21)
    assert world.journal.flush()
    world.timeline.run()
    assert world.disk.syncs == 1


def test_a_message_comes_back_as_it_went_in() -> None:
    world = World()
    sent = message(5, 300)
    sent.redelivered = True
    sent.escaped = True
    rare = sent.need_rare()
    rare.group = "g"
    rare.duplicate_id = b"\x00id"
    rare.deliver_at = 123456
    rare.annotations["dlq"] = "reason"
    world.journal.store(sent, [9, 4_000_000_000])
    loaded = [world.journal.reading.load(5)]
    world.confirm()
    loaded.append(world.journal.reading.load(5))
    world.crash()
    loaded.append(world.journal.reading.load(5))
    for each in loaded:
        assert (each.number, each.raw, each.address) == (5, sent.raw, "orders.2")
        assert (each.priority, each.expiration, each.timestamp) == (5, 35, 55)
        assert each.stored
        assert each.durable
        assert each.redelivered
        assert each.escaped
        assert each.rare is not None
        assert (each.rare.group, each.rare.duplicate_id) == ("g", b"\x00id")
        assert each.rare.annotations == {"dlq": "reason"}
    assert world.told.rows == [
        (9, 5, 5, 35, 0, sent.size, 123456),
        (4_000_000_000, 5, 5, 35, 0, sent.size, 123456),
    ]


def test_paged_messages_are_readable_until_the_broker_stops() -> None:
    world = World()
    stored(world, 3, first=10)
    world.journal.page(message(2, 500, durable=False), [1])  # older than what was stored: a stray
    world.journal.page(message(2, 500, durable=False), [2])  # a second queue pages the same message
    assert world.journal.reading.load(2).raw == octets_of(2, 500)
    assert world.journal.reading.load(11).raw == octets_of(11, 100)
    world.journal.settle(2, 1)
    assert world.journal.reading.load(2).number == 2
    world.journal.settle(2, 2)
    with pytest.raises(StorageError):
        world.journal.reading.load(2)
    world.journal.page(message(3, 500, durable=False), [1])
    world.confirm()
    world.restart()
    assert [number for _, number, _ in world.told.messages] == [10, 11, 12]
    with pytest.raises(StorageError):
        world.journal.reading.load(3)


def test_settling_is_idempotent_and_minds_the_queue() -> None:
    world = World()
    world.journal.store(message(1), [1, 2])
    world.journal.store(message(2), [1])
    for _ in range(2):
        world.journal.settle(1, 1)
    world.journal.settle(2, 7)
    world.journal.settle(99, 1)
    world.confirm()
    world.crash()
    assert world.told.messages == [(2, 1, 0), (1, 2, 0)]


def test_a_bracket_survives_as_a_whole_or_not_at_all() -> None:
    world = World()
    stored(world, 1)
    world.confirm()
    journal = world.journal
    journal.begin()
    journal.settle(1, 1)
    assert journal.flush()  # a turn of the loop inside a bracket hands nothing over
    journal.begin()
    journal.store(message(2, 5000), [2])
    journal.end()
    journal.put(3, b"tx", b"committed")
    assert journal.reading.load(2).raw == octets_of(2, 5000)
    journal.end()
    with pytest.raises(Fault):
        journal.end()
    world.crash()  # nothing of it was handed over
    assert world.told.messages == [(1, 1, 0)]
    assert world.told.documents == []


def test_documents_come_back_in_the_order_of_their_last_put() -> None:
    world = World()
    for key, value in ((b"a", b"1"), (b"b", b"2"), (b"c", b"3"), (b"a", b"4")):
        world.journal.put(7, key, value)
    world.journal.delete(7, b"b")
    world.journal.delete(7, b"unknown")
    world.journal.put(8, b"a", b"other kind")
    world.confirm()
    world.crash()
    assert world.told.documents == [(7, b"c", b"3"), (7, b"a", b"4"), (8, b"a", b"other kind")]
    with pytest.raises(Fault):
        world.journal.put(0, b"x", b"the journal's own kind")


def test_dead_segments_are_dropped_at_once() -> None:
    world = World()
    for number in range(1, 400):
        stored(world, 1, first=number, size=400)
        world.journal.settle(number, 1)
        world.journal.confirm(world.waiter, b"")
        world.settle_down()
    assert len(world.segments()) <= 3
    assert world.disk.used() < 5 * world.segment_bytes


def test_one_stuck_message_does_not_pin_the_disk() -> None:
    """Traffic of 100 times a segment behind one message that nobody acknowledges."""
    world = World(segment_bytes=16 * 1024)
    stored(world, 1)
    highest = 0
    backlog = 60  # settled late, so that settlements always refer to older segments
    for number in range(2, 4000):
        stored(world, 1, first=number, size=400)
        if number > backlog + 1:
            world.journal.settle(number - backlog, 1)
        if number % 10 == 0:
            world.journal.confirm(world.waiter, b"")
            world.settle_down()
            while world.journal.compact(8000):
                pass
            world.settle_down()
            highest = max(highest, world.disk.used())
    assert 95 * world.segment_bytes <= 4000 * 400
    assert highest <= 12 * world.segment_bytes
    world.crash()
    numbers = [number for _, number, _ in world.told.messages]
    assert numbers[0] == 1
    assert len(numbers) in range(backlog, backlog + 20)
    assert world.journal.reading.load(1).raw == octets_of(1, 100)


def test_many_short_runs_leave_few_segments() -> None:
    world = World(segment_bytes=64 * 1024)
    for number in range(1, 41):
        stored(world, 1, first=number)
        world.restart()
    assert len(world.segments()) > 30
    world.compact()
    assert len(world.segments()) <= 10
    world.restart()
    assert [number for _, number, _ in world.told.messages] == list(range(1, 41))


def test_a_confirmation_between_hand_over_and_sync_waits() -> None:
    world = World()
    stored(world, 1)
    assert not world.journal.flush()
    world.journal.confirm(world.waiter, b"a")
    assert world.waiter.tokens == []
    assert world.journal.flush()
    world.timeline.run()
    assert world.waiter.tokens == [b"a"]


def test_compaction_keeps_the_settlements_that_an_older_segment_needs() -> None:
    """Segment 1 is nearly all alive and stays; the ones behind it are garbage, and settle some of segment 1."""
    world = World(garbage_percent=30, segments_min=2, batch_bytes=1000)
    stored(world, 30)
    first = world.segments()[0]
    world.journal.put(1, b"a", b"old")
    world.confirm()
    world.journal.delete(1, b"a")
    for number in (3, 5, 6, 7):
        world.journal.settle(number, 1)
    for number in range(100, 160):
        world.journal.store(message(number, 400), [2])
        if number % 10:
            world.journal.settle(number, 2)
        if number % 5 == 0:
            world.confirm()
    world.confirm()
    world.compact()
    assert first in world.segments(), "the first segment was compacted: this test tests nothing"
    assert any(not name.endswith("-00000000000000.seg") for name in world.segments()), "nothing was compacted"
    for _ in range(2):
        world.crash()
        numbers = [number for _, number, _ in world.told.messages]
        assert numbers == [n for n in range(1, 31) if n not in (3, 5, 6, 7)] + list(range(100, 160, 10))
        assert world.told.documents == []


def test_compaction_keeps_what_was_settled_meanwhile_settled() -> None:
    world = World(garbage_percent=10, segments_min=2, batch_bytes=1000)
    stored(world, 200)
    for number in range(1, 200, 2):
        world.journal.settle(number, 1)
    world.confirm()
    assert world.journal.compact(1)
    for number in range(2, 150):
        world.journal.settle(number, 1)
    world.compact()
    world.confirm()
    world.crash()
    assert [number for _, number, _ in world.told.messages] == list(range(150, 201, 2))


@pytest.mark.parametrize("steps", range(12))
def test_a_crash_at_every_step_of_a_compaction(steps: int) -> None:
    world = World(steps + 1, garbage_percent=10, segments_min=2)
    stored(world, 120)
    for number in range(2, 121, 2):
        world.journal.settle(number, 1)
    world.journal.put(1, b"k", b"v")
    world.journal.redelivered(1, 1, 3)
    world.confirm()
    for _ in range(steps):
        world.journal.compact(1500)
        world.journal.flush()
        world.timeline.step()
    world.crash()
    assert world.told.messages == [(1, number, 3 if number == 1 else 0) for number in range(1, 121, 2)]
    assert world.told.documents == [(1, b"k", b"v")]
    world.compact()
    world.restart()
    assert len(world.told.messages) == 60


def test_a_message_larger_than_a_segment() -> None:
    world = World()
    stored(world, 2, size=20_000)
    stored(world, 1, size=10, first=3)
    world.confirm()
    world.crash()
    assert world.journal.reading.load(2).raw == octets_of(2, 20_000)
    assert len(world.told.messages) == 3


def test_load_range_reads_neighbours_together() -> None:
    world = World(segment_bytes=1 << 20)
    stored(world, 500)
    world.confirm()
    reads: list[int] = []
    read = world.disk.read

    def counted(name: str, offset: int, length: int) -> bytes:
        reads.append(length)
        return read(name, offset, length)

    world.disk.read = counted  # type: ignore[method-assign]
    numbers = [*range(100, 200), *range(300, 350), 7]
    assert [each.number for each in world.journal.reading.load_range(numbers)] == numbers
    assert len(reads) <= 3


def test_a_torn_tail_is_cut_and_reported() -> None:
    for seed in range(30):
        world = World(seed)
        stored(world, 5)
        world.confirm()
        stored(world, 5, first=6, size=700)
        world.journal.flush()
        world.crash()
        found = [number for _, number, _ in world.told.messages]
        assert found in (list(range(1, 6)), list(range(1, 11)))
        if len(found) == 5 and world.report.torn_bytes:
            assert world.report.torn_segment == world.segments()[0]
            assert "cut" in world.report.describe()
            return
    raise AssertionError("no seed tears a write")


def test_any_damaged_octet_before_the_last_batch_is_found() -> None:
    world = World(segment_bytes=4096)
    for number in range(1, 30):
        world.journal.store(message(number, 150), [1, 2] if number % 5 == 0 else [1])
        if number % 7 == 0:
            world.journal.settle(number - 3, 1)
        world.journal.put(1, b"key", b"value")
        world.confirm()
    world.journal.close()
    world.disk.stop()
    assert len(world.segments()) >= 2
    for position, name in enumerate(world.segments()):
        length = world.disk.size(name)
        end = length if position < len(world.segments()) - 1 else length - 41  # the end mark of a clean stop
        for offset in range(0, end, 1):
            world.disk.medium.damage(name, offset, 1 << offset % 8)
            journal = JournalCore(world.disk, world.journal.options)
            with pytest.raises(CorruptJournal) as caught:
                journal.recover(Told())
            assert name[:9] in str(caught.value)
            world.disk.medium.damage(name, offset, 1 << offset % 8)
    world.journal = world._open()
    assert world.report.torn_bytes == 0


def test_a_missing_segment_is_found() -> None:
    world = World(batch_bytes=1000)
    stored(world, 100)
    world.confirm()
    world.restart()
    victim = world.segments()[1]
    assert len(world.segments()) > 3
    world.disk.drop(victim)
    world.disk.stop()
    with pytest.raises(CorruptJournal, match="missing"):
        world._open()


def test_a_journal_inside_a_body_is_not_taken_for_one() -> None:
    """A copy of a longer journal, sent as a message, is torn: its claims are about another place."""
    longer = World(segment_bytes=1 << 20)
    for number in range(1, 21):
        stored(longer, 1, first=number)
        longer.confirm()
    world = World(segment_bytes=1 << 20)
    stored(world, 5)
    world.confirm()
    sent = message(50)
    sent.raw = longer.disk.read(longer.segments()[0], 0, 1 << 20)
    world.journal.store(sent, [1])
    name = world.segments()[0]
    start = world.disk.size(name)
    world.journal.flush()
    world.disk.stop()
    world.disk.medium.damage(name, start)  # the header of the batch that holds the copy
    world.journal = world._open()
    assert len(world.told.messages) == 5
    assert world.report.torn_offset == start


def test_a_failed_sync_is_never_believed_again() -> None:
    world = World()
    stored(world, 1)
    world.confirm(b"before")
    stored(world, 1, first=2)
    world.journal.confirm(world.waiter, b"during")
    world.disk.fail_syncs = True
    world.settle_down()
    assert world.waiter.tokens == [b"before"]
    assert [token for token, _ in world.waiter.failures] == [b"during"]
    world.disk.fail_syncs = False
    with pytest.raises(StorageError):
        stored(world, 1, first=3)
    with pytest.raises(StorageError):
        world.journal.put(1, b"a", b"b")
    world.journal.settle(1, 1)
    world.journal.confirm(world.waiter, b"after")
    world.settle_down()
    assert world.waiter.tokens == [b"before"]
    assert [token for token, _ in world.waiter.failures] == [b"during", b"after"]
    assert world.journal.reading.load(2).number == 2
    world.journal.check()


def test_a_failed_write_is_final_too() -> None:
    world = World()
    world.disk.fail_writes = True
    stored(world, 1)
    world.confirm(b"a")
    assert [token for token, _ in world.waiter.failures] == [b"a"]
    assert isinstance(world.journal.refusal(), StorageError)


def test_a_full_disk_refuses_stores_lets_consumers_free_space_and_recovers() -> None:
    world = World(reserve=6000)
    world.disk.room.capacity = 40_000
    number = 0
    while world.journal.refusal() is None:
        number += 1
        stored(world, 1, first=number, size=900)
        world.confirm(str(number).encode())
        assert number < 1000
    number += 1
    with pytest.raises(StorageFull):
        stored(world, 1, first=number)
    confirmed = len(world.waiter.tokens)
    assert confirmed == number - 1
    assert world.waiter.failures == []
    for each in range(1, number):
        world.journal.settle(each, 1)
    world.confirm(b"settled")
    assert world.waiter.tokens[-1] == b"settled"
    world.settle_down()
    assert world.journal.refusal() is None
    stored(world, 1, first=2000)
    world.confirm(b"again")
    assert world.waiter.tokens[-1] == b"again"
    world.crash()
    assert [each for _, each, _ in world.told.messages] == [2000]


def test_a_disk_without_reserve_confirms_nothing_until_there_is_space() -> None:
    world = World(reserve=0)
    world.disk.room.capacity = 10_000
    stored(world, 5)
    world.confirm(b"fits")
    stored(world, 20, first=6, size=900)
    world.confirm(b"too much")
    assert world.waiter.tokens == [b"fits"]
    assert [token for token, _ in world.waiter.failures] == [b"too much"]
    assert isinstance(world.journal.refusal(), StorageFull)
    assert world.journal.reading.load(25).raw == octets_of(25, 900)
    world.disk.room.make()
    world.settle_down()
    assert world.journal.refusal() is None
    world.confirm(b"now")
    assert world.waiter.tokens[-1] == b"now"
    world.crash()
    assert len(world.told.messages) == 25


def test_on_a_full_disk_a_few_segments_that_are_nearly_dead_make_room() -> None:
    """Too few segments to be looked at otherwise, and each is held by one old message."""
    world = World(reserve=2000)
    number = 0
    while len(world.segments()) < 4:
        stored(world, 10, first=number + 1, size=200)
        world.confirm()
        number += 10
    world.disk.room.capacity = world.disk.used() + world.disk.room.reserve
    old = list(range(1, number + 1, 10))
    for each in range(1, number + 1):
        if each not in old:
            world.journal.settle(each, 1)
    world.confirm(b"settled")
    assert isinstance(world.journal.refusal(), StorageFull)
    assert len(world.segments()) >= 4, "the settlements alone freed something: this test tests nothing"
    world.compact()
    world.settle_down()
    assert world.journal.refusal() is None
    stored(world, 1, first=5000)
    world.confirm(b"again")
    assert world.waiter.tokens[-1] == b"again"
    world.crash()
    assert [each for _, each, _ in world.told.messages] == [*old, 5000]


def test_a_compaction_that_does_not_fit_is_given_up() -> None:
    world = World(garbage_percent=10, segments_min=2, batch_bytes=1000)
    stored(world, 200)
    for number in range(1, 100):
        world.journal.settle(number, 1)
    world.confirm()
    world.journal.compact(1)
    world.disk.room.capacity = world.disk.used() + 100
    while world.journal.compact(4000):
        pass
    world.settle_down()
    assert world.journal.refusal() is None
    world.disk.room.make()
    world.compact()
    world.crash()
    assert len(world.told.messages) == 101


def test_a_large_body_lives_as_long_as_its_message() -> None:
    world = World()
    blobs = world.journal.overflow
    blobs.create(77)
    for piece in (b"a" * 1000, b"b" * 1000):
        blobs.write(77, piece)
    assert blobs.seal(77) == 2000
    sent = message(77)
    rare = sent.need_rare()
    rare.large_id, rare.large_length, rare.large_checked = 77, 2000, True
    world.journal.store(sent, [1])
    blobs.release(77)
    world.confirm()
    blobs.create(78)  # an upload that never ends
    blobs.write(78, b"orphan")
    world.journal.flush()
    world.kill()
    assert world.report.blobs_orphaned == 1
    assert world.report.blob_highest == 78
    assert world.journal.overflow.whole(world.journal.reading.load(77)) == b"a" * 1000 + b"b" * 1000
    assert world.disk.blobs() == [77]
    world.journal.store(message(80), [1])
    world.confirm()
    world.journal.settle(77, 1)
    world.kill()  # the settlement is in no batch yet
    assert world.disk.blobs() == [77]
    world.journal.settle(77, 1)
    world.confirm()
    assert world.disk.blobs() == []
    world.kill()  # recovery sees the message and its settlement
    world.journal.settle(80, 1)
    world.confirm()
    assert world.disk.blobs() == []
    with pytest.raises(Fault):
        world.journal.overflow.release(77)


def test_two_starts_in_a_row_change_nothing() -> None:
    world = World()
    stored(world, 50)
    world.confirm()
    world.crash()
    before = world.told.messages
    world.crash()
    world.kill()
    assert world.told.messages == before


def test_recover_twice_is_a_fault() -> None:
    world = World()
    with pytest.raises(Fault):
        world.journal.recover(Told())


def test_usage_counts() -> None:
    world = World()
    stored(world, 10)
    world.journal.put(1, b"a", b"b")
    world.confirm()
    usage = world.journal.usage()
    assert (usage.messages, usage.documents, usage.segments, usage.unsynced) == (10, 1, 1, 0)
    assert usage.disk == world.disk.used()
    assert 1000 < usage.live < usage.disk


def test_an_ephemeral_journal_confirms_at_the_flush_and_refuses_to_page() -> None:
    journal = MemoryJournal()
    waiter = Confirmed()
    assert isinstance(waiter, Waiter)
    journal.recover(Told())
    journal.store(message(1), [1])
    journal.confirm(waiter, b"a")
    assert waiter.tokens == []
    journal.flush()
    assert waiter.tokens == [b"a"]
    with pytest.raises(StorageFull):
        journal.page(message(2), [1])
    journal.overflow.create(1)
    journal.overflow.write(1, b"abc")
    journal.overflow.write(1, b"def")
    journal.overflow.seal(1)
    sent = message(3)
    rare = sent.need_rare()
    rare.large_id, rare.large_length, rare.large_checked = 1, 6, True
    assert journal.overflow.whole(sent) == b"abcdef"
    assert journal.overflow.flaw(sent) == ""
    journal.close()


def test_names_of_segments() -> None:
    assert segment_range(segment_name(3, 14, 15, 92)) == (3, 14, 15, 92)
    for name in ("LOCK", "1-2-3-4.seg.tmp", "a-b-c-d.seg", "1-2-3.seg", "1-2-3-" + "9" * 20 + ".seg", ".seg"):
        assert segment_range(name) == (0, 0, 0, 0)


def test_a_segment_finds_strays_before_and_after_it_is_tidied() -> None:
    segment = Segment(1, 1, 1)
    order = [5, 6, 2, 9, 3, 7, 12]
    for slot, number in enumerate(order):
        segment.add(number, slot * 10, 10, number, DEAD if number == 9 else 1)
    for _ in range(2):
        for number in order:
            slot = int(segment.slot_of(number))
            assert segment.queue_at(slot) == number
            assert segment.number_at(slot) == number
            assert segment.offsets[slot] == order.index(number) * 10
        for number in (1, 4, 8, 10, 11, 13):
            assert segment.slot_of(number) == -1
        segment.tidy()
