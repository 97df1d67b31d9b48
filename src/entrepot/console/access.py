"""Who asks: sessions of browsers.

Names and passwords of tools, guesses that are slowed down, a log of what was done.

The console knows no passwords of its own: who may come in is said by the broker, by letting a connection be opened
with what was given. A session keeps name and password in memory, never on disk, and ends after `SESSION_IDLE` without
a look.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import json
import logging
import secrets
import time
from typing import Any, Final

from entrepot.base.audit_codes import deed_of
from entrepot.base.errors import AccessDenied, EntrepotError
from entrepot.io.logs import AMQ, FIELDS, STRANGER

COOKIE: Final = "entrepot_session"
SESSION_IDLE: Final = 30 * 60.0  # s
SESSION_LIFE: Final = 12 * 3600.0  # s
SESSIONS_MOST: Final = 1_000
FREE_GUESSES: Final = 3
SLOWEST: Final = 8.0  # s that a wrong password waits at most
FORGOTTEN: Final = 300.0  # s after which guesses of an address are forgotten
GUESSERS_MOST: Final = 10_000
WAITING_MOST: Final = 20  # logins of one address under way

WELL: Final = 200  # the status of an answer of Jolokia

audit_log: Final = logging.getLogger("entrepot.audit")


class Visitor:
    """Who asks, as whom the broker is asked. ``token``: what forms and htmx send back, so that no other page can."""

    __slots__ = ("born", "password", "token", "used", "user")

    def __init__(self, user: str, password: str) -> None:
        self.user = user
        self.password = password
        self.token = secrets.token_urlsafe(24)
        self.born = self.used = time.monotonic()

    def knows(self, token: str) -> bool:
        """Return whether a request came from a page of this session."""
        return hmac.compare_digest(self.token.encode(), token.encode("utf-8", "replace"))


class Sessions:
    """The sessions of browsers, by what their cookie says."""

    def __init__(self) -> None:
        self._sessions: dict[str, Visitor] = {}

    def begin(self, user: str, password: str) -> tuple[str, Visitor]:
        """Return what the cookie says, and the session."""
        self._tidy()
        while len(self._sessions) >= SESSIONS_MOST:
            del self._sessions[min(self._sessions, key=lambda one: self._sessions[one].used)]
        key = secrets.token_urlsafe(32)
        visitor = self._sessions[key] = Visitor(user, password)
        return key, visitor

    def of(self, key: str) -> Visitor | None:
        """Return the session of a cookie; None when it is over."""
        visitor = self._sessions.get(key)
        now = time.monotonic()
        if visitor is None or now - visitor.used > SESSION_IDLE or now - visitor.born > SESSION_LIFE:
            self._sessions.pop(key, None)
            return None
        visitor.used = now
        return visitor

    def end(self, key: str) -> None:
        """Forget a session."""
        self._sessions.pop(key, None)

    def _tidy(self) -> None:
        limit = time.monotonic() - SESSION_IDLE
        for key in [key for key, visitor in self._sessions.items() if visitor.used < limit]:
            del self._sessions[key]


class Guesses:
    """Wrong passwords by the address that they came from: each makes the next one wait longer, up to `SLOWEST`."""

    def __init__(self) -> None:
        self._wrong: dict[str, tuple[int, float]] = {}
        self._waiting: dict[str, int] = {}

    def delay(self, address: str) -> float:
        """Return how many s the next look at a password from there waits."""
        count, at = self._wrong.get(address, (0, 0.0))
        if time.monotonic() - at > FORGOTTEN:
            self._wrong.pop(address, None)
            return 0.0
        return 0.0 if count < FREE_GUESSES else min(SLOWEST, 0.25 * 2 ** (count - FREE_GUESSES))

    async def wait(self, address: str) -> None:
        """Wait as long as the guesses from there make one. Raises AccessDenied: too many wait already."""
        delay = self.delay(address)
        if not delay:
            return
        if self._waiting.get(address, 0) >= WAITING_MOST:
            raise AccessDenied("too many logins from there are under way", remedy="try again in some seconds")
        self._waiting[address] = self._waiting.get(address, 0) + 1
        try:
            await asyncio.sleep(delay)
        finally:
            left = self._waiting[address] - 1
            if left:
                self._waiting[address] = left
            else:
                del self._waiting[address]

    def wrong(self, address: str) -> None:
        """Count a wrong password."""
        if len(self._wrong) >= GUESSERS_MOST:
            del self._wrong[next(iter(self._wrong))]
        self._wrong[address] = (self._wrong.pop(address, (0, 0.0))[0] + 1, time.monotonic())

    def right(self, address: str) -> None:
        """Forget what came from there."""
        self._wrong.pop(address, None)


def basic(header: str) -> tuple[str, str] | None:
    """Return name and password of an ``Authorization: Basic`` header; None where it is none."""
    kind, _, text = header.partition(" ")
    if kind.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(text.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None
    return (user, password) if colon else None


def audit(
    user: str, peer: str, broker: str, what: str, about: dict[str, Any], error: EntrepotError | None, result: object
) -> None:
    """Write one line of the audit log: who did what to which, and what came of it.

    With the codes that Artemis' audit log has for it (`base/audit_codes.py`).

    No ``user``, and an ``error``: a stranger was not let in. He can knock as often as he likes, so that is limited.
    """
    line = {
        "code": "ENT-AUDIT-1",
        "user": user or "anonymous",
        "peer": peer,
        "broker": broker,
        "action": what,
        **about,
        "result": _told(result) if error is None else f"{error.code}: {error.message}"[:300],
    }
    well = error is None and about.get("status", WELL) == WELL
    deed = deed_of(what, str(about.get("mbean", "")), str(about.get("operation", "")))
    codes = "" if deed is None else deed.codes(well=well)
    if codes:
        line["amq"] = codes
    extra = {FIELDS: line, AMQ: codes, STRANGER: not user and error is not None}
    audit_log.info("%s", json.dumps(line, ensure_ascii=True, default=str), extra=extra)


def _told(result: object) -> str:
    """Return what a log may hold of a result: no bodies of messages."""
    if isinstance(result, list | dict):
        return f"{len(result)} entries"
    return str(result)[:100]
