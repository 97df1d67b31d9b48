"""The commands of one session: which part of it does what. [C]

Every command takes effect whole or is refused. What asks for an answer hears why; what does not is forgotten, and dooms
the transaction that it would have belonged to.
"""

from __future__ import annotations

from mypy_extensions import i64

from entrepot.base.errors import EntrepotError, ProtocolViolation, Refused, StorageError
from entrepot.core.events.facts import SESSION_CLOSED, SessionFact
from entrepot.core.queue.consumer import Pause
from entrepot.core.queue.queue import NONE_DELIVERED, UNKNOWN_DELIVERED
from entrepot.core.scheduling.timed import Alarm
from entrepot.protocols.artemis.acceptor import Reattachable
from entrepot.protocols.artemis.consuming import Consuming
from entrepot.protocols.artemis.naming import PLAIN, Naming
from entrepot.protocols.artemis.packets import (
    Acknowledge,
    AddMetadata,
    BindingQuery,
    Close,
    CloseConsumer,
    Commit,
    CreateAddress,
    CreateConsumer,
    CreateProducer,
    CreateQueue,
    CreateSharedQueue,
    DeleteQueue,
    Expired,
    FlowToken,
    ForceDelivery,
    IndividualAcknowledge,
    Packet,
    PacketsConfirmed,
    QueueQuery,
    RemoveProducer,
    RequestCredits,
    Rollback,
    Send,
    SendContinuation,
    SendLarge,
    Start,
    Stop,
    UniqueAddMetadata,
    XaCommit,
    XaEnd,
    XaFailed,
    XaForget,
    XaGetTimeout,
    XaInDoubtXids,
    XaJoin,
    XaPrepare,
    XaResume,
    XaRollback,
    XaSetTimeout,
    XaStart,
    XaSuspend,
)
from entrepot.protocols.artemis.replies import Answer, null_reply
from entrepot.protocols.artemis.resources import Resources
from entrepot.protocols.artemis.sending import Sending
from entrepot.protocols.artemis.session import CoreSession
from entrepot.protocols.artemis.settling import Settling
from entrepot.protocols.artemis.transacting import Transacting
from entrepot.protocols.serving.confirmations import Confirmation
from entrepot.protocols.session import CORE

XA_STEPS = (
    XaStart,
    XaEnd,
    XaPrepare,
    XaCommit,
    XaRollback,
    XaJoin,
    XaResume,
    XaSuspend,
    XaForget,
    XaFailed,
    XaInDoubtXids,
    XaSetTimeout,
    XaGetTimeout,
)


def wants_answer(packet: Packet) -> bool:
    """Return whether the client waits for an answer to ``packet``: only then it hears why that is refused."""
    if isinstance(packet, (CreateQueue, CreateSharedQueue, CreateAddress, CreateConsumer, UniqueAddMetadata)):
        return packet.require_response
    if isinstance(packet, AddMetadata):
        return packet.form == PLAIN or packet.require_response
    return not isinstance(packet, (Start, FlowToken, ForceDelivery, Expired, CreateProducer, RemoveProducer, SendLarge))


class _Farewell(Answer):
    """Answers CLOSE, and then the channel is gone."""

    def __init__(self, commands: Commands, octets: i64) -> None:
        super().__init__(commands.session.replies, null_reply(0), octets)
        self.commands: Commands = commands

    def give(self) -> None:
        """Say how far commands are done, and that this one is."""
        channel = self.commands.session.channel
        channel.done(self.octets)
        channel.confirm()
        channel.write(null_reply(0))
        self.commands.leave()

    def refuse(self, error: EntrepotError) -> None:
        """What was to be stored is not; the session is closed all the same."""
        self.give()


