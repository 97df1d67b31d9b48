"""An unmodified client of Artemis at `entrepot run --processes 2`: what it sees is what a real Artemis shows it.

To which process a connection comes is chance. `APART` lists the features that depend on it, each with what
docs/clusters.md says of it, "What differs from one process"; all others are the same wherever connections come.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import artemis
import core_clients
import pytest
import recorded
from test_core_client import FEATURES, TURNS

pytestmark = pytest.mark.skipif(bool(artemis.unavailable()), reason=f"clients of Artemis: {artemis.unavailable()}")

APART: Final = {
    "lastValue": "a consumer or browser of another connection is refused where its process has no such queue",
    "nonDestructive": "the same",
    "transactions": "the same",
    "largeHandling": "the same",
    "anonymous": "the same",
    "xa": "the same",
    "xaSuspended": "the same",
    "xaRecovery": "a prepared branch is known where it was prepared",
    "duplicates": "a duplicate id is known to the process that had the message",
    "acknowledge": "deliveries are counted from none where a message comes to another process",
    "windows": "what waits behind a consumer stays at its process",
    "durable": "a subscription is at each process where its subscriber came",
    "expiry": "what expires on its way does not say which queue it was in",
    "routingTypes": "which routing types an address has that a client made is known to its process",
}
SAME: Final = [name for name in FEATURES if name not in APART]


def _seen(program: core_clients.Program, home: Path, features: list[str], *more: str) -> dict[str, str]:
    broker = core_clients.own(home)
    broker.arguments += more
    broker.start().await_ready()
    try:
        return recorded.parts(program.run("Features", broker.url, *features))
    finally:
        broker.stop()


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], dict[str, str]]:
    """Return what is wanted, and what is seen at two processes: some features each, the client waits most of the time."""
    home = tmp_path_factory.mktemp("processes")
    program = core_clients.Program(core_clients.SAME)
    recording = recorded.Recording(f"core-{core_clients.SAME.name}", core_clients.MADE_OF, program.made_of)
    dealt = core_clients.spread(SAME, 2)
    with ThreadPoolExecutor(len(dealt) + 1) as pool:
        runs = [
            pool.submit(_seen, program, home / f"two-{at}", some, "--processes", "2") for at, some in enumerate(dealt)
        ]
        wanted = recording.held() or pool.submit(_seen, program, home / "one", SAME).result()
        return wanted, {name: lines for run in runs for name, lines in run.result().items()}


@pytest.mark.parametrize("feature", SAME)
def test_two_processes_show_what_one_broker_does(feature: str, seen: tuple[dict[str, str], dict[str, str]]) -> None:
    wanted, two = (each.get(feature, "(not reached)") for each in seen)
    if feature in TURNS:
        wanted, two = recorded.turned(wanted), recorded.turned(two)
    assert two == wanted


def test_the_features_that_differ_are_features() -> None:
    assert set(APART) <= set(FEATURES)
