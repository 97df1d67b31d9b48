"""A flow as a query of Spark: the source, what is parsed, and the sink that keeps a batch once.

Each sink is one that Spark keeps exactly once by itself: the log of files of Parquet, JSON and CSV (who reads them
without Spark sees the files of a batch that is repeated twice), the transactions of Delta and Iceberg. So there is no
``foreachBatch`` here, and nothing to undo.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from entrepot.pipeline.landing.configuration import Flow, Landing, written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
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

    given = {"text": f.col("text"), "body": f.decode(f.col("body"), "UTF-8")}
    schema = f"{flow.schema}, {CORRUPT} string"
    # A client that gives a length sends octets (STOMP does); what parses as JSON is text whoever sent it.
    said = f.coalesce(*(given[name] for name in ("text", "body") if name in frame.columns))
    read = f.from_json(said, schema, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT})
    with_read = frame.withColumn("_read", read)
    good = f.col("_read").isNotNull() & f.col(f"_read.{CORRUPT}").isNull()
    fields = [name for name in with_read.schema["_read"].dataType.fieldNames() if name != CORRUPT]  # type: ignore[attr-defined]
    taken = [f.when(good, f.col(f"_read.`{name}`")).alias(name) for name in fields]
    kept = [f.col(name) for name in frame.columns if name not in fields]
    return with_read.select(*taken, *kept, good.alias(PARSED))
