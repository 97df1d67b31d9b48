"""The resource ``address.X``: one address with its queues."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from entrepot.core.addressing.binding import Address, Binding
from entrepot.core.broker import BrokerCore
from entrepot.core.operators import upkeep, words
from entrepot.core.operators.census import Census
from entrepot.core.operators.control import Control, Counted, Several, json_of
from entrepot.core.operators.limiting import tune
from entrepot.core.operators.listing import Arguments
from entrepot.core.operators.posting import post
from entrepot.core.operators.replaying import replay
from entrepot.core.operators.roles import role_rows, roles
from entrepot.core.operators.tables import filled, is_paging, is_paused, queues_of, remembered_ids, routing_types
from entrepot.core.operators.upkeep import Purge
from entrepot.core.queue.queue import Queue
from entrepot.model.address import ANYCAST, MULTICAST, ROUTING_NAMES, Destination

IDS_AT_ONCE: Final = 500


class Forgetting:
    """Forgets the duplicate ids of an address, in steps: each may be a record of the journal."""

    def __init__(self, broker: BrokerCore, address: str) -> None:
        self.broker = broker
        self.address = address

    def step(self) -> bool:
        """Do a part."""
        duplicates = self.broker.sending.duplicates
        return not all(duplicates.forget_one(self.address) for _ in range(IDS_AT_ONCE))

    def result(self) -> object:
        """Return that it is done."""
        return True


class AddressControl(Control):
    """The resource ``address.X``: one address with its queues."""

    def __init__(self, broker: BrokerCore, census: Census, name: str) -> None:
        super().__init__(broker, census)
        self.address: Address = address_named(broker, name)
        self.kind = f"the address {name!r}"

    def queues(self) -> list[Queue]:
        """Return what is bound to it."""
        return queues_of(self.address)

    def attributes(self) -> Mapping[str, Callable[[], object]]:
        """Return what can be asked for."""
        broker, address = self.broker, self.address
        return {
            "id": lambda: address.name,
            "address": lambda: address.name,
            "routingTypes": lambda: routing_types(broker, address),
            "routingTypesAsJSON": lambda: json_of(routing_types(broker, address)),
            "queueNames": lambda: [queue.name for queue in self.queues()],
            "allQueueNames": lambda: [queue.name for queue in self.queues()],
            "remoteQueueNames": lambda: [one.queue.name for one in self._bindings() if one.distance > 0],
            "bindingNames": self._binding_names,
            "queueCount": lambda: len(self.queues()),
            "messageCount": lambda: sum(int(queue.count) for queue in self.queues()),
            "numberOfMessages": lambda: sum(int(queue.count) for queue in self.queues()),
            "routedMessageCount": lambda: int(address.routed),
            "unRoutedMessageCount": lambda: int(address.unrouted),
            "addressSize": lambda: sum(int(queue.backlog.octets) for queue in self.queues()),
            "addressLimitPercent": lambda: max((filled(queue) for queue in self.queues()), default=0),
            "paging": lambda: is_paging(address),
            "paused": lambda: is_paused(address),
            "blocked": lambda: address.name in broker.table.blocked,
            "autoCreated": lambda: not address.created_by_operator,
            "internal": lambda: False,
            "temporary": lambda: any(queue.temporary for queue in self.queues()),
            "retroactiveResource": lambda: False,
            "currentDuplicateIdCacheSize": lambda: remembered_ids(broker, address),
            "roles": lambda: role_rows(broker, address.name),
            "rolesAsJSON": lambda: json_of(roles(broker, address.name)),
        }

    def operations(self) -> Mapping[str, Callable[[Arguments], object]]:
        """Return what can be done to all queues of an address."""
        return {
            "block": self._block,
            "unblock": self._unblock,
            "pause": self._pause,
            "resume": self._resume,
            "purge": self._purge,
            "clearDuplicateIdCache": self._forget_ids,
            "tune": lambda given: tune(self.broker, self.address, given),
            "replay": lambda given: replay(self.broker, self.census, given, address=self.address.name),
            "sendMessage": lambda given: post(self.broker, Destination(self.address.name, self._routing()), given),
        }

    def _binding_names(self) -> list[str]:
        """Return what is bound here: queues, and diverts."""
        diverts = self.broker.table.diverts.get(self.address.name, ())
        return [queue.name for queue in self.queues()] + [one.name for one in diverts]

    def _routing(self) -> int:
        """Return whom a message of nobody's is for: all subscribers where there are queues of such, else one queue."""
        types = routing_types(self.broker, self.address)
        return MULTICAST if types == [ROUTING_NAMES[MULTICAST]] else ANYCAST

    def _forget_ids(self, given: Arguments) -> Forgetting:
        """Forget them; the answer is whether that was done."""
        return Forgetting(self.broker, self.address.name)

    def _bindings(self) -> list[Binding]:
        address = self.address
        groups = [address.anycasts, *address.multicasts.values()]
        return [one for group in groups for one in group.bindings]

    def _block(self, given: Arguments) -> bool:
        """Let its producers wait until `_unblock`, or the next start; the answer is whether that was done."""
        self.broker.flow.block(self.address.name)
        return True

    def _unblock(self, given: Arguments) -> None:
        self.broker.flow.unblock(self.address.name)

    def _pause(self, given: Arguments) -> None:
        for queue in self.queues():
            upkeep.pause(self.broker, queue.name)

    def _resume(self, given: Arguments) -> None:
        for queue in self.queues():
            upkeep.resume(self.broker, queue.name)

    def _purge(self, given: Arguments) -> Several:
        return Several([Counted(Purge(self.broker, queue.name)) for queue in self.queues()])


def address_named(broker: BrokerCore, name: str) -> Address:
    """Return the address ``name``. Raises InvalidDestination when there is none."""
    address = broker.table.addresses.get(name)
    if address is None:
        raise words.no_address(name)
    return address
