"""What `entrepot top` shows: brokers, their queues and bridges at one moment, with rates since the one before.

Pure: it is given what brokers answered, and makes rows of it, for a screen or for programs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from entrepot.base.environment import MILLISECOND, SECOND
from entrepot.cli.values import in_words
from entrepot.core.operators.views import QueueView
from entrepot.management.view import Alarm, Glance, Rates, alarms, rates

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

ASKED_AS: Final = {
    "messages": "messages",
    "in": "accepted",
    "out": "settled",
    "consumers": "consumers",
    "age": "oldest_ms",
    "dead": "dead",
    "name": "name",
}
"""What the broker sorts its page by. It knows no rates: those that moved most so far come, and are sorted here."""
HEADS: Final = ("broker", "up", "queues", "messages", "in/s", "out/s", "consumers", "connections", "memory", "store")
ALARMS_SHOWN: Final = 8
MILLION: Final = 1_000_000
NAME_WIDTH: Final = 6  # of a name a narrow terminal leaves so much
GAP: Final = 2  # between columns


class QueueLine(msgspec.Struct):
    """One queue of one broker. ``came`` and ``left``: messages a second, None before a second look."""

    broker: str
    view: QueueView
    came: float | None
    left: float | None


class BrokerLine(msgspec.Struct):
    """One broker, asked at ``url``. ``error``: why it did not answer, with the rest as it was before."""

    url: str
    glance: Glance | None = None
    rates: Rates | None = None
    queues: list[QueueView] = []
    error: str = ""

    @property
    def name(self) -> str:
        """What it is called, or where it is while that is not known."""
        return self.url if self.glance is None else self.glance.name


class Board:
    """All brokers that are watched, as they were seen last."""

    def __init__(self, places: Mapping[str, str], *, sort: str = "messages", rows: int = 20) -> None:
        """``places``: URLs by what is shown of them; ``sort``: one of `ASKED_AS`; ``rows``: queues that are shown."""
        self.places: Final = dict(places)
        self.lines: Final = {place: BrokerLine(place) for place in places}
        self.sort = sort
        self.rows = rows
        self._before: Final[dict[tuple[str, str], tuple[int, int, float]]] = {}
        self._flow: Final[dict[tuple[str, str], tuple[float, float]]] = {}

    def answered(self, url: str, glance: Glance, queues: list[QueueView]) -> None:
        """A broker was looked at."""
        line = self.lines[url]
        before, line.glance = line.glance, glance
        line.rates = rates(before, glance) if before is not None and not line.error else None
        line.error = ""
        line.queues = queues
        seen: dict[tuple[str, str], tuple[int, int, float]] = {}
        for one in queues:
            key = (url, one.name)
            seen[key] = (one.accepted, one.settled, glance.at)
            last = self._before.get(key)
            span = 0.0 if last is None else glance.at - last[2]
            if last is None or span <= 0 or one.accepted < last[0] or one.settled < last[1]:
                self._flow.pop(key, None)
            else:
                self._flow[key] = ((one.accepted - last[0]) / span, (one.settled - last[1]) / span)
        for known in [key for key in self._before if key[0] == url]:
            del self._before[known]
            if known not in seen:
                self._flow.pop(known, None)
        self._before.update(seen)

    def failed(self, url: str, why: str) -> None:
        """A broker did not answer."""
        self.lines[url].error = why

    # -- what is shown -------------------------------------------------------------------------------------------------

    def queues(self) -> list[QueueLine]:
        """Return the queues of all brokers that answer, as they are sorted now."""
        found = [
            QueueLine(line.name, view, *self._flow.get((line.url, view.name), (None, None)))
            for line in self.lines.values()
            if not line.error
            for view in line.queues
        ]
        found.sort(key=lambda one: (one.view.name, one.broker))
        orders = {
            "messages": lambda one: one.view.messages,
            "in": lambda one: one.came or 0.0,
            "out": lambda one: one.left or 0.0,
            "consumers": lambda one: one.view.consumers,
            "age": lambda one: one.view.oldest_ms,
            "dead": lambda one: one.view.dead,
        }
        if self.sort in orders:
            found.sort(key=orders[self.sort], reverse=True)
        return found[: self.rows]

    def alarms(self) -> list[tuple[str, Alarm]]:
        """Return what is wrong, and where; the worst first."""
        found = [
            (line.name, Alarm("error", "it does not answer", line.error)) for line in self.lines.values() if line.error
        ]
        seen = [
            (line.name, one)
            for line in self.lines.values()
            if line.glance is not None and not line.error
            for one in alarms(line.glance)
        ]
        return found + sorted(seen, key=lambda one: one[1].level != "error")

    def facts(self) -> list[dict[str, Any]]:
        """Return each broker as an object for programs."""
        told = []
        for line in self.lines.values():
            row: dict[str, Any] = {"broker": line.name, "url": line.url, "error": line.error or None}
            glance = line.glance
            if glance is not None and not line.error:
                flow = line.rates
                row |= {
                    "uptime_ms": glance.number("uptimeMillis"),
                    "queues": glance.lasting,
                    "messages": glance.sums["messages"],
                    "consumers": glance.sums["consumers"],
                    "connections": glance.number("connectionCount"),
                    "memory_percent": glance.number("addressMemoryUsagePercentage"),
                    "store_percent": glance.store_percent,
                    "in_per_s": None if flow is None else round(flow.accepted, 1),
                    "out_per_s": None if flow is None else round(flow.settled, 1),
                    "bridges": [_bridge(one) for one in glance.bridges],
                    "alarms": [msgspec.to_builtins(one) for one in alarms(glance)],
                    "top": [
                        {
                            "queue": one.view.name,
                            "messages": one.view.messages,
                            "in_flight": one.view.in_flight,
                            "consumers": one.view.consumers,
                            "oldest_ms": one.view.oldest_ms,
                            "dead": one.view.dead,
                            "in_per_s": None if one.came is None else round(one.came, 1),
                            "out_per_s": None if one.left is None else round(one.left, 1),
                        }
                        for one in self.queues()
                        if one.broker == line.name
                    ],
                }
            told.append(row)
        return told

    def screen(self, width: int) -> RenderableType:
        """Return all of it for a terminal of so many columns."""
        from rich.console import Group  # noqa: PLC0415 - 100 ms that other commands need not wait for

        parts: list[RenderableType] = [self._brokers(width), self._queues(width)]
        if any(line.glance is not None and line.glance.bridges for line in self.lines.values()):
            parts.append(self._bridges(width))
        wrong = self.alarms()
        if wrong:
            parts.append(self._alarms(wrong, width))
        return Group(*parts)

    def _brokers(self, width: int) -> Table:
        table = _table(HEADS)
        for line in self.lines.values():
            glance, flow = line.glance, line.rates
            if glance is None:
                table.add_row(_plain(line.name), *[""] * 9, style="red" if line.error else "dim")
                continue
            table.add_row(
                _plain(glance.name),
                in_words(glance.number("uptimeMillis") // 1000 * SECOND),
                f"{glance.lasting:,}",
                f"{glance.sums['messages']:,}",
                _rate(None if flow is None else flow.accepted),
                _rate(None if flow is None else flow.settled),
                f"{glance.sums['consumers']:,}",
                f"{glance.number('connectionCount'):,}",
                f"{glance.number('addressMemoryUsagePercentage')} %",
                f"{glance.store_percent} %",
                style="red" if line.error else "",
            )
        return _whole(table, width)

    def _queues(self, width: int) -> Table:
        several = len(self.lines) > 1
        heads = ("queue", "messages", "in flight", "in/s", "out/s", "consumers", "age", "dead")
        table = _table(("broker", *heads) if several else heads, texts=2 if several else 1, marked=self.sort)
        for one in self.queues():
            view = one.view
            stuck = view.waiting > 0 and view.consumers == 0
            cells = (
                _plain(view.name),
                f"{view.messages:,}",
                f"{view.in_flight:,}",
                _rate(one.came),
                _rate(one.left),
                f"{view.consumers:,}",
                in_words(view.oldest_ms * MILLISECOND) if view.oldest_ms > 0 else "",
                f"{view.dead:,}" if view.dead else "",
            )
            style = "dim" if view.paused else "yellow" if stuck else ""
            table.add_row(*((_plain(one.broker), *cells) if several else cells), style=style)
        return _whole(table, width)

    def _bridges(self, width: int) -> Table:
        table = _table(("broker", "bridge", "to", "state", "sent", "under way", "failures"), texts=4)
        for line in self.lines.values():
            for one in line.glance.bridges if line.glance is not None and not line.error else ():
                told = _bridge(one)
                table.add_row(
                    _plain(line.name),
                    _plain(told["bridge"]),
                    _plain(told["to"]),
                    _plain(told["state"]),
                    *(f"{int(told[key] or 0):,}" for key in ("sent", "under_way", "failures")),
                    style="" if told["state"] in ("open", "started") else "red",
                )
        return _whole(table, width)

    def _alarms(self, wrong: list[tuple[str, Alarm]], width: int) -> Table:
        table = _table(("", "what is wrong", "why"), texts=3)
        for name, one in wrong[:ALARMS_SHOWN]:
            what = f"{one.queue}: {one.what}" if one.queue else one.what
            style = "red" if one.level == "error" else "yellow"
            table.add_row(_plain(name), _plain(what), _plain(one.why), style=style)
        if len(wrong) > ALARMS_SHOWN:
            table.add_row("", f"and {len(wrong) - ALARMS_SHOWN} more", "", style="dim")
        return _whole(table, width)


def _table(heads: Sequence[str], *, texts: int = 1, marked: str = "") -> Table:
    from rich.table import Table  # noqa: PLC0415 - as above

    signs = {"in": "in/s", "out": "out/s", "name": "queue"}
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for at, head in enumerate(heads):
        chosen = marked and head == signs.get(marked, marked)
        table.add_column(f"{head}*" if chosen else head, justify="left" if at < texts else "right", no_wrap=True)
    return table


def _whole(table: Table, width: int) -> Table:
    """Let a narrow terminal cut names, the widest first, and no number."""
    columns = table.columns
    wanted = [max([len(str(one.header)), *(len(str(cell)) for cell in one.cells)]) for one in columns]
    texts = [at for at, one in enumerate(columns) if one.justify != "right"]
    over = sum(wanted) + GAP * len(columns) - width
    while over > 0 and any(wanted[at] > NAME_WIDTH for at in texts):
        widest = max(texts, key=lambda at: wanted[at])
        wanted[widest] -= 1
        over -= 1
    for one, wide in zip(columns, wanted, strict=True):
        one.width = wide
    return table


def _plain(text: str) -> Any:
    """Return text that a terminal shows as it is: names are whatever a client chose."""
    from rich.text import Text  # noqa: PLC0415 - as above

    return Text("".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text))


def _rate(value: float | None) -> str:
    if value is None:
        return "..."
    return f"{value / MILLION:,.1f} M" if value >= MILLION else f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def _bridge(told: dict[str, Any]) -> dict[str, Any]:
    return {
        "bridge": str(told.get("connector") or told.get("name") or ""),
        "to": str(told.get("peer") or told.get("place") or ""),
        "state": str(told.get("state") or ""),
        "sent": told.get("sent") or told.get("forwarded"),
        "under_way": told.get("under_way"),
        "failures": told.get("failures"),
    }
