"""The report: what flowed, how fast, how late, and what is wrong with the way it goes.

A message *enters* the network where a client sends it (or a broker that is not traced), and is *passed on* by bridges:
each is counted once as entered, for a topic too, and how late it is is reckoned from there to its last consumer.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as fn

from entrepot.base.errors import InvalidOption
from entrepot.core.events import trace as facts
from entrepot.pipeline.jobs import life, pages, related, remarks, storage
from entrepot.pipeline.jobs.earlier import HEADING, Compared, compared
from entrepot.pipeline.jobs.life import Survey, Traces

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from entrepot.pipeline.jobs.related import Related

SLICES: Final = 120  # points of a plot over the whole time
ACCURACY: Final = 1000  # of percentiles: 1 / ACCURACY of the rank
SHOWN: Final = 30
KEPT: Final = ("rates", "depths", "destinations", "causes")
"""Tables of an earlier report that are compared."""
PERCENTILES: Final = ((0.5, "50"), (0.95, "95"), (0.99, "99"))


def _times(name: str) -> str:
    """Return the columns that `_percentiles` makes."""
    return ", ".join(f"{name}_p{label}_us bigint" for _, label in PERCENTILES)


SHAPES: Final = {
    "span": "first_us bigint, last_us bigint, step_us bigint",
    "rates": "time bigint, address string, broker string, count bigint, rate double",
    "depths": "time bigint, address string, waiting bigint",
    "latencies": f"time bigint, address string, {_times('took')}",
    "destinations": "address string, entered bigint, passed_on bigint, consumed bigint, forwarded bigint, "
    "pending bigint, dead bigint, expired bigint, returned bigint, octets bigint, "
    f"{_times('waited')}, {_times('took')}",
    "hops": "broker string, far_name string, address string, forwarded bigint, octets bigint, "
    f"{_times('crossing')}, {_times('confirmed')}",
    "consumers": "broker string, queue string, consumer string, reader int, consumed bigint, open bigint, "
    f"returned bigint, {_times('kept')}",
    "causes": "broker string, cause string, queue string, messages bigint",
    "needless": "broker string, queue string, messages bigint, why string",
}
"""The tables in Parquet. A time is of us, and null where nothing was measured: of no row, if two clocks differ."""
ENDED: Final = (
    life.CONSUMED, life.FORWARDED, life.REFUSED, life.EXPIRED, life.DEAD, life.REMOVED, life.RENUMBERED, life.VANISHED,
    life.DOUBTFUL, life.LOST,
)  # fmt: skip


class Report:
    """The tables of a report, by name; each row is a dict."""

    def __init__(
        self,
        tables: dict[str, list[dict[str, Any]]],
        brokers: list[str],
        faults: list[str],
        compared: Compared | None = None,
        others: Sequence[Related] = (),
    ) -> None:
        """``compared``: with an earlier report, where there was one; ``others``: what other jobs said."""
        self.others: Final = others
        self.tables: Final = tables
        self.brokers: Final = brokers
        self.faults: Final = faults
        self.compared: Final = compared

    @property
    def head(self) -> str:
        """What it is about: which brokers, from when to when, how many messages."""
        (span,) = self.tables["span"]
        first, last = span["first_us"], span["last_us"]
        seconds = max((last - first) / 1e6, 0.001)
        return (
            f"{'Broker' if len(self.brokers) == 1 else 'Brokers'} {', '.join(self.brokers)}, from "
            f"{pages.moment(first)} to {pages.moment(last)} UTC ({seconds:,.1f} s). {self.numbers}"
        )

    @property
    def numbers(self) -> str:
        """How many messages came, went on, and were consumed."""
        entered, passed, consumed = (
            sum(row[name] for row in self.tables["destinations"]) for name in ("entered", "passed_on", "consumed")
        )
        rate = entered / max(remarks.seconds_of([row["time"] for row in self.tables["rates"]], self.tables), 0.001)
        crossings = f"{passed:,} times one was passed on from broker to broker" if passed else "none crossed a bridge"
        return (
            f"{entered:,} messages entered the network, {rate:,.0f} a second while they came; {crossings}; "
            f"{consumed:,} were consumed."
        )


def report(
    spark: SparkSession,
    places: Sequence[str | Path],
    target: str | Path,
    against: str | Path | None = None,
    see: Sequence[str | Path] = (),
) -> Report:
    """Summarise the traces in ``places``; write Parquet and a page into ``target``. Raises InvalidOption.

    ``against``: where an earlier report was written, to say what is otherwise now. ``see``: where other jobs wrote.
    """
    others = related.found(spark, see, target)
    before = None if against is None else _earlier(spark, against)
    place = storage.fresh(spark, target)
    found = Traces(spark, places)
    with life.shuffled(spark, found.partitions):
        copies = found.copies(place)
        span = _span(copies)
        step = span["step_us"]
        known = list(found.survey.brokers)
        tables = {
            name: [row.asDict() for row in rows.collect()]
            for name, rows in (
                ("rates", _rates(copies, step, known)),
                ("depths", _depths(copies, step)),
                ("latencies", _latencies(copies, step)),
                ("destinations", _destinations(copies, known)),
                ("hops", _hops(copies, found.survey)),
                ("consumers", _consumers(copies)),
                ("causes", _causes(copies)),
                ("needless", _needless(copies)),
            )
        }
    tables["span"] = [span]
    tables["depths"] = _cumulated(tables["depths"])
    _name(tables, found.survey)
    brokers = sorted(broker.name for broker in found.survey.brokers.values())
    changes = None if before is None else compared(before, tables)
    outcome = Report(tables, brokers, sorted(set(found.survey.faults)), changes, others)
    attention = [*outcome.faults, *remarks.all_of(tables)]
    sentence = outcome.numbers + (f" {len(attention)} things stand out." if attention else " Nothing stands out.")
    related.leave(place, related.REPORT, sentence, good=not attention)
    for name, rows in tables.items():
        if rows:
            spark.createDataFrame(rows, SHAPES[name]).coalesce(1).write.parquet(place.path(f"{name}.parquet"))
    place.write("report.html", page_of(outcome))
    place.write("report.txt", text_of(outcome))
    return outcome


def _earlier(spark: SparkSession, root: str | Path) -> dict[str, list[dict[str, Any]]]:
    """Return the tables of an earlier report; one that was empty was not written. Raises InvalidOption."""
    place = storage.Storage(spark, os.fspath(root))
    if not place.exists("span.parquet"):
        raise InvalidOption(
            f"{place.root} holds no report", remedy="name what --to was given to an earlier `entrepot pipeline report`"
        )
    names = [name for name in ("span", *KEPT) if place.exists(f"{name}.parquet")]
    return {
        name: [row.asDict() for row in spark.read.parquet(place.path(f"{name}.parquet")).collect()] for name in names
    }


# -- tables ------------------------------------------------------------------------------------------------------------


def _span(copies: DataFrame) -> dict[str, int]:
    """Return the us of the first and the last fact, and of one slice, so that there are `SLICES` of them."""
    row = copies.agg(fn.min("began_at").alias("first"), fn.max("last_at").alias("last")).collect()[0]
    first, last = int(row["first"] or 0), int(row["last"] or 0)
    last = max(first, last)
    step = max(1000, (last - first) // SLICES + 1) if row["first"] is not None else 1_000_000
    return {"first_us": first, "last_us": last, "step_us": step}


def _percentiles(value: Column, wanted: Column, name: str) -> list[Column]:
    measured = fn.when(wanted & (value >= 0), value)
    return [
        fn.percentile_approx(measured, share, ACCURACY).alias(f"{name}_p{label}_us") for share, label in PERCENTILES
    ]


def _slice(time: str, step: int) -> Column:
    return (fn.floor(fn.col(time) / step) * step).cast("bigint").alias("time")


def _came(known: Sequence[int]) -> tuple[Column, Column]:
    """Return whether a copy entered the network, and whether it was passed on by a broker that is traced."""
    derived = fn.coalesce(fn.col("flags"), fn.lit(0)).bitwiseAND(facts.DERIVED) != 0
    came = (fn.col("accepted") > 0) & ~derived
    passed = fn.col("came_from").isNotNull() & fn.col("came_from").isin(list(known))
    return came & ~passed, came & passed


def _rates(copies: DataFrame, step: int, known: Sequence[int]) -> DataFrame:
    """Return messages a second that entered the network at each destination and broker, over time."""
    entered, _ = _came(known)
    counted = copies.where(entered).groupBy(_slice("began_at", step), "address", "node")
    rows = counted.agg(fn.count_distinct("number").alias("count"))  # a topic's message has a copy for each subscriber
    return rows.withColumn("rate", fn.col("count") * 1e6 / step).orderBy("time")


def _depths(copies: DataFrame, step: int) -> DataFrame:
    """Return by how many copies the queues of each destination grew, over time; see `_cumulated`."""
    began = copies.where(fn.col("began_at").isNotNull())
    grew = began.groupBy(_slice("began_at", step), "address").agg(fn.count("*").alias("change"))
    ended = began.where(fn.col("state").isin(*ENDED) & fn.col("last_at").isNotNull())
    shrank = ended.groupBy(_slice("last_at", step), "address").agg((-fn.count("*")).alias("change"))
    return grew.unionByName(shrank).groupBy("time", "address").agg(fn.sum("change").alias("change")).orderBy("time")


def _cumulated(changes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return how many waited at each time from how much that changed; rows are in order of time."""
    now: dict[str | None, int] = {}
    rows = []
    for row in changes:
        now[row["address"]] = now.get(row["address"], 0) + row["change"]
        rows.append({"time": row["time"], "address": row["address"], "waiting": max(0, now[row["address"]])})
    return rows


