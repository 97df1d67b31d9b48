"""What programs of AMQP sent, and what was seen where: texts, attempts, what the broker confirmed."""

from __future__ import annotations

from typing import Final

from entrepot.simulation.world import World


class Item:
    """One text. ``attempts``: how often it was sent, as far as each may be a message of its own."""

    def __init__(self, text: str, place: str, sent_at: int) -> None:
        self.text = text
        self.place = place
        self.sent_at = sent_at
        self.attempts = 0
        self.confirmed = False
        self.forbidden = False
        self.original: Item | None = None  # what it is a copy of

    def copies_max(self) -> int:
        """Return how many messages of it there may be."""
        return self.attempts if self.original is None else self.original.attempts


class Accounts:
    """What was sent, and what was seen where; ``key``: a queue, or a durable subscription."""

    def __init__(self, world: World) -> None:
        self.world: Final = world
        self.items: Final[dict[str, Item]] = {}
        self.seen: Final[dict[tuple[str, str], int]] = {}
        self.taken: Final[dict[tuple[str, str], None]] = {}  # of which a reader said that it has it
        self.settled: Final[dict[tuple[str, str], int]] = {}
        self.eras: Final[dict[str, int]] = {}  # text -> the broker's era in which it was seen last
        self.groups: Final[list[tuple[int, list[str]]]] = []  # era, and texts of which all are seen, or none
        self.last: Final[dict[tuple[str, str], int]] = {}

    def sends(self, text: str, place: str) -> Item:
        """Note that ``text`` is sent."""
        item = self.items.get(text)
        if item is None:
            item = self.items[text] = Item(text, place, self.world.time)
        item.attempts += 1
        return item

    def came(self, key: str, text: str, era: int, *, ordered_since: int = -1) -> None:
        """A delivery of ``text`` came. ``ordered_since``: first deliveries of what was sent since then are in order."""
        text = text.partition("|")[0]
        item = self.items.get(text)
        if item is None or item.forbidden:
            self.world.violation(f"{text} came to {key}: it was not sent, or rolled back")
            return
        if self.settled.get((key, text), 0) >= item.copies_max():
            self.world.violation(f"{text} came to {key} again: it was settled {self.settled[key, text]} times")
        if (key, text) not in self.seen and 0 <= ordered_since < item.sent_at:
            who, _, number = text.rpartition("-")
            if int(number) <= self.last.get((key, who), 0):
                self.world.violation(f"{text} came to {key} behind number {self.last[key, who]}")
            self.last[key, who] = int(number)
        self.seen[key, text] = self.seen.get((key, text), 0) + 1
        self.eras[text] = era

    def is_taken(self, key: str, text: str) -> None:
        """A reader said that it has it: the broker need not deliver it again."""
        self.taken[key, text.partition("|")[0]] = None

    def is_settled(self, key: str, text: str) -> None:
        """The broker confirmed that a delivery of ``text`` is done with."""
        text = text.partition("|")[0]
        self.settled[key, text] = self.settled.get((key, text), 0) + 1
