"""A connection of ``<broker-connections>``, as operators start and stop it."""

from __future__ import annotations

from typing import Final

from entrepot.base.environment import MILLISECOND, SECOND, Duration, Instant
from entrepot.cluster.broker_connections.connection import BrokerConnection, options_for
from entrepot.cluster.broker_connections.options import AmqpConnectionEntry
from entrepot.cluster.dialled import Perform, Say, report_at_rest
from entrepot.cluster.link import LinkCore, LinkOptions, State
from entrepot.core.broker import BrokerCore
from entrepot.protocols.session import NEVER

INTERVAL: Final = 20 * SECOND  # of supervision: the session gives up a silent peer before three of these
PATIENCE: Final = 30 * SECOND  # with a peer that does not answer, or does not let this broker in


def _interval(entry: AmqpConnectionEntry) -> Duration:
    """Return how often the link looks whether the peer lives: it waits longer than the session, which is told more."""
    return max(INTERVAL, int(options_for(entry).idle_ms) * MILLISECOND // 2)


class AmqpConnector:
    """One of them. ``connection`` while it is started; ``since``: when it was started or stopped, NEVER before that."""

    def __init__(self, entry: AmqpConnectionEntry, doubts: dict[int, None] | None = None) -> None:
        """``doubts``: messages that some peer may have, see `LinkCore`. They outlive a connection that is stopped."""
        self.entry: Final = entry
        self.name: Final = entry.name
        self.auto_start = entry.options.auto_start
        self.connection: BrokerConnection | None = None
        self.doubts: Final[dict[int, None]] = {} if doubts is None else doubts
        self.started = False
        self.since: Instant = NEVER
        self.returns = True
        """Whether it may be started again, or has a successor: what the other side keeps for it stays there then."""

    def start(self, broker: BrokerCore, perform: Perform, say: Say, now: Instant, interval: Duration = 0) -> None:
        """Dial. ``interval``: of supervision, 0: as is usual."""
        if self.connection is not None:
            self.connection.close("it begins anew", now)
        self.started = True
        self.since = now
        options = LinkOptions(
            reconnect=self.entry.options.reconnection(),
            interval=interval or _interval(self.entry),
            patience=PATIENCE,
            language="AMQP",
        )
        link = LinkCore(self.name, broker, options, self.entry.places, self.doubts)
        self.connection = BrokerConnection(broker, self.entry, link, perform, say)
        self.connection.parted = self._parted
        self.connection.begin(now)

    def _parted(self) -> None:
        self.connection = None

    @property
    def is_open(self) -> bool:
        """Return whether it is connected at this moment."""
        return self.connection is not None and self.connection.link.state is State.OPEN

    @property
    def place(self) -> str:
        """Where it leads, without secrets."""
        return ", ".join(place.masked() for place in self.entry.places)

    def leave(self, now: Instant) -> None:
        """End it when all that is on its way arrived. It may be started again."""
        self._stopped(now)
        if self.connection is not None:
            self.connection.returns = self.returns
            self.connection.leave(now)

    def drain(self, now: Instant) -> bool:
        """Take no more; return whether nothing is on its way any more."""
        if self.connection is not None and self.started:
            self.leave(now)
        return self.connection is None

    def stop(self, now: Instant) -> None:
        """End it now: what is on its way is in its queues again."""
        self._stopped(now)
        if self.connection is not None:
            self.connection.close("the broker stops", now)

    def _stopped(self, now: Instant) -> None:
        if self.started:
            self.since = now
        self.started = False

    def report(self, now: Instant) -> dict[str, object]:
        """Return what an operator wants to know of it."""
        if self.connection is not None:
            return self.connection.report(now)
        since_ms = (now - self.since) // MILLISECOND if self.since <= now else -1
        return report_at_rest(self.name, "amqp", self.place, "stopped", since_ms, initiator=True)
