from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from entrepot.io.runtime import loop_factory

LOOPS = ["asyncio"] + (["uvloop"] if importlib.util.find_spec("uvloop") else [])
Main = Callable[[], Coroutine[Any, Any, Any]]


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Callable[[Main], Any]:
    """Runs a coroutine function to its end, once on every loop that a broker may run on."""

    def runner(main: Main) -> Any:
        with asyncio.Runner(loop_factory=loop_factory(request.param)) as loop:
            return loop.run(main())

    return runner
