"""Looking at a journal without changing it: what `entrepot data check` and `entrepot data print` show."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import NamedTuple

from librt.strings import read_i32_be

from entrepot.base.errors import CorruptJournal, EntrepotError, Fault
from entrepot.journal.index import segment_range
from entrepot.journal.names import segment_files
from entrepot.journal.overflow import CHECK, STRETCH, wrong_stretches
from entrepot.journal.ports import JournalPort, RecoveryReport, RecoverySink
from entrepot.journal.record import (
    BATCH_HEAD,
    RECORD_HEAD,
    batch_count,
    batch_length,
    batch_sequence,
    batch_synced,
    batch_valid,
    describe,
)
from entrepot.journal.recovery import Recovery

Read = Callable[[int, int], bytes]
"""Reads so many octets of a file from an offset on."""


class RecordLine:
    """One thing that stands in a segment: a batch header, a record, or octets that are neither (``valid`` False)."""

    def __init__(self, segment: str, offset: int, text: str, *, valid: bool = True) -> None:
        self.segment = segment
        self.offset = offset
        self.text = text
        self.valid = valid


class Damage(NamedTuple):
    """Octets ``at`` to ``end`` of a file that are not what was written there; ``what``: in words, for people."""

    at: int
    end: int
    what: str


class CheckReport:
    """What a start of the broker would find. ``damage`` None: it would start. ``report.torn_bytes`` would be cut."""

    def __init__(self, report: RecoveryReport, damage: EntrepotError | None) -> None:
        self.report = report
        self.damage = damage


class Untouched(JournalPort):
    """A port that shows what recovery would leave, and leaves everything as it is."""

    def __init__(self, port: JournalPort) -> None:
        self._port = port
        self._dropped: dict[str, bool] = {}
        self._lengths: dict[str, int] = {}
        self._written: dict[str, bytes] = {}

    def names(self) -> list[str]:
        """Return the names that recovery would still see."""
        return [name for name in self._port.names() if name not in self._dropped]

    def size(self, name: str) -> int:
        """Return the length as recovery would have made it."""
        return self._lengths.get(name, int(self._port.size(name)))

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Return the octets as recovery would have made them."""
        kept = self._lengths.get(name)
        if kept is None:
            return self._port.read(name, offset, length)
        tail = self._written.get(name, b"")
        there = kept - len(tail)
        octets = self._port.read(name, offset, min(length, there - offset)) if offset < there else b""
        reach = offset + length - there
        return octets + tail[max(0, offset - there) : reach] if reach > 0 else octets

    def write(self, name: str, offset: int, head: bytes, body: bytes) -> None:
        """Remember the end mark that recovery puts behind a cut."""
        self._written[name] = head + body
        self._lengths[name] = offset + len(head) + len(body)

    def cut(self, name: str, length: int) -> None:
        """Remember the new length."""
        if length < self.size(name):
            self._lengths[name] = length

    def drop(self, name: str) -> None:
        """Remember that it would be gone."""
        self._dropped[name] = True

    def blobs(self) -> list[int]:
        """Return the numbers of all blobs."""
        return self._port.blobs()

    def blob_size(self, blob_id: int) -> int:
        """Return the length of a blob; -1 when there is none."""
        return int(self._port.blob_size(blob_id))

    def blob_read(self, blob_id: int, offset: int, length: int) -> bytes:
        """Return octets of a blob."""
        return self._port.blob_read(blob_id, offset, length)

    def blob_drop(self, blob_id: int) -> None:
        """Keep it."""


class Counted(RecoverySink):
    """Counts the live messages of each queue, and documents of each kind."""

    def __init__(self) -> None:
        self.queues: dict[int, int] = {}
        self.kinds: dict[int, int] = {}

    def document(self, kind: int, key: bytes, value: bytes) -> None:
        """Count one document."""
        self.kinds[kind] = self.kinds.get(kind, 0) + 1

    def message(
        self, queue_id: int, number: int, priority: int, expiration: int, deliveries: int, size: int, deliver_at: int
    ) -> None:
        """Count one message."""
        self.queues[queue_id] = self.queues.get(queue_id, 0) + 1


