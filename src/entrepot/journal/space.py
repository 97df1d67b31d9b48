"""How much of the disk the journal takes at this moment, against its limits. [C]"""

from __future__ import annotations

from mypy_extensions import i64

from entrepot.journal.index import TRANSIENT
from entrepot.journal.limits import StoreLimits
from entrepot.journal.overflow import Overflow
from entrepot.journal.tail import Tail


class Space:
    """Counts what is stored and what is paged, records and bodies, and compares it with ``limits``."""

    def __init__(self, tail: Tail, overflow: Overflow) -> None:
        self.tail: Tail = tail
        self.overflow: Overflow = overflow
        self.limits: StoreLimits = StoreLimits()
        self._paged_bodies: i64 = 0

    def temp_full(self) -> bool:
        """Say whether what may be lost has taken its share of the disk: `page` no more, let producers wait."""
        return self.paged() >= self.limits.temp_now

    def paged(self) -> i64:
        """Return the octets on disk of what is forgotten at the next start."""
        return self.tail.index.paged_bytes + self._paged_bodies

    def measure(self) -> bool:
        """Compare with the limits; True when that something may be stored begins or ends.

        For now and then: linear in the number of segments and of large bodies, and it asks the disk.
        """
        index = self.tail.index
        bodies: i64 = 0
        for size in self.overflow.sizes.values():
            bodies += size
        paged: i64 = 0
        for number, blob in index.blob_of.items():
            segment = index.find(number)
            if segment is not None and segment.states[index.slot] == TRANSIENT:
                paged += self.overflow.sizes.get(blob, 0)
        self._paged_bodies = paged
        stored = index.live_bytes() - index.paged_bytes + bodies - paged
        return self.limits.measure(stored, self.paged(), index.disk + bodies, self.tail.port.space())
