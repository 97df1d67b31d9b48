"""Why does this queue not move, and where would its next message go?

Nothing here has an opinion of its own: whether a consumer may have a message is asked of `Roster.may_take`, whether it
takes any of `Window.is_open`, who is next of `Roster.choose`, the very code that dispatch runs. What is added is words,
and for each reason what changes it. Nothing is changed by asking.

Invariant that the simulation checks: each message that waits has a reason, and `UNEXPLAINED` is never one of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import msgspec

from entrepot.base.environment import MIB, MILLISECOND, SECOND, UNLIMITED
from entrepot.core.addressing.address_settings import FULL_DROP, FULL_FAIL
from entrepot.core.broker import BrokerCore
from entrepot.core.leases.holder import release_of, said_of
from entrepot.core.operators.letters import Looked, holds_letters, letters_in, letters_of
from entrepot.core.queue.consumer import Consumer, Objection
from entrepot.core.queue.queue import Queue
from entrepot.core.queue.stock import octets_held
from entrepot.core.scheduling.timed import SCHEDULED_TARGET
from entrepot.model import address as names
from entrepot.model.address import ANYCAST, ROUTING_NAMES
from entrepot.model.message import BODY_TEXT, LANGUAGE_SAMPLE, Common, Language, Message
from entrepot.model.predicate import Value

if TYPE_CHECKING:
    from entrepot.core.operators.census import Census

LOOK_MESSAGES: Final = 100  # at the head of a queue; what is behind them waits for them, or for the same
LOOK_OCTETS: Final = 4 * MIB  # read from disk in one turn, at most with the last message above
SCHEDULES_LOOKED_AT: Final = 200
CONSUMERS_SHOWN: Final = 100
HOARDED_AFTER: Final = SECOND  # a consumer that settled something within it is at work
UNEXPLAINED: Final = "unexplained"


class Reason(msgspec.Struct):
    """One reason. ``messages``: how many of those that were looked at it holds back; 0 where it holds back others.

    ``code`` is a word that stays the same; ``who``: the consumer, group, transaction or bridge that it is about.
    """

    code: str
    text: str
    remedy: str = ""
    messages: int = 0
    who: str = ""


class ConsumerFacts(msgspec.Struct, frozen=True):
    """One reader as it stands. ``peer``: the broker beyond, when it is a bridge. ``prefetch`` -1 is no limit."""

    who: str
    peer: str
    takes: bool
    in_flight: int
    prefetch: int
    idle_ms: int
    selector: str
    priority: int
    groups: int
    exclusive: bool


class Next(msgspec.Struct, frozen=True):
    """Whom dispatch would give the next message to. ``who`` "": nobody now. ``sample``: no message waits."""

    who: str = ""
    peer: str = ""
    message: str = ""
    sample: bool = False


class Explanation(msgspec.Struct):
    """What there is to say about one queue. ``looked_at``: messages from its head that the reasons count."""

    queue: str
    address: str
    routing: str
    waiting: int
    in_flight: int
    delayed: int
    leased: int
    scheduled: int
    looked_at: int
    head: str = ""  # id of the first message that waits
    head_age_ms: int = 0
    head_path: list[str] = []  # brokers that it came through
    reasons: list[Reason] = []
    consumers: list[ConsumerFacts] = []
    next: Next = Next()


class SampleLanguage(Language):
    """A message that nobody sent, without a property: asked where one would go when none waits."""

    def __init__(self) -> None:
        super().__init__(LANGUAGE_SAMPLE, "sample")

    def common(self, message: Message) -> Common:
        """Return an empty text."""
        return Common(BODY_TEXT, "")

    def fact(self, message: Message, name: str) -> Value:
        """There is none."""
        return None


SAMPLE: Final = SampleLanguage()


class _Tally:
    """Reasons as they are found: the same one about the same party is one, with a count."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str, str], Reason] = {}

    def add(self, code: str, text: str, remedy: str = "", *, messages: int = 0, who: str = "", key: str = "") -> None:
        """Count ``messages`` more for a reason. ``key``: what tells two of one code and party apart."""
        known = self.found.get((code, who, key))
        if known is None:
            self.found[(code, who, key)] = Reason(code, text, remedy, messages, who)
        else:
            known.messages += messages


