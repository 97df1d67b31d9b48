"""`entrepot pipeline replay`: from an archive back into a queue or topic."""

from __future__ import annotations

from pathlib import Path
from typing import IO

import click

from entrepot.base.errors import InvalidOption
from entrepot.cli.dialogue import url_option
from entrepot.cli.output import output_option, progress
from entrepot.cli.pipeline_archive import until_told
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


@click.command(
    epilog="""Examples:

    \b
    entrepot pipeline replay /data/archive --since 2026-11-21T13:00 --until 2026-11-21T14:00 --dry-run
    entrepot pipeline replay /data/archive --from-queue orders --where "kind = 'refund' AND amount > 100" --queue again
    entrepot pipeline replay /data/archive --ids lost.txt --rate 200 --strict
    entrepot pipeline replay /data/archive --from-queue ActiveMQ.DLQ --where "version = 1" --queue test --set version=2
    """
)
@click.argument("archive")
@click.option("--from-queue", "queues", multiple=True, metavar="NAME", help="Only what came from this queue.")
@click.option("--from-topic", "topics", multiple=True, metavar="NAME", help="Only what came from this topic.")
@click.option("--since", default="", help="Only what was sent then or later: 2026-11-21T13:05, UTC without an offset.")
@click.option("--until", default="", help="Only what was sent before.")
@click.option("--where", "selector", default="", help="Only what fulfils this condition, a selector of JMS.")
@click.option("--id", "ids", multiple=True, metavar="MESSAGE-ID", help="Only this message; may be repeated.")
@click.option("--ids", "files", type=click.File(), multiple=True, help="A file of message ids, one a line; - is stdin.")
@click.option("--queue", default="", metavar="NAME", help="Publish to this queue.  [default: where they came from]")
@click.option("--topic", default="", metavar="NAME", help="Publish to this topic.")
@url_option
@click.option("--rate", type=click.FloatRange(min=0), default=0, help="Messages a second at most; 0: no limit.")
@click.option("--name", default="", help="Name of this replay: the same one goes on, a new one begins.")
@click.option("--expiration", is_flag=True, help="Keep times of expiry; what has expired since goes the way of that.")
@click.option("--mark", is_flag=True, help="Add the properties entrepot_replay and entrepot_message_id.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Send with this property, or header of JMS; may be repeated.",
)
@click.option("--unset", multiple=True, metavar="NAME", help="Send without this property or header; may be repeated.")
@click.option("--strict", is_flag=True, help="Exit code 1 when ids that are asked for are not in the archive.")
@click.option("--dry-run", is_flag=True, help="Only count, by destination.")
@further_option
@spark_options()
@report_option
@output_option
@click.pass_context
def replay(
    ctx: click.Context,
    *,
    archive: str,
    queues: tuple[str, ...],
    topics: tuple[str, ...],
    since: str,
    until: str,
    selector: str,
    ids: tuple[str, ...],
    files: tuple[IO[str], ...],
    queue: str,
    topic: str,
    url: str,
    rate: float,
    name: str,
    expiration: bool,
    mark: bool,
    settings: tuple[str, ...],
    unset: tuple[str, ...],
    strict: bool,
    dry_run: bool,
    further: tuple[str, ...],
    master: str | None,
    memory: str,
    reports: tuple[Path, ...],
    output: str,
) -> None:
    """Publish messages of ARCHIVE again, each once, however often this is interrupted and run again.

    What is wanted is frozen when a replay begins. Properties come back as text; duplicate ids and delays do not come
    back. Ids that are not in the archive are named. Exit code 1 when it was interrupted.
    """
    if queue and topic:
        raise click.UsageError("--queue and --topic exclude one another")
    wanted_ids = [*ids, *(line.strip() for file in files for line in file if line.strip())]
    if (ids or files) and not wanted_ids:
        raise InvalidOption("the files of ids hold none", remedy="one id a line")
    from entrepot.pipeline.jobs import editing, summary  # noqa: PLC0415 - `--help` needs no PySpark
    from entrepot.pipeline.jobs import replay as job  # noqa: PLC0415
    from entrepot.pipeline.jobs.archive import Archive  # noqa: PLC0415

    check_reports(reports)
    edits = editing.checked(_edits(settings, unset))
    wanted = job.checked(job.Wanted(named(queues, topics), since, until, selector, wanted_ids))
    target = f"/queue/{queue}" if queue else f"/topic/{topic}" if topic else ""
    given = given_options(url, further)
    with spark_session("entrepot replay", master, memory) as spark:
        source = Archive(spark, archive)
        if dry_run:
            missing = job.missing(source, wanted)
            hand_over(summary.of_count(job.count(source, wanted), rate, missing), reports, output)
            if strict and missing:
                ctx.exit(1)
            return
        one = job.Replay(
            source,
            wanted,
            given,
            target=target,
            name=name,
            rate=rate,
            expiration=expiration,
            mark=mark,
            edits=edits,
        )
        plan = one.plan()
        with until_told() as ended, progress("messages published", plan.rows, lines=True) as step:
            shown = 0

            def told(done: int, of: int) -> None:
                nonlocal shown
                step(done - shown)
                shown = done

            done = one.run(told, ended)
    hand_over(summary.of_replay(done), reports, output)
    if not done.complete or (strict and done.missing):
        ctx.exit(1)


def _edits(settings: tuple[str, ...], unset: tuple[str, ...]) -> dict[str, str | None]:
    """Return what is said of headers and properties. Raises UsageError."""
    found: dict[str, str | None] = dict.fromkeys(unset)
    for one in settings:
        name, equals, value = one.partition("=")
        if not equals or name in found:
            raise click.UsageError(f"--set {one[:60]}: " + ("it is set or unset twice" if equals else "not NAME=VALUE"))
        found[name] = value
    return found
