"""Brokers for the interop tests, and why one is left out."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import artemis
import classic
import ours
import pytest
import wires


def why_not(kind: str) -> str:
    if kind == "classic":
        return classic.unavailable()
    if kind == "artemis":
        return artemis.unavailable()
    if importlib.util.find_spec("entrepot.protocols.openwire.server") is None:
        return "this build of entrepot has no OpenWire server"
    return ""


Broker = artemis.Artemis | classic.Classic | ours.Entrepot


def make(kind: str, home: Path, *, name: str, authenticated: bool = False) -> Broker:
    if kind == "classic":
        return classic.Classic(home, name=name, authenticated=authenticated)
    if kind == "artemis":
        return artemis.Artemis(home, name=name, authenticated=authenticated)
    if authenticated:
        return ours.configured(home, name=name, plugins=classic.AUTHENTICATION)
    return ours.Entrepot(home, name=name)


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
