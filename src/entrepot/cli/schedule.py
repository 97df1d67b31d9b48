"""`entrepot schedule`: messages that wait for their time."""

from __future__ import annotations

import time
from typing import Any, Final

import click

from entrepot.cli.dialogue import url_option
from entrepot.cli.errors import Failure
from entrepot.cli.managing import Desk, at_desk, tell
from entrepot.cli.output import listing_option, output_option, show

LISTED_MOST: Final = 500


@click.group(
    epilog="""Examples:

    \b
    entrepot send /queue/orders 'in an hour' --delay 1h
    entrepot schedule list
    entrepot schedule cancel 17
    """
)
def schedule() -> None:
    """See and cancel messages that the broker delivers later: delayed, repeated and by cron."""


@schedule.command("list")
@url_option
@listing_option
@click.option(
    "--count",
    "-n",
    type=click.IntRange(1, LISTED_MOST),
    default=LISTED_MOST,
    show_default=True,
    help="At most so many, the oldest.",
)
def list_(*, url: str, output: str, count: int) -> None:
    """List what waits, the next to be delivered first. `cancel` takes the number."""
    rows: list[dict[str, Any]] = at_desk(url, lambda desk: desk.ask("broker", "describeScheduled", count))
    for row in rows:
        row["message-id"] = row.pop("identity")
        row["when"] = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row["deliver_at"] / 1000))
    show(rows, ("number", "when", "target", "message-id"), output, empty="nothing waits for its time")


@schedule.command()
@click.argument("numbers", metavar="NUMBER...", nargs=-1, type=click.IntRange(min=1), required=True)
@url_option
@output_option
def cancel(*, numbers: tuple[int, ...], url: str, output: str) -> None:
    """Forget messages that wait, and all their repetitions. It fails for one that does not."""
    missing: list[str] = []

    async def act(desk: Desk) -> None:
        for number in numbers:
            gone = await desk.ask("broker", "cancelScheduled", number)
            if not gone:
                missing.append(str(number))
            if gone or output == "json":
                tell(f"cancelled {number}", {"number": number, "cancelled": gone}, output)

    at_desk(url, act)
    if missing:
        raise Failure(
            f"nothing with the number {' or '.join(missing)} waits for its time",
            remedy="`entrepot schedule list` shows the numbers; each repetition has one of its own",
        )
