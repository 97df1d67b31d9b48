"""Unmodified clients of Artemis: the same program against Artemis and against this broker, transcripts compared.

The programs are in `java/core/`; `core_clients.py` says with which versions and which configuration they run. Both
brokers run the same ``broker.xml``. Two versions in every run; ``make core-clients`` compares them all.
"""

from __future__ import annotations

import difflib
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

import artemis
import core_clients
import ours
import pytest

WHY_NOT: Final = artemis.unavailable()

pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=f"clients of Artemis: {WHY_NOT}")

FEATURES: Final = [
    name
    for source in sorted(core_clients.SOURCES.glob("*.java"))
    for name in re.findall(r'features\.put\("(\w+)"', source.read_text())
]


NOT_YET: Final[dict[str, str]] = {}
"""Why a feature differs still. What is mended must be taken out: the test says so."""


class Transcripts(NamedTuple):
    """What was seen with one version, by feature; ``ours`` is None while this build has no CORE."""

    artemis: dict[str, str]
    ours: dict[str, str] | None


def _seen(program: core_clients.Program, broker: artemis.Artemis | ours.Entrepot) -> dict[str, str]:
    broker.start().await_ready()
    try:
        text = program.run("Features", broker.url)
    finally:
        broker.kill()
    found = {}
    for part in text.split("## ")[1:]:
        name, _, lines = part.partition("\n")
        found[name] = lines
    return found


@pytest.fixture(scope="module", params=core_clients.chosen(), ids=lambda client: client.name)
def transcripts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Transcripts:
    """Both brokers at once: the client waits most of the time."""
    home = tmp_path_factory.mktemp("core")
    program = core_clients.Program(request.param)
    with ThreadPoolExecutor() as pool:
        theirs = pool.submit(_seen, program, core_clients.theirs(home / "artemis"))
        own = pool.submit(_seen, program, core_clients.own(home / "ours")) if core_clients.speaks_core() else None
        return Transcripts(theirs.result(), own.result() if own else None)


def test_artemis_shows_every_feature(transcripts: Transcripts) -> None:
    """The program itself is right: nothing that it does fails on the broker that it was written for."""
    ended = list(transcripts.artemis)
    assert ended.pop() == "end"
    assert {name for name in FEATURES if not name.startswith("core")} <= set(ended) <= set(FEATURES)
    assert not [name for name, lines in transcripts.artemis.items() if "THREW" in lines]


@pytest.mark.parametrize(
    "feature",
    [
        pytest.param(name, marks=[pytest.mark.xfail(reason=NOT_YET[name], strict=True)] if name in NOT_YET else [])
        for name in FEATURES
    ],
)
def test_a_client_sees_what_artemis_shows(feature: str, transcripts: Transcripts) -> None:
    if transcripts.ours is None:
        pytest.skip("this build of entrepot has no CORE server")
    if feature not in transcripts.artemis:
        pytest.skip("this version of the client has no QueueConfiguration")
    wanted, seen = transcripts.artemis[feature], transcripts.ours.get(feature, "(not reached)")
    difference = difflib.unified_diff(wanted.splitlines(), seen.splitlines(), "Artemis", "entrepot", lineterm="")
    assert wanted == seen, "\n".join(difference)
