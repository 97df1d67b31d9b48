"""A long list asked for page by page."""

from __future__ import annotations

import json
from typing import Any

from entrepot.core.operators.together.asker import listed
from entrepot.core.operators.together.whole import in_turn


class Rows:
    """Who has so many rows."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.asked: list[tuple[object, ...]] = []

    async def ask(self, resource: str, operation: str, *values: Any) -> Any:
        self.asked.append(values)
        start = (values[1] - 1) * values[2]
        return json.dumps({"data": [{"n": n} for n in range(start, min(self.count, start + values[2]))]})


def found(rows: Rows, most: int) -> Any:
    course = in_turn([listed(rows, "listQueues", "", most)])
    try:
        course.send(None)
    except StopIteration as end:
        return end.value[0]
    raise AssertionError("it waits for something")


def test_pages_are_asked_for_until_there_are_enough_or_no_more() -> None:
    assert [row["n"] for row in found(Rows(2_500), 10_000)] == list(range(2_500))
    rows = Rows(100_000)
    assert len(found(rows, 1_500)) == 1_500
    assert [values[1] for values in rows.asked] == [1, 2]
