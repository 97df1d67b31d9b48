"""The messages of a queue as a file: JSON lines, exact, or CSV for a spreadsheet; they stay where they are.

They are browsed for by the visitor himself, so who may not browse a queue exports nothing of it. A few are under way at
a time, so what a queue holds is never whole in the console; a browser that reads too slowly is cut off after `LIFE`,
and a file that was cut off, by it or by a broker that went away, ends without the end of HTTP: no client takes it for
whole.
"""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from entrepot.base.errors import EntrepotError, LimitExceeded, Refused, TimedOut, Unreachable
from entrepot.client.written import COLUMNS, as_fields, as_row, shown
from entrepot.console.access import Visitor, audit
from entrepot.console.desk import Look
from entrepot.console.forms import form_of
from entrepot.console.gate import address_of
from entrepot.console.numbers import count
from entrepot.console.pages import Pages
from entrepot.core.operators.views import QueueView
from entrepot.management.view import queue_named

MOST: Final = 100_000  # messages of one file
UNDER_WAY: Final = 2  # messages that a broker sends ahead, whatever their size: each is acknowledged by itself then
EXPORTS_MOST: Final = 4  # at a time
LIFE: Final = 600.0  # s
CHUNK: Final = 64 * 1024  # octets that are written at once

Fields = Mapping[str, Any]


def as_line(fields: Fields) -> str:
    """Return a message as a JSON line, as `entrepot send --json` reads it."""
    return json.dumps(fields, ensure_ascii=False) + "\n"


def as_record(fields: Fields) -> str:
    """Return a message as a record of CSV."""
    written = io.StringIO()
    csv.writer(written).writerow(as_row(fields))
    return written.getvalue()


FORMATS: Final[Mapping[str, tuple[str, str, Callable[[Fields], str]]]] = {
    "jsonl": ("application/x-ndjson", "", as_line),
    "csv": ("text/csv; charset=utf-8; header=present", ",".join(COLUMNS) + "\r\n", as_record),
}
"""What a file is called behind its dot -> its type, its first line, and what makes a line of a message."""


class Exports:
    """The exports of one console."""

    def __init__(self, pages: Pages) -> None:
        self.pages: Final = pages
        self.running = 0

    def routes(self) -> list[Route]:
        """Return where they are."""
        return [Route("/export", self.pages.page(self.export), methods=["POST"])]

    async def export(self, request: Request, visitor: Visitor) -> Response:
        """Begin a file. Raises what keeps it from being one, before anything of it is sent."""
        form = await form_of(request)
        self.pages.gate.of_pages(request, visitor, form.get("token", ""))
        broker = form.get("broker") or self.pages.names[0]
        about = {name: form[name] for name in ("queue", "selector", "most", "format") if form.get(name)}

        def note(error: EntrepotError | None, said: str) -> None:
            audit(visitor.user, address_of(request), broker, "export", about, error, said)

        try:
            return await self._begin(form, broker, visitor, note)
        except EntrepotError as error:
            note(error, "")
            raise

    async def _begin(
        self, form: dict[str, str], broker: str, visitor: Visitor, note: Callable[[EntrepotError | None, str], None]
    ) -> Response:
        kind = form.get("format", "jsonl")
        if kind not in FORMATS:
            raise Refused(f"{kind[:40]!r} is no form of a file", remedy="use " + ", ".join(FORMATS))
        most = count(form.get("most", "").strip() or str(MOST), MOST)
        if not most:
            raise Refused("how many is no number of messages", remedy=f"use 1 to {MOST}")
        if self.running >= EXPORTS_MOST:
            raise LimitExceeded(f"{EXPORTS_MOST} exports are under way", remedy="wait for one of them")
        self.running += 1
        try:
            desk = await self.pages.watches.desks.at(broker, visitor.user, visitor.password)
            view = await queue_named(desk, form.get("queue", ""))
            look = await desk.look(_place(view), form.get("selector", ""))
        except BaseException:
            self.running -= 1
            raise
        return _File(self, look, kind, most, view.name, note)


class _File(StreamingResponse):
    """One file on its way."""

    def __init__(
        self,
        exports: Exports,
        look: Look,
        kind: str,
        most: int,
        queue: str,
        note: Callable[[EntrepotError | None, str], None],
    ) -> None:
        self.exports: Final = exports
        self.look: Final = look
        self.most: Final = most
        self.note: Final = note
        self.done = 0
        self.whole = False  # its end was sent
        media, self.first, self.line = FORMATS[kind]
        name = re.sub(r"[^A-Za-z0-9._-]+", "_", queue).strip(".")[:80] or "queue"
        headers = {"Content-Disposition": f'attachment; filename="{name}.{kind}"'}
        super().__init__(self._chunks(), media_type=media, headers=headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it; what keeps it from being whole is in the audit log, and its end is missing."""
        failed: EntrepotError | None = Unreachable("who asked for it went away")
        try:
            async with asyncio.timeout(LIFE):
                await super().__call__(scope, receive, self._noticing(send))
            if self.whole:
                failed = None
        except TimeoutError:
            failed = TimedOut(f"it took longer than {LIFE:g} s", remedy="take fewer messages at once")
        except EntrepotError as error:
            failed = error
        except BaseExceptionGroup as group:
            failed = _reason(group)
        finally:
            self.exports.running -= 1
            self.note(failed, f"{self.done} messages" if failed is None else "")
            await self.look.close()

    def _noticing(self, send: Send) -> Send:
        async def noticed(message: Any) -> None:
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body"):
                self.whole = True

        return noticed

    async def _chunks(self) -> AsyncIterator[str]:
        held, octets = [self.first], 0
        async for message in self.look.messages():
            text = self.line(as_fields(shown(message)))
            held.append(text)
            octets += len(text)
            self.done += 1
            if octets >= CHUNK:
                yield "".join(held)
                held, octets = [], 0
            if self.done >= self.most:
                break
        yield "".join(held)


def _place(view: QueueView) -> str:
    """Return where a queue is browsed. Raises Refused."""
    if "?" in view.name or "?" in view.address:
        raise Refused(
            f"{view.name!r} has a ? in its name, behind which options of a client begin", remedy="use: entrepot browse"
        )
    name = view.name if view.routing == "ANYCAST" and view.name == view.address else f"{view.address}::{view.name}"
    return f"queue://{name}?consumer.prefetchSize={UNDER_WAY}"


def _reason(group: BaseExceptionGroup[BaseException]) -> EntrepotError:
    """Return why a file ended early: the first error of ours, or whatever it was in words."""
    found = group.subgroup(EntrepotError)
    while found is not None:
        first = found.exceptions[0]
        if isinstance(first, EntrepotError):
            return first
        found = first if isinstance(first, BaseExceptionGroup) else None
    return Unreachable(f"it broke off: {group}")
