"""Works of operators done step by step, and how long a step takes: everybody waits for the end of one."""

from __future__ import annotations

from time import thread_time
from typing import Any


def stepped(work: Any) -> tuple[Any, list[float]]:
    """Return the result of ``work``, and the ms of processor time of each step."""
    times: list[float] = []
    done = False
    while not done:
        began = thread_time()
        done = work.step()
        times.append((thread_time() - began) * 1_000)
    return work.result(), times


def usual(times: list[float]) -> float:
    """Return what 99 of 100 steps stay below, in ms: a collection of cycles may fall into one."""
    return sorted(times)[len(times) * 99 // 100 - (len(times) == 1)]
