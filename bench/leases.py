"""How fast ranges are read by lease, and batches staged and published, over one raw socket.

    python bench/leases.py [--messages 200000] [--size 1024] [--rounds 3] [--scratch DIR]

The reader only counts octets and looks for the RECEIPT, so that the broker is what is measured; a second pass takes the
batches apart with `entrepot.protocols.stomp.ranges`. Besides messages a second it prints the broker's processor time a
message, which says on a busy machine what the rate does not. Targets: 200,000 messages of 1 KiB read a second from a
journal that the file cache holds, 25,000 staged and published.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from brokers import BenchError, Entrepot, Running

from entrepot.protocols.stomp import ranges
from entrepot.protocols.stomp.frames import FrameParser, encode_frame

READ_OCTETS = 1 << 20
PATIENCE_S = 120.0


class Raw:
    """A connection that is read by the megabyte."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 * READ_OCTETS)
        self.buffer = bytearray(READ_OCTETS)
        self.asked = 0
        self.socket.sendall(encode_frame("CONNECT", {"accept-version": "1.2", "host": "bench"}))
        self.socket.recv(65536)

    def ask(self, command: str, **headers: str) -> dict[str, str]:
        """Send a frame; return the headers of its RECEIPT."""
        self.say(command, **headers)
        data = b""
        while not (data.startswith((b"RECEIPT", b"ERROR")) and data.endswith(b"\0\n")):
            data += self.socket.recv(65536)
        if data.startswith(b"ERROR"):
            raise BenchError(data.decode())
        lines = data.decode().splitlines()[1:]
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def say(self, command: str, **headers: str) -> None:
        """Send a frame that wants a receipt."""
        self.asked += 1
        self.socket.sendall(encode_frame(command, {**headers, "receipt": f"r{self.asked}"}, version="1.2"))

    def drain(self) -> int:
        """Read until the RECEIPT is the last thing that came; return how many octets that was."""
        octets = 0
        last = b""
        view = memoryview(self.buffer)
        mark = b"receipt-id:r%d\n" % self.asked
        while mark not in last:
            count = self.socket.recv_into(view)
            if not count:
                raise BenchError("the broker closed the connection")
            octets += count
            last = (last + bytes(view[max(0, count - 300) : count]))[-300:]
        return octets

    def decode(self) -> int:
        """Read and take apart until the RECEIPT; return how many messages came."""
        parser = FrameParser()
        parser.version = "1.2"
        messages = 0
        while True:
            parser.feed(self.socket.recv(READ_OCTETS))
            while (frame := parser.take()) is not None:
                if frame.command == "RECEIPT":
                    return messages
                if frame.command != "MESSAGE":
                    raise BenchError(frame.body.decode())
                messages += len(ranges.decode(frame.body).bodies)


def send_all(raw: Raw, count: int, size: int, **headers: str) -> None:
    """Send ``count`` messages without waiting, in chunks of whole frames."""
    fields = {"destination": "/queue/bench", "persistent": "true", "content-length": str(size), **headers}
    frame = encode_frame("SEND", fields, b"x" * size, version="1.2")
    chunk = frame * max(1, 262_144 // len(frame))
    whole, rest = divmod(count, max(1, 262_144 // len(frame)))
    for _ in range(whole):
        raw.socket.sendall(chunk)
    raw.socket.sendall(frame * rest)


class Meter:
    """Times a part of the work and what the broker burns for it."""

    def __init__(self, running: Running, messages: int) -> None:
        self.running = running
        self.messages = messages

    def measure(self, title: str, work: Callable[[], object]) -> None:
        """Do ``work`` and say what it cost."""
        burnt = self.running.cpu_s()
        began = time.perf_counter()
        work()
        took = time.perf_counter() - began
        cost = (self.running.cpu_s() - burnt) * 1e6 / self.messages
        print(f"{title:36} {self.messages / took:11,.0f} messages/s   {cost:6.2f} us of the broker each", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scratch", type=Path, help="where the store is put; must be a real disk")
    chosen = parser.parse_args()
    shard = {"queue": "/queue/bench", "group": "bench"}
    with tempfile.TemporaryDirectory(dir=chosen.scratch) as place, Entrepot().running(Path(place) / "leases") as up:
        meter = Meter(up, chosen.messages)
        raw = Raw(up.port)
        for number in range(chosen.rounds):
            held = {**shard, "epoch": raw.ask("ATTACH", **shard)["epoch"]}
            sink = {"sink": "bench", "batch": str(number), "part": f"p{number}"}
            raw.ask("STAGE", **sink)

            def stage(sink: dict[str, str] = sink) -> None:
                send_all(raw, chosen.messages, chosen.size, stage=sink["part"])
                raw.ask("STAGED", **sink)

            def publish(sink: dict[str, str] = sink) -> None:
                raw.ask("PUBLISH", sink="bench", batch=sink["batch"], parts=sink["part"])

            def claim(held: dict[str, str] = held) -> None:
                base = int(raw.ask("CLAIM", **held, max="100000")["base"])
                tail = base
                while tail < base + chosen.messages:
                    tail = int(raw.ask("CLAIM", **held, max="100000", wait="1000")["tail"])

            def read(form: str, held: dict[str, str] = held) -> None:
                raw.say("READ", **held, form=form)
                raw.drain()

            def decode(held: dict[str, str] = held) -> None:
                raw.say("READ", **held, form="batch")
                if raw.decode() != chosen.messages:
                    raise BenchError("not all messages came")

            meter.measure("stage, persistent", stage)
            meter.measure("publish", publish)
            meter.measure("claim", claim)
            meter.measure("read, a frame a message", lambda read=read: read("message"))
            meter.measure("read, batches", lambda read=read: read("batch"))
            meter.measure("read, batches, taken apart here", decode)
            tail = raw.ask("CLAIM", **held, max="0")["tail"]
            meter.measure("settle", lambda held=held, tail=tail: raw.ask("SETTLE", **held, end=tail))
    print(f"load of the machine {os.getloadavg()[0]:.1f}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchError as problem:
        sys.exit(str(problem))
