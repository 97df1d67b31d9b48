"""The program of docs/lakes.md, as the page has it, killed at chosen moments; and what its tables hold.

    python lake_driver.py CONFIGURATION.json

``kills``: moments as ``BATCH:MOMENT``. ``middle``: in the last task of the write to Delta, before it commits; the name
of a recipe: when its table has committed, before Spark has. Each kills the Java and this process, by SIGKILL, once: a
file says that it did. Without kills left it runs until all has come, and writes the texts of each table to ``rows``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

TRIES: Final = 5  # starts of the query in one process
RECIPES: Final = ("to_delta", "to_iceberg", "to_merged")


class Moments:
    """When this process is killed."""

    def __init__(self, given: dict[str, Any], java: int) -> None:
        self._home = Path(given["home"])
        self._kills: list[str] = given["kills"]
        self._pids = [java, os.getpid()]

    def pending(self, number: int, moment: str) -> bool:
        """Tell whether it is to be killed here; it counts as done from now on."""
        word = f"{number}:{moment}"
        mark = self._home / f"killed-{number}-{moment}"
        if word not in self._kills or mark.exists():
            return False
        mark.touch()
        return True

    def kill(self) -> None:
        for pid in self._pids:
            os.kill(pid, signal.SIGKILL)

    def killing(self) -> Callable[[Iterator[Any]], Iterator[Any]]:
        """Return a step that passes all on, and kills when it has."""
        pids = list(self._pids)

        def step(batches: Iterator[Any]) -> Iterator[Any]:
            yield from batches
            for pid in pids:
                os.kill(pid, signal.SIGKILL)

        return step


def recipe(blocks: list[str]) -> dict[str, Any]:
    """Run the page, but for its last block, which starts the query."""
    names: dict[str, Any] = {}
    for text in blocks:
        exec(compile(text, "docs/lakes.md", "exec"), names)
    return names


def run(given: dict[str, Any]) -> None:
    names = recipe(given["blocks"])
    spark = names["spark"]
    spark.sparkContext.setLogLevel("OFF")
    java = int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())
    moments = Moments(given, java)
    plain = f"{given['home']}/data/plain"

    def land(frame: Any, number: int) -> None:
        frame.write.format("delta").mode("append").save(plain)  # who does not name the batch has it twice
        if moments.pending(number, "middle"):
            names["to_delta"](frame.mapInArrow(moments.killing(), frame.schema).coalesce(1), number)
        for name in RECIPES:
            names[name](frame, number)
            if moments.pending(number, name):
                moments.kill()

    for _ in range(TRIES):
        written = names["orders"].writeStream.foreachBatch(land)
        query = written.option("checkpointLocation", f"{given['home']}/data/checkpoint").start()
        try:
            query.processAllAvailable()
        except Exception as error:  # a worker that took longer than Spark's 10 s to start: it goes on where it was
            print("the query failed:", str(error)[:2_000], flush=True)
        else:
            break
        finally:
            query.stop()
    tables = {
        "plain": spark.read.format("delta").load(plain),
        "to_delta": spark.read.format("delta").load(f"{given['home']}/data/orders"),
        "to_iceberg": spark.table("lake.shop.orders"),
        "to_merged": spark.table("lake.shop.merged"),
    }
    tell(given, {name: sorted(row["text"] for row in table.select("text").collect()) for name, table in tables.items()})
    spark.stop()


def look(given: dict[str, Any]) -> None:
    """Read the tables that `entrepot pipeline land` has landed in."""
    spark = recipe(given["blocks"])["spark"]
    tables = {
        "orders": spark.read.format("delta").load(f"{given['home']}/data/landed/orders"),
        "prices": spark.table("lake.shop.prices"),
    }
    rows = {}
    for name, table in tables.items():
        found = table.select("order", "parsed").collect()
        rows[name] = sorted(row["order"] for row in found if row["parsed"])
        rows[f"{name}-odd"] = [row["order"] for row in found if not row["parsed"]]
    tell(given, rows)
    spark.stop()


def tell(given: dict[str, Any], rows: dict[str, Any]) -> None:
    (Path(given["home"]) / "rows").write_text(json.dumps(rows))


if __name__ == "__main__":
    told = json.loads(Path(sys.argv[1]).read_text())
    if told["kills"] is None:
        look(told)
    else:
        run(told)
