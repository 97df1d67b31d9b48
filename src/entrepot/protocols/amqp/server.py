"""AMQP 1.0 as a dialect of the server session: frames in, verbs of the broker out, answers back. [C]

A connection is entered by SASL, or without it where that may be, and by OPEN. What is wrong with a frame closes the
connection, what is wrong in a session ends that, what is wrong with a link detaches it; each time with the condition
that the standard has for it.
"""

from __future__ import annotations

from mypy_extensions import i64

from entrepot.base.errors import (
    EntrepotError,
    ProtocolViolation,
    Refused,
    ShuttingDown,
    StorageError,
)
from entrepot.core.broker import BrokerCore
from entrepot.core.queue.consumer import Consumer
from entrepot.core.queue.queue import NONE_DELIVERED
from entrepot.model.connected import SessionView
from entrepot.protocols.amqp.attaching import attach
from entrepot.protocols.amqp.codec import (
    EMPTY_FRAME,
    TYPE_AMQP,
    Decoder,
    Frame,
)
from entrepot.protocols.amqp.committing import Committing
from entrepot.protocols.amqp.entering import OPENED, PROVED, SASL_BROKEN, SASL_WRONG, START, Entering
from entrepot.protocols.amqp.options import AmqpOptions
from entrepot.protocols.amqp.performatives import (
    Attach,
    Begin,
    Close,
    Composite,
    Detach,
    Disposition,
    End,
    Error,
    Flow,
    Open,
    SaslOutcome,
    Transfer,
)
from entrepot.protocols.amqp.refusals import (
    FORCED,
    UNATTACHED,
    AmqpRefused,
    error_of,
)
from entrepot.protocols.amqp.session import AmqpSession, Answer, Txn
from entrepot.protocols.amqp.settling import dispose
from entrepot.protocols.serving.confirmations import Confirmation
from entrepot.protocols.serving.life import LEAVING
from entrepot.protocols.serving.unsendable import Unsendables
from entrepot.protocols.session import AMQP, Shell


class _Goodbye(Confirmation):
    """The answer to CLOSE, or to END, behind those to what came before it."""

    def __init__(self, session: AmqpServerSession, ended: AmqpSession | None) -> None:
        super().__init__(session.confirmations)
        self.session: AmqpServerSession = session
        self.ended: AmqpSession | None = ended

    def give(self) -> None:
        """Write it."""
        session = self.session
        ended = self.ended
        if ended is None:
            session.answer_all()
            session.say(0, Close())
            session.leave()
        elif not session.closing:
            ended.answer()
            session.say(ended.channel, End())
            ended.end(session.last_delivered)

    def refuse(self, error: EntrepotError) -> None:
        """The same: what was not stored was said to be."""
        self.give()


