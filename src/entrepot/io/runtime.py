"""What a broker process takes from its machine: the loop, the clock, randomness, signals, memory and its log.

Importing this module is cheap on purpose: it is on the path from exec to the first accepted connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from entrepot.base.environment import MIB, MILLISECOND, Clock, Entropy, Instant, WallTime
from entrepot.base.errors import InvalidOption

T = TypeVar("T")

LOOPS: Final = ("auto", "uvloop", "asyncio")

# mallopt(3). glibc's defaults give freed tops of the heap back and map every large block by itself; with messages of
# 1 KiB that doubles the cost of one (PERFORMANCE.md, "tuned", point 7: 376 k against 657 k messages a second).
M_TRIM_THRESHOLD: Final = -1
M_MMAP_THRESHOLD: Final = -3
TRIM_OCTETS: Final = 256 * MIB
MMAP_OCTETS: Final = 32 * MIB  # the largest that glibc accepts on 64 bits

MADV_DONTNEED: Final = 4  # madvise(2), the same on every architecture of Linux but Alpha
INPUT_OCTETS: Final = 4096  # of an input that nobody looks at
COLLECTOR_THRESHOLDS: Final = (100_000, 20, 20)  # a full queue is a large young heap without cycles


_asked: Final = threading.Event()
"""A signal has asked this process to stop, since `on_signals` was called last."""


class SystemClock(Clock):
    """The clocks of this machine."""

    def now(self) -> Instant:
        """Return the monotonic time in ns."""
        return time.monotonic_ns()

    def wall(self) -> WallTime:
        """Return ms since 1970."""
        return time.time_ns() // MILLISECOND


class SystemEntropy(Entropy):
    """Randomness of this machine: tokens from the kernel, jitter from a generator seeded by it."""

    def __init__(self) -> None:
        self._jitter = random.Random(os.urandom(16))

    def token(self, octets: int) -> bytes:
        """Return ``octets`` bytes nobody can guess."""
        return os.urandom(octets)

    def fraction(self) -> float:
        """Return a number in [0, 1); for jitter, not for secrets."""
        return self._jitter.random()


def loop_factory(choice: str = "auto") -> Callable[[], asyncio.AbstractEventLoop]:
    """Return what makes the loop: uvloop where it is installed, unless ``choice`` is asyncio. Raises InvalidOption."""
    if choice not in LOOPS:
        raise InvalidOption(f"there is no event loop {choice!r}", remedy="use one of " + ", ".join(LOOPS))
    if choice != "asyncio":
        try:
            import uvloop  # noqa: PLC0415 - optional

            return uvloop.new_event_loop
        except ImportError:
            if choice == "uvloop":
                raise InvalidOption("uvloop is not installed", remedy="pip install 'entrepot[fast]'") from None
    return asyncio.new_event_loop


def run(main: Coroutine[Any, Any, T], loop: str = "auto") -> T:
    """Run ``main`` on a fresh loop until it is done. Raises InvalidOption for an unknown loop."""
    try:
        factory = loop_factory(loop)
    except InvalidOption:
        main.close()
        raise
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main)


def tune_malloc() -> bool:
    """Let glibc keep the memory of messages between one and the next. False where there is no glibc, or it refused.

    Settings from the environment (``MALLOC_TRIM_THRESHOLD_``, ``MALLOC_MMAP_THRESHOLD_``) are left alone.
    """
    if not sys.platform.startswith("linux"):
        return False
    wanted = (
        ("MALLOC_TRIM_THRESHOLD_", M_TRIM_THRESHOLD, TRIM_OCTETS),
        ("MALLOC_MMAP_THRESHOLD_", M_MMAP_THRESHOLD, MMAP_OCTETS),
    )
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # musl has none
        return False
    taken = True
    for name, option, octets in wanted:
        if name not in os.environ and mallopt(option, octets) != 1:
            taken = False
    return taken


def give_back_memory() -> None:
    """Return to the system what loading modules left behind, about 2 MB; where there is no glibc, nothing happens.

    And about 10 MB of programs and their tables, most of which were needed once, to make classes: what is still needed
    of it comes back from the page cache, within a millisecond.
    """
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.malloc_trim(0)
        for start, length in as_in_files():
            libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), MADV_DONTNEED)


def as_in_files(smaps: str = "/proc/self/smaps") -> list[tuple[int, int]]:
    """Return address and length of what is mapped from files, cannot be written and never was; none without /proc.

    Tables that the linker wrote addresses into cannot be written either, but were: they have pages of their own.
    """
    found: list[tuple[int, int]] = []
    span = ""  # of the mapping whose lines these are, if it is from a file and cannot be written
    with contextlib.suppress(OSError), open(smaps, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            words = line.split(maxsplit=5)
            if "-" in words[0]:
                span = words[0] if words[1] in {"r-xp", "r--p"} and words[4] != "0" and len(words) > 5 else ""
            elif span and words[:2] == ["Anonymous:", "0"]:
                start, _, end = span.partition("-")
                found.append((int(start, 16), int(end, 16) - int(start, 16)))
    return found


def tune_collector() -> None:
    """Take what is loaded by now out of every later collection, and make those rare. Call it when the broker is up.

    Who waits for its turn calls it then, too: the collection, 20 to 50 ms, is behind it when clients wait for it.
    """
    if gc.get_threshold() != COLLECTOR_THRESHOLDS:
        gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)


def on_signals(stop: Callable[[str], None]) -> Callable[[], None]:
    """Call ``stop`` with the name of the first SIGTERM or SIGINT; a second ends the process. Returns the undoing."""
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT)

    def undo() -> None:
        for number in numbers:
            loop.remove_signal_handler(number)

    def first(name: str) -> None:
        _asked.set()
        undo()  # from now on the default holds: who asks twice does not want to wait
        stop(name)

    _asked.clear()
    for number in numbers:
        loop.add_signal_handler(number, first, number.name)
    return undo


def stop_at_end_of_input(descriptor: int = 0) -> None:
    """Take the end of standard input for a SIGTERM, from now on; what is written to it is read and thrown away.

    A process that holds the other end of a pipe cannot end without closing it, not even by SIGKILL.
    """

    def watch() -> None:
        with contextlib.suppress(OSError):  # a terminal that is gone, an input that was closed: it has ended
            while os.read(descriptor, INPUT_OCTETS):
                pass
        if not _asked.is_set():  # whoever ends a whole group has told this process too: it would be the second time
            os.kill(os.getpid(), signal.SIGTERM)

    # A thread: not every loop can wait for every kind of input, and this one may not have begun, or be busy.
    threading.Thread(target=watch, name="standard input", daemon=True).start()
