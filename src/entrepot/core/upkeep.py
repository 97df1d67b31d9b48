"""What operators do to queues: look, pause, purge, move, copy, retry, remove, delete; leases and schedules.

Each verb that touches many messages does a bounded step and says whether there is more (`Progress.done`); the caller
gives other work its turn in between. Each message is moved in one atomic batch of the journal: after a crash it is in
one place or the other, in both or neither never.

A moved message keeps the identity that clients know, gets a number of its own (its place is the end of the target), and
says where it came from as Artemis does (`_AMQ_ORIG_*`).
"""

from __future__ import annotations

from itertools import islice
from typing import Final

import msgspec

from entrepot.base.errors import InvalidDestination, LeaseError, StorageError
from entrepot.core import trace as facts
from entrepot.core.backlog import Reference
from entrepot.core.bereaved import DEAD_CAUSE, is_bereaved
from entrepot.core.broker import BrokerCore
from entrepot.core.dead_letters import DEAD_COUNT, ORIGIN_ANNOTATIONS, ORIGINAL_EXPIRATION, ORIGINAL_MODE, mark_origin
from entrepot.core.handing import hand_out
from entrepot.core.queue import Queue
from entrepot.core.records import SCHEDULED_QUEUE
from entrepot.core.timed import SCHEDULED_TARGET
from entrepot.core.walk import Walk
from entrepot.journal.log import again
from entrepot.model.address import ANYCAST, MULTICAST, ROUTING_NAMES, Destination, parse_one
from entrepot.model.message import Message
from entrepot.model.predicate import Predicate

GIVEN_UP: Final = "an operator gave it up"
STEP_MESSAGES: Final = 500  # a step moves this many: some ms, so that deliveries are not held up
STEP_LOOKS: Final = 5_000  # and looks at this many
NEAR_LOOK: Final = 2_000  # names: a comparison takes microseconds, and a broker may have a million
NEAR_LENGTH: Final = 200

UNBOUNDED: Final = 1 << 62


class QueueView(msgspec.Struct, frozen=True):
    """One queue as an operator sees it. Counts are messages; ``oldest_ms`` is the age of the next to be delivered."""

    name: str
    address: str
    routing: str
    messages: int
    waiting: int
    in_flight: int
    delayed: int
    leased: int
    on_disk: int
    consumers: int
    octets: int
    oldest_ms: int
    paused: bool
    durable: bool
    temporary: bool
    auto_created: bool
    selector: str
    accepted: int
    delivered: int
    settled: int
    expired: int
    dead: int
    dropped: int
    requeued: int
    repeated: int = 0


class ConsumerView(msgspec.Struct, frozen=True):
    """One consumer of one queue."""

    queue: str
    key: int
    connection: str
    selector: str
    priority: int
    exclusive: bool
    in_flight: int
    credit: int
    delivered: int
    groups: int
    idle_ms: int


class LeaseView(msgspec.Struct, frozen=True):
    """One lease: who holds how much of what. ``begins``: "earliest", "latest", or a time stamp in ms since 1970."""

    queue: str
    group: str
    epoch: int
    base: int
    tail: int
    held: int
    selector: str
    begins: str


class StageView(msgspec.Struct, frozen=True):
    """One part of a staged batch. ``state``: open, closed, decided (for it, by this broker), publishing.

    ``owner``: whose the sink is, "" where there are no rights.
    """

    sink: str
    batch: int
    part: str
    state: str
    messages: int
    octets: int
    age_s: int
    owner: str


class SinkView(msgspec.Struct, frozen=True):
    """One sink that something is remembered of. ``memory``: what that costs, in octets.

    ``counter``: who counts its batches, "" for nobody who said so; ``newest``: the youngest that was decided or
    published here, -1 for none.
    """

    sink: str
    owner: str
    counter: str
    newest: int
    stages: int
    decided: int
    published: int
    memory: int


class ScheduleView(msgspec.Struct, frozen=True):
    """One message that waits for its time (wall-clock ms)."""

    number: int
    identity: str
    target: str
    deliver_at: int


