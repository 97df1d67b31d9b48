"""The federation of one connection that this broker dialled: its control link, what it fetches, what it orders (4.13).

Nothing is fetched before the control link is there, by which the other side knows that the connection is one of a
federation. When that link ends, it is asked for again as any other.
"""

from __future__ import annotations

from typing import Final, Protocol

from entrepot.cluster.broker_connections.federating import Federating
from entrepot.cluster.broker_connections.options import FederationEntry
from entrepot.cluster.broker_connections.ordering import Ordering
from entrepot.cluster.broker_connections.wanted import ControlWish, FetchWish, Wish
from entrepot.core.broker import BrokerCore
from entrepot.protocols.amqp.calling.session import AmqpCaller


class Holder(Protocol):
    """The connection, as far as its federation asks it."""

    def attached(self, key: str) -> None:
        """The other side has the other end of a link."""

    def unlinked(self, key: str, why: str) -> None:
        """A link has ended."""

    def soon(self) -> None:
        """What is wanted is something else now."""


class Federation:
    """Of one connection. ``wishes``: the links to have, others beside these."""

    def __init__(self, broker: BrokerCore, entry: FederationEntry, wishes: dict[str, Wish], holder: Holder) -> None:
        self.entry: Final = entry
        self._wishes: Final = wishes
        self._holder: Final = holder
        self._wish: Final = ControlWish(entry.name)
        self._federating: Final = Federating(broker, entry.name, wishes, holder.soon)
        self._ordering: Ordering | None = None
        self._ready = False  # the other side has the other end of the control link

    def begin(self) -> None:
        """Want the control link, and what the policies of the file mean."""
        self._wishes[self._wish.key] = self._wish
        for policy in self.entry.policies:
            self._federating.add(policy)

    def end(self) -> None:
        """Want nothing any more."""
        self._federating.end()

    def may_be(self, wish: Wish) -> bool:
        """Return whether a link can be asked for now."""
        if isinstance(wish, ControlWish):
            return self._ordering is None
        return self._ready or not isinstance(wish, FetchWish)

    def ask(self, caller: AmqpCaller, name: str) -> None:
        """Ask for the control link."""
        self._ordering = Ordering(caller, self.entry, self._begun, self._over)
        self._ordering.ask(name)

    def _begun(self) -> None:
        self._ready = True
        self._holder.attached(self._wish.key)
        self._holder.soon()

    def _over(self, why: str) -> None:
        self.lost()
        self._holder.unlinked(self._wish.key, why)

    def lost(self) -> None:
        """The control link is gone, perhaps with its connection."""
        self._ordering = None
        self._ready = False
