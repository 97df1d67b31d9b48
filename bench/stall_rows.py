"""What one client's flood does to another: round trips at 500 a second while it lasts.

Each flood is STOMP that any client may send, from this process; the round trips are those of `load.c`, a process of its
own. A flood is repeated until the round trips have been measured. Figures of a JVM and ours are of the same run.
"""

from __future__ import annotations

import json
import selectors
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from brokers import BenchError, Running
from rows import LOAD_MARGIN_S, LONGER_FOR_RATE, QUICK, ROUND_TRIPS_PER_S, Effort, Load, Row, Sample

PATIENCE_S: Final = 120.0
SMALLER_WHEN_QUICK: Final = 10
MOST_MS: Final = 20.0
READ_OCTETS: Final = 1 << 18
MANY: Final = 1_000_000
FEWER: Final = 100_000
FILL_MS: Final = 40_000  # in which any broker has taken a million
HELD_S: Final = 0.5  # a search goes on for so long before its reader leaves and another comes


def frame(command: str, body: bytes = b"", **headers: str) -> bytes:
    """Return one STOMP frame; underscores of header names are hyphens."""
    lines = "".join(f"{name.replace('_', '-')}:{value}\n" for name, value in headers.items())
    return f"{command}\n{lines}\n".encode() + body + b"\0"


