"""Spark sessions that suit queues: the settings that pay, and the format registered."""

from __future__ import annotations

import importlib.metadata
import os
import sys
import tempfile
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any, Final

from entrepot.base.errors import OperatorError
from entrepot.pipeline.java import ensure_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_MIN: Final = (4, 1)
SPARK_FULL: Final = (4, 2)
FORMAT: Final = "entrepot"

# What docs/spark.md measures: batches reach Python workers faster, and a micro-batch costs less than half. Unless told
# so, Parquet looks at how much it holds after 100 rows only: 100 large messages of a task are more than Java has.
RECOMMENDED: Final[dict[str, str]] = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.hadoop.parquet.page.size.row.check.min": "1",
    "spark.hadoop.parquet.block.size.row.check.min": "1",
}

# What Spark puts into the environment of a source's workers when a stream of it starts, whatever stands there.
ENVIRONMENT: Final[dict[str, str]] = {
    "SPARK_LOCAL_DIRS": tempfile.gettempdir(),
    "SPARK_AUTH_SOCKET_TIMEOUT": "15",
    "SPARK_BUFFER_SIZE": "65536",
    "SPARK_PYTHON_RUNTIME": "PYTHON_WORKER",
}


def spark_version() -> tuple[int, int]:
    """Return the version of the PySpark that is installed. Raises OperatorError for none, or one that is too old."""
    text = ""
    for name in ("pyspark", "pyspark-client"):
        try:
            text = importlib.metadata.version(name)
            break
        except importlib.metadata.PackageNotFoundError:
            continue
    if not text:
        raise OperatorError("PySpark is not installed", remedy='pip install "entrepot[spark]"')
    major, minor = (int(part) for part in text.split(".")[:2])
    if (major, minor) < SPARK_MIN:
        raise OperatorError(
            f"PySpark {text} is too old for the format entrepot",
            remedy="4.3 does everything, 4.1 is the oldest that works: pip install -U 'entrepot[spark]'",
        )
    return major, minor


def reduced(version: tuple[int, int]) -> str:
    """Return what this version of PySpark cannot do, "" when it can do everything."""
    if version >= SPARK_FULL:
        return ""
    return (
        f"PySpark {version[0]}.{version[1]} does not tell sources where a batch begins (4.2 and newer do): messages "
        "are settled one batch late, those of the last batch with the next run, and Trigger.AvailableNow is one batch"
    )


def register(spark: SparkSession) -> None:
    """Make the format ``entrepot`` known to ``spark``. Raises OperatorError for a PySpark that is too old."""
    lacking = reduced(spark_version())
    if lacking:
        import warnings  # noqa: PLC0415

        warnings.warn(lacking, stacklevel=2)
    if not _is_known(spark):
        from entrepot.pipeline.datasource import EntrepotDataSource  # noqa: PLC0415

        spark.dataSource.register(EntrepotDataSource)
    _furnish(spark)


def _is_known(spark: SparkSession) -> bool:
    """Tell whether Spark has found the format by itself: registering it again would be told as a replacement."""
    try:
        return bool(_formats(spark).dataSourceExists(FORMAT))
    except Exception:  # Spark Connect
        return False


def environment_of(spark: SparkSession) -> Any:
    """Return the Java map in which all queries of ``spark`` have the environment of the format's workers.

    Raises whatever Spark Connect raises, which has none here.
    """
    return _formats(spark).lookupDataSource(FORMAT).dataSourceCls().envVars()


def _formats(spark: SparkSession) -> Any:
    return spark._jsparkSession.sessionState().dataSourceManager()


def _furnish(spark: SparkSession) -> None:
    """Put every name into that map before two streams that start at once do: it breaks, and all queries with it.

    No query of that driver can be sent to a task any more then ("Illegal size 5 of collection, expected 6").
    """
    try:
        known = environment_of(spark)
        for name, value in ENVIRONMENT.items():
            known.putIfAbsent(name, value)
    except Exception:  # Spark Connect, and whatever a Spark to come calls it: streams that start one by one need it not
        return


def ensure_python(environment: MutableMapping[str, str], master: str | None) -> None:
    """Let workers on this machine be of this very Python: Spark would take ``python3`` of the path, of no environment.

    Changes nothing where somebody has said which, under spark-submit, or on a cluster, whose nodes have their own.
    """
    if (master or "local").startswith("local") and "SPARK_ENV_LOADED" not in environment:
        environment.setdefault("PYSPARK_PYTHON", sys.executable)


def session(name: str = "entrepot", *, master: str | None = None, **settings: str) -> SparkSession:
    """Return a session with a Java that was found, the recommended settings and the format registered.

    ``settings``: further ones, their dots written as ``__``: ``session(spark__sql__shuffle__partitions="2")``.
    Raises OperatorError when Java or PySpark are missing or too old.
    """
    spark_version()
    ensure_java()
    ensure_python(os.environ, master)
    from pyspark.sql import SparkSession  # noqa: PLC0415

    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    for key, value in {**RECOMMENDED, **{key.replace("__", "."): value for key, value in settings.items()}}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    register(spark)
    return spark
