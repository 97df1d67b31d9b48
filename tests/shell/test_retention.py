"""What the journal lets go of, kept on a real file system: moved, bounded, over restarts and crashes."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from entrepot.base.errors import InvalidOption
from entrepot.config.model import RetentionOptions
from entrepot.core.records import FIRST_QUEUE, STAGED_QUEUE
from entrepot.io.disk import Disk
from entrepot.io.retention import LOOK_S, Retention, retain
from entrepot.journal.index import segment_range
from entrepot.journal.log import JournalCore, JournalOptions
from entrepot.journal.retained import Scan
from journals import Confirmed, Told, message

KIB = 1024
QUEUE = FIRST_QUEUE
ADDRESS = "Q"


class Opened:
    """A journal on a directory, whose files are kept beside it."""

    def __init__(self, home: Path, *, period_ms: int = 0, limit: int = 0, segment_bytes: int = 16 * KIB) -> None:
        self.home = home
        self.disk = Disk(home / "data", lambda call: None, name="test", reserve_bytes=64 * KIB)
        kept = retain(self.disk, RetentionOptions(str(home / "kept"), period_ms, limit))
        assert kept is not None
        self.retention = kept
        options = JournalOptions(node="n", segment_bytes=segment_bytes, batch_bytes=4 * KIB, segments_min=2)
        self.journal = JournalCore(self.disk, options)
        self.told = Told()
        self.report = self.journal.recover(self.told)
        self.retention.recovered(self.journal)
        self.waiter = Confirmed()

    def confirm(self) -> None:
        self.journal.confirm(self.waiter, b"")
        for _ in range(10):
            while self.journal.flush():
                self.disk.drain()
            self.disk.drain()

    def store(self, first: int, last: int, size: int = 1000) -> None:
        for number in range(first, last + 1):
            made = message(number, size)
            made.address = ADDRESS
            self.journal.store(made, [QUEUE])
        self.confirm()

    def settle(self, first: int, last: int) -> None:
        for number in range(first, last + 1):
            self.journal.settle(number, QUEUE)
        self.confirm()

    def compact(self) -> None:
        for _ in range(1000):
            if not self.journal.compact(64 * KIB) and not self.journal.compacting():
                break
            self.confirm()
        self.confirm()

    def kept(self) -> list[str]:
        return sorted(path.name for path in self.retention.directory.glob("*.seg"))

    def found(self) -> list[int]:
        """Return the numbers of all messages that can be read again."""
        self.journal.tail.hand_over()
        active = self.journal.tail.active
        extents = [
            one._replace(end=int(active.end)) if one.name == active.name else one for one in self.retention.extents()
        ]
        scan = Scan(self.retention, extents, FIRST_QUEUE)
        numbers: list[int] = []
        for each in scan.messages(ADDRESS):
            if each is None:
                time.sleep(0.0005)
            else:
                numbers.append(int(each.number))
        assert scan.passed == []
        return numbers

    def kill(self) -> None:
        """The process dies: what was asked for is done, and nothing more."""
        self.disk.drain()
        self.disk.close()

    def close(self) -> None:
        self.journal.close()


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    made = Opened(tmp_path)
    yield made
    made.disk.close()


def test_what_was_settled_can_be_read_again_over_restarts(opened: Opened) -> None:
    opened.store(1, 100)
    opened.settle(1, 100)
    opened.store(101, 200)
    kept = opened.kept()
    assert len(kept) > 4
    assert not {path.name for path in (opened.home / "data" / "journal").glob("*.seg")} & set(kept)
    assert opened.found() == list(range(1, 201))
    opened.close()
    again = Opened(opened.home)
    assert again.kept() == kept
    assert again.told.messages
    assert again.found() == list(range(1, 201))
    again.close()


def test_a_compacted_segment_says_nothing_twice(opened: Opened) -> None:
    opened.store(1, 200)
    for number in range(1, 201):
        if number % 10:
            opened.journal.settle(number, QUEUE)
    opened.confirm()
    opened.compact()
    names = [path.name for path in (opened.home / "data" / "journal").glob("*.seg")]
    assert any(segment_range(name)[3] for name in names), "nothing was compacted"
    assert opened.found() == list(range(1, 201))
    for number in range(10, 201, 10):
        opened.journal.settle(number, QUEUE)
    opened.store(201, 230)
    assert opened.found() == list(range(1, 231))
    assert not any(segment_range(name)[3] for name in opened.kept())


def test_a_size_is_held_and_the_oldest_goes_first(tmp_path: Path) -> None:
    opened = Opened(tmp_path, limit=50 * KIB)
    opened.store(1, 200)
    opened.settle(1, 200)
    opened.store(201, 205)
    assert sum(path.stat().st_size for path in opened.retention.directory.rglob("*.*")) <= 50 * KIB
    found = opened.found()
    assert found == list(range(found[0], 206))
    assert 100 < found[0] < 190
    assert opened.retention.report()["octets"] == sum(
        path.stat().st_size for path in opened.retention.directory.rglob("*.seg")
    )
    opened.close()


def test_what_is_too_old_goes_without_anything_new(tmp_path: Path) -> None:
    opened = Opened(tmp_path, period_ms=3_600_000)
    opened.store(1, 60)
    opened.settle(1, 60)
    names = opened.kept()
    assert len(names) > 2
    opened.close()
    old = time.time() - 3_700
    os.utime(opened.retention.directory / names[0], (old, old))
    again = Opened(tmp_path, period_ms=3_600_000)
    again.retention._looked = time.monotonic() - LOOK_S - 1
    again.disk.look_at_space()
    again.disk.drain()
    assert again.kept() == names[1:]
    again.close()


def test_large_bodies_are_kept_and_those_that_were_only_begun_are_not(opened: Opened) -> None:
    overflow = opened.journal.overflow
    for blob in (7, 8):
        overflow.create(blob)
        overflow.write(blob, b"x" * 5000)
    overflow.seal(7)
    large = message(7, 10)
    rare = large.need_rare()
    rare.large_id, rare.large_length, rare.large_checked = 7, 5000, True
    opened.journal.store(large, [QUEUE])
    overflow.release(7)
    overflow.release(8)
    opened.confirm()
    opened.settle(7, 7)
    assert [path.name for path in opened.retention.bodies.iterdir()] == ["7.blob"]
    fetch = opened.retention.fetch("7.blob", 0, 100)
    while not fetch.done():
        time.sleep(0.001)
    assert fetch.octets() == b"x" * 100


@pytest.mark.parametrize("moved", [False, True])
def test_a_crash_between_the_settlement_and_the_move_loses_nothing(tmp_path: Path, moved: bool) -> None:
    """The list of gaps says that a segment may go; the process dies before, or after it is moved."""
    opened = Opened(tmp_path)
    opened.store(1, 60)
    files = {path.name: path.read_bytes() for path in (tmp_path / "data" / "journal").glob("*.seg")}
    opened.settle(1, 60)
    opened.store(61, 62)
    gone = opened.kept()
    assert len(gone) > 2
    opened.kill()
    if not moved:
        for name in gone:
            shutil.move(tmp_path / "kept" / name, tmp_path / "data" / "journal" / name)
            assert (tmp_path / "data" / "journal" / name).read_bytes().rstrip(b"\0")[:64] == files[name][:64]
    again = Opened(tmp_path)
    again.disk.drain()
    assert set(again.kept()) >= set(gone)
    assert again.found() == list(range(1, 63))
    again.close()


def test_what_was_never_confirmed_is_not_kept(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    opened.store(1, 40)
    opened.kill()
    journal = tmp_path / "data" / "journal"
    names = sorted(path.name for path in journal.glob("*.seg"))
    retention = Retention(RetentionOptions(str(tmp_path / "other")), opened.disk.files)
    for name in names:
        assert retention.keep(name, journal / name)
    retention._forget(int(segment_range(names[0])[0]))
    assert sorted(path.name for path in retention.directory.glob("*.seg")) == names[:1]
    assert list(retention.kept.sizes) == names[:1]


def test_what_a_killed_process_wrote_last_is_kept_when_it_is_settled(tmp_path: Path) -> None:
    """The next start puts its end mark behind it: it was taken for a file that was only begun."""
    opened = Opened(tmp_path)
    opened.store(1, 3)
    opened.kill()
    again = Opened(tmp_path)
    again.settle(1, 3)
    again.store(4, 60)
    assert again.found() == list(range(1, 61))
    again.close()


def test_a_directory_that_somebody_removes_is_made_again(opened: Opened) -> None:
    opened.store(1, 60)
    shutil.rmtree(opened.retention.directory)
    opened.settle(1, 60)
    opened.store(61, 62)
    assert opened.found() == list(range(1, 63))


def test_a_file_that_cannot_be_kept_is_removed_and_the_broker_goes_on(
    opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    opened.store(1, 60)
    shutil.rmtree(opened.retention.directory)
    opened.retention.directory.write_text("in the way")
    opened.settle(1, 60)
    opened.store(61, 62)
    assert opened.disk.worker.failure is None
    assert len(list((opened.home / "data" / "journal").glob("*.seg"))) < 4
    assert len([one for one in caplog.records if "cannot be kept" in one.message]) == 1


def test_a_full_disk_takes_from_what_is_kept_first(opened: Opened) -> None:
    opened.store(1, 60)
    opened.settle(1, 60)
    names = opened.kept()
    assert opened.disk.worker.reserve.give_up()
    assert opened.kept() == names[1:]
    assert not opened.disk.worker.reserve.tight
    for _ in names[1:]:
        assert opened.disk.worker.reserve.give_up()
    assert opened.kept() == []
    assert (opened.home / "data" / "journal" / "reserve").exists()
    assert opened.disk.worker.reserve.give_up()
    assert opened.disk.worker.reserve.tight


def test_what_another_journal_let_go_of_is_no_place_for_a_new_one(tmp_path: Path) -> None:
    """Segments of the same numbers would be moved over those, and what is beyond the new ones would be forgotten."""
    opened = Opened(tmp_path)
    opened.store(1, 100)
    opened.settle(1, 100)
    opened.store(101, 200)
    kept = {path.name: path.read_bytes() for path in opened.retention.directory.glob("*.seg")}
    opened.close()
    shutil.rmtree(tmp_path / "data")
    disk = Disk(tmp_path / "data", lambda call: None)
    with pytest.raises(InvalidOption, match="another journal let go of"):
        retain(disk, RetentionOptions(str(tmp_path / "kept")))
    disk.close()
    assert {path.name: path.read_bytes() for path in (tmp_path / "kept").glob("*.seg")} == kept
    (tmp_path / "kept").rename(tmp_path / "away")
    again = Opened(tmp_path)
    again.store(1, 10)
    again.close()


def test_another_file_system_is_refused(tmp_path: Path) -> None:
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is one file system only")
    disk = Disk(tmp_path / "data", lambda call: None)
    place = other / f"entrepot-{os.getpid()}"
    try:
        with pytest.raises(InvalidOption, match="another file system"):
            retain(disk, RetentionOptions(str(place)))
        with pytest.raises(InvalidOption, match="cannot be kept"):
            retain(disk, RetentionOptions("/proc/nowhere"))
    finally:
        disk.close()
        shutil.rmtree(place, ignore_errors=True)


def stage(opened: Opened, first: int, last: int) -> None:
    for number in range(first, last + 1):
        made = message(number, 1000)
        made.address = ADDRESS
        opened.journal.store(made, [STAGED_QUEUE])
    opened.confirm()


def grow_old(opened: Opened, names: list[str], seconds: int = 3_700) -> None:
    """Let files be as if they had been written long ago."""
    old = time.time() - seconds
    for name in names:
        for path in (opened.home / "data" / "journal" / name, opened.retention.directory / name):
            if path.exists():
                os.utime(path, (old, old))


def look(opened: Opened) -> None:
    opened.retention._looked = time.monotonic() - LOOK_S - 1
    opened.disk.look_at_space()
    opened.disk.drain()


def publish(opened: Opened, first: int, last: int, fresh: int) -> None:
    assert opened.journal.move(first, last - first + 1, STAGED_QUEUE, QUEUE, fresh)
    opened.confirm()


@pytest.mark.parametrize("restart", ["", "close", "power"])
def test_what_was_published_is_kept_from_then_on(tmp_path: Path, restart: str) -> None:
    """What was staged long ago was too old for the replay at the moment in which it was read."""
    opened = Opened(tmp_path, period_ms=3_600_000)
    stage(opened, 1, 60)
    opened.store(61, 80)
    journal = tmp_path / "data" / "journal"
    staged = sorted(path.name for path in journal.glob("*.seg"))[:-1]
    grow_old(opened, staged)
    publish(opened, 1, 60, 101)
    if restart:
        opened.close() if restart == "close" else opened.kill()
        if restart == "power":  # the name of a file that says how young another one is was not on the disk
            for path in opened.retention.directory.glob("*.published"):
                path.unlink()
        opened = Opened(tmp_path, period_ms=3_600_000)
    opened.settle(101, 160)
    opened.settle(61, 80)
    opened.store(161, 240)
    look(opened)
    assert opened.found() == [*range(61, 81), *range(101, 161), *range(161, 241)]
    opened.close()
    again = Opened(tmp_path, period_ms=3_600_000)
    look(again)
    assert again.found() == [*range(61, 81), *range(101, 161), *range(161, 241)]
    for path in again.retention.directory.glob("*.published"):
        os.utime(path, (1, 1))
    grow_old(again, again.kept())
    again.close()
    last = Opened(tmp_path, period_ms=3_600_000)
    look(last)
    assert last.kept() == []
    assert list(last.retention.directory.glob("*.published")) == []
    last.close()


def test_what_was_compacted_while_it_was_staged_is_kept_from_its_publication_on(tmp_path: Path) -> None:
    opened, kept = compacted_while_staged(tmp_path)
    assert kept
    grow_old(opened, kept, 3_500)
    opened.close()
    opened = Opened(tmp_path, period_ms=3_600_000)
    for at, first in enumerate(range(1, 100, 4)):
        publish(opened, first, first, 201 + at)
    opened.settle(201, 225)
    grow_old(opened, kept)
    opened.close()
    opened = Opened(tmp_path, period_ms=3_600_000)
    look(opened)
    assert set(range(201, 226)) <= set(opened.found())
    opened.close()


def compacted_while_staged(home: Path) -> tuple[Opened, list[str]]:
    """Return a broker with 25 staged messages, one in each part of a segment, the rest of which went; what is kept."""
    opened = Opened(home, period_ms=3_600_000)
    for first in range(1, 100, 4):
        stage(opened, first, first)
        opened.store(first + 1, first + 3)
        opened.settle(first + 1, first + 3)
    opened.compact()
    return opened, opened.kept()


@pytest.mark.parametrize("restart", ["", "close", "kill"])
def test_what_was_compacted_while_it_was_staged_is_kept_until_its_publication(tmp_path: Path, restart: str) -> None:
    opened, kept = compacted_while_staged(tmp_path)
    assert kept
    grow_old(opened, kept)
    if restart:
        opened.close() if restart == "close" else opened.kill()
        opened = Opened(tmp_path, period_ms=3_600_000)
    opened.store(101, 180)
    opened.settle(101, 180)
    look(opened)
    assert set(kept) <= set(opened.kept())
    for at, first in enumerate(range(1, 100, 4)):
        publish(opened, first, first, 201 + at)
    opened.settle(201, 225)
    look(opened)
    assert set(range(201, 226)) <= set(opened.found())
    opened.close()


@pytest.mark.parametrize("published", [False, True])
def test_it_is_kept_no_longer_than_something_of_it_is_staged(tmp_path: Path, published: bool) -> None:
    opened, kept = compacted_while_staged(tmp_path)
    for at, first in enumerate(range(1, 100, 4)):
        if published and first > 1:
            publish(opened, first, first, 1001 + at)
        elif first > 1:
            opened.journal.settle(first, STAGED_QUEUE)
    opened.store(2001, 2100)
    grow_old(opened, [path.name for path in (tmp_path / "data" / "journal").glob("*.seg")] + kept)
    for path in opened.retention.directory.glob("*.published"):
        os.utime(path, (1, 1))
    opened.close()
    opened = Opened(tmp_path, period_ms=3_600_000)
    look(opened)
    assert kept[0] in opened.kept(), "one message is staged still"
    assert kept[-1] not in opened.kept()
    opened.journal.settle(1, STAGED_QUEUE)
    first = 3001
    while set(kept) & set(opened.kept()) and first < 9_000:
        opened.store(first, first + 79)  # who looks for garbage finds out that nothing of them is staged
        opened.settle(first, first + 79)
        opened.compact()
        look(opened)
        first += 80
    assert not set(kept) & set(opened.kept())
    assert set(range(2001, 2101)) <= set(opened.found())
    opened.close()


def test_a_size_is_held_whatever_is_staged(tmp_path: Path) -> None:
    opened, kept = compacted_while_staged(tmp_path)
    octets = opened.retention.kept.octets
    opened.close()
    opened = Opened(tmp_path, period_ms=3_600_000, limit=octets // 2)
    look(opened)
    assert 0 < len(opened.kept()) < len(kept)
    assert opened.retention.give_up()
    opened.close()
