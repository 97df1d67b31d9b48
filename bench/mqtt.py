"""MQTT against Mosquitto, alternating in one run: ``make bench-mqtt``.

Both brokers are processes with what they keep on disk; the load is octets that were encoded before, from processes of
its own, so that the broker is what is measured. Mosquitto with persistence writes its file every half hour and at the
end: it answers QoS 1 and 2 from memory. entrepot answers when the disk has it, unless a message is for nobody who keeps
it; the row "kept" is with a session that outlives its connection, where that counts.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from web_socket import WebSocket

from entrepot.protocols.mqtt.packets import Connect, Subscribe, Wish, acknowledgement, publish
from entrepot.protocols.mqtt.schema import PUBACK, PUBREL, V311

PAYLOAD = b"x" * 100
PATIENCE_S = 120.0
IDLE = 10_000

Link = socket.socket | WebSocket


def free_port() -> int:
    """Return a port that nobody has."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def dial(port: int, name: str, *, clean: bool = True, web: bool = False) -> Link:
    """Return a connection that was let in."""
    plain = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock: Link = WebSocket(plain, "mqtt") if web else plain
    connect = Connect(name, V311)
    connect.clean = clean
    sock.sendall(connect.octets())
    take(sock, 4)
    return sock


def take(sock: Link, octets: int) -> None:
    """Read so many octets."""
    while octets > 0:
        data = sock.recv(min(octets, 1 << 20))
        if not data:
            raise RuntimeError("the broker closed the connection")
        octets -= len(data)


def subscribe(sock: Link, text: str, qos: int) -> None:
    """Subscribe, and wait for the answer."""
    packet = Subscribe(1)
    packet.wishes = [Wish(text, qos)]
    sock.sendall(packet.octets(V311))
    take(sock, 5)


