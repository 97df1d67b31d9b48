"""Refuses to test another build than the one that was asked for, and passes it on to the processes of the tests."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

import entrepot
from entrepot.base.compiled import build_name, is_compiled

# How long an example takes says how busy the machine is.
settings.register_profile("entrepot", deadline=None)
# The last look before a change goes in must say the same of the same change; other runs look for new examples.
settings.register_profile("same", deadline=None, derandomize=True)
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


@pytest.hookimpl(tryfirst=True)  # before a worker names its tests by their groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of a file on one worker: they share brokers and compiled programs.

    What depends on other programs and on the clock of a busy machine is tried again before it counts as failed, and
    listed as such; what decides by itself (units, simulation) never is.
    """
    for item in items:
        item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
        if {"shell", "interop", "spark"} & set(item.path.parts):
            item.add_marker(pytest.mark.flaky(reruns=2, reruns_delay=1))
