"""Writers for Spark: staged commit, duplicate ids, or at least once.

`write` runs in tasks, `commit` and `abort` in the driver, each in processes of their own; what they need of one another
travels in `Message`. Rows come as Arrow batches.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from entrepot.base.errors import InvalidOption, ProtocolViolation, StageError
from entrepot.driver import stages
from entrepot.driver.stages import Author, Staged
from entrepot.pipeline import schema as columns
from entrepot.pipeline import staging
from entrepot.pipeline.blocking import Brokers
from entrepot.pipeline.options import DUPLICATE_ID, STAGED, Options
from entrepot.pipeline.rows import Encoder

if TYPE_CHECKING:
    import pyarrow as pa

# What Spark tells tasks about the query that they work for (found by looking at what a task of PySpark 4.3 is given).
BATCH_ID: Final = "streaming.sql.batchId"
QUERY_ID: Final = "sql.streaming.queryId"  # kept in the checkpoint
JOB_GROUP: Final = "spark.jobGroup.id"  # the identity of the query's run, unless the program names a group of its own
JOB_DESCRIPTION: Final = "spark.job.description"  # says "runId = ..." unless the program describes its job
WRITE_ID: Final = "spark.sql.execution.id"
UNKNOWN_RUN: Final = "a run of this query"
JOB: Final = "job"  # counts the batches of a write that belongs to no query, where no option says who does

log = logging.getLogger(__name__)


class Message(WriterCommitMessage):
    """What a task tells the driver."""

    def __init__(self, staged: Staged) -> None:
        self.staged = staged


class _Writing:
    """What batch and stream have in common."""

    def __init__(self, options: Options, schema: StructType, *, run: str = "") -> None:
        properties = [name.strip() for name in options.text("properties").split(",") if name.strip()]
        fields = [(field.name, field.dataType.simpleString()) for field in schema.fields]
        columns.check_written(fields, properties, options.destination)
        names = [name for name, _ in fields]
        self.mode = options.text("commit.mode")
        if self.mode == DUPLICATE_ID and "duplicate_id" not in names:
            raise InvalidOption(
                "commit.mode duplicate-id needs a column duplicate_id",
                remedy="fill it with what identifies a row for ever: a business key, or broker and position",
            )
        self.options = options
        self.names = names
        self.properties = properties
        self.run = run

    def write(self, batches: Iterator[pa.RecordBatch]) -> Message:
        """Write the rows of one task; return what the driver needs to make them count."""
        encoder = Encoder(self.names, self.properties, self.options.destination)
        context = TaskContext.get()
        assert context is not None
        sink, batch, author = self._identity(context)
        first = next((found for found in batches if found.num_rows), None)
        if first is None:
            return Message(Staged(sink, batch, "", 0, author=author))
        wire = Brokers(self.options).one_of(context.partitionId() + context.attemptNumber())
        try:
            outlet = staging.Outlet(wire)
            part, fixed = staging.stage(wire, sink, batch, author) if self.mode == STAGED else ("", "")
            outlet.send(encoder.frames(first, fixed))
            for found in batches:
                outlet.send(encoder.frames(found, fixed))
            if part:
                return Message(staging.staged(outlet, sink, batch, part, author))
            outlet.confirm()
            return Message(Staged(sink, batch, "", outlet.count, author=author))
        finally:
            wire.close()

    def commit(self, messages: Sequence[WriterCommitMessage | None], batch: int | None) -> None:
        """Make the batch count."""
        found = _staged(messages)
        sink = stages.sinks(found)
        if self.mode != STAGED or not sink:
            return
        number = stages.batch_of(found)
        if batch is not None and number != batch:
            raise ProtocolViolation(f"tasks staged batch {number}, and Spark commits batch {batch}")
        coordination = staging.Coordination(self.options)
        if self.options.text("commit.atomic") == "true":
            try:
                stages.check_at_once(found)
            except StageError:
                coordination.abort(sink, number, stages.candidates(found))
                raise
        # a batch without rows is decided, too: run again, it must not have some
        author = stages.author_of(found)
        committed = coordination.commit(sink, number, stages.candidates(found), author, forget=sink == self.run)
        told = stages.difference(sink, number, committed, sum(message.count for message in found if message))
        if told and author.query:  # a query repeats its last batch; what it is joined with may have changed meanwhile
            log.warning("%s", told)
        elif told:
            raise StageError(
                told, remedy="if this is another batch, give it another number; if it is the same, all is well"
            )

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Drop what was staged."""
        found = _staged(messages)
        parts = stages.candidates(found)
        if parts:
            staging.Coordination(self.options).abort(stages.sinks(found), stages.batch_of(found), parts)

    def _identity(self, context: TaskContext) -> tuple[str, int, Author]:
        """Return the sink, the number of the batch and who counts: as the options say, or as Spark counts."""
        sink = self.options.text("sink")
        written = self.options.text("batch")
        query = context.getLocalProperty(QUERY_ID) or ""
        counted = context.getLocalProperty(BATCH_ID) or ""
        if self.run and not (sink and written):  # nobody counts: every write is a batch of its own
            return self.run, 0, Author()
        author = _author(context, self.options.text("counter"), query)
        if self.run:
            return sink, int(written), author
        if not counted or not (sink or query):
            raise InvalidOption("Spark does not say which batch of which query this is", remedy='add the option "sink"')
        return sink or query, int(counted), author


