"""One seed: a network of two to four brokers of some shape, traffic, cuts and crashes; then everything heals.

What must hold: nothing confirmed is lost, every message reaches a willing reader, none runs in a circle, none comes a
second time unmarked unless a reader's own settlement was lost with its broker.
"""

from __future__ import annotations

from typing import Any

from bridged import Network
from entrepot.base.errors import EntrepotError
from entrepot.simulation.world import Lots

SHAPES: dict[str, list[tuple[str, str]]] = {
    "pair": [("A", "B")],
    "both ways": [("A", "B"), ("B", "A")],
    "chain": [("A", "B"), ("B", "C"), ("B", "A"), ("C", "B")],
    "ring": [("A", "B"), ("B", "C"), ("C", "A"), ("B", "A"), ("C", "B"), ("A", "C")],
    "hub": [("H", "A"), ("H", "B"), ("H", "C"), ("A", "H"), ("B", "H"), ("C", "H")],
}
QUEUES = ("queue://Q1", "queue://Q2")
HEALING_MS = 20_000  # below the 30 s after which OpenWire itself gives a silent connection up


def run(seed: int) -> tuple[list[str], dict[str, int]]:
    """Return what went wrong with ``seed``, and counts of what happened."""
    lots = Lots(f"{seed}/plan")
    shape = lots.one_of(list(SHAPES))
    wires = SHAPES[shape]
    duplex = lots.chance(0.4)
    if duplex:  # one connection serves both ways
        wires = [wire for at, wire in enumerate(wires) if wire[::-1] not in wires[:at]]
    options = ["networkTTL=4", f"prefetchSize={lots.one_of((1, 5, 1000))}"]
    if lots.chance(0.3):
        options.append("conduitSubscriptions=false")
    if lots.chance(0.3):
        options.append("suppressDuplicateQueueSubscriptions=true")
    if lots.chance(0.3):
        options.append("decreaseNetworkConsumerPriority=false")
    network = Network(seed, wires, duplex=duplex, options="&".join(options)).start()
    names = list(network.sites)
    one_way = shape == "pair" and not duplex
    readers = {queue: ("B" if one_way else lots.one_of(names)) for queue in QUEUES}
    late = {queue: lots.chance(0.4) for queue in QUEUES}
    for queue, name in readers.items():
        if not late[queue]:
            network.sites[name].read(queue, prefetch=lots.one_of((1, 10, 100)))
    sent = 0
    try:
        for _ in range(lots.between(10, 40)):
            sent = _step(network, lots, one_way, sent)
            network.run(lots.between(1, 400))
            network.explained()
        network.heal()
        network.run(2_000)
        for queue, name in readers.items():
            if late[queue]:
                network.sites[name].read(queue)
        _recovered(network, readers)
        network.explained()
    except (AssertionError, EntrepotError) as error:
        return [f"{shape}{' duplex' if duplex else ''}: {type(error).__name__}: {error}"], {}
    counts = {"sent": sent, "accepted": len(network.accepted), "connections": 0, "requeued": 0, shape: 1}
    for site in network.sites.values():
        for bridge in site.bridges():
            counts["connections"] += bridge.link.counts.connections
            counts["requeued"] += bridge.link.counts.requeued
    lost = [name for name in network.accepted if name not in network.seen]
    wrong = []
    if lost:
        wrong.append(
            f"{shape}{' duplex' if duplex else ''}: {len(lost)} of {len(network.accepted)} lost or stuck: {lost[:5]}"
        )
    if network.unmarked and not network.crashed:
        wrong.append(f"{shape}: came twice unmarked: {network.unmarked[:5]}")
    return wrong, counts


def _step(network: Network, lots: Any, one_way: bool, sent: int) -> int:
    names = list(network.sites)
    what = lots.below(20)
    alive = [name for name in (names[:1] if one_way else names) if network.sites[name].broker is not None]
    if what < 12 and alive:
        name = lots.one_of(alive)
        for _ in range(lots.between(1, 15)):
            network.sites[name].send(lots.one_of(QUEUES), f"m{sent}")
            sent += 1
    elif what < 15:
        wires = network.wires
        near, far = lots.one_of(wires)
        network.cut(near, far, silent=lots.chance(0.3))
    elif what < 17:
        network.heal()
    else:
        network.crashed = True
        network.sites[lots.one_of(names)].crash(torn=lots.chance(0.5))
        if lots.chance(0.7):
            network.heal()
    return sent


def _recovered(network: Network, readers: dict[str, str]) -> None:
    """Let the healed network come to rest: supervision needs its intervals to find what was cut without a word."""
    for _ in range(HEALING_MS // 1000):
        network.run(1000)
        if all(name in network.seen for name in network.accepted) and network.is_open():
            return
