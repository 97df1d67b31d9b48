"""One connection of AMQP from the side that dialled it: SASL, OPEN, one session, and links in both directions. [C]

What it shares with a connection that was accepted it has from that: frames, the session, how messages come. What
differs stands here: this side speaks first, names the links, and hears of the end of each (`Asking`).
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import MILLISECOND, Instant
from entrepot.base.errors import AccessDenied, EntrepotError, ProtocolViolation, Refused
from entrepot.core.broker import BrokerCore
from entrepot.model.address import Destination
from entrepot.protocols.amqp.calling.asking import HANDLES, Asking, said_in
from entrepot.protocols.amqp.calling.federating import Fetch
from entrepot.protocols.amqp.calling.port import CallerPort
from entrepot.protocols.amqp.calling.sending import Sending
from entrepot.protocols.amqp.calling.taking import Taking
from entrepot.protocols.amqp.codec import FRAME_OCTETS_MIN, PROTOCOL_AMQP, PROTOCOL_SASL, Frame, header
from entrepot.protocols.amqp.entering import ASKED, DOUBTED, GREETED, OPENED, PROVED, SASL_OK, SHOWN
from entrepot.protocols.amqp.options import ANONYMOUS, EXTERNAL, PLAIN, AmqpOptions
from entrepot.protocols.amqp.performatives import (
    Accepted,
    Begin,
    Close,
    Composite,
    Disposition,
    End,
    Error,
    Flow,
    Modified,
    Open,
    Received,
    Rejected,
    Released,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    Source,
    Target,
)
from entrepot.protocols.amqp.server import AmqpServerSession
from entrepot.protocols.amqp.session import RECEIVER, SENDER, WINDOW, AmqpSession
from entrepot.protocols.amqp.settling import covered_of
from entrepot.protocols.sasl import NONCE_OCTETS, SCRAM, Proof, initial_response
from entrepot.protocols.serving.life import ENTER, LEAVING, SERVING, following
from entrepot.protocols.serving.outlet import Source as Writing
from entrepot.protocols.session import Shell

CHANNEL: Final = 0


class Login:
    """As whom. ``external``: a certificate is shown, and it may say that.

    ``only``: mechanisms of SASL that may be used; none: all that are known.
    """

    def __init__(
        self, user: str = "", password: str = "", external: bool = False, only: list[str] | None = None
    ) -> None:
        self.user: str = user
        self.password: str = password
        self.external: bool = external
        self.only: list[str] = only or []

    def mechanisms(self) -> list[str]:
        """Return the mechanisms of SASL by which it can be shown, the best one first."""
        found = [EXTERNAL] if self.external else []
        found += ["SCRAM-SHA-512", "SCRAM-SHA-256", PLAIN] if self.user else [ANONYMOUS]
        return [name for name in found if not self.only or name in self.only]


class _Paced(Writing):
    """Tells when the socket is full."""

    def __init__(self, caller: AmqpCaller) -> None:
        self.caller: AmqpCaller = caller

    def choked(self) -> None:
        self.caller.port.writable(False)

    def relieved(self) -> None:
        self.caller.go_on()


class AmqpCaller(AmqpServerSession):
    """One of them. ``host``: what the peer is called by who dialled it."""

    def __init__(
        self, shell: Shell, broker: BrokerCore, options: AmqpOptions, port: CallerPort, login: Login, host: str
    ) -> None:
        super().__init__(shell, broker, options, -broker.ids.consumer_key(), host)  # no number of a connection
        self.port: CallerPort = port
        self.login: Login = login
        self.session: AmqpSession | None = None
        self.product: str = ""
        self.under_way: dict[int, Sending] = {}
        self._proving: Proof | None = None
        self.asking: Asking | None = None
        self._lost: bool = False
        self.outlet.add_source(_Paced(self))
        self.step = ASKED
        self.outlet.out.write(header(PROTOCOL_SASL))
        self.note()

    def go_on(self) -> None:
        """The socket has room: write the rest of what goes out part by part, then other messages."""
        session = self.session
        if session is not None:
            for link in list(session.links.values()):
                link.relieved()
        if not self.outlet.choked:
            self.port.writable(True)

    # -- entering ------------------------------------------------------------------------------------------------------

    def start(self, frame: Frame, performative: Composite | None) -> None:
        """A frame came before the connection is open. Raises ProtocolViolation."""
        if frame.kind < 0:
            self._answered(frame.channel)
        elif isinstance(performative, SaslMechanisms) and self.step == ASKED:
            self._choose(performative.sasl_server_mechanisms)
        elif isinstance(performative, SaslChallenge) and self.step in (DOUBTED, SHOWN):
            self._show(performative.challenge)
        elif isinstance(performative, SaslOutcome) and ASKED < self.step <= SHOWN:
            self._outcome(performative)
        elif isinstance(performative, Open) and self.step == GREETED:
            self._met(performative)
        elif isinstance(performative, Close):
            self.end("the peer closes the connection" + said_in(performative.error))
        elif performative is not None:
            raise ProtocolViolation("a frame came before the connection was opened, or one of another protocol")

    def _answered(self, protocol: i64) -> None:
        if protocol == PROTOCOL_SASL and self.step == ASKED:
            return
        if protocol == PROTOCOL_AMQP and self.step == GREETED:
            return
        self.end(f"the peer wants protocol {protocol} of AMQP, and no SASL" if self.step == ASKED else "it wants TLS")

    def _choose(self, offered: list[str]) -> None:
        """Say who this is, by the best mechanism of those that are offered."""
        login = self.login
        wanted = login.mechanisms()
        chosen = next((name for name in wanted if name in offered), "")
        if not chosen:
            self.end(f"the peer lets in by {', '.join(offered) or 'nothing'}; asked for is {' or '.join(wanted)}")
            return
        if chosen in SCRAM:
            proof = Proof(SCRAM[chosen], login.user, login.password, self.broker.entropy.token(NONCE_OCTETS))
            self._proving = proof
            response = proof.first()
        else:
            response = initial_response(chosen, login.user, login.password)
        self.step = DOUBTED
        self.sasl(SaslInit(mechanism=chosen, initial_response=response, hostname=self.peer))

    def _show(self, challenge: bytes) -> None:
        proof = self._proving
        try:
            if proof is None:
                raise AccessDenied("a challenge came that nothing asked for")
            if self.step == DOUBTED:
                self.step = SHOWN
                self.sasl(SaslResponse(response=proof.answer(challenge)))
                return
            proof.check(challenge)
            self._proving = None
            self.sasl(SaslResponse(response=b""))
        except Refused as refusal:
            self.end(f"the peer cannot be trusted: {refusal.message}")

    def _outcome(self, said: SaslOutcome) -> None:
        if said.code != SASL_OK:
            who = f"the user {self.login.user!r}" if self.login.user else "somebody without a name"
            self.end(f"the peer does not let in {who}")
            return
        proof = self._proving
        if proof is not None:
            try:
                proof.check(said.additional_data or b"")  # some say it with the outcome
            except Refused as refusal:
                self.end(f"the peer cannot be trusted: {refusal.message}")
                return
        self._proving = None
        self.step = PROVED
        self.outlet.out.write(header(PROTOCOL_AMQP))
        self.step = GREETED
        self._open({})

    def _met(self, said: Open) -> None:
        """The peer opens the connection: begin the session. Raises ProtocolViolation."""
        if said.max_frame_size < FRAME_OCTETS_MIN:
            raise ProtocolViolation(f"a max-frame-size of {said.max_frame_size} is below {FRAME_OCTETS_MIN}")
        self.frame_max = min(said.max_frame_size, i64(self.options.frame_octets_max))
        self.container_id = said.container_id
        self.note_peer(said)
        product = (said.properties or {}).get("product")
        self.product = product if isinstance(product, str) else ""
        if said.idle_time_out > 0:
            self.beat_send = max(said.idle_time_out // 2, i64(1)) * MILLISECOND
        if self.options.idle_ms > 0:
            self.beat_receive = self.options.idle_ms * MILLISECOND
        self.step = OPENED
        self.become(ENTER)
        begin = Begin(incoming_window=WINDOW, outgoing_window=WINDOW)
        begin.handle_max = HANDLES
        self.say(CHANNEL, begin)

    def become(self, event: i64) -> None:
        """Live on. It is no client's connection: nobody is told of it as of one."""
        self.life = following(int(self.life), int(event))

    def unopened(self) -> str:
        """Return what did not come in time."""
        return "the peer did not let this broker in"

    # -- frames --------------------------------------------------------------------------------------------------------

    def receive(self, data: bytes, now: Instant) -> None:
        """Take the next chunk."""
        super().receive(data, now)
        if not data:
            self.end("the peer closed the connection")
        elif not self._lost:
            self.port.heard()

    def _begin(self, channel: i64, said: Begin) -> None:
        """The peer answers."""
        if self.session is not None:
            raise ProtocolViolation("a session was begun that nobody asked for")
        session = AmqpSession(self, CHANNEL, said)
        self.session = session
        session.asked = self.asking = Asking(session, 0, min(session.handles_theirs, i64(HANDLES)), True)
        self.channels[int(channel)] = session
        self.port.opened()

    def _closed(self, said: Close) -> None:
        """The peer closes the connection."""
        if self.life < LEAVING:
            self.say(0, Close())
        self.end("the peer closes the connection" + said_in(said.error))

    def _do(self, session: AmqpSession, performative: Composite) -> None:
        """Do one frame of the session. Raises Refused for what ends it."""
        if isinstance(performative, Disposition) and performative.role == RECEIVER:
            self._disposed(performative)
            if not session.unsettled:  # of what the peer reads by itself
                return
        if isinstance(performative, End):
            self.end("the peer ends the session" + said_in(performative.error))
            return
        super()._do(session, performative)

    def _end(self, session: AmqpSession, error: EntrepotError) -> None:
        """The session cannot go on, and the connection has no other."""
        self.end(f"the session ended: {error.message}")

    # -- links ---------------------------------------------------------------------------------------------------------

    def send_to(
        self, name: str, address: str, routing: int, capabilities: list[str], source: str, kind: type[Sending] = Sending
    ) -> Sending:
        """Attach a link that sends to ``address`` there; messages may be written when its owner is granted credit.

        ``routing``: of what is read here, at ``source``; ``kind``: of the link. Call it while the session is open.
        """
        session, asking = self.session, self.asking
        assert session is not None
        assert asking is not None
        link = kind(session, name, asking.next_handle(), self.port, self.under_way)
        link.routing = routing
        asking.attach(link, SENDER, Source(address=source), Target(address=address, capabilities=capabilities))
        return link

    def take_from(
        self, name: str, address: str, capabilities: list[str], where: Destination, fetch: Fetch | None = None
    ) -> Taking:
        """Attach a link over which what is at ``address`` there comes to ``where``, or as ``fetch`` says.

        Call it while the session is open. The link of a ``fetch`` comes behind the control link of its federation.
        Raises Refused, LimitExceeded.
        """
        asking = self.asking
        assert asking is not None
        return asking.take_from(name, address, capabilities, where, fetch)

    # -- what became of messages ---------------------------------------------------------------------------------------

    def _disposed(self, said: Disposition) -> None:
        state = said.state
        if isinstance(state, Received) or (state is None and not said.settled):
            return
        under_way = self.under_way
        last = said.first if said.last < 0 else said.last
        covered = covered_of(under_way, said.first, (last - said.first) & 0xFFFFFFFF)
        if not covered:
            return
        self.broker.effort.spent += len(covered)
        if not said.settled:  # it waits for our word
            self.say(CHANNEL, Disposition(role=SENDER, first=said.first, last=said.last, settled=True, state=state))
        for delivery in covered:
            if self._lost:
                return
            if under_way.pop(delivery, None) is not None:
                _tell(self.port, i64(delivery) + 1, state)

    # -- the session's window ------------------------------------------------------------------------------------------

    def _flow(self, session: AmqpSession, flow: Flow) -> None:
        shut = session.window <= 0
        super()._flow(session, flow)
        if shut and session.window > 0:
            self.port.waits(False)

    # -- the end -------------------------------------------------------------------------------------------------------

    def end(self, why: str) -> None:
        """It is of no use any more."""
        self.refused = why
        if not self._lost:
            self._lost = True
            self.port.lost(why)
        if self.life < LEAVING:
            self.leave()
            self.note()

    def fail(self, error: EntrepotError) -> None:
        """Something is wrong with what the peer says: say it, where that can be, and close."""
        if self.life == SERVING and not self.closing:
            self.answer_all()
            self.close_with(error)
        self.end(str(error))

    def give_up(self, why: str) -> None:
        """Nothing that makes sense can be written any more: close."""
        super().give_up(why)
        self.end(why)

    def farewell(self, why: str) -> None:
        """Our side ends the connection, in order."""
        if self.life == SERVING and not self.closing:
            self.answer_all()
            self.say(0, Close())

    def detach(self, why: str, now: Instant) -> None:
        """The connection is gone."""
        if not self._lost:
            self._lost = True
            self.port.lost(why)
        super().detach(why, now)

    def consumes(self) -> bool:
        """Return True: it is read on while this broker is full, or answers to what it sent would never come."""
        return True


def _tell(port: CallerPort, number: i64, state: Composite | None) -> None:
    """Tell ``port`` what the peer says of a message."""
    if isinstance(state, Accepted):
        port.accepted(number)
    elif isinstance(state, Rejected):
        error = state.error
        port.rejected(number, error.condition if isinstance(error, Error) else "", said_in(error).removeprefix(": "))
    elif isinstance(state, Modified):
        if state.undeliverable_here:
            port.rejected(number, "", "it cannot be delivered there")
        else:
            port.returned(number, state.delivery_failed)
    else:
        port.returned(number, not isinstance(state, Released) and state is not None)