def send(port: int, count: int, qos: int, begun: object, web: bool) -> None:
    """Publish ``count`` messages as fast as they are taken; with QoS 1 and 2 in windows of 100."""
    sock = dial(port, f"writer-{os.getpid()}", web=web)
    begun.wait()  # type: ignore[attr-defined]
    if qos == 0:
        chunk = publish(V311, "bench", PAYLOAD) * 100
        for _ in range(count // 100):
            sock.sendall(chunk)
        sock.shutdown(socket.SHUT_WR)
        time.sleep(1)
        return
    chunk = b"".join(publish(V311, "bench", PAYLOAD, qos, number) for number in range(1, 101))
    release = b"".join(acknowledgement(PUBREL, number, V311) for number in range(1, 101))
    for _ in range(count // 100):
        sock.sendall(chunk)
        take(sock, 400)
        if qos == 2:
            sock.sendall(release)
            take(sock, 400)


def rate(port: int, count: int, qos: int, readers: int, *, kept: bool = False, web: bool = False) -> float:
    """Return messages a second that reach readers of QoS 0, or of QoS 1 with a session that is ``kept``."""
    context = multiprocessing.get_context("fork")
    begun = context.Event()
    socks = [dial(port, f"reader-{number}", clean=not kept, web=web) for number in range(readers)]
    for sock in socks:
        subscribe(sock, "bench", 1 if kept else 0)
    writer = context.Process(target=send, args=(port, count, qos, begun, web))
    writer.start()
    size = len(publish(V311, "bench", PAYLOAD, 1 if kept else 0, 1))
    begun.set()
    began = time.perf_counter()
    left = [size * count] * readers
    answer = b"".join(acknowledgement(PUBACK, number, V311) for number in range(1, 65_536)) if kept else b""
    answered = seen = 0
    while any(left):
        for at, sock in enumerate(socks):
            if left[at]:
                data = sock.recv(min(left[at], 1 << 20))
                if not data:
                    raise RuntimeError("the broker closed the connection")
                left[at] -= len(data)
                if kept:
                    seen += len(data)
                    while answered < seen // size:
                        first = answered % 65_535
                        last = min(first + seen // size - answered, 65_535)
                        sock.sendall(answer[4 * first : 4 * last])
                        answered += last - first
    took = time.perf_counter() - began
    writer.join()
    for sock in socks:
        sock.close()
    return readers * count / took


def round_trip(port: int, count: int) -> float:
    """Return the median of a message that goes to its own publisher, µs."""
    sock = dial(port, "trip")
    subscribe(sock, "trip", 0)
    octets = publish(V311, "trip", PAYLOAD)
    times = []
    for _ in range(count):
        began = time.perf_counter()
        sock.sendall(octets)
        take(sock, len(octets))
        times.append(time.perf_counter() - began)
    sock.close()
    return statistics.median(times) * 1e6


def connects(port: int, count: int) -> float:
    """Return connections a second, one after the other, each with CONNACK and DISCONNECT."""
    began = time.perf_counter()
    for number in range(count):
        sock = dial(port, f"c{number}")
        sock.sendall(b"\xe0\x00")
        sock.close()
    return count / (time.perf_counter() - began)


def room_for(connections: int) -> None:
    """Let this process, and those that it starts, have so many files open. Raises SystemExit where it may not."""
    wanted, (soft, hard) = connections + 1000, resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise SystemExit(
            f"{connections} idle connections need {wanted} files; {hard} are allowed here: --idle, or ulimit -n"
        )
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def idle(port: int, pid: int, count: int) -> float:
    """Return octets of memory for each of ``count`` connections that do nothing."""
    before = resident(pid)
    socks = [dial(port, f"idle-{number}") for number in range(count)]
    time.sleep(0.5)
    each = (resident(pid) - before) / count
    for sock in socks:
        sock.close()
    time.sleep(0.5)
    return each


def resident(pid: int) -> int:
    """Return the memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    return 0


class Broker:
    """One process."""

    def __init__(self, name: str, home: Path) -> None:
        self.name = name
        self.port, self.web_port = free_port(), free_port()
        home.mkdir()
        if name == "mosquitto":
            (home / "conf").write_text(
                f"listener {self.port} 127.0.0.1\nallow_anonymous true\npersistence true\n"
                f"persistence_location {home}/\nmax_queued_messages 0\nmax_inflight_messages 0\nset_tcp_nodelay true\n"
                f"listener {self.web_port} 127.0.0.1\nprotocol websockets\n"
            )
            os.chmod(home, 0o777)
            command = [shutil.which("mosquitto") or "/usr/sbin/mosquitto", "-c", str(home / "conf")]
        else:
            command = [sys.executable, "-m", "entrepot", "run", "--data", str(home / "data")]
            command += ["--listen", f"mqtt://127.0.0.1:{self.port}", "--listen", f"ws://127.0.0.1:{self.web_port}"]
        log = (home / "log").open("wb")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                if time.monotonic() > until or self.process.poll() is not None:
                    raise RuntimeError(f"{name} did not start: {(home / 'log').read_text()[-2000:]}") from None
                time.sleep(0.1)

    def stop(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait(30)


def main() -> None:
    """Measure, and print medians and ratios."""
    options = argparse.ArgumentParser(description="MQTT here and in Mosquitto, alternating")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--count", type=int, default=40_000)
    options.add_argument("--idle", type=int, default=IDLE, help="connections that do nothing")
    chosen = options.parse_args()
    count = chosen.count
    room_for(chosen.idle)

    def weighed(one: Broker) -> float:
        return idle(one.port, one.process.pid, chosen.idle)

    rows: dict[str, Callable[[Broker], float]] = {
        f"octets of one of {chosen.idle:,} idle": weighed,
        "QoS 0, 1 to 1, messages/s": lambda one: rate(one.port, 4 * count, 0, 1),
        "QoS 0, WebSocket, messages/s": lambda one: rate(one.web_port, 4 * count, 0, 1, web=True),
        "QoS 1, 1 to 1, messages/s": lambda one: rate(one.port, count, 1, 1),
        "QoS 2, 1 to 1, messages/s": lambda one: rate(one.port, count // 2, 2, 1),
        "QoS 1 kept, 1 to 1, messages/s": lambda one: rate(one.port, count // 2, 1, 1, kept=True),
        "QoS 0, 1 to 100, deliveries/s": lambda one: rate(one.port, count // 20, 0, 100),
        "round trip, QoS 0, us": lambda one: round_trip(one.port, 500),
        "connects/s": lambda one: connects(one.port, 500),
    }
    with tempfile.TemporaryDirectory() as folder:
        brokers = [Broker(name, Path(folder) / name) for name in ("mosquitto", "entrepot")]
        try:
            for title, measure in rows.items():
                found: dict[str, list[float]] = {one.name: [] for one in brokers}
                for _ in range(1 if measure is weighed else chosen.rounds):
                    for one in brokers:
                        found[one.name].append(measure(one))
                theirs, ours = (statistics.median(found[one.name]) for one in brokers)
                sys.stdout.write(
                    f"{title:34} mosquitto {theirs:12,.0f}   entrepot {ours:12,.0f}   {ours / theirs:5.2f}\n"
                )
                sys.stdout.flush()
        finally:
            for one in brokers:
                one.stop()


if __name__ == "__main__":
    main()
