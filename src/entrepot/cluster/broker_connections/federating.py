"""What the federation of a connection wants to be fetched, kept up to date by what is read here (artemis.md 4.13).

A queue is read at the other side while consumers read the queue of that name here, and a policy means it. Which those
are, federation over CORE says too (`Demand`): there is one for each policy, since each has properties of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from entrepot.cluster.broker_connections.options import FederationEntry, FetchPolicy
from entrepot.cluster.broker_connections.wanted import ControlWish, FetchWish
from entrepot.cluster.broker_connections.wanted import Wish as LinkWish
from entrepot.cluster.federation.demand import Demand
from entrepot.cluster.federation.options import UpstreamEntry, UpstreamOptions
from entrepot.cluster.federation.policies import Wish
from entrepot.core.broker import BrokerCore
from entrepot.model.address import Destination
from entrepot.protocols.amqp.calling.federating import Fetch


class Federating:
    """Of one connection. ``wishes``: links to have, others beside these; ``changed`` is called when they are others."""

    def __init__(
        self, broker: BrokerCore, entry: FederationEntry, wishes: dict[str, LinkWish], changed: Callable[[], None]
    ) -> None:
        self.broker: Final = broker
        self.wishes: Final = wishes
        self._changed: Final = changed
        self._control: Final = ControlWish(entry.name)
        self._demands: Final = [
            (policy, Demand(broker, _upstream(entry, policy), self._look)) for policy in entry.policies
        ]

    def begin(self) -> None:
        """Note who reads here, and hear what becomes of it."""
        self.wishes[self._control.key] = self._control
        for _, demand in self._demands:
            demand.begin()

    def end(self) -> None:
        """Want nothing any more."""
        for _, demand in self._demands:
            demand.end()

    def _look(self) -> None:
        """Consumers came, or went: see what is wanted now."""
        found: dict[str, FetchWish] = {}
        for policy, demand in self._demands:
            for wish in demand.wishes.values():
                made = FetchWish(self._fetch(policy, wish))
                found[made.key] = made
        wishes = self.wishes
        for key in [key for key, wish in wishes.items() if isinstance(wish, FetchWish) and key not in found]:
            del wishes[key]
        for key, made in found.items():
            wishes.setdefault(key, made)
        self._changed()

    def _fetch(self, policy: FetchPolicy, wish: Wish) -> Fetch:
        queue = self.broker.table.queues.get(wish.local)
        lets_in = "" if queue is None else str(queue.definition.selector)
        selector = wish.selector or lets_in
        if wish.selector and lets_in:
            selector = f"({lets_in}) AND ({wish.selector})"
        where = Destination(wish.address, wish.routing, False, wish.local)
        options = policy.options
        return Fetch(
            where,
            selector,
            wish.priority,
            policy.queues.name,
            options.credit,
            min(options.credit_low, options.credit - 1),
        )


def _upstream(entry: FederationEntry, policy: FetchPolicy) -> UpstreamEntry:
    return UpstreamEntry(
        federation=entry.name, options=UpstreamOptions(name=policy.queues.name), queues=(policy.queues,)
    )
