"""The contract of every connection, on either side; and the first bytes of one, which tell its protocol. [C]

A session is a state machine without a socket. The shell (`io/connection.py`, or the simulated network) calls

1. `receive` with each chunk as it came; ``b""`` is the end of the stream. It never raises for what a peer sent.
2. `outgoing` for what to write, whenever `Shell.dirty` was called, and after each other call. ``closing`` says that the
   connection is to be closed once all of that is written.
3. `advance` when the instant that `deadline` returned has come; `deadline` again after every call.
4. `writable` with False when the peer does not read fast enough, with True when it does again.
5. `resume` when a session that is ``unfinished`` asks for it through `Shell.go_on`.
6. `detach` once, when the connection is gone, whoever closed it. Nothing may be called after that.

While ``readable`` is False the shell stops reading: that is our back-pressure. While ``unfinished`` is True it has not
done all that it was given, since its turn was over (`core/effort.py`): the shell gives it no more, and keeps what still
comes.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64, mypyc_attr

from entrepot.base.environment import Instant
from entrepot.model.connected import SessionView

NEVER: Final = 1 << 62

STOMP: Final = "stomp"
OPENWIRE: Final = "openwire"
AMQP: Final = "amqp"
MQTT: Final = "mqtt"
HTTP: Final = "http"
CORE: Final = "core"
WS: Final = "ws"  # WebSocket, with another protocol inside
UNKNOWN: Final = "unknown"

STOP_SPACE: Final = 1  # why a session reads nothing: the broker has no room,
STOP_DISK: Final = 2  # or the disk is far behind a body that is streamed to it,
STOP_MIRROR: Final = 4  # or very many answers wait until other brokers have what they are about

DETECTION_OCTETS: Final = 14  # the longest start that is looked at: size, type and magic of an OpenWire WireFormatInfo


@mypyc_attr(allow_interpreted_subclasses=True)
class Shell:
    """What a session may ask of the shell that drives it.

    ``server_name``: the name of the server that the peer asked for in TLS (SNI), "" where it asked for none.
    ``beside``: the peer is a process of this machine, as far as addresses tell.
    """

    server_name: str = ""
    beside: bool = False

    def dirty(self) -> None:
        """There is something to write: call `Session.outgoing` at the end of this turn. Cheap when said twice."""

    def resumed(self) -> None:
        """``readable`` may have changed to True outside of `receive`: look at it again."""

    def go_on(self) -> None:
        """The session is ``unfinished`` and its time has come: call `Session.resume`, within a turn."""

    def flush(self) -> None:
        """Write what the session has to say. Called at the end of a turn."""

    def certificate(self) -> str | None:
        """Return whose certificate the peer showed, as Java writes it; "": none. None: this is no TLS."""
        return None

    def become(self, session: Session) -> None:
        """Drive ``session`` instead of the one that calls this: it found out who speaks."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Session:
    """One connection, as its protocol sees it. See the head of this module for what may be called when."""

    def __init__(self, shell: Shell) -> None:
        self.shell: Shell = shell
        self.readable: bool = True
        self.stops: i64 = 0  # why it is not ``readable``, where several reasons may come together
        self.unfinished: bool = False
        self.closing: bool = False
        self.protocol: str = UNKNOWN
        self.writer: BytesWriter = BytesWriter()
        self.noted: bool = False  # the shell knows that there is something to write
        self.portion: i64 = 0  # octets that `receive` wants at most, so that answers leave in between; 0: any number

    def receive(self, data: bytes, now: Instant) -> None:
        """Take the next chunk from the peer."""
        raise NotImplementedError

    def resume(self, now: Instant) -> None:
        """Go on with what `receive` left; ``unfinished`` stays True when it is not all."""
        self.unfinished = False

    def outgoing(self) -> bytes:
        """Return what is to be written now, b"" for nothing."""
        writer = self.writer
        self.noted = False
        if len(writer) == 0:
            return b""
        data = writer.getvalue()
        writer.truncate(0)
        return data

    def note(self) -> None:
        """Tell the shell that ``writer`` holds something. Subclasses call it after writing."""
        if not self.noted:
            self.noted = True
            self.shell.dirty()

    def stop_reading(self, why: i64) -> None:
        """Read nothing, because of ``why`` (STOP_...)."""
        self.stops |= why
        self.readable = False

    def read_on(self, why: i64) -> None:
        """Read again, unless there are other reasons than ``why`` not to."""
        if self.stops & why:
            self.stops &= ~why
            if self.stops == 0:
                self.readable = True
                self.shell.resumed()

    def pending(self) -> i64:
        """Return how many octets wait in ``writer``."""
        return len(self.writer)

    def deadline(self) -> Instant:
        """Return when `advance` must be called, NEVER for not at all."""
        return NEVER

    def advance(self, now: Instant) -> None:
        """Do what is due at ``now``."""

    def writable(self, ready: bool, now: Instant) -> None:
        """The peer's socket is full (False), or takes octets again (True)."""

    def shut(self, why: str, now: Instant) -> None:
        """Our side ends this, because of ``why``: say so where the protocol can, and close."""
        self.closing = True

    def detach(self, why: str, now: Instant) -> None:
        """The connection is gone: give back what it held."""

    def readers(self) -> int:
        """Return how many consumers it has."""
        return 0

    def sessions(self, opened: int) -> list[SessionView]:
        """Return the sessions on it; none, where a protocol knows only one. ``opened``: in ms since 1970."""
        return []

    def mirrors(self) -> list[dict[str, object]]:
        """Return what there is to say of brokers that mirror themselves here over this connection, one row for each."""
        return []

    def close_session(self, name: str) -> bool:
        """Close one of several sessions on it; False when there is none called ``name``."""
        return False

    def describe(self) -> dict[str, str]:
        """Return what an operator wants to know; "refused" says why we ended a connection, and is logged."""
        return {"protocol": self.protocol}


