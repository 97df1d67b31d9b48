"""Pages of what waits in a queue of several processes: the part of one process behind that of the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from entrepot.core.operators.control import LISTED_MOST, PAGE
from entrepot.core.operators.listing import Arguments
from entrepot.core.operators.together import joining
from entrepot.core.operators.together.asker import Asker

COUNTED: Final = "messageCount,deliveringCount,scheduledCount,leasedCount,nonDestructive"


class Pages:
    """Page ``page``, from 1, of ``size`` rows, of messages that ``selector`` wants. Raises Refused."""

    def __init__(self, values: tuple[object, ...]) -> None:
        """``values``: of `browse`, as each process takes them: (), (filter), (page, size) or (page, size, filter)."""
        given = Arguments("browse", list(values))
        page, size, self.selector = 1, PAGE, ""
        if given.is_number(0):
            page, size, self.selector = given.number(0, 1), given.number(1, PAGE), given.text(2, "")
        else:
            self.selector = given.text(0, "")
        self.size: Final = min(max(1, size), LISTED_MOST)
        self.begin: Final = (max(1, page) - 1) * self.size

    def question(self) -> tuple[str, tuple[object, ...]]:
        """Return what to ask each process, to know how many rows it has."""
        return ("countMessages", (self.selector,)) if self.selector else ("describeAttributes", (COUNTED,))

    async def rows(self, parts: Mapping[int, Asker], resource: str, told: Mapping[int, Any]) -> list[Any]:
        """Return them. ``told``: what the processes answered to `question`. Raises what a process refuses."""
        found: list[Any] = []
        end, offset = self.begin + self.size, 0
        for number, answer in told.items():
            count = _waiting(answer)
            low, high = max(0, self.begin - offset), min(count, end - offset)
            offset += count
            if low < high:
                some = await self._between(parts[number], resource, low, high)
                found += [joining.of_process(number, row) for row in some]
        return found

    async def _between(self, part: Asker, resource: str, low: int, high: int) -> list[Any]:
        """Return the rows of one process from ``low`` to below ``high``: they are in two of its pages at the most."""
        rows: list[Any] = []
        first = low // self.size
        for page in range(first, (high - 1) // self.size + 1):
            rows += await part.ask(resource, "browse", page + 1, self.size, self.selector)
        return rows[low - first * self.size : high - first * self.size]


def _waiting(answer: Any) -> int:
    """Return how many of its messages nobody has and no delay keeps: those are listed."""
    if not isinstance(answer, dict):
        return int(answer)
    had = ("scheduledCount",) if answer["nonDestructive"] else ("deliveringCount", "scheduledCount", "leasedCount")
    return int(answer["messageCount"]) - sum(int(answer[name]) for name in had)
