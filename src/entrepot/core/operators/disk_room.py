"""How much of its disk a broker may take, and has taken, as operators are told."""

from __future__ import annotations

from typing import Final

from entrepot.core.broker import BrokerCore
from entrepot.journal.limits import NO_LIMIT, SHARE


class DiskRoom:
    """Of one broker. Limits are octets, 0 for none or where the disk is not known; usages 0 to 1."""

    def __init__(self, broker: BrokerCore) -> None:
        self._broker: Final = broker

    def limit(self) -> int:
        """Return how much the journal may take: of the disk where there is no limit."""
        limits = self._broker.journal.space.limits
        return _told(min(int(limits.store), int(limits.capacity) or int(limits.store)))

    def usage(self) -> float:
        """Return how much of that is taken."""
        most = self.limit()
        return int(self._broker.journal.space.limits.stored) / most if most > 0 else 0.0

    def temp_limit(self) -> int:
        """Return how much of it may be taken by what may be lost."""
        return _told(int(self._broker.journal.space.limits.temp_now))

    def temp_usage(self) -> float:
        """Return how much of that is taken."""
        most = self.temp_limit()
        return int(self._broker.journal.space.paged()) / most if most > 0 else 0.0


def _told(limit: int) -> int:
    return 0 if limit >= NO_LIMIT // SHARE else limit
