"""Who waits for a shared store, as its master knows it: a note of each, beside the lock (artemis.md 1.22).

Artemis' clients are told of the backup before they need it. One that shares a store opens no port, and its master has
no connection to it; so it says in ``DIR/waiting/INSTANCE`` where clients would find it, and how often it has said so.
The master looks once a second, on a thread of its own, since the directory may be on a server that hangs. Which note
counts, and when it is removed, is decided in `ha/successors.py`.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic_ns
from typing import Final

from entrepot.base.environment import SECOND, Instant
from entrepot.ha.lease import Record
from entrepot.ha.successors import LOOK_EVERY, Connectors, Note, Roll, Saying, Telling
from entrepot.io.lock import OWNER_DIRECTORY, OWNER_FILE

FOLDER: Final = "waiting"
NOTES_MAX: Final = 16
OCTETS_MAX: Final = 4096


class Waits:
    """The side of who waits. ``connectors``: none where no client would look for it, and then nothing is said."""

    def __init__(self, directory: Path, mine: Record, connectors: Connectors) -> None:
        self._folder: Final = directory / FOLDER
        self._mine: Final = mine
        self._connectors: Final = dict(connectors)
        self._saying: Final = Saying()

    def say(self) -> None:
        """Say that it waits, if that is due. A disk that cannot be written is told later."""
        if not self._connectors or not self._saying.due(monotonic_ns()):
            return
        text = json.dumps({"who": self._mine.name, "count": self._saying.count, "connectors": self._connectors})
        draft = self._folder / f".{self._mine.instance}"
        with suppress(OSError):
            self._folder.mkdir(mode=OWNER_DIRECTORY, exist_ok=True)
            draft.touch(mode=OWNER_FILE)
            draft.write_text(text + "\n")
            os.replace(draft, self._folder / self._mine.instance)

    def over(self) -> None:
        """It waits no longer."""
        if self._saying.count:
            with suppress(OSError):
                (self._folder / self._mine.instance).unlink(missing_ok=True)


class Looking:
    """The side of the master: reads the notes, and removes those that are too old."""

    def __init__(self, directory: Path) -> None:
        self._folder: Final = directory / FOLDER
        self._roll: Final = Roll()

    def look(self, at: Instant) -> Note | None:
        """Return the note of who takes over, as far as known at ``at``. May hang with the disk."""
        note = self._roll.look(_read(self._folder), at)
        for name in self._roll.forgotten:
            with suppress(OSError):
                (self._folder / name).unlink(missing_ok=True)
        return note


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
        self._looking: Final = Looking(directory)
        self._told: Final = told
        self._loop: Final = asyncio.get_running_loop()
        self._ends: Final = threading.Event()
        self._telling: Final = Telling()
        threading.Thread(target=self._run, name="entrepot-waiting", daemon=True).start()

    def known(self) -> str:
        """Return the name of the broker that clients are told of; "" for none."""
        return self._telling.who

    def stop(self) -> None:
        """Look no more; a look that hangs is left behind."""
        self._ends.set()

    def _run(self) -> None:
        while not self._ends.is_set():
            note = self._looking.look(monotonic_ns())
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._found, note)
            self._ends.wait(LOOK_EVERY / SECOND)

    def _found(self, note: Note | None) -> None:
        if not self._ends.is_set() and self._telling.news(note):
            self._told(self._telling.known)


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
