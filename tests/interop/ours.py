"""This broker as a process of its own, for a test: its own directory, a free port, ended by its process id."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from artemis import Artemis
from classic import CONFIGURATION, HOST, Classic, free_port
from wires import Wire

READY_PATIENCE_S: Final = float(os.environ.get("ENTREPOT_PATIENCE", "30"))  # as `daemon.PATIENCE`
STOP_PATIENCE_S: Final = 30.0


def listens(host: str, port: int, died: Callable[[], None] = lambda: None) -> None:
    """Wait until somebody takes connections there; ``died`` raises where that will never be."""
    until = time.monotonic() + READY_PATIENCE_S
    while True:
        try:
            with socket.create_connection((host, port), timeout=1) as link:
                if link.getsockname() != link.getpeername():  # else the kernel joined the port to itself
                    return
        except OSError:
            pass
        died()
        if time.monotonic() > until:
            raise RuntimeError(f"nobody listens at {host}:{port}")
        time.sleep(0.02)


class Entrepot:
    """One broker. `start` may be called again after `kill`: store and port stay."""

    def __init__(
        self,
        home: Path,
        *,
        name: str = "test",
        key_store: Path | None = None,
        data: Path | None = None,
        arguments: tuple[str, ...] = (),
        like: Classic | None = None,
        wire: Wire | None = None,
    ) -> None:
        """``data``: the store, if it is not below ``home``. ``arguments``: more of them for `entrepot run`.

        ``like``: run from the configuration of that broker, on ports of our own. ``wire``: run at the other end of it.
        """
        self.stomp_port = 0
        self.by_file = False  # its connectors are those of the file that it runs
        self.host = HOST if wire is None else wire.there
        self.prefix = [] if wire is None else wire.prefix
        self.home = home
        self.data = home / "data" if data is None else data
        self.arguments = arguments
        self.name = name
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.layer = "" if key_store is None else "+ssl"
        self.query = "" if key_store is None else f"?keyStorePath={key_store}&keyStorePassword=secret"
        home.mkdir(parents=True, exist_ok=True)
        if like is not None:
            text = (like.home / "activemq.xml").read_text().replace(str(like.home), str(home))
            text = text.replace(f":{like.port}", f":{self.port}")
            if like.stomp_port:
                self.stomp_port = free_port()
                text = text.replace(f":{like.stomp_port}", f":{self.stomp_port}")
                self.by_file = True
            (home / "activemq.xml").write_text(text)
            self.arguments = (str(home / "activemq.xml"),)

    @property
    def url(self) -> str:
        return f"tcp://{self.host}:{self.port}"

    def start(self) -> Entrepot:
        command = [*self.prefix, sys.executable, "-m", "entrepot", "run", "--name", self.name, "--data", str(self.data)]
        if not self.by_file:
            command += ["--listen", f"openwire{self.layer}://{self.host}:{self.port}{self.query}"]
        command += self.arguments
        with (self.home / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self

    def await_ready(self) -> Entrepot:
        def died() -> None:
            assert self.process is not None
            if self.process.poll() is not None:
                raise RuntimeError(f"the broker did not start:\n{(self.home / 'log').read_text()[-3000:]}")

        listens(self.host, self.port, died)
        return self

    def stop(self) -> None:
        """Stop in order: SIGTERM."""
        if self.process is not None:
            self.process.terminate()
            assert self.process.wait(STOP_PATIENCE_S) == 0, (self.home / "log").read_text()[-3000:]
            self.process = None

    def kill(self) -> None:
        """Kill -9."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None


def like_artemis(home: Path, artemis: Artemis) -> Entrepot:
    """Return a broker that runs the ``broker.xml`` of an Artemis, at a port of its own."""
    made = Entrepot(home, name=artemis.name)
    text = (artemis.home / "broker.xml").read_text().replace(str(artemis.home), str(home))
    (home / "broker.xml").write_text(text.replace(f":{artemis.port}?", f":{made.port}?"))
    made.arguments = (str(home / "broker.xml"),)
    made.by_file = True
    return made


def of_kind(kind: str, home: Path, name: str, core: str = "", *, addresses: str) -> Artemis | Entrepot:
    """Return a broker of the ``kind`` ``artemis`` or ``ours``, not started, with one configuration file for both.

    ``core``: more of its elements. Where they have a list of connectors, it is the only one.
    """
    broker = Artemis(home, name=name, core=core, addresses=addresses)
    if "<connectors>" in core:
        text = (home / "broker.xml").read_text()
        own = f'<connectors><connector name="self">tcp://127.0.0.1:{broker.port}</connector></connectors>'
        (home / "broker.xml").write_text(text.replace(own, ""))
    if kind == "artemis":
        return broker
    ours = home / "ours"
    ours.mkdir()
    return like_artemis(ours, broker)


def member(
    kind: str, home: Path, name: str, port: int, core: str, settings: str = "", addresses: str = ""
) -> Artemis | Entrepot:
    """Return a node of a cluster at ``port``, an Artemis or ours with its file; ``core`` says the connectors of all."""
    broker = Artemis(home, name=name, core=core, settings=settings, addresses=addresses)
    file = home / "broker.xml"
    text = file.read_text()
    doubled = f'<connectors><connector name="self">tcp://{HOST}:{broker.port}</connector></connectors>'
    file.write_text(text.replace(doubled, "").replace(f":{broker.port}", f":{port}"))
    broker.port = port
    if kind == "artemis":
        return broker
    ours = home / "ours"
    ours.mkdir()
    made = like_artemis(ours, broker)
    copied = ours / "broker.xml"
    copied.write_text(copied.read_text().replace(f":{made.port}?", f":{port}?"))
    made.port = port
    return made


def configured(home: Path, *, name: str = "test", plugins: str) -> Entrepot:
    """Return a broker that runs the file that `classic.Classic` makes for the same plugins."""
    made = Entrepot(home, name=name)
    file = home / "activemq.xml"
    listen = f"tcp://{HOST}:{made.port}"
    rest = dict.fromkeys(("connector", "attributes", "policies", "stomp"), "")
    file.write_text(CONFIGURATION.format(name=name, home=home, listen=listen, plugins=plugins, **rest))
    made.arguments = (str(file),)
    return made
