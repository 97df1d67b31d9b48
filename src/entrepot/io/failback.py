"""A primary that returns asks the active backup for its store: a file beside the lock, in the directory of the store.

The request counts while it changes: a primary that asked and died is not waited for. Who asks writes the file anew now
and then; who is asked looks when it renews its lease, and answers by handing over (`Rules.FAILBACK`).
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from entrepot.base.environment import MILLISECOND, Duration, Instant
from entrepot.ha.failback import Heard
from entrepot.ha.lease import Record
from entrepot.io.lock import OWNER_FILE

REQUEST: Final = "LOCK.failback"
AGAIN: Final[Duration] = 500 * MILLISECOND  # half of the time between two looks of a holder with the default lease


class Asking:
    """The side of the primary."""

    def __init__(self, directory: Path, mine: Record) -> None:
        self._path: Final = directory / REQUEST
        self._mine: Final = mine
        self._count = 0
        self._next: Instant = 0

    def ask(self, now: Instant) -> None:
        """Ask, or ask again if it is time to. A disk that cannot be written is asked later."""
        if now < self._next:
            return
        self._next = now + AGAIN
        self._count += 1
        mine = self._mine
        text = json.dumps({"who": mine.describe(), "instance": mine.instance, "count": self._count})
        draft = self._path.with_name(f"{REQUEST}.{mine.instance}")
        with suppress(OSError):
            draft.touch(mode=OWNER_FILE)
            draft.write_text(text + "\n")
            os.replace(draft, self._path)

    def over(self) -> None:
        """The store is ours: ask no longer."""
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


class Asked:
    """The side of the backup."""

    def __init__(self, directory: Path) -> None:
        self._path: Final = directory / REQUEST
        self._heard: Final = Heard()

    def look(self) -> str:
        """Return who asks, once it was seen to ask twice; "" while nobody does."""
        try:
            facts = json.loads(self._path.read_text())
            who, mark = str(facts["who"]), (str(facts["instance"]), int(facts["count"]))
        except (OSError, ValueError, KeyError, TypeError):
            self._heard.look(None)
            return ""
        return who if self._heard.look(mark) else ""
