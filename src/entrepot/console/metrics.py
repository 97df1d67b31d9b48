"""Metrics of a broker, for Prometheus: text of a `BrokerView`, with Artemis' names and tags where it has them.

An encoder of our own, without an object for each series (decision 0020). How many series there are is bounded: at most
`QUEUES_MOST` queues, those with most messages, none that is temporary; what is left out is counted. Consumers, links
and reasons are in the detailed page alone, `DETAILS_MOST` of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from entrepot.core.operators.views import QueueView
from entrepot.management.view import AddressCounts, BrokerView

QUEUES_MOST: Final = 10_000
DETAILS_MOST: Final = 1_000
OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PLAIN: Final = "text/plain; version=0.0.4; charset=utf-8"

Field = Callable[[QueueView], float]
QUEUE: Final[Sequence[tuple[str, str, str, Field]]] = (
    ("artemis_message_count", "gauge", "messages in the queue", lambda one: one.messages),
    ("artemis_delivering_message_count", "gauge", "messages that consumers have", lambda one: one.in_flight),
    ("artemis_scheduled_message_count", "gauge", "messages that wait for their time", lambda one: one.delayed),
    ("artemis_consumer_count", "gauge", "consumers", lambda one: one.consumers),
    ("artemis_messages_added", "gauge", "messages that came since the start", lambda one: one.accepted),
    ("artemis_messages_acknowledged", "gauge", "messages that were acknowledged", lambda one: one.settled),
)
MORE: Final[Sequence[tuple[str, str, str, Field]]] = (
    ("artemis_persistent_size", "gauge", "octets of the messages in the queue", lambda one: one.octets),
    ("artemis_messages_expired", "gauge", "messages that expired", lambda one: one.expired),
    ("artemis_messages_killed", "gauge", "messages that became dead letters", lambda one: one.dead),
    ("entrepot_queue_paged_messages", "gauge", "messages that are on disk only", lambda one: one.on_disk),
    ("entrepot_queue_leased_messages", "gauge", "messages that leases hold", lambda one: one.leased),
    ("entrepot_queue_paused", "gauge", "1 where delivery is stopped", lambda one: int(one.paused)),
    ("entrepot_queue_delivered", "counter", "messages handed to consumers", lambda one: one.delivered),
    ("entrepot_queue_requeued", "counter", "messages that came back", lambda one: one.requeued),
    ("entrepot_queue_dropped", "counter", "messages thrown away by a policy", lambda one: one.dropped),
)
OLDEST: Final = ("entrepot_queue_oldest_message_age_seconds", "gauge", "age of the next message", "s")
BROKER: Final[Sequence[tuple[str, str, str, Callable[[BrokerView], float]]]] = (
    ("artemis_connection_count", "gauge", "open connections", lambda one: one.number("connectionCount")),
    ("artemis_session_count", "gauge", "open sessions", lambda one: one.number("sessionCount")),
    ("artemis_active", "gauge", "1 where the broker serves", lambda one: int(bool(one.facts.get("active")))),
    ("artemis_address_memory_usage", "gauge", "octets of messages", lambda one: one.number("addressMemoryUsage")),
    (
        "artemis_address_memory_usage_percentage",
        "gauge",
        "of the limit",
        lambda one: one.number("addressMemoryUsagePercentage"),
    ),
    (
        "artemis_disk_store_usage",
        "gauge",
        "part of the store that is taken",
        lambda one: float(one.facts.get("diskStoreUsage") or 0),
    ),
    ("entrepot_queues", "gauge", "queues", lambda one: len(one.queues)),
    ("entrepot_temporary_queues", "gauge", "temporary queues", lambda one: len(one.queues) - len(one.own())),
    ("entrepot_uptime_seconds", "gauge", "since the start", lambda one: one.number("uptimeMillis") / 1000),
    ("entrepot_view_seconds", "gauge", "how long asking the broker took", lambda one: round(one.took, 4)),
)


class Text:
    """Lines of metrics, in the form of Prometheus or, ``open_metrics``, that of OpenMetrics."""

    def __init__(self, *, open_metrics: bool) -> None:
        self.open_metrics: Final = open_metrics
        self.parts: list[str] = []

    def family(self, name: str, kind: str, about: str, samples: Iterable[tuple[str, float]]) -> None:
        """Add a family; a sample is its labels, with braces, and its value."""
        full = f"{name}_total" if kind == "counter" else name
        shown = name if self.open_metrics else full
        lines = [f"{full}{labels} {value}\n" for labels, value in dict(samples).items()]  # each series once
        if lines:
            self.parts.append(f"# TYPE {shown} {kind}\n# HELP {shown} {about}\n")
            self.parts.append("".join(lines))

    def text(self) -> str:
        """Return all of it."""
        return "".join([*self.parts, "# EOF\n"])


def metrics(views: Iterable[BrokerView], *, open_metrics: bool = False, detailed: bool = False) -> Text:
    """Return the metrics of brokers; ``detailed``: every number of each queue."""
    text = Text(open_metrics=open_metrics)
    each = [(view, f'{{broker="{escaped(view.name)}"}}') for view in views]
    for name, kind, about, read in BROKER:
        text.family(name, kind, about, ((labels, read(view)) for view, labels in each))
    queues = [pair for view, _ in each for pair in _queues(view)]
    left_out = [(labels, max(0, len(view.own()) - QUEUES_MOST)) for view, labels in each]
    text.family("entrepot_queues_left_out", "gauge", "queues that have no metrics here", left_out)
    for name, kind, about, field in QUEUE:
        text.family(name, kind, about, ((labels, field(queue)) for labels, queue in queues))
    waiting = [(labels, queue.oldest_ms / 1000) for labels, queue in queues if queue.waiting]
    text.family(*OLDEST[:3], waiting)
    if detailed:
        for name, kind, about, field in MORE:
            text.family(name, kind, about, ((labels, field(queue)) for labels, queue in queues))
    return text


def addresses(text: Text, counts: Mapping[str, list[AddressCounts]]) -> None:
    """Add what was sent to the addresses of brokers, in this run of each. ``counts``: by the name of the broker."""
    each = [
        (f'{{broker="{escaped(broker)}",address="{escaped(one.address)}"}}', one)
        for broker, found in counts.items()
        for one in found
    ]
    about = "messages sent to the address while a queue or a divert was bound to it"
    text.family("artemis_routed_message_count", "gauge", about, ((labels, one.routed) for labels, one in each))
    about = "messages sent to the address while nothing was bound to it"
    text.family("artemis_unrouted_message_count", "gauge", about, ((labels, one.unrouted) for labels, one in each))


def details(
    text: Text, broker: str, consumers: list[dict[str, Any]], bridges: list[dict[str, Any]], stuck: dict[str, int]
) -> None:
    """Add what one broker's consumers lag, what its links do, and why messages do not move, by reason."""
    shown = [(_consumer(broker, one), one) for one in consumers[:DETAILS_MOST]]
    text.family(
        "entrepot_consumer_unacknowledged_messages",
        "gauge",
        "messages that a consumer has and did not acknowledge",
        ((labels, int(one.get("messagesInTransit") or 0)) for labels, one in shown),
    )
    links = [(_link(broker, one), one) for one in bridges[:DETAILS_MOST]]
    for name, kind, about, field in (
        ("entrepot_link_up", "gauge", "1 where a link to another broker is open", "state"),
        ("entrepot_link_sent", "counter", "messages that went over it", "sent"),
        ("entrepot_link_received", "counter", "messages that came over it", "received"),
        ("entrepot_link_answers_waiting", "gauge", "answers that wait until a mirror has told", "answers_waiting"),
        ("entrepot_link_canary_round_trip_seconds", "gauge", "how long the canary's last round took", "canary_us"),
    ):
        text.family(name, kind, about, _links(links, field))
    text.family(
        "entrepot_stuck_messages",
        "gauge",
        "messages that wait, by the reason that `entrepot explain` gives, of the queues that wait longest",
        ((f'{{broker="{escaped(broker)}",reason="{escaped(code)}"}}', count) for code, count in sorted(stuck.items())),
    )


