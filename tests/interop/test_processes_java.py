"""Unmodified Java clients at `entrepot run --processes 2`: what they see is what one process shows them.

Connections come to the two processes in turn (`dealing.py`). `APART` lists the features that depend on that, each with
what docs/clusters.md says of it, "What differs from one process"; all others are the same wherever connections come.
"""

from __future__ import annotations

from typing import Final

import ours
import pytest
from dealing import dealt
from java_clients import Program, unavailable
from test_java_client import FEATURES, _features

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=f"Java clients: {unavailable()}")

APART: Final = {
    "acknowledge": "a browser of another connection looks at the part of its own process",
    "individual": "the same",
    "pull": "the same",
    "browse": "the same",
    "local": "the same",
    "xa": "the same, and a prepared branch is known where it was prepared",
    "redelivery": "a dead letter that moves to its reader loses its original destination and its cause",
    "poison": "the same",
    "counters": "deliveries are counted from none where a message comes to another process",
    "prefetch": "what waits behind a consumer stays at its process",
    "exclusive": "each process has its own exclusive consumer",
    "priority": "consumers have priority among those of their process",
    "groups": "each process has its own groups",
    "temporary": "a message that comes to another process has another JMSMessageID there",
    "durable": "a subscription is at each process where its subscriber came",
    "clientId": "an id is unique in each process",
    "advisories": "clients of other processes are not told of as what they are",
    "sources": "the same",
}


SAME: Final = [name for name in FEATURES if name not in APART]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], dict[str, str]]:
    """Return what is seen at one process, and at two."""
    home = tmp_path_factory.mktemp("processes")
    program = Program()

    def features(url: str) -> dict[str, str]:
        return _features(program.run("Exercise", url, *SAME))

    broker = ours.Entrepot(home / "one")
    broker.start().await_ready()
    try:
        one = features(broker.url)
    finally:
        broker.stop()
    with dealt(ours.Entrepot(home / "two")) as url:
        return one, features(url)


@pytest.mark.parametrize("feature", SAME)
def test_two_processes_show_what_one_does(feature: str, seen: tuple[dict[str, str], dict[str, str]]) -> None:
    one, two = seen
    assert two.get(feature) == one[feature]


def test_the_features_that_differ_are_features() -> None:
    assert set(APART) <= set(FEATURES)
