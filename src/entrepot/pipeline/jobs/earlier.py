"""What is otherwise than in an earlier report: a row for each destination, and sentences for what stands out. Pure.

Two reports are seldom of spans of one length, so what is counted is compared by the second, and losses by their share
of what entered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from entrepot.pipeline.jobs.remarks import seconds_of

TIMES: Final = 2.0  # what grew, or shrank, by so much stands out
LATE_LEAST_US: Final = 10_000  # below, a time says nothing
WAITING_LEAST: Final = 100  # messages
SHARE_LEAST: Final = 0.01  # of all that entered: of a smaller destination rates say nothing
LOST_LEAST: Final = 0.001  # of what entered a destination

Tables = Mapping[str, list[dict[str, Any]]]
Figures = dict[str, float]

NAMES: Final = ("entered", "consumed", "took_p50", "took_p99", "waiting", "lost")
HEADING: Final = ("destination", *(f"{name} {when}" for name in (
    "entered/s", "consumed/s", "took p50 ms", "took p99 ms", "most waiting", "lost %",
) for when in ("before", "now")))  # fmt: skip


class Compared:
    """``rows`` fit `HEADING`, the largest destination first; ``worse`` and ``better``: sentences."""

    def __init__(self, rows: list[list[object]], worse: list[str], better: list[str]) -> None:
        self.rows: Final = rows
        self.worse: Final = worse
        self.better: Final = better


def compared(before: Tables, now: Tables) -> Compared:
    """Return what became of each destination."""
    old, new = _figures(before), _figures(now)
    everything = sum(each["entered"] for each in new.values()) + sum(each["entered"] for each in old.values())
    worse: list[str] = []
    better: list[str] = []
    weights = {name: old.get(name, {}).get("entered", 0.0) + new.get(name, {}).get("entered", 0.0)
               for name in (*old, *new)}  # fmt: skip
    names = sorted(weights, key=lambda name: (-weights[name], name))
    for name in names:
        if name not in new:
            worse.append(f"nothing enters {name} any more; it was {old[name]['entered']:,.0f} a second")
        elif name in old:
            large = weights[name] >= SHARE_LEAST * everything
            _judge(name, old[name], new[name], worse, better, large=large)
    worse += [f"a cause of dead letters that was not there before: {cause}" for cause in _new(before, now, "cause")]
    rows = [_row(name, old.get(name), new.get(name)) for name in names]
    return Compared(rows, worse, better)


def _figures(tables: Tables) -> dict[str, Figures]:
    """Return of each destination what is compared: by the second, us, messages, shares."""
    seconds = seconds_of([row["time"] for row in tables.get("rates", ())], tables)
    waiting: dict[str, float] = {}
    for row in tables.get("depths", ()):
        name = row["address"] or "?"
        waiting[name] = max(waiting.get(name, 0.0), float(row["waiting"]))
    found: dict[str, Figures] = {}
    for row in tables.get("destinations", ()):
        name = row["address"] or "?"
        entered = float(row["entered"] or 0)
        lost = float((row["dead"] or 0) + (row["expired"] or 0))
        found[name] = {
            "entered": entered / seconds,
            "consumed": float(row["consumed"] or 0) / seconds,
            "took_p50": float(row["took_p50_us"] or 0),
            "took_p99": float(row["took_p99_us"] or 0),
            "waiting": waiting.get(name, 0.0),
            "lost": lost / entered if entered else 0.0,
        }
    return found


def _judge(name: str, old: Figures, new: Figures, worse: list[str], better: list[str], *, large: bool) -> None:
    """Say of one destination what stands out."""
    if max(old["took_p99"], new["took_p99"]) >= LATE_LEAST_US and old["took_p99"] and new["took_p99"]:
        late, was = (f"{each['took_p99'] / 1000:,.3g} ms" for each in (new, old))
        said = f"the slowest hundredth of {name} took {late} from end to end, {was} before"
        _add(old["took_p99"], new["took_p99"], said, worse, better)
    if max(old["waiting"], new["waiting"]) >= WAITING_LEAST:
        said = f"as many as {new['waiting']:,.0f} messages waited in {name}, {old['waiting']:,.0f} before"
        _add(max(old["waiting"], 1.0), max(new["waiting"], 1.0), said, worse, better)
    if max(old["lost"], new["lost"]) >= LOST_LEAST:
        said = f"{100 * new['lost']:.3g} % of {name} died or expired, {100 * old['lost']:.3g} % before"
        _add(max(old["lost"], LOST_LEAST / 4), max(new["lost"], LOST_LEAST / 4), said, worse, better)
    if large:
        said = f"{new['entered']:,.0f} messages a second entered {name}, {old['entered']:,.0f} before"
        if _stands_out(old["entered"], new["entered"]):
            (better if new["entered"] > old["entered"] else worse).append(said)


def _add(old: float, new: float, said: str, worse: list[str], better: list[str]) -> None:
    """Note a figure that should be small."""
    if _stands_out(old, new):
        (worse if new > old else better).append(said)


def _stands_out(old: float, new: float) -> bool:
    return new >= TIMES * old or old >= TIMES * new if old and new else old != new


def _new(before: Tables, now: Tables, field: str) -> Sequence[str]:
    known = {row[field] for row in before.get("causes", ())}
    return list(dict.fromkeys(str(row[field]) for row in now.get("causes", ()) if row[field] not in known))


def _row(name: str, old: Figures | None, new: Figures | None) -> list[object]:
    cells: list[object] = [name]
    for figure in NAMES:
        for each in (old, new):
            value = None if each is None else each[figure]
            if value is not None and figure.startswith("took"):
                value /= 1000
            elif value is not None and figure == "lost":
                value *= 100
            cells.append(value)
    return cells
