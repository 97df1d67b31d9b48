"""`entrepot ha verify`, `demote` and `promote DIR`: what an operator does with the copies of a replicated store."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from entrepot.base.errors import StoreUnusable
from entrepot.cli.dialogue import url_option
from entrepot.cli.errors import Failure
from entrepot.cli.managing import at_desk, tell
from entrepot.cli.output import output_option, progress, show
from entrepot.cli.values import SIZE
from entrepot.ha.comparison import COMPARING, SAME

if TYPE_CHECKING:
    from entrepot.cli.managing import Desk

COLUMNS: Final = ("replica", "result", "octets", "seconds", "found")
LOOK_S: Final = 0.3


@click.command()
@url_option
@click.option(
    "--limit", type=SIZE, metavar="SIZE", help="Octets a second to read for it; 0, the default, for those of copies."
)
@output_option
def verify(*, url: str, limit: int | None, output: str) -> None:
    """Compare what each replica in sync has with the store of its primary at --url, octet by octet, while both go on.

    Digests are compared, so little travels; both read all that they have once. Where a replica differs and the
    primary's checksums are right, the replica counts no longer and is made anew from what stands there. Where the
    primary itself is damaged, nothing is changed: let the other one serve (`entrepot ha demote`). Exit status 1
    unless all are the same.
    """
    rows = at_desk(url, lambda desk: _compared(desk, limit or 0, quiet=output == "json"))
    show(rows, COLUMNS, output)
    if any(row["result"] != SAME for row in rows):
        raise Failure(
            "not all replicas are the same as their primary",
            remedy="the log of the primary says what was done; `entrepot ha status URL` how far they are",
        )


async def _compared(desk: Desk, limit: int, *, quiet: bool) -> list[dict[str, Any]]:
    """Have all compared, and return how it ended with each."""
    await desk.ask("broker", "verifyReplicas", limit)
    verdicts = await _verdicts(desk)
    with progress("comparing", 0 if quiet else sum(each["octets"] for each in verdicts)) as step:
        seen = 0
        while any(each["state"] == COMPARING for each in verdicts):
            now = sum(each["compared"] for each in verdicts)
            step(now - seen)
            seen = now
            await asyncio.sleep(LOOK_S)
            verdicts = await _verdicts(desk)
    return [
        {
            "replica": each["name"],
            "result": each["state"],
            "octets": each["octets"],
            "seconds": round(each["took_ms"] / 1000, 1),
            "found": each["found"],
        }
        for each in verdicts
    ]


async def _verdicts(desk: Desk) -> list[dict[str, Any]]:
    facts: dict[str, Any] = await desk.ask("broker", "describeAvailability")
    return list(facts["replication"]["verified"])


@click.command()
@url_option
@output_option
def demote(*, url: str, output: str) -> None:
    """Let another broker serve in place of the one at --url, which stops in good order and waits behind it.

    Clients are told and go over. Refused where no other copy of a replicated store is in sync. Of brokers that share a
    store whoever waits takes over; if nobody does for as long as a lease lasts, the broker serves again itself.
    """
    at_desk(url, lambda desk: desk.ask("broker", "forceFailover"))
    tell("it stops, and another one takes over", {"demoted": url}, output)


def promote_copy(directory: Path, *, yes: bool) -> None:
    """Have the copy in ``directory``, whose broker is stopped, count whatever the lock says, once.

    Raises StoreLocked, StoreUnusable.
    """
    from entrepot.ha.options import SharedStoreOptions  # noqa: PLC0415 - few commands need it
    from entrepot.io.copying import STANDING, CopyDirectory  # noqa: PLC0415

    if not (directory / STANDING).exists():
        raise StoreUnusable(
            f"{directory} is no copy of a replicated store", remedy="name the --data of `entrepot run --ha replication`"
        )
    copy = CopyDirectory(directory, "promote", SharedStoreOptions())
    try:
        standing = copy.standing
        if not standing.followed:
            raise StoreUnusable(f"{directory} was never filled", remedy="name the copy that has the messages")
        if not yes:
            half = "" if standing.whole else " It is HALF A COPY: a catch-up was under way when it stopped."
            click.confirm(
                f"{directory} follows epoch {standing.followed} of store {standing.store}.{half} What other copies "
                "have and this one does not will be set aside there. Are their brokers stopped, and is this the one "
                "that counts?",
                abort=True,
            )
        standing.forced = True
        copy.persist(standing)
    finally:
        copy.release()
    click.echo(
        f"start the broker of {directory}: it may be primary now, once; the others are made its copies", err=True
    )