STORAGE: Final[Sequence[tuple[str, str, str, str]]] = (
    ("entrepot_journal_bytes", "gauge", "octets of the journal on disk", "octets"),
    ("entrepot_journal_live_bytes", "gauge", "octets of the journal that are alive", "live_octets"),
    ("entrepot_journal_unsynced_bytes", "gauge", "octets that no sync covers yet", "unsynced_octets"),
    ("entrepot_journal_segments", "gauge", "files of the journal", "segments"),
    ("entrepot_journal_compacting", "gauge", "1 while segments are rewritten", "compacting"),
)
SYNCS: Final[Sequence[tuple[str, str, str, str, float]]] = (
    ("entrepot_journal_syncs", "counter", "syncs of the disk", "count", 1.0),
    ("entrepot_journal_sync_seconds", "counter", "time that they took together", "total_s", 1.0),
    ("entrepot_journal_sync_p99_seconds", "gauge", "99 % of the newest thousand took less", "p99_us", 1e-6),
)


def standing(text: Text, broker: str, storage: dict[str, Any], availability: dict[str, Any]) -> None:
    """Add what a broker's store takes, whose messages keep its oldest segments, and what is left of its lease."""
    labels = f'{{broker="{escaped(broker)}"}}'
    for name, kind, about, field in STORAGE:
        text.family(name, kind, about, [(labels, int(storage[field]))])
    for name, kind, about, field, unit in SYNCS:
        value = float((storage.get("syncs") or {}).get(field, -1))
        text.family(name, kind, about, [(labels, round(value * unit, 9))] if value >= 0 else [])
    pinned: dict[str, int] = {}
    for row in storage["oldest"]:
        for holder in row["queues"]:
            series = f'{{broker="{escaped(broker)}",queue="{escaped(str(holder["queue"]))}"}}'
            pinned[series] = pinned.get(series, 0) + int(holder["octets"])
    about = "octets of a queue's messages in the 20 oldest segments, of those that keep each most"
    text.family("entrepot_journal_pinned_bytes", "gauge", about, pinned.items())
    master = [(labels, int(availability.get("role") in ("alone", "primary")))]
    text.family("entrepot_ha_master", "gauge", "1 where the broker is master of its store", master)
    left = int(availability.get("lease_left_ms", -1))
    about = "for how long the lease of the store holds if it is not renewed"
    text.family("entrepot_ha_lease_left_seconds", "gauge", about, [(labels, left / 1000)] if left >= 0 else [])


