"""`entrepot` run by another program, as schedulers do: land once and hear how much, ask how much waits.

A process of its own, because the packages of Spark and of a scheduler need not agree with one another: ``program`` may
be in another environment. Needs neither Spark nor a scheduler.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, Final

import msgspec

from entrepot.base.errors import EntrepotError, InvalidDestination, OperatorError, Unreachable, kinds

PROGRAM: Final = (sys.executable, "-m", "entrepot")
STOP_PATIENCE: Final = 90.0  # s that the batches under way may take, as in docs/landing.md
ASK_PATIENCE: Final = 60.0  # s for a program to start, ask a broker and end
ROWS_MAX: Final = 1_000  # lines of what it writes: a row for each flow, of which a file has no more
LINES_KEPT: Final = 20  # of its log, for the words of a failure


class Landing:
    """One run of `entrepot pipeline land CONFIG.toml --once`; `stop` may come from another thread, or a handler."""

    def __init__(
        self,
        config: str,
        *,
        program: Sequence[str] = PROGRAM,
        environment: Mapping[str, str] | None = None,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        """``environment``: more of it, such as passwords; ``say`` is told each line of its log."""
        self._command: Final = [*program, "pipeline", "land", config, "--once", "--output", "json"]
        self._environment: Final = {**os.environ, **(environment or {})}
        self._say: Final = say
        self._running: tuple[subprocess.Popen[str], threading.Thread] | None = None
        self._last: Final[deque[str]] = deque(maxlen=LINES_KEPT)

    def run(self) -> list[dict[str, Any]]:
        """Land what is there; return a row for each flow: ``flow``, ``state``, ``rows``, ``batches``, ``why``.

        Raises OperatorError where a flow did not come to its end, or the program cannot be started.
        """
        process = _begun(self._command, self._environment)
        assert process.stderr is not None
        assert process.stdout is not None
        listener = threading.Thread(target=self._listen, args=(process.stderr,), daemon=True)
        listener.start()
        self._running = process, listener
        lines = deque(process.stdout, maxlen=ROWS_MAX)
        code = process.wait()
        listener.join()
        if code != 0:
            said = next((line for line in self._last if line.startswith("entrepot: ")), "")
            raise OperatorError(
                said.removeprefix("entrepot: ") or f"the landing ended with {code}: {' '.join(self._last)[-500:]}",
                remedy="run it again; it goes on where it was",
            )
        return [msgspec.json.decode(line) for line in lines]

    def stop(self) -> None:
        """Let the batches under way come to their end; kill it when they do not within `STOP_PATIENCE`."""
        if self._running is None:
            return
        process, listener = self._running
        process.send_signal(signal.SIGTERM)
        # A handler may have interrupted `run` in its own wait for the process, so the end of the log is waited for.
        listener.join(STOP_PATIENCE)
        if listener.is_alive():
            process.kill()

    def _listen(self, stream: IO[str]) -> None:
        for line in stream:
            self._last.append(line.rstrip())
            self._say(line.rstrip())


def waiting(queue: str, url: str, *, program: Sequence[str] = PROGRAM) -> int:
    """Return how many messages are in ``queue`` at ``url``, what consumers and queries hold among them.

    0 for a queue that is not there yet. Raises Unreachable, and OperatorError for what the broker refuses.
    """
    command = [*program, "queue", "show", queue, "--output", "json"]
    process = _begun(command, {**os.environ, "ENTREPOT_URL": url})  # not among the arguments: all may read these
    try:
        told, said = process.communicate(timeout=ASK_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise Unreachable(f"nobody told within {ASK_PATIENCE:.0f} s how much waits in {queue}") from None
    if process.returncode == 0:
        return int(msgspec.json.decode(told)["messages"])
    kind = _kind(said)
    if kind is InvalidDestination:
        return 0
    raise (Unreachable if kind is Unreachable else OperatorError)(said.strip()[:500])


def _begun(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    try:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True, errors="replace", env=environment
        )
    except OSError as error:
        raise OperatorError(
            f"{command[0]} cannot be started: {error.strerror}", remedy="name the Python that has entrepot"
        ) from None


def _kind(said: str) -> type[EntrepotError] | None:
    """Return what kind of error a program's words are: it says the code in brackets."""
    found = kinds(EntrepotError)
    return next((found[code] for code in found if f"[{code}]" in said), None)
