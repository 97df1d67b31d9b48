"""How much one step of a work of operators does: a step is a turn of the broker, and who sends waits for its end.

So a step is short where there is time between messages, as one may come in the midst of it; under a flood turns are few
(`Effort.aside`), each long for other reasons, and one does more.
"""

from __future__ import annotations

from typing import Final

from entrepot.core.broker import BrokerCore

PART: Final = 32  # of what a step may do is done where there is time: 0.05 ms


class Pace:
    """The steps of works of one broker."""

    def __init__(self, broker: BrokerCore) -> None:
        self._effort: Final = broker.effort

    def of(self, most: int) -> int:
        """Return how many of ``most``, which one step may do, this one does."""
        return max(1, most // PART) if self._effort.alone else most
