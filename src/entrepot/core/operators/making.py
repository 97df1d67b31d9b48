"""What an operator makes and removes by messages: addresses and queues, with the answers of Artemis (artemis.md 7.2).

An address that an operator made stays until he removes it, restarts included.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from entrepot.base.errors import InvalidDestination
from entrepot.base.patterns import MIXED, is_pattern
from entrepot.core.addressing.binding import Address
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.broker import BrokerCore
from entrepot.core.operators import upkeep, words
from entrepot.core.operators.address_control import address_named
from entrepot.core.operators.asked import Asked, asked_change, asked_queue, changed
from entrepot.core.operators.control import Counted, Several
from entrepot.core.operators.listing import Arguments
from entrepot.core.operators.queue_control import find_queue
from entrepot.core.operators.tables import queues_of, routing_types
from entrepot.core.operators.traits import configuration, queue_text
from entrepot.core.operators.upkeep import Purge
from entrepot.core.queue.queue import Queue
from entrepot.model.address import ANYCAST, ROUTING_NAMES, parse_one
from entrepot.model.predicate import compile_selector

MISSING, SAME, OTHER, THERE = "missing", "same", "other", "there"
BITS: Final = {"MULTICAST": 1, "ANYCAST": 2}


class Making:
    """The verbs of ``broker`` that make and remove."""

    def __init__(self, broker: BrokerCore) -> None:
        self.broker: Final = broker

    # -- addresses -----------------------------------------------------------------------------------------------------

    def address_to_make(self, given: Arguments) -> tuple[str, int]:
        """Return name and routing types of what `create_address` makes. Raises InvalidDestination, Refused."""
        name, bits = given.text(0), _bits(given.text(1))
        if name in self.broker.table.addresses or self.broker.addresses.service_at(name) is not None:
            raise words.address_exists(name)
        parse_one(name, ANYCAST)
        return name, bits

    def create_address(self, given: Arguments) -> str:
        """Take (name, routing types with commas between)."""
        name, bits = self.address_to_make(given)
        self.broker.queues.declare(name, bits)
        return address_text(self.broker, self.broker.table.address(name))

    def address_to_change(self, given: Arguments) -> tuple[Address, int]:
        """Return what `update_address` changes, and its routing types then. Raises InvalidDestination, Refused."""
        address, bits = address_named(self.broker, given.text(0)), _bits(given.text(1))
        for routing, queues in (("ANYCAST", address.anycast), ("MULTICAST", address.multicast)):
            if queues and not bits & BITS[routing]:
                raise words.type_in_use(address.name, routing)
        return address, bits

    def update_address(self, given: Arguments) -> str:
        """Take (name, routing types): those that it has from now on."""
        address, bits = self.address_to_change(given)
        self.broker.queues.declare(address.name, bits)
        return address_text(self.broker, address)

    def address_to_delete(self, given: Arguments) -> tuple[Address, list[Queue]]:
        """Return what `delete_address` removes. Raises InvalidDestination, Refused."""
        address = address_named(self.broker, given.text(0))
        queues = queues_of(address)
        if queues and not given.flag(1, False):
            raise words.has_bindings(address.name)
        return address, queues

    def delete_address(self, given: Arguments) -> object:
        """Take (name [, its queues too])."""
        broker = self.broker
        address, queues = self.address_to_delete(given)

        def rest() -> None:
            broker.queues.undeclare(address)

        if not queues:
            rest()
            return None
        return _Silent(Several([self._removal(queue) for queue in queues]), rest)

    # -- queues --------------------------------------------------------------------------------------------------------

    def create_queue(self, given: Arguments) -> str | None:
        """Make a queue; take one of Artemis' forms (`asked`). Answer with what it is, where the form has an answer."""
        wanted = asked_queue(given)
        queue = self._existing(wanted)
        if queue is None:
            made, types = self._to_make(wanted)
            if types:
                self.broker.queues.declare(made.address, types)
            queue = self.broker.queues.create(made)
        return _answer(wanted, queue)

    def describe_to_make(self, given: Arguments) -> str:
        """Return what a `create_queue` would find, `MISSING`, `SAME` or `OTHER`; raises what that would. Makes nothing.

        For several processes that are one broker: each is asked before one of them makes it (`rehearsing`).
        """
        wanted = asked_queue(given)
        queue = self._existing(wanted)
        if queue is None:
            self._to_make(wanted)
            return MISSING
        had, made = queue.definition, self._placed(wanted.definition)
        if made.selector:
            made = replace(made, selector=compile_selector(made.selector).text)
        alike = replace(made, auto_created=had.auto_created, configured=had.configured, user=had.user) == had
        return SAME if alike else OTHER

    def _existing(self, wanted: Asked) -> Queue | None:
        """Return the queue of that name. Raises InvalidDestination where there is one, and that is an error."""
        name = wanted.definition.name
        queue = self.broker.table.queues.get(name)
        if queue is not None and wanted.minds:
            raise words.queue_exists(name, queue.address)
        return queue

    def _placed(self, definition: QueueDefinition) -> QueueDefinition:
        """Return it with its name and address as they are kept. Raises InvalidDestination."""
        place = parse_one(f"{definition.address}::{definition.name}", definition.routing)  # checks both names
        if definition.routing == ANYCAST and is_pattern(place.name, MIXED):
            raise InvalidDestination(f"{place.name!r} is a wildcard", remedy="only a topic may be one")
        return replace(definition, name=place.queue, address=place.name)

    def _to_make(self, wanted: Asked) -> tuple[QueueDefinition, int]:
        """Return what is to be made, and the routing types that its address gets, 0: none. Raises as `_types`."""
        made = self._placed(wanted.definition)
        return made, self._types(made.address, made.routing, wanted.said.get("auto-create-address"))

    def _types(self, name: str, routing: int, creates: object) -> int:
        """See that an address which was made for some routing types has that of a new queue; 0 where it does.

        Else return those that it is to have. ``creates``: whether the address may be changed for it, None: as its
        settings say. Raises InvalidDestination.
        """
        table = self.broker.table
        declared = table.declared.get(name, 0)
        bit = BITS[ROUTING_NAMES[routing]]
        may = self.broker.policies.of(name).given.auto_create_addresses if creates is None else bool(creates)
        if name not in table.addresses and not may:
            raise words.no_address(name)
        if name not in table.addresses or declared == 0 or declared & bit:
            return 0
        if may:
            return declared | bit
        known = "{" + ",".join(routing_types(self.broker, table.addresses[name])) + "}"
        raise words.type_not_there(name, ROUTING_NAMES[routing], known)

    def queue_asked_for(self, given: Arguments) -> Queue:
        """Return which queue `update_queue` is about. Raises InvalidDestination, Refused."""
        name = str(asked_change(given).said.get("name") or "")
        queue = self.broker.table.queues.get(name)
        if queue is None:
            raise words.no_queue(self.broker, name)
        return queue

    def queue_to_change(self, given: Arguments) -> tuple[Queue, QueueDefinition]:
        """Return what `update_queue` changes, and what it is then.

        Raises InvalidDestination, InvalidSelector, Refused.
        """
        queue = self.queue_asked_for(given)
        definition = changed(queue.definition, asked_change(given))
        definition.check()
        if definition.selector:
            compile_selector(definition.selector)
        return queue, definition

    def update_queue(self, given: Arguments) -> str | None:
        """Change what is said of a queue that exists (`asked`); what is not said stays."""
        queue, definition = self.queue_to_change(given)
        self.broker.queues.redefine(queue, definition)
        return _answer(asked_change(given), queue, updated=True)

    def queue_named(self, given: Arguments) -> Queue:
        """Return which queue `destroy_queue` is about. Raises InvalidDestination, Refused."""
        name = given.text(0)
        if name not in self.broker.table.queues and parse_one(name, ANYCAST).name not in self.broker.table.addresses:
            raise words.no_queue(self.broker, name)
        return find_queue(self.broker, name)

    def queue_to_destroy(self, given: Arguments) -> Queue:
        """Return what `destroy_queue` removes. Raises InvalidDestination, Refused."""
        queue = self.queue_named(given)
        if given.flag(3, False) and queue.count > 0:
            raise words.has_messages(queue.name, int(queue.count))
        if not given.flag(1, False) and (queue.roster.is_read() or self.broker.leases.on(queue)):
            raise words.has_consumers(queue.name)
        return queue

    def destroy_queue(self, given: Arguments) -> Counted:
        """Take (name [, remove its consumers [, its address too, which always goes when empty [, only if empty]]])."""
        return self._removal(self.queue_to_destroy(given))

    def _removal(self, queue: Queue) -> Counted:
        broker = self.broker
        purge = Purge(broker, queue.name)

        def rest() -> None:
            if broker.table.queues.get(queue.name) is queue:
                purge.progress.messages += upkeep.delete(broker, queue.name)

        return Counted(purge, rest)


class _Silent:
    """Work whose answer is nothing; ``rest`` is done when it is over."""

    def __init__(self, work: Several, rest: object) -> None:
        self.work = work
        self.rest = rest

    def step(self) -> bool:
        """Do a part."""
        done = self.work.step()
        if done and callable(self.rest):
            self.rest()
        return done

    def result(self) -> object:
        """Return nothing."""
        return None


def address_text(broker: BrokerCore, address: Address) -> str:
    """Return ``address`` as Artemis writes one."""
    types = ",".join(routing_types(broker, address))
    made = str(not address.created_by_operator).lower()
    return f"Address [name={address.name}, routingTypes={{{types}}}, autoCreated={made}]"


def _bits(text: str) -> int:
    bits = 0
    for word in text.split(","):
        if word.strip().upper() not in BITS:
            raise words.no_type(word.strip())
        bits |= BITS[word.strip().upper()]
    return bits


def _answer(wanted: Asked, queue: Queue, *, updated: bool = False) -> str | None:
    if wanted.answer == "json":
        return configuration(queue, updated=updated)
    return queue_text(queue) if wanted.answer else None