def check(port: JournalPort, sink: RecoverySink) -> CheckReport:
    """Read the whole journal as a starting broker would, change nothing, and tell ``sink`` what is alive.

    Raises StorageError when a file cannot be read; damage is reported, not raised.
    """
    recovery = Recovery(Untouched(port))
    try:
        recovery.run()
        recovery.tell(sink)
    except CorruptJournal as damage:
        return CheckReport(recovery.report, damage)
    return CheckReport(recovery.report, None)


def records(port: JournalPort) -> Iterator[RecordLine]:
    """Yield everything that stands in the journal in the order of the log, also behind what cannot be read."""
    names, leftovers = segment_files(port.names())
    for name in names:
        yield from segment_lines(port, name)
    for name in leftovers:
        yield RecordLine(name, 0, "not part of the journal: will be removed at the next start", valid=False)


def segment_lines(port: JournalPort, name: str) -> Iterator[RecordLine]:
    """Yield what stands in one segment."""
    first = segment_range(name)[0]
    if first == 0:
        raise Fault(f"{name} is not the name of a segment")
    data = port.read(name, 0, port.size(name))
    at = 0
    while at < len(data):
        if not batch_valid(data, at, first, at):
            at = yield from _unreadable(name, data, at, int(first))
            continue
        length = int(batch_length(data, at))
        head = f"batch {batch_sequence(data, at)} of {batch_count(data, at)} records, {length} octets"
        yield RecordLine(name, at, f"{head}, synced up to {batch_synced(data, at)}")
        place = at + BATCH_HEAD
        at = place + length
        while place < at:
            yield RecordLine(name, place, describe(data, place))
            place += RECORD_HEAD + int(read_i32_be(data, place))


def damages(name: str, read: Read, length: int, *, growing: bool = False) -> list[Damage]:
    """Return what is damaged in the file ``name`` of a store, ``length`` octets long, in order.

    A segment is read at once, a body, which may have any length, stretch by stretch. What ``read`` raises is passed on.
    A scratch file is nobody's yet, and a body of an older layout has no checksums: nothing is found in either.
    ``growing``: a body that is still being written, whose last stretch has its checksum when it is whole.
    """
    stem, _, ending = name.rpartition(".")
    if ending == "blob" and stem.isdigit():
        return _damaged_stretches(int(stem), read, length, growing=growing)
    first = segment_range(name)[0] if ending == "seg" else 0
    return _damaged_batches(name, read(0, length), first) if first else []


def _damaged_stretches(blob_id: int, read: Read, length: int, *, growing: bool) -> list[Damage]:
    size = STRETCH + CHECK
    last = (length - 1) // size * size if growing else length
    return [
        Damage(at, min(at + size, length), f"body {blob_id} has a wrong checksum at octet {at}")
        for at in wrong_stretches(blob_id, read, length)
        if at < last
    ]


def _damaged_batches(name: str, data: bytes, first: int) -> list[Damage]:
    found: list[Damage] = []
    at = 0
    while at < len(data):
        if batch_valid(data, at, first, at):
            at += BATCH_HEAD + int(batch_length(data, at))
            continue
        end = _next_batch(data, at, first)
        if data[at:end].strip(b"\0"):  # not the zeros of what is written one day
            found.append(Damage(at, end, f"{name} has no valid batch at octet {at}"))
        at = end
    return found


def _next_batch(data: bytes, at: int, first: int) -> int:
    """Return where the next valid batch behind ``at`` begins, or the end."""
    following = data.find(b"EJB1", at + 1)
    while following >= 0 and not batch_valid(data, following, first, following):
        following = data.find(b"EJB1", following + 1)
    return following if following >= 0 else len(data)


def _unreadable(name: str, data: bytes, at: int, first: int) -> Generator[RecordLine, None, int]:
    """Yield one line about octets that are no batch; return where the next batch, or the end, is."""
    end = _next_batch(data, at, first)
    meaningful = len(data[at:end].rstrip(b"\0"))
    if meaningful:
        yield RecordLine(name, at, f"{meaningful} octets that are not a valid batch", valid=False)
    return end
