"""In which order one consumer was delivered what it has not settled, without looking at what it settled before. [C]

An acknowledgement covers all up to one message. Who walks through a dict from whose front entries were removed passes
over each of their places, thousands with a wide window, at each acknowledgement; here only what is covered is visited.
"""

from __future__ import annotations

from typing import Final, TypeVar

from mypy_extensions import i64

SLACK: Final = 64  # numbers that are gone and still remembered, besides as many as twice those that are held

Held = TypeVar("Held")


class Order:
    """Numbers as they were delivered. Where one comes behind a higher one it knows none until all are settled."""

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._at: i64 = 0  # those before it are gone
        self._highest: i64 = 0
        self._rises: bool = True

    def add(self, number: i64, held: i64) -> None:
        """``number`` is delivered, the last of so many that are ``held`` now."""
        known: i64 = len(self._numbers) - self._at
        if held <= 1:
            self._forget()
            self._rises = True
        elif not self._rises:
            return
        elif number <= self._highest or known > 2 * held + SLACK:
            self._forget()
            self._rises = False
            return
        elif self._at > SLACK and self._at > known:
            del self._numbers[: self._at]
            self._at = 0
        self._highest = number
        self._numbers.append(int(number))

    def up_to(self, last: int, held: dict[int, Held]) -> list[int]:
        """Return what is ``held`` up to ``last``, which is held, in the order of delivery."""
        found: list[int] = []
        numbers = self._numbers
        at = self._at
        while at < len(numbers):
            number = numbers[at]
            if number == last:
                found.append(number)
                return found
            if number in held:
                found.append(number)
            elif not found:
                self._at = at + 1
            at += 1
        return walked(last, held)

    def _forget(self) -> None:
        if self._numbers:
            self._numbers = []
        self._at = 0


def walked(last: int, held: dict[int, Held]) -> list[int]:
    """Return the keys of ``held`` up to ``last``, which is one of them."""
    found: list[int] = []
    for number in held:
        found.append(number)
        if number == last:
            break
    return found
