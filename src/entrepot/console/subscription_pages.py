"""The pages Subscriptions and Virtual topics: who is given what is published, whether he is there or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from entrepot.console.access import Visitor
from entrepot.console.numbers import count
from entrepot.console.pages import link, lives
from entrepot.console.standing_pages import octets
from entrepot.console.tables import Table, age
from entrepot.core.operators.views import QueueView
from entrepot.management.view import page_of

if TYPE_CHECKING:
    from entrepot.console.pages import Pages

SIZE: Final = 100  # subscriptions of a page
PAGES_MOST: Final = 10**6
STATES: Final = ("connected or not", "not connected")


class Subscriptions:
    """Both pages of one console."""

    def __init__(self, pages: Pages) -> None:
        self.pages: Final = pages

    def routes(self) -> list[Route]:
        """Return where they are."""
        page = self.pages.page
        return [Route("/subscriptions", page(self.subscriptions)), Route("/virtual", page(self.virtual))]

    async def subscriptions(self, request: Request, visitor: Visitor) -> Response:
        """Durable subscriptions, those with most that waits first."""
        query = request.query_params
        broker, desk = await self.pages.desk(request, visitor)
        search, state = query.get("q", "")[:200], query.get("state", "")
        at = max(1, count(query.get("page", "1"), PAGES_MOST) or 1)
        wanted: dict[str, object] = {"search": search, "show": "unheard" if state == STATES[1] else "lasting"}
        found = await page_of(desk, {**wanted, "sort": "messages", "skip": (at - 1) * SIZE, "most": SIZE})
        said = {"broker": broker, "q": search, "state": state}
        last = max(1, -(-found.count // SIZE))
        turns = [("fuller", link("/subscriptions", **said, page=at - 1))] if at > 1 else []
        turns.append((f"page {at:,} of {last:,}", ""))
        turns += [("emptier", link("/subscriptions", **said, page=at + 1))] if at < last else []
        lead = f"{found.count:,} durable subscriptions on {broker}: they keep what is published while nobody reads"
        return self.pages.rows(
            request,
            visitor,
            "Subscriptions",
            lead,
            broker,
            [_lasting(broker, found.rows)],
            ask=[("q", "Search", search)],
            choices=[("state", "Show", state, STATES)],
            turns=turns,
            live=True,
        )

    async def virtual(self, request: Request, visitor: Visitor) -> Response:
        """Virtual topics, and the queues that each fills, of all brokers."""
        told, failures = await self.pages.watches.asked(
            visitor.user, visitor.password, "describeVirtualTopics", lives=lives(request)
        )
        tables = [_filled(told), _rules(told)]
        away = " ".join(f"{name} does not answer: {error}" for name, error in failures.items())
        more = [
            f"{name} has {one['count']:,} such queues, of which {len(one['rows']):,} are shown."
            for name, one in told.items()
            if one["count"] > len(one["rows"])
        ]
        more += [
            f"What is sent to a queue of {name} is published on {one['mirror']}NAME, too."
            for name, one in told.items()
            if one["mirror"]
        ]
        lead = "What is published to a virtual topic goes to each of its queues once"
        return self.pages.rows(
            request, visitor, "Virtual topics", lead, "", tables, ask=[], trouble=away, notes=more, live=True
        )


def parts(view: QueueView) -> tuple[str, str]:
    """Return the client id and the name of a subscription; no client where it is shared by all."""
    client, dot, name = view.name.partition(".")
    return (client, name) if dot else ("", view.name)


def _lasting(broker: str, views: list[QueueView]) -> Table:
    rows: list[dict[str, Any]] = []
    for view in views:
        client, name = parts(view)
        rows.append(
            {
                "queue": view.name,
                "client": client,
                "name": name,
                "topic": view.address,
                "selector": view.selector,
                "state": f"{view.consumers} connected" if view.consumers else "not connected",
                "messages": f"{view.messages:,}",
                "octets": octets(view.octets),
                "oldest": age(view.oldest_ms) if view.waiting else "",
            }
        )

    def delete(row: dict[str, Any]) -> list[tuple[str, dict[str, str]]]:
        return [("delete", {"broker": broker, "action": "destroy", "queue": str(row["queue"])})]

    columns = [
        ("name", "Subscription", "name"),
        ("client", "Client id", ""),
        ("topic", "Topic", ""),
        ("selector", "Selector", "text"),
        ("state", "Reader", ""),
        ("messages", "Messages", "n"),
        ("octets", "Size", "n"),
        ("oldest", "Oldest", "n"),
    ]
    goes = ("name", lambda row: link("/queue", broker=broker, name=row["queue"]))
    return Table("", columns, rows, "There is no such subscription.", goes, delete)


def _filled(told: dict[str, Any]) -> Table:
    rows = [{**row, "broker": name} for name, one in told.items() for row in one["rows"]]
    for row in rows:
        row["takes"] = "what its readers want" if row["selective"] else "all"
    rows.sort(key=lambda row: (row["topic"], row["broker"], row["queue"]))
    columns = [
        ("topic", "Virtual topic", ""),
        ("broker", "Broker", ""),
        ("queue", "Fills the queue", ""),
        ("takes", "With", ""),
        ("messages", "Messages", "n"),
        ("consumers", "Consumers", "n"),
    ]
    goes = ("queue", lambda row: link("/queue", broker=row["broker"], name=row["queue"]))
    return Table("", columns, rows, "No queue is filled by a virtual topic.", goes)


def _rules(told: dict[str, Any]) -> Table:
    rows = [{**rule, "broker": name} for name, one in told.items() for rule in one["rules"]]
    columns = [
        ("name", "Topics", "mono"),
        ("broker", "Broker", ""),
        ("prefix", "Before the name", "mono"),
        ("postfix", "Behind it", "mono"),
    ]
    return Table("The rules", columns, rows, "These brokers have no virtual topics.")
