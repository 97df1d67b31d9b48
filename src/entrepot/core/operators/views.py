"""What operators see of queues, consumers, leases, stages and schedules. Nothing is changed by looking."""

from __future__ import annotations

from itertools import islice
from typing import Final

import msgspec

from entrepot.base.environment import SECOND, UNLIMITED
from entrepot.base.errors import InvalidDestination
from entrepot.core.addressing.address_settings import Full
from entrepot.core.broker import BrokerCore
from entrepot.core.leases.holder import silence
from entrepot.core.queue.queue import Queue
from entrepot.core.scheduling.timed import SCHEDULED_TARGET
from entrepot.model.address import ROUTING_NAMES

FULL_NAMES: Final = tuple(one.name for one in Full)
NEAR_LOOK: Final = 2_000  # names: a comparison takes microseconds, and a broker may have a million
NEAR_LENGTH: Final = 200
UNBOUNDED: Final = 1 << 62


class QueueView(msgspec.Struct, frozen=True):
    """One queue as an operator sees it. Counts are messages; ``oldest_ms`` is the age of the next to be delivered.

    ``limit_octets``: what its policy lets it have (with PAGE: in memory), 0 where only the broker's limit holds.
    ``when_full``: what happens to a message for it when it is full: PAGE, BLOCK, FAIL or DROP.
    """

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
    limit_octets: int = 0
    when_full: str = ""


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
    """One lease: who holds how much of what. ``begins``: "earliest", "latest", or a time stamp in ms since 1970.

    ``until``: nothing that is stamped later is claimed, ms since 1970; 0: anything is. ``held_since``: when the oldest
    of what it holds was claimed, ms since 1970, 0 where it holds nothing; ``quiet_s``: for how long its reader has
    asked for nothing, at most since the broker started. ``lost``: how many of them are lost on the disk, as far as its
    reader asked for them. ``located``: how many messages its reader was told the places of, to read them in the files
    of the broker himself, since the broker started.
    """

    queue: str
    group: str
    epoch: int
    base: int
    tail: int
    held: int
    selector: str
    begins: str
    until: int
    held_since: int
    quiet_s: int
    located: int
    lost: int


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


def queue_view(broker: BrokerCore, queue: Queue) -> QueueView:
    """Return what there is to say about ``queue``; reads one message from disk when none is in memory."""
    backlog = queue.backlog
    condition = queue.filter
    limit = queue.policy.max_octets
    return QueueView(
        name=queue.name,
        address=queue.address,
        routing=ROUTING_NAMES[queue.routing],
        messages=int(queue.count),
        waiting=int(backlog.count),
        in_flight=int(queue.in_flight),
        delayed=len(queue.returns.delayed),
        leased=int(queue.leased),
        on_disk=int(backlog.paged_count),
        consumers=queue.roster.readers(),
        octets=int(backlog.octets),
        oldest_ms=oldest_of(broker, queue),
        paused=queue.gate.paused,
        durable=queue.durable,
        temporary=queue.temporary,
        auto_created=queue.definition.auto_created,
        selector="" if condition is None else condition.text,
        accepted=int(queue.accepted),
        delivered=int(queue.dispatcher.delivered),
        settled=int(queue.settled),
        expired=int(queue.returns.expired),
        dead=int(queue.returns.dead),
        dropped=int(queue.fates.dropped),
        requeued=int(queue.returns.requeued),
        repeated=int(queue.fates.repeated),
        limit_octets=int(limit) if 0 < limit < UNLIMITED else 0,
        when_full=FULL_NAMES[queue.policy.full],
    )


def oldest_of(broker: BrokerCore, queue: Queue) -> int:
    """Return the age of the next message, ms; reads it from disk when none is in memory."""
    found = queue.stock.walk().step(1)
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
            until=lease.until,
            held_since=lease.held_since,
            quiet_s=silence(lease, broker) // SECOND,
            located=lease.located,
            lost=lease.lost.count,
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
            if stage.doubtful:
                state = "doubtful"
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


def list_scheduled(broker: BrokerCore, most: int = 1000) -> list[ScheduleView]:
    """Return up to ``most`` of the messages that wait for their time, the next first."""
    views: list[ScheduleView] = []
    for number in list(broker.scheduled.schedules)[:most]:
        message = broker.scheduled.load(number)
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
