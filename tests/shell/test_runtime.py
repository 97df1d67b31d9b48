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
    as_in_files,
    loop_factory,
    on_signals,
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


def mapping(span: str, rights: str, name: str, *, inode: int = 77, own: int = 0) -> str:
    return (
        f"{span} {rights} 00002000 08:01 {inode}{' ' * 20}{name}\nSize: 8 kB\nRss: 8 kB\n"
        f"Anonymous: {own:10} kB\nAnonHugePages: 0 kB\nVmFlags: rd ex mr\n"
    )


def test_what_is_as_in_its_file_is_what_never_was_written(tmp_path: Path) -> None:
    library = "/usr/lib/with a blank.so"
    smaps = tmp_path / "smaps"
    smaps.write_text(
        mapping("1000-3000", "r-xp", library)
        + mapping("3000-4000", "r--p", library)
        + mapping("4000-5000", "r--p", library, own=4)  # the linker wrote into it
        + mapping("5000-6000", "rw-p", library)
        + mapping("6000-7000", "r-xp", "[vdso]", inode=0)
        + mapping("7000-8000", "rwxp", "", inode=0)
        + mapping("8000-9000", "r--p", "", inode=0)
        + mapping("9000-a000", "r--s", library)
    )
    assert as_in_files(str(smaps)) == [(0x1000, 0x2000), (0x3000, 0x1000)]
    assert as_in_files(str(tmp_path / "none")) == []


def test_the_collector_is_tuned() -> None:
    before = gc.get_threshold()
    try:
        tune_collector()
        assert gc.get_threshold() == COLLECTOR_THRESHOLDS
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
