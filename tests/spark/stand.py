"""What the tests of the pipeline do again and again: produce, run a query to its end, see what is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from entrepot.protocols.stomp.frames import encode_frame
from shell.daemon import PATIENCE as OF_A_BROKER
from shell.daemon import Daemon, Wire

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.streaming import StreamingQuery

PATIENCE: Final = max(60.0, OF_A_BROKER)  # s, on a machine that does other things too

# The settings that make a session start and small jobs run fast (measured in docs/spark.md).
QUICK: Final[dict[str, str]] = {
    "spark__ui__enabled": "false",
    "spark__ui__showConsoleProgress": "false",
    "spark__driver__host": "127.0.0.1",
    "spark__driver__bindAddress": "127.0.0.1",
    "spark__sql__shuffle__partitions": "2",
    "spark__sql__catalogImplementation": "in-memory",
    "spark__sql__streaming__stopTimeout": "60s",
    "spark__driver__extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


class Stand:
    """A queue, a checkpoint, and the rows that came out of queries."""

    def __init__(self, spark: SparkSession, daemon: Daemon, home: Path, name: str) -> None:
        self.spark = spark
        self.daemon = daemon
        self.home = home
        self.queue = name
        self.url = f"stomp://127.0.0.1:{daemon.port}"
        self.batches: dict[int, list[Row]] = {}
        self._wires: list[Wire] = []
        self._queries: list[StreamingQuery] = []

    # -- the brokers' side --------------------------------------------------------------------------------------------

    def wire(self, daemon: Daemon | None = None) -> Wire:
        made = Wire((daemon or self.daemon).port)
        self._wires.append(made)
        return made

    def produce(self, bodies: Iterable[str], daemon: Daemon | None = None, **headers: str) -> list[str]:
        """Send text messages; all are on disk when this returns."""
        sent = list(bodies)
        wire = self.wire(daemon)
        fixed = {"destination": f"/queue/{self.queue}", "persistent": "true", **headers}
        frames = [encode_frame("SEND", fixed, body.encode()) for body in sent[:-1]]
        wire.socket.sendall(b"".join(frames))
        answer = wire.ask("SEND", fixed, sent[-1].encode())
        assert answer.command == "RECEIPT", answer
        return sent

    def left(self, daemon: Daemon | None = None, queue: str = "") -> list[str]:
        """Consume what an ordinary consumer gets."""
        wire = self.wire(daemon)
        return [frame.body.decode(errors="replace") for frame in wire.drain(f"/queue/{queue or self.queue}")]

    def lease(self, group: str = "s", daemon: Daemon | None = None) -> tuple[int, int]:
        """Return base and tail of a lease. Fences its reader."""
        answer = self.wire(daemon).ask("ATTACH", {"queue": f"/queue/{self.queue}", "group": group})
        return int(answer.headers["base"]), int(answer.headers["tail"])

    # -- Spark's side -------------------------------------------------------------------------------------------------

    def given(self, **more: Any) -> dict[str, str]:
        words = {"url": self.url, "queue": self.queue, "subscription": "s", **more}
        return {name: str(value) for name, value in words.items() if value is not None}

    def browse(self, **more: Any) -> DataFrame:
        return self.spark.read.format("entrepot").options(**self.given(subscription=None, **more)).load()

    def stream(self, **more: Any) -> DataFrame:
        return self.spark.readStream.format("entrepot").options(**self.given(**more)).load()

    def keep(self, frame: DataFrame, number: int) -> None:
        """A sink that is idempotent by batch number, as every sink of foreachBatch must be."""
        self.batches[number] = frame.collect()

    def start(
        self,
        stream: DataFrame,
        sink: Callable[[DataFrame, int], None] | None = None,
        *,
        checkpoint: str = "checkpoint",
        **trigger: Any,
    ) -> StreamingQuery:
        writer = stream.writeStream.foreachBatch(sink or self.keep)
        writer = writer.option("checkpointLocation", str(self.home / checkpoint))
        query = writer.trigger(**(trigger or {"availableNow": True})).start()
        self._queries.append(query)
        return query

    def run(self, stream: DataFrame, sink: Callable[[DataFrame, int], None] | None = None, **more: Any) -> None:
        """Run a query until it ends. Raises what ended it."""
        query = self.start(stream, sink, **more)
        assert query.awaitTermination(PATIENCE), "the query did not end"

    def texts(self) -> list[str]:
        """Return the texts of all rows in the order of batches."""
        return [row["text"] for number in sorted(self.batches) for row in self.batches[number]]

    def until(self, holds: Callable[[], bool]) -> None:
        """Wait until ``holds``. A query that ended with an error ends the waiting."""
        end = time.monotonic() + PATIENCE
        while not holds():
            for query in self._queries:
                error = query.exception()
                if error is not None:
                    raise error
            assert time.monotonic() < end, "it did not become so"
            time.sleep(0.05)

    def close(self) -> None:
        for query in self._queries:
            if query.isActive:
                query.stop()
        for wire in self._wires:
            wire.cut()
