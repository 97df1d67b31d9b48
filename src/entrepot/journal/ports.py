"""What the journal asks of the world, of the broker, and of its options; `log` shows all of it under its own name.

Rule of the port: everything that changes the disk is *asked for* and happens later, in the order in which it was
asked; a read sees everything asked for before it. Completions come back on `JournalEvents`, never from another thread
than the one that asks. [C]
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from entrepot.base.environment import KIB, MIB
from entrepot.base.errors import EntrepotError, Fault

SCRATCH: Final = ".tmp"
"""Ending of the name of a file that is not part of the journal yet."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Waiter:
    """Somebody who may go on only when the disk has what he asked for."""

    def stored(self, token: bytes) -> None:
        """Everything that this waiter asked about is on disk."""
        raise Fault("Waiter.stored is not implemented")

    def store_failed(self, token: bytes, error: EntrepotError) -> None:
        """It is not known to be on disk, and will not be confirmed."""
        raise Fault("Waiter.store_failed is not implemented")


@mypyc_attr(allow_interpreted_subclasses=True)
class Withheld(Waiter):
    """Somebody who waits, when the disk has it, until other brokers have it, too."""

    def reached(self) -> None:
        """They have it."""
        raise Fault("Withheld.reached is not implemented")

    def gone(self) -> bool:
        """Return whether nobody wants to know any more."""
        raise Fault("Withheld.gone is not implemented")


@mypyc_attr(allow_interpreted_subclasses=True)
class Elsewhere:
    """What answers wait for beside this disk: that other brokers have what they are about.

    ``owner``: for whom something is done, the number of a connection. Marks are positions in what others are told.
    """

    def owes(self, owner: i64) -> bool:
        """Return whether something that ``owner`` did may not be elsewhere yet."""
        return False

    def position(self, owner: i64) -> i64:
        """Return what has to be elsewhere before ``owner`` is answered for all that it did; 0: nothing."""
        return 0

    def is_reached(self, mark: i64) -> bool:
        """Return whether all up to ``mark`` is elsewhere."""
        return True

    def hold(self, withheld: Withheld, mark: i64) -> None:
        """Call ``withheld.reached`` when all up to ``mark`` is elsewhere: in the order of asking."""
        raise Fault("Elsewhere.hold is not implemented")

    def forget(self, owner: i64, count: i64) -> None:
        """``owner``, 0 for one of several of it, is gone, with ``count`` answers that are held."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Rider:
    """Who has something to say in every batch that holds what it is about: `Tail.put` says it there."""

    def board(self) -> None:
        """A batch is handed over, and `Tail.riding` was set: say it now, and nothing else of the journal."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Fence:
    """Whether this broker still is the one who may write here. Asked after each sync, before anything is confirmed."""

    def holds(self) -> bool:
        """Return False once another broker may have taken over; never True again after that."""
        return True

    def why(self) -> str:
        """Return why it does not hold."""
        return ""


@mypyc_attr(allow_interpreted_subclasses=True)
class JournalEvents:
    """What a port tells the core that asked it."""

    def synced(self, token: i64) -> None:
        """All that was asked for before ``sync(token)`` survives a crash from now on."""
        raise Fault("JournalEvents.synced is not implemented")

    def published(self, name: str) -> None:
        """``publish`` to ``name`` is done and survives a crash."""
        raise Fault("JournalEvents.published is not implemented")

    def spoiled(self, name: str) -> None:
        """The scratch file ``name`` could not be written for want of space and is gone."""
        raise Fault("JournalEvents.spoiled is not implemented")

    def tight(self, error: EntrepotError) -> None:
        """Space is short: the reserve is in use. What was asked for is still being done."""
        raise Fault("JournalEvents.tight is not implemented")

    def relieved(self) -> None:
        """There is space again, and the reserve is back; what was held has been written."""
        raise Fault("JournalEvents.relieved is not implemented")

    def failed(self, error: EntrepotError) -> None:
        """StorageFull: the port holds what it was asked for until there is space. Anything else: it is over."""
        raise Fault("JournalEvents.failed is not implemented")


class Location:
    """Where a file is, for another process of this machine that may read it: what stands at ``path`` may be another."""

    def __init__(self, path: str, device: int, inode: int) -> None:
        self.path: str = path
        self.device: int = device
        self.inode: int = inode


@mypyc_attr(allow_interpreted_subclasses=True)
class Locator:
    """Knows where the files of a port are, where others can read them."""

    def location(self, name: str) -> Location | None:
        """Return where a file is; None where nobody else can read it, or it is not there."""
        return None


