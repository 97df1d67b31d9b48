"""The page Reports: what the Spark jobs wrote into a directory, and each report as it is, in a sandbox.

A report is a file that somebody wrote: it is shown without scripts, forms, frames and anything from elsewhere, whatever
is in it. It keeps the origin of the console for one reason: a link to the report beside it is followed as who is logged
in, and nothing in it can run. Who may manage the first broker may read them.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from entrepot.base.errors import LimitExceeded
from entrepot.console.access import Visitor
from entrepot.console.reports import Report, Reports
from entrepot.console.standing_pages import octets
from entrepot.console.tables import Table, when

if TYPE_CHECKING:
    from entrepot.console.pages import Pages

SANDBOX: Final = (
    "sandbox allow-same-origin; default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
FRESH: Final = 2.0  # s that a look at the directory serves all who ask
READING_MOST: Final = 4  # reports that are read at a time
UNTOLD: Final = (
    "No directory is named: start the console with --reports DIR, set ENTREPOT_REPORTS, or write "
    '<?entrepot reports="DIR"?> into the file of the broker.'
)
Looked = tuple[list[Report], bool]


class ReportPages:
    """The page Reports of one console, and the reports."""

    def __init__(self, pages: Pages, directory: str) -> None:
        """``directory``: where the reports are, "" for none."""
        self.pages: Final = pages
        self.reports: Final = Reports(directory) if directory else None
        self._lock: Final = asyncio.Lock()
        self._looked: tuple[float, Looked] | None = None
        self._reading = 0

    def routes(self) -> list[Route]:
        """Return where they are."""
        return [
            Route("/reports", self.pages.page(self.listed)),
            Route("/reports/{place:path}", self.pages.page(self.one)),
        ]

    async def _admit(self, request: Request, visitor: Visitor) -> None:
        """See that a visitor may manage: reports tell of all queues. Raises AccessDenied."""
        _, desk = await self.pages.desk(request, visitor)
        await desk.ask("broker", "describeAttributes", "name")

    async def listed(self, request: Request, visitor: Visitor) -> Response:
        """Show what there is, the newest first."""
        await self._admit(request, visitor)
        found, whole = await self._look()
        table = Table(
            "",
            [
                ("name", "Report", "name"),
                ("state", "State", ""),
                ("finding", "What it found", "text"),
                ("kind", "Kind", ""),
                ("when", "Written, UTC", ""),
                ("size", "Size", "n"),
            ],
            [_row(report) for report in found],
            UNTOLD if self.reports is None else "There is none yet: entrepot pipeline report, audit or plan --to DIR.",
            ("name", lambda row: row["href"]),
        )
        notes = [] if whole else ["There are more than are shown: the newest of those that were looked at are."]
        lead = "What the jobs of the pipeline wrote"
        return self.pages.rows(request, visitor, "Reports", lead, "", [table], ask=[], notes=notes, live=True)

    async def one(self, request: Request, visitor: Visitor) -> Response:
        """Show one report as it is."""
        await self._admit(request, visitor)
        if self._reading >= READING_MOST:
            raise LimitExceeded(f"{READING_MOST} reports are being read", remedy="try again soon")
        self._reading += 1
        try:
            reports = self.reports or Reports("")
            body, kind = await asyncio.to_thread(reports.read, request.path_params["place"])
        finally:
            self._reading -= 1
        return Response(body, media_type=kind, headers={"Content-Security-Policy": SANDBOX})

    async def _look(self) -> Looked:
        if self.reports is None:
            return [], True
        async with self._lock:
            now = time.monotonic()
            if self._looked is None or now - self._looked[0] > FRESH:
                self._looked = now, await asyncio.to_thread(self.reports.listed)
            return self._looked[1]


def _row(report: Report) -> dict[str, Any]:
    name = report.place.removesuffix("/report.html")
    return {
        "name": name,
        "href": "/reports/" + quote(report.place),
        "kind": report.kind,
        "when": when(int(report.at * 1000)),
        "finding": report.sentence,
        "state": {True: "well", False: "look at it", None: ""}[report.good],
        "size": octets(report.octets),
    }
