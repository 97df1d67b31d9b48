"""The report: what flowed, how fast, how late, and what is wrong with the way it goes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as fn

from entrepot.core import trace as facts
from entrepot.pipeline.jobs import life, pages, storage
from entrepot.pipeline.jobs.life import Survey, Traces

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

SLICES: Final = 120  # points of a plot over the whole time
ACCURACY: Final = 1000  # of percentiles: 1 / ACCURACY of the rank
SHOWN: Final = 30
HOT_SHARE: Final = 0.5  # of all messages through one queue or broker
SLOW_TIMES: Final = 4.0  # a consumer is slow whose median is so many times that of its queue
SLOW_LEAST_US: Final = 1000


class Report:
    """The tables of a report, by name; each row is a dict."""

    def __init__(self, tables: dict[str, list[dict[str, Any]]], step_us: int, faults: list[str]) -> None:
        self.tables: Final = tables
        self.step_us: Final = step_us
        self.faults: Final = faults


def report(spark: SparkSession, places: Sequence[str | Path], target: str | Path) -> Report:
    """Summarise the traces in ``places``; write Parquet and a page into ``target``. Raises InvalidOption."""
    place = storage.fresh(spark, target)
    found = Traces(spark, places)
    with life.shuffled(spark, found.partitions):
        copies = found.copies(place)
        step = _step(copies)
        tables = {
            name: [row.asDict() for row in rows.collect()]
            for name, rows in (
                ("rates", _rates(copies, step)),
                ("latencies", _latencies(copies, step)),
                ("destinations", _destinations(copies)),
                ("hops", _hops(copies, found.survey)),
                ("consumers", _consumers(copies)),
                ("causes", _causes(copies)),
                ("needless", _needless(copies)),
            )
        }
    _name(tables, found.survey)
    outcome = Report(tables, step, sorted(set(found.survey.faults)))
    for name, rows in tables.items():
        if rows:
            spark.createDataFrame(rows).coalesce(1).write.parquet(place.path(f"{name}.parquet"))
    place.write("report.html", page_of(outcome))
    place.write("report.txt", text_of(outcome))
    return outcome


# -- tables ------------------------------------------------------------------------------------------------------------


def _step(copies: DataFrame) -> int:
    """Return the us of one slice, so that there are `SLICES` of them; not below a millisecond."""
    row = copies.agg(fn.min("began_at").alias("first"), fn.max("last_at").alias("last")).collect()[0]
    if row["first"] is None:
        return 1_000_000
    first, last = int(row["first"]), int(row["last"] or 0)
    return max(1000, (max(last, first) - first) // SLICES + 1)


def _percentiles(value: Column, wanted: Column, name: str) -> list[Column]:
    measured = fn.when(wanted & (value >= 0), value)
    return [
        fn.percentile_approx(measured, share, ACCURACY).alias(f"{name}_p{label}_us")
        for share, label in ((0.5, "50"), (0.95, "95"), (0.99, "99"))
    ]


def _slice(time: str, step: int) -> Column:
    return (fn.floor(fn.col(time) / step) * step).cast("bigint").alias("time")


def _rates(copies: DataFrame, step: int) -> DataFrame:
    """Return messages a second that came to each destination and broker, over time."""
    came = copies.where(fn.col("accepted") > 0)
    counted = came.groupBy(_slice("began_at", step), "address", "node").count()
    return counted.withColumn("rate", fn.col("count") * 1e6 / step).orderBy("time")


def _latencies(copies: DataFrame, step: int) -> DataFrame:
    """Return how long messages of each destination waited for their end with a consumer, over time."""
    done = copies.where(fn.col("state") == life.CONSUMED)
    took = fn.col("last_at") - fn.col("began_at")
    return (
        done.groupBy(_slice("last_at", step), "address").agg(*_percentiles(took, fn.lit(True), "took")).orderBy("time")
    )


def _destinations(copies: DataFrame) -> DataFrame:
    took = fn.col("last_at") - fn.col("began_at")
    waited = fn.col("delivered_at") - fn.col("began_at")
    done = fn.col("state") == life.CONSUMED
    return copies.groupBy("address").agg(
        fn.sum("accepted").alias("accepted"),
        fn.count_if(done).alias("consumed"),
        fn.count_if(fn.col("state") == life.FORWARDED).alias("forwarded"),
        fn.count_if(fn.col("state") == life.PENDING).alias("pending"),
        fn.count_if(fn.col("state") == life.DEAD).alias("dead"),
        fn.count_if(fn.col("state") == life.EXPIRED).alias("expired"),
        fn.sum("returned").alias("returned"),
        fn.sum(fn.col("size") * 16).alias("octets"),
        *_percentiles(waited, done, "waited"),
        *_percentiles(took, done, "took"),
    )


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


# -- what stands out ---------------------------------------------------------------------------------------------------


def hot_spots(tables: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Return sentences about destinations and brokers that carry more than their share."""
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