def explain(broker: BrokerCore, queue: Queue, census: Census) -> Explanation:
    """Say all there is to say about ``queue``; reads up to `LOOK_MESSAGES` from disk when they are not in memory."""
    walk = queue.stock.walk()
    looked: list[Message] = []
    octets = 0
    while not walk.done and len(looked) < LOOK_MESSAGES and octets < LOOK_OCTETS:
        some = [found.message for found in walk.step(LOOK_MESSAGES - len(looked))]
        octets += sum(int(message.size) for message in some)
        looked += some
    tally = _Tally()
    _set_aside(broker, queue, tally)
    scheduled = _scheduled(broker, queue, tally)
    waiting = int(queue.backlog.count)
    stopped = _stopped(broker, queue, tally, waiting)
    _left(broker, queue, tally)
    for message in looked:
        _why_waits(broker, queue, message, tally, census, stopped=stopped)
    if not looked and waiting:
        tally.add(UNEXPLAINED, "messages are counted that cannot be found", messages=waiting)
    _searches(broker, queue, tally)
    _in_flight(broker, queue, tally)
    _producers(broker, queue, tally)
    told = Explanation(
        queue=queue.name,
        address=queue.address,
        routing=ROUTING_NAMES[queue.routing],
        waiting=waiting,
        in_flight=int(queue.in_flight),
        delayed=len(queue.returns.delayed),
        leased=int(queue.leased),
        scheduled=scheduled,
        looked_at=len(looked),
        reasons=list(tally.found.values()),
        consumers=[_facts(broker, queue, consumer) for consumer in queue.roster.consumers[:CONSUMERS_SHOWN]],
        next=_next(broker, queue, looked),
    )
    if looked:
        told.head = broker.ids.identity_of(looked[0])
        told.head_age_ms = max(0, int(broker.wall) - int(looked[0].timestamp)) if looked[0].timestamp else 0
        told.head_path = census.path(looked[0])
    return told


# -- the whole queue --------------------------------------------------------------------------------------------------


def _stopped(broker: BrokerCore, queue: Queue, tally: _Tally, waiting: int) -> bool:
    """Note what stops delivery whatever waits; return whether anything does."""
    name = queue.name
    if queue.gate.paused:
        tally.add("paused", "an operator paused this queue", f"entrepot queue resume {name}", messages=waiting)
    elif queue.gate.held and queue.roster.is_read():
        text = f"delivery begins with {queue.traits.consumers_before_dispatch} consumers, there are "
        text += str(queue.roster.readers())
        if queue.gate.held_until:
            text += f", or in {max(0, int(queue.gate.held_until - broker.now)) // MILLISECOND} ms"
        tally.add(
            "held",
            text,
            "attach more consumers, or change consumers_before_dispatch and delay_before_dispatch of it or its policy",
            messages=waiting,
        )
    elif queue.gate.draining:
        text = "a consumer came, and the new owners of message groups wait until nothing is in flight"
        tally.add(
            "draining", text, "let its consumers settle, or switch group-rebalance-pause-dispatch off", messages=waiting
        )
    elif not queue.roster.is_read() and waiting:
        _nobody(broker, queue, tally, waiting)
    else:
        return False
    return True


def _nobody(broker: BrokerCore, queue: Queue, tally: _Tally, waiting: int) -> None:
    subscription = queue.definition.subscription
    if subscription is not None:
        client, name = subscription
        text = f"the durable subscription {name!r} of the client {client!r} is offline"
        tally.add("offline", text, "let its subscriber come back, or unsubscribe it", messages=waiting)
        return
    if holds_letters(broker, queue):
        text = "these are dead letters: they wait for somebody to decide about them"
        remedy = f"entrepot queue retry {queue.name} sends them back; entrepot browse {queue.name} shows them"
        tally.add("dead-letters", text, remedy, messages=waiting)
        _tell_letters(letters_in(broker, queue), tally, "")
        return
    text = "nobody reads it on this broker, neither a client nor a bridge that another broker's demand would feed"
    tally.add("no-consumer", text, "start a consumer, here or on a broker that a bridge leads to", messages=waiting)


