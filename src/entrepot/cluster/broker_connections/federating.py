"""What a federation over AMQP wants to be fetched, kept up to date by what is wanted here (artemis.md 4.13).

A queue is read at the other side while consumers read the queue of that name here, an address while a queue of
multicast is bound to it, and a policy means it. Which those are, federation over CORE says too (`Demand`): there is one
for each policy, since each has properties of its own. An address that several policies mean is read once, or its
messages would come several times: for the policy that came first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from entrepot.cluster.broker_connections.options import FetchPolicy
from entrepot.cluster.broker_connections.wanted import FetchWish
from entrepot.cluster.broker_connections.wanted import Wish as LinkWish
from entrepot.cluster.federation.demand import Demand
from entrepot.cluster.federation.options import UpstreamEntry, UpstreamOptions
from entrepot.cluster.federation.policies import Wish
from entrepot.core.broker import BrokerCore
from entrepot.model.address import Destination
from entrepot.protocols.amqp.calling.federating import AddressFetch, Fetch, Pace


class Federating:
    """Of one connection. ``wishes``: links to have, others beside these; ``changed`` is called when they are others."""

    def __init__(self, broker: BrokerCore, name: str, wishes: dict[str, LinkWish], changed: Callable[[], None]) -> None:
        """``name``: of the federation."""
        self.broker: Final = broker
        self.name: Final = name
        self.wishes: Final = wishes
        self._changed: Final = changed
        self._demands: Final[dict[str, tuple[FetchPolicy, Demand]]] = {}

    def add(self, policy: FetchPolicy) -> None:
        """Note who wants what ``policy`` means, and hear what becomes of it.

        One of its name goes, and it has the place of that among the others.
        """
        had = self._demands.get(_key(policy))
        if had is not None:
            had[1].end()
        demand = Demand(self.broker, _upstream(self.name, policy), self._look)
        self._demands[_key(policy)] = (policy, demand)
        demand.begin()
        if had is not None:
            self._look()

    def follows(self, policy: FetchPolicy) -> bool:
        """Return whether it follows one of the name of ``policy``."""
        return _key(policy) in self._demands

    def has(self, policy: FetchPolicy) -> bool:
        """Return whether it follows ``policy`` already."""
        had = self._demands.get(_key(policy))
        return had is not None and had[0] == policy

    @property
    def policies(self) -> list[FetchPolicy]:
        """Return what it follows, in the order in which it came."""
        return [policy for policy, _ in self._demands.values()]

    def end(self) -> None:
        """Want nothing any more."""
        for _, demand in self._demands.values():
            demand.end()

    def _look(self) -> None:
        """Something is wanted, or is not any more: see what is now."""
        found: dict[str, FetchWish] = {}
        read: set[str] = set()
        for policy, demand in self._demands.values():
            for wish in demand.wishes.values():
                if wish.policy is not None and wish.address in read:
                    continue
                fetch = self._queue_fetch(policy, wish) if wish.policy is None else self._address_fetch(policy, wish)
                fetch.headers = wish.headers
                made = FetchWish(fetch)
                found[made.key] = made
            if policy.addresses is not None:
                read.update(wish.address for wish in demand.wishes.values())
        wishes = self.wishes
        for key in [key for key, wish in wishes.items() if isinstance(wish, FetchWish) and key not in found]:
            del wishes[key]
        for key, made in found.items():
            known = wishes.get(key)
            if not isinstance(known, FetchWish) or not known.fetch.alike(made.fetch):
                wishes[key] = made
        self._changed()

    def _queue_fetch(self, policy: FetchPolicy, wish: Wish) -> Fetch:
        queue = self.broker.table.queues.get(wish.local)
        lets_in = "" if queue is None else str(queue.definition.selector)
        selector = wish.selector or lets_in
        if wish.selector and lets_in:
            selector = f"({lets_in}) AND ({wish.selector})"
        where = Destination(wish.address, wish.routing, False, wish.local)
        return Fetch(where, selector, wish.priority, policy.name, _pace(policy))

    def _address_fetch(self, policy: FetchPolicy, wish: Wish) -> Fetch:
        said = policy.addresses
        assert said is not None
        node = self.broker.ids.node.uuid_text
        there = f"federation.{self.name}.policy.{said.name}.address.{wish.address}.node.{node}"
        ends: dict[str, object] = {
            "auto-delete": said.auto_delete,
            "auto-delete-delay": said.auto_delete_delay_ms,
            "auto-delete-msg-count": said.auto_delete_messages,
        }
        return AddressFetch(wish.address, there, said.max_hops, ends, policy.name, _pace(policy))


def _pace(policy: FetchPolicy) -> Pace:
    said = policy.options
    return Pace(said.credit, min(said.credit_low, said.credit - 1), 0 if said.credit else said.pull, said.large_octets)


def _key(policy: FetchPolicy) -> str:
    """Return what tells a policy from others: those of queues and those of addresses may be called alike."""
    return f"{'queues' if policy.addresses is None else 'addresses'} {policy.name}"


def _upstream(federation: str, policy: FetchPolicy) -> UpstreamEntry:
    return UpstreamEntry(
        federation=federation,
        options=UpstreamOptions(name=policy.name),
        queues=() if policy.queues is None else (policy.queues,),
        addresses=() if policy.addresses is None else (policy.addresses,),
    )
