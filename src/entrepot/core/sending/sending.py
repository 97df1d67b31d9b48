"""Sending: from a message and its target to the queues that take it. [C]

Order of a send: limits are checked, the journal gets the record, queues get the message. A refusal therefore leaves
nothing behind, and a message that a queue has is in the journal's hands. The producer is answered when
`JournalCore.confirm` says that the record is on disk, never before.
"""

from __future__ import annotations

from typing import Final

from librt.strings import read_i64_be
from mypy_extensions import i64, mypyc_attr

from entrepot.base.errors import EntrepotError, InvalidDestination
from entrepot.base.patterns import MIXED, matches
from entrepot.base.reasons import SAME_DUPLICATE_ID
from entrepot.core.addressing.addresses import Addresses, written
from entrepot.core.addressing.binding import (
    MOVED,
    NODE_OCTETS,
    ONWARD_ID,
    ROUTE_TO,
    SCALED_DOWN,
    Address,
    node_in,
    passes,
)
from entrepot.core.addressing.policy import Policies, Policy
from entrepot.core.addressing.queues import Queues
from entrepot.core.addressing.routing import Copy, Divert, Plan, RoutingTable, Target
from entrepot.core.events import announcing
from entrepot.core.events.facts import ARRIVALS, QUEUE_FULL
from entrepot.core.events.watching import Watch
from entrepot.core.identities import Identities
from entrepot.core.options import BrokerOptions
from entrepot.core.ports import Host
from entrepot.core.queue.queue import Queue
from entrepot.core.scheduling.schedule import ScheduledMessages, ScheduleOutlet
from entrepot.core.scheduling.timed import (
    Schedule,
    asks_for_schedule,
)
from entrepot.core.sending.duplicates import Duplicates, cache_of
from entrepot.core.sending.flow import BLOCKED, DROPPED, DUPLICATE, SCHEDULED, SENT, FlowControl, verdict_of_all
from entrepot.core.sending.handing import Postponement, drop, hand_out
from entrepot.core.sending.recollection import Recollections
from entrepot.core.sending.repetitions import Repetitions
from entrepot.journal.condition import again
from entrepot.journal.log import JournalCore
from entrepot.model import address as names
from entrepot.model.address import ANYCAST, MULTICAST, UNTYPED, Destination
from entrepot.model.ids import NUMBERED_OCTETS
from entrepot.model.message import Message, Rare
from entrepot.model.origins import ORIGINAL_ID, ORIGINAL_NUMBER
from entrepot.model.told import TOLD, TOLD_MULTICAST, TOLD_REMOTE, TOLD_TEMPORARY, is_temporary

NO_OTHER: Final = TOLD_MULTICAST | TOLD_TEMPORARY  # where one of these is gone, no other one stands for it
FAR: Final = TOLD | TOLD_REMOTE  # in ids of queues of nodes behind this one
INGRESS: Final = "_AMQ_INGRESS_TIMESTAMP"


