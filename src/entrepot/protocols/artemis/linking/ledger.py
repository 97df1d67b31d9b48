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
    """One message: the counts of its first and last packet, and its number."""

    def __init__(self, first: i64, last: i64, number: i64) -> None:
        self.first: i64 = first
        self.last: i64 = last
        self.number: i64 = number


class Ledger:
    """Of one session. ``straight``: both sides count alike; an exception is a reply that the server does not count."""

    def __init__(self) -> None:
        self.written: i64 = 0  # packets that the server counts
        self.received: i64 = 0  # packets of the server that we count
        self.unsaid: i64 = 0  # octets of these that were not confirmed
        self.straight: bool = True
        self._spans: deque[_Span] = deque()

    def send(self, packets: i64, number: i64) -> None:
        """A message that goes as so many ``packets`` is written; it will be confirmed as ``number``."""
        first = self.written
        self.written += packets
        self._spans.append(_Span(first, self.written - 1, number))

    def replied(self, number: i64) -> i64:
        """The message ``number`` is answered, 0: the oldest one; return its number, 0 when there is none."""
        spans = self._spans
        if number == 0:
            return spans.popleft().number if spans else i64(0)
        while spans and spans[0].number <= number:
            spans.popleft()
        return number

    def confirmed(self, last: i64) -> i64:
        """The server has all up to the id ``last``; return the number of the last whole message in that, 0 for none."""
        done = self._count(last)
        found: i64 = 0
        spans = self._spans
        while spans and spans[0].last < done:
            found = spans.popleft().number
        return found

    def resume(self, last: i64) -> bool:
        """The server goes on behind the id ``last``; return whether that is between two messages, so that we can."""
        done = self._count(last)
        whole = True
        for span in self._spans:
            if span.first < done <= span.last:
                whole = False
        self.written = done
        self._spans.clear()
        return whole

    def last_received(self) -> int:
        """Return the id of the last packet that came, -1 for none; as Java's int."""
        last = (int(self.received) - 1) % ID_SPAN
        return last - ID_SPAN if last >= ID_SPAN // 2 else last

    def _count(self, last: i64) -> i64:
        """Return how many packets are done when ``last`` is the id of the last of them."""
        behind: i64 = (int(self.written) - 1 - int(last)) % ID_SPAN
        return self.written - behind if behind <= self.written else i64(0)