def _journeys(copies: DataFrame) -> DataFrame:
    """Return a row for each message that was consumed: when it entered, when its last consumer had it, how long."""
    consumed = fn.col("state") == life.CONSUMED
    named = [fn.coalesce("prefix", "node").alias("from"), fn.coalesce("sequence", "number").alias("which")]
    rows = copies.groupBy(*named, "address").agg(
        fn.min(fn.when(fn.col("accepted") > 0, fn.col("began_at"))).alias("began_at"),
        fn.max(fn.when(consumed, fn.col("last_at"))).alias("ended_at"),
    )
    return rows.where(fn.col("ended_at").isNotNull()).withColumn("took", fn.col("ended_at") - fn.col("began_at"))


def _latencies(copies: DataFrame, step: int) -> DataFrame:
    """Return how long messages of each destination took from end to end, by when they were consumed."""
    done = _journeys(copies).groupBy(_slice("ended_at", step), "address")
    return done.agg(*_percentiles(fn.col("took"), fn.lit(True), "took")).orderBy("time")


def _destinations(copies: DataFrame, known: Sequence[int]) -> DataFrame:
    waited = fn.col("delivered_at") - fn.col("began_at")
    done = fn.col("state") == life.CONSUMED
    entered, passed = _came(known)
    # a message of a topic is one, however many subscriptions got a copy: its number at its broker is the same in all
    counted = copies.groupBy("address").agg(
        fn.count_distinct(fn.when(entered, fn.struct("node", "number"))).alias("entered"),
        fn.count_distinct(fn.when(passed, fn.struct("node", "number"))).alias("passed_on"),
        fn.count_if(done).alias("consumed"),
        fn.count_if(fn.col("state") == life.FORWARDED).alias("forwarded"),
        fn.count_if(fn.col("state").isin(life.PENDING, life.TRANSIT)).alias("pending"),
        fn.count_if(fn.col("state") == life.DEAD).alias("dead"),
        fn.count_if(fn.col("state") == life.EXPIRED).alias("expired"),
        fn.sum("returned").alias("returned"),
        fn.sum(fn.when(entered, fn.col("size") * 16)).alias("octets"),
        *_percentiles(waited, done, "waited"),
    )
    journeys = _journeys(copies).groupBy(fn.col("address").alias("whose"))
    ends = journeys.agg(*_percentiles(fn.col("took"), fn.lit(True), "took"))
    return counted.join(fn.broadcast(ends), fn.col("address").eqNullSafe(fn.col("whose")), "left").drop("whose")


