"""Who was master of a store, since when, why, and with which epoch: one JSON line each in ``DIR/ha.log``.

Only ever appended to, each line in one write, by whoever was, is or wants to be master; so it can be read at any time,
and a line that was cut by a crash is skipped.

Who asks for the lock claims his epoch here first. The first line of an epoch has it, and no other is a master with it:
not even when the lock is deleted before the winner could note that he has won.
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
CLAIMS: Final = "claims"
EPOCH_SHIFT: Final = 24
"""As `journal/epoch.py`, which a waiting broker does not load."""


class Ledger:
    """The ledger of one store."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / LEDGER

    def append(self, event: str, record: Record, why: str) -> None:
        """Add a line: ``event`` is claims, master, released, lost or failed. A full disk costs it, not the broker."""
        lease = {"lease": record.lease // MILLISECOND, "instance": record.instance}
        self._write(event, {**_facts(event, record, record.epoch, why), **lease})

    def note(self, event: str, record: Record, epoch: int, why: str) -> None:
        """Add a line about a replica, which is not in office: ``epoch`` is of the primary that it follows.

        It has neither lease nor instance, so it is no claim, and nobody waits for its lease.
        """
        self._write(event, _facts(event, record, epoch, why))

    def _write(self, event: str, facts: dict[str, Any]) -> None:
        line = (json.dumps(facts) + "\n").encode()
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, OWNER_FILE)
            try:
                os.write(descriptor, line)
                if event in (CLAIMS, "master"):
                    os.fsync(descriptor)  # the next one finds here which epochs are used up
            finally:
                os.close(descriptor)
        except OSError:
            return

    def claim(self, record: Record) -> bool:
        """Claim the epoch of ``record``; False: somebody else has it. Where nothing can be written it is ours."""
        self.append(CLAIMS, record, "asks for the lock")
        for facts in self.lines():
            if facts["epoch"] == record.epoch and "instance" in facts:
                return bool(facts["instance"] == record.instance)
        return True

    def read(self) -> list[dict[str, Any]]:
        """Return all lines that tell of masters, oldest first; none where there is no ledger."""
        return [facts for facts in self.lines() if facts.get("event") != CLAIMS]

    def lines(self) -> list[dict[str, Any]]:
        """Return all lines that are whole, claims too."""
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

    def empty(self, instance: str = "") -> bool:
        """Say whether nobody was master yet, or asked to be: he may have won a moment ago. ``instance`` did not."""
        return all(facts.get("event") == CLAIMS and facts.get("instance") == instance for facts in self.lines())

    def lease(self) -> Duration:
        """Return how long the lease of the last who was master, or asked to be, may last, in ns."""
        for facts in reversed(self.lines()):
            if isinstance(facts.get("lease"), int):
                return int(facts["lease"]) * MILLISECOND
        return 0


def _facts(event: str, record: Record, epoch: int, why: str) -> dict[str, Any]:
    return {
        "at": time.time_ns() // MILLISECOND,
        "event": event,
        "epoch": epoch,
        "broker": record.name,
        "host": record.host,
        "pid": record.pid,
        "why": why,
    }


def highest_epoch(directory: Path) -> int:
    """Return the highest epoch that left a trace in ``directory``: in the ledger, or in the name of a segment."""
    highest = max([int(facts["epoch"]) for facts in Ledger(directory).lines()], default=0)
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
