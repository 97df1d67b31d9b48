"""`entrepot pipeline archive`: queues and topics to Parquet, once or for ever; and compaction."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from entrepot.cli.dialogue import url_option
from entrepot.cli.output import output_option, progress
from entrepot.cli.spark import (
    check_reports,
    further_option,
    given_options,
    hand_over,
    named,
    report_option,
    spark_options,
    spark_session,
)
from entrepot.cli.values import SIZE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from entrepot.pipeline.jobs.archive import Batch
    from entrepot.pipeline.jobs.compaction import Compacted
    from entrepot.pipeline.jobs.summary import Report


@click.command(
    epilog="""Examples:

    \b
    entrepot pipeline archive --to /data/archive --queue orders --topic prices
    entrepot pipeline archive --to /data/archive --queue orders --follow --every '30 seconds' --report today.html
    entrepot pipeline archive --to /data/archive --compact
    """
)
@click.option("--to", "target", required=True, metavar="DIR", help="The archive: a directory, or a URI of Hadoop.")
@click.option(
    "--checkpoints", default="", metavar="DIR", help="For Spark's checkpoints, where --to is an object store."
)
@click.option("--queue", "queues", multiple=True, metavar="NAME", help="A queue to take messages from.")
@click.option("--topic", "topics", multiple=True, metavar="NAME", help="A topic to subscribe to, durably.")
@url_option
@click.option("--subscription", default="archive", show_default=True, help="Name at the brokers; one run for each.")
@click.option("--selector", default="", help="Take only what fulfils this condition (SQL-92).")
@click.option("--batch", type=click.IntRange(min=1), default=100_000, show_default=True, help="Messages a batch.")
@click.option("--follow", is_flag=True, help="Go on until Ctrl-C; without it: what waits now.")
@click.option("--every", default="10 seconds", show_default=True, help="With --follow: time between batches.")
@click.option("--compact", is_flag=True, help="Put small files together, last or alone.")
@click.option("--small", type=SIZE, default="32mb", show_default=True, help="Files below this are put together.")
@click.option("--large", type=SIZE, default="128mb", show_default=True, help="How large files become, about.")
@further_option
@spark_options(memory="800m")  # what it holds does not depend on how much there is
@report_option
@output_option
def archive(
    *,
    target: str,
    checkpoints: str,
    queues: tuple[str, ...],
    topics: tuple[str, ...],
    url: str,
    subscription: str,
    selector: str,
    batch: int,
    follow: bool,
    every: str,
    compact: bool,
    small: int,
    large: int,
    further: tuple[str, ...],
    master: str | None,
    memory: str,
    reports: tuple[Path, ...],
    output: str,
) -> None:
    """Land messages in Parquet, by destination, day and hour; each once, whatever crashes.

    What is in the archive is gone from the brokers. A run that ends is continued by the next one with the same --to and
    --subscription.
    """
    destinations = named(queues, topics)
    if not destinations and not compact:
        raise click.UsageError("name a --queue or a --topic, or give --compact")
    if follow and not destinations:
        raise click.UsageError("--follow needs a --queue or a --topic")
    given = {**given_options(url, further), "maxMessagesPerTrigger": str(batch)}
    if selector:
        given["selector"] = selector
    check_reports(reports)
    with spark_session("entrepot archive", master, memory) as spark:
        sizes = (small, large) if compact else None
        if destinations:
            moment = every if follow else ""
            report = _fill(spark, (target, checkpoints), destinations, given, subscription, moment, sizes)
        else:
            report = _compact_only(spark, target, small, large)
    hand_over(report, reports, output)


def _fill(
    spark: SparkSession,
    where: tuple[str, str],
    destinations: Sequence[str],
    given: dict[str, str],
    subscription: str,
    every: str,
    sizes: tuple[int, int] | None,
) -> Report:
    from entrepot.pipeline.jobs import compaction, summary  # noqa: PLC0415
    from entrepot.pipeline.jobs.archive import Archiver  # noqa: PLC0415

    tally = summary.Tally(destinations)
    with progress("messages archived", lines=True) as step:

        def told(destination: str, batch: Batch) -> None:
            tally.add(destination, batch)
            step(batch.rows)

        target, checkpoints = where
        job = Archiver(
            spark, target, destinations, given, subscription=subscription, checkpoints=checkpoints, told=told
        )
        if every:
            with until_told() as ended:
                job.follow(ended, every)
        else:
            job.once()
    compaction.tidy(job.archive, time.time_ns() // 1_000_000)
    done = _compact(job.archive, *sizes) if sizes else None
    return summary.of_archive(job.archive.storage.root, tally, done)


def _compact_only(spark: SparkSession, target: str, small: int, large: int) -> Report:
    from entrepot.pipeline.jobs import summary  # noqa: PLC0415
    from entrepot.pipeline.jobs.archive import Archive  # noqa: PLC0415

    where = Archive(spark, target)
    return summary.of_compaction(where.storage.root, _compact(where, small, large))


def _compact(where: Any, small: int, large: int) -> Compacted:
    from entrepot.pipeline.jobs import compaction  # noqa: PLC0415

    with progress("messages put together", lines=True) as step:
        return compaction.compact(where, small=small, target=large, told=lambda partition, rows: step(rows))


@contextmanager
def until_told() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C and SIGTERM set, so that what runs can come to an end."""
    ended = threading.Event()
    before = {number: signal.signal(number, lambda *_: ended.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield ended
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
