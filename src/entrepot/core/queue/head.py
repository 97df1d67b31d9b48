"""What a queue is, apart from what is in it: identity, definition, policy, and what is said of it to others. [C]

`QueueHead` is what the parts of a queue, the dead letters and the facts need to know of it. It knows no consumer and no
message that waits.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.addressing.policy import Policy
from entrepot.core.addressing.traits import Traits
from entrepot.core.events import trace as facts
from entrepot.core.events.facts import MESSAGE_DISCARDED, Hub, Place
from entrepot.core.events.trace import UNTRACED, Run, Trace
from entrepot.core.queue.fates import Fates
from entrepot.model.message import Message
from entrepot.model.predicate import Predicate
from entrepot.model.told import told_as

ADVISORY: Final = "ActiveMQ.Advisory."


class QueueHead:
    """One queue of one address. ``durable`` queues keep durable messages over a restart."""

    def __init__(
        self,
        hub: Hub,
        trace: Trace | None,
        identity: i64,
        definition: QueueDefinition,
        policy: Policy,
        condition: Predicate | None,
    ) -> None:
        """``condition``: the selector of ``definition``, or what stands for one that cannot be written."""
        self.identity: i64 = identity
        self.definition: QueueDefinition = definition
        self.name: str = definition.name
        self.address: str = definition.address
        self.policy: Policy = policy
        self.traits: Traits = policy.traits_of(definition)
        self.barred: bool = self.traits.bars()  # nothing is routed to it now: it is off, or purges and nobody reads
        self.fates: Fates = Fates(hub, policy)
        self.trace: Trace | None = None if definition.address.startswith(UNTRACED) else trace
        self.arrivals: Run | None = None
        if self.trace is not None:
            named = f"{definition.name}\t{definition.address}\t{definition.routing}"
            self.trace.define(facts.NAME_QUEUE, identity, named)
            self.arrivals = self.trace.arrivals(identity)
        self.routing: int = definition.routing
        self.durable: bool = definition.durable
        self.temporary: bool = definition.temporary
        self.filter: Predicate | None = condition
        self.filter_origin: i64 = 0  # no-local of a topic subscription: messages of this connection are not routed here
        self.pending_limit: i64 = -1  # a topic subscriber's: what waits beyond it is discarded, the oldest first
        self.began: i64 = -1  # the number of the last message before it was made; -1: it is from before that was kept
        self.remembers: bool = False  # it keeps the newest for queues to come: what is one too many is no loss
        self.deleted: bool = False  # it is being deleted: what goes, goes with it

    def place(self) -> Place:
        """Return what facts say of this queue."""
        flags = (self.durable, self.temporary, self.definition.auto_created)
        place = Place(self.name, self.address, self.routing, self.identity, flags, self.definition.owner, self.filter)
        place.began = self.began
        return place

    def told(self) -> int:
        """Return what other nodes of a cluster call this queue."""
        return told_as(self.name, self.routing, self.temporary, self.began)

    def keeps(self, message: Message) -> bool:
        """Return whether the journal has ``message`` for this queue since it was sent."""
        return message.stored and message.durable and self.durable

    def drop(self, message: Message, reader: i64) -> None:
        """Count ``message`` as thrown away, and tell of it and of the last ``reader``, where somebody asks for that."""
        fates = self.fates
        fates.drop()
        if fates.tells & MESSAGE_DISCARDED or message.watched:
            fates.discarded(self.place(), message, reader)

    # -- the trace ----------------------------------------------------------------------------------------------------

    def note(self, kind: i64, number: i64, peer: i64, detail: i64) -> None:
        """Note a fact about message ``number`` (`core/events/trace.py`), where there is a trace."""
        trace = self.trace
        if trace is not None:
            trace.note(kind, number, self.identity, peer, detail)

    def end_trace(self) -> None:
        """Name this queue no longer: it is gone."""
        if self.trace is not None:
            self.trace.forget(facts.NAME_QUEUE, self.identity)

    def note_accepted(self, message: Message, flags: i64) -> None:
        """Note that ``message`` is in this queue now."""
        run = self.arrivals
        if run is None:
            return
        number = message.number
        rare = message.rare
        if rare is not None and rare.identity:
            flags |= facts.DERIVED
            run.trace.identity(number, rare.identity)
        elif rare is not None and rare.bridged and run.trace.crossed(number, rare.duplicate_id):
            pass  # the broker that had it before knows its id; by that number the traces of both are brought together
        elif message.language.identifies and number != run.trace.named:
            prefix = message.language.prefix(message)
            if prefix:
                run.trace.identity_of(number, prefix, message.language.sequence(message))
            else:
                identity = message.language.identity(message)
                if identity:
                    run.trace.identity(number, identity)
        if message.durable and self.durable:
            flags |= facts.DURABLE
        head = facts.ACCEPTED | ((flags | (message.priority << 4)) << 8)
        size: i64 = (len(message.raw) + 15) >> 4
        run.note_sized(head, number, (self.identity & facts.LOW) | (message.origin << 32), min(size, facts.DETAIL_MAX))

    def note_dead(self, number: i64, reason: str) -> None:
        """Note that message ``number`` became a dead letter."""
        trace = self.trace
        if trace is not None:
            cause = trace.number_of(facts.NAME_CAUSE, reason)
            trace.note(facts.DEAD, number, self.identity, cause, 0)

    def note_renumbered(self, number: i64, own: Message) -> None:
        """Note that what was message ``number`` here is ``own`` from now on."""
        if self.trace is not None:
            self.note(facts.REMOVED, number, 0, facts.RENUMBERED)
            self.note_accepted(own, facts.CONTINUED)
