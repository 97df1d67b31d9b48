"""The end of the journal: batches in order, brackets, segments."""

from __future__ import annotations

import pytest

from entrepot.base.errors import Fault
from entrepot.journal.ports import Rider
from journals import World, message


class Watched(World):
    """Notes each batch that leaves, as (file, place, octets)."""

    def __init__(self, **options: int) -> None:
        super().__init__(**options)
        self.left: list[tuple[str, int, int]] = []
        write = self.disk.write

        def noted(name: str, offset: int, head: bytes, body: bytes) -> None:
            self.left.append((name, offset, len(head) + len(body)))
            write(name, offset, head, body)

        self.disk.write = noted  # type: ignore[method-assign]


def test_batches_leave_one_behind_the_other_and_are_numbered_without_a_gap() -> None:
    world = Watched()
    before = int(world.journal.tail.sequence)
    for number in range(1, 80):
        world.journal.store(message(number, 200), [1])
        world.journal.flush()
    assert world.journal.tail.sequence == before + len(world.left)
    ends: dict[str, int] = {}
    for name, offset, length in world.left:
        assert offset == ends.get(name, 0)
        ends[name] = offset + length
    assert len(ends) > 3, "a segment is ended when it is long enough"


def test_a_bracket_is_one_batch_however_long_it_is() -> None:
    world = Watched(batch_bytes=1000)
    world.journal.begin()
    world.journal.begin()
    for number in range(1, 20):
        world.journal.store(message(number, 300), [1])
    world.journal.end()
    assert world.left == []
    world.journal.end()
    assert len(world.left) == 1


def test_without_a_bracket_a_long_batch_leaves_within_the_turn() -> None:
    world = Watched(batch_bytes=1000)
    for number in range(1, 20):
        world.journal.store(message(number, 300), [1])
    assert len(world.left) > 3


def test_an_end_needs_a_beginning() -> None:
    with pytest.raises(Fault):
        World().journal.end()


def test_what_a_bracket_began_is_forgotten_by_a_stop() -> None:
    world = World()
    world.journal.store(message(1, 100), [1])
    world.journal.flush()
    world.journal.begin()
    world.journal.store(message(2, 100), [1])
    world.journal.close()
    world.kill()
    assert [number for _, number, _ in world.told.messages] == [1]


def test_a_rider_speaks_once_in_the_batch_that_it_is_about() -> None:
    world = World()

    class Speaking(Rider):
        boarded = 0

        def board(self) -> None:
            self.boarded += 1
            world.journal.tail.put(9, b"key", b"value")

    rider = Speaking()
    world.journal.tail.rider = rider
    world.journal.store(message(1, 100), [1])
    world.journal.tail.riding = True
    world.journal.flush()
    world.journal.store(message(2, 100), [1])
    world.journal.flush()
    assert rider.boarded == 1
    world.kill()
    assert (9, b"key", b"value") in world.told.documents