def _hops(copies: DataFrame, survey: Survey) -> DataFrame:
    """Return the traffic of each bridge; ``crossing``: from being sent here to being accepted there.

    That one compares two clocks, ``confirmed`` (until the answer was here) one.
    """
    sent = copies.where((fn.col("state") == life.FORWARDED) & fn.col("prefix").isNotNull())
    there = copies.where(fn.col("came_from").isNotNull() & (fn.col("accepted") > 0)).select(
        "prefix", "sequence", fn.col("node").alias("far"), fn.col("came_from").alias("node"),
        fn.col("began_at").alias("arrived_at"),
    )  # fmt: skip
    arrived = there.groupBy("prefix", "sequence", "far", "node").agg(fn.min("arrived_at").alias("arrived_at"))
    joined = sent.join(arrived, ["prefix", "sequence", "far", "node"], "left")
    crossing = fn.col("arrived_at") - fn.col("delivered_at")
    confirmed = fn.col("last_at") - fn.col("delivered_at")
    return joined.groupBy("node", "far_name", "address").agg(
        fn.count("*").alias("forwarded"),
        fn.sum(fn.col("size") * 16).alias("octets"),
        *_percentiles(crossing, fn.col("arrived_at").isNotNull(), "crossing"),
        *_percentiles(confirmed, fn.lit(True), "confirmed"),
    )


