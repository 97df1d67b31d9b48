"""Where a drain is, what it has moved, and what of that is known after a restart of the node."""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec

from entrepot.core.broker import BrokerCore

NOTES: Final = "drain"
MOVED: Final = "moved."  # and the name of a queue
BY: Final = "by"
TAKEOVER: Final = "takeover"  # a backup that took over began it, and no operator


class State(Enum):
    """Where a drain is."""

    IDLE = "idle"
    LOCATING = "locating"
    CONNECTING = "connecting"
    MOVING = "moving"
    STORING = "storing"  # all is at the target; the disk here does not know it yet
    DONE = "done"
    FAILED = "failed"
    ABORTED = "aborted"
    INTERRUPTED = "interrupted"


RUNNING: Final = (State.LOCATING, State.CONNECTING, State.MOVING, State.STORING)


class Receipt(msgspec.Struct):
    """What became of one queue: ``moved`` messages, from the number ``first`` here to ``last``; ``there``: its id.

    ``arrived``: at the target's disk; ``moved``: and the disk here knows it, so that no crash brings them back.
    """

    moved: int = 0
    arrived: int = 0
    first: int = 0
    last: int = 0
    there: int = 0
    done: bool = False


class Notebook:
    """What is known of a drain after a restart of the node: the target, the state at its end, and counts."""

    def __init__(self, broker: BrokerCore) -> None:
        self._broker: Final = broker

    def recall(self) -> tuple[bool, str, dict[str, int]]:
        """Return whether a drain was under way or had failed, to which node, and how many messages of which queue."""
        notes = self._broker.notes.of(NOTES)
        moved = {key.removeprefix(MOVED): int(value) for key, value in notes.items() if key.startswith(MOVED)}
        ended = notes.get("state", "")
        return "node" in notes and ended in ("", State.FAILED.value), notes.get("node", ""), moved

    def note(self, key: str, value: str) -> None:
        """Keep ``value``, where the disk takes records."""
        if self._broker.journal.refusal() is None:
            self._broker.notes.put(NOTES, key, value)

    def forget(self) -> None:
        """Keep nothing of it."""
        if self._broker.journal.refusal() is None:
            for key in list(self._broker.notes.of(NOTES)):
                self._broker.notes.remove(NOTES, key)
