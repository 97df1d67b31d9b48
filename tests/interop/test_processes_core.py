"""Unmodified clients of Artemis at `entrepot run --processes 2`: what they see is what one process shows them.

As `test_processes_java.py` for OpenWire. `APART` lists the features that depend on the process to which a connection
comes, each with what docs/clusters.md says of it, "What differs from one process"; all others are the same.
"""

from __future__ import annotations

import re
from typing import Final

import artemis
import core_clients
import pytest
import recorded

pytestmark = pytest.mark.skipif(bool(artemis.unavailable()), reason=f"clients of Artemis: {artemis.unavailable()}")

APART: Final[dict[str, str]] = {}

FEATURES: Final = [
    name
    for source in sorted(core_clients.SOURCES.glob("*.java"))
    for name in re.findall(r'features\.put\("(\w+)"', source.read_text())
]
SAME: Final = [name for name in FEATURES if name not in APART]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], dict[str, str]]:
    """Return what is seen at one process, and at two."""
    home = tmp_path_factory.mktemp("processes")
    program = core_clients.Program(core_clients.SAME)

    def run(name: str, *arguments: str) -> dict[str, str]:
        broker = core_clients.own(home / name)
        broker.arguments = (*broker.arguments, *arguments)
        broker.start()
        try:
            broker.await_ready()
            return recorded.parts(program.run("Features", broker.url, *SAME))
        finally:
            broker.kill()

    return run("one"), run("two", "--processes", "2")


@pytest.mark.parametrize("feature", SAME)
def test_two_processes_show_what_one_does(feature: str, seen: tuple[dict[str, str], dict[str, str]]) -> None:
    one, two = seen
    assert two.get(feature) == one[feature]


def test_the_features_that_differ_are_features() -> None:
    assert set(APART) <= set(FEATURES)
