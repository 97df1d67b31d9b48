"""Which part of a page each process has."""

from __future__ import annotations

import asyncio
from typing import Any

from entrepot.core.operators.control import PAGE
from entrepot.core.operators.together.paging import Pages


class Part:
    """A process with rows."""

    def __init__(self, *rows: str) -> None:
        self.rows = rows
        self.asked: list[tuple[object, ...]] = []

    async def ask(self, resource: str, operation: str, *values: object) -> Any:
        self.asked.append(values)
        page, size, _ = values
        begin = (int(str(page)) - 1) * int(str(size))
        return [{"row": row} for row in self.rows[begin : begin + int(str(size))]]


def test_only_who_has_a_part_of_it_is_asked() -> None:
    parts = {0: Part(*"abc"), 2: Part(), 3: Part(*"defgh")}
    pages = Pages((2, 4, "n = 1"))
    assert pages.question() == ("countMessages", ("n = 1",))
    found = asyncio.run(pages.rows(parts, "queue.q", {number: len(part.rows) for number, part in parts.items()}))
    assert found == [{"row": row, "process": 3} for row in "efgh"]
    assert (parts[0].asked, parts[2].asked, parts[3].asked) == ([], [], [(1, 4, "n = 1"), (2, 4, "n = 1")])


def test_what_somebody_has_is_not_listed() -> None:
    pages = Pages(())
    operation, (names,) = pages.question()
    assert (operation, pages.size) == ("describeAttributes", PAGE)
    told = dict.fromkeys(str(names).split(","), 1) | {"messageCount": 5, "nonDestructive": False}
    part = Part(*"ab")
    assert len(asyncio.run(pages.rows({1: part}, "queue.q", {1: told}))) == 2
    assert len(asyncio.run(Pages((1, 4)).rows({1: Part(*"abcdef")}, "q", {1: told | {"nonDestructive": True}}))) == 4
