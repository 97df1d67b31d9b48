"""A large message of an unmodified Artemis client, streamed both ways: the broker's memory hardly grows by it.

64 MiB here; ``ENTREPOT_CORE_LARGE_MIB=1024`` for 1 GiB.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Final

import artemis
import core_clients
import pytest

MIB: Final = 1 << 20
OCTETS: Final = int(os.environ.get("ENTREPOT_CORE_LARGE_MIB", "64")) * MIB
GROWTH_MAX: Final = 20 * MIB
LOOK_S: Final = 0.05
WHY_NOT: Final = artemis.unavailable()

pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=f"clients of Artemis: {WHY_NOT}")


def resident(pid: int) -> int:
    """Return the octets of memory that a process has."""
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.timeout(60 + OCTETS // MIB)
def test_a_large_message_passes_through(tmp_path: Path) -> None:
    program = core_clients.Program(core_clients.SAME)
    broker = core_clients.own(tmp_path)
    broker.start().await_ready()
    try:
        program.run("Streamed", broker.url, str(MIB))  # what the first large message needs is there now
        assert broker.process is not None
        pid, peak, over = broker.process.pid, 0, threading.Event()
        before = resident(pid)

        def watch() -> None:
            nonlocal peak
            while not over.wait(LOOK_S):
                peak = max(peak, resident(pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        try:
            said = program.run("Streamed", broker.url, str(OCTETS))
        finally:
            over.set()
            watcher.join()
        print(f"before {before / MIB:.1f} MiB, at most {peak / MIB:.1f} MiB")
        assert said.strip() == f"came {OCTETS} whole true"
        assert peak - before <= GROWTH_MAX
    finally:
        broker.kill()
