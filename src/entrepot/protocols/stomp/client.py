"""The client's side of a STOMP connection, versions 1.0 to 1.2: verbs in, frames out; frames in, events out.

Decides how a request is worded in the version agreed on, when a heart-beat is due, and when the broker counts as gone.
Never decides to connect again (`protocols/failover.py` does) and never waits: whoever uses it calls a verb, lets the
shell write, and looks at `StompClient.events`. Every verb that can ask for a receipt returns its id; the `Receipt` with
that id says that the broker has done it.

Buffers are bounded on both sides. In: when events pile up ``readable`` turns False until they are taken. Out: ``ready``
turns False at `OUTGOING_OCTETS`; a verb called at four times that is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final

import msgspec

from entrepot.base.environment import KIB, MIB, MILLISECOND, SECOND, Duration, Instant
from entrepot.base.errors import Inexpressible, PeerError, ProtocolViolation, Refused, kinds
from entrepot.protocols.session import NEVER, STOMP, Session, Shell
from entrepot.protocols.stomp.frames import (
    DEFAULT_LIMITS,
    V1_0,
    V1_1,
    V1_2,
    VERSIONS,
    Frame,
    FrameParser,
    Limits,
    encode_frame,
)

AUTO: Final = "auto"
CLIENT: Final = "client"
CLIENT_INDIVIDUAL: Final = "client-individual"

OUTGOING_OCTETS: Final = 256 * KIB  # four sockets' worth of 64 KiB writes: enough to keep one busy between two turns
OUTGOING_REFUSED: Final = 4 * OUTGOING_OCTETS
INCOMING_EVENTS: Final = 10_000
INCOMING_OCTETS: Final = 8 * MIB

BEAT_SHARE: Final = 2.5  # looks a promised interval: at 2 the longest silence is the interval itself, this leaves 20 %
GRACE: Final = 2.0  # promised intervals of silence before the peer counts as gone (STOMP 1.2: "an error margin")


class ConnectOptions(msgspec.Struct, frozen=True):
    """How to introduce oneself. ``heartbeat_*``: what we can promise to send, and wish to receive; 0 for none."""

    host: str = "localhost"
    login: str | None = None
    passcode: str | None = None
    client_id: str = ""
    versions: tuple[str, ...] = VERSIONS
    heartbeat_send: Duration = 10 * SECOND
    heartbeat_receive: Duration = 10 * SECOND
    connect_timeout: Duration = 10 * SECOND
    headers: Mapping[str, str] = {}
    limits: Limits = DEFAULT_LIMITS


class Connected(msgspec.Struct, frozen=True):
    """The broker accepted us."""

    version: str
    session: str
    server: str
    headers: dict[str, str]


class Message(msgspec.Struct, frozen=True):
    """One delivery. Settle it with `StompClient.ack` or `nack` unless its subscription is ``auto``."""

    subscription: str
    message_id: str
    headers: dict[str, str]
    body: bytes

    @property
    def destination(self) -> str:
        """Where it was delivered from."""
        return self.headers.get("destination", "")

    @property
    def is_text(self) -> bool:
        """Whether the broker marks the body as text: it gives a ``content-length`` to octets alone (classic.md 6.3)."""
        return "content-length" not in self.headers

    @property
    def ends_browse(self) -> bool:
        """Whether it is no message but the end of a browse."""
        return self.headers.get("browser") == "end"


class Receipt(msgspec.Struct, frozen=True):
    """The broker has done what asked for the receipt ``receipt_id``; ``headers`` may answer a `StompClient.request`."""

    receipt_id: str
    headers: dict[str, str]


class Error(msgspec.Struct, frozen=True):
    """The broker refused something: what asked for ``receipt_id``, "" when it does not say."""

    message: str
    receipt_id: str
    headers: dict[str, str]
    body: bytes


class Writable(msgspec.Struct, frozen=True):
    """``ready`` is True again after it was not."""


class HeartbeatLost(msgspec.Struct, frozen=True):
    """Nothing came for ``silence`` although the broker promised; a `Disconnected` follows."""

    silence: Duration


class Disconnected(msgspec.Struct, frozen=True):
    """The last event. ``clean``: we had asked for it and the broker had confirmed."""

    why: str
    clean: bool


Event = Connected | Message | Receipt | Error | Writable | HeartbeatLost | Disconnected


def reason(headers: Mapping[str, str], body: bytes) -> str:
    """Return what an ERROR says: its header, or the first line of its body."""
    return headers.get("message", "") or body.decode(errors="replace").partition("\n")[0]


def refused(who: str, headers: Mapping[str, str], body: bytes) -> Refused:
    """Return an ERROR of ``who`` as the exception that its code names.

    entrepot puts the remedy behind the message, in parentheses, into the body.
    """
    text = reason(headers, body)
    told = body.decode(errors="replace")
    remedy = told[len(text) + 2 : -1] if told.startswith(f"{text} (") and told.endswith(")") else ""
    return kinds(Refused).get(headers.get("code", ""), Refused)(f"{who} refused: {text}", remedy=remedy)


class State(Enum):
    """Where a connection stands. It only ever moves down this list."""

    NEW = "new"
    CONNECTING = "connecting"
    CONNECTED = "connected"
    DISCONNECTING = "disconnecting"
    CLOSED = "closed"


class Heartbeat:
    """What both sides promised one another: when we beat, and how long the broker may be silent. ns; 0 is never.

    ``beat_at``: when to look next whether a beat is due. ``wrote``: something was said since the last look.
    """

    def __init__(self) -> None:
        self.every: Duration = 0
        self.beat_at: Instant = NEVER
        self.silence_max: Duration = 0
        self.heard_at: Instant = 0
        self.wrote = False

    def agree(self, text: str, options: ConnectOptions, now: Instant) -> None:
        """Each direction beats at the slower of what one side can and the other wants (STOMP 1.2, Heart-beating).

        ``text``: the header of the broker. Raises ProtocolViolation.
        """
        theirs = text.split(",")
        if len(theirs) != 2 or not all(part.isascii() and part.isdigit() and len(part) < 12 for part in theirs):
            raise ProtocolViolation(f"heart-beat {text[:40]!r} is not two numbers")
        sends, wants = (int(part) * MILLISECOND for part in theirs)
        if options.heartbeat_send and wants:
            # Looks rather than a timer from the last write: the verbs need not know the time.
            self.every = int(max(options.heartbeat_send, wants) / BEAT_SHARE)
            self.beat_at = now + self.every
            self.wrote = False  # CONNECT may have been long ago
        if options.heartbeat_receive and sends:
            self.silence_max = int(max(options.heartbeat_receive, sends) * GRACE)

    def deadline(self) -> Instant:
        """Return when a look is due, or the silence too long."""
        return min(self.beat_at, self.heard_at + self.silence_max) if self.silence_max else self.beat_at

    def is_due(self, now: Instant) -> bool:
        """Look whether a beat is to be written now, and plan the next look."""
        if now < self.beat_at:
            return False
        quiet = not self.wrote
        self.wrote = False
        self.beat_at = now + self.every
        return quiet


class Events:
    """What happened and was not taken yet. ``listener`` is called when there is something again."""

    def __init__(self, listener: Callable[[], None] | None) -> None:
        self.listener = listener
        self.waiting: list[Event] = []
        self.octets = 0

    def add(self, event: Event, octets: int = 0) -> None:
        """Note ``event``, which holds so many octets of a body."""
        self.waiting.append(event)
        self.octets += octets
        if len(self.waiting) == 1 and self.listener is not None:
            self.listener()

    def take(self) -> list[Event]:
        """Return all, in order, and forget them."""
        taken = self.waiting
        self.waiting = []
        self.octets = 0
        return taken

    def are_many(self) -> bool:
        """Return whether nothing more should be read until they are taken."""
        return len(self.waiting) >= INCOMING_EVENTS or self.octets >= INCOMING_OCTETS


class StompClient(Session):
    """One connection to a broker. Call `connect` first, verbs once a `Connected` came, `disconnect` to leave."""

    def __init__(
        self, shell: Shell, options: ConnectOptions | None = None, listener: Callable[[], None] | None = None
    ) -> None:
        """``listener`` is called when `events` has something again; it may only note that, not call any verb."""
        super().__init__(shell)
        self.protocol = STOMP
        self.options = options or ConnectOptions()
        self.state = State.NEW
        self.version = V1_0
        self._parser = FrameParser(V1_0, self.options.limits)
        self._events = Events(listener)
        self._last_id = 0
        self._goodbye = ""  # receipt id of our DISCONNECT
        self._socket_ready = True
        self._was_ready = True
        self._heartbeat = Heartbeat()
        self._connect_by: Instant = NEVER

    # -- verbs --------------------------------------------------------------------------------------------------------

    def connect(self, now: Instant) -> None:
        """Introduce ourselves; a `Connected`, or an `Error` and a `Disconnected`, follows."""
        _require(self.state, State.NEW)
        options = self.options
        headers = {"accept-version": ",".join(options.versions), "host": options.host}
        beats = (options.heartbeat_send // MILLISECOND, options.heartbeat_receive // MILLISECOND)
        headers["heart-beat"] = f"{beats[0]},{beats[1]}"
        if options.login is not None:
            headers["login"] = options.login
        if options.passcode is not None:
            headers["passcode"] = options.passcode
        if options.client_id:
            headers["client-id"] = options.client_id
        headers.update(options.headers)
        self.state = State.CONNECTING
        self._connect_by = now + options.connect_timeout
        self._heartbeat.heard_at = now
        self._write("CONNECT", headers)  # not STOMP: servers of 1.0 know only this one

    def send(
        self,
        destination: str,
        body: bytes | str,
        headers: Mapping[str, str] | None = None,
        *,
        receipt: bool = False,
        transaction: str = "",
    ) -> str:
        """Send a message, a text message for ``str``; return the receipt id, "" when none was asked for."""
        fields = {"destination": destination}
        if headers:
            fields.update(headers)
        if transaction:
            fields["transaction"] = transaction
        if isinstance(body, str):
            octets = body.encode()
            if b"\0" in octets:
                fields["content-length"] = str(len(octets))
                fields["amq-msg-type"] = "text"  # a length alone would make it a bytes message (classic.md 6.3)
        else:
            octets = body
            fields["content-length"] = str(len(octets))
        return self._request("SEND", fields, receipt=receipt, body=octets)

    def subscribe(
        self,
        destination: str,
        *,
        ack: str = AUTO,
        selector: str = "",
        subscription: str = "",
        headers: Mapping[str, str] | None = None,
        receipt: bool = False,
    ) -> tuple[str, str]:
        """Subscribe; return the subscription's id (``subscription``, or a fresh one) and the receipt id."""
        subscription = subscription or self._fresh("s")
        fields = {"id": subscription, "destination": destination, "ack": ack}
        if selector:
            fields["selector"] = selector
        if headers:
            fields.update(headers)
        return subscription, self._request("SUBSCRIBE", fields, receipt=receipt)

    def unsubscribe(self, subscription: str, *, headers: Mapping[str, str] | None = None, receipt: bool = False) -> str:
        """End a subscription; return the receipt id. Messages on their way may still come."""
        return self._request("UNSUBSCRIBE", {"id": subscription, **(headers or {})}, receipt=receipt)

    def ack(self, message: Message, *, transaction: str = "", receipt: bool = False) -> str:
        """Settle ``message`` (and all before it, when its subscription says ``client``)."""
        return self._request("ACK", _settled(message, transaction, self.version), receipt=receipt)

    def nack(self, message: Message, *, transaction: str = "", receipt: bool = False) -> str:
        """Refuse ``message``. Raises Inexpressible in STOMP 1.0, which has no NACK."""
        if self.version == V1_0:
            raise Inexpressible("STOMP 1.0 cannot refuse a message", remedy="connect with version 1.1 or 1.2")
        return self._request("NACK", _settled(message, transaction, self.version), receipt=receipt)

    def begin(self, *, receipt: bool = False) -> str:
        """Begin a transaction; return its id, to be passed to `send` and `ack`."""
        transaction = self._fresh("t")
        self._request("BEGIN", {"transaction": transaction}, receipt=receipt)
        return transaction

    def commit(self, transaction: str, *, receipt: bool = True) -> str:
        """Make everything of ``transaction`` happen; return the receipt id."""
        return self._request("COMMIT", {"transaction": transaction}, receipt=receipt)

    def abort(self, transaction: str, *, receipt: bool = False) -> str:
        """Make nothing of ``transaction`` happen; return the receipt id."""
        return self._request("ABORT", {"transaction": transaction}, receipt=receipt)

    def request(self, command: str, headers: Mapping[str, str], body: bytes = b"") -> str:
        """Send a frame that this class has no verb for; return the id of the receipt that it asks for."""
        return self._request(command, dict(headers), receipt=True, body=body)

    def disconnect(self) -> None:
        """Leave in order: everything sent before is done when the `Disconnected` says ``clean``."""
        if self.state in (State.DISCONNECTING, State.CLOSED):
            return
        if self.state is not State.CONNECTED:
            self._close("we left before the broker had answered")
            return
        self._goodbye = self._fresh("r")
        self._write("DISCONNECT", {"receipt": self._goodbye})
        self.state = State.DISCONNECTING

    # -- what happened ------------------------------------------------------------------------------------------------

    def events(self) -> list[Event]:
        """Return what happened since the last call, in order."""
        events = self._events.take()
        if not self.readable and self.state is not State.CLOSED:
            self.readable = True
            self.shell.resumed()
        return events

    @property
    def ready(self) -> bool:
        """Whether more may be sent now; a `Writable` says when it turns True again."""
        ready = self.state is State.CONNECTED and self._socket_ready and self.pending() < OUTGOING_OCTETS
        self._was_ready = self._was_ready and ready
        return ready

    def describe(self) -> dict[str, str]:
        """Return what an operator wants to know about this connection."""
        return {"protocol": self.protocol, "version": self.version, "state": self.state.value}

    # -- the shell's side ---------------------------------------------------------------------------------------------

    def receive(self, data: bytes, now: Instant) -> None:
        """Take the next octets from the broker, b"" for the end."""
        if self.state is State.CLOSED:
            return
        if not data:
            self._close("the broker closed the connection")
            return
        self._heartbeat.heard_at = now
        try:
            self._parser.feed(data)
            while not self.closing:
                frame = self._parser.take()
                if frame is None:
                    break
                self._take(frame, now)
        except PeerError as wrong:
            self._close(f"the broker broke the protocol: {wrong}")
        if self._events.are_many():
            self.readable = False

    def outgoing(self) -> bytes:
        """Return what is to be written now."""
        data = super().outgoing()
        self._look_ready()
        return data

    def deadline(self) -> Instant:
        """Return when a heart-beat is due, or the broker counts as gone."""
        if self.state is State.CLOSED:
            return NEVER
        return min(self._heartbeat.deadline(), self._connect_by)

    def advance(self, now: Instant) -> None:
        """Beat, and notice a broker that has gone silent."""
        if self.state is State.CLOSED:
            return
        if now >= self._connect_by:
            seconds = self.options.connect_timeout / SECOND
            self._close(f"the other side did not answer CONNECT within {seconds:g} s")
            return
        # While we do not read, silence says nothing about the broker.
        if not self.readable:
            self._heartbeat.heard_at = now
        silence = now - self._heartbeat.heard_at
        if self._heartbeat.silence_max and silence >= self._heartbeat.silence_max:
            self._events.add(HeartbeatLost(silence))
            self._close(f"the broker was silent for {silence / SECOND:.1f} s, longer than it promised")
            return
        if self._heartbeat.is_due(now):
            self.writer.write(b"\n")
            self.note()

    def writable(self, ready: bool, now: Instant) -> None:
        """The socket is full, or takes octets again."""
        self._socket_ready = ready
        self._look_ready()

    def shut(self, why: str, now: Instant) -> None:
        """End the connection at once; a `Disconnected` says ``why``."""
        if self.state is not State.CLOSED:
            self._close(why)

    def detach(self, why: str, now: Instant) -> None:
        """The connection is gone."""
        if self.state is not State.CLOSED:
            self._close(why)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _take(self, frame: Frame, now: Instant) -> None:
        command = frame.command
        if command == "MESSAGE":
            headers = frame.headers
            message_id = headers.get("message-id", "")
            message = Message(headers.get("subscription", ""), message_id, headers, frame.body)
            self._events.add(message, len(frame.body))
        elif command == "RECEIPT":
            receipt_id = frame.headers.get("receipt-id", "")
            if receipt_id and receipt_id == self._goodbye:
                self._close("we left", clean=True)
            else:
                self._events.add(Receipt(receipt_id, frame.headers))
        elif command == "ERROR":
            self._take_error(frame)
        elif command == "CONNECTED" and self.state is State.CONNECTING:
            self._take_connected(frame, now)
        else:
            raise ProtocolViolation(f"a {command[:20]!r} frame may not come now")

    def _take_connected(self, frame: Frame, now: Instant) -> None:
        headers = frame.headers
        version = headers.get("version", V1_0)  # 1.0 has no such header
        if version not in self.options.versions:
            raise ProtocolViolation(f"it chose version {version[:20]!r}, which we did not offer")
        self.version = self._parser.version = version
        self.state = State.CONNECTED
        self._connect_by = NEVER
        self._heartbeat.agree(headers.get("heart-beat", "0,0"), self.options, now)
        self._events.add(Connected(version, headers.get("session", ""), headers.get("server", ""), headers))

    def _take_error(self, frame: Frame) -> None:
        text = reason(frame.headers, frame.body)
        self._events.add(Error(text, frame.headers.get("receipt-id", ""), frame.headers, frame.body))
        if self.state is State.CONNECTING:
            self._close(f"the broker refused the connection: {text}")

    def _request(self, command: str, headers: dict[str, str], *, receipt: bool, body: bytes = b"") -> str:
        _require(self.state, State.CONNECTED)
        if self.pending() >= OUTGOING_REFUSED:
            raise Refused(
                f"{self.pending()} octets wait for the broker to read them", remedy="wait until `ready` before sending"
            )
        receipt_id = ""
        if receipt:
            receipt_id = headers["receipt"] = self._fresh("r")
        self._write(command, headers, body)
        return receipt_id

    def _write(self, command: str, headers: Mapping[str, str], body: bytes = b"") -> None:
        self.writer.write(encode_frame(command, headers, body, self.version))
        self._heartbeat.wrote = True
        self.note()

    def _fresh(self, kind: str) -> str:
        self._last_id += 1
        return f"{kind}{self._last_id}"

    def _look_ready(self) -> None:
        """Say `Writable` once when ``ready`` has turned True after somebody saw it False."""
        if not self._was_ready:
            self._was_ready = True
            if self.ready:
                self._events.add(Writable())

    def _close(self, why: str, *, clean: bool = False) -> None:
        self.state = State.CLOSED
        self.closing = True
        self._events.add(Disconnected(why, clean))
        self.note()


def _settled(message: Message, transaction: str, version: str) -> dict[str, str]:
    """Return the headers that name ``message`` in an ACK or NACK of ``version``."""
    if version == V1_2:
        # Falls back for brokers that say 1.2 and leave the header out.
        fields = {"id": message.headers.get("ack", message.message_id)}
    else:
        fields = {"message-id": message.message_id}
        if version == V1_1:
            fields["subscription"] = message.subscription
    if transaction:
        fields["transaction"] = transaction
    return fields


def _require(state: State, wanted: State) -> None:
    if state is not wanted:
        raise Refused(
            f"the connection is {state.value}, not {wanted.value}", remedy="look at its events for the reason"
        )