class Progress:
    """How far a verb has come that is done in steps."""

    def __init__(self) -> None:
        self.messages = 0
        self.done = False


# -- looking ----------------------------------------------------------------------------------------------------------


def queue_view(broker: BrokerCore, queue: Queue) -> QueueView:
    """Return what there is to say about ``queue``; reads one message from disk when none is in memory."""
    backlog = queue.backlog
    condition = queue.filter
    return QueueView(
        name=queue.name,
        address=queue.address,
        routing=ROUTING_NAMES[queue.routing],
        messages=int(queue.count),
        waiting=int(backlog.count),
        in_flight=int(queue.in_flight),
        delayed=len(queue.delayed),
        leased=int(queue.leased),
        on_disk=int(backlog.paged_count),
        consumers=len(queue.roster.consumers),
        octets=int(backlog.octets),
        oldest_ms=_oldest(broker, queue),
        paused=queue.paused,
        durable=queue.durable,
        temporary=queue.temporary,
        auto_created=queue.auto_created,
        selector="" if condition is None else condition.text,
        accepted=int(queue.accepted),
        delivered=int(queue.delivered),
        settled=int(queue.settled),
        expired=int(queue.expired),
        dead=int(queue.dead),
        dropped=int(queue.dropped),
        requeued=int(queue.requeued),
        repeated=int(queue.repeated),
    )


def _oldest(broker: BrokerCore, queue: Queue) -> int:
    found = queue.walk().step(1)
    if not found or not found[0].message.timestamp:
        return 0
    return max(0, int(broker.wall) - int(found[0].message.timestamp))


def list_queues(broker: BrokerCore, pattern: str = "") -> list[QueueView]:
    """Return all queues, or those whose name ``pattern`` matches, by name."""
    queues = broker.table.matching(pattern) if pattern else list(broker.table.queues.values())
    return [queue_view(broker, queue) for queue in sorted(queues, key=lambda queue: queue.name)]


def list_consumers(broker: BrokerCore, name: str = "") -> list[ConsumerView]:
    """Return the consumers of one queue, or of all."""
    queues = [need(broker, name)] if name else list(broker.table.queues.values())
    return [
        ConsumerView(
            queue=queue.name,
            key=int(consumer.key),
            connection=consumer.connection,
            selector="" if consumer.selector is None else consumer.selector.shown,
            priority=int(consumer.priority),
            exclusive=queue.roster.exclusive is consumer,
            in_flight=len(consumer.in_flight),
            credit=max(0, int(consumer.window.messages) - int(consumer.window.used)),
            delivered=int(consumer.delivered),
            groups=int(consumer.groups),
            idle_ms=(int(broker.now) - int(consumer.settled_at)) // 1_000_000,
        )
        for queue in queues
        for consumer in queue.roster.consumers
    ]


def list_leases(broker: BrokerCore) -> list[LeaseView]:
    """Return all leases, by queue and group."""
    return [
        LeaseView(
            queue=lease.queue.name,
            group=lease.group,
            epoch=lease.epoch,
            base=lease.base,
            tail=lease.tail,
            held=lease.held,
            selector="" if lease.selector is None else lease.selector.text,
            begins=lease.begins,
        )
        for _, lease in sorted(broker.leases.held.items())
    ]


def list_stages(broker: BrokerCore, sink: str = "", most: int = 1000) -> list[StageView]:
    """Return up to ``most`` stages, of one sink or of all, in the order in which they were opened."""
    stages = broker.stages
    views: list[StageView] = []
    for publications in stages.publications.values():
        for publication in publications.values():
            if not publication.done and sink in ("", publication.sink):
                left = sum(run.count for run in publication.work)
                parts = ",".join(publication.parts)
                owner = _owner(broker, publication.sink)
                views.append(StageView(publication.sink, publication.batch, parts, "publishing", left, 0, 0, owner))
    for stage in stages.stages.values():
        if sink in ("", stage.sink) and len(views) < most:
            state = "closed" if stage.closed else "open"
            if stage.part in stages.decisions.get(stage.sink, {}).get(stage.batch, []):
                state = "decided"
            age = max(0, int(broker.wall) - stage.created) // 1000
            views.append(
                StageView(
                    stage.sink,
                    stage.batch,
                    stage.part,
                    state,
                    int(stage.count),
                    int(stage.octets),
                    age,
                    _owner(broker, stage.sink),
                )
            )
    return views


