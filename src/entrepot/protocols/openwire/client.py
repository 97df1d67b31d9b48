"""One OpenWire connection from the side that dialled: format, liveness, commands out, commands in. [C]

What the commands mean is not decided here: a `ClientPort` gets them (a program's connection, `conversation`; a link).
The session numbers what is sent and sees that the peer lives: it says something within the agreed time, or we close; it
hears from us at least three times in that time (classic.md 4.18, 5.2).

Nothing may be sent before both offers were exchanged: `ClientPort.agreed` says when.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i32, i64, mypyc_attr

from entrepot.base.environment import MILLISECOND, SECOND, Instant
from entrepot.base.errors import EntrepotError, PeerError, StorageError
from entrepot.protocols.openwire import commands
from entrepot.protocols.openwire.codec import Decoder, Encoder
from entrepot.protocols.openwire.commands import (
    Command,
    KeepAliveInfo,
    MessageDispatch,
    Response,
    ShutdownInfo,
    WireFormatInfo,
)
from entrepot.protocols.openwire.negotiation import WireFormat, WireFormatOptions, offer_of
from entrepot.protocols.openwire.streaming import begin
from entrepot.protocols.outflow import Outflow, Outflows
from entrepot.protocols.session import NEVER, OPENWIRE, Session, Shell

NEGOTIATION_TIMEOUT: Final = 10 * SECOND  # Java's own patience
WRITES_PER_PERIOD: Final = 3
SHUTS_DOWN: Final = "the broker shuts down"
COMMANDS_MAX: Final = 2**31 - 1  # an int on the wire; then it begins again, as Java's counter does


@mypyc_attr(allow_interpreted_subclasses=True)
class ClientPort:
    """Who hears what a broker says. Called while a chunk is being read; `settled` comes after each chunk."""

    def agreed(self, client: OpenWireClient) -> None:
        """Commands may be sent now."""

    def dispatched(self, client: OpenWireClient, dispatch: MessageDispatch) -> None:
        """A message for a consumer, or the sign that there is none."""

    def responded(self, client: OpenWireClient, response: Response) -> None:
        """The answer to the command numbered ``response.correlation_id``."""

    def told(self, client: OpenWireClient, command: Command) -> None:
        """Anything else: BrokerInfo, ConnectionControl, ConnectionError, ConsumerControl, ProducerAck."""

    def settled(self, client: OpenWireClient) -> None:
        """All commands of a chunk were told."""

    def writable(self, client: OpenWireClient, ready: bool) -> None:
        """The broker does not read fast enough (False), or does again."""

    def lost(self, client: OpenWireClient, why: str) -> None:
        """The connection ended. Comes once; nothing comes after it."""


class OpenWireClient(Session):
    """One connection to a broker. ``live`` from the agreement on until the end; ``failure`` says why it ended."""

    def __init__(
        self,
        shell: Shell,
        options: WireFormatOptions,
        port: ClientPort,
        now: Instant,
        *,
        keep_encodings: bool = False,
    ) -> None:
        """``keep_encodings``: messages keep the octets that they came in, for who passes them on."""
        super().__init__(shell)
        self.protocol = OPENWIRE
        self.port: ClientPort = port
        self.live: bool = False
        self.failure: str = ""
        self.ready: bool = True
        self.layout: i64 = 0  # of messages whose octets may be written as they are, 0 before the agreement
        self.frame_max: i64 = 0
        self.outflows: Outflows = Outflows(self.writer)
        self._lost: bool = False
        offer = offer_of(options)
        wire_format = WireFormat.before_agreement(offer)
        self._decoder: Decoder = Decoder(wire_format, keep_encodings=keep_encodings)
        self._encoder: Encoder = Encoder(wire_format)
        self._commands: i32 = 0
        self._negotiation_due: i64 = now + NEGOTIATION_TIMEOUT
        self._silence: i64 = 0  # longest that the peer may be silent, ns; 0: forever
        self._heard_at: i64 = now
        self._write_due: i64 = NEVER
        self._wrote: bool = False
        self._encoder.encode_into(self.outflows.out, offer)
        self.note()

    # -- commands out --------------------------------------------------------------------------------------------------

    def post(self, command: Command) -> None:
        """Send ``command``; no answer is wanted. Raises Inexpressible, and then nothing was sent."""
        command.command_id = self._number()
        command.response_required = False
        self._encoder.encode_into(self.outflows.out, command)
        self._wrote = True
        self.note()

    def ask(self, command: Command) -> int:
        """Send ``command`` and return the number that its answer will carry. Raises as `post`."""
        command.command_id = self._number()
        command.response_required = True
        self._encoder.encode_into(self.outflows.out, command)
        self._wrote = True
        self.note()
        return command.command_id

    def number(self) -> i32:
        """Return the number of a command that the caller writes into ``outflows.out`` itself; say `written` then."""
        return self._number()

    def written(self) -> None:
        """A whole frame in the format that was agreed was put into ``outflows.out``."""
        self._wrote = True
        if not self.noted:
            self.note()

    def stream(self, message: commands.Message, body: Outflow, *, answered: bool) -> int:
        """Send ``message`` with ``body`` for its content, at the pace of the socket; what is sent meanwhile waits.

        Return the number that its answer will carry, 0 for none. Raises LimitExceeded, Inexpressible, and then nothing
        was sent and ``body`` is finished.
        """
        message.command_id = self._number()
        message.response_required = answered
        try:
            head = begin(self._encoder, message, message, body, self.frame_max)
        except EntrepotError:
            body.finish(False)
            raise
        self.outflows.out.write(head)
        self.outflows.begin(body)
        self.written()
        return message.command_id if answered else 0

    # -- the contract of a session -------------------------------------------------------------------------------------

    def outgoing(self) -> bytes:
        """Return what is to be written: of a body the next piece, if the socket has room."""
        outflows = self.outflows
        if outflows.is_busy() and not self.closing:
            if self.ready:
                try:
                    gone = outflows.flow(self.writer)
                    if gone is not None:
                        gone.finish(True)
                except StorageError as error:  # in the middle of a frame: nothing can be said any more
                    self._end(f"a body cannot be read: {error}")
            data = super().outgoing()
            if outflows.is_busy() and self.ready:
                self.note()
            return data
        return super().outgoing()

    def receive(self, data: bytes, now: Instant) -> None:
        """Tell the port what arrived."""
        if self.closing:
            return
        if len(data) == 0:
            self._end("the broker closed the connection")
            return
        self._heard_at = now
        try:
            for command in self._decoder.feed(data):
                if isinstance(command, MessageDispatch):
                    self.port.dispatched(self, command)
                elif isinstance(command, Response):
                    self.port.responded(self, command)
                elif isinstance(command, WireFormatInfo):
                    self._agree(now)
                elif isinstance(command, KeepAliveInfo):
                    if command.response_required:
                        self.post(KeepAliveInfo())
                elif isinstance(command, ShutdownInfo):
                    self._end(SHUTS_DOWN)
                    return
                elif isinstance(command, Command):
                    self.port.told(self, command)
                if self.closing:
                    return
            self._decoder.check()
        except PeerError as error:
            self._end(f"the broker broke the protocol: {error}")
            return
        self.port.settled(self)

    def deadline(self) -> Instant:
        """Return when silence, ours or the broker's, must be looked at."""
        due = self._negotiation_due
        if self._silence > 0:
            due = min(due, self._heard_at + self._silence)
        return min(due, self._write_due)

    def advance(self, now: Instant) -> None:
        """Say that we live; find out that the broker does not."""
        if self.closing:
            return
        if now >= self._negotiation_due:
            self._end("the broker did not say within 10 s which wire format it speaks")
        elif self._silence > 0 and now >= self._heard_at + self._silence:
            self._end(f"the broker said nothing for {self._silence // MILLISECOND} ms")
        elif now >= self._write_due:
            if not self._wrote:
                self.post(KeepAliveInfo())
            self._wrote = False
            self._write_due = now + self._silence // WRITES_PER_PERIOD

    def writable(self, ready: bool, now: Instant) -> None:
        """Pass on whether the broker reads."""
        self.ready = ready
        if ready and self.outflows.is_busy():
            self.note()
        self.port.writable(self, ready)

    def shut(self, why: str, now: Instant) -> None:
        """Take leave: ShutdownInfo, then close."""
        if self.closing:
            return
        if self.live:
            self.post(ShutdownInfo())
        self._end(why)

    def detach(self, why: str, now: Instant) -> None:
        """The connection is gone."""
        self._end(why)

    def describe(self) -> dict[str, str]:
        """Return the state, for people."""
        return {"protocol": self.protocol, "live": str(self.live), "failure": self.failure}

    @property
    def version(self) -> int:
        """The version of OpenWire that was agreed, or offered."""
        return self._decoder.wire_format.version

    @property
    def program(self) -> str:
        """Which program the peer says it is, like ``ActiveMQ 5.17.2``; "" before it did, or when it does not."""
        return self._decoder.wire_format.peer

    def _number(self) -> i32:
        self._commands = self._commands + 1 if self._commands < COMMANDS_MAX else 1
        return self._commands

    def _agree(self, now: Instant) -> None:
        agreed = self._decoder.wire_format
        self._encoder.switch(agreed)
        self.layout = self._encoder.layout
        self.frame_max = agreed.max_frame_size
        self._negotiation_due = NEVER
        self._silence = agreed.max_inactivity_ms * MILLISECOND
        if self._silence > 0:
            self._write_due = now + self._silence // WRITES_PER_PERIOD
        self.live = True
        self.port.agreed(self)

    def _end(self, why: str) -> None:
        self.closing = True
        self.live = False
        if self._lost:
            return
        self._lost = True
        self.failure = why
        self.outflows.end()
        self.note()
        self.port.lost(self, why)
