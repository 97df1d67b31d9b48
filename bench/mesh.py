"""A simulated mesh: what a subscription costs in what brokers tell each other and in memory, by the number of brokers.

``python bench/mesh.py [--cluster] [--each N] [BROKERS ...]``: each broker is joined with every other and has N (200)
queues of its own with a subscription each, so 50 brokers have 10,000. A network of brokers (TTL 1) shares demands: one
subscription known to one other broker. With ``--cluster`` they are nodes of one cluster (static connectors, one hop)
and share remote bindings: one queue, and its consumer, known to one other node. Octets are all that the brokers sent to
each other between the first subscription and rest; memory is the growth of the process, the queues themselves included.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import process_time

from entrepot.base.compiled import build_name
from entrepot.base.environment import SECOND
from entrepot.cluster.networks.options import NetworkConnectorOptions
from entrepot.config.model import BrokerConfig, BrokerSettings, NetworkConnector
from entrepot.config.peering import ClusterEntry, Peering, PlaceEntry, Position, Reference
from entrepot.simulation.clusters import Clustered
from entrepot.simulation.networks import Network
from entrepot.simulation.sites import Blueprint

SUBSCRIPTIONS = 200  # of each broker
PAGE_OCTETS = 4096
EVENTS_MAX = 1 << 62
SETTLE_MS = 40_000  # a buffer that a burst made large is let go after 5 s of quiet, and the next ping
NOWHERE = Position()  # no file says it


def resident() -> int:
    """Return the octets of memory that this process holds."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_OCTETS


def joined(names: list[str]) -> Network:
    """Return a network of brokers, each with a bridge to every other."""
    plans = {}
    for name in names:
        connectors = tuple(
            NetworkConnector(options=NetworkConnectorOptions(name=f"to {other}", uri=f"static:(tcp://{other}:1)"))
            for other in names
            if other != name
        )
        config = BrokerConfig(broker=BrokerSettings(name=name, persistent=False), networks=connectors)
        plans[name] = Blueprint(config=config, interval=3600 * SECOND)  # no canaries: they are no part of this
    return Network(1, plans)


def clustered(names: list[str]) -> Network:
    """Return the nodes of one cluster."""
    places = tuple(PlaceEntry(name=name, uri=f"tcp://{name}:61616", at=NOWHERE) for name in names)
    plans = {}
    for name in names:
        others = tuple(Reference(name=other, at=NOWHERE) for other in names if other != name)
        entry = ClusterEntry(name="c", at=NOWHERE, connector=name, connectors=others)
        peering = Peering(places=places, clusters=(entry,), cluster_user="cluster", cluster_password="secret")
        config = BrokerConfig(broker=BrokerSettings(name=name, persistent=False), peering=peering)
        plans[name] = Blueprint(config=config, interval=3600 * SECOND)
    return Clustered(1, plans)


def demands(network: Network) -> int:
    """Return how many subscriptions are known at other brokers."""
    return sum(len(bridge.demand.demands) for site in network.sites.values() for bridge in site.bridges())


def bindings(network: Network) -> int:
    """Return how many queues with a consumer are known at other nodes."""
    registries = [cluster.registry for site in network.sites.values() if site.made for cluster in site.made.clusters]
    return sum(binding.count for registry in registries for binding in registry.all())


@dataclass(frozen=True)
class Kind:
    """A way to make brokers act as one, and what it shares."""

    made: Callable[[list[str]], Network]
    shared: str
    count: Callable[[Network], int]


NETWORK = Kind(joined, "demand", demands)
CLUSTER = Kind(clustered, "binding", bindings)


def at_rest(kind: Kind, brokers: int) -> Network:
    """Return the brokers, started, without a subscription."""
    network = kind.made([f"b{number}" for number in range(brokers)])
    network.world.events_max = EVENTS_MAX
    network.world.after = lambda: None
    network.start()
    network.run(SETTLE_MS)
    return network


def measure(kind: Kind, brokers: int, each: int) -> str:
    """Return one line of the table."""
    network = at_rest(kind, brokers)
    octets, memory, began = network.octets, resident(), process_time()
    for site in network.sites.values():
        for number in range(each):
            site.read(f"queue://{site.name}.q{number}")
        network.run(10)
    network.run(SETTLE_MS)
    known, count = kind.count(network), brokers * each
    assert known == count * (brokers - 1), f"{known} {kind.shared}s, not each subscription at every other broker"
    octets, memory = network.octets - octets, resident() - memory
    took = process_time() - began
    return (
        f"{brokers:3} brokers {count:6} subscriptions {known:7} {kind.shared}s: "
        f"{octets / count:9.0f} octets a subscription, {octets / known:6.0f} a {kind.shared}; "
        f"{memory / count / 1024:7.1f} KiB a subscription, "
        f"{memory / known / 1024:5.2f} a {kind.shared}; {took:.1f} s of processor time"
    )


def main(arguments: list[str]) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=SUBSCRIPTIONS, help="subscriptions of each broker (default 200)")
    parser.add_argument("--cluster", action="store_true", help="nodes of a cluster instead of a network of brokers")
    parser.add_argument("brokers", type=int, nargs="*", default=[10, 25, 50])
    options = parser.parse_args(arguments)
    sys.stdout.write(f"{build_name()}\n")
    for brokers in options.brokers:
        sys.stdout.write(measure(CLUSTER if options.cluster else NETWORK, brokers, options.each) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
