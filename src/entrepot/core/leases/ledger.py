"""The numbers of the messages that a lease holds, by position. [C]"""

from __future__ import annotations

from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64

SPARE_MAX: Final = 1_024  # places of messages that are gone: given back where there are more, and more than of others
NOBODY: Final = 0  # no message has this number


class Ledger:
    """Positions are one behind the other, the first is ``base``. A message takes 8 octets."""

    def __init__(self) -> None:
        self.base: i64 = 0
        self._gone: i64 = 0  # in front of those that are held
        self._numbers = vec[i64]()

    def __len__(self) -> int:
        return int(len(self._numbers) - self._gone)

    def __getitem__(self, position: int) -> int:
        """Return the number of the message at ``position``. Raises KeyError."""
        number = self.get(position)
        if number is None:
            raise KeyError(position)
        return number

    def get(self, position: int) -> int | None:
        """Return the number of the message at ``position``, None when there is none."""
        place: i64 = i64(position) - self.base
        if not 0 <= place < len(self._numbers) - self._gone:
            return None
        return int(self._numbers[self._gone + place]) or None

    def add(self, position: int, number: int) -> None:
        """Append a message at ``position``: any where there is none yet, otherwise behind the last one.

        Nobody has the positions between, if there are any. Raises KeyError for one that is taken.
        """
        if len(self) == 0:
            self.clear()
            self.base = position
        gap: i64 = i64(position) - self.base - len(self)
        if gap < 0:
            raise KeyError(position)
        while gap > 0:
            self._numbers = append(self._numbers, i64(NOBODY))
            gap -= 1
        self._numbers = append(self._numbers, i64(number))

    def take_first(self, position: int) -> int:
        """Take the first message out; return its number. Raises KeyError when it is not at ``position``."""
        number = self[position]
        if position != self.base:
            raise KeyError(position)
        self.base += 1
        self._gone += 1
        if self._gone > SPARE_MAX and self._gone * 2 > len(self._numbers):
            self._numbers = vec[i64](self._numbers[self._gone :])
            self._gone = 0
        return number

    def clear(self) -> None:
        """Take all out."""
        self._gone = 0
        self._numbers = vec[i64]()

    def between(self, low: i64, high: i64) -> vec[i64]:
        """Return the numbers of the messages from ``low`` to ``high`` - 1. Raises KeyError unless all are held."""
        if low >= high:
            return vec[i64]()
        begin: i64 = low - self.base
        end: i64 = high - self.base
        if begin < 0 or end > len(self._numbers) - self._gone:
            raise KeyError((int(low), int(high)))
        return self._numbers[self._gone + begin : self._gone + end]

    def listed(self, low: i64, high: i64) -> list[int]:
        """Return the same as a list."""
        return [int(number) for number in self.between(low, high)]

    def values(self) -> list[int]:
        """Return the numbers of all messages."""
        return self.listed(self.base, self.base + len(self))
