"""A broker as a process of its own, to be killed, starved and measured; clients that talk to it over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import entrepot
from entrepot.protocols.stomp.frames import Frame, FrameParser, encode_frame

PATIENCE = float(os.environ.get("ENTREPOT_PATIENCE", "30"))  # s: nothing here takes a tenth of it on an idle machine
CONNECT = {"accept-version": "1.2", "host": "test"}
READ_OCTETS = 1 << 18


class Daemon:
    """`entrepot run` on a free port. May be started again after it ended: the data directory stays."""

    def __init__(self, home: Path, *arguments: str, ephemeral: bool = False, files: bool = False) -> None:
        """``files``: the arguments name a configuration, which says where it listens and what it keeps."""
        self.home = home
        self.files = files
        self.data = home / "data"
        self.arguments = [] if files else ["--ephemeral"] if ephemeral else ["--data", str(self.data)]
        self.arguments += arguments
        self.ports = home / "ports.json"
        self.log = home / "log"
        self.process: subprocess.Popen[bytes] | None = None
        self.port = 0

    def start(self) -> Daemon:
        """Start it and wait until it accepts connections."""
        self.ports.unlink(missing_ok=True)
        command = [sys.executable, "-m", "entrepot", "run"]
        command += [] if self.files else ["--listen", "stomp://127.0.0.1:0"]
        command += ["--ports-file", str(self.ports), *self.arguments]
        # it works elsewhere, where a relative PYTHONPATH would lead to another copy of the package, or to none
        environment = {**os.environ, "PYTHONPATH": str(Path(entrepot.__file__).resolve().parent.parent)}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.home, env=environment
            )
        until = time.monotonic() + PATIENCE
        while not self.ports.exists():
            assert self.process.poll() is None, self.told()
            assert time.monotonic() < until, self.told()
            time.sleep(0.01)
        self.port = int(json.loads(self.ports.read_text())["stomp"].rpartition(":")[2])
        return self

    def stay(self) -> Daemon:
        """Be found at the same port when it is started again."""
        self.arguments += ["--listen", f"stomp://127.0.0.1:{self.port}"]
        return self

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def kill(self) -> None:
        """End it as a power cut would, but for what the kernel still writes."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(PATIENCE)

    def stop(self) -> int:
        """End it well; return its exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def told(self) -> str:
        return self.log.read_text()

    def memory(self) -> int:
        """Return the resident memory in octets."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def memory_peak(self) -> int:
        """Return the most resident memory that it ever had, in octets."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmHWM")


class Wire:
    """A blocking STOMP 1.2 client. Frames that are not asked for are kept in ``others``."""

    def __init__(self, port: int, **headers: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.parser = FrameParser()
        self.others: list[Frame] = []
        self.count = 0
        self.say("CONNECT", {**CONNECT, **{name.replace("_", "-"): text for name, text in headers.items()}})
        assert self.hear().command == "CONNECTED"
        self.parser.version = "1.2"

    def say(self, command: str, headers: dict[str, str], body: bytes = b"") -> None:
        self.socket.sendall(encode_frame(command, headers, body))

    def hear(self) -> Frame:
        """Return the next frame. Raises TimeoutError, ConnectionError."""
        while (frame := self.parser.take()) is None:
            data = self.socket.recv(READ_OCTETS)
            if not data:
                raise ConnectionResetError("the broker closed the connection")
            self.parser.feed(data)
        return frame

    def ask(self, command: str, headers: dict[str, str], body: bytes = b"") -> Frame:
        """Send with a receipt; return its RECEIPT or ERROR."""
        self.count += 1
        receipt = f"r{self.count}"
        self.say(command, {**headers, "receipt": receipt}, body)
        while True:
            frame = self.hear()
            if frame.headers.get("receipt-id") == receipt:
                return frame
            self.others.append(frame)

    def send(self, destination: str, body: bytes, **headers: str) -> Frame:
        wanted = {"destination": destination, "content-length": str(len(body)), **headers}
        return self.ask("SEND", wanted, body)

    def subscribe(self, destination: str, **headers: str) -> Frame:
        return self.ask("SUBSCRIBE", {"destination": destination, "id": destination, **headers})

    def message(self) -> Frame:
        """Return the next MESSAGE."""
        while True:
            frame = self.others.pop(0) if self.others else self.hear()
            if frame.command == "MESSAGE":
                return frame
            assert frame.command != "ERROR", frame

    def drain(self, destination: str) -> list[Frame]:
        """Consume what waits, until nothing comes for a moment; on disk when this returns."""
        self.subscribe(destination, ack="auto")
        end = f"/queue/end-of-{self.count}"
        found: list[Frame] = []
        self.subscribe(end)
        while True:  # a message to ourselves comes behind what was waiting
            self.send(end, b"")
            while (frame := self.message()).headers["destination"] != end:
                found.append(frame)
            if not any(frame.command == "MESSAGE" for frame in self.others):
                break
        self.ask("UNSUBSCRIBE", {"id": destination})
        self.ask("UNSUBSCRIBE", {"id": end})
        found += [frame for frame in self.others if frame.command == "MESSAGE"]
        self.others.clear()
        return found

    def leave(self) -> None:
        """Say goodbye, and wait until all is on disk."""
        self.ask("DISCONNECT", {})
        self.socket.close()

    def cut(self) -> None:
        self.socket.close()


class AsyncWire:
    """The same for tests with many clients at once."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.parser = FrameParser("1.2")

    @classmethod
    async def open(cls, port: int, **headers: str) -> AsyncWire:
        made = cls(*await asyncio.open_connection("127.0.0.1", port, limit=READ_OCTETS))
        made.say("CONNECT", {**CONNECT, **{name.replace("_", "-"): text for name, text in headers.items()}})
        frame = await made.hear()
        assert frame is not None
        assert frame.command == "CONNECTED", frame
        return made

    def say(self, command: str, headers: dict[str, str], body: bytes = b"") -> None:
        self.writer.write(encode_frame(command, headers, body))

    async def hear(self) -> Frame | None:
        """Return the next frame, None at the end of the stream."""
        while (frame := self.parser.take()) is None:
            try:
                data = await self.reader.read(READ_OCTETS)
            except ConnectionError:
                return None
            if not data:
                return None
            self.parser.feed(data)
        return frame

    async def frames(self) -> AsyncIterator[Frame]:
        """Yield frames until the stream ends."""
        while (frame := await self.hear()) is not None:
            yield frame

    def cut(self) -> None:
        with contextlib.suppress(ConnectionError):
            self.writer.transport.abort()