class Commands(Reattachable):
    """What the client of one session wants done; parts are made when they are needed."""

    def __init__(self, session: CoreSession) -> None:
        self.session: CoreSession = session
        self.sending: Sending | None = None
        self.consuming: Consuming | None = None
        self.settling: Settling | None = None
        self.transacting: Transacting | None = None
        self.naming: Naming | None = None
        self.lost: Alarm | None = None  # it waits for its client

    def do(self, packet: Packet, octets: i64) -> None:
        """Do one command, a frame of ``octets``. Raises PeerError for what may not come at all."""
        session = self.session
        if session.ended:
            return  # CLOSE came, and is answered when the disk has what was done before
        session.replies.octets = octets
        if isinstance(packet, Send):
            sending = self.sending
            if sending is None:
                sending = self._sending()
            sending.send(packet)
        elif isinstance(packet, Acknowledge):
            settling = self.settling
            if settling is None:
                settling = self._settling()
            settling.acknowledge(packet)
        elif isinstance(packet, FlowToken):
            self._consuming().grant(packet)
        elif isinstance(packet, IndividualAcknowledge):
            self._settling().acknowledge_one(packet)
        elif isinstance(packet, SendContinuation):
            self._sending().go_on(packet)
        elif isinstance(packet, RequestCredits):
            self._sending().credit(packet)
        elif isinstance(packet, PacketsConfirmed):
            session.channel.confirmed(packet.command)
        elif isinstance(packet, Commit):
            self._transacting().commit(packet)
        else:
            try:
                self._obey(packet)
            except (Refused, StorageError) as error:
                if wants_answer(packet):
                    session.replies.refuse(error)
                else:
                    session.replies.done(False, False)

    def _obey(self, packet: Packet) -> None:
        """Do what is not done for each message. Raises Refused and what is below it, StorageError."""
        if isinstance(packet, ForceDelivery):
            self._consuming().force(packet)
        elif isinstance(packet, SendLarge):
            self._sending().begin_large(packet)
        elif isinstance(packet, Expired):
            self._settling().expire(packet)
        elif isinstance(packet, Rollback):
            self._settling().roll_back(packet)
        elif isinstance(packet, CreateConsumer):
            self._consuming().create(packet)
        elif isinstance(packet, CloseConsumer):
            self._consuming().close(packet)
        elif isinstance(packet, Start):
            self._consuming().start()
        elif isinstance(packet, Stop):
            self._consuming().stop()
        elif isinstance(packet, CreateProducer):
            self._sending().produce(packet)
        elif isinstance(packet, RemoveProducer):
            self._sending().remove(packet)
        elif isinstance(packet, (AddMetadata, UniqueAddMetadata)):
            self._naming().note(packet)
        elif isinstance(packet, Close):
            self._close()
        elif isinstance(packet, XA_STEPS):
            self._transacting().step(packet)
        else:
            self._ask(packet)

    def _ask(self, packet: Packet) -> None:
        resources = Resources(self.session)
        if isinstance(packet, QueueQuery):
            resources.query_queue(packet)
        elif isinstance(packet, BindingQuery):
            resources.query_address(packet)
        elif isinstance(packet, CreateAddress):
            resources.create_address(packet)
        elif isinstance(packet, CreateQueue):
            resources.create(packet)
        elif isinstance(packet, CreateSharedQueue):
            resources.create_shared(packet)
        elif isinstance(packet, DeleteQueue):
            resources.delete(packet)
        else:
            raise ProtocolViolation(f"a {type(packet).__name__} is nothing that a session does")

    # -- the parts -----------------------------------------------------------------------------------------------------

    def _sending(self) -> Sending:
        part = self.sending
        if part is None:
            part = self.sending = Sending(self.session)
        return part

    def _consuming(self) -> Consuming:
        part = self.consuming
        if part is None:
            part = self.consuming = Consuming(self.session)
        return part

    def _settling(self) -> Settling:
        part = self.settling
        if part is None:
            part = self.settling = Settling(self.session)
        return part

    def _transacting(self) -> Transacting:
        part = self.transacting
        if part is None:
            part = self.transacting = Transacting(self.session, self._settling())
        return part

    def _naming(self) -> Naming:
        part = self.naming
        if part is None:
            part = self.naming = Naming(self.session)
        return part

    def producers(self) -> dict[str, str]:
        """Return the addresses of its producers, by the ids that the client gave them."""
        sending = self.sending
        return {} if sending is None else {str(number): name for number, name in sending.producers.items()}

    def is_busy(self) -> bool:
        """Return whether a large transaction is being carried out."""
        transacting = self.transacting
        return transacting is not None and transacting.is_busy()

    def puts_off(self, arrival: Confirmation) -> bool:
        """Let ``arrival`` at another connection wait for a large transaction; False: there is none.

        Its commit counts when it is answered: a client that came before would be asked to say it again.
        """
        transacting = self.transacting
        if transacting is None or not transacting.is_busy():
            return False
        transacting.behind.append(arrival)
        return True

    # -- the end -------------------------------------------------------------------------------------------------------

    def _close(self) -> None:
        """The client is done with this session: give back what it has, answer, and be gone."""
        octets = self.session.replies.octets
        self.end(NONE_DELIVERED)
        self.session.confirmations.ask(_Farewell(self, octets))

    def leave(self) -> None:
        """The session is gone, and its channel with it."""
        session = self.session
        session.confirmations.end()
        connection = session.connection
        if connection is not None:
            connection.closed_channel(int(session.channel.number))

    def end(self, last_delivered: i64 = UNKNOWN_DELIVERED) -> None:
        """Give back all that the session holds in the broker; ``last_delivered``: as `Queue.detach` says it."""
        session = self.session
        if session.ended:
            return
        session.ended = True
        transacting = self.transacting
        if transacting is not None:
            transacting.end()
        if session.transaction is not None:
            settling = self._settling()
            settled = settling.forget_transaction()
            if last_delivered == NONE_DELIVERED:
                for subscription in session.consumers.values():
                    subscription.window.pause(Pause.ENDING)
                settling.give_back_tried(settled)
        if session.consumers:
            self._consuming().end(last_delivered)
        sending = self.sending
        if sending is not None:
            sending.end()
        naming = self.naming
        if naming is not None:
            naming.end()
        session.acceptor.leave(session.subject.name)
        sessions = session.acceptor.sessions
        if sessions.get(session.name) is self:
            del sessions[session.name]
        self.tell(SESSION_CLOSED)

    def tell(self, kind: i64) -> None:
        """Announce that the session is there, or is no more."""
        session = self.session
        hub = session.broker.hub
        if hub.kinds & kind:
            user = session.subject.name
            hub.announce(SessionFact(kind, session.number, CORE, session.name, user, session.client_id))
