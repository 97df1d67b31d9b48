"""What a broker process holds in memory while clients do their worst, measured from outside."""

from __future__ import annotations

import json
import os
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from entrepot.base.compiled import is_compiled
from shell.daemon import PATIENCE, READ_OCTETS, Daemon, Wire

MIB = 1 << 20
LIMIT = 20 * MIB
INTERPRETER = 60 * MIB  # the process itself, with buffers of a few busy connections


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Callable[..., Daemon]]:
    """Start brokers with a small memory limit."""
    made: list[Daemon] = []

    def start(*arguments: str, ephemeral: bool = False) -> Daemon:
        made.append(Daemon(tmp_path, "--memory-limit", "20mb", *arguments, ephemeral=ephemeral).start())
        return made[-1]

    yield start
    for each in made:
        assert each.process is not None
        if each.process.poll() is None:
            each.kill()


def frames(destination: str, first: int, count: int, size: int) -> bytes:
    head = f"SEND\ndestination:{destination}\n\n".encode()
    filler = b"x" * (size - 8)
    return b"".join(b"%b%08d%b\0" % (head, number, filler) for number in range(first, first + count))


def flood(wire: Wire, destination: str, count: int, size: int, batch: int = 1000) -> None:
    """Send as fast as the broker reads; return when all of it was taken."""
    for first in range(0, count, batch):
        wire.socket.sendall(frames(destination, first, min(batch, count - first), size))
    assert wire.send("/queue/marker", b"").command == "RECEIPT"


def numbers(wire: Wire, count: int) -> list[int]:
    return [int(wire.message().body[:8]) for _ in range(count)]


def test_a_producer_that_is_faster_than_its_consumer_fills_the_disk_not_the_memory(
    daemon: Callable[..., Daemon],
) -> None:
    broker = daemon()
    consumer = Wire(broker.port)
    consumer.subscribe("/queue/q", ack="client-individual", **{"activemq.prefetchSize": "10"})
    flood(Wire(broker.port), "/queue/q", 15_000, 10_000, 100)  # 150 MB
    assert broker.memory_peak() < INTERPRETER + 4 * LIMIT
    consumer.cut()
    reader = Wire(broker.port)
    reader.subscribe("/queue/q")
    assert numbers(reader, 15_000) == list(range(15_000))
    assert broker.memory_peak() < INTERPRETER + 4 * LIMIT


def test_a_million_small_messages_wait_on_disk(daemon: Callable[..., Daemon]) -> None:
    count = 1_000_000 if is_compiled() else 200_000  # the plain build takes half a minute for a million
    broker = daemon()
    flood(Wire(broker.port), "/queue/q", count, 20, 10_000)
    print(f"{broker.memory_peak() / MIB:.0f} MiB at most with {count} messages")
    assert broker.memory_peak() < INTERPRETER + 3 * LIMIT + 40 * count  # what waits on disk costs a few octets each
    reader = Wire(broker.port)
    reader.subscribe("/queue/q", **{"activemq.prefetchSize": "100"})
    assert numbers(reader, 10_000) == list(range(10_000))


