"""Queues and topics into an archive: Parquet by destination, day and hour; each message in it once, whoever crashes.

A micro-batch is written where nobody looks, then *decided*: one file names the files that it consists of. Only then do
they move to their places, and only then does Spark count the batch, and the source settle its messages at the brokers.
Whoever dies in between leaves a batch that is repeated (not decided: the brokers still hold its messages), or completed
(decided: what is left to move is moved, and nothing is written again).
"""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from entrepot.base.errors import InvalidOption, PeerError
from entrepot.pipeline import options as option_table
from entrepot.pipeline import schema as columns
from entrepot.pipeline.causes import PipelineError, lasts, told_apart
from entrepot.pipeline.jobs import layout
from entrepot.pipeline.jobs.layout import Kept, Mark
from entrepot.pipeline.jobs.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SUBSCRIPTION: Final = "archive"
BATCH_OCTETS: Final = 128_000_000  # of a batch, unless told otherwise: Java holds no more of large messages than it can
EVERY: Final = "10 seconds"  # a trigger: fewer and larger files; what waits is safe at the brokers meanwhile
DECISIONS_KEPT: Final = 4  # Spark repeats the last batch at most
RETRY_S: Final = 2.0  # before a query whose broker is gone begins again
LOOK_S: Final = 0.2
NAME_MAX: Final = 100  # of what people recognise in the name of a checkpoint
CHECKPOINT_FILES: Final = "spark.sql.streaming.checkpointFileManagerClass"
_STREAMING: Final = "org.apache.spark.sql.execution.streaming."
RENAMING_CHECKPOINTS: Final = (
    None,  # Spark takes the one of FileContext
    *(
        f"{_STREAMING}{middle}File{kind}BasedCheckpointFileManager"
        for middle in ("", "checkpointing.")
        for kind in ("System", "Context")
    ),
)
FAILURES_MAX: Final = 5  # of Spark itself, in a row, before a query is given up


class Batch(msgspec.Struct, frozen=True):
    """A batch that is decided: files in ``staging`` (by number) and the places that they get."""

    query: str
    number: int
    staging: str
    sources: list[str]
    files: list[Kept]
    seconds: float  # that writing took

    @property
    def rows(self) -> int:
        """How many messages it has."""
        return sum(file.rows for file in self.files)


Told = Callable[[str, Batch], None]
"""What is done with a batch when it is in its place: (destination, batch)."""


class Archive:
    """One archive. Made where there is none yet; refused where there is something else."""

    def __init__(self, spark: SparkSession, root: str, *, create: bool = False) -> None:
        self.spark = spark
        self.storage = Storage(spark, root)
        text = self.storage.read(layout.MARK)
        if text is None:
            others = [name for name in self.storage.names("") if name != layout.KEPT]
            if others:
                raise layout.foreign(self.storage.root, f"it holds {others[0]}, and no {layout.MARK}")
            if not create:
                raise layout.foreign(self.storage.root, "it is empty, or not there")
            mark = Mark(layout.FORMAT, layout.VERSION, uuid.uuid4().hex)
            self.storage.make(layout.KEPT)
            self.storage.write(layout.MARK, msgspec.json.encode(mark).decode())
            text = self.storage.read(layout.MARK) or ""
        self.mark = layout.read_mark(text, self.storage.root)

    def land(self, query: str, number: int, subscription: str, frame: DataFrame) -> Batch:
        """Put a batch into its place, once, however often this is called for it; return what it consists of."""
        name = f"{layout.BATCHES}/{query}/{number:012}.json"
        text = self.storage.read(name)
        if text is None:
            batch = self._write(query, number, subscription, frame)
            self.storage.write(name, msgspec.json.encode(batch).decode())
            text = self.storage.read(name) or ""  # of two drivers, one has decided
        batch = msgspec.json.decode(text, type=Batch)
        for source, file in zip(batch.sources, batch.files, strict=True):
            self.storage.move(source, file.path)
        self.storage.sync([*(file.path for file in batch.files), name])
        self.storage.remove(batch.staging)
        if number >= DECISIONS_KEPT:
            self.storage.remove(f"{layout.BATCHES}/{query}/{number - DECISIONS_KEPT:012}.json")
        return batch

    def read(self, files: Sequence[str]) -> DataFrame:
        """Return the messages in ``files``, with all columns of an archive."""
        schema = ddl(layout.ARCHIVED)
        if not files:
            empty: list[tuple[Any, ...]] = []
            return self.spark.createDataFrame(empty, schema)
        reader = self.spark.read.schema(schema).option("basePath", self.storage.root)
        return reader.parquet(*(self.storage.path(name) for name in files))

    def _write(self, query: str, number: int, subscription: str, frame: DataFrame) -> Batch:
        started = time.monotonic()
        attempt = f"{layout.STAGING}/{query}-{number}-{uuid.uuid4().hex[:8]}"
        rows = shaped(frame, subscription, datetime.now(UTC))
        rows.write.mode("overwrite").partitionBy(*layout.PARTITION_NAMES).parquet(self.storage.path(attempt))
        sources: list[str] = []
        files: list[Kept] = []
        for source, octets in self.storage.files(attempt):
            found = self.storage.look(source, octets)
            folder = layout.partition_of(source).removeprefix(f"{attempt}/")
            place = f"{folder}/{query.replace('-', '')[:12]}-{number:08}-{len(files):04}.parquet"
            sources.append(source)
            files.append(Kept(place, found.rows, octets))
        return Batch(query, number, attempt, sources, files, round(time.monotonic() - started, 3))


