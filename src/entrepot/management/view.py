"""A running broker as one value, asked for by management messages: what console, metrics and Jolokia show.

Whoever can ask makes it: the ports are the operations of `core/operators/`, the numbers are theirs, and none is counted
twice. A view is whole: all queues, who is connected in numbers, bridges, clusters. It is asked for in pages, each of
them bounded steps of the broker, so that one of 10,000 queues holds no message up (decision 0020).
"""

from __future__ import annotations

import time
from typing import Any, Final, Protocol

import msgspec

from entrepot.base.errors import EntrepotError
from entrepot.core.operators.views import QueueView

PAGE: Final = 500  # queues of one request: the most that `describeQueues` answers with
FULL: Final = 90  # % of memory or disk from which on it is an alarm
OLD_MS: Final = 60_000  # age of a message that waits without a reader, from which on it is an alarm
ALARMS_MOST: Final = 100
ASKED: Final = (
    *("name", "version", "nodeID", "active", "backup", "clustered", "securityEnabled", "uptime", "uptimeMillis"),
    *("addressCount", "queueCount", "connectionCount", "sessionCount", "totalConsumerCount", "totalMessageCount"),
    *("totalMessagesAdded", "totalMessagesAcknowledged", "addressMemoryUsage", "addressMemoryUsagePercentage"),
    *("diskStoreUsage", "globalMaxSize", "currentTimeMillis", "acceptorsAsJSON"),
)


class Asker(Protocol):
    """Who can ask a broker."""

    async def ask(self, resource: str, operation: str, *values: object) -> Any:
        """Return the result of an operation. Raises EntrepotError."""


class Alarm(msgspec.Struct, frozen=True):
    """Something that an operator should look at. ``level``: error or warning; ``queue``: which, "" for none."""

    level: str
    what: str
    why: str
    queue: str = ""


class BrokerView(msgspec.Struct):
    """One broker at one moment. ``at``: s of a monotonic clock; ``took``: s that asking took; ``facts``: `ASKED`."""

    facts: dict[str, Any]
    queues: list[QueueView]
    bridges: list[dict[str, Any]]
    clusters: list[dict[str, Any]]
    at: float
    took: float

    @property
    def name(self) -> str:
        """What the broker is called."""
        return str(self.facts.get("name", ""))

    def number(self, name: str) -> int:
        """Return a fact that is a number."""
        return int(self.facts.get(name) or 0)

    def total(self, field: str) -> int:
        """Return the sum of a field of all queues."""
        return sum(int(getattr(queue, field)) for queue in self.queues)

    def own(self) -> list[QueueView]:
        """Return the queues that are somebody's: not the temporary ones."""
        return [queue for queue in self.queues if not queue.temporary]


class Rates(msgspec.Struct):
    """What happened a second between two views: messages that came, went out, were settled."""

    accepted: float = 0.0
    delivered: float = 0.0
    settled: float = 0.0


async def look(asker: Asker) -> BrokerView:
    """Ask for all of a broker. Raises EntrepotError."""
    began = time.monotonic()
    facts = await asker.ask("broker", "describeAttributes", ",".join(ASKED))
    queues = await all_queues(asker)
    bridges = await asker.ask("broker", "describeBridges")
    clusters = await asker.ask("broker", "describeClusters")
    now = time.monotonic()
    return BrokerView(facts, queues, bridges, clusters, now, now - began)


async def all_queues(asker: Asker, pattern: str = "") -> list[QueueView]:
    """Return all queues, or those that a pattern covers, by name. Raises EntrepotError."""
    found: list[QueueView] = []
    while True:
        last = found[-1].name if found else ""
        page = await asker.ask("broker", "describeQueues", pattern, last, PAGE)
        found += msgspec.convert(page, list[QueueView])
        if len(page) < PAGE:
            return found


async def queue_named(asker: Asker, name: str) -> QueueView:
    """Return one queue. Raises InvalidDestination."""
    return msgspec.convert(await asker.ask(f"queue.{name}", "describe"), QueueView)


def rates(before: BrokerView | None, now: BrokerView) -> Rates:
    """Return what happened a second between two views; nothing where a broker began anew."""
    if before is None or now.at <= before.at or before.number("uptimeMillis") > now.number("uptimeMillis"):
        return Rates()
    then = {queue.name: queue for queue in before.queues}
    sums = [0, 0, 0]
    for queue in now.own():  # answers to who looks go through temporary queues
        old = then.get(queue.name)
        for at, field in enumerate(("accepted", "delivered", "settled")):
            sums[at] += max(0, getattr(queue, field) - (0 if old is None else getattr(old, field)))
    span = now.at - before.at
    return Rates(*(one / span for one in sums))


def alarms(view: BrokerView) -> list[Alarm]:
    """Return what is wrong with a broker, the worst first."""
    found: list[Alarm] = []
    memory, disk = (
        view.number("addressMemoryUsagePercentage"),
        round(100 * float(view.facts.get("diskStoreUsage") or 0)),
    )
    if memory >= FULL:
        found.append(
            Alarm("error", "memory is short", f"messages take {memory} % of it: producers wait, or they are paged")
        )
    if disk >= FULL:
        found.append(
            Alarm("error", "the store is nearly full", f"{disk} % is taken: who sends persistent messages waits")
        )
    for bridge in view.bridges:
        if bridge.get("state") not in ("open", "started", None):
            why = str(bridge.get("error") or bridge.get("state"))
            found.append(Alarm("error", f"the bridge {bridge.get('connector')} is not open", why))
    for queue in view.own():
        found += _alarms_of(queue)
    found.sort(key=lambda alarm: alarm.level != "error")
    return found[:ALARMS_MOST]


def is_dead_letters(queue: QueueView) -> bool:
    """Say whether a queue is called like those of dead letters, of either family."""
    return queue.name in ("DLQ", "ExpiryQueue") or queue.name.startswith(("ActiveMQ.DLQ", "DLQ."))


def _alarms_of(queue: QueueView) -> list[Alarm]:
    if is_dead_letters(queue):
        if not queue.messages:
            return []
        return [Alarm("warning", f"{queue.messages:,} dead letters", "see their causes", queue.name)]
    if queue.waiting and queue.paused:
        return [Alarm("warning", f"{queue.name} is paused", f"{queue.waiting:,} messages wait", queue.name)]
    if queue.waiting and not queue.consumers and queue.oldest_ms >= OLD_MS:
        told = f"{queue.waiting:,} messages wait, the first one for {queue.oldest_ms // 1000:,} s"
        return [Alarm("warning", f"nobody reads {queue.name}", told, queue.name)]
    return []


class Sides:
    """Several brokers, looked at side by side: a view of each that answers, and why of each that does not."""

    def __init__(self, views: dict[str, BrokerView], failures: dict[str, EntrepotError]) -> None:
        self.views: Final = views
        self.failures: Final = failures