def list_sinks(broker: BrokerCore, most: int = 1000) -> list[SinkView]:
    """Return up to ``most`` sinks, whose they are and what is remembered of each, by name."""
    stages = broker.stages
    counts = stages.counts.held
    return [
        SinkView(
            sink=name,
            owner=sink.owner,
            counter=counts[name].counter if name in counts else "",
            newest=max((*stages.decisions.get(name, ()), *stages.publications.get(name, ())), default=-1),
            stages=int(sink.stages),
            decided=len(stages.decisions.get(name, {})),
            published=len(stages.publications.get(name, {})),
            memory=int(sink.octets),
        )
        for name, sink in sorted(stages.ledger.sinks.items())[:most]
    ]


def _owner(broker: BrokerCore, sink: str) -> str:
    kept = broker.stages.ledger.sinks.get(sink)
    return "" if kept is None else kept.owner


def drop_stages(broker: BrokerCore, sink: str, batch: int, part: str) -> int:
    """Drop the stages of a sink, of one batch (-1: all), of one part (""; all); return how many there were."""
    found = [stage for stage in broker.stages.of(sink, batch) if part in ("", stage.part)]
    for stage in found:
        broker.stages.drop(stage, "an operator dropped it")
    return len(found)


def list_scheduled(broker: BrokerCore, most: int = 1000) -> list[ScheduleView]:
    """Return up to ``most`` of the messages that wait for their time, the next first."""
    views: list[ScheduleView] = []
    for number in list(broker.scheduled.schedules)[:most]:
        message = _scheduled(broker, number)
        rare = message.need_rare()
        views.append(
            ScheduleView(
                number=number,
                identity=broker.ids.identity_of(message),
                target=rare.annotations.get(SCHEDULED_TARGET, message.address),
                deliver_at=int(rare.deliver_at),
            )
        )
    return sorted(views, key=lambda view: (view.deliver_at, view.number))


def _scheduled(broker: BrokerCore, number: int) -> Message:
    kept = broker.scheduled.schedules[number]
    return broker.journal.load(number) if kept is None else kept


# -- acting on a whole queue ------------------------------------------------------------------------------------------


def need(broker: BrokerCore, name: str) -> Queue:
    """Return the queue ``name``. Raises InvalidDestination when there is none."""
    queue = broker.table.queues.get(name)
    if queue is None:
        near = near_names(broker, name)
        remedy = f"did you mean {' or '.join(near)}?" if near else "list the queues to see their names"
        raise InvalidDestination(f"there is no queue {name!r}", remedy=remedy)
    return queue


def near_names(broker: BrokerCore, name: str) -> list[str]:
    """Return up to three queues whose names are like ``name``, the likest first, looked for among `NEAR_LOOK` at most.

    For who may manage the broker: it tells what there is.
    """
    from difflib import get_close_matches  # noqa: PLC0415 - nobody needs it who makes no mistake

    if not name or len(name) > NEAR_LENGTH:
        return []
    return get_close_matches(name, list(islice(broker.table.queues, NEAR_LOOK)), n=3, cutoff=0.7)


def pause(broker: BrokerCore, name: str) -> None:
    """Stop delivery from a queue; a durable queue is paused after a restart, too."""
    queue = need(broker, name)
    queue.pause()
    broker.queues.keep(queue)


def resume(broker: BrokerCore, name: str) -> None:
    """Deliver again."""
    queue = need(broker, name)
    queue.resume()
    broker.queues.keep(queue)