def test_a_body_of_300_mb_never_is_in_memory(daemon: Callable[..., Daemon], tmp_path: Path) -> None:
    broker = daemon("--listen", "stomp://127.0.0.1:0?wireFormat.maxFrameSize=400000000")
    port = int(json.loads(broker.ports.read_text())["uris"][1].rpartition(":")[2])
    producer, consumer = Wire(port), Wire(broker.port)
    size, piece = 300_000_000, bytes(range(250)) * 4000
    producer.socket.sendall(b"SEND\ndestination:/queue/q\npersistent:true\nreceipt:r\ncontent-length:%d\n\n" % size)
    for _ in range(size // len(piece)):
        producer.socket.sendall(piece)
    producer.socket.sendall(b"\0")
    assert producer.hear().headers["receipt-id"] == "r"
    consumer.say("SUBSCRIBE", {"id": "1", "destination": "/queue/q", "ack": "client-individual"})
    got, start = 0, b""
    while got < size:
        data = consumer.socket.recv(READ_OCTETS)
        if b"\n\n" not in start:
            start += data
            head, found, data = start.partition(b"\n\n")
            if not found:
                continue
        got += len(data)
        assert data.rstrip(b"\0\n").startswith(data[:1]) or not data
    assert broker.memory_peak() < INTERPRETER + 64 * MIB
    tag = dict(line.split(b":", 1) for line in head.split(b"\n")[1:])[b"ack"].decode()
    consumer.say("ACK", {"id": tag, "receipt": "a"})
    until = time.monotonic() + PATIENCE
    while list((broker.data / "blobs").glob("*.blob")):
        assert time.monotonic() < until
        time.sleep(0.01)


def test_bodies_without_a_length_of_twenty_at_once_never_are_in_memory(daemon: Callable[..., Daemon]) -> None:
    """20 x 99 MiB were found to take 2.5 GB; ENTREPOT_UNSIZED_MIB=99 does just that, on whatever disk there is."""
    size = int(os.environ.get("ENTREPOT_UNSIZED_MIB", "10")) * MIB - 100
    broker = daemon()
    wires = [Wire(broker.port) for _ in range(20)]
    for number, wire in enumerate(wires):
        wire.socket.sendall(b"SEND\ndestination:/queue/q\npersistent:true\nreceipt:r\n\n%02d" % number)
    piece = b"x" * (MIB // 2)
    sent = 0
    while sent < size:
        for wire in wires:
            wire.socket.sendall(piece[: size - sent])
        sent += min(len(piece), size - sent)
    for wire in wires:
        wire.socket.sendall(b"\0")
    for wire in wires:
        assert wire.hear().command == "RECEIPT"
    print(f"{broker.memory_peak() / MIB:.0f} MiB at most with 20 x {size / MIB:.0f} MiB")
    assert broker.memory_peak() < INTERPRETER + 3 * LIMIT
    reader = Wire(broker.port)
    reader.subscribe("/queue/q", ack="client-individual", **{"activemq.prefetchSize": "1"})
    seen = []
    for _ in wires:
        message = reader.message()
        assert len(message.body) == size + 2
        seen.append(int(message.body[:2]))
        reader.say("ACK", {"id": message.headers["ack"]})
    assert sorted(seen) == list(range(20))


def test_policy_fail_end_to_end(daemon: Callable[..., Daemon]) -> None:
    broker = daemon("--set", "q:full=FAIL,max_octets=1000000")
    wire = Wire(broker.port)
    answers = [wire.send("/queue/q", bytes(50_000)).command for _ in range(40)]
    taken = answers.count("RECEIPT")
    assert 10 < taken < 30
    assert answers == ["RECEIPT"] * taken + ["ERROR"] * (40 - taken)
    assert len(Wire(broker.port).drain("/queue/q")) == taken
    assert wire.send("/queue/q", b"again").command == "RECEIPT"


def test_policy_block_end_to_end(daemon: Callable[..., Daemon]) -> None:
    broker = daemon("--set", "q:full=BLOCK,max_octets=1000000")
    producer, bystander = Wire(broker.port), Wire(broker.port)
    flooding = threading.Thread(target=flood, args=(producer, "/queue/q", 20_000, 2000, 100))
    flooding.start()
    time.sleep(0.3)
    assert flooding.is_alive(), "40 MB went into a queue that holds 1 MB"
    assert bystander.send("/queue/other", b"x").command == "RECEIPT", "who floods one queue stops at that one"
    reader = Wire(broker.port)
    reader.subscribe("/queue/q", **{"activemq.prefetchSize": "50"})
    assert numbers(reader, 20_000) == list(range(20_000))
    flooding.join(PATIENCE)
    assert not flooding.is_alive()
    assert broker.memory_peak() < INTERPRETER + 3 * LIMIT


@pytest.mark.parametrize("ephemeral", [True, False])
def test_one_connection_that_produces_and_consumes_never_waits_for_itself(
    daemon: Callable[..., Daemon], ephemeral: bool
) -> None:
    """It sends 100 MB to itself, reads only between batches, and acknowledges: every message comes or was refused."""
    broker = daemon("--set", "q:full=BLOCK,max_octets=1000000", ephemeral=ephemeral)
    wire = Wire(broker.port)
    wire.subscribe("/queue/q", ack="client-individual", **{"activemq.prefetchSize": "10"})
    refused = got = 0
    batches, each = 100, 100
    for batch in range(batches):
        wire.socket.sendall(frames("/queue/q", batch * each, each, 10_000))
        for _ in range(20):
            frame = wire.others.pop(0) if wire.others else wire.hear()
            if frame.command == "ERROR":
                assert frame.headers["code"] == "ENT-3004", frame
                refused += 1
            else:
                got += 1
                wire.say("ACK", {"id": frame.headers["ack"]})
    while got + refused < batches * each:
        frame = wire.others.pop(0) if wire.others else wire.hear()
        refused += frame.command == "ERROR"
        got += frame.command == "MESSAGE"
        if frame.command == "MESSAGE":
            wire.say("ACK", {"id": frame.headers["ack"]})
    assert got > 1000
    assert broker.memory_peak() < INTERPRETER + 4 * LIMIT


def test_what_five_thousand_idle_connections_cost(daemon: Callable[..., Daemon]) -> None:
    wanted = 5000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < wanted + 500:
        pytest.skip(f"only {hard} open files are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted + 500), hard))
    sockets: list[socket.socket] = []
    try:
        broker = daemon()
        before = broker.memory()
        hello = b"CONNECT\naccept-version:1.2\n\n\0SUBSCRIBE\nid:1\ndestination:/queue/idle.%d\nreceipt:r\n\n\0"
        for number in range(wanted):
            sockets.append(socket.create_connection(("127.0.0.1", broker.port), timeout=PATIENCE))
            sockets[-1].sendall(hello % number)
        for each in sockets:
            got = b""
            while b"RECEIPT" not in got:
                got += each.recv(4096)
        used = (broker.memory() - before) / wanted
        print(f"{used:.0f} octets a connection with a queue of its own")
        assert used < 20_000
        wire = Wire(broker.port)
        assert wire.send("/queue/idle.4711", b"wake up").command == "RECEIPT"
        assert b"wake up" in sockets[4711].recv(4096)
    finally:
        for each in sockets:
            each.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
