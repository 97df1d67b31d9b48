"""The journal on a real file system."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from entrepot.base.errors import StorageFull, StoreLocked, StoreUnusable
from entrepot.io.disk import Disk
from entrepot.journal.log import JournalCore, JournalOptions
from journals import Confirmed, Told, message, octets_of
from promises import never

KIB = 1024


class Opened:
    """A journal on a directory; ``calls`` is what the thread wants to be called on the loop."""

    def __init__(self, directory: Path, *, segment_bytes: int = 64 * KIB, **options: int) -> None:
        self.disk = Disk(directory, lambda call: None, name="test", reserve_bytes=256 * KIB)
        self.journal = JournalCore(self.disk, JournalOptions(node="n", segment_bytes=segment_bytes, **options))
        self.told = Told()
        self.report = self.journal.recover(self.told)
        self.waiter = Confirmed()

    def confirm(self, token: bytes) -> None:
        self.journal.confirm(self.waiter, token)
        while self.journal.flush():
            self.disk.drain()
            if self.waiter.failures:
                return
        self.disk.drain()

    def until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + 10
        while not condition():
            assert time.monotonic() < end
            self.disk.drain()
            time.sleep(0.01)


def test_what_was_confirmed_is_there_after_a_restart(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    for number in range(1, 1001):
        opened.journal.store(message(number, 300), [1])
        if number % 50 == 0:
            opened.confirm(str(number).encode())
    assert len(opened.waiter.tokens) == 20
    for number in range(1, 1001, 3):
        opened.journal.settle(number, 1)
    opened.journal.put(1, b"k", b"v")
    opened.confirm(b"settled")
    opened.journal.check()
    opened.journal.close()
    assert not list((tmp_path / "journal").glob("*.tmp"))
    opened = Opened(tmp_path)
    assert [number for _, number, _ in opened.told.messages] == [n for n in range(1, 1001) if n % 3 != 1]
    assert opened.told.documents == [(1, b"k", b"v")]
    assert opened.report.torn_bytes == 0
    assert [each.raw for each in opened.journal.reading.load_range([2, 3, 5])] == [octets_of(n, 300) for n in (2, 3, 5)]
    opened.journal.close()


def test_a_read_sees_what_is_still_to_be_written(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    for number in range(1, 200):
        opened.journal.store(message(number, 2000), [1])
        assert opened.journal.reading.load(number).raw == octets_of(number, 2000)
    opened.journal.close()


def test_compaction_gives_the_disk_back(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    opened.journal.store(message(1), [1])
    for number in range(2, 4000):
        opened.journal.store(message(number, 1000), [1])
        if number > 40:
            opened.journal.settle(number - 38, 1)
        if number % 20 == 0:
            opened.confirm(b"")
            while opened.journal.compact(64 * KIB):
                pass
            opened.confirm(b"")
    used = sum(path.stat().st_size for path in (tmp_path / "journal").glob("*.seg"))
    assert used < 16 * 64 * KIB
    assert opened.journal.reading.load(1).raw == octets_of(1, 100)
    opened.journal.close()


def test_blobs(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    blobs = opened.journal.overflow
    blobs.create(5)
    blobs.write(5, b"abc" * 1000)
    blobs.write(5, b"def")
    blobs.seal(5)
    sent = message(5)
    rare = sent.need_rare()
    rare.large_id, rare.large_length, rare.large_checked = 5, 3003, True
    assert blobs.whole(sent) == b"abc" * 1000 + b"def", "also before it is written"
    opened.journal.store(sent, [1])
    blobs.create(6)
    blobs.write(6, b"never sealed")
    opened.confirm(b"a")
    opened.journal.close()
    opened = Opened(tmp_path)
    assert opened.report.blobs_orphaned == 1
    assert opened.journal.overflow.whole(opened.journal.reading.load(5)) == b"abc" * 1000 + b"def"
    opened.journal.settle(5, 1)
    opened.confirm(b"b")
    opened.disk.drain()
    assert list((tmp_path / "blobs").iterdir()) == []
    opened.journal.close()


def test_a_directory_belongs_to_one_broker(tmp_path: Path) -> None:
    opened = Opened(tmp_path)
    with pytest.raises(StoreLocked, match=rf"broker test, process {os.getpid()}"):
        Disk(tmp_path, lambda call: None)
    opened.journal.close()
    Opened(tmp_path).journal.close()


def test_a_directory_that_cannot_be_used(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("not a directory")
    with pytest.raises(StoreUnusable, match="--data"):
        Disk(file / "data", lambda call: None)
    with pytest.raises(StoreUnusable, match="--data"):
        Disk(file, lambda call: None)


KILLED = """
import os, sys
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from journals import message, Told
from entrepot.io.disk import Disk
from entrepot.journal.log import JournalCore, JournalOptions, Waiter

