"""One stage, what it holds, and one publication of stages: values that `core/stages/stage.py` changes. [C]"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64, mypyc_attr

from entrepot.base.errors import EntrepotError, StageError
from entrepot.core.addressing.routing import Target
from entrepot.core.stages import stage_records as records
from entrepot.model.message import Message

NAME_OCTETS_MAX: Final = 255  # of a sink or a part: they are parts of keys
BATCH_MAX: Final = (1 << 62) - 1


@mypyc_attr(allow_interpreted_subclasses=True)
class StageWaiter:
    """Who waits for a publication that takes several turns. Exactly one of the two is called, once."""

    def published(self, count: i64) -> None:
        """All of it is sent; ask the journal when it is on disk."""

    def refused(self, error: EntrepotError) -> None:
        """It will not be."""


class Stage:
    """One part of one batch. ``runs``: first number, how many, index into ``targets``; and so on."""

    def __init__(self, sink: str, batch: int, part: str, created: int) -> None:
        self.sink: str = sink
        self.batch: int = batch
        self.part: str = part
        self.created: int = created
        self.heard: i64 = 0  # ns: when its writer did something with it last, or the broker started
        self.count: i64 = 0
        self.octets: i64 = 0
        self.noted: i64 = 0  # octets that the ledger has for it
        self.closed: bool = False
        self.doubtful: bool = False  # it was salvaged, and perhaps it was published
        self.chunks: int = 0  # documents of its runs in the journal
        self.dropped: str = ""  # why there is nothing in it any more
        self.failure: str = ""  # of one of its sends: then the rest must not count either
        self.targets: list[str] = []
        self.index: dict[str, int] = {}
        self.runs: list[int] = []
        self.next_number: i64 = -1
        self.last_target: Target | None = None
        self.last_index: int = 0
        self.kept: list[Message] = []  # of a broker without a disk; in the order of the runs

    def place(self, target: Target, written: str) -> int:
        """Return the index of a destination, noted on first use."""
        index = self.index.get(written, -1)
        if index < 0:
            index = len(self.targets)
            self.targets.append(written)
            self.index[written] = index
        self.last_target = target
        self.last_index = index
        return index

    def add(self, message: Message, index: int) -> None:
        """Note one more message."""
        number = message.number
        runs = self.runs
        if number == self.next_number and runs[-1] == index:
            runs[-2] += 1
        else:
            runs.append(int(number))
            runs.append(1)
            runs.append(index)
        self.next_number = number + 1
        self.count += 1
        self.octets += message.size

    def fail(self, error: EntrepotError) -> None:
        """A send into it was refused: it cannot be closed any more."""
        if not self.failure:
            self.failure = error.message


class Run:
    """Staged messages with consecutive numbers and one destination that are still to be sent on."""

    def __init__(self, first: int, count: int, text: str) -> None:
        self.first: int = first
        self.count: int = count
        self.text: str = text


class Publication:
    """A batch that is or was published here; ``work`` is what is still to be moved."""

    def __init__(self, sink: str, batch: int, parts: list[str], count: i64) -> None:
        self.sink: str = sink
        self.batch: int = batch
        self.parts: list[str] = parts
        self.count: i64 = count
        self.done: bool = False
        self.work: deque[Run] = deque()
        self.kept: deque[Message] = deque()
        self.chunks: list[tuple[str, int]] = []  # parts and how many documents of runs each has
        self.targets: dict[str, Target] = {}
        self.waiters: list[StageWaiter] = []
        self.trouble: str = ""  # why it does not go on


def _key(stage: Stage) -> bytes:
    return records.stage_key(stage.sink, stage.batch, stage.part)


def _record(stage: Stage) -> records.StageRecord:
    return records.StageRecord(
        stage.sink,
        stage.batch,
        stage.part,
        stage.created,
        int(stage.count),
        int(stage.octets),
        stage.targets,
        stage.chunks,
    )


def _numbers(stage: Stage) -> list[int]:
    found: list[int] = []
    at = 0
    while at < len(stage.runs):
        found.extend(range(stage.runs[at], stage.runs[at] + stage.runs[at + 1]))
        at += 3
    return found


def _check_name(name: str, what: str) -> None:
    """Raise StageError for a name that cannot be part of a list or a key."""
    if not name or len(name.encode()) > NAME_OCTETS_MAX or "," in name or not name.isprintable():
        raise StageError(
            f"the {what} {name[:40]!r} is no name",
            remedy=f"use 1 to {NAME_OCTETS_MAX} printable octets without a comma",
        )


def _check_batch(batch: int) -> None:
    if not 0 <= batch <= BATCH_MAX:
        raise StageError(f"the batch {batch} is not a number from 0 to {BATCH_MAX}")