def slow_consumers(tables: dict[str, list[dict[str, Any]]]) -> list[str]:
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


# -- the page ----------------------------------------------------------------------------------------------------------

COLUMNS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "destinations": ("Destinations", (
        "address", "accepted", "consumed", "forwarded", "pending", "dead", "expired", "returned", "octets",
        "waited_p50_us", "waited_p95_us", "waited_p99_us", "took_p50_us", "took_p95_us", "took_p99_us",
    )),
    "hops": ("Bridges", (
        "broker", "far_name", "address", "forwarded", "octets", "crossing_p50_us", "crossing_p95_us", "crossing_p99_us",
        "confirmed_p50_us", "confirmed_p99_us",
    )),
    "consumers": ("Consumers", (
        "broker", "queue", "consumer", "consumed", "open", "returned", "kept_p50_us", "kept_p95_us", "kept_p99_us",
    )),
    "causes": ("Dead letters, by cause", ("cause", "broker", "queue", "messages")),
    "needless": ("Messages that crossed brokers needlessly", ("queue", "broker", "messages", "why")),
}  # fmt: skip
WEIGHTS: Final = ("accepted", "forwarded", "consumed", "messages")


def _shown(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> list[list[object]]:
    weight = next(name for name in WEIGHTS if name in columns)
    ranked = sorted(rows, key=lambda row: -(row[weight] or 0))[:SHOWN]
    return [[row[name] for name in columns] for row in ranked]


def page_of(outcome: Report) -> str:
    """Return the report as a page that needs no other file."""
    tables = outcome.tables
    parts = [pages.verdict(fault, good=False) for fault in outcome.faults]
    parts += [pages.verdict(said, good=False) for said in (*hot_spots(tables), *slow_consumers(tables))]
    parts += [pages.heading("Rates"), pages.lines(_series(tables["rates"], "rate"), "messages accepted a second")]
    parts.append(pages.heading("Latency"))
    late = _series([{**row, "ms": (row["took_p99_us"] or 0) / 1000} for row in tables["latencies"]], "ms", sums=False)
    parts.append(pages.lines(late, "ms from accepted to acknowledged, 99th percentile"))
    kept = [(f"{row['consumer']} at {row['broker']}", row["kept_p95_us"] / 1000) for row in tables["consumers"]
            if row["kept_p95_us"] is not None]  # fmt: skip
    parts.append(pages.heading("Who keeps messages longest"))
    parts.append(
        pages.bars(sorted(kept, key=lambda one: -one[1])[:12], "ms from delivered to acknowledged, 95th percentile")
    )
    for name, (title, columns) in COLUMNS.items():
        parts.append(pages.heading(title))
        parts.append(pages.table([column.replace("_", " ") for column in columns], _shown(tables[name], columns)))
    return pages.page("Traffic", parts)


def text_of(outcome: Report) -> str:
    """Return the report as text."""
    lines = [f"Attention: {fault}" for fault in outcome.faults]
    lines += [*hot_spots(outcome.tables), *slow_consumers(outcome.tables)]
    for name, (title, columns) in COLUMNS.items():
        names = [column.replace("_", " ") for column in columns]
        lines += ["", title, *pages.columns(names, _shown(outcome.tables[name], columns))]
    return "\n".join(lines) + "\n"


def _series(rows: list[dict[str, Any]], field: str, *, sums: bool = True) -> dict[str, list[tuple[int, float]]]:
    found: dict[str, dict[int, float]] = {}
    for row in rows:
        at = found.setdefault(row["address"] or "?", {})
        before = at.get(row["time"], 0.0) if sums else 0.0
        at[row["time"]] = before + float(row[field])
    return {name: sorted(points.items()) for name, points in found.items()}
