from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from entrepot.io.runtime import loop_factory
from pairs import BrokerProcess, Start

LOOPS = ["asyncio"] + (["uvloop"] if importlib.util.find_spec("uvloop") else [])
Main = Callable[[], Coroutine[Any, Any, Any]]


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Callable[[Main], Any]:
    """Runs a coroutine function to its end, once on every loop that a broker may run on."""

    def runner(main: Main) -> Any:
        with asyncio.Runner(loop_factory=loop_factory(request.param)) as loop:
            return loop.run(main())

    return runner


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts brokers that share ``tmp_path/data``, or what ``data`` says; ends them all."""
    made: list[BrokerProcess] = []

    def begin(name: str, *more: str, data: Path | None = None) -> BrokerProcess:
        made.append(BrokerProcess(tmp_path / "data" if data is None else data, name, tmp_path, *more))
        return made[-1]

    yield begin
    for broker in made:
        broker.clear()
