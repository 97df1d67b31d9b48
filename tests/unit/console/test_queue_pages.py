"""Pages of queues of several brokers: asked for once for all who look, merged, and within what brokers answer."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

pytest.importorskip("starlette")

import msgspec
from starlette.requests import Request

from entrepot.console import watch as watching
from entrepot.console.desk import Desk
from entrepot.console.tables import SIZE, QueueList
from entrepot.console.watch import Watch
from entrepot.core.operators.views import QueueView
from entrepot.management.view import Found
from unit.console.test_jolokia import queue


class Asked(Desk):
    """Answers a page with what was wanted, and notes it."""

    def __init__(self) -> None:
        super().__init__("tcp://a", "", "")
        self.asked: list[Any] = []
        self.under_way = 0
        self.most = 0

    async def ask(self, resource: str, operation: str, *values: object) -> Any:
        self.asked.append((operation, *values))
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0.01)
        self.under_way -= 1
        wanted = json.loads(str(values[0]))
        return {"count": 1, "rows": [queue(f"found.{wanted['skip']}", 1)]}


def quick_of(clock: list[float]) -> Any:
    async def quick(asker: object, wanted: object) -> Found:
        clock[0] += 0.05
        return Found(0, [])

    return quick


def listed(query: str) -> QueueList:
    return QueueList(
        Request({"type": "http", "path": "/queues", "query_string": query.encode(), "headers": []}), "ANYCAST"
    )


def row(name: str, messages: int) -> QueueView:
    return msgspec.convert(queue(name, messages), QueueView)


def test_a_page_is_asked_for_once_for_all_and_pages_one_after_the_other() -> None:
    async def run() -> Asked:
        desk = Asked()
        watch = Watch(desk)
        same = [watch.page({"skip": 0}) for _ in range(10)]
        others = [watch.page({"skip": number}) for number in range(1, 4)]
        found = await asyncio.gather(*same, *others)
        assert [one.rows[0].name for one in found] == ["found.0"] * 10 + ["found.1", "found.2", "found.3"]
        return desk

    desk = asyncio.run(run())
    assert len(desk.asked) == 4
    assert desk.most == 1


def test_pages_opened_at_once_wait_for_nothing_and_who_goes_on_and_on_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five pages that a loaded broker answered late had pauses so long that the last one gave up."""
    pauses: list[float] = []

    async def late(asker: object, wanted: object) -> Found:
        clock[0] += 1.0
        return Found(0, [])

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        clock[0] += seconds

    clock = [1_000.0]
    monkeypatch.setattr(watching, "page_of", late)
    monkeypatch.setattr(watching.asyncio, "sleep", pause)
    monkeypatch.setattr(watching.time, "monotonic", lambda: clock[0])
    watch = Watch(Asked())

    async def ask(numbers: range) -> None:
        for number in numbers:
            await watch._in_turn({"skip": number})

    asyncio.run(ask(range(10)))
    assert pauses == [0.0] * 10
    monkeypatch.setattr(watching, "page_of", quick_of(clock))
    asyncio.run(ask(range(200)))
    assert sum(pauses[10:]) > 15.0  # 10 s of asking, at a quarter, with 10 s of waiting for late answers forgiven


def test_pages_that_nobody_looks_at_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "WANTED_MOST", 3)
    monkeypatch.setattr(watching, "TYPING", 1.0)

    async def run() -> Watch:
        watch = Watch(Asked())
        for number in range(6):
            await watch.page({"skip": number})
        return watch

    assert len(asyncio.run(run())._wanted) <= 3


def test_what_living_pages_ask_is_asked_for_once_for_all_and_each_question_by_itself() -> None:
    async def run() -> Asked:
        desk = Asked()
        watch = Watch(desk)
        ask = watch.ask
        same = [ask("broker", "describeConnections", '{"skip": 0}') for _ in range(10)]
        await asyncio.gather(
            *same, ask("queue.a", "describeConnections", '{"skip": 0}'), ask("broker", "x", '{"skip": 1}')
        )
        return desk

    asked = asyncio.run(run()).asked
    assert sorted(asked) == [("describeConnections", '{"skip": 0}')] * 2 + [("x", '{"skip": 1}')]


def test_several_brokers_are_merged_and_one_is_taken_as_it_answers() -> None:
    several = listed("page=2")
    assert several.wanted(several=True)["most"] == 2 * SIZE
    rows = [(broker, row(f"{broker}.{number:03d}", number)) for broker in "ab" for number in range(2 * SIZE)]
    several.fill([700, 900], rows, several=True)
    assert (several.count, several.first, several.last) == (1600, SIZE + 1, 2 * SIZE)
    assert [one.messages for _, one in several.rows[:2]] == [149, 149]
    one = listed("page=2&sort=name&down=0&broker=a&show=none")
    assert one.wanted(several=False) == {
        "search": "", "show": "own", "routing": "ANYCAST", "sort": "name", "down": False, "skip": SIZE, "most": SIZE,
    }  # fmt: skip
    one.fill([150], [("a", row("q", 1))], several=False)
    assert (one.beyond, one.rows[0][1].name) == (False, "q")


def test_a_page_behind_the_last_is_the_last_and_a_far_one_is_chosen_from_all() -> None:
    beyond = listed("page=9")
    beyond.fill([150], [], several=False)
    assert (beyond.beyond, beyond.page) == (True, 2)
    assert not listed("page=5").far
    assert listed("page=6").far
    chosen = listed("q=A.1&page=7")
    chosen.choose([("a", row(f"a.{number}", number)) for number in range(12)])
    assert ([one.name for _, one in chosen.rows], chosen.count, chosen.page) == (["a.11", "a.10", "a.1"], 3, 1)
