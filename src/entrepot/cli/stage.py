"""`entrepot stage`: what programs have staged and not published, and how to be rid of it."""

from __future__ import annotations

from typing import Final

import click

from entrepot.cli.dialogue import url_option
from entrepot.cli.managing import at_desk, tell
from entrepot.cli.output import listing_option, output_option, show

COLUMNS: Final = ("sink", "owner", "batch", "part", "state", "messages", "octets", "age_s")
SINK_COLUMNS: Final = ("sink", "owner", "counter", "newest", "stages", "decided", "published", "memory")


@click.group(
    epilog="""Examples:

    \b
    entrepot stage list
    entrepot stage list --sinks                               # whose each sink is, with nothing staged too
    entrepot stage drop nightly-export --batch 17
    entrepot stage publish nightly-export --batch 17          # a doubtful part, behind a salvage
    entrepot stage drop nightly-export --forget               # its batches count from 0 again
    """
)
def stage() -> None:
    """Look at staged commits: messages that are kept, invisible, until their batch is published.

    A part that is older than a week goes by itself, unless this broker decided for it. Dropping a part that a driver is
    going to publish makes that fail.
    """


@stage.command("list")
@url_option
@listing_option
@click.option("--sink", default="", help="Only those of one sink.")
@click.option("--sinks", is_flag=True, help="List sinks: whose each is, who counts, what is remembered.")
def list_(*, url: str, output: str, sink: str, sinks: bool) -> None:
    """List stages: open ones, closed ones, those whose batch was decided here, and batches being published.

    A doubtful one was salvaged from a damaged journal, which does not say any more whether it was published.
    """
    if sinks:
        if sink:
            raise click.UsageError("--sinks lists all of them: it goes without --sink")
        rows = at_desk(url, lambda desk: desk.ask("broker", "describeSinks"))
        show(rows, SINK_COLUMNS, output, empty="no sink is remembered")
        return
    rows = at_desk(url, lambda desk: desk.ask("broker", "describeStages", sink))
    show(rows, COLUMNS, output, empty="nothing is staged")


@stage.command()
@click.argument("sink")
@url_option
@output_option
@click.option("--batch", type=click.IntRange(min=0), required=True, help="The batch.")
@click.option("--part", "parts", multiple=True, help="A part that counts.  [default: those that were decided here]")
def publish(*, sink: str, url: str, output: str, batch: int, parts: tuple[str, ...]) -> None:
    """Publish what SINK has staged of a batch, in the place of its program: a doubtful part, behind a salvage.

    The other parts of this batch and of older ones are dropped, as always.
    """
    count = int(at_desk(url, lambda desk: desk.ask("broker", "publishStages", sink, batch, ",".join(parts))))
    tell(f"{count} messages of batch {batch} of {sink} published", {"sink": sink, "published": count}, output)


@stage.command()
@click.argument("sink")
@url_option
@output_option
@click.option("--batch", type=click.IntRange(min=0), help="Only of this batch.  [default: all]")
@click.option("--part", default="", help="Only this part; needs --batch.")
@click.option("--forget", is_flag=True, help="Forget decisions and published batches of the sink as well.")
def drop(*, sink: str, url: str, output: str, batch: int | None, part: str, forget: bool) -> None:
    """Remove what SINK has staged. Whoever writes into an open stage is told."""
    if part and batch is None:
        raise click.UsageError("--part needs --batch")
    if forget and batch is not None:
        raise click.UsageError("--forget is about the whole sink: it goes without --batch")
    number = -1 if batch is None else batch
    count = int(at_desk(url, lambda desk: desk.ask("broker", "dropStages", sink, number, part, forget)))
    tell(f"{count} stages of {sink} dropped", {"sink": sink, "dropped": count}, output)