@mypyc_attr(allow_interpreted_subclasses=True)
class JournalPort:
    """Files by name, and blobs by number. Real: `io/disk.py`; seeded: `simulation/disk.py`."""

    locator: Locator = Locator()

    def attach(self, events: JournalEvents) -> None:
        """Send completions to ``events`` from now on."""
        raise Fault("JournalPort.attach is not implemented")

    def names(self) -> list[str]:
        """Return the names of all files of the journal, sorted."""
        raise Fault("JournalPort.names is not implemented")

    def size(self, name: str) -> i64:
        """Return the length of a file in octets."""
        raise Fault("JournalPort.size is not implemented")

    def read(self, name: str, offset: i64, length: i64) -> bytes:
        """Return up to ``length`` octets at ``offset``; fewer only at the end of the file. Raises StorageError."""
        raise Fault("JournalPort.read is not implemented")

    def create(self, name: str, expected: i64) -> None:
        """Make an empty file that will grow to about ``expected`` octets (a hint for preallocation; 0: none)."""
        raise Fault("JournalPort.create is not implemented")

    def write(self, name: str, offset: i64, head: bytes, body: bytes) -> None:
        """Write ``head`` and ``body`` one behind the other at ``offset``."""
        raise Fault("JournalPort.write is not implemented")

    def sync(self, token: i64) -> None:
        """Make all that was asked for so far durable, names too; then `JournalEvents.synced`."""
        raise Fault("JournalPort.sync is not implemented")

    def trim(self, name: str, length: i64) -> None:
        """Cut the file behind ``length``: nothing more will be written to it."""
        raise Fault("JournalPort.trim is not implemented")

    def cut(self, name: str, length: i64) -> None:
        """After all that was asked for: cut the file behind ``length`` and sync it, before returning (recovery only).

        Raises StorageError.
        """
        raise Fault("JournalPort.cut is not implemented")

    def publish(self, scratch: str, name: str) -> None:
        """Sync the file ``scratch``, give it its ``name``, sync the directory; then `JournalEvents.published`."""
        raise Fault("JournalPort.publish is not implemented")

    def drop(self, name: str) -> None:
        """Remove a file; one that is not there is no error."""
        raise Fault("JournalPort.drop is not implemented")

    def renewed(self, first: i64, last: i64) -> None:
        """Messages of the segments with the ids ``first`` to ``last`` count as written now: a queue has them.

        For who keeps files that are dropped; others need do nothing.
        """

    def awaited(self, name: str, waits: bool) -> None:
        """A queue may get messages of the compacted segment ``name`` later, as of those that are staged; or no more.

        For who keeps what it was made of. When it is dropped, it is not awaited any more.
        """

    def space(self) -> i64:
        """Return how many octets can still be written, about; a large number when there is no telling."""
        raise Fault("JournalPort.space is not implemented")

    def blobs(self) -> list[int]:
        """Return the numbers of all blobs, rising."""
        raise Fault("JournalPort.blobs is not implemented")

    def blob_create(self, blob_id: i64) -> None:
        """Make an empty blob."""
        raise Fault("JournalPort.blob_create is not implemented")

    def blob_write(self, blob_id: i64, chunk: bytes) -> None:
        """Append to a blob."""
        raise Fault("JournalPort.blob_write is not implemented")

    def blob_seal(self, blob_id: i64) -> None:
        """Make the blob durable before anything asked for later can be: its record must not outlive it in a crash."""
        raise Fault("JournalPort.blob_seal is not implemented")

    def blob_read(self, blob_id: i64, offset: i64, length: i64) -> bytes:
        """Return up to ``length`` octets at ``offset``; fewer only at the end.

        Raises BodyLost when there is none, or the disk has lost it; StorageError for what may go over.
        """
        raise Fault("JournalPort.blob_read is not implemented")

    def blob_size(self, blob_id: i64) -> i64:
        """Return the length of a blob with all that was asked for; -1 when there is none. Raises StorageError."""
        raise Fault("JournalPort.blob_size is not implemented")

    def blob_drop(self, blob_id: i64) -> None:
        """Remove a blob; one that is not there is no error."""
        raise Fault("JournalPort.blob_drop is not implemented")

    def blob_set_aside(self, blob_id: i64) -> None:
        """Give a blob a name under which it is none any more, for people to look at; without effect when it is gone."""
        raise Fault("JournalPort.blob_set_aside is not implemented")

    def drain(self) -> None:
        """Return when all that was asked for is done, or has failed, and its completions have been called."""
        raise Fault("JournalPort.drain is not implemented")

    def close(self) -> None:
        """Do what was asked for, then let go of everything."""
        raise Fault("JournalPort.close is not implemented")


