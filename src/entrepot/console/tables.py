"""Tables of the pages: queues that are searched, sorted and cut into pages, and plain ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

from starlette.requests import Request

from entrepot.console.numbers import count
from entrepot.core.operators.control import DESCRIBED_MOST
from entrepot.core.operators.overlook import NAME, OLDEST, SHOWN, SORTED
from entrepot.core.operators.views import QueueView

SIZE: Final = 100  # rows of a page
SORTS: Final = (NAME, OLDEST, *SORTED)
PAGES_MOST: Final = 10**6

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
        *,
        folded: bool = False,
    ) -> None:
        """``empty``: what is said where there are no rows; ``folded``: it is shown to who opens it."""
        self.folded: Final = folded
        self.title: Final = title
        self.columns: Final = columns
        self.rows: Final = rows
        self.empty: Final = empty
        self.link: Final = link
        self.buttons: Final = buttons


class QueueList:
    """One page of queues, as the query of a request wants it; `fill` it. ``count``: how many there are in all."""

    def __init__(self, request: Request, routing: str) -> None:
        query = request.query_params
        self.place: Final = request.url.path
        self.routing: Final = routing
        self.query: Final = query.get("q", "")[:200]
        self.show: Final = query.get("show", "own") if query.get("show") in SHOWN else "own"
        self.broker: Final = query.get("broker", "")
        self.sort: Final = query.get("sort", "messages") if query.get("sort") in SORTS else "messages"
        self.down: Final = query.get("down", "1") == "1"
        self.page = max(1, count(query.get("page", "1"), PAGES_MOST) or 1)
        self.count = 0
        self.rows: list[tuple[str, QueueView]] = []

    def wanted(self, *, several: bool) -> dict[str, object]:
        """Return what a broker is asked for; of ``several``, each for all up to the end of the page."""
        skip = (self.page - 1) * SIZE
        found: dict[str, object] = {"search": self.query, "show": self.show, "routing": self.routing}
        cut = {"skip": 0, "most": skip + SIZE} if several else {"skip": skip, "most": SIZE}
        return {**found, "sort": self.sort, "down": self.down, **cut}

    @property
    def far(self) -> bool:
        """Whether brokers side by side cannot be asked for so many."""
        return self.page * SIZE > DESCRIBED_MOST

    @property
    def beyond(self) -> bool:
        """Whether there is no such page; it is the last one from now on."""
        last = max(1, -(-self.count // SIZE))
        if self.page <= last:
            return False
        self.page = last
        return True

    def fill(self, counts: Sequence[int], every: Sequence[tuple[str, QueueView]], *, several: bool) -> None:
        """Take what brokers answered: how many each has, and rows; of ``several``, in any order."""
        self.count = sum(counts)
        start = (self.page - 1) * SIZE if several else 0
        self.rows = (self._in_order(every) if several else list(every))[start : start + SIZE]

    def choose(self, every: Sequence[tuple[str, QueueView]]) -> None:
        """Take all queues that there are, and choose."""
        found = [pair for pair in every if self._wanted(pair[1])]
        self.count = len(found)
        self.page = min(self.page, max(1, -(-self.count // SIZE)))
        start = (self.page - 1) * SIZE
        self.rows = self._in_order(found)[start : start + SIZE]

    @property
    def first(self) -> int:
        """Return the number of the first row, from 1."""
        return (self.page - 1) * SIZE + 1

    @property
    def last(self) -> int:
        """Return the number of the last row."""
        return (self.page - 1) * SIZE + len(self.rows)

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

    def _in_order(self, every: Sequence[tuple[str, QueueView]]) -> list[tuple[str, QueueView]]:
        found = sorted(every, key=lambda pair: (pair[1].name, pair[0]))
        if self.sort != "name" or self.down:
            found.sort(key=lambda pair: getattr(pair[1], self.sort), reverse=self.down)
        return found

    def _wanted(self, queue: QueueView) -> bool:
        if queue.routing != self.routing:
            return False
        if self.query and self.query.lower() not in queue.name.lower():
            return False
        if self.show == "all":
            return True
        if queue.temporary:
            return False
        if self.show in ("lasting", "unheard"):
            return self.routing == "MULTICAST" and queue.durable and (self.show == "lasting" or not queue.consumers)
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
