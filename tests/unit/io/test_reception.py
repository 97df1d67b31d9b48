"""Processes that ask one another over sockets that are real: answers, ends, strangers, what is too large."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from entrepot.base.errors import Unreachable
from entrepot.core.operators.together import visit
from entrepot.core.operators.together.line import Line, Said
from entrepot.io.reception import Reception, Wire
from entrepot.io.runtime import SystemClock
from entrepot.management.processes import Running

Answer = Callable[[Said], None]


def run(
    tmp_path: Path, hear: Callable[[Said, Answer], None], act: Callable[[Line, Reception], Awaitable[None]], word: str
) -> None:
    async def visited() -> None:
        reception = Reception(str(tmp_path / "r"), "secret", hear)
        await reception.open()
        clock = SystemClock()
        line = Line(Wire(str(tmp_path / "r"), word, clock).core, Running(), clock.now)
        try:
            await act(line, reception)
        finally:
            line.core.close()
            reception.close()
            await asyncio.sleep(0.01)

    asyncio.run(visited())


def echo(said: Said, answer: Answer) -> None:
    answer({"value": said["values"]})
    answer({"value": "a second time"})


def test_questions_are_answered_each_once(tmp_path: Path) -> None:
    async def act(line: Line, reception: Reception) -> None:
        await asyncio.gather(*[line.ready() for _ in range(3)])
        told = await asyncio.gather(*[line.ask({"values": number}) for number in range(50)])
        assert [one["value"] for one in told] == list(range(50))
        assert line.core.waiting == 0

    run(tmp_path, echo, act, "secret")


def test_who_does_not_know_the_password_is_told_nothing(tmp_path: Path) -> None:
    async def act(line: Line, reception: Reception) -> None:
        with pytest.raises(Unreachable, match="it is gone"):
            await line.ready()
        with pytest.raises(Unreachable):
            await line.ask({"values": 1})

    run(tmp_path, echo, act, "guess")


def test_who_waits_is_told_when_the_process_goes_and_asks_again_when_it_is_back(tmp_path: Path) -> None:
    kept: list[Answer] = []

    async def act(line: Line, reception: Reception) -> None:
        await line.ready()
        asked = asyncio.ensure_future(line.ask({"values": 1}))
        while not kept:
            await asyncio.sleep(0.01)
        reception.close()
        with pytest.raises(Unreachable, match="it is gone"):
            await asked
        with pytest.raises(Unreachable, match="does not answer"):
            await line.ready()
        await reception.open()
        await line.ready()
        kept.pop()({"value": "of the life before"})

    run(tmp_path, lambda said, answer: kept.append(answer), act, "secret")


def test_an_answer_that_is_too_large_is_said_so_and_the_line_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def much(said: Said, answer: Answer) -> None:
        answer({"value": "x" * said["values"]})

    async def act(line: Line, reception: Reception) -> None:
        await line.ready()
        big: Any = await line.ask({"values": visit.ANSWER_OCTETS_MAX})
        assert "64 MiB" in big["message"]
        assert (await line.ask({"values": 3}))["value"] == "xxx"

    run(tmp_path, much, act, "secret")
