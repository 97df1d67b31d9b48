"""What a report says beside an earlier one."""

from __future__ import annotations

from typing import Any

from entrepot.pipeline.jobs.earlier import HEADING, compared

SECOND = 1_000_000


def tables(
    seconds: int, *destinations: dict[str, Any], causes: tuple[str, ...] = ()
) -> dict[str, list[dict[str, Any]]]:
    """Return what a report of so many seconds holds; of each destination what is otherwise than usual."""
    rows, rates, depths = [], [], []
    for each in destinations:
        name = each["address"]
        rows.append(
            {
                "entered": 100 * seconds,
                "consumed": 100 * seconds,
                "dead": 0,
                "expired": 0,
                "took_p50_us": 2_000,
                "took_p99_us": 20_000,
                **{key: value for key, value in each.items() if key != "waiting"},
            }
        )
        rates += [{"address": name, "time": at * SECOND, "count": 100} for at in range(seconds)]
        depths.append({"address": name, "time": 0, "waiting": each.get("waiting", 3)})
    return {
        "span": [{"first_us": 0, "last_us": seconds * SECOND, "step_us": SECOND}],
        "rates": rates,
        "depths": depths,
        "destinations": rows,
        "causes": [{"cause": cause, "queue": "q", "messages": 1} for cause in causes],
    }


def test_reports_of_unlike_length_are_compared_by_the_second() -> None:
    found = compared(tables(10, {"address": "orders"}), tables(60, {"address": "orders"}))
    assert (found.worse, found.better) == ([], [])
    (row,) = found.rows
    assert len(row) == len(HEADING)
    assert row[:3] == ["orders", 100.0, 100.0]
    assert dict(zip(HEADING, row, strict=True))["took p99 ms now"] == 20.0


def test_what_is_later_waits_longer_or_is_lost_is_said_and_what_mended_too() -> None:
    good = {"address": "orders"}
    bad = {"address": "orders", "took_p99_us": 900_000, "waiting": 5_000, "dead": 20, "expired": 10}
    worse = compared(tables(10, good), tables(10, bad, causes=("tried 6 times",)))
    assert worse.worse == [
        "the slowest hundredth of orders took 900 ms from end to end, 20 ms before",
        "as many as 5,000 messages waited in orders, 3 before",
        "3 % of orders died or expired, 0 % before",
        "a cause of dead letters that was not there before: tried 6 times",
    ]
    assert worse.better == []
    better = compared(tables(10, bad, causes=("tried 6 times",)), tables(10, good))
    assert better.worse == []
    assert len(better.better) == 3


def test_small_figures_say_nothing() -> None:
    quick = {"address": "orders", "took_p99_us": 500}
    slower = {"address": "orders", "took_p99_us": 4_000, "waiting": 90}
    found = compared(tables(10, quick), tables(10, slower))
    assert (found.worse, found.better) == ([], [])


def test_destinations_that_came_or_went() -> None:
    found = compared(
        tables(10, {"address": "orders"}, {"address": "old"}),
        tables(10, {"address": "orders", "entered": 3000}, {"address": "fresh"}),
    )
    assert found.worse == ["nothing enters old any more; it was 100 a second"]
    assert found.better == ["300 messages a second entered orders, 100 before"]
    assert [row[0] for row in found.rows] == ["orders", "fresh", "old"]
    assert found.rows[1][1] is None
    assert found.rows[2][2] is None


def test_rates_of_a_destination_that_is_hardly_used_say_nothing() -> None:
    many = {"address": "orders", "entered": 100_000}
    found = compared(
        tables(10, many, {"address": "few", "entered": 10}), tables(10, many, {"address": "few", "entered": 30})
    )
    assert (found.worse, found.better) == ([], [])


def test_a_report_of_nothing_can_be_compared() -> None:
    empty = tables(1)
    assert compared(empty, empty).rows == []
    assert compared({"span": empty["span"]}, tables(1, {"address": "orders"})).worse == []
