"""ActiveMQ's ``http:`` transport, the side of the broker.

```text
HEAD     clientID: C                        opens the session C; 400 when there is one already
OPTIONS                                     200, Accepts-Encoding: gzip
POST     clientID: C, a command in XML      200 once it is taken; Content-Type: application/x-gzip when it is packed
GET      clientID: C                        200 and the next command (u32 length, XML) as soon as there is one,
                                            408 after `POLL_TIMEOUT`, 200 without a body: the session is over
```

A session (`Exchange`) is no connection: requests come over as many as the client likes, as a rule one for its GETs and
one for its POSTs. It ends when its OpenWire session ends (ShutdownInfo, silence beyond maxInactivityDuration), when
what is posted to it cannot be read, or when the connection breaks on which its GET waits: a client of ActiveMQ gives
up then. A POST to a session that cannot take more is answered when it can: that is our back-pressure. A command whose
answer is lost with its connection is lost with the session, and what it delivered is delivered again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from entrepot.base.environment import KIB, MIB, SECOND, Instant
from entrepot.base.errors import LimitExceeded, PeerError
from entrepot.base.machines import machine_of
from entrepot.protocols.http import Field, Message, Requests, deflate, inflate
from entrepot.protocols.openwire.relay import Relay
from entrepot.protocols.session import HTTP, NEVER, Session, Shell

POLL_TIMEOUT: Final = 30 * SECOND  # ActiveMQ's; its client asks again a second after a 408
REQUEST_TIMEOUT: Final = 30 * SECOND  # for the whole of a request
IDLE_TIMEOUT: Final = 90 * SECOND  # of a connection between two requests; a client that is alive posts every 10 s
CLIENT_ID_OCTETS_MAX: Final = 512
STRANGER_OCTETS_MAX: Final = 64 * KIB  # a body for a session that is not there
HELD_OCTETS_MAX: Final = 64 * KIB  # of requests behind one that waits
PACKED_FROM_OCTETS: Final = 1 * KIB  # shorter answers are not packed
CLIENT_ID: Final = b"clientid"
STRANGE: Final = (
    b"this port speaks OpenWire: as it is, behind an upgrade, or as ActiveMQ's http: transport does,\n"
    b"which says in the header clientID whose request it is; this one does not\n"
)
GZIPPED: Final = b"application/x-gzip"
ALLOWED: Final = ("Allow", "GET, HEAD, POST, OPTIONS")
LAST: Final = ("Connection", "close")


class Inner:
    """What an exchange asks of whoever drives its OpenWire session."""

    def receive(self, data: bytes) -> None:
        """Give ``data`` to the session."""
        raise NotImplementedError

    def writable(self, ready: bool) -> None:
        """The client does not take what it is sent (False), or does again."""
        raise NotImplementedError

    def lost(self, why: str) -> None:
        """The client is gone. Called once."""
        raise NotImplementedError


class Exchange:
    """One session: what waits for its client, and who asks for it. ``body_max``: octets of a command, in XML."""

    def __init__(self, inner: Inner, *, body_max: int, high: int = MIB, low: int = 256 * KIB) -> None:
        self.inner: Final = inner
        self.body_max: Final = body_max
        self.relay: Final = Relay()
        self.octets = 0
        self.machine = ""  # where it was opened: nobody else is served, whatever clientID he says; "": anybody is
        self.closing = False  # the session has said its last words
        self.over = False
        self._high = high
        self._low = low
        self._full = False
        self._held = False
        self._queue: deque[bytes] = deque()
        self._poll: PollSession | None = None
        self._posts: list[PollSession] = []

    # -- what the session does ----------------------------------------------------------------------------------------

    def written(self, data: bytes, now: Instant) -> None:
        """The session wrote ``data``."""
        if self.over:
            return
        for text in self.relay.to_text(data):
            self._queue.append(text)
            self.octets += len(text)
        self._serve(now)
        if self.octets > self._high and not self._full:
            self._full = True
            self.inner.writable(False)

    def hold(self, held: bool, now: Instant) -> None:
        """The session takes nothing more (True), or does again."""
        self._held = held
        if not held:
            posts, self._posts = self._posts, []
            for post in posts:
                post.taken(now)

    def close(self, now: Instant) -> None:
        """The session is over once its client has what waits for it."""
        self.closing = True
        self._serve(now)

    def end(self, why: str, now: Instant) -> None:
        """It is over now; who still asks is told."""
        if self.over:
            return
        self.over = self.closing = True
        self._queue.clear()
        self.octets = 0
        self._serve(now)
        self.hold(False, now)
        self.inner.lost(why)

    # -- what the client does -----------------------------------------------------------------------------------------

    def posted(self, text: bytes, by: PollSession) -> bool:
        """Take a command; False: ``by`` must wait until `PollSession.taken`. Raises PeerError."""
        frame = self.relay.to_frame(text)
        if frame:
            self.inner.receive(frame)
        if self._held and not self.over:
            self._posts.append(by)
            return False
        return True

    def polled(self, by: PollSession, now: Instant) -> None:
        """Let ``by`` have the next command: a later poll takes the place of an earlier one."""
        earlier, self._poll = self._poll, by
        if earlier is not None:
            earlier.outrun(now)
        self._serve(now)

    def left(self, who: PollSession, now: Instant, *, broken: bool) -> None:
        """Expect nothing more of ``who``. ``broken``: its connection is gone."""
        if who in self._posts:
            self._posts.remove(who)
        if self._poll is who:
            self._poll = None
            if broken:
                self.end("the connection broke on which its client waited", now)

    def _serve(self, now: Instant) -> None:
        poll = self._poll
        if self._queue and poll is not None:
            text = self._queue.popleft()
            self.octets -= len(text)
            self._poll = None
            poll.deliver(text, now)
            if self._full and self.octets <= self._low:
                self._full = False
                self.inner.writable(True)
        if self.closing and not self._queue:
            poll, self._poll = self._poll, None
            if poll is not None:
                poll.deliver(b"", now)
            if not self.over:
                self.end("the session is over", now)


class Exchanges:
    """The sessions of one listener."""

    def open(self, client_id: bytes, peer: str, shell: Shell) -> str:
        """Open one; return why not, or "". ``shell`` drives the connection on which the client asked."""
        raise NotImplementedError

    def find(self, client_id: bytes) -> Exchange | None:
        """Return one that is open."""
        raise NotImplementedError


class PollSession(Session):
    """One connection that carries requests. What its peer did wrong costs this connection, and the session it named."""

    def __init__(self, shell: Shell, exchanges: Exchanges, opened: Instant, peer: str) -> None:
        super().__init__(shell)
        self.protocol = HTTP
        self.exchanges = exchanges
        self.peer = peer
        self.refused = ""
        self.requests = 0
        self._due: Instant = opened + REQUEST_TIMEOUT
        self._http: Final = Requests(self._body_max)
        self._exchange: Exchange | None = None  # that a request waits for
        self._request: Message | None = None
        self._serving = False
        self._held = 0  # octets that came behind the request that waits

    # -- the contract of a session ------------------------------------------------------------------------------------

    def receive(self, data: bytes, now: Instant) -> None:
        """Serve what is complete."""
        if self.closing:
            return
        if not data:
            self._close("")
            return
        self._http.feed(data)
        if self._request is None:
            self._due = now + REQUEST_TIMEOUT
            self._next(now)
            return
        self._held += len(data)
        if self._held > HELD_OCTETS_MAX:
            self._close("it sent far more requests than it waited for answers")

    def deadline(self) -> Instant:
        """Return when a poll is answered, or the connection closed."""
        return NEVER if self.closing else self._due

    def advance(self, now: Instant) -> None:
        """Answer a poll that has waited for long; close what is idle."""
        if now < self._due or self.closing:
            return
        exchange = self._exchange
        if self._request is None:
            self._close("it did not finish its request in time" if self._http.begun else "")
        elif exchange is not None and self._request.method == b"GET":
            exchange.left(self, now, broken=False)
            self._answer(now, 408)
        else:
            self._due = NEVER  # a POST that is held back waits as long as the session does

    def shut(self, why: str, now: Instant) -> None:
        """Say that we stop."""
        if self._request is not None:
            self.writer.write(self._http.answer(503, why.encode("utf-8", "replace"), [LAST]))
        self.closing = True
        self.note()

    def detach(self, why: str, now: Instant) -> None:
        """The connection is gone: so is a session whose poll waited on it."""
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.left(self, now, broken=True)

    def describe(self) -> dict[str, str]:
        """Return what it did."""
        return {"protocol": self.protocol, "requests": str(self.requests), "refused": self.refused}

    # -- what an exchange tells ---------------------------------------------------------------------------------------

    def deliver(self, text: bytes, now: Instant) -> None:
        """Answer the poll with a command; b"": the session is over."""
        self._exchange = None
        body = len(text).to_bytes(4, "big") + text if text else b""
        packs = self._request is not None and b"gzip" in self._request.fields.get(b"accept-encoding", b"")
        if packs and len(body) >= PACKED_FROM_OCTETS:
            self._answer(now, 200, deflate(body), [("Content-Encoding", "gzip")])
        else:
            self._answer(now, 200, body)

    def taken(self, now: Instant) -> None:
        """Answer the POST: the session has taken it."""
        self._exchange = None
        self._answer(now, 200)

    def outrun(self, now: Instant) -> None:
        """Answer the poll: another one waits in its place."""
        self._exchange = None
        self._answer(now, 409, b"another request waits for the next command\n")

    # -- requests -----------------------------------------------------------------------------------------------------

    def _next(self, now: Instant) -> None:
        """Serve requests until one must wait."""
        self._serving = True
        while self._request is None and not self.closing:
            try:
                request = self._http.next()
            except PeerError as error:
                self._refuse(413 if isinstance(error, LimitExceeded) else 400, error.message)
                break
            if request is None:
                self.writer.write(self._http.encouragement())
                self.note()
                break
            self.requests += 1
            self._held = 0
            self._serve(request, now)
        self._serving = False
        if self._request is None and not self.closing and not self._http.begun:
            self._due = now + IDLE_TIMEOUT

    def _serve(self, request: Message, now: Instant) -> None:
        self._request = request
        method = request.method
        client_id = request.fields.get(CLIENT_ID, b"")
        if method == b"OPTIONS":
            self._answer(now, 200, b"", [("Accepts-Encoding", "gzip"), ALLOWED])
        elif method not in (b"HEAD", b"GET", b"POST"):
            self._answer(now, 405, b"", [ALLOWED])
        elif not 0 < len(client_id) <= CLIENT_ID_OCTETS_MAX:
            self._answer(now, 400, STRANGE)
        elif method == b"HEAD":
            why = self.exchanges.open(client_id, self.peer, self.shell)
            self.refused = why or self.refused
            self._answer(now, 200 if not why else 400)
        else:
            self._address(request, client_id, now)

    def _address(self, request: Message, client_id: bytes, now: Instant) -> None:
        exchange = self._found(client_id)
        if exchange is None:
            self._answer(now, 404, b"there is no such session; HEAD opens one\n")
            return
        self._exchange = exchange
        if request.method == b"GET":
            self._due = now + POLL_TIMEOUT
            exchange.polled(self, now)
            return
        try:
            body = request.body
            if request.fields.get(b"content-type") == GZIPPED or request.fields.get(b"content-encoding") == b"gzip":
                body = inflate(body, exchange.body_max)
            taken = exchange.posted(body, self)
        except PeerError as error:
            self._exchange = None
            self._refuse(400, error.message)
            exchange.end(f"it was sent what it cannot read: {error.message}", now)
            return
        if taken:
            self.taken(now)

    def _found(self, client_id: bytes) -> Exchange | None:
        """Return the session of that name, if it was opened from the same machine: its name is no secret."""
        exchange = self.exchanges.find(client_id)
        if exchange is not None and exchange.machine not in ("", machine_of(self.peer)):
            return None
        return exchange

    def _body_max(self, head: Message) -> int:
        exchange = self._found(head.fields.get(CLIENT_ID, b""))
        return STRANGER_OCTETS_MAX if exchange is None else exchange.body_max

    def _answer(self, now: Instant, status: int, body: bytes = b"", fields: Iterable[Field] = ()) -> None:
        self._request = None
        self.writer.write(self._http.answer(status, body, fields))
        self.note()
        if not self._http.lasting:
            self.closing = True
        self._due = now + REQUEST_TIMEOUT
        if not self._serving:
            self._next(now)

    def _refuse(self, status: int, why: str) -> None:
        self.writer.write(self._http.answer(status, (why + "\n").encode("utf-8", "replace"), [LAST]))
        self._close(why)

    def _close(self, why: str) -> None:
        self.refused = why or self.refused
        self.closing = True
        self.note()
