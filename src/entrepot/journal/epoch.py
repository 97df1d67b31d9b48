"""Where one epoch of a shared journal ends and the next begins, so that late writes can be told from the truth. [C]

Brokers that take turns at one store are numbered: each tenure is an *epoch*, higher than all before. The ids of
segments say who wrote them: epoch *e* begins its own at ``e << EPOCH_SHIFT``, so two epochs never use one file name,
whoever may have been paused in between. And each epoch notes, once, where what it took over ended: a `Boundary` of the
EPOCH record, which every segment carries from then on. What an older epoch still writes lands either behind that end or
in a file whose id lies between the two; recovery refuses both and says so.

Nothing that is refused was confirmed: a broker confirms only after it has found, behind the sync, that its lease holds.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i64_be
from mypy_extensions import i64

from entrepot.journal.index import Segment, segment_range
from entrepot.journal.ports import JournalPort
from entrepot.journal.record import (
    BATCH_HEAD,
    EPOCH,
    FENCE_OCTETS,
    META,
    RECORD_HEAD,
    head_valid,
    payload_fits,
    record_valid,
)

EPOCH_SHIFT: Final = 24
"""16 million segments of 32 MiB in one epoch: half a petabyte."""

NUMBER_SHIFT: Final = 40
"""Messages and bodies of epoch *e* are numbered from ``e << NUMBER_SHIFT``: no late body has the name of a new one."""

BOUNDARIES_KEPT: Final = 64
"""Changes of the master that are remembered in any case, against the late writes of a broker that slept through them.

Older ones are remembered for as long as the segment is there whose end they tell: it may have no other end.
"""

OPENING_BYTES: Final = 8192
"""Enough for META and EPOCH of a segment with 64 boundaries, which are 2 KiB; what has more is read again."""

OPENING_MOST: Final = 16 * 1024 * 1024
"""What claims to be longer is no EPOCH record but damage."""


class Boundary:
    """``epoch`` began behind ``length`` octets of segment ``last``, at batch ``sequence``. All 0: an empty store."""

    def __init__(self, epoch: i64, last: i64, length: i64, sequence: i64) -> None:
        self.epoch: i64 = epoch
        self.last: i64 = last
        self.length: i64 = length
        self.sequence: i64 = sequence

    def first(self) -> i64:
        """Return the lowest segment id that ``epoch`` uses."""
        return self.epoch << EPOCH_SHIFT


def write_epoch(epoch: i64, boundaries: list[Boundary]) -> bytes:
    """Return type and payload of an EPOCH record."""
    body = BytesWriter()
    body.append(EPOCH)
    write_i64_be(body, epoch)
    for boundary in boundaries:
        write_i64_be(body, boundary.epoch)
        write_i64_be(body, boundary.last)
        write_i64_be(body, boundary.length)
        write_i64_be(body, boundary.sequence)
    return body.getvalue()


def remembered(boundaries: list[Boundary], segments: list[Segment]) -> list[Boundary]:
    """Return what a new epoch has to remember of ``boundaries``, given the ``segments`` that are there."""
    ends: dict[int, int] = {}
    for segment in segments:
        if segment.as_of == 0:  # a compacted one has an end of its own
            ends[int(segment.last)] = 1
    kept: list[Boundary] = []
    left = len(boundaries)
    for boundary in boundaries:
        if left < BOUNDARIES_KEPT or int(boundary.last) in ends:
            kept.append(boundary)
        left -= 1
    return kept


def read_opening(data: bytes, segment: i64) -> list[Boundary]:
    """Return the boundaries in the EPOCH record at the beginning of a segment; none where there is no such record."""
    found: list[Boundary] = []
    if not head_valid(data, 0, segment, 0) or not record_valid(data, BATCH_HEAD, len(data)):
        return found
    length: i64 = i64(read_i32_be(data, BATCH_HEAD))
    place: i64 = BATCH_HEAD + RECORD_HEAD + length
    if data[BATCH_HEAD + RECORD_HEAD] != META or not record_valid(data, place, len(data)):
        return found
    if data[place + RECORD_HEAD] != EPOCH or not payload_fits(data, place):
        return found
    length = i64(read_i32_be(data, place))
    at: i64 = place + RECORD_HEAD + 9
    end: i64 = place + RECORD_HEAD + length
    while at < end:
        found.append(
            Boundary(
                read_i64_be(data, at), read_i64_be(data, at + 8), read_i64_be(data, at + 16), read_i64_be(data, at + 24)
            )
        )
        at += FENCE_OCTETS
    return found


def opening(port: JournalPort, name: str) -> bytes:
    """Return the beginning of a segment, up to the end of its EPOCH record at least, when there is one."""
    data = port.read(name, 0, OPENING_BYTES)
    head: i64 = BATCH_HEAD + RECORD_HEAD
    if len(data) < head:
        return data
    place: i64 = i64(read_i32_be(data, BATCH_HEAD))
    place += head
    if head <= place and place + RECORD_HEAD <= len(data):
        end: i64 = i64(read_i32_be(data, place))
        end += place + RECORD_HEAD
        if len(data) < end <= OPENING_MOST:
            return port.read(name, 0, int(end))
    return data


def boundaries_of(port: JournalPort, names: list[str]) -> list[Boundary]:
    """Return the boundaries that the youngest readable segment knows, by rising epoch. ``names`` in the order of ids.

    The beginning of a batch is enough, even where its end is torn: that the boundary was written is all that matters,
    because whoever wrote it had the lease, and nobody of an older epoch confirmed anything after that.
    """
    position = len(names) - 1
    while position >= 0:
        name = names[position]
        first = segment_range(name)[0]
        if first < 1 << EPOCH_SHIFT:
            break
        found = read_opening(opening(port, name), first)
        if found:
            return found
        position -= 1
    return []


def is_late(name: str, boundaries: list[Boundary]) -> bool:
    """Say whether a segment was made by an epoch after a younger one had taken over."""
    first, last, _, _ = segment_range(name)
    return any(boundary.last < first and last < boundary.first() for boundary in boundaries)


def epoch_of(name: str) -> int:
    """Return the epoch that made a segment file, 0 for one of a store that brokers never shared."""
    return int(segment_range(name)[1] >> EPOCH_SHIFT)
