"""The connections over AMQP of one broker. Few have any: what carries them out is loaded by the first one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from entrepot.cluster.fetching import replaced

if TYPE_CHECKING:
    from entrepot.base.environment import Instant
    from entrepot.cluster.broker_connections.connector import AmqpConnector
    from entrepot.cluster.broker_connections.options import AmqpConnectionEntry
    from entrepot.cluster.broker_connections.telling import Telling
    from entrepot.core.broker import BrokerCore


class Calls:
    """``connectors``: all, started or not. ``doubts``: messages that some peer may have; any may send them next."""

    def __init__(self, entries: Sequence[AmqpConnectionEntry]) -> None:
        self.connectors: Final[list[AmqpConnector]] = []
        self.doubts: Final[dict[int, None]] = {}
        self._telling: Telling | None = None
        self.follow(entries, 0)

    def mirror(self, broker: BrokerCore) -> None:
        """Tell those that this broker mirrors itself into what happens here from now on, and no others."""
        wanted = {one.name: one.entry.mirror for one in self.connectors if one.entry.mirror is not None}
        if self._telling is None:
            if not wanted:
                return
            from entrepot.cluster.broker_connections.telling import Telling  # noqa: PLC0415 - see above

            self._telling = Telling(broker)
        self._telling.follow(wanted)

    def follow(self, wanted: Sequence[AmqpConnectionEntry], now: Instant) -> list[AmqpConnector]:
        """Have ``wanted`` in place of what the file said before; return what is new, and to be started."""
        if not wanted and not self.connectors:
            return []
        from entrepot.cluster.broker_connections.connector import AmqpConnector  # noqa: PLC0415 - see above

        read = {one.name for one in wanted if _reads_addresses(one)}
        for one in self.connectors:
            one.returns = one.name in read or not _reads_addresses(one.entry)
        return replaced(self.connectors, wanted, partial(AmqpConnector, doubts=self.doubts), now)


def _reads_addresses(entry: AmqpConnectionEntry) -> bool:
    """Return whether the other side keeps queues by which addresses are read."""
    return entry.federation is not None and any(one.addresses is not None for one in entry.federation.policies)
