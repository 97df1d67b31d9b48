"""The octets of a journal: records inside batches inside segments. [C]

What this module must never do: decide. It lays out and takes apart; `log`, `recovery` and `compaction` decide.

Every number is big-endian. A segment is a row of batches; behind the last one come zeros (the segment was filled with
them before it was used) or the end of the file::

    batch                                                          (32 octets, then the records)
    0        4        8        12       16               24              32
    +--------+--------+--------+--------+----------------+---------------+---------+----
    | "EJB1" | crc32  | length | count  | sequence   i64 | synced    i64 | records | ...
    +--------+--------+--------+--------+----------------+---------------+---------+----
              of 8..32, octets   how      rises by one,    highest batch
              segment   of the   many     across segments  that was known
              and place records                            to be on disk

    The checksum also covers (unwritten) i64 first id of the segment and i64 offset of the batch, so that a journal
    inside a message body, or a block written to the wrong place, is never taken for a batch.

    record
    0        4        8        9
    +--------+--------+--------+-----------
    | length | crc32  | type   | payload ...
    +--------+--------+--------+-----------
     of type  of type
     and payload

    1 META         u16 format · i64 first id · i64 last id · i64 as_of · i64 end sequence · i64 created ms · node, utf-8
    2 MESSAGE      u8 flags · i64 number · i32 raw length · u16 n · n x u32 queue · [i64 deliver_at · i64 large_id]
                   · envelope (model/message.py)          flags: 1 transient · 2 has deliver_at and large_id
    3 SETTLE_RUN   u32 queue · i64 first · i32 count                  every number of the run
    4 SETTLE_LIST  u32 queue · n x i64 number
    5 REDELIVERED  i64 number · u32 queue · i32 count
    6 PUT          u8 kind · i32 n key · value
    7 DELETE       u8 kind · key
    8 ADD          i64 number · u32 queue                             one more queue for a stored message
    9 SEAL         nothing: the segment is complete and ends here
    10 EPOCH       i64 epoch · n x (i64 epoch · i64 last id · i64 octets of it · i64 last batch)
                   behind META, where brokers take turns: where each epoch found the end of what was written before it
    11 PART        i64 bracket        what follows in this batch belongs to a bracket that is written in several
    12 WHOLE       i64 bracket        all parts of it are there; a bracket without it never was
    13 MOVE        i64 first · i32 count · u32 queue · u32 new queue · i64 first new number
                   messages of the run that are in the queue are in the other one from now on, under the new numbers

A batch counts as a whole or not at all: it is *valid* when its header and every record in it pass their checksums.
``synced`` is what tells a torn tail from a corrupt middle: a batch that was not on disk when the machine stopped was
never claimed by a later one.
"""

from __future__ import annotations

from typing import Final

from librt.strings import (
    BytesWriter,
    read_i16_be,
    read_i32_be,
    read_i64_be,
    write_i16_be,
    write_i32_be,
    write_i64_be,
)
from mypy_extensions import i32, i64

from entrepot.base.checksum import crc32
from entrepot.model.message import ENVELOPE_LAYOUT, FLAG_RARE, Message, write_envelope

FORMAT_FIRST: Final = 1
FORMAT: Final = 4
"""The format that is written; all from `FORMAT_FIRST` on are read (docs/formats/journal.md says what changed)."""

BATCH_MAGIC: Final = 0x454A4231  # "EJB1"
BATCH_HEAD: Final = 32
RECORD_HEAD: Final = 8
"""Octets before the type of a record."""

META: Final = 1
MESSAGE: Final = 2
SETTLE_RUN: Final = 3
SETTLE_LIST: Final = 4
REDELIVERED: Final = 5
PUT: Final = 6
DELETE: Final = 7
ADD: Final = 8
SEAL: Final = 9
EPOCH: Final = 10
PART: Final = 11
WHOLE: Final = 12
MOVE: Final = 13

RECORD_NAMES: Final = {
    META: "META",
    MESSAGE: "MESSAGE",
    SETTLE_RUN: "SETTLE",
    SETTLE_LIST: "SETTLE",
    REDELIVERED: "REDELIVERED",
    PUT: "PUT",
    DELETE: "DELETE",
    ADD: "ADD",
    SEAL: "SEAL",
    EPOCH: "EPOCH",
    PART: "PART",
    WHOLE: "WHOLE",
    MOVE: "MOVE",
}

FIXED: Final = {REDELIVERED: 17, ADD: 13, SEAL: 1}
"""Octets of type and payload of those that are as long always, whatever they say."""

FLAG_TRANSIENT: Final = 1
FLAG_EXTENDED: Final = 2

MESSAGE_FIXED: Final = 16
"""Type, flags, number, raw length and queue count of a MESSAGE record."""

