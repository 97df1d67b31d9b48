"""Unmodified clients of Artemis at `entrepot run --processes 2`: what they see is what one process shows them.

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
    "xa": "the same",
    "xaSuspended": "the same",
    "xaRecovery": "a prepared branch is known where it was prepared",
    "duplicates": "a duplicate id is known to the process that had the message",
    "acknowledge": "deliveries are counted from none where a message comes to another process",
    "windows": "what waits behind a consumer stays at its process",
    "durable": "a subscription is at each process where its subscriber came",
    "routingTypes": "which routing types an address has that a client made is known to its process",
}

SAME: Final = [name for name in FEATURES if name not in APART]


def _seen(program: core_clients.Program, home: Path, *more: str) -> dict[str, str]:
    broker = core_clients.own(home)
    broker.arguments += more
    broker.start().await_ready()
    try:
        return recorded.parts(program.run("Features", broker.url, *SAME))
    finally:
        broker.stop()


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], dict[str, str]]:
    """Return what is seen at one process, and at two, both at once: the client waits most of the time."""
    home = tmp_path_factory.mktemp("processes")
    program = core_clients.Program(core_clients.SAME)
    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(_seen, program, home / "one")
        two = pool.submit(_seen, program, home / "two", "--processes", "2")
        return one.result(), two.result()


@pytest.mark.parametrize("feature", SAME)
def test_two_processes_show_what_one_does(feature: str, seen: tuple[dict[str, str], dict[str, str]]) -> None:
    one, two = (each.get(feature, "(not reached)") for each in seen)
    if feature in TURNS:
        one, two = recorded.turned(one), recorded.turned(two)
    assert two == one


def test_the_features_that_differ_are_features() -> None:
    assert set(APART) <= set(FEATURES)