def _left(broker: BrokerCore, queue: Queue, tally: _Tally) -> None:
    """Note what left the queue without being acknowledged."""
    if queue.returns.expired:
        place = queue.policy.expiry_address
        if not place and queue.policy.dead_letter_expired:
            place = queue.policy.dead_letters_of(queue.address, queue.routing)
        went = f"they went to {place}, if persistent" if place else "they are gone"
        text = f"{queue.returns.expired:,} expired here since the broker started; {went}"
        tally.add("has-expired", text, "a longer time to live, or consumers that are in time")
    _tell_letters(letters_of(broker, queue), tally, queue.name)


def _tell_letters(looked: Looked, tally: _Tally, queue: str) -> None:
    """Note letters by cause; ``queue``: they were all in that one, so it is not said."""
    some = "" if looked.all else f", of the first {looked.of:,} that wait there"
    for letters in looked.found:
        came = "" if queue else f" from {letters.origin}"
        text = (
            f"{letters.count:,} in {letters.place}{came}{some}, because: {letters.cause} (the last is {letters.last})"
        )
        remedy = f"entrepot queue retry {letters.place} sends them back, when the cause is mended"
        tally.add("dead-lettered", text, remedy, key=f"{letters.place} {letters.origin} {letters.cause}")


def _set_aside(broker: BrokerCore, queue: Queue, tally: _Tally) -> None:
    """Note what is neither waiting nor in flight: delayed, leased, in the hands of a transaction."""
    for number, reference in queue.returns.delayed.items():
        over = reference.message.expiration != 0 and reference.message.expiration <= broker.wall
        if number in queue.returns.doomed or (over and broker.journal.refusal() is not None):
            why = "their time to live is over" if over else queue.returns.doomed[number].text
            text = f"{why}: they leave for another queue when the disk takes records again"
            tally.add("disk", text, "make room on the disk of the journal; see its log", messages=1, key=why)
        else:
            due = max(0, int(reference.due - broker.now)) // MILLISECOND
            text = f"they failed and wait for their next try; the first to be listed in {due} ms"
            tally.add("delayed", text, "redelivery_delay of its policy says how long", messages=1)
    for lease in broker.leases.on(queue):
        if lease.held:
            tally.add(
                "leased",
                said_of(lease, broker),
                release_of(lease),
                messages=lease.held,
                who=lease.group,
            )
    for branch in broker.branches.prepared.values():
        held = sum(1 for hold in branch.holds if hold.queue is queue)
        if held:
            tally.add(
                "transaction",
                f"the prepared transaction {branch.transaction.name} will settle them",
                "its coordinator must commit it or roll it back",
                messages=held,
                who=branch.transaction.name,
            )
    if queue.promised:
        text = "a transaction will settle them whose consumer has left"
        tally.add("transaction", text, "its session must commit or roll back", messages=len(queue.promised))
    for consumer in queue.roster.consumers:
        for name in consumer.promised.values():
            text = f"{consumer.called()} will settle them when it commits {name}"
            tally.add("transaction", text, "its session must commit or roll back", messages=1, who=name)


