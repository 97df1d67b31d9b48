"""The core bridges of a configuration of Artemis: from a queue here to an address of another broker (artemis.md 4.11).

A bridge without a queue or without a place to go is not deployed, so there is no channel for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from entrepot.analysis.clusters import Cluster
from entrepot.analysis.model import FOREVER, Address, Channel, CoreBridge
from entrepot.base.errors import InvalidSelector
from entrepot.config.findings import Severity
from entrepot.config.peering import BridgeEntry
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.model.predicate import compile_selector

ROUTINGS: Final = ("PASS", "STRIP", "ANYCAST", "MULTICAST")


def bridges(cluster: Cluster, queues: tuple[QueueDefinition, ...]) -> tuple[Channel, ...]:
    """Return the bridges; ``queues``: those of the configuration. What is wrong goes to the issues of ``cluster``."""
    known = {queue.name: queue.address for queue in queues}
    found = []
    for entry in cluster.once(cluster.peering.bridges, "bridge"):
        channel = _channel(cluster, entry, known)
        if channel is not None:
            found.append(channel)
    return tuple(found)


def _channel(cluster: Cluster, entry: BridgeEntry, known: dict[str, str]) -> Channel | None:
    if not entry.queue:
        cluster.wrong(entry.at, f"the bridge {entry.name!r} takes from no queue", "name it in <queue-name>")
        return None
    places = tuple(_places(cluster, entry))
    groups = tuple(_groups(cluster, entry))
    if entry.connectors is None and not entry.groups:
        cluster.wrong(entry.at, f"the bridge {entry.name!r} leads nowhere", "name its <static-connectors>")
    if not places and not groups:
        return None
    _look_at(cluster, entry)
    return Channel(
        name=entry.name,
        spot=cluster.spot(entry.at),
        uri=", ".join([entry.queue, *(place.text for place in places), *groups]),
        scheme="discovery" if groups else "static",
        targets=(places,) if places else (),
        groups=groups,
        conduit=False,
        message_ttl=FOREVER,
        consumer_ttl=FOREVER,
        deduplicates=entry.deduplicates,
        bridge=CoreBridge(
            entry=entry,
            source=known.get(entry.queue, ""),
            defined=entry.queue in known,
            user=entry.user or _cluster_user(cluster),
        ),
    )


def _look_at(cluster: Cluster, entry: BridgeEntry) -> None:
    """Find what Artemis would not take as it is written."""
    routing = entry.routing.upper()
    if routing not in ROUTINGS:
        cluster.wrong(entry.at, f"routing-type is {routing!r}", f"one of {', '.join(ROUTINGS)}")
    if entry.ttl_ms <= entry.check_ms:
        what = "connection-ttl is not above check-period: a bridge that is well may be given up"
        cluster.wrong(entry.at, what, "a connection-ttl of twice the check-period", Severity.WARNING)
    try:
        compile_selector(entry.selector or "TRUE")
    except InvalidSelector as error:
        remedy = error.remedy or "a selector, as of JMS"
        cluster.wrong(entry.filter_at, f"the filter is none: {error.message}", remedy)


def _cluster_user(cluster: Cluster) -> str:
    """Return who a bridge without a user of its own is; "" where that is the default, with a default password."""
    return cluster.peering.cluster_user if cluster.peering.cluster_password else ""


def _places(cluster: Cluster, entry: BridgeEntry) -> Iterator[Address]:
    for reference in entry.connectors or ():
        place = cluster.refer(reference, f"the bridge {entry.name!r} does not dial it")
        if place is not None:
            yield place


def _groups(cluster: Cluster, entry: BridgeEntry) -> Iterator[str]:
    known = {group.name: group.place for group in cluster.discoveries()} if entry.groups else {}
    for wanted in entry.groups:
        if wanted.name in known:
            yield known[wanted.name]
        else:
            remedy = f"known: {', '.join(known)}" if known else "add it to <discovery-groups>"
            what = f"there is no discovery group {wanted.name!r}: the bridge {entry.name!r} is not deployed"
            cluster.wrong(entry.at, what, remedy)
    if entry.groups and entry.connectors is not None:
        what = f"the bridge {entry.name!r} has static connectors and a discovery group: Artemis takes one of them"
        cluster.wrong(entry.at, what, "take one out")
