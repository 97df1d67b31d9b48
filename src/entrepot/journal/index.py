"""Where every live message is, and which segments may go. [C]

Each segment keeps five compact arrays, one slot a message: number, offset, length, queue and state, 21 octets together;
numbers ascend, so a number is found by bisection. What few messages have sits in dictionaries: several queues, a
redelivery count, a large body. A message that was moved has a newer number than its slot: `moves` knows both.

Why a segment must stay although nothing in it is live: its records may undo records of an *older* segment (a SETTLE
there kills a message here; a PUT replaces one, a DELETE removes one). ``Segment.refs`` remembers for which older
segments that is so, and since which batch; a segment that was compacted as of batch N needs no record from before N.

Invariants: ``check``.
"""

from __future__ import annotations

from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i32, i64, u8

from entrepot.journal.moves import Moves

_KINDS: Final[list[bytes]] = [bytes([kind]) for kind in range(256)]
DEAD: Final = 0
LIVE: Final = 1
TRANSIENT: Final = 2
"""Live until the next start only."""

SEVERAL: Final = 0xFFFFFFFF
"""Stands in the queue array for "look into `Index.several`"."""

NOTHING: Final = 0
DURABLY: Final = 1
IN_PASSING: Final = 2


def segment_name(first: i64, last: i64, sequence: i64, as_of: i64) -> str:
    """Return the file name of segment ``first`` to ``last`` that begins at batch ``sequence``, compacted ``as_of``."""
    return f"{first:09d}-{last:09d}-{sequence:014d}-{as_of:014d}.seg"


def segment_range(name: str) -> tuple[i64, i64, i64, i64]:
    """Return (first id, last id, first batch, as_of) of a segment's file name; zeros for the name of something else."""
    parts = name[:-4].split("-")
    if not name.endswith(".seg") or len(parts) != 4:
        return 0, 0, 0, 0
    for part in parts:
        if not (part.isascii() and part.isdigit() and len(part) < 19):
            return 0, 0, 0, 0
    return int(parts[0]), int(parts[1]), int(parts[2]), int(parts[3])


