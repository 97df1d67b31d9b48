"""Addresses that stay when their last queue has gone: ``auto-delete-addresses`` and its delay (artemis.md 4.2).

They were made by themselves and are not on disk, so a restart forgets them. When there are too many, who has most loses
his oldest: one client that makes queues and lets them go pushes out its own, not those of others.
"""

from __future__ import annotations

from typing import Final

from entrepot.core.addressing.binding import Address
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.addressing.policy import Policies
from entrepot.core.addressing.routing import AddressKeeper, RoutingTable
from entrepot.core.events.facts import ADDRESS_REMOVED, AddressFact
from entrepot.core.owners import SubscriptionOwner, connection_of
from entrepot.core.ports import Host
from entrepot.model.address import ANYCAST

KEPT_MAX: Final = 10_000
LOOKS: Final = 500  # at addresses in one sweep: each is reached within 20 s


class Lingering(AddressKeeper):
    """The addresses of one broker that nothing is bound to, and since when (ns).

    ``owners``: whose the last queue of each was; those that sending alone made are all one's. ``held``: those of
    each, oldest first.
    """

    def __init__(self, host: Host, policies: Policies, table: RoutingTable) -> None:
        self.host: Final = host
        self.policies: Final = policies
        self.table: Final = table
        self.since: Final[dict[str, int]] = {}
        self.owners: Final[dict[str, str]] = {}
        self.held: Final[dict[str, dict[str, None]]] = {}

    def keeps(self, address: Address, last: QueueDefinition) -> bool:
        """Say whether ``address``, which is empty now that the queue ``last`` has gone, stays."""
        name = address.name
        policy = self.policies.of(name)
        if policy.given.auto_delete_addresses and policy.given.auto_delete_addresses_delay <= 0:
            return False
        self._forget(name)
        owner = _owner(last)
        if len(self.since) >= KEPT_MAX:
            self._make_room(owner)
        self.since[name] = int(self.host.now)
        self.owners[name] = owner
        self.held.setdefault(owner, {})[name] = None
        return True

    def _make_room(self, owner: str) -> None:
        """Let the oldest one go of who has most, which ``owner`` is about to have one more of."""
        self.host.effort.spent += len(self.held) >> 3
        most = max(self.held, key=lambda each: len(self.held[each]) + (each == owner))
        self._let_go(next(iter(self.held[most])))

    def _forget(self, name: str) -> None:
        if self.since.pop(name, None) is None:
            return
        owner = self.owners.pop(name)
        del self.held[owner][name]
        if not self.held[owner]:
            del self.held[owner]

    def sweep(self) -> None:
        """Let those go whose time is over."""
        for name in list(self.since)[:LOOKS] if self.since else ():
            address = self.table.addresses.get(name)
            if address is None or not address.is_empty or address.created_by_operator:
                self._forget(name)
                continue
            policy = self.policies.of(name)
            waited = int(self.host.now) - self.since[name]
            if policy.given.auto_delete_addresses and waited >= policy.given.auto_delete_addresses_delay:
                self._let_go(name)
            else:
                self.since[name] = self.since.pop(name)  # the others have their turn first

    def _let_go(self, name: str) -> None:
        self._forget(name)
        address = self.table.addresses.get(name)
        if address is not None and address.is_empty and not address.created_by_operator:
            self.table.drop(address)
            self.host.hub.announce(AddressFact(ADDRESS_REMOVED, name, ANYCAST))


def _owner(definition: QueueDefinition) -> str:
    """Return whose that queue was: of the user who made it, or of the client whose subscription it was; "" unknown."""
    if definition.user:
        return f"user {definition.user}"
    owner = definition.owner
    client = owner.client_id if isinstance(owner, SubscriptionOwner) else connection_of(owner)
    return f"client {client}" if client else ""
