"""OpenWire through places that let only HTTP pass: an HTTP/1.1 request that asks to upgrade, then the octets as ever.

```text
client   GET /openwire HTTP/1.1 · Host: ... · Connection: Upgrade · Upgrade: openwire · empty line
server   HTTP/1.1 101 Switching Protocols · Connection: Upgrade · Upgrade: openwire · empty line
then     OpenWire in both directions, as on a socket
```

This is a form of our own, between brokers and clients of this project (RFC 9110, 7.8): as fast as a socket, where
ActiveMQ's ``http:`` transport (`openwire/polling.py`) needs a request for each command. Both are served on one port:
who asks for no upgrade polls. Who dials asks for the upgrade first, and polls where it is not given. Reverse proxies
that pass WebSocket pass it too. What stands behind a head that switches belongs to OpenWire.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from entrepot.base.environment import SECOND, Duration, Instant
from entrepot.base.errors import PeerError
from entrepot.protocols.http import Answers, Message, Requests
from entrepot.protocols.session import HTTP, NEVER, Session, Shell

PROTOCOL: Final = "openwire"
PATH: Final = "/openwire"
TIMEOUT: Final = 10 * SECOND  # for the whole of the other side's head
SWITCHED: Final = 101

Maker = Callable[[Shell], Session]


class _Tunnel(Session):
    """Waits for one head. ``make`` makes the session that has the connection afterwards."""

    def __init__(self, shell: Shell, make: Maker, opened: Instant, timeout: Duration) -> None:
        super().__init__(shell)
        self.protocol = HTTP
        self.make = make
        self.due: Instant = opened + timeout
        self.refused = ""

    def proceed(self, rest: bytes, now: Instant) -> None:
        """Give the connection to OpenWire."""
        session = self.make(self.shell)
        self.shell.become(session)
        greeting = session.writer.getvalue()
        session.writer.truncate(0)
        session.writer.write(self.outgoing())  # our own head goes first
        session.writer.write(greeting)
        session.note()
        if rest:
            session.receive(rest, now)

    def refuse(self, why: str) -> None:
        """End it."""
        self.refused = why
        self.closing = True
        self.note()

    def deadline(self) -> Instant:
        """Return when a silent other side is given up."""
        return NEVER if self.closing else self.due

    def advance(self, now: Instant) -> None:
        """Give it up."""
        if now >= self.due and not self.closing:
            self.refuse("the other side said nothing in time")

    def describe(self) -> dict[str, str]:
        """Return why it was refused, if it was."""
        return {"protocol": self.protocol, "refused": self.refused}


class TunnelServer(_Tunnel):
    """The side that was dialled. What is no upgrade to OpenWire is for the session that ``otherwise`` makes."""

    def __init__(
        self,
        shell: Shell,
        make: Maker,
        opened: Instant,
        otherwise: Maker,
        timeout: Duration = TIMEOUT,
        *,
        sockets: Maker | None = None,
    ) -> None:
        """``sockets`` makes the session of who asks for a WebSocket; it reads the request once more."""
        super().__init__(shell, make, opened, timeout)
        self.sockets = sockets
        self.otherwise = otherwise
        self._http: Final = Requests(lambda head: 0)
        self._start = b""  # bounded as a head is: `Requests` refuses a longer one

    def receive(self, data: bytes, now: Instant) -> None:
        """Switch once the head is complete, or let somebody else read it from its beginning."""
        if self.closing:
            return
        if not data:
            self.refuse("the other side closed before it asked")
            return
        self._start += data
        self._http.feed(data)
        try:
            request = self._http.next()
        except PeerError:
            self._give_away(now)
            return
        if request is not None and _asks_to_switch(request):
            self.writer.write(self._http.switch(PROTOCOL))
            self.proceed(self._http.rest, now)
        elif request is not None and self.sockets is not None and _asks_for(request, b"websocket"):
            self._give_away(now, self.sockets)
        elif request is not None or self._http.head is not None:
            self._give_away(now)

    def _give_away(self, now: Instant, make: Maker | None = None) -> None:
        session = (make or self.otherwise)(self.shell)
        self.shell.become(session)
        session.receive(self._start, now)


class TunnelClient(_Tunnel):
    """The side that dials. ``decided`` is told once whether the other side switched."""

    def __init__(
        self,
        shell: Shell,
        make: Maker,
        opened: Instant,
        *,
        host: str,
        path: str,
        decided: Callable[[bool], None],
        timeout: Duration = TIMEOUT,
    ) -> None:
        super().__init__(shell, make, opened, timeout)
        self.decided = decided
        self._http: Final = Answers(lambda head: 0)
        fields = [("Connection", "Upgrade"), ("Upgrade", PROTOCOL)]
        self.writer.write(self._http.ask("GET", path or PATH, host, fields))
        self.note()

    def receive(self, data: bytes, now: Instant) -> None:
        """Go on once the head is complete, or give up."""
        if self.closing:
            return
        if not data:
            self.refuse("the other side closed before it answered")
            return
        self._http.feed(data)
        try:
            answer = self._http.next()
        except PeerError as error:
            if self._http.head is None:
                self.refuse(error.message)
                return
            answer = None  # it has a body, which nobody reads
        if answer is not None and answer.status == SWITCHED:
            self.decided(True)
            self.proceed(self._http.rest, now)
        elif answer is not None or self._http.head is not None:  # ActiveMQ, as a rule: no fault of anybody
            self.closing = True
            self.note()
            self.decided(False)


def _asks_to_switch(request: Message) -> bool:
    return _asks_for(request, PROTOCOL.encode())


def _asks_for(request: Message, protocol: bytes) -> bool:
    return request.method == b"GET" and request.fields.get(b"upgrade", b"").lower() == protocol
