"""WebSocket (RFC 6455) around another protocol: STOMP, MQTT and AMQP inside, chosen by sub-protocol.

`websockets` decides about the handshake, frames, masks, pings and closing; it is imported with the first connection
that asks for an upgrade. Octets of frames are handed on as they come: a packet may lie in several messages, and several
in one (MQTT 5, 6.0). Nothing is compressed. What is held of frames that are not complete counts as octets that the
broker has lent (`core/sending/loans.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import CLOSED, OPEN
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from entrepot.base.environment import SECOND, Instant
from entrepot.core.ports import Memory
from entrepot.core.sending.loans import Loan
from entrepot.model.connected import SessionView
from entrepot.protocols.session import AMQP, MQTT, NEVER, STOMP, Session, Shell

Maker = Callable[[Shell], Session]

SUBPROTOCOLS: Final[Mapping[str, str]] = {
    "mqtt": MQTT,
    "mqttv3.1": MQTT,
    "v12.stomp": STOMP,
    "v11.stomp": STOMP,
    "v10.stomp": STOMP,
    "stomp": STOMP,
    "amqp": AMQP,
}
"""Name of a sub-protocol -> what is spoken inside (classic.md 6.6)."""
UNNAMED: Final = STOMP  # who asks for none speaks this, as to Classic
HANDSHAKE: Final = 10 * SECOND
MESSAGE_OCTETS_MAX: Final = 16 << 20  # one frame is held until it is complete; a packet may take several
BUFFERED_FREE: Final = 64 * 1024


class _Inside(Shell):
    """What the session inside asks of its shell, as far as frames do not come between."""

    def __init__(self, outer: WebSocketSession) -> None:
        self.outer = outer

    def dirty(self) -> None:
        self.outer.note()

    def resumed(self) -> None:
        self.outer.opened()

    def go_on(self) -> None:
        self.outer.shell.go_on()

    def certificate(self) -> str | None:
        return self.outer.shell.certificate()


class WebSocketSession(Session):
    """One connection. ``makers``: what may be spoken inside; ``memory``: of the broker."""

    def __init__(self, shell: Shell, makers: Mapping[str, Maker], memory: Memory, opened: Instant) -> None:
        super().__init__(shell)
        self.protocol = "websocket"
        self.makers: Final = makers
        self.inner: Session | None = None
        self.due: Instant = opened + HANDSHAKE
        self.refused = ""
        self.text = False  # what is written may be text: STOMP
        self.waiting: list[bytes] = []  # came, and the session inside does not take more in this turn
        self.loan: Final = Loan(memory)
        names = [Subprotocol(name) for name, protocol in SUBPROTOCOLS.items() if protocol in makers]
        self._wire: Final = ServerProtocol(
            subprotocols=names, select_subprotocol=_choose, extensions=None, max_size=MESSAGE_OCTETS_MAX
        )

    # -- what the shell calls ------------------------------------------------------------------------------------------

    def receive(self, data: bytes, now: Instant) -> None:
        """Take frames, and hand on what is in them."""
        if self.closing:
            return
        wire = self._wire
        if data:
            wire.receive_data(data)
        else:
            wire.receive_eof()
        for event in wire.events_received():
            if isinstance(event, Request):
                self._greet(event, now)
            elif isinstance(event, Frame) and event.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
                if not self.text and event.opcode is Opcode.TEXT:
                    wire.fail(CloseCode.UNSUPPORTED_DATA, "this protocol is sent in binary frames")  # MQTT 5, 6.0
                    self.refused = "it sent a text frame where only binary ones may be"
                    break
                self.waiting.append(bytes(event.data))
        self._count()
        self._feed(now)
        if not data or wire.state is CLOSED or wire.close_expected():
            self.closing = True
        self._follow()
        self.note()

    def _count(self) -> None:
        held = len(self._wire.reader.buffer) + sum(len(piece) for piece in self.waiting)
        if held > BUFFERED_FREE or self.loan.octets > 0:
            self.loan.owe(held)
            if self.loan.is_pressing() and held > BUFFERED_FREE and not self.closing:
                self.refused = str(self.loan.refusal())
                self._wire.fail(CloseCode.MESSAGE_TOO_BIG, "the broker holds too much already")
                self.waiting.clear()

    def _greet(self, request: Request, now: Instant) -> None:
        wire = self._wire
        response = wire.accept(request)
        wire.send_response(response)
        if wire.state is not OPEN:
            self.refused = f"its handshake was refused: {wire.handshake_exc or response.status_code}"
            self.closing = True
            return
        protocol = SUBPROTOCOLS[wire.subprotocol] if wire.subprotocol else UNNAMED
        make = self.makers.get(protocol)
        if make is None:
            self.refused = "it asked for no sub-protocol that is spoken here"
            wire.fail(CloseCode.POLICY_VIOLATION, "no sub-protocol that is spoken here")
            return
        self.text = protocol == STOMP
        self.inner = make(_Inside(self))
        self.protocol = self.inner.protocol

    def _feed(self, now: Instant) -> None:
        inner = self.inner
        while inner is not None and self.waiting and not inner.unfinished and not inner.closing:
            octets = self.waiting[0] if len(self.waiting) == 1 else b"".join(self.waiting)
            self.waiting.clear()
            if octets:
                inner.receive(octets, now)

    def resume(self, now: Instant) -> None:
        """Go on inside."""
        inner = self.inner
        if inner is not None:
            if inner.unfinished:
                inner.resume(now)
            self._feed(now)
        self._follow()

    def _follow(self) -> None:
        """Be as the session inside is."""
        inner = self.inner
        if inner is None:
            self.unfinished = False
            return
        self.unfinished = inner.unfinished
        self.readable = inner.readable
        if inner.closing:
            self.note()

    def opened(self) -> None:
        """The session inside reads again."""
        self._follow()
        self.shell.resumed()

    def outgoing(self) -> bytes:
        """Return frames around what the session inside has to say, and what the handshake or a ping needs."""
        self.noted = False
        wire = self._wire
        inner = self.inner
        if inner is not None and wire.state is OPEN:
            self._follow()
            while octets := inner.outgoing():
                self._write(octets)
            if inner.closing:
                wire.send_close(CloseCode.NORMAL_CLOSURE)
                self.closing = True
        octets = b"".join(wire.data_to_send())
        if wire.state is CLOSED:
            self.closing = True
        return octets

    def _write(self, octets: bytes) -> None:
        if self.text:
            try:
                octets.decode()
            except UnicodeDecodeError:
                self._wire.send_binary(octets)
            else:
                self._wire.send_text(octets)
        else:
            self._wire.send_binary(octets)

    def pending(self) -> int:
        """Return how many octets wait."""
        return 0 if self.inner is None else int(self.inner.pending())

    def deadline(self) -> Instant:
        """Return when something is due."""
        if self.closing:
            return NEVER
        return self.due if self.inner is None else int(self.inner.deadline())

    def advance(self, now: Instant) -> None:
        """Give up a handshake that does not come, or do what is due inside."""
        inner = self.inner
        if inner is not None:
            inner.advance(now)
            self._follow()
        elif now >= self.due and not self.closing:
            self.refused = "it asked for no WebSocket in time"
            self.closing = True
            self.note()

    def writable(self, ready: bool, now: Instant) -> None:
        """The socket is full, or has room again."""
        if self.inner is not None:
            self.inner.writable(ready, now)

    def shut(self, why: str, now: Instant) -> None:
        """Our side ends this."""
        inner = self.inner
        if inner is not None and self._wire.state is OPEN:
            inner.shut(why, now)
            while octets := inner.outgoing():
                self._write(octets)
            self._wire.send_close(CloseCode.GOING_AWAY, "the broker ends this connection")
        self.closing = True
        self.note()

    def detach(self, why: str, now: Instant) -> None:
        """The connection is gone."""
        self.loan.owe(0)
        self.waiting.clear()
        if self.inner is not None:
            self.inner.detach(why, now)

    # -- what operators ask --------------------------------------------------------------------------------------------

    def readers(self) -> int:
        """Return how many consumers it has."""
        return 0 if self.inner is None else int(self.inner.readers())

    def sessions(self, opened: int) -> list[SessionView]:
        """Return the sessions inside."""
        return [] if self.inner is None else self.inner.sessions(opened)

    def close_session(self, name: str) -> bool:
        """Close one of the sessions inside."""
        return self.inner is not None and self.inner.close_session(name)

    def describe(self) -> dict[str, str]:
        """Return what is spoken inside, and that it is inside."""
        if self.inner is None:
            return {"protocol": self.protocol, "refused": self.refused}
        found = dict(self.inner.describe())
        found["transport"] = "websocket"
        if self.refused:
            found["refused"] = self.refused
        return found


def _choose(wire: ServerProtocol, offered: Sequence[Subprotocol]) -> Subprotocol | None:
    """Return the first sub-protocol of ours that the client offers, in our order; None where it offers none of them."""
    for name in wire.available_subprotocols or ():
        if name in offered:
            return name
    return None