def escaped(value: str) -> str:
    """Return a label's value as the format writes it."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _queues(view: BrokerView) -> Iterator[tuple[str, QueueView]]:
    own = view.own()
    if len(own) > QUEUES_MOST:
        own = sorted(own, key=lambda queue: -queue.messages)[:QUEUES_MOST]
    broker = escaped(view.name)
    for queue in own:
        yield f'{{broker="{broker}",address="{escaped(queue.address)}",queue="{escaped(queue.name)}"}}', queue


def _consumer(broker: str, row: dict[str, Any]) -> str:
    words = {
        "broker": broker,
        "queue": row.get("queue"),
        "client": row.get("clientID"),
        "session": row.get("session"),
        "consumer": row.get("id"),
    }
    return "{" + ",".join(f'{name}="{escaped(str(value or ""))}"' for name, value in words.items()) + "}"


def _link(broker: str, row: dict[str, Any]) -> str:
    peer = row.get("peer") or row.get("place") or ""
    kind = row.get("kind") or "network"
    words = {"broker": broker, "link": row.get("connector"), "peer": peer, "kind": kind}
    return "{" + ",".join(f'{name}="{escaped(str(value or ""))}"' for name, value in words.items()) + "}"


def _links(links: list[tuple[str, dict[str, Any]]], field: str) -> Iterator[tuple[str, float]]:
    for labels, row in links:
        if field == "state":
            yield labels, int(row.get("state") == "open")
        elif field == "canary_us":
            if int(row.get(field, -1)) >= 0:  # -1: none came back yet, and 0 s would be a lie
                yield labels, int(row[field]) / 1e6
        elif field in row:
            yield labels, int(row[field])
