"""A client leaves for another broker because it was asked to, and notices nothing but that.

ActiveMQ's clients drop their connection the moment they are asked to move, keep what they had prefetched, and get it
again from the next broker: duplicates (classic.md 2.2, 2.7). So nothing more is delivered first, until the client has
settled what it holds and has no open transaction; then it is told. From then on what asks for an answer is left undone
and unanswered, for the client will ask the next broker again; what asks for none is still done. A client that stays
nevertheless (the head of its shuffled list is where it is, or it prefers this broker) is disconnected: its list
leads to where it should go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from entrepot.base.environment import MILLISECOND, Instant

if TYPE_CHECKING:
    from entrepot.protocols.openwire.server import OpenWireSession

OBEY_PATIENCE: Final = 700 * MILLISECOND  # between being told and going: a few round trips, and a slow collector


class Departure:
    """One client on its way to the broker at ``to``. ``told``: it knows; ``gone``: its connection ended."""

    def __init__(self, session: OpenWireSession, to: str, brokers: str, now: Instant) -> None:
        """``brokers``: what the client should know on its way."""
        self.session: Final = session
        self.to: Final = to
        self.brokers: Final = brokers
        self.since: Final = now
        self.told = False
        self.told_at: Instant = 0
        session.hold_back(self)

    @property
    def gone(self) -> bool:
        """Whether the connection has ended."""
        return self.session.released or self.session.closing

    def advance(self, now: Instant) -> None:
        """Go on: tell the client when it holds nothing, end its connection when it does not listen."""
        session = self.session
        if self.gone:
            return
        if not self.told:
            if not session.transactions and session.unsettled() == 0 and not session.held:
                self.told = True
                self.told_at = now
                session.send_away(self.to, self.brokers)
        elif now - self.told_at >= OBEY_PATIENCE:
            session.shut("the client was asked to move to another broker", now)
            session.note()

    def cancel(self) -> None:
        """It stays."""
        self.session.hold_back(None)