ENVELOPE_MIN: Final = 30
"""Octets of an envelope without address, rare part and raw (model/message.py)."""

RUN_MAX: Final = 1 << 24
"""Settlements in one SETTLE_RUN, and messages in one MOVE, at most."""

MOVE_OCTETS: Final = 29
"""Type and payload of a MOVE."""

FENCE_OCTETS: Final = 32
"""One boundary between epochs inside an EPOCH record."""

QUEUE_ID_MAX: Final = 0xFFFFFFFE
"""Queue ids are u32; the highest one means "several" inside the index."""


def crc_of(octets: bytes) -> i64:
    """Return CRC-32 of ``octets`` as a signed 32-bit number, the form in which it is stored."""
    crc: i64 = crc32(octets)
    if crc >= 0x80000000:
        crc -= 0x100000000
    return crc


def frame(writer: BytesWriter, body: bytes) -> None:
    """Append one record: length, checksum, and ``body`` (type and payload)."""
    write_i32_be(writer, i32(len(body)))
    write_i32_be(writer, i32(crc_of(body)))
    writer.write(body)


def write_queue(writer: BytesWriter, queue_id: i64) -> None:
    """Append a queue id as u32."""
    if queue_id >= 0x80000000:
        queue_id -= 0x100000000
    write_i32_be(writer, i32(queue_id))


def read_queue(data: bytes, at: i64) -> i64:
    """Return the u32 queue id at ``data[at]``."""
    queue_id: i64 = i64(read_i32_be(data, at))
    return queue_id & 0xFFFFFFFF


def write_message_head(
    writer: BytesWriter,
    flags: i64,
    number: i64,
    raw_length: i64,
    queues: list[int],
    deliver_at: i64,
    large_id: i64,
) -> None:
    """Append all of a MESSAGE body that stands before the envelope; FLAG_EXTENDED decides about the last two."""
    writer.append(MESSAGE)
    writer.append(int(flags))
    write_i64_be(writer, number)
    write_i32_be(writer, i32(raw_length))
    write_i16_be(writer, len(queues))
    for queue_id in queues:
        write_queue(writer, queue_id)
    if flags & FLAG_EXTENDED:
        write_i64_be(writer, deliver_at)
        write_i64_be(writer, large_id)


def write_message(writer: BytesWriter, message: Message, queues: list[int], transient: bool) -> None:
    """Append type and payload of a MESSAGE record."""
    flags: i64 = FLAG_TRANSIENT if transient else 0
    deliver_at: i64 = 0
    large_id: i64 = 0
    rare = message.rare
    if rare is not None:
        deliver_at = rare.deliver_at
        large_id = rare.large_id
        if deliver_at != 0 or large_id != 0:
            flags |= FLAG_EXTENDED
    write_message_head(writer, flags, message.number, len(message.raw), queues, deliver_at, large_id)
    write_envelope(message, writer)


def write_meta(
    writer: BytesWriter, first_id: i64, last_id: i64, as_of: i64, end_sequence: i64, created: i64, node: str
) -> None:
    """Append type and payload of a META record. ``as_of`` and ``end_sequence`` are 0 in a segment never compacted."""
    writer.append(META)
    write_i16_be(writer, FORMAT)
    write_i64_be(writer, first_id)
    write_i64_be(writer, last_id)
    write_i64_be(writer, as_of)
    write_i64_be(writer, end_sequence)
    write_i64_be(writer, created)
    writer.write(node.encode())


def batch_head(length: i64, count: i64, sequence: i64, synced: i64, segment: i64, offset: i64) -> bytes:
    """Return the 32 octets that go before ``length`` octets of ``count`` records, at ``offset`` in ``segment``."""
    covered = BytesWriter()
    write_i32_be(covered, i32(length))
    write_i32_be(covered, i32(count))
    write_i64_be(covered, sequence)
    write_i64_be(covered, synced)
    head = BytesWriter()
    write_i32_be(head, BATCH_MAGIC)
    octets = covered.getvalue()
    write_i32_be(head, i32(_head_crc(octets, segment, offset)))
    head.write(octets)
    return head.getvalue()


def _head_crc(covered: bytes, segment: i64, offset: i64) -> i64:
    place = BytesWriter()
    place.write(covered)
    write_i64_be(place, segment)
    write_i64_be(place, offset)
    return crc_of(place.getvalue())


def head_valid(data: bytes, at: i64, segment: i64, offset: i64) -> bool:
    """Say whether the header of a batch written for ``offset`` in ``segment`` stands at ``data[at]``."""
    if at + BATCH_HEAD > len(data) or read_i32_be(data, at) != BATCH_MAGIC:
        return False
    crc: i64 = i64(read_i32_be(data, at + 4))
    return _head_crc(data[at + 8 : at + BATCH_HEAD], segment, offset) == crc


