"""JournalCore: decides what is written, when a sync is needed, and who may go on. [C]

Everything is keyed by the number of a message; nobody outside knows where in which file it is. The journal is several
objects, each with its own state:

- `Tail` (``tail.py``): the open batch, the growing segment, the numbers of batches; what leaves, leaves there.
- `Reading` (``reading.py``): messages back from disk.
- `Waiting` (``waiting.py``): who is called when a batch is on disk.
- `Parts` (``parts.py``): what belongs together and is written over many turns.
- `Reclaiming` (``reclaiming.py``): which files go, and when; rewriting where garbage prevails.
- `Space` (``space.py``): how much of the disk is taken, against its limits.
- `Condition` (``condition.py``): whether anything may be stored at all.

Life of a record: ``store`` lays it out in the open batch; ``flush`` (once per turn of the loop) hands the batch to the
`JournalPort` and asks for a sync if anybody waits; what is appended during a sync goes into the next batch; ``synced``
calls everybody who waited.

Must never: open a file, or confirm what a sync has not covered. Once a sync or a write has failed for another reason
than space, nothing is confirmed any more: a second sync that succeeds says nothing about the first.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_i32_be, write_i64_be
from mypy_extensions import i32, i64, mypyc_attr

from entrepot.base.errors import EntrepotError, Fault, Refused, StoreLost
from entrepot.journal.condition import Condition, again
from entrepot.journal.index import DURABLY, LIVE, TRANSIENT, document_name
from entrepot.journal.moves import Move
from entrepot.journal.moving import carry_out, is_whole, write_move
from entrepot.journal.names import GAPS_KEY, INTERNAL_KIND
from entrepot.journal.overflow import Overflow
from entrepot.journal.parts import Parts
from entrepot.journal.ports import (
    Elsewhere,
    Fence,
    JournalEvents,
    JournalOptions,
    JournalPort,
    JournalUsage,
    RecoveryReport,
    RecoverySink,
    Rider,
    Waiter,
)
from entrepot.journal.reading import Reading
from entrepot.journal.reclaiming import Reclaiming
from entrepot.journal.record import ADD, BATCH_HEAD, DELETE, RECORD_HEAD, REDELIVERED, write_message, write_queue
from entrepot.journal.recovery import Recovery
from entrepot.journal.space import Space
from entrepot.journal.tail import Tail
from entrepot.journal.waiting import Waiting
from entrepot.model.message import Message

__all__ = [
    "Fence",
    "JournalCore",
    "JournalEvents",
    "JournalOptions",
    "JournalPort",
    "JournalUsage",
    "RecoveryReport",
    "RecoverySink",
    "Rider",
    "Waiter",
]

AHEAD_BATCHES: Final = 2
"""So many full batches may wait for a sync: who is confirmed waits for these, and for those of the sync before."""


@mypyc_attr(allow_interpreted_subclasses=True)
class JournalCore(JournalEvents):
    """The journal of one broker. Call `recover` first, `flush` at the end of every turn, `close` at the end.

    ``overflow`` keeps bodies that do not fit in memory. ``pages`` says whether `page` can take messages off memory.
    """

    def __init__(self, port: JournalPort, options: JournalOptions) -> None:
        self.port: JournalPort = port
        self.options: JournalOptions = options
        self.overflow: Overflow = Overflow(port)
        self.tail: Tail = Tail(port, options)
        self.reading: Reading = Reading(self.tail, self.overflow)
        self.space: Space = Space(self.tail, self.overflow)
        self.pages: bool = True
        self.fence: Fence = Fence()
        self.elsewhere: Elsewhere | None = None  # set: some answers wait until other brokers have what they are about
        self._condition: Condition = Condition()
        self._waiting: Waiting = Waiting()
        self.parts: Parts = Parts(self.tail, self._waiting)
        self._reclaiming: Reclaiming = Reclaiming(self.tail, self.overflow)
        self._scratch = BytesWriter()
        self._syncing: i64 = 0  # 0: no sync is under way
        self._recovered: bool = False
        self._closed: bool = False
        self._ended: bool = False  # the end mark is written: nothing may come behind it

    # -- starting ------------------------------------------------------------------------------------------------------

    def recover(self, sink: RecoverySink) -> RecoveryReport:
        """Read the journal back and tell ``sink`` what is alive. Raises CorruptJournal (nothing is changed then).

        Raises StoreLost when the journal has seen this epoch or a younger one.
        """
        if self._recovered:
            raise Fault("a journal recovers once")
        self._recovered = True
        self.port.attach(self)
        recovery = Recovery(self.port, self.options.epoch, self.fence)
        recovery.run()
        if recovery.dropped:  # what was discarded must not come back beside what is written from now on
            self.port.sync(0)
            self.port.drain()
            if self._condition.dead is not None:
                raise again(self._condition.dead)
        self.tail.take_over(recovery)
        for blob in recovery.index.blob_of.values():
            self.overflow.hold(i64(blob))
        self.overflow.damaged.update(recovery.overflow.damaged)
        report = recovery.report
        recovery.tell(sink)
        if not self.options.node:
            self.options.node = report.node
        self._reclaiming.recovered()
        self.tail.resume()
        return report

    # -- messages ------------------------------------------------------------------------------------------------------

    def refusal(self) -> EntrepotError | None:
        """Return why `store` and `page` would refuse now, or None; does not change while the loop does not turn.

        What was promised is not refused for want of room: the port holds it (`StoreLimits.pledged`).
        """
        if self.space.limits.pledged and self._condition.dead is None:
            return None
        return self._condition.refusal

    def store(self, message: Message, queues: list[int]) -> None:
        """Append a message for ``queues``; on disk once a waiter who `confirm`s after this is called.

        Raises StorageFull, StorageError: nothing was stored. Raises Refused: more than 1 GiB in one message.
        """
        self._append(message, queues, False)
        message.stored = True

    def page(self, message: Message, queues: list[int]) -> None:
        """Put a non-persistent message on disk until it is settled or the broker stops. Raises as `store`.

        One that the journal has already gains the queues that it lacks.
        """
        if self.tail.index.alive(message.number):
            for queue_id in queues:
                self.add(message.number, i64(queue_id))
            message.stored = True
            return
        self._append(message, queues, True)
        message.stored = True

    def _append(self, message: Message, queues: list[int], transient: bool) -> None:
        refusal = self.refusal()
        if refusal is not None:
            raise again(refusal)
        if not queues:
            raise Fault(f"message {message.number} is stored for no queue")
        if len(message.raw) > 1 << 30:
            raise Refused(f"a message of {len(message.raw)} octets does not fit into one record")
        tail = self.tail
        tail.prepare()
        scratch = self._scratch
        scratch.truncate(0)
        write_message(scratch, message, queues, transient)
        body = scratch.getvalue()
        batch = tail.batch
        offset = batch.record(body)
        state: i64 = TRANSIENT if transient else LIVE
        length: i64 = RECORD_HEAD + len(body)
        blob: i64 = 0
        rare = message.rare
        if rare is not None and rare.large_id != 0:
            blob = rare.large_id
            self.overflow.hold(blob)
        tail.index.add(tail.active, message.number, offset, length, queues, state, blob)
        if self.parts.inside:
            self.parts.stored(message.number)
        if batch.length() >= self.options.batch_bytes:
            tail.spill()

    def settle(self, number: i64, queue_id: i64) -> None:
        """Forget ``number`` for ``queue_id``. Settling twice, or what the journal never had, does nothing."""
        tail = self.tail
        if self.parts.open:
            self.parts.touch(number)
        tail.prepare()
        index = tail.index
        how, segment = index.settle(number, queue_id)
        if segment is None:
            return
        if how == DURABLY and self._condition.dead is None:
            tail.batch.settle(number, queue_id)
            tail.referred(segment)
            if index.struck is not None:
                tail.referred(index.struck)
        if index.blob_freed != 0:
            if self.parts.open:
                self.parts.bodies.append(int(index.blob_freed))
                index.blob_freed = 0
            else:
                self._reclaiming.release_body(tail.sequence + 1 if how == DURABLY else tail.synced)

    def redelivered(self, number: i64, queue_id: i64, count: i64) -> None:
        """Remember that ``number`` was delivered ``count`` times to consumers of ``queue_id``."""
        segment = self.reading.durable(number, queue_id)
        if segment is None or self._condition.dead is not None:
            return
        if self.parts.open:
            self.parts.touch(number)
        self.tail.prepare()
        body = self._scratch
        body.truncate(0)
        body.append(REDELIVERED)
        write_i64_be(body, number)
        write_queue(body, queue_id)
        write_i32_be(body, i32(count))
        _noted(self.tail, number, queue_id, count, body.getvalue())

    def add(self, number: i64, queue_id: i64) -> None:
        """Let one more queue hold a message that the journal has; without effect when it is gone or there already."""
        tail = self.tail
        if self.parts.open:
            self.parts.touch(number)
        tail.prepare()
        tail.batch.finish()
        index = tail.index
        segment = index.extend(number, queue_id)
        if segment is None or segment.states[index.slot] == TRANSIENT or self._condition.dead is not None:
            return
        body = self._scratch
        body.truncate(0)
        body.append(ADD)
        write_i64_be(body, number)
        write_queue(body, queue_id)
        _noted(tail, number, queue_id, -1, body.getvalue())

    def move(self, first: i64, count: i64, source: i64, queue_id: i64, fresh: i64) -> bool:
        """Let messages that are stored for ``source`` alone be in ``queue_id``, with new numbers, by one record.

        Those are ``first`` to ``first + count - 1``; their numbers are ``fresh`` and so on, which must be new. Within a
        bracket: nobody may rely on it before. False, and nothing happened, where one of them is not so stored.
        Raises StorageError.
        """
        if self._condition.dead is not None:
            raise again(self._condition.dead)
        tail = self.tail
        if not is_whole(tail.index, Move(first, count, queue_id, fresh, 0), source):
            return False
        if self.parts.open:
            self.parts.touch(first)
            self.parts.touch(first + count - 1)
        tail.prepare()
        tail.batch.finish()
        move = Move(first, count, queue_id, fresh, tail.sequence + 1)
        tail.batch.record(write_move(move, source))
        for segment in carry_out(tail.index, move, source):
            tail.referred(segment)
            tail.port.renewed(segment.first, segment.last)
        return True

    # -- documents -----------------------------------------------------------------------------------------------------

    def put(self, kind: int, key: bytes, value: bytes) -> None:
        """Keep ``value`` under (``kind`` 1 to 255, ``key``) in place of an earlier one. Raises StorageError."""
        if not 0 < kind < 256:
            raise Fault(f"document kind {kind} is not one of 1 to 255")
        if self._condition.dead is not None:
            raise again(self._condition.dead)
        parts = self.parts
        outside = not parts.claims(kind) and parts.step_out()
        self.tail.prepare()
        self.tail.put(kind, key, value)
        self.tail.spill()
        if outside:
            parts.enter()

    def delete(self, kind: int, key: bytes) -> None:
        """Forget the document under (``kind``, ``key``); without effect when there is none. Raises StorageError."""
        if self._condition.dead is not None:
            raise again(self._condition.dead)
        tail = self.tail
        name = document_name(kind, key)
        if name not in tail.index.documents:
            return
        if not self.parts.claims(kind):
            self.parts.rely()
        tail.prepare()
        body = self._scratch
        body.truncate(0)
        body.append(DELETE)
        body.write(name)
        tail.batch.record(body.getvalue())
        old = tail.index.remove(name)
        if old is not None:
            tail.referred(old)

    # -- batches and confirmation --------------------------------------------------------------------------------------

    def begin(self) -> None:
        """All that is appended until the matching `end` survives a crash as a whole or not at all."""
        self.tail.begin()

    def end(self) -> None:
        """Close the bracket that `begin` opened; brackets may stand inside one another."""
        self.tail.end()

    def confirm(self, waiter: Waiter, token: bytes) -> None:
        """Call ``waiter.stored(token)`` once all that was appended so far is on disk: at once when it is already."""
        if self._condition.dead is not None:
            waiter.store_failed(token, self._condition.dead)
            return
        tail = self.tail
        if self.parts.inside:
            self.parts.hold(waiter, token)
            return
        sequence = tail.sequence
        if not tail.batch.empty():
            sequence += 1
        elif tail.synced >= sequence:
            waiter.stored(token)
            return
        self._waiting.ask(waiter, token, sequence)

    def is_behind(self) -> bool:
        """Return whether as much as one sync should have waits for the one under way: whoever can wait lets others in.

        Within a bracket in parts on which somebody relies nobody can.
        """
        ahead = self.tail.unsynced_bytes >= AHEAD_BATCHES * self.options.batch_bytes
        return ahead and self._syncing > 0 and not self.parts.inside and self._condition.refusal is None

    def flush(self) -> bool:
        """Hand over what was appended, ask for a sync if anybody waits; True while something is under way."""
        tail = self.tail
        if tail.depth > 0 or self._condition.dead is not None or self._ended:
            return tail.depth > 0
        reclaiming = self._reclaiming
        if not self.parts.open:
            while self.parts.bodies:
                tail.index.blob_freed = self.parts.bodies.pop()
                reclaiming.release_body(tail.sequence if tail.batch.empty() else tail.sequence + 1)
            if tail.index.reclaimable:
                reclaiming.collect()
        if self._syncing > 0:
            tail.spill()
            return True
        tail.hand_over()
        if tail.synced < tail.sequence:
            wanted = bool(self._waiting.groups) or reclaiming.pending() or reclaiming.awaited()
            if wanted or tail.unsynced_bytes > self.options.unsynced_bytes_max:
                self._syncing = tail.sequence
                tail.asked()
                self.port.sync(tail.sequence)
        elif reclaiming.pending():
            reclaiming.drop_covered()
        reclaiming.publish()
        return self._syncing > 0

    def synced(self, token: i64) -> None:
        """All batches up to ``token`` are on disk: call who waited, let files go, hand over what came meanwhile."""
        if self._condition.dead is not None or not self._still_ours():
            return
        tail = self.tail
        whole = token >= self._syncing
        tail.answered(token, whole)
        if whole:
            self._syncing = 0
        self._waiting.reached(token)
        self._reclaiming.drop_covered()
        self.flush()

    def _still_ours(self) -> bool:
        """Ask the fence, after the disk has answered and before anybody hears of it; when it is down, all is over.

        What the disk has done before the fence was asked is what the next master finds.
        """
        if self.fence.holds():
            return True
        self.failed(StoreLost(f"this broker is not the master of its store any more: {self.fence.why()}"))
        return False

    # -- failure -------------------------------------------------------------------------------------------------------

    def tight(self, error: EntrepotError) -> None:
        """Space is short: refuse to store, go on with settlements, which make room."""
        self._condition.tighten(error)

    def relieved(self) -> None:
        """There is space again."""
        self._condition.relieve()
        self.flush()

    def failed(self, error: EntrepotError) -> None:
        """Nothing that waits will be confirmed. For want of space: until `relieved`. Otherwise: for ever."""
        if self._condition.dead is not None:
            return
        if self._condition.fail(error):  # asked of the answer: compiled, `dead` counts as None after the line above
            self._reclaiming.stop()
        self._waiting.fail(error)
        self.parts.fail(error)

    # -- reclaiming ----------------------------------------------------------------------------------------------------

    def compact(self, budget: i64) -> bool:
        """Do about ``budget`` octets of rewriting where garbage prevails; True when there is more to do at once."""
        condition = self._condition
        if condition.dead is not None or condition.full or self.tail.depth > 0 or self.parts.open:
            return False
        if not self._reclaiming.under_way(condition.refusal is not None):
            return False
        if self._reclaiming.copy(budget):
            return True
        self.flush()
        return False

    def published(self, name: str) -> None:
        """The compacted segment has its name."""
        if self._condition.dead is None and self._reclaiming.expects(name) and self._still_ours():
            self._reclaiming.switch()
            self.flush()

    def spoiled(self, name: str) -> None:
        """The compacted segment did not fit."""
        self._reclaiming.spoiled(name)

    # -- looking at it -------------------------------------------------------------------------------------------------

    def usage(self) -> JournalUsage:
        """Return sizes and counts; linear in the number of segments."""
        index = self.tail.index
        unsynced: i64 = self.tail.unsynced_bytes + self.tail.batch.length()
        documents = len(index.documents)
        if document_name(INTERNAL_KIND, GAPS_KEY) in index.documents:
            documents -= 1
        return JournalUsage(index.disk, index.live_bytes(), len(index.segments), index.messages, documents, unsynced)

    def compacting(self) -> bool:
        """Say whether segments are being rewritten."""
        return self._reclaiming.compacting()

    def check(self) -> None:
        """Assert what must be true at any moment. Raises AssertionError."""
        tail = self.tail
        assert tail.synced <= tail.sequence
        assert self._syncing == 0 or tail.synced < self._syncing <= tail.sequence
        self._waiting.check(tail.synced, tail.sequence)
        batch = tail.batch
        assert batch.count > 0 or batch.length() == 0
        assert batch.base == tail.active.end
        tail.index.check(batch.length() + BATCH_HEAD)

    def close(self) -> None:
        """Write the end mark, sync, and let go of the port. Whoever still waits is called or told."""
        if self._closed:
            return
        self._closed = True
        condition = self._condition
        tail = self.tail
        if condition.dead is None and self._recovered and not condition.full:
            if tail.depth > 0:
                tail.forget()
            tail.hand_over()
            if tail.active.end > 0:
                self.port.sync(tail.sequence)
                self.port.drain()  # the end mark claims that all before it is on disk
                if self._works():
                    tail.seal()
                    self._ended = True
                    self.port.sync(tail.sequence)
                    self.port.drain()
        self.port.close()

    def _works(self) -> bool:
        """Say whether the disk has done what it was asked for so far; asked anew, because it answers meanwhile."""
        return self._condition.dead is None and not self._condition.full


def _noted(tail: Tail, number: i64, queue_id: i64, count: i64, octets: bytes) -> None:
    """Append the record of a redelivery count, or of an addition (-1)."""
    offset = tail.batch.record(octets)
    tail.index.note(number, queue_id, count, tail.active, offset, RECORD_HEAD + len(octets))
