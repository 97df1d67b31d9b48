"""What recovery, salvage and inspection know of a journal before they read it: files, marks, keys of its own. [C]"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i64_be
from mypy_extensions import i64

from entrepot.base.errors import CorruptJournal
from entrepot.journal.index import (
    segment_range,
)
from entrepot.journal.ports import SCRATCH
from entrepot.journal.record import (
    batch_synced,
    head_valid,
)

INTERNAL_KIND: Final = 0
"""Documents of this kind are the journal's own and are shown to nobody."""
GAPS_KEY: Final = b"gaps"
BATCH_MARK: Final = b"EJB1"
REMEDY: Final = (
    "run `entrepot data check` on the data directory; restore the file from a backup or a replica, "
    "or let `entrepot data salvage` make a new directory of what can be read"
)


def corrupt(name: str, offset: i64, what: str) -> CorruptJournal:
    """Return the error for damage at ``offset`` of the segment ``name``."""
    return CorruptJournal(f"the journal is damaged at {name}:{offset}: {what}", remedy=REMEDY)


def highest_claim(data: bytes, start: i64, segment: i64) -> i64:
    """Return the highest batch that any header at or behind ``data[start]`` says was on disk; 0 when there is none."""
    claim: i64 = 0
    at: i64 = data.find(BATCH_MARK, start)
    while at >= 0:
        if head_valid(data, at, segment, at):
            synced = batch_synced(data, at)
            claim = max(claim, synced)
        at = data.find(BATCH_MARK, at + 1)
    return claim


def segment_files(names: list[str]) -> tuple[list[str], list[str]]:
    """Return (segments in order, leftovers): scratch files, and sources of a compaction that was finished."""
    ranges: list[tuple[int, int, int, str]] = []
    leftovers: list[str] = []
    for name in names:
        first, last, _, as_of = segment_range(name)
        if first > 0:
            ranges.append((int(first), -int(last), -int(as_of), name))
        elif name.endswith(SCRATCH):
            leftovers.append(name)
    ranges.sort()
    kept: list[str] = []
    reached = 0
    for first_id, negative_last, _, name in ranges:
        last_id = -negative_last
        if last_id <= reached:
            leftovers.append(name)
        elif first_id <= reached:
            raise corrupt(name, 0, "its range of ids overlaps that of another segment")
        else:
            kept.append(name)
            reached = last_id
    return kept, leftovers


def parse_gaps(value: bytes) -> list[tuple[int, int]]:
    """Return the ranges of segment ids that were dropped, from the document in which the journal keeps them."""
    gaps: list[tuple[int, int]] = []
    at = 0
    while at + 16 <= len(value):
        gaps.append((int(read_i64_be(value, at)), int(read_i64_be(value, at + 8))))
        at += 16
    return gaps


def document_key() -> bytes:
    """Return the name of the document that lists the dropped segments."""
    return bytes([INTERNAL_KIND]) + GAPS_KEY
