"""The octets that a session may send to an address (artemis.md 5.2.7). [C]

Half the window is asked for at first, and again when no more than half of that is there or under way: an Artemis asks
for each message's octets with that message, which is a packet there and one back for each.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy_extensions import i64

from entrepot.protocols.artemis.conversation.requests import Requests
from entrepot.protocols.artemis.packets import RequestCredits


class Credit:
    """What may be sent to one address. ``window`` -1: anything."""

    def __init__(self, requests: Requests, address: str, window: i64) -> None:
        self.requests: Requests = requests
        self.address: str = address
        self.window: i64 = window // 2 if window > 0 else window
        self.balance: i64 = 0
        self.asked: i64 = 0
        self.waiting: list[Callable[[], None]] = []

    def is_empty(self) -> bool:
        """Tell whether the next message must wait."""
        return self.window > 0 and self.balance <= 0

    def ask(self) -> None:
        """Ask for what is missing."""
        missing = self.window - self.balance - self.asked
        wanted = self.window > 0 and missing > 0
        if wanted and self.requests.post(RequestCredits(credits=missing, address=self.address)):
            self.asked += missing

    def spend(self, octets: i64) -> None:
        """So many octets were sent."""
        if self.window > 0:
            self.balance -= octets
            if self.balance + self.asked <= self.window // 2:
                self.ask()

    def granted(self, octets: i64) -> None:
        """So many octets may be sent: let those who waited go on while it lasts."""
        self.balance += octets
        self.asked = max(self.asked - octets, 0)
        while self.waiting and self.balance > 0:
            self.waiting.pop(0)()

    def lost(self) -> None:
        """The wire is gone, and all credit with it."""
        self.balance = 0
        self.asked = 0