class Peer:
    """One connection of the flooding client."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.receipts = 0
        self.socket.sendall(frame("CONNECT", accept_version="1.2", host="bench"))
        self._await(b"CONNECTED")

    def ask(self, data: bytes, command: str, body: bytes = b"", **headers: str) -> None:
        """Send ``data`` and one more frame behind it, and wait for the receipt of that one."""
        self.receipts += 1
        self.socket.sendall(data + frame(command, body, receipt=f"stall-{self.receipts}", **headers))
        self._await(b"receipt-id:stall-%d\n" % self.receipts)

    def _await(self, word: bytes) -> None:
        seen = b""
        while word not in seen:
            piece = self.socket.recv(READ_OCTETS)
            if not piece:
                raise BenchError(f"a flooding client was disconnected: {seen[-300:]!r}")
            seen = seen[-200:] + piece
        if b"ERROR\n" in seen:
            raise BenchError(f"a flood was refused: {seen[-300:]!r}")

    def close(self) -> None:
        """Close without a word, as a client does that dies."""
        self.socket.close()


class Flood:
    """One kind of flood against one broker. ``label`` tells its destinations from those of other rounds."""

    def __init__(self, port: int, label: str, scale: int) -> None:
        self.port = port
        self.label = label
        self.scale = scale
        self.peer = Peer(port)

    def prepare(self) -> None:
        """Make what the flood needs; not measured."""

    def once(self) -> None:
        """Flood once, and wait for its end."""
        raise NotImplementedError

    def close(self) -> None:
        """Leave."""
        self.peer.close()


class Subscribers(Flood):
    """1,500 messages at one go to a topic of 1,000 subscribers, who read."""

    def prepare(self) -> None:
        """Subscribe."""
        self.place = f"/topic/stall.{self.label}"
        self.readers = [Peer(self.port) for _ in range(1000 // self.scale)]
        for reader in self.readers:
            reader.ask(b"", "SUBSCRIBE", id="1", destination=self.place)
        self.ended = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()
        self.octets = frame("SEND", b"x" * 60, destination=self.place) * 1500

    def _read(self) -> None:
        with selectors.DefaultSelector() as selector:
            for reader in self.readers:
                selector.register(reader.socket, selectors.EVENT_READ)
            while not self.ended.is_set():
                for key, _ in selector.select(0.2):
                    assert isinstance(key.fileobj, socket.socket)
                    key.fileobj.recv(READ_OCTETS)

    def once(self) -> None:
        """Send all of it in one write."""
        self.peer.ask(self.octets, "SEND", b"end", destination=f"/queue/stall.end.{self.label}")

    def close(self) -> None:
        """Leave, all of them."""
        self.ended.set()
        time.sleep(0.3)
        for reader in self.readers:
            reader.close()
        super().close()


class Wildcards(Flood):
    """300 subscriptions to a wildcard over 3,000 queues in one write; then the connection breaks."""

    def prepare(self) -> None:
        """Make the queues."""
        names = [f"/queue/stall.{self.label}.{number}" for number in range(3000 // self.scale)]
        self.peer.ask(b"".join(frame("SEND", b"x", destination=name) for name in names), "SEND", destination=names[0])

    def once(self) -> None:
        """Subscribe and break."""
        peer = Peer(self.port)
        place = f"/queue/stall.{self.label}.>"
        octets = b"".join(
            frame("SUBSCRIBE", id=str(number), destination=place, ack="client", selector="colour = 'none'")
            for number in range(299)
        )
        peer.ask(octets, "SUBSCRIBE", id="299", destination=place, ack="client")
        peer.close()


class Search(Flood):
    """A selector that finds nothing in a million messages, which are sent once."""

    filled: ClassVar[set[int]] = set()  # ports

    def prepare(self) -> None:
        """Fill the queue, unless an earlier round did."""
        self.place = "/queue/stall.search"
        if self.port not in self.filled:
            self.filled.add(self.port)
            fill(self.peer, self.place, MANY // self.scale)

    def once(self) -> None:
        """Look, for a while."""
        peer = Peer(self.port)
        peer.ask(b"", "SUBSCRIBE", id="1", destination=self.place, ack="client", selector="colour = 'none'")
        time.sleep(HELD_S)
        peer.close()


class Purge(Flood):
    """A million messages are removed by an operator's word, as often as they are sent anew."""

    def prepare(self) -> None:
        """Fill the queue."""
        self.place = f"/queue/stall.{self.label}"
        fill(self.peer, self.place, MANY // self.scale)

    def once(self) -> None:
        """Purge; what is sent next is fewer, so that most of the time is purging."""
        name = self.place.removeprefix("/queue/")
        word = {"_AMQ_ResourceName": f"queue.{name}", "_AMQ_OperationName": "purge"}
        lines = "".join(f"{key}:{value}\n" for key, value in word.items())
        octets = f"SEND\ndestination:/queue/activemq.management\n{lines}\n[]\0".encode()
        self.peer.ask(octets, "SEND", destination=f"/queue/stall.end.{self.label}")
        fill(self.peer, self.place, FEWER // self.scale)


class Expiry(Flood):
    """A million messages, then 50,000 again and again, whose time is over when their consumer comes."""

    def prepare(self) -> None:
        """Send the million; it expires while round trips are measured."""
        self.rounds = 0
        place = f"/queue/stall.{self.label}.0"
        over = str(int(time.time() * 1000) + FILL_MS // self.scale)
        fill(self.peer, place, MANY // self.scale, expires=over)
        time.sleep(max(0.0, int(over) / 1000 - time.time()))
        self.first = Peer(self.port)
        self.first.socket.sendall(frame("SUBSCRIBE", id="1", destination=place, ack="client"))

    def once(self) -> None:
        """Send, let their time go by, read."""
        self.rounds += 1
        place = f"/queue/stall.{self.label}.{self.rounds}"
        over = str(int(time.time() * 1000) + 500)
        one = frame("SEND", b"x" * 30, destination=place, expires=over)
        self.peer.ask(one * (50_000 // self.scale), "SEND", destination=place)
        time.sleep(max(0.0, int(over) / 1000 - time.time()) + 0.01)
        peer = Peer(self.port)
        peer.ask(b"", "SUBSCRIBE", id="1", destination=place, ack="client")
        time.sleep(HELD_S)
        peer.close()


class Commit(Flood):
    """A transaction of 100,000 persistent messages."""

    def prepare(self) -> None:
        """Count rounds."""
        self.rounds = 0

    def once(self) -> None:
        """Send and commit."""
        self.rounds += 1
        place = f"/queue/stall.{self.label}.{self.rounds}"
        one = frame("SEND", b"x" * 30, destination=place, persistent="true", transaction="t")
        self.peer.ask(
            frame("BEGIN", transaction="t") + one * (100_000 // self.scale), "COMMIT", transaction="t"
        )  # fmt: skip


def fill(peer: Peer, place: str, count: int, **headers: str) -> None:
    """Send ``count`` messages to ``place``, 10,000 at a time."""
    one = frame("SEND", b"x" * 30, destination=place, **headers)
    while count > 0:
        peer.ask(one * (min(count, 10_000) - 1), "SEND", b"x" * 30, destination=place, **headers)
        count -= 10_000


@dataclass(frozen=True)
class Stall:
    """A row: the p99 of round trips beside one kind of flood; or of ``confirmed`` persistent sends.

    ``ours``: no other broker is asked for it over STOMP.
    """

    row: Row
    make: Callable[[int, str, int], Flood]
    confirmed: bool = False
    ours: bool = False

    def measure(self, load: Load, broker: Running, effort: Effort, round_number: int) -> Sample:
        """Flood again and again while round trips are measured."""
        scale = SMALLER_WHEN_QUICK if effort is QUICK else 1
        flood = self.make(broker.port, f"{self.row.key}.{round_number}", scale)
        took: list[float] = []
        faults: list[str] = []
        done = threading.Event()

        def run() -> None:
            time.sleep(effort.warm_s)
            try:
                while not done.is_set():
                    began = time.monotonic()
                    flood.once()
                    took.append(time.monotonic() - began)
            except (BenchError, OSError) as problem:
                faults.append(str(problem))

        flood.prepare()
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        seconds = effort.measure_s * LONGER_FOR_RATE
        try:
            if self.confirmed:
                time.sleep(effort.warm_s)
                return self._confirmed(broker, seconds, f"/queue/bench.{self.row.key}.{round_number}", took)
            said = load.run(
                broker, "--destination", f"/queue/bench.{self.row.key}.{round_number}", "--size", "100", "--rate",
                ROUND_TRIPS_PER_S, "--warm-seconds", f"{effort.warm_s}", "--seconds", f"{seconds}", "--histogram",
                at_most_s=seconds + LOAD_MARGIN_S,
            )  # fmt: skip
        finally:
            done.set()
            thread.join(PATIENCE_S)
            flood.close()
        if faults:
            raise BenchError(f"{broker.name}: {self.row.key}: {faults[0]}")
        times = said["latency"]
        record = {"floods_s": took, "p50_ms": times["p50_us"] / 1000, "load": said}
        return Sample({self.row.key: times["p99_us"] / 1000}, record)

    def _confirmed(self, broker: Running, seconds: float, place: str, took: list[float]) -> Sample:
        """Measure how long confirmations of persistent sends take."""
        arguments = [str(broker.port), place, ROUND_TRIPS_PER_S, f"{seconds}"]
        script = Path(__file__).with_name("confirmed.py")
        run = subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True, check=False)
        if run.returncode:
            raise BenchError(f"{broker.name}: {self.row.key}: {run.stderr.strip()[-300:]}")
        said = json.loads(run.stdout)
        return Sample({self.row.key: said["p99_ms"]}, {"floods_s": took, **said})


STALLS: Final = (
    Stall(
        Row("stall-fan-out", "p99 beside 1,500 messages at once to 1,000 subscribers", "ms", ceiling=MOST_MS),
        Subscribers,
    ),
    Stall(
        Row("stall-wildcards", "p99 beside 300 wildcards over 3,000 queues", "ms", ceiling=MOST_MS), Wildcards
    ),
    Stall(Row("stall-search", "p99 beside a selector over a million messages", "ms", ceiling=MOST_MS), Search),
    Stall(Row("stall-purge", "p99 beside a purge of a million messages", "ms", ceiling=MOST_MS), Purge, ours=True),
    Stall(Row("stall-expiry", "p99 beside a million messages that expire", "ms", ceiling=MOST_MS), Expiry),
    Stall(Row("stall-commit", "p99 beside a COMMIT of 100,000 messages", "ms", ceiling=MOST_MS), Commit),
    Stall(
        Row("stall-confirmed", "p99 of confirmations beside a COMMIT of 100,000 messages", "ms", ceiling=MOST_MS * 2),
        Commit,
        confirmed=True,
    ),
)  # fmt: skip
STALL_ROWS: Final = tuple(stall.row for stall in STALLS)
