"""Brokers and consumers are killed while messages cross a bridge, and the audit accounts for every one of them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from entrepot.pipeline.jobs.audit import DOUBLED, LOST, audit
from entrepot.protocols.stomp.frames import encode_frame
from shell.daemon import Daemon, Wire

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUEUE = "/queue/orders"
EACH = 400  # messages at each broker


class Traced(Daemon):
    """A broker that keeps a trace, and its ports when it is started again."""

    def __init__(self, home: Path, name: str, *arguments: str) -> None:
        (home / name).mkdir()
        super().__init__(home / name, "--name", name, "--trace", str(home / "traces"), *arguments)

    def again(self) -> None:
        """Kill it without warning, and start it where it was."""
        self.kill()
        self.start()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Traced, Traced]]:
    one = Traced(tmp_path, "one", "--listen", "openwire://127.0.0.1:0")
    two = None
    try:
        one.start()
        place = json.loads(one.ports.read_text())["uris"][1]
        one.arguments[one.arguments.index("openwire://127.0.0.1:0")] = place
        way = f"static:({place.replace('openwire:', 'tcp:')})?initialReconnectDelay=50&maxReconnectDelay=200"
        two = Traced(tmp_path, "two", "--connect", way, "--duplex")
        two.start()
        yield one, two
    finally:
        for broker in (one, two):
            if broker is not None and broker.process is not None:
                broker.stop()


def send(broker: Daemon, name: str) -> list[str]:
    """Send persistent messages; all are on disk when this returns."""
    bodies = [f"{name}-{number}" for number in range(EACH)]
    wire = Wire(broker.port)
    headers = {"destination": QUEUE, "persistent": "true"}
    wire.socket.sendall(b"".join(encode_frame("SEND", headers, body.encode()) for body in bodies[:-1]))
    assert wire.ask("SEND", headers, bodies[-1].encode()).command == "RECEIPT"
    wire.leave()
    return bodies


def take(broker: Daemon, count: int) -> list[str]:
    """Consume and acknowledge ``count`` messages, then die: without a word, with more in hand."""
    wire = Wire(broker.port)
    wire.subscribe(QUEUE, ack="client-individual")
    taken: list[str] = []
    for at in range(count):
        frame = wire.message()
        headers = {"id": frame.headers["ack"]}
        if at < count - 1:
            wire.say("ACK", headers)
        else:
            assert wire.ask("ACK", headers).command == "RECEIPT"  # the last one is on disk, so are those before it
        taken.append(frame.body.decode())
    wire.cut()
    return taken


def test_nothing_is_lost_and_what_came_twice_is_named(
    spark: SparkSession, pair: tuple[Traced, Traced], tmp_path: Path
) -> None:
    one, two = pair
    sent = [*send(one, "a"), *send(two, "b")]
    taken = take(one, 150)  # some of it from the other broker
    one.again()  # with what that consumer had in hand, and with messages on their way over the bridge
    taken += take(two, 150)
    two.again()
    taken += take(one, 100)
    two.kill()
    taken += take(one, 50)
    one.kill()
    two.start()
    one.start()
    for _ in range(100):  # a consumer at both, until neither has anything
        wires = [Wire(broker.port) for broker in pair]
        for wire in wires:
            taken += [frame.body.decode() for frame in wire.drain(QUEUE)]
        with contextlib.suppress(OSError):
            for wire in wires:
                wire.leave()
        if set(taken) == set(sent):
            break
    assert sorted(set(taken)) == sorted(sent)
    assert [broker.stop() for broker in pair] == [0, 0]

    outcome = audit(spark, [tmp_path / "traces"], (tmp_path / "out").as_uri())
    assert outcome.counts[LOST] == 0, outcome.findings
    (total,) = (row for row in outcome.totals if row["queue"] == "orders")
    assert total["sent"] == len(sent)
    assert total["pending"] == 0
    # what a consumer got twice is doubled in the traces, and nothing else is
    assert outcome.counts[DOUBLED] == len({body for body in taken if taken.count(body) > 1})
    assert (tmp_path / "out" / "report.html").exists()
