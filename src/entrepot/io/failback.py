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

from entrepot.ha.lease import Record
from entrepot.io.lock import OWNER_FILE

REQUEST: Final = "LOCK.failback"


class Asking:
    """The side of the primary."""

    def __init__(self, directory: Path, mine: Record) -> None:
        self._path: Final = directory / REQUEST
        self._mine: Final = mine
        self._count = 0

    def ask(self) -> None:
        """Ask, or ask again. A disk that cannot be written is asked later."""
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
    """The side of the backup. ``who`` asked when it was looked at last."""

    def __init__(self, directory: Path) -> None:
        self._path: Final = directory / REQUEST
        self.who = ""

    def look(self) -> tuple[str, int] | None:
        """Return what stands in the request: the instance that asks, and how often it did. None while nobody does."""
        try:
            facts = json.loads(self._path.read_text())
            self.who, mark = str(facts["who"]), (str(facts["instance"]), int(facts["count"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return mark
