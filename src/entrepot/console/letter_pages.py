"""The page of dead letters: by the queue that they died in and the cause."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from entrepot.console.access import Visitor
from entrepot.console.pages import link
from entrepot.console.tables import Table
from entrepot.management.letters import selector_of

if TYPE_CHECKING:
    from entrepot.console.pages import Pages

LETTER_WORDS: Final = ("dlq", "expiry", "dead")  # in names of queues with dead letters, whatever the case
LETTER_PLACES: Final = 20


class Letters:
    """The page Dead letters of one console."""

    def __init__(self, pages: Pages) -> None:
        self.pages: Final = pages

    def routes(self) -> list[Route]:
        """Return where it is."""
        return [Route("/letters", self.pages.page(self.letters))]

    async def letters(self, request: Request, visitor: Visitor) -> Response:
        """Dead letters by cause, with a retry of each group."""
        broker, desk = await self.pages.desk(request, visitor)
        wanted = request.query_params.get("name", "")
        places = [wanted] if wanted else await self._places(broker, visitor)
        rows: list[dict[str, Any]] = []
        for place in places:
            looked = await desk.ask(f"queue.{place}", "describeLetters")
            rows += [{**one, "place": place} for one in looked["found"]]

        def buttons(row: dict[str, Any]) -> list[tuple[str, dict[str, str]]]:
            chosen = selector_of(row)
            fields = {"broker": broker, "queue": row["place"], "selector": chosen}
            return [("send back", {**fields, "action": "retry"}), ("delete", {**fields, "action": "purge"})]

        table = Table(
            "",
            [
                ("place", "Queue", ""),
                ("count", "Letters", "n"),
                ("cause", "Cause", "text"),
                ("origin", "Died in", ""),
                ("last", "Last", "mono"),
            ],
            rows,
            "No dead letters wait.",
            ("last", lambda row: link("/message", broker=broker, name=row["place"], id=row["last"])),
            buttons,
        )
        lead = "The newest look at up to 300 letters of each queue, the five most frequent causes first."
        return self.pages.rows(
            request, visitor, "Dead letters", lead, broker, [table], ask=[("name", "Queue", wanted)], live=True
        )

    async def _places(self, broker: str, visitor: Visitor) -> list[str]:
        """Return the queues with messages that are called as those of dead letters are, the fullest first."""
        watch = await self.pages.watches.of(broker, visitor.user, visitor.password)
        page = await watch.page({"search": LETTER_WORDS, "show": "waiting", "most": LETTER_PLACES})
        return [queue.name for queue in page.rows]