def purge(broker: BrokerCore, name: str, progress: Progress) -> None:
    """Remove some of what waits in a queue; what is in flight or leased stays. Call until ``progress.done``."""
    gone = int(need(broker, name).purge(STEP_MESSAGES))
    progress.messages += gone
    progress.done = gone < STEP_MESSAGES


def delete(broker: BrokerCore, name: str, *, if_empty: bool = False, if_unused: bool = False) -> int:
    """Delete a queue with all that it holds, leases included; return how many messages went.

    Raises InvalidDestination when there is none, or it is not as the caller demands.
    """
    queue = need(broker, name)
    if if_empty and queue.count > 0:
        raise InvalidDestination(f"the queue {name!r} holds {queue.count} messages", remedy="purge it first")
    if if_unused and (queue.roster.consumers or broker.leases.on(queue)):
        raise InvalidDestination(f"the queue {name!r} has consumers or leases", remedy="close them first")
    return int(broker.queues.delete(queue, "an operator deleted it"))


def release(broker: BrokerCore, name: str, group: str) -> int:
    """Take a lease away from its reader: what it held goes back in order. Return how many messages that were.

    Raises LeaseError when there is none.
    """
    lease = broker.leases.held.get((name, group))
    if lease is None:
        raise LeaseError(f"{group!r} holds no lease on {name!r}")
    return broker.leases.release(lease)


def cancel_scheduled(broker: BrokerCore, number: int) -> bool:
    """Forget a message that waits for its time; False when there is none of that number."""
    if number not in broker.scheduled.schedules:
        return False
    kept = broker.scheduled.schedules.pop(number)
    if kept is not None:
        broker.memory.release(kept)
    broker.journal.settle(number, SCHEDULED_QUEUE)
    return True


# -- moving -----------------------------------------------------------------------------------------------------------


def _queue_named(broker: BrokerCore, text: str) -> Queue:
    destination = parse_one(text, ANYCAST)
    if destination.routing == MULTICAST and not destination.queue:
        raise InvalidDestination(f"{text!r} is a topic", remedy="name a queue, or one subscription as topic://T::queue")
    return broker.queues.need(destination)


class Move:
    """Moves what waits in one queue to another, or copies it, a step at a time, in order.

    ``most`` bounds how many. Messages that come to the source after the move began are not touched: a move onto a
    queue that feeds its source ends.
    """

    def __init__(
        self,
        broker: BrokerCore,
        source: str,
        target: str,
        selector: Predicate | None = None,
        most: int = UNBOUNDED,
        copies: bool = False,
    ) -> None:
        self.broker = broker
        self.source = need(broker, source)
        self.target = None if not target else _queue_named(broker, target)
        if self.target is self.source:
            raise InvalidDestination(f"source and target are both {source!r}", remedy="name another target")
        self.selector = selector
        self.most = most
        self.copies = copies
        self.progress = Progress()
        self.last = int(broker.ids.number)
        self.walk: Walk = self.source.walk()

    def step(self) -> Progress:
        """Move some; call until ``done``.

        Raises StorageFull, StorageError, and InvalidDestination when the target was deleted meanwhile: what was not
        moved is where it was.
        """
        queues = self.broker.table.queues
        if queues.get(self.source.name) is not self.source:
            self.progress.done = True
            return self.progress
        target = self.target
        if target is not None and queues.get(target.name) is not target:
            raise InvalidDestination(
                f"the queue {target.name!r} was deleted after {self.progress.messages} messages had gone there",
                remedy="the rest is where it was; name another target",
            )
        refusal = self.broker.journal.refusal()
        if refusal is not None:
            raise again(refusal)
        most = min(STEP_MESSAGES, self.most - self.progress.messages)
        if self.copies:
            self._copy(most)
        else:
            self._move(most)
        if self.walk.done or self.progress.messages >= self.most:
            self.progress.done = True
        return self.progress

    def _move(self, most: int) -> None:
        taken = self.source.take(self.walk, most, STEP_LOOKS, self.selector)
        at = 0
        try:
            while at < len(taken):
                reference = taken[at]
                if reference.number > self.last:
                    self.source.put_back(reference)
                elif self.one(reference):
                    self.progress.messages += 1
                else:
                    self.source.put_back(reference)
                at += 1
        except StorageError:
            for reference in taken[at:]:
                self.source.put_back(reference)
            raise
        finally:
            self.source.dispatch()

    def one(self, reference: Reference) -> bool:
        """Move one message that was taken out, in one atomic batch; False when it has nowhere to go."""
        target = self._target_of(reference.message)
        if target is None or target is self.source:
            return False
        self.broker.journal.begin()
        try:
            self.source.note(facts.REMOVED, reference.number, 0, facts.MOVED)
            hand_out(self.broker, self._copy_of(reference.message, target), [target])
            self.source.finish(reference)
        finally:
            self.broker.journal.end()
        return True

    def _copy(self, most: int) -> None:
        looks = STEP_LOOKS
        while not self.walk.done and most > 0 and looks > 0:
            found = self.walk.step(min(most, looks))
            looks -= len(found)
            for each in found:
                message = each.message
                if message.number > self.last or (self.selector is not None and not self.selector.matches(message)):
                    continue
                target = self._target_of(message)
                assert target is not None
                hand_out(self.broker, self._copy_of(message, target), [target])
                self.progress.messages += 1
                most -= 1

    def _target_of(self, message: Message) -> Queue | None:
        return self.target

    def _copy_of(self, message: Message, target: Queue) -> Message:
        copy = self.broker.ids.renumbered(message)
        copy.address = target.address
        mark_origin(copy, message, self.source, self.broker.ids.identity_of(message))
        return copy


