"""A client leaves for another broker because it was asked to, and notices nothing but that.

ActiveMQ's clients drop their connection the moment they are asked to move, keep what they had prefetched, and get it
again from the next broker: duplicates (classic.md 2.2, 2.7). So nothing more is delivered first, until the client has
settled what it holds and has no open transaction; then it is told. From then on what asks for an answer is left undone
and unanswered, for the client will ask the next broker again; what asks for none is still done. A client that stays
nevertheless (the head of its shuffled list is where it is, or it prefers this broker) is disconnected: its list
leads to where it should go.
"""

from __future__ import annotations

from typing import Final

from entrepot.base.environment import MILLISECOND, Instant
from entrepot.protocols.openwire.steering import Cluster, Steering
from entrepot.protocols.serving.confirmations import Settled

OBEY_PATIENCE: Final = 700 * MILLISECOND  # between being told and going: a few round trips, and a slow collector


class Departure(Settled):
    """One client on its way to the broker at ``to``. ``told``: it knows; ``gone``: its connection ended."""

    def __init__(self, client: Steering, cluster: Cluster, to: str, brokers: str, now: Instant) -> None:
        """``brokers``: what the client should know on its way."""
        self.client: Final = client
        self.cluster: Final = cluster
        self.to: Final = to
        self.brokers: Final = brokers
        self.since: Final = now
        self.told = False
        self.told_at: Instant = 0
        client.hold_back(self)

    @property
    def gone(self) -> bool:
        """Whether the connection has ended."""
        session = self.client.session
        return session.released or session.closing

    def settled(self) -> None:
        """No answer waits for the disk any more."""
        self.advance(int(self.client.session.broker.now))

    def advance(self, now: Instant) -> None:
        """Go on: tell the client when it holds nothing, end its connection when it does not listen."""
        client = self.client
        if self.gone:
            return
        if not self.told:
            if client.is_idle():
                self.told = True
                self.told_at = now
                client.send_away(self.cluster, self.to, self.brokers)
        elif now - self.told_at >= OBEY_PATIENCE:
            client.session.shut("the client was asked to move to another broker", now)
            client.session.note()

    def cancel(self) -> None:
        """It stays."""
        self.client.hold_back(None)
