"""Three nodes of a cluster that are killed and cut off from one another: nothing is lost, nothing comes twice.

Producers at every node, of either kind, send durable messages over STOMP and note the receipts. A reader stands at one
node of either kind, and in each round at another one, so messages cross and move. What it settled, and has a receipt
for, must not come again. What nodes say to one another goes over a `Cable` before each of them: one round kills a node,
another cuts what leads to one, or lets what is said, or answered, or both, vanish for a while, for shorter or longer
than a connection lives without a word. Four rounds for each kind of cluster here; `make cluster-rounds` has more.
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
from cable import Cable
from classic import HOST, free_port
from ours import Entrepot, member

from entrepot.protocols.stomp.frames import Frame, FrameParser, encode_frame
from promises import never

pytestmark = pytest.mark.skipif(bool(artemis.unavailable()), reason=f"Artemis: {artemis.unavailable()}")

ROUNDS: Final = int(os.environ.get("ENTREPOT_CLUSTER_ROUNDS", "4"))
MIXED_ROUNDS: Final = int(os.environ.get("ENTREPOT_MIXED_ROUNDS", str(ROUNDS)))
SEED: Final = int(os.environ.get("ENTREPOT_CLUSTER_SEED", "1"))
SETTLING_S: Final = 90.0
ROUND_S_MAX: Final = 30.0
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


def node(kind: str, home: Path, own: int, cables: list[Cable]) -> Artemis | Entrepot:
    """Return node number ``own`` of a cluster whose nodes are behind ``cables``."""
    connectors = "".join(
        f'<connector name="n{at}">tcp://{HOST}:{cable.port}</connector>' for at, cable in enumerate(cables)
    )
    others = "".join(f"<connector-ref>n{at}</connector-ref>" for at in range(len(cables)) if at != own)
    core = CLUSTER.format(connectors=connectors, own=own, others=others)
    return member(kind, home, f"n{own}", cables[own].target, core, MOVING)


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


class Rounds:
    """Three nodes, who sends and who reads, and what befalls them. ``what``: how often each of it did."""

    def __init__(self, home: Path, kinds: tuple[str, ...]) -> None:
        self.luck = random.Random(SEED)
        self.ledger = Ledger()
        self.cables = [Cable(free_port()) for _ in kinds]
        self.nodes = [node(kind, home / f"n{at}", at, self.cables) for at, kind in enumerate(kinds)]
        self.producers = [Producer(number, each, self.ledger) for number, each in enumerate(self.nodes)]
        self.reader = Reader(self.nodes[0], self.ledger)
        self.what: dict[str, int] = {}

    def begin(self) -> None:
        for each in self.nodes:
            each.start()
        for each in self.nodes:
            each.await_ready()
        time.sleep(1)
        for producer in self.producers:
            producer.start()
        self.reader.start()

    def round(self) -> None:
        """Let something happen, and let it be over."""
        time.sleep(self.luck.uniform(0.3, 1.2))
        befalls = self.luck.choice((self._kill, self._kill, self._cut, self._hold, self._kill_one_cut_off))
        name = befalls.__name__.strip("_").replace("_", " ")
        self.what[name] = self.what.get(name, 0) + 1
        befalls()

    def _move(self) -> None:
        """Let the reader be at another node, perhaps."""
        self.reader.ended.set()
        self.reader = Reader(self.luck.choice(self.nodes), self.ledger)
        self.reader.start()

    def _kill(self) -> None:
        victim = self.luck.choice(self.nodes)
        victim.kill()
        time.sleep(self.luck.uniform(0, 0.5))
        self._move()
        victim.start()
        victim.await_ready()

    def _some_cables(self) -> list[Cable]:
        return self.luck.sample(self.cables, self.luck.randint(1, len(self.cables)))

    def _cut(self) -> None:
        for cable in self._some_cables():
            cable.cut()
        time.sleep(self.luck.uniform(0, 2))
        self._move()
        self._heal()

    def _hold(self) -> None:
        said, answers = self.luck.choice(((True, False), (False, True), (True, True)))
        for cable in self._some_cables():
            cable.hold(said=said, answers=answers)
        time.sleep(self.luck.choice((1.0, 6.0)) * self.luck.uniform(0.5, 1.2))
        self._move()
        self._heal()

    def _kill_one_cut_off(self) -> None:
        for cable in self._some_cables():
            cable.cut()
        time.sleep(self.luck.uniform(0, 0.5))
        self._kill()
        self._heal()

    def _heal(self) -> None:
        for cable in self.cables:
            cable.heal()

    def settle(self) -> None:
        """Send no more, and wait for what has not come."""
        for producer in self.producers:
            producer.ended.set()
        until = time.monotonic() + SETTLING_S
        while time.monotonic() < until and self.lost():
            time.sleep(0.1)
        time.sleep(1)
        self.reader.ended.set()

    def lost(self) -> list[str]:
        """Return what was confirmed and has not come."""
        return [body for body in list(self.ledger.confirmed) if body not in self.ledger.seen]

    def summary(self) -> str:
        """Say what happened."""
        ledger = self.ledger
        befell = ", ".join(f"{count} x {name}" for name, count in sorted(self.what.items()))
        said = f"{len(ledger.confirmed)} confirmed, {len(ledger.seen)} came, {len(self.lost())} lost"
        return f"{said}, {len(ledger.twice)} twice; {befell}"

    def end(self) -> None:
        for each in self.nodes:
            each.kill()
        for cable in self.cables:
            cable.close()


@pytest.mark.timeout(2 * SETTLING_S + max(ROUNDS, MIXED_ROUNDS) * ROUND_S_MAX)
@pytest.mark.parametrize(
    "kinds", [("ours", "ours", "ours"), ("ours", "artemis", "ours"), ("artemis", "ours", "artemis")], ids="-".join
)
def test_nodes_are_killed_and_cut_off_one_after_the_other(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    rounds = MIXED_ROUNDS if "artemis" in kinds else ROUNDS
    cluster = Rounds(tmp_path, kinds)
    began = time.monotonic()
    try:
        cluster.begin()
        for _ in range(rounds):
            cluster.round()
        cluster.settle()
        print(f"{'-'.join(kinds)}: {rounds} rounds, seed {SEED}, {time.monotonic() - began:.0f} s: {cluster.summary()}")
        with never():
            assert cluster.lost() == []
            assert cluster.ledger.twice == []
        assert len(cluster.ledger.confirmed) > 50 * rounds
    finally:
        cluster.end()
