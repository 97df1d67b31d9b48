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
from entrepot.ha.proposals import Named, Recorded
from entrepot.ha.successors import LOOK_EVERY, Connectors, Note, Roll, Saying, Telling
from entrepot.io.lock import OWNER_DIRECTORY, OWNER_FILE

FOLDER: Final = "waiting"
NOTES_MAX: Final = 16
OCTETS_MAX: Final = 4096


class Waits:
    """The side of who waits. ``connectors``: none where no client would look for it, and then nothing is said.

    ``owns``: the store is this broker's, by the configuration.
    """

    def __init__(self, directory: Path, mine: Record, connectors: Connectors, *, owns: bool = False) -> None:
        self._folder: Final = directory / FOLDER
        self._mine: Final = mine
        self._connectors: Final = dict(connectors)
        self._owns: Final = owns
        self._saying: Final = Saying()

    def say(self) -> bool:
        """Say that it waits, if that is due; return whether it was. A disk that cannot be written is told later."""
        if not self._connectors or not self._saying.due(monotonic_ns()):
            return False
        facts = {"who": self._mine.name, "count": self._saying.count, "connectors": self._connectors}
        text = json.dumps({**facts, **({"owns": True} if self._owns else {})})
        draft = self._folder / f".{self._mine.instance}"
        with suppress(OSError):
            self._folder.mkdir(mode=OWNER_DIRECTORY, exist_ok=True)
            draft.touch(mode=OWNER_FILE)
            draft.write_text(text + "\n")
            os.replace(draft, self._folder / self._mine.instance)
        return True

    def over(self) -> None:
        """It waits no longer."""
        if self._saying.count:
            with suppress(OSError):
                (self._folder / self._mine.instance).unlink(missing_ok=True)


class Looking:
    """The side of the master, and of who looks on: reads the notes of others. ``me``: whose note is no other's."""

    def __init__(self, directory: Path, me: str = "") -> None:
        self._folder: Final = directory / FOLDER
        self._me: Final = me
        self._roll: Final = Roll()

    @property
    def first(self) -> str:
        """Return the instance of who takes over, as of the last look; "" for nobody."""
        return self._roll.first

    def look(self, at: Instant) -> Note | None:
        """Return the note of who takes over, as far as known at ``at``. May hang with the disk."""
        found = _read(self._folder)
        found.pop(self._me, None)
        return self._roll.look(found, at)

    def clear(self) -> None:
        """Remove the notes that the last look found too old: the master does."""
        for name in self._roll.forgotten:
            with suppress(OSError):
                (self._folder / name).unlink(missing_ok=True)


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
            found[name] = Note(str(facts["who"]), int(facts["count"]), connectors, facts.get("owns") is True)
    return found


class Successors:
    """Looks who waits, as long as this broker serves. ``told``: is called on the loop when that is somebody else.

    ``name``: asks the lock to name an heir, and returns whom it names by now; `named` is called when it does.
    """

    def __init__(self, looking: Looking, name: Callable[[str], str], told: Callable[[Connectors], object]) -> None:
        self._looking: Final = looking
        self._name: Final = name
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
                self._loop.call_soon_threadsafe(self._found, note, self._looking.first)
            self._looking.clear()
            self._ends.wait(LOOK_EVERY / SECOND)

    def _found(self, note: Note | None, first: str) -> None:
        if self._ends.is_set():
            return
        self._telling.found(first, note)
        self.named(self._name(first))

    def named(self, heir: str) -> None:
        """The lock names ``heir``: clients may be told."""
        if not self._ends.is_set() and self._telling.news(heir):
            self._told(self._telling.known)


class Waiting:
    """Both sides of one broker: it waits, and then it serves and looks who waits."""

    def __init__(self, directory: Path, mine: Record, connectors: Connectors, *, owns: bool = False) -> None:
        """``connectors``: none where no client is to be told, and then nothing is said and nobody looked for.

        ``owns``: see `Waits`.
        """
        self._looking: Final = Looking(directory, mine.instance) if connectors else None
        self._successors: Successors | None = None
        self.waits: Final = Waits(directory, mine, connectors, owns=owns)

    def say(self) -> None:
        """It waits: say so if that is due, and look who else does. May hang with the disk."""
        if self.waits.say() and self._looking is not None:
            self._looking.look(monotonic_ns())

    def serve(self, name: Callable[[str], str], told: Callable[[Connectors], object]) -> None:
        """It serves from now on: ``told`` is called when somebody else would take over. ``name``: see `Successors`."""
        if self._looking is not None:
            self._successors = Successors(self._looking, name, told)

    def answered(self, effect: Recorded | Named) -> None:
        """The lock says what was asked of it."""
        if self._successors is not None and isinstance(effect, Named):
            self._successors.named(effect.heir)

    def successor(self) -> str:
        """Return the name of the broker that clients are told of; "" for none."""
        return "" if self._successors is None else self._successors.known()

    def over(self) -> None:
        """It neither waits nor serves."""
        self.waits.over()
        if self._successors is not None:
            self._successors.stop()