def _scheduled(broker: BrokerCore, queue: Queue, tally: _Tally) -> int:
    """Count what will be sent here when its time comes."""
    count = 0
    first = 0
    octets = 0
    for number in list(broker.scheduled.schedules)[:SCHEDULES_LOOKED_AT]:
        message = broker.scheduled.load(number)
        octets += int(message.size)
        if octets > LOOK_OCTETS:
            break
        rare = message.need_rare()
        target = rare.annotations.get(SCHEDULED_TARGET, "")
        if not target:  # its record rotted: where it goes nobody knows
            continue
        if queue.routing == ANYCAST and queue.name in [each.queue or each.name for each in names.parse(target)]:
            count += 1
            due = max(0, int(rare.deliver_at) - int(broker.wall))
            first = due if count == 1 else min(first, due)
    if count:
        text = f"they were sent with a delay and wait for their time, the first for {first} ms more"
        tally.add("scheduled", text, "entrepot schedule list", messages=count)
    return count


def _searches(broker: BrokerCore, queue: Queue, tally: _Tally) -> None:
    """Note who may get something that lies deeper on disk than was looked here, and than dispatch has come yet."""
    if int(queue.identity) not in broker.working:
        return
    for consumer in queue.roster.consumers:
        if consumer.search is not None and consumer.window.is_open():
            text = (
                f"the {queue.backlog.paged_count:,} on disk are still being searched for what {consumer.called()} wants"
            )
            tally.add("searching", text, "wait", who=consumer.called())


def _in_flight(broker: BrokerCore, queue: Queue, tally: _Tally) -> None:
    """Note consumers that hold messages, and whether others could work on them (the prefetch)."""
    roster = queue.roster
    idle = [consumer for consumer in roster.consumers if not consumer.in_flight and consumer.window.is_open()]
    for consumer in roster.consumers:
        held = len(consumer.in_flight) - len(consumer.promised)
        quiet = broker.now - consumer.settled_at >= HOARDED_AFTER
        if held <= 0 or not quiet or queue.backlog.count > 0:
            continue
        since = _age(broker, consumer)
        others = [one for one in idle if any(_could(queue, one, held.message) for held in consumer.in_flight.values())]
        if others:
            tally.add(
                "hoarded",
                f"{consumer.called()} has all {held} in its prefetch of {_limit(consumer)} and settled none for "
                f"{since}; {others[0].called()} has nothing to do",
                "a smaller prefetch: consumer.prefetchSize, activemq.prefetchSize, or queue_prefetch of the policy",
                messages=held,
                who=consumer.called(),
            )
        else:
            tally.add(
                "unsettled",
                f"{consumer.called()} has them and settled none for {since}",
                _wake(consumer),
                messages=held,
                who=consumer.called(),
            )


def _could(queue: Queue, consumer: Consumer, message: Message) -> bool:
    return bool(queue.roster.might_take(consumer, message))


def _producers(broker: BrokerCore, queue: Queue, tally: _Tally) -> None:
    """Note what keeps messages out."""
    if queue.address in broker.table.blocked:
        text = f"an operator blocked the address {queue.address!r}: producers wait (flow control)"
        tally.add("blocked", text, f"call unblock of address.{queue.address}, by a message or from the console")
    refusal = broker.journal.refusal()
    if refusal is not None:
        tally.add("disk", f"the journal takes no records: {refusal.message}", refusal.remedy)
    limits = broker.journal.space.limits
    if limits.full:
        effect = "producers are refused" if queue.policy.full == FULL_FAIL else "producers wait (flow control)"
        what = "consume" if limits.stored >= limits.store else "make room on that disk"
        tally.add("disk", f"{limits.full}: {effect}", f"{what}; or raise the limit (storeUsage, max-disk-usage)")
    if not queue.stock.is_full():
        return
    policy = queue.policy
    octets = octets_held(queue.backlog, policy)
    used = f"{octets:,} of {policy.max_octets:,} octets" if policy.max_octets < UNLIMITED else f"{octets:,} octets"
    if policy.counts:
        used += f" and {queue.backlog.count:,} messages, {queue.backlog.paged_count:,} of them on disk"
    used += f", the broker {broker.memory.used:,} of {broker.memory.limit:,}"
    if policy.full == FULL_FAIL:
        effect = "producers are refused"
    elif policy.full == FULL_DROP:
        effect = "what is sent to it is dropped"
    elif broker.flow.blocks(queue):
        effect = "producers wait (flow control)"
    elif refusal is not None:
        effect = "what should go to disk is refused"
    elif broker.flow.lacks_share(queue):
        paged, share = broker.journal.space.paged(), limits.temp_now
        effect = f"what may be lost has {paged:,} octets on disk, and may have {share:,}: producers of it wait"
    else:
        effect = "what comes in goes to disk"
    remedy = "let it be consumed; or raise max_octets of its policy, or the memory limit of the broker"
    tally.add("full", f"it is full: it holds {used}; {effect}", remedy)


