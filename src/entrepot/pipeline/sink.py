"""Writers for Spark: staged commit, duplicate ids, or at least once.

`write` runs in tasks, `commit` and `abort` in the driver, each in processes of their own; what they need of one another
travels in `Message`. Rows come as Arrow batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from entrepot.base.errors import InvalidOption, ProtocolViolation, StageError
from entrepot.pipeline import schema as columns
from entrepot.pipeline import stages, staging
from entrepot.pipeline.options import DUPLICATE_ID, STAGED, Options
from entrepot.pipeline.rows import Encoder
from entrepot.pipeline.stages import Staged
from entrepot.pipeline.wire import Brokers

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ID: Final = "streaming.sql.batchId"
QUERY_ID: Final = "sql.streaming.queryId"


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
        sink, batch = self._identity(context)
        first = next((found for found in batches if found.num_rows), None)
        if first is None:
            return Message(Staged(sink, batch, "", 0))
        brokers = Brokers(self.options)
        wire = staging.target(brokers, self.options, context.partitionId() + context.attemptNumber())
        try:
            outlet = staging.Outlet(wire)
            part, fixed = staging.stage(wire, sink, batch) if self.mode == STAGED else ("", "")
            outlet.send(encoder.frames(first, fixed))
            for found in batches:
                outlet.send(encoder.frames(found, fixed))
            if part:
                return Message(staging.staged(outlet, sink, batch, part))
            outlet.confirm()
            return Message(Staged(sink, batch, "", outlet.count))
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
        coordination.commit(sink, number, stages.candidates(found), forget=sink == self.run)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Drop what was staged."""
        found = _staged(messages)
        parts = stages.candidates(found)
        if parts:
            staging.Coordination(self.options).abort(stages.sinks(found), stages.batch_of(found), parts)

    def _identity(self, context: TaskContext) -> tuple[str, int]:
        """Return the sink and the number of the batch: as the options say, or as Spark counts."""
        sink = self.options.text("sink")
        written = self.options.text("batch")
        query = context.getLocalProperty(QUERY_ID) or ""
        counted = context.getLocalProperty(BATCH_ID) or ""
        if self.run:  # a batch write: nobody counts, so every one is a batch of its own unless options name it
            return (sink, int(written)) if sink and written else (self.run, 0)
        if not counted or not (sink or query):
            raise InvalidOption("Spark does not say which batch of which query this is", remedy='add the option "sink"')
        return sink or query, int(counted)


def _staged(messages: Sequence[WriterCommitMessage | None]) -> list[Staged | None]:
    return [message.staged if isinstance(message, Message) else None for message in messages]


class BatchWriter(DataSourceArrowWriter):
    """``df.write``."""

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
    """``df.writeStream``."""

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
    return StreamWriter(_Writing(options, schema))


def _refuse_overwrite(overwrite: bool) -> None:
    if overwrite:
        raise InvalidOption(
            "messages cannot be overwritten: a queue belongs to its consumers", remedy='use mode("append"), or purge it'
        )
