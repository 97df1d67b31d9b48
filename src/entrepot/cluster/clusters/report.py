"""What an operator is shown of a cluster connection: its members, what is known of them, what waits for them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from entrepot.base.environment import Instant
from entrepot.cluster.clusters.connection import ClusterConnection
from entrepot.cluster.clusters.contact import State
from entrepot.cluster.clusters.members import where
from entrepot.cluster.clusters.stores import is_orphan, stores_of
from entrepot.core.broker import BrokerCore


def report(connection: ClusterConnection, now: Instant) -> dict[str, object]:
    """Return all there is to know about ``connection``; times in ms."""
    options = connection.options
    return {
        "name": options.name,
        "started": connection.started,
        "node": connection.topology.own.node,
        "place": where(connection.topology.own),
        "balancing": options.balancing.value,
        "max_hops": options.max_hops,
        "address": options.address,
        "deduplicates": options.deduplicates,
        "members": [_member(connection, node, now) for node in connection.topology.members],
        "contacts": [
            {"place": one.key, "node": one.node, "state": one.state.value, "why": one.why}
            for one in connection.contacts.values()
        ],
    }


def reports(connections: Sequence[ClusterConnection], now: Instant) -> list[dict[str, object]]:
    """Return that of each connection."""
    return [report(one, now) for one in connections]


def _member(connection: ClusterConnection, node: str, now: Instant) -> dict[str, object]:
    """Return one member. ``queues`` and ``consumers``: that it told of; ``waiting``: messages here that are for it."""
    member = connection.topology.members[node]
    flow = connection.flows.get(node)
    state, why = standing(connection, node)
    row: dict[str, object] = {
        "node": node,
        "place": where(member),
        "backup": "" if member.backup is None else f"{member.backup.value('host')}:{member.backup.value('port')}",
        "event": member.event,
        "state": state,
        "why": why,
        "queues": 0,
        "consumers": 0,
        "waiting": 0,
        "way": "",
    }
    if flow is not None:
        bridges = [one.report(now) for one in flow.way.bridges.values()]
        store = connection.broker.table.queues.get(flow.way.entry.options.queue)
        row["queues"] = len(flow.remotes.bindings)
        row["consumers"] = sum(one.consumers() for one in flow.remotes.bindings.values())
        row["waiting"] = 0 if store is None else int(store.count)
        row["way"] = str(bridges[0]["state"]) if bridges else flow.way.state
        row["sent"] = bridges[0].get("sent", 0) if bridges else 0
    return row


def remotes(connections: Sequence[ClusterConnection], cluster: str, node: str, most: int) -> list[dict[str, object]]:
    """Return up to ``most`` queues that ``node`` told of; ``distance``: how many nodes away each is."""
    flows = [one.flows[node] for one in connections if one.options.name == cluster and node in one.flows]
    return [
        {
            "queue": binding.queue_name,
            "address": binding.address,
            "consumers": binding.consumers(),
            "distance": int(binding.distance),
            "connected": binding.connected,
        }
        for flow in flows
        for binding in islice(flow.remotes.bindings.values(), most)
    ]


def standing(connection: ClusterConnection, node: str) -> tuple[str, str]:
    """Return how this broker stands to ``node``, and why it is not met: "here", "met", or where its contact is."""
    if node == connection.topology.own.node:
        return "here", ""
    if not connection.started:
        return "stopped", "an operator stopped this cluster connection"
    found = [one for one in connection.contacts.values() if one.node == node]
    member = connection.topology.members.get(node)
    if not found and member is not None and member.primary is not None:
        place = where(member)
        found = [one for one in connection.contacts.values() if one.key.endswith(place)]
    for one in found:
        if one.state is State.MET:
            return "met", ""
    if found:
        return found[0].state.value, found[0].why
    if connection.options.direct:
        return "behind others", "allow-direct-connections-only: it is not in the list of this broker"
    return "not dialled", "neither static connectors nor a discovery group: this node only takes what others send"


def stores(broker: BrokerCore, connections: Sequence[ClusterConnection]) -> list[dict[str, object]]:
    """Return every store-and-forward queue; ``orphaned``: nothing here empties it."""
    return [
        {
            "queue": queue.name,
            "cluster": cluster,
            "node": node,
            "messages": int(queue.count),
            "octets": int(queue.backlog.octets),
            "in_flight": int(queue.in_flight),
            "orphaned": is_orphan(connections, cluster, node),
        }
        for queue, cluster, node in stores_of(broker)
    ]