class Retry(Move):
    """Sends dead letters back to the queues that they came from, as they were before (artemis.md 4.7)."""

    def __init__(
        self, broker: BrokerCore, source: str, selector: Predicate | None = None, most: int = UNBOUNDED
    ) -> None:
        super().__init__(broker, source, "", selector, most)
        self.homeless = 0

    def _target_of(self, message: Message) -> Queue | None:
        """Return the queue that ``message`` came from, made again if it may be.

        None for one that tells nothing, and for one that has lost its body.
        """
        if is_bereaved(message):  # an empty one must not be taken for what was sent
            self.homeless += 1
            return None
        rare = message.rare
        name = "" if rare is None else rare.annotations.get("_AMQ_ORIG_QUEUE", "")
        address = "" if rare is None else rare.annotations.get("_AMQ_ORIG_ADDRESS", name)
        queue = self.broker.table.queues.get(name)
        if queue is None and name and name == address:
            try:
                queue = self.broker.queues.need(Destination(name, ANYCAST))
            except InvalidDestination:
                queue = None
        if queue is None:
            self.homeless += 1
        return queue

    def _copy_of(self, message: Message, target: Queue) -> Message:
        """Return the message without what its death added. Its time to live, if it is over, is not given back."""
        copy = self.broker.ids.renumbered(message)
        annotations = copy.need_rare().annotations
        copy.address = annotations.get("_AMQ_ORIG_ADDRESS", target.address)
        if annotations.get(ORIGINAL_MODE) == "NON_PERSISTENT":
            copy.durable = False
        expiration = int(annotations.get(ORIGINAL_EXPIRATION, "0"))
        if expiration > self.broker.wall:
            copy.expiration = expiration
        for name in (*ORIGIN_ANNOTATIONS, DEAD_CAUSE, DEAD_COUNT, ORIGINAL_EXPIRATION, ORIGINAL_MODE):
            annotations.pop(name, None)
        return copy


class Discard(Move):
    """Removes what a selector wants from a queue, a step at a time."""

    def __init__(
        self, broker: BrokerCore, source: str, selector: Predicate | None = None, most: int = UNBOUNDED
    ) -> None:
        super().__init__(broker, source, "", selector, most)

    def one(self, reference: Reference) -> bool:
        """Remove one message that was taken out."""
        self.source.note(facts.REMOVED, reference.number, 0, facts.DISCARDED)
        self.source.finish(reference)
        return True


