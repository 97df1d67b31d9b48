"""When the producers of `entrepot perf` send, and how much each."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from entrepot import Broker
from entrepot.base.environment import SECOND
from entrepot.base.errors import TimedOut
from entrepot.cli.client_load import ClientLoad
from entrepot.cli.load import LoadPlan, Schedule, run_load


def plan(**changes: Any) -> LoadPlan:
    """Return a plan of two producers without rate, count and end, with ``changes``."""
    said: dict[str, Any] = {
        "url": "",
        "destination": "/queue/q",
        "topic": False,
        "producers": 2,
        "consumers": 1,
        "size": 10,
        "persistent": False,
        "rate": 0.0,
        "duration": 0,
        "count": 0,
        "ack": "auto",
        "window": 0,
        "patience": SECOND,
        "run": "r",
    }
    return LoadPlan(**(said | changes))


def test_the_shares_of_the_producers_are_the_count() -> None:
    shares = [Schedule(plan(producers=3, count=8), number, 0).most for number in range(3)]
    assert shares == [3, 3, 2]


def test_a_producer_whose_share_is_nothing_sends_nothing() -> None:
    schedules = [Schedule(plan(producers=3, count=1), number, 0) for number in range(3)]
    assert [schedule.is_complete() for schedule in schedules] == [False, True, True]


def test_without_a_count_nobody_is_ever_done() -> None:
    schedule = Schedule(plan(duration=SECOND), 0, 5)
    schedule.sent = 1_000_000
    assert not schedule.is_complete()
    assert schedule.end == 5 + SECOND


def test_producers_of_one_rate_take_turns() -> None:
    first, second = (Schedule(plan(rate=10.0), number, SECOND) for number in range(2))
    assert [first.due(0), second.due(0)] == [SECOND, SECOND + SECOND // 10]
    first.sent = 3
    assert first.due(0) == SECOND + 3 * SECOND // 5


def test_without_a_rate_a_message_is_due_now() -> None:
    assert Schedule(plan(), 1, 0).due(77) == 77


@pytest.mark.parametrize("scheme", ["core", "tcp"])
@pytest.mark.parametrize(("count", "window", "rate"), [(70, 0, 0.0), (70, 3, 0.0), (20, 2, 400.0)])
def test_the_client_makes_the_same_load(scheme: str, count: int, window: int, rate: float) -> None:
    async def main() -> None:
        async with Broker(listen=["auto://127.0.0.1:0"]) as broker:
            url = broker.uris[0].replace("auto", scheme)
            load = ClientLoad(
                plan(url=url, consumers=2, count=count, window=window, rate=rate, ack="client", patience=20 * SECOND)
            )
            await run_load(load, None)
            figures = load.report()
            assert (figures["sent"], figures["received"], figures["missing"]) == (count, count, 0)
            assert load.confirmation.count == (count if window else 0)
            assert load.lateness.count == (count if rate else 0)
            assert load.latency.count == count

    asyncio.run(asyncio.wait_for(main(), 60))


def test_what_is_never_confirmed_is_not_waited_for_for_ever() -> None:
    load = ClientLoad(plan(patience=SECOND // 20))

    async def main() -> None:
        await load._room({asyncio.create_task(asyncio.sleep(3600))}, 0)

    with pytest.raises(TimedOut, match=r"nothing was confirmed for 0\.05 s"):
        asyncio.run(asyncio.wait_for(main(), 10))