class Segment:
    """One file: what is in it, how much of that is alive, and whose records it undoes.

    ``pins`` counts live things other than messages (documents, redelivery counts, additions).
    ``data_bytes`` are those of MESSAGE and PUT records, dead or alive; ``key_bytes`` those of PUT records without the
    values.
    """

    def __init__(self, first: i64, last: i64, first_sequence: i64) -> None:
        self.first: i64 = first
        self.last: i64 = last
        self.name: str = segment_name(first, last, first_sequence, 0)
        self.first_sequence: i64 = first_sequence
        self.end_sequence: i64 = 0
        self.as_of: i64 = 0
        self.sealed: bool = False
        self.damaged: bool = False
        self.end: i64 = 0
        self.data_bytes: i64 = 0
        self.key_bytes: i64 = 0
        self.live: i64 = 0
        self.live_bytes: i64 = 0
        self.pins: i64 = 0
        self.refs: dict[int, int] = {}
        self.reach: i64 = 0
        self.count: i64 = 0
        self.cursor: i64 = 0
        self.top: i64 = 0
        self.numbers = vec[i64]()
        self.offsets = vec[i32]()
        self.lengths = vec[i32]()
        self.queues = vec[i32]()
        self.states = vec[u8]()
        self.strays: dict[int, int] = {}
        self.stray_slots: dict[int, int] = {}

    def add(self, number: i64, offset: i64, length: i64, queue: i64, state: i64) -> None:
        """Note a message. A number below an earlier one is a stray until `tidy`."""
        kept = number
        if number <= self.top and self.count > 0:
            kept = self.top
            self.strays[number] = self.count
            self.stray_slots[self.count] = number
        else:
            self.top = number
        if queue >= 0x80000000:
            queue -= 0x100000000
        self.numbers = append(self.numbers, kept)
        self.offsets = append(self.offsets, i32(offset))
        self.lengths = append(self.lengths, i32(length))
        self.queues = append(self.queues, i32(queue))
        self.states = append(self.states, u8(state))
        self.count += 1
        self.data_bytes += length
        if state != DEAD:
            self.live += 1
            self.live_bytes += length

    def tidy(self) -> None:
        """Sort strays in and give back spare room; call when nothing more will be added."""
        if self.strays:
            self._sort()
        self.numbers = vec[i64](self.numbers)
        self.offsets = vec[i32](self.offsets)
        self.lengths = vec[i32](self.lengths)
        self.queues = vec[i32](self.queues)
        self.states = vec[u8](self.states)

    def _sort(self) -> None:
        order: list[tuple[int, int]] = []
        slot: i64 = 0
        while slot < self.count:
            order.append((int(self.number_at(slot)), int(slot)))
            slot += 1
        order.sort()
        numbers = vec[i64]()
        offsets = vec[i32]()
        lengths = vec[i32]()
        queues = vec[i32]()
        states = vec[u8]()
        for number, old in order:
            at: i64 = old
            numbers = append(numbers, i64(number))
            offsets = append(offsets, self.offsets[at])
            lengths = append(lengths, self.lengths[at])
            queues = append(queues, self.queues[at])
            states = append(states, self.states[at])
        self.numbers = numbers
        self.offsets = offsets
        self.lengths = lengths
        self.queues = queues
        self.states = states
        self.strays = {}
        self.stray_slots = {}
        self.cursor = 0

    def number_at(self, slot: i64) -> i64:
        """Return the number of the message in ``slot``."""
        if self.stray_slots:
            stray = self.stray_slots.get(slot, -1)
            if stray >= 0:
                return stray
        return self.numbers[slot]

    def queue_at(self, slot: i64) -> i64:
        """Return the queue of the message in ``slot``, or SEVERAL."""
        queue: i64 = i64(self.queues[slot])
        return queue & 0xFFFFFFFF

    def slot_of(self, number: i64) -> i64:
        """Return the slot of ``number``, dead or alive; -1 when this segment never had it."""
        count = self.count
        if count == 0 or number > self.top:
            return -1
        if self.strays:
            stray: i64 = self.strays.get(number, -1)
            if stray >= 0:
                return stray
        numbers = self.numbers
        following = self.cursor + 1  # queues are read in order: the next one is the likely one
        if following < count and numbers[following] == number and numbers[following - 1] != number:
            self.cursor = following
            return following
        low: i64 = 0
        high: i64 = count
        while low < high:
            middle = (low + high) >> 1
            if numbers[middle] < number:
                low = middle + 1
            else:
                high = middle
        if low < count and numbers[low] == number:
            self.cursor = low
            return low
        return -1


class Document:
    """A current value and where its PUT record is."""

    def __init__(self, kind: i64, key: bytes, value: bytes, segment: Segment, offset: i64, length: i64) -> None:
        self.kind: i64 = kind
        self.key: bytes = key
        self.value: bytes = value
        self.segment: Segment = segment
        self.offset: i64 = offset
        self.length: i64 = length
        self.current: bool = True


class Note:
    """A redelivery count of a message in a queue (``count`` >= 0), or an added queue (-1), and its record's place."""

    def __init__(self, queue: i64, count: i64, segment: Segment, offset: i64, length: i64) -> None:
        self.queue: i64 = queue
        self.count: i64 = count
        self.segment: Segment = segment
        self.offset: i64 = offset
        self.length: i64 = length
        self.current: bool = True


def pin(segment: Segment, length: i64) -> None:
    """Count one live record other than a message."""
    segment.pins += 1
    segment.live_bytes += length


def unpin(segment: Segment, length: i64) -> None:
    """Take back one `pin`."""
    segment.pins -= 1
    segment.live_bytes -= length


