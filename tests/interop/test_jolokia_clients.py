"""Jolokia's own Java client, three versions of it, asks ours and a real broker the same: what it prints is compared.

Errors are those that the client throws. What a real broker shows is recorded (`recorded.py`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("uvicorn")

import artemis
import classic
import jolokias
import maven
import recorded
from classic import NEWER
from java_clients import compiled, run

VERSIONS: Final = ("1.7.2", "2.1.2", "2.2.9")
LOGGING: Final = "commons-logging:commons-logging:1.2"  # 1.7.2 uses it and does not say so
SOURCE: Final = Path(__file__).parent / "java" / "jolokia" / "Asks.java"
DIFFERENT: Final = {
    "list an attribute": "a path of list that ends inside an attribute: there 400, here that part",
    "exec of a wrong type": "there NumberFormatException for the one, here IllegalArgumentException for all",
    "exec without its signature": "there 400 where several operations have the name, here the arguments decide",
}
"""What may differ, and how."""

pytestmark = pytest.mark.skipif(bool(classic.unavailable(NEWER)), reason=classic.unavailable(NEWER))


@pytest.fixture(scope="module")
def programs() -> dict[str, str]:
    """Version -> the class path of the program."""
    found = {}
    try:
        for version in VERSIONS:
            jars = maven.jars(f"org.jolokia:jolokia-client-java:{version}", LOGGING)
            found[version] = f"{compiled({SOURCE.name: SOURCE.read_text()}, f'{jars}/*')}:{jars}/*"
    except maven.Unavailable as why:
        pytest.skip(str(why))
    return found


def transcripts(programs: dict[str, str], place: str, family: str) -> recorded.Shown:
    return {
        version: run(["java", "-XX:TieredStopAtLevel=1", "-cp", path, "Asks", place, family, *jolokias.USER])
        for version, path in programs.items()
    }


@pytest.mark.parametrize("family", jolokias.FAMILIES)
def test_the_java_client_sees_what_a_real_broker_shows(
    family: str, programs: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask_the_real_one() -> recorded.Shown:
        made = jolokias.real(family, tmp_path / "real", monkeypatch, authenticated=True)
        with made as (place, url), jolokias.talking(url, *jolokias.USER):
            return transcripts(programs, place, family)

    broker = (artemis.VERSION, artemis.CONFIGURATION) if family == "artemis" else (NEWER, classic.CONFIGURATION)
    recording = recorded.Recording(
        f"jolokia-{family}", SOURCE.read_text(), VERSIONS, jolokias.AGENT, broker, Path(jolokias.__file__).read_text()
    )
    wanted = recording.shown(ask_the_real_one)
    with (
        jolokias.own(family, tmp_path / "ours", authenticated=True) as (place, url),
        jolokias.talking(url, *jolokias.USER),
    ):
        shown = transcripts(programs, place, family)
    for version in VERSIONS:
        pairs = list(zip(lines(wanted[version]), lines(shown[version]), strict=True))
        assert len(pairs) > 35, shown[version]
        assert [pair for pair in pairs if pair[0] != pair[1] and pair[0][0] not in DIFFERENT] == []


def lines(transcript: str) -> list[tuple[str, str]]:
    """Return each question with what was told."""
    return [(name, told) for name, _, told in (line.partition(": ") for line in transcript.splitlines())]
