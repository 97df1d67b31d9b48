"""The trace: what happened to each message, in fixed records of 24 octets, for audits afterwards. Off by default. [C]

The core notes facts here as they happen; nothing is read back and nothing is decided by it. `Trace.flush`, once a turn
and before any socket is written, makes one block of them (docs/formats/trace.md) and hands it to a `TraceSink`: what a
peer can know is in the trace. Where there is no trace, a queue pays one comparison with None for each fact.

One record, little-endian::

    0      1       2        4               8                16               20               24
    +------+-------+--------+---------------+----------------+----------------+----------------+
    | kind | flags | detail | us since base | message number | place i32      | peer i32       |
    +------+-------+--------+---------------+----------------+----------------+----------------+

``IDENTITY`` alone differs: octets 16 to 24 are the sequence (i64), octets 4 to 8 the number of its prefix.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_i16_le, write_i32_le, write_i64_le
from mypy_extensions import i64, mypyc_attr

RECORD_OCTETS: Final = 24
BLOCK_MARK: Final = 0x4B4C_4254  # "TBLK"
BLOCK_HEAD_OCTETS: Final = 32

# Kinds. ``place``: the identity of a queue; ``peer``: the key of a consumer, unless said otherwise.
ACCEPTED: Final = 1  # peer: where it came from (the number of a connection, or of a bridge); detail: octets / 16
DELIVERED: Final = 2  # detail: earlier deliveries; a bridge's delivery is a forward
ACKNOWLEDGED: Final = 3
RETURNED: Final = 4  # back to its queue; detail: deliveries that failed
EXPIRED: Final = 5
DEAD: Final = 6  # peer: the number of its cause
REMOVED: Final = 7  # detail: why, below
IDENTITY: Final = 8  # of the message that the next record is about
RECOVERED: Final = 9  # it was there when the broker started
PENDING: Final = 10  # it was there when the broker stopped
ATTACHED: Final = 11  # a consumer
DETACHED: Final = 12
UNROUTED: Final = 13  # it came, and nobody wanted it; place: the number of its address
DUPLICATE: Final = 14  # it came again, and was refused for that; place: as above
REFUSED: Final = 15  # a bridge took it and did not send it: it may not cross
STARTED: Final = 16
STOPPED: Final = 17  # in order, after the last PENDING

KINDS: Final = (
    "none", "accepted", "delivered", "acknowledged", "returned", "expired", "dead", "removed", "identity", "recovered",
    "pending", "attached", "detached", "unrouted", "duplicate", "refused", "started", "stopped",
)  # fmt: skip

# Flags of ACCEPTED: bits 0 to 2, and the priority in bits 4 to 7.
DURABLE: Final = 1  # it outlives the broker
DERIVED: Final = 2  # the broker made it from another message: dead letter, move, divert, redelivery of a schedule
CONTINUED: Final = 4  # the same message under a new number, after REMOVED as RENUMBERED
# Of DELIVERED:
SETTLED: Final = 1  # acknowledged by being delivered

# Why a message was removed.
PURGED: Final = 1
DISCARDED: Final = 2  # an operator removed it
MOVED: Final = 3
OVERFLOWED: Final = 4  # its subscriber was too far behind
QUEUE_DELETED: Final = 5
RENUMBERED: Final = 6
REASONS: Final = ("", "purged", "discarded", "moved", "overflowed", "queue deleted", "renumbered")

# Names, so that records need numbers only: (kind, number) -> text.
NAME_QUEUE: Final = 1  # name TAB address TAB routing (0 anycast, 1 multicast)
NAME_CONSUMER: Final = 2  # connection TAB id of the broker on the far side, "" for a client TAB its name TAB client id
NAME_PREFIX: Final = 3  # of message ids: what stands before the sequence
NAME_CAUSE: Final = 4  # of dead letters
NAME_ORIGIN: Final = 5  # id TAB name of the broker whose messages come over this connection or bridge
NAME_ADDRESS: Final = 6

NAME_OCTETS_MAX: Final = 4096
BLOCK_RECORDS_MAX: Final = 1 << 15  # 768 KiB: a small part of a segment
PREFIXES_KEPT: Final = 4096
NO_SEQUENCE: Final = -1  # the identity is its prefix alone
DETAIL_MAX: Final = 0xFFFF
LOW: Final = 0xFFFF_FFFF
SEQUENCE_DIGITS_MAX: Final = 18  # fits in 63 bits


@mypyc_attr(allow_interpreted_subclasses=True)
class TraceSink:
    """Where blocks go. It must not raise and must not wait; what it cannot keep it counts."""

    def fits(self, octets: int) -> bool:
        """Return whether a block of so many octets goes into the segment that is open."""
        return True

    def turn(self) -> None:
        """Begin another segment; the next block names everything anew."""

    def write(self, head: bytes, records: bytes, names: bytes) -> None:
        """Keep a block; its head last, so that who is killed meanwhile leaves none."""


class Trace:
    """The facts of this turn, and the names that they use."""

    def __init__(self, sink: TraceSink) -> None:
        self.sink: TraceSink = sink
        self.records: BytesWriter = BytesWriter()
        self.names: BytesWriter = BytesWriter()
        self.count: i64 = 0
        self.offset: i64 = 0  # us since the base, shifted to its place
        self.base: i64 = 0  # ns, monotonic: of the block
        self.anchor: i64 = 0  # us: the wall clock minus the monotonic one
        self.block: i64 = 0
        self.named: i64 = 0  # the message whose identity was noted last
        self.live: dict[tuple[int, int], str] = {}
        self.leaving: list[tuple[int, int]] = []
        self.numbers: dict[str, int] = {}  # of prefixes, causes and addresses, with their kind before them
        self.last_number: i64 = 0

    def tick(self, now: i64, wall: i64) -> None:
        """Tell the time: ns, monotonic, and ms since 1970."""
        if self.count == 0:
            self.base = now
            anchor = wall * 1000 - now // 1000
            drift = anchor - self.anchor
            if drift > 5000 or drift < -5000:  # the wall clock has steps of 1 ms, and follows others slowly
                self.anchor = anchor
        self.offset = ((now - self.base) // 1000) << 32

    def note(self, kind: i64, number: i64, place: i64, peer: i64, detail: i64) -> None:
        """Note a fact. ``kind`` with its flags shifted by 8."""
        records = self.records
        write_i64_le(records, kind | (detail << 16) | self.offset)
        write_i64_le(records, number)
        write_i64_le(records, (place & LOW) | (peer << 32))
        self.count += 1

    def identity(self, number: i64, text: str) -> None:
        """Note that clients know message ``number`` as ``text``; that of others follows from their number."""
        if number == self.named and number != 0:
            return
        self.named = number
        head, colon, tail = text.rpartition(":")
        sequence: i64 = NO_SEQUENCE
        prefix = text
        if (
            0 < len(tail) <= SEQUENCE_DIGITS_MAX
            and tail.isdigit()
            and tail.isascii()
            and (tail[0] != "0" or tail == "0")
        ):
            sequence = i64(int(tail))
            prefix = head + colon
        of = self.number_of(NAME_PREFIX, prefix)
        records = self.records
        write_i64_le(records, IDENTITY | (of << 32))
        write_i64_le(records, number)
        write_i64_le(records, sequence)
        self.count += 1

    def number_of(self, kind: int, text: str) -> i64:
        """Return the number that stands for ``text``, made on first use."""
        key = f"{kind}\t{text}"
        known = self.numbers.get(key)
        if known is not None:
            return i64(known)
        self.last_number += 1
        self.numbers[key] = int(self.last_number)
        self._name(kind, self.last_number, text)
        return self.last_number

    def define(self, kind: int, number: i64, text: str) -> None:
        """Name a queue, a consumer or an origin until `forget`."""
        self.live[(kind, int(number))] = text
        self._name(kind, number, text)

    def forget(self, kind: int, number: i64) -> None:
        """The queue, consumer or origin is gone; what this turn noted about it keeps its name."""
        self.leaving.append((kind, int(number)))

    def _name(self, kind: int, number: i64, text: str) -> None:
        octets = text.encode("utf-8", "replace")[:NAME_OCTETS_MAX]
        names = self.names
        write_i16_le(names, kind)
        write_i16_le(names, len(octets))
        write_i64_le(names, number)
        names.write(octets)

    def flush(self) -> None:
        """Hand over what was noted since the last time, as one block; as several when it is much (a recovery)."""
        if self.count == 0 and len(self.names) == 0:
            return
        records = self.records.getvalue()
        self.records.truncate(0)  # and keep its room
        self.count = 0
        at: i64 = 0
        while at < len(records) or len(self.names) > 0:
            whole = at == 0 and len(records) <= BLOCK_RECORDS_MAX * RECORD_OCTETS
            self._write(records if whole else records[at : at + BLOCK_RECORDS_MAX * RECORD_OCTETS])
            at += BLOCK_RECORDS_MAX * RECORD_OCTETS
        for key in self.leaving:
            self.live.pop(key, None)
        self.leaving.clear()
        if len(self.numbers) > PREFIXES_KEPT:
            self.numbers.clear()

    def _write(self, records: bytes) -> None:
        sink = self.sink
        if not sink.fits(BLOCK_HEAD_OCTETS + len(records) + (len(self.names) + 7) // 8 * 8):
            sink.turn()
            self._name_again()
        while len(self.names) % 8:
            self.names.append(0)
        names = self.names.getvalue()
        self.names = BytesWriter()
        head = BytesWriter()
        write_i32_le(head, BLOCK_MARK)
        write_i32_le(head, len(records) // RECORD_OCTETS)
        write_i32_le(head, len(names))
        write_i32_le(head, 0)  # the checksum, which is made when the segment is closed: here it would cost a fifth
        write_i64_le(head, self.base // 1000 + self.anchor)
        write_i64_le(head, self.block)
        self.block += 1
        sink.write(head.getvalue(), records, names)

    def _name_again(self) -> None:
        """A segment explains itself: name all that is there."""
        self.names = BytesWriter()
        for (kind, number), text in self.live.items():
            self._name(kind, i64(number), text)
        for key, of in self.numbers.items():
            word, _, text = key.partition("\t")
            self._name(int(word), i64(of), text)


def _is_number(text: str) -> bool:
    """Return whether ``text`` is what `str` makes of a number below 10**18: only then it may be kept as one."""
    if not 0 < len(text) <= SEQUENCE_DIGITS_MAX or not text.isascii() or not text.isdigit():
        return False
    return text[0] != "0" or len(text) == 1
