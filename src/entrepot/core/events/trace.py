"""The trace: what happened to each message, in records of 24 octets, for audits afterwards. Off by default. [C]

The core notes facts here as they happen; nothing is read back and nothing is decided by it. `Trace.flush`, once a turn
and before any socket is written, makes one block of them (docs/formats/trace.md) and hands it to a `TraceSink`: what a
peer can know is in the trace. Where there is no trace, a queue pays one comparison with None for each fact.

Facts come in runs: a producer's messages are accepted under consecutive numbers, and four consumers in rotation get
every fourth each. So nothing is written as it happens. A `Run`, of which a queue has one and each consumer two, counts
facts that are alike and evenly apart; its end is written, as one record or as two. That is why a fact costs some 5 ns
and no memory, where a record costs 15 and the cache that it goes through.

One record, little-endian::

    0      1       2        4               8                16               20               24
    +------+-------+--------+---------------+----------------+----------------+----------------+
    | kind | flags | detail | us since base | message number | place i32      | peer i32       |
    +------+-------+--------+---------------+----------------+----------------+----------------+

``IDENTITY`` and ``SPAN`` differ::

    | 8    | 0     | 0      | prefix u32    | message number | sequence i64                    |
    | 18   | 0     | 0      | count u32     | stride i64     | total i64                       |

A span says that the record behind it stands for ``count`` facts, whose numbers are ``stride`` apart.

Runs are not written in the order in which they began, and yet the facts of one message are in theirs: all that may
happen to it without being noted as something else are the stages accepted, delivered and acknowledged, each once, and
each stage is written after the one before it. Any other fact ends all runs first (`Trace.note`).
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, write_i16_le, write_i32_le, write_i64_le
from mypy_extensions import i64, mypyc_attr

from entrepot.model.ids import NUMBERED_OCTETS, UUID_OCTETS, uuid_text

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
SPAN: Final = 18  # of the next record: it stands for several

KINDS: Final = (
    "none", "accepted", "delivered", "acknowledged", "returned", "expired", "dead", "removed", "identity", "recovered",
    "pending", "attached", "detached", "unrouted", "duplicate", "refused", "started", "stopped", "span",
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
REPLACED: Final = 7  # a newer one took its place: of its key, or in a ring
REASONS: Final = ("", "purged", "discarded", "moved", "overflowed", "queue deleted", "renumbered", "replaced")

# Names, so that records need numbers only: (kind, number) -> text.
NAME_QUEUE: Final = 1  # name TAB address TAB routing (0 anycast, 1 multicast)
NAME_CONSUMER: Final = 2  # connection TAB id of the broker on the far side, "" for a client TAB its name TAB client id
NAME_PREFIX: Final = 3  # of message ids: what stands before the sequence
NAME_CAUSE: Final = 4  # of dead letters
NAME_ORIGIN: Final = 5  # id TAB name of the broker whose messages come over this connection or bridge
NAME_ADDRESS: Final = 6

NAME_OCTETS_MAX: Final = 4096
BLOCK_RECORDS_MAX: Final = 1 << 15  # 768 KiB: a small part of a segment; a turn that notes more makes several blocks
RUN_MAX: Final = 1 << 16  # facts: what a reader must make of one record
STRIDE_MAX: Final = 1 << 16
NOWHERE: Final = -1  # no message has this number: what comes next opens the run
PREFIXES_KEPT: Final = 4096
NO_SEQUENCE: Final = -1  # the identity is its prefix alone
DETAIL_MAX: Final = 0xFFFF
LOW: Final = 0xFFFF_FFFF
SEQUENCE_DIGITS_MAX: Final = 18  # fits in 63 bits
ZERO: Final = 48  # "0"

UNTRACED: Final = ("ActiveMQ.Advisory.", "activemq.management", "activemq.notifications")
"""Beginnings of addresses that are not traced: what is there is about messages, and nobody misses one."""

CROSSED: Final = "core:"


def crossing_prefix(uuid: str) -> str:
    """Return the prefix of the identity of what came over CORE from the broker ``uuid``; its number there follows."""
    return f"{CROSSED}{uuid}:"


@mypyc_attr(allow_interpreted_subclasses=True)
class TraceSink:
    """Where blocks go. It must not raise and must not wait; what it cannot keep it counts."""

    def fits(self, octets: int) -> bool:
        """Return whether a block of so many octets goes into the segment that is open."""
        return True

    def turn(self) -> None:
        """Begin another segment; the next block names everything anew."""

    def write(self, head: bytes, records: bytes, names: bytes, facts: int) -> None:
        """Keep a block of so many facts; its head last, so that who is killed meanwhile leaves none."""


class Run:
    """Facts alike, about messages whose numbers are evenly apart, that are not written yet. Of one stage and place."""

    def __init__(self, trace: Trace, stage: BytesWriter, where: i64) -> None:
        self.trace: Trace = trace
        self.stage: BytesWriter = stage
        self.where: i64 = where  # the last word of its record: place and peer
        self.head: i64 = 0  # the first word: kind, flags and detail
        self.first: i64 = NOWHERE
        self.next: i64 = NOWHERE
        self.stride: i64 = 1
        self.count: i64 = 0
        self.total: i64 = 0  # of the details, where they are no part of ``head``

    def note(self, head: i64, number: i64) -> None:
        """Note a fact about message ``number``; ``head``: kind, flags shifted by 8, detail by 16."""
        if number == self.next and head == self.head and self.count < RUN_MAX:
            self.next = number + self.stride
            self.count += 1
        else:
            self.turn(head, number, self.where, 0)

    def note_sized(self, head: i64, number: i64, where: i64, size: i64) -> None:
        """Note a fact whose detail, ``size``, may vary: of a run the total is kept."""
        if number == self.next and head == self.head and where == self.where and self.count < RUN_MAX:
            self.next = number + self.stride
            self.count += 1
            self.total += size
        else:
            self.turn(head, number, where, size)

    def turn(self, head: i64, number: i64, where: i64, size: i64) -> None:
        """Note a fact that is not the next one: it tells how far apart they are, or another run begins."""
        if self.count == 1 and head == self.head and where == self.where:
            stride = number - self.first
            if 0 < stride <= STRIDE_MAX:
                self.stride = stride
                self.next = number + stride
                self.count = 2
                self.total += size
                return
        self.trace.open(self)
        self.begin(head, number, where, size)

    def begin(self, head: i64, number: i64, where: i64, size: i64) -> None:
        """Be a run of one; the stride is as it was until the next one tells."""
        self.head = head
        self.where = where
        self.first = number
        self.next = number + self.stride
        self.count = 1
        self.total = size

    def end(self, offset: i64) -> i64:
        """Write what there is; return how many records that took."""
        count = self.count
        self.count = 0
        self.next = NOWHERE
        stage = self.stage
        if count > 1:
            write_i64_le(stage, SPAN | (count << 32))
            write_i64_le(stage, self.stride)
            write_i64_le(stage, self.total)
            write_i64_le(stage, self.head | ((self.total // count) << 16) | offset)
            write_i64_le(stage, self.first)
            write_i64_le(stage, self.where)
            return 2
        write_i64_le(stage, self.head | (self.total << 16) | offset)
        write_i64_le(stage, self.first)
        write_i64_le(stage, self.where)
        return 1


class Identities:
    """A run of message ids with one prefix, whose numbers and sequences are evenly apart."""

    def __init__(self) -> None:
        self.of: i64 = 0  # the number of their prefix
        self.number: i64 = 0  # of the first message, and its sequence
        self.sequence: i64 = 0
        self.number_stride: i64 = 1
        self.sequence_stride: i64 = 1
        self.next_number: i64 = NOWHERE
        self.next_sequence: i64 = NOWHERE
        self.count: i64 = 0

    def take(self, of: i64, number: i64, sequence: i64) -> bool:
        """Make this run longer by one, if it is the next one or, as the second, says how far apart they are."""
        if of != self.of or self.count == 0 or self.count >= RUN_MAX:
            return False
        if number == self.next_number and sequence == self.next_sequence:
            self.next_number = number + self.number_stride
            self.next_sequence = sequence + self.sequence_stride
            self.count += 1
            return True
        apart = number - self.number
        step = sequence - self.sequence
        if self.count > 1 or self.sequence < 0 or not (0 < apart <= STRIDE_MAX and 0 < step <= STRIDE_MAX):
            return False
        self.number_stride = apart
        self.sequence_stride = step
        self.next_number = number + apart
        self.next_sequence = sequence + step
        self.count = 2
        return True

    def begin(self, of: i64, number: i64, sequence: i64) -> None:
        """Be a run of one; the strides are as they were until the next one tells."""
        self.of = of
        self.number = number
        self.sequence = sequence
        self.next_number = NOWHERE if sequence < 0 else number + self.number_stride
        self.next_sequence = NOWHERE if sequence < 0 else sequence + self.sequence_stride
        self.count = 1

    def end(self, target: BytesWriter) -> i64:
        """Write what there is; return how many records that took."""
        count = self.count
        self.count = 0
        if count == 0:
            return 0
        if count > 1:
            write_i64_le(target, SPAN | (count << 32))
            write_i64_le(target, self.number_stride)
            write_i64_le(target, self.sequence_stride)
        write_i64_le(target, IDENTITY | (self.of << 32))
        write_i64_le(target, self.number)
        write_i64_le(target, self.sequence)
        return 2 if count > 1 else 1


class Trace:
    """The facts of this turn, and the names that they use.

    ``records`` are in order. Behind them comes either what the stages hold and what ``opened`` will add to them, or
    ``other``, the run of facts that belong to no stage; never both.
    """

    def __init__(self, sink: TraceSink) -> None:
        self.sink: TraceSink = sink
        self.records: BytesWriter = BytesWriter()
        self.identities: BytesWriter = BytesWriter()  # the stages, in their order
        self.accepted: BytesWriter = BytesWriter()
        self.delivered: BytesWriter = BytesWriter()
        self.acknowledged: BytesWriter = BytesWriter()
        self.opened: list[Run] = []
        self.staged: bool = False  # there is something in the stages, or opened
        self.other: Run = Run(self, self.records, 0)
        self.names: BytesWriter = BytesWriter()
        self.head: BytesWriter = BytesWriter()
        self.facts: i64 = 0  # in the records that are written
        self.written: i64 = 0  # records of this block so far
        self.offset: i64 = 0  # us since the base, shifted to its place
        self.base: i64 = 0  # ns, monotonic: of the block
        self.anchor: i64 = 0  # us: the wall clock minus the monotonic one
        self.block: i64 = 0
        self.named: i64 = NOWHERE  # the message whose identity was noted last, in this block
        self.prefix: str = ""  # of that identity, and its number
        self.prefix_number: i64 = 0
        self.beyond: bytes = b""  # the UUID of the broker that a message came from last, and what it is written as
        self.beyond_prefix: str = ""
        self.alike: Identities = Identities()  # those of the last run
        self.live: dict[tuple[int, int], str] = {}
        self.leaving: list[tuple[int, int]] = []
        self.numbers: dict[str, int] = {}  # of prefixes, causes and addresses, with their kind before them
        self.last_number: i64 = 0

    def tick(self, now: i64, wall: i64) -> None:
        """Tell the time: ns, monotonic, and ms since 1970."""
        if self.other.count > 0 or self.staged or self.written > 0:
            self._settle()  # what was noted outside of a turn has its own time
        else:
            self.base = now
            anchor = wall * 1000 - now // 1000
            drift = anchor - self.anchor
            if drift > 5000 or drift < -5000:  # the wall clock has steps of 1 ms, and follows others slowly
                self.anchor = anchor
        self.offset = ((now - self.base) // 1000) << 32

    # -- facts --------------------------------------------------------------------------------------------------------

    def arrivals(self, place: i64) -> Run:
        """Return the run in which queue ``place`` notes what it accepts."""
        return Run(self, self.accepted, place & LOW)

    def deliveries(self, place: i64, peer: i64) -> Run:
        """Return the run of what consumer ``peer`` of queue ``place`` is given."""
        return Run(self, self.delivered, (place & LOW) | (peer << 32))

    def settlements(self, place: i64, peer: i64) -> Run:
        """Return the run of what consumer ``peer`` of queue ``place`` acknowledges."""
        return Run(self, self.acknowledged, (place & LOW) | (peer << 32))

    def note(self, kind: i64, number: i64, place: i64, peer: i64, detail: i64) -> None:
        """Note a fact of no stage: all that was noted before is before it. ``kind`` with its flags shifted by 8."""
        head = kind | (detail << 16)
        where = (place & LOW) | (peer << 32)
        run = self.other
        if run.count > 0 and head == run.head and where == run.where and run.count < RUN_MAX:
            if number == run.next:
                run.next = number + run.stride
                run.count += 1
                return
            stride = number - run.first
            if run.count == 1 and 0 < stride <= STRIDE_MAX:
                run.stride = stride
                run.next = number + stride
                run.count = 2
                return
        self._settle()
        if self.written >= BLOCK_RECORDS_MAX or self.facts >= RUN_MAX:  # of a long run: readers take blocks whole
            self._write()
        run.begin(head, number, where, 0)

    def identity(self, number: i64, text: str) -> None:
        """Note that clients know message ``number`` as ``text``; that of others follows from their number."""
        at: i64 = text.rfind(":") + 1
        sequence = number_at(text, at)
        self.identity_of(number, text if sequence < 0 else text[:at], sequence)

    def identity_of(self, number: i64, prefix: str, sequence: i64) -> None:
        """Note that clients know message ``number`` as ``prefix`` and then ``sequence``, unless that is NO_SEQUENCE."""
        if number == self.named:
            return
        if self.written >= BLOCK_RECORDS_MAX:  # before it: it belongs into the block that says what it is about
            self._settle()
            self._write()
        self.named = number
        if prefix != self.prefix or self.prefix_number == 0:
            self.prefix_number = self.number_of(NAME_PREFIX, prefix)
            self.prefix = prefix
        if not self.alike.take(self.prefix_number, number, sequence):
            self._end_identities()
            self._stage()
            self.alike.begin(self.prefix_number, number, sequence)

    def crossed(self, number: i64, duplicate_id: bytes) -> bool:
        """Note under which number the broker knew message ``number`` from which it came; return whether that is said.

        ``duplicate_id``: of a core bridge, the UUID of its broker and the number there, each in octets.
        """
        if (
            len(duplicate_id) < NUMBERED_OCTETS or duplicate_id[8] & 0xC0 != 0x80
        ):  # no UUID: it was fetched (federation)
            return False
        if duplicate_id[UUID_OCTETS] >= 0x80:  # no number of a message: whoever made that
            return False
        there: i64 = int.from_bytes(duplicate_id[UUID_OCTETS:NUMBERED_OCTETS], "big")
        if number != self.named:
            uuid = duplicate_id[:UUID_OCTETS]
            if uuid != self.beyond:
                self.beyond = uuid
                self.beyond_prefix = crossing_prefix(uuid_text(uuid))
            self.identity_of(number, self.beyond_prefix, there)
        return True

    def _end_identities(self) -> None:
        self.written += self.alike.end(self.identities)

    # -- runs ---------------------------------------------------------------------------------------------------------

    def open(self, run: Run) -> None:
        """Write what ``run`` has, and expect more of it: it is ended with the others."""
        if run.count > 0:
            self._end(run)
            return
        self._stage()
        self.opened.append(run)

    def _end(self, run: Run) -> None:
        self.facts += run.count
        self.written += run.end(self.offset)

    def _stage(self) -> None:
        """Something belongs into a stage: what belongs to none was before it."""
        if self.other.count > 0:
            self._end_other()
        self.staged = True

    def _end_other(self) -> None:
        run = self.other
        if run.head & 0xFF == ACCEPTED:
            run.total = (run.head >> 16) * run.count
            run.head &= DETAIL_MAX
        self._end(run)

    def _settle(self) -> None:
        """Write all runs, and the stages into the order."""
        if self.other.count > 0:
            self._end_other()
        if not self.staged:
            return
        self.staged = False
        self._end_identities()
        for run in self.opened:
            self._end(run)
        self.opened.clear()
        self._follow(self.identities)
        self._follow(self.accepted)
        self._follow(self.delivered)
        self._follow(self.acknowledged)

    def _follow(self, stage: BytesWriter) -> None:
        if len(stage) > 0:
            self.records.write(stage.getvalue())
            stage.truncate(0)  # and keep its room

    # -- names --------------------------------------------------------------------------------------------------------

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

    def is_named(self, kind: int, number: i64) -> bool:
        """Return whether `define` named it, and it was not forgotten."""
        return (kind, int(number)) in self.live

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

    # -- blocks -------------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Hand over what was noted since the last time, as one block."""
        self._settle()
        if self.written > 0 or len(self.names) > 0:
            self._write()
        for key in self.leaving:
            self.live.pop(key, None)
        self.leaving.clear()
        if len(self.numbers) > PREFIXES_KEPT:
            self.numbers.clear()
            self.prefix_number = 0

    def _write(self) -> None:
        """Make a block of ``records``."""
        sink = self.sink
        if not sink.fits(BLOCK_HEAD_OCTETS + len(self.records) + (len(self.names) + 7) // 8 * 8):
            sink.turn()
            self._name_again()
        names = b""
        if len(self.names) > 0:
            while len(self.names) % 8:
                self.names.append(0)
            names = self.names.getvalue()
            self.names.truncate(0)
        head = self.head
        head.truncate(0)
        write_i32_le(head, BLOCK_MARK)
        write_i32_le(head, int(self.written))
        write_i32_le(head, len(names))
        write_i32_le(head, 0)  # the checksum, which is made when the segment is closed: here it would cost a fifth
        write_i64_le(head, self.base // 1000 + self.anchor)
        write_i64_le(head, self.block)
        records = self.records.getvalue()
        self.records.truncate(0)
        facts = int(self.facts)
        self.block += 1
        self.written = 0
        self.facts = 0
        self.named = NOWHERE
        sink.write(head.getvalue(), records, names, facts)

    def _name_again(self) -> None:
        """A segment explains itself: name all that is there."""
        self.names.truncate(0)
        for (kind, number), text in self.live.items():
            self._name(kind, i64(number), text)
        for key, of in self.numbers.items():
            word, _, text = key.partition("\t")
            self._name(int(word), i64(of), text)


def number_at(text: str, start: i64) -> i64:
    """Return the number that ``text`` ends with from ``start`` on; NO_SEQUENCE for what `str` makes of no number.

    It must be below 10**18, so that it fits. Only then a prefix and a number are the same as the text.
    """
    length: i64 = len(text)
    digits = length - start
    if digits < 1 or digits > SEQUENCE_DIGITS_MAX or (digits > 1 and ord(text[start]) == ZERO):
        return NO_SEQUENCE
    number: i64 = 0
    at = start
    while at < length:
        digit: i64 = ord(text[at]) - ZERO
        if digit < 0 or digit > 9:
            return NO_SEQUENCE
        number = number * 10 + digit
        at += 1
    return number
