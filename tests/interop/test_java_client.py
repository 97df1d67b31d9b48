"""Unmodified Java clients: the same program against ActiveMQ Classic and against this broker, transcripts compared.

The program is `java/Exercise.java`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import classic
import maven
import ours
import pytest
from java_clients import NEWER, Program, unavailable

SIX: Final = classic.VERSION.startswith("6")

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=f"Java clients: {unavailable()}")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """The client of the broker that it is compared with: another one does not know the classes of its exceptions."""
    if not SIX:
        return Program(tmp_path_factory.mktemp("classes"))
    jars = maven.jars(f"org.apache.activemq:activemq-client:{classic.VERSION}")
    return Program(tmp_path_factory.mktemp("classes"), jars)


@pytest.fixture(scope="module")
def reference(program: Program, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What ActiveMQ Classic makes of it, by feature."""
    broker = classic.Classic(tmp_path_factory.mktemp("classic"))
    broker.start().await_ready()
    try:
        return _features(program.run("Exercise", broker.url, *FEATURES))
    finally:
        broker.kill()


@pytest.fixture(scope="module")
def transcript(program: Program, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What this broker makes of it, by feature."""
    broker = ours.Entrepot(tmp_path_factory.mktemp("ours"))
    broker.start().await_ready()
    try:
        return _features(program.run("Exercise", broker.url, *FEATURES))
    finally:
        broker.kill()


def _features(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in text.split("## ")[1:]:
        name, _, lines = part.partition("\n")
        found[name] = lines
    return found


FEATURES = [
    "types",
    "compression",
    "headers",
    "properties",
    "wire",
    "acknowledge",
    "individual",
    "optimized",
    "redelivery",
    "counters",
    "poison",
    "expired",
    "pull",
    "browse",
    "temporary",
    "durable",
    "noLocal",
    "exclusive",
    "priority",
    "groups",
    "wildcards",
    "composite",
    "virtual",
    "options",
    "selectors",
    "window",
    "local",
    "xa",
    "clientId",
    "asynchronous",
    "prefetch",
    "failover",
    "advisories",
    "sources",
]
NOT_IN_NEWER: Final = ("wire",)  # the marshallers of old versions are a jar of ActiveMQ 5 alone
if SIX:
    FEATURES = [name for name in FEATURES if name not in NOT_IN_NEWER]


def test_every_feature_is_compared(reference: dict[str, str]) -> None:
    assert [*FEATURES, "end"] == list(reference)


@pytest.mark.parametrize("feature", FEATURES)
def test_a_java_client_sees_what_activemq_shows(
    feature: str, reference: dict[str, str], transcript: dict[str, str]
) -> None:
    wanted, seen = reference[feature], transcript.get(feature, "(not reached)")
    assert "THREW" not in wanted
    difference = difflib.unified_diff(wanted.splitlines(), seen.splitlines(), "ActiveMQ", "entrepot", lineterm="")
    assert wanted == seen, "\n".join(difference)


def test_a_newer_client_sees_the_same(reference: dict[str, str], tmp_path: Path) -> None:
    """The same source in the names of ``jakarta.jms``, with ``activemq-client`` 6 from a Maven repository."""
    try:
        newer = Program(tmp_path, maven.jars(f"org.apache.activemq:activemq-client:{NEWER}"))
    except maven.Unavailable as why:
        pytest.skip(str(why))
    wanted = [name for name in FEATURES if name not in NOT_IN_NEWER]
    broker = ours.Entrepot(tmp_path / "broker")
    broker.start().await_ready()
    try:
        seen = _features(newer.run("Exercise", broker.url, *wanted))
    finally:
        broker.kill()
    for feature in wanted:
        assert _unnumbered(seen[feature]) == _unnumbered(reference[feature]).replace("javax.jms", "jakarta.jms"), (
            feature
        )


def _unnumbered(text: str) -> str:
    """Return ``text`` without the numbers that keep the names of one run apart."""
    return re.sub(r"\.\d+\b", ".N", text)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ours.Entrepot]:
    made = ours.Entrepot(tmp_path / "crash")
    made.start().await_ready()
    yield made
    made.kill()


def test_what_was_promised_survives_a_crash(program: Program, broker: ours.Entrepot) -> None:
    """Prepared branches, persistent messages and durable subscriptions, over a kill -9."""
    before = program.run("Crash", broker.url, "before")
    assert "prepared 0 prepared 0 prepared 0" in before
    broker.kill()
    broker.start().await_ready()
    after = program.run("Crash", broker.url, "after")
    assert after.splitlines() == [
        "found 3",
        "waiting [kept] hidden []",
        "committed [sent in a branch]",
        "settled []",
        "rolled back [wanted back] sent []",
        "durable [missed]",
        "found 0",
    ]
