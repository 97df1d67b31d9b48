"""Tables of the pages: queues that are searched, sorted and cut into pages, and plain ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

from starlette.requests import Request

from entrepot.console.numbers import count
from entrepot.core.operators.views import QueueView

SIZE: Final = 100  # rows of a page
SORTS: Final = ("name", "messages", "in_flight", "consumers", "oldest_ms", "accepted", "settled", "dead")

Buttons = Callable[[dict[str, Any]], list[tuple[str, dict[str, str]]]]


class Table:
    """A plain table. ``columns``.

    Key, title, class; ``link``: a column and where it leads; ``buttons``: what is done.
    """

    def __init__(
        self,
        title: str,
        columns: Sequence[tuple[str, str, str]],
        rows: Sequence[Mapping[str, Any]],
        empty: str,
        link: tuple[str, Callable[[dict[str, Any]], str]] | None = None,
        buttons: Buttons | None = None,
    ) -> None:
        """``empty``: what is said where there are no rows."""
        self.title: Final = title
        self.columns: Final = columns
        self.rows: Final = rows
        self.empty: Final = empty
        self.link: Final = link
        self.buttons: Final = buttons


class QueueList:
    """One page of queues, as the query of a request wants it. ``count``: how many there are in all."""

    def __init__(self, request: Request, every: Sequence[tuple[str, QueueView]]) -> None:
        query = request.query_params
        self.place: Final = request.url.path
        self.query: Final = query.get("q", "")[:200]
        self.show: Final = query.get("show", "own")
        self.broker: Final = query.get("broker", "")
        self.sort: Final = query.get("sort", "messages") if query.get("sort") in SORTS else "messages"
        self.down: Final = query.get("down", "1") == "1"
        found = [pair for pair in every if self._wanted(pair[1])]
        found.sort(key=lambda pair: (pair[1].name, pair[0]))
        if self.sort != "name" or self.down:
            found.sort(key=lambda pair: getattr(pair[1], self.sort), reverse=self.down)
        self.count: Final = len(found)
        last = max(1, -(-self.count // SIZE))
        self.page: Final = min(last, max(1, count(query.get("page", "1")) or 1))
        start = (self.page - 1) * SIZE
        self.rows: Final = found[start : start + SIZE]
        self.first: Final = start + 1
        self.last: Final = start + len(self.rows)

    def at(self, page: int) -> str:
        """Return where another page is."""
        return self._link(page=page)

    def sorted_by(self, column: str) -> str:
        """Return where it is sorted by a column; the other way round where it is already."""
        down = not self.down if column == self.sort else column != "name"
        return self._link(page=1, sort=column, down=int(down))

    def _link(self, **changes: object) -> str:
        said: dict[str, object] = {"q": self.query, "show": self.show, "broker": self.broker, "sort": self.sort}
        said |= {"down": int(self.down), **changes}
        return f"{self.place}?{urlencode({name: value for name, value in said.items() if value != ''})}"

    def _wanted(self, queue: QueueView) -> bool:
        if self.query and self.query.lower() not in queue.name.lower():
            return False
        if self.show == "all":
            return True
        if queue.temporary:
            return False
        if self.show == "waiting":
            return queue.messages > 0
        return self.show != "unread" or (queue.waiting > 0 and not queue.consumers)


def age(milliseconds: int) -> str:
    """Return a time as people say it."""
    seconds = milliseconds / 1000
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def when(wall: int) -> str:
    """Return a date, UTC."""
    return datetime.fromtimestamp(int(wall) / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S") if wall else ""
