from pathlib import Path

import pytest

from conversation import play

FOLDER = Path(__file__).parents[3] / "conversations" / "stomp"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_the_conversation_goes_as_written(path: Path, request: pytest.FixtureRequest) -> None:
    play(path, bool(request.config.getoption("--rewrite-conversations")))


def test_there_are_conversations() -> None:
    assert len(list(FOLDER.glob("*.txt"))) >= 10
