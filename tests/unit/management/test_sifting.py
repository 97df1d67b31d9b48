"""A long list is asked for page by page, and ends where the broker has no more."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from entrepot.management.sifting import PAGE, sifted


class Broker:
    """It has ``rows``, and loses all but the first ``left`` of them after the first question."""

    def __init__(self, rows: int, left: int | None = None) -> None:
        self.rows = list(range(rows))
        self.left = left
        self.asked: list[dict[str, Any]] = []

    async def ask(self, resource: str, operation: str, *values: object) -> Any:
        assert (resource, operation) == ("broker", "describeAll")
        wanted = json.loads(str(values[0]))
        self.asked.append(wanted)
        told = {"count": len(self.rows), "rows": self.rows[wanted["skip"] :][: wanted["most"]], "source": "x"}
        if self.left is not None:
            del self.rows[self.left :]
        return told


@pytest.mark.parametrize(
    ("rows", "most", "pages"),
    [(0, 10, 1), (PAGE, 10 * PAGE, 1), (PAGE + 1, 10 * PAGE, 2), (3 * PAGE, PAGE + 7, 2), (20, 7, 1)],
)
def test_all_rows_come_in_their_order_and_no_more_than_asked_for(rows: int, most: int, pages: int) -> None:
    broker = Broker(rows)
    told = asyncio.run(sifted(broker, "describeAll", most, search=["a"]))
    assert told == {"count": rows, "rows": broker.rows[:most], "source": "x"}
    assert len(broker.asked) == pages
    assert all(one["most"] <= PAGE and one["search"] == ["a"] for one in broker.asked)


def test_a_list_that_gets_shorter_meanwhile_ends() -> None:
    broker = Broker(4 * PAGE, left=PAGE)
    told = asyncio.run(sifted(broker, "describeAll", 10 * PAGE))
    assert (told["count"], len(told["rows"]), len(broker.asked)) == (4 * PAGE, PAGE, 2)
