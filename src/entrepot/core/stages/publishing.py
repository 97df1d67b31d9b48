"""Publishing: the messages of closed stages are sent on, in one atomic batch or, where they are many, in steps. [C]"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import MIB, SECOND
from entrepot.base.errors import Refused, StorageError
from entrepot.core import records as register
from entrepot.core.addressing.routing import Target
from entrepot.core.ports import Host
from entrepot.core.queue.bereaved import load_or_stand_in, record_flaw
from entrepot.core.queue.dead_letters import DeadLetters
from entrepot.core.scheduling.timed import Alarm
from entrepot.core.sending.sending import Sending
from entrepot.core.stages import stage_records as records
from entrepot.core.stages.staged import (
    Publication,
    Run,
    Stage,
)
from entrepot.model import address as names
from entrepot.model.message import Message

ATOMIC_OCTETS: Final = 64 * MIB  # what one atomic batch of the journal may hold, as of a transaction
STEP_OCTETS: Final = 8 * MIB  # of a larger batch as much is moved in one turn
LOAD_MESSAGES: Final = 256
LOAD_OCTETS: Final = 4 * MIB
REFER_MESSAGES: Final = 2048  # so many get their queue by one record at the most
REFER_LEAST: Final = 16  # fewer are written again: what is remembered of a move costs more than that
RETRY: Final = SECOND  # while the disk is full


class _Move(Alarm):
    """The next step of a publication."""

    def __init__(self, due: int, publishing: Publishing, publication: Publication) -> None:
        super().__init__(due)
        self.publishing = publishing
        self.publication = publication

    def ring(self, now: int) -> None:
        self.publishing.go_on(self.publication)


class Publishing:
    """Moves what is in stages to where it was sent. Tests and the simulation make the sizes smaller."""

    def __init__(self, host: Host, sending: Sending, letters: DeadLetters) -> None:
        self.host: Host = host
        self.sending: Sending = sending
        self.letters: DeadLetters = letters
        self.atomic_octets: i64 = ATOMIC_OCTETS
        self.step_octets: i64 = STEP_OCTETS
        self.load_messages: int = LOAD_MESSAGES
        self.refer_messages: int = REFER_MESSAGES
        self.refer_least: int = REFER_LEAST

    def add(self, publication: Publication, stage: Stage) -> None:
        """Let ``publication`` move what is in ``stage``."""
        runs = stage.runs
        at = 0
        while at < len(runs):
            text = stage.targets[runs[at + 2]]
            publication.work.append(Run(runs[at], runs[at + 1], text))
            at += 3
        for message in stage.kept:
            publication.kept.append(message)
        publication.count += stage.count
        publication.chunks.append((stage.part, stage.chunks))

    def move(self, publication: Publication, octets_max: i64) -> None:
        """Send on so many octets, in the open batch of the journal; note it when that was all."""
        octets: i64 = 0
        self.sending.flow.granted = True  # limits were looked at when it was staged
        try:
            while publication.work and octets < octets_max:
                run = publication.work[0]
                moved = self._refer(publication, run)
                if moved > 0:
                    octets += moved
                    if run.count == 0:
                        publication.work.popleft()
                    continue
                for message in self._load(publication, run):
                    octets += message.size
                    self._send_on(publication, message, run.text)
                    run.first += 1
                    run.count -= 1
                if run.count == 0:
                    publication.work.popleft()
        finally:
            self.sending.flow.granted = False
        if not publication.work:
            self._finish(publication)

    def _refer(self, publication: Publication, run: Run) -> i64:
        """Let the next staged messages be in their queue by one record, and not be written again; return their octets.

        0: they must be sent one by one, as where more than one queue gets them.
        """
        host = self.host
        if run.count < self.refer_least or not host.journal.pages:
            return 0
        try:
            target = self._target(publication, run.text)
        except Refused:  # who sends them one by one says what becomes of them
            return 0
        queue = self.sending.sole_queue(target)
        if queue is None:
            return 0
        heads = host.journal.reading.heads(
            list(range(run.first, run.first + min(run.count, self.refer_messages))), LOAD_OCTETS
        )
        count = len(heads.sizes)
        if count < self.refer_least:
            return 0
        fresh = host.ids.next_numbers(count)
        if not host.journal.move(run.first, count, register.STAGED_QUEUE, queue.identity, fresh):
            return 0
        run.first += count
        run.count -= count
        self.sending.sent += count
        target.address.routed += count
        queue.accept_stored(fresh, heads)
        return heads.octets

    def _target(self, publication: Publication, text: str) -> Target:
        """Return where a destination leads. Raises Refused where it leads nowhere any more."""
        target = publication.targets.get(text)
        if target is None:
            target = self.sending.addresses.target(names.parse(text))
            publication.targets[text] = target
        return target

    def _load(self, publication: Publication, run: Run) -> list[Message]:
        """Return the next staged messages, fewer when they are large; what stands for one whose record rotted."""
        count = min(run.count, self.load_messages)
        if not self.host.journal.pages:
            return [publication.kept[at] for at in range(count)]
        return load_or_stand_in(self.host.journal, list(range(run.first, run.first + count)), LOAD_OCTETS)

    def _send_on(self, publication: Publication, staged: Message, text: str) -> None:
        host = self.host
        message = staged.twin(staged.address)
        flaw = record_flaw(staged)
        try:
            if flaw:
                message.need_rare().identity = host.ids.identity_of(staged)
                message.address = names.parse(text)[0].name
                raise Refused(f"{flaw}; it was staged for {text}")
            self.sending.send(message, self._target(publication, text))
        except Refused as refusal:  # or its queue went while the batch was under way: the batch holds all the same
            self.letters.bury_unsendable(message, text, refusal)
        if host.journal.pages:
            host.journal.settle(staged.number, register.STAGED_QUEUE)
        else:
            host.memory.release(publication.kept.popleft())

    def _finish(self, publication: Publication) -> None:
        publication.done = True
        publication.targets.clear()
        self.note(publication)
        for part, chunks in publication.chunks:
            self.forget_documents(publication.sink, publication.batch, part, chunks)
        publication.chunks.clear()
        waiters = publication.waiters
        publication.waiters = []
        for waiter in waiters:
            waiter.published(publication.count)

    def note(self, publication: Publication) -> None:
        """Write in the journal what is being published, and whether that is done."""
        record = records.PublicationRecord(
            publication.sink, publication.batch, publication.parts, int(publication.count), publication.done
        )
        key = records.batch_key(publication.sink, publication.batch)
        self.host.journal.put(register.KIND_PUBLICATION, key, records.encode(record))

    def later(self, publication: Publication) -> None:
        """Go on in the next turn, or, when the disk does not answer, in a while."""
        due = int(self.host.now)
        if publication.trouble:
            due += RETRY
        self.host.timetable.add(_Move(due, self, publication))

    def go_on(self, publication: Publication) -> None:
        """Do the next step of a batch that is too large for one."""
        host = self.host
        if publication.done:
            return
        refusal = host.journal.refusal()
        publication.trouble = "" if refusal is None else refusal.message
        if refusal is None:
            host.journal.begin()
            try:
                self.move(publication, self.step_octets)
            except StorageError as error:
                publication.trouble = error.message
            finally:
                host.journal.end()
        if not publication.done:
            self.later(publication)

    def forget_documents(self, sink: str, batch: int, part: str, chunks: int) -> None:
        """Delete the documents of a closed stage."""
        journal = self.host.journal
        journal.begin()
        try:
            journal.delete(register.KIND_STAGE, records.stage_key(sink, batch, part))
            for chunk in range(chunks):
                journal.delete(register.KIND_STAGE_RUNS, records.runs_key(sink, batch, part, chunk))
        finally:
            journal.end()