class AmqpServerSession(Entering):
    """One accepted connection. ``number`` is unique in this run of the broker; ``peer`` is for people."""

    def __init__(self, shell: Shell, broker: BrokerCore, options: AmqpOptions, number: i64, peer: str) -> None:
        super().__init__(shell, broker, options, number, peer)
        self.protocol = AMQP
        self.single = False
        self.decoder: Decoder = Decoder(options.frame_octets_max)
        self.channels: dict[int, AmqpSession] = {}
        self.quiet: dict[int, None] = {}  # channels whose sessions our side has ended, and the peer not yet
        self.committing: Committing | None = None
        self.unsendable: Unsendables | None = None

    # -- what the machine asks -----------------------------------------------------------------------------------------

    def work(self, data: bytes) -> i64:
        """Do the frames that came, as far as this turn reaches."""
        committing = self.committing
        if committing is not None and committing.is_busy():
            self.unfinished = True
            return self.decoder.buffered()
        if self.take_all(self.decoder.feed(data) if data else self.undone):
            self.decoder.check()
        held = self.decoder.buffered()
        for session in self.channels.values():
            held += session.held()
        return held

    def take(self, command: Frame) -> None:
        """Do one frame."""
        self.received += 1
        performative = command.performative
        if self.step == OPENED and command.kind == TYPE_AMQP:
            if isinstance(performative, Transfer):
                session = self.channels.get(int(command.channel))
                if session is not None:
                    self._transfer(session, performative, command.payload)
                    return
            if performative is not None:
                self._perform(command.channel, performative)
            return
        self.start(command, performative)

    def outgoing(self) -> bytes:
        """Return what is to be written."""
        unsendable = self.unsendable
        if unsendable is not None:
            self.unsendable = None
            unsendable.bury()
        if self.life < LEAVING and not self.closing:
            self.answer_all()
        return super().outgoing()

    def answer_all(self) -> None:
        """Say what was accepted in this turn."""
        for session in self.channels.values():
            session.answer()

    def beat(self) -> None:
        """Write an empty frame."""
        if self.said_open:
            self.outlet.out.write(EMPTY_FRAME)

    def unopened(self) -> str:
        """Return what did not come in time."""
        return "no OPEN came"

    def consumes(self) -> bool:
        """Return whether messages go to this peer whose acknowledgement makes room."""
        return any(len(session.feeds) > 0 for session in self.channels.values())

    def farewell(self, why: str) -> None:
        """Say that our side ends the connection."""
        if self.life < LEAVING and self.step == OPENED and not self.closing:
            self.answer_all()
            text = f"the broker ends this connection: {why}"
            self.say(0, Close(error=Error(condition=FORCED, description=text)))

    def fail(self, error: EntrepotError) -> None:
        """Say what is wrong and close this connection."""
        self.refused = str(error)
        self.answer_all()
        if START < self.step < PROVED:
            self.sasl(SaslOutcome(code=SASL_WRONG if isinstance(error, Refused) else SASL_BROKEN))
        elif self.step >= PROVED:
            self.close_with(error)
        self.leave()
        self.note()

    def give_up(self, why: str) -> None:
        """Nothing that makes sense can be written any more: close."""
        self.refused = why
        self.closing = True
        self.note()

    def superseded(self, why: str) -> None:
        """Another connection takes the place of this one: end, with all that it holds."""
        self.fail(ShuttingDown(why))
        self.detach("its container id was taken over", self.broker.now)

    def give_back(self) -> None:
        """Roll back, end the sessions, and delete what was temporary."""
        for session in list(self.channels.values()):
            session.end(self.last_delivered)
        self.channels.clear()
        for txn in list(self.transactions.values()):
            self.roll_back(txn)
        self.transactions.clear()
        for name in list(self.temporaries):
            self.drop_temporary(name)
        self.unsendable = None
        self.committing = None

    def readers(self) -> int:
        """Return how many links it reads by."""
        return sum(len(session.feeds) for session in self.channels.values())

    def sessions(self, opened: int) -> list[SessionView]:
        """Return the sessions on it."""
        return [
            SessionView(
                str(one.channel), str(self.number), self.subject.name, self.client_id,
                len(one.feeds), one.producers(), opened,
            )
            for one in self.channels.values()
        ]  # fmt: skip

    def mirrors(self) -> list[dict[str, object]]:
        """Return what an operator wants to know of brokers that mirror themselves here, or have policies obeyed."""
        found: list[dict[str, object]] = []
        for session in self.channels.values():
            for link in session.links.values():
                said = link.mirrors()
                if said is not None:
                    found.append({**said, "peer": self.peer})
        return found

    def close_session(self, name: str) -> bool:
        """End the session ``name``: its client is told."""
        for session in list(self.channels.values()):
            if str(session.channel) == name:
                self._end(session, AmqpRefused("an operator ended the session", FORCED))
                return True
        return False

    def describe(self) -> dict[str, str]:
        """Return what an operator wants to know."""
        return {
            "protocol": "amqp 1.0",
            "peer": self.peer,
            "client-id": self.client_id,
            "login": self.subject.name,
            "sessions": str(len(self.channels)),
            "subscriptions": str(self.readers()),
            "received": str(self.received),
            "sent": str(self.sent),
            "refused": self.refused,
        }

    # -- frames --------------------------------------------------------------------------------------------------------

    def _perform(self, channel: i64, performative: Composite) -> None:
        if isinstance(performative, Close):
            self._closed(performative)
            return
        if isinstance(performative, Open):
            raise ProtocolViolation("OPEN came a second time")
        if isinstance(performative, Begin):
            self._begin(channel, performative)
            return
        session = self.channels.get(int(channel))
        if session is None:
            if int(channel) not in self.quiet:
                raise ProtocolViolation(f"no session has begun on channel {channel}")
            if isinstance(performative, End):
                del self.quiet[int(channel)]
            return
        try:
            self._do(session, performative)
        except Refused as refusal:
            self._end(session, refusal)

    def _begin(self, channel: i64, said: Begin) -> None:
        number = int(channel)
        if number in self.channels or number in self.quiet:
            raise ProtocolViolation(f"a session has begun on channel {channel} already")
        if channel > self.options.channel_max:
            raise ProtocolViolation(f"channel {channel} is above {self.options.channel_max}, which was agreed")
        session = AmqpSession(self, channel, said)
        self.channels[number] = session
        self.broker.access.counts.sessions += 1
        answer = Begin(remote_channel=channel, incoming_window=(1 << 31) - 1, outgoing_window=(1 << 31) - 1)
        answer.handle_max = self.options.handle_max
        session.say(answer)

    def _do(self, session: AmqpSession, performative: Composite) -> None:
        """Do one frame of a session. Raises Refused for what ends it."""
        asked = session.asked
        if asked is not None and asked.takes(performative):
            return
        if isinstance(performative, Disposition):
            dispose(session, performative)
        elif isinstance(performative, Flow):
            self._flow(session, performative)
        elif isinstance(performative, Attach):
            attach(session, performative)
        elif isinstance(performative, Detach):
            self._detach(session, performative)
        elif isinstance(performative, End):
            del self.channels[int(session.channel)]
            for link in list(session.links.values()):
                link.end(NONE_DELIVERED)
            self.confirmations.ask(_Goodbye(self, session))
        else:
            raise ProtocolViolation("a frame came that belongs to no session")

    def _flow(self, session: AmqpSession, flow: Flow) -> None:
        session.next_incoming = flow.next_outgoing_id
        session.opened(flow)
        if flow.handle < 0:
            if flow.echo:
                session.link_flow(-1, -1, -1, -1, False)
            return
        link = session.links.get(int(flow.handle))
        if link is not None:
            link.flow(flow)
        elif int(flow.handle) not in session.quiet:
            raise AmqpRefused(f"no link is attached to handle {flow.handle}", UNATTACHED)

    def _detach(self, session: AmqpSession, said: Detach) -> None:
        handle = int(said.handle)
        if handle in session.quiet:
            del session.quiet[handle]
            return
        link = session.links.pop(handle, None)
        if link is None:
            raise AmqpRefused(f"no link is attached to handle {handle}", UNATTACHED)
        link.detach(said)

    def _transfer(self, session: AmqpSession, transfer: Transfer, payload: bytes) -> None:
        session.next_incoming = (session.next_incoming + 1) & 0xFFFFFFFF
        asked = session.asked
        if asked is not None:
            transfer.handle = asked.ours(transfer.handle)
        link = session.links.get(int(transfer.handle))
        if link is None:
            if int(transfer.handle) in session.quiet:
                session.passed(transfer)
                return
            self._end(session, AmqpRefused(f"no link is attached to handle {transfer.handle}", UNATTACHED))
            return
        try:
            link.transfer(transfer, payload)
        except (Refused, StorageError) as error:
            link.detach_for(error)

    def _end(self, session: AmqpSession, error: EntrepotError) -> None:
        """Our side ends a session."""
        if self.channels.pop(int(session.channel), None) is not None:
            self.quiet[int(session.channel)] = None
            session.answer()
            session.say(End(error=error_of(error)))
            session.end(self.last_delivered)

    def _closed(self, said: Close) -> None:
        """CLOSE came: answered behind what was sent before it. What the client has not settled it has not tried."""
        self.last_delivered = NONE_DELIVERED
        self.part()
        self.confirmations.ask(_Goodbye(self, None))

    # -- transactions ------------------------------------------------------------------------------------------------

    def need_committing(self) -> Committing:
        """Return what ends transactions here."""
        committing = self.committing
        if committing is None:
            committing = self.committing = Committing(self)
        return committing

    def carry_out(self, txn: Txn, answer: Answer) -> None:
        """Commit ``txn`` and give ``answer``; a large one takes turns, and the connection waits."""
        self.need_committing().carry_out(txn, answer)

    def roll_back(self, txn: Txn) -> None:
        """Forget what ``txn`` would have done; what its peer has settled in it is delivered again."""
        self.need_committing().roll_back(txn)

    # -- what links ask ------------------------------------------------------------------------------------------------

    def cannot_say(self, consumer: Consumer, number: int, reason: str) -> None:
        """A message that was delivered to ``consumer`` has no form here: it becomes a dead letter, soon."""
        if self.unsendable is None:
            self.unsendable = Unsendables()
        self.unsendable.add(consumer, number, reason)
        self.note()
