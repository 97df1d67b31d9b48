"""A broker process and a console process that shows it, for tests; requests of HTTP without a library."""

from __future__ import annotations

import http.client
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

PATIENCE: Final = 30.0
T = TypeVar("T")


def until(look: Callable[[], T], holds: Callable[[T], object]) -> T:
    """Look again and again until ``holds``; return what was seen."""
    until = time.monotonic() + PATIENCE
    while True:
        seen = look()
        if holds(seen):
            return seen
        assert time.monotonic() < until, seen
        time.sleep(0.05)


class Answer:
    """What came back."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Process:
    """A command of ours that writes a ports file."""

    def __init__(self, directory: Path, name: str, *arguments: str) -> None:
        self.ports = directory / f"{name}.json"
        with (directory / f"{name}.log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "entrepot", *arguments, "--ports-file", str(self.ports)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=directory,
            )  # fmt: skip
        until = time.monotonic() + PATIENCE
        while not self.ports.exists():
            told = (directory / f"{name}.log").read_text()
            assert self.process.poll() is None, told
            assert time.monotonic() < until, told
            time.sleep(0.02)
        self.facts = json.loads(self.ports.read_text())

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(PATIENCE)


class Console:
    """A broker and its console. ``more``: arguments of the broker; ``console``: of the console."""

    def __init__(self, directory: Path, *more: str, console: tuple[str, ...] = ()) -> None:
        self.directory = directory
        listen = ("--ephemeral", "--name", "here", "--listen", "auto://127.0.0.1:0")
        self.broker = Process(directory, "broker", "run", *listen, *more)
        self.tcp = self.broker.facts["uris"][0].replace("auto:", "tcp:")
        self.stomp = self.broker.facts["uris"][0].replace("auto:", "stomp:")
        self.console = Process(
            directory, "console", "console", "--broker", f"here={self.tcp}", "--listen", "127.0.0.1:0", *console
        )
        self.url = self.console.facts["url"]

    def ask(self, path: str, *, method: str = "GET", body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        """One request; a body that is no text is sent as JSON."""
        given = dict(headers or {})
        if body is not None and not isinstance(body, str | bytes):
            body = json.dumps(body)
            given.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=PATIENCE)
        try:
            connection.request("POST" if body is not None and method == "GET" else method, path, body, given)
            got = connection.getresponse()
            return Answer(got.status, {name.lower(): text for name, text in got.getheaders()}, got.read())
        finally:
            connection.close()

    def do(self, *arguments: str, given: str = "") -> str:
        """Run a command on the broker."""
        done = subprocess.run(
            [sys.executable, "-m", "entrepot", *arguments, "--url", self.stomp],
            input=given, capture_output=True, text=True, timeout=PATIENCE, check=True,
        )  # fmt: skip
        return done.stdout

    def log(self) -> str:
        return (self.directory / "console.log").read_text()

    def stop(self) -> None:
        self.console.stop()
        self.broker.stop()
