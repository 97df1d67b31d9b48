"""The pages Configuration and Drift: what brokers obey and where that is said, and where they differ."""

from __future__ import annotations

import json
from typing import Final

from msgspec import convert
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from entrepot.console.access import Visitor
from entrepot.console.numbers import count
from entrepot.console.pages import Pages, link
from entrepot.console.tables import Table
from entrepot.core.operators.settings_page import SOURCES
from entrepot.management.drift import Difference, Settings, differences

SIZE: Final = 200  # settings of a page
PAGES_MOST: Final = 10**6
DIFFERENCES_MOST: Final = 500  # that are shown: brokers that differ in more have nothing in common
SEARCHED: Final = 200  # characters


class Effective:
    """These pages of one console."""

    def __init__(self, pages: Pages) -> None:
        self.pages: Final = pages

    def routes(self) -> list[Route]:
        """Return where they are."""
        page = self.pages.page
        return [Route("/configuration", page(self.configuration)), Route("/drift", page(self.drift))]

    async def configuration(self, request: Request, visitor: Visitor) -> Response:
        """Every setting of one broker that is obeyed, searched by the broker and cut into pages by it."""
        broker, desk = await self.pages.desk(request, visitor)
        query = request.query_params
        search, source = query.get("q", "")[:SEARCHED], query.get("source", "")
        source = source if source in SOURCES else ""
        page = max(1, count(query.get("page", "1"), PAGES_MOST) or 1)
        wanted = {"search": search.split()[:10], "source": source, "skip": (page - 1) * SIZE, "most": SIZE}
        told = convert(await desk.ask("broker", "describeConfiguration", json.dumps(wanted)), Settings)
        columns = [
            ("setting", "Setting", "mono name"),
            ("value", "Value", "mono text"),
            ("where", "Said by", "mono text"),
        ]
        rows = [{"setting": one.setting, "value": one.value, "where": one.where} for one in told.rows]
        files = f", read from {', '.join(told.files)}" if told.files else ""
        return self.pages.rows(
            request,
            visitor,
            "Configuration",
            f"of {broker}{files}. Secrets are not shown",
            broker,
            [Table("", columns, rows, "No setting is like that.")],
            ask=[("q", "Name, value or file", search)],
            choices=[("source", "Said by", source, SOURCES)],
            notes=[f"Changed in a file, and takes a restart: {what}." for what in told.pending],
            turns=_turns(broker, search, source, page, told),
        )

    async def drift(self, request: Request, visitor: Visitor) -> Response:
        """What differs between the brokers of this console."""
        sides = await self.pages.watches.settings(visitor.user, visitor.password)
        if sides.failures and not sides.views:
            raise next(iter(sides.failures.values()))
        found = differences(sides.views)
        search = request.query_params.get("q", "")[:SEARCHED]
        meant = [one for one in found if search.lower() in one.setting.lower()]
        names = list(sides.views)
        tables = [_table("", [one for one in meant if not one.own], names, _alike(names, search))]
        own = [one for one in meant if one.own]
        if own:
            title = f"{len(own):,} that have to differ: names, places, directories"
            tables.append(_table(title, own, names, "", folded=True))
        lead = "Settings that differ between these brokers, or that one has and another lacks"
        return self.pages.rows(
            request,
            visitor,
            "Drift",
            lead,
            "",
            tables,
            ask=[("q", "Setting", search)],
            trouble=" ".join(f"{name} is not compared: {error}" for name, error in sides.failures.items()),
            notes=_notes(sides.views, meant),
        )


def _table(title: str, found: list[Difference], names: list[str], empty: str, *, folded: bool = False) -> Table:
    """Return differences, a column a broker; keys are numbers, for a broker may be called like the first column."""
    columns = [("setting", "Setting", "mono name")]
    columns += [(f"broker {at}", name, "mono text") for at, name in enumerate(names)]
    rows = [
        {"setting": one.setting, **{f"broker {at}": one.shown(name) for at, name in enumerate(names)}}
        for one in found[:DIFFERENCES_MOST]
    ]
    return Table(title, columns, rows, empty, folded=folded)


def _alike(names: list[str], search: str) -> str:
    if len(names) < 2:
        return "There is one broker to look at: nothing differs."
    return "No difference is called like that." if search else "These brokers obey the same."


def _notes(views: dict[str, Settings], found: list[Difference]) -> list[str]:
    notes = [
        f"Of {name} the first {len(told.rows):,} of {told.count:,} settings are compared."
        for name, told in views.items()
        if told.count > len(told.rows)
    ]
    if len({told.family for told in views.values()}) > 1:
        notes.append("Their files are of different families, which call the same by other names.")
    if len(found) > DIFFERENCES_MOST:
        notes.append(f"{len(found):,} settings differ: search for one.")
    return notes


def _turns(broker: str, search: str, source: str, page: int, told: Settings) -> list[tuple[str, str]]:
    def at(number: int) -> str:
        return link("/configuration", broker=broker, q=search, source=source, page=number)

    first = (page - 1) * SIZE
    shown = f"{first + 1:,} to {first + len(told.rows):,} of {told.count:,}" if told.rows else f"none of {told.count:,}"
    earlier = [("earlier", at(page - 1))] if page > 1 else []
    later = [("later", at(page + 1))] if first + len(told.rows) < told.count else []
    return [*earlier, (shown, ""), *later]
