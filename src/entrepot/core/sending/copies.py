"""Copies that other brokers sent here: one that is sent again is known; a message that comes back is another copy. [C]

A *copy* is what one broker numbered when it took a message in. It keeps that number until it is settled there, and no
number is given twice; so a bridge that was cut off, or whose broker was killed before it had noted the answer, sends
the same copy, and a message that went on and came back has a new number at each broker that sends it. Who compares
message ids instead takes what returns for what is repeated, and loses it (decision 0012).

A broker sends what waits in one queue by rising numbers, but for priorities, selectors and what it repeats. So a number
above all that came before from the same queue of the same broker, a `Stream`, is new: one comparison of integers. Only
below it a copy is looked for, by a mark of 64 bits that is made of all that names it. Marks of durable messages are in
the journal, in the batch that has the message: what was not stored is not known, what is known was stored.
`COPIES_KEPT` are remembered in all; beyond, the oldest of the broker that has most of them go, so that none makes the
marks of another one go.
"""

from __future__ import annotations

from _blake2 import blake2b  # `hashlib` would load OpenSSL, half a megabyte of tables, into every broker
from collections import deque
from typing import Final

from librt.strings import BytesWriter, read_i64_be, write_i64_be
from mypy_extensions import i64, mypyc_attr

from entrepot.core.records import KIND_COPIES
from entrepot.journal.log import JournalCore, Rider

COPIES_KEPT: Final = 65_536  # 0.5 MiB of memory and of the journal when all are in use, 7 MB once they were looked at
SENDERS_KEPT: Final = 100
STREAMS_KEPT: Final = 10_000  # of a sender; beyond, they begin again
CHUNK_FROM: Final = 8  # marks with which a document is full; one batch of the journal may fill it further
CHUNK_MOST: Final = 1024
MARK_OCTETS: Final = 8
SERIAL_OCTETS: Final = 8
LAYOUT: Final = 1  # first octet of a document; those of the layout before it have marks alone
HEAD_OCTETS: Final = 1 + 8  # layout, highest number
NO_NUMBER: Final = -1

LOW: Final = 0xFFFF_FFFF
TOP: Final = 0x8000_0000
# Odd numbers of 31 bits: products of them and 32 bits stay below 2**63, on both builds.
FIRST: Final = 0x6C8E9CF5
SECOND: Final = 0x5851F42D
THIRD: Final = 0x4F1BBCDD
FOURTH: Final = 0x7FEB352D
ADDED: Final = 0x1E3779B9


def hash_of(text: str) -> i64:
    """Return 64 bits for ``text``, the same in every process."""
    octets = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=MARK_OCTETS).digest()
    return read_i64_be(octets, 0)


def mixed(state: i64, value: i64) -> i64:
    """Return 64 bits of both numbers, of any sign. One of them held fast, no two values of the other give the same.

    Four rounds of a Feistel network over halves of 32 bits; nothing overflows, so the plain build gives the same.
    """
    both: i64 = state ^ value
    low: i64 = both & LOW
    high: i64 = (both >> 32) & LOW
    high ^= ((low * FIRST + ADDED) >> 15) & LOW
    low ^= ((high * SECOND + ADDED) >> 15) & LOW
    high ^= ((low * THIRD + ADDED) >> 15) & LOW
    low ^= ((high * FOURTH + ADDED) >> 15) & LOW
    return (((high ^ TOP) - TOP) << 32) | low


def mark_of(queue: i64, message: i64, number: i64, came: i64) -> i64:
    """Return the mark of the copy ``number`` of a message that was sent to a queue; both as 64 bits (`hash_of`).

    ``came``: the message's time at its sender, ms. A store that was set up again from a copy of its files gives its
    numbers again, and with them the ids of messages that came without one; never at the same time.
    """
    return mixed(mixed(mixed(queue, number), message), came)


def former_mark_of(queue: str, identity: str, number: i64, came: i64) -> int:
    """Return the mark of a copy as the layout before `LAYOUT` has it."""
    octets = f"{queue}\0{identity}\0{number}\0{came}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(octets, digest_size=MARK_OCTETS).digest(), "big") or 1


class Chunk:
    """Marks that are written and forgotten together.

    ``octets``: the marks, b"" while more are being added. ``known``: so many of them are in `Sender.known`; ``listed``:
    the sender has it among those of which some are not. ``dirty``: the open batch will have it. ``former``: its marks
    are of the layout before.
    """

    def __init__(self, serial: i64) -> None:
        self.serial: i64 = serial
        self.highest: i64 = NO_NUMBER
        self.count: i64 = 0
        self.known: i64 = 0
        self.octets: bytes = b""
        self.listed: bool = False
        self.written: bool = False
        self.dirty: bool = False
        self.former: bool = False


