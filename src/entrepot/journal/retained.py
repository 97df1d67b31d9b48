"""What the journal lets go of, kept for a while and read again: files in the order of the log, and messages in them.

Kept are segments as they were written, and large bodies. A segment that was compacted says nothing new, its sources
were kept before it: it is passed over. What was written, and in which batch, is checked as at recovery; where a file
makes no sense the rest of it is passed over, and that is counted.

A message is found wherever its record is: settled or not, and in which queue does not matter. Not found is what was
never sent: what waits for its time or for a commit (its record is another one when it is sent), a large transaction
that was not complete; and what is forgotten at the next start. What was staged is found where a MOVE publishes it, by
its new number: the batches with what it may mean are read once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from librt.strings import read_i16_be, read_i32_be, read_i64_be

from entrepot.base.environment import MIB
from entrepot.base.errors import EntrepotError, StorageError
from entrepot.journal.index import segment_range
from entrepot.journal.moving import read_move
from entrepot.journal.record import (
    BATCH_HEAD,
    EPOCH,
    FLAG_TRANSIENT,
    MESSAGE,
    MESSAGE_FIXED,
    META,
    MOVE,
    PART,
    RECORD_HEAD,
    WHOLE,
    batch_length,
    envelope_at,
    head_valid,
    payload_fits,
    read_queue,
    record_valid,
)
from entrepot.model.message import Message, read_envelope

if TYPE_CHECKING:
    from typing import Protocol

    class Fetch(Protocol):
        """Octets that are being read."""

        def done(self) -> bool:
            """Return whether `octets` would answer at once."""

        def octets(self) -> bytes:
            """Return them; fewer than were asked for at the end of the file. Raises StorageError."""


READ: Final = 1 * MIB
"""So much is read at once: a batch is seldom longer."""
LOOKS: Final = 1_000
"""After so many records others have their turn."""


class Extent(NamedTuple):
    """A file that is read, up to ``end`` (-1: all of it), and when it was written to last, ms since 1970.

    ``late``: only what it publishes of the files before it is meant.
    """

    name: str
    ended: int
    end: int = -1
    late: bool = False


class _Kept(NamedTuple):
    """A batch, at ``offset`` of the extent ``at``, and the numbers that wait in it."""

    low: int
    high: int
    at: int
    offset: int


class Archive:
    """Where what is kept is read from. Real: `io/retention.py`."""

    def extents(self) -> list[Extent]:
        """Return the segments as they were written, kept or still in the journal, in the order of the log."""
        raise NotImplementedError

    def fetch(self, name: str, offset: int, length: int) -> Fetch:
        """Begin to read ``length`` octets of a segment or of a body."""
        raise NotImplementedError

    def report(self) -> dict[str, object]:
        """Return where it is, its limits, and how much is kept."""
        raise NotImplementedError


class Scan:
    """Goes through files once. ``passed``: files, or ends of files, that made no sense or were gone, and why."""

    def __init__(self, archive: Archive, extents: Sequence[Extent], reserved: int) -> None:
        """``reserved``: queue ids below it are not those of queues."""
        self.archive: Final = archive
        self.extents: Final = extents
        self.passed: list[str] = []
        self.octets = 0
        self._reserved: Final = reserved
        self._whole: dict[int, bool] = {}  # brackets in parts: whether all of one is there
        self._kept: list[_Kept] = []  # batches with messages that no queue has yet, their numbers rising

    def messages(self, address: str) -> Iterator[Message | None]:
        """Yield each message for ``address``; None when others are to have a turn, as while the disk is waited for."""
        wanted = address.encode()
        looks = 0
        for at, extent in enumerate(self.extents):
            if extent.late and not self._kept:
                continue
            for data, start, end, offset in self._batches(at):
                if data is None:
                    yield None
                    continue
                bracket = _bracket(data, start, end)
                if bracket:
                    yield from self._decide(bracket, at, offset)
                    if not self._whole[bracket]:
                        continue
                for place in _records(data, start, end):
                    looks += 1
                    if looks % LOOKS == 0:
                        yield None
                    if place < 0:
                        self.passed.append(f"{self.extents[at].name}: the batch at {offset} fails a checksum")
                        break
                    if data[place + RECORD_HEAD] == MOVE and payload_fits(data, place):
                        yield from self._moved(data, place + RECORD_HEAD, wanted)
                        continue
                    if extent.late:
                        continue
                    message = self._message(data, place, wanted)
                    if message is not None and self._waits(data, place):
                        self._keep(int(message.number), at, offset)
                    elif message is not None:
                        yield message

    def _keep(self, number: int, at: int, offset: int) -> None:
        """Remember in which batch message ``number`` is, which no queue has yet."""
        last = self._kept[-1] if self._kept else None
        if last is None or (last.at, last.offset) != (at, offset):
            self._kept.append(_Kept(number, number, at, offset))
        else:
            self._kept[-1] = last._replace(low=min(last.low, number), high=max(last.high, number))

    def _take(self, first: int, end: int) -> list[_Kept]:
        """Return the batches in which messages from ``first`` to below ``end`` wait; they do so no longer."""
        found: list[_Kept] = []
        left: list[_Kept] = []
        for one in self._kept:
            if one.low >= end or one.high < first:
                left.append(one)
                continue
            found.append(one)
            if one.low < first:
                left.append(one)
            elif one.high >= end:
                left.append(one._replace(low=end))
        self._kept = left
        return found

    def _moved(self, data: bytes, body: int, wanted: bytes) -> Iterator[Message | None]:
        """Yield the messages that the MOVE at ``data[body]`` gave to a queue, as far as they are for ``wanted``."""
        move, _ = read_move(data, body, 0)
        first, end, fresh = int(move.first), int(move.first + move.count), int(move.fresh)
        if move.queue < self._reserved:
            return
        for kept in self._take(first, end):
            for found, start, stop, offset in self._batches(kept.at, kept.offset):
                if found is None:
                    yield None
                    continue
                if offset != kept.offset:
                    break
                for place in _records(found, start, stop):
                    message = self._message(found, place, wanted) if place >= 0 else None
                    if message is not None and first <= message.number < end:
                        message.number = fresh + int(message.number) - first
                        yield message
                break

    def _waits(self, data: bytes, place: int) -> bool:
        """Return whether no queue has the message of the record at ``data[place]`` yet."""
        body = place + RECORD_HEAD
        count = int(read_i16_be(data, body + 14))
        return all(read_queue(data, body + MESSAGE_FIXED + 4 * at) < self._reserved for at in range(count))

    def _message(self, data: bytes, place: int, wanted: bytes) -> Message | None:
        body = place + RECORD_HEAD
        if data[body] != MESSAGE or data[body + 1] & FLAG_TRANSIENT or not payload_fits(data, place):
            return None
        envelope = int(envelope_at(data, body))
        length = int(read_i16_be(data, envelope + 24))
        if data[envelope + 26 : envelope + 26 + length] != wanted:
            return None
        try:
            message = read_envelope(data, envelope)
        except (IndexError, ValueError, EntrepotError) as nonsense:
            self.passed.append(f"message {read_i64_be(data, body + 2)} makes no sense: {nonsense}")
            return None
        message.number = read_i64_be(data, body + 2)
        return message

    # -- batches -------------------------------------------------------------------------------------------------------

    def _batches(self, at: int, begin: int = 0) -> Iterator[tuple[bytes | None, int, int, int]]:
        """Yield (octets, where in them its records begin, where they end, offset in the file) of each batch.

        The octets are None while the disk is waited for.
        """
        name, limit = self.extents[at].name, self.extents[at].end
        first = segment_range(name)[0]
        offset, need = begin, READ
        while limit < 0 or offset < limit:
            fetch = self.archive.fetch(name, offset, need)
            while not fetch.done():
                yield None, 0, 0, 0
            try:
                data = fetch.octets()
            except StorageError as error:
                self.passed.append(error.message)
                return
            self.octets += len(data)
            place = 0
            while place + BATCH_HEAD <= len(data) and head_valid(data, place, first, offset + place):
                end = place + BATCH_HEAD + int(batch_length(data, place))
                if end > len(data):
                    break
                if limit >= 0 and offset + end > limit:
                    return
                yield data, place + BATCH_HEAD, end, offset + place
                place = end
            following = _needed(data, place, first, offset + place)
            if place == 0 and (following <= need or len(data) < need):  # zeros, or what is no batch
                if data.strip(b"\0"):
                    self.passed.append(f"{name}: what stands behind {offset} is no batch")
                return
            offset += place
            need = max(READ, following)

    # -- brackets in parts ---------------------------------------------------------------------------------------------

    def _decide(self, bracket: int, at: int, offset: int) -> Iterator[None]:
        """Find out whether all parts of ``bracket`` are there: look ahead, once, until its end is found."""
        if bracket in self._whole:
            return
        for ahead in range(at, len(self.extents)):
            for data, start, end, _ in self._batches(ahead, offset if ahead == at else 0):
                if data is None:
                    yield None
                    continue
                for place in _records(data, start, end):
                    if place >= 0 and data[place + RECORD_HEAD] == WHOLE:
                        self._whole[int(read_i64_be(data, place + RECORD_HEAD + 1))] = True
                if bracket in self._whole:
                    return
        self._whole[bracket] = False


def _needed(data: bytes, place: int, first: int, offset: int) -> int:
    """Return how long the batch at ``data[place]`` is, 0 where there is none."""
    if place + BATCH_HEAD > len(data) or not head_valid(data, place, first, offset):
        return 0
    return BATCH_HEAD + int(batch_length(data, place))


def _records(data: bytes, start: int, end: int) -> Iterator[int]:
    """Yield where each record of a batch begins; -1 instead of one that fails its checksum, and no more."""
    place = start
    while place < end:
        if not record_valid(data, place, end):
            yield -1
            return
        yield place
        place += RECORD_HEAD + int(read_i32_be(data, place))


def _bracket(data: bytes, start: int, end: int) -> int:
    """Return the bracket that a batch is a part of, 0 for none: it stands first, behind what opens a segment."""
    for place in _records(data, start, end):
        kind = data[place + RECORD_HEAD] if place >= 0 else 0
        if kind == PART and payload_fits(data, place):
            return int(read_i64_be(data, place + RECORD_HEAD + 1))
        if kind not in (META, EPOCH):
            break
    return 0
