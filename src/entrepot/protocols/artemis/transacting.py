"""The transactions of one session: its own, and branches of distributed ones (XA). [C]

A commit is answered when it is on disk. A large one takes turns, and its connection is read no further meanwhile. A
branch that was begun is the broker's (`acceptor.py`): any session of its user may go on with it, prepare it or end it.

That a branch is not there, or which ones are in doubt, is said when the disk knows it, too: a coordinator that hears it
forgets the branch, and one whose end a crash undoes would be in doubt for ever, or be ended the other way.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.errors import EntrepotError, Refused, StorageError, TransactionError
from entrepot.core.broker import BrokerCore
from entrepot.core.effort import Rest
from entrepot.core.transactions.carrying import Work
from entrepot.core.transactions.transaction import State, Transaction
from entrepot.protocols.artemis.acceptor import CoreAcceptor, OpenBranch, let_go
from entrepot.protocols.artemis.packets import (
    Commit,
    Packet,
    XaCommit,
    XaEnd,
    XaFailed,
    XaForget,
    XaGetTimeout,
    XaGetTimeoutReply,
    XaInDoubtXids,
    XaInDoubtXidsReply,
    XaJoin,
    XaPrepare,
    XaReply,
    XaResume,
    XaRollback,
    XaSetTimeout,
    XaSetTimeoutReply,
    XaStart,
    XaSuspend,
)
from entrepot.protocols.artemis.primitives import Xid
from entrepot.protocols.artemis.refusals import XA_DUPID, XA_NOTA, XA_PROTO, XA_RMERR, BranchRefused
from entrepot.protocols.artemis.replies import UNASKED, branch_exception_of, null_reply
from entrepot.protocols.artemis.session import CoreSession
from entrepot.protocols.artemis.settling import Settling, Tried
from entrepot.protocols.inflow import Inflow
from entrepot.protocols.serving.confirmations import Confirmation

XA_ROLLED_BACK_TIMEOUT: Final = 106
SECONDS_MAX: Final = 86_400


class Sequel:
    """What follows a step of a branch that took turns."""

    def done(self, alone: bool) -> None:
        """It was carried out; ``alone``: its session has ended meanwhile."""

    def refused(self, error: EntrepotError) -> EntrepotError:
        """It was not; return what to say of it."""
        return error


class Promise(Sequel):
    """Preparing a branch: until it is done, nobody else may do anything with it."""

    def __init__(self, acceptor: CoreAcceptor, branch: OpenBranch) -> None:
        self.acceptor: CoreAcceptor = acceptor
        self.branch: OpenBranch = branch
        branch.ending = True

    def done(self, alone: bool) -> None:
        """Forget that it was open."""
        del self.acceptor.branches[self.branch.key]
        let_go(self.branch.bodies)

    def refused(self, error: EntrepotError) -> EntrepotError:
        """It is open as before; its time may be over."""
        acceptor = self.acceptor
        self.branch.ending = False
        if not acceptor.watching:
            acceptor.time_out(int(acceptor.broker.now))
        if isinstance(error, TransactionError) and self.branch.key in acceptor.broker.branches.prepared:
            return BranchRefused(error.message, XA_DUPID)
        return error


class Withdrawal(Sequel):
    """Rolling a prepared branch back: what its consumers had settled is given back, in the right order."""

    def __init__(self, settling: Settling, settled: Tried) -> None:
        self.settling: Settling = settling
        self.settled: Tried = settled

    def done(self, alone: bool) -> None:
        """Give it back; what had no session any more is in its queue."""
        if not alone:
            self.settling.give_back(self.settled, False)


class Commitment:
    """A large transaction that is being carried out, and what answers its commit."""

    def __init__(
        self,
        work: Work,
        answer: Packet,
        correlation: i64,
        settled: Tried,
        bodies: list[Inflow],
        octets: i64,
        sequel: Sequel,
    ) -> None:
        self.sequel: Sequel = sequel
        self.work: Work = work
        self.bodies: list[Inflow] = bodies
        self.answer: Packet = answer
        self.correlation: i64 = correlation
        self.settled: Tried = settled
        self.octets: i64 = octets


class _LettingGo(Rest):
    """Lets go of large bodies when the work that sends them is done, though the session is gone."""

    def __init__(self, commitment: Commitment) -> None:
        super().__init__()
        self.commitment: Commitment = commitment

    def resume(self) -> None:
        commitment = self.commitment
        let_go(commitment.bodies)
        error = commitment.work.error
        if error is None:
            commitment.sequel.done(True)
        else:
            commitment.sequel.refused(error)


class _Finishing(Rest):
    """Answers a commit when its work is done, though the session has no connection that would."""

    def __init__(self, transacting: Transacting) -> None:
        super().__init__()
        self.transacting: Transacting = transacting

    def resume(self) -> None:
        self.transacting.is_busy()


class Transacting:
    """Steps of transactions of one session."""

    def __init__(self, session: CoreSession, settling: Settling) -> None:
        self.session: CoreSession = session
        self.broker: BrokerCore = session.broker
        self.settling: Settling = settling
        self.commitment: Commitment | None = None
        self.behind: list[Confirmation] = []  # what waits until the commit is answered: the session comes elsewhere

    # -- the session's own ---------------------------------------------------------------------------------------------

    def commit(self, packet: Commit) -> None:
        """Commit what the session did since the last time."""
        session = self.session
        correlation: i64 = UNASKED if packet.correlation is None else packet.correlation
        transaction = session.transaction
        session.transaction = None
        bodies = session.take_bodies()
        if transaction is None:
            session.replies.done(True, True, correlation)  # what was settled before it is on disk, then
            return
        self._carry_out(transaction, bodies, null_reply(correlation), correlation)

    def _carry_out(self, transaction: Transaction, bodies: list[Inflow], answer: Packet, correlation: i64) -> None:
        """Do all of ``transaction``, and say ``answer`` when that is on disk; it sends ``bodies``."""
        session = self.session
        settled = Tried(transaction.settlements)
        try:
            if transaction.state is State.DOOMED:
                cause = transaction.cause
                self.broker.transactions.roll_back(transaction)
                raise cause if cause is not None else TransactionError(transaction.why)
            work = self.broker.transactions.commit(transaction, self._asker())
        except (Refused, StorageError) as error:
            let_go(bodies)
            self._failed(error, answer, correlation, settled)
            return
        if work is None:
            let_go(bodies)
            session.replies.answer(answer, True)
        else:
            self.commitment = Commitment(work, answer, correlation, settled, bodies, session.replies.octets, Sequel())

    def _taken(self, work: Work | None, sequel: Sequel) -> None:
        """A step of a branch was carried out, or is being (``work``): answer when that is on disk."""
        replies = self.session.replies
        if work is None:
            sequel.done(False)
            replies.answer(XaReply(), True)
        else:
            self.commitment = Commitment(work, XaReply(), UNASKED, Tried([]), [], replies.octets, sequel)

    def _failed(self, error: EntrepotError, answer: Packet, correlation: i64, settled: Tried) -> None:
        replies = self.session.replies
        self.settling.give_back_settled(settled)
        if isinstance(answer, XaReply):
            replies.answer(branch_exception_of(error), False)
        else:
            replies.refuse(error, correlation)

    def is_busy(self) -> bool:
        """Return whether a large transaction is being carried out; its commit is answered when it is done."""
        commitment = self.commitment
        if commitment is None:
            return False
        work = commitment.work
        if not work.done:
            return True
        self.commitment = None
        let_go(commitment.bodies)
        replies = self.session.replies
        replies.octets = commitment.octets
        if work.error is not None:
            error = commitment.sequel.refused(work.error)
            self._failed(error, commitment.answer, commitment.correlation, commitment.settled)
        else:
            commitment.sequel.done(False)
            replies.answer(commitment.answer, True)
        behind, self.behind = self.behind, []
        for each in behind:
            replies.confirmations.ask(each)
        return False

    def alone(self) -> None:
        """The connection is lost: the commit is answered all the same, to whoever comes for the session."""
        commitment = self.commitment
        if commitment is not None:
            asker = _Finishing(self)
            commitment.work.asker = asker
            if commitment.work.done:
                self.broker.effort.later(asker)

    # -- branches ------------------------------------------------------------------------------------------------------

    def step(self, packet: Packet) -> None:
        """Do a step of a distributed transaction, and answer it."""
        replies = self.session.replies
        try:
            self._step(packet)
        except (Refused, StorageError) as error:
            ends = isinstance(packet, (XaCommit, XaRollback)) and key_of(packet.xid) in self.broker.branches.prepared
            refusal = branch_exception_of(error, ends)
            replies.answer(refusal, refusal.code == XA_NOTA)  # see the head of this module

    def _step(self, packet: Packet) -> None:
        replies = self.session.replies
        if isinstance(packet, XaStart):
            self._start(packet.xid)
            replies.answer(XaReply(), False)
        elif isinstance(packet, XaEnd):
            self._end(packet)
            replies.answer(XaReply(), False)
        elif isinstance(packet, XaPrepare):
            self._prepare(packet.xid)
        elif isinstance(packet, XaCommit):
            self._commit(packet)
        elif isinstance(packet, XaRollback):
            self._roll_back(packet.xid)
        elif isinstance(packet, (XaJoin, XaResume)):
            self._join(packet.xid)
            replies.answer(XaReply(), False)
        elif isinstance(packet, XaSuspend):
            self._suspend()
            replies.answer(XaReply(), False)
        elif isinstance(packet, XaForget):
            raise BranchRefused("", XA_NOTA)  # nothing is decided by hand here
        elif isinstance(packet, XaFailed):
            self._give_up(packet.xid)
        elif isinstance(packet, XaInDoubtXids):
            replies.answer(XaInDoubtXidsReply(xids=self._in_doubt()), True)
        elif isinstance(packet, XaSetTimeout):
            replies.answer(XaSetTimeoutReply(ok=self._limit(packet.seconds)), False)
        elif isinstance(packet, XaGetTimeout):
            replies.answer(XaGetTimeoutReply(seconds=int(self.session.acceptor.branch_ms // 1000)), False)

    def _start(self, xid: Xid) -> None:
        session = self.session
        if session.branch is not None:
            raise BranchRefused("the session works on another branch", XA_PROTO)
        key = key_of(xid)
        most = session.options.branches_max
        session.branch = session.acceptor.begin(key, name_of(xid), session.subject.name, most, session.branch_ms)

    def _limit(self, seconds: i64) -> bool:
        """Let branches of this session last so long, that at work too; 0: as any may. False: that is no time."""
        if not 0 <= seconds <= SECONDS_MAX:
            return False
        session = self.session
        session.branch_ms = seconds * 1000
        if session.branch is not None:
            session.acceptor.limit(session.branch, session.branch_ms)
        return True

    def _known(self, xid: Xid) -> OpenBranch:
        """Return the branch that was begun and is not prepared. Raises BranchRefused."""
        branch = self.session.acceptor.branches.get(key_of(xid))
        if branch is not None and branch.ending:
            raise BranchRefused(f"the branch {name_of(xid)} is being prepared by another session", XA_PROTO)
        if branch is None or branch.user != self.session.subject.name:
            raise BranchRefused(f"AMQ229047: Cannot find xid in resource manager: {name_of(xid)}", XA_NOTA)
        return branch

    def _end(self, packet: XaEnd) -> None:
        session = self.session
        branch = session.branch
        if branch is not None and branch.key == key_of(packet.xid):
            session.branch = None
            if branch.timed_out:
                raise BranchRefused("the time of the branch is over", XA_ROLLED_BACK_TIMEOUT)
        else:
            branch = self._known(packet.xid)
        if packet.failed and branch.transaction.state is State.ACTIVE:
            branch.transaction.fail(TransactionError("its session ended the work on it as failed"))

    def _join(self, xid: Xid) -> None:
        if self.session.branch is not None:
            raise BranchRefused("the session works on another branch", XA_PROTO)
        self.session.branch = self._known(xid)

    def _suspend(self) -> None:
        if self.session.branch is None:
            raise BranchRefused("the session works on no branch", XA_PROTO)
        self.session.branch = None

    def _given_up(self, xid: Xid) -> OpenBranch:
        """Return an open branch that is about to end: this session works on it no more. Raises BranchRefused."""
        branch = self._known(xid)
        if self.session.branch is branch:
            raise BranchRefused("a session works on the branch still", XA_PROTO)
        return branch

    def _prepare(self, xid: Xid) -> None:
        session = self.session
        key = key_of(xid)
        if key in self.broker.branches.prepared:
            raise BranchRefused("the branch is prepared already", XA_PROTO)
        branch = self._given_up(xid)
        transaction = branch.transaction
        if transaction.state is State.DOOMED:
            settled = Tried(transaction.settlements)
            del session.acceptor.branches[key]
            self.broker.transactions.roll_back(transaction)
            let_go(branch.bodies)
            self.settling.give_back_settled(settled)
            raise BranchRefused(transaction.why, XA_RMERR)
        if branch.bodies and not self.broker.journal.pages:
            raise BranchRefused("a large message cannot be prepared without a disk", XA_RMERR)
        promise = Promise(session.acceptor, branch)
        try:
            work = self.broker.branches.prepare(transaction, key, session.subject.name, self._asker())
        except EntrepotError as error:
            raise promise.refused(error) from error
        self._taken(work, promise)

    def _asker(self) -> Rest | None:
        connection = self.session.connection
        return None if connection is None else connection.rest

    def _check_user(self, key: bytes) -> None:
        self.broker.branches.check_user(key, self.session.subject)

    def _commit(self, packet: XaCommit) -> None:
        session = self.session
        key = key_of(packet.xid)
        if key in self.broker.branches.prepared:
            self._check_user(key)
            if packet.one_phase:
                raise BranchRefused("a branch that is prepared is committed in two phases", XA_PROTO)
            self._taken(self.broker.branches.commit(key, self._asker()), Sequel())
            return
        branch = self._given_up(packet.xid)
        if not packet.one_phase:
            raise BranchRefused("the branch is not prepared", XA_PROTO)
        del session.acceptor.branches[key]
        self._carry_out(branch.transaction, branch.bodies, XaReply(), UNASKED)

    def _roll_back(self, xid: Xid) -> None:
        key = key_of(xid)
        if key in self.broker.branches.prepared:
            self._check_user(key)
            branch = self.broker.branches.need(key)
            settled = Tried([])
            for hold in branch.holds:
                consumer = hold.consumer
                if consumer is not None and consumer.queue is hold.queue:
                    settled.add(consumer, hold.number)
                elif hold.reference is not None:  # its consumer has left: it was tried all the same
                    hold.reference.deliveries += 1
            self._taken(self.broker.branches.roll_back(key, self._asker()), Withdrawal(self.settling, settled))
            return
        opened = self._given_up(xid)
        settled = Tried(opened.transaction.settlements)
        del self.session.acceptor.branches[key]
        self.broker.transactions.roll_back(opened.transaction)
        let_go(opened.bodies)
        self._taken(None, Withdrawal(self.settling, settled))

    def _give_up(self, xid: Xid) -> None:
        """A failover hit the branch at work: it can only be rolled back."""
        session = self.session
        try:
            branch = self._known(xid)
        except BranchRefused:
            branch = session.acceptor.begin(
                key_of(xid), name_of(xid), session.subject.name, session.options.branches_max, session.branch_ms
            )
        if branch.transaction.state is State.ACTIVE:
            branch.transaction.fail(TransactionError("the connection failed over while the branch was at work"))
        session.branch = branch
        session.replies.done(False, False)

    def _in_doubt(self) -> list[Xid]:
        """Name the branches that are prepared and not ended, and that this user may end."""
        found: list[Xid] = []
        for key in self.broker.branches.seen_by(self.session.subject):
            found.append(xid_of(key))
        return found

    def end(self) -> None:
        """The session ends: branches stay for others, and what is being carried out goes on without it."""
        for each in self.behind:
            each.refuse(TransactionError("the session has ended"))
        self.behind.clear()
        commitment = self.commitment
        if commitment is not None:
            self.commitment = None
            asker = _LettingGo(commitment)
            commitment.work.asker = asker
            if commitment.work.done:
                asker.resume()
        self.session.branch = None


def key_of(xid: Xid) -> bytes:
    """Return under what a branch is kept: format id, length of the global id, global id, branch qualifier."""
    octets = int(xid.format_id).to_bytes(4, "big", signed=True)
    return octets + len(xid.global_id).to_bytes(4, "big") + xid.global_id + xid.branch


def xid_of(key: bytes) -> Xid:
    """Return the identity of the branch that is kept under ``key``."""
    length = int.from_bytes(key[4:8], "big")
    return Xid(int.from_bytes(key[:4], "big", signed=True), key[8 + length :], key[8 : 8 + length])


def name_of(xid: Xid) -> str:
    """Return a branch's name, for people."""
    return f"XID:[{xid.format_id},globalId={xid.global_id.hex()},branchId={xid.branch.hex()}]"
