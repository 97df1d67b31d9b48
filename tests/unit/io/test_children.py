"""A process that reads its input ends with it; one that does not is killed."""

from __future__ import annotations

import asyncio
import sys

import pytest

from entrepot.io.children import Pauses, end

READS = "import sys; sys.stdin.read()"
DEAF = "import time; time.sleep(600)"


@pytest.mark.parametrize(("program", "within", "code"), [(READS, 60.0, 0), (DEAF, 0.1, -9)])
def test_it_ends_by_itself_or_is_killed(program: str, within: float, code: int) -> None:
    async def act() -> int | None:
        made = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL
        )
        await end(made, within)
        await end(made, within)  # it is over
        return made.returncode

    assert asyncio.run(asyncio.wait_for(act(), 60)) == code


def test_pauses_grow_and_begin_anew_with_one_that_lived() -> None:
    pauses = Pauses(1.0, 5.0, settled=60.0)
    assert [pauses.died(0.1) for _ in range(4)] == [2.0, 4.0, 5.0, 5.0]
    assert pauses.deaths == 4
    assert [pauses.died(61.0), pauses.died(0.1)] == [1.0, 2.0]
    assert pauses.deaths == 2
