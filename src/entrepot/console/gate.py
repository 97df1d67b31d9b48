"""Who may come in: each request of HTTP is given its visitor here, or an answer that says why not.

Three ways: a session of a browser, ``Authorization: Basic`` of a tool, and nobody at all where the broker lets nobody
in particular in. The last is open to whatever page a browser on this machine shows, so it is held to requests that no
foreign page makes: those with an ``Origin`` of another place, or that a browser says come from another site, are
refused, and so is a ``Host`` that is no address of this machine (a name that an attacker points to 127.0.0.1).
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from entrepot.base.errors import AccessDenied, EntrepotError, ForeignRequest, InvalidOption, LimitExceeded, Refused
from entrepot.console.access import COOKIE, Guesses, Sessions, Visitor, basic
from entrepot.console.desk import Desks
from entrepot.console.numbers import count
from entrepot.console.realm import Realm

BODY_MAX: Final = 2 * 1024 * 1024  # octets of any request
BODY_PATIENCE: Final = 30.0  # s in which all of a body has to be there, or slow peers would take all connections
LOCAL: Final = ("localhost", "127.0.0.1", "::1")
CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Gate:
    """Lets visitors in. ``anonymous``.

    Who gives no name is asked for as this user, ("", "") for nobody in particular.
    """

    def __init__(self, desks: Desks, *, hosts: tuple[str, ...] = (), realm: Realm | None = None) -> None:
        """``hosts``: names of this machine that a browser may use; ``realm``: who comes in, None for no such list."""
        self.desks: Final = desks
        self.sessions: Final = Sessions()
        self.guesses: Final = Guesses()
        self.hosts: Final = hosts
        self.realm: Final = realm
        self._nobody: Final = Visitor("", "")

    async def log_in(self, user: str, password: str, address: str) -> tuple[str, Visitor]:
        """Begin a session. Raises AccessDenied, or what kept the broker from being asked."""
        await self._check(user, password, address)
        return self.sessions.begin(user, password)

    async def visitor(self, request: Request) -> Visitor:
        """Return who asks. Raises AccessDenied: log in first, or from there nothing may be asked."""
        named = request.headers.get("authorization")
        if named is not None:
            given = basic(named)
            if given is None:
                raise AccessDenied("the Authorization header is no name and password")
            await self._check(*given, _address(request))
            self._only_here(request, named=True)
            return Visitor(*given)
        session = self.session(request)
        if session is not None:
            self._only_here(request, named=True)
            return session
        self._only_here(request, named=False)
        await self._check("", "", _address(request), counts=False)
        return self._nobody

    def session(self, request: Request) -> Visitor | None:
        """Return the session of a browser."""
        return self.sessions.of(request.cookies.get(COOKIE, ""))

    def of_pages(self, request: Request, visitor: Visitor, token: str) -> None:
        """See that a change comes from a page of ours. Raises AccessDenied."""
        if request.headers.get("authorization") is None and not visitor.knows(token):
            raise ForeignRequest("the request does not come from a page of this session", remedy="load the page again")

    def of_changes(self, visitor: Visitor) -> None:
        """See that somebody may change something. Raises AccessDenied."""
        if self.only_looks(visitor):
            raise AccessDenied(
                f"{visitor.user} may look and change nothing", remedy="log in as who has the role for it"
            )

    def only_looks(self, visitor: Visitor) -> bool:
        """Return whether the realm lets somebody in who may change nothing."""
        return self.realm is not None and not self.realm.changes(visitor.user)

    async def _check(self, user: str, password: str, address: str, *, counts: bool = True) -> None:
        if counts:
            await self.guesses.wait(address)
        if self.realm is not None and not self.realm.admits(user, password):
            if counts:
                self.guesses.wrong(address)
            raise AccessDenied("the console does not know this name and password", remedy="log in with others")
        refusal: EntrepotError = Refused("there is no broker to ask")
        # Who can be asked at once is: a broker that is away must not hold up each look at the others.
        for name in sorted(self.desks.brokers, key=lambda one: not self.desks.is_open(one, user, password)):
            try:
                await self.desks.at(name, user, password)
            except AccessDenied:
                if counts:
                    self.guesses.wrong(address)
                raise
            except EntrepotError as error:
                refusal = error
                continue
            if counts:
                self.guesses.right(address)
            return
        raise refusal

    def _only_here(self, request: Request, *, named: bool) -> None:
        host = (request.url.hostname or "").strip("[]")
        if not named and not _is_local(host) and host not in self.hosts:
            raise AccessDenied(f"nobody may ask as {host!r} without a name", remedy="log in, or use an address")
        origin = request.headers.get("origin")
        if origin is not None and not _is_here(origin, request):
            raise ForeignRequest(
                "the request comes from another place's page", remedy="ask from here, or without Origin"
            )
        if request.headers.get("sec-fetch-site") in ("cross-site", "same-site") and not _is_visit(request):
            raise ForeignRequest("the request comes from another site's page")


def _is_visit(request: Request) -> bool:
    """Say whether a person follows a link to a page: that changes nothing."""
    path = request.url.path
    api = path.startswith(("/api", "/console/jolokia", "/jolokia", "/metrics"))
    return request.method == "GET" and request.headers.get("sec-fetch-mode") == "navigate" and not api


def _is_local(host: str) -> bool:
    if host in LOCAL:
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_here(origin: str, request: Request) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:  # "http://[" is no origin of a browser
        return False
    if parts.netloc == request.url.netloc:
        return True
    return parts.netloc in ("localhost", "127.0.0.1") and _is_local(
        request.url.hostname or ""
    )  # scripts of Classic say so


def _is_host(host: bytes) -> bool:
    """Say whether an address can be made of a ``Host``: "[::1" is none, and would fail wherever one is asked for."""
    try:
        _ = urlsplit(f"http://{host.decode('latin-1')}/").port
    except ValueError:
        return False
    return True


def _address(request: Request) -> str:
    return request.client.host if request.client is not None else ""


def address_of(request: Request) -> str:
    """Return where a request came from."""
    return _address(request)


class _Body:
    """The body of one request: no longer than `BODY_MAX`, and all there within `BODY_PATIENCE`.

    ``missing``: its peer holds it back, or its rest was given up.
    """

    def __init__(self, receive: Receive, *, missing: bool) -> None:
        self.missing = missing
        self._receive: Final = receive
        self._until: Final = asyncio.get_running_loop().time() + BODY_PATIENCE
        self._got = 0
        self._whole = False

    async def receive(self) -> Message:
        """Return the next part. Raises HTTPException."""
        if self._whole:
            return await self._receive()  # that the peer goes
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            self.missing = True
            raise HTTPException(408, f"the request was not there in {BODY_PATIENCE:.0f} s") from None
        self.missing, self._whole = False, not message.get("more_body", False)
        self._got += len(message.get("body", b""))
        if self._got > BODY_MAX:
            raise HTTPException(413, "the request is too long")
        return message


class Shield:
    """Around the whole application: headers on every answer, and no body that is too long, or takes too long.

    A client that waits for "100 Continue" and is refused before its body was asked for leaves the body out and sends
    its next request (RFC 9110, 10.1.1); the connection is closed then, since its octets could no longer be told apart.
    So it is where a request tells two lengths, and a proxy before us may have taken the other one (RFC 9112, 6.1).
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app: Final = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        if not _is_host(headers.get(b"host", b"")):
            await PlainTextResponse("the Host of the request is none", 400, HEADERS)(scope, receive, send)
            return
        if b"content-length" in headers and b"transfer-encoding" in headers:
            ends = {**HEADERS, "Connection": "close"}
            await PlainTextResponse("the request tells two lengths", 400, ends)(scope, receive, send)
            return
        length = headers.get(b"content-length", b"0")
        if count(length.decode("latin-1"), BODY_MAX) is None:
            await PlainTextResponse("the request is too long", 413, HEADERS)(scope, receive, send)
            return
        body = _Body(receive, missing=headers.get(b"expect", b"").lower() == b"100-continue")

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                known = {name.lower() for name, _ in message["headers"]}
                more = [(name.lower().encode(), text.encode()) for name, text in HEADERS.items()]
                if body.missing:  # what comes would be read as a part of it
                    more.append((b"connection", b"close"))
                message = {**message, "headers": [*message["headers"], *(one for one in more if one[0] not in known)]}
            await send(message)

        await self.app(scope, body.receive, guarded)


Endpoint = Callable[[Request, Visitor], Awaitable[Response]]


def tool(gate: Gate, serve: Endpoint) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint for programs: refused in JSON, and asked for a name and password."""

    async def endpoint(request: Request) -> Response:
        try:
            visitor = await gate.visitor(request)
            return await serve(request, visitor)
        except EntrepotError as error:
            return refusal(error, named=request.headers.get("authorization") is not None)

    return endpoint


def refusal(error: EntrepotError, *, named: bool = False) -> Response:
    """Return what a program is told that went wrong."""
    status, headers = 502, dict[str, str]()
    if isinstance(error, AccessDenied):
        status = 401
        headers["WWW-Authenticate"] = 'Basic realm="entrepot", charset="UTF-8"'
        if isinstance(error, ForeignRequest):
            status, headers = 403, {}
    elif isinstance(error, Refused | InvalidOption | LimitExceeded):
        status = 400
    said: Mapping[str, object] = {"error": error.message, "code": error.code, "remedy": error.remedy, "status": status}
    return JSONResponse(said, status, headers)
