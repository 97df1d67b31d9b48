"""Copies that other brokers sent here: one that is sent again is known; a message that comes back is another copy. [C]

A *copy* is what one broker numbered when it took a message in. It keeps that number until it is settled there, and no
number is given twice; so a bridge that was cut off, or whose broker was killed before it had noted the answer, sends
the same copy, and a message that went on and came back has a new number at each broker that sends it. Who compares
message ids instead takes what returns for what is repeated, and loses it (decision 0012).

A copy is remembered by a mark of 64 bits, made of all that names it. Marks of durable messages are in the journal, in
the batch that has the message: what was not stored is not known, what is known was stored. `COPIES_KEPT` are remembered
in all; beyond, the oldest of the broker that has most of them go, so that none makes the marks of another one go.
"""

from __future__ import annotations

from _blake2 import blake2b  # `hashlib` would load OpenSSL, half a megabyte of tables, into every broker
from collections import deque
from typing import Final

from mypy_extensions import i64, mypyc_attr

from entrepot.core.records import KIND_COPIES
from entrepot.journal.log import JournalCore, Rider

COPIES_KEPT: Final = 65_536  # some 7 MB of memory and 0.5 MiB of the journal when all are in use
SENDERS_KEPT: Final = 100
CHUNK_FROM: Final = 8  # marks with which a document is full; one batch of the journal may fill it further
CHUNK_MOST: Final = 1024
MARK_OCTETS: Final = 8
SERIAL_OCTETS: Final = 8


def mark_of(queue: str, identity: str, number: i64, came: i64) -> int:
    """Return the mark of the copy ``number`` of the message ``identity``, sent to ``queue``; never 0.

    ``came``: the message's time at its sender, ms. A store that was set up again from a copy of its files gives its
    numbers again, and with them the ids of messages that came without one; never at the same time.
    """
    octets = f"{queue}\0{identity}\0{number}\0{came}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(octets, digest_size=MARK_OCTETS).digest(), "big") or 1


class Chunk:
    """Marks that are written and forgotten together.

    ``stored``: those of durable messages, as the journal has them, while it may be written again. ``dirty``: the open
    batch will have it.
    """

    def __init__(self, serial: i64) -> None:
        self.serial: i64 = serial
        self.marks: list[int] = []
        self.stored: list[bytes] = []
        self.written: bool = False
        self.dirty: bool = False


class Sender:
    """One broker, as the user that it came in as. The oldest chunk first; the last one is still being filled."""

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.known: dict[int, bool] = {}
        self.chunks: deque[Chunk] = deque()

    def key_of(self, chunk: Chunk) -> bytes:
        """Return the key under which the journal has ``chunk``."""
        return int(chunk.serial).to_bytes(SERIAL_OCTETS, "big") + self.name.encode("utf-8", "surrogatepass")


@mypyc_attr(allow_interpreted_subclasses=True)
class Copies(Rider):
    """All that a broker remembers of what others sent. ``kept``: how many marks at most."""

    def __init__(self, journal: JournalCore, kept: i64 = COPIES_KEPT) -> None:
        self.journal: JournalCore = journal
        self.kept: i64 = kept
        self.count: i64 = 0
        self.senders: dict[str, Sender] = {}
        self.serial: i64 = 0
        self._dirty: list[tuple[Sender, Chunk]] = []
        journal.rider = self

    def seen(self, sender: str, mark: int) -> bool:
        """Return whether ``sender`` sent the copy with this mark before."""
        known = self.senders.get(sender)
        return known is not None and mark in known.known

    def note(self, sender: str, mark: int, durable: bool) -> None:
        """Note a copy; call it inside `JournalCore.begin` and ``end``, behind the send that stored its message."""
        found = self.senders.get(sender)
        if found is None:
            if len(self.senders) >= SENDERS_KEPT:
                self._forget_sender()
            found = Sender(sender)
            self.senders[sender] = found
        if mark in found.known:
            return
        chunk = self._open_chunk(found)
        found.known[mark] = durable
        chunk.marks.append(mark)
        self.count += 1
        if durable and self.journal.pages:  # an ephemeral broker's journal keeps nothing
            if not chunk.dirty:
                chunk.dirty = True
                self._dirty.append((found, chunk))
            chunk.stored.append(mark.to_bytes(MARK_OCTETS, "big"))
            self.journal.riding = True
        if self.count > self.kept:
            self._forget_some()

    def board(self) -> None:
        """Write what was noted since the last batch into the one that is being handed over."""
        dirty = self._dirty
        self._dirty = []
        for sender, chunk in dirty:
            chunk.dirty = False
            if chunk.stored:
                chunk.written = True
                self.journal.ride(KIND_COPIES, sender.key_of(chunk), b"".join(chunk.stored))

    def recovered(self, documents: dict[bytes, bytes]) -> None:
        """Take back what the journal kept."""
        for key in sorted(documents):
            name = key[SERIAL_OCTETS:].decode("utf-8", "surrogatepass")
            found = self.senders.get(name)
            if found is None:
                found = Sender(name)
                self.senders[name] = found
            chunk = Chunk(int.from_bytes(key[:SERIAL_OCTETS], "big"))
            chunk.written = True
            value = documents[key]
            for at in range(0, len(value), MARK_OCTETS):
                octets = value[at : at + MARK_OCTETS]
                mark = int.from_bytes(octets, "big")
                chunk.stored.append(octets)
                chunk.marks.append(mark)
                found.known[mark] = True
            if found.chunks:
                found.chunks[-1].stored = []
            found.chunks.append(chunk)
            self.serial = max(self.serial, chunk.serial)
        self.count = sum([len(one.known) for one in self.senders.values()])

    def check(self) -> None:
        """Assert that the chunks have what is known, once each."""
        total = 0
        for sender in self.senders.values():
            marks = [mark for chunk in sender.chunks for mark in chunk.marks]
            assert len(marks) == len(sender.known), f"{sender.name}: {len(marks)} marks, {len(sender.known)} known"
            assert all(mark in sender.known for mark in marks), f"{sender.name}: a chunk has a mark that is not known"
            total += len(marks)
        assert total == self.count <= self.kept + CHUNK_MOST

    def _open_chunk(self, sender: Sender) -> Chunk:
        """Return the chunk that the next mark goes into: a full one takes more only while its batch is open."""
        if sender.chunks:
            last = sender.chunks[-1]
            size = len(last.marks)
            if size < CHUNK_FROM or (size < CHUNK_MOST and last.dirty):
                return last
            if not last.dirty:
                last.stored = []  # it is written, and not again
        self.serial += 1
        chunk = Chunk(self.serial)
        sender.chunks.append(chunk)
        return chunk

    def _forget_some(self) -> None:
        """Forget the oldest chunk of who has most."""
        most: Sender | None = None
        for sender in self.senders.values():
            if most is None or len(sender.known) > len(most.known):
                most = sender
        if most is not None:
            self._forget_chunk(most)

    def _forget_sender(self) -> None:
        for oldest in list(self.senders.values()):
            while oldest.chunks:
                self._forget_chunk(oldest)
            del self.senders[oldest.name]
            return

    def _forget_chunk(self, sender: Sender) -> None:
        chunk = sender.chunks.popleft()
        for mark in chunk.marks:
            sender.known.pop(mark, False)
        self.count -= len(chunk.marks)
        chunk.stored = []  # one that was to be written is not
        if chunk.written and self.journal.refusal() is None:
            self.journal.delete(KIND_COPIES, sender.key_of(chunk))