def batch_length(data: bytes, at: i64) -> i64:
    """Return how many octets of records follow the header at ``data[at]``."""
    length: i64 = i64(read_i32_be(data, at + 8))
    return length


def batch_count(data: bytes, at: i64) -> i64:
    """Return how many records the batch at ``data[at]`` holds."""
    count: i64 = i64(read_i32_be(data, at + 12))
    return count


def batch_sequence(data: bytes, at: i64) -> i64:
    """Return the sequence of the batch at ``data[at]``."""
    return read_i64_be(data, at + 16)


def batch_synced(data: bytes, at: i64) -> i64:
    """Return the highest sequence that the writer of the batch at ``data[at]`` knew to be on disk."""
    return read_i64_be(data, at + 24)


def record_valid(data: bytes, at: i64, end: i64) -> bool:
    """Say whether a whole record with a right checksum stands at ``data[at]``, before ``end``."""
    if at + RECORD_HEAD >= end:
        return False
    length: i64 = i64(read_i32_be(data, at))
    if length < 1 or at + RECORD_HEAD + length > end:
        return False
    crc: i64 = i64(read_i32_be(data, at + 4))
    return crc_of(data[at + RECORD_HEAD : at + RECORD_HEAD + length]) == crc


def batch_valid(data: bytes, at: i64, segment: i64, offset: i64) -> bool:
    """Say whether the batch at ``data[at]`` is whole: header, every record, and nothing left over."""
    if not head_valid(data, at, segment, offset):
        return False
    length = batch_length(data, at)
    count = batch_count(data, at)
    place: i64 = at + BATCH_HEAD
    end: i64 = place + length
    if length < 1 or end > len(data):
        return False
    seen: i64 = 0
    while place < end:
        if not record_valid(data, place, end):
            return False
        size: i64 = i64(read_i32_be(data, place))
        place += RECORD_HEAD + size
        seen += 1
    return seen == count


def payload_fits(data: bytes, at: i64) -> bool:
    """Say whether the payload of the checked record at ``data[at]`` is as long as its type needs.

    A checksum proves that the octets are those that were written, not that a sane program wrote them.
    """
    length: i64 = i64(read_i32_be(data, at))
    body: i64 = at + RECORD_HEAD
    kind = data[body]
    if kind == MESSAGE:
        if length < MESSAGE_FIXED:
            return False
        count: i64 = i64(read_i16_be(data, body + 14))
        extended: i64 = 16 if data[body + 1] & FLAG_EXTENDED else 0
        raw: i64 = i64(read_i32_be(data, body + 10))
        fits = length >= MESSAGE_FIXED + 4 * count + extended + ENVELOPE_MIN + raw
        return count > 0 and raw >= 0 and fits and read_i64_be(data, body + 2) > 0
    if kind in (SETTLE_RUN, SETTLE_LIST, MOVE):
        return _run_fits(data, body, length)
    if kind in FIXED:
        return FIXED[kind] == length
    if kind == PUT:
        return length >= 6 and 0 <= i64(read_i32_be(data, body + 2)) <= length - 6
    if kind == DELETE:
        return length >= 2
    if kind == META:
        return length >= 43
    if kind == EPOCH:
        return length >= 9 and (length - 9) % FENCE_OCTETS == 0
    if kind in (PART, WHOLE):
        return length == 9 and read_i64_be(data, body + 1) > 0
    return False


def _run_fits(data: bytes, body: i64, length: i64) -> bool:
    """Say whether a record about many numbers does; a MOVE gives higher ones than those that it takes."""
    if data[body] == SETTLE_LIST:
        return length >= 5 and (length - 5) % 8 == 0
    if data[body] == SETTLE_RUN:
        return length == 17 and 0 < read_i32_be(data, body + 13) <= RUN_MAX
    if length != MOVE_OCTETS:
        return False
    count: i64 = i64(read_i32_be(data, body + 9))
    first = read_i64_be(data, body + 1)
    return 0 < count <= RUN_MAX and 0 < first <= read_i64_be(data, body + 21) - count


def envelope_at(data: bytes, body: i64) -> i64:
    """Return where the envelope of the MESSAGE whose type octet is ``data[body]`` begins."""
    count: i64 = i64(read_i16_be(data, body + 14))
    at: i64 = body + MESSAGE_FIXED + 4 * count
    if data[body + 1] & FLAG_EXTENDED:
        at += 16
    return at


