"""`entrepot connection`: who is connected to a running broker, who reads and who sends."""

from __future__ import annotations

from typing import Any, Final

import click

from entrepot.cli.dialogue import url_option
from entrepot.cli.errors import Failure
from entrepot.cli.managing import Desk, at_desk, tell
from entrepot.cli.output import listing_option, output_option, show
from entrepot.core.operators.together.asker import listed
from entrepot.management.sifting import BUSIEST

COLUMNS: Final = ("id", "peer", "protocol", "client_id", "login", "listener")
CONSUMERS: Final = (
    "queue",
    "clientID",
    "remoteAddress",
    "protocol",
    "messagesInTransit",
    "messagesDelivered",
    "status",
)
PRODUCERS: Final = ("address", "clientID", "remoteAddress", "protocol", "user", "session")
COUNTS: Final = ("id", "messagesInTransit", "messagesDelivered", "priority", "groups")
ALL: Final = 10**9  # rows
NUMBERS: Final = ("id", "subscriptions", "received", "sent", "requests")
PAGE: Final = 500


@click.group()
def connection() -> None:
    """See and close the connections of a running broker; see who reads and sends."""


@connection.command("list")
@url_option
@listing_option
def list_(*, url: str, output: str) -> None:
    """List open connections; this command's own is one of them."""
    show(at_desk(url, _listed), COLUMNS, output)


@connection.command()
@url_option
@listing_option
def consumers(*, url: str, output: str) -> None:
    """List who reads; first who has most that is not acknowledged."""
    show(at_desk(url, lambda desk: _paged(desk, "listConsumers", BUSIEST)), CONSUMERS, output)


@connection.command()
@url_option
@listing_option
def producers(*, url: str, output: str) -> None:
    """List open producers; who sends by STOMP or MQTT opens none."""
    show(at_desk(url, lambda desk: _paged(desk, "listProducers", "")), PRODUCERS, output)


async def _paged(desk: Desk, operation: str, options: str) -> list[dict[str, Any]]:
    """Return the rows of a list of Artemis' management, counts as numbers. Raises EntrepotError."""
    return [
        {name: int(said) if name in COUNTS and str(said).isdigit() else said for name, said in row.items()}
        for row in await listed(desk, operation, options, ALL)
    ]


async def _listed(desk: Desk) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    while True:
        page = await desk.ask("broker", "describeConnections", len(rows), PAGE)
        rows.extend(map(_row, page))
        if len(page) < PAGE:
            return rows


def _row(told: dict[str, str]) -> dict[str, Any]:
    """Return a connection as commands show things: numbers are numbers, and names have underscores."""
    return {
        name.replace("-", "_"): int(text) if name in NUMBERS and text.isdigit() else text for name, text in told.items()
    }


@connection.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@url_option
@output_option
def close(*, ids: tuple[str, ...], url: str, output: str) -> None:
    """Close connections, named by the ids that `list` shows; what they have not settled is delivered again."""
    missing: list[str] = []

    async def act(desk: Desk) -> None:
        for identity in ids:
            closed = await desk.ask("broker", "closeConnectionWithID", identity)
            if not closed:
                missing.append(identity)
            if closed or output == "json":
                number = int(identity) if identity.isdigit() else identity
                tell(f"closed {identity}", {"id": number, "closed": closed}, output)

    at_desk(url, act)
    if missing:
        raise Failure(f"there is no connection {' or '.join(missing)}", remedy="`entrepot connection list` shows them")
