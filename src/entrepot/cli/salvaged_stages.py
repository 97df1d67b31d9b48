"""What a salvage makes of staged commits, when what cannot be read may have published them.

Staged messages are published by a record (MOVE) that is not beside them. Where that record is lost they are staged
messages of no stage, which a start settles: so they go to a queue, as dead letters do, and an operator sends them to
where they were meant for (`entrepot queue retry salvaged.staged`). Where the note of the publication is lost with it,
the stage is there as before. It is *doubtful* then: the program that staged it can still publish it, an operator can,
and no other batch of its sink is published, which would drop it, before somebody has decided.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, Final

import msgspec

from entrepot.core.queue.bereaved import DEAD_CAUSE
from entrepot.core.queue.dead_letters import ORIGINAL_EXPIRATION
from entrepot.core.records import KIND_PUBLICATION, KIND_STAGE, KIND_STAGE_RUNS, STAGED_QUEUE
from entrepot.core.stages import stage_records as records
from entrepot.journal.salvage import Loss
from entrepot.model.address import UNTYPED
from entrepot.model.message import Message
from entrepot.model.origins import note_origin

QUEUE: Final = "salvaged.staged"
CAUSE: Final = "it was staged, and whether it was published cannot be read any more from a damaged journal"
ENDLESS: Final = 1 << 63


class SalvagedStages:
    """Documents of stages, held back until all are there; then which messages are in a stage, and which in none."""

    def __init__(self, losses: list[Loss]) -> None:
        self.reach = reach_of(losses)
        self.doubtful: list[records.StageRecord] = []
        self.kept = 0  # messages that went to the queue
        self._stages: dict[bytes, records.StageRecord] = {}
        self._runs: dict[bytes, dict[int, tuple[bytes, records.RunsRecord]]] = {}
        self._published: dict[str, dict[int, records.PublicationRecord]] = {}
        self._staged: list[tuple[int, int]] = []  # first and last numbers

    def takes(self, kind: int, key: bytes, value: bytes) -> bool:
        """Take a document; return whether `documents` says what becomes of it."""
        if not self.reach:
            return False
        if kind == KIND_STAGE:
            self._stages[key] = records.decode_stage(value)
        elif kind == KIND_STAGE_RUNS:
            runs = records.decode_runs(value)
            of_stage = records.stage_key(runs.sink, runs.batch, runs.part)
            self._runs.setdefault(of_stage, {})[runs.chunk] = (key, runs)
        elif kind == KIND_PUBLICATION:
            note = records.decode_publication(value)
            self._published.setdefault(note.sink, {})[note.batch] = note
            return False
        return kind in (KIND_STAGE, KIND_STAGE_RUNS)

    def documents(self) -> list[tuple[int, bytes, bytes]]:
        """Return the documents of the stages that remain; all documents of the journal were told."""
        made: list[tuple[int, bytes, bytes]] = []
        for key, stage in self._stages.items():
            pieces = self._runs.get(key, {})
            runs = [run for _, piece in pieces.values() for run in _runs(piece.runs)]
            if sum(last - first + 1 for first, last in runs) != stage.count or self._is_over(stage):
                continue
            note = self._published.get(stage.sink, {}).get(stage.batch)
            if note is None and min((first for first, _ in runs), default=self.reach) < self.reach:
                stage = msgspec.structs.replace(stage, doubtful=True)
                self.doubtful.append(stage)
            made.extend((KIND_STAGE_RUNS, name, records.encode(piece)) for name, piece in pieces.values())
            made.append((KIND_STAGE, key, records.encode(stage)))
            self._staged.extend(runs)
        self._staged.sort()
        return made

    def _is_over(self, stage: records.StageRecord) -> bool:
        """Say whether its batch was published, or a younger one of its sink: nobody will publish it."""
        published = self._published.get(stage.sink, {})
        note = published.get(stage.batch)
        if note is not None:
            return note.done and stage.part in note.parts
        return bool(published) and stage.batch < max(published)

    def is_stray(self, number: int, queues: list[int]) -> bool:
        """Say whether a message is staged in no stage, and may have been published."""
        if queues != [STAGED_QUEUE] or number >= self.reach:
            return False
        at = bisect_right(self._staged, (number, ENDLESS)) - 1
        return at < 0 or number > self._staged[at][1]

    def label(self, message: Message, queue: str) -> None:
        """Write on a message of no stage why it is where it is, and that it was meant for ``queue``."""
        self.kept += 1
        message.annotate(DEAD_CAUSE, CAUSE)
        note_origin(message, message.address, queue, UNTYPED)
        if message.expiration:  # nobody would ever see it
            message.annotate(ORIGINAL_EXPIRATION, str(message.expiration))
            message.expiration = 0

    def rows(self) -> list[dict[str, Any]]:
        """Return what an operator has to decide."""
        rows: list[dict[str, Any]] = []
        if self.kept:
            rows.append({"queue": QUEUE, "staged": self.kept})
        rows.extend({"sink": each.sink, "batch": each.batch, "part": each.part} for each in self.doubtful)
        return rows


def reach_of(losses: list[Loss]) -> int:
    """Return below which number messages may have been published by what is lost; 0 where that holds no such record.

    What publishes messages stands behind them. Where there are some on both sides of the loss, it is known.
    """
    return max(
        (loss.before if 0 < loss.after < loss.before else ENDLESS for loss in losses if loss.settlements), default=0
    )


def sentence(row: dict[str, Any]) -> str:
    """Return a row for people."""
    if "staged" in row:
        return (
            f"{row['staged']} staged messages that may have been published are in the queue {QUEUE}: "
            f"`entrepot queue retry {QUEUE}` sends them to where they were meant for"
        )
    return (
        f"part {row['part']} of batch {row['batch']} of the sink {row['sink']} may have been published; it is kept, "
        f"and no other batch is published before it is published ({publishing(row['sink'], row['batch'])}) or dropped"
    )


def publishing(sink: str, batch: int) -> str:
    """Return the command that publishes."""
    return f"`entrepot stage publish {sink} --batch {batch}`"


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    """Return first and last number of each run of a document."""
    return [(numbers[at], numbers[at] + numbers[at + 1] - 1) for at in range(0, len(numbers), 3)]
