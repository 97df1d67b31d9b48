"""What was sent on a channel and is not confirmed: which packets make which message (artemis.md 5.2.6). [C]

Both sides of a channel with a confirmation window number the packets from 0. A message is one packet, a large one
several; it is there when the last of them is. All numbers are counted here without a bound, and cut to Java's int only
on the wire.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64

ID_SPAN: Final = 1 << 32


class _Span:
    """One message of several packets, or a run of messages of one packet each whose numbers follow one another.

    ``first``, ``last``: the counts of the packets; ``oldest``, ``newest``: the numbers of the messages.
    """

    def __init__(self, first: i64, last: i64, number: i64) -> None:
        self.first: i64 = first
        self.last: i64 = last
        self.oldest: i64 = number
        self.newest: i64 = number

    def is_run(self) -> bool:
        """Return whether each packet is a message."""
        return self.last - self.first == self.newest - self.oldest

    def lengthen(self, count: i64, number: i64) -> bool:
        """Take the message ``number``, of the one packet ``count``, if it goes on here."""
        if count != self.last + 1 or number != self.newest + 1 or not self.is_run():
            return False
        self.last = count
        self.newest = number
        return True

    def shorten(self, count: i64) -> i64:
        """Let go of so many messages of a run; return the number of the last of them."""
        self.first += count
        self.oldest += count
        return self.oldest - 1


class Ledger:
    """Of one session. ``straight``: both sides count alike; an exception is a reply that the server does not count."""

    def __init__(self) -> None:
        self.written: i64 = 0  # packets that the server counts
        self.received: i64 = 0  # packets of the server that we count
        self.unsaid: i64 = 0  # octets of these that were not confirmed
        self.straight: bool = True
        self._spans: deque[_Span] = deque()
        self._last: _Span | None = None  # of these: what is written next may lengthen it

    def send(self, packets: i64, number: i64) -> None:
        """A message that goes as so many ``packets`` is written; it will be confirmed as ``number``."""
        first = self.written
        self.written += packets
        last = self._last
        if packets > 1 or last is None or not last.lengthen(first, number):
            self._last = _Span(first, self.written - 1, number)
            self._spans.append(self._last)

    def replied(self, number: i64) -> i64:
        """The message ``number`` is answered, 0: the oldest one; return its number, 0 when there is none."""
        spans = self._spans
        while spans:
            span = spans[0]
            if number == 0:
                number = span.oldest
            if span.newest > number:
                if span.oldest <= number:
                    span.shorten(number - span.oldest + 1)
                return number
            self._drop()
            if span.newest == number:  # what was written after it has a higher number
                return number
        return number

    def confirmed(self, last: i64) -> i64:
        """The server has all up to the id ``last``; return the number of the last whole message in that, 0 for none."""
        done = self._count(last)
        found: i64 = 0
        spans = self._spans
        while spans and spans[0].last < done:
            found = spans[0].newest
            self._drop()
        if spans and spans[0].first < done and spans[0].is_run():
            found = spans[0].shorten(done - spans[0].first)
        return found

    def resume(self, last: i64) -> bool:
        """The server goes on behind the id ``last``; return whether that is between two messages, so that we can."""
        done = self._count(last)
        whole = True
        for span in self._spans:
            if span.first < done <= span.last and not span.is_run():
                whole = False
        self.written = done
        self._spans.clear()
        self._last = None
        return whole

    def _drop(self) -> None:
        """Nothing of the oldest span is left."""
        if self._spans.popleft() is self._last:
            self._last = None

    def last_received(self) -> int:
        """Return the id of the last packet that came, -1 for none; as Java's int."""
        last = (int(self.received) - 1) % ID_SPAN
        return last - ID_SPAN if last >= ID_SPAN // 2 else last

    def _count(self, last: i64) -> i64:
        """Return how many packets are done when ``last`` is the id of the last of them."""
        behind: i64 = (int(self.written) - 1 - int(last)) % ID_SPAN
        return self.written - behind if behind <= self.written else i64(0)
