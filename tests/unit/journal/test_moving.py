"""Messages that get new numbers and another queue by one record, over restarts, compactions and settlements."""

from __future__ import annotations

import pytest

from entrepot.base.errors import CorruptJournal, StorageError
from entrepot.journal import record
from entrepot.journal.inspect import records
from entrepot.journal.moves import Move
from entrepot.journal.moving import read_move, write_move
from journals import World, message

STAGED, QUEUE, OTHER = 7, 20, 21


def filled(count: int = 30) -> World:
    """Return a world with ``count`` messages that no queue has yet, in several segments."""
    world = World(segment_bytes=2048, segments_min=2, garbage_percent=20)
    for number in range(1, count + 1):
        world.journal.store(message(number), [STAGED])
        world.journal.flush()
    world.confirm()
    return world


def told(world: World) -> list[tuple[int, int]]:
    return [(number, queue) for queue, number, _ in world.told.messages]


def test_the_record_says_what_it_was_given() -> None:
    octets = write_move(Move(5, 3, QUEUE, 100, 0), STAGED)
    assert len(octets) == record.MOVE_OCTETS
    move, source = read_move(octets, 0, 9)
    assert (move.first, move.count, move.queue, move.fresh, move.since, source) == (5, 3, QUEUE, 100, 9, STAGED)


@pytest.mark.parametrize("how", ["restart", "kill", "crash"])
def test_messages_are_what_they_became(how: str) -> None:
    world = filled()
    assert world.journal.move(3, 20, STAGED, QUEUE, 101)
    world.journal.store(message(121), [OTHER])
    world.confirm()
    assert world.journal.reading.load(101).raw == message(3).raw
    assert [each.number for each in world.journal.reading.load_range([101, 105, 120, 121])] == [101, 105, 120, 121]
    with pytest.raises(StorageError):
        world.journal.reading.load(3)
    getattr(world, how)()
    left = [(number, STAGED) for number in [1, 2, *range(23, 31)]]
    assert told(world) == [*left, *[(number, QUEUE) for number in range(101, 121)], (121, OTHER)]
    assert world.report.number_highest == 121
    assert world.journal.reading.load(101).raw == message(3).raw


def test_what_is_not_stored_for_that_queue_alone_is_not_moved() -> None:
    world = filled(5)
    world.journal.store(message(6), [STAGED, QUEUE])
    assert not world.journal.move(3, 10, STAGED, QUEUE, 101), "they are not all there"
    assert not world.journal.move(6, 1, STAGED, QUEUE, 101), "it has a queue"
    assert not world.journal.move(3, 2, OTHER, QUEUE, 101), "they are not there"
    assert world.journal.move(1, 2, STAGED, QUEUE, 101)
    assert not world.journal.move(1, 1, STAGED, QUEUE, 103), "it is moved"
    assert not world.journal.move(101, 1, QUEUE, OTHER, 103), "it is moved"
    assert sum("MOVE" in line.text for line in records(world.disk)) <= 1


@pytest.mark.parametrize("kept", [0, 7, 19])
def test_one_that_stays_is_copied_as_what_it_is_and_the_record_goes(kept: int) -> None:
    world = filled()
    world.journal.move(3, 20, STAGED, QUEUE, 101)
    for number in [1, 2, *range(23, 31)]:
        world.journal.settle(number, STAGED)
    for at in range(20):
        if at != kept:
            world.journal.settle(101 + at, QUEUE)
    for turn in range(60):
        world.journal.store(message(200 + turn), [OTHER])
        world.journal.settle(200 + turn, OTHER)
        world.confirm()
        world.journal.compact(1 << 20)
        world.settle_down()
        world.journal.check()
    assert not world.journal.tail.index.moves.rows
    assert not any("MOVE" in line.text for line in records(world.disk))
    world.crash()
    assert told(world) == [(101 + kept, QUEUE)]
    assert world.journal.reading.load(101 + kept).raw == message(3 + kept).raw


def test_a_bracket_that_does_not_get_to_the_disk_moves_nothing() -> None:
    world = filled(5)
    world.journal.begin()
    world.journal.move(1, 5, STAGED, QUEUE, 101)
    world.journal.put(9, b"k", b"published")
    world.crash()
    assert told(world) == [(number, STAGED) for number in range(1, 6)]
    assert world.told.documents == []


def test_an_older_build_refuses_the_journal_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    from entrepot.journal import recovery

    if not hasattr(recovery.Recovery.run, "__code__"):
        pytest.skip("native code does not see a replaced constant")
    world = filled(1)
    monkeypatch.setattr(recovery, "FORMAT", 3)
    with pytest.raises(CorruptJournal, match="format 4; this build reads formats 1 to 3") as refused:
        world.restart()
    assert "the version of entrepot that wrote it" in refused.value.remedy
