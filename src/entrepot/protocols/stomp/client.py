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


class StompClient(Session):
    """One connection to a broker. Call `connect` first, verbs once a `Connected` came, `disconnect` to leave."""

    def __init__(
        self, shell: Shell, options: ConnectOptions | None = None, listener: Callable[[], None] | None = None
    ) -> None:
        """``listener`` is called when `events` has something again; it may only note that, not call any verb."""
        super().__init__(shell)
        self.protocol = STOMP
        self.options = options or ConnectOptions()
        self.listener = listener
        self.state = State.NEW
        self.version = V1_0
        self._parser = FrameParser(V1_0, self.options.limits)
        self._events: list[Event] = []
        self._event_octets = 0
        self._last_id = 0
        self._goodbye = ""  # receipt id of our DISCONNECT
        self._socket_ready = True
        self._was_ready = True
        self._wrote = False  # since the last look at the heart-beat
        self._beat_every: Duration = 0
        self._beat_at: Instant = NEVER
        self._silence_max: Duration = 0
        self._heard_at: Instant = 0
        self._connect_by: Instant = NEVER

    # -- verbs --------------------------------------------------------------------------------------------------------

    def connect(self, now: Instant) -> None:
        """Introduce ourselves; a `Connected`, or an `Error` and a `Disconnected`, follows."""
        self._require(State.NEW)
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
        self._heard_at = now
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
        return self._request("ACK", self._settles(message, transaction), receipt=receipt)

    def nack(self, message: Message, *, transaction: str = "", receipt: bool = False) -> str:
        """Refuse ``message``. Raises Inexpressible in STOMP 1.0, which has no NACK."""
        if self.version == V1_0:
            raise Inexpressible("STOMP 1.0 cannot refuse a message", remedy="connect with version 1.1 or 1.2")
        return self._request("NACK", self._settles(message, transaction), receipt=receipt)

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
        events = self._events
        self._events = []
        self._event_octets = 0
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
        self._heard_at = now
        try:
            self._parser.feed(data)
            while not self.closing:
                frame = self._parser.take()
                if frame is None:
                    break
                self._take(frame, now)
        except PeerError as wrong:
            self._close(f"the broker broke the protocol: {wrong}")
        if len(self._events) >= INCOMING_EVENTS or self._event_octets >= INCOMING_OCTETS:
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
        lost_at = self._heard_at + self._silence_max if self._silence_max else NEVER
        return min(self._beat_at, lost_at, self._connect_by)

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
            self._heard_at = now
        silence = now - self._heard_at
        if self._silence_max and silence >= self._silence_max:
            self._happened(HeartbeatLost(silence))
            self._close(f"the broker was silent for {silence / SECOND:.1f} s, longer than it promised")
            return
        if now >= self._beat_at:
            if not self._wrote:
                self.writer.write(b"\n")
                self.note()
            self._wrote = False
            self._beat_at = now + self._beat_every

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
            self._event_octets += len(frame.body)
            message_id = headers.get("message-id", "")
            self._happened(Message(headers.get("subscription", ""), message_id, headers, frame.body))
        elif command == "RECEIPT":
            self._take_receipt(frame)
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
        self._agree_on_beats(headers.get("heart-beat", "0,0"), now)
        self._happened(Connected(version, headers.get("session", ""), headers.get("server", ""), headers))

    def _agree_on_beats(self, text: str, now: Instant) -> None:
        """Each direction beats at the slower of what one side can and the other wants (STOMP 1.2, Heart-beating)."""
        theirs = text.split(",")
        if len(theirs) != 2 or not all(part.isascii() and part.isdigit() and len(part) < 12 for part in theirs):
            raise ProtocolViolation(f"heart-beat {text[:40]!r} is not two numbers")
        sends, wants = (int(part) * MILLISECOND for part in theirs)
        ours = self.options
        if ours.heartbeat_send and wants:
            # Looks rather than a timer from the last write: the verbs need not know the time.
            self._beat_every = int(max(ours.heartbeat_send, wants) / BEAT_SHARE)
            self._beat_at = now + self._beat_every
            self._wrote = False  # CONNECT may have been long ago
        if ours.heartbeat_receive and sends:
            self._silence_max = int(max(ours.heartbeat_receive, sends) * GRACE)

    def _take_receipt(self, frame: Frame) -> None:
        receipt_id = frame.headers.get("receipt-id", "")
        if receipt_id and receipt_id == self._goodbye:
            self._close("we left", clean=True)
        else:
            self._happened(Receipt(receipt_id, frame.headers))

    def _take_error(self, frame: Frame) -> None:
        text = reason(frame.headers, frame.body)
        self._happened(Error(text, frame.headers.get("receipt-id", ""), frame.headers, frame.body))
        if self.state is State.CONNECTING:
            self._close(f"the broker refused the connection: {text}")

    def _settles(self, message: Message, transaction: str) -> dict[str, str]:
        if self.version == V1_2:
            # Falls back for brokers that say 1.2 and leave the header out.
            fields = {"id": message.headers.get("ack", message.message_id)}
        else:
            fields = {"message-id": message.message_id}
            if self.version == V1_1:
                fields["subscription"] = message.subscription
        if transaction:
            fields["transaction"] = transaction
        return fields

    def _request(self, command: str, headers: dict[str, str], *, receipt: bool, body: bytes = b"") -> str:
        self._require(State.CONNECTED)
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
        self._wrote = True
        self.note()

    def _fresh(self, kind: str) -> str:
        self._last_id += 1
        return f"{kind}{self._last_id}"

    def _require(self, state: State) -> None:
        if self.state is not state:
            raise Refused(
                f"the connection is {self.state.value}, not {state.value}", remedy="look at its events for the reason"
            )

    def _look_ready(self) -> None:
        """Say `Writable` once when ``ready`` has turned True after somebody saw it False."""
        if not self._was_ready:
            self._was_ready = True
            if self.ready:
                self._happened(Writable())

    def _happened(self, event: Event) -> None:
        self._events.append(event)
        if len(self._events) == 1 and self.listener is not None:
            self.listener()

    def _close(self, why: str, *, clean: bool = False) -> None:
        self.state = State.CLOSED
        self.closing = True
        self._happened(Disconnected(why, clean))
        self.note()
