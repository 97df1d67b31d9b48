"""Branches of distributed transactions: the steps that a coordinator asks for. [C]

They are asked on a session of their own, which works for no branch: a server knows a branch by its name, whichever
session worked for it (artemis.md 5.2.5). A branch that a session worked for on a wire that is lost is never prepared:
nobody can say what of it came there. One that is prepared ends when it is told to, on whatever wire.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64, mypyc_attr

from entrepot.base.environment import Instant
from entrepot.base.errors import EntrepotError, Refused, TransactionError, TransactionInDoubt, TransactionRolledBack
from entrepot.protocols.artemis.conversation.requests import Requests, is_lost
from entrepot.protocols.artemis.packets import (
    Packet,
    XaCommit,
    XaInDoubtXids,
    XaInDoubtXidsReply,
    XaPrepare,
    XaReply,
    XaRollback,
)
from entrepot.protocols.artemis.primitives import Xid as CoreXid
from entrepot.protocols.conversing.port import Answer, Conversation, ConversationEvents
from entrepot.protocols.conversing.xid import Xid

# Codes of XA, as in a header file of X/Open.
READ_ONLY: Final = 3
UNKNOWN: Final = -4
HEURISTIC_FIRST: Final = 5
HEURISTIC_LAST: Final = 8
ROLLED_BACK_FIRST: Final = 100
ROLLED_BACK_LAST: Final = 107
ENDED_MAX: Final = 10_000  # branches that are remembered for their coordinator: another connection may end them
LOST_BEFORE: Final = "the connection was lost before it was prepared"


class Branch:
    """A branch that the session at ``channel`` works for, or did.

    ``doomed``: why it cannot be prepared. ``arrived``: the broker has said that it has all of it.
    """

    def __init__(self, xid: Xid, channel: i64) -> None:
        self.xid: Xid = xid
        self.channel: i64 = channel
        self.doomed: str = ""
        self.arrived: bool = False


def named(xid: Xid) -> CoreXid:
    """Return ``xid`` as CORE has it. Raises TransactionError for parts of the wrong length."""
    xid.check()
    return CoreXid(i64(xid.format_id), xid.qualifier, xid.global_id)


def refusal_of(packet: Packet | None, error: EntrepotError | None) -> EntrepotError | None:
    """Return what the outcome of a step means, None where it was done."""
    if error is not None:
        return TransactionInDoubt("the connection was lost before the broker answered") if is_lost(error) else error
    if not isinstance(packet, XaReply) or not packet.error:
        return None
    code = packet.code
    text = packet.text or f"the broker refused with code {code} of XA"
    if code == UNKNOWN:
        return Refused(f"the broker knows no such branch: {text}")
    if HEURISTIC_FIRST <= code <= HEURISTIC_LAST:
        return TransactionError(f"an operator has ended this branch: {text}")
    if ROLLED_BACK_FIRST <= code <= ROLLED_BACK_LAST:
        return TransactionRolledBack(text)
    return TransactionError(text)


class Branches:
    """The branches of a conversation that sessions are done with, and that are not prepared nor over."""

    def __init__(self, coordinator: Callable[[], Requests]) -> None:
        """``coordinator``: the requests of the session that works for none."""
        self.coordinator: Callable[[], Requests] = coordinator
        self.ended: dict[Xid, Branch] = {}

    def lost(self, channel: i64, current: Branch | None) -> None:
        """The session at ``channel`` is gone, which works for ``current``."""
        if current is not None:
            current.doomed = LOST_BEFORE
        for branch in self.ended.values():
            if branch.channel == channel:
                branch.doomed = LOST_BEFORE

    def worked_for(self, branch: Branch) -> None:
        """A session is done with ``branch``. Of too many that nobody asked for here, the oldest are forgotten."""
        ended = self.ended
        ended.pop(branch.xid, None)
        while len(ended) >= ENDED_MAX and self._forgets(next(iter(ended.values()))):
            pass
        ended[branch.xid] = branch

    def _forgets(self, branch: Branch) -> bool:
        """Forget ``branch`` if whoever prepares it later gets all of it or nothing; return whether that is so."""
        if not branch.doomed and not branch.arrived:
            return False
        del self.ended[branch.xid]
        if branch.doomed:
            self.coordinator().ask(XaRollback(xid=named(branch.xid)), lambda packet, error: None)
        return True

    def prepare(self, xid: Xid, answer: Callable[[bool, EntrepotError | None], None]) -> None:
        """Have the broker promise; ``answer`` is told whether there is something to commit."""
        name = named(xid)
        if self._is_doomed(xid, name, lambda error: answer(False, error)):
            return

        def prepared(packet: Packet | None, error: EntrepotError | None) -> None:
            refusal = refusal_of(packet, error)
            nothing = isinstance(packet, XaReply) and packet.code == READ_ONLY
            answer(not nothing and refusal is None, refusal)

        self.coordinator().ask(XaPrepare(xid=name), prepared)

    def commit(self, xid: Xid, one_phase: bool, answer: Answer) -> None:
        """Commit a branch that is prepared, or in one phase one that is not."""
        name = named(xid)
        if one_phase and self._is_doomed(xid, name, answer):
            return
        self.ended.pop(xid, None)
        self.coordinator().ask(
            XaCommit(xid=name, one_phase=one_phase), lambda packet, error: answer(refusal_of(packet, error))
        )

    def roll_back(self, xid: Xid, answer: Answer) -> None:
        """Undo a branch; what it settled is delivered again."""
        name = named(xid)
        branch = self.ended.pop(xid, None)
        gone = branch is not None and branch.doomed != ""

        def undone(packet: Packet | None, error: EntrepotError | None) -> None:
            refusal = refusal_of(packet, error)
            answer(None if gone and type(refusal) is Refused else refusal)

        self.coordinator().ask(XaRollback(xid=name), undone)

    def recover(self, answer: Callable[[list[Xid], EntrepotError | None], None]) -> None:
        """Ask which branches are prepared and not ended."""

        def told(packet: Packet | None, error: EntrepotError | None) -> None:
            found: list[Xid] = []
            if isinstance(packet, XaInDoubtXidsReply):
                found = [Xid(int(each.format_id), each.global_id, each.branch) for each in packet.xids]
            answer(found, error)

        self.coordinator().ask(XaInDoubtXids(), told, again=True)

    def _is_doomed(self, xid: Xid, name: CoreXid, answer: Answer) -> bool:
        """Answer that a branch cannot be prepared, where that is so, and have the broker forget what it has of it."""
        branch = self.ended.pop(xid, None)
        if branch is None or not branch.doomed:
            return False
        why = branch.doomed
        self.coordinator().ask(XaRollback(xid=name), lambda packet, error: answer(TransactionRolledBack(why)))
        return True


@mypyc_attr(allow_interpreted_subclasses=True)
class Branching(Conversation):
    """A conversation whose coordinator is a session of its own, made when it is needed."""

    def __init__(self, events: ConversationEvents) -> None:
        super().__init__(events)
        self.branches: Branches = Branches(self.coordinator)

    def coordinator(self) -> Requests:
        """Return the requests of the session that works for no branch."""
        raise NotImplementedError

    def prepare_branch(self, xid: Xid, answer: Callable[[bool, EntrepotError | None], None]) -> None:
        """Have the broker promise; ``answer`` is told whether there is something to commit."""
        self.branches.prepare(xid, answer)

    def commit_branch(self, xid: Xid, one_phase: bool, answer: Answer) -> None:
        """Commit a branch that is prepared, or in one phase one that is not."""
        self.branches.commit(xid, one_phase, answer)

    def roll_back_branch(self, xid: Xid, now: Instant, answer: Answer) -> None:
        """Undo a branch; what it settled is delivered again when the broker wants it."""
        self.branches.roll_back(xid, answer)

    def recover_branches(self, answer: Callable[[list[Xid], EntrepotError | None], None]) -> None:
        """Ask which branches are prepared and not ended."""
        self.branches.recover(answer)
