"""Readers for Spark: a batch that browses or reads a claimed range, and a stream that settles what Spark committed.

Spark makes these objects in several processes and calls the driver's methods in one of them and `read` in others; so
they are made from options alone, and connect when they are asked for something.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructField, StructType

from entrepot.base.errors import InvalidOption
from entrepot.base.uri import Endpoint
from entrepot.driver.offsets import Offsets
from entrepot.driver.planning import Range, split
from entrepot.driver.scope import parts_of
from entrepot.driver.shard import Piece
from entrepot.pipeline import schema as columns
from entrepot.pipeline.blocking import Brokers
from entrepot.pipeline.browsing import browse, looked_at
from entrepot.pipeline.claims import Held
from entrepot.pipeline.leases import read_range
from entrepot.pipeline.options import Options
from entrepot.pipeline.subscription import Subscription

if TYPE_CHECKING:
    import pyarrow as pa

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

    ADMISSION_CONTROL = True
except ImportError:  # before 4.2: see ReducedStreamReader
    ADMISSION_CONTROL = False


class Part(InputPartition):
    """What one task reads. ``piece`` is None for a browse of ``broker``, which was at ``place``.

    ``destination``: which queue, where several are read.
    """

    def __init__(self, broker: str, piece: Piece | None, place: Endpoint | None = None, destination: str = "") -> None:
        super().__init__(broker)
        self.destination = destination if piece is None else piece.destination
        self.broker = broker
        self.piece = piece
        self.place = place


class _Reading:
    """What batch and stream have in common: the work of a task."""

    def __init__(self, options: Options, schema: StructType) -> None:
        fields = [(field.name, _type_of(field)) for field in schema.fields]
        columns.check_read(fields)
        columns.check_chosen(fields, options.text("columns"))
        self.options = options
        self.schema = schema

    def rows(self, part: Part) -> Iterator[pa.RecordBatch]:
        """Yield the messages of one task. Repeatable, without side effects."""
        from entrepot.pipeline.arrow import Batches  # noqa: PLC0415 - needs pyarrow, which drivers may lack

        brokers = Brokers(self.options)
        octets = self.options.number("batchOctets")
        subject = self.options.subject(part.destination)
        batches = Batches(arrow_schema(self.schema), part.broker, positions=part.piece is not None)
        if part.piece is None:
            portions = browse(brokers, part.broker, subject, octets, batches.names, part.place)
        else:
            direct = self.options.text("shortCircuit") == "true"
            portions = read_range(brokers, subject, part.piece, octets, batches.names, direct=direct)
        for portion in portions:
            yield from batches.of(portion)


class BatchReader(DataSourceReader):
    """``spark.read``: browses, or reads the range that `pipeline.claim` took."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._reading = _Reading(options, schema)

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the tasks: one for each broker that is browsed, or pieces of the claimed range."""
        options = self._reading.options
        text = options.text("range")
        if not text:
            return [
                Part(wire.broker, None, wire.place, destination)
                for wire, destination in looked_at(Brokers(options), options.scope())
            ] or [Part("", Piece("", "", 0, 0, 0))]
        held = Held.parse(text, options)
        ranges = [Range(broker, low, held.end[broker]) for broker, low in held.begin.items()]
        pieces = split(ranges, options.number("minPartitions"), cores())
        if not pieces:
            return [Part("", Piece("", "", 0, 0, 0))]  # Spark reads "no partitions" as one that is None
        return [_part(piece, held.epochs[piece.shard]) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of one partition."""
        assert isinstance(partition, Part)
        return self._reading.rows(partition)


def _part(range_: Range, epoch: int) -> Part:
    broker, _, destination = parts_of(range_.shard)
    return Part(broker, Piece(broker, "", epoch, range_.low, range_.high, destination))


class _Stream(DataSourceStreamReader):
    """The driver's methods that all versions of Spark have."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._reading = _Reading(options, schema)
        self._options = options
        self._made: Subscription | None = None

    @property
    def subscription(self) -> Subscription:
        """The hold on the brokers, made when it is first needed."""
        if self._made is None:
            self._made = Subscription(self._options)
        return self._made

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return where a new query begins: always the same, Spark asks again when it replays the first batch."""
        return self.subscription.initial().as_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Plan the tasks of a batch; after a restart it is asked for the same batch again."""
        subscription = self.subscription
        pieces = subscription.plan(
            subscription.parse(start), subscription.parse(end), self._options.number("minPartitions"), cores()
        )
        return [Part(piece.broker, piece) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of one partition."""
        assert isinstance(partition, Part)
        return self._reading.rows(partition)

    def stop(self) -> None:
        """Drop the connections; what is held stays held for the next run."""
        if self._made is not None:
            self._made.close()


class ReducedStreamReader(_Stream):
    """``spark.readStream`` before Spark 4.2, which does not tell a source where a batch begins.

    So it settles in `commit`, which comes one batch late and never for the last; nothing is lost or doubled by that,
    the brokers only keep messages longer. A batch may hold ``maxMessagesPerTrigger`` more than that when it follows a
    restart, and AvailableNow is one batch.
    """

    _end: Offsets | None = None

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802
        """Claim the next batch behind all that was claimed before; return its end."""
        subscription = self.subscription
        if self._end is None:
            self._end = subscription.tails()
        self._end = subscription.latest(self._end, self._options.number("maxMessagesPerTrigger"), settle=False)
        return self._end.as_json()

    def commit(self, end: dict[str, Any]) -> None:
        """Settle a batch that Spark is done with."""
        self.subscription.settle(self.subscription.parse(end).shards)


if ADMISSION_CONTROL:

    class StreamReader(_Stream, SupportsTriggerAvailableNow):
        """``spark.readStream`` from Spark 4.2 on."""

        _begun: Offsets | None = None

        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
            """Settle what Spark committed, that is all before ``start``; claim the next batch; return its end."""
            subscription = self.subscription
            begin = subscription.parse(start)
            self._begun = begin
            return subscription.latest(begin, _budget(limit)).as_json()

        def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
            """Return where what waits ends, for the progress of the query: `pipeline.lag` reckons with it."""
            if self._begun is None or self._made is None:
                return None
            found = self._made.waiting(self._begun)
            return None if found is None else found.as_json()

        def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
            """Return how many messages a batch may take."""
            return ReadMaxRows(self._options.number("maxMessagesPerTrigger"))

        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
            """Take only what is there now, from here on."""
            self.subscription.prepare_available_now()

    def _budget(limit: ReadLimit) -> int | None:
        if isinstance(limit, ReadMaxRows):
            return limit.max_rows
        if isinstance(limit, ReadAllAvailable):
            return None
        raise InvalidOption(f"a read limit of the kind {type(limit).__name__} is not supported", remedy="limit rows")


def stream_reader(options: Options, schema: StructType) -> DataSourceStreamReader:
    """Return the reader for this version of Spark."""
    return StreamReader(options, schema) if ADMISSION_CONTROL else ReducedStreamReader(options, schema)


def _type_of(field: StructField) -> str:
    """Return the type that a column is checked as; properties may be a struct. Raises InvalidOption."""
    if field.name != "properties" or not isinstance(field.dataType, StructType):
        return field.dataType.simpleString()
    columns.check_typed([(each.name, each.dataType.simpleString()) for each in field.dataType.fields])
    return columns.BY_NAME["properties"].type


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return ``schema`` as Arrow has it, times in UTC; from Spark 4.2 on that must be said, before it could not be."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - needs pyarrow

    if "timezone" in inspect.signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)


def cores() -> int:
    """Return how many tasks are worth planning at once, as far as the driver can know."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
