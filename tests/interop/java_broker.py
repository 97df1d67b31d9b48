"""A broker of somebody else in a Java process of its own: started, awaited, killed by its process id."""

from __future__ import annotations

import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

import shared_classes

HOST: Final = "127.0.0.1"
READY_PATIENCE_S: Final = 60.0
JAVA: Final = ("java", "-Xms64M", "-Xmx512M", "-XX:TieredStopAtLevel=1")


class JavaBroker:
    """Its directory ``home`` and its ``port`` stay, so it may be started again after `kill`."""

    called = "the broker"

    def __init__(self, home: Path, port: int) -> None:
        self.home = home
        self.port = port
        self.host = HOST
        self.prefix: list[str] = []  # of the command that starts it
        self.sharing: list[str] = []  # options by which it makes an archive of its classes
        self.process: subprocess.Popen[bytes] | None = None

    def run(self, *arguments: str) -> None:
        """Start Java with ``arguments``, ``-cp`` among them, its output in the file ``log``."""
        options = self.sharing or shared_classes.taken(arguments[arguments.index("-cp") + 1])
        command = [*self.prefix, *JAVA, *options, *arguments]
        with (self.home / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.home)

    def led(self, class_path: str, make: Callable[[Path], JavaBroker]) -> None:
        """Have another broker, which ``make`` makes, load the classes that this one will need, if none did before.

        Which one may not be killed then, for the archive is written at its end.
        """
        if self.sharing:
            return
        with shared_classes.made(class_path) as making, tempfile.TemporaryDirectory() as home:
            if making:
                first = make(Path(home))
                first.sharing = making
                try:
                    first.start().await_ready().stop()
                finally:
                    first.kill()

    def start(self) -> Self:
        """Start it, and return at once."""
        raise NotImplementedError

    def await_ready(self) -> Self:
        """Wait until it takes connections."""
        until = time.monotonic() + READY_PATIENCE_S
        while not self._answers():
            assert self.process is not None
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{self.called} did not start:\n{(self.home / 'log').read_text()[-3000:]}")
            time.sleep(0.05)
        return self

    def kill(self) -> None:
        """Kill -9."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def stop(self, patience_s: float = 60.0) -> None:
        """Stop in order: SIGTERM."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(patience_s)
            self.process = None

    def _answers(self) -> bool:
        """Say whether it takes connections; a port that the kernel joined to itself does not count."""
        try:
            with socket.create_connection((self.host, self.port), timeout=2) as link:
                return bool(link.getsockname() != link.getpeername()) and self._greets(link)
        except OSError:
            return False

    def _greets(self, link: socket.socket) -> bool:
        """Say whether who answers is ready; it may have to say something first."""
        return True
