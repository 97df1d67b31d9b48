"""What waits in one queue, in order: references in memory first, then numbers of messages that stay on disk. [C]

A backlog has ten priority levels; each level is a doubly linked list of `Reference`, ascending by message number,
followed by a `Paged` tail that remembers only numbers (8 octets a message), so that a queue of millions needs no memory
for their bodies. Once a level has a tail, new messages join the tail: the order of a level is never broken.

Invariants (`check`): numbers ascend within a level, `count` and `octets` are the sums, no reference is linked twice.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i64_be, write_i64_be
from mypy_extensions import i64, mypyc_attr

from entrepot.core.queue.owed import Owed
from entrepot.model.message import DEFAULT_PRIORITY, Message

LEVELS: Final = 10
CHUNK_NUMBERS: Final = 4096  # 32 KiB of numbers: one allocation for what one page-in reads at the most


class Search:
    """How far a selective consumer has looked through what waits on disk: the last number seen of each level."""

    def __init__(self) -> None:
        self.seen: list[int] = [0] * LEVELS


@mypyc_attr(acyclic=True)
class Reference:
    """One message in one queue. ``deliveries`` counts attempts; ``due`` is when a delayed one may go again (ns).

    The collector of cycles does not know it, for there are many, and a collection looks at each: 100,000 are 5 to 20 ms
    for everybody. ``before`` and ``after`` are circles all the same, so whoever links one unlinks it (`Waiting`).
    """

    def __init__(self, message: Message) -> None:
        self.message: Message = message
        self.number: i64 = message.number
        self.deliveries: i64 = 0
        self.due: i64 = 0
        self.linked: bool = False
        self.shown: bool = False  # one consumer's, of a message that stays in the queue (`core/queue/showing.py`)
        self.paged: bool = False  # read back from disk: the journal has a record of it for this queue
        self.before: Reference | None = None
        self.after: Reference | None = None


class Waiting:
    """A linked list of references, ascending by number."""

    def __init__(self) -> None:
        self.head: Reference | None = None
        self.tail: Reference | None = None
        self.recent: Reference | None = None  # where `insert` linked last: returned messages come in runs
        self.count: i64 = 0

    def __del__(self) -> None:
        """Unlink what is linked still: one by one, for else each would let go of the next, a million deep."""
        each = self.head
        self.head = None
        self.tail = None
        self.recent = None
        while each is not None:
            after = each.after
            each.before = None
            each.after = None
            each = after

    def append(self, reference: Reference) -> None:
        """Link ``reference`` behind the last one; its number must be the highest (else use `insert`)."""
        tail = self.tail
        reference.before = tail
        reference.after = None
        reference.linked = True
        if tail is None:
            self.head = reference
        else:
            tail.after = reference
        self.tail = reference
        self.count += 1

    def insert(self, reference: Reference) -> None:
        """Link ``reference`` where its number belongs: at the tail, behind the last insertion, or near the head."""
        tail = self.tail
        if tail is None or tail.number < reference.number:
            self.append(reference)
            return
        later = self.head
        recent = self.recent
        if recent is not None and recent.linked and recent.number < reference.number:
            later = recent.after
        self.recent = reference
        while later is not None and later.number < reference.number:
            later = later.after
        assert later is not None
        before = later.before
        reference.before = before
        reference.after = later
        reference.linked = True
        later.before = reference
        if before is None:
            self.head = reference
        else:
            before.after = reference
        self.count += 1

    def remove(self, reference: Reference) -> None:
        """Unlink ``reference``, wherever it stands."""
        before = reference.before
        after = reference.after
        if before is None:
            self.head = after
        else:
            before.after = after
        if after is None:
            self.tail = before
        else:
            after.before = before
        reference.before = None
        reference.after = None
        reference.linked = False
        self.count -= 1


class Paged:
    """Numbers of messages that wait on disk, first in first out, 8 octets each."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.filling: BytesWriter = BytesWriter()
        self.taken: i64 = 0  # octets already taken from the first chunk (or from `filling` when there is no chunk)
        self.count: i64 = 0
        self.last: i64 = 0

    def append(self, number: i64) -> None:
        """Add the number of the newest message."""
        write_i64_be(self.filling, number)
        self.count += 1
        self.last = number
        if len(self.filling) >= CHUNK_NUMBERS * 8:
            self.chunks.append(self.filling.getvalue())
            self.filling = BytesWriter()

    def take(self, most: i64) -> list[int]:
        """Remove and return up to ``most`` numbers from the front."""
        numbers: list[int] = []
        while len(numbers) < most and self.count > 0:
            if not self.chunks:
                self.chunks.append(self.filling.getvalue())
                self.filling = BytesWriter()
            first = self.chunks[0]
            at = self.taken
            while at < len(first) and len(numbers) < most:
                numbers.append(read_i64_be(first, at))
                at += 8
                self.count -= 1
            self.taken = at
            if at >= len(first):
                del self.chunks[0]
                self.taken = 0
        return numbers

    def after(self, number: i64, most: i64) -> list[int]:
        """Return up to ``most`` numbers above ``number``, in order, and leave them where they are."""
        numbers: list[int] = []
        if self.count == 0 or self.last <= number:
            return numbers
        start = self.taken
        for chunk in self._parts():
            if read_i64_be(chunk, len(chunk) - 8) > number:
                at = _first_above(chunk, start, number)
                while at < len(chunk):
                    numbers.append(read_i64_be(chunk, at))
                    if len(numbers) >= most:
                        return numbers
                    at += 8
            start = 0
        return numbers

    def front(self) -> i64:
        """Return the lowest number; call only when ``count`` is above 0."""
        if self.chunks:
            return read_i64_be(self.chunks[0], self.taken)
        return read_i64_be(self.filling.getvalue(), self.taken)

    def discard(self, numbers: list[int]) -> i64:
        """Remove ``numbers`` (ascending); return how many were found. Rewrites only the chunks they are in."""
        if not numbers:
            return 0
        wanted: dict[int, bool] = dict.fromkeys(numbers, True)
        low: i64 = numbers[0]
        high: i64 = numbers[-1]
        found: i64 = 0
        chunks: list[bytes] = []
        start = self.taken
        self.taken = 0
        for chunk in self._parts():
            if start == 0 and (read_i64_be(chunk, 0) > high or read_i64_be(chunk, len(chunk) - 8) < low):
                chunks.append(chunk)
                continue
            kept = BytesWriter()
            at = start
            while at < len(chunk):
                number = read_i64_be(chunk, at)
                if number in wanted:
                    found += 1
                else:
                    write_i64_be(kept, number)
                at += 8
            start = 0
            if len(kept) > 0:
                chunks.append(kept.getvalue())
        self._set(chunks)
        self.count -= found
        return found

    def merge(self, numbers: list[int]) -> None:
        """Put ``numbers`` (ascending, none of them here) where they belong."""
        if not numbers:
            return
        merged = BytesWriter()
        chunks: list[bytes] = []
        position = 0
        start = self.taken
        self.taken = 0
        for chunk in self._parts():
            if start == 0 and (position == len(numbers) or numbers[position] > read_i64_be(chunk, len(chunk) - 8)):
                if len(merged) > 0:
                    chunks.append(merged.getvalue())
                    merged = BytesWriter()
                chunks.append(chunk)
                continue
            at = start
            while at < len(chunk):
                number = read_i64_be(chunk, at)
                while position < len(numbers) and numbers[position] < number:
                    write_i64_be(merged, numbers[position])
                    position += 1
                write_i64_be(merged, number)
                at += 8
            start = 0
            if len(merged) >= CHUNK_NUMBERS * 8:
                chunks.append(merged.getvalue())
                merged = BytesWriter()
        while position < len(numbers):
            write_i64_be(merged, numbers[position])
            position += 1
        if len(merged) > 0:
            chunks.append(merged.getvalue())
        self.last = max(self.last, numbers[-1])
        self._set(chunks)
        self.count += len(numbers)

    def _set(self, chunks: list[bytes]) -> None:
        """Take ``chunks`` for all that is here; the last goes on filling when it is short."""
        self.filling = BytesWriter()
        if chunks and len(chunks[-1]) < CHUNK_NUMBERS * 8:
            self.filling.write(chunks.pop())
        self.chunks = chunks

    def _parts(self) -> list[bytes]:
        parts = list(self.chunks)
        if len(self.filling) > 0:
            parts.append(self.filling.getvalue())
        return parts


