"""Unmodified Java clients: the same program against ActiveMQ Classic and against this broker, transcripts compared.

The program is `java/Exercise.java`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

import classic
import maven
import ours
import pytest
from java_clients import NEWER, Program, unavailable

SIX: Final = classic.VERSION.startswith("6")

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=f"Java clients: {unavailable()}")


@pytest.fixture(scope="module")
def program() -> Program:
    """The client of the broker that it is compared with: another one does not know the classes of its exceptions."""
    return Program(maven.jars(f"org.apache.activemq:activemq-client:{classic.VERSION}") if SIX else None)


class Transcripts(NamedTuple):
    """What was seen, by feature; ``newer`` is why there is none where there is none."""

    activemq: dict[str, str]
    ours: dict[str, str]
    newer: dict[str, str] | str


@pytest.fixture(scope="module")
def transcripts(program: Program, tmp_path_factory: pytest.TempPathFactory) -> Transcripts:
    """Each client at a broker of its own, all at once: they wait most of the time."""
    home = tmp_path_factory.mktemp("brokers")
    with ThreadPoolExecutor() as pool:
        theirs = pool.submit(_seen, program, classic.Classic(home / "classic"), FEATURES)
        own = pool.submit(_seen, program, ours.Entrepot(home / "ours"), FEATURES)
        newer: dict[str, str] | str
        try:
            six = Program(maven.jars(f"org.apache.activemq:activemq-client:{NEWER}"))
            newer = _seen(six, ours.Entrepot(home / "newer"), [name for name in FEATURES if name not in NOT_IN_NEWER])
        except maven.Unavailable as why:
            newer = str(why)
        return Transcripts(theirs.result(), own.result(), newer)


def _seen(program: Program, broker: classic.Classic | ours.Entrepot, features: list[str]) -> dict[str, str]:
    broker.start().await_ready()
    try:
        return _features(program.run("Exercise", broker.url, *features))
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


def test_every_feature_is_compared(transcripts: Transcripts) -> None:
    assert [*FEATURES, "end"] == list(transcripts.activemq)


@pytest.mark.parametrize("feature", FEATURES)
def test_a_java_client_sees_what_activemq_shows(feature: str, transcripts: Transcripts) -> None:
    wanted, seen = transcripts.activemq[feature], transcripts.ours.get(feature, "(not reached)")
    assert "THREW" not in wanted
    difference = difflib.unified_diff(wanted.splitlines(), seen.splitlines(), "ActiveMQ", "entrepot", lineterm="")
    assert wanted == seen, "\n".join(difference)


def test_a_newer_client_sees_the_same(transcripts: Transcripts) -> None:
    """The same source in the names of ``jakarta.jms``, with ``activemq-client`` 6 from a Maven repository."""
    if isinstance(transcripts.newer, str):
        pytest.skip(transcripts.newer)
    assert [name for name in FEATURES if name not in NOT_IN_NEWER] == list(transcripts.newer)[:-1]
    for feature, seen in transcripts.newer.items():
        wanted = _unnumbered(transcripts.activemq[feature]).replace("javax.jms", "jakarta.jms")
        assert _unnumbered(seen) == wanted, feature


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
