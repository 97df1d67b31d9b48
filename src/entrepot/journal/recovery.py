"""Reading a journal back after a stop of any kind. [C]

Decides what is believed: a batch is taken whole or not at all. Where a segment stops being valid,

- and no later batch claims that what should stand there was on disk, it is a *torn tail*: nothing behind it was ever
  confirmed; it is cut and reported;
- and a later batch does claim it, it is a *corrupt middle*: `CorruptJournal`, nothing is changed.

A bracket that was written in parts (`journal/parts.py`) counts when its last record is there. Where that is missing at
the end of the journal, all is read once more, without its parts.

Never skips a record in silence. Holds a piece of one segment in memory at a time and makes no `Message`.
"""

from __future__ import annotations

from librt.strings import BytesWriter, read_i16_be, read_i32_be, read_i64_be
from mypy_extensions import i64

from entrepot.base.errors import CorruptJournal, StoreLost
from entrepot.journal.brackets import Brackets
from entrepot.journal.epoch import NUMBER_SHIFT, Boundary, boundaries_of, is_late
from entrepot.journal.index import (
    DEAD,
    LIVE,
    SEVERAL,
    Document,
    Index,
    Segment,
    segment_name,
    segment_range,
)
from entrepot.journal.moving import carry_out, prune, read_move
from entrepot.journal.names import corrupt, document_key, highest_claim, parse_gaps, segment_files
from entrepot.journal.overflow import Overflow
from entrepot.journal.ports import Fence, JournalPort, RecoveryReport, RecoverySink
from entrepot.journal.record import (
    ADD,
    BATCH_HEAD,
    DELETE,
    EPOCH,
    FLAG_EXTENDED,
    FLAG_TRANSIENT,
    FORMAT,
    FORMAT_FIRST,
    MESSAGE,
    MESSAGE_FIXED,
    META,
    MOVE,
    PART,
    PUT,
    RECORD_HEAD,
    REDELIVERED,
    SEAL,
    SETTLE_LIST,
    SETTLE_RUN,
    WHOLE,
    batch_head,
    batch_length,
    batch_sequence,
    batch_synced,
    envelope_at,
    frame,
    payload_fits,
    read_queue,
)
from entrepot.journal.telling import Telling
from entrepot.journal.window import Window
from entrepot.model.message import read_envelope


