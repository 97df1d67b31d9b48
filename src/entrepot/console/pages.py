"""Pages for people: what a broker tells, laid out by templates. What they change goes through `console/acts.py`."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from entrepot.base.errors import (
    AccessDenied,
    EntrepotError,
    ForeignRequest,
    InvalidOption,
    LimitExceeded,
    Refused,
    TimedOut,
)
from entrepot.console.access import COOKIE, SESSION_LIFE, Visitor, audit
from entrepot.console.bodies import pretty
from entrepot.console.forms import form_of
from entrepot.console.gate import Gate, address_of
from entrepot.console.numbers import count
from entrepot.console.tables import QueueList, Table, age, when
from entrepot.console.watch import Watches
from entrepot.core.operators.together.asker import Asker
from entrepot.management.view import alarms, queue_named

NAV: Final = (
    ("o", "/", "Overview"),
    ("q", "/queues", "Queues"),
    ("t", "/topics", "Topics"),
    ("p", "/subscriptions", "Subscriptions"),
    ("y", "/virtual", "Virtual topics"),
    ("l", "/letters", "Dead letters"),
    ("c", "/connections", "Connections"),
    ("n", "/network", "Network"),
    ("e", "/explain", "Explain"),
    ("w", "/where", "Where"),
    ("s", "/schedule", "Schedule"),
    ("b", "/broker", "Broker"),
    ("d", "/store", "Store"),
    ("h", "/ha", "HA"),
    ("u", "/rights", "Rights"),
    ("f", "/configuration", "Configuration"),
    ("v", "/drift", "Drift"),
    ("r", "/reports", "Reports"),
)
ACTIONS: Final = (
    ("purge", "delete messages"),
    ("move", "move messages"),
    ("copy", "copy messages"),
    ("retry", "send dead letters back"),
)
ROWS: Final = 500  # of messages that wait for their time
SHOWS: Final = (
    ("own", "all but temporary"),
    ("waiting", "with messages"),
    ("unread", "without a reader"),
    ("all", "all"),
)
BROWSED: Final = 50  # messages of a page
PAGES_MOST: Final = 10**8

MISTAKES: Final = (Refused, InvalidOption, LimitExceeded)  # of who asks, not of a broker

Page = Callable[[Request, Visitor], Awaitable[Response]]


class Pages:
    """The pages of one console."""

    def __init__(self, gate: Gate, watches: Watches, *, read_only: bool) -> None:
        self.gate: Final = gate
        self.watches: Final = watches
        self.read_only: Final = read_only
        self.names: Final = list(watches.desks.brokers)
        self.templates: Final = Environment(
            loader=PackageLoader("entrepot.console"), autoescape=True, trim_blocks=True, lstrip_blocks=True
        )
        self.templates.globals |= {"age": age, "when": when, "link": link, "names": self.names, "nav": NAV}

    def routes(self) -> list[BaseRoute]:
        """Return where they are."""
        looks: Mapping[str, Page] = {
            "/": self.overview,
            "/queues": self.queues,
            "/topics": self.queues,
            "/queue": self.queue,
            "/message": self.message,
            "/explain": self.explain,
            "/where": self.where,
            "/schedule": self.schedule,
            "/broker": self.broker,
            "/history.json": self.history,
        }
        found: list[BaseRoute] = [Route(place, self.page(serve)) for place, serve in looks.items()]
        found += [
            Route("/login", self.login, methods=["GET", "POST"]),
            Route("/logout", self.logout, methods=["POST"]),
            Mount("/static", StaticFiles(packages=[("entrepot.console", "static")])),
        ]
        for old in ("/admin", "/admin/", "/console", "/console/", "/admin/index.jsp", "/admin/queues.jsp"):
            found.append(Route(old, _to_overview))
        return found

    def page(self, serve: Page) -> Callable[[Request], Awaitable[Response]]:
        """Return an endpoint for people: who may not look is asked for his name, what is wrong is a page."""

        async def endpoint(request: Request) -> Response:
            visitor = None
            try:
                visitor = await self.gate.visitor(request)
                return await serve(request, visitor)
            except ForeignRequest as error:
                return self.problem(request, visitor, error, 403)
            except AccessDenied as error:
                if visitor is None or not visitor.user:
                    return RedirectResponse(link("/login", next=_path(request)), 303)
                return self.problem(request, visitor, error, 403)
            except EntrepotError as error:
                mistake = isinstance(error, MISTAKES) and not isinstance(error, TimedOut)
                return self.problem(request, visitor, error, 400 if mistake else 502)

        return endpoint

    def show(self, request: Request, visitor: Visitor | None, template: str, title: str, **facts: Any) -> HTMLResponse:
        """Return a page."""
        looks = self.read_only or (visitor is not None and self.gate.only_looks(visitor))
        said = {"visitor": visitor, "title": title, "here": request.url.path, "read_only": looks, **facts}
        return HTMLResponse(self.templates.get_template(template).render(said))

    def problem(self, request: Request, visitor: Visitor | None, error: EntrepotError, status: int) -> Response:
        """Return the page that says what is wrong."""
        page = self.show(
            request, visitor, "problem.html", "That did not work", trouble=error.message, remedy=error.remedy
        )
        page.status_code = status
        return page

    async def desk(self, request: Request, visitor: Visitor) -> tuple[str, Asker]:
        """Return the broker that a page is about, and where it is asked."""
        name = request.query_params.get("broker") or self.names[0]
        return name, await self.watches.asker(name, visitor.user, visitor.password, lives=lives(request))

    # -- coming and going ----------------------------------------------------------------------------------------------

    async def login(self, request: Request) -> Response:
        """Ask for name and password, or look at them."""
        goal = _local(request.query_params.get("next", "/"))
        if request.method == "GET":
            return self.show(request, None, "login.html", "Log in", next=goal, trouble="")
        try:
            if request.headers.get("sec-fetch-site") not in (None, "same-origin", "none"):
                raise ForeignRequest("the form comes from another site")
            form = await form_of(request)
            goal = _local(form.get("next", "/"))
            key, visitor = await self.gate.log_in(form.get("user", ""), form.get("password", ""), address_of(request))
        except EntrepotError as error:
            audit("", address_of(request), "", "log in", {}, error, None)
            page = self.show(request, None, "login.html", "Log in", next=goal, trouble=error.message)
            page.status_code = 403
            return page
        audit(visitor.user, address_of(request), "", "log in", {}, None, "done")
        answer = RedirectResponse(goal, 303)
        secure = request.url.scheme == "https"
        answer.set_cookie(COOKIE, key, max_age=int(SESSION_LIFE), httponly=True, samesite="strict", secure=secure)
        return answer

    async def logout(self, request: Request) -> Response:
        """End a session."""
        visitor = self.gate.session(request)
        form = await form_of(request)
        if visitor is not None and visitor.knows(form.get("token", "")):
            self.gate.sessions.end(request.cookies.get(COOKIE, ""))
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(COOKIE)
        return answer

    # -- pages ---------------------------------------------------------------------------------------------------------

    async def overview(self, request: Request, visitor: Visitor) -> Response:
        """All brokers at a glance."""
        sides = await self.watches.glances(visitor.user, visitor.password)
        views = list(sides.views.items())
        rates = [(await self.watches.of(name, visitor.user, visitor.password)).rates for name in sides.views]
        totals = {
            "messages": sum(view.sums["messages"] for _, view in views),
            "queues": sum(view.lasting for _, view in views),
            "consumers": sum(view.sums["consumers"] for _, view in views),
            "connections": sum(view.number("connectionCount") for _, view in views),
            "accepted": sum(one.accepted for one in rates),
            "settled": sum(one.settled for one in rates),
        }
        found = [(name, alarm) for name, view in views for alarm in alarms(view)]
        failures = [(name, str(error)) for name, error in sides.failures.items()]
        facts = {"sides": sides, "views": views, "totals": totals, "alarms": found, "failures": failures}
        return self.show(request, visitor, "overview.html", "Overview", **facts)

    async def history(self, request: Request, visitor: Visitor) -> Response:
        """Return the points of the curve: times, messages in and out a second, of all brokers."""
        sides = await self.watches.glances(visitor.user, visitor.password)
        sums: dict[int, list[float]] = {}
        for name in sides.views:
            for at, rates in (await self.watches.of(name, visitor.user, visitor.password)).history:
                point = sums.setdefault(int(at) // 3 * 3, [0.0, 0.0])
                point[0] += rates.accepted
                point[1] += rates.settled
        times = sorted(sums)
        return JSONResponse([times, [sums[at][0] for at in times], [sums[at][1] for at in times]])

    async def queues(self, request: Request, visitor: Visitor) -> Response:
        """Queues, or subscriptions of topics, of one broker or all: searched, sorted, cut into pages by them."""
        topics = request.url.path == "/topics"
        listed = QueueList(request, "MULTICAST" if topics else "ANYCAST")
        failures = await self._fill(listed, visitor)
        if listed.beyond:
            failures = await self._fill(listed, visitor)
        told = [(name, str(error)) for name, error in failures.items()]
        title = "Topics' subscriptions" if topics else "Queues"
        return self.show(request, visitor, "queues.html", title, list=listed, shows=SHOWS, failures=told)

    async def _fill(self, listed: QueueList, visitor: Visitor) -> dict[str, EntrepotError]:
        """Ask brokers for the page; far behind in several of them all is asked for, and sorted here."""
        broker = listed.broker or (self.names[0] if len(self.names) == 1 else "")
        if not broker and listed.far:
            whole = await self.watches.sides(visitor.user, visitor.password)
            listed.choose([(name, queue) for name, view in whole.views.items() for queue in view.queues])
            return whole.failures
        wanted = listed.wanted(several=not broker)
        sides = await self.watches.pages(visitor.user, visitor.password, wanted, broker)
        if broker and sides.failures:
            raise sides.failures[broker]
        every = [(name, queue) for name, found in sides.views.items() for queue in found.rows]
        listed.fill([found.count for found in sides.views.values()], every, several=not broker)
        return sides.failures

    async def queue(self, request: Request, visitor: Visitor) -> Response:
        """One queue: numbers, messages, what can be done, consumers."""
        broker, desk = await self.desk(request, visitor)
        name = request.query_params.get("name", "")
        view = await queue_named(desk, name)
        selector = request.query_params.get("selector", "")
        page = _page(request)
        messages: list[dict[str, Any]] = []
        trouble = ""
        try:
            messages = await desk.ask(f"queue.{view.name}", "browse", page, BROWSED, selector)
        except Refused as error:
            trouble = str(error)
        consumers = await desk.ask("broker", "describeConsumers", view.name)
        facts = {
            "broker": broker,
            "one": view,
            "messages": messages,
            "selector": selector,
            "page": page,
            "size": BROWSED,
        }
        facts |= {
            "consumers": consumers,
            "actions": ACTIONS,
            "said": request.query_params.get("said", ""),
            "trouble": trouble,
        }
        return self.show(request, visitor, "queue.html", view.name, **facts)

    async def message(self, request: Request, visitor: Visitor) -> Response:
        """One message, whole."""
        broker, desk = await self.desk(request, visitor)
        name, identity = request.query_params.get("name", ""), request.query_params.get("id", "")
        row = await desk.ask(f"queue.{name}", "describeMessage", identity)
        kind, body = pretty(row)
        titles = ("address", "priority", "durable", "redelivered", "protocol", "size", "messageID", "correlation_id")
        headers = [
            (key, row.get(key)) for key in (*titles, "reply_to", "type", "content_type") if row.get(key) is not None
        ]
        headers += [
            ("timestamp", when(row["timestamp"])),
            ("expiration", when(row["expiration"]) if row["expiration"] else "never"),
        ]
        facts = {"broker": broker, "name": name, "row": row, "headers": headers, "kind": kind, "body": body}
        return self.show(request, visitor, "message.html", str(row["userID"]), **facts)

    async def explain(self, request: Request, visitor: Visitor) -> Response:
        """Say why messages of a destination wait."""
        broker, desk = await self.desk(request, visitor)
        name = request.query_params.get("name", "")
        tables, trouble = [], ""
        if name:
            try:
                told = await desk.ask("broker", "explain", name)
            except EntrepotError as error:
                told, trouble = {"queues": []}, str(error)
            for one in told["queues"]:
                columns = [
                    ("code", "Reason", "mono"),
                    ("messages", "Messages", "n"),
                    ("text", "What", "text"),
                    ("who", "Who", ""),
                    ("remedy", "What to do", "text"),
                ]
                title = f"{one['queue']}: {one['waiting']:,} wait, {one['looked_at']:,} looked at"
                tables.append(Table(title, columns, one["reasons"], "Nothing holds messages back."))
            if told.get("bridges"):
                columns = [(key, key.replace("_", " "), "text") for key in list(told["bridges"][0])[:7]]
                tables.append(
                    Table(
                        "Bridges",
                        columns,
                        [{key: _flat(one.get(key)) for key, _, _ in columns} for one in told["bridges"]],
                        "",
                    )
                )
        lead = "Why the messages of a queue or topic stand as they do"
        return self.rows(
            request, visitor, "Explain", lead, broker, tables, ask=[("name", "Queue or topic", name)], trouble=trouble
        )

    async def where(self, request: Request, visitor: Visitor) -> Response:
        """Look for a message at all brokers."""
        identity = request.query_params.get("id", "")
        rows: list[dict[str, Any]] = []
        failures: dict[str, EntrepotError] = {}
        if identity:
            told, failures = await self.watches.asked(visitor.user, visitor.password, "where", identity)
            rows = [{**one, "broker": name} for name, answer in told.items() for one in answer["places"]]
        keys = list(dict.fromkeys(key for row in rows for key in row if row[key] not in ("", None)))[:9] or ["broker"]
        table = Table(
            "",
            [(key, key.replace("_", " "), "text") for key in keys],
            [{key: _flat(row.get(key, "")) for key in keys} for row in rows],
            _nowhere(identity, failures),
        )
        lead, form = "Where is this message now?", [("id", "Message id", identity)]
        away = [f"{name} was not asked: {error}" for name, error in failures.items()]
        return self.rows(request, visitor, "Where", lead, "", [table], ask=form, trouble=" ".join(away))

    async def schedule(self, request: Request, visitor: Visitor) -> Response:
        """Messages that wait for their time."""
        broker, desk = await self.desk(request, visitor)
        rows = await desk.ask("broker", "describeScheduled", ROWS)

        def cancel(row: dict[str, Any]) -> list[tuple[str, dict[str, str]]]:
            return [("cancel", {"broker": broker, "action": "cancel", "id": str(row["number"])})]

        columns = [("identity", "Message", "mono"), ("target", "Goes to", ""), ("due", "At", "")]
        table = Table(
            "",
            columns,
            [{**row, "due": when(row["deliver_at"])} for row in rows],
            "Nothing waits for its time.",
            None,
            cancel,
        )
        return self.rows(request, visitor, "Schedule", f"of {broker}", broker, [table], ask=[], live=True)

    async def broker(self, request: Request, visitor: Visitor) -> Response:
        """Whatever a broker tells of itself, and where two differ."""
        sides = await self.watches.glances(visitor.user, visitor.password)
        keys = sorted({key for view in sides.views.values() for key in view.facts})
        rows = []
        for key in keys:
            values = {name: _flat(view.facts.get(key)) for name, view in sides.views.items()}
            rows.append({"fact": key, **values, "differs": "differs" if len(set(values.values())) > 1 else ""})
        columns = [("fact", "Attribute", "mono"), *((name, name, "text") for name in sides.views)]
        if len(sides.views) > 1:
            columns.append(("differs", "", ""))
        lead = "What each broker says of itself, by the names of Artemis"
        return self.rows(request, visitor, "Broker", lead, "", [Table("", columns, rows, "No broker answers.")], ask=[])

    def rows(
        self,
        request: Request,
        visitor: Visitor,
        title: str,
        lead: str,
        broker: str,
        tables: Sequence[Table],
        *,
        ask: list[tuple[str, str, str]],
        trouble: str = "",
        picture: object = None,
        choices: Sequence[tuple[str, str, str, Sequence[str]]] = (),
        notes: Sequence[str] = (),
        turns: Sequence[tuple[str, str]] = (),
        live: bool = False,
    ) -> Response:
        """Return a page of tables; ``ask``: fields of the form above them, ``choices``: those that are chosen.

        ``notes``: what is said above the tables; ``turns``: other pages of the same, by what they are called;
        ``live``: the tables renew themselves.
        """
        said = request.query_params.get("said", "")
        facts = {
            "lead": lead,
            "broker": broker,
            "tables": tables,
            "ask": ask,
            "trouble": trouble,
            "picture": picture,
            "said": said,
            "choices": choices,
            "notes": notes,
            "turns": turns,
            "again": _path(request) if live else "",
        }
        return self.show(request, visitor, "rows.html", title, texts=[], **facts)


def lives(request: Request) -> bool:
    """Whether a page that is open renews itself by this."""
    return request.headers.get("hx-request") == "true"


def link(place: str, **query: object) -> str:
    """Return a place with a query; what is empty is left out."""
    given = {name: value for name, value in query.items() if value not in ("", None)}
    return f"{place}?{urlencode(given)}" if given else place


def _nowhere(identity: str, failures: Mapping[str, EntrepotError]) -> str:
    if not identity:
        return "Give the id of a message."
    return "No broker that answered has a message of that id." if failures else "No broker has a message of that id."


def _flat(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str) if value is not None else ""


def _page(request: Request) -> int:
    return max(1, count(request.query_params.get("page", "1"), PAGES_MOST) or 1)


def _path(request: Request) -> str:
    return request.url.path + (f"?{request.url.query}" if request.url.query else "")


def _local(goal: str) -> str:
    """Return a place on this console; never one of another site."""
    return goal if goal.startswith("/") and not goal.startswith(("//", "/\\")) else "/"


async def _to_overview(request: Request) -> Response:
    return RedirectResponse("/", 307)
