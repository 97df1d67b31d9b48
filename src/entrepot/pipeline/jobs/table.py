"""An archive as a table, for programs: every message in it once, and what is foreign refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from entrepot.pipeline.jobs import compaction
from entrepot.pipeline.jobs.archive import Archive, Archiver

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read(spark: SparkSession, root: str) -> DataFrame:
    """Return all messages of the archive at ``root`` (columns: docs/pipeline.md), heeding compactions.

    Raises InvalidOption when it is none, or holds a file that is not of it.
    """
    return compaction.rows(Archive(spark, root))


def land(spark: SparkSession, root: str, destinations: Sequence[str], given: Mapping[str, str]) -> DataFrame:
    """Archive what waits at ``destinations`` (``/queue/...``, ``/topic/...``), and return all that is in the archive.

    ``given``: options of the source, ``url`` first. Raises InvalidOption, and PipelineError with what ended a query.
    """
    Archiver(spark, root, destinations, given).once()
    return read(spark, root)
