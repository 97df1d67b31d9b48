"""A row for each copy, put together where its facts are: only what lies in several parts of a trace is moved.

A task expands one part of a segment and makes a *piece* of all facts there about one copy. Most copies come and go
within one part: their piece is *whole*, and stays in the file that its task wrote. The others are *open*: their pieces
are brought together by a shuffle. Whether a piece that looks whole has facts elsewhere (it was acknowledged twice, or
it is found again after a crash) is said by sets of 64 numbers (`sifting`): a row for each 64 copies is moved, and
nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as fn

from entrepot.core.events import trace as facts
from entrepot.pipeline import traces
from entrepot.pipeline.jobs import sifting

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import Column, DataFrame, SparkSession

    from entrepot.pipeline.jobs.storage import Storage

LIFE: Final = (
    facts.ACCEPTED, facts.DELIVERED, facts.ACKNOWLEDGED, facts.RETURNED, facts.EXPIRED, facts.DEAD, facts.REMOVED,
    facts.RECOVERED, facts.PENDING, facts.REFUSED,
)  # fmt: skip
ENDS: Final = (facts.ACKNOWLEDGED, facts.EXPIRED, facts.DEAD, facts.REMOVED)
KEY: Final = ("node", "place", "number")
COPY: Final = (
    ("node", pa.int64()), ("place", pa.int32()), ("number", pa.int64()), ("prefix", pa.int64()),
    ("sequence", pa.int64()), ("run", pa.int64()), ("origin_run", pa.int64()), ("reader_run", pa.int64()),
    ("flags", pa.int16()), ("origin", pa.int32()), ("size", pa.int32()), ("accepted", pa.int32()),
    ("delivered", pa.int32()), ("acknowledged", pa.int32()), ("returned", pa.int32()), ("refused", pa.int32()),
    ("code", pa.int32()), ("reader", pa.int32()), ("cause", pa.int32()), ("began_at", pa.int64()),
    ("delivered_at", pa.int64()), ("delivered_position", pa.int64()), ("last_at", pa.int64()),
)  # fmt: skip
SUMS: Final = ("accepted", "delivered", "acknowledged", "returned", "refused")
PIECE: Final = pa.schema(
    [
        *COPY,
        ("position", pa.int64()),  # of its last fact, which `code` is; the next two say how far before that ...
        ("reader_back", pa.int32()),  # ... `reader` was told
        ("cause_back", pa.int32()),  # ... `cause` was told
        ("whole", pa.int32()),
    ]
)
WORDS: Final = {pa.int64(): "bigint", pa.int32(): "int", pa.int16(): "smallint"}
PIECE_DDL: Final = ", ".join(f"{field.name} {WORDS[field.type]}" for field in PIECE)
STORED_DDL: Final = PIECE_DDL.rpartition(",")[0]  # without `whole`, which is a folder
COPY_DDL: Final = ", ".join(f"{name} {WORDS[kind]}" for name, kind in COPY)
BLOCK_BITS: Final = 16  # numbers that are put together in one task, so that its rows are in the order of the queue
SMALLEST: Final = np.iinfo(np.int64).min
GREATEST: Final = np.iinfo(np.int64).max


class _Groups:
    """The facts of a part, those of one copy side by side in the order in which they happened."""

    def __init__(self, columns: dict[str, NDArray[Any]]) -> None:
        kept = np.isin(columns["kind"], LIFE)
        found = {name: column[kept] for name, column in columns.items()}
        order = np.lexsort((found["number"], found["place"]))  # stable: positions rise within a copy
        self.of: Final = {name: column[order] for name, column in found.items()}
        place, number = self.of["place"], self.of["number"]
        new = np.ones(len(order), bool)
        new[1:] = (place[1:] != place[:-1]) | (number[1:] != number[:-1])
        self.starts: Final = np.flatnonzero(new)
        self.ends: Final = np.append(self.starts[1:], len(order)) - 1
        self._at: Final = np.arange(len(order), dtype=np.int64)

    def count(self, where: NDArray[Any]) -> pa.Array:
        """Return how often it is true for each copy."""
        return pa.array(np.add.reduceat(where.astype(np.int32), self.starts))

    def any(self, where: NDArray[Any]) -> NDArray[Any]:
        """Return whether it is true at all."""
        return np.logical_or.reduceat(where, self.starts)

    def greatest(self, values: NDArray[Any], where: NDArray[Any]) -> pa.Array:
        """Return the greatest of the values where it is true; null for none."""
        found = np.maximum.reduceat(np.where(where, values.astype(np.int64), SMALLEST), self.starts)
        return pa.array(found, mask=~self.any(where))

    def least(self, values: NDArray[Any], where: NDArray[Any]) -> pa.Array:
        """Return the least of the values where it is true; null for none."""
        found = np.minimum.reduceat(np.where(where, values.astype(np.int64), GREATEST), self.starts)
        return pa.array(found, mask=~self.any(where))

    def last(self, name: str, where: NDArray[Any]) -> tuple[pa.Array, pa.Array]:
        """Return the last value where it is true, and how far before the last fact; null for none."""
        at = np.maximum.reduceat(np.where(where, self._at, -1), self.starts)
        position = self.of["position"]
        return (
            pa.array(self.of[name][at], mask=at < 0),
            pa.array(position[self.ends] - position[at], mask=at < 0),
        )


def of_part(columns: dict[str, NDArray[Any]]) -> pa.Table:
    """Return the pieces (`PIECE`) that facts of one part are; ``columns`` as of `traces.Segment.columns`."""
    groups = _Groups(columns)
    if len(groups.starts) == 0:
        return PIECE.empty_table()
    of, ends = groups.of, groups.ends
    kind, flags = of["kind"], of["flags"]
    accepted, delivered = kind == facts.ACCEPTED, kind == facts.DELIVERED
    settled = delivered & (flags & facts.SETTLED != 0)
    code = np.where(settled, facts.ACKNOWLEDGED << 16, (kind.astype(np.int32) << 16) + of["detail"])
    began = accepted | (kind == facts.RECOVERED)
    reading = delivered | (kind == facts.ACKNOWLEDGED) & (of["peer"] != 0)
    known = of["prefix"] != 0
    reader, reader_back = groups.last("peer", reading)
    cause, cause_back = groups.last("peer", kind == facts.DEAD)
    made = {
        "node": of["node"][ends],
        "place": of["place"][ends],
        "number": of["number"][ends],
        "prefix": groups.greatest(of["prefix"], known),
        "sequence": groups.greatest(of["sequence"], known),
        "run": of["run"][ends],
        # numbers of connections and consumers begin anew with each run: they mean something in their own alone
        "origin_run": groups.greatest(of["run"], accepted),
        "reader_run": groups.greatest(of["run"], reading),
        "flags": groups.greatest(flags, accepted),
        "origin": groups.greatest(of["peer"], accepted),
        "size": groups.greatest(of["detail"], accepted),
        "accepted": groups.count(accepted & (flags & facts.CONTINUED == 0)),
        "delivered": groups.count(delivered),
        "acknowledged": groups.count((kind == facts.ACKNOWLEDGED) | settled),
        "returned": groups.count(kind == facts.RETURNED),
        "refused": groups.count(kind == facts.REFUSED),
        "code": code[ends],
        "reader": reader,
        "cause": cause,
        "began_at": groups.least(of["time"], began),
        "delivered_at": groups.greatest(of["time"], delivered),
        "delivered_position": groups.greatest(of["position"], delivered),
        "last_at": groups.greatest(of["time"], ~began),
        "position": of["position"][ends],
        "reader_back": reader_back,
        "cause_back": cause_back,
        "whole": (groups.any(accepted) & np.isin(code[ends] >> 16, ENDS)).astype(np.int32),
    }
    return pa.table([pa.array(made[field.name]).cast(field.type) for field in PIECE], schema=PIECE)


def write(spark: SparkSession, parts: DataFrame, target: Storage, name: str) -> str:
    """Write the copies of ``parts`` (path, first, end, before, facts) to ``name`` in ``target``; return its whole path.

    Pieces stand in ``pieces.parquet`` meanwhile.
    """
    staged = "pieces.parquet"
    made = parts.mapInArrow(_pieces, PIECE_DDL)
    # two files are open at a time in each task, so that rows need no sorting by their folder
    with sifting.set_to(spark, "spark.sql.maxConcurrentOutputFileWriters", "4"):
        made.write.partitionBy("whole").parquet(target.path(staged))

    def stored(whole: int) -> DataFrame:
        folder = f"{staged}/whole={whole}"
        if not target.exists(folder):
            return spark.createDataFrame([], STORED_DDL)
        return spark.read.schema(STORED_DDL).parquet(target.path(folder))

    whole, open_ = stored(1), stored(0)
    with sifting.held(_elsewhere(whole, open_)) as found:
        if found.count:
            together = _merged(open_.unionByName(sifting.among(whole, found, "number")))
            sifting.beside(whole, found, "number").select(*_names()).unionByName(together).write.parquet(
                target.path(name)
            )
        else:
            _merged(open_).write.parquet(target.path(name))
            for path, _ in target.files(f"{staged}/whole=1"):
                target.move(path, f"{name}/{path.rpartition('/')[2]}")
    target.remove(staged)
    return target.path(name)


def _names() -> list[str]:
    return [name for name, _ in COPY]


def _pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for row in batch.to_pylist():
            part = traces.Part(row["first"], row["end"], row["before"], row["facts"])
            yield from of_part(traces.Segment(Path(row["path"])).columns(part)).to_batches(max_chunksize=1 << 16)


def _elsewhere(whole: DataFrame, open_: DataFrame) -> DataFrame:
    """Return the blocks of 64 numbers in which something whole is open too, or twice whole."""
    both = whole.select(*KEY, fn.lit(1).alias("whole")).unionByName(open_.select(*KEY, fn.lit(0).alias("whole")))
    is_whole = fn.col("whole") == 1
    bit = sifting.bit_of("number")
    sets = both.groupBy("node", "place", sifting.block_of("number").alias(sifting.BLOCK)).agg(
        fn.sum("whole").alias("count"),
        fn.bit_or(fn.when(is_whole, bit).otherwise(0)).alias("ended"),
        fn.bit_or(fn.when(is_whole, 0).otherwise(bit)).alias("open"),
    )
    shared = fn.col("ended").bitwiseAND(fn.col("open")) != 0
    return sets.where((fn.col("count") > fn.bit_count("ended")) | shared).select("node", "place", sifting.BLOCK)


def _merged(pieces: DataFrame) -> DataFrame:
    """Return copies, of pieces of them; those of 65,536 numbers are in one task, in their order."""
    greatest = [name for name in _names() if name not in (*KEY, *SUMS, "code", "reader", "cause", "began_at")]
    together: dict[str, Column] = {name: fn.max(name) for name in greatest}
    together |= {name: fn.sum(name).cast("int") for name in SUMS}
    together |= {
        "code": fn.max_by("code", "position"),
        "reader": fn.max_by("reader", fn.col("position") - fn.col("reader_back")),
        "cause": fn.max_by("cause", fn.col("position") - fn.col("cause_back")),
        "began_at": fn.min("began_at"),
    }
    near = pieces.withColumn("near", fn.shiftright("number", BLOCK_BITS)).repartition("node", "place", "near")
    grouped = near.groupBy("node", "place", "near", "number")
    copies = grouped.agg(*(column.alias(name) for name, column in together.items()))
    return copies.sortWithinPartitions(*KEY).select(*_names())
