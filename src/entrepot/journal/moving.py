"""MOVE: messages that are stored get new numbers, and another queue, by one record. [C]

What it is for: a batch that was staged is published without being written again. `journal/moves.py` remembers what was
moved; here it is carried out on an `Index`, by who writes the record and by who reads it back.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i32_be, write_i64_be
from mypy_extensions import i32, i64

from entrepot.journal.index import LIVE, Index, Segment
from entrepot.journal.moves import Move
from entrepot.journal.record import MOVE, read_queue, write_queue

STAGED: Final = 7
"""The pseudo queue of messages that a MOVE may give to a queue later (`core/records.py`)."""


def write_move(move: Move, source: i64) -> bytes:
    """Return type and payload of the record: the messages of ``move``, which are in the queue ``source``."""
    body = BytesWriter()
    body.append(MOVE)
    write_i64_be(body, move.first)
    write_i32_be(body, i32(move.count))
    write_queue(body, source)
    write_queue(body, move.queue)
    write_i64_be(body, move.fresh)
    return body.getvalue()


def read_move(data: bytes, body: i64, since: i64) -> tuple[Move, i64]:
    """Return what the record says whose type octet is ``data[body]``, of batch ``since``, and the queue of before."""
    count: i64 = i64(read_i32_be(data, body + 9))
    move = Move(read_i64_be(data, body + 1), count, read_queue(data, body + 17), read_i64_be(data, body + 21), since)
    return move, read_queue(data, body + 13)


def is_whole(index: Index, move: Move, source: i64) -> bool:
    """Say whether all messages of ``move`` are stored for ``source`` alone, never returned, and not moved before."""
    if index.moves.rows and index.moves.has_some(move.first, move.first + move.count - 1):
        return False
    number = move.first
    while number < move.first + move.count:
        if index.notes and number in index.notes:
            return False
        segment = index.locate(number)
        if segment is None or segment.states[index.slot] != LIVE or segment.queue_at(index.slot) != source:
            return False
        number += 1
    return True


def is_awaited(segment: Segment) -> bool:
    """Say whether a segment has messages that a MOVE may give to a queue later."""
    slot: i64 = 0
    while slot < segment.count:
        if segment.states[slot] == LIVE and segment.queue_at(slot) == STAGED:
            return True
        slot += 1
    return False


def carry_out(index: Index, move: Move, source: i64) -> list[Segment]:
    """Give the messages of ``move`` that live in ``source`` their queue; return the segments that have some of them.

    Those that are not there any more were settled, or are in a segment that was compacted since, as what they are now.
    """
    found: list[Segment] = []
    queue = move.queue
    if queue >= 0x80000000:
        queue -= 0x100000000
    number = move.first
    while number < move.first + move.count:
        segment = index.locate(number)
        if segment is not None:
            if not found or found[-1] is not segment:
                found.append(segment)
                move.touches(segment.first, segment.last)
            slot = index.slot
            if segment.states[slot] == LIVE and segment.queue_at(slot) == source:
                segment.queues[slot] = i32(queue)
        number += 1
    if found:
        index.moves.add(move)
    return found


def prune(index: Index) -> None:
    """Forget the moves that no segment needs any more; call when segments went or were replaced."""
    moves = index.moves
    if moves.rows:
        moves.keep([move for move in moves.rows if _is_needed(move, index.segments)])


def _is_needed(move: Move, segments: list[Segment]) -> bool:
    """Say whether a segment that has its messages is as it was when they were moved."""
    low = 0
    high = len(segments)
    while low < high:
        middle = (low + high) >> 1
        if segments[middle].last < move.low:
            low = middle + 1
        else:
            high = middle
    while low < len(segments) and segments[low].first <= move.high:
        if move.since >= segments[low].as_of:
            return True
        low += 1
    return False
