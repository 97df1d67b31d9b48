"""What people do from pages: each says first how much it is about; what is dangerous wants a name typed."""

from __future__ import annotations

import json
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from entrepot.base.errors import AccessDenied, EntrepotError, Refused
from entrepot.console.access import Visitor, audit
from entrepot.console.desk import Desk
from entrepot.console.forms import form_of
from entrepot.console.gate import address_of
from entrepot.console.numbers import count
from entrepot.console.pages import ROWS, Pages, link
from entrepot.console.tables import when
from entrepot.management.view import queue_named

CHUNK: Final = 10_000  # messages of one request to the broker
TYPED: Final = ("purge", "destroy")  # what wants the name of the queue typed
VERBS: Final = {
    "purge": "Delete",
    "move": "Move",
    "copy": "Copy",
    "retry": "Send back",
    "destroy": "Delete the queue",
    "remove-one": "Delete",
    "move-one": "Move",
    "retry-one": "Send back",
    "close": "Close the connection",
    "cancel": "Cancel",
}
PLACES: Final = {"close": "/connections", "cancel": "/schedule"}
FIELDS: Final = ("broker", "queue", "action", "selector", "most", "target", "id")


class Acts:
    """The forms of one console."""

    def __init__(self, pages: Pages) -> None:
        self.pages: Final = pages

    def routes(self) -> list[Route]:
        """Return where they are."""
        return [
            Route("/act", self.pages.page(self.act), methods=["POST"]),
            Route("/send", self.pages.page(self.send), methods=["POST"]),
        ]

    async def _form(self, request: Request, visitor: Visitor) -> tuple[dict[str, str], Desk]:
        """Return a form of a page of ours, and the broker that it is about. Raises AccessDenied, Refused."""
        form = await form_of(request)
        self.pages.gate.of_pages(request, visitor, form.get("token", ""))
        if self.pages.read_only:
            raise AccessDenied("this console only looks", remedy="start it without --read-only")
        self.pages.gate.of_changes(visitor)
        broker = form.get("broker") or self.pages.names[0]
        return {**form, "broker": broker}, await self.pages.watches.desks.at(broker, visitor.user, visitor.password)

    async def act(self, request: Request, visitor: Visitor) -> Response:
        """Do what a form says, or ask whether it is meant."""
        form, desk = await self._form(request, visitor)
        action = form.get("action", "")
        if action in VERBS and form.get("sure") != "1":
            return await self._ask(request, visitor, form, desk, "")
        if action in TYPED and form.get("typed") != form.get("queue"):
            return await self._ask(request, visitor, form, desk, "What was typed is not the name of the queue.")
        error: EntrepotError | None = None
        said = ""
        try:
            said = await self._do(desk, action, form)
        except EntrepotError as failed:
            error = failed
            raise
        finally:
            about = {name: form[name] for name in ("queue", "selector", "target", "id", "most") if form.get(name)}
            audit(visitor.user, address_of(request), form["broker"], action, about, error, said)
        place = "/queues" if action == "destroy" else PLACES.get(action, "/queue")
        name = form.get("queue", "") if place == "/queue" else ""
        return RedirectResponse(link(place, broker=form["broker"], name=name, said=said), 303)

    async def send(self, request: Request, visitor: Visitor) -> Response:
        """Send a message to a queue."""
        form, desk = await self._form(request, visitor)
        view = await queue_named(desk, form.get("queue", ""))
        properties: dict[str, object] = {}
        for line in form.get("properties", "").splitlines():
            name, equals, value = line.partition("=")
            if line.strip() and not equals:
                raise Refused(f"{line[:40]!r} is not NAME=VALUE")
            if line.strip():
                properties[name.strip()] = value.strip()
        priority = count(form.get("priority", "4"), 9)
        if priority is None:
            raise Refused("a priority is 0 to 9")
        place = f"queue://{view.address}" if view.routing == "ANYCAST" else f"topic://{view.address}"
        error: EntrepotError | None = None
        try:
            await desk.send(place, form.get("body", ""), properties, {"priority": priority})
        except EntrepotError as failed:
            error = failed
            raise
        finally:
            audit(visitor.user, address_of(request), form["broker"], "send", {"queue": view.name}, error, "done")
        return RedirectResponse(link("/queue", broker=form["broker"], name=view.name, said="sent one message"), 303)

    async def _ask(
        self, request: Request, visitor: Visitor, form: dict[str, str], desk: Desk, trouble: str
    ) -> Response:
        """Say how many messages it is about, and ask."""
        action, queue = form["action"], form.get("queue", "")
        facts = {
            "told": await _told(desk, action, form),
            "fields": [(name, form.get(name, "")) for name in FIELDS],
            "typed": queue if action in TYPED else "",
            "verb": VERBS[action],
            "back": link(PLACES.get(action, "/queue"), broker=form["broker"], name=queue),
            "trouble": trouble,
        }
        title = f"{VERBS[action]}: {form.get('id') or queue}"
        return self.pages.show(request, visitor, "confirm.html", title, **facts)

    async def _do(self, desk: Desk, action: str, form: dict[str, str]) -> str:
        """Do it; return what was done."""
        resource, identity = f"queue.{form.get('queue', '')}", form.get("id", "")
        if action in ("pause", "resume"):
            await desk.ask(resource, action)
            return "paused" if action == "pause" else "delivering again"
        if action == "destroy":
            await desk.ask("broker", "destroyQueue", form.get("queue", ""), True)
            return f"deleted {form.get('queue')}"
        if action == "close":
            return "closed" if await desk.ask("broker", "closeConnectionWithID", identity) else "it is gone already"
        if action == "cancel":
            number = count(identity)
            if number is None:
                raise Refused(f"{identity[:40]!r} is no number of a message")
            return "cancelled" if await desk.ask("broker", "cancelScheduled", number) else "it is gone already"
        singles: dict[str, tuple[Any, ...]] = {
            "remove-one": ("removeMessage", identity),
            "move-one": ("moveMessage", identity, form.get("target", "")),
            "retry-one": ("retryMessage", identity),
        }
        if action in singles:
            _need_target(action, form)
            return "done" if await desk.ask(resource, *singles[action]) else "it is not there any more"
        if action in VERBS:
            return await self._many(desk, action, resource, form)
        raise Refused(f"{action[:40]!r} is nothing that can be done here")

    async def _many(self, desk: Desk, action: str, resource: str, form: dict[str, str]) -> str:
        selector, target, left = form.get("selector", ""), form.get("target", ""), _most(form)
        if left < 0:
            left = (await queue_named(desk, form.get("queue", ""))).messages  # those that come later are not meant
        done = 0
        while done < left:
            most = min(CHUNK, left - done) if action != "copy" else left
            given: dict[str, tuple[Any, ...]] = {
                "purge": ("removeMessages", selector, most),
                "move": ("moveMessages", selector, target, False, most),
                "copy": ("copyMessages", selector, target, most),
                "retry": ("retryMessages", selector, most),
            }
            some = int(await desk.ask(resource, *given[action]))
            done += some
            if some < most:
                break
        words = {"purge": "deleted", "move": "moved", "copy": "copied", "retry": "sent back"}
        return f"{words[action]} {done:,} messages"


