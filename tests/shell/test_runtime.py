"""The process around a broker: loop, signals, memory settings and the log."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from entrepot.base.environment import SECOND
from entrepot.base.errors import InvalidOption
from entrepot.io.runtime import (
    COLLECTOR_THRESHOLDS,
    SystemClock,
    SystemEntropy,
    loop_factory,
    on_signals,
    program_text,
    run,
    tune_collector,
    tune_malloc,
)


async def nothing() -> str:
    return "done"


@pytest.mark.parametrize("choice", ["auto", "asyncio"])
def test_a_coroutine_runs_to_its_end(choice: str) -> None:
    assert run(nothing(), choice) == "done"


def test_a_loop_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InvalidOption, match="use one of auto, uvloop, asyncio"):
        run(nothing(), "trio")
    assert isinstance(loop_factory("asyncio")(), asyncio.SelectorEventLoop)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_asks_once_and_the_default_comes_back(number: signal.Signals) -> None:
    async def main() -> list[str]:
        asked: list[str] = []
        on_signals(asked.append)
        os.kill(os.getpid(), number)
        async with asyncio.timeout(5):
            while not asked:
                await asyncio.sleep(0)
        return asked

    before = signal.getsignal(signal.SIGTERM)
    assert run(main(), "asyncio") == [number.name]
    assert signal.getsignal(signal.SIGTERM) == before


def test_the_clocks_run_and_tokens_differ() -> None:
    clock, entropy = SystemClock(), SystemEntropy()
    first = clock.now()
    assert clock.now() >= first
    assert abs(clock.wall() - SystemClock().wall()) < 10 * SECOND
    assert entropy.token(16) != entropy.token(16)
    assert 0 <= entropy.fraction() < 1


def test_memory_is_tuned_where_there_is_a_glibc() -> None:
    code = "from entrepot.io.runtime import tune_malloc; print(tune_malloc())"
    glibc = any(part.startswith("glibc") for part in (os.confstr("CS_GNU_LIBC_VERSION") or "").split())
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert out.stdout.strip() == str(glibc)
    assert tune_malloc.__doc__


def test_what_loading_took_is_given_back() -> None:
    code = (
        "import entrepot.node, entrepot.io.runtime as runtime\n"
        "def resident(): return int(open('/proc/self/statm').read().split()[1]) * 4096\n"
        "before = resident(); runtime.give_back_memory(); print(before - resident())"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert int(out.stdout) > 3_000_000


def test_program_text_is_what_files_are_run_from(tmp_path: Path) -> None:
    maps = tmp_path / "maps"
    maps.write_text(
        "1000-3000 r-xp 00000000 08:01 77 /usr/lib/with a blank.so\n"
        "3000-4000 r--p 00002000 08:01 77 /usr/lib/with a blank.so\n"
        "4000-5000 rw-p 00003000 08:01 77 /usr/lib/with a blank.so\n"
        "6000-7000 r-xp 00000000 00:00 0 [vdso]\n"
        "7000-8000 rwxp 00000000 00:00 0\n"
        "8000-9000 r-xp 00000000 00:00 0 \n"
    )
    assert program_text(str(maps)) == [(0x1000, 0x2000)]
    assert program_text(str(tmp_path / "none")) == []


def test_the_collector_is_tuned() -> None:
    before = gc.get_threshold()
    try:
        tune_collector()
        assert gc.get_threshold() == COLLECTOR_THRESHOLDS
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