def _consumers(copies: DataFrame) -> DataFrame:
    """Return each client's consumer: how much, and how long it keeps a message before it acknowledges."""
    took = fn.col("last_at") - fn.col("delivered_at")
    done = copies.where(fn.col("consumer").isNotNull() & (fn.coalesce(fn.col("far"), fn.lit(0)) == 0))
    return done.groupBy("node", "queue", "consumer", "reader").agg(
        fn.count_if(fn.col("state") == life.CONSUMED).alias("consumed"),
        fn.count_if(fn.col("state") != life.CONSUMED).alias("open"),
        fn.sum("returned").alias("returned"),
        *_percentiles(took, fn.col("state") == life.CONSUMED, "kept"),
    )


def _causes(copies: DataFrame) -> DataFrame:
    dead = copies.where(fn.col("state") == life.DEAD)
    return dead.groupBy("node", "run", "cause", "queue").agg(fn.count("*").alias("messages"))


def _needless(copies: DataFrame) -> DataFrame:
    """Return messages that crossed brokers and need not have: they came back to one where they had been.

    A queue's message that is accepted by the same broker more than once went round; one that is expired or dead behind
    a bridge was carried for nothing.
    """
    known = copies.where((fn.col("routing") == 0) & fn.col("prefix").isNotNull() & (fn.col("accepted") > 0))
    derived = fn.col("flags").bitwiseAND(facts.DERIVED) != 0
    crossed = fn.col("came_from").isNotNull()
    at = known.where(~derived).groupBy("prefix", "sequence", "queue", "node").agg(
        fn.count("*").alias("visits"),
        fn.max(crossed.cast("int")).alias("crossed"),
        fn.count_if(fn.col("state").isin(life.EXPIRED, life.DEAD) & crossed).alias("wasted"),
    )  # fmt: skip
    back = at.where((fn.col("visits") > 1) & (fn.col("crossed") > 0))
    wasted = at.where(fn.col("wasted") > 0)
    return (
        back.groupBy("queue", "node").agg(fn.count("*").alias("messages"), fn.lit("came back").alias("why"))
        .unionByName(
            wasted.groupBy("queue", "node").agg(
                fn.count("*").alias("messages"), fn.lit("crossed, and expired or died there").alias("why")
            )
        )
    )  # fmt: skip


