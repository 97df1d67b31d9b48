"""What can be read of a damaged journal, and a list of what cannot. Changes nothing.

Recovery refuses a journal whose middle is damaged, because what is missing may be a settlement, and nobody but people
can decide to live with that. Here they have decided. Every batch that is whole counts as in recovery. Of a batch that
is not, and that was on disk, each record counts whose checksum is right, where its place is certain: behind its
neighbour, or behind the one damaged neighbour whose length leads to it. Nothing is ever searched for inside of what is
damaged: a body may hold octets that look like records.

What stands behind the last batch that was known to be on disk was never confirmed, and is left out as by recovery.
"""

from __future__ import annotations

from typing import Final

import msgspec

from entrepot.base.errors import CorruptJournal, StorageError
from entrepot.journal.epoch import boundaries_of, is_late
from entrepot.journal.index import Segment, segment_range
from entrepot.journal.names import BATCH_MARK, document_key, highest_claim, parse_gaps
from entrepot.journal.ports import JournalPort, RecoverySink
from entrepot.journal.record import (
    BATCH_HEAD,
    FLAG_EXTENDED,
    FORMAT,
    FORMAT_FIRST,
    MESSAGE,
    MESSAGE_FIXED,
    RECORD_HEAD,
    RECORD_NAMES,
    batch_length,
    batch_sequence,
    batch_valid,
    head_valid,
    payload_fits,
    read_queue,
    record_valid,
)
from entrepot.journal.recovery import Recovery
from entrepot.journal.window import Window

QUEUES_MAX: Final = 64  # more in what is left of a record are noise
NUMBER_MAX: Final = 1 << 62


class Loss(msgspec.Struct):
    """A stretch that cannot be read.

    ``number`` and ``queues`` are what the damaged octets say themselves, where that can be; it may be wrong, too.
    ``after`` and ``before``: numbers of the messages in front of it and behind it in the log, 0 when there is none.
    ``missing``: how many numbers between them are nowhere else: so many messages may be lost at most, -1 no telling.
    ``settlements``: it may have said that messages were done with; those come again.
    """

    segment: str
    offset: int
    octets: int
    what: str
    number: int = 0
    queues: list[int] = []
    after: int = 0
    before: int = 0
    missing: int = -1
    settlements: bool = True


