"""Large bodies on disk: stretches with checksums, what damage does, and bodies of older journals."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.base.errors import BodyLost
from entrepot.journal.inspect import Damage, damages
from entrepot.journal.overflow import CHECK, STRETCH, Overflow, stored_length, wrong_stretches
from entrepot.model.message import Message
from journals import World, message

OLDER = Path(__file__).parent / "older"
SIZES = [1, 1000, STRETCH - 1, STRETCH, STRETCH + 1, 2 * STRETCH, 2 * STRETCH + 77]


def body(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def stored(world: World, number: int, octets: bytes, *, piece: int = 0) -> Message:
    """Store a message with a large body, in pieces of so many octets."""
    overflow = world.journal.overflow
    overflow.create(number)
    step = piece or max(len(octets), 1)
    for at in range(0, len(octets), step):
        overflow.write(number, octets[at : at + step])
    assert overflow.seal(number) == len(octets)
    sent = message(number)
    rare = sent.need_rare()
    rare.large_id, rare.large_length, rare.large_checked = number, len(octets), True
    world.journal.store(sent, [1])
    overflow.release(number)
    world.confirm()
    return sent


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("piece", [0, 1000, STRETCH, STRETCH - 1])
def test_a_body_comes_back_however_it_came(size: int, piece: int) -> None:
    world = World()
    octets = body(size)
    stored(world, 7, octets, piece=piece)
    assert world.disk.blob_size(7) == stored_length(size, True)
    world.crash()
    assert world.report.bodies_lost == []
    assert world.journal.overflow.whole(world.journal.reading.load(7)) == octets


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2 * STRETCH + 76 + 3 * CHECK), st.integers(1, 255))
def test_no_flipped_bit_is_ever_passed_on(place: int, mask: int) -> None:
    world = World()
    octets = body(2 * STRETCH + 77)
    sent = stored(world, 7, octets)
    world.disk.medium.damage("7.blob", place, mask)
    overflow = world.journal.overflow
    stretch = place // (STRETCH + CHECK)
    for at in range(0, len(octets), STRETCH):
        if at == stretch * STRETCH:
            with pytest.raises(BodyLost, match=f"octets {at} to .* fail their checksum"):
                overflow.read(sent, at)
        else:
            assert overflow.read(sent, at) == octets[at : at + STRETCH]
    assert "fail their checksum" in overflow.flaw(sent), "it is remembered"


@pytest.mark.parametrize("length", [0, 1, STRETCH, STRETCH + CHECK, 2 * STRETCH + 80])
def test_a_body_that_lost_its_end_is_known_at_once_and_at_the_start(length: int) -> None:
    world = World()
    sent = stored(world, 7, body(2 * STRETCH + 77))
    world.disk.medium.shorten("7.blob", length)
    assert "its file ends after" in world.journal.overflow.flaw(sent)
    with pytest.raises(BodyLost):
        Overflow(world.disk).whole(sent)
    world.crash()
    (flaw,) = world.report.bodies_lost
    assert f"7.blob is damaged: its file ends after {length} octets" in flaw
    assert "1 large bodies are lost" in world.report.describe()


def test_the_file_of_another_body_is_not_taken_for_this_one() -> None:
    world = World()
    sent = stored(world, 7, body(1000))
    stored(world, 8, body(1000)[::-1])
    world.disk.medium.durable["7.blob"] = world.disk.medium.durable["8.blob"]
    world.crash()
    with pytest.raises(BodyLost, match="fail their checksum"):
        world.journal.overflow.whole(sent)


def test_two_stretches_that_changed_places_are_not_taken_for_right() -> None:
    world = World()
    sent = stored(world, 7, body(2 * STRETCH))
    octets = bytes(world.disk.medium.durable["7.blob"])
    half = STRETCH + CHECK
    world.disk.medium.durable["7.blob"] = bytearray(octets[half:] + octets[:half])
    world.crash()
    with pytest.raises(BodyLost, match="fail their checksum"):
        world.journal.overflow.whole(sent)


def test_what_is_left_of_a_damaged_body_is_set_aside_and_the_next_start_leaves_it() -> None:
    world = World()
    stored(world, 7, body(1000))
    world.disk.medium.damage("7.blob", 5)
    with pytest.raises(BodyLost):
        world.journal.overflow.whole(world.journal.reading.load(7))
    world.journal.settle(7, 1)
    world.confirm()
    assert world.disk.blobs() == []
    world.restart()
    assert [name for name in world.disk.medium.view if name.endswith(".damaged")] == ["7.damaged"]


def test_a_missing_body() -> None:
    world = World()
    stored(world, 7, body(1000))
    world.disk.medium.lose("7.blob")
    world.crash()
    (flaw,) = world.report.bodies_lost
    assert flaw == "the body of 1000 octets in 7.blob is damaged: its file is missing"
    assert world.journal.reading.flaw(7) == flaw
    world.journal.settle(7, 1)
    world.confirm()
    world.crash()
    assert world.report.bodies_lost == []


def test_a_journal_of_before_there_were_checksums_is_read(tmp_path: Path) -> None:
    from entrepot.io.disk import Disk
    from entrepot.journal.log import JournalCore, JournalOptions
    from journals import Told

    shutil.copytree(OLDER, tmp_path, dirs_exist_ok=True)
    disk = Disk(tmp_path, lambda completion: None)
    journal = JournalCore(disk, JournalOptions(node="n"))
    told = Told()
    report = journal.recover(told)
    assert report.bodies_lost == []
    found = {number: journal.reading.load(number) for _, number, _ in told.messages}
    large = [each for each in found.values() if each.rare is not None and each.rare.large_id]
    assert len(found) == 3
    assert [journal.overflow.whole(each) for each in large] == [bytes(range(256)) * 20] * 2
    assert not any(each.need_rare().large_checked for each in large)
    journal.close()
    (tmp_path / "blobs" / "1.blob").write_bytes(b"short")
    disk = Disk(tmp_path, lambda completion: None)
    report = JournalCore(disk, JournalOptions(node="n")).recover(Told())
    assert len(report.bodies_lost) == 1
    disk.close()


class Pieces:
    """The file of body 7; ``most``: the longest piece of it that was read."""

    def __init__(self, octets: bytes) -> None:
        self.octets = octets
        self.most = 0

    def read(self, offset: int, length: int) -> bytes:
        self.most = max(self.most, length)
        return self.octets[offset : offset + length]

    def wrong(self) -> list[int]:
        return wrong_stretches(7, self.read, len(self.octets))

    def damages(self, *, growing: bool = False) -> list[Damage]:
        return damages("7.blob", self.read, len(self.octets), growing=growing)


@pytest.mark.parametrize("size", [1000, STRETCH, STRETCH + 1, 2 * STRETCH, 2 * STRETCH + 77])
def test_the_file_of_a_body_says_by_itself_whether_it_is_sound(size: int) -> None:
    world = World()
    stored(world, 7, body(size))
    octets = world.disk.blob_read(7, 0, stored_length(size, True))
    assert Pieces(octets).wrong() == []
    if size > STRETCH + CHECK:
        assert Pieces(body(size)).wrong() == []  # of an older journal, without checksums
    at = STRETCH + CHECK if size > STRETCH else 0
    for place in (0, min(STRETCH + 1, size), at, len(octets) - 1):
        wrong = octets[:place] + bytes([octets[place] ^ 1]) + octets[place + 1 :]
        stretch = place // (STRETCH + CHECK) * (STRETCH + CHECK)
        file = Pieces(wrong)
        assert file.wrong() == [stretch]
        assert file.most <= STRETCH + CHECK, "a body may be larger than the memory that there is"
        (found,) = file.damages()
        assert (found.at, found.end) == (stretch, min(stretch + STRETCH + CHECK, len(octets)))
        last = (len(octets) - 1) // (STRETCH + CHECK) * (STRETCH + CHECK)
        assert (file.damages(growing=True) == []) is (stretch == last)
