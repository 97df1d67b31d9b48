"""The conversations under tests/conversations/openwire: see `spoken.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from .spoken import play

FOLDER = Path(__file__).parents[3] / "conversations" / "openwire"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_a_conversation_goes_as_it_is_written(path: Path, request: pytest.FixtureRequest) -> None:
    play(path, bool(request.config.getoption("--rewrite-conversations")))


def test_there_are_conversations() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} >= {"connect", "send", "consume", "transact", "failover"}
