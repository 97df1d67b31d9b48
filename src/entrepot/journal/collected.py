"""What one pass over a journal finds, kept until all of it was read. [C]"""

from __future__ import annotations

from mypy_extensions import i64

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
