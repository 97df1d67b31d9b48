"""What the PySpark source and sink do on this machine: rows a second, latency when idle, the floor of a micro-batch.

    python bench/pipeline.py [--messages 300000] [--samples 30] [--activemq]

One broker and Spark local[2] share the machine; messages of 1 KiB, persistent, on disk. The ceiling of a read is what
the same rows take from Parquet through a Python data source that does nothing else. Prints a table with targets, the
processor time that each part of the machine's work takes a row, and writes every figure to build/bench-pipeline.json.
README.md says how to read such figures.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests")]

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition  # noqa: E402
from pyspark.sql.pandas.types import to_arrow_schema  # noqa: E402

from entrepot import pipeline  # noqa: E402
from entrepot.base.compiled import build_name  # noqa: E402
from shell.daemon import Daemon, Wire  # noqa: E402 - the line above must come first
from spark.soak import command_of, descendants, workers_peak  # noqa: E402
from spark.stand import QUICK  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyarrow import RecordBatch, Schema
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

OCTETS: Final = 1024  # of a body
ROUNDS: Final = 15  # in turns: of five, the median share differed by a fifth from run to run on a shared machine
ARROW_ROWS: Final = 8192  # of one batch
PARTS: Final = ("broker", "Python workers", "JVM")
TARGETS: Final = {
    "batch read, % of the ceiling": (">=", 90),
    "batch read, rows/s": (">=", 100_000),
    "streaming read with settlement, rows/s": (">=", 120_000),
    "staged streaming write, rows/s": (">=", 90_000),
    "idle latency p50, ms": ("<=", 80),
    "ActiveMQ to Parquet, % of what it serves": (">=", 90),
}


class Rows(DataSource):
    """The ceiling: rows of Parquet files, one partition each, through Spark's Python data source."""

    @classmethod
    def name(cls) -> str:
        return "rows"

    def reader(self, schema: StructType) -> DataSourceReader:
        return RowsReader(self.options["path"], to_arrow_schema(schema, timezone="UTC"))


class RowsReader(DataSourceReader):
    def __init__(self, path: str, schema: Schema) -> None:
        self.path: Final = path
        self.schema: Final = schema

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(str(each)) for each in sorted(Path(self.path).glob("*.parquet"))]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        import pyarrow.parquet  # noqa: PLC0415 - in the worker

        for batch in pyarrow.parquet.ParquetFile(partition.value).iter_batches(ARROW_ROWS):
            yield batch if batch.schema.equals(self.schema) else batch.cast(self.schema)


