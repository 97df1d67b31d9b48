"""What a report draws attention to, and what it does not."""

from __future__ import annotations

from typing import Any

import pytest

from entrepot.pipeline.jobs import remarks
from entrepot.pipeline.jobs.pages import lines

S = 1_000_000
BASE = 1_700_000_000 * S


def made(**tables: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    names = ("rates", "depths", "latencies", "destinations", "hops", "consumers", "causes", "needless")
    return {**{name: [] for name in names}, "span": [{"step_us": S}], **tables}


def flood(sent: int, taken: int, seconds: int, *, until_empty: bool = True) -> dict[str, list[dict[str, Any]]]:
    """``sent`` a second come for ``seconds``, ``taken`` a second go."""
    rates = [{"time": BASE + at * S, "address": "orders", "broker": "A", "count": sent} for at in range(seconds)]
    depths: list[dict[str, Any]] = []
    ended: list[dict[str, Any]] = []
    waiting = at = consumed = 0
    while at < seconds or (until_empty and waiting):
        waiting += sent if at < seconds else 0
        gone = min(waiting, taken)
        waiting, consumed = waiting - gone, consumed + gone
        depths.append({"time": BASE + at * S, "address": "orders", "waiting": waiting})
        ended += [{"time": BASE + at * S, "address": "orders"}] if gone else []
        at += 1
    row = {"address": "orders", "entered": sent * seconds, "consumed": consumed, "took_p99_us": 13 * S}
    return made(rates=rates, depths=depths, latencies=ended, destinations=[row])


def test_consumers_that_are_slower_than_producers_are_told_with_figures() -> None:
    (said,) = remarks.behind(flood(5000, 3000, 10))
    assert said == (
        "consumers of orders are slower than its producers: 5,000 messages a second came, 2,941 were consumed; 20,000 "
        "waited at 22:13:29 UTC, and the slowest hundredth took 13 s from end to end; none is left"
    )
    (said,) = remarks.behind(flood(5000, 3000, 10, until_empty=False))
    assert said.endswith("; 20,000 still wait")


def test_consumers_that_keep_up_are_not() -> None:
    assert remarks.behind(flood(5000, 5000, 10)) == []
    assert remarks.behind(flood(5000, 4990, 10)) == []
    assert remarks.behind(flood(10, 1, 5)) == [], "a few messages say nothing"
    assert remarks.behind(made()) == []


def test_a_destination_without_consumers_is_told() -> None:
    tables = flood(500, 0, 10, until_empty=False)
    assert remarks.behind(tables) == ["nobody consumes orders: 5,000 messages wait"]


def test_hot_spots_and_slow_consumers() -> None:
    tables = made(
        rates=[{"address": "a", "broker": "A", "count": 90}, {"address": "b", "broker": "A", "count": 10}],
        consumers=[
            {"queue": "a", "consumer": name, "broker": "A", "kept_p50_us": kept}
            for name, kept in (("one", 1000), ("two", 1200), ("three", 9000))
        ],
    )
    assert remarks.hot_spots(tables) == ["the destination a takes 90 % of all messages"]
    (said,) = remarks.slow_consumers(tables)
    assert said == "three at A keeps a message of a for 9.0 ms, others for 1.2 ms"
    assert len(remarks.all_of(tables)) == 2


def test_dead_letters_and_detours_are_told() -> None:
    tables = made(
        causes=[
            {"queue": "orders", "broker": "A", "cause": "it is too old", "messages": 3},
            {"queue": "orders", "broker": "B", "cause": "delivered 6 times", "messages": 40},
        ],
        needless=[{"queue": "orders", "broker": "A", "messages": 7, "why": "came back"}],
    )
    assert remarks.all_of(tables) == [
        "43 of orders became dead letters, most of them because: delivered 6 times",
        "7 messages of orders at A: came back",
    ]


def test_a_plot_says_what_is_where_one_points() -> None:
    page = lines({"orders": [(BASE, 1.0), (BASE + S, 5000.0)]}, "messages a second")
    assert "<title>orders: 5,000 at 22:13:21.000 UTC</title>" in page
    assert "messages a second; times in UTC" in page


@pytest.mark.parametrize("times", [[], [BASE], [BASE, BASE + 9 * S]])
def test_a_time_is_never_nothing(times: list[int]) -> None:
    assert remarks.seconds_of(times, made()) == (10 if len(times) == 2 else 1)
