"""Who speaks here? The session of a connection whose first octets decide its protocol (classic.md 6.2).

It collects octets until `session.detect` knows, makes the real session, hands it everything and is forgotten. What
it cannot serve it refuses, with a reason in the peer's own language where that language has one. It never keeps more
than `DETECTION_OCTETS_MAX`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from entrepot.base.environment import SECOND, Duration, Instant
from entrepot.protocols.session import (
    AMQP,
    CORE,
    HTTP,
    MQTT,
    NEVER,
    OPENWIRE,
    STOMP,
    UNKNOWN,
    WS,
    Session,
    Shell,
    detect,
)

DETECTION_TIMEOUT: Final = 30 * SECOND  # Classic's protocolDetectionTimeOut
DETECTION_OCTETS_MAX: Final = 1024  # line ends before a STOMP frame are heart-beats and may be many, but not endless

Maker = Callable[[Shell], Session]
"""Makes the session of one protocol for one connection."""

NAMES: Final[Mapping[str, str]] = {
    STOMP: "STOMP",
    OPENWIRE: "OpenWire",
    AMQP: "AMQP",
    MQTT: "MQTT",
    HTTP: "HTTP",
    CORE: "CORE",
    WS: "WebSocket",
}


class DetectingSession(Session):
    """A connection that has not said yet what it speaks.

    ``makers`` holds what may be spoken here. With ``refusal`` everybody is refused for that reason, in his language.
    """

    def __init__(
        self,
        shell: Shell,
        makers: Mapping[str, Maker],
        opened: Instant,
        *,
        timeout: Duration = DETECTION_TIMEOUT,
        refusal: str = "",
    ) -> None:
        super().__init__(shell)
        self.makers = makers
        self.due: Instant = opened + timeout
        self.refusal = refusal
        self.refused = ""
        self.start = b""

    def receive(self, data: bytes, now: Instant) -> None:
        """Look at what is there so far; b"" is the end of the stream."""
        if self.closing:
            return
        if not data:
            self._refuse(UNKNOWN, "the peer closed before it said what it speaks" if self.start else "")
            return
        self.start += data
        protocol = detect(self.start)
        if protocol and protocol != UNKNOWN:
            self._decide(protocol, now)
        elif protocol == UNKNOWN or len(self.start) > DETECTION_OCTETS_MAX:
            self._refuse(UNKNOWN, f"no known protocol begins with {self.start[:16]!r}; {self._spoken()}")

    def deadline(self) -> Instant:
        """Return when a silent peer is sent away."""
        return NEVER if self.closing else self.due

    def advance(self, now: Instant) -> None:
        """Send a silent peer away."""
        if now >= self.due and not self.closing:
            self._refuse(UNKNOWN, f"it did not say what it speaks in time ({len(self.start)} octets came)")

    def describe(self) -> dict[str, str]:
        """Return why it was refused, if it was."""
        return {"protocol": self.protocol, "refused": self.refused}

    def _decide(self, protocol: str, now: Instant) -> None:
        make = self.makers.get(protocol)
        if self.refusal:
            self._refuse(protocol, self.refusal)
        elif make is None:
            self._refuse(protocol, f"{NAMES[protocol]} is not spoken here; {self._spoken()}")
        else:
            session = make(self.shell)
            self.shell.become(session)
            session.receive(self.start, now)

    def _spoken(self) -> str:
        return "this port speaks " + (", ".join(NAMES.get(name, name) for name in self.makers) or "nothing")

    def _refuse(self, protocol: str, reason: str) -> None:
        self.protocol = protocol
        self.refused = reason
        self.closing = True
        answer = refusal(protocol, reason)
        if answer:
            self.writer.write(answer)
        self.note()


def refusal(protocol: str, reason: str) -> bytes:
    """Return how ``protocol`` says "no" before it was greeted; b"" where it cannot."""
    text = reason.encode("utf-8", "replace")
    if protocol == STOMP:  # the reason is the body, where nothing is escaped (STOMP 1.2, ERROR)
        head = b"ERROR\nmessage:connection refused\ncontent-type:text/plain\n"
        return head + b"content-length:%d\n\n%s\0\n" % (len(text), text)
    if protocol == HTTP:
        return (
            b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n"
            b"Content-Length: %d\r\nConnection: close\r\n\r\n%s\n" % (len(text) + 1, text)
        )
    if protocol == MQTT:
        return b"\x20\x02\x00\x03"  # MQTT 3.1.1, 3.2.2.3: CONNACK, server unavailable
    if protocol == AMQP:
        return b"AMQP\x00\x01\x00\x00"  # AMQP 1.0, 2.2: what we would have spoken, then the connection is closed
    return b""