# -- one message ------------------------------------------------------------------------------------------------------


def _why_waits(
    broker: BrokerCore, queue: Queue, message: Message, tally: _Tally, census: Census, *, stopped: bool
) -> None:
    """Find what keeps ``message``, which waits, from going out now."""
    if message.expiration != 0 and message.expiration <= broker.wall:
        where = queue.policy.expiry_address or queue.policy.dead_letter_address
        text = f"their time to live is over; the next look, within a second, takes them to {where or 'nowhere'}"
        tally.add("expired", text, "send with a longer time to live", messages=1)
        return
    if stopped:
        return
    takers = [consumer for consumer in queue.roster.consumers if queue.roster.might_take(consumer, message)]
    if not takers:
        for consumer in queue.roster.consumers:
            _why_not(broker, queue, consumer, message, tally, census)
        return
    for consumer in takers:
        if consumer.window.is_open():
            if int(queue.identity) in broker.working or queue.backlog.paged_count > 0:
                where = "they are on disk, and " if queue.backlog.paged_count > 0 else ""
                text = f"{where}the search for who wants them goes on"
                tally.add("searching", text, "wait", messages=1)
            else:
                tally.add(UNEXPLAINED, f"{consumer.called()} could take them", "report this: a bug", messages=1)
            return
    for consumer in queue.roster.consumers:
        if consumer.window.is_open() and queue.roster.reserved_for(consumer, message) is not None:
            _why_not(broker, queue, consumer, message, tally, census)  # an idle one, and it is another's
            return
    for consumer in takers:
        full = why_full(broker, consumer)
        tally.add(full.code, full.text, full.remedy, messages=1, who=consumer.called())


def _why_not(
    broker: BrokerCore, queue: Queue, consumer: Consumer, message: Message, tally: _Tally, census: Census
) -> None:
    other = queue.roster.reserved_for(consumer, message)
    if other is not None:
        state = "takes more" if other.window.is_open() else why_full(broker, other).text
        if other is queue.roster.exclusive:
            said = _objection(queue, other, message)
            state = state if said is None else said.text
            text = f"{other.called()} alone may read (exclusive consumer), and {state}"
            tally.add("exclusive", text, "it must settle what it holds, or leave", messages=1, who=other.called())
            return
        group = message.need_rare().group
        said = other.objection(message)
        state = state if said is None else said.text
        text = f"the group {group!r} belongs to {other.called()}, and {state}"
        remedy = f"it must settle what it holds, or leave; or: entrepot queue regroup {queue.name} --group '{group}'"
        tally.add("group", text, remedy, messages=1, who=other.called(), key=group)
        return
    objection = _objection(queue, consumer, message)
    if objection is None:
        text = f"{consumer.called()} refuses them and does not say why"
        tally.add(UNEXPLAINED, text, "report this: a bug", messages=1, who=consumer.called())
        return
    if objection.code == "selector":
        path = census.path(message)
        if path:
            tally.add(
                "conduit",
                f"they came from {path[-1]} over a bridge that shares one subscription without a selector (conduit), "
                f"and for {consumer.called()} {objection.text}",
                "conduitSubscriptions=false on the bridge that brought them; or let them go back: "
                "replayWhenNoConsumers with selectorAware",
                messages=1,
                who=consumer.called(),
            )
            return
        remedy = objection.remedy or f"a consumer whose selector matches; entrepot browse {queue.name} shows them"
        text = f"{consumer.called()}: {objection.text}"
        tally.add("selector", text, remedy, messages=1, who=consumer.called())
        return
    text = f"{consumer.called()}: {objection.text}"
    tally.add(objection.code, text, objection.remedy, messages=1, who=consumer.called())