def body() -> bytes:
    """Return 1 KiB that no other message has: of equal ones Parquet keeps one, and the ceiling would read nothing."""
    return os.urandom(OCTETS // 2).hex().encode()


def processor(broker: int) -> dict[str, float]:
    """Return s of processor that the broker, Spark's JVM and its Python workers have had."""
    spent = dict.fromkeys(PARTS, 0.0)
    for pid in (broker, *descendants(os.getpid())):
        with contextlib.suppress(OSError):
            name, _, fields = Path(f"/proc/{pid}/stat").read_text().partition("(")[2].rpartition(")")
            part = "broker" if pid == broker else "JVM" if name == "java" else "Python workers"
            if part != "Python workers" or "pyspark" in command_of(pid):
                spent[part] += sum(map(int, fields.split()[11:13])) / os.sysconf("SC_CLK_TCK")
    return spent


class Bench:
    def __init__(self, spark: SparkSession, daemon: Daemon, home: Path, messages: int, samples: int) -> None:
        self.spark = spark
        self.url = f"stomp://127.0.0.1:{daemon.port}"
        self.daemon = daemon
        self.home = home
        self.messages = messages
        self.samples = samples
        self.figures: dict[str, float] = {}
        self.costs: dict[str, dict[str, float]] = {}  # us of processor a row
        self.triggers: dict[str, dict[str, float]] = {}  # where the time of a trigger goes, medians in ms

    def fill(self, queue: str) -> None:
        wire = Wire(self.daemon.port)
        head = f"SEND\ndestination:/queue/{queue}\npersistent:true\ncontent-length:1024\n\n".encode()
        for start in range(0, self.messages, 500):
            count = min(500, self.messages - start)
            wire.socket.sendall(b"".join([head + body() + b"\0" for _ in range(count - 1)]))
            wire.send(f"/queue/{queue}", body(), persistent="true")
        wire.leave()

    def batch_read(self) -> None:
        self.fill("batch")
        held = pipeline.claim(url=self.url, queue="batch", subscription="b")
        frame = held.read(self.spark)
        place = str(self.home / "ceiling")
        frame.write.parquet(place)
        self.figures["a Python worker at most, MB"] = workers_peak() / 1e6  # before the ceiling's are among them
        self.spark.dataSource.register(Rows)
        ceiling = self.spark.read.format("rows").schema(frame.schema).option("path", place).load()
        read, most = [], []
        for each in (frame, ceiling):  # the first time Java compiles what both need, and neither is measured
            each.write.format("noop").mode("overwrite").save()
        for _ in range(ROUNDS):  # in turn: what else the machine does is the same for both
            read.append(self.drained(frame, held.count, "batch read"))
            most.append(self.drained(ceiling, held.count, "ceiling"))
        self.figures["ceiling, rows/s"] = statistics.median(most)
        self.figures["batch read, rows/s"] = statistics.median(read)
        share = statistics.median(one / other for one, other in zip(read, most, strict=True))
        self.figures["batch read, % of the ceiling"] = 100 * share
        start = time.perf_counter()
        frame = self.spark.read.format("entrepot").schema("body binary").option("range", held.range)
        frame.options(**held.given).load().write.format("noop").mode("overwrite").save()
        self.figures["batch read, the body alone, rows/s"] = held.count / (time.perf_counter() - start)
        held.settle()

    def drained(self, frame: DataFrame, count: int, name: str) -> float:
        """Return rows a second of reading all of ``frame``; keep what the last time cost under ``name``."""
        before = processor(self.daemon.process.pid)
        start = time.perf_counter()
        frame.write.format("noop").mode("overwrite").save()
        taken = time.perf_counter() - start
        after = processor(self.daemon.process.pid)
        self.costs[name] = {part: 1e6 * (after[part] - before[part]) / count for part in PARTS}
        return count / taken

    def stream(self, frame: Any, name: str, **trigger: Any) -> Any:
        writer = frame.writeStream.option("checkpointLocation", str(self.home / name))
        return writer.trigger(**(trigger or {"availableNow": True}))

    def note(self, name: str, done: list[Any]) -> None:
        """Keep how long the steps of these triggers took, as Spark measures them."""
        steps = done[0]["durationMs"] if done else []
        self.triggers[name] = {step: statistics.median(each["durationMs"][step] for each in done) for step in steps}

    def rate(self, name: str, query: Any, skip: int) -> float:
        """Return rows a second over whole triggers; the first ones, in which workers start, are not counted."""
        done = [progress for progress in query.recentProgress if progress["numInputRows"]][skip:]
        self.note(name, done)
        rows = sum(progress["numInputRows"] for progress in done)
        return 1000 * rows / max(1, sum(progress["durationMs"]["triggerExecution"] for progress in done))

    def streaming_read(self) -> None:
        self.fill("stream")
        given = {"url": self.url, "queue": "stream", "subscription": "s", "maxMessagesPerTrigger": "50000"}
        frame = self.spark.readStream.format("entrepot").options(**given).load()
        query = self.stream(frame, "read").format("noop").start()
        query.awaitTermination()
        self.figures["streaming read with settlement, rows/s"] = self.rate("streaming read", query, 1)

    def staged_write(self) -> None:
        frame = self.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "50000")
        frame = frame.option("numPartitions", "2").load().selectExpr("repeat('x', 1024) AS text")
        given = {"url": self.url, "queue": "written"}
        query = self.stream(frame, "write", processingTime="0 seconds").format("entrepot").options(**given).start()
        while len([True for progress in query.recentProgress if progress["numInputRows"]]) < 5:
            if query.exception():
                raise query.exception()
            time.sleep(0.1)
        query.stop()
        self.figures["staged streaming write, rows/s"] = self.rate("staged write", query, 1)

    def activemq(self) -> None:
        """From a real ActiveMQ, which takes a share of the machine: asked for, and last."""
        from pipeline_activemq import measure  # noqa: PLC0415 - it needs Java and an ActiveMQ

        self.figures.update(measure(self.spark, self.home, self.messages, b"x" * OCTETS))

    def latency(self) -> None:
        given = {"url": self.url, "queue": "idle", "subscription": "s"}
        frame = self.spark.readStream.format("entrepot").schema("text string").options(**given).load()
        found: list[float] = []
        arrived = threading.Event()

        def take(batch: Any, number: int) -> None:
            rows = batch.collect()
            found.extend(1000 * (time.time() - float(row["text"])) for row in rows)
            if rows:
                arrived.set()

        writer = self.stream(frame, "idle", processingTime="0 seconds")
        query = writer.foreachBatch(take).start()
        wire = Wire(self.daemon.port)
        for _ in range(self.samples + 5):
            arrived.clear()
            wire.ask("SEND", {"destination": "/queue/idle", "persistent": "true"}, str(time.time()).encode())
            if not arrived.wait(60):
                raise RuntimeError(f"nothing arrived: {query.exception()}")
            time.sleep(0.3)
        query.stop()
        self.figures["idle latency p50, ms"] = statistics.median(found[5:])
        single = [progress for progress in query.recentProgress if progress["numInputRows"] == 1][5:]
        self.note("one message when idle", single)
        self.figures["floor of a micro-batch, ms"] = self.triggers["one message when idle"]["triggerExecution"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=300_000)
    parser.add_argument("--samples", type=int, default=30)
    parser.add_argument("--activemq", action="store_true", help="from a real ActiveMQ to Parquet, too")
    parser.add_argument("--only-activemq", action="store_true", help="that alone")
    given = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    missed = []
    with tempfile.TemporaryDirectory(prefix="entrepot-bench-") as home:
        daemon = Daemon(Path(home)).start()
        spark = pipeline.session(
            "bench", master="local[2,4]", **{**QUICK, "spark__driver__extraJavaOptions": "-XX:+UseSerialGC"}
        )
        spark.sparkContext.setLogLevel("OFF")
        bench = Bench(spark, daemon, Path(home), given.messages, given.samples)
        try:
            parts = [] if given.only_activemq else [bench.batch_read, bench.streaming_read, bench.staged_write]
            parts += [] if given.only_activemq else [bench.latency]
            parts += [bench.activemq] if given.activemq or given.only_activemq else []
            for part in parts:
                part()
                print({name: round(figure) for name, figure in bench.figures.items()}, flush=True)
        finally:
            spark.stop()
            daemon.stop()
    print(f"{build_name()}, {given.messages:,} messages of 1 KiB, load average {os.getloadavg()[0]:.1f}")
    for name, figure in bench.figures.items():
        sign, target = TARGETS.get(name, ("", 0))
        holds = not sign or (figure >= target if sign == ">=" else figure <= target)
        missed += [] if holds else [name]
        print(f"  {name:45} {figure:12,.0f}" + (f"   {sign} {target:,} {'' if holds else 'MISSED'}" if sign else ""))
    print("  processor time a row, us")
    for name, cost in bench.costs.items():
        print(f"    {name:24}", " · ".join(f"{part} {us:.1f}" for part, us in cost.items()))
    print("  steps of a trigger, medians in ms (Spark's names)")
    for name, steps in bench.triggers.items():
        print(f"    {name:24}", " · ".join(f"{step} {ms:,.0f}" for step, ms in steps.items()))
    results = ROOT / "build" / "bench-pipeline.json"
    results.parent.mkdir(exist_ok=True)
    told = {
        "build": build_name(),
        "load": os.getloadavg(),
        "figures": bench.figures,
        "costs": bench.costs,
        "triggers": bench.triggers,
    }
    results.write_text(json.dumps(told, indent=1))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