def _name(tables: dict[str, list[dict[str, Any]]], survey: Survey) -> None:
    for name, rows in tables.items():
        for row in rows:
            if "node" in row:
                node = row.pop("node")
                row["broker"] = survey.name_of(node)
                if name == "causes":
                    row["cause"] = survey.causes.get((node, row.pop("run"), row["cause"]), "unknown")


# -- the page ----------------------------------------------------------------------------------------------------------

# Columns of the tables that people read; ``_ms`` and ``MB`` are made of ``_us`` and ``octets``, so one unit is enough.
COLUMNS: Final[dict[str, tuple[str, str, tuple[str, ...]]]] = {
    "counts": ("destinations", "Destinations: how many", (
        "address", "entered", "passed_on", "consumed", "pending", "dead", "expired", "returned", "MB",
    )),
    "times": ("destinations", "Destinations: how late, ms", (
        "address", "entered", "took_p50_ms", "took_p95_ms", "took_p99_ms", "waited_p50_ms", "waited_p95_ms",
        "waited_p99_ms",
    )),
    "hops": ("hops", "Bridges, times in ms", (
        "broker", "far_name", "address", "forwarded", "MB", "crossing_p50_ms", "crossing_p95_ms", "crossing_p99_ms",
        "confirmed_p50_ms", "confirmed_p99_ms",
    )),
    "consumers": ("consumers", "Consumers, times in ms", (
        "broker", "queue", "consumer", "consumed", "open", "returned", "kept_p50_ms", "kept_p95_ms", "kept_p99_ms",
    )),
    "causes": ("causes", "Dead letters, by cause", ("cause", "broker", "queue", "messages")),
    "needless": ("needless", "Messages that crossed brokers needlessly", ("queue", "broker", "messages", "why")),
}  # fmt: skip
WEIGHTS: Final = ("entered", "forwarded", "consumed", "messages")
CALLED: Final = {
    "address": "destination", "passed_on": "passed on", "broker": "broker", "far_name": "to", "forwarded": "messages",
}  # fmt: skip
LEGEND: Final = (
    "Entered: sent by clients, or come from brokers that are not traced. Passed on: accepted from a bridge. Took: from "
    "entering the network to the last acknowledgement, over all brokers (two clocks, when it crossed). Waited: in its "
    "last queue, until it was delivered. Crossing: from being sent by a bridge to being accepted behind it (two "
    "clocks); confirmed: until the answer was here. Kept: from delivered to acknowledged."
)


