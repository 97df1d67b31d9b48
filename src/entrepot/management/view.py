"""A running broker as one value, asked for by management messages: what console, metrics and Jolokia show.

Whoever can ask makes it: the ports are the operations of `core/operators/`, the numbers are theirs, and none is counted
twice. A view is whole: all queues, who is connected in numbers, bridges, clusters. It is asked for in pages, each of
them bounded steps of the broker, so that one of 10,000 queues holds no message up (decision 0020).
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec

from entrepot.base.errors import EntrepotError
from entrepot.core.operators.overlook import OLD_MS, is_dead_letters
from entrepot.core.operators.together.asker import Asker
from entrepot.core.operators.views import QueueView

T = TypeVar("T")

PAGE: Final = 500  # queues of one request: the most that `describeQueues` answers with
FULL: Final = 90  # % of memory or disk from which on it is an alarm
ALARMS_MOST: Final = 100
ASKED: Final = (
    *("name", "version", "nodeID", "active", "backup", "clustered", "securityEnabled", "uptime", "uptimeMillis"),
    *("addressCount", "queueCount", "connectionCount", "sessionCount", "addressMemoryUsage", "zone"),
    *("addressMemoryUsagePercentage", "diskStoreUsage", "globalMaxSize", "currentTimeMillis", "acceptorsAsJSON"),
)
"""What is read at once. Totals over all queues are not: each would be one long step of the broker."""
COUNTED: Final = "address,routedMessageCount,unRoutedMessageCount,temporary"


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

    def own(self) -> list[QueueView]:
        """Return the queues that are somebody's: not the temporary ones."""
        return [queue for queue in self.queues if not queue.temporary]


class Glance(msgspec.Struct):
    """One broker at one moment without its queues. ``sums``: over them; ``ailing``: those that want a look."""

    facts: dict[str, Any]
    sums: dict[str, int]
    ailing: list[QueueView]
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

    @property
    def store_percent(self) -> int:
        """How much of the store is taken."""
        return round(100 * float(self.facts.get("diskStoreUsage") or 0))

    @property
    def lasting(self) -> int:
        """How many queues are somebody's: not the temporary ones."""
        return self.sums["queues"] - self.sums["temporary"]


class Found(msgspec.Struct):
    """One page of queues. ``count``: how many there are in all."""

    count: int
    rows: list[QueueView]


class AddressCounts(msgspec.Struct, frozen=True):
    """Messages sent to one address in this run: while a queue or a divert was bound to it, and while none was."""

    address: str
    routed: int = msgspec.field(name="routedMessageCount")
    unrouted: int = msgspec.field(name="unRoutedMessageCount")
    temporary: bool = False


class Rates(msgspec.Struct):
    """What happened a second between two views: messages that came, went out, were settled."""

    accepted: float = 0.0
    delivered: float = 0.0
    settled: float = 0.0


class Moved(msgspec.Struct, frozen=True):
    """What a link carried a second between two views, as one end of it counts: to the other broker, and from it."""

    sent: float
    received: float


async def look(asker: Asker) -> BrokerView:
    """Ask for all of a broker. Raises EntrepotError."""
    began = time.monotonic()
    facts = await asker.ask("broker", "describeAttributes", ",".join(ASKED))
    queues = await all_queues(asker)
    bridges = await asker.ask("broker", "describeBridges")
    clusters = await asker.ask("broker", "describeClusters")
    now = time.monotonic()
    return BrokerView(facts, queues, bridges, clusters, now, now - began)


async def glance(asker: Asker) -> Glance:
    """Ask for all of a broker but its queues one by one. Raises EntrepotError."""
    began = time.monotonic()
    facts = await asker.ask("broker", "describeAttributes", ",".join(ASKED))
    sums = await asker.ask("broker", "describeSums")
    ailing = msgspec.convert(sums.pop("ailing"), list[QueueView])
    bridges = await asker.ask("broker", "describeBridges")
    clusters = await asker.ask("broker", "describeClusters")
    now = time.monotonic()
    totals = {
        "totalMessageCount": sums["messages"],
        "totalConsumerCount": sums["consumers"],
        "totalMessagesAdded": sums["accepted"],
        "totalMessagesAcknowledged": sums["settled"],
    }
    return Glance({**facts, **totals}, sums, ailing, bridges, clusters, now, now - began)


async def page_of(asker: Asker, wanted: Mapping[str, object]) -> Found:
    """Ask for one page of queues; ``wanted``: see `describeQueuePage` (docs/managing.md). Raises EntrepotError."""
    return msgspec.convert(await asker.ask("broker", "describeQueuePage", json.dumps(wanted)), Found)


