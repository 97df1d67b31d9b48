"""An unmodified client of Artemis at `entrepot run --processes 2`: what it sees is what one broker shows it.

Connections come to the two processes in turn (`dealing.py`). `APART` lists the features that depend on that, each with
what docs/clusters.md says of it, "What differs from one process"; all others are the same wherever connections come.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Final

import artemis
import core_clients
import pytest
import recorded
from dealing import dealt
from test_core_client import FEATURES, TURNS

pytestmark = pytest.mark.skipif(bool(artemis.unavailable()), reason=f"clients of Artemis: {artemis.unavailable()}")

APART: Final = {
    "lastValue": "a consumer or browser of another connection is refused where its process has no such queue",
    "nonDestructive": "the same",
    "transactions": "the same",
    "largeHandling": "the same",
    "anonymous": "the same",
    "ring": "the same",
    "temporary": "the same: the temporary queue of another connection",
    "xa": "the same",
    "xaSuspended": "the same",
    "xaRecovery": "a prepared branch is known where it was prepared",
    "duplicates": "a duplicate id is known to the process that had the message",
    "acknowledge": "deliveries are counted from none where a message comes to another process",
    "windows": "what waits behind a consumer stays at its process",
    "durable": "a subscription is at each process where its subscriber came",
    "shared": "each process has its own shared subscription that is not durable",
    "clientIds": "a client id is unique in each process",
    "expiry": "what expires on its way does not say which queue it was in",
    "routingTypes": "which routing types an address has that a client made is known to its process",
}
SAME: Final = [name for name in FEATURES if name not in APART]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], dict[str, str]]:
    """Return what is wanted, and what is seen at two processes, both at once: the client waits most of the time."""
    home = tmp_path_factory.mktemp("processes")
    program = core_clients.Program(core_clients.SAME)

    def one() -> dict[str, str]:
        held = recorded.Recording(f"core-{core_clients.SAME.name}", core_clients.MADE_OF, program.made_of).held()
        if held is not None:
            return held
        broker = core_clients.own(home / "one")
        broker.start().await_ready()
        try:
            return recorded.parts(program.run("Features", broker.url, *SAME))
        finally:
            broker.stop()

    def two(number: int, features: list[str]) -> dict[str, str]:
        with dealt(core_clients.own(home / f"two-{number}")) as url:
            return recorded.parts(program.run("Features", url, *features))

    shares = core_clients.spread(SAME, 2)
    with ThreadPoolExecutor(len(shares) + 1) as pool:
        wanted = pool.submit(one)
        runs = [pool.submit(two, number, features) for number, features in enumerate(shares)]
        return wanted.result(), {name: lines for run in runs for name, lines in run.result().items()}


@pytest.mark.parametrize("feature", SAME)
def test_two_processes_show_what_one_broker_does(feature: str, seen: tuple[dict[str, str], dict[str, str]]) -> None:
    wanted, two = (each.get(feature, "(not reached)") for each in seen)
    if feature in TURNS:
        wanted, two = recorded.turned(wanted), recorded.turned(two)
    assert two == wanted


def test_the_features_that_differ_are_features() -> None:
    assert set(APART) <= set(FEATURES)
