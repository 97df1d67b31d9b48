"""Unmodified clients of Artemis: the same program against Artemis and against this broker, transcripts compared.

The programs are in `java/core/`; `core_clients.py` says with which versions and which configuration they run. Both
brokers run the same ``broker.xml``. Two versions in every run; ``make core-clients`` compares them all. What a real
Artemis shows is recorded (`recorded.py`).
"""

from __future__ import annotations

import difflib
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

import artemis
import core_clients
import ours
import pytest
import recorded

WHY_NOT: Final = artemis.unavailable()

pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=f"clients of Artemis: {WHY_NOT}")


def _features(source: Path) -> list[str]:
    return re.findall(r'features\.put\("(\w+)"', source.read_text())


FEATURES: Final = [name for source in sorted(core_clients.SOURCES.glob("*.java")) for name in _features(source)]
CORE_API: Final = _features(core_clients.SOURCES / core_clients.CORE_API)


NOT_YET: Final[dict[str, str]] = {}
"""Why a feature differs still. What is mended must be taken out: the test says so."""


STAYS: Final = {
    ("2.1", "selectors"): "it sends JMSXGroupID as it is, which no message has in a filter of Artemis; here it has",
}
"""What differs on purpose, by client and feature."""


TURNS: Final = ("shared", "sharedDurable")
"""Features in which it is chance which of several readers has the first turn; what one of them gets is not."""


BY_CHANCE: Final = {"acknowledge": ("client: left [e, d x2 again]", "client: left [d x2 again, e]")}
"""What Artemis shows now and then instead of the other: what its client gives back in two parts when it is closed."""


class Transcripts(NamedTuple):
    """What was seen with one version, by feature; ``ours`` is None while this build has no CORE."""

    client: str
    artemis: dict[str, str]
    ours: dict[str, str] | None
    recorded: dict[str, str] | None
    """What Artemis showed when it was recorded; None when that is not current."""


def _seen(program: core_clients.Program, broker: artemis.Artemis | ours.Entrepot, *features: str) -> dict[str, str]:
    broker.start().await_ready()
    try:
        return recorded.parts(program.run("Features", broker.url, *features))
    finally:
        broker.kill()


def _here(program: core_clients.Program, home: Path, features: list[str]) -> dict[str, str]:
    """Return what programs see here, some features each, all at once."""
    dealt = core_clients.spread(features)
    with ThreadPoolExecutor(len(dealt)) as pool:
        runs = [pool.submit(_seen, program, core_clients.own(home / str(at)), *some) for at, some in enumerate(dealt)]
        return {name: lines for run in runs for name, lines in run.result().items()}


@pytest.fixture(scope="module", params=core_clients.chosen(), ids=lambda client: client.name)
def transcripts(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Transcripts:
    """Both at once: the client waits most of the time."""
    home = tmp_path_factory.mktemp("core")
    program = core_clients.Program(request.param)
    recording = recorded.Recording(f"core-{request.param.name}", core_clients.MADE_OF, program.made_of)
    features = [name for name in FEATURES if not (request.param.old and name in CORE_API)]
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(recording.shown, lambda: _seen(program, core_clients.theirs(home / "artemis")))
        own = pool.submit(_here, program, home, features) if core_clients.speaks_core() else None
        theirs = {name: lines.replace(*BY_CHANCE.get(name, ("", ""))) for name, lines in asked.result().items()}
        return Transcripts(request.param.name, theirs, own.result() if own else None, recording.held())


def test_artemis_shows_every_feature(transcripts: Transcripts) -> None:
    """The program itself is right: nothing that it does fails on the broker that it was written for."""
    ended = list(transcripts.artemis)
    assert ended.pop() == "end"
    assert {name for name in FEATURES if not name.startswith("core")} <= set(ended) <= set(FEATURES)
    assert not [name for name, lines in transcripts.artemis.items() if "THREW" in lines]
    assert transcripts.recorded in (None, transcripts.artemis), "Artemis shows something else than when it was recorded"


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
    if (transcripts.client, feature) in STAYS:
        assert wanted != seen, "it is mended: take it out of STAYS"
        return
    if feature in TURNS:
        wanted, seen = recorded.turned(wanted), recorded.turned(seen)
    difference = difflib.unified_diff(wanted.splitlines(), seen.splitlines(), "Artemis", "entrepot", lineterm="")
    assert wanted == seen, "\n".join(difference)
