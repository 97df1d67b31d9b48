"""AMQP 1.0 beside a real Artemis, alternating in one run: ``make bench-amqp``.

Both brokers are processes with what they keep on disk; Artemis is the one of Maven Central, embedded, with the heap of
its own start script. The load is frames that were encoded before, so that the broker is what is measured. Who sends
does not settle, and both sides are answered, unless the row says otherwise. A row has the processor time of the broker
beside it, in us a message. Each broker is warmed up before the first row. The rows of Qpid JMS are texts of 1 KiB from
an unmodified Java client (``java/core/Flow.java``), which is slower than either broker.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import select
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from librt.strings import BytesWriter

from entrepot.protocols.amqp import performatives as said
from entrepot.protocols.amqp.codec import Decoder, Encoder, Frame, header
from entrepot.protocols.amqp.sections import DATA, put_descriptor, write_header
from entrepot.protocols.amqp.writing import write_value

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "tests" / "interop")]

import artemis  # noqa: E402 - the line above must come first
import maven  # noqa: E402
import qpid_clients  # noqa: E402
from brokers import free_port  # noqa: E402
from java_clients import compiled  # noqa: E402
from web_socket import WebSocket  # noqa: E402

MEMORY = ("-Xms512M", "-Xmx2G", "-XX:+UseParallelGC")
PATIENCE_S = 120.0
IDLE = 500
CREDIT = 2000
TRANSFER = b"\0\x53\x14"
SIZE_OF = struct.Struct(">I").unpack_from
TICK_S = os.sysconf("SC_CLK_TCK")


class Wire:
    """One connection with one session; `frames` returns what came. ``web``: over a WebSocket."""

    def __init__(self, port: int, web: bool = False) -> None:
        sock = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock: socket.socket | WebSocket = WebSocket(sock, "amqp") if web else sock
        self.decoder, self.encoder = Decoder(1 << 24), Encoder()
        self.kept: list[Frame] = []
        self.sock.sendall(header(3))
        self.until(said.SaslMechanisms)
        self.say(said.SaslInit(mechanism="ANONYMOUS", initial_response=b"bench"), kind=1)
        self.until(said.SaslOutcome)
        self.sock.sendall(header(0))
        self.say(said.Open(container_id=f"bench-{os.getpid()}-{id(self)}", max_frame_size=1 << 17))
        self.say(said.Begin(incoming_window=1 << 30, outgoing_window=1 << 30))
        self.until(said.Begin)

    def say(self, performative: said.Composite, *, kind: int = 0) -> None:
        """Write a frame."""
        out = BytesWriter()
        self.encoder.write(out, 0, performative, kind)
        self.sock.sendall(out.getvalue())

    def frames(self) -> list[Frame]:
        """Return what came, waiting for something."""
        data = self.sock.recv(1 << 18)
        if not data:
            raise RuntimeError("the broker closed the connection")
        return self.decoder.feed(data)

    def until(self, kind: type[said.Composite]) -> Any:
        """Wait for a frame of ``kind`` and return it; what came behind it is kept."""
        while True:
            frames = self.kept or self.frames()
            self.kept = []
            for at, frame in enumerate(frames):
                if isinstance(frame.performative, kind):
                    self.kept = frames[at + 1 :]
                    return frame.performative
                if isinstance(frame.performative, (said.Detach, said.End, said.Close)):
                    raise RuntimeError(f"refused: {vars(frame.performative.error)}")

    def close(self) -> None:
        """Cut it."""
        self.sock.close()


def message(durable: bool) -> bytes:
    """Return 100 octets of data in a message."""
    out = BytesWriter()
    write_header(out, said.Header(durable=durable))
    put_descriptor(out, DATA)
    write_value(out, b"x" * 100)
    return out.getvalue()


class Chunk:
    """Transfers of 500 messages, whose delivery-ids are put in before they are sent."""

    SIZE = 500

    def __init__(self, octets: bytes, settled: bool) -> None:
        out = BytesWriter()
        Encoder().transfer(out, 0, 0, 0, settled, False, octets)
        frame = out.getvalue()
        self.stride = len(frame)
        self.octets = bytearray(frame * self.SIZE)
        self.first = frame.index(b"\x70", 16) + 1  # behind the handle: delivery-id, and the tag 6 octets later

    def of(self, delivery: int, count: int) -> memoryview:
        """Return ``count`` transfers from ``delivery`` on."""
        octets, at = self.octets, self.first
        for number in range(delivery, delivery + count):
            struct.pack_into(">I", octets, at, number)
            struct.pack_into(">I", octets, at + 6, number)
            at += self.stride
        return memoryview(octets)[: count * self.stride]


def attach_sender(wire: Wire, address: str, topic: bool, settled: bool) -> int:
    """Attach a link to send over; return its credit."""
    asked = said.Attach(name=f"s-{os.getpid()}-{time.monotonic_ns()}", handle=0, role=False, initial_delivery_count=0)
    asked.snd_settle_mode = int(settled)
    asked.source = said.Source(address="bench")
    asked.target = said.Target(address=address, capabilities=["topic" if topic else "queue"])
    wire.say(asked)
    return int(wire.until(said.Flow).link_credit)


def send(port: int, count: int, address: str, topic: bool, settled: bool, durable: bool, begun: Any, web: bool) -> None:
    """Send ``count`` messages as fast as credit allows, and wait until they are accepted."""
    wire = Wire(port, web)
    credit = attach_sender(wire, address, topic, settled)
    begun.wait()
    chunk = Chunk(message(durable), settled)
    sent = accepted = 0
    while sent < count or (accepted < count and not settled):
        size = min(credit, Chunk.SIZE, count - sent)
        if size > 0:
            wire.sock.sendall(chunk.of(sent, size))
            sent += size
            credit -= size
        waits = size <= 0
        if not waits and not select.select([wire.sock], [], [], 0)[0]:
            continue
        for frame in wire.kept or wire.frames():
            one = frame.performative
            if isinstance(one, said.Flow) and one.handle >= 0:
                credit = int(one.delivery_count + one.link_credit) - sent
            elif isinstance(one, said.Disposition):
                accepted += int(max(one.last, one.first) - one.first) + 1
        wire.kept = []
    time.sleep(0.2)
    wire.close()


def attach_reader(wire: Wire, address: str, topic: bool, settled: bool = False) -> None:
    """Attach a link to read by."""
    name = f"r-{os.getpid()}-{time.monotonic_ns()}"
    asked = said.Attach(name=name, handle=0, role=True, snd_settle_mode=int(settled))
    asked.source = said.Source(address=address, capabilities=["topic" if topic else "queue"])
    asked.target = said.Target(address="bench")
    wire.say(asked)
    wire.until(said.Attach)
    wire.say(grant(0, CREDIT))


def grant(count: int, credit: int) -> said.Flow:
    """Return a flow by which a reader takes ``credit`` messages more."""
    return said.Flow(
        next_incoming_id=count, incoming_window=1 << 30, next_outgoing_id=0, outgoing_window=1 << 30,
        handle=0, delivery_count=count, link_credit=credit,
    )  # fmt: skip


class Reading:
    """What one reader has."""

    def __init__(self, port: int, address: str, topic: bool, settled: bool, web: bool = False) -> None:
        self.wire = Wire(port, web)
        self.settled = settled
        self.count = self.granted = 0
        self.rest = bytearray()
        attach_reader(self.wire, address, topic, settled)

    def take(self) -> None:
        """Read what is there, accept it, and take more. Frames are told apart by their heads alone: it costs less."""
        first = self.count
        data = self.wire.sock.recv(1 << 18)
        if not data:
            raise RuntimeError("the broker closed the connection")
        rest = self.rest
        rest += data
        at, end = 0, len(rest)
        while end - at >= 12:
            size = SIZE_OF(rest, at)[0]
            if at + size > end:
                break
            if rest[at + 8 : at + 11] == TRANSFER:
                self.count += 1
            at += size
        del rest[:at]
        if self.count > first and not self.settled:
            state = said.Accepted()
            self.wire.say(said.Disposition(role=True, first=first, last=self.count - 1, settled=True, state=state))
        if self.count - self.granted >= CREDIT // 2:
            self.granted = self.count
            self.wire.say(grant(self.count, CREDIT))


def rate(
    one: Broker,
    count: int,
    *,
    readers: int = 1,
    topic: bool = False,
    settled: bool = False,
    durable: bool = False,
    web: bool = False,
) -> float:
    """Return deliveries a second to so many readers."""
    address = f"bench.{time.monotonic_ns()}"
    port = one.web_port if web else one.port
    ends = [Reading(port, address, topic, settled, web) for _ in range(readers)]
    context = multiprocessing.get_context("fork")
    begun = context.Event()
    writer = context.Process(target=send, args=(port, count, address, topic, settled, durable, begun, web))
    writer.start()
    by_socket = {end.wire.sock: end for end in ends}
    before = one.cpu_s()
    begun.set()
    began = time.perf_counter()
    left = readers * count
    while left:
        for sock in select.select(list(by_socket), [], [], PATIENCE_S)[0]:
            had = by_socket[sock].count
            by_socket[sock].take()
            left -= by_socket[sock].count - had
    took = time.perf_counter() - began
    one.spent = (one.cpu_s() - before) / (readers * count) * 1e6
    writer.join()
    for end in ends:
        end.wire.close()
    return readers * count / took


@cache
def flow() -> str:
    """Return the class path of `Flow`, for Qpid JMS. Raises maven.Unavailable."""
    jars = maven.jars(qpid_clients.LIBRARY)
    program = (Path(__file__).with_name("java") / "core" / "Flow.java").read_text()
    return f"{compiled({'Flow.java': qpid_clients.kit(program)}, f'{jars}/*')}:{jars}/*"


def qpid(one: Broker, mode: str, seconds: float) -> float:
    """Return texts of 1 KiB a second from one Qpid JMS to another. Raises RuntimeError where one is missing."""
    url = f"amqp://127.0.0.1:{one.port}?amqp.idleTimeout=0"
    command = ["java", "-Xmx1G", "-cp", flow(), "Flow", url, mode, f"bench.{time.monotonic_ns()}"]
    before = one.cpu_s()
    done = subprocess.run(
        [*command, f"{2 * seconds}", f"{seconds}", "1", "1024"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"Qpid JMS at {one.name}: {done.stderr[-2000:]}")
    said = json.loads(done.stdout)
    one.spent = (one.cpu_s() - before) / said["total_received"] * 1e6
    return float(said["messages_per_second"])


def round_trip(one: Broker, count: int) -> float:
    """Return the median of a message that goes to its own sender, us."""
    address = f"trip.{time.monotonic_ns()}"
    reader = Reading(one.port, address, False, True)
    writer = Wire(one.port)
    attach_sender(writer, address, False, True)
    chunk = Chunk(message(False), True)
    times = []
    for number in range(count):
        began = time.perf_counter()
        writer.sock.sendall(chunk.of(number, 1))
        while reader.count <= number:
            reader.take()
        times.append(time.perf_counter() - began)
    reader.wire.close()
    writer.close()
    return statistics.median(times) * 1e6


def connects(one: Broker, count: int) -> float:
    """Return connections a second, one after the other, each with SASL and a session."""
    began = time.perf_counter()
    for _ in range(count):
        Wire(one.port).close()
    return count / (time.perf_counter() - began)


def idle(one: Broker) -> float:
    """Return octets of memory for each of `IDLE` connections with a session that do nothing."""
    before = one.resident()
    wires = [Wire(one.port) for _ in range(IDLE)]
    time.sleep(0.5)
    each = (one.resident() - before) / IDLE
    for wire in wires:
        wire.close()
    time.sleep(0.5)
    return each


class Broker:
    """One process. ``spent``: us of processor time a message, in the last row."""

    def __init__(self, name: str, home: Path) -> None:
        self.name = name
        self.spent = 0.0
        self.home = home
        made = artemis.Artemis(home)
        self.port = self.web_port = made.port
        if name == "artemis":
            command = ["java", *MEMORY, "-cp", artemis.class_path(), "Artemis", str(home / "broker.xml")]
        else:
            command = [sys.executable, "-m", "entrepot", "run", "--data", str(home / "data")]
            self.web_port = free_port()
            command += ["--listen", f"amqp://127.0.0.1:{self.port}", "--listen", f"ws://127.0.0.1:{self.web_port}"]
        log = (home / "log").open("wb")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until = time.monotonic() + 60
        while True:
            try:
                Wire(self.port).close()
                return
            except (OSError, RuntimeError):
                if time.monotonic() > until or self.process.poll() is not None:
                    raise RuntimeError(f"{name} did not start: {(home / 'log').read_text()[-2000:]}") from None
                time.sleep(0.2)

    def cpu_s(self) -> float:
        """Return the processor time that it has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK_S

    def resident(self) -> int:
        """Return its memory."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) * 1024
        return 0

    def stop(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait(30)


def main() -> None:
    """Measure, and print medians and ratios."""
    options = argparse.ArgumentParser(description="AMQP 1.0 here and in Artemis, alternating")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--count", type=int, default=40_000)
    options.add_argument("--seconds", type=float, default=3.0, help="for which Qpid JMS is measured")
    chosen = options.parse_args()
    why = artemis.unavailable()
    if why:
        sys.stdout.write(f"left out: {why}\n")
        return
    count = chosen.count
    rows: dict[str, Callable[[Broker], float]] = {
        "unsettled, 1 to 1, messages/s": lambda one: rate(one, count),
        "unsettled, WebSocket, messages/s": lambda one: rate(one, count, web=True),
        "settled, 1 to 1, messages/s": lambda one: rate(one, 2 * count, settled=True),
        "durable, 1 to 1, messages/s": lambda one: rate(one, count // 4, durable=True),
        "unsettled, 1 to 20, deliveries/s": lambda one: rate(one, count // 8, readers=20, topic=True),
        "Qpid JMS, 1 to 1, messages/s": lambda one: qpid(one, "non-persistent", chosen.seconds),
        "Qpid JMS, persistent, messages/s": lambda one: qpid(one, "persistent", chosen.seconds),
        "round trip, us": lambda one: round_trip(one, 500),
        "connects/s": lambda one: connects(one, 200),
    }
    with tempfile.TemporaryDirectory() as folder:
        brokers = [Broker(name, Path(folder) / name) for name in ("artemis", "entrepot")]
        try:
            _row("octets of an idle connection", idle, brokers, 1)  # before there is memory to be used again
            for one in brokers:
                for _ in range(3):  # Artemis is compiled while it runs
                    rate(one, count)
            for title, measure in rows.items():
                _row(title, measure, brokers, chosen.rounds)
        finally:
            for one in brokers:
                one.stop()


def _row(title: str, measure: Callable[[Broker], float], brokers: list[Broker], rounds: int) -> None:
    found: dict[str, list[float]] = {one.name: [] for one in brokers}
    spent: dict[str, list[float]] = {one.name: [] for one in brokers}
    for _ in range(rounds):
        for one in brokers:
            one.spent = 0.0
            found[one.name].append(measure(one))
            spent[one.name].append(one.spent)
    theirs, ours = (statistics.median(found[one.name]) for one in brokers)
    line = f"{title:34} artemis {theirs:12,.0f}   entrepot {ours:12,.0f}   {ours / theirs:5.2f}"
    used = [statistics.median(spent[one.name]) for one in brokers]
    if used[0] and used[1]:
        line += f"   processor {used[0]:6.1f} {used[1]:6.1f} us   {used[1] / used[0]:5.2f}"
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
