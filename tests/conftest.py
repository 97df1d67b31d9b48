"""Refuses to test another build than the one that was asked for, and passes it on to the processes of the tests."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

import entrepot
from entrepot.base.compiled import build_name, is_compiled
from promises import PromiseBroken

# How long an example takes says how busy the machine is.
EXAMPLES = int(os.environ.get("ENTREPOT_EXAMPLES", "100"))
settings.register_profile("entrepot", deadline=None, max_examples=EXAMPLES)
# The last look before a change goes in must say the same of the same change; other runs look for new examples.
settings.register_profile("same", deadline=None, derandomize=True, max_examples=EXAMPLES)
settings.load_profile("same" if os.environ.get("ENTREPOT_SAME_EXAMPLES") else "entrepot")

IMPORTED_FROM = Path(entrepot.__file__).resolve().parent.parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-conversations", action="store_true", help="write the answers in tests/conversations anew"
    )


def pytest_configure() -> None:
    expected = os.environ.get("ENTREPOT_EXPECT_BUILD")
    if expected in {"plain", "compiled"} and is_compiled() != (expected == "compiled"):
        raise pytest.UsageError(f"the {expected} build was asked for and {IMPORTED_FROM} holds {build_name()}")
    # What a script puts into the background ignores interrupts, and what is started there would, too.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # A test that starts `python -m entrepot...` starts what is tested here.
    os.environ["PYTHONPATH"] = str(IMPORTED_FROM)


# The longest first, so that no worker waits for the other at the end; what is left out here comes last. Before all
# others what measures the memory of Spark's Python workers: a peak is for ever.
ORDER = ("spark/test_spark_memory.py", "spark/", "interop/", "shell/", "unit/test_tutorials.py", "simulation/")
TRIED_AGAIN = ("spark/", "interop/", "shell/")
MADE_ANEW = ("interop/", "shell/")  # what a file makes once; a session of Spark stays
DELAY_OF_TRIES_S = int(os.environ.get("ENTREPOT_DELAY_OF_TRIES_S", "1"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest first, and let some be tried again.

    What depends on other programs and on the clock of a busy machine is tried again before it counts as failed, and
    listed as such; what decides by itself (units, simulation) never is, nor is a loss that was found (`promises.py`).
    """
    for item in items:
        if " at 0x" in item.nodeid:
            raise pytest.UsageError(f"{item.nodeid}: its name has a place in memory; no two workers agree on it")
    items.sort(key=lambda item: next((at for at, one in enumerate(ORDER) if _within(item.nodeid, one)), len(ORDER)))
    for item in items:
        if any(_within(item.nodeid, folder) for folder in TRIED_AGAIN):
            item.add_marker(pytest.mark.flaky(reruns=2, reruns_delay=DELAY_OF_TRIES_S, rerun_except=PromiseBroken))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Make anew what was made once for the tests of a file, for one that is tried again: it may be why it failed."""
    if getattr(item, "execution_count", 1) < 2 or not any(_within(item.nodeid, folder) for folder in MADE_ANEW):
        return
    for definitions in item._fixtureinfo.name2fixturedefs.values():  # type: ignore[attr-defined]
        for definition in definitions:
            if definition.scope == "module":
                definition.finish(item._request)  # type: ignore[attr-defined]


def pytest_collection_finish() -> None:
    """Let the collector of garbage look no more at what lasts as long as the run: every test, a million objects."""
    gc.collect()
    gc.freeze()


def _within(nodeid: str, place: str) -> bool:
    return nodeid.startswith(f"tests/{place}")


@pytest.hookimpl(optionalhook=True)  # without pytest-xdist nobody asks
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the tests of a file on one worker, and all that share a Spark session: fixtures are made once.

    xdist does so itself by the mark ``xdist_group``, which it appends to the names of tests: pytest 9.2 does not take
    that, and each test goes where it likes, without a word.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "spark" if _within(nodeid, "spark/") else nodeid.partition("::")[0]

    return ByFile(config, log)
