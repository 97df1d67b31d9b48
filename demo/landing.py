"""The chapter with Apache Spark: what is sent to a network lands in Parquet while a broker is killed, and is audited.

Three traced brokers. Spark is told the place of the first alone and finds the others. The second is killed in the
middle, and comes back. At the end the archive has every order that a shop got a receipt for, and the audit, which knows
nothing of shops and Spark and reads what the brokers noted, finds every message accounted for.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from rich.console import Console

from entrepot.base.errors import OperatorError
from entrepot.cli.lab.brokers import Broker, Network

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EACH: Final = 2_000  # orders that a shop sends
SECONDS: Final = 60.0

# A session for a minute of small jobs: it starts faster, and says nothing.
SETTINGS: Final = {
    "spark__ui__enabled": "false",
    "spark__ui__showConsoleProgress": "false",
    "spark__driver__host": "127.0.0.1",
    "spark__driver__bindAddress": "127.0.0.1",
    "spark__sql__shuffle__partitions": "2",
    "spark__sql__session__timeZone": "UTC",
    "spark__driver__extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


class Shop(Protocol):
    """Who sends orders, and remembers which of them a broker has promised to keep."""

    promised: set[int]

    async def send(self, numbers: range) -> None:
        """Send each order, however often the broker goes away meanwhile."""


def session(log: Path) -> SparkSession:
    """Return a session; what Java says goes to ``log``. Raises OperatorError when PySpark or a Java is missing."""
    for module in ("pyspark", "pyarrow", "pandas"):
        if importlib.util.find_spec(module) is None:
            raise OperatorError(f"{module} is not installed", remedy='pip install "entrepot[spark]"')
    from entrepot import pipeline  # noqa: PLC0415 - the other chapters need no PySpark

    stderr = os.dup(2)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)  # Java has it from us, and keeps it
        spark = pipeline.session("entrepot-demo", master="local[2,4]", **SETTINGS)
        spark.sparkContext.setLogLevel("OFF")
        return spark
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


async def landed(directory: Path, console: Console, shop: Callable[[Broker], Shop]) -> bool:
    """Tell the chapter; return whether it ended well. Without PySpark or Java it says what is missing."""
    began = time.monotonic()
    try:
        directory.mkdir()
        spark = await asyncio.to_thread(session, directory / "spark.log")
    except OperatorError as error:
        console.print(f"[bold]6.[/] The chapter with Apache Spark is left out: {error}")
        return True
    network = Network(directory, 3, "mesh", arguments=("--trace", str(directory / "traces")))
    try:
        return await _tell(network, directory, spark, console, shop, began)
    finally:
        await network.stop()
        await asyncio.to_thread(spark.stop)


async def _tell(
    network: Network, directory: Path, spark: Any, console: Console, shop: Callable[[Broker], Shop], began: float
) -> bool:
    from entrepot.pipeline.jobs.archive import Archiver, Batch  # noqa: PLC0415
    from entrepot.pipeline.jobs.audit import audit  # noqa: PLC0415
    from entrepot.pipeline.jobs.table import read  # noqa: PLC0415

    first, second, _ = network.brokers
    await network.start()
    batches: list[Batch] = []
    root = str(directory / "archive")
    archiver = Archiver(
        spark, root, ["/queue/orders"], {"url": first.url}, told=lambda where, batch: batches.append(batch)
    )
    ended = threading.Event()
    following = asyncio.create_task(asyncio.to_thread(archiver.follow, ended, "500 milliseconds"))
    console.print(
        f"[bold]6.[/] Spark (ready after {since(began)}) lands the queue of three new brokers in Parquet. "
        f"It was told of {first.name} alone."
    )
    shops = [shop(first), shop(second)]
    selling = [asyncio.create_task(_sell(one, at * EACH, batches)) for at, one in enumerate(shops)]
    try:
        await _until(lambda: len(shops[1].promised) > 3 * EACH // 4, following)
        await second.kill()
        rows = sum(batch.rows for batch in batches)
        console.print(
            f"   After {rows} rows {second.name} is killed: [red]kill -9[/]; its shop goes to another broker."
        )
        seconds = await second.start()
        console.print(f"   It is started again on its directory and accepts after {seconds:.2f} s.")
        await asyncio.wait_for(asyncio.gather(*selling), SECONDS)
        await _until(lambda: sum(batch.rows for batch in batches) >= 2 * EACH, following)
    finally:
        ended.set()
        for task in selling:
            task.cancel()
        await asyncio.gather(following, *selling, return_exceptions=True)
    following.result()
    await asyncio.to_thread(archiver.once)  # settles the last batch, and takes what came behind it
    await asyncio.gather(*(broker.stop() for broker in network.brokers))  # in order: they note what they still have

    promised = shops[0].promised | shops[1].promised
    rows, numbers, brokers = await asyncio.to_thread(_summed, read(spark, root))
    console.print(
        f"   {len(promised)} orders were promised; the archive has {len(numbers)}, from {brokers} brokers, in {rows} "
        f"rows: {rows - len(numbers)} were sent again when their receipts were lost with {second.name}."
    )
    outcome = await asyncio.to_thread(audit, spark, [directory / "traces"], directory / "audit")
    console.print("[bold]$ entrepot pipeline audit[/]")
    console.print(f"  {outcome.verdict()}", style="dim", soft_wrap=True)
    well = numbers == promised and len(promised) == 2 * EACH and outcome.counts["lost"] == 0
    console.print(
        "[green]Every order that was promised is in Parquet, and the audit misses none.[/]"
        if well
        else f"[red]The counts do not add up: {outcome.counts}, not landed {sorted(promised - numbers)[:10]}.[/]"
    )
    return well


async def _sell(shop: Shop, first: int, batches: Sequence[object]) -> None:
    """Send the first half at once, and the second when something has landed: that is the middle of the story."""
    await shop.send(range(first, first + EACH // 2))
    while not batches:
        await asyncio.sleep(0.02)
    await shop.send(range(first + EACH // 2, first + EACH))


def since(began: float) -> str:
    """Return how long ago that was."""
    return f"{time.monotonic() - began:.1f} s"


def _summed(frame: Any) -> tuple[int, set[int], int]:
    """Return how many rows there are, the numbers of their orders, and from how many brokers they came."""
    found = frame.selectExpr("cast(get_json_object(string(body), '$.order') as int) AS number", "broker").collect()
    return len(found), {row["number"] for row in found}, len({row["broker"] for row in found})


async def _until(holds: Callable[[], bool], following: asyncio.Task[None]) -> None:
    """Wait until ``holds``. Raises what ended the query, and TimeoutError."""
    async with asyncio.timeout(SECONDS):
        while not holds():
            if following.done():
                following.result()
                raise AssertionError("the query ended")
            await asyncio.sleep(0.02)
