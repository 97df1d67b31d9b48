"""What the other nodes of a cluster mean for one address: who reads there, and why messages do not get to them.

What is said here comes from what routing looks at (`core/addressing/choice.py`): the bindings of queues of other nodes,
whether they are connected, and `RemoteBinding.is_wanted`, asked with messages that wait. Nothing is changed by asking.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from entrepot.base.environment import MILLISECOND, Instant
from entrepot.cluster.address_filter import AddressFilter
from entrepot.cluster.clusters.connection import ClusterConnection
from entrepot.cluster.clusters.members import where
from entrepot.cluster.clusters.options import Balancing
from entrepot.cluster.clusters.report import standing
from entrepot.core.addressing.binding import RemoteBinding
from entrepot.core.broker import BrokerCore
from entrepot.core.queue.queue import Queue
from entrepot.model.address import MULTICAST
from entrepot.model.message import Message

LOOK_MESSAGES: Final = 100  # at the head of a queue
ROWS_MAX: Final = 200
KEPT_HERE: Final = (Balancing.OFF, Balancing.OFF_WITH_REDISTRIBUTION)

Row = dict[str, object]


def elsewhere(
    broker: BrokerCore, connections: Sequence[ClusterConnection], name: str, *, topic: bool, now: Instant
) -> dict[str, object]:
    """Return the queues of other nodes at the address ``name`` (``rows``), and what keeps messages from them."""
    rows: list[Row] = []
    reasons: list[Row] = []
    for connection in connections:
        found = [
            one for one in connection.registry.all() if one.address == name and (one.routing == MULTICAST) == topic
        ]
        rows += [_row(connection, one, now) for one in found[:ROWS_MAX]]
        reasons += _reasons(broker, connection, name, found, topic=topic)
    return {"rows": rows[:ROWS_MAX], "reasons": reasons}


def _row(connection: ClusterConnection, binding: RemoteBinding, now: Instant) -> Row:
    node = binding.node
    member = connection.topology.members.get(node)
    flow = next((one for one in connection.flows.values() if binding.cluster_name in one.remotes.bindings), None)
    bridges = [] if flow is None else [one.report(now) for one in flow.way.bridges.values()]
    return {
        "cluster": connection.options.name,
        "node": node,
        "place": "" if member is None else where(member),
        "queue": binding.queue_name,
        "distance": int(binding.distance),
        "connected": binding.connected,
        "consumers": binding.consumers(),
        "selectors": list(binding.filters()),
        "unselective": int(binding.count - binding.filtered),
        "filter": "" if binding.filter is None else binding.filter.text,
        "balancing": connection.options.balancing.value,
        "store": binding.queue.name,
        "store_waiting": int(binding.queue.count),
        "way": str(bridges[0]["state"]) if bridges else "stopped",
        "why": str(bridges[0]["error"]) if bridges and bridges[0]["state"] != "open" else "",
    }


def _reasons(
    broker: BrokerCore, connection: ClusterConnection, name: str, found: list[RemoteBinding], *, topic: bool
) -> Iterator[Row]:
    options = connection.options
    who = f"the cluster {options.name!r}"
    if not connection.started:
        text = f"{who} is stopped here: this node knows no queue of another, and sends nothing to one"
        yield _reason("stopped", text, f"entrepot cluster start {options.name}")
        return
    if not AddressFilter(options.address).covers(name):
        text = f"{who} hears only of addresses {options.address}: consumers of {name} on other nodes are not known here"
        yield _reason("not-covered", text, f"an address= of {options.name} that begins as {name} does, or none")
        return
    if options.max_hops == 0:
        text = f"{who} has max-hops 0: this node hears of no queue of another"
        yield _reason("max-hops", text, "max-hops 1; as many as the chain is long, where nodes do not all know all")
        return
    yield from _unmet(connection)
    if not topic and found and options.balancing in KEPT_HERE:
        text = f"{who} is {options.balancing.value}: what is sent here to a queue goes to queues here, if there is one"
        yield _reason("kept-here", text, "message-load-balancing ON_DEMAND")
    for binding in found:
        yield from _of_binding(connection, binding)
    if not topic:
        address = broker.table.addresses.get(name)
        for queue in [] if address is None else address.anycast:
            yield from _left_here(connection, queue, found)


def _unmet(connection: ClusterConnection) -> Iterator[Row]:
    """Note the members of which nothing can be known here."""
    told = {one.node for one in connection.registry.all()}
    for node, member in connection.topology.members.items():
        state, why = standing(connection, node)
        if state in ("here", "met"):
            continue
        place = where(member)
        if state != "behind others":
            error = f": {why}" if why else ""
            text = f"the node at {place} is not met, it is {state}{error}: what reads there is not known, or as it was"
            yield _reason("not-met", text, "start that node; see entrepot cluster list", node)
        elif node not in told:
            hops = connection.options.max_hops
            text = f"the node at {place} is behind others, and queues are told of over {hops} hops: none of it is known"
            remedy = "max-hops as many as the longest chain has links, on each node of it; or let this node dial it"
            yield _reason("max-hops", text, remedy, node)


def _of_binding(connection: ClusterConnection, binding: RemoteBinding) -> Iterator[Row]:
    node = binding.node
    member = connection.topology.members.get(node)
    place = node if member is None else where(member)
    waiting = int(binding.queue.count)
    if not binding.connected:
        text = f"the way to {place} is interrupted: its queue {binding.queue_name} is the last choice until it is back"
        text += f"; {waiting:,} wait for it in {binding.queue.name}" if waiting else ""
        yield _reason("way-down", text, "start that node, or look at the network between", node)
    if not binding.consumers() and connection.options.balancing is Balancing.STRICT and binding.routing != MULTICAST:
        text = f"STRICT: every message whose turn it is goes to {place}, and nobody reads {binding.queue_name} there"
        yield _reason("strict-unread", text, "ON_DEMAND, or a consumer there", node)


def _left_here(connection: ClusterConnection, queue: Queue, found: Iterable[RemoteBinding]) -> Iterator[Row]:
    """Note what waits in ``queue`` though somebody reads elsewhere: it came before he did, or he does not want it."""
    read = [one for one in found if one.connected and one.consumers() > 0]
    if not read or queue.roster.is_read() or queue.backlog.count == 0:
        return
    looked = _head(queue)
    wanted = [message for message in looked if any(one.passes(message) and one.is_wanted(message) for one in read)]
    places = ", ".join(dict.fromkeys(_place(connection, one) for one in read))
    if looked and not wanted:
        said = [text for one in read for text in one.filters()]
        text = f"none of the first {len(looked)} that wait here is wanted at {places}: selectors {'; '.join(said)}"
        yield _reason("remote-selector", text, "a consumer without a selector, or with another one")
    elif wanted:
        yield _stays_or_moves(connection, queue, f"{len(wanted)} of the first {len(looked)}", places)


def _stays_or_moves(connection: ClusterConnection, queue: Queue, what: str, places: str) -> Row:
    moving = connection.registry.redistribution
    if moving is None or queue.policy.redistribution_delay < 0:
        text = f"{what} came before anybody read at {places}, and stay where they are"
        return _reason("not-moved", text, 'redistribution-delay of 0 or more in <address-setting match="#">')
    left = moving.delay_left(queue) // MILLISECOND
    text = f"{what} are wanted at {places}, and move there {f'in {left} ms' if left > 0 else 'now'}"
    return _reason("moving", text, "wait, and ask again")


def _head(queue: Queue) -> list[Message]:
    walk = queue.stock.walk()
    looked: list[Message] = []
    while not walk.done and len(looked) < LOOK_MESSAGES:
        looked += [found.message for found in walk.step(LOOK_MESSAGES - len(looked))]
    return looked


def _place(connection: ClusterConnection, binding: RemoteBinding) -> str:
    member = connection.topology.members.get(binding.node)
    return binding.cluster_name if member is None else where(member)


def _reason(code: str, text: str, remedy: str, node: str = "") -> Row:
    return {"code": code, "text": text, "remedy": remedy, "node": node}
