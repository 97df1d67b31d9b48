"""Three nodes of a cluster, of which one after the other is killed: nothing confirmed is lost, nothing comes twice.

Producers at every node, of either kind, send durable messages over STOMP and note the receipts. A reader stands at one
node of either kind, and in each round at another one, so messages cross and move. What it settled, and has a receipt
for, must not come again. Two rounds for each kind of cluster here; ``ENTREPOT_CLUSTER_ROUNDS=20`` for more.
"""

from __future__ import annotations

import os
import random
import socket
import threading
import time
from pathlib import Path
from typing import Final

import artemis
import pytest
from artemis import Artemis
from classic import HOST, free_port
from ours import Entrepot, member

from entrepot.protocols.stomp.frames import Frame, FrameParser, encode_frame
from promises import never

pytestmark = pytest.mark.skipif(bool(artemis.unavailable()), reason=f"Artemis: {artemis.unavailable()}")

ROUNDS: Final = int(os.environ.get("ENTREPOT_CLUSTER_ROUNDS", "2"))
SEED: Final = int(os.environ.get("ENTREPOT_CLUSTER_SEED", "1"))
SETTLING_S: Final = 90.0
QUEUE: Final = "moved.rounds"
CLUSTER: Final = """
<cluster-user>cluster</cluster-user><cluster-password>secret</cluster-password>
<connectors>{connectors}</connectors>
<cluster-connections><cluster-connection name="c">
  <connector-ref>n{own}</connector-ref><retry-interval>100</retry-interval><max-retry-interval>500</max-retry-interval>
  <check-period>1000</check-period><connection-ttl>4000</connection-ttl>
  <message-load-balancing>ON_DEMAND</message-load-balancing><max-hops>1</max-hops>
  <static-connectors>{others}</static-connectors>
</cluster-connection></cluster-connections>
"""
MOVING: Final = '<address-setting match="moved.#"><redistribution-delay>100</redistribution-delay></address-setting>'


def node(kind: str, home: Path, own: int, ports: list[int]) -> Artemis | Entrepot:
    """Return node number ``own`` of the cluster at ``ports``."""
    connectors = "".join(f'<connector name="n{at}">tcp://{HOST}:{port}</connector>' for at, port in enumerate(ports))
    others = "".join(f"<connector-ref>n{at}</connector-ref>" for at in range(len(ports)) if at != own)
    core = CLUSTER.format(connectors=connectors, own=own, others=others)
    return member(kind, home, f"n{own}", ports[own], core, MOVING)


class Stomp:
    """One connection. Raises OSError when it is lost."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection((HOST, port), timeout=5)
        self.parser = FrameParser()
        self.say("CONNECT", {"accept-version": "1.2", "host": "x", "login": "u", "passcode": "p"})
        self.parser.version = "1.2"
        self.hear(5)

    def say(self, command: str, headers: dict[str, str], body: bytes = b"") -> None:
        self.socket.sendall(encode_frame(command, headers, body, "1.2"))

    def hear(self, patience: float) -> Frame | None:
        """Return the next frame, None when there is none in time."""
        self.socket.settimeout(patience)
        while True:
            frame = self.parser.take()
            if frame is not None:
                if frame.command == "ERROR":
                    raise OSError(frame.headers.get("message", "an error"))
                return frame
            try:
                data = self.socket.recv(65536)
            except TimeoutError:
                return None
            if not data:
                raise OSError("the broker closed the connection")
            self.parser.feed(data)


class Ledger:
    """What was confirmed to producers, what came, and what was settled for good."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.confirmed: dict[str, None] = {}
        self.seen: dict[str, int] = {}
        self.settled: dict[str, None] = {}
        self.twice: list[str] = []

    def came(self, body: str) -> None:
        with self.lock:
            self.seen[body] = self.seen.get(body, 0) + 1
            if body in self.settled:
                self.twice.append(body)


