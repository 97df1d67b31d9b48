"""A Spark query that lands a queue in Parquet, begun again whenever it fails: `python copies_query.py FILE`.

FILE is JSON: ``home`` (a directory), ``url``, ``queue``, ``settings`` of Spark. It ends when ``home/finish`` is there.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from entrepot import pipeline


def begun(spark: SparkSession, home: Path, given: dict[str, Any]) -> StreamingQuery:
    """Start the query where its checkpoint is."""
    options = {"url": given["url"], "queue": given["queue"], "subscription": "rounds", "failoverTimeout": "30000"}
    read = spark.readStream.format("entrepot").options(**options, connectTimeout="2000").load().select("text")
    written = read.writeStream.format("parquet").option("path", str(home / "parquet"))
    return written.option("checkpointLocation", str(home / "checkpoint")).trigger(processingTime="0 seconds").start()


def main() -> None:
    given = json.loads(Path(sys.argv[1]).read_text())
    home = Path(given["home"])
    spark = pipeline.session("rounds", master="local[1]", **given["settings"])
    spark.sparkContext.setLogLevel("OFF")
    query = begun(spark, home, given)
    while not (home / "finish").exists():
        if not query.isActive:
            print("failed:", str(query.exception())[:500], flush=True)
            time.sleep(0.5)
            query = begun(spark, home, given)
        (home / "started").touch()
        time.sleep(0.2)
    query.stop()
    rows = spark.read.parquet(str(home / "parquet")).select("text").collect()
    (home / "ids").write_text("\n".join(row["text"] for row in rows))
    spark.stop()


if __name__ == "__main__":
    main()