class Salvage:
    """One reading of a damaged journal. ``recovery`` holds what was found, as after a recovery; use `tell`."""

    def __init__(self, port: JournalPort) -> None:
        self.port = port
        self.recovery = Recovery(port)
        self.losses: list[Loss] = []
        self.unconfirmed = ""  # where what was never confirmed begins
        self.batches = 0
        self._claim = 0
        self._last = 0  # number of the last message that was read
        self._open: list[Loss] = []  # losses since then

    def run(self) -> None:
        """Read everything. Raises CorruptJournal for a format that this build does not know, StorageError.

        A bracket in parts whose end is not there never counted, if all could be read. Else what is left of it is taken:
        its end may be what cannot be read.
        """
        self._read()
        undecided = self.recovery.brackets.undecided
        if undecided and self.losses:
            for segments in undecided.values():
                last = list(segments.values())[-1]
                self._lose(last.name, int(last.end), 0, "the end of a large transaction; what is left of it is taken")
        elif undecided:
            self.recovery = Recovery(self.port)
            self.recovery.brackets.undone = dict.fromkeys(undecided, True)
            self.unconfirmed = ""
            self.batches = self._claim = self._last = 0
            self._read()

    def _read(self) -> None:
        names = self._names()
        data = {name: self._claims(name) for name in names}
        boundaries = boundaries_of(self.port, names)
        self.recovery.boundaries = boundaries
        for position, name in enumerate(names):
            following = names[position + 1] if position + 1 < len(names) else ""
            if is_late(name, boundaries) or data[name] < 0:
                continue
            if not self._segment(name, following):
                break
        self._missing_files()
        self._count_missing()

    def tell(self, sink: RecoverySink) -> None:
        """Hand documents and live messages to ``sink``, as recovery does."""
        self.recovery.index.blob_freed = 0
        self.recovery.tell(sink)

    def _names(self) -> list[str]:
        """Return the segments in order; of files that cover one another the larger, of others the first."""
        found: list[tuple[int, int, int, str]] = []
        for name in self.port.names():
            first, last, _, as_of = segment_range(name)
            if first > 0:
                found.append((int(first), -int(last), -int(as_of), name))
        found.sort()
        names: list[str] = []
        reached = 0
        for first_id, negative_last, _, name in found:
            if -negative_last <= reached:
                continue
            if first_id <= reached:
                self._lose(name, 0, int(self.port.size(name)), "its range of ids overlaps that of another segment")
                continue
            names.append(name)
            reached = -negative_last
        return names

    def _claims(self, name: str) -> int:
        """Note what the batches of a segment claim; -1 for a file that the disk does not give."""
        try:
            octets = self.port.read(name, 0, self.port.size(name))
        except StorageError as error:
            self._lose(name, 0, 0, f"the file cannot be read: {error.message}")
            return -1
        self._claim = max(self._claim, int(highest_claim(octets, 0, segment_range(name)[0])))
        return len(octets)

    # -- one segment ---------------------------------------------------------------------------------------------------

    def _segment(self, name: str, following: str) -> bool:
        """Take in what can be read of a segment; False when the log ends in it."""
        first, last, sequence, as_of = (int(each) for each in segment_range(name))
        size = int(self.port.size(name))
        for boundary in self.recovery.boundaries:
            if int(boundary.last) == last and as_of == 0:
                size = min(size, int(boundary.length))
        window = Window(self.port, name, size, max(size, 1))
        window.place(0, size)
        octets = window.data
        segment = Segment(first, last, sequence)
        segment.name = name
        segment.end = len(octets)
        self.recovery.index.open(segment)
        compacted = as_of > 0
        expected = 1 if compacted else sequence
        at = 0
        going_on = True
        while at < len(octets) and not segment.sealed:
            whole = bool(batch_valid(octets, at, first, at))
            zeros = not whole and not octets[at:].strip(b"\0")
            if not whole and not compacted and expected > self._claim:  # nothing from here on was ever confirmed
                if not zeros:
                    self.unconfirmed = f"{name}:{at}"
                going_on = False
                break
            if zeros:
                break
            if whole:
                if at == 0 and not self._readable_format(segment, octets, as_of):
                    break
                expected = int(batch_sequence(octets, at)) + 1
                at = self._whole_batch(segment, window, at)
            else:
                at, expected = self._broken_batch(segment, window, at, expected)
        if not segment.sealed and going_on:
            self._ended_early(segment, min(at, len(octets)), expected, following, compacted)
        segment.sealed = True
        self.recovery.index.seal(segment, max(expected - 1, 0))
        return going_on

    def _readable_format(self, segment: Segment, octets: bytes, as_of: int) -> bool:
        version = int.from_bytes(octets[BATCH_HEAD + RECORD_HEAD + 1 :][:2], "big")
        try:
            self.recovery.read_meta(segment, octets, as_of)
        except CorruptJournal as error:
            if not FORMAT_FIRST <= version <= FORMAT:
                raise
            self._lose(segment.name, 0, len(octets), error.message)
            return False
        return True

    def _whole_batch(self, segment: Segment, window: Window, at: int) -> int:
        octets = window.data
        end = at + BATCH_HEAD + int(batch_length(octets, at))
        top = int(self.recovery.report.number_highest)
        try:
            self.recovery.apply(segment, window, at, batch_sequence(octets, at))
        except CorruptJournal as error:
            self._lose(segment.name, at, end - at, error.message)
        self.batches += 1
        if self._open:
            self._note_numbers(octets, at + BATCH_HEAD, end)
        elif int(self.recovery.report.number_highest) != top:
            self._last = int(self.recovery.report.number_highest)
        return end

    def _note_numbers(self, octets: bytes, place: int, end: int) -> None:
        """Say to the losses in front of a batch which message comes first in it, and remember its last one."""
        while place < end:
            length = int.from_bytes(octets[place : place + 4], "big")
            if octets[place + RECORD_HEAD] == MESSAGE:
                self._came(int.from_bytes(octets[place + 10 : place + 18], "big"))
            place += RECORD_HEAD + length

    def _came(self, number: int) -> None:
        for loss in self._open:
            loss.before = number
        self._open = []
        self._last = number

    def _broken_batch(self, segment: Segment, window: Window, at: int, expected: int) -> tuple[int, int]:
        """Take single records of a batch that is not whole; return where the next batch is, and its sequence."""
        octets = window.data
        first = int(segment.first)
        if head_valid(octets, at, first, at):
            end = min(len(octets), at + BATCH_HEAD + int(batch_length(octets, at)))
            following = int(batch_sequence(octets, at)) + 1
        else:
            end = octets.find(BATCH_MARK, at + 1)
            while end >= 0 and not head_valid(octets, end, first, end):
                end = octets.find(BATCH_MARK, end + 1)
            if end < 0:
                end = max(at, len(octets.rstrip(b"\0")))
                following = expected + 1
            else:
                following = int(batch_sequence(octets, end))
            self._lose(segment.name, at, min(BATCH_HEAD, end - at), "the head of a batch", settlements=False)
        place = at + BATCH_HEAD
        while place < end:
            if record_valid(octets, place, end):
                place = self._record(segment, window, place, expected)
            else:
                place = self._broken_record(segment, octets, place, end)
        return max(end, at + 1), max(following, expected + 1)

    def _record(self, segment: Segment, window: Window, place: int, sequence: int) -> int:
        octets = window.data
        length = int.from_bytes(octets[place : place + 4], "big")
        try:
            if octets[place + RECORD_HEAD] in RECORD_NAMES:
                self.recovery.apply_record(segment, window, place, length, sequence)
            if octets[place + RECORD_HEAD] == MESSAGE and payload_fits(octets, place):
                self._came(int.from_bytes(octets[place + 10 : place + 18], "big"))
        except CorruptJournal as error:
            self._lose(segment.name, place, RECORD_HEAD + length, error.message)
        return place + RECORD_HEAD + length

    def _broken_record(self, segment: Segment, octets: bytes, place: int, end: int) -> int:
        """Note a record that cannot be read; return where the next one is, or ``end`` when that is not certain."""
        length = int.from_bytes(octets[place : place + 4], "big", signed=True)
        following = place + RECORD_HEAD + length
        certain = length > 0 and (following == end or (following < end and bool(record_valid(octets, following, end))))
        if not certain:
            for bit in range(31):  # one flipped bit in the length: the checksum says which
                turned = length ^ (1 << bit)
                after = place + RECORD_HEAD + turned
                fixed = turned.to_bytes(4, "big", signed=True) + octets[place + 4 : after]
                if turned > 0 and after <= end and record_valid(fixed, 0, len(fixed)):
                    self._lose(segment.name, place, after - place, "a record whose length is damaged", octets, after)
                    return after
        if not certain:
            self._lose(segment.name, place, end - place, "records, to the end of their batch")
            return end
        kind = octets[place + RECORD_HEAD]
        name = RECORD_NAMES.get(kind, "unknown")
        self._lose(segment.name, place, following - place, f"a record of type {name}", octets, following)
        return following

    def _ended_early(self, segment: Segment, at: int, expected: int, following: str, compacted: bool) -> None:
        """The segment has no end mark: something that was on disk may be missing."""
        next_first, _, next_sequence, _ = (int(each) for each in segment_range(following))
        if any(int(boundary.last) == int(segment.last) for boundary in self.recovery.boundaries) and not compacted:
            return  # its writer died, and a later one read it to its end
        neighbour = next_first == int(segment.last) + 1 and next_sequence > expected
        lost = compacted or (expected <= self._claim and (not following or neighbour))
        if lost:
            self._lose(segment.name, at, 0, "the end of the file, from there on")

    # -- losses --------------------------------------------------------------------------------------------------------

    def _lose(
        self,
        name: str,
        offset: int,
        octets: int,
        what: str,
        data: bytes = b"",
        end: int = 0,
        *,
        settlements: bool = True,
    ) -> None:
        loss = Loss(name, offset, octets, what, after=self._last, settlements=settlements)
        body = offset + RECORD_HEAD
        if data and end - body >= MESSAGE_FIXED and data[body] == MESSAGE:
            _guess(loss, data, body, end)
        self.losses.append(loss)
        self._open.append(loss)

    def _missing_files(self) -> None:
        index = self.recovery.index
        document = index.documents.get(document_key())
        gaps = [] if document is None else parse_gaps(document.value)
        gaps += [(int(each.last + 1), int(each.first() - 1)) for each in self.recovery.boundaries]
        following = 1
        sequence = 0
        self._open = []  # behind those there is no message
        for segment in index.segments:
            first = int(segment.first)
            dropped = any(low <= following and first - 1 <= high for low, high in gaps)
            if first > following and not dropped:
                what = f"the segments {following} to {first - 1}: their files are missing"
                if document is None:
                    what += ", or were removed when they were empty; the list of those is lost"
                self._last = sequence
                self._lose("", following, 0, what)
            following = int(segment.last) + 1
            if segment.count:
                for loss in self._open:
                    loss.before = int(segment.number_at(0))
                self._open = []
                sequence = int(segment.number_at(segment.count - 1))

    def _count_missing(self) -> None:
        index = self.recovery.index
        for loss in self.losses:
            if 0 < loss.after < loss.before and loss.before - loss.after < NUMBER_MAX:
                between = range(loss.after + 1, loss.before)
                if len(between) <= 1_000_000:
                    loss.missing = sum(1 for number in between if index.find(number) is None)


def _guess(loss: Loss, data: bytes, body: int, end: int) -> None:
    """Note what is left of a MESSAGE record says of itself."""
    count = int.from_bytes(data[body + 14 : body + 16], "big")
    number = int.from_bytes(data[body + 2 : body + 10], "big")
    if not 0 < count <= QUEUES_MAX or body + MESSAGE_FIXED + 4 * count > end or not 0 < number < NUMBER_MAX:
        return
    if data[body + 1] & ~(FLAG_EXTENDED | 1):
        return
    loss.number = number
    loss.queues = [int(read_queue(data, body + MESSAGE_FIXED + 4 * at)) for at in range(count)]
    loss.settlements = False