class Burial(Discard):
    """Sends messages to the dead letters of their queue, as if they had failed too often."""

    def __init__(
        self, broker: BrokerCore, source: str, selector: Predicate | None = None, most: int = UNBOUNDED
    ) -> None:
        super().__init__(broker, source, selector, most)
        policy = self.source.policy
        name = policy.dead_letter_address
        if not name or name in (self.source.name, self.source.address):
            raise InvalidDestination(
                f"the queue {source!r} has no dead-letter address", remedy="set dead_letter_address for it, or remove"
            )

    def one(self, reference: Reference) -> bool:
        """Make one message that was taken out a dead letter, in one atomic batch."""
        self.broker.journal.begin()
        try:
            self.source.note_dead(reference.number, GIVEN_UP)
            self.broker.dead_letter(self.source, reference.message, GIVEN_UP, reference.deliveries)
            self.source.finish(reference)
        finally:
            self.broker.journal.end()
        return True


class Purge:
    """Removes all that waits in a queue when it begins, or the first ``most`` of it, unread; a step at a time."""

    def __init__(self, broker: BrokerCore, name: str, most: int = UNBOUNDED) -> None:
        self.queue = need(broker, name)
        self.progress = Progress()
        self.left = max(0, min(most, int(self.queue.backlog.count) + len(self.queue.delayed)))

    def step(self) -> Progress:
        """Remove some; call until ``done``."""
        most = min(STEP_MESSAGES, self.left)
        gone = int(self.queue.purge(most)) if most > 0 else 0
        self.left -= gone
        self.progress.messages += gone
        self.progress.done = gone < most or self.left == 0
        return self.progress


class Count:
    """Counts what waits in a queue and a selector wants; a step at a time."""

    def __init__(self, broker: BrokerCore, name: str, selector: Predicate) -> None:
        self.selector = selector
        self.progress = Progress()
        self.walk: Walk = need(broker, name).walk()

    def step(self) -> Progress:
        """Count on; call until ``done``."""
        for each in self.walk.step(STEP_LOOKS):
            if self.selector.matches(each.message):
                self.progress.messages += 1
        self.progress.done = self.walk.done
        return self.progress


class Removal:
    """Looks for one message among those that wait, and removes it, or does ``instead``; a step at a time.

    ``identity`` is the message id that clients know, or the number that the broker gave it.
    """

    def __init__(self, broker: BrokerCore, name: str, identity: str | int, instead: Move | None = None) -> None:
        self.broker = broker
        self.queue = need(broker, name)
        self.identity = identity
        self.instead = instead
        self.progress = Progress()
        self.walk: Walk = self.queue.walk()

    def step(self) -> Progress:
        """Look on; ``messages`` is 1 when it was found and removed. Raises StorageFull, StorageError."""
        if self.broker.table.queues.get(self.queue.name) is not self.queue:
            self.progress.done = True
            return self.progress
        for each in self.walk.step(STEP_LOOKS):
            if self._is_it(each.message):
                self.progress.messages = self._act(self.queue.take_found(each))
                self.progress.done = True
                return self.progress
        self.progress.done = self.walk.done
        return self.progress

    def _is_it(self, message: Message) -> bool:
        if isinstance(self.identity, int):
            return message.number == self.identity
        return self.broker.ids.identity_of(message) == self.identity

    def _act(self, reference: Reference) -> int:
        if self.instead is None:
            self.queue.note(facts.REMOVED, reference.number, 0, facts.DISCARDED)
            self.queue.finish(reference)
            return 1
        refusal = self.broker.journal.refusal()
        try:
            if refusal is not None:
                raise again(refusal)
            done = self.instead.one(reference)
        except StorageError:
            self._put_back(reference)
            raise
        if not done:
            self._put_back(reference)
        return 1 if done else 0

    def _put_back(self, reference: Reference) -> None:
        self.queue.put_back(reference)
        self.queue.dispatch()