class Index:
    """All segments, oldest first, and what of them is alive. The last one is the one that grows."""

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.several: dict[int, list[int]] = {}
        self.notes: dict[int, list[Note]] = {}
        self.blob_of: dict[int, int] = {}
        self.documents: dict[bytes, Document] = {}
        self.messages: i64 = 0
        self.disk: i64 = 0
        self.slot: i64 = -1
        self.paged_bytes: i64 = 0  # of records that are live until the next start
        self.blob_freed: i64 = 0
        self.reclaimable: bool = False
        self.struck: Segment | None = None  # by the last `settle`
        self.undone: dict[int, bool] = {}  # brackets in parts that were never whole: what is in their parts never was
        self.moves: Moves = Moves()
        self._hint: Segment | None = None

    # -- segments ------------------------------------------------------------------------------------------------------

    def open(self, segment: Segment) -> None:
        """Add the segment that grows from now on."""
        self.segments.append(segment)

    def grow(self, segment: Segment, length: i64) -> None:
        """Note that ``segment`` became ``length`` octets longer."""
        segment.end += length
        self.disk += length

    def seal(self, segment: Segment, end_sequence: i64) -> None:
        """Nothing more comes into ``segment``."""
        segment.tidy()
        segment.sealed = True
        segment.end_sequence = end_sequence
        if segment.live == 0 and segment.pins == 0:
            self.reclaimable = True
        self.renew_reach()

    def renew_reach(self) -> None:
        """Recompute up to which number the segments up to each one reach; call after a change of the list."""
        reach: i64 = 0
        for segment in self.segments:
            if segment.count > 0 and segment.top > reach:
                reach = segment.top
            segment.reach = reach
        self._hint = None

    def covering(self, segment_id: i64) -> Segment | None:
        """Return the segment that holds what was written into ``segment_id``, or None when that is gone."""
        low = 0
        high = len(self.segments)
        while low < high:
            middle = (low + high) >> 1
            if self.segments[middle].last < segment_id:
                low = middle + 1
            else:
                high = middle
        if low < len(self.segments):
            found = self.segments[low]
            if found.first <= segment_id:
                return found
        return None

    def undoes_older(self, segment: Segment, before: i64) -> bool:
        """Say whether a segment older than id ``before`` still needs the settlements and the like of ``segment``."""
        for segment_id, since in segment.refs.items():
            older = self.covering(segment_id)
            if older is not None and older.first < before and older is not segment and since >= older.as_of:
                return True
        return False

    def reclaim(self, kept_from: i64, kept_to: i64) -> list[Segment]:
        """Take out and return the segments that hold nothing any more; ids ``kept_from`` to ``kept_to`` stay."""
        self.reclaimable = False
        gone: list[Segment] = []
        index = 0
        while index < len(self.segments) - 1:
            segment = self.segments[index]
            empty = segment.live == 0 and segment.pins == 0 and segment.sealed
            busy = kept_from <= segment.first <= kept_to
            if empty and not busy and not self.undoes_older(segment, segment.first):
                self.disk -= segment.end
                gone.append(segment)
                del self.segments[index]
            else:
                index += 1
        if gone:
            self.renew_reach()
        return gone

    # -- messages ------------------------------------------------------------------------------------------------------

    def add(
        self, segment: Segment, number: i64, offset: i64, length: i64, queues: list[int], state: i64, blob: i64
    ) -> None:
        """Note a message for ``queues``."""
        if len(queues) == 1:
            segment.add(number, offset, length, i64(queues[0]), state)
        else:
            segment.add(number, offset, length, SEVERAL, state)
            self.several[number] = list(queues)
        if blob != 0:
            self.blob_of[number] = blob
        if state == TRANSIENT:
            self.paged_bytes += length
        self.messages += 1

    def find(self, number: i64) -> Segment | None:
        """Return the segment that has ``number``, dead or alive, and set ``slot``; None when no segment has it."""
        if self.moves.rows:
            old = self.moves.written(number)
            if old != number:
                found = self.locate(old)
                if found is not None:
                    return found
            elif self.moves.move_of(number) is not None:
                return None  # nothing has that number any more
        return self.locate(number)

    def locate(self, number: i64) -> Segment | None:
        """Do as `find`, by the number that the record has."""
        hint = self._hint
        if hint is not None:
            slot = hint.slot_of(number)
            if slot >= 0:
                self.slot = slot
                return hint
        found = self._search(number)
        if found is not None:
            self._hint = found
        return found

    def _search(self, number: i64) -> Segment | None:
        segments = self.segments
        low: i64 = 0
        high: i64 = len(segments) - 1  # the growing segment has no reach yet
        if high < 0:
            return None
        while low < high:
            middle = (low + high) >> 1
            if segments[middle].reach < number:
                low = middle + 1
            else:
                high = middle
        while low < len(segments):
            segment = segments[low]
            slot = segment.slot_of(number)
            if slot >= 0:
                self.slot = slot
                return segment
            low += 1
        return None

    def alive(self, number: i64) -> bool:
        """Say whether ``number`` is live for any queue."""
        segment = self.find(number)
        return segment is not None and segment.states[self.slot] != DEAD

    def holds(self, number: i64, queue: i64) -> bool:
        """Say whether ``number`` is live for ``queue``; sets ``slot`` when it is."""
        segment = self.find(number)
        if segment is None or segment.states[self.slot] == DEAD:
            return False
        kept = segment.queue_at(self.slot)
        if kept == SEVERAL:
            return queue in self.several[number]
        return kept == queue

    def queues_of(self, number: i64, segment: Segment, slot: i64) -> list[int]:
        """Return for which queues the message in ``slot`` is live."""
        if segment.states[slot] == DEAD:
            return []
        queue = segment.queue_at(slot)
        if queue == SEVERAL:
            return self.several[number]
        return [queue]

    def settle(self, number: i64, queue: i64) -> tuple[i64, Segment | None]:
        """Strike ``queue`` off ``number``. Return NOTHING, DURABLY or IN_PASSING (needs no record), and the segment.

        ``struck``: the segment whose addition of ``queue`` is undone by it, too, where there is one.
        """
        self.struck = None
        segment = self.find(number)
        if segment is None:
            return NOTHING, None
        slot = self.slot
        state: i64 = i64(segment.states[slot])
        if state == DEAD:
            return NOTHING, segment
        kept = segment.queue_at(slot)
        if kept == SEVERAL:
            remaining = self.several[number]
            if queue not in remaining:
                return NOTHING, segment
            remaining.remove(queue)
            if self.notes:
                self._forget_notes(number, queue)
            if not remaining:
                del self.several[number]
                self._die(number, segment, slot)
        elif kept == queue:
            if self.notes:
                self._forget_notes(number, queue)
            self._die(number, segment, slot)
        else:
            return NOTHING, segment
        return (DURABLY if state == LIVE else IN_PASSING), segment

    def _die(self, number: i64, segment: Segment, slot: i64) -> None:
        length: i64 = i64(segment.lengths[slot])
        if segment.states[slot] == TRANSIENT:
            self.paged_bytes -= length
        segment.states[slot] = DEAD
        segment.live -= 1
        segment.live_bytes -= length
        self.messages -= 1
        if self.blob_of:
            self.blob_freed = self.blob_of.pop(number, 0)
        if segment.live == 0 and segment.pins == 0 and segment.sealed:
            self.reclaimable = True

    def extend(self, number: i64, queue: i64) -> Segment | None:
        """Add ``queue`` to a live message; None when it is not live or has that queue already."""
        segment = self.find(number)
        if segment is None or segment.states[self.slot] == DEAD:
            return None
        slot = self.slot
        kept = segment.queue_at(slot)
        if kept == SEVERAL:
            remaining = self.several[number]
            if queue in remaining:
                return None
            remaining.append(queue)
            return segment
        if kept == queue:
            return None
        self.several[number] = [kept, queue]
        segment.queues[slot] = -1  # SEVERAL as i32
        return segment

    # -- redelivery counts and additions -------------------------------------------------------------------------------

    def note(self, number: i64, queue: i64, count: i64, segment: Segment, offset: i64, length: i64) -> None:
        """Keep a redelivery count (``count`` >= 0) or an addition (-1) of a live message, with its record's place."""
        notes = self.notes.get(number)
        if notes is None:
            notes = []
            self.notes[number] = notes
        for known in notes:
            if known.queue == queue and (known.count < 0) == (count < 0):
                self._unpin(known.segment, known.length)
                known.count = count
                known.segment = segment
                known.offset = offset
                known.length = length
                pin(segment, length)
                return
        notes.append(Note(queue, count, segment, offset, length))
        pin(segment, length)

    def deliveries(self, number: i64, queue: i64) -> i64:
        """Return the redelivery count of a message in a queue; 0 when there is none."""
        if not self.notes:
            return 0
        for known in self.notes.get(number, []):
            if known.queue == queue and known.count >= 0:
                return known.count
        return 0

    def _forget_notes(self, number: i64, queue: i64) -> None:
        notes = self.notes.get(number)
        if notes is None:
            return
        kept: list[Note] = []
        for known in notes:
            if known.queue == queue:
                known.current = False
                if known.count < 0:
                    self.struck = known.segment
                self._unpin(known.segment, known.length)
            else:
                kept.append(known)
        if kept:
            self.notes[number] = kept
        else:
            del self.notes[number]

    def _unpin(self, segment: Segment, length: i64) -> None:
        unpin(segment, length)
        if segment.live == 0 and segment.pins == 0 and segment.sealed:
            self.reclaimable = True

    # -- documents -----------------------------------------------------------------------------------------------------

    def put(self, document: Document) -> Segment | None:
        """Make ``document`` the current value of its key; return the segment of the one it replaces."""
        name = document_name(document.kind, document.key)
        old = self.remove(name) if name in self.documents else None
        self.documents[name] = document
        segment = document.segment
        pin(segment, document.length)
        segment.data_bytes += document.length
        segment.key_bytes += document.length - len(document.value)
        return old

    def remove(self, name: bytes) -> Segment | None:
        """Forget the document ``name``; return the segment of its record, None when there was none."""
        old = self.documents.pop(name, None)
        if old is None:
            return None
        old.current = False
        self._unpin(old.segment, old.length)
        return old.segment

    # -- proof ---------------------------------------------------------------------------------------------------------

    def live_bytes(self) -> i64:
        """Return the octets of all live records."""
        total: i64 = 0
        for segment in self.segments:
            total += segment.live_bytes
        return total

    def check(self, pending: i64) -> None:
        """Assert what must be true. ``pending``: octets of the growing segment that are not handed over.

        Linear in the number of messages while there are few, in segments otherwise.
        """
        live: i64 = 0
        disk: i64 = 0
        pins: i64 = 0
        before: i64 = 0
        for segment in self.segments:
            assert segment.first > before, f"segment {segment.name} is out of order"
            assert segment.last >= segment.first
            before = segment.last
            live += segment.live
            disk += segment.end
            pins += segment.pins
            assert segment.live >= 0
            assert segment.pins >= 0
            end = segment.end if segment.sealed else segment.end + pending
            assert 0 <= segment.live_bytes <= end, f"{segment.name}: {segment.live_bytes} of {segment.end} live"
            if segment.count <= 4096:
                self._check_segment(segment)
        assert live == self.messages, f"{live} messages live in segments, {self.messages} counted"
        assert disk == self.disk, f"{disk} octets in segments, {self.disk} counted"
        noted = 0
        for notes in self.notes.values():
            noted += len(notes)
        assert pins == len(self.documents) + noted, "a live record pins no segment, or a dead one does"

    def _check_segment(self, segment: Segment) -> None:
        live: i64 = 0
        slot: i64 = 0
        while slot < segment.count:
            if slot > 0:
                assert segment.numbers[slot - 1] <= segment.numbers[slot]
            if segment.states[slot] != DEAD:
                live += 1
                number = self.moves.current(segment.number_at(slot))
                several = number in self.several
                assert several == (segment.queue_at(slot) == SEVERAL), f"message {number} has two ideas of its queues"
            slot += 1
        assert live == segment.live


def document_name(kind: i64, key: bytes) -> bytes:
    """Return kind and key as one key."""
    return _KINDS[kind] + key
