"""Brokers for the interop tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import wires
from kinds import Broker, make, why_not


@pytest.fixture(scope="session", params=["classic", "artemis", "entrepot"])
def kind(request: pytest.FixtureRequest) -> str:
    reason = why_not(request.param)
    if reason:
        pytest.skip(f"{request.param}: {reason}")
    return str(request.param)


@pytest.fixture(scope="session")
def broker(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker for all tests that leave it alive."""
    made = make(kind, tmp_path_factory.mktemp(kind), name=f"{kind}-shared")
    made.start().await_ready()
    yield made
    made.kill()


@pytest.fixture
def pair(kind: str, tmp_path: Path) -> Iterator[list[Broker]]:
    """Two brokers that do not know one another, to be killed."""
    made = [make(kind, tmp_path / name, name=name) for name in ("one", "two")]
    for each in made:
        each.start()
    for each in made:
        each.await_ready()
    yield made
    for each in made:
        each.kill()


@pytest.fixture
def wire() -> Iterator[wires.Wire]:
    """Another host, at the end of a wire."""
    try:
        made = wires.laid()
    except wires.Unavailable as error:
        pytest.skip(str(error))
    yield made
    made.remove()
