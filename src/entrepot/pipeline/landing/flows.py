"""A flow as a query of Spark: the source, what is parsed, and the sink that keeps a batch once.

Each sink is one that Spark keeps exactly once by itself: the log of files of Parquet, JSON and CSV (who reads them
without Spark sees the files of a batch that is repeated twice), the transactions of Delta and Iceberg. So there is no
``foreachBatch`` here, and nothing to undo.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from entrepot.pipeline.landing.configuration import AVRO, JSON, Flow, Landing, written

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

PARSED: Final = "parsed"
CORRUPT: Final = "_unparsed"


def start(spark: SparkSession, landing: Landing, flow: Flow) -> StreamingQuery:
    """Start the query of ``flow``; it goes on where the last one with its checkpoint was. Raises what Spark raises."""
    return _begun(_writer(spark, landing, flow).trigger(processingTime=flow.every), flow)


def start_once(spark: SparkSession, landing: Landing, flow: Flow) -> StreamingQuery:
    """Start the query of ``flow`` as `start` does; it ends with what is there now."""
    return _begun(_writer(spark, landing, flow).trigger(availableNow=True), flow)


def frame(spark: SparkSession, flow: Flow) -> DataFrame:
    """Return the rows of ``flow`` as they land."""
    return shaped(spark.readStream.format("entrepot").options(**flow.options).load(), flow)


def _writer(spark: SparkSession, landing: Landing, flow: Flow) -> DataStreamWriter:
    rows = frame(spark, flow)
    writer = rows.writeStream.format(flow.format).outputMode("append").options(**written(flow)).queryName(flow.name)
    writer = writer.option("checkpointLocation", f"{landing.checkpoints.rstrip('/')}/{flow.name}")
    columns = [*flow.partition_by, *([PARSED] if flow.parse and flow.format != "iceberg" else [])]
    return writer.partitionBy(*columns) if columns else writer


def _begun(writer: DataStreamWriter, flow: Flow) -> StreamingQuery:
    return writer.toTable(flow.path) if flow.format == "iceberg" else writer.option("path", flow.path).start()


def shaped(frame: DataFrame, flow: Flow) -> DataFrame:
    """Return the rows as they land: parsed columns beside those of the message, where ``parse`` asks for them."""
    if not flow.parse:
        return frame
    from pyspark.sql import functions as f  # noqa: PLC0415 - needs PySpark

    # What parses is text whoever sent it, as text or as octets (STOMP's clients give a length): the octets are read.
    octets = f.col("body") if "body" in frame.columns else f.col("text").cast("binary")
    with_read = frame.withColumn("_read", _READ[flow.parse](octets, flow.schema))
    fields = [name for name in with_read.schema["_read"].dataType.fieldNames() if name != CORRUPT]  # type: ignore[attr-defined]
    good = _is_read(fields) if flow.parse == AVRO else f.col("_read").isNotNull() & f.col(f"_read.{CORRUPT}").isNull()
    taken = [f.when(good, f.col(f"_read.`{name}`")).alias(name) for name in fields]
    kept = [f.col(name) for name in frame.columns if name not in fields]
    return with_read.select(*taken, *kept, good.alias(PARSED))


def _json(octets: Column, schema: str) -> Column:
    """Return what JSON says; null for octets that are no UTF-8.

    To decode them is an error in Spark 4, which ends the query at each restart; U+FFFD in their place changes them.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415 - as above

    modes = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT}
    return f.from_json(f.try_validate_utf8(octets.cast("string")), f"{schema}, {CORRUPT} string", modes)


def _avro(octets: Column, schema: str) -> Column:
    """Return what Avro says; null, or a row of nulls, for what is none.

    By its name in SQL: Spark then says what is missing without its package, where a call from Python says nothing.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415 - as above

    return f.call_function("from_avro", octets, f.lit(schema), f.create_map(f.lit("mode"), f.lit("PERMISSIVE")))


def _is_read(fields: Sequence[str]) -> Column:
    """Say whether a record was read: of what is none Spark makes nulls."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - as above

    return f.coalesce(*(f.when(f.col(f"_read.`{name}`").isNotNull(), True) for name in fields), f.lit(False))


_READ: Final[dict[str, Callable[[Column, str], Column]]] = {JSON: _json, AVRO: _avro}
