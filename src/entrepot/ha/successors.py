"""Which of those who wait for a store clients are told of (artemis.md 1.22). No I/O.

Who waits for a shared store leaves notes (`Roll`); of replicas their primary knows which are in sync (`heir_of`).

A note counts while it changes, by the master's clock alone: what was left by somebody who is gone never does, and what
changed last `FRESH` ago counts no more. Whom clients know stays while he waits: each change is told to all of them.

Who waits looks on as well: clients of a new master are told at once who is next, and not only when it has seen a note
change. Whose store it is goes before others: a backup gives it back to him. Since clients dial nobody else, the lock
says whom they know (`Record.heir`), and others let him go first. It says so before they are told (`Telling`): a master
that ends in between would be succeeded by one whom they do not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from entrepot.base.environment import SECOND, Duration, Instant
from entrepot.ha.follower import Follower

SAY_EVERY: Final[Duration] = SECOND
LOOK_EVERY: Final[Duration] = SECOND
FRESH: Final[Duration] = 5 * SECOND
"""Without a change for so long nobody waits there any more."""

FORGOTTEN: Final[Duration] = 60 * SECOND
"""Without a change for so long a note is removed."""

Connectors = Mapping[str, str]
"""Where clients find a broker when it serves: a URI for each cluster connection."""


class Note(NamedTuple):
    """What stands in one note. ``said``: how often it was written; ``owns``: the store is his, by the configuration."""

    who: str
    said: int
    connectors: Connectors
    owns: bool = False


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
        """Whose store it is goes before all: it is given back to him, and clients must know him by then."""
        owners = [name for name in waiting if self._seen[name].note.owns]
        among = owners or waiting
        return self.first if self.first in among else min(among, default="")


def heir_of(in_sync: Sequence[Follower], before: str) -> Follower | None:
    """Return the replica that clients are told of, None for none; ``before``: the copy that it was until now.

    Whose store it is goes before all: it is given back to him, and clients must know him by then. Else who was named
    stays so while he is in sync.
    """
    known = [each for each in in_sync if each.connectors]
    owners = [each for each in known if each.owns]
    among = owners or known
    return next((each for each in among if each.copy == before), among[0] if among else None)


class Telling:
    """Whom clients are to be told of, and what they were told of last.

    A look says who it shall be (`found`); the lock is asked to name him, and when it does (`named`) so are clients.
    """

    def __init__(self) -> None:
        self.heir = ""
        """As the record is to name him, "" for nobody."""
        self.who = ""
        self.known: Connectors = {}
        self._note: Note | None = None

    def found(self, heir: str, note: Note | None) -> None:
        """A look found that ``heir`` is next, by ``note``; None for nobody."""
        self.heir, self._note = heir, note

    def news(self, named: str) -> bool:
        """Say whether clients are to be told of `known`, where the record names ``named``."""
        if named != self.heir:
            return False  # whom the last look found is not named yet
        note = self._note
        self.who = "" if note is None else note.who
        connectors: Connectors = {} if note is None else note.connectors
        if connectors == self.known:
            return False
        self.known = connectors
        return True