def _first_above(chunk: bytes, start: i64, number: i64) -> i64:
    """Return the offset of the first of the ascending numbers in ``chunk[start:]`` that is above ``number``."""
    low: i64 = start // 8
    high: i64 = len(chunk) // 8
    while low < high:
        middle = (low + high) // 2
        if read_i64_be(chunk, middle * 8) <= number:
            low = middle + 1
        else:
            high = middle
    return low * 8


class Backlog:
    """All that waits in one queue. ``prioritized`` False puts every message on one level (Classic's default)."""

    def __init__(self, prioritized: bool) -> None:
        self.prioritized: bool = prioritized
        self.main: Waiting = Waiting()  # the level of the default priority: nearly all messages live here
        self.levels: list[Waiting | None] | None = None  # made when another priority is first seen
        self.paged: list[Paged | None] = [None] * LEVELS
        self.paged_count: i64 = 0
        self.paged_octets: i64 = 0  # their sizes; of what is taken away unread, its share
        self.loaded: i64 = 0  # references in memory
        self.octets: i64 = 0  # their sizes
        self.mixed: bool = False  # something in memory is younger than what is on disk of its level
        self.owed: Owed | None = None  # what is to come before anything else does

    @property
    def count(self) -> i64:
        """How many messages wait, in memory and on disk."""
        return self.loaded + self.paged_count

    def complete(self) -> None:
        """Let enter what is owed, before anything is done that is for all of it."""
        if self.owed is not None:
            self.owed.pay()

    def level_of(self, message: Message) -> i64:
        """Return the level that ``message`` belongs to."""
        return message.priority if self.prioritized else DEFAULT_PRIORITY

    def append(self, reference: Reference) -> bool:
        """Add a message that comes (held in memory); False: not at the end, for it was numbered before the last one."""
        message = reference.message
        level = self.main
        if self.prioritized and message.priority != DEFAULT_PRIORITY:
            level = self._level(message.priority)
        self.loaded += 1
        self.octets += message.size
        tail = level.tail
        if tail is not None and tail.number > reference.number:
            level.insert(reference)
            return False
        level.append(reference)
        return True

    def restore(self, reference: Reference) -> None:
        """Put a message back where its number belongs: before everything younger of its level."""
        message = reference.message
        level = self.main
        if self.prioritized and message.priority != DEFAULT_PRIORITY:
            level = self._level(message.priority)
        level.insert(reference)
        self.loaded += 1
        self.octets += message.size

    def remove(self, reference: Reference) -> None:
        """Take ``reference`` out, from anywhere."""
        message = reference.message
        level = self.main
        if self.prioritized and message.priority != DEFAULT_PRIORITY:
            level = self._level(message.priority)
        level.remove(reference)
        self.loaded -= 1
        self.octets -= message.size

    def page(self, level: i64, number: i64, octets: i64) -> bool:
        """Remember that message ``number``, of so many octets, waits on disk; False: not behind all of ``level``."""
        paged = self.paged[level]
        if paged is None:
            paged = Paged()
            self.paged[level] = paged
        self.paged_count += 1
        self.paged_octets += octets
        if paged.count > 0 and number < paged.last:
            paged.merge([int(number)])
            return False
        paged.append(number)
        return True

    def is_paging(self, level: i64) -> bool:
        """Return whether new messages of ``level`` must join its tail on disk to keep their order."""
        paged = self.paged[level]
        return paged is not None and paged.count > 0

    def behind(self, level: i64) -> Paged | None:
        """Return the tail of ``level`` on disk when it holds anything."""
        paged = self.paged[level]
        return paged if paged is not None and paged.count > 0 else None

    def stands_behind(self, reference: Reference) -> bool:
        """Return whether older ones of its level than ``reference``, which is in memory, are on disk. Costly."""
        paged = self.behind(self.level_of(reference.message))
        return paged is not None and paged.front() < reference.number

    def is_starved(self, least: i64, octets: i64) -> bool:
        """Return whether messages should be read from disk before the next is delivered.

        They must be when the next one is there: nothing in memory goes before it. They should be when fewer than
        ``least``, and fewer ``octets``, are in memory before it. Call only while something is on disk.
        """
        above: i64 = 0
        level: i64 = LEVELS - 1
        while level >= 0:
            waiting = self.waiting(level)
            if waiting is not None:
                above += waiting.count
            paged = self.paged[level]
            if paged is not None and paged.count > 0:
                head = None if waiting is None else waiting.head
                if above == 0 or (head is not None and head.number > paged.front()):
                    return True
                return above < least and self.octets < octets
            level -= 1
        return False

    def take_paged(self, level: i64, most: i64) -> list[int]:
        """Remove and return up to ``most`` numbers from the front of the tail of ``level``."""
        paged = self.paged[level]
        if paged is None:
            return []
        numbers = paged.take(most)
        self.left_disk(len(numbers))
        return numbers

    def take_unread(self, level: i64, most: i64) -> list[int]:
        """Remove and return numbers as `take_paged` does; nobody will read what they stand for."""
        paged = self.paged[level]
        if paged is None:
            return []
        self.lighten_unread(min(most, paged.count))
        return self.take_paged(level, most)

    def left_disk(self, count: i64) -> None:
        """So many messages do not wait on disk any more; `lighten` said what they weighed, where that is known."""
        self.paged_count -= count
        if self.paged_count == 0:
            self.paged_octets = 0

    def lighten(self, octets: i64) -> None:
        """A message of so many octets is about to leave the disk."""
        self.paged_octets = max(self.paged_octets - octets, 0)

    def lighten_unread(self, count: i64) -> None:
        """As many messages as ``count`` are about to leave the disk unread: they weigh what all do, on average."""
        if self.paged_count > 0:
            self.paged_octets -= self.paged_octets // self.paged_count * count

    def first(self) -> Reference | None:
        """Return the next message in memory: the highest level that has one, its lowest number."""
        if self.levels is None:
            return self.main.head
        level: i64 = LEVELS - 1
        while level >= 0:
            waiting = self.waiting(level)
            if waiting is not None and waiting.head is not None:
                return waiting.head
            level -= 1
        return None

    def following(self, reference: Reference) -> Reference | None:
        """Return what comes after ``reference`` in delivery order, in memory; None at the end."""
        after = reference.after
        if after is not None or self.levels is None:
            return after
        level = self.level_of(reference.message) - 1
        while level >= 0:
            waiting = self.waiting(level)
            if waiting is not None and waiting.head is not None:
                return waiting.head
            level -= 1
        return None

    def waiting(self, level: i64) -> Waiting | None:
        """Return the list of ``level``, if it was ever used."""
        if level == DEFAULT_PRIORITY:
            return self.main
        levels = self.levels
        return None if levels is None else levels[level]

    def references(self) -> list[Reference]:
        """Return all references in memory, in delivery order (a copy: for upkeep, not for delivery)."""
        found: list[Reference] = []
        reference = self.first()
        while reference is not None:
            found.append(reference)
            reference = self.following(reference)
        return found

    def _level(self, priority: i64) -> Waiting:
        levels = self.levels
        if levels is None:
            levels = [None] * LEVELS
            levels[DEFAULT_PRIORITY] = self.main
            self.levels = levels
        level = levels[priority]
        if level is None:
            level = Waiting()
            levels[priority] = level
        return level

    def check(self) -> None:
        """Assert the invariants at the head of this module (simulation and debug builds)."""
        loaded: i64 = 0
        octets: i64 = 0
        level: i64 = 0
        while level < LEVELS:
            waiting = self.waiting(level)
            previous: i64 = -1
            seen: i64 = 0
            reference = None if waiting is None else waiting.head
            while reference is not None:
                assert reference.linked, f"message {reference.number} is in the list but not marked linked"
                assert reference.number > previous, f"{reference.number} stands behind {previous}"
                previous = reference.number
                seen += 1
                octets += reference.message.size
                reference = reference.after
            if waiting is not None:
                assert seen == waiting.count, f"level {level} counts {waiting.count}, holds {seen}"
            loaded += seen
            level += 1
        paged_count: i64 = 0
        for paged in self.paged:
            if paged is not None:
                numbers = paged.after(0, paged.count + 1)
                assert len(numbers) == paged.count, f"{paged.count} are said to be on disk, {len(numbers)} are"
                assert numbers == sorted(set(numbers)), "numbers on disk do not ascend"
                paged_count += paged.count
        assert paged_count == self.paged_count, f"counted {self.paged_count} on disk, found {paged_count}"
        assert self.paged_octets >= 0, f"{self.paged_octets} octets on disk"
        assert paged_count > 0 or self.paged_octets == 0, f"nothing on disk weighs {self.paged_octets}"
        assert loaded == self.loaded, f"counted {self.loaded} in memory, found {loaded}"
        assert octets == self.octets, f"charged {self.octets} octets, found {octets}"
