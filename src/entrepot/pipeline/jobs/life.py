"""What all jobs on traces share: records as a DataFrame, their names, and one row for each copy of a message.

A *copy* is one message in one queue of one broker, from the record that it is there to the record that it left. Its
identity, as clients know it, is kept as two numbers (a hash of the prefix, and the sequence), so that 10 million
records need no text; `Survey` has the texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as fn

from entrepot.core.events import trace as facts
from entrepot.io import seals
from entrepot.pipeline import traces
from entrepot.pipeline.jobs import crossings, pieces, sifting
from entrepot.pipeline.jobs.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

EVENTS_DDL: Final = (
    "node bigint, run bigint, position bigint, time bigint, kind smallint, flags smallint, detail int, number bigint, "
    "place int, peer int, prefix bigint, sequence bigint"
)
NAMES_DDL: Final = "node bigint, run bigint, kind smallint, number bigint, text string"
LONG: Final = pa.int64()
TEXT: Final = pa.string()
FACTS_A_PARTITION: Final = 1 << 20  # of a shuffle: its rows then fit in the memory of a small executor
DOUBT_US: Final = 1_000_000  # before a broker died: nobody may have been told that a message was stored

CONSUMED, FORWARDED, REFUSED, EXPIRED, DEAD, REMOVED, RENUMBERED, PENDING, TRANSIT, VANISHED, DOUBTFUL, LOST = range(12)
STATES: Final = (
    "consumed", "forwarded", "not forwarded", "expired", "dead", "removed", "renumbered", "pending", "in transit",
    "gone with the broker", "in doubt", "lost",
)  # fmt: skip


class Broker:
    """One node of the traces."""

    def __init__(self, node: str, name: str) -> None:
        self.node: Final = node
        self.name: Final = name
        self.runs: Final[dict[int, int]] = {}  # run -> us of its last record
        self.stopped: Final[set[int]] = set()


class Survey:
    """Who wrote the traces, and the names in them."""

    def __init__(self, rows: Sequence[tuple[int, int, int, int, str]]) -> None:
        """``rows`` in the form `traces.NAMES`."""
        self.rows: Final = [row for row in rows if row[2] not in (traces.NAME_PART, traces.NAME_SEAL)]
        self.parts: Final = [  # path, first block, end, facts before, facts
            (path, int(first), int(end), int(before), row[3])
            for row in rows
            if row[2] == traces.NAME_PART
            for path, first, end, before in [row[4].rsplit("\t", 3)]
        ]
        self.brokers: dict[int, Broker] = {}
        self.prefixes: dict[int, str] = {}
        self.causes: dict[tuple[int, int, int], str] = {}
        self.faults: list[str] = []
        self.queues: list[tuple[int, int, int, str, str, int]] = []
        self.consumers: list[tuple[int, int, int, str, int, str, bool]] = []
        self.origins: list[tuple[int, int, int, int, str]] = []
        self.addresses: dict[tuple[int, int, int], str] = {}
        self.nodes: Final = crossings.Nodes()
        self._bridges: set[tuple[int, int, int]] = set()
        for row in self.rows:
            if row[2] == traces.NAME_NODE:
                node, _, name = row[4].partition("\t")
                self.brokers.setdefault(row[0], Broker(node, name)).runs.setdefault(row[1], 0)
            elif row[2] == traces.NAME_UUID:
                uuid, _, ids = row[4].partition("\t")
                self.nodes.add(row[0], uuid, ids)
        for row in self.rows:
            self._take(*row)
        self.chains: Final = _chains(rows)

    @property
    def altered(self) -> list[str]:
        """Return a sentence for each place where a trace was changed after it was written."""
        return [f"{self.name_of(node)}: {said}" for node, row in self.chains.items() for said in seals.wrong(row)]

    @property
    def last_links(self) -> dict[str, str]:
        """Return the last link of the chain of each broker that has one."""
        found = {self.name_of(node): [one.link for one in row if one.link] for node, row in self.chains.items()}
        return {name: links[-1] for name, links in sorted(found.items()) if links}

    def _take(self, node: int, run: int, kind: int, number: int, text: str) -> None:
        broker = self.brokers[node]
        parts = (*text.split("\t"), "", "", "", "")
        if kind == facts.NAME_QUEUE:
            self.queues.append((node, run, number, parts[0], parts[1], int(parts[2])))
        elif kind == facts.NAME_CONSUMER:
            far = self.nodes.node(traces.fingerprint(parts[1])) if parts[1] else 0
            label = f"{parts[0]} ({parts[3]})" if parts[3] else parts[0]
            told = parts[2] or (self.brokers[far].name if far in self.brokers else parts[1])
            if far or (node, run, number) not in self._bridges:  # a core bridge is named again when it knows its peer
                self.consumers.append((node, run, number, label, far, told, bool(parts[1]) and not parts[2]))
            if far:
                self._bridges.add((node, run, number))
        elif kind == facts.NAME_PREFIX:
            self.prefixes[number] = text
        elif kind == facts.NAME_CAUSE:
            self.causes[node, run, number] = text
        elif kind == facts.NAME_ADDRESS:
            self.addresses[node, run, number] = text
        elif kind == facts.NAME_ORIGIN:
            self.origins.append((node, run, number, traces.fingerprint(parts[0]), parts[1] or parts[0]))
        elif kind == traces.NAME_FAULT:
            self.faults.append(f"{broker.name}: {text}")
        elif kind == traces.NAME_STOPPED:
            broker.stopped.add(run)
        elif kind == traces.NAME_UNTIL:
            broker.runs[run] = max(broker.runs.get(run, 0), number)

    def name_of(self, node: int) -> str:
        """Return what a broker is called."""
        return self.brokers[node].name if node in self.brokers else "a broker that is not traced"

    def identity(self, prefix: int | None, sequence: int | None) -> str:
        """Return the message id that clients know."""
        if prefix is None or sequence is None:
            return ""
        head = self.prefixes.get(prefix, "?")
        return head if sequence == facts.NO_SEQUENCE else f"{head}{sequence}"


def _chains(rows: Sequence[tuple[int, int, int, int, str]]) -> dict[int, list[seals.Sealed]]:
    """Return the seals of each broker, by the numbers of its segments."""
    found: dict[int, list[tuple[int, seals.Sealed]]] = {}
    for node, _, kind, serial, text in rows:
        if kind == traces.NAME_SEAL:
            found.setdefault(node, []).append((serial, seals.Sealed(*text.rsplit("\t", 3))))
    return {node: [one for _, one in sorted(row, key=lambda pair: pair[0])] for node, row in found.items()}


class Traces:
    """The traces in some places, for one Spark session, as far as they were written when this was made.

    Everything is decoded by tasks: names a segment each, facts a part of a segment each.
    """

    def __init__(self, spark: SparkSession, places: Sequence[str | Path]) -> None:
        """Find the segments, and read their names. Raises InvalidOption when there are none."""
        self.spark: Final = spark
        self.paths: Final = [str(path.resolve()) for path in traces.segments(places)]
        files = spark.createDataFrame([(path,) for path in self.paths], "path string").repartition(len(self.paths))
        names = files.mapInArrow(_names, NAMES_DDL).toArrow()
        columns = [column.to_pylist() for column in names.columns]
        self.survey: Final = Survey(list(dict.fromkeys(zip(*columns, strict=True))))

    @property
    def partitions(self) -> int:
        """How many a shuffle should have."""
        count = sum(part[4] for part in self.survey.parts)
        return max(self.spark.sparkContext.defaultParallelism, count // FACTS_A_PARTITION + 1)

    def events(self) -> DataFrame:
        """Return every fact (`traces.EVENTS`)."""
        return self._parts().mapInArrow(_events, EVENTS_DDL)

    def _parts(self) -> DataFrame:
        """Return a row for each part of a segment, each of a task of its own."""
        rows = sorted(self.survey.parts)
        parts = self.spark.createDataFrame(rows, "path string, first int, end int, before bigint, facts bigint")
        return parts.repartition(max(1, len(rows)))

    # -- copies -------------------------------------------------------------------------------------------------------

    def copies(self, target: Storage) -> DataFrame:
        """Return a row for each copy: its identity, counts, times (us), its state, and who had it last.

        Their numbers are kept in ``target``/copies.parquet, what they stand for in names.parquet beside it.
        """
        path = pieces.write(self.spark, self._parts(), target, "copies.parquet")
        names = [(node, run, kind, number, text) for node, run, kind, number, text in self.survey.rows]
        fields = [("node", LONG), ("run", LONG), ("kind", pa.int16()), ("number", LONG), ("text", TEXT)]
        self._table(names, fields, 4).coalesce(1).write.parquet(target.path("names.parquet"))
        copies = self._named(self.spark.read.schema(pieces.COPY_DDL).parquet(path)).withColumn("state", self._state())
        return crossings.resolved(copies, self.survey.nodes, self.survey.prefixes)

    def _named(self, copies: DataFrame) -> DataFrame:
        """Add what numbers stand for: the queue, who reads, from where it came, and how the run ended."""
        survey = self.survey
        whose = [("node", LONG), ("run", LONG)]
        queues = self._table(
            survey.queues,
            [*whose, ("place", pa.int32()), ("queue", TEXT), ("address", TEXT), ("routing", pa.int32())],
            3,
        )
        consumers = self._table(
            survey.consumers,
            [
                ("node", LONG),
                ("reader_run", LONG),
                ("reader", pa.int32()),
                ("consumer", TEXT),
                ("far", LONG),
                ("far_name", TEXT),
                ("over_core", pa.bool_()),
            ],
            3,
        )
        origins = self._table(
            survey.origins,
            [
                ("node", LONG),
                ("origin_run", LONG),
                ("origin", pa.int32()),
                ("came_from", LONG),
                ("came_from_name", TEXT),
            ],
            3,
        )
        runs = self._table(
            [
                (node, run, run == max(broker.runs), run in broker.stopped, until)
                for node, broker in survey.brokers.items()
                for run, until in broker.runs.items()
            ],
            [*whose, ("is_last", pa.bool_()), ("is_stopped", pa.bool_()), ("until", LONG)],
            2,
        )
        joined = copies.join(fn.broadcast(queues), ["node", "run", "place"], "left")
        joined = joined.join(fn.broadcast(consumers), ["node", "reader_run", "reader"], "left")
        joined = joined.join(fn.broadcast(origins), ["node", "origin_run", "origin"], "left")
        return joined.join(fn.broadcast(runs), ["node", "run"], "left")

    def _table(
        self, rows: Sequence[tuple[Any, ...]], fields: Sequence[tuple[str, pa.DataType]], keys: int
    ) -> DataFrame:
        """Return a small table; of rows with the same first ``keys`` fields the last counts."""
        last = {row[:keys]: row for row in rows}
        schema = pa.schema(fields)
        columns = list(zip(*last.values(), strict=True)) or [()] * len(fields)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        return self.spark.createDataFrame(pa.Table.from_arrays(arrays, schema=schema))

    def _state(self) -> Column:
        kind = fn.shiftright(fn.col("code"), 16)
        detail = fn.col("code").bitwiseAND(0xFFFF)
        durable = fn.coalesce(fn.col("flags"), fn.lit(facts.DURABLE)).bitwiseAND(facts.DURABLE) != 0
        forwarding = fn.coalesce(fn.col("far"), fn.lit(0)) != 0
        doubtful = ~fn.col("is_stopped") & (fn.col("began_at") > fn.col("until") - DOUBT_US)
        gone = fn.when(~durable, VANISHED).when(doubtful & ~fn.col("is_last"), DOUBTFUL).otherwise(LOST)
        still = fn.when(forwarding & (kind == facts.DELIVERED), TRANSIT).otherwise(PENDING)
        unended = (
            fn.when(~fn.col("is_last"), gone)
            .when(fn.col("is_stopped") & (kind != facts.PENDING), LOST)
            .otherwise(fn.when(fn.col("is_stopped"), PENDING).otherwise(still))
        )
        return (
            fn.when((kind == facts.ACKNOWLEDGED) & (fn.col("refused") > 0), REFUSED)
            .when((kind == facts.ACKNOWLEDGED) & forwarding, FORWARDED)
            .when(kind == facts.ACKNOWLEDGED, CONSUMED)
            .when(kind == facts.EXPIRED, EXPIRED)
            .when(kind == facts.DEAD, DEAD)
            .when((kind == facts.REMOVED) & (detail == facts.RENUMBERED), RENUMBERED)
            .when(kind == facts.REMOVED, REMOVED)
            .otherwise(unended)
        )


def _events(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for row in batch.to_pylist():
            part = traces.Part(row["first"], row["end"], row["before"], row["facts"])
            yield from traces.Segment(Path(row["path"])).events(part).to_batches(max_chunksize=1 << 16)


def _names(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for path in batch.column(0).to_pylist():
            yield from traces.Segment(Path(path)).name_rows().to_batches()


def shuffled(spark: SparkSession, partitions: int) -> AbstractContextManager[None]:
    """Let shuffles of ``spark`` have so many partitions meanwhile."""
    return sifting.set_to(spark, "spark.sql.shuffle.partitions", str(partitions))