def _objection(queue: Queue, consumer: Consumer, message: Message) -> Objection | None:
    if consumer.would_take(message):
        return None
    return consumer.objection(message)


# -- consumers --------------------------------------------------------------------------------------------------------


def why_full(broker: BrokerCore, consumer: Consumer) -> Objection:
    """Return why ``consumer`` takes nothing more, whatever it is."""
    window = consumer.window
    who = consumer.called()
    if consumer.pulls() == 0:
        text = f"{who} has prefetch 0: it gets a message when it asks for one, and asks for none now"
        return Objection("no-credit", text, "it must ask: receive(), or a prefetch over 0")
    if window.pauses:
        halted = consumer.halted()
        if halted is not None:
            return halted
        if consumer.peer():
            return Objection("bridge-busy", f"{who} is closing, or its broker does not read", "entrepot bridge list")
        return Objection("not-reading", f"{who} does not read from its connection", "look at that client")
    if window.messages <= 0:
        return Objection("no-credit", f"{who} gave no credit", "it must ask for messages: a pull, or a prefetch over 0")
    since = _age(broker, consumer)
    shared = " (shared by all queues of its subscription)" if len(window.consumers) > 1 else ""
    if window.used >= window.messages:
        text = f"{who} holds {window.used} of {window.messages} unsettled{shared} and settled none for {since}"
        code = "bridge-busy" if consumer.peer() else "prefetch"
        return Objection(code, text, _wake(consumer))
    text = f"{who} holds {window.used_octets:,} of {window.octets:,} octets unsettled{shared}"
    return Objection("bridge-busy" if consumer.peer() else "prefetch", text, _wake(consumer))


def _wake(consumer: Consumer) -> str:
    if consumer.peer():
        return f"see why {consumer.peer()} does not confirm: entrepot bridge list, and its own disk and limits"
    return "it must acknowledge; or end it: entrepot connection list, entrepot connection close"


def _limit(consumer: Consumer) -> str:
    return "no limit" if consumer.window.messages >= UNLIMITED else str(consumer.window.messages)


def _age(broker: BrokerCore, consumer: Consumer) -> str:
    seconds = int(broker.now - consumer.settled_at) / SECOND
    return f"{seconds:.1f} s"


def _facts(broker: BrokerCore, queue: Queue, consumer: Consumer) -> ConsumerFacts:
    window = consumer.window
    return ConsumerFacts(
        who=consumer.called(),
        peer=consumer.peer(),
        takes=bool(window.is_open()),
        in_flight=len(consumer.in_flight),
        prefetch=0 if consumer.pulls() >= 0 else -1 if window.messages >= UNLIMITED else int(window.messages),
        idle_ms=int(broker.now - consumer.settled_at) // MILLISECOND,
        selector="" if consumer.selector is None else consumer.selector.shown,
        priority=int(consumer.priority),
        groups=int(consumer.groups),
        exclusive=queue.roster.exclusive is consumer,
    )


def _next(broker: BrokerCore, queue: Queue, looked: Iterable[Message]) -> Next:
    """Ask dispatch whom it would choose for the first message that waits, or for one without properties."""
    message = next(iter(looked), None)
    sample = message is None
    if message is None:
        message = Message(SAMPLE, queue.address, b"")
        message.timestamp = broker.wall
    identity = "" if sample else broker.ids.identity_of(message)
    if queue.gate.paused or queue.gate.held:
        return Next(message=identity, sample=sample)
    chosen = queue.roster.foreseen(message)
    if chosen is None:
        return Next(message=identity, sample=sample)
    return Next(chosen.called(), chosen.peer(), identity, sample)
