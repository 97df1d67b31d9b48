"""`entrepot configuration`: what running brokers obey, where each setting is said, and where brokers differ."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click
from msgspec.structs import asdict

from entrepot.base.errors import InvalidOption
from entrepot.cli.context import masked, read
from entrepot.cli.dialogue import url_option, who_options
from entrepot.cli.managing import at_desk, managing
from entrepot.cli.output import listing_option, show
from entrepot.core.operators.settings_page import SOURCES
from entrepot.io import runtime

if TYPE_CHECKING:
    from entrepot.management.drift import Difference, Setting, Settings

COLUMNS: Final = ("setting", "value", "source", "where")
ROWS_MOST: Final = 1_000_000  # of one broker that are shown


@click.group(
    epilog="""Examples:

    \b
    entrepot configuration show
    entrepot configuration show memory --source file
    entrepot configuration show -o json | jq -r 'select(.source == "option").setting'
    entrepot configuration drift --url stomp://mq1:61613 --url stomp://mq2:61613
    entrepot configuration drift --url amsterdam --url berlin -o json
    """
)
def configuration() -> None:
    """See what running brokers obey: each setting, its value, and the file and line, option or default that says it.

    Secrets are never shown. It takes the right to manage, and with management-message-rbac the one to view.
    """


@configuration.command("show")
@click.argument("search", nargs=-1, metavar="[TEXT]...")
@click.option("--source", type=click.Choice(SOURCES), help="Only what is said there.")
@url_option
@listing_option
def show_(*, search: tuple[str, ...], source: str | None, url: str, output: str) -> None:
    """Show the settings of a broker whose name, value or file has each TEXT, whatever its case; all without one."""
    from entrepot.management.drift import settings_of  # noqa: PLC0415 - `--help` need not load it

    found = at_desk(url, lambda desk: settings_of(desk, search, source or "", ROWS_MOST))
    show([_row(one) for one in found.rows], COLUMNS, output, empty="no such setting")
    for what in found.pending:
        click.echo(f"changed in a file, and takes a restart: {what}", err=True)


@configuration.command()
@click.option(
    "--url",
    "urls",
    multiple=True,
    required=True,
    metavar="URL|CONTEXT",
    help="A broker, by its URL or its name in `entrepot context`; give it for each.",
)
@click.option("--own", is_flag=True, help="Also what has to differ: names, places to listen, directories.")
@who_options
@listing_option
@click.pass_context
def drift(ctx: click.Context, *, urls: tuple[str, ...], own: bool, output: str) -> None:
    """Compare brokers that should be alike: settings that differ, or that one has and another lacks.

    Exit code 1 when there are any, so that a check can be made of it.
    """
    from entrepot.management.drift import differences  # noqa: PLC0415 - as above

    places = _places(urls)
    told = runtime.run(_asked(places))
    found = differences(told)
    real = [one for one in found if not one.own]
    rows = [_drifted(one, output) for one in (found if own else real)]
    show(rows, ("setting", *places), output, empty="no difference")
    _say(told, found, own=own)
    if real:
        ctx.exit(1)


def _say(told: Mapping[str, Settings], found: list[Difference], *, own: bool) -> None:
    """Tell people what the table does not."""
    for name, one in told.items():
        if one.count > len(one.rows):
            click.echo(f"{name}: only the first {len(one.rows):,} of {one.count:,} settings were compared", err=True)
    if len({one.family for one in told.values()}) > 1:
        click.echo("their files are of different families, which call the same by other names", err=True)
    folded = sum(1 for one in found if one.own)
    if folded and not own:
        click.echo(f"{folded} more differ as they have to; --own shows them", err=True)


async def _asked(places: Mapping[str, str]) -> dict[str, Settings]:
    """Ask all brokers at once. Raises EntrepotError: without one of them nothing can be said."""
    return dict(zip(places, await asyncio.gather(*(_one(url) for url in places.values())), strict=True))


async def _one(url: str) -> Settings:
    from entrepot.management.drift import settings_of  # noqa: PLC0415 - as above

    async with managing(url) as desk:
        return await settings_of(desk)


def _places(urls: tuple[str, ...]) -> dict[str, str]:
    """Return how each broker is called, and its URL. Raises InvalidOption."""
    known = read().urls
    found = {one if one in known else masked(one): known.get(one, one) for one in urls}
    for one in found.values():
        if ":" not in one:
            names = ", ".join(sorted(known)) or "none"
            raise InvalidOption(f"{one!r} is neither a URL nor a context", remedy=f"contexts: {names}")
    if len(found) < 2:
        raise InvalidOption("one broker differs from nobody", remedy="give --url once for each")
    return found


def _row(one: Setting) -> dict[str, Any]:
    return {**asdict(one), "where": one.where}


def _drifted(one: Difference, output: str) -> dict[str, Any]:
    """Return a difference as a row: for people a column a broker, for programs an object of them."""
    if output == "json":
        said = {broker: None if each is None else _row(each) for broker, each in one.said.items()}
        return {"setting": one.setting, "own": one.own, "lacks": one.lacks, "brokers": said}
    return {"setting": one.setting, **{broker: one.shown(broker) for broker in one.said}}
