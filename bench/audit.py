"""How long an audit takes, and how it grows: traces of 1, 3 and 10 million records, Spark local[2].

    python bench/audit.py [--millions 1 3 10 30 100]

Prints, for each size, seconds by the clock and seconds of processor time of Spark and its Python workers: on a machine
that others use too only the second says something. Then the most memory that one process of them had so far, what
shuffles wrote, and what the audit left on the disk. Target: 10 million records in at most 180 s, linear in the count.
100 million take 8 GB below the directory of temporary files (``TMPDIR``).
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests")]
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)

from family import JAVA, WORKER, peak_mb, processor_seconds  # noqa: E402

from entrepot import pipeline  # noqa: E402
from entrepot.pipeline.jobs.audit import audit  # noqa: E402
from spark.made_traces import one_hop  # noqa: E402 - the line above must come first
from spark.stand import QUICK  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS_A_MESSAGE = 7
TARGET_S = 180.0


def shuffled_mb(spark: SparkSession) -> float:
    """Return what tasks of ``spark`` wrote for shuffles so far."""
    executors = spark.sparkContext._jsc.sc().statusStore().executorList(False)
    return sum(executors.apply(at).totalShuffleWrite() for at in range(executors.size())) / 1e6


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millions", type=int, nargs="+", default=[1, 3, 10])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        for size in given.millions:
            one_hop(home / f"traces-{size}", size * 1_000_000 // RECORDS_A_MESSAGE)
        spark = pipeline.session("bench", master="local[2]", **{**QUICK, "spark__driver__memory": "2g"})
        spark.sparkContext.setLogLevel("OFF")
        audit(spark, [home / f"traces-{given.millions[0]}"], home / "warm")  # the first one compiles
        for size in given.millions:
            began, before, moved = time.monotonic(), processor_seconds(), shuffled_mb(spark)
            outcome = audit(spark, [home / f"traces-{size}"], home / f"out-{size}")
            took, used = time.monotonic() - began, processor_seconds() - before
            verdict = "" if size != 10 else (" (within the target)" if took <= TARGET_S else " (TOO LONG)")
            print(f"{size:3} million records: {took:6.1f} s, {used:6.1f} s of processor time{verdict}", flush=True)
            peaks, left = peak_mb(), sum(path.stat().st_size for path in (home / f"out-{size}").rglob("*.parquet"))
            print(
                f"    at most {peaks[JAVA]} MB of the JVM, {peaks[WORKER]} MB of a Python worker; "
                f"{shuffled_mb(spark) - moved:,.0f} MB shuffled, {left / 1e6:,.0f} MB of Parquet",
                flush=True,
            )
            assert outcome.clean, outcome.verdict()
            shutil.rmtree(home / f"out-{size}")
        spark.stop()


if __name__ == "__main__":
    main()
