"""What may be wrong, found without moving what is right: summaries of many rows, and the few rows that they doubt.

*Sets of 64*: numbers that differ in their last six bits alone are one row with a bit for each. As many bits as rows say
that no number came twice; two sets without a bit in common, that none is in both. *Stretches*: rows of one reader that
stand together and rise are one row; those that follow one another, and rise, need no sorting of what is in them.

Neither passes anything over: where a summary does not say that all is well, the job looks at its rows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import Window
from pyspark.sql import functions as fn

from entrepot.core.events import trace as facts

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import Column, DataFrame, SparkSession

BLOCK: Final = "block"
SENT_MAX: Final = 200_000  # doubted blocks that go to every worker; with more the rows are moved
REGIONS_MAX: Final = 100_000  # of doubted stretches; with more all rows of their readers are looked at
STRETCHES_DDL: Final = "key bigint, first bigint, last bigint, low bigint, high bigint, rising boolean"


class Held:
    """Doubted blocks, kept while they are looked at. ``count``: how many."""

    def __init__(self, rows: DataFrame, count: int) -> None:
        self.rows: Final = rows
        self.count: Final = count


@contextlib.contextmanager
def held(blocks: DataFrame) -> Iterator[Held]:
    """Find out what ``blocks`` are, once, and keep them meanwhile."""
    kept = blocks.persist(StorageLevel.DISK_ONLY)
    try:
        yield Held(kept, kept.count())
    finally:
        kept.unpersist()


@contextlib.contextmanager
def set_to(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """Let a setting of ``spark`` have this value meanwhile."""
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        if before is not None:
            spark.conf.set(name, before)


# -- sets of 64 --------------------------------------------------------------------------------------------------------


def identity() -> Column:
    """Return what tells messages of one prefix apart; an identity without a number is all prefix, a hash."""
    return fn.when(fn.col("sequence") == facts.NO_SEQUENCE, fn.col("prefix")).otherwise(fn.col("sequence"))


def block_of(number: Column | str) -> Column:
    """Return which set of 64 a number is in."""
    return fn.shiftright(number, 6)


def bit_of(number: Column | str) -> Column:
    """Return the bit of a number in its set."""
    last = (fn.col(number) if isinstance(number, str) else number).bitwiseAND(63).cast("int")
    return fn.call_function("shiftleft", fn.lit(1).cast("bigint"), last)


def among(rows: DataFrame, found: Held, number: Column | str) -> DataFrame:
    """Return the rows that are in one of these blocks."""
    return _joined(rows, found, number, "left_semi")


def beside(rows: DataFrame, found: Held, number: Column | str) -> DataFrame:
    """Return the rows that are in none of these blocks."""
    return _joined(rows, found, number, "left_anti")


def _joined(rows: DataFrame, found: Held, number: Column | str, how: str) -> DataFrame:
    blocks = fn.broadcast(found.rows) if found.count <= SENT_MAX else found.rows
    return rows.withColumn(BLOCK, block_of(number)).join(blocks, found.rows.columns, how).drop(BLOCK)


# -- stretches ---------------------------------------------------------------------------------------------------------


def disordered(rows: DataFrame, key: list[str]) -> DataFrame:
    """Return the rows among which one may have a ``sequence`` below that of one with an earlier ``delivered_position``.

    Both of one reader, which ``key`` names. What is not returned stands in order, among itself and with all others.
    """
    keyed = rows.withColumn("key", fn.xxhash64(*key))  # two readers with one hash: they are doubted together
    narrow = keyed.select("key", "delivered_position", "sequence")
    regions = _regions(narrow.mapInArrow(_stretches, STRETCHES_DDL))
    found = regions.limit(REGIONS_MAX + 1).collect()
    if len(found) > REGIONS_MAX:
        found = regions.groupBy("key").agg(fn.min("first").alias("first"), fn.max("last").alias("last")).collect()
    if not found:
        return rows.limit(0)
    keys = rows.sparkSession.createDataFrame(pa.table({"key": pa.array({row["key"] for row in found}, pa.int64())}))
    theirs = keyed.join(fn.broadcast(keys), "key", "left_semi")
    places = sorted((int(row["key"]), int(row["first"]), int(row["last"])) for row in found)
    return theirs.mapInArrow(_within(np.array(places, np.int64)), theirs.schema).drop("key")


def _regions(stretches: DataFrame) -> DataFrame:
    """Return from where to where it is unknown whether messages came in order: key, first and last position.

    Between two regions everything before is below everything behind, in position and in sequence: so each can be
    looked at alone.
    """
    row = Window.partitionBy("key").orderBy("first", "last")
    before, on = row.rowsBetween(Window.unboundedPreceding, -1), row.rowsBetween(0, Window.unboundedFollowing)
    follows = (fn.col("first") > fn.max("last").over(before)) & (fn.min("low").over(on) > fn.max("high").over(before))
    cut = fn.when(fn.coalesce(follows, fn.lit(True)), 1).otherwise(0)
    parted = stretches.withColumn("cut", cut).withColumn("region", fn.sum("cut").over(row))
    found = parted.groupBy("key", "region").agg(
        fn.min("first").alias("first"), fn.max("last").alias("last"),
        ((fn.count("*") == 1) & fn.bool_and("rising")).alias("well"),
    )  # fmt: skip
    return found.where(~fn.col("well")).select("key", "first", "last")


def _stretches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        columns = [column.to_numpy(zero_copy_only=False) for column in batch.columns]
        if len(columns[0]):
            yield from stretches(*columns).to_batches()


def stretches(key: NDArray[Any], position: NDArray[Any], sequence: NDArray[Any]) -> pa.Table:
    """Return a row for each key: its positions and sequences from where to where, and whether they rise together."""
    order = np.lexsort((position, key))
    key, position, sequence = key[order], position[order], sequence[order]
    same = key[1:] == key[:-1]
    starts = np.append(0, np.flatnonzero(~same) + 1)
    ends = np.append(starts[1:], len(key)) - 1
    falls = np.append(False, same & (sequence[1:] <= sequence[:-1]))
    return pa.table(
        {
            "key": key[starts],
            "first": position[starts],
            "last": position[ends],
            "low": np.minimum.reduceat(sequence, starts),
            "high": np.maximum.reduceat(sequence, starts),
            "rising": ~np.logical_or.reduceat(falls, starts),
        }
    )


def _within(places: NDArray[Any]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return what keeps the rows in one of ``places``: rows of key, first and last position, sorted and apart."""

    def kept(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            key = batch.column("key").to_numpy(zero_copy_only=False)
            position = batch.column("delivered_position").to_numpy(zero_copy_only=False)
            yield batch.filter(pa.array(inside(places, key, position)))

    return kept


def inside(places: NDArray[Any], key: NDArray[Any], position: NDArray[Any]) -> NDArray[Any]:
    """Return whether each row is in one of ``places``."""
    found = np.zeros(len(key), bool)
    for one in np.unique(key):
        low, high = (int(np.searchsorted(places[:, 0], one, side)) for side in ("left", "right"))
        if low == high:
            continue
        rows = np.flatnonzero(key == one)
        at = np.searchsorted(places[low:high, 1], position[rows], "right") - 1
        found[rows] = (at >= 0) & (position[rows] <= places[low:high, 2][at])
    return found