def _shown(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> list[list[object]]:
    weight = next(name for name in WEIGHTS if name in columns)
    ranked = sorted(rows, key=lambda row: -(row[weight] or 0))[:SHOWN]
    return [[_cell(row, name) for name in columns] for row in ranked]


def _cell(row: dict[str, Any], name: str) -> object:
    if name == "MB":
        return (row["octets"] or 0) / 1e6
    if name.endswith("_ms"):
        us = row[name.removesuffix("_ms") + "_us"]
        return None if us is None else us / 1000
    return row[name]


def _names(columns: tuple[str, ...]) -> list[str]:
    return [CALLED.get(column, column.removesuffix("_ms").replace("_", " ")) for column in columns]


def page_of(outcome: Report) -> str:
    """Return the report as a page that needs no other file."""
    tables = outcome.tables
    parts = [pages.paragraph(outcome.head), pages.tiles(_tiles(outcome)), *pages.cards(outcome.others)]
    parts += [pages.verdict(fault, good=False) for fault in outcome.faults]
    said = remarks.all_of(tables)
    parts += [pages.verdict(sentence, good=False) for sentence in said]
    if not said and not outcome.faults:
        parts.append(pages.verdict("nothing stands out", good=True))
    if outcome.compared is not None:
        parts += _compared_parts(outcome.compared)
    colours = pages.Colours()
    parts.append(pages.heading("Rates"))
    parts.append(pages.lines(_series(tables["rates"], "rate"), "messages a second that entered the network", colours))
    parts.append(pages.heading("Waiting"))
    deep = _series(tables["depths"], "waiting", sums=False)
    parts.append(pages.lines(deep, "messages in queues, at all brokers", colours))
    parts.append(pages.heading("From end to end"))
    late = _series([{**row, "ms": (row["took_p99_us"] or 0) / 1000} for row in tables["latencies"]], "ms", sums=False)
    parts.append(
        pages.lines(late, "ms from entering the network to the last acknowledgement, 99th percentile", colours)
    )
    kept = [(f"{row['consumer']} at {row['broker']}", row["kept_p95_us"] / 1000) for row in tables["consumers"]
            if row["kept_p95_us"] is not None]  # fmt: skip
    parts.append(pages.heading("Who keeps messages longest"))
    parts.append(
        pages.bars(sorted(kept, key=lambda one: -one[1])[:12], "ms from delivered to acknowledged, 95th percentile")
    )
    for source, title, columns in COLUMNS.values():
        parts.append(pages.heading(title))
        parts.append(pages.table(_names(columns), _shown(tables[source], columns)))
    parts.append(pages.paragraph(LEGEND))
    return pages.page("Traffic", parts)


def _tiles(outcome: Report) -> list[tuple[str, str]]:
    """Return the figures that one looks for first: what came, went on and left; how late; what waits."""
    rows = outcome.tables["destinations"]
    sums = {name: sum(row[name] or 0 for row in rows) for name in ("entered", "passed_on", "consumed", "pending")}
    gone = sum((row["dead"] or 0) + (row["expired"] or 0) for row in rows)
    late = [row["took_p99_us"] for row in rows if row["took_p99_us"] is not None]
    found = [
        ("entered", pages.number(sums["entered"])),
        ("passed on", pages.number(sums["passed_on"])),
        ("consumed", pages.number(sums["consumed"])),
        ("wait now", pages.number(sums["pending"])),
        ("died or expired", pages.number(gone)),
    ]
    return [*found, ("slowest hundredth, ms", pages.number(max(late) / 1000))] if late else found


def _compared_parts(changes: Compared) -> list[str]:
    """Return what is otherwise than before."""
    parts = [pages.heading("Beside the earlier report")]
    parts += [pages.verdict(sentence, good=False) for sentence in changes.worse]
    parts += [pages.verdict(sentence, good=True) for sentence in changes.better]
    if not changes.worse and not changes.better:
        parts.append(pages.verdict("much as before", good=True))
    return [*parts, pages.table(HEADING, changes.rows[:SHOWN])]


def text_of(outcome: Report) -> str:
    """Return the report as text."""
    lines = [outcome.head, ""]
    lines += [f"Attention: {sentence}" for sentence in (*outcome.faults, *remarks.all_of(outcome.tables))]
    changes = outcome.compared
    if changes is not None:
        lines += [f"Worse than before: {sentence}" for sentence in changes.worse]
        lines += [f"Better than before: {sentence}" for sentence in changes.better]
        lines += ["", "Beside the earlier report", *pages.columns(HEADING, changes.rows[:SHOWN])]
    for source, title, columns in COLUMNS.values():
        lines += ["", title, *pages.columns(_names(columns), _shown(outcome.tables[source], columns))]
    return "\n".join(lines) + "\n"


def _series(rows: list[dict[str, Any]], field: str, *, sums: bool = True) -> dict[str, list[tuple[int, float]]]:
    found: dict[str, dict[int, float]] = {}
    for row in rows:
        at = found.setdefault(row["address"] or "?", {})
        before = at.get(row["time"], 0.0) if sums else 0.0
        at[row["time"]] = before + float(row[field])
    return {name: sorted(points.items()) for name, points in found.items()}
