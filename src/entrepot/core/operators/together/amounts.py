"""To how many messages an operation on a queue is meant, where its arguments say so: of all processes together.

The arguments are read as each process reads them (`core/operators/queue_control.py`).
"""

from __future__ import annotations

from typing import Final

from entrepot.core.operators.listing import Arguments

PLACES: Final = {
    "purge": 0,
    "removeMessages": 1,
    "retryMessages": 1,
    "expireMessages": 1,
    "sendMessagesToDeadLetterAddress": 1,
    "moveMessages": 2,
    "copyMessages": 2,
}
"""Operation -> which of its arguments says how many messages at most; -1, or none, is all."""
LEADING: Final = ("removeMessages", "moveMessages", "copyMessages")
"""Those that may begin with Artemis' flush limit, which means nothing here."""
FLAGGED: Final = ("moveMessages", "copyMessages")
"""Those that may have true or false before the number."""


class Amount:
    """Of one operation. ``left``: to how many more messages it is done, None for all; ``done``: to how many it was."""

    def __init__(self, operation: str, values: tuple[object, ...]) -> None:
        """Raises Refused for what is no number."""
        given = Arguments(operation, list(values))
        at = PLACES[operation]
        if operation in LEADING and given.is_number(0):
            at += 1
        if operation in FLAGGED and given.is_flag(at):
            at += 1
        most = given.number(at, -1)
        self._values: Final = values
        self._at: Final = at
        self.left = None if most < 0 else most
        self.done = 0

    def values(self) -> list[object]:
        """Return what to ask the next process for."""
        values = list(self._values)
        if self.left is not None:
            values[self._at] = self.left
        return values

    def count(self, messages: int) -> None:
        """It was done to so many."""
        self.done += messages
        if self.left is not None:
            self.left = max(0, self.left - messages)
