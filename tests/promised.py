"""What clients of real brokers were told, held against what is there in the end: an invariant checker for histories.

A history is made of *batches*: what was sent in one transaction, or one message alone, with what became of it. A batch
that was confirmed is there, each of its messages once; one that was rolled back is not there; one in doubt is there as
a whole or not at all. Nothing is there that nobody sent. `tests/unit/test_promised.py` shows that it sees faults.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

CONFIRMED: Final = "confirmed"
UNDONE: Final = "rolled back"
DOUBTFUL: Final = "in doubt"
TOLD: Final = 5  # findings of a kind that are said in full


class Batch(NamedTuple):
    """Messages that are there together or not at all, and what the client was told of them."""

    fate: str
    parts: tuple[str, ...]


class History:
    """What clients sent, by a label for each of them. Names of messages are different for all clients."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []

    def add(self, fate: str, *parts: str) -> None:
        """A client was told what became of ``parts``."""
        self.batches.append(Batch(fate, parts))

    def wrong(self, found: Iterable[str]) -> list[str]:
        """Return what may not be, of what is there; nothing where all promises are kept."""
        held = Counter(found)
        wrong = []
        for fate, parts in self.batches:
            counts = [held.pop(part, 0) for part in parts]
            whole, none = [1] * len(parts), [0] * len(parts)
            allowed = {CONFIRMED: (whole,), UNDONE: (none,), DOUBTFUL: (whole, none)}[fate]
            if counts not in allowed:
                wrong.append(f"{', '.join(parts)}: {fate}, and there {counts} times")
        return [*_short(wrong), *_short([f"nobody sent {each}" for each in held])]

    def figures(self) -> str:
        """Return how many batches there are of each fate."""
        counts = Counter(each.fate for each in self.batches)
        return ", ".join(f"{counts[fate]} {fate}" for fate in (CONFIRMED, UNDONE, DOUBTFUL))


def _short(lines: list[str]) -> list[str]:
    return lines if len(lines) <= TOLD else [*lines[:TOLD], f"and {len(lines) - TOLD} more like these"]
