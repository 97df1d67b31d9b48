"""What an operator says of a pattern of addresses, kept in the notes: of settings and of rights alike."""

from __future__ import annotations

from typing import Final

from entrepot.base.errors import LimitExceeded, Refused
from entrepot.base.patterns import MIXED
from entrepot.core.notes import Notes

AMENDED_MOST: Final = 10_000  # patterns of a part: one note each, and all of them in memory


def check_pattern(pattern: str) -> None:
    """Raises Refused, InvalidDestination for what is no pattern."""
    if not pattern:
        raise Refused("no address is named", remedy='name one, or a pattern like "orders.#"')
    MIXED.words(pattern)


def keep(notes: Notes, part: str, pattern: str, text: str) -> None:
    """Note what is said of ``pattern``; ``part``: "rights", ... Raises LimitExceeded, StorageError."""
    kept = notes.of(part)
    if pattern not in kept and len(kept) >= AMENDED_MOST:
        raise LimitExceeded(
            f"{AMENDED_MOST} patterns have {part} of an operator", remedy="remove some, or write them in the file"
        )
    notes.put(part, pattern, text)
