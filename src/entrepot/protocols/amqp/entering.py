"""How a connection is entered: protocol headers, SASL, and OPEN. [C]"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import MILLISECOND
from entrepot.base.errors import EntrepotError, PeerError, ProtocolViolation, Refused, UserUnknown
from entrepot.core.broker import BrokerCore
from entrepot.core.events.facts import LOGIN_REFUSED, SecurityFact
from entrepot.core.guiding import HERE, THERE
from entrepot.core.security.directory import Subject
from entrepot.protocols.amqp.codec import (
    FRAME_OCTETS_MIN,
    PROTOCOL_AMQP,
    PROTOCOL_SASL,
    TYPE_SASL,
    Frame,
    header,
)
from entrepot.protocols.amqp.options import EXTERNAL, AmqpOptions
from entrepot.protocols.amqp.performatives import (
    Close,
    Composite,
    Open,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
)
from entrepot.protocols.amqp.primitives import INT_4, Exact, symbol
from entrepot.protocols.amqp.refusals import (
    FORCED,
    FRAMING,
    INVALID_FIELD,
    NOT_ALLOWED,
    REDIRECT,
    AmqpRefused,
    condition_of,
    error_of,
)
from entrepot.protocols.amqp.session import AmqpConnection
from entrepot.protocols.sasl import NONCE_OCTETS, SCRAM, Credentials, Prover, credentials_of
from entrepot.protocols.serving.guiding import guided
from entrepot.protocols.serving.life import ENTER
from entrepot.protocols.session import Shell

CAPABILITIES: Final = ["ANONYMOUS-RELAY", "DELAYED_DELIVERY", "SHARED-SUBS", "sole-connection-for-container"]
SOLE: Final = "sole-connection-for-container"
NODE: Final = "entrepot-node"  # a property of OPEN: by it a broker that dials knows whom it met, or that it is itself
ESTABLISHMENT_FAILED: Final = "amqp:connection-establishment-failed"
SASL_OK: Final = 0
SASL_WRONG: Final = 1
SASL_BROKEN: Final = 2

# What is expected of a client that has not opened the connection yet.
START: Final = 0  # a protocol header
ASKED: Final = 1  # SASL: what mechanism it chooses
DOUBTED: Final = 2  # SCRAM: its proof
SHOWN: Final = 3  # SCRAM: that it has seen ours
PROVED: Final = 4  # SASL is done: the header of AMQP
GREETED: Final = 5  # OPEN
OPENED: Final = 6


class Entering(AmqpConnection):
    """A connection until it is open. ``step``: what is expected of its client."""

    def __init__(self, shell: Shell, broker: BrokerCore, options: AmqpOptions, number: i64, peer: str) -> None:
        super().__init__(shell, broker, options, number, peer)
        self.step: i64 = START
        self.said_open: bool = False
        self.authentic: bool = False
        self.credentials: Credentials | None = None
        self.prover: Prover | None = None
        self.proving: Subject | None = None  # who comes in if the proof is right; None: nobody

    def start(self, frame: Frame, performative: Composite | None) -> None:
        """A frame came before the connection is open. Raises ProtocolViolation."""
        if frame.kind < 0:
            self._header(frame.channel)
        elif isinstance(performative, SaslInit) and self.step == ASKED and frame.kind == TYPE_SASL:
            self._prove(performative)
        elif isinstance(performative, SaslResponse) and self.step in (DOUBTED, SHOWN) and frame.kind == TYPE_SASL:
            self._proof(performative.response)
        elif isinstance(performative, Open) and self.step == GREETED:
            self._opened(performative)
        elif performative is not None or self.step < GREETED:
            raise ProtocolViolation("a frame came before the connection was opened, or one of another protocol")

    def _header(self, protocol: i64) -> None:
        """A protocol header came. Raises ProtocolViolation."""
        if protocol == PROTOCOL_SASL and self.step == START:
            self.step = ASKED
            self.outlet.out.write(header(PROTOCOL_SASL))
            self.sasl(SaslMechanisms(sasl_server_mechanisms=self._offered()))
            return
        if protocol == PROTOCOL_AMQP and self.step in (START, PROVED):
            if self.step == START and not self.options.plain_start:
                self.outlet.out.write(header(PROTOCOL_SASL))
                self.refused = "it did not begin with SASL, which is asked for here"
                self.leave()
                self.note()
                return
            self.step = GREETED
            self.outlet.out.write(header(PROTOCOL_AMQP))
            self.note()
            return
        wanted = PROTOCOL_SASL if self.step == START else PROTOCOL_AMQP
        self.outlet.out.write(header(wanted))
        self.refused = f"it asked for protocol {protocol} of AMQP"
        self.leave()
        self.note()

    def _offered(self) -> list[str]:
        """Return the mechanisms that this client may choose."""
        offered = list(self.options.mechanisms)
        certificate = self.shell.certificate()
        if self.broker.access.provers(certificate) is None:
            offered = [name for name in offered if name not in SCRAM]
        if certificate:
            if EXTERNAL not in offered:
                offered.insert(0, EXTERNAL)
        elif EXTERNAL in offered:
            offered.remove(EXTERNAL)
        return offered

    def sasl(self, performative: Composite) -> None:
        """Write a frame of SASL."""
        self.encoder.write(self.outlet.out, 0, performative, TYPE_SASL)
        self.note()

    def _prove(self, said: SaslInit) -> None:
        """Find out who it is. The frame comes again, when that is not known at once."""
        credentials = self.credentials
        try:
            if credentials is None:
                if said.mechanism not in self._offered():
                    raise AmqpRefused(f"the mechanism {said.mechanism[:40]!r} is not offered here", NOT_ALLOWED)
                if said.mechanism in SCRAM:
                    self._ask_proof(SCRAM[said.mechanism], said.initial_response or b"")
                    return
                credentials = self.credentials = credentials_of(said.mechanism, said.initial_response or b"")
            if not self.ask_who(credentials.name, credentials.password):
                return
        except Refused as refusal:
            self.fail(refusal)
            return
        self.credentials = None
        self._let_in()

    def _let_in(self) -> None:
        self.authentic = True
        self.sasl(SaslOutcome(code=SASL_OK))
        self.step = PROVED

    def _ask_proof(self, digest: str, first: bytes) -> None:
        """SCRAM begins: ask who that is to prove it. Raises AccessDenied."""
        directory = self.broker.access.provers(self.shell.certificate())
        assert directory is not None  # else it is not offered
        draw = self.broker.entropy.token
        prover = self.prover = Prover(digest, first, draw(NONCE_OCTETS))
        keys, self.proving = directory.keys(prover.name, digest, draw)
        self.step = DOUBTED
        self.sasl(SaslChallenge(challenge=prover.challenge(keys)))

    def _proof(self, said: bytes) -> None:
        """A proof came, or the word that ours was seen: then he is in."""
        prover = self.prover
        assert prover is not None
        proving = self.proving
        if self.step == SHOWN and proving is not None:
            self.prover = None
            self.subject = proving
            self.broker.access.counts.login(True)
            self._let_in()
            return
        try:
            shown = prover.answer(said)
            if proving is None:
                raise UserUnknown(f"User name [{prover.name}] or password is invalid.")
        except Refused as refusal:
            self.broker.access.counts.login(False)
            self.broker.hub.announce(SecurityFact(LOGIN_REFUSED, prover.name, self.peer))
            self.fail(refusal)
            return
        self.step = SHOWN
        self.sasl(SaslChallenge(challenge=shown))

    def _opened(self, said: Open) -> None:
        """OPEN came. Raises ProtocolViolation."""
        if said.max_frame_size < FRAME_OCTETS_MIN:
            raise ProtocolViolation(f"a max-frame-size of {said.max_frame_size} is below {FRAME_OCTETS_MIN}")
        try:
            if not self.authentic and not self.ask_who(None, None):
                return
            self.authentic = True
            self.container_id = said.container_id
            self.note_peer(said)
            if self.options.router and not self._is_served(said):
                return
            if SOLE in said.desired_capabilities:
                taken = self.claim(said.container_id, False)
                if taken:
                    raise AmqpRefused(
                        f"the container id {said.container_id!r} is connected from {taken} already", INVALID_FIELD
                    )
            self.client_id = said.container_id
        except Refused as refusal:
            self.fail(refusal)
            return
        self.frame_max = min(said.max_frame_size, i64(self.options.frame_octets_max))
        if said.idle_time_out > 0:
            self.beat_send = max(said.idle_time_out // 2, i64(1)) * MILLISECOND
        if self.options.idle_ms > 0:
            self.beat_receive = self.options.idle_ms * MILLISECOND
        self._open({})
        self.step = OPENED
        self.become(ENTER)

    def _is_served(self, said: Open) -> bool:
        """Ask the router of the listener; False: it is not known yet. Raises AmqpRefused for elsewhere too (2.8.16)."""
        guidance = guided(self, self.options.router, said.container_id)
        if guidance is None or guidance.verdict == HERE:
            return guidance is not None
        if guidance.verdict != THERE:
            raise AmqpRefused(guidance.why, FORCED, remedy="try again later, or at another broker")
        elsewhere = AmqpRefused(guidance.why, REDIRECT, remedy=f"connect to {guidance.host}:{guidance.port}")
        elsewhere.info = {"network-host": guidance.host, "port": Exact(INT_4, guidance.port)}
        if said.hostname:
            elsewhere.info["hostname"] = said.hostname
        raise elsewhere

    def note_peer(self, said: Open) -> None:
        """Keep who the peer is, if it is a broker of ours."""
        node = (said.properties or {}).get(NODE)
        self.node = node if isinstance(node, str) else ""

    def _open(self, more: dict[str, object]) -> None:
        """Say OPEN."""
        options = self.options
        broker = self.broker
        properties: dict[str, object] = {"product": "entrepot", "version": broker.options.version}
        properties[NODE] = broker.ids.node.uuid_text
        if options.anycast_prefixes:
            properties["queue-prefix"] = options.anycast_prefixes[0]
        if options.multicast_prefixes:
            properties["topic-prefix"] = options.multicast_prefixes[0]
        said = Open(
            container_id=broker.options.name or "entrepot",
            max_frame_size=options.frame_octets_max,
            channel_max=options.channel_max,
            offered_capabilities=list(CAPABILITIES),
            properties={**properties, **more},
        )
        if options.idle_ms > 0:
            said.idle_time_out = max(options.idle_ms // 2, i64(1))
        self.said_open = True
        self.say(0, said)

    def close_with(self, error: EntrepotError) -> None:
        """Write CLOSE, with OPEN before it where that was not said."""
        said = error_of(error)
        if isinstance(error, PeerError) and condition_of(error) == NOT_ALLOWED and self.step < OPENED:
            said.condition = FRAMING
        if not self.said_open:
            if self.step == PROVED:
                self.outlet.out.write(header(PROTOCOL_AMQP))
            self._open({ESTABLISHMENT_FAILED: True})
            if said.condition == INVALID_FIELD:
                said.info = {"invalid-field": symbol("container-id")}
        self.say(0, Close(error=said))