class Say(Waiter):
    def stored(self, token):
        os.write(1, token + b"\\n")

disk = Disk(Path(sys.argv[1]), lambda call: None)
journal = JournalCore(disk, JournalOptions(segment_bytes=65536))
told = Told()
journal.recover(told)
number = max([0, *(each for _, each, _ in told.messages)])
os.write(1, b"found %d\\n" % len(told.messages))
say = Say()
while True:
    for _ in range(7):
        number += 1
        journal.store(message(number, 500), [1])
        journal.confirm(say, b"%d" % number)
    journal.flush()
    disk.drain()
"""


def test_kill_9_loses_nothing_that_was_confirmed(tmp_path: Path) -> None:
    confirmed = 0
    for _ in range(5):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(tmp_path), *sys.path], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        found = int(process.stdout.readline().split()[1])
        with never():
            assert found >= confirmed
        lines = [int(process.stdout.readline()) for _ in range(200)]
        process.kill()
        lines += [int(line) for line in process.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
        process.wait()
        confirmed = lines[-1]
    opened = Opened(tmp_path)
    numbers = [number for _, number, _ in opened.told.messages]
    with never():
        assert numbers == list(range(1, len(numbers) + 1))
        assert len(numbers) >= confirmed
    opened.journal.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode != 0:
        pytest.skip("mounting a small file system takes root")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_refuses_stores_and_recovers_when_messages_are_consumed(small_disk: Path) -> None:
    opened = Opened(small_disk / "data", segments_min=2)
    number = 0
    while opened.journal.refusal() is None:
        number += 1
        opened.journal.store(message(number, 4000), [1])
        opened.confirm(str(number).encode())
        assert number < 2000
    with pytest.raises(StorageFull):
        opened.journal.store(message(number + 1), [1])
    confirmed = len(opened.waiter.tokens)
    assert confirmed >= 200
    assert confirmed + len(opened.waiter.failures) == number
    for each in range(1, number):
        opened.journal.settle(each, 1)
    opened.until(lambda: not opened.journal.flush())
    opened.confirm(b"settled")
    opened.until(lambda: opened.journal.refusal() is None)
    opened.journal.store(message(number + 1), [1])
    opened.confirm(b"again")
    assert opened.waiter.tokens[-2:] == [b"settled", b"again"]
    opened.journal.close()
    opened = Opened(small_disk / "data")
    assert [each for _, each, _ in opened.told.messages] == [number, number + 1]
    opened.journal.close()


def test_a_journal_that_begins_on_a_full_disk_has_a_reserve_when_there_is_room(small_disk: Path) -> None:
    (small_disk / "journal").mkdir()
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4 * KIB))
    opened = Opened(small_disk)
    reserve = small_disk / "journal" / "reserve"
    assert not reserve.exists()
    filler.unlink()
    opened.until(lambda: opened.journal.refusal() is None)
    for number in range(1, 200):
        opened.journal.store(message(number, 1000), [1])
        opened.confirm(b"stored")
    opened.until(reserve.exists)
    assert reserve.stat().st_size == 2 * KIB * KIB // 16
    opened.journal.close()


def test_a_blob_that_fills_the_disk_makes_room_by_being_given_up(small_disk: Path) -> None:
    """Its removal is asked for behind writes that wait for the very space that it holds."""
    opened = Opened(small_disk / "data")
    blobs = opened.journal.overflow
    blobs.create(1)
    for _ in range(48):
        blobs.write(1, bytes(64 * KIB))
    opened.until(lambda: opened.journal.refusal() is not None)
    blobs.release(1)
    opened.until(lambda: opened.journal.refusal() is None)
    opened.journal.store(message(5), [1])
    opened.confirm(b"after")
    assert opened.waiter.tokens == [b"after"]
    assert opened.disk.blobs() == []
    opened.journal.close()