class Filling:
    """The chunk that marks are being added to, and those marks."""

    def __init__(self, stored: bool) -> None:
        """``stored``: its chunks are for the journal."""
        self.stored: bool = stored
        self.chunk: Chunk | None = None
        self.out: BytesWriter = BytesWriter()

    def close(self) -> None:
        """Let the chunk be as it is."""
        if self.chunk is not None:
            self.chunk.octets = self.out.getvalue()
            self.chunk = None
        self.out.truncate(0)


class Stream:
    """What one broker sends to one queue. ``highest``: no higher number came. ``stale``: look it up anew."""

    def __init__(self, sender: Sender, queue: str) -> None:
        self.sender: Sender = sender
        self.queue: i64 = hash_of(queue)
        self.highest: i64 = sender.highest
        self.stale: bool = False


class Sender:
    """One broker, as the user that it came in as. The oldest chunk first."""

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.highest: i64 = NO_NUMBER
        self.count: i64 = 0
        self.streams: dict[str, Stream] = {}
        self.chunks: deque[Chunk] = deque()
        self.durable: Filling = Filling(True)
        self.passing: Filling = Filling(False)
        self.known: dict[int, bool] = {}  # filled when something is looked for
        self.unknown: list[Chunk] = []
        self.former: dict[int, bool] = {}

    def key_of(self, chunk: Chunk) -> bytes:
        """Return the key under which the journal has ``chunk``."""
        return int(chunk.serial).to_bytes(SERIAL_OCTETS, "big") + self.name.encode("utf-8", "surrogatepass")

    def marks_of(self, chunk: Chunk) -> bytes:
        """Return the marks of ``chunk``, `MARK_OCTETS` each."""
        if chunk is self.durable.chunk:
            return self.durable.out.getvalue()
        if chunk is self.passing.chunk:
            return self.passing.out.getvalue()
        return chunk.octets

    def has(self, mark: i64) -> bool:
        """Return whether a chunk has ``mark``."""
        if self.unknown:
            for chunk in self.unknown:
                chunk.listed = False
                marks = self.marks_of(chunk)
                at: i64 = chunk.known * MARK_OCTETS
                while at < len(marks):
                    self.known[read_i64_be(marks, at)] = True
                    at += MARK_OCTETS
                chunk.known = chunk.count
            self.unknown.clear()
        return mark in self.known

    def lose_streams(self) -> None:
        """Let every stream be looked up anew."""
        for stream in self.streams.values():
            stream.stale = True
        self.streams.clear()


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
        journal.tail.rider = self

    def stream(self, sender: str, queue: str) -> Stream:
        """Return what ``sender`` sends to ``queue``; good until it is `Stream.stale`."""
        found = self.senders.get(sender)
        if found is None:
            if len(self.senders) >= SENDERS_KEPT:
                self._forget_sender()
            found = Sender(sender)
            self.senders[sender] = found
        stream = found.streams.get(queue)
        if stream is None:
            if len(found.streams) >= STREAMS_KEPT:
                found.lose_streams()
            stream = Stream(found, queue)
            found.streams[queue] = stream
        return stream

    def seen(self, stream: Stream, number: i64, mark: i64) -> bool:
        """Return whether the copy ``number`` with this mark came in ``stream`` before."""
        return number <= stream.highest and stream.sender.has(mark)

    def note(self, stream: Stream, number: i64, mark: i64, durable: bool) -> None:
        """Note a copy that was not `seen`.

        One that is ``durable`` within `JournalCore.begin` and ``end``, behind the send that stored its message.
        """
        sender = stream.sender
        stream.highest = max(stream.highest, number)
        sender.highest = max(sender.highest, number)
        stored = durable and self.journal.pages  # an ephemeral broker's journal keeps nothing
        filling = sender.durable if stored else sender.passing
        chunk = filling.chunk
        if chunk is None or (chunk.count >= CHUNK_FROM and (chunk.count >= CHUNK_MOST or (stored and not chunk.dirty))):
            chunk = self._next(sender, filling)
        write_i64_be(filling.out, mark)
        chunk.count += 1
        chunk.highest = max(chunk.highest, number)
        if not chunk.listed:
            chunk.listed = True
            sender.unknown.append(chunk)
        if stored and not chunk.dirty:
            chunk.dirty = True
            self._dirty.append((sender, chunk))
            self.journal.tail.riding = True
        sender.count += 1
        self.count += 1
        if self.count > self.kept:
            self._forget_some()

    def board(self) -> None:
        """Write what was noted since the last batch into the one that is being handed over."""
        dirty = self._dirty
        self._dirty = []
        for sender, chunk in dirty:
            chunk.dirty = False
            if chunk.count > 0:
                chunk.written = True
                value = bytes([LAYOUT]) + int(chunk.highest).to_bytes(8, "big", signed=True) + sender.marks_of(chunk)
                self.journal.tail.put(KIND_COPIES, sender.key_of(chunk), value)

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
            self._take_back(found, chunk, documents[key])
            found.chunks.append(chunk)
            found.count += chunk.count
            self.count += chunk.count
            self.serial = max(self.serial, chunk.serial)

    def _take_back(self, sender: Sender, chunk: Chunk, value: bytes) -> None:
        if len(value) % MARK_OCTETS == 0:
            chunk.former = True
            chunk.octets = value
            for at in range(0, len(value), MARK_OCTETS):
                sender.former[int.from_bytes(value[at : at + MARK_OCTETS], "big")] = True
        else:
            chunk.octets = value[HEAD_OCTETS:]
            chunk.highest = int.from_bytes(value[1:HEAD_OCTETS], "big", signed=True)
            sender.highest = max(sender.highest, chunk.highest)
            chunk.listed = True
            sender.unknown.append(chunk)
        chunk.count = len(chunk.octets) // MARK_OCTETS

    def check(self) -> None:
        """Assert that the chunks have what is counted, and that no number is above the highest."""
        total: i64 = 0
        for sender in self.senders.values():
            count: i64 = 0
            known: i64 = 0
            for chunk in sender.chunks:
                octets = len(sender.marks_of(chunk))
                assert octets == chunk.count * MARK_OCTETS, f"{sender.name}: {octets} octets for {chunk.count} marks"
                assert chunk.listed == (chunk.known < chunk.count and not chunk.former), (
                    f"{sender.name}: {chunk.serial}"
                )
                assert chunk.highest <= sender.highest, f"{sender.name}: {chunk.highest} is above {sender.highest}"
                count += chunk.count
                known += chunk.known
            assert count == sender.count, f"{sender.name} counts {sender.count} marks, its chunks have {count}"
            assert known == len(sender.known), f"{sender.name} knows {len(sender.known)} marks, its chunks say {known}"
            for queue, stream in sender.streams.items():
                assert stream.highest <= sender.highest, f"{sender.name}, {queue}: {stream.highest}"
            total += count
        assert total == self.count <= self.kept + CHUNK_MOST

    def _next(self, sender: Sender, filling: Filling) -> Chunk:
        """Begin a chunk: a full one takes more only while its batch is open."""
        filling.close()
        self.serial += 1
        chunk = Chunk(self.serial)
        filling.chunk = chunk
        sender.chunks.append(chunk)
        return chunk

    def _forget_some(self) -> None:
        """Forget the oldest chunk of who has most."""
        most: Sender | None = None
        for sender in self.senders.values():
            if most is None or sender.count > most.count:
                most = sender
        if most is not None:
            self._forget_chunk(most)

    def _forget_sender(self) -> None:
        for oldest in list(self.senders.values()):
            while oldest.chunks:
                self._forget_chunk(oldest)
            oldest.lose_streams()
            del self.senders[oldest.name]
            return

    def _forget_chunk(self, sender: Sender) -> None:
        chunk = sender.chunks.popleft()
        if chunk.known > 0 or chunk.former:
            marks = sender.marks_of(chunk)
            for at in range(0, len(marks) if chunk.former else int(chunk.known) * MARK_OCTETS, MARK_OCTETS):
                if chunk.former:
                    sender.former.pop(int.from_bytes(marks[at : at + MARK_OCTETS], "big"), False)
                else:
                    sender.known.pop(read_i64_be(marks, at), False)
        for filling in (sender.durable, sender.passing):
            if filling.chunk is chunk:
                filling.close()
        if chunk.listed:
            sender.unknown.remove(chunk)
        sender.count -= chunk.count
        self.count -= chunk.count
        chunk.count = 0  # one that was to be written is not
        chunk.octets = b""
        if chunk.written and self.journal.refusal() is None:
            self.journal.delete(KIND_COPIES, sender.key_of(chunk))