async def all_queues(asker: Asker, pattern: str = "") -> list[QueueView]:
    """Return all queues, or those that a pattern covers, by name. Raises EntrepotError."""
    found: list[QueueView] = []
    while True:
        last = found[-1].name if found else ""
        page = await asker.ask("broker", "describeQueues", pattern, last, PAGE)
        found += msgspec.convert(page, list[QueueView])
        if len(page) < PAGE:
            return found


async def counted_addresses(asker: Asker, most: int) -> list[AddressCounts]:
    """Return what was sent to each address that is not temporary, by name, at most ``most``. Raises EntrepotError."""
    found: list[AddressCounts] = []
    last, pages = "", 2 * most // PAGE + 1  # temporary ones are looked at, too
    while len(found) < most and pages:
        rows = await asker.ask("broker", "describeResources", "address", "", last, PAGE, COUNTED)
        page = msgspec.convert(rows, list[AddressCounts])
        found += [one for one in page if not one.temporary]
        if len(page) < PAGE:
            break
        last, pages = page[-1].address, pages - 1
    return found[:most]


async def queue_named(asker: Asker, name: str) -> QueueView:
    """Return one queue. Raises InvalidDestination."""
    return msgspec.convert(await asker.ask(f"queue.{name}", "describe"), QueueView)


def _span(before: Glance | None, now: Glance) -> float:
    """Return the s between two glances of one run of a broker, 0 where they are not."""
    if before is None or now.at <= before.at or before.number("uptimeMillis") > now.number("uptimeMillis"):
        return 0.0
    return now.at - before.at


def rates(before: Glance | None, now: Glance) -> Rates:
    """Return what happened a second between two glances; nothing where a broker began anew, or a queue was deleted."""
    span = _span(before, now)
    if before is None or not span:
        return Rates()
    return Rates(*(max(0, now.sums[one] - before.sums[one]) / span for one in ("accepted", "delivered", "settled")))


def link_named(row: Mapping[str, Any]) -> str:
    """Return what tells a row of `describeBridges` from the others of its broker."""
    said = (row.get("kind"), row.get("connector"), row.get("peer_id") or row.get("peer") or row.get("place"))
    return "\t".join(str(one or "") for one in (*said, row.get("initiator")))


def link_rates(before: Glance | None, now: Glance) -> dict[str, Moved]:
    """Return what each link carried a second between two glances, by `link_named`.

    Those that one of them does not have, or that began to count anew, are left out.
    """
    span = _span(before, now)
    if before is None or not span:
        return {}
    earlier, later = (_counts(view.bridges) for view in (before, now))
    return {
        name: Moved((sent - earlier[name][0]) / span, (received - earlier[name][1]) / span)
        for name, (sent, received) in later.items()
        if name in earlier and sent >= earlier[name][0] and received >= earlier[name][1]
    }


def _counts(rows: list[dict[str, Any]]) -> dict[str, tuple[int, int]]:
    return {link_named(row): (int(row["sent"]), int(row.get("received") or 0)) for row in rows if "sent" in row}


def alarms(view: Glance) -> list[Alarm]:
    """Return what is wrong with a broker, the worst first."""
    found: list[Alarm] = []
    memory, disk = (
        view.number("addressMemoryUsagePercentage"),
        view.store_percent,
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
    for queue in view.ailing:
        found += _alarms_of(queue)
    found.sort(key=lambda alarm: alarm.level != "error")
    return found[:ALARMS_MOST]


def _alarms_of(queue: QueueView) -> list[Alarm]:
    if is_dead_letters(queue.name):
        if not queue.messages:
            return []
        return [Alarm("warning", f"{queue.messages:,} dead letters", "see their causes", queue.name)]
    if queue.waiting and queue.paused:
        return [Alarm("warning", f"{queue.name} is paused", f"{queue.waiting:,} messages wait", queue.name)]
    if queue.waiting and not queue.consumers and queue.oldest_ms >= OLD_MS:
        told = f"{queue.waiting:,} messages wait, the first one for {queue.oldest_ms // 1000:,} s"
        return [Alarm("warning", f"nobody reads {queue.name}", told, queue.name)]
    return []


class Sides(Generic[T]):
    """Several brokers, looked at side by side: a view of each that answers, and why of each that does not."""

    def __init__(self, views: dict[str, T], failures: dict[str, EntrepotError]) -> None:
        self.views: Final = views
        self.failures: Final = failures
