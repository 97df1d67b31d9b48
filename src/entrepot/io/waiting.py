"""Who waits for a shared store, as its master knows it: a note of each, beside the lock (artemis.md 1.22).

Artemis' clients are told of the backup before they need it. One that shares a store opens no port, and its master has
no connection to it; so it says in ``DIR/waiting/INSTANCE`` where clients would find it, and how often it has said so.
The master looks once a second, on a thread of its own, since the directory may be on a server that hangs. A note counts
while it changes, by the master's clock alone; one that does not for `FORGOTTEN` s is removed.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Final, NamedTuple

from entrepot.ha.lease import Record
from entrepot.io.lock import OWNER_DIRECTORY, OWNER_FILE

FOLDER: Final = "waiting"
SAY_EVERY: Final = 1.0  # s
LOOK_EVERY: Final = 1.0  # s
FRESH: Final = 5.0  # s without a change after which nobody waits there any more
FORGOTTEN: Final = 60.0
NOTES_MAX: Final = 16
OCTETS_MAX: Final = 4096

Connectors = Mapping[str, str]
"""Where clients find a broker when it serves: a URI for each cluster connection."""


class Waits:
    """The side of who waits. ``connectors``: none where no client would look for it, and then nothing is said."""

    def __init__(self, directory: Path, mine: Record, connectors: Connectors) -> None:
        self._folder: Final = directory / FOLDER
        self._mine: Final = mine
        self._connectors: Final = dict(connectors)
        self._count = 0
        self._next = 0.0

    def say(self) -> None:
        """Say that it waits, if that is due. A disk that cannot be written is told later."""
        at = monotonic()
        if not self._connectors or at < self._next:
            return
        self._next = at + SAY_EVERY
        self._count += 1
        text = json.dumps({"who": self._mine.name, "count": self._count, "connectors": self._connectors})
        draft = self._folder / f".{self._mine.instance}"
        with suppress(OSError):
            self._folder.mkdir(mode=OWNER_DIRECTORY, exist_ok=True)
            draft.touch(mode=OWNER_FILE)
            draft.write_text(text + "\n")
            os.replace(draft, self._folder / self._mine.instance)

    def over(self) -> None:
        """It waits no longer."""
        if self._count:
            with suppress(OSError):
                (self._folder / self._mine.instance).unlink(missing_ok=True)


class Note(NamedTuple):
    """What stands in one note."""

    who: str
    said: int
    connectors: Connectors


class _Seen:
    """A note as it was when it changed last."""

    def __init__(self, note: Note, at: float, *, fresh: bool) -> None:
        self.note: Final = note
        self.at: Final = at
        self.fresh: Final = fresh  # it changed while we looked on: who wrote it lives


class Roll:
    """The side of the master: which of those who wait clients are told of. Whom they know stays while he waits."""

    def __init__(self, directory: Path) -> None:
        self._folder: Final = directory / FOLDER
        self._seen: dict[str, _Seen] = {}
        self._first = ""

    def look(self, at: float) -> Note | None:
        """Read the notes at ``at``, s; return the one of who takes over, as far as known. May hang with the disk."""
        found = _read(self._folder)
        for name in [name for name in self._seen if name not in found]:
            del self._seen[name]
        for name, note in found.items():
            seen = self._seen.get(name)
            if seen is None or seen.note != note:
                self._seen[name] = _Seen(note, at, fresh=seen is not None)
            elif at - seen.at > FORGOTTEN:
                with suppress(OSError):
                    (self._folder / name).unlink(missing_ok=True)
        waiting = [name for name, seen in self._seen.items() if seen.fresh and at - seen.at <= FRESH]
        if self._first not in waiting:
            self._first = min(waiting, default="")
        return self._seen[self._first].note if self._first else None


def _read(folder: Path) -> dict[str, Note]:
    found: dict[str, Note] = {}
    try:
        names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    except OSError:
        return found
    for name in names[:NOTES_MAX]:
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            with (folder / name).open("rb") as file:
                facts = json.loads(file.read(OCTETS_MAX))
            connectors = {str(cluster): str(uri) for cluster, uri in facts["connectors"].items()}
            found[name] = Note(str(facts["who"]), int(facts["count"]), connectors)
    return found


class Successors:
    """Looks who waits, as long as this broker serves. ``told``: is called on the loop when that is somebody else."""

    def __init__(self, directory: Path, told: Callable[[Connectors], object]) -> None:
        self._roll: Final = Roll(directory)
        self._told: Final = told
        self._loop: Final = asyncio.get_running_loop()
        self._ends: Final = threading.Event()
        self._who = ""
        self._known: Connectors = {}
        threading.Thread(target=self._run, name="entrepot-waiting", daemon=True).start()

    def known(self) -> str:
        """Return the name of the broker that clients are told of; "" for none."""
        return self._who

    def stop(self) -> None:
        """Look no more; a look that hangs is left behind."""
        self._ends.set()

    def _run(self) -> None:
        while not self._ends.is_set():
            note = self._roll.look(monotonic())
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._found, note)
            self._ends.wait(LOOK_EVERY)

    def _found(self, note: Note | None) -> None:
        if self._ends.is_set():
            return
        self._who = "" if note is None else note.who
        connectors: Connectors = {} if note is None else note.connectors
        if connectors != self._known:
            self._known = connectors
            self._told(connectors)


class Waiting:
    """Both sides of one broker: it waits, and then it serves and looks who waits."""

    def __init__(self, directory: Path, mine: Record, connectors: Connectors) -> None:
        """``connectors``: none where no client is to be told, and then nothing is said and nobody looked for."""
        self._directory: Final = directory
        self._reached: Final = bool(connectors)
        self._successors: Successors | None = None
        self.waits: Final = Waits(directory, mine, connectors)

    def serve(self, told: Callable[[Connectors], object]) -> None:
        """It serves from now on: ``told`` is called when somebody else would take over."""
        if self._reached:
            self._successors = Successors(self._directory, told)

    def successor(self) -> str:
        """Return the name of the broker that clients are told of; "" for none."""
        return "" if self._successors is None else self._successors.known()

    def over(self) -> None:
        """It neither waits nor serves."""
        self.waits.over()
        if self._successors is not None:
            self._successors.stop()