def detect(start: bytes) -> str:
    """Return the protocol that ``start`` begins (classic.md 6.2), "" when more octets are needed, UNKNOWN for none.

    OpenWire: 0x01 and the magic ``ActiveMQ`` behind the frame size (or without one); STOMP: CONNECT or STOMP, after
    any line ends; AMQP and CORE (``ARTEMIS``): a name; MQTT: a CONNECT packet with ``MQTT`` or ``MQIsdp``; HTTP: a
    method.
    """
    text = start.lstrip(b"\r\n")
    for word, protocol in (
        (b"CONNECT\n", STOMP),
        (b"CONNECT\r", STOMP),
        (b"STOMP\n", STOMP),
        (b"STOMP\r", STOMP),
        (b"AMQP", AMQP),
        (b"ARTEMIS", CORE),
        (b"GET ", HTTP),
        (b"HEAD ", HTTP),
        (b"POST ", HTTP),
        (b"OPTIONS ", HTTP),
        (b"\x01ActiveMQ", OPENWIRE),
    ):
        if text.startswith(word):
            return protocol
        if word.startswith(text):
            return ""
    if start[:1] == b"\x10":
        return _detect_mqtt(start)
    if start[:1] == b"\0" and len(start) < 5:
        return ""
    magic = start[4:13]
    if start[:1] == b"\0" and b"\x01ActiveMQ".startswith(magic):
        return OPENWIRE if len(magic) == 9 else ""
    return UNKNOWN


def _detect_mqtt(start: bytes) -> str:
    """Skip the packet's length (1 to 4 octets) and the name's length (2 octets), then look at the name."""
    at = 1
    while at < len(start) and at < 5 and start[at] & 0x80:
        at += 1
    name = start[at + 3 :]
    for known in (b"MQTT", b"MQIsdp"):
        if name.startswith(known):
            return MQTT
        if known.startswith(name[: len(known)]):
            return ""
    return UNKNOWN