class Recovery:
    """One pass that fills an `Index` and one that tells a `RecoverySink`. Use once."""

    def __init__(self, port: JournalPort, epoch: i64 = 0, fence: Fence | None = None) -> None:
        """``epoch``: of the broker that takes over; 0 where the store is not shared. ``fence``: see `Fence`."""
        self.fence: Fence = Fence() if fence is None else fence
        self.port: JournalPort = port
        self.epoch: i64 = epoch
        self.boundaries: list[Boundary] = []
        self.late_bytes: i64 = 0
        self.late_segments: i64 = 0
        self.index: Index = Index()
        self.report: RecoveryReport = RecoveryReport()
        self.sequence: i64 = 0
        self.claimed: i64 = 0
        self.dropped: bool = False
        self.brackets: Brackets = Brackets()
        self.bodies: dict[int, tuple[int, bool]] = {}  # blob -> length of the body, and whether it has checksums
        self.overflow: Overflow = Overflow(port)

    def run(self) -> None:
        """Fill ``index`` and ``report``, cut a torn tail, remove leftovers. Raises CorruptJournal, StorageError.

        Raises StoreLost when the store has seen this epoch or a younger one: nothing is changed then.
        """
        while not self._scan():
            pass
        self._make_durable()
        self.index.blob_freed = 0  # bodies of settled messages are swept below, all together
        report = self.report
        report.segments = len(self.index.segments)
        report.messages = self.index.messages
        report.documents = len(self.index.documents)
        report.sequence = self.sequence
        report.late_bytes = self.late_bytes
        report.late_segments = self.late_segments
        report.undone = len(self.brackets.undone)
        report.number_highest = max(report.number_highest, self.brackets.highest)
        if self.boundaries:
            report.epoch = self.boundaries[-1].epoch
        if document_key() in self.index.documents:
            report.documents -= 1
        self._sweep_blobs()

    # -- first pass ----------------------------------------------------------------------------------------------------

    def _scan(self) -> bool:
        """Read all segments; False when files had to go and it must be done again."""
        names, leftovers = segment_files(self.port.names())
        self.boundaries = boundaries_of(self.port, names)
        if self.boundaries and 0 < self.epoch <= self.boundaries[-1].epoch:
            raise StoreLost(
                f"the journal has been written in epoch {self.boundaries[-1].epoch}; epoch {self.epoch} is over",
                remedy="another broker took over: this one must become its backup",
            )
        for name in leftovers:
            self._drop(name)
        names = self._without_late(names)
        torn_segment = self.report.torn_segment
        torn_offset = self.report.torn_offset
        torn_bytes = self.report.torn_bytes
        self.index = Index()
        self.index.undone = self.brackets.undone
        self.brackets.undecided = {}
        self.report = RecoveryReport()
        self.report.torn_segment = torn_segment
        self.report.torn_offset = torn_offset
        self.report.torn_bytes = torn_bytes
        self.sequence = 0
        self.claimed = 0
        position = 0
        while position < len(names):
            if not self._scan_segment(names, position):
                for later in names[position + 1 :]:
                    self._discard(later)
                break
            position += 1
        return self._reconcile() and self.brackets.decide()

    def _without_late(self, names: list[str]) -> list[str]:
        """Remove the files that a former master made after it had been succeeded; return the others."""
        kept: list[str] = []
        for name in names:
            if is_late(name, self.boundaries):
                self.late_segments += 1
                self._refuse(self.port.read(name, 0, self.port.size(name)), 0)
                self._drop(name)
            else:
                kept.append(name)
        return kept

    def _refuse(self, data: bytes, start: i64) -> None:
        """Count what stands behind ``start``, where nothing should."""
        self.late_bytes += max(0, len(data.rstrip(b"\0")) - start)

    def _limit(self, segment: Segment) -> i64:
        """Return where a younger epoch found the end of ``segment``; -1 where none began behind it."""
        for boundary in self.boundaries:
            if boundary.last == segment.last:
                return boundary.length
        return -1

    def _reconcile(self) -> bool:
        """Compare the files with the list of those that were dropped; False when some had to be removed."""
        gaps: list[tuple[int, int]] = []
        document = self.index.documents.get(document_key())
        if document is not None:
            gaps = parse_gaps(document.value)
        for boundary in self.boundaries:
            gaps.append((int(boundary.last + 1), int(boundary.first() - 1)))
        following: i64 = 1
        before: i64 = 0
        # A list of gaps means nothing before it is sure that no segment is missing in front of it.
        for segment in self.index.segments:
            if segment.first > following and not _inside(gaps, following, segment.first - 1):
                return self._missing(following, segment.first - 1, before)
            following = segment.last + 1
            before = segment.end_sequence
        gone = [segment for segment in self.index.segments if _inside(gaps, segment.first, segment.last)]
        if gone:
            self._make_durable()  # the list must be on disk before the files go
            for segment in gone:
                self._drop(segment.name)
        return not gone

    def _missing(self, first: i64, last: i64, before: i64) -> bool:
        """Segments are not there and were not dropped: corrupt when what they held was on disk, else a torn tail."""
        if self.claimed > before:
            raise corrupt(segment_name(first, last, before + 1, 0), 0, "the file is missing")
        for segment in self.index.segments:
            if segment.first > last:
                self._discard(segment.name)
        return False

    def _drop(self, name: str) -> None:
        self.dropped = True
        self.port.drop(name)

    def _discard(self, name: str) -> None:
        """Remove a segment in which nothing was ever confirmed."""
        data = self.port.read(name, 0, self.port.size(name))
        length = len(data.rstrip(b"\0"))
        if not self.report.torn_segment:
            self.report.torn_segment = name
        self.report.torn_bytes += length
        self._drop(name)

    def _scan_segment(self, names: list[str], position: int) -> bool:
        """Take in one segment; False when it ended in a torn tail, which is cut."""
        name = names[position]
        first, last, expected, as_of = segment_range(name)
        size: i64 = self.port.size(name)
        segment = Segment(first, last, expected)
        segment.name = name
        limit: i64 = -1
        if as_of == 0:
            limit = self._limit(segment)
        if 0 <= limit < size:
            self._refuse(self.port.read(name, 0, int(size)), limit)
            size = limit
            self.port.cut(name, limit)
        compacted = False
        if not self._chained(segment):
            self._unchain(names, position, self.port.read(name, 0, int(size)), segment)
            return False
        window = Window(self.port, name, size)
        at: i64 = 0
        while not segment.sealed:
            place = window.batch(first, at)
            if place < 0:
                break
            data = window.data
            sequence = batch_sequence(data, place)
            if at == 0:
                compacted = self.read_meta(segment, data, as_of)
                if compacted:
                    expected = 1  # its batches are counted by themselves
            if sequence != expected:
                break
            if at == 0:
                self.index.open(segment)
            claim = batch_synced(data, place)
            self.claimed = max(self.claimed, claim)
            self.apply(segment, window, place, segment.as_of - 1 if compacted else sequence)
            at += BATCH_HEAD + batch_length(data, place)
            expected += 1
        segment.end = at
        if segment.sealed:
            if not compacted:
                segment.end_sequence = expected - 1
            self._close(segment)
            return True
        if compacted:
            raise corrupt(name, at, "a compacted segment is not complete")
        if at == limit:
            self._end_here(segment, expected - 1)
            return True
        if at < limit:
            raise corrupt(name, at, f"batch {expected} is not readable, and a later epoch had read it")
        self._tear(names, position, self.port.read(name, 0, int(size)), segment, expected)
        return False

    def read_meta(self, segment: Segment, data: bytes, as_of: i64) -> bool:
        """Take the META record of the first batch; True for a compacted segment. Raises CorruptJournal."""
        body: i64 = BATCH_HEAD + RECORD_HEAD
        if data[body] != META or not payload_fits(data, BATCH_HEAD):
            raise corrupt(segment.name, BATCH_HEAD, "it does not begin with a META record")
        version: i64 = i64(read_i16_be(data, body + 1))
        if not FORMAT_FIRST <= version <= FORMAT:
            raise CorruptJournal(
                f"{segment.name} has journal format {version}; this build reads formats {FORMAT_FIRST} to {FORMAT}",
                remedy="open it with the version of entrepot that wrote it",
            )
        if read_i64_be(data, body + 3) != segment.first or read_i64_be(data, body + 11) != segment.last:
            raise corrupt(segment.name, body, "the file has the name of another segment")
        length: i64 = i64(read_i32_be(data, BATCH_HEAD))
        self.report.node = data[body + 43 : body + length].decode(errors="replace")
        self.report.created = read_i64_be(data, body + 35)
        segment.as_of = read_i64_be(data, body + 19)
        segment.end_sequence = read_i64_be(data, body + 27)
        if segment.as_of != as_of:
            raise corrupt(segment.name, body, "the file has the name of another segment")
        return as_of > 0

    def _chained(self, segment: Segment) -> bool:
        """Say whether the segment begins where the one before it ended: neighbours by id are neighbours by batch."""
        if not self.index.segments:
            return True
        previous = self.index.segments[-1]
        if previous.last + 1 == segment.first:
            return segment.first_sequence == previous.end_sequence + 1
        return segment.first_sequence > previous.end_sequence

    def _unchain(self, names: list[str], position: int, data: bytes, segment: Segment) -> None:
        """The segment does not follow on the one before it: one that an earlier recovery discarded is still there.

        Raises CorruptJournal when something between the two was on disk.
        """
        ended = self.index.segments[-1].end_sequence
        if self._claim_from(names, position, data, 0) > ended:
            raise corrupt(segment.name, 0, f"the segment before it ends at batch {ended}")
        self._discard(segment.name)

    def _claim_from(self, names: list[str], position: int, data: bytes, start: i64) -> i64:
        """Return the highest claim behind ``start`` in ``data``, the segment at ``position``, or in a later segment."""
        claim = highest_claim(data, start, segment_range(names[position])[0])
        for later in names[position + 1 :]:
            octets = self.port.read(later, 0, self.port.size(later))
            claim = max(claim, highest_claim(octets, 0, segment_range(later)[0]))
        return claim

    def _close(self, segment: Segment) -> None:
        """Finish a segment that is whole."""
        self.sequence = segment.end_sequence
        self.report.bytes += segment.end
        self.index.disk += segment.end
        self.index.seal(segment, segment.end_sequence)

    def _tear(self, names: list[str], position: int, data: bytes, segment: Segment, expected: i64) -> None:
        """The segment stops being valid where batch ``expected`` should be. Raises CorruptJournal."""
        name = names[position]
        claim = self._claim_from(names, position, data, segment.end)
        if claim >= expected:
            raise corrupt(name, segment.end, f"batch {expected} is not readable, and batch {claim} was on disk")
        lost = len(data.rstrip(b"\0")) - segment.end
        if lost > 0:
            self.report.torn_segment = name
            self.report.torn_offset = segment.end
            self.report.torn_bytes += lost
        if segment.end == 0:
            self._drop(name)
            return
        self.port.cut(name, segment.end)
        if self.epoch > 0:
            self._end_here(segment, expected - 1)
            return
        body = BytesWriter()
        frame(body, bytes([SEAL]))
        octets = body.getvalue()
        # Everything before it is made durable by _make_durable before anything can confirm this claim.
        head = batch_head(len(octets), 1, expected, 0, segment.first, segment.end)
        self.port.write(name, segment.end, head, octets)
        segment.end += len(head) + len(octets)
        segment.end_sequence = expected
        segment.sealed = True
        self._close(segment)

    def _end_here(self, segment: Segment, sequence: i64) -> None:
        """Take what is there for the whole segment, without an end mark: a former master may still write over it."""
        segment.end_sequence = sequence
        segment.sealed = True
        self._close(segment)

    def _make_durable(self) -> None:
        """Sync what may still be only in the cache of a machine that did not stop, before later batches claim it."""
        for segment in self.index.segments:
            if segment.end_sequence > self.claimed:
                self.port.cut(segment.name, segment.end)

    def apply(self, segment: Segment, window: Window, at: i64, sequence: i64) -> None:
        """Carry out the records of the valid batch at ``at`` of the window."""
        data = window.data
        place: i64 = at + BATCH_HEAD
        end: i64 = place + batch_length(data, at)
        seen: i64 = 0
        while place < end:
            length: i64 = i64(read_i32_be(data, place))
            kind = data[place + RECORD_HEAD]
            if kind == MESSAGE and payload_fits(data, place):
                self._apply_message(segment, window, place, RECORD_HEAD + length)
            elif kind == PART and payload_fits(data, place) and self.brackets.part(segment, data, place):
                self.brackets.pass_over(data, place, end)
                break
            else:
                self.apply_record(segment, window, place, length, sequence)
            place += RECORD_HEAD + length
            seen += 1
        self.report.records += seen

    def apply_record(self, segment: Segment, window: Window, place: i64, length: i64, sequence: i64) -> None:
        """Carry out the record at ``place`` of the window, of ``length`` octets, whose checksum is right.

        Raises CorruptJournal when it makes no sense, or stores a message for the second time.
        """
        data = window.data
        if not payload_fits(data, place):
            raise corrupt(segment.name, window.base + place, "a record with a right checksum makes no sense")
        kind = data[place + RECORD_HEAD]
        if kind == MESSAGE:
            self._apply_message(segment, window, place, RECORD_HEAD + length)
        elif kind == SETTLE_RUN:
            queue = read_queue(data, place + 9)
            number = read_i64_be(data, place + 13)
            count: i64 = i64(read_i32_be(data, place + 21))
            count += number
            while number < count:
                self._apply_settle(segment, number, queue, sequence)
                number += 1
        elif kind == SETTLE_LIST:
            queue = read_queue(data, place + 9)
            step: i64 = place + 13
            while step < place + RECORD_HEAD + length:
                self._apply_settle(segment, read_i64_be(data, step), queue, sequence)
                step += 8
        elif kind == SEAL:
            segment.sealed = True
        elif kind == WHOLE:
            self.brackets.whole(segment, data, place, sequence)
        elif kind == MOVE:
            self._apply_move(segment, data, place + RECORD_HEAD, sequence)
        elif kind not in (META, EPOCH, PART):
            self._apply_rare(segment, window, place, length, sequence)

    def _apply_message(self, segment: Segment, window: Window, place: i64, length: i64) -> None:
        data = window.data
        offset = window.base + place
        body: i64 = place + RECORD_HEAD
        flags = data[body + 1]
        number = read_i64_be(data, body + 2)
        count: i64 = i64(read_i16_be(data, body + 14))
        if number > self.report.number_highest:
            self.report.number_highest = number
        elif self.index.alive(number):
            raise corrupt(segment.name, offset, f"message {number} is stored for the second time")
        if flags & FLAG_TRANSIENT:
            segment.add(number, offset, length, 0, DEAD)
            return
        queue: i64 = SEVERAL
        if count == 1:
            queue = read_queue(data, body + MESSAGE_FIXED)
        else:
            queues: list[int] = []
            step: i64 = 0
            while step < count:
                queues.append(int(read_queue(data, body + MESSAGE_FIXED + 4 * step)))
                step += 1
            self.index.several[number] = queues
        if flags & FLAG_EXTENDED:
            envelope = envelope_at(data, body)
            blob = read_i64_be(data, envelope - 8)
            if blob != 0:
                self.index.blob_of[number] = blob
                try:
                    rare = read_envelope(data, envelope).need_rare()
                except (ValueError, IndexError) as error:  # no text, or a length that leads out of the record
                    raise corrupt(
                        segment.name, offset, f"the head of message {number} cannot be read: {error}"
                    ) from None
                self.bodies[blob] = (int(rare.large_length), rare.large_checked)
        segment.add(number, offset, length, queue, LIVE)
        self.index.messages += 1

    def _apply_settle(self, segment: Segment, number: i64, queue: i64, sequence: i64) -> None:
        index = self.index
        found = index.settle(number, queue)[1]
        if found is not None and found is not segment:
            segment.refs[found.first] = sequence
        struck = index.struck
        if struck is not None and struck is not segment:
            segment.refs[struck.first] = sequence

    def _apply_move(self, segment: Segment, data: bytes, body: i64, sequence: i64) -> None:
        move, source = read_move(data, body, sequence)
        self.report.number_highest = max(self.report.number_highest, move.fresh + move.count - 1)
        for found in carry_out(self.index, move, source):
            if found is not segment:
                segment.refs[found.first] = sequence

    def _apply_rare(self, segment: Segment, window: Window, place: i64, length: i64, sequence: i64) -> None:
        data = window.data
        offset = window.base + place
        body: i64 = place + RECORD_HEAD
        kind = data[body]
        if kind == REDELIVERED:
            number = read_i64_be(data, body + 1)
            queue = read_queue(data, body + 9)
            count: i64 = i64(read_i32_be(data, body + 13))
            if self.index.holds(number, queue):
                self.index.note(number, queue, count, segment, offset, RECORD_HEAD + length)
        elif kind == ADD:
            number = read_i64_be(data, body + 1)
            queue = read_queue(data, body + 9)
            if self.index.extend(number, queue) is not None:
                self.index.note(number, queue, -1, segment, offset, RECORD_HEAD + length)
        else:
            old: Segment | None = None
            if kind == PUT:
                key_length: i64 = i64(read_i32_be(data, body + 2))
                key = data[body + 6 : body + 6 + key_length]
                value = data[body + 6 + key_length : body + length]
                old = self.index.put(Document(data[body + 1], key, value, segment, offset, RECORD_HEAD + length))
            elif kind == DELETE:
                old = self.index.remove(data[body + 1 : body + length])
            if old is not None and old is not segment:
                segment.refs[old.first] = sequence

    def _sweep_blobs(self) -> None:
        """Remove blobs to which no live message refers."""
        wanted: dict[int, int] = {}
        for blob in self.index.blob_of.values():
            wanted[blob] = 1
        found = self.port.blobs()
        # Bodies of a successor must not be taken for orphans by one who stood still until now: those that were listed
        # before the fence was found standing are not.
        if not self.fence.holds():
            raise StoreLost(f"the store was lost while it was read back: {self.fence.why()}")
        if self.epoch > 0:
            self.report.blob_highest = self.epoch << NUMBER_SHIFT
        for blob in found:
            self.report.blob_highest = max(self.report.blob_highest, blob)
            if blob not in wanted:
                self.port.blob_drop(blob)
                self.report.blobs_orphaned += 1
        for blob in wanted:
            length, checked = self.bodies[blob]
            flaw = self.overflow.flaw_of(blob, length, checked)
            if flaw:
                self.report.bodies_lost.append(flaw)

    def tell(self, sink: RecoverySink) -> None:
        """Hand the current documents and the live messages to ``sink``, once all is read."""
        prune(self.index)
        Telling(self.port, self.index).tell(sink)


def _inside(gaps: list[tuple[int, int]], first: i64, last: i64) -> bool:
    return any(low <= first and last <= high for low, high in gaps)
