"""What a report draws attention to, in sentences. Pure: it reads the tables that `report` made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from entrepot.pipeline.jobs import pages

HOT_SHARE: Final = 0.5  # of all messages through one queue or broker
SLOW_TIMES: Final = 4.0  # a consumer is slow whose median is so many times that of its queue
SLOW_LEAST_US: Final = 1000
BEHIND_LEAST: Final = 100  # messages: fewer that wait say nothing
BEHIND_S: Final = 1.0  # what producers send in so long may wait before consumers are called slow

Tables = Mapping[str, list[dict[str, Any]]]


def all_of(tables: Tables) -> list[str]:
    """Return everything that stands out, the gravest first."""
    return [*behind(tables), *dead_letters(tables), *hot_spots(tables), *slow_consumers(tables), *detours(tables)]


def behind(tables: Tables) -> list[str]:
    """Return a sentence for each destination whose consumers do not keep up with its producers."""
    said = []
    for row in tables["destinations"]:
        name = row["address"]
        depths = [(one["time"], one["waiting"]) for one in tables["depths"] if one["address"] == name]
        rates = [(one["time"], one["count"]) for one in tables["rates"] if one["address"] == name]
        if not name or not depths or not rates:
            continue
        seconds = seconds_of([time for time, _ in rates], tables)
        rate = sum(count for _, count in rates) / seconds
        at, peak = max(depths, key=lambda one: one[1])
        if peak < max(BEHIND_LEAST, BEHIND_S * rate):
            continue
        left = depths[-1][1]
        if not row["consumed"]:
            said.append(f"nobody consumes {name}: {left:,} messages wait")
            continue
        ends = [one["time"] for one in tables["latencies"] if one["address"] == name]
        out = row["consumed"] / seconds_of(ends, tables)
        sentence = (
            f"consumers of {name} are slower than its producers: {rate:,.0f} messages a second came, {out:,.0f} were "
            f"consumed; {peak:,} waited at {pages.moment(at)[11:19]} UTC"
        )
        if row["took_p99_us"] is not None:
            sentence += f", and the slowest hundredth took {row['took_p99_us'] / 1e6:,.3g} s from end to end"
        said.append(sentence + (f"; {left:,} still wait" if left else "; none is left"))
    return said


def seconds_of(times: Sequence[int], tables: Tables) -> float:
    """Return how long it is from the first slice to the end of the last."""
    step = int(tables["span"][0]["step_us"])
    return (max(times) - min(times) + step) / 1e6 if times else step / 1e6


def dead_letters(tables: Tables) -> list[str]:
    """Return a sentence for each queue of which messages died, with the commonest cause."""
    queues: dict[str, list[dict[str, Any]]] = {}
    for row in tables["causes"]:
        queues.setdefault(row["queue"] or "?", []).append(row)
    said = []
    for queue, rows in queues.items():
        worst = max(rows, key=lambda row: int(row["messages"]))
        total = sum(row["messages"] for row in rows)
        said.append(f"{total:,} of {queue} became dead letters, most of them because: {worst['cause']}")
    return said


def hot_spots(tables: Tables) -> list[str]:
    """Return sentences about destinations and brokers that take more than their share of what enters the network."""
    said = []
    for field, what in (("address", "the destination"), ("broker", "the broker")):
        totals: dict[str, int] = {}
        for row in tables["rates"]:
            name = row[field] or "?"
            totals[name] = totals.get(name, 0) + row["count"]
        everything = sum(totals.values())
        for name, count in totals.items():
            if len(totals) > 1 and count > HOT_SHARE * everything:
                said.append(f"{what} {name} takes {100 * count / everything:.0f} % of all messages")
    return said


def slow_consumers(tables: Tables) -> list[str]:
    """Return sentences about consumers that keep messages much longer than others of their queue."""
    queues: dict[str, list[int]] = {}
    for row in tables["consumers"]:
        if row["kept_p50_us"] is not None:
            queues.setdefault(row["queue"], []).append(row["kept_p50_us"])
    said = []
    for row in tables["consumers"]:
        times = sorted(queues.get(row["queue"], ()))
        if len(times) < 2 or row["kept_p50_us"] is None:
            continue
        usual = times[(len(times) - 1) // 2]
        if row["kept_p50_us"] > max(SLOW_TIMES * usual, SLOW_LEAST_US):
            said.append(
                f"{row['consumer']} at {row['broker']} keeps a message of {row['queue']} for "
                f"{row['kept_p50_us'] / 1000:.1f} ms, others for {usual / 1000:.1f} ms"
            )
    return said


def detours(tables: Tables) -> list[str]:
    """Return sentences about messages that crossed brokers for nothing."""
    return [
        f"{row['messages']:,} messages of {row['queue']} at {row['broker']}: {row['why']}"
        for row in tables["needless"]
    ]  # fmt: skip