class Producer(threading.Thread):
    """Sends to one node until it is stopped; what has no receipt is not sent again."""

    def __init__(self, number: int, broker: Artemis | Entrepot, ledger: Ledger) -> None:
        super().__init__(daemon=True)
        self.number, self.broker, self.ledger = number, broker, ledger
        self.ended = threading.Event()
        self.sent = 0

    def run(self) -> None:
        while not self.ended.is_set():
            try:
                self._send(Stomp(self.broker.port))
            except (OSError, TimeoutError):
                time.sleep(0.05)

    def _send(self, wire: Stomp) -> None:
        where = destination(self.broker)
        while not self.ended.is_set():
            self.sent += 1
            body = f"{self.number}-{self.sent}"
            wire.say("SEND", {**where, "persistent": "true", "receipt": body}, body.encode())
            frame = wire.hear(10)
            if frame is None or frame.headers.get("receipt-id") != body:
                raise OSError("no receipt")
            with self.ledger.lock:
                self.ledger.confirmed[body] = None
            time.sleep(0.002)


class Reader(threading.Thread):
    """Reads at one node until it is stopped."""

    def __init__(self, broker: Artemis | Entrepot, ledger: Ledger) -> None:
        super().__init__(daemon=True)
        self.broker, self.ledger = broker, ledger
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.is_set():
            try:
                self._read(Stomp(self.broker.port))
            except (OSError, TimeoutError):
                time.sleep(0.05)

    def _read(self, wire: Stomp) -> None:
        wire.say("SUBSCRIBE", {"id": "1", "ack": "client-individual", **destination(self.broker)})
        while not self.ended.is_set():
            frame = wire.hear(0.2)
            if frame is None:
                continue
            if frame.command == "RECEIPT":
                with self.ledger.lock:
                    self.ledger.settled[frame.headers["receipt-id"]] = None
                continue
            body = bytes(frame.body).decode()
            self.ledger.came(body)
            wire.say("ACK", {"id": frame.headers["ack"], "receipt": body})
        wire.say("DISCONNECT", {"receipt": "gone"})
        while (frame := wire.hear(2)) is not None and frame.headers.get("receipt-id") != "gone":
            if frame.command == "RECEIPT":
                with self.ledger.lock:
                    self.ledger.settled[frame.headers["receipt-id"]] = None


def destination(broker: Artemis | Entrepot) -> dict[str, str]:
    if isinstance(broker, Artemis):
        return {"destination": QUEUE, "destination-type": "ANYCAST", "subscription-type": "ANYCAST"}
    return {"destination": f"/queue/{QUEUE}"}


@pytest.mark.parametrize(
    "kinds", [("ours", "ours", "ours"), ("ours", "artemis", "ours"), ("artemis", "ours", "artemis")], ids="-".join
)
def test_nodes_are_killed_one_after_the_other(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    ports = [free_port() for _ in kinds]
    nodes = [node(kind, tmp_path / f"n{at}", at, ports) for at, kind in enumerate(kinds)]
    luck = random.Random(SEED)
    ledger = Ledger()
    try:
        for each in nodes:
            each.start()
        for each in nodes:
            each.await_ready()
        time.sleep(1)
        producers = [Producer(number, each, ledger) for number, each in enumerate(nodes)]
        for producer in producers:
            producer.start()
        reader = Reader(nodes[0], ledger)
        reader.start()
        for _ in range(ROUNDS):
            time.sleep(luck.uniform(0.3, 1.2))
            victim = luck.choice(nodes)
            victim.kill()
            time.sleep(luck.uniform(0, 0.5))
            reader.ended.set()
            reader = Reader(luck.choice(nodes), ledger)
            reader.start()
            victim.start()
            victim.await_ready()
        for producer in producers:
            producer.ended.set()
        until = time.monotonic() + SETTLING_S
        while time.monotonic() < until and any(body not in ledger.seen for body in list(ledger.confirmed)):
            time.sleep(0.1)
        time.sleep(1)
        reader.ended.set()
        lost = [body for body in ledger.confirmed if body not in ledger.seen]
        print(
            len(ledger.confirmed), "confirmed", len(ledger.seen), "came", len(lost), "lost", len(ledger.twice), "twice"
        )
        with never():
            assert lost == []
            assert ledger.twice == []
        assert len(ledger.confirmed) > 50 * ROUNDS
    finally:
        for each in nodes:
            each.kill()
