"""Transacted clients of Artemis go on while their connections are cut and the broker is killed: none lost, none twice.

The client is unmodified; the program is `java/core/Rounds.java`. With a confirmation window a cut connection is joined
again and nobody notices; after kill -9 the session is made anew, and what was not committed is done again. Four rounds
here; ``ENTREPOT_CORE_ROUNDS=50`` for more.
"""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import artemis
import core_clients
import ours
import pytest
from cable import Cable

from promises import never

ROUNDS: Final = int(os.environ.get("ENTREPOT_CORE_ROUNDS", "4"))
ENDING_PATIENCE_S: Final = 130.0
OPTIONS: Final = "reconnectAttempts=-1&retryInterval=50&callTimeout=10000&confirmationWindowSize={window}"
WHY_NOT: Final = artemis.unavailable()

pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=f"clients of Artemis: {WHY_NOT}")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ours.Entrepot]:
    if not core_clients.speaks_core():
        pytest.skip("this build of entrepot has no CORE server")
    made = core_clients.own(tmp_path)
    made.start().await_ready()
    yield made
    made.kill()


@contextmanager
def working(url: str) -> Iterator[Callable[[], str]]:
    """Run the program; yields what ends it and returns what it says of all messages."""
    command = core_clients.Program(core_clients.SAME).command("Rounds", url)
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )

    assert process.stdout is not None
    assert process.stdout.readline() == "going\n"

    def end() -> str:
        said, details = process.communicate("\n", timeout=ENDING_PATIENCE_S)
        print(details[-3000:])
        return said.strip()

    try:
        yield end
    finally:
        process.kill()
        process.communicate()


WELL: Final = "sent true lost 0 doubled 0 stuck false"


def judge(said: str) -> None:
    """Hold what the program says against what must be. One that is stuck may be late: what it awaits is lost to it."""
    with never():
        assert " doubled 0 " in said
        assert " lost 0 " in said or said.endswith("stuck true")
    assert said == WELL


@pytest.mark.parametrize("window", [1_000_000, 500, -1])
def test_cut_connections(window: int, broker: ours.Entrepot) -> None:
    """Joined again within the connection's time to live, or made anew where there is no window."""
    cable = Cable(broker.port)
    luck = random.Random(window)
    with working(f"tcp://127.0.0.1:{cable.port}?{OPTIONS.format(window=window)}") as end:
        for _ in range(ROUNDS):
            time.sleep(luck.uniform(0.2, 0.9))
            cable.cut()
            time.sleep(luck.uniform(0, 0.2))
            cable.heal()
        judge(end())
    cable.close()


@pytest.mark.parametrize("window", [1_000_000, -1])
def test_killed_brokers(window: int, broker: ours.Entrepot) -> None:
    luck = random.Random(window)
    with working(f"{broker.url}?{OPTIONS.format(window=window)}") as end:
        for _ in range(ROUNDS):
            time.sleep(luck.uniform(0.4, 1.2))
            broker.kill()
            broker.start().await_ready()
        judge(end())
