"""What one pass over a journal finds, kept until all of it was read. [C]"""

from __future__ import annotations

from mypy_extensions import i64

from entrepot.journal.index import LIVE, Segment
from entrepot.journal.ports import RecoverySink


class Collected(RecoverySink):
    """Keeps what it is told, to be sorted by number."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, int, int, int, int, int]] = []

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
        """Keep one row."""
        self.rows.append(
            (int(number), int(queue_id), int(priority), int(expiration), int(deliveries), int(size), int(deliver_at))
        )


def rising(segment: Segment) -> bool:
    """Say whether the messages stand in the file in the order of their numbers, as nearly always."""
    slot: i64 = 1
    while slot < segment.count:
        if segment.offsets[slot] < segment.offsets[slot - 1]:
            return False
        slot += 1
    return True


def lowest_live(segment: Segment) -> i64:
    """Return the number of the first live message of ``segment``, which has one."""
    slot: i64 = 0
    while slot < segment.count and segment.states[slot] != LIVE:
        slot += 1
    return segment.numbers[slot]


def highest_live(segment: Segment) -> i64:
    """Return the number of the last live message of ``segment``, which has one."""
    slot = segment.count - 1
    while slot > 0 and segment.states[slot] != LIVE:
        slot -= 1
    return segment.numbers[slot]