def ddl(wanted: Sequence[columns.Column]) -> str:
    """Return columns as Spark writes a schema."""
    return ", ".join(f"{column.name} {column.type}" for column in wanted)


def shaped(frame: DataFrame, subscription: str, now: datetime) -> DataFrame:
    """Return messages as an archive keeps them; the schema of what is written carries the version and the meanings."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    archived = f.lit(now)
    sent = f.col("timestamp")
    moment = f.when(sent <= archived + f.expr("interval 1 day"), sent).otherwise(archived)
    seconds = f.unix_seconds(f.col("time"))
    rows = frame.withColumn("archived_at", archived).withColumn("subscription", f.lit(subscription))
    rows = rows.withColumn("time", moment)
    rows = rows.withColumn("date", f.date_add(f.lit("1970-01-01").cast("date"), f.floor(seconds / 86_400).cast("int")))
    rows = rows.withColumn("hour", f.pmod(f.floor(seconds / 3_600), f.lit(24)).cast("int"))
    return rows.select(*stored_columns(), *layout.PARTITION_NAMES)


def stored_columns() -> list[Any]:
    """Return the columns of a file, with what they mean and, at the first, the version."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    found: list[Any] = []
    for column in layout.STORED:
        metadata: dict[str, Any] = {"comment": column.meaning} if column.meaning else {}
        if not found:
            metadata[layout.VERSION_KEY] = layout.VERSION
        found.append(f.col(column.name).cast(column.type).alias(column.name, metadata=metadata))
    return found


