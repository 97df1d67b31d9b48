"""Processes that are started, awaited, started again and ended; here each is a small program of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from entrepot.base.errors import OperatorError
from entrepot.config.processes import ProcessPlan
from entrepot.io.processes import Supervisor

SAYS = """
import json, os, sys
number, file = sys.argv[2], sys.argv[4]
where = os.path.join(os.path.dirname(file), number + ".json")
facts = {"pid": os.getpid(), "node": "n" + number, "uuid": %s}
with open(where + ".tmp", "w") as out: out.write(json.dumps(facts))
os.replace(where + ".tmp", where)
%s
"""
SERVES = "sys.stdin.read()"
OWN = "number"
PATIENCE_S = 60.0

Act = Callable[[Supervisor], Coroutine[Any, Any, None]]


def run(home: Path, program: str, act: Act, count: int = 2, leaving: tuple[int, ...] = ()) -> list[str]:
    """Start ``count`` processes that run ``program``, do ``act``, end them; return what was not in order."""
    plan = ProcessPlan(count=count, listen=(), sockets=str(home), password="x")

    async def main() -> list[str]:
        made = Supervisor([sys.executable, "-c", program], plan, home / "plan.json", leaving)
        try:
            await made.start()
            await act(made)
        finally:
            wrong = await made.stop()
            assert not any(one.pid for one in made.processes)
        return wrong

    return asyncio.run(asyncio.wait_for(main(), PATIENCE_S))


async def nothing(made: Supervisor) -> None:
    """All are ready: that is enough."""


def test_all_are_ready_and_end_with_their_input(tmp_path: Path) -> None:
    async def act(made: Supervisor) -> None:
        assert [one.facts["node"] for one in made.processes] == ["n0", "n1"]
        assert [one.facts["pid"] for one in made.processes] == [one.pid for one in made.processes]

    assert run(tmp_path, SAYS % (OWN, SERVES), act) == []


def test_one_that_dies_is_started_again(tmp_path: Path) -> None:
    async def act(made: Supervisor) -> None:
        first = made.processes[1].pid
        os.kill(first, signal.SIGKILL)
        while made.processes[1].pid in (0, first) or made.processes[1].facts["pid"] != made.processes[1].pid:
            await asyncio.sleep(0.01)
        assert [one.starts for one in made.processes] == [1, 2]

    assert run(tmp_path, SAYS % (OWN, SERVES), act) == []


def test_one_that_ends_before_it_is_ready_fails_the_start(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match=r"process [01] ended with 5 before it was ready"):
        run(tmp_path, "import sys; sys.exit(5)", nothing)


def test_two_of_one_node_fail_the_start(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="processes 0 and 1 are the same node"):
        run(tmp_path, SAYS % ("'one'", SERVES), nothing)


def test_how_one_ended_that_was_told_to_is_said(tmp_path: Path) -> None:
    assert run(tmp_path, SAYS % (OWN, f"{SERVES}\nsys.exit(int(number) * 7)"), nothing) == ["process 1 ended with 7"]


def test_one_that_leaves_is_run_until_it_has_given_all(tmp_path: Path) -> None:
    leaves = (
        f"if number == '2': sys.exit(0 if os.path.exists(file + '2') else open(file + '2', 'w').close() or 9)\n{SERVES}"
    )

    async def act(made: Supervisor) -> None:
        while made.leaving[0].code != 0:
            await asyncio.sleep(0.01)
        assert made.leaving[0].starts == 2

    assert run(tmp_path, SAYS % (OWN, leaves), act, leaving=(2,)) == []


def test_one_that_cannot_even_be_started_fails_the_start(tmp_path: Path) -> None:
    plan = ProcessPlan(count=1, listen=(), sockets=str(tmp_path), password="x")

    async def main() -> None:
        made = Supervisor([str(tmp_path / "no-such-program")], plan, tmp_path / "plan.json")
        try:
            await made.start()
        finally:
            await made.stop()

    with pytest.raises(OperatorError, match="could not be started"):
        asyncio.run(asyncio.wait_for(main(), PATIENCE_S))
