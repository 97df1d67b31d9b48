"""Pages of what stands behind a broker: its store, and who is master of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from entrepot.base.errors import EntrepotError
from entrepot.console.access import Visitor
from entrepot.console.pages import lives
from entrepot.console.tables import Table, age, when

if TYPE_CHECKING:
    from entrepot.console.pages import Pages

UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


class Standing:
    """The pages Store and HA of one console."""

    def __init__(self, pages: Pages) -> None:
        self.pages: Final = pages

    def routes(self) -> list[Route]:
        """Return where they are."""
        return [Route("/store", self.pages.page(self.store)), Route("/ha", self.pages.page(self.availability))]

    async def _asked(
        self, request: Request, visitor: Visitor, operation: str
    ) -> tuple[dict[str, Any], dict[str, EntrepotError]]:
        who = (visitor.user, visitor.password)
        return await self.pages.watches.asked(*who, operation, lives=lives(request))

    async def store(self, request: Request, visitor: Visitor) -> Response:
        """Sizes, times of syncs and the oldest segments of each broker, with the queues that keep them."""
        told, failures = await self._asked(request, visitor, "describeStorage")
        sums = [_sums(name, one) for name, one in told.items()]
        rows = [_segment(name, row) for name, one in told.items() for row in one["oldest"]]
        tables = [
            Table(
                "Stores",
                [
                    ("broker", "Broker", ""),
                    ("size", "On disk", "n"),
                    ("live", "Alive", "n"),
                    ("garbage", "Garbage", "n"),
                    ("segments", "Segments", "n"),
                    ("limit", "May take", "n"),
                    ("syncs", "Syncs", "n"),
                    ("p50", "Sync, half", "n"),
                    ("p99", "Sync, 99 %", "n"),
                    ("most", "Slowest", "n"),
                    ("state", "State", "text"),
                ],
                sums,
                "No broker answers.",
            ),
            Table(
                "The oldest segments, and whose messages keep them",
                [
                    ("broker", "Broker", ""),
                    ("name", "Segment", "mono"),
                    ("size", "On disk", "n"),
                    ("live", "Alive", "n"),
                    ("messages", "Messages", "n"),
                    ("others", "Other records", "n"),
                    ("holders", "Kept by", "text"),
                ],
                rows,
                "There are no segments: these brokers keep nothing.",
            ),
        ]
        lead = "A segment is removed when nothing in it is alive, or rewritten when most of it is dead"
        return self.pages.rows(request, visitor, "Store", lead, "", tables, ask=[], trouble=_away(failures), live=True)

    async def availability(self, request: Request, visitor: Visitor) -> Response:
        """Who is master, since when, with which epoch, and how far copies are behind."""
        told, failures = await self._asked(request, visitor, "describeAvailability")
        rows = [_role(name, one) for name, one in told.items()]
        copies = [
            {"broker": name, "what": key, "value": value if isinstance(value, str) else json.dumps(value)}
            for name, one in told.items()
            for key, value in (one.get("replication") or {}).items()
        ]
        tables = [
            Table(
                "",
                [
                    ("broker", "Broker", ""),
                    ("role", "Role", ""),
                    ("since", "Since", ""),
                    ("epoch", "Epoch", "n"),
                    ("master", "Master", "text"),
                    ("locker", "Lock", ""),
                    ("lease", "Lease", "n"),
                    ("left", "Left of it", "n"),
                ],
                rows,
                "No broker answers.",
            )
        ]
        if copies:
            columns = [("broker", "Broker", ""), ("what", "Replication", "mono"), ("value", "", "text")]
            tables.append(Table("Copies of the store", columns, copies, ""))
        lead = "Who was master before, and why that changed: entrepot ha history DIR"
        return self.pages.rows(request, visitor, "HA", lead, "", tables, ask=[], trouble=_away(failures), live=True)


def octets(count: int) -> str:
    """Return a size as people say it."""
    size = float(count)
    for unit in UNITS:
        if size < 1024 or unit == UNITS[-1]:
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


def _away(failures: dict[str, EntrepotError]) -> str:
    return " ".join(f"{name} does not answer: {error}" for name, error in failures.items())


def _sums(name: str, one: dict[str, Any]) -> dict[str, Any]:
    syncs = one.get("syncs") or {}

    def took(field: str) -> str:
        value = int(syncs.get(field, -1))
        return "" if value < 0 else f"{value / 1000:.2f} ms"

    return {
        "broker": name,
        "size": octets(one["octets"]),
        "live": octets(one["live_octets"]),
        "garbage": f"{one['garbage_percent']} %",
        "segments": f"{one['segments']:,}",
        "limit": octets(one["limit_octets"]) if one["limit_octets"] else "the disk",
        "syncs": f"{syncs.get('count', 0):,}",
        "p50": took("p50_us"),
        "p99": took("p99_us"),
        "most": took("most_us"),
        "state": one["full"] or ("rewriting segments" if one["compacting"] else "well"),
    }


def _segment(name: str, row: dict[str, Any]) -> dict[str, Any]:
    holders = ", ".join(f"{one['queue']} ({one['messages']:,}, {octets(one['octets'])})" for one in row["queues"])
    return {
        **row,
        "broker": name,
        "size": octets(row["octets"]) + (", growing" if row["growing"] else ""),
        "live": octets(row["live_octets"]),
        "holders": holders + ("" if row["whole"] else " and more that was not looked at"),
    }


def _role(name: str, one: dict[str, Any]) -> dict[str, Any]:
    master = one.get("master") or {}
    left = int(one.get("lease_left_ms", -1))
    return {
        "broker": name,
        "role": one.get("role", "alone"),
        "since": when(int(one.get("since") or 0)),
        "epoch": master.get("epoch", ""),
        "master": f"{master['broker']} on {master['host']}, process {master['pid']}" if master else "",
        "locker": one.get("locker", ""),
        "lease": age(int(one["lease"])) if one.get("lease") else "",
        "left": age(left) if left >= 0 else "",
    }