def plain_envelope(data: bytes, body: i64, end: i64) -> i64:
    """Return where the envelope of a plain MESSAGE begins, -1 for any other. ``data[body]`` is its type octet.

    A plain one has nothing rare, was not written as transient, and its lengths lead to ``end``, where the record ends.
    What is damaged is not plain: who makes a message of it says so. Checksums are the caller's.
    """
    if end > len(data) or end - body < MESSAGE_FIXED + ENVELOPE_MIN or data[body] != MESSAGE or data[body + 1] != 0:
        return -1
    envelope = envelope_at(data, body)
    if not body < envelope <= end - ENVELOPE_MIN or data[envelope] != ENVELOPE_LAYOUT:
        return -1
    if data[envelope + 2] & FLAG_RARE:
        return -1
    raw: i64 = i64(read_i32_be(data, body + 10))
    name: i64 = i64(read_i16_be(data, envelope + 24))
    if raw < 0 or name < 0 or envelope + ENVELOPE_MIN + name + raw != end:
        return -1
    return envelope if i64(read_i32_be(data, end - raw - 4)) == raw else -1


def describe(data: bytes, at: i64) -> str:
    """Return one line about the record at ``data[at]``, for people. The record passed its checksum."""
    body: i64 = at + RECORD_HEAD
    length: i64 = i64(read_i32_be(data, at))
    kind = data[body]
    name = RECORD_NAMES.get(kind, f"unknown type {kind}")
    if not payload_fits(data, at):
        return f"{name} malformed, {length} octets"
    if kind == META:
        node = data[body + 43 : body + length].decode(errors="replace")
        format_: i64 = i64(read_i16_be(data, body + 1))
        text = f"format {format_} segments {read_i64_be(data, body + 3)}..{read_i64_be(data, body + 11)}"
        as_of = read_i64_be(data, body + 19)
        compacted = f" compacted as of batch {as_of}" if as_of else ""
        return f"{name} {text} node {node!r} created {read_i64_be(data, body + 35)}{compacted}"
    if kind == MESSAGE:
        return f"{name} {_describe_message(data, body)}"
    if kind == SETTLE_RUN:
        first = read_i64_be(data, body + 5)
        count: i64 = i64(read_i32_be(data, body + 13))
        return f"{name} queue {read_queue(data, body + 1)} numbers {first}..{first + count - 1}"
    if kind == SETTLE_LIST:
        numbers = [str(read_i64_be(data, place)) for place in range(body + 5, body + length, 8)]
        return f"{name} queue {read_queue(data, body + 1)} numbers {' '.join(numbers)}"
    if kind == REDELIVERED:
        times: i64 = i64(read_i32_be(data, body + 13))
        return f"{name} {read_i64_be(data, body + 1)} queue {read_queue(data, body + 9)} count {times}"
    if kind == PUT:
        key: i64 = i64(read_i32_be(data, body + 2))
        return f"{name} kind {data[body + 1]} key {data[body + 6 : body + 6 + key]!r} {length - 6 - key} octets"
    if kind == DELETE:
        return f"{name} kind {data[body + 1]} key {data[body + 2 : body + length]!r}"
    if kind == ADD:
        return f"{name} {read_i64_be(data, body + 1)} queue {read_queue(data, body + 9)}"
    if kind == EPOCH:
        ends = [
            f"{read_i64_be(data, place)} after {read_i64_be(data, place + 8)}:{read_i64_be(data, place + 16)}"
            for place in range(body + 9, body + length, FENCE_OCTETS)
        ]
        return f"{name} {read_i64_be(data, body + 1)} fences {', '.join(ends)}"
    if kind in (PART, WHOLE):
        return f"{name} {read_i64_be(data, body + 1)}"
    if kind == MOVE:
        old = read_i64_be(data, body + 1)
        moved: i64 = i64(read_i32_be(data, body + 9))
        queues = f"queue {read_queue(data, body + 13)} to {read_queue(data, body + 17)}"
        return f"{name} numbers {old}..{old + moved - 1} {queues} from number {read_i64_be(data, body + 21)}"
    return name


def _describe_message(data: bytes, body: i64) -> str:
    flags = data[body + 1]
    count: i64 = i64(read_i16_be(data, body + 14))
    raw: i64 = i64(read_i32_be(data, body + 10))
    queues = [str(read_queue(data, body + MESSAGE_FIXED + 4 * index)) for index in range(count)]
    envelope = envelope_at(data, body)
    name_length: i64 = i64(read_i16_be(data, envelope + 24))
    address = data[envelope + 26 : envelope + 26 + name_length].decode(errors="replace")
    text = f"{read_i64_be(data, body + 2)} to {address!r} queues {' '.join(queues)} raw {raw} octets"
    text += f" priority {data[envelope + 3]}"
    if flags & FLAG_TRANSIENT:
        text += " transient"
    if flags & FLAG_EXTENDED:
        deliver_at = read_i64_be(data, envelope - 16)
        large_id = read_i64_be(data, envelope - 8)
        text += f" deliver_at {deliver_at} blob {large_id}"
    return text
