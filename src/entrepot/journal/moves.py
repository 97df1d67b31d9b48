"""Messages that have another number and another queue than their records say, since a MOVE. [C]

A MOVE gives messages that are written one behind the other new numbers, and one queue in place of the one that they had
alone. Their records stay where they are. Whoever is outside knows the new numbers only; `Moves.written` finds the one
under which the record lies, `Moves.current` the way back.

A row is needed as long as a segment has a record under the old number, dead or alive: a settlement of a dead one must
find its segment when it is copied. A segment that was compacted after the MOVE has the new numbers. So rows go by the
same rule as settlements do (`index.py`): when no segment that they concern is as old as they are.
"""

from __future__ import annotations

from bisect import bisect_right

from mypy_extensions import i64


class Move:
    """``count`` messages, written as ``first`` and so on, are ``fresh`` and so on, in ``queue``, since batch ``since``.

    ``low`` and ``high``: ids of the segments that have them.
    """

    def __init__(self, first: i64, count: i64, queue: i64, fresh: i64, since: i64) -> None:
        self.first: i64 = first
        self.count: i64 = count
        self.queue: i64 = queue
        self.fresh: i64 = fresh
        self.since: i64 = since
        self.low: i64 = 0
        self.high: i64 = -1

    def touches(self, first: i64, last: i64) -> None:
        """Note that the segment of the ids ``first`` to ``last`` has some of them."""
        if self.high < 0 or first < self.low:
            self.low = first
        self.high = max(self.high, last)


class Moves:
    """All moves of a journal that are still needed, by either number."""

    def __init__(self) -> None:
        self.rows: list[Move] = []  # by new number, which is the order in which they happened
        self._fresh: list[int] = []
        self._old: list[Move] = []
        self._first: list[int] = []
        self._last: Move | None = None

    def add(self, move: Move) -> None:
        """Take one more; one that goes on where the last one ended becomes part of it."""
        rows = self.rows
        last = rows[-1] if rows else None
        if (
            last is not None
            and last.since == move.since
            and last.first + last.count == move.first
            and last.fresh + last.count == move.fresh
        ):
            last.count += move.count
            last.low = min(last.low, move.low)
            last.high = max(last.high, move.high)
            return
        rows.append(move)
        self._fresh.append(int(move.fresh))
        if len(rows) > 1 and move.fresh < rows[-2].fresh:
            self._sort()
        at = bisect_right(self._first, int(move.first))
        self._first.insert(at, int(move.first))
        self._old.insert(at, move)

    def _sort(self) -> None:
        self.rows.sort(key=_fresh_of)
        self._fresh = [int(move.fresh) for move in self.rows]

    def written(self, number: i64) -> i64:
        """Return the number under which the record of message ``number`` was written."""
        last = self._last
        if last is not None and last.fresh <= number < last.fresh + last.count:
            return last.first + (number - last.fresh)
        at = bisect_right(self._fresh, int(number)) - 1
        if at < 0:
            return number
        move = self.rows[at]
        if number >= move.fresh + move.count:
            return number
        self._last = move
        return move.first + (number - move.fresh)

    def move_of(self, written: i64) -> Move | None:
        """Return the move of the message whose record has the number ``written``; None for one that was not moved."""
        at = bisect_right(self._first, int(written)) - 1
        if at < 0:
            return None
        move = self._old[at]
        return move if written < move.first + move.count else None

    def has_some(self, low: i64, high: i64) -> bool:
        """Say whether a number from ``low`` to ``high`` is one that a moved message has, or had."""
        at = bisect_right(self._fresh, int(high)) - 1
        if at >= 0 and self.rows[at].fresh + self.rows[at].count > low:
            return True
        at = bisect_right(self._first, int(high)) - 1
        return at >= 0 and self._old[at].first + self._old[at].count > low

    def current(self, written: i64) -> i64:
        """Return the number that the message has whose record has the number ``written``."""
        move = self.move_of(written)
        return written if move is None else move.fresh + (written - move.first)

    def keep(self, kept: list[Move]) -> None:
        """Forget all others than ``kept``, which are in order."""
        self.rows = kept
        self._fresh = [int(move.fresh) for move in kept]
        self._old = sorted(kept, key=_first_of)
        self._first = [int(move.first) for move in self._old]
        self._last = None


def _fresh_of(move: Move) -> int:
    return int(move.fresh)


def _first_of(move: Move) -> int:
    return int(move.first)
