"""Reading a segment a piece at a time: where the pieces meet, and where they end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from entrepot.journal.ports import JournalPort
from entrepot.journal.record import BATCH_HEAD, batch_head, batch_sequence
from entrepot.journal.window import WINDOW_BYTES, Window
from journals import World, message, octets_of

SEGMENT = 7


class OneFile(JournalPort):
    """A port with one file, which counts what is asked of it."""

    def __init__(self, octets: bytes) -> None:
        self.octets = octets
        self.reads: list[tuple[int, int]] = []

    def read(self, name: str, offset: int, length: int) -> bytes:
        self.reads.append((offset, length))
        return self.octets[offset : offset + length]


@given(st.binary(max_size=300), st.integers(1, 64), st.lists(st.tuples(st.integers(0, 320), st.integers(0, 80))))
def test_what_stands_at_a_place_is_what_stands_there_in_the_file(
    octets: bytes, width: int, asked: list[tuple[int, int]]
) -> None:
    window = Window(OneFile(octets), "x", len(octets), width)
    for at, length in asked:
        place = window.place(at, length)
        assert window.data[place : place + length] == octets[at : at + length]


def test_what_is_there_already_is_not_read_again_and_nothing_behind_the_end() -> None:
    port = OneFile(bytes(range(100)))
    window = Window(port, "x", 90, 40)
    for at in range(0, 90, 10):
        window.place(at, 10)
    assert port.reads == [(0, 40), (40, 40), (80, 10)]


def rows(sizes: list[int]) -> bytes:
    """Return batches with one record of so many octets each."""
    found = b""
    for number, size in enumerate(sizes, 1):
        scratch = World()
        scratch.journal.store(message(number, size), [1])
        scratch.journal.flush()
        scratch.timeline.run()
        name = scratch.disk.names()[0]
        data = scratch.disk.read(name, 0, scratch.disk.size(name))
        length = int.from_bytes(data[8:12], "big")
        body = data[BATCH_HEAD : BATCH_HEAD + length]
        found += batch_head(length, int.from_bytes(data[12:16], "big"), number, 0, SEGMENT, len(found)) + body
    return found


def test_a_batch_that_reaches_over_the_end_of_a_piece_is_read_whole() -> None:
    octets = rows([10, 400, 30, 2000, 5])
    window = Window(OneFile(octets), "x", len(octets), 128)
    at = 0
    for number in range(1, 6):
        place = window.batch(SEGMENT, at)
        assert place >= 0
        assert batch_sequence(window.data, place) == number
        at += BATCH_HEAD + int.from_bytes(window.data[place + 8 : place + 12], "big")
    assert at == len(octets)
    assert window.batch(SEGMENT, at) == -1


def test_a_batch_that_is_cut_or_spoilt_is_none() -> None:
    octets = rows([10, 400])
    second = octets.index(b"EJB1", 1)
    assert Window(OneFile(octets[:-1]), "x", len(octets) - 1, 64).batch(SEGMENT, second) == -1
    assert Window(OneFile(octets), "x", len(octets) - 1, 64).batch(SEGMENT, second) == -1
    spoilt = octets[:-5] + bytes([octets[-5] ^ 1]) + octets[-4:]
    assert Window(OneFile(spoilt), "x", len(spoilt), 64).batch(SEGMENT, second) == -1
    assert Window(OneFile(octets), "x", len(octets), 64).batch(SEGMENT, second) == 0
    assert Window(OneFile(octets), "x", len(octets), 64).batch(SEGMENT + 1, second) == -1


def test_a_segment_of_several_pieces_comes_back_whole() -> None:
    size = WINDOW_BYTES // 12
    world = World(segment_bytes=4 * WINDOW_BYTES)
    for number in range(1, 31):
        world.journal.store(message(number, size), [1])
        if number % 7 == 0:
            world.confirm()
    world.confirm()
    assert len(world.disk.names()) == 1
    world.journal.settle(3, 1)
    world.journal.redelivered(20, 1, 2)
    world.confirm()
    world.restart()
    assert [row[1] for row in world.told.rows] == [number for number in range(1, 31) if number != 3]
    assert [row[2:4] for row in world.told.rows] == [
        (number % 10, number * 7) for number in range(1, 31) if number != 3
    ]
    assert [row[1] for row in world.told.rows if row[4] == 2] == [20]
    for number in (1, 13, 30):
        assert world.journal.reading.load(number).raw == octets_of(number, size)
