"""What a replica lacks is read away from the loop, while files get other names, shrink and go."""

from __future__ import annotations

import pytest

from entrepot.ha.catchup import PROBING_MAX, CatchUp, Piece, Range
from entrepot.ha.stream import PIECE, PROBE, WRITE

SCRATCH = "1.tmp"
NAME = "1.seg"


def _reading(name: str = NAME, theirs: int = 0) -> tuple[CatchUp, Piece]:
    catch_up = CatchUp()
    catch_up.ranges[name] = Range(0, 8, theirs)
    piece = catch_up.next({name: 8})
    assert piece is not None
    assert not catch_up.done()
    return catch_up, piece


def test_what_is_read_is_sent_and_then_nothing_is_left() -> None:
    catch_up, piece = _reading()
    assert catch_up.left() == 8
    frame = catch_up.read(piece, b"12345678")
    assert frame is not None
    assert (frame.kind, frame.name, frame.first, frame.octets) == (WRITE, NAME, 0, b"12345678")
    assert catch_up.next({NAME: 8}) is None
    assert catch_up.done()
    assert catch_up.left() == 0


def test_what_is_written_while_it_is_read_is_still_to_come() -> None:
    catch_up, piece = _reading()
    catch_up.wrote(NAME, 4, 4)
    catch_up.read(piece, b"1234----")
    again = catch_up.next({NAME: 8})
    assert again is not None
    assert again.at <= 4
    assert again.at + again.length == 8


def test_what_is_read_follows_its_file_to_a_new_name() -> None:
    catch_up, piece = _reading(SCRATCH)
    catch_up.renamed(SCRATCH, NAME)
    frame = catch_up.read(piece, b"12345678")
    assert frame is not None
    assert frame.name == NAME


def test_what_was_not_found_under_its_old_name_is_read_again() -> None:
    catch_up, piece = _reading(SCRATCH)
    assert catch_up.missed(piece, no_file=True)  # the disk has renamed it, and will say so
    piece = catch_up.next({SCRATCH: 8}) or pytest.fail("nothing is read")
    catch_up.renamed(SCRATCH, NAME)
    assert catch_up.missed(piece, no_file=True)
    again = catch_up.next({NAME: 8})
    assert again is not None
    assert (again.name, again.at, again.length) == (NAME, 0, 8)


@pytest.mark.parametrize("no_file", [True, False])
def test_a_file_that_cannot_be_read_is_not_passed_over(no_file: bool) -> None:
    catch_up, piece = _reading()
    assert not catch_up.missed(piece, no_file=no_file)


def test_what_is_read_of_a_file_that_goes_is_not_sent() -> None:
    catch_up, piece = _reading(theirs=8)
    assert catch_up.probing == 1
    catch_up.dropped(NAME)
    assert catch_up.read(piece, b"12345678") is None
    assert catch_up.done()


def test_what_is_behind_the_end_of_a_file_that_was_trimmed_is_not_sent() -> None:
    catch_up, piece = _reading()
    catch_up.trimmed(NAME, 3)
    frame = catch_up.read(piece, b"12345678")
    assert frame is not None
    assert frame.octets == b"123"


def test_a_replica_is_asked_about_so_much_at_a_time() -> None:
    """All of a store was read in one turn, as questions are short: each of them stands for 256 KiB."""
    catch_up = CatchUp()
    size = PIECE * PROBING_MAX * 3
    catch_up.ranges[NAME] = Range(0, size, size)
    asked = 0
    while (piece := catch_up.next({NAME: size})) is not None:
        frame = catch_up.read(piece, b"x" * piece.length)
        assert frame is not None
        assert frame.kind == PROBE
        asked += 1
    assert asked == PROBING_MAX
    catch_up.answered(NAME, 0, PIECE, lacks=False)
    assert catch_up.next({NAME: size}) is not None


def test_what_is_in_doubt_follows_its_file_to_a_new_name() -> None:
    catch_up, piece = _reading(SCRATCH, theirs=8)
    catch_up.read(piece, b"12345678")
    catch_up.answered(SCRATCH, 0, 8, lacks=True)
    assert catch_up.to_examine({SCRATCH: 8}) == [SCRATCH]
    catch_up.renamed(SCRATCH, NAME)
    catch_up.examined(SCRATCH, [])
    assert not catch_up.done()
    assert catch_up.to_examine({NAME: 8}) == [
        NAME
    ]  # what was looked at had another name: it may be another file by now
    catch_up.examined(NAME, [])
    assert catch_up.left() == 8
    assert catch_up.to_examine({NAME: 8}) == []
    again = catch_up.next({NAME: 8})
    assert again is not None
    assert (again.name, again.at, again.length, again.probed) == (NAME, 0, 8, False)


def test_a_file_that_only_the_replica_knows_is_not_looked_at() -> None:
    catch_up, piece = _reading(theirs=8)
    catch_up.read(piece, b"12345678")
    catch_up.answered("../" + NAME, 0, 8, lacks=True)
    assert catch_up.to_examine({NAME: 8}) == []
    assert catch_up.next({NAME: 8}) is None
    assert catch_up.done()