@mypyc_attr(allow_interpreted_subclasses=True)
class Detour:
    """Takes messages for queues of other nodes that this one does not know (any more)."""

    def park(self, ids: bytes, copy: Copy) -> None:
        """Let the message of ``copy`` wait until it is known what ``ids`` are."""
        raise NotImplementedError

    def park_onward(self, ids: bytes, copy: Copy) -> None:
        """The same of ``ids`` as a third node calls its queues, whatever they are called here."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class Grouping:
    """Says where messages of a group go, where the nodes of a cluster agree about that."""

    def choose(self, message: Message, target: Target) -> list[Queue]:
        """Return the queues that ``message``, of a group, goes to; ``target.choice.routes`` says where from there."""
        raise NotImplementedError


class Sending(ScheduleOutlet):
    """Accepts messages for targets, once each, and hands them to the queues."""

    def __init__(
        self, host: Host, options: BrokerOptions, addresses: Addresses, flow: FlowControl, scheduled: ScheduledMessages
    ) -> None:
        self.host: Host = host
        self.journal: JournalCore = host.journal
        self.ids: Identities = host.ids
        self.options: BrokerOptions = options
        self.addresses: Addresses = addresses
        self.queues: Queues = addresses.queues
        self.table: RoutingTable = addresses.table
        self.policies: Policies = addresses.queues.policies
        self.flow: FlowControl = flow
        self.scheduled: ScheduledMessages = scheduled
        self.duplicates: Duplicates = Duplicates(host.journal)
        self.repetitions: Repetitions = Repetitions()
        self.recollections: Recollections = Recollections(host, self.policies)
        self.sent: i64 = 0
        self.detour: Detour | None = None
        self.grouping: Grouping | None = None
        self.strayed: i64 = 0  # ids of queues, that other nodes said, which are none here
        scheduled.outlet = self

    def send(self, message: Message, target: Target) -> int:
        """Accept ``message`` for ``target``; return SENT, BLOCKED, DROPPED, DUPLICATE or SCHEDULED.

        Raises AddressFull (policy FAIL), StorageFull, StorageError: nothing of the message is left then. The caller
        asks ``journal.confirm`` to learn when it is on disk.
        """
        message.number = self.ids.next_number()
        self.sent += 1
        if target.version != self.table.version:
            self.addresses.refresh(target)
        watch = self.host.watch
        if (
            watch is not None
            and not watch.passes_over(message)
            and watch.takes(message, target.name, target.routing, self.host.wall)
        ):
            return self._send_watched(message, target, watch)
        if message.rare is None and not target.stamps and not target.careful:
            queue = target.only
            if queue is not None and not target.parts and not queue.stock.is_full():
                if message.durable and queue.durable:
                    self.journal.store(message, target.only_id)
                queue.accept(message)
                target.address.routed += 1
                return SENT
        return self._send_with_care(message, target)

    def sole_queue(self, target: Target) -> Queue | None:
        """Return the queue of ``target``, if a plain message goes to that one, and nothing else is done with it.

        Whoever gives it to that queue otherwise counts it. None: it must be sent.
        """
        host = self.host
        if target.version != self.table.version:
            self.addresses.refresh(target)
        careful = target.stamps or target.careful or bool(target.parts) or target.service is not None
        if careful or host.watch is not None or host.mirrors is not None or host.postponed is not None:
            return None
        queue = target.only
        return queue if queue is not None and queue.takes_stored() else None

    def send_later(self, message: Message, target: Target, postponed: Postponement) -> None:
        """Accept ``message`` for ``target`` as `send` does, but let its queues have it from ``postponed``."""
        message.number = self.ids.next_number()
        self.sent += 1
        if target.version != self.table.version:
            self.addresses.refresh(target)
        watch = self.host.watch
        if (
            watch is not None
            and not watch.passes_over(message)
            and watch.takes(message, target.name, target.routing, self.host.wall)
        ):
            self.host.postponed = postponed
            try:
                self._send_watched(message, target, watch)
            finally:
                self.host.postponed = None
            return
        queue = target.only
        simple = message.rare is None and not target.stamps and not target.careful and not target.parts
        if simple and queue is not None and not queue.stock.is_full():
            if message.durable and queue.durable:
                self.journal.store(message, target.only_id)
            postponed.put(message, queue)
            target.address.routed += 1
            return
        host = self.host
        host.postponed = postponed
        try:
            self._send_with_care(message, target)
        finally:
            host.postponed = None

    def _send_watched(self, message: Message, target: Target, watch: Watch) -> int:
        """Send ``message``, which has an annotation and so never takes the short way; tell how far it came."""
        try:
            verdict = self._send_with_care(message, target)
        except EntrepotError as error:
            watch.refused(message, error.code)
            raise
        watch.accepted(message, verdict == DROPPED)
        return verdict

    def _send_with_care(self, message: Message, target: Target) -> int:
        if target.service is not None:
            target.service.take(message, target.routing)
            return SENT
        if target.stamps and target.policy is not None:
            stamp(message, target.policy, self.host.wall)
        if message.rare is not None and message.rare.duplicate_id:
            return self._send_once(message, target, message.rare)
        return self._admit(message, target)

    def _admit(self, message: Message, target: Target) -> int:
        rare = message.rare
        dated = rare is not None and rare.deliver_at > 0  # as its own language says: it takes no option for that
        if (dated or self.options.scheduler) and asks_for_schedule(message):
            self.scheduled.take(message, written(target))
            return SCHEDULED
        return self._route(message, target)

    def _send_once(self, message: Message, target: Target, rare: Rare) -> int:
        identity = rare.duplicate_id
        cache = cache_of(target.name, message, rare)
        if cache and self.duplicates.seen(cache, identity):
            return self.repeated(message, target, SAME_DUPLICATE_ID)
        policy = self.policies.of(target.name, target.routing)
        self.journal.begin()
        try:
            verdict = self._admit(message, target)  # raises when it is refused: then the id is not remembered
            # What an Artemis gives when it scales down is not asked for, but its producer may come here after it.
            self.duplicates.remember(cache or target.name, identity, policy.id_cache, message.durable)
            return verdict
        finally:
            self.journal.end()

    def repeated(self, message: Message, target: Target, code: str) -> int:
        """Drop ``message``, which ``target`` has or had already, as ``code`` says; count it, tell of it; DUPLICATE."""
        if message.number == 0:
            message.number = self.ids.next_number()
        identity = self.ids.identity_of(message)
        self.repetitions.add(identity, target.name, code, self.host.wall)
        queue = self.table.queues.get(target.queue_name or target.name)
        if queue is not None:
            queue.fates.repeat()
        announcing.repeated(self.host.hub, message, target.name, identity, code)
        if self.host.mirrors is not None:
            self.host.mirrors.again(message.origin, target.name)
        return DUPLICATE

    def _route(self, message: Message, target: Target) -> int:
        """Store and hand out ``message`` to all queues of ``target``, its composites and diverts, each queue once."""
        plan = Plan(target.routing)
        if target.blocked:
            plan.meets_block(target.name)
        verdict = self._carry_out(message, target, plan)
        if plan.blocked is not None and verdict != DROPPED:
            self.flow.blame(None, False, plan.blocked)
            return BLOCKED
        return verdict

    def _carry_out(self, message: Message, target: Target, plan: Plan) -> int:
        """Fill ``plan``, which is empty, and do as it says."""
        main = plan.main
        rare = message.rare
        if rare is None or rare.internal is None or not self._follows(message, target, main):
            self._collect(message, target, plan, main)
        if not main.queues and not plan.copies:
            announcing.unrouted(self.host.hub, message, target.name)
            if target.policy is not None and target.policy.unrouted_dead:
                self.host.unrouted(message, target.routing)
        if not plan.copies:
            verdict = self._deliver(message, main)
            self._count(target.address, main, _leads(target))
            return verdict
        refusal = self.journal.refusal()
        if refusal is not None and message.durable:
            raise again(refusal)
        for copy in plan.copies:  # a refusal must come before anything is stored
            self.flow.check_room(copy.queues)
        granted = self.flow.granted
        self.flow.granted = True  # what one copy adds to the broker's memory is no reason to refuse the next
        self.journal.begin()
        try:
            verdicts = [self._deliver(message, main)]
            for copy in plan.copies:
                made = self._copied(message, copy)
                forget_routes(made)
                verdicts.append(self._deliver(made, copy))
                self._count(self.table.addresses.get(copy.address), copy, False)
            self._count(target.address, main, _leads(target))
            said = [verdict for copy, verdict in zip([main, *plan.copies], verdicts, strict=True) if copy.queues]
            return verdict_of_all(said)
        finally:
            self.flow.granted = granted
            self.journal.end()

    def _count(self, address: Address | None, copy: Copy, leads: bool) -> None:
        """What ``copy`` is was sent to ``address``, and not refused.

        ``leads``: there is a queue or a divert, though its filter may not match. Artemis calls that routed.
        """
        if address is not None and (leads or copy.queues or copy.led):
            address.routed += 1
        elif address is not None:
            address.unrouted += 1

    def _follows(self, message: Message, target: Target, copy: Copy) -> bool:
        """Do as the node says that sent ``message`` here: fill ``copy``. False: it says nothing that means a queue.

        An id of a subscription that is gone leads nowhere, and so does that of a temporary queue (artemis.md 1.14).
        Where a queue is gone the message goes to another one of its address, here or on another node, and to a new one
        where there is none: Artemis drops it.
        """
        route = message.marked(ROUTE_TO)
        forget_routes(message)
        if not isinstance(route, bytes):
            return self._passes_on(message, target, copy)
        message.unmark(ROUTE_TO)
        table = self.table
        homeless = False
        unknown = b""
        for at in range(0, len(route) - 7, 8):
            identity = int(read_i64_be(route, at))
            queue = table.told(identity)
            if queue is not None and (queue.address == target.name or matches(queue.address, target.name, MIXED)):
                if queue.routing == MULTICAST and not passes(queue, message):
                    self.strayed += 1  # the subscription was made anew, with another filter
                elif queue not in copy.queues:
                    copy.queues.append(queue)
                continue
            remote = table.remotes.get(identity)
            if remote is not None and matches(remote.address, target.name, MIXED):
                copy.add_routes({remote.route_key: remote.route})
                if remote.queue not in copy.queues:
                    copy.queues.append(remote.queue)
            else:
                self.strayed += 1
                if identity & FAR == FAR and not is_temporary(identity):
                    unknown += route[at : at + 8]
                else:
                    homeless = homeless or identity & NO_OTHER == 0
        if unknown and self.detour is not None:
            self.detour.park(unknown, copy)
        if homeless and not copy.queues:
            self._rehouse(message, target, copy)
        return True

    def _passes_on(self, message: Message, target: Target, copy: Copy) -> bool:
        """Send ``message``, which waited at a node that scaled down for a third one, on to that: fill ``copy``.

        Its ids are of queues there (artemis.md 1.20). What is not known here, as after a restart of either node, waits
        until it is: given to the subscriptions of this node instead it would come twice to those, and never
        to its own.

        The third node may have had it from where it waited, or get it from there once more: it gets the same id from
        here. So what is for any reader of a queue goes there, too, and nowhere else, where it is said which node that
        is (an Artemis does not say it). False: it has no ids, or goes as what is sent here does.
        """
        ids = message.marked(SCALED_DOWN)
        if not isinstance(ids, bytes):
            return False
        message.unmark(SCALED_DOWN)
        node = ""
        rare = message.need_rare()
        if rare.bridged and len(rare.duplicate_id) >= NUMBERED_OCTETS + NODE_OCTETS:  # it ends with where it waited
            known = rare.duplicate_id[:NUMBERED_OCTETS] + rare.duplicate_id[-NODE_OCTETS:]
            message.mark(ONWARD_ID, known)
            node = node_in(known)
        routes = [ids[at : at + 8] for at in range(0, len(ids) - 7, 8)]
        found = self.table.beyond(target.name, routes, node)
        unknown = b"".join([route for route in routes if route not in found])
        if unknown and self.detour is not None and (node or target.routing != ANYCAST):
            self.detour.park_onward(unknown, copy)
        else:
            self.strayed += len(unknown) // 8
        for remote in found.values():
            copy.add_routes({remote.route_key: remote.route})
            if remote.queue not in copy.queues:
                copy.queues.append(remote.queue)
        if not copy.queues:
            message.unmark(ONWARD_ID)
        return bool(copy.queues)

    def _rehouse(self, message: Message, target: Target, copy: Copy) -> None:
        """Find another queue for ``message``, whose own is gone: of this node, of another one, or a new one."""
        anycast = Target(target.name, ANYCAST)
        self.table.resolve(anycast)
        found = anycast.choice.choose_here(message)
        if not found:
            found = anycast.choice.choose(message)
            if anycast.choice.routes is not None:
                copy.add_routes(anycast.choice.routes)
        if not found and anycast.choice.is_empty():
            try:
                found = [self.queues.need(Destination(target.name, ANYCAST))]
            except InvalidDestination:
                return  # nothing may be made here: it is told as what no queue takes
        copy.queues.extend(found)

    def send_scheduled(self, message: Message, text: str) -> None:
        """Send ``message``, whose time has come, to the destinations that ``text`` names. Raises Refused."""
        target = self.addresses.target(names.parse(text))
        if target.version != self.table.version:
            self.addresses.refresh(target)
        self._route(message, target)

    def _deliver(self, message: Message, copy: Copy) -> int:
        """Hand ``message`` to those queues of ``copy`` that take it; SENT, BLOCKED or DROPPED."""
        queues = copy.queues
        if copy.routes is not None:
            for key, ids in copy.routes.items():
                message.mark(key, ids)
        for queue in queues:
            if queue.fates.tells & QUEUE_FULL and queue.stock.is_full():
                queue.fates.full(queue.place(), message, queue.backlog.octets)
        verdict = self.flow.check_room(queues)
        if verdict == DROPPED:
            takers = self.flow.takers(queues)
            for queue in queues:
                if queue not in takers:
                    drop(self.host, queue, message)
            queues = takers
            verdict = self.flow.check_room(takers) if takers else DROPPED
        if verdict == SENT and self.journal.pages and not self.flow.has_disk(message, queues):
            verdict = BLOCKED
        if copy.careful is not None:
            for target in copy.careful:
                self._attend(message, target, copy.unread is not None and target in copy.unread)
        hand_out(self.host, message, queues)
        return verdict

    def _attend(self, message: Message, target: Target, unread: bool) -> None:
        """A topic whose policy wants to know gets ``message``: remember it, tell of it."""
        policy = target.policy
        if policy is None or target.routing != MULTICAST:
            return
        self.recollections.add(target.name, message, policy)
        if target.tells & ARRIVALS:
            announcing.arrived(self.host.hub, message, target.name, target.tells, target.asked, unread)

    def _part(self, message: Message, address: str) -> Message:
        """Return the copy for one part of a composite: the same identity, the part's own address (classic.md 4.1)."""
        copy = self.ids.renumbered(message)
        copy.address = address
        return copy

    def _copied(self, message: Message, copy: Copy) -> Message:
        """Return the message that ``copy`` is, numbered; ``message`` is what was sent."""
        made = copy.message
        if made is None:
            return self._part(message, copy.address)
        source = copy.source
        original = message if source is None or source.message is None else source.message
        made.number = self.ids.next_number()
        made.annotate(ORIGINAL_ID, self.ids.identity_of(original))
        made.mark(ORIGINAL_NUMBER, int(original.number))
        return made

    def _diverted(self, message: Message, target: Target, divert: Divert, routing: int) -> Message:
        """Return the copy for ``target`` that a divert of Artemis makes of what was sent by ``routing`` (4.4)."""
        made = message.twin(target.name)
        rare = made.need_rare()
        rare.identity = ""
        rare.duplicate_id = b""
        divert.sign(made, message.address, routing)
        if target.routing != routing:
            made.language.route(made, target.routing)
        if target.version != self.table.version:
            self.addresses.refresh(target)
        if target.stamps and target.policy is not None:
            stamp_expiration(made, target.policy, self.host.wall)
        return made

    def _collect(self, message: Message, target: Target, plan: Plan, copy: Copy, peek: bool = False) -> None:
        """Add the queues that ``message`` goes to, to ``copy``; ``peek`` leaves rotations where they are."""
        for part in target.parts:
            own = Copy(part.name, part.routing)
            plan.copies.append(own)
            self._collect(message, part, plan, own, peek)
        if target.parts:
            return
        if target.version != self.table.version:
            self.addresses.refresh(target)
        if target.blocked:
            plan.meets_block(target.name)
        if target.diverts and self._divert(message, target, plan, copy, peek):
            return
        chosen = target.choice.candidates() if peek else self._chosen(message, target)
        if not peek and target.choice.routes is not None:
            copy.add_routes(target.choice.routes)
        self.host.effort.spent += len(target.choice.every) >> 2  # the filter of each is looked at
        if not copy.queues:  # a target names no queue twice, and to look would cost the square of a topic's readers
            copy.queues.extend(chosen)
        else:
            known = {int(queue.identity) for queue in copy.queues}
            for queue in chosen:
                if int(queue.identity) not in known:
                    copy.queues.append(queue)
        if target.careful:
            copy.attend(target, not chosen)

    def _chosen(self, message: Message, target: Target) -> list[Queue]:
        """Return the queues that ``message`` goes to now; the turns of groups of bindings move on."""
        grouping, rare = self.grouping, message.rare
        if grouping is None or rare is None or not rare.group:
            return target.choice.choose(message)
        return grouping.choose(message, target)

    def _divert(self, message: Message, target: Target, plan: Plan, copy: Copy, peek: bool) -> bool:
        """Follow the diverts of ``target``; return whether the address itself gets nothing."""
        gone = False
        for divert in target.diverts:
            if not plan.follows(divert.name):
                continue
            matched = False
            for forward in divert.forwards:
                if forward.condition is not None and not forward.condition.matches(message):
                    continue
                matched = True
                onward = forward.target_for(copy.routing)
                if divert.marks:
                    made = self._diverted(message, onward, divert, copy.routing)
                    own = Copy(onward.name, ANYCAST if onward.routing == UNTYPED else onward.routing, made, copy)
                    plan.copies.append(own)
                    copy.led = True
                    self._collect(made, onward, plan, own, peek)
                else:
                    self._collect(message, onward, plan, copy, peek)
            if divert.exclusive and (matched or not divert.keeps_unmatched):
                gone = True
        return gone

    def admits(self, message: Message, target: Target) -> int:
        """Say what `send` would: SENT, BLOCKED or DROPPED; for what is sent later. Raises Refused as it would."""
        if target.version != self.table.version:
            self.addresses.refresh(target)
        queue = target.only
        if message.rare is None and queue is not None and not target.parts and not queue.stock.is_full():
            return SENT
        rare = message.rare
        if rare is not None and self.options.scheduler and asks_for_schedule(message):
            Schedule(rare.annotations)  # raises for a schedule that nobody can keep
        return self._room(message, target)

    def _room(self, message: Message, target: Target) -> int:
        """Return what `_route` would of the room where ``message`` would go. Raises AddressFull."""
        plan = Plan(target.routing)
        self._collect(message, target, plan, plan.main, peek=True)
        queues = [queue for copy in (plan.main, *plan.copies) for queue in copy.queues]
        verdict = verdict_of_all([self.flow.verdict_of(queue) for queue in queues])
        if plan.blocked is not None and verdict != DROPPED:
            self.flow.blame(None, False, plan.blocked)
            return BLOCKED
        return verdict


