"""Staged commits: messages that nobody sees until their batch is published, exactly once (docs/stages.md). [C]

A *sink* writes *batches*, numbered upwards; the tasks of a batch write *parts*, each into a stage of its own. Of a task
that was tried twice there are two parts; a decision says which ones count. One broker decides, every broker publishes
what it has of the winners and drops the rest.

A stage is OPEN while its connection writes into it, then CLOSED and durable. Its messages are in the journal from the
first, under a pseudo queue (`STAGED_QUEUE`); the documents of a stage are written when it closes, so that an open one
leaves nothing behind a crash but orphans, which recovery settles. Publishing lets the messages be in their queue under
new numbers, by a record for many of them (`JournalCore.move`), or sends a message on under a new number and settles the
staged one where more is to be done; with the note that the batch is published, in one atomic batch of the journal. A
batch of more than `ATOMIC_OCTETS` is too large for that: its note goes with the first step, says that it is not done,
and holds; the rest follows in steps, each atomic, over restarts too.

Invariants: a batch is decided once and published once; what is remembered of that (`REMEMBERED` batches of each sink)
is in the journal, and so is who counts them (`core/stages/counting.py`); a message of a closed stage is in the
journal or was sent on, never both, never neither. What is remembered costs memory, and has bounds:
`core/stages/stage_ledger.py`.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import MINUTE
from entrepot.base.errors import StageError, StorageError
from entrepot.core import records as register
from entrepot.core.addressing.addresses import written
from entrepot.core.addressing.routing import Target
from entrepot.core.ports import Host
from entrepot.core.queue.dead_letters import DeadLetters
from entrepot.core.scheduling.timed import Alarm
from entrepot.core.sending.sending import Sending
from entrepot.core.stages import stage_records as records
from entrepot.core.stages.counting import NOBODY, Author, Counts
from entrepot.core.stages.publishing import Publishing
from entrepot.core.stages.stage_ledger import RUN_OCTETS, TARGET_OCTETS, Ledger, batch_octets, stage_octets
from entrepot.core.stages.staged import (
    Publication,
    Run,
    Stage,
    StageWaiter,
    _check_batch,
    _check_name,
    _key,
    _numbers,
    _record,
)
from entrepot.journal.condition import again
from entrepot.model import address as names
from entrepot.model.message import Message

REMEMBERED: Final = 64  # decisions and publications of each sink; a sink repeats the last one or two
RUNS_A_DOCUMENT: Final = 30_000  # numbers: 150 kB
DROP_STEP: Final = 5_000  # messages of a dropped stage that are settled in one turn
STAGE_AGE_MS: Final = 7 * 24 * 3600 * 1000  # longer than a weekend in which nobody repairs a pipeline
SWEEP_EVERY: Final = MINUTE


class _Drop(Alarm):
    def __init__(self, due: int, stages: Stages) -> None:
        super().__init__(due)
        self.stages = stages

    def ring(self, now: int) -> None:
        self.stages.clear_some()


class Stages:
    """All stages, decisions and publications of one broker. Tests and the simulation make the sizes smaller."""

    def __init__(self, host: Host, sending: Sending, letters: DeadLetters) -> None:
        self.host: Host = host
        self.sending: Sending = sending
        self.publishing: Publishing = Publishing(host, sending, letters)
        self.document_runs: int = RUNS_A_DOCUMENT
        self.drop_step: i64 = DROP_STEP
        self.stages: dict[bytes, Stage] = {}
        self.decisions: dict[str, dict[int, list[str]]] = {}  # sink -> batch -> parts, the oldest first
        self.publications: dict[str, dict[int, Publication]] = {}
        self.counts: Counts = Counts(host.journal)
        self.ledger: Ledger = Ledger(host.memory, host.journal)  # whose sinks are, and what they cost
        self.garbage: deque[tuple[int, int]] = deque()  # numbers to be settled: (first, how many)
        self.chunks: dict[bytes, dict[int, list[int]]] = {}  # while recovering
        self.swept: i64 = 0

    # -- whose it is --------------------------------------------------------------------------------------------------

    def admit(self, sink: str, subject: str) -> None:
        """Let ``subject`` use ``sink``, as in `Ledger.admit`; ``ledger.let_go`` comes afterwards. Raises Refused."""
        _check_name(sink, "sink")
        self.ledger.admit(sink, subject)

    # -- writing ------------------------------------------------------------------------------------------------------

    def open(self, sink: str, batch: int, part: str, author: Author = NOBODY) -> Stage:
        """Begin a stage. Raises StageError for a part that is there, or a batch that is long published.

        Also when ``author`` could not have the batch decided: then nothing need be staged.
        """
        _check_name(sink, "sink")
        _check_name(part, "part")
        _check_batch(batch)
        self.counts.check(sink, author)
        decided = self.decisions.get(sink)
        if decided:
            self.counts.check_batch(sink, batch, max(decided), author)
        key = records.stage_key(sink, batch, part)
        if key in self.stages:
            raise StageError(f"there is a part {part!r} of batch {batch} of {sink!r}", remedy="give parts unique keys")
        published = self.publications.get(sink, {})
        if published and batch not in published and batch < max(published):
            raise self._too_old(sink, batch)
        if batch in published and part in published[batch].parts:
            raise StageError(
                f"part {part!r} of batch {batch} of {sink!r} is published", remedy="give parts unique keys"
            )
        octets = stage_octets(sink, part)
        self.ledger.check_room(sink, octets, 1)
        stage = Stage(sink, batch, part, int(self.host.wall))
        stage.heard = self.host.now
        self.stages[key] = stage
        self._charge(stage, octets, 1)
        return stage

    def _charge(self, stage: Stage, octets: i64, stages: i64 = 0) -> None:
        stage.noted += octets
        self.ledger.note(stage.sink, octets, stages)

    def _discharge(self, stage: Stage) -> None:
        self.ledger.note(stage.sink, -stage.noted, -1)
        stage.noted = 0

    def send(self, stage: Stage, message: Message, target: Target) -> int:
        """Keep ``message`` for ``target``; return SENT, or BLOCKED as a send would. Raises what a send would."""
        if stage.dropped:
            raise StageError(f"part {stage.part!r} of batch {stage.batch} of {stage.sink!r} is gone: {stage.dropped}")
        if target.service is not None:
            raise StageError(f"{target.name!r} answers at once: nothing can be staged for it")
        host = self.host
        stage.heard = host.now
        verdict = self.sending.admits(message, target)
        message.number = host.ids.next_number()
        index = stage.last_index
        if target is not stage.last_target:
            index = self._place(stage, target)
        if message.number != stage.next_number or stage.runs[-1] != index:  # a further run has to be remembered
            self.ledger.check_room(stage.sink, RUN_OCTETS)
            self._charge(stage, RUN_OCTETS)
        if host.journal.pages:
            host.journal.store(message, [register.STAGED_QUEUE])
        else:
            stage.kept.append(message)
            host.memory.hold(message)
        stage.add(message, index)
        return verdict

    def _place(self, stage: Stage, target: Target) -> int:
        text = written(target)
        if text not in stage.index:
            octets: i64 = TARGET_OCTETS + len(text)
            self.ledger.check_room(stage.sink, octets)
            self._charge(stage, octets)
        return stage.place(target, text)

    def close(self, stage: Stage) -> int:
        """Make a stage durable; confirm the journal before saying so. Return how many messages it has.

        Raises StageError when a send into it was refused: it is dropped then.
        """
        if stage.dropped:
            raise StageError(f"part {stage.part!r} of batch {stage.batch} of {stage.sink!r} is gone: {stage.dropped}")
        if stage.failure:
            why = f"a message was refused: {stage.failure}"
            self.drop(stage, why)
            raise StageError(f"part {stage.part!r} of batch {stage.batch} of {stage.sink!r} cannot be closed: {why}")
        journal = self.host.journal
        refusal = journal.refusal()
        if refusal is not None:
            raise again(refusal)
        size = self.document_runs
        stage.chunks = (len(stage.runs) + size - 1) // size
        journal.begin()
        try:
            for chunk in range(stage.chunks):
                runs = stage.runs[chunk * size : (chunk + 1) * size]
                key = records.runs_key(stage.sink, stage.batch, stage.part, chunk)
                record = records.RunsRecord(stage.sink, stage.batch, stage.part, chunk, runs)
                journal.put(register.KIND_STAGE_RUNS, key, records.encode(record))
            journal.put(register.KIND_STAGE, _key(stage), records.encode(_record(stage)))
        finally:
            journal.end()
        stage.closed = True
        stage.heard = self.host.now
        return int(stage.count)

    # -- deciding -----------------------------------------------------------------------------------------------------

    def decide(self, sink: str, batch: int, parts: list[str], author: Author = NOBODY) -> list[str]:
        """Return which parts of the batch win: ``parts``, unless it was decided before. Confirm the journal first.

        Raises StageError for a batch that is older than what is remembered of this sink, and for an ``author`` whose
        batch this cannot be.
        """
        _check_name(sink, "sink")
        _check_batch(batch)
        for part in parts:
            _check_name(part, "part")
        counts = self.counts
        counts.check(sink, author)
        node = self.host.ids.node_id
        counts.check_decider(sink, node)
        decided = self.decisions.get(sink, {})
        if decided:
            counts.check_batch(sink, batch, max(decided), author)
        journal = self.host.journal
        if batch in decided:
            if self._is_done(sink, batch):
                counts.check_repeat(sink, batch, author)
            self._note_count(sink, author, node)
            return decided[batch]
        if decided and batch < max(decided):
            raise self._too_old(sink, batch)
        refusal = journal.refusal()
        if refusal is not None:
            raise again(refusal)
        self.ledger.check_room(sink, batch_octets(sink, parts))
        journal.begin()
        try:
            counts.note(sink, author, node)
            record = records.DecisionRecord(sink, batch, parts, counts.mark(sink, batch, author))
            journal.put(register.KIND_DECISION, records.batch_key(sink, batch), records.encode(record))
            decided[batch] = parts
            self.decisions[sink] = decided
            self.ledger.note(sink, batch_octets(sink, parts), 0, 1)
            while len(decided) > REMEMBERED:
                oldest = min(decided)
                self.ledger.note(sink, -batch_octets(sink, decided.pop(oldest)), 0, -1)
                journal.delete(register.KIND_DECISION, records.batch_key(sink, oldest))
        finally:
            journal.end()
        return parts

    def _is_done(self, sink: str, batch: int) -> bool:
        """Tell whether a decided batch was published here, or has nothing that could be."""
        return batch in self.publications.get(sink, {}) or not self.decisions[sink][batch]

    def _note_count(self, sink: str, author: Author, decider: str) -> None:
        """Remember who repeats a step, if that is news. Raises what the journal refuses."""
        if not self.counts.is_news(sink, author, decider):
            return
        refusal = self.host.journal.refusal()
        if refusal is not None:
            raise again(refusal)
        self.host.journal.begin()
        try:
            self.counts.note(sink, author, decider)
        finally:
            self.host.journal.end()

    # -- publishing ---------------------------------------------------------------------------------------------------

    def publish(self, sink: str, batch: int, parts: list[str], author: Author = NOBODY) -> Publication:
        """Send the messages of ``parts`` on, drop all other parts of this batch and of older ones.

        Of a batch that was published before nothing is sent again. ``done`` is False when it takes more turns: `wait`.
        Confirm the journal before telling. Raises StageError for a part that is not here or not closed, or other parts
        than were published; for an ``author`` whose batch this cannot be; and what a send would raise: nothing has
        happened then.
        """
        _check_name(sink, "sink")
        _check_batch(batch)
        self.counts.check(sink, author)
        published = self.publications.get(sink, {})
        known = published.get(batch)
        if known is not None:
            if sorted(known.parts) != sorted(parts):
                raise StageError(
                    f"batch {batch} of {sink!r} is published here with the parts {','.join(known.parts) or 'none'}",
                    remedy="publish what was decided: ask DECIDE",
                )
            self._drop_losers(sink, batch, known.parts)
            return known
        if published and batch < max(published):
            raise self._too_old(sink, batch)
        self._may_publish(sink, batch, parts)
        refusal = self.host.journal.refusal()
        if refusal is not None:
            raise again(refusal)
        publication = self._begin(sink, batch, parts)
        if not parts:  # others make room: each of their stages costs more than what is remembered of it
            self.ledger.check_room(sink, batch_octets(sink, parts))
        journal = self.host.journal
        journal.begin()
        try:
            self.counts.note(sink, author, author.decider)
            published[batch] = publication
            self.publications[sink] = published
            self.ledger.note(sink, batch_octets(sink, parts), 0, 1)
            for part in parts:
                self._discharge(self.stages.pop(records.stage_key(sink, batch, part)))
            self._drop_losers(sink, batch, parts)
            while len(published) > REMEMBERED:
                oldest = min(published)  # it is done: a younger one would not be here otherwise
                self.ledger.note(sink, -batch_octets(sink, published.pop(oldest).parts), 0, -1)
                journal.delete(register.KIND_PUBLICATION, records.batch_key(sink, oldest))
            self.publishing.move(publication, self.publishing.atomic_octets)
        except StorageError as error:  # what is staged cannot be read now: the batch holds, and is tried again
            publication.trouble = error.message
        finally:
            if not publication.done:
                self.publishing.note(publication)
                self.publishing.later(publication)
            journal.end()
        return publication

    def _may_publish(self, sink: str, batch: int, parts: list[str]) -> None:
        """Raise StageError for parts that lost, if it was decided here, and while an older batch is under way.

        Also for a salvaged part of an older batch, which was published or not: it would be dropped.
        """
        decided = self.decisions.get(sink, {})
        for part in parts:
            if batch in decided and part not in decided[batch]:
                raise StageError(
                    f"part {part!r} of batch {batch} of {sink!r} was decided against", remedy="publish what DECIDE says"
                )
        for stage in self.of(sink):
            if stage.doubtful and stage.batch < batch:
                raise StageError(
                    f"part {stage.part!r} of batch {stage.batch} of {sink!r} was salvaged from a damaged journal, and "
                    "whether it was published is not known",
                    remedy=f"publish it, entrepot stage publish {sink} --batch {stage.batch}, or drop it: "
                    f"entrepot stage drop {sink} --batch {stage.batch} --part {stage.part}",
                )
        for publication in self.publications.get(sink, {}).values():
            if not publication.done:
                raise StageError(
                    f"batch {publication.batch} of {sink!r} is still being published", remedy="try again when it is"
                )

    def _begin(self, sink: str, batch: int, parts: list[str]) -> Publication:
        """Find out before anything is written whether all is there and can be sent."""
        publication = Publication(sink, batch, parts, 0)
        for part in parts:
            stage = self.stages.get(records.stage_key(sink, batch, part))
            if stage is None or not stage.closed:
                what = "was not closed" if stage is not None else "is not here"
                raise StageError(f"part {part!r} of batch {batch} of {sink!r} {what}, and the batch is not published")
            self.publishing.add(publication, stage)
            for text in stage.targets:
                publication.targets[text] = self.sending.addresses.target(names.parse(text))
        return publication

    # -- dropping -----------------------------------------------------------------------------------------------------

    def abandon(self, sink: str, batch: int, parts: list[str] | None) -> int:
        """Drop ``parts`` of a batch, None: all of them; return how many there were. Published ones are none."""
        dropped = 0
        for stage in self.of(sink, batch):
            if parts is None or stage.part in parts:
                self.drop(stage, "it was abandoned")
                dropped += 1
        return dropped

    def of(self, sink: str, batch: int = -1) -> list[Stage]:
        """Return the stages of a sink, of one batch or (-1) of all."""
        return [stage for stage in self.stages.values() if stage.sink == sink and (batch < 0 or stage.batch == batch)]

    def drop(self, stage: Stage, why: str) -> None:
        """Forget a stage and what is in it; whoever writes into it hears ``why``."""
        if stage.dropped or self.stages.get(_key(stage)) is not stage:
            return
        del self.stages[_key(stage)]
        self._discharge(stage)
        self.ledger.let_go(stage.sink)
        stage.dropped = why
        if stage.closed:
            self.publishing.forget_documents(stage.sink, stage.batch, stage.part, stage.chunks)
        for message in stage.kept:
            self.host.memory.release(message)
        stage.kept.clear()
        if not self.host.journal.pages:
            return
        idle = not self.garbage
        at = 0
        while at < len(stage.runs):
            self.garbage.append((stage.runs[at], stage.runs[at + 1]))
            at += 3
        if idle:
            self.clear_some()

    def clear_some(self) -> None:
        """Settle some of what was dropped; go on in the next turn when there is more."""
        left = self.drop_step
        journal = self.host.journal
        while self.garbage and left > 0:
            first, count = self.garbage.popleft()
            step = min(int(left), count)
            for number in range(first, first + step):
                journal.settle(number, register.STAGED_QUEUE)
            left -= step
            if step < count:
                self.garbage.appendleft((first + step, count - step))
        if self.garbage:
            self.host.timetable.add(_Drop(int(self.host.now), self))

    def forget(self, sink: str) -> int:
        """Drop all stages of a sink, its decisions and what was published: its next batch may be any number.

        Return how many stages there were. Raises StageError while a batch of it is being published.
        """
        for publication in self.publications.get(sink, {}).values():
            if not publication.done:
                raise StageError(f"batch {publication.batch} of {sink!r} is being published", remedy="wait for it")
        found = self.of(sink)
        journal = self.host.journal
        journal.begin()
        try:
            for stage in found:
                self.drop(stage, "its sink was forgotten")
            for batch, parts in self.decisions.pop(sink, {}).items():
                journal.delete(register.KIND_DECISION, records.batch_key(sink, batch))
                self.ledger.note(sink, -batch_octets(sink, parts), 0, -1)
            for batch, publication in self.publications.pop(sink, {}).items():
                journal.delete(register.KIND_PUBLICATION, records.batch_key(sink, batch))
                self.ledger.note(sink, -batch_octets(sink, publication.parts), 0, -1)
            self.counts.forget(sink)
            self.ledger.let_go(sink)
        finally:
            journal.end()
        return len(found)

    def sweep(self) -> None:
        """Drop closed stages that nobody asked for in `STAGE_AGE_MS`; a decision in their favour keeps them."""
        host = self.host
        if not self.stages or host.now - self.swept < SWEEP_EVERY:
            return
        self.swept = host.now
        for stage in list(self.stages.values()):
            wins = stage.part in self.decisions.get(stage.sink, {}).get(stage.batch, [])
            if stage.closed and not wins and not stage.doubtful and host.wall - stage.created > STAGE_AGE_MS:
                self.drop(stage, "nobody published it for a week")

    def _drop_losers(self, sink: str, batch: int, parts: list[str]) -> None:
        for stage in self.of(sink):
            if stage.batch < batch or (stage.batch == batch and stage.part not in parts):
                self.drop(stage, f"batch {batch} was published without it")

    def _too_old(self, sink: str, batch: int) -> StageError:
        return StageError(
            f"batch {batch} of {sink!r} is older than those that are remembered",
            remedy="a sink counts upwards; a new one needs another id, or forget this one: entrepot stage drop",
        )

    # -- recovery -----------------------------------------------------------------------------------------------------

    def recovered(self, kind: int, key: bytes, value: bytes) -> None:
        """Take back a document of the journal; `rebuild` comes when all of them, and all messages, are there."""
        if kind == register.KIND_SINK:
            self.ledger.recovered(key.decode(), value.decode())
        elif kind == register.KIND_STAGE:
            record = records.decode_stage(value)
            stage = Stage(record.sink, record.batch, record.part, record.created)
            stage.heard = self.host.now
            stage.count = record.count
            stage.octets = record.octets
            stage.chunks = record.chunks
            stage.targets = list(record.targets)
            stage.closed = True
            stage.doubtful = record.doubtful
            stage.noted = stage_octets(stage.sink, stage.part)
            for target in stage.targets:
                stage.noted += TARGET_OCTETS + len(target)
            self.stages[_key(stage)] = stage
            self.ledger.note(stage.sink, stage.noted, 1)
        elif kind == register.KIND_STAGE_RUNS:
            piece = records.decode_runs(value)
            of_stage = records.stage_key(piece.sink, piece.batch, piece.part)
            self.chunks.setdefault(of_stage, {})[piece.chunk] = piece.runs
        elif kind == register.KIND_DECISION:
            decision = records.decode_decision(value)
            self.decisions.setdefault(decision.sink, {})[decision.batch] = decision.parts
            self.ledger.note(decision.sink, batch_octets(decision.sink, decision.parts), 0, 1)
            self.counts.recovered_mark(decision.sink, decision.batch, decision.by)
        elif kind == register.KIND_COUNT:
            self.counts.recovered(records.decode_count(value))
        elif kind == register.KIND_PUBLICATION:
            note = records.decode_publication(value)
            publication = Publication(note.sink, note.batch, note.parts, note.count)
            publication.done = note.done
            self.publications.setdefault(note.sink, {})[note.batch] = publication
            self.ledger.note(note.sink, batch_octets(note.sink, note.parts), 0, 1)

    def rebuild(self, numbers: list[int]) -> None:
        """Put stages together, settle what was never closed, go on with what was being published.

        ``numbers``: the staged messages that are alive.
        """
        self.counts.rebuild()
        alive = dict.fromkeys(numbers, True)
        for key, stage in self.stages.items():
            pieces = self.chunks.get(key, {})
            for chunk in sorted(pieces):
                stage.runs.extend(pieces[chunk])
            self._charge(stage, RUN_OCTETS * (len(stage.runs) // 3))
        self.chunks.clear()
        for sink in list(self.ledger.sinks):
            self.ledger.let_go(sink)  # of what was open there is nothing any more
        for publications in list(self.publications.values()):
            for publication in list(publications.values()):
                if not publication.done:
                    self._resume(publication, alive)
        for stage in self.stages.values():
            for number in _numbers(stage):
                alive.pop(number, False)
        for number in alive:
            self.host.journal.settle(number, register.STAGED_QUEUE)

    def _resume(self, publication: Publication, alive: dict[int, bool]) -> None:
        count = publication.count
        for part in publication.parts:
            stage = self.stages.pop(records.stage_key(publication.sink, publication.batch, part), None)
            if stage is not None:
                self._discharge(stage)
                self.publishing.add(publication, stage)
        publication.count = count
        publication.targets.clear()
        left: deque[Run] = deque()
        for run in publication.work:
            for number in range(run.first, run.first + run.count):
                if not alive.pop(number, False):
                    continue  # it was sent on before the restart
                last = left[-1] if left else None
                if last is not None and last.text == run.text and last.first + last.count == number:
                    last.count += 1
                else:
                    left.append(Run(number, 1, run.text))
        publication.work = left
        self.publishing.later(publication)

    # -- looking at it ------------------------------------------------------------------------------------------------

    def check(self) -> list[Message]:
        """Assert that counts add up; return the messages that are held in memory."""
        self.ledger.check()
        held: list[Message] = []
        for stage in self.stages.values():
            count = sum(stage.runs[1::3])
            assert count == stage.count, f"{stage.part} counts {stage.count} messages and has {count}"
            assert not stage.dropped
            held.extend(stage.kept)
        for publications in self.publications.values():
            for publication in publications.values():
                assert not publication.done or not publication.work
                held.extend(publication.kept)
        return held


__all__ = ["Publication", "Stage", "StageWaiter", "Stages"]
