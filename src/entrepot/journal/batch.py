"""The batch that is being filled: records one behind the other, settlements joined into few. [C]"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from librt.strings import BytesWriter, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from entrepot.journal.record import BATCH_HEAD, RUN_MAX, SETTLE_LIST, SETTLE_RUN, frame, write_queue

RUN_MIN: Final = 3
"""From this many neighbours on, a SETTLE_RUN (25 octets) is shorter than their places in a SETTLE_LIST."""


class Settled:
    """Settlements of one queue, neighbours joined."""

    def __init__(self, queue: i64) -> None:
        self.queue: i64 = queue
        self.first: i64 = 0
        self.count: i64 = 0
        self.singles = BytesWriter()


class Batch:
    """Records for the place ``base`` of a segment. ``count`` is how many; settlements count when they are written.

    The records lie in ``out``. A read of what is not handed over yet (`octets`) cuts off what is there as a piece, so
    that a bracket of many megabytes whose messages are read one by one is copied once, not once for each message.
    """

    def __init__(self) -> None:
        self.base: i64 = 0
        self.count: i64 = 0
        self.out = BytesWriter()
        self.settled: dict[int, Settled] = {}
        self._last: Settled | None = None
        self._cut: i64 = 0  # octets in the pieces, which stand before ``out``
        self._pieces: list[bytes] = []
        self._starts: list[int] = []

    def empty(self) -> bool:
        """Say whether nothing is in it."""
        return self.count == 0 and not self.settled

    def length(self) -> i64:
        """Return the octets of the records so far; settlements that are only noted have none yet."""
        return self._cut + len(self.out)

    def record(self, body: bytes) -> i64:
        """Append one record and return its offset in the segment."""
        offset = self.base + BATCH_HEAD + self._cut + len(self.out)
        frame(self.out, body)
        self.count += 1
        return offset

    def settle(self, number: i64, queue: i64) -> None:
        """Note one settlement; it becomes part of a record before the batch is handed over."""
        settled = self._last
        if settled is None or settled.queue != queue:
            settled = self.settled.get(queue)
            if settled is None:
                settled = Settled(queue)
                self.settled[queue] = settled
            self._last = settled
        if 0 < settled.count < RUN_MAX and number == settled.first + settled.count:
            settled.count += 1
            return
        if settled.count > 0:
            self._end_run(settled)
        settled.first = number
        settled.count = 1

    def _end_run(self, settled: Settled) -> None:
        if settled.count >= RUN_MIN:
            body = BytesWriter()
            body.append(SETTLE_RUN)
            write_queue(body, settled.queue)
            write_i64_be(body, settled.first)
            write_i32_be(body, i32(settled.count))
            self.record(body.getvalue())
        else:
            number = settled.first
            while number < settled.first + settled.count:
                write_i64_be(settled.singles, number)
                number += 1
        settled.count = 0

    def finish(self) -> None:
        """Write the noted settlements as records. What they settle stands before them."""
        if not self.settled:
            return
        for settled in self.settled.values():
            if settled.count > 0:
                self._end_run(settled)
            if len(settled.singles) > 0:
                body = BytesWriter()
                body.append(SETTLE_LIST)
                write_queue(body, settled.queue)
                body.write(settled.singles.getvalue())
                self.record(body.getvalue())
        self.settled = {}
        self._last = None

    def octets(self, start: i64, stop: i64) -> bytes:
        """Return the records from octet ``start`` up to ``stop``; what was copied once is only cut later."""
        if stop > self._cut and len(self.out) > 0:
            self._starts.append(int(self._cut))
            self._pieces.append(self.out.getvalue())
            self._cut += len(self.out)
            self.out.truncate(0)
        position = bisect_right(self._starts, int(start)) - 1
        found: list[bytes] = []
        while 0 <= position < len(self._pieces) and self._starts[position] < stop:
            before = self._starts[position]
            found.append(self._pieces[position][max(start - before, 0) : stop - before])
            position += 1
        return found[0] if len(found) == 1 else b"".join(found)

    def take(self) -> bytes:
        """Return all records, and be empty."""
        octets = self.out.getvalue()
        self.out.truncate(0)
        self.count = 0
        if self._pieces:
            self._pieces.append(octets)
            octets = b"".join(self._pieces)
            self._pieces = []
            self._starts = []
            self._cut = 0
        return octets
