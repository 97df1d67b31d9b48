"""What parts of a broker want to know after a restart and that is no message: notes, by part and key. [C]

A note is on disk with the batch of its turn. There is one in memory for each one on disk, so a part bounds its own.
"""

from __future__ import annotations

from entrepot.core.records import KIND_NOTE
from entrepot.journal.log import JournalCore

SEPARATOR = b"\0"


class Notes:
    """All notes of a broker. A part is called by a word without NUL."""

    def __init__(self, journal: JournalCore) -> None:
        self.journal: JournalCore = journal
        self.parts: dict[str, dict[str, str]] = {}

    def of(self, part: str) -> dict[str, str]:
        """Return the notes of ``part``, oldest first. Not to be changed."""
        return self.parts.get(part, {})

    def put(self, part: str, key: str, value: str) -> None:
        """Note ``value`` under ``key``, in place of an earlier one. Raises StorageError."""
        self.journal.put(KIND_NOTE, _key(part, key), value.encode())
        self.parts.setdefault(part, {})[key] = value

    def remove(self, part: str, key: str) -> None:
        """Forget what is noted under ``key``, if anything is. Raises StorageError."""
        notes = self.parts.get(part)
        if notes is not None and key in notes:
            self.journal.delete(KIND_NOTE, _key(part, key))
            del notes[key]

    def recovered(self, key: bytes, value: bytes) -> None:
        """Take a note from the journal."""
        part, _, rest = key.partition(SEPARATOR)
        self.parts.setdefault(part.decode(), {})[rest.decode()] = value.decode()


def _key(part: str, key: str) -> bytes:
    return part.encode() + SEPARATOR + key.encode()