class Archiver:
    """The queries that fill an archive: one for each destination, each with a checkpoint in the archive."""

    def __init__(
        self,
        spark: SparkSession,
        root: str,
        destinations: Sequence[str],
        given: Mapping[str, str],
        *,
        subscription: str = SUBSCRIPTION,
        checkpoints: str = "",
        told: Told = lambda destination, batch: None,
    ) -> None:
        """``destinations``: ``/queue/...`` or ``/topic/...``. ``given``: further options of the source, ``url`` first.

        ``checkpoints``: where Spark keeps those of the queries; "": in the archive, if it can be trusted with them.
        Raises InvalidOption, before anything is read, for what cannot be meant.
        """
        if not destinations:
            raise InvalidOption("nothing to archive", remedy="name a queue or a topic")
        self.spark = spark
        self.told = told
        self._given = {
            destination: _source(destination, {**given, "subscription": _reader(destination, subscription)})
            for destination in destinations
        }
        self.archive = Archive(spark, root, create=True)
        self._checkpoints = checkpoints.rstrip("/") or self._in_the_archive()
        self._go_on_as(subscription)
        self._failures: dict[str, int] = {}
        self._landed: dict[str, int] = {}

    def once(self) -> None:
        """Take what waits now, one destination after the other, and end. Raises what ended the first that failed."""
        from entrepot.pipeline.source import ADMISSION_CONTROL  # noqa: PLC0415 - needs PySpark

        failures: list[Exception] = []
        for destination in self._given:
            try:
                while self._take_what_waits(destination) and not ADMISSION_CONTROL:
                    pass  # before Spark 4.2 a run is one batch: the next one takes what is left
            except Exception as error:
                failures.append(told_apart(error))
        if failures:
            raise failures[0]

    def _take_what_waits(self, destination: str) -> int:
        """Run a query to its end; return how many messages it landed."""
        before = self._landed.get(destination, 0)
        self._start(destination, {"availableNow": True}).awaitTermination()
        return self._landed.get(destination, 0) - before

    def follow(self, ended: threading.Event, every: str = EVERY) -> None:
        """Go on until ``ended``: a query whose brokers are gone begins again. Raises what does not go away."""
        running: dict[str, StreamingQuery] = {}
        again: dict[str, float] = dict.fromkeys(self._given, 0.0)
        try:
            while not ended.is_set():
                for destination in self._given:
                    query = running.get(destination)
                    if query is not None and query.isActive:
                        continue
                    if query is not None:
                        del running[destination]
                        self._excuse(destination, query.exception())
                        again[destination] = time.monotonic() + RETRY_S
                    if time.monotonic() >= again[destination]:
                        running[destination] = self._start(destination, {"processingTime": every})
                ended.wait(LOOK_S)
        finally:
            for query in running.values():
                query.stop()

    def _go_on_as(self, subscription: str) -> None:
        """Keep the name under which an older version began to read a topic: what it holds is there."""
        begun = Storage(self.spark, self._checkpoints)
        for destination, options in self._given.items():
            if begun.exists(_query(destination, subscription)):
                options["subscription"] = subscription

    def _in_the_archive(self) -> str:
        """Return the place of checkpoints in the archive. Raises InvalidOption where Spark would rename there."""
        files = self.archive.storage
        if not files.renames and self.spark.conf.get(CHECKPOINT_FILES, None) in RENAMING_CHECKPOINTS:
            raise InvalidOption(
                f"{files.root} is an object store, where checkpoints cannot be renamed into their place",
                remedy="name a directory on a disk or on HDFS for them (--checkpoints), or set "
                f"{CHECKPOINT_FILES} to one for object stores",
            )
        return files.path(layout.CHECKPOINTS)

    def _excuse(self, destination: str, error: Exception | None) -> None:
        """Raise ``error`` unless it may go away by itself: brokers come back, Spark may lack memory."""
        if error is None:
            return
        found = told_apart(error)
        if isinstance(found, PipelineError):
            if lasts(found):
                raise found
            return
        self._failures[destination] = self._failures.get(destination, 0) + 1
        if self._failures[destination] > FAILURES_MAX:
            raise found

    def _start(self, destination: str, trigger: dict[str, Any]) -> StreamingQuery:
        reader = self._given[destination]["subscription"]
        checkpoint = f"{self._checkpoints}/{_query(destination, reader)}"

        def land(frame: DataFrame, number: int) -> None:
            query = self.spark.sparkContext.getLocalProperty("sql.streaming.queryId")
            if not query:
                raise PeerError("Spark does not say which query this is", remedy="PYSPARK_PIN_THREAD must not be false")
            batch = self.archive.land(query, number, reader, frame)
            self._landed[destination] = self._landed.get(destination, 0) + batch.rows
            self.told(destination, batch)
            self._failures.pop(destination, None)

        stream = self.spark.readStream.format("entrepot").options(**self._given[destination]).load()
        writer = stream.writeStream.foreachBatch(land).option("checkpointLocation", checkpoint)
        return writer.trigger(**trigger).start()


def _reader(destination: str, subscription: str) -> str:
    """Return the name of who takes a destination: leases of queues may share one, a subscription is to one topic."""
    kind, name = option_table.split_destination(destination)
    return f"{subscription}.{name}" if kind == "topic" else subscription


def _query(destination: str, reader: str) -> str:
    """Return the name of a query's checkpoint."""
    name = re.sub(r"[^A-Za-z0-9.-]", "_", f"{reader}{destination}")[:NAME_MAX]
    return f"{name}-{uuid.uuid5(uuid.NAMESPACE_URL, f'{reader} {destination}').hex[:8]}"


def _source(destination: str, given: Mapping[str, str]) -> dict[str, str]:
    kind, name = option_table.split_destination(destination)
    words = {"maxOctetsPerTrigger": str(BATCH_OCTETS), **given, kind: name}
    option_table.read(words, option_table.STREAM)
    return words
