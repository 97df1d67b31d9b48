"""Two brokers on one directory, as processes, and a producer that knows what it was promised."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from promises import never

PATIENCE = 30.0  # s: far more than anything here takes on an idle machine
PADDING = "."
ROUNDS = int(os.environ.get("PAIR_ROUNDS", "2"))
ROUNDS_SLOW = int(os.environ.get("PAIR_ROUNDS", "1"))
"""Rounds under load of each kind; `PAIR_ROUNDS=50` is what a release is tested with."""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def until(true: Callable[[], object], what: str, patience: float = PATIENCE) -> None:
    end = time.monotonic() + patience
    while not true():
        if time.monotonic() > end:
            raise AssertionError(f"not within {patience} s: {what}")
        time.sleep(0.005)


class BrokerProcess:
    """One broker of a pair, at a port of its own."""

    ha = "shared-store"

    def __init__(
        self,
        data: Path,
        name: str,
        logs: Path,
        *more: str,
        port: int = 0,
        status: int = 0,
        host: str = "127.0.0.1",
        inside: tuple[str, ...] = (),
        build: Path | None = None,
    ) -> None:
        """``inside``: what its command begins with, to have it on another machine, at ``host``.

        ``build``: where its code is, if it is not that of the test.
        """
        environment = {**os.environ, "PYTHONPATH": str(build)} if build is not None else None
        self.name = name
        self.host = host
        self.port = port or free_port()
        self.status = status or free_port()
        self.log = logs / f"{name}.log"
        command = [*inside, sys.executable, "-m", "entrepot", "run", "--ha", self.ha, "--data", str(data)]
        command += ["--name", name, "--listen", f"stomp://{host}:{self.port}"]
        command += ["--status", f"{host}:{self.status}", *more]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=environment)

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def facts(self) -> dict:
        try:
            with socket.create_connection((self.host, self.status), 1.0) as one:
                one.sendall(b"GET /status HTTP/1.1\r\n\r\n")
                octets = b""
                while chunk := one.recv(65536):
                    octets += chunk
            return dict(json.loads(octets.partition(b"\r\n\r\n")[2]))
        except (OSError, ValueError):
            return {}

    def role(self) -> str:
        return str(self.facts().get("role", "?"))

    def serves(self) -> bool:
        return self.role() == "primary"

    def waits(self) -> bool:
        return self.role() == "backup"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)

    def pause(self) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(PATIENCE)

    def clear(self) -> None:
        """End it, whatever state it is in."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE)

    def resident(self) -> int:
        """Return resident memory in octets."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("it is gone")


class Connection:
    """A blocking STOMP connection, as little as it takes."""

    def __init__(self, port: int, timeout: float = 5.0, host: str = "127.0.0.1") -> None:
        self.socket = socket.create_connection((host, port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""
        self.socket.sendall(b"CONNECT\naccept-version:1.2\n\n\0")
        answer = self.frame()
        if not answer.startswith(b"CONNECTED"):
            raise OSError(f"refused: {answer!r}")

    def frame(self) -> bytes:
        while True:
            found = self.buffer.find(b"\0")
            if found >= 0:
                frame, self.buffer = self.buffer[:found].lstrip(b"\n"), self.buffer[found + 1 :]
                return frame
            chunk = self.socket.recv(1 << 16)
            if not chunk:
                raise ConnectionError("closed")
            self.buffer += chunk

    def send(self, queue: str, bodies: list[str], size: int = 0, *, told: bool = False) -> None:
        """``told``: each says by its duplicate id that it may come again."""
        rest = PADDING * size + "\0"
        head = f"SEND\ndestination:{queue}\npersistent:true\n"
        marks = {body: f"_AMQ_DUPL_ID:{body}\n" if told else "" for body in bodies}
        frames = [f"{head}{marks[body]}receipt:{body}\n\n{body}{rest}" for body in bodies]
        self.socket.sendall("".join(frames).encode())

    def receipts(self, count: int) -> list[str]:
        """Return the ids of ``count`` receipts. Raises OSError for anything else, keeping those before it."""
        got: list[str] = []
        for _ in range(count):
            frame = self.frame()
            if not frame.startswith(b"RECEIPT"):
                raise OSError(f"no receipt: {frame!r}")
            got.append(frame.split(b"receipt-id:")[1].split(b"\n")[0].decode())
        return got

    def close(self) -> None:
        self.socket.close()


class Producer:
    """Sends without end to whoever serves; keeps which bodies were receipted, and which broke off in between."""

    def __init__(
        self,
        ports: list[int],
        queue: str,
        *,
        window: int = 50,
        rate: float = 0.0,
        label: str = "p",
        size: int = 0,
        hosts: list[str] | None = None,
        repeats: bool = False,
    ) -> None:
        """``hosts``: of the ports, where they are not here.

        ``repeats``: what broke off is sent again, with its duplicate id, as clients do that want each once.
        ``rate``: messages a second, 0 for as many as go. ``size``: octets that each body has more than its name."""
        self.size = size
        self.repeats = repeats
        self.hosts = hosts
        self.ports = ports
        self.queue = queue
        self.window = window
        self.rate = rate
        self.label = label
        self.promised: dict[str, float] = {}  # body -> when
        self.doubtful: dict[str, bool] = {}
        self.gap = 0.0  # longest time between two receipts, s
        self.refused = ""  # why it had to connect anew, last
        self._quit = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        last = time.monotonic()
        while not self._quit:
            connection = self._connect()
            if connection is None:
                time.sleep(0.005)
                continue
            try:
                while not self._quit:
                    began = time.monotonic()
                    bodies = list(self.doubtful) if self.repeats else []
                    bodies += [f"{self.label}{number + step}" for step in range(self.window)]
                    number += self.window
                    for body in bodies:
                        self.doubtful[body] = True
                    connection.send(self.queue, bodies, self.size, told=self.repeats)
                    for _ in bodies:
                        (body,) = connection.receipts(1)
                        at = time.monotonic()
                        self.gap = max(self.gap, at - last)
                        last = at
                        self.promised[body] = at
                        del self.doubtful[body]
                    if self.rate:
                        time.sleep(max(0.0, began + self.window / self.rate - time.monotonic()))
            except OSError as error:
                self.refused = str(error)
                connection.close()
                time.sleep(0.002)

    def _connect(self) -> Connection | None:
        hosts = self.hosts or ["127.0.0.1"] * len(self.ports)
        for host, port in zip(hosts, self.ports, strict=True):
            try:
                return Connection(port, 2.0, host)
            except OSError:
                continue
        return None

    def flow(self, count: int) -> None:
        """Wait until ``count`` more are receipted."""
        before = len(self.promised)
        until(lambda: len(self.promised) >= before + count, "messages flow")

    def stop(self) -> None:
        self._quit = True
        self._thread.join(PATIENCE)


def drain(port: int, queue: str, host: str = "127.0.0.1", awaited: Iterable[str] = ()) -> dict[str, int]:
    """Consume all that is in ``queue`` and return body -> how often it came. What is awaited has time to come."""
    missing = dict.fromkeys(awaited)
    connection = Connection(port, PATIENCE if missing else 3.0, host)
    found: dict[str, int] = {}
    connection.socket.sendall(f"SUBSCRIBE\nid:1\ndestination:{queue}\nack:auto\n\n\0".encode())
    try:
        while True:
            frame = connection.frame()
            if frame.startswith(b"MESSAGE"):
                body = frame.partition(b"\n\n")[2].decode().rstrip(PADDING)
                found[body] = found.get(body, 0) + 1
                missing.pop(body, None)
                connection.socket.settimeout(PATIENCE if missing else 1.0)
    except TimeoutError:
        connection.close()
        return found


Start = Callable[..., BrokerProcess]


def pair(start: Start, *more: str) -> tuple[BrokerProcess, BrokerProcess]:
    master = start("alpha", *more)
    until(master.serves, "alpha serves")
    backup = start("beta", *more)
    until(backup.waits, "beta waits")
    return master, backup


def settled(one: BrokerProcess, other: BrokerProcess, after: int = 0) -> None:
    """Wait until one serves, with an epoch above ``after``, and one waits."""

    def true() -> bool:
        facts = sorted([one.facts(), other.facts()], key=lambda each: str(each.get("role")))
        roles = [each.get("role") for each in facts]
        epoch = facts[1].get("master", {}).get("epoch", 0)  # missing in the moment in which the lease is lost
        return roles == ["backup", "primary"] and epoch > after

    until(true, f"one serves with an epoch above {after}, one waits")


def stand_still(
    producer: Producer, first: BrokerProcess, second: BrokerProcess, rounds: int
) -> tuple[BrokerProcess, BrokerProcess]:
    """Let the master, ``first`` to begin with, stand still and find out, ``rounds`` times; return master and backup."""
    for _ in range(rounds):
        producer.flow(200)
        first.pause()
        until(second.serves, "the backup takes over")
        producer.flow(200)
        first.resume()
        until(first.waits, "the old master is a backup")
        first, second = second, first
    return first, second


def kept(producer: Producer, port: int, host: str = "127.0.0.1") -> None:
    """Everything receipted is there exactly once; what broke off may be there or not."""
    found = drain(port, producer.queue, host, producer.promised)
    missing = [body for body in producer.promised if body not in found]
    twice = [body for body, times in found.items() if times > 1]
    strange = [body for body in found if body not in producer.promised and body not in producer.doubtful]
    with never():
        assert not missing, f"{len(missing)} of {len(producer.promised)} promised are lost: {missing[:5]}"
        assert not twice, f"{len(twice)} came twice: {twice[:5]}"
        assert not strange
