"""A replica's side of replication: makes its files those of the primary, and says what it has. No I/O.

Whatever the primary asked of its disk is asked of this one, in the same order; so after any crash this store is one
that the primary might have had, and recovery reads it as such. Before the first file is changed by a catch-up, the
standing says that the copy is not whole; `ha/standing.py` tells what that is for.

What reads or keeps files is done away from the loop (`Elsewhere`), and what came behind it waits. The primary is told
of octets as taken once the disk has carried out what they ask for: so neither a catch-up nor what is owed outruns a
disk that is slow, and what was only *received* outlives the process that received it.

A file that this store had and the primary does not, or has otherwise, is kept aside (`Store.keep`) unless this copy
followed the very same tenure before: it may be the end of a history that lost, which people may want to see. What came
with this catch-up, and the primary has removed since, is none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

from entrepot.base.environment import MIB
from entrepot.base.errors import EntrepotError, ProtocolViolation, Refused
from entrepot.ha.catchup import digest
from entrepot.ha.standing import SYNCED as BOTH
from entrepot.ha.standing import Standing
from entrepot.ha.stream import (
    ASIDE,
    ASK_BACK,
    CREATE,
    CUT,
    DROP,
    ENDING,
    JOIN,
    JOINED,
    LACKS,
    LAYOUT,
    PING,
    PONG,
    PROBE,
    PUBLISH,
    RECEIVED,
    SAME,
    SEAL,
    SORRY,
    SYNC,
    SYNCED,
    TRIM,
    WELCOME,
    WRITE,
    Frame,
    encode,
)
from entrepot.journal.ports import JournalEvents, JournalPort

LOOK_BYTES: Final = 1 * MIB
"""Octets read at a time to see whether a tail is empty."""

T = TypeVar("T")

Elsewhere = Callable[[Callable[[], None], Callable[[], None]], None]
"""Does the first behind all that the disk was asked for, where it may take its time; then the second on the loop."""


class Store:
    """What a replica asks of its directory beside files."""

    def persist(self, standing: Standing) -> None:
        """Have ``standing`` on disk before returning. Raises StorageError."""
        raise NotImplementedError

    def keep(self, name: str, first: int) -> None:
        """Have a file as it is now in ``oldreplica.N``, on disk, before returning; once. Raises StorageError.

        ``first``: the octet from which on it is not what the primary has.
        """
        raise NotImplementedError

    def greet(self) -> None:
        """A new primary is followed: what is kept from now on belongs into a new ``oldreplica.N``."""

    def alike(self, primary: str, epoch: int) -> None:
        """All files are those of ``primary`` now: say what was kept on the way there."""


class Replica(JournalEvents):
    """One connection of a replica to its primary. ``send`` takes what the primary is told."""

    def __init__(
        self,
        files: JournalPort,
        standing: Standing,
        store: Store,
        send: Callable[[bytes], None],
        elsewhere: Elsewhere,
    ) -> None:
        self.files: Final = files
        self.standing: Final = standing
        self.store: Final = store
        self.send: Final = send
        self.elsewhere: Final = elsewhere
        self.moved: Callable[[], None] = lambda: None  # called when less waits than before
        self.epoch = 0
        self.primary = ""
        self.confirm = BOTH
        self.ended = ""  # why nothing is taken any more
        self.stopping = False  # the primary stops in good order
        self.wants_back = False
        self.expects = ""  # the only broker that is followed, "" for any
        self._same = True  # what stands here is of the tenure that is followed
        self._had: frozenset[str] = frozenset()  # files that stood here before
        self._came = 0  # octets
        self._taken = 0  # of these, what the disk was asked for
        self._told = 0  # of these, what the disk has carried out, and the primary knows of
        self._asked = -1
        self._marking = False
        self._joined = False
        self._naming = ""  # the file that is being given its name: what comes behind that waits
        self._away = False  # something is done elsewhere: what comes behind that waits as well
        self._waiting: deque[Frame] = deque()
        files.attach(self)

    def greeting(self, name: str) -> dict[str, Any]:
        """Return what to say first. Raises StoreUnusable."""
        files = {each: int(self.files.size(each)) for each in self.files.names()}
        for blob in self.files.blobs():
            files[f"{blob}.blob"] = int(self.files.blob_size(blob))
        self._had = frozenset(files)
        standing = self.standing
        return {
            "layout": LAYOUT,
            "copy": standing.copy,
            "name": name,
            "store": standing.store,
            "seen": standing.followed,  # a claim that failed is no reason to refuse whoever won
            "files": files,
        }

    @property
    def in_sync(self) -> bool:
        """Say whether the primary waits for this copy."""
        return self._joined and not self.ended

    @property
    def waits(self) -> int:
        """Return how many octets have come that the disk has not carried out: who reads the connection bounds them."""
        return self._came - self._told

    def take(self, frames: list[Frame]) -> None:
        """Do what the primary says. Raises PeerError, Refused, StorageError."""
        self._came += sum(frame.size for frame in frames)
        self._waiting.extend(frames)
        self._go_on()

    def _go_on(self) -> None:
        """Do what waits, up to a new name: removals behind it must not be on disk before it is."""
        waiting = self._waiting
        while waiting and not self._naming and not self._away:
            if self.ended:
                return
            frame = waiting.popleft()
            self._taken += frame.size
            if self.epoch == 0:
                self._welcomed(frame)
            else:
                self._take(frame)
        self._mark()

    def _mark(self) -> None:
        """Have the primary told of what was taken, once the disk has carried it out."""
        if self._marking or self._taken == self._told or self.ended:
            return
        self._marking = True
        asked, taken = self._asked, self._taken
        self.elsewhere(_nothing, lambda: self._marked(asked, taken))

    def _marked(self, asked: int, taken: int) -> None:
        self._marking = False
        if self.ended:
            return
        self._told = taken
        self.send(encode(Frame(RECEIVED, first=asked, second=taken)))
        self.moved()
        self._mark()

    def _aside(self, work: Callable[[], T], then: Callable[[T], None]) -> None:
        """Do ``work`` elsewhere, then ``then`` with what it returns, then what came behind. Its errors end all."""
        found: list[T] = []
        failed: list[EntrepotError] = []

        def do() -> None:
            try:
                found.append(work())
            except EntrepotError as error:
                failed.append(error)

        def back() -> None:
            self._away = False
            if self.ended:
                return
            try:
                if failed:
                    raise failed[0]
                then(found[0])
                self._go_on()
            except EntrepotError as error:
                self._sorry(str(error))

        self._away = True
        self.elsewhere(do, back)

    def _welcomed(self, frame: Frame) -> None:
        if frame.kind != WELCOME:
            raise ProtocolViolation(f"a primary begins with kind {frame.kind} instead of a welcome")
        facts = frame.facts()
        epoch, store = int(facts.get("epoch", 0)), str(facts.get("store", ""))
        standing = self.standing
        if facts.get("layout") != LAYOUT or epoch <= 0 or not store:
            raise Refused(f"the primary speaks layout {facts.get('layout')} of replication, this broker {LAYOUT}")
        if epoch < standing.followed:
            raise Refused(f"the primary has epoch {epoch}, this broker has followed {standing.followed}")
        if standing.store not in ("", store):
            raise Refused(f"the primary has the store {store}, this broker {standing.store}")
        self.primary = str(facts.get("name", ""))
        if self.expects not in ("", self.primary):
            raise Refused(f"{self.primary} is primary of another store: the lock of this one names {self.expects}")
        self.confirm = str(facts.get("confirm", BOTH))
        self._same = standing.follows(store, epoch)
        if not self._same:
            self.store.greet()
        self.epoch = epoch
        self._aside(partial(self.store.persist, standing), _ignore)

    def _take(self, frame: Frame) -> None:
        kind, name, files = frame.kind, frame.name, self.files
        if kind == WRITE:
            files.write(name, frame.first, frame.octets, b"")
        elif kind == SYNC:
            self._asked = frame.first
            files.sync(frame.first)
        elif kind == PROBE:
            self._probed(frame)
        elif kind == CREATE:
            files.create(name, frame.first if name.endswith(".seg") else 0)
        elif kind == TRIM:
            files.trim(name, frame.first)
        elif kind == CUT:
            self._aside(partial(self._cut, name, frame.first), _ignore)
        elif kind == PUBLISH:
            self._naming = frame.other
            files.publish(name, frame.other)
        elif kind == DROP:
            self._drop(name)
        elif kind == SEAL:
            files.blob_seal(blob_of(name))
        elif kind == ASIDE:
            files.blob_set_aside(blob_of(name))
        elif kind == JOIN:
            self._join(frame.first)
        elif kind == PING:
            self.send(encode(Frame(PONG)))
            if self.wants_back and self._joined:
                self.send(encode(Frame(ASK_BACK)))
        elif kind == ENDING:
            self.stopping = True
        else:
            raise ProtocolViolation(f"a primary said what it does not say: kind {kind}")

    def _join(self, epoch: int) -> None:
        if epoch != self.epoch:
            raise ProtocolViolation(f"epoch {epoch} joins, {self.epoch} was welcomed")
        self.standing.joined(epoch, self.confirm)
        self._aside(partial(self._note_joined, epoch), lambda _: self._has_joined(epoch))

    def _note_joined(self, epoch: int) -> None:
        self.store.persist(self.standing)
        self.store.alike(self.primary, epoch)

    def _has_joined(self, epoch: int) -> None:
        self._joined = True
        self.send(encode(Frame(JOINED, first=epoch)))

    def _probed(self, frame: Frame) -> None:
        self._aside(
            partial(self._same_as, frame.name, frame.first, frame.second, frame.octets),
            lambda same: self.send(
                encode(Frame(SAME if same else LACKS, frame.name, first=frame.first, second=frame.second))
            ),
        )

    def _same_as(self, name: str, offset: int, length: int, told: bytes) -> bool:
        octets = self.files.read(name, offset, length)
        same = len(octets) == length and digest(octets) == told
        if not same and any(octets):
            self._keep(name, offset)
        return same

    def _drop(self, name: str) -> None:
        if self._keeps:
            self._aside(partial(self._keep, name, 0), lambda _: self.files.drop(name))
        else:
            self.files.drop(name)

    def _cut(self, name: str, length: int) -> None:
        at, size = length, int(self.files.size(name))
        while at < size:
            octets = self.files.read(name, at, LOOK_BYTES)
            if any(octets):
                self._keep(name, length)
                break
            if not octets:
                break
            at += len(octets)
        self.files.cut(name, length)

    @property
    def _keeps(self) -> bool:
        """Say whether what goes may be the end of a history that lost."""
        return not self._same and not self._joined

    def _keep(self, name: str, first: int) -> None:
        if self._keeps and name in self._had:
            self.store.keep(name, first)

    def end(self, why: str) -> None:
        """Take nothing more: the connection is gone, or this broker is about to be primary."""
        self.ended = self.ended or why

    # -- what the disk says --------------------------------------------------------------------------------------------

    def synced(self, token: int) -> None:
        """The disk has all that came before the sync."""
        if not self.ended:
            self.send(encode(Frame(SYNCED, first=int(token))))

    def published(self, name: str) -> None:
        """A file has its name: go on."""
        if name == self._naming:
            self._naming = ""
            try:
                self._go_on()
            except EntrepotError as error:
                self._sorry(str(error))

    def spoiled(self, name: str) -> None:
        """A scratch file did not fit: what the primary will name is not here."""
        self._sorry(f"no room for {name}")

    def tight(self, error: EntrepotError) -> None:
        """Space is short; what is asked for is still done."""

    def relieved(self) -> None:
        """There is space again."""

    def failed(self, error: EntrepotError) -> None:
        """The disk is full, or failed: the primary shall not wait for it."""
        self._sorry(str(error))

    def _sorry(self, why: str) -> None:
        if not self.ended:
            self.send(encode(Frame(SORRY, octets=why.encode()[:500])))
            self.end(why)


def _nothing() -> None:
    """Only its turn is of interest."""


def _ignore(_result: object) -> None:
    """What came behind goes on."""


def blob_of(name: str) -> int:
    """Return the number of a large body. Raises ProtocolViolation for the name of something else."""
    stem, _, ending = name.rpartition(".")
    if ending != "blob" or not stem.isdigit():
        raise ProtocolViolation(f"{name!r} is no large body")
    return int(stem)
