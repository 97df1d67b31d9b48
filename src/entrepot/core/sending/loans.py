"""Memory for long frames that are not complete: it has a limit of its own, usually half of that for messages. [C]

A frame must be held until it is complete, whatever the limit says, unless it is streamed to disk. So the octets that
peers have begun and not finished are counted over all connections, those of each beyond a usual buffer. When they are
too many, who adds to a long frame is refused: those that came before can finish theirs.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import KIB, MIB
from entrepot.base.errors import LimitExceeded
from entrepot.core.ports import Memory

LOAN_FREE: Final = 64 * KIB  # of one connection that are not counted
LOAN_LAST: Final = 1 * MIB  # a frame up to this length is held even when there are too many
LOAN_SHARE: Final = 2  # all may have the memory limit divided by this,
LOAN_LEAST: Final = 128 * MIB  # and so much in any case: one frame may be as long as 100 MiB


class Loan:
    """What one connection holds of a frame that is not complete."""

    def __init__(self, memory: Memory) -> None:
        self.memory: Memory = memory
        self.octets: i64 = 0

    def owe(self, held: i64) -> None:
        """It holds ``held`` octets now."""
        counted: i64 = held if held > LOAN_FREE else 0
        self.memory.lent += counted - self.octets
        self.octets = counted

    def is_pressing(self) -> bool:
        """Return whether all connections together hold too much."""
        return self.memory.lent > self._most()

    def _most(self) -> i64:
        return max(self.memory.limit // LOAN_SHARE, LOAN_LEAST)

    def refusal(self) -> LimitExceeded:
        """Return what is said to one that may not go on."""
        return LimitExceeded(
            f"frames that are not complete hold {self.memory.lent} octets, more than {self._most()}",
            remedy="send large messages one after another, smaller ones, or raise the memory limit",
        )
