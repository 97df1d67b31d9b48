"""Which of those who wait for a shared store clients are told of, from notes that they leave (artemis.md 1.22). No I/O.

A note counts while it changes, by the master's clock alone: what was left by somebody who is gone never does, and what
changed last `FRESH` ago counts no more. Whom clients know stays while he waits: each change is told to all of them.

Who waits looks on as well: clients of a new master are told at once who is next, and not only when it has seen a note
change. Since they dial nobody else, the lock says whom they know (`Record.heir`), and others let him go first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from entrepot.base.environment import SECOND, Duration, Instant

SAY_EVERY: Final[Duration] = SECOND
LOOK_EVERY: Final[Duration] = SECOND
FRESH: Final[Duration] = 5 * SECOND
"""Without a change for so long nobody waits there any more."""

FORGOTTEN: Final[Duration] = 60 * SECOND
"""Without a change for so long a note is removed."""

Connectors = Mapping[str, str]
"""Where clients find a broker when it serves: a URI for each cluster connection."""


class Note(NamedTuple):
    """What stands in one note. ``said``: how often it was written."""

    who: str
    said: int
    connectors: Connectors


class Saying:
    """The side of who waits: when its note is due, and what its count is."""

    def __init__(self) -> None:
        self.count = 0
        self._next: Instant = 0

    def due(self, at: Instant) -> bool:
        """Say whether the note is to be written at ``at``, with `count`."""
        if self.count and at < self._next:
            return False
        self._next = at + SAY_EVERY
        self.count += 1
        return True


class _Seen:
    """A note as it was when it changed last."""

    def __init__(self, note: Note, at: Instant, *, fresh: bool) -> None:
        self.note: Final = note
        self.at: Final = at
        self.fresh: Final = fresh  # it changed while we looked on: who wrote it lives


class Roll:
    """The side of the master. Call `look` with all notes, by the names of their files."""

    def __init__(self, keeps: Duration = FORGOTTEN) -> None:
        """``keeps``: how long a note that does not change is kept."""
        self._keeps: Final = keeps
        self.forgotten: list[str] = []
        """Names of notes that the last look found too old: remove them."""
        self.first = ""
        """Name of the note that the last look chose, "" for none."""
        self._seen: dict[str, _Seen] = {}

    def look(self, found: Mapping[str, Note], at: Instant) -> Note | None:
        """Return the note of who takes over, as far as known at ``at``."""
        self._seen = {name: seen for name, seen in self._seen.items() if name in found}
        for name, note in found.items():
            self._compare(name, note, at)
        self.forgotten = [name for name, seen in self._seen.items() if at - seen.at > self._keeps]
        waiting = [name for name, seen in self._seen.items() if seen.fresh and at - seen.at <= FRESH]
        self.first = self._choose(waiting)
        return self._seen[self.first].note if self.first else None

    def _compare(self, name: str, note: Note, at: Instant) -> None:
        seen = self._seen.get(name)
        if seen is None or seen.note != note:
            self._seen[name] = _Seen(note, at, fresh=seen is not None)

    def _choose(self, waiting: list[str]) -> str:
        return self.first if self.first in waiting else min(waiting, default="")


class Telling:
    """What clients were told of last."""

    def __init__(self) -> None:
        self.who = ""
        self.known: Connectors = {}

    def news(self, note: Note | None) -> bool:
        """Take what a look found; say whether clients are to be told of `known`."""
        self.who = "" if note is None else note.who
        connectors: Connectors = {} if note is None else note.connectors
        if connectors == self.known:
            return False
        self.known = connectors
        return True
