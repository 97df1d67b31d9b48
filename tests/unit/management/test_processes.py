"""Courses that ask processes, run by the loop of asyncio, and what becomes of a question to all."""

from __future__ import annotations

import asyncio

import pytest

from entrepot.base.errors import EntrepotError, Fault, Refused, Unreachable
from entrepot.core.operators.together.everyone import Joint
from entrepot.core.operators.together.loop import every
from entrepot.management.processes import Running


@pytest.mark.parametrize(
    ("raised", "kind"), [(Refused("no"), Refused), (KeyError("a bug of ours"), Fault), (None, Unreachable)]
)
def test_what_went_wrong_is_an_error_that_can_be_told(raised: Exception | None, kind: type[EntrepotError]) -> None:
    async def fail() -> None:
        if raised is None:
            await asyncio.sleep(60)
        else:
            raise raised

    async def run() -> None:
        joint = Joint()
        assert not joint.step()
        joint.task = task = Running().start(fail())
        await asyncio.sleep(0)
        if raised is None:
            task.cancel()  # as the broker does that stops
        await asyncio.wait([task])
        assert joint.step()
        with pytest.raises(kind):
            joint.result()

    asyncio.run(run())


def test_courses_run_side_by_side_and_end_with_who_wanted_them() -> None:
    ended: list[str] = []

    async def one(name: str, wait: asyncio.Event | None) -> str:
        try:
            if wait is not None:
                await wait.wait()
            if name == "bad":
                raise Refused("no")
            return name
        finally:
            ended.append(name)

    async def run() -> None:
        loop, gate = Running(), asyncio.Event()
        work = loop.start(every(loop, [one("slow", gate), one("quick", None), one("bad", None)]))
        await asyncio.sleep(0.01)
        assert ended == ["quick", "bad"]
        gate.set()
        slow, quick, bad = await work
        assert (slow, quick, type(bad)) == ("slow", "quick", Refused)
        work = loop.start(every(loop, [one("given up", asyncio.Event())]))
        await asyncio.sleep(0.01)
        work.cancel()
        await asyncio.wait([work])
        await asyncio.sleep(0.01)
        assert ended[-1] == "given up"

    asyncio.run(run())
