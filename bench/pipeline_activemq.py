"""From a real ActiveMQ to Parquet: rows a second, beside the rate at which that ActiveMQ serves a fast consumer.

    python bench/pipeline.py --activemq

The consumer is the cheapest one there is: STOMP, ``ack:auto``, octets read and frames counted by their ends, nothing
parsed. The query reads the same messages through a broker of ours beside it, as docs/spark-on-activemq.md says, into
Parquet on disk. Its time begins when the query is started and ends when all rows are committed, less the two seconds
for which it then waits whether more comes (``arrivalWait``). A query before it, of one message, pays for the start of
the Python workers. Both run on the same machine, one after the other.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "interop")]

import classic  # noqa: E402 - the line above must come first
from classic import Classic  # noqa: E402
from ours import listens  # noqa: E402

from entrepot.protocols.stomp.frames import encode_frame  # noqa: E402
from shell.daemon import Daemon, Wire  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SERVED: Final = "ActiveMQ to a fast consumer, messages/s"
LANDED: Final = "ActiveMQ to Parquet, rows/s"
SHARE: Final = "ActiveMQ to Parquet, % of what it serves"
PATIENCE_S: Final = 600.0
PORTION: Final = 500  # messages between two receipts: what ActiveMQ keeps unconfirmed of a producer stays small
READ_OCTETS: Final = 1 << 20
END: Final = b"x\0"  # of a frame: the last octet of its body, and NUL
ARRIVAL_WAIT_S: Final = 2.0  # the source's own default


def fill(broker: Classic, queue: str, messages: int, body: bytes) -> None:
    """Put ``messages`` into a queue of ActiveMQ, on its disk."""
    wire = Wire(broker.stomp_port)
    fixed = {"destination": f"/queue/{queue}", "persistent": "true"}
    frame = encode_frame("SEND", fixed, body)
    for start in range(0, messages, PORTION):
        count = min(PORTION, messages - start)
        wire.socket.sendall(frame * (count - 1))
        assert wire.ask("SEND", fixed, body).command == "RECEIPT"
    wire.leave()


def served(broker: Classic, queue: str, messages: int) -> float:
    """Return how many messages a second a consumer gets that does nothing but count them."""
    wire = Wire(broker.stomp_port)
    wire.socket.settimeout(PATIENCE_S)
    subscription = {"destination": f"/queue/{queue}", "id": "0", "ack": "auto", "activemq.prefetchSize": "10000"}
    start = time.perf_counter()
    wire.say("SUBSCRIBE", subscription)
    seen, last = 0, b""
    while seen < messages:
        data = wire.socket.recv(READ_OCTETS)
        if not data:
            raise ConnectionError(f"ActiveMQ closed the connection after {seen} of {messages} messages")
        seen += data.count(END) + (last + data[:1] == END)
        last = data[-1:]
    spent = time.perf_counter() - start
    wire.socket.shutdown(socket.SHUT_RDWR)
    wire.cut()
    return messages / spent


def landed(spark: SparkSession, url: str, queue: str, home: Path) -> tuple[int, float]:
    """Read all of a queue into Parquet; return how many rows there are, and how many seconds it took."""
    given = {"url": url, "queue": queue, "subscription": "bench", "demand": "true"}
    given |= {"maxMessagesPerTrigger": "50000", "arrivalWait": str(int(1000 * ARRIVAL_WAIT_S))}
    frame: DataFrame = spark.readStream.format("entrepot").options(**given).load()
    writer = frame.writeStream.format("parquet").option("path", str(home / queue))
    writer = writer.option("checkpointLocation", str(home / f"{queue}.checkpoint")).trigger(availableNow=True)
    start = time.perf_counter()
    query = writer.start()
    if not query.awaitTermination(int(PATIENCE_S)):
        raise TimeoutError(f"the query did not end within {PATIENCE_S:.0f} s")
    spent = time.perf_counter() - start
    return spark.read.schema("position long").parquet(str(home / queue)).count(), spent


def measure(spark: SparkSession, home: Path, messages: int, body: bytes) -> dict[str, float]:
    """Return the three figures. Raises RuntimeError where a message is missing or there twice."""
    why = classic.unavailable()
    if why:
        raise RuntimeError(f"there is no ActiveMQ: {why}")
    broker = Classic(home / "activemq", stomp=True).start()
    ends: list[Callable[[], object]] = [broker.kill]
    try:
        listens(broker.host, broker.stomp_port)
        fill(broker, "served", messages, body)
        rate = served(broker, "served", messages)
        fill(broker, "landed", messages, body)
        fill(broker, "empty", 1, body)
        place = home / "beside"
        place.mkdir()
        beside = Daemon(place, "--connect", f"activemq:({broker.url})").start()
        ends.append(beside.stop)
        url = f"stomp://127.0.0.1:{beside.port}"
        landed(spark, url, "empty", home)
        rows, spent = landed(spark, url, "landed", home)
    finally:
        for end in reversed(ends):
            end()
    if rows != messages:
        raise RuntimeError(f"{rows} rows landed of {messages} messages")
    speed = rows / (spent - ARRIVAL_WAIT_S)
    return {SERVED: rate, LANDED: speed, SHARE: 100 * speed / rate}
