"""BrokerCore: the roles of one broker, put together, and the verbs that sessions call most. [C]

A role is an object with its own state and its own module; it takes what it needs of the others, never the whole broker:
`Identities`, `Queues`, `Addresses`, `DeadLetters`, `ScheduledMessages`, `FlowControl`, `Sending`, `Reading`, `Leases`,
`Stages`, `Maintenance`. `Host` (`core/ports.py`) is what all of them share: the time of this turn, the journal, the
memory. Every decision is taken here or below, on one thread; only the sync of the journal happens elsewhere.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import Entropy, Instant, WallTime
from entrepot.base.reasons import Reason
from entrepot.core.addressing.addresses import Addresses
from entrepot.core.addressing.lingering import Lingering
from entrepot.core.addressing.policy import Policies
from entrepot.core.addressing.queues import Queues
from entrepot.core.addressing.routing import RoutingTable, Target
from entrepot.core.client_ids import ClientIds
from entrepot.core.events import trace as facts
from entrepot.core.events.facts import Hub
from entrepot.core.guiding import Guides
from entrepot.core.leases.leases import Leases
from entrepot.core.maintenance import Maintenance
from entrepot.core.notes import Notes
from entrepot.core.options import BrokerOptions
from entrepot.core.ports import CountedMemory, Host, Informant, Memory, Neighbours
from entrepot.core.queue.browser import Browser
from entrepot.core.queue.dead_letters import DeadLetters
from entrepot.core.queue.head import QueueHead
from entrepot.core.queue.queue import UNKNOWN_DELIVERED
from entrepot.core.reading.reading import Reading
from entrepot.core.reading.subscription import Subscription
from entrepot.core.scheduling.schedule import ScheduledMessages
from entrepot.core.security.access import Access
from entrepot.core.security.logins import Logins
from entrepot.core.sending.copies import Copies
from entrepot.core.sending.duplicates import Sequences
from entrepot.core.sending.flow import FlowControl
from entrepot.core.sending.retroaction import Retroaction
from entrepot.core.sending.sending import Sending
from entrepot.core.stages.stage import Stages
from entrepot.core.transactions.branches import Branches
from entrepot.core.transactions.carrying import Completing, Transactions
from entrepot.journal.log import JournalCore
from entrepot.model.address import Destination
from entrepot.model.message import Message
from entrepot.model.predicate import Predicate, compile_selector

ALARMS_A_TURN: Final = 1_000


def memory_of(options: BrokerOptions) -> Memory:
    """Return the memory of a broker that is started with ``options``."""
    if options.messages_max < 0:
        return Memory(options.memory_limit)
    return CountedMemory(options.memory_limit, options.messages_max)


class BrokerCore(Host):
    """One broker. Call `tick` with the time before each stimulus, then a verb, then let the shell flush the journal."""

    def __init__(
        self, journal: JournalCore, options: BrokerOptions, policies: Policies, entropy: Entropy, hub: Hub
    ) -> None:
        super().__init__(journal, memory_of(options), hub, entropy)
        self.options: BrokerOptions = options
        self.policies: Policies = policies
        self.table: RoutingTable = RoutingTable()
        self.table.wildcards = options.wildcards
        self.queues: Queues = Queues(self, policies, self.table)
        self.addresses: Addresses = Addresses(self, self.queues)
        self.letters: DeadLetters = DeadLetters(self, self.queues)
        self.scheduled: ScheduledMessages = ScheduledMessages(self, self.letters)
        self.flow: FlowControl = FlowControl(self, self.table)
        self.sending: Sending = Sending(self, options, self.addresses, self.flow, self.scheduled)
        self.reading: Reading = Reading(self, options, self.sending)
        self.leases: Leases = Leases(self, self.queues)
        self.copies: Copies = Copies(journal)
        self.sequences: Sequences = Sequences(journal)
        self.transactions: Transactions = Transactions(self.sending, self.letters, self.sequences)
        self.stages: Stages = Stages(self, self.sending, self.letters)
        self.lingering: Lingering = Lingering(self, self.policies, self.table)
        self.table.keeper = self.lingering
        self.maintenance: Maintenance = Maintenance(
            self, self.reading, self.leases, self.stages, self.flow, self.lingering
        )
        self.access: Access = Access(self.table, self.addresses.services, Logins(self), hub)
        self.branches: Branches = Branches(self.transactions, self.access)
        self.clients: ClientIds = ClientIds()
        self.neighbours: Neighbours = Neighbours()
        self.informant: Informant = Informant()
        self.guides: Guides = Guides()
        self.notes: Notes = Notes(journal)
        self.temporary_prefix: str = "ID:"
        self.documents: dict[int, dict[bytes, bytes]] = {}  # what the journal has for protocols, until one takes it
        self.addresses.retroactive = Retroaction(self, self.queues)
        self.queues.watchers.append(self.addresses.retroactive)
        self.queues.watchers.append(self.reading)
        self.queues.watchers.append(self.leases)
        self.queues.watchers.append(Completing(self.transactions))

    # -- time ---------------------------------------------------------------------------------------------------------

    def tick(self, now: Instant, wall: WallTime) -> None:
        """A turn begins: ns on the monotonic clock, ms since 1970."""
        self.now = now
        self.wall = wall
        self.effort.begin()
        if self.trace is not None:
            self.trace.tick(now, wall)

    def deadline(self) -> Instant:
        """Return when `advance` must be called next."""
        sweep = self.maintenance.due()
        due = self.timetable.deadline()
        return sweep if due is None else min(due, sweep)

    def advance(self) -> None:
        """Do what is due: delayed and scheduled messages, and now and then a sweep."""
        self.timetable.advance(self.now, ALARMS_A_TURN, self.effort)
        if self.now >= self.maintenance.due():
            self.scheduled.adjust()
            self.maintenance.sweep()

    def cease(self) -> None:
        """The broker stops: hand out nothing any more, before the first consumer is sent away.

        Else what is in flight at one would go to the next, who is there a moment longer: a message group at two
        consumers, a queue at two that are exclusive. Sends are taken and settlements done as before.
        """
        self.ceased = True
        for queue in self.table.queues.values():
            queue.gate.cease()

    def limit_memory(self, octets: i64) -> None:
        """All messages in memory may cost ``octets`` from now on, and what is a share of that follows."""
        self.memory.limit = octets
        self.room.limit(octets)
        self.stages.ledger.measure()
        self.table.version += 1  # producers look again whether there is room

    # -- verbs of sessions; the roles have more ------------------------------------------------------------------------

    def target(self, destinations: list[Destination]) -> Target:
        """Return where sends to ``destinations`` go: `Addresses.target`."""
        return self.addresses.target(destinations)

    def send(self, message: Message, target: Target) -> int:
        """Accept ``message`` for ``target``: `Sending.send`."""
        return self.sending.send(message, target)

    def subscribe(self, subscription: Subscription) -> None:
        """Attach ``subscription`` to every queue that it names: `Reading.subscribe`."""
        self.reading.subscribe(subscription)

    def unsubscribe(self, subscription: Subscription, last_delivered: i64 = UNKNOWN_DELIVERED) -> None:
        """Detach ``subscription``: `Reading.unsubscribe`."""
        self.reading.unsubscribe(subscription, last_delivered)

    def browse(self, destination: Destination, selector: Predicate | None) -> Browser:
        """Return a look through the queue that ``destination`` names: `Reading.browse`."""
        return self.reading.browse([destination], selector)

    # -- what queues ask (Host) ---------------------------------------------------------------------------------------

    def dead_letter(self, queue: QueueHead, message: Message, reason: Reason, deliveries: i64) -> None:
        """Send a copy of ``message`` to the dead-letter address of ``queue``: `DeadLetters.bury`."""
        self.letters.bury(queue, message, reason, deliveries)

    def unrouted(self, message: Message, routing: int) -> None:
        """Send a copy of ``message``, which no queue took, to the dead-letter address: `DeadLetters.bury_unrouted`."""
        self.letters.bury_unrouted(message, routing)

    def expire(self, queue: QueueHead, message: Message) -> None:
        """Send a copy of ``message`` to the expiry address: `DeadLetters.expire`."""
        self.letters.expire(queue, message)

    # -- the end ------------------------------------------------------------------------------------------------------

    def begin_trace(self) -> None:
        """Note that the broker starts; call it when it has a name and its queues."""
        if self.trace is not None:
            self.trace.note(facts.STARTED, self.ids.run, 0, 0, 0)

    def finish_work(self) -> None:
        """Do all that earlier turns left: the broker stops, and nobody waits for a turn any more."""
        while self.effort.waits():
            self.effort.go_on()

    def end_trace(self) -> None:
        """Note what is still here, as the last word before the journal is closed."""
        trace = self.trace
        if trace is None:
            return
        for queue in self.table.queues.values():
            queue.note_pending()
        for lease in self.leases.held.values():
            for number in lease.numbers.values():
                lease.queue.note(facts.PENDING, number, 0, 0)
        for branch in self.branches.prepared.values():
            for hold in branch.holds:
                hold.queue.note(facts.PENDING, hold.number, 0, 0)
        trace.note(facts.STOPPED, self.ids.run, 0, 0, 0)
        trace.flush()

    def check(self) -> None:
        """Assert the invariants of every queue, of the memory account and of the journal."""
        held: dict[int, Message] = {}
        for queue in [*self.table.queues.values(), *self.queues.removals.values()]:
            queue.check()
            for reference in queue.backlog.references():
                held[id(reference.message)] = reference.message
            for reference in queue.returns.delayed.values():
                held[id(reference.message)] = reference.message
            for consumer in queue.roster.consumers:
                for reference in consumer.in_flight.values():
                    held[id(reference.message)] = reference.message
            if queue.backlog.owed is not None:
                for message in queue.backlog.owed.messages():
                    held[id(message)] = message
            for reference in queue.promised.values():
                held[id(reference.message)] = reference.message
        for lease in self.leases.held.values():
            for reference in lease.kept.values():
                held[id(reference.message)] = reference.message
        for message in self.branches.check() + self.stages.check():
            held[id(message)] = message
        for message in self.sending.recollections.held():
            held[id(message)] = message
        for scheduled in self.scheduled.schedules.values():
            if scheduled is not None:
                held[id(scheduled)] = scheduled
        octets: i64 = self.stages.ledger.octets
        for message in held.values():
            octets += message.size
        assert octets == self.memory.used, f"memory account says {self.memory.used}, messages held cost {octets}"
        self.copies.check()
        self.journal.check()


def selector_or_none(text: str) -> Predicate | None:
    """Return the predicate of ``text``, None for an empty one. Raises InvalidSelector."""
    return compile_selector(text) if text.strip() else None
