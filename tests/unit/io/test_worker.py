"""The thread of a store: what it does along with what, how soon, and what remains when a disk or a lease goes."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from entrepot.base.errors import EntrepotError, StoreLost
from entrepot.io.disk import Disk
from entrepot.io.worker import LINGER_S, SOON_OCTETS
from entrepot.journal.ports import JournalEvents

NAME = "0000000000000001.seg"
PIECES = [(b"head-%02d" % number, b"-body-%02d;" % number) for number in range(40)]
WHOLE = b"".join(head + body for head, body in PIECES)


class Calls:
    """What was asked of ``os.pwritev``, and what comes of it."""

    def __init__(self) -> None:
        self.parts: list[int] = []
        self.failures: list[int] = []
        self.at_most = 1 << 30
        self._write = os.pwritev

    def __call__(self, descriptor: int, parts: list[bytes], offset: int) -> int:
        self.parts.append(len(parts))
        if self.failures:
            raise OSError(self.failures.pop(0), "made up")
        octets = b"".join(parts)[: self.at_most]
        return self._write(descriptor, [octets], offset)


class Quiet(JournalEvents):
    """A journal that is told, and does nothing."""

    def synced(self, token: int) -> None: ...

    def tight(self, error: EntrepotError) -> None: ...

    def relieved(self) -> None: ...

    def failed(self, error: EntrepotError) -> None: ...


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    found = Calls()
    monkeypatch.setattr(os, "pwritev", found)
    return found


@pytest.fixture
def disk(tmp_path: Path, calls: Calls) -> Iterator[Disk]:
    made = Disk(tmp_path, lambda action: action(), preallocate=False)
    made.attach(Quiet())
    made.create(NAME, 0)
    made.worker.wait_idle()
    yield made
    made.close()


def held(disk: Disk) -> threading.Event:
    """Return what lets the thread go on; it does nothing until then."""
    goes_on = threading.Event()

    def wait() -> None:
        goes_on.wait(10)

    disk.worker.ask(wait)
    return goes_on


def write(disk: Disk, pieces: list[tuple[bytes, bytes]]) -> None:
    at = 0
    for head, body in pieces:
        disk.write(NAME, at, head, body)
        at += len(head) + len(body)


def content(disk: Disk) -> bytes:
    return (disk.directory / "journal" / NAME).read_bytes()


def test_writes_that_follow_one_another_are_one_call(disk: Disk, calls: Calls) -> None:
    goes_on = held(disk)
    write(disk, PIECES)
    assert disk.read(NAME, 0, 1000) == WHOLE, "what is still to be written is read as if it were"
    disk.sync(1)
    goes_on.set()
    disk.worker.wait_idle()
    assert calls.parts == [2 * len(PIECES)]
    assert content(disk) == WHOLE
    assert not disk.files.unwritten[NAME]


def test_a_gap_and_a_sync_between_them_part_writes(disk: Disk, calls: Calls) -> None:
    goes_on = held(disk)
    disk.write(NAME, 0, b"a", b"b")
    disk.write(NAME, 2, b"c", b"d")
    disk.write(NAME, 6, b"g", b"h")
    disk.sync(1)
    disk.write(NAME, 8, b"i", b"j")
    goes_on.set()
    disk.worker.wait_idle()
    assert calls.parts == [4, 2, 2]
    assert content(disk) == b"abcd\0\0ghij"


def test_a_short_write_is_finished(disk: Disk, calls: Calls) -> None:
    calls.at_most = 100
    goes_on = held(disk)
    write(disk, PIECES)
    goes_on.set()
    disk.worker.wait_idle()
    assert content(disk) == WHOLE


def test_what_met_a_full_disk_is_written_once_there_is_room(disk: Disk, calls: Calls) -> None:
    calls.failures = [errno.ENOSPC, errno.ENOSPC]
    goes_on = held(disk)
    write(disk, PIECES)
    goes_on.set()
    until = time.monotonic() + 10
    while content(disk) != WHOLE and time.monotonic() < until:
        time.sleep(0.01)
    disk.worker.wait_idle()
    assert content(disk) == WHOLE
    assert not disk.files.unwritten[NAME]
    assert disk.worker.failure is None


def test_what_nobody_waits_for_is_written_without_being_asked_again(disk: Disk, calls: Calls) -> None:
    time.sleep(10 * LINGER_S)  # the thread sleeps
    for number in range(5):  # the first wakes it, others find it lingering, asleep or at work
        disk.write(NAME, 4 * number, b"ab", b"cd")
        time.sleep(LINGER_S * number / 2)
    until = time.monotonic() + 5
    while content(disk) != b"abcd" * 5 and time.monotonic() < until:
        time.sleep(LINGER_S)
    assert content(disk) == b"abcd" * 5


def test_much_wakes_a_thread_that_lingers(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("entrepot.io.worker.LINGER_S", 60.0)
    disk.write(NAME, 0, b"ab", b"cd")  # behind it the thread lingers for a minute
    while content(disk) != b"abcd":
        time.sleep(0.001)
    time.sleep(0.05)
    disk.write(NAME, 4, b"", b"e" * 100)
    time.sleep(0.05)
    assert content(disk) == b"abcd", "so little does not wake it"
    disk.write(NAME, 104, b"", b"f" * SOON_OCTETS)
    until = time.monotonic() + 5
    while len(content(disk)) < 104 + SOON_OCTETS and time.monotonic() < until:
        time.sleep(0.001)
    assert len(content(disk)) == 104 + SOON_OCTETS


def test_nothing_more_is_begun_once_the_files_are_another_brokers(disk: Disk, calls: Calls) -> None:
    goes_on = held(disk)
    write(disk, PIECES)
    disk.abandon(StoreLost("the lease is over"))
    goes_on.set()
    disk.worker.wait_idle()
    assert calls.parts == []
    assert content(disk) == b""


def test_what_is_to_be_removed_is_not_listed_any_more(disk: Disk) -> None:
    """A start that removes a file and looks again had found it, and ended with an error where it went meanwhile."""
    goes_on = held(disk)
    disk.drop(NAME)
    assert disk.names() == []
    goes_on.set()
    disk.worker.wait_idle()
    assert disk.names() == []
    disk.create(NAME, 0)
    disk.worker.wait_idle()
    assert disk.names() == [NAME]
