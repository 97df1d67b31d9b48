"""The server side of one connection, whatever is spoken over it. [C]

`ServerSession` owns what every protocol's server needs: its life (`life.py`), time (when it must open, beat, be heard,
end), who it is, and that all it holds in the broker is given back once. A dialect subclasses it and says in its own
words what `work` does with octets, how `beat`, `farewell` and `fail` sound, and what `give_back` gives back.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from mypy_extensions import i64, mypyc_attr

from entrepot.base.environment import MILLISECOND, Instant
from entrepot.base.errors import EntrepotError, PeerError, ProtocolViolation, Refused
from entrepot.core.addressing.routing import Target
from entrepot.core.broker import BrokerCore
from entrepot.core.effort import OCTETS_SHIFT
from entrepot.core.events.facts import (
    CONNECTION_CLOSED,
    CONNECTION_OPENED,
    LOGIN_REFUSED,
    ConnectionFact,
    SecurityFact,
)
from entrepot.core.ports import ClientHolder
from entrepot.core.queue.consumer import Pause
from entrepot.core.queue.queue import MAYBE_DELIVERED, UNKNOWN_DELIVERED
from entrepot.core.scheduling.timed import Alarm
from entrepot.core.security.directory import Subject
from entrepot.core.security.logins import Knock
from entrepot.core.sending.loans import LOAN_FREE, LOAN_LAST, Loan
from entrepot.protocols.serving.confirmations import Confirmations, Throttle
from entrepot.protocols.serving.life import END, ENDED, ENTER, LEAVE, LEAVING, LEFT, OPENING, PART, following
from entrepot.protocols.serving.outlet import Outlet
from entrepot.protocols.serving.patience import Patience
from entrepot.protocols.session import NEVER, STOP_MIRROR, Session, Shell
from entrepot.protocols.turns import SessionRest

Said = TypeVar("Said")
NOBODY: Final = Subject("")  # who has not connected yet


class ReadsOn(Throttle):
    """Lets a connection be read, or not, as its answers wait for other brokers."""

    def __init__(self, session: Session) -> None:
        self.session: Session = session

    def stop(self) -> None:
        """Read nothing more."""
        self.session.stop_reading(STOP_MIRROR)

    def go_on(self) -> None:
        """Read on."""
        self.session.read_on(STOP_MIRROR)


class Tenure(ClientHolder):
    """A client id, and the connection that has it."""

    def __init__(self, session: ServerSession, client_id: str, yields: bool) -> None:
        super().__init__(session.peer, session.subject.name, session.protocol, yields)
        self.session: ServerSession | None = session
        self.client_id: str = client_id

    def give_way(self, successor: str) -> None:
        """End the connection: ``successor`` has the client id from now on."""
        session = self.session
        if session is not None:
            session.superseded(f"the client id {self.client_id!r} is used by a newer connection, {successor}")

    def end(self, broker: BrokerCore) -> None:
        """The connection needs the client id no more."""
        broker.clients.disclaim(self.client_id, self)
        self.session = None


@mypyc_attr(allow_interpreted_subclasses=True)
class ServerSession(Session):
    """One accepted connection. ``number`` is unique in this run of the broker; ``peer`` is for people."""

    def __init__(
        self, shell: Shell, broker: BrokerCore, number: i64, peer: str, high: i64, connect_timeout_ms: i64
    ) -> None:
        super().__init__(shell)
        self.broker: BrokerCore = broker
        self.number: i64 = number
        self.peer: str = peer
        self.subject: Subject = NOBODY
        self.client_id: str = ""
        self.tenure: Tenure | None = None
        self.knock: Knock | None = None  # it is being looked at who this is
        self.asks: Alarm | None = None  # it is not known yet who serves it
        self.asked_at: i64 = 0  # when that was asked first
        self.life: i64 = OPENING
        self.single: bool = True  # it is one session: its protocol knows no others
        self.entered: bool = False  # the broker let it in, and told so
        self.released: bool = False  # all that it held was given back
        self.refused: str = ""  # why we ended it
        self.last_delivered: i64 = UNKNOWN_DELIVERED  # what its end says of what it holds (`Queue.detach`)
        self.outlet: Outlet = Outlet(self, high)
        self.confirmations: Confirmations = Confirmations(broker.journal, number)
        self.confirmations.throttle = ReadsOn(self)
        self.patience: Patience | None = None
        self.loan: Loan = Loan(broker.memory)
        self.rest: SessionRest = SessionRest(shell, number)
        self.connect_timeout_ms: i64 = connect_timeout_ms
        self.opened: i64 = broker.now
        self.heard: i64 = broker.now
        self.leave_at: i64 = NEVER
        self.beat_send: i64 = 0  # ns between what it is sent, at most; 0: any time
        self.beat_receive: i64 = 0  # ns of silence after which it is given up; 0: any time
        self.received: i64 = 0

    # -- what a dialect says -------------------------------------------------------------------------------------------

    def work(self, data: bytes) -> i64:
        """Do what ``data`` says, and what was left before, as far as this turn reaches. Raises PeerError.

        Return how many octets of an incomplete frame are held.
        """
        raise NotImplementedError

    def beat(self) -> None:
        """Write what keeps the connection alive."""
        raise NotImplementedError

    def fail(self, error: EntrepotError) -> None:
        """Say what is wrong and close this connection."""
        raise NotImplementedError

    def farewell(self, why: str) -> None:
        """Say that our side ends the connection, where the protocol can."""

    def unopened(self) -> str:
        """Return what did not come in time."""
        raise NotImplementedError

    def consumes(self) -> bool:
        """Return whether messages go to this peer whose acknowledgement makes room."""
        raise NotImplementedError

    def give_back(self) -> None:
        """Give back all that this connection holds in the broker."""

    # -- what the shell calls ------------------------------------------------------------------------------------------

    def receive(self, data: bytes, now: Instant) -> None:
        """Take the next chunk; b"" is the end of the stream."""
        if not data:
            self.closing = True
        if self.closing or self.life >= LEAVING:
            return
        self.broker.effort.spent += len(data) >> OCTETS_SHIFT
        self._serve(data, now)

    def resume(self, now: Instant) -> None:
        """Do what was received, as far as this turn reaches."""
        if self.closing or self.life >= LEAVING:
            self.unfinished = False
            return
        self._serve(b"", now)

    def _serve(self, data: bytes, now: Instant) -> None:
        self.unfinished = False
        self.heard = now
        held: i64 = 0
        try:
            held = self.work(data)
        except PeerError as error:
            self.fail(error)
        if held > LOAN_FREE or self.loan.octets > 0:
            self.borrow(held)

    def borrow(self, held: i64) -> bool:
        """A long frame is incomplete: its octets are counted, and when all of them are too many it cannot be held.

        Return whether there are too many of all connections together.
        """
        loan = self.loan
        loan.owe(held)
        pressed = loan.is_pressing()
        if pressed and held > LOAN_LAST and self.life < LEAVING and not self.closing:
            self.fail(loan.refusal())
        return pressed

    def outgoing(self) -> bytes:
        """Return what is to be written; what waited for room in the writer goes on after it."""
        outlet = self.outlet
        if outlet.outflows is not None and outlet.is_streaming():
            why = outlet.flow()
            if why:
                self.refused = why
            self.closing = self.closing or why != "" or (self.life == LEFT and not outlet.is_streaming())
            return outlet.take_piece(self.broker.now)
        data = outlet.take(self.broker.now)
        if outlet.choked and not outlet.socket_full and len(data) > 0:
            outlet.relieve()
        return data

    def note(self) -> None:
        """Tell the shell that there is something to write."""
        self.outlet.note()

    def pending(self) -> i64:
        """Return how many octets wait."""
        return len(self.outlet.out)

    def read_on(self, why: i64) -> None:
        """Read again; nobody listened meanwhile."""
        readable = self.readable
        super().read_on(why)
        if self.readable and not readable:
            self.heard = self.broker.now

    def deadline(self) -> Instant:
        """Return when something is due."""
        due = int(self.leave_at)
        if self.life == OPENING:
            due = min(due, int(self.opened) + int(self.connect_timeout_ms) * MILLISECOND)
        if self.beat_send > 0:
            due = min(due, int(self.outlet.wrote) + int(self.beat_send))
        if self.beat_receive > 0 and self.readable and not self.unfinished:
            due = min(due, int(self.heard) + int(self.beat_receive))
        if self.outlet.wide_at > 0:
            due = min(due, self.outlet.due())
        patience = self.patience
        return due if patience is None else min(due, patience.due())

    def advance(self, now: Instant) -> None:
        """Open in time, beat, give up on a peer that does not, end when it is time."""
        if self.closing:
            return
        if now >= self.leave_at:
            self.closing = True
            return
        if self.life == OPENING and now >= self.opened + self.connect_timeout_ms * MILLISECOND:
            self.fail(ProtocolViolation(f"{self.unopened()} within {self.connect_timeout_ms} ms"))
            return
        listens = self.readable and not self.unfinished
        if self.beat_receive > 0 and listens and now >= self.heard + self.beat_receive:
            if self.life >= LEAVING:
                self.closing = True
                return
            quiet = (now - self.heard) // MILLISECOND
            self.fail(ProtocolViolation(f"nothing came for {quiet} ms, although heart-beats were agreed"))
            return
        patience = self.patience
        if patience is not None:
            patience.advance(now)
        outlet = self.outlet
        if outlet.shrink(now):
            self.writer = outlet.writer
        if self.beat_send > 0 and now >= outlet.wrote + self.beat_send:
            outlet.wrote = now
            self.beat()
            outlet.note()

    def writable(self, ready: bool, now: Instant) -> None:
        """The socket is full, or has room again."""
        outlet = self.outlet
        outlet.socket_full = not ready
        if ready and outlet.is_streaming():
            outlet.note()
        elif ready:
            outlet.relieve()
        else:
            outlet.choke()

    def shut(self, why: str, now: Instant) -> None:
        """Our side ends the connection: say so, and close.

        What others give back on their way out is not for this one, and that it goes is no failure of its consumers.
        """
        self.farewell(why)
        self.closing = True
        self.last_delivered = MAYBE_DELIVERED
        self.outlet.pause(Pause.ENDING)

    def detach(self, why: str, now: Instant) -> None:
        """The connection is gone: give back what it held."""
        if self.life == ENDED:
            return
        self.become(END)
        self.closing = True
        self.loan.owe(0)
        self.outlet.end()
        self.confirmations.end()
        self.release()
        if self.entered:
            _tell(self, CONNECTION_CLOSED)
        self.patience = None  # it points back at us: without this both wait for the cyclic collector

    # -- life ----------------------------------------------------------------------------------------------------------

    def become(self, event: i64) -> None:
        """Live on, as `life.TRANSITIONS` says. Raises Fault for what cannot happen."""
        self.life = following(int(self.life), int(event))
        if event == ENTER:
            self.entered = True
            if self.single:
                self.broker.access.counts.sessions += 1
            _tell(self, CONNECTION_OPENED)

    def part(self) -> None:
        """Read nothing more; what others give back from now on is not for this one."""
        self.become(PART)
        self.outlet.pause(Pause.ENDING)

    def leave(self) -> None:
        """The last word was said: read nothing more, and close once all is written.

        A body that has been begun is written to its end before, unless the outlet broke it off: half of it would be no
        message.
        """
        if self.life != ENDED:
            self.become(LEAVE)
        self.closing = not self.outlet.is_streaming()
        self.outlet.pause(Pause.ENDING)

    def release(self) -> None:
        """Give back, once, all that this connection holds in the broker."""
        if self.released:
            return
        self.released = True
        if self.knock is not None:
            self.knock.gone = True
        self.outlet.pause(Pause.ENDING)  # what one subscription gives back is not for the next
        self.give_back()
        self.broker.flow.stop_waiting(self.number)
        tenure = self.tenure
        if tenure is not None:
            self.tenure = None
            tenure.end(self.broker)

    def superseded(self, why: str) -> None:
        """Another connection takes the place of this one: end, with all that it holds."""
        raise NotImplementedError

    # -- who it is -----------------------------------------------------------------------------------------------------

    def ask_who(self, name: str | None, password: str | None) -> bool:
        """Find out who this is, and take him for ``subject``. Raises Refused if he may not come in.

        Return False when that is not known yet: the session goes on, by `work`, when it is.
        """
        knock = self.knock
        if knock is None:
            broker = self.broker
            knock = Knock(name, password, self.shell.certificate(), self.peer, broker.effort, self.rest)
            self.knock = knock
            broker.access.knock(knock)
        if not knock.answered:
            self.unfinished = True
            return False
        self.knock = None
        try:
            self.subject = knock.subject()
        except Refused:
            self.broker.access.counts.login(False)
            self.broker.hub.announce(SecurityFact(LOGIN_REFUSED, name or "", self.peer))
            raise
        self.broker.access.counts.login(True)
        return True

    def claim(self, client_id: str, steal: bool) -> str:
        """Take a client id for this connection: "". When another one has it, return where that comes from.

        ``steal``: that one gives way, if it serves the same user: a name that anybody may say closes nobody's else.
        """
        if not client_id:
            return ""
        tenure = Tenure(self, client_id, steal)
        clients = self.broker.clients
        holder = clients.held.get(client_id)
        if steal and holder is not None and holder.user != tenure.user and self.broker.access.guarded:
            steal = False
        if not clients.claim(client_id, tenure, steal):
            return clients.held[client_id].peer
        self.tenure = tenure
        self.client_id = client_id
        return ""

    # -- a broker that is full -----------------------------------------------------------------------------------------

    def be_patient(self) -> Patience:
        """The broker said BLOCKED: return what waits until it has room."""
        patience = self.patience
        if patience is None:
            patience = Patience(self, self.broker, self.number)
            self.patience = patience
        return patience

    def stop_for(self, target: Target) -> None:
        """A send to ``target`` was BLOCKED and asks for no answer: read no further, if that may be."""
        self.be_patient().stop(target, self.consumes())


@mypyc_attr(allow_interpreted_subclasses=True)
class CommandSession(ServerSession, Generic[Said]):
    """A connection whose decoder makes a list of commands of each chunk: `take` does one of them."""

    def __init__(
        self, shell: Shell, broker: BrokerCore, number: i64, peer: str, high: i64, connect_timeout_ms: i64
    ) -> None:
        super().__init__(shell, broker, number, peer, high, connect_timeout_ms)
        self.undone: list[Said] = []  # commands that came, while it is unfinished

    def take(self, command: Said) -> None:
        """Do one command; ``unfinished`` says that those behind it wait for its end. Raises PeerError."""
        raise NotImplementedError

    def take_all(self, came: list[Said]) -> bool:
        """Do commands as far as this turn reaches; return whether these were all. The rest is ``undone``."""
        self.undone = []
        effort = self.broker.effort
        at = 0
        while at < len(came):
            if effort.spent >= effort.allowance:
                self.unfinished = True
                self.undone = came[at:] if at > 0 else came
                effort.later(self.rest)
                return False
            command = came[at]
            at += 1
            effort.spent += 1
            self.take(command)
            if self.unfinished:  # a transaction is being carried out, or it is looked at who this is: said again then
                again = self.knock is not None or self.asks is not None
                self.undone = came[at - 1 :] if again else came[at:]
                return False
            if self.closing or self.life >= LEAVING:
                return False
        return True


def _tell(session: ServerSession, kind: i64) -> None:
    user = session.subject.name
    fact = ConnectionFact(kind, session.number, session.protocol, session.peer, session.client_id, user)
    session.broker.hub.announce(fact)
