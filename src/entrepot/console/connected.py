"""The page of who is connected: connections, who reads, who does not keep up, and who sends."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from entrepot.console.access import Visitor
from entrepot.console.pages import link
from entrepot.console.tables import Table, age
from entrepot.core.operators.together.asker import listed
from entrepot.management.sifting import BUSIEST

if TYPE_CHECKING:
    from entrepot.console.pages import Pages

ROWS: Final = 500  # of each
WHO: Final = (("clientID", "Client id", ""), ("remoteAddress", "From", ""), ("protocol", "Protocol", ""))


class Connected:
    """The page Connections of one console."""

    def __init__(self, pages: Pages) -> None:
        self.pages: Final = pages

    def routes(self) -> list[Route]:
        """Return where it is."""
        return [Route("/connections", self.pages.page(self.connections))]

    async def connections(self, request: Request, visitor: Visitor) -> Response:
        """Who is connected, who reads, what they did not acknowledge, and who sends."""
        broker, desk = await self.pages.desk(request, visitor)
        connections = await desk.ask("broker", "describeConnections", 0, ROWS)
        consumers = await listed(desk, "listConsumers", BUSIEST, ROWS)
        producers = await listed(desk, "listProducers", "", ROWS)
        tables = [_connections(broker, connections), _consumers(broker, consumers), _producers(broker, producers)]
        return self.pages.rows(request, visitor, "Connections", f"of {broker}", broker, tables, ask=[], live=True)


def _connections(broker: str, told: Sequence[dict[str, Any]]) -> Table:
    columns = [
        ("id", "Id", "mono"),
        ("peer", "From", ""),
        ("protocol", "Protocol", ""),
        ("client", "Client id", ""),
        ("user", "User", ""),
        ("listener", "Listener", ""),
    ]
    rows = [{**row, "client": row.get("client-id", ""), "user": row.get("login", "")} for row in told]

    def close(row: dict[str, Any]) -> list[tuple[str, dict[str, str]]]:
        return [("close", {"broker": broker, "action": "close", "id": str(row["id"])})]

    return Table("Connections", columns, rows, "Nobody is connected.", None, close)


def _consumers(broker: str, told: Sequence[dict[str, Any]]) -> Table:
    columns = [
        ("queue", "Queue", ""),
        *WHO,
        ("messagesInTransit", "Unacknowledged", "n"),
        ("silent", "No acknowledgement for", "n"),
        ("messagesDelivered", "Delivered", "n"),
        ("status", "Status", ""),
    ]
    rows = [{**row, "silent": _silence(row)} for row in told]
    return Table(
        "Consumers", columns, rows, "Nobody reads.",
        ("queue", lambda row: link("/queue", broker=broker, name=row["queue"])),
    )  # fmt: skip


def _silence(row: dict[str, Any]) -> str:
    """Return for how long a consumer that has messages has acknowledged none; "" where it has none, or never did."""
    last = int(row["lastAcknowledgedTime"])
    return age(max(0, int(1000 * time.time()) - last)) if last and int(row["messagesInTransit"]) else ""


def _producers(broker: str, told: Sequence[dict[str, Any]]) -> Table:
    columns = [("address", "Address", ""), *WHO, ("user", "User", ""), ("session", "Session", "mono")]
    nobody = "No producer is open. Who sends by STOMP or MQTT opens none: it is among the connections."
    return Table("Producers", columns, told, nobody)