@mypyc_attr(allow_interpreted_subclasses=True)
class RecoverySink:
    """Who rebuilds queues from what `JournalCore.recover` finds. All documents come before any message."""

    def document(self, kind: int, key: bytes, value: bytes) -> None:
        """One current document, in the order of their last put."""
        raise Fault("RecoverySink.document is not implemented")

    def message(
        self,
        queue_id: i64,
        number: i64,
        priority: i64,
        expiration: i64,
        deliveries: i64,
        size: i64,
        deliver_at: i64,
    ) -> None:
        """One live message of one queue; numbers rise. ``size`` as `Message.size`; times in wall-clock ms."""
        raise Fault("RecoverySink.message is not implemented")


class JournalOptions:
    """How a journal behaves. Octets throughout."""

    def __init__(
        self,
        *,
        node: str = "",
        created: int = 0,
        segment_bytes: int = 32 * MIB,
        batch_bytes: int = 1 * MIB,
        unsynced_bytes_max: int = 8 * MIB,
        garbage_percent: int = 50,
        segments_min: int = 4,
        epoch: int = 0,
    ) -> None:
        """``node`` and ``created`` (wall-clock ms) are written into every segment.

        ``segment_bytes``: a segment is closed when it is that long; 32 MiB are zero-filled in 20 ms and read back in
        one piece at recovery. ``batch_bytes``: a batch that grows to this is handed over before the end of the turn.
        ``unsynced_bytes_max``: a sync is asked for although nobody waits, so that a crash of the machine costs at most
        this. Compaction begins above ``garbage_percent`` when more than ``segments_min`` segments exist.

        ``epoch``: number of this tenure where several brokers take turns at one store, higher than any before; what an
        older one still writes is refused from now on. 0: the store belongs to one broker.
        """
        self.node: str = node
        self.created: i64 = created
        self.segment_bytes: i64 = max(segment_bytes, 4 * KIB)
        self.batch_bytes: i64 = batch_bytes
        self.unsynced_bytes_max: i64 = unsynced_bytes_max
        self.garbage_percent: i64 = garbage_percent
        self.segments_min: i64 = segments_min
        self.epoch: i64 = epoch


class RecoveryReport:
    """What recovery found. ``torn_bytes`` were cut from ``torn_segment`` (``""``: none): none of it was confirmed."""

    def __init__(self) -> None:
        self.node: str = ""
        self.created: i64 = 0
        self.segments: i64 = 0
        self.bytes: i64 = 0
        self.records: i64 = 0
        self.messages: i64 = 0
        self.documents: i64 = 0
        self.number_highest: i64 = 0
        self.blob_highest: i64 = 0  # what numbers a shared store has used up count in, whether there are bodies or not
        self.blobs_orphaned: i64 = 0
        self.bodies_lost: list[str] = []  # large bodies that are missing or too short: why, one sentence each
        self.torn_segment: str = ""
        self.torn_offset: i64 = 0
        self.torn_bytes: i64 = 0
        self.sequence: i64 = 0
        self.epoch: i64 = 0  # the highest that ever wrote here
        self.late_bytes: i64 = 0  # written by an older epoch after a younger one had begun: refused
        self.late_segments: i64 = 0
        self.undone: i64 = 0  # large transactions that were not complete: nothing of them is left

    def describe(self) -> str:
        """Return one line for the log of a starting broker."""
        text = f"{self.messages} messages and {self.documents} documents in {self.segments} segments"
        if self.torn_segment:
            text += f"; cut {self.torn_bytes} unconfirmed octets at {self.torn_segment}:{self.torn_offset}"
        if self.late_bytes or self.late_segments:
            text += f"; refused {self.late_bytes} octets that a former master wrote too late"
        if self.undone:
            text += f"; passed over {self.undone} large transactions that were not complete, and never confirmed"
        if self.bodies_lost:
            text += f"; {len(self.bodies_lost)} large bodies are lost, and their messages will become dead letters"
        return text


class JournalUsage:
    """Sizes of a journal at one moment, in octets."""

    def __init__(self, disk: i64, live: i64, segments: i64, messages: i64, documents: i64, unsynced: i64) -> None:
        self.disk: i64 = disk
        self.live: i64 = live
        self.segments: i64 = segments
        self.messages: i64 = messages
        self.documents: i64 = documents
        self.unsynced: i64 = unsynced
