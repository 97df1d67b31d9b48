"""What Spark writes to the terminal without being asked: let the rest pass.

The JVM that a job starts inherits standard error, and writes there what it thinks of the machine; so do the processes
of Python that it starts, when it hangs up on them because it has enough rows. A job's own words drown in that. While
the JVM is started standard error is a pipe, and what comes out of it is read line by line.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

NOISE: Final = re.compile(
    r"""WARNING:\ Using\ incubator\ modules
    | Using\ Spark's\ default\ log4j
    | Setting\ default\ log\ level\ to
    | To\ adjust\ logging\ level\ use
    | \d\d/\d\d/\d\d\ \d\d:\d\d:\d\d\ (WARN|INFO)\ """,
    re.VERBOSE,
)
HANGED_UP: Final = ("BrokenPipeError", "ConnectionResetError")
TRACEBACK: Final = "Traceback (most recent call last):"
LINES_MAX: Final = 500  # of a traceback that are held back


class Sieve:
    """Lets lines pass to ``out`` that are no noise.

    A traceback is held until its last line says what it is; those of two processes may come line by line in turns, so
    all that are open are held until each has ended, and are noise if each is.
    """

    def __init__(self, out: Callable[[str], object]) -> None:
        self._out = out
        self._held: list[str] = []
        self._open = 0  # tracebacks that are held and have not ended
        self._hanged_up = True  # all that ended are of processes that were hung up on

    def line(self, line: str) -> None:
        """Take one line with its end."""
        if line.startswith(TRACEBACK):
            self._held.append(line)
            self._open += 1
        elif self._open:
            self._held.append(line)
            if line[:1] not in (" ", "\t"):
                self._open -= 1
                self._hanged_up = self._hanged_up and line.startswith(HANGED_UP)
            if not self._open and self._hanged_up:
                self._held.clear()
        elif not NOISE.match(line):
            self._out(line)
        if self._held and (not self._open or len(self._held) >= LINES_MAX):
            self.end()

    def end(self) -> None:
        """No more comes: let pass what is held."""
        for line in self._held:
            self._out(line)
        self._held.clear()
        self._open = 0
        self._hanged_up = True


@contextmanager
def without_noise() -> Iterator[None]:
    """Let processes that are started in this block, and what they start, write to a standard error without noise.

    This process writes to the real one, before and after. What they write comes there until they end.
    """
    try:
        sys.stderr.flush()
        mine = os.dup(2)
    except (OSError, ValueError):  # there is no standard error
        yield
        return
    readable, writable = os.pipe()
    os.dup2(writable, 2)
    os.close(writable)
    threading.Thread(target=_copy, args=(readable, mine), name="noise", daemon=True).start()
    before = sys.stderr
    sys.stderr = os.fdopen(os.dup(mine), "w", buffering=1, errors="backslashreplace")
    try:
        yield
    finally:
        sys.stderr.close()
        sys.stderr = before
        os.dup2(mine, 2)


def _copy(readable: int, out: int) -> None:
    def write(line: str) -> None:
        os.write(out, line.encode(errors="surrogateescape"))

    sieve = Sieve(write)
    with os.fdopen(readable, "r", errors="surrogateescape") as lines:
        for line in lines:
            sieve.line(line)
    sieve.end()