def _leads(target: Target) -> bool:
    """Return whether anything is bound where ``target`` leads."""
    return not target.choice.is_empty() or bool(target.diverts)


def stamp(message: Message, policy: Policy, wall: i64) -> None:
    """Write on ``message`` what the policy of its address wants of all that is sent there."""
    if policy.ingress_timestamp:
        message.annotate(INGRESS, str(wall))
    stamp_expiration(message, policy, wall)


def forget_routes(message: Message) -> None:
    """Take away where an earlier message, of which this is a copy, went on other nodes."""
    rare = message.rare
    if rare is None or rare.internal is None or (len(rare.internal) == 1 and ROUTE_TO in rare.internal):
        return
    for key in list(rare.internal):
        if key != ROUTE_TO and key.startswith(ROUTE_TO):
            message.unmark(key)


def moved(ids: Identities, message: Message, kept: bool) -> Message:
    """Return a copy of ``message`` that goes on from here, for no node yet; ``kept``: the journal has that.

    Who looks through the journal for what was sent finds both, and can tell them apart (`core/operators/replaying.py`).
    """
    copy = ids.renumbered(message)
    forget_routes(copy)
    if kept:
        copy.mark(MOVED, message.address)
    return copy


def stamp_expiration(message: Message, policy: Policy, wall: i64) -> None:
    """Give, bound or take the expiration as the policy says: no-expiry, expiry-delay, min and max (artemis.md 4.2)."""
    said = message.expiration
    if policy.no_expiry:
        message.expiration = 0
    elif said == 0:
        if policy.expiry_ms >= 0:
            message.expiration = wall + policy.expiry_ms
        elif policy.expiry_ms_max >= 0:
            message.expiration = wall + policy.expiry_ms_max
        elif policy.expiry_ms_min >= 0:
            message.expiration = wall + policy.expiry_ms_min
    else:
        if policy.expiry_ms_min >= 0 and said < wall + policy.expiry_ms_min:
            message.expiration = wall + policy.expiry_ms_min
        if policy.expiry_ms_max >= 0 and message.expiration > wall + policy.expiry_ms_max:
            message.expiration = wall + policy.expiry_ms_max
    if message.expiration != said:
        message.language.changed(message)
