"""JournalCore: decides what is written, when a sync is needed, who may go on, and which files may go. [C]

Everything is keyed by the number of a message; nobody outside knows where in which file it is. What is appended
between two hand-overs is one *batch*, which recovery takes whole or not at all.

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

from entrepot.base.errors import EntrepotError, Fault, Refused, StorageError, StorageFull, StoreLost
from entrepot.journal.batch import Batch
from entrepot.journal.compaction import Compaction, choose
from entrepot.journal.epoch import EPOCH_SHIFT, Boundary, remembered, write_epoch
from entrepot.journal.index import DEAD, DURABLY, LIVE, TRANSIENT, Document, Index, Segment, document_name
from entrepot.journal.limits import StoreLimits
from entrepot.journal.names import GAPS_KEY, INTERNAL_KIND, corrupt
from entrepot.journal.overflow import Overflow
from entrepot.journal.ports import (
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
from entrepot.journal.record import (
    ADD,
    BATCH_HEAD,
    DELETE,
    PUT,
    RECORD_HEAD,
    REDELIVERED,
    SEAL,
    batch_head,
    envelope_at,
    record_valid,
    write_message,
    write_meta,
    write_queue,
)
from entrepot.journal.recovery import Recovery
from entrepot.model.message import Message, read_envelope

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

READ_GAP_MAX: Final = 16 * 1024
"""Two records that are no further apart are fetched in one read: cheaper than a second system call."""

READ_MOST: Final = 1024 * 1024

CHOICE_BATCHES: Final = 8
"""After a search for garbage that found none worth it, the next one waits for so many batches."""


class Group:
    """Everybody who waits for one batch."""

    def __init__(self, sequence: i64) -> None:
        self.sequence: i64 = sequence
        self.waiters: list[Waiter] = []
        self.tokens: list[bytes] = []


@mypyc_attr(allow_interpreted_subclasses=True)
class JournalCore(JournalEvents):
    """The journal of one broker. Call `recover` first, `flush` at the end of every turn, `close` at the end.

    ``overflow`` keeps bodies that do not fit in memory. ``pages`` says whether `page` can take messages off memory.
    """

    def __init__(self, port: JournalPort, options: JournalOptions) -> None:
        self.port: JournalPort = port
        self.options: JournalOptions = options
        self.overflow: Overflow = Overflow(port)
        self.pages: bool = True
        self.limits: StoreLimits = StoreLimits()
        self._paged_bodies: i64 = 0
        self.fence: Fence = Fence()
        self.rider: Rider = Rider()
        self.riding: bool = False  # the rider has something to say in the open batch
        self._boundaries: list[Boundary] = []
        self._index: Index = Index()
        self._active: Segment = Segment(0, 0, 0)
        self._batch: Batch = Batch()
        self._scratch = BytesWriter()
        self._depth: i64 = 0
        self._sequence: i64 = 0  # of the last batch that was handed over
        self._synced: i64 = 0
        self._syncing: i64 = 0  # 0: no sync is under way
        self._unsynced_bytes: i64 = 0
        self._groups: list[Group] = []
        self._last_ref: Segment | None = None
        self._drops: list[tuple[int, str]] = []
        self._blob_drops: list[tuple[int, int]] = []
        self._compaction: Compaction | None = None
        self._next_choice: i64 = 0
        self._refusal: EntrepotError | None = None
        self._full: bool = False
        self._dead: EntrepotError | None = None
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
            if self._dead is not None:
                raise again(self._dead)
        self._index = recovery.index
        self._sequence = recovery.sequence
        self._synced = recovery.sequence
        self._boundaries = recovery.boundaries
        for blob in self._index.blob_of.values():
            self.overflow.hold(i64(blob))
        self.overflow.damaged.update(recovery.overflow.damaged)
        report = recovery.report
        recovery.tell(sink)
        if not self.options.node:
            self.options.node = report.node
        self._begin_epoch()
        self._begin_segment()
        if self.options.epoch > 0:
            self._prepare()
            self._put(INTERNAL_KIND, GAPS_KEY, self._gaps())
            self._hand_over()
        return report

    def _begin_epoch(self) -> None:
        """Note where what earlier epochs wrote has ended."""
        if self.options.epoch == 0:
            return
        boundary = Boundary(self.options.epoch, 0, 0, 0)
        segments = self._index.segments
        if segments:
            newest = segments[-1]
            boundary = Boundary(self.options.epoch, newest.last, newest.end, newest.end_sequence)
        self._boundaries = [*remembered(self._boundaries, segments), boundary]

    def _begin_segment(self) -> None:
        last: i64 = self._active.last
        for known in self._index.segments:
            last = max(last, known.last)
        first: i64 = max(last + 1, self.options.epoch << EPOCH_SHIFT)
        segment = Segment(first, first, self._sequence + 1)
        self._active = segment
        self._index.open(segment)
        self._batch.base = 0
        self._last_ref = None
        self.port.create(segment.name, self.options.segment_bytes)

    def _seal_active(self) -> None:
        active = self._active
        riding, self.riding = self.riding, False  # nothing may stand behind the seal
        self._batch.record(bytes([SEAL]))
        self._hand_over()
        self.riding = riding
        self.port.trim(active.name, active.end)
        self._index.seal(active, self._sequence)

    # -- the open batch ------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Give the open batch its place, in a new segment when this one is long enough; before anything is noted."""
        if self._batch.empty():
            if self._active.end >= self.options.segment_bytes:
                self._seal_active()
                self._begin_segment()
            if self._active.end == 0:
                self._write_meta()

    def _write_meta(self) -> None:
        active = self._active
        options = self.options
        body = BytesWriter()
        write_meta(body, active.first, active.last, 0, 0, options.created, options.node)
        self._batch.record(body.getvalue())
        if self._boundaries:
            self._batch.record(write_epoch(self._boundaries[-1].epoch, self._boundaries))

    def _hand_over(self) -> None:
        """Give the open batch to the port."""
        batch = self._batch
        if batch.empty():
            return
        if self.riding:
            self.riding = False
            self.rider.board()
        batch.finish()
        active = self._active
        count = batch.count
        body = batch.take()
        self._sequence += 1
        head = batch_head(len(body), count, self._sequence, self._synced, active.first, active.end)
        self.port.write(active.name, active.end, head, body)
        length: i64 = len(head) + len(body)
        self._index.grow(active, length)
        self._unsynced_bytes += length
        batch.base = active.end

    def _spill(self) -> None:
        """Hand over early when the batch is large, so that the disk works while the turn goes on."""
        if self._depth == 0 and len(self._batch.out) >= self.options.batch_bytes:
            self._hand_over()

    def _referred(self, segment: Segment) -> None:
        """The open batch undoes something in ``segment``: the growing segment must stay as long as that one."""
        if segment is not self._active and segment is not self._last_ref:
            self._last_ref = segment
            self._active.refs[segment.first] = self._sequence + 1

    # -- messages ------------------------------------------------------------------------------------------------------

    def refusal(self) -> EntrepotError | None:
        """Return why `store` and `page` would refuse now, or None; does not change while the loop does not turn."""
        return self._refusal

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
        if self._index.alive(message.number):
            for queue_id in queues:
                self.add(message.number, i64(queue_id))
            message.stored = True
            return
        self._append(message, queues, True)
        message.stored = True

    def _append(self, message: Message, queues: list[int], transient: bool) -> None:
        refusal = self._refusal
        if refusal is not None and (self._dead is not None or not self.limits.pledged):
            raise again(refusal)
        if not queues:
            raise Fault(f"message {message.number} is stored for no queue")
        if len(message.raw) > 1 << 30:
            raise Refused(f"a message of {len(message.raw)} octets does not fit into one record")
        self._prepare()
        scratch = self._scratch
        scratch.truncate(0)
        write_message(scratch, message, queues, transient)
        body = scratch.getvalue()
        offset = self._batch.record(body)
        state: i64 = TRANSIENT if transient else LIVE
        length: i64 = RECORD_HEAD + len(body)
        blob: i64 = 0
        rare = message.rare
        if rare is not None and rare.large_id != 0:
            blob = rare.large_id
            self.overflow.hold(blob)
        self._index.add(self._active, message.number, offset, length, queues, state, blob)
        if len(self._batch.out) >= self.options.batch_bytes:
            self._spill()

    def temp_full(self) -> bool:
        """Say whether what may be lost has taken its share of the disk: `page` no more, let producers wait."""
        return self._index.paged_bytes + self._paged_bodies >= self.limits.temp_now

    def paged(self) -> i64:
        """Return the octets on disk of what is forgotten at the next start."""
        return self._index.paged_bytes + self._paged_bodies

    def measure(self) -> bool:
        """Compare with the limits; True when that something may be stored begins or ends.

        For now and then: linear in the number of segments and of large bodies, and it asks the disk.
        """
        index = self._index
        bodies: i64 = 0
        for size in self.overflow.sizes.values():
            bodies += size
        paged: i64 = 0
        for number, blob in index.blob_of.items():
            segment = index.find(number)
            if segment is not None and segment.states[index.slot] == TRANSIENT:
                paged += self.overflow.sizes.get(blob, 0)
        self._paged_bodies = paged
        stored = index.live_bytes() - index.paged_bytes + bodies - paged
        return self.limits.measure(stored, self.paged(), index.disk + bodies, self.port.space())

    def settle(self, number: i64, queue_id: i64) -> None:
        """Forget ``number`` for ``queue_id``. Settling twice, or what the journal never had, does nothing."""
        self._prepare()
        index = self._index
        how, segment = index.settle(number, queue_id)
        if segment is None:
            return
        if how == DURABLY and self._dead is None:
            self._batch.settle(number, queue_id)
            self._referred(segment)
        if index.blob_freed != 0:
            self._free_blob(self._sequence + 1 if how == DURABLY else self._synced)

    def _free_blob(self, sequence: i64) -> None:
        """A message with a large body is gone: let go of that once batch ``sequence``, which says so, is on disk."""
        self._blob_drops.append((int(sequence), int(self._index.blob_freed)))
        self._index.blob_freed = 0

    def redelivered(self, number: i64, queue_id: i64, count: i64) -> None:
        """Remember that ``number`` was delivered ``count`` times to consumers of ``queue_id``."""
        segment = self._live(number, queue_id)
        if segment is None or self._dead is not None:
            return
        self._prepare()
        body = self._scratch
        body.truncate(0)
        body.append(REDELIVERED)
        write_i64_be(body, number)
        write_queue(body, queue_id)
        write_i32_be(body, i32(count))
        self._noted(number, queue_id, count, body.getvalue())

    def _noted(self, number: i64, queue_id: i64, count: i64, octets: bytes) -> None:
        offset = self._batch.record(octets)
        self._index.note(number, queue_id, count, self._active, offset, RECORD_HEAD + len(octets))

    def _live(self, number: i64, queue_id: i64) -> Segment | None:
        """Return the segment of a message that lives in a queue; None for a transient one, too: nothing to remember."""
        if not self._index.holds(number, queue_id):
            return None
        segment = self._index.find(number)
        if segment is None or segment.states[self._index.slot] != LIVE:
            return None
        return segment

    def keeps(self, number: i64, queue_id: i64) -> bool:
        """Return whether ``number`` is in ``queue_id`` after a restart, too; not so what `page` wrote."""
        return self._live(number, queue_id) is not None

    def add(self, number: i64, queue_id: i64) -> None:
        """Let one more queue hold a message that the journal has; without effect when it is gone or there already."""
        self._prepare()
        self._batch.finish()
        index = self._index
        segment = index.extend(number, queue_id)
        if segment is None or segment.states[index.slot] == TRANSIENT or self._dead is not None:
            return
        body = self._scratch
        body.truncate(0)
        body.append(ADD)
        write_i64_be(body, number)
        write_queue(body, queue_id)
        self._noted(number, queue_id, -1, body.getvalue())

    def large_bodies(self) -> dict[int, int]:
        """Return the numbers of the messages whose body is a blob, with it."""
        return dict(self._index.blob_of)

    def flaw(self, number: i64) -> str:
        """Return why the large body of message ``number`` is lost, where that was found out; else ""."""
        damaged = self.overflow.damaged
        return damaged.get(self._index.blob_of.get(number, 0), "") if damaged else ""

    def load(self, number: i64) -> Message:
        """Return a message that is live in the journal. Raises StorageError when it is not, or cannot be read."""
        segment = self._index.find(number)
        if segment is None or segment.states[self._index.slot] == DEAD:
            raise StorageError(f"message {number} is not in the journal")
        slot = self._index.slot
        offset: i64 = i64(segment.offsets[slot])
        length: i64 = i64(segment.lengths[slot])
        return self._decode(segment, number, self._fetch(segment, offset, length), 0, offset)

    def load_range(self, numbers: list[int], octets: i64 = 0) -> list[Message]:
        """Return messages in the order of ``numbers``; neighbours on disk are read together. Raises as `load`.

        With ``octets`` it ends early, with the message that reaches so many.
        """
        found: list[Message] = []
        total: i64 = 0
        data = b""
        data_segment: Segment | None = None
        data_start: i64 = 0
        position = 0
        while position < len(numbers):
            number: i64 = numbers[position]
            segment = self._index.find(number)
            if segment is None or segment.states[self._index.slot] == DEAD:
                raise StorageError(f"message {number} is not in the journal")
            slot = self._index.slot
            offset: i64 = i64(segment.offsets[slot])
            length: i64 = i64(segment.lengths[slot])
            inside = data_segment is segment and offset >= data_start
            if not inside or offset + length > data_start + len(data):
                data = self._fetch(segment, offset, self._stretch(numbers, position, segment, offset, length))
                data_segment = segment
                data_start = offset
            found.append(self._decode(segment, number, data, offset - data_start, offset))
            position += 1
            total += length
            if octets > 0 and total >= octets:
                break
        return found

    def _stretch(self, numbers: list[int], position: int, segment: Segment, offset: i64, length: i64) -> i64:
        """Return how much to read at ``offset`` so that the following numbers come with it."""
        end: i64 = offset + length
        position += 1
        while position < len(numbers):
            slot = segment.slot_of(i64(numbers[position]))
            if slot < 0:
                break
            start: i64 = i64(segment.offsets[slot])
            if start < end or start - end > READ_GAP_MAX or start - offset > READ_MOST:
                break
            size: i64 = i64(segment.lengths[slot])
            end = start + size
            position += 1
        return end - offset

    def _fetch(self, segment: Segment, offset: i64, length: i64) -> bytes:
        if segment is self._active and offset + length > segment.end:
            if self._depth > 0:
                start: i64 = offset - segment.end - BATCH_HEAD
                if start < 0:  # begins in what was handed over, ends in the open batch
                    before = self.port.read(segment.name, offset, segment.end - offset)
                    gap = b"\0" * BATCH_HEAD
                    return before + gap + self._batch.out.getvalue()[: start + length]
                return self._batch.out.getvalue()[start : start + length]
            self._hand_over()
        return self.port.read(segment.name, offset, length)

    def _decode(self, segment: Segment, number: i64, data: bytes, at: i64, offset: i64) -> Message:
        if not record_valid(data, at, len(data)):
            raise corrupt(segment.name, offset, f"message {number} fails its checksum")
        try:
            message = read_envelope(data, envelope_at(data, at + RECORD_HEAD))
        except (IndexError, ValueError) as nonsense:
            raise corrupt(segment.name, offset, f"message {number} makes no sense: {nonsense}") from nonsense
        message.number = number
        message.stored = True
        return message

    # -- documents -----------------------------------------------------------------------------------------------------

    def put(self, kind: int, key: bytes, value: bytes) -> None:
        """Keep ``value`` under (``kind`` 1 to 255, ``key``) in place of an earlier one. Raises StorageError."""
        if not 0 < kind < 256:
            raise Fault(f"document kind {kind} is not one of 1 to 255")
        if self._dead is not None:
            raise again(self._dead)
        self._prepare()
        self._put(kind, key, value)
        self._spill()

    def ride(self, kind: int, key: bytes, value: bytes) -> None:
        """Do as `put` while `Rider.board` is being called: the batch has begun and is handed over as it is then."""
        self._put(kind, key, value)

    def _put(self, kind: i64, key: bytes, value: bytes) -> None:
        body = self._scratch
        body.truncate(0)
        body.append(PUT)
        body.append(int(kind))
        write_i32_be(body, i32(len(key)))
        body.write(key)
        body.write(value)
        octets = body.getvalue()
        offset = self._batch.record(octets)
        old = self._index.put(Document(kind, key, value, self._active, offset, RECORD_HEAD + len(octets)))
        if old is not None:
            self._referred(old)

    def delete(self, kind: int, key: bytes) -> None:
        """Forget the document under (``kind``, ``key``); without effect when there is none. Raises StorageError."""
        if self._dead is not None:
            raise again(self._dead)
        name = document_name(kind, key)
        if name not in self._index.documents:
            return
        self._prepare()
        body = self._scratch
        body.truncate(0)
        body.append(DELETE)
        body.write(name)
        self._batch.record(body.getvalue())
        old = self._index.remove(name)
        if old is not None:
            self._referred(old)

    # -- batches and confirmation --------------------------------------------------------------------------------------

    def begin(self) -> None:
        """All that is appended until the matching `end` survives a crash as a whole or not at all."""
        self._depth += 1

    def end(self) -> None:
        """Close the bracket that `begin` opened; brackets may stand inside one another."""
        if self._depth == 0:
            raise Fault("JournalCore.end without begin")
        self._depth -= 1
        self._spill()

    def confirm(self, waiter: Waiter, token: bytes) -> None:
        """Call ``waiter.stored(token)`` once all that was appended so far is on disk: at once when it is already."""
        if self._dead is not None:
            waiter.store_failed(token, self._dead)
            return
        sequence = self._sequence
        if not self._batch.empty():
            sequence += 1
        elif self._synced >= sequence:
            waiter.stored(token)
            return
        groups = self._groups
        if not groups or groups[-1].sequence != sequence:
            groups.append(Group(sequence))
        group = groups[-1]
        group.waiters.append(waiter)
        group.tokens.append(token)

    def flush(self) -> bool:
        """Hand over what was appended, ask for a sync if anybody waits; True while something is under way."""
        if self._depth > 0 or self._dead is not None or self._ended:
            return self._depth > 0
        if self._index.reclaimable:
            self._reclaim()
        if self._syncing > 0:
            if len(self._batch.out) >= self.options.batch_bytes:
                self._hand_over()
            return True
        self._hand_over()
        if self._synced < self._sequence:
            wanted = bool(self._groups) or bool(self._drops) or bool(self._blob_drops)
            if wanted or self._awaited() or self._unsynced_bytes > self.options.unsynced_bytes_max:
                self._syncing = self._sequence
                self._unsynced_bytes = 0
                self.port.sync(self._sequence)
        elif self._drops or self._blob_drops:
            self._drop_covered()
        compaction = self._compaction
        if compaction is not None and compaction.finishing:
            self._publish(compaction)
        return self._syncing > 0

    def _awaited(self) -> bool:
        compaction = self._compaction
        return compaction is not None and compaction.finishing

    def synced(self, token: i64) -> None:
        """All batches up to ``token`` are on disk: call who waited, let files go, hand over what came meanwhile."""
        if self._dead is not None or not self._still_ours():
            return
        self._synced = max(self._synced, token)
        if token >= self._syncing:
            self._syncing = 0
        while self._groups and self._groups[0].sequence <= token:
            group = self._groups.pop(0)
            waiters = group.waiters
            tokens = group.tokens
            position = 0
            while position < len(waiters):
                waiters[position].stored(tokens[position])
                position += 1
        self._drop_covered()
        self.flush()

    def _still_ours(self) -> bool:
        """Ask the fence, after the disk has answered and before anybody hears of it; when it is down, all is over.

        What the disk has done before the fence was asked is what the next master finds.
        """
        if self.fence.holds():
            return True
        self.failed(StoreLost(f"this broker is not the master of its store any more: {self.fence.why()}"))
        return False

    def _drop_covered(self) -> None:
        """Remove the files and blobs whose end is on disk."""
        drops = self._drops
        while drops and drops[0][0] <= self._synced:
            self.port.drop(drops.pop(0)[1])
        blobs = self._blob_drops
        while blobs and blobs[0][0] <= self._synced:
            self.overflow.release(i64(blobs.pop(0)[1]))

    # -- failure -------------------------------------------------------------------------------------------------------

    def tight(self, error: EntrepotError) -> None:
        """Space is short: refuse to store, go on with settlements, which make room."""
        if self._dead is None:
            self._refusal = error
            self._full = False

    def relieved(self) -> None:
        """There is space again."""
        if self._dead is None:
            self._refusal = None
            self._full = False
            self.flush()

    def failed(self, error: EntrepotError) -> None:
        """Nothing that waits will be confirmed. For want of space: until `relieved`. Otherwise: for ever."""
        if self._dead is not None:
            return
        self._refusal = error
        if isinstance(error, StorageFull):
            self._full = True
        else:
            self._dead = error
            self._compaction = None
            self._drops = []
            self._blob_drops = []
        groups = self._groups
        self._groups = []
        for group in groups:
            position = 0
            while position < len(group.waiters):
                group.waiters[position].store_failed(group.tokens[position], error)
                position += 1

    # -- reclaiming ----------------------------------------------------------------------------------------------------

    def _reclaim(self) -> None:
        """Let go of segments that hold nothing any more; their files go once the reason for it is on disk."""
        low: i64 = 0
        high: i64 = -1
        if self._compaction is not None:
            low = self._compaction.first
            high = self._compaction.last
        gone = self._index.reclaim(low, high)
        if not gone:
            return
        self._prepare()
        self._put(INTERNAL_KIND, GAPS_KEY, self._gaps())
        for segment in gone:
            self._drops.append((int(self._sequence + 1), segment.name))

    def _gaps(self) -> bytes:
        """Return the ranges of ids that no segment has, as two i64 each."""
        ranges = BytesWriter()
        following: i64 = 1
        for segment in self._index.segments:
            if segment.first > following:
                write_i64_be(ranges, following)
                write_i64_be(ranges, segment.first - 1)
            following = segment.last + 1
        return ranges.getvalue()

    def compact(self, budget: i64) -> bool:
        """Do about ``budget`` octets of rewriting where garbage prevails; True when there is more to do at once."""
        if self._dead is not None or self._full or self._depth > 0:
            return False
        compaction = self._compaction
        if compaction is None:
            short = self._refusal is not None
            if self._sequence < self._next_choice and not short:
                return False
            window = choose(self._index, self.options, self.port, self._sequence + 1, short)
            if not window:
                self._next_choice = self._sequence + CHOICE_BATCHES
                return False
            self._hand_over()  # as_of is a border between batches
            self._last_ref = None
            compaction = Compaction(self._index, self.port, self.options, window, self._sequence + 1)
            self._compaction = compaction
        if compaction.finishing:
            return False
        try:
            if compaction.step(budget):
                return True
        except EntrepotError:
            self._compaction = None
            self.port.drop(compaction.scratch_name)
            raise
        # What the copy left out may have been settled a moment ago: that must be on disk before the sources go.
        self._hand_over()
        compaction.finishing = True
        compaction.needs = self._sequence
        self.flush()
        return False

    def _publish(self, compaction: Compaction) -> None:
        if not compaction.published and self._synced >= compaction.needs:
            compaction.published = True
            self.port.publish(compaction.scratch_name, compaction.target.name)

    def published(self, name: str) -> None:
        """The compacted segment has its name: take it for its sources from now on."""
        compaction = self._compaction
        if self._dead is not None or compaction is None or compaction.target.name != name or not self._still_ours():
            return
        self._compaction = None
        for source in compaction.switch():
            if source.name != name:
                self.port.drop(source.name)
        self._last_ref = None
        self.flush()

    def spoiled(self, name: str) -> None:
        """The compacted segment did not fit: forget it, its sources are untouched."""
        compaction = self._compaction
        if compaction is not None and compaction.scratch_name == name:
            self._compaction = None

    # -- looking at it -------------------------------------------------------------------------------------------------

    def usage(self) -> JournalUsage:
        """Return sizes and counts; linear in the number of segments."""
        index = self._index
        unsynced: i64 = self._unsynced_bytes + len(self._batch.out)
        documents = len(index.documents)
        if document_name(INTERNAL_KIND, GAPS_KEY) in index.documents:
            documents -= 1
        return JournalUsage(index.disk, index.live_bytes(), len(index.segments), index.messages, documents, unsynced)

    def check(self) -> None:
        """Assert what must be true at any moment. Raises AssertionError."""
        assert self._synced <= self._sequence
        assert self._syncing == 0 or self._synced < self._syncing <= self._sequence
        waiting = self._synced
        for group in self._groups:
            assert group.sequence > waiting, "somebody waits for a batch that is on disk, or out of order"
            waiting = group.sequence
        assert waiting <= self._sequence + 1
        assert self._batch.count > 0 or len(self._batch.out) == 0
        assert self._batch.base == self._active.end
        self._index.check(len(self._batch.out) + BATCH_HEAD)

    def close(self) -> None:
        """Write the end mark, sync, and let go of the port. Whoever still waits is called or told."""
        if self._closed:
            return
        self._closed = True
        if self._dead is None and self._recovered and not self._full:
            if self._depth > 0:  # half of what belongs together is not written
                self._batch = Batch()
                self._batch.base = self._active.end
                self.riding = False
            self._hand_over()
            if self._active.end > 0:
                self.port.sync(self._sequence)
                self.port.drain()  # the end mark claims that all before it is on disk
                if self._dead is None and not self._full:
                    self._seal_active()
                    self._ended = True
                    self.port.sync(self._sequence)
                    self.port.drain()
        self.port.close()


def again(error: EntrepotError) -> EntrepotError:
    """Return the same error afresh: one instance raised often would grow a traceback without end."""
    if isinstance(error, StorageFull):
        return StorageFull(error.message, remedy=error.remedy)
    if isinstance(error, StoreLost):
        return StoreLost(error.message, remedy=error.remedy)
    return StorageError(error.message, remedy=error.remedy)
