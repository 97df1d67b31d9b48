"""bench/openwire_load.py must refuse what is not right: the figures of the Python client rest on it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))

import openwire_load


class Text:
    def __init__(self, body: object) -> None:
        self.body = body


class Numbered:
    """A consumer that has these texts, and then nothing."""

    def __init__(self, bodies: list[object]) -> None:
        self._bodies = bodies

    async def __aiter__(self) -> AsyncIterator[Text]:
        for body in self._bodies:
            yield Text(body)
        await asyncio.sleep(3600)


def texts(*numbers: int) -> list[object]:
    return [f"{number:010d}{openwire_load.FILLER}" for number in numbers]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openwire_load, "BURST", 3)
    monkeypatch.setattr(openwire_load, "PATIENCE_S", 0.01)


def receive(bodies: list[object], first: int = 5) -> None:
    asyncio.run(openwire_load.receive(Numbered(bodies), first))  # type: ignore[arg-type]


def test_a_burst_that_is_right_is_accepted() -> None:
    receive(texts(5, 6, 7))


@pytest.mark.parametrize(
    "bodies",
    [texts(5, 7, 6), texts(5, 5, 6), texts(6, 7, 8), [*texts(5, 6), texts(7)[0][:-1]], [*texts(5, 6), b"7"]],  # type: ignore[index]
    ids=["swapped", "repeated", "first lost", "cut", "no text"],
)
def test_what_is_wrong_is_refused(bodies: list[object]) -> None:
    with pytest.raises(openwire_load.Wrong):
        receive(bodies)


def test_what_does_not_come_is_missed() -> None:
    with pytest.raises(TimeoutError):
        receive(texts(5, 6))
