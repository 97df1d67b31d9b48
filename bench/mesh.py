"""A simulated mesh: what a subscription costs in advisory traffic and memory, by the number of brokers.

``python bench/mesh.py [--each N] [BROKERS ...]``: each broker is joined with every other, TTL 1, and has N (200)
subscriptions to queues of its own, so 50 brokers have 10,000. What is shared is a demand: one subscription known to one
other broker. Octets are all that the brokers sent to each other between the first subscription and rest; memory is the
growth of the process.
"""

from __future__ import annotations

import argparse
import gc
import sys
from pathlib import Path
from time import perf_counter

from entrepot.base.compiled import build_name
from entrepot.base.environment import SECOND
from entrepot.cluster.networks.options import NetworkConnectorOptions
from entrepot.config.model import BrokerConfig, BrokerSettings, NetworkConnector
from entrepot.simulation.networks import Network
from entrepot.simulation.sites import Blueprint

SUBSCRIPTIONS = 200  # of each broker
PAGE_OCTETS = 4096
EVENTS_MAX = 1 << 62
SETTLE_MS = 3000


def resident() -> int:
    """Return the octets of memory that this process holds."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_OCTETS


def mesh(brokers: int) -> Network:
    """Return the network, started and at rest, without a subscription."""
    names = [f"b{number}" for number in range(brokers)]
    plans = {}
    for name in names:
        connectors = tuple(
            NetworkConnector(options=NetworkConnectorOptions(name=f"to {other}", uri=f"static:(tcp://{other}:1)"))
            for other in names
            if other != name
        )
        config = BrokerConfig(broker=BrokerSettings(name=name, persistent=False), networks=connectors)
        plans[name] = Blueprint(config=config, interval=3600 * SECOND)  # no canaries: they are no part of this
    network = Network(1, plans)
    network.world.events_max = EVENTS_MAX
    network.world.after = lambda: None
    network.start()
    network.run(SETTLE_MS)
    return network


def measure(brokers: int, each: int) -> str:
    """Return one line of the table."""
    network = mesh(brokers)
    octets, memory, began = network.octets, resident(), perf_counter()
    for site in network.sites.values():
        for number in range(each):
            site.read(f"queue://{site.name}.q{number}")
        network.run(10)
    network.run(SETTLE_MS)
    demands = sum(len(bridge.demand.demands) for site in network.sites.values() for bridge in site.bridges())
    count = brokers * each
    assert demands == count * (brokers - 1), f"{demands} demands, not each subscription at every other broker"
    octets, memory = network.octets - octets, resident() - memory
    took = perf_counter() - began
    return (
        f"{brokers:3} brokers {count:6} subscriptions {demands:7} demands: "
        f"{octets / count:9.0f} octets a subscription, {octets / demands:6.0f} a demand; "
        f"{memory / count / 1024:7.1f} KiB a subscription, "
        f"{memory / demands / 1024:5.1f} a demand; {took:.1f} s"
    )


def main(arguments: list[str]) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=SUBSCRIPTIONS, help="subscriptions of each broker (default 200)")
    parser.add_argument("brokers", type=int, nargs="*", default=[10, 25, 50])
    options = parser.parse_args(arguments)
    sys.stdout.write(f"{build_name()}\n")
    for brokers in options.brokers:
        sys.stdout.write(measure(brokers, options.each) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
