"""A broker of ours beside a real ActiveMQ or Artemis that draws from it over a cable, and clients, for a test."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any, Final

from cable import Cable
from classic import Classic, free_port

import entrepot
from entrepot.client.connection import Connection
from shell.daemon import Daemon, Wire

PATIENCE_S: Final = 120.0  # a machine that does other things too
QUIET_S: Final = 0.7  # nothing more comes
USER: Final = {"user": "app", "password": "secret"}
serial = itertools.count(1)


def fresh() -> str:
    """Return the name of a queue that nobody had before."""
    return f"Q{next(serial)}"


class Theirs:
    """What clients do at an ActiveMQ that a test keeps. ``user``: as whom."""

    def __init__(self, broker: Classic, **user: str) -> None:
        self.broker = broker
        self.user = user

    @contextlib.asynccontextmanager
    async def connected(self, **more: Any) -> AsyncIterator[Connection]:
        async with asyncio.timeout(2 * PATIENCE_S), entrepot.connect(self.broker.url, **self.user, **more) as made:
            yield made

    def send(self, bodies: Sequence[Any], where: str, *, wait: bool = True, **how: Any) -> None:
        """Send; each is on its disk when this returns, but for those that are not persistent."""

        async def play() -> None:
            async with self.connected() as link, link.session() as session, session.producer(where) as producer:
                for body in bodies[:-1]:
                    await producer.send(body, wait=wait, **how)
                await producer.send(bodies[-1], wait=True, **how)

        asyncio.run(play())

    def take(self, where: str, most: int = 0, patience: float = QUIET_S, durable: str = "") -> list[Any]:
        """Return the bodies of what is there, and take it out: at least ``most`` if they come in time."""
        found: list[Any] = []

        async def play() -> None:
            more = {"durable": durable} if durable else {}
            async with self.connected() as link, link.session() as session, session.consumer(where, **more) as consumer:
                while True:
                    message = await consumer.receive(patience if len(found) >= most else PATIENCE_S)
                    if message is None:
                        return
                    found.append(message.body)

        asyncio.run(play())
        return found


class Beside:
    """A broker of ours that draws from ``port`` of this machine, through ``cable``."""

    def __init__(
        self,
        home: Path,
        port: int,
        more: str = "",
        *,
        name: str = "beside",
        scheme: str = "activemq",
        place: str = "tcp://127.0.0.1:{port}",
        arguments: Sequence[str] = (),
    ) -> None:
        """``more``: options of the URI; ``place``: how the other broker is named, ``port`` being that of the cable.

        ``scheme``: which of the two it is; ``arguments``: more of them for `entrepot run`.
        """
        self.cable = Cable(port)
        folder = home / name
        folder.mkdir()
        self.listen = free_port()
        self.openwire = free_port()
        uri = f"{scheme}:({place.format(port=self.cable.port)})?retryInterval=100&maxRetryInterval=500{more}"
        listen = ("--listen", f"stomp://127.0.0.1:{self.listen}", "--listen", f"tcp://127.0.0.1:{self.openwire}")
        self.daemon = Daemon(folder, *listen, "--name", name, "--connect", uri, *arguments).start()
        self.holders: dict[str, Wire] = {}

    def close(self) -> None:
        for wire in self.holders.values():
            wire.cut()
        self.daemon.stop()
        self.cable.close()

    def hold(self, name: str, **place: str) -> None:
        """Be demand for the queue ``name``, or a place: a lease whose reader wants more, and settles nothing."""
        wire = Wire(self.listen)
        lease = {**(place or {"queue": f"/queue/{name}"}), "group": "spark"}
        answer = wire.ask("ATTACH", lease)
        assert answer.command == "RECEIPT", answer
        claim = {**lease, "epoch": answer.headers["epoch"], "max": "0", "demand": "true"}
        assert wire.ask("CLAIM", claim).command == "RECEIPT"
        self.holders[name] = wire

    def release(self, name: str) -> None:
        self.holders.pop(name).cut()

    def waits(self, queue: str) -> int:
        """Return how many messages a queue has."""
        wire = Wire(self.listen)
        answer = wire.ask("ATTACH", {"queue": queue, "group": "count"})
        claim = wire.ask("CLAIM", {"queue": queue, "group": "count", "epoch": answer.headers["epoch"], "max": "0"})
        wire.cut()
        return int(claim.headers["more"])

    def await_count(self, queue: str, count: int) -> None:
        self.until(lambda: self.waits(queue) >= count, lambda: f"{self.waits(queue)} of {count} came")

    def until(self, holds: Callable[[], bool], why: Callable[[], str] = str, patience: float = PATIENCE_S) -> None:
        """Wait until ``holds``."""
        until = time.monotonic() + patience
        while not holds():
            assert time.monotonic() < until, f"{why()}: {self.daemon.told()[-3000:]}"
            time.sleep(0.1)

    def until_said(self, words: str) -> None:
        """Wait until the log says so."""
        self.until(lambda: words in self.daemon.told(), lambda: words)

    def explained(self, queue: str) -> dict[str, Any]:
        """Return what `entrepot explain` says of the other broker."""
        command = [sys.executable, "-m", "entrepot", "explain", queue, "--alone", "-o", "json"]
        command += ["--url", f"stomp://127.0.0.1:{self.listen}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
        (row,) = json.loads(done.stdout.splitlines()[0])["elsewhere"]["draws"]
        return dict(row)

    def bridge(self, *words: str) -> dict[str, Any]:
        """Return the first row of what `entrepot bridge` says: by default of the connector, in its list."""
        command = [sys.executable, "-m", "entrepot", "bridge", *(words or ("list",)), "-o", "json"]
        command += ["--url", f"stomp://127.0.0.1:{self.listen}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
        return dict(json.loads(done.stdout.splitlines()[0]))

    def stop_drawing(self) -> None:
        """Have it drawn no more, whoever reads."""
        self.bridge("stop", "activemq")
        self.until(lambda: self.bridge()["state"] == "stopped")

    def took(self, queue: str) -> list[str]:
        """Return the bodies of what waits in ``queue`` and take it out. Who takes is demand, too."""
        return [body.decode() for body in self.octets(queue)]

    def octets(self, queue: str) -> list[bytes]:
        wire = Wire(self.listen)
        found = [frame.body for frame in wire.drain(queue)]
        wire.leave()
        return found

    def drawn(self, name: str, count: int) -> list[str]:
        """Wait until ``count`` messages of the queue ``name`` came, and return them all; demand ends."""
        self.await_count(name, count)
        self.release(name)
        time.sleep(0.3)
        return self.took(f"/queue/{name}")
