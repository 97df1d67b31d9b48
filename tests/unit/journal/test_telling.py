"""In which order a journal tells what lives in it."""

from __future__ import annotations

from librt.strings import BytesWriter

from entrepot.journal.batch import Batch
from entrepot.journal.index import LIVE, Index, Segment
from entrepot.journal.moves import Move
from entrepot.journal.moving import carry_out
from entrepot.journal.record import RECORD_HEAD, write_message
from entrepot.journal.telling import Telling
from journals import Told, World, message


def segment(index: Index, identity: int, world: World, numbers: list[int]) -> None:
    """Add a segment with the records of ``numbers``, in that order."""
    made = Segment(identity, identity, identity)
    batch = Batch()
    for number in numbers:
        writer = BytesWriter()
        write_message(writer, message(number), [20], False)
        offset = batch.record(writer.getvalue())
        made.add(number, offset, RECORD_HEAD + len(writer.getvalue()), 20, LIVE)
        index.messages += 1
    octets = b"\0" * 32 + batch.take()
    world.disk.create(made.name, 0)
    world.disk.write(made.name, 0, b"", octets)
    made.end = len(octets)
    index.open(made)
    index.seal(made, identity)


def told(index: Index, world: World) -> list[int]:
    found = Told()
    Telling(world.disk, index).tell(found)
    return [number for _, number, _ in found.messages]


def test_numbers_rise_where_a_segment_behind_the_next_begins_lower() -> None:
    """The first was compacted, and has numbers that its messages got later."""
    world, index = World(), Index()
    segment(index, 101, world, [308, 312])
    segment(index, 102, world, [313, 330])
    segment(index, 103, world, [289, 300])
    segment(index, 104, world, [301, 339])
    segment(index, 105, world, [340])
    assert told(index, world) == [289, 300, 301, 308, 312, 313, 330, 339, 340]


def test_what_was_moved_is_told_where_its_new_number_belongs() -> None:
    world, index = World(), Index()
    segment(index, 101, world, [1, 2, 3, 4])
    segment(index, 102, world, [5, 9, 20])
    segment(index, 103, world, [30])
    carry_out(index, Move(2, 2, 21, 10, 1), 20)
    carry_out(index, Move(9, 1, 21, 40, 1), 20)
    assert told(index, world) == [1, 4, 5, 10, 11, 20, 30, 40]
