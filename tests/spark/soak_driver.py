"""The driver of the kill harness: a program as a user would write it, which starts its queries again when one fails.

    python soak_driver.py CONFIGURATION.json

Two queries: one carries ``in`` to ``out`` through the sink, one lands ``archive`` in Parquet. When the file ``finish``
appears it stops them, writes the ids in the Parquet files to ``ids`` as Spark reads them, and ends.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from entrepot import pipeline
from entrepot.base.errors import LeaseError
from entrepot.pipeline import options as option_table
from entrepot.pipeline.blocking import Brokers
from entrepot.pipeline.datasource import EntrepotDataSource
from entrepot.pipeline.source import Part, StreamReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery


class OnReceiptReader(StreamReader):
    """What others do: settle when the task has read, whether or not its result is safe. The harness must see it."""

    def read(self, partition: InputPartition) -> Iterator[Any]:
        yield from super().read(partition)
        assert isinstance(partition, Part)
        piece = partition.piece
        assert piece is not None
        wire = Brokers(self._options).open(piece.broker)
        subject = self._options.subject().headers()
        wire.ask("SETTLE", {**subject, "epoch": str(piece.epoch), "end": str(piece.high)})
        wire.close()


class OnReceiptSource(EntrepotDataSource):
    @classmethod
    def name(cls) -> str:
        return "entrepot-on-receipt"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return OnReceiptReader(option_table.read(dict(self.options), option_table.STREAM), schema)


def stumble(batches: Iterator[Any]) -> Iterator[Any]:
    """A step that fails now and then behind its last row, as programs do."""
    import random

    yield from batches
    if random.random() < 0.1:
        raise RuntimeError("a step of the program failed")


def start(spark: SparkSession, given: dict[str, Any], running: dict[str, StreamingQuery]) -> None:
    home = Path(given["home"])
    for name in ("out", "archive"):
        if name in running and running[name].isActive:
            continue
        common = {"url": given["url"], "failoverTimeout": "30000", "connectTimeout": "2000"}
        source = {
            **common,
            "queue": "in" if name == "out" else "archive",
            "subscription": name,
            "maxMessagesPerTrigger": "1000",
            "minPartitions": "2",
            **given["source"],
        }
        read = spark.readStream.format(given["format"]).options(**source).load().select("text")
        written = read.mapInArrow(stumble, "text string").writeStream
        if name == "out":
            written = written.format("entrepot").options(**common, queue="out")
        else:
            written = written.format("parquet").option("path", str(home / "parquet"))
        written = written.option("checkpointLocation", str(home / f"checkpoint-{name}"))
        running[name] = written.trigger(processingTime="0 seconds").start()


def main() -> None:
    given = json.loads(Path(sys.argv[1]).read_text())
    home = Path(given["home"])
    spark = pipeline.session("soak", master=given["master"], **given["settings"])
    spark.sparkContext.setLogLevel("OFF")
    spark.dataSource.register(OnReceiptSource)
    running: dict[str, StreamingQuery] = {}
    while not (home / "finish").exists():
        for name, query in running.items():
            if not query.isActive:
                cause = pipeline.cause_of(query.exception())
                print(name, "failed:", cause or str(query.exception())[:300], flush=True)
                if cause is not None and cause.kind is LeaseError:  # no kill excuses that, and it never gets better
                    sys.exit(3)
        start(spark, given, running)
        (home / "started").touch()
        time.sleep(0.1)
    for query in running.values():
        query.stop()
    rows = spark.read.parquet(str(home / "parquet")).select("text").collect()
    (home / "ids").write_text("\n".join(row["text"] for row in rows))
    spark.stop()


if __name__ == "__main__":
    main()
