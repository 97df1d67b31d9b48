"""What is measured over two brokers: one hop over a bridge from A to B, its throughput, its latency, and new demand.

Both brokers of a pair are of one kind and joined by one network connector with default options; A dials. Producers
connect to A and consumers to B, over STOMP, by the same load generator as in `rows.py`; what it did not check is no
measurement.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from brokers import HOST, BenchError, Broker, Ports, Running
from rows import BACKLOG, LOAD_MARGIN_S, LONGER_FOR_RATE, ROUND_TRIPS_PER_S, Effort, Load, Row, Sample

HOP: Final = Row("hop", "one hop A to B, 100 B, non-persistent", "msg/s", 5)
HOP_PERSISTENT: Final = Row("hop-persistent", "one hop A to B, 100 B, persistent at both", "msg/s", 5)
HOP_LATENCY: Final = Row("hop-latency", "latency that a hop adds at 500 msg/s, p50", "ms", ceiling=0.2)
HOP_DEMAND: Final = Row("hop-demand", "a message that waits at A reaches a new subscription at B", "ms", ceiling=5)
NETWORK_ROWS: Final = (HOP, HOP_PERSISTENT, HOP_LATENCY, HOP_DEMAND)
PERSISTENT_BACKLOG: Final = "5000"  # seconds of work for the slower one
PATIENCE_S: Final = 30.0
SUBSCRIPTIONS: Final = 25


@dataclass(frozen=True)
class Network:
    """``a`` has the network connector."""

    a: Running
    b: Running

    def cpu_s(self) -> float:
        """Processor seconds of both."""
        return self.a.cpu_s() + self.b.cpu_s()


@contextmanager
def network(recipe: Broker, home: Path) -> Iterator[Network]:
    """Two brokers of one kind, bridged; ready when a message has crossed."""
    there = Ports.free(openwire=True)
    with (
        recipe.running(home / "b", ports=there) as b,
        recipe.running(home / "a", ports=Ports.free(openwire=True), bridge_to=there.openwire) as a,
    ):
        made = Network(a, b)
        _until_it_waits_no_more(made)
        yield made


def flood(load: Load, pair: Network, row: Row, effort: Effort, label: str, warm_s: float) -> Sample:
    """As many messages as get through, a backlog under way."""
    options = ["--backlog", BACKLOG]
    if row is HOP_PERSISTENT:
        options = ["--persistent", "--backlog", PERSISTENT_BACKLOG, "--drain", "60"]
    cpu = pair.cpu_s()
    said = load.run(
        pair.a, "--consume-port", str(pair.b.port), "--destination", f"/queue/{row.key}.{label}", "--size", "100",
        "--warm-seconds", f"{warm_s}", "--seconds", f"{effort.measure_s}", *options,
        at_most_s=warm_s + effort.measure_s + LOAD_MARGIN_S,
    )  # fmt: skip
    cpu = pair.cpu_s() - cpu
    said["broker_cpu_us_per_message"] = round(cpu * 1e6 / max(said["total_delivered"], 1), 2)
    return Sample({row.key: said["deliveries_per_second"]}, said)


def added_latency(load: Load, pair: Network, effort: Effort, number: int) -> Sample:
    """The median over the hop, less the median of the same load with both clients at A."""
    seconds = effort.measure_s * LONGER_FOR_RATE / 2
    medians = []
    for way, port in (("direct", pair.a.port), ("hop", pair.b.port)):
        said = load.run(
            pair.a, "--consume-port", str(port), "--destination", f"/queue/hop.latency.{way}.{number}",
            "--size", "100", "--rate", ROUND_TRIPS_PER_S, "--warm-seconds", f"{effort.warm_s}", "--seconds",
            f"{seconds}", at_most_s=seconds + LOAD_MARGIN_S,
        )  # fmt: skip
        medians.append(said["latency"]["p50_us"])
    direct, hop = medians
    return Sample({HOP_LATENCY.key: (hop - direct) / 1000}, {"direct_p50_us": direct, "hop_p50_us": hop})


def new_demand(pair: Network, number: int) -> Sample:
    """From SUBSCRIBE at B until the message that waits at A is there; the median of some."""
    times = [_first_message(pair, f"/queue/hop.demand.{number}.{each}") for each in range(SUBSCRIPTIONS)]
    return Sample({HOP_DEMAND.key: median(times) * 1000}, {"times_ms": [round(one * 1000, 3) for one in times]})


def _first_message(pair: Network, destination: str) -> float:
    with _client(pair.a) as producer, _client(pair.b) as consumer:
        producer.sendall(f"SEND\ndestination:{destination}\nreceipt:stored\n\nwaits\0".encode())
        _until(producer, b"RECEIPT")
        began = time.perf_counter()
        consumer.sendall(f"SUBSCRIBE\nid:0\nack:auto\ndestination:{destination}\n\n\0".encode())
        _until(consumer, b"waits\0")
        return time.perf_counter() - began


def _until_it_waits_no_more(pair: Network) -> None:
    """Wait until the bridge works: its first message crosses."""
    try:
        _first_message(pair, "/queue/hop.ready")
    except OSError as problem:
        raise BenchError(f"{pair.a.name}: nothing crossed the bridge: {problem}\n{pair.a.log_tail()}") from None


def _client(broker: Running) -> socket.socket:
    made = socket.create_connection((HOST, broker.port), timeout=PATIENCE_S)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.sendall(b"CONNECT\naccept-version:1.2\nhost:localhost\nheart-beat:0,0\n\n\0")
    _until(made, b"CONNECTED")
    return made


def _until(client: socket.socket, wanted: bytes) -> None:
    seen = b""
    while wanted not in seen:
        piece = client.recv(65536)
        if not piece:
            raise ConnectionResetError("the broker closed the connection")
        seen += piece