async def _told(desk: Desk, action: str, form: dict[str, str]) -> str:
    """Return what a deed is about, counted. Raises Refused, InvalidDestination."""
    identity, target = form.get("id", ""), form.get("target", "")
    if action == "close":
        rows = await desk.ask("broker", "describeConnections", 0, ROWS)
        peers = [str(row["peer"]) for row in rows if str(row["id"]) == identity]
        if not peers:
            raise Refused("this connection is gone already")
        only = json.dumps({"field": "remoteAddress", "operation": "EQUALS", "value": peers[0]})
        readers = json.loads(await desk.ask("broker", "listConsumers", only, 1, ROWS))
        held = sum(int(row["messagesInTransit"]) for row in readers["data"])
        return (
            f"{int(readers['count']):,} readers end, and {held:,} messages that they have not acknowledged come again."
        )
    if action == "cancel":
        rows = await desk.ask("broker", "describeScheduled", ROWS)
        found = [f" to {row['target']} at {when(row['deliver_at'])}" for row in rows if str(row["number"]) == identity]
        due = found[0] if found else ""
        return f"One message does not go{due}, and is deleted."
    view = await queue_named(desk, form.get("queue", ""))
    _need_target(action, form)
    if action in ("remove-one", "move-one", "retry-one"):
        await desk.ask(f"queue.{view.name}", "describeMessage", identity)  # it says so where it is gone
        return {
            "remove-one": f"One message is deleted from {view.name}.",
            "move-one": f"One message goes from {view.name} to {target}.",
            "retry-one": f"One message of {view.name} is sent back to where it died.",
        }[action]
    selector = form.get("selector", "")
    matching = int(await desk.ask(f"queue.{view.name}", "countMessages", selector)) if selector else view.waiting
    most = _most(form)
    matching = min(matching, most) if most >= 0 else matching
    words = {
        "purge": f"{matching:,} messages are deleted from {view.name}.",
        "move": f"{matching:,} messages go from {view.name} to {target}.",
        "copy": f"{matching:,} messages of {view.name} are copied to {target}.",
        "retry": f"{matching:,} messages of {view.name} are sent back to where they died.",
        "destroy": f"The queue {view.name} goes with {view.messages:,} messages and {view.consumers} readers.",
    }[action]
    return words + (f" Those that match: {selector}" if selector else "")


def _need_target(action: str, form: dict[str, str]) -> None:
    if action in ("move", "copy", "move-one") and not form.get("target"):
        raise Refused("where to is not said", remedy="name a queue")


def _most(form: dict[str, str]) -> int:
    text = form.get("most", "").strip()
    if not text:
        return -1
    found = count(text)
    if found is None:
        raise Refused(f"{text[:40]!r} is no number of messages")
    return found
