"""jolokia.js and its simple form, in node, ask ours and a real Artemis the same."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Final

import pytest

pytest.importorskip("uvicorn")

import artemis
import classic
import jolokias
import npm
from classic import NEWER
from java_clients import run

LIBRARIES: Final = ("jolokia.js@2.6.0", "@jolokia.js/simple@2.6.0")
SOURCE: Final = Path(__file__).parent / "js" / "asks.mjs"

pytestmark = pytest.mark.skipif(
    bool(artemis.unavailable() or classic.unavailable(NEWER)), reason="no Artemis, or no Maven repository that has one"
)


def told(place: str, program: Path) -> dict[str, Any]:
    shown: dict[str, Any] = json.loads(run(["node", str(program), place.rstrip("/"), *jolokias.USER]))
    return shown


def test_jolokia_js_sees_what_a_real_artemis_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        npm.link(tmp_path, *LIBRARIES)
    except npm.Unavailable as why:
        pytest.skip(str(why))
    program = tmp_path / SOURCE.name
    shutil.copy(SOURCE, program)
    with (
        jolokias.own("artemis", tmp_path / "ours", authenticated=True) as (place, url),
        jolokias.talking(url, *jolokias.USER),
    ):
        ours = told(place, program)
    with (
        jolokias.real("artemis", tmp_path / "real", monkeypatch, authenticated=True) as (place, url),
        jolokias.talking(url, *jolokias.USER),
    ):
        real = told(place, program)
    assert len(real) == 18
    assert real["polled twice"] == [3, 3]
    assert ours == real
