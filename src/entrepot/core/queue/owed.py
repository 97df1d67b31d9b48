"""What a queue is to get before anything else: others had a turn first. [C]"""

from __future__ import annotations

from entrepot.base.errors import Fault
from entrepot.model.message import Message


class Owed:
    """Messages that are a queue's and did not enter it yet, for others had a turn first (`core/sending/handing.py`)."""

    def before(self, message: Message) -> bool:
        """``message`` is about to enter, and may overtake nothing; return whether it waits behind them."""
        raise Fault("a queue is owed by nobody")

    def pay(self) -> None:
        """Let them enter now: the queue is to be deleted."""
        raise Fault("a queue is owed by nobody")

    def messages(self) -> list[Message]:
        """Return them, oldest first."""
        return []