def _author(context: TaskContext, named: str, query: str) -> Author:
    """Return who counts. The run is told only where Spark's own word for it is there: it must be new at every start."""
    if not query:
        return Author(named or JOB)
    run = context.getLocalProperty(JOB_GROUP) or ""
    if not run or f"runId = {run}" not in (context.getLocalProperty(JOB_DESCRIPTION) or ""):
        return Author(named or query, UNKNOWN_RUN, query=True)
    return Author(named or query, run, context.getLocalProperty(WRITE_ID) or "", query=True)


def _staged(messages: Sequence[WriterCommitMessage | None]) -> list[Staged | None]:
    return [message.staged if isinstance(message, Message) else None for message in messages]


class BatchWriter(DataSourceArrowWriter):
    """Writes for ``df.write``."""

    def __init__(self, writing: _Writing) -> None:
        self._writing = writing

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task."""
        return self._writing.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Make all rows visible at once."""
        self._writing.commit(messages, None)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Drop what was staged."""
        self._writing.abort(messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes for ``df.writeStream``."""

    def __init__(self, writing: _Writing) -> None:
        self._writing = writing

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task."""
        return self._writing.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Make the rows of a batch visible, once, however often Spark runs it."""
        self._writing.commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Drop what was staged."""
        self._writing.abort(messages)


def batch_writer(options: Options, schema: StructType, overwrite: bool) -> BatchWriter:
    """Return the writer of a batch. Raises InvalidOption."""
    import uuid  # noqa: PLC0415

    _refuse_overwrite(overwrite)
    return BatchWriter(_Writing(options, schema, run=f"write-{uuid.uuid4().hex}"))


def stream_writer(options: Options, schema: StructType, overwrite: bool) -> StreamWriter:
    """Return the writer of a stream. Raises InvalidOption."""
    _refuse_overwrite(overwrite)
    if options.text("batch"):
        raise InvalidOption("a stream counts its batches itself", remedy="leave the option batch out")
    if options.text("counter"):
        raise InvalidOption("a stream is known by its checkpoint", remedy="leave the option counter out")
    return StreamWriter(_Writing(options, schema))


def _refuse_overwrite(overwrite: bool) -> None:
    if overwrite:
        raise InvalidOption(
            "messages cannot be overwritten: a queue belongs to its consumers", remedy='use mode("append"), or purge it'
        )
