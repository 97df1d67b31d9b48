"""Who was master of a store, since when, why, and with which epoch: one JSON line each in ``DIR/ha.log``.

Only ever appended to, each line in one write, by whoever was, is or wants to be master; so it can be read at any time,
and a line that was cut by a crash is skipped.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, Final

from entrepot.base.environment import MILLISECOND, Duration
from entrepot.ha.lease import Record
from entrepot.io.lock import OWNER_FILE

LEDGER: Final = "ha.log"
EPOCH_SHIFT: Final = 24
"""As `journal/epoch.py`, which a waiting broker does not load."""


class Ledger:
    """The ledger of one store."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / LEDGER

    def append(self, event: str, record: Record, why: str) -> None:
        """Add a line: ``event`` is master, released, lost or failed. A full disk costs the line, not the broker."""
        facts = {
            "at": time.time_ns() // MILLISECOND,
            "event": event,
            "epoch": record.epoch,
            "broker": record.name,
            "host": record.host,
            "pid": record.pid,
            "why": why,
            "lease": record.lease // MILLISECOND,
        }
        line = (json.dumps(facts) + "\n").encode()
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, OWNER_FILE)
            try:
                os.write(descriptor, line)
                if event == "master":
                    os.fsync(descriptor)  # the next one finds here which epochs are used up
            finally:
                os.close(descriptor)
        except OSError:
            return

    def read(self) -> list[dict[str, Any]]:
        """Return all lines that are whole, oldest first; none where there is no ledger."""
        try:
            text = self.path.read_text(errors="replace")
        except OSError:
            return []
        found: list[dict[str, Any]] = []
        for line in text.splitlines():
            try:
                facts = json.loads(line)
            except ValueError:
                continue
            if isinstance(facts, dict) and isinstance(facts.get("epoch"), int):
                found.append(facts)
        return found

    def empty(self) -> bool:
        """Say whether nobody was master yet."""
        return not self.read()

    def lease(self) -> Duration:
        """Return how long the lease of the last master may last, in ns."""
        for facts in reversed(self.read()):
            if isinstance(facts.get("lease"), int):
                return int(facts["lease"]) * MILLISECOND
        return 0


def highest_epoch(directory: Path) -> int:
    """Return the highest epoch that left a trace in ``directory``: in the ledger, or in the name of a segment."""
    highest = max([int(facts["epoch"]) for facts in Ledger(directory).read()], default=0)
    try:
        names = os.listdir(directory / "journal")
    except OSError:
        return highest
    for name in names:
        first = name.partition("-")[0]
        if name.endswith(".seg") and first.isascii() and first.isdigit():
            highest = max(highest, int(first) >> EPOCH_SHIFT)
        elif name.startswith("epoch-") and name[6:].isdigit():
            highest = max(highest, int(name[6:]))
    return highest
