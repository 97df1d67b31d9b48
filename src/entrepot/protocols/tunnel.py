"""OpenWire through places that let only HTTP pass: an HTTP/1.1 request that asks to upgrade, then the octets as ever.

```text
client   GET /openwire HTTP/1.1 · Host: ... · Connection: Upgrade · Upgrade: openwire · empty line
server   HTTP/1.1 101 Switching Protocols · Connection: Upgrade · Upgrade: openwire · empty line
then     OpenWire in both directions, as on a socket
```

This is a form of our own, between brokers and clients of this project (RFC 9110, 7.8): as fast as a socket, where
ActiveMQ's ``http:`` transport (`openwire/polling.py`) needs a request for each command. Both are served on one port:
who asks for no upgrade polls. Who dials asks for the upgrade first, and polls where it is not given. Reverse proxies
that pass WebSocket pass it too. Neither side keeps more than `HEAD_OCTETS_MAX` of the other's head; what stands behind
it belongs to OpenWire.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from entrepot.base.environment import SECOND, Duration, Instant
from entrepot.protocols.session import HTTP, NEVER, Session, Shell

PROTOCOL: Final = b"openwire"
PATH: Final = "/openwire"
HEAD_OCTETS_MAX: Final = 8 * 1024
TIMEOUT: Final = 10 * SECOND  # for the whole of the other side's head

Maker = Callable[[Shell], Session]


def request(host: str, path: str) -> bytes:
    """Return the head of a client that wants to speak OpenWire."""
    return (
        f"GET {path or PATH} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: {PROTOCOL.decode()}\r\n\r\n"
    ).encode("ascii", "replace")


def headers_of(head: bytes) -> dict[bytes, bytes]:
    """Return the header fields of ``head``, names in lower case; of repeated ones the last."""
    found: dict[bytes, bytes] = {}
    for line in head.split(b"\r\n")[1:]:
        name, colon, value = line.partition(b":")
        if colon:
            found[name.strip().lower()] = value.strip()
    return found


class _Tunnel(Session):
    """Reads one head. ``make`` makes the session that has the connection afterwards."""

    def __init__(self, shell: Shell, make: Maker, opened: Instant, timeout: Duration) -> None:
        super().__init__(shell)
        self.protocol = HTTP
        self.make = make
        self.due: Instant = opened + timeout
        self.refused = ""
        self.start = b""

    def receive(self, data: bytes, now: Instant) -> None:
        """Look whether the head is complete."""
        if self.closing:
            return
        if not data:
            self.refuse("the other side closed before it answered")
            return
        self.start += data
        head, end, rest = self.start.partition(b"\r\n\r\n")
        if end:
            self.headed(head, rest, now)
        elif len(self.start) > HEAD_OCTETS_MAX:
            self.refuse(f"the head of the HTTP message is longer than {HEAD_OCTETS_MAX} octets")

    def headed(self, head: bytes, rest: bytes, now: Instant) -> None:
        """Decide."""
        raise NotImplementedError

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
        self, shell: Shell, make: Maker, opened: Instant, otherwise: Maker, timeout: Duration = TIMEOUT
    ) -> None:
        super().__init__(shell, make, opened, timeout)
        self.otherwise = otherwise

    def headed(self, head: bytes, rest: bytes, now: Instant) -> None:
        """Switch, or let somebody else read it from its beginning."""
        if head.startswith(b"GET ") and headers_of(head).get(b"upgrade", b"").lower() == PROTOCOL:
            self.writer.write(
                b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + PROTOCOL + b"\r\n\r\n"
            )
            self.proceed(rest, now)
            return
        session = self.otherwise(self.shell)
        self.shell.become(session)
        session.receive(self.start, now)


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
        self.writer.write(request(host, path))
        self.note()

    def headed(self, head: bytes, rest: bytes, now: Instant) -> None:
        """Go on, or give up."""
        words = head.split(b"\r\n")[0].split(b" ")
        if len(words) >= 2 and words[0].startswith(b"HTTP/1.") and words[1] == b"101":
            self.decided(True)
            self.proceed(rest, now)
        else:  # ActiveMQ, as a rule: no fault of anybody
            self.closing = True
            self.note()
            self.decided(False)
