"""What all CORE connections of one broker share: sessions by their names, what names them, branches begun. [C]

Sessions with a confirmation window are found here when their client brings them to another connection; a pair of
metadata that must be unique (``jms-client-id``) is compared with those of all others. Branches of distributed
transactions belong to nobody's connection: one session begins them, another one may end them (artemis.md 5.2.10).
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import MILLISECOND
from entrepot.core.broker import BrokerCore
from entrepot.core.scheduling.timed import Alarm
from entrepot.core.transactions.transaction import Transaction
from entrepot.protocols.artemis.membership import Federating, Membership
from entrepot.protocols.artemis.refusals import (
    SECURITY,
    SESSION_REJECTED,
    XA_DUPID,
    XA_RMERR,
    BranchRefused,
    CoreRefused,
)
from entrepot.protocols.inflow import Inflow
from entrepot.protocols.serving.outlet import Outlet
from entrepot.protocols.session import Session, Shell

ADDRESSES_KEPT: Final = 10_000  # that clients made: the oldest go, unless queues are bound there
BRANCH_MS: Final = 300_000  # that a branch may last before it is prepared (transaction-timeout)


class Bearer:
    """Whoever has metadata: a session."""


class Reattachable:
    """What is found by the name of a session that can be reattached: its commands."""


class OpenBranch:
    """A branch that was begun and is not prepared. ``due``: when it must be (ns)."""

    def __init__(self, key: bytes, transaction: Transaction, user: str) -> None:
        self.key: bytes = key
        self.transaction: Transaction = transaction
        self.user: str = user
        self.due: int = 0
        self.bodies: list[Inflow] = []  # of large messages that it sends: held until they are sent
        self.timed_out: bool = False
        self.ending: bool = False  # it is being prepared, over turns


class _TimeOut(Alarm):
    """Looks at the oldest branch when its time may be over."""

    def __init__(self, due: int, acceptor: CoreAcceptor) -> None:
        super().__init__(due)
        self.acceptor = acceptor

    def ring(self, now: int) -> None:
        self.acceptor.time_out(now)


def let_go(bodies: list[Inflow]) -> None:
    """Let go of large bodies: records of the journal hold them now, or nobody wants them."""
    for body in bodies:
        body.finish()
    bodies.clear()


class CoreAcceptor:
    """Made once a broker, before its first connection of CORE."""

    def __init__(self, broker: BrokerCore) -> None:
        self.broker: BrokerCore = broker
        self.sessions: dict[str, Reattachable] = {}  # that can be reattached, by name
        self.metadata: dict[str, dict[Bearer, None]] = {}  # pair -> who has it
        self.routing_types: dict[str, int] = broker.table.declared  # of addresses that were made, as bits
        self.addresses_max: i64 = ADDRESSES_KEPT
        self.branches: dict[bytes, OpenBranch] = {}
        self.branch_ms: i64 = BRANCH_MS
        self.limits: dict[str, tuple[int, int]] = {}  # user -> sessions, queues that he may have; -1: any number
        self.served: dict[str, int] = {}  # user with a limit -> his sessions
        self.watching: bool = False  # an alarm is set for the branch whose time is over first
        self.looks: int = 0  # when that is
        self.limbo: Outlet = Outlet(Session(Shell()), 0)  # of sessions without a connection: nothing is delivered
        self.limbo.choked = True
        self.membership: Membership = Membership(broker.ids.node.uuid_text, broker.wall)
        self.federating: Federating = Federating()

    def has_room_for(self, address: str) -> bool:
        """Return whether a client may have one more ``address`` that stays, restarts included."""
        return address in self.routing_types or len(self.routing_types) < self.addresses_max

    def declare(self, address: str, types: int) -> None:
        """``address`` was made for these routing types; it goes when too many others are, and nobody uses it."""
        kept = self.routing_types
        kept[address] = kept.get(address, 0) | types
        if len(kept) <= self.addresses_max:
            return
        table = self.broker.table
        for name in list(kept):
            known = table.addresses.get(name)
            if known is None or not known.created_by_operator:
                del kept[name]
                table.abandon(name)
                return

    def delete_all(self, temporaries: dict[str, None]) -> None:
        """A connection is gone, and its temporary queues with it."""
        queues = self.broker.queues
        for name in temporaries:
            queue = self.broker.table.queues.get(name)
            if queue is not None:
                queues.delete(queue, "its connection is gone")

    # -- users ---------------------------------------------------------------------------------------------------------

    def admit(self, user: str) -> None:
        """Count one more session of ``user`` until `leave`. Raises CoreRefused: he has as many as he may."""
        limit = self.limits.get(user)
        if limit is None:
            return
        had = self.served.get(user, 0)
        if 0 <= limit[0] <= had:
            text = f"AMQ229110: Too many sessions for user '{user}'. Sessions allowed: {limit[0]}."
            raise CoreRefused(text, SESSION_REJECTED)
        self.served[user] = had + 1

    def leave(self, user: str) -> None:
        """A session of ``user`` has ended."""
        if user in self.served:
            self.served[user] -= 1

    def check_queues(self, user: str) -> None:
        """See that ``user`` may have one more queue. Raises CoreRefused."""
        limit = self.limits.get(user)
        if limit is None or limit[1] < 0:
            return
        queues = self.broker.table.queues
        self.broker.effort.spent += len(queues) >> 4
        if sum(1 for queue in queues.values() if queue.definition.user == user) >= limit[1]:
            text = f"AMQ229111: Too many queues created by user '{user}'. Queues allowed: {limit[1]}."
            raise CoreRefused(text, SECURITY)

    # -- metadata ------------------------------------------------------------------------------------------------------

    def has_pair(self, pair: str, session: Bearer) -> bool:
        """Return whether another session than ``session`` has ``pair``."""
        holders = self.metadata.get(pair)
        return holders is not None and any(holder is not session for holder in holders)

    def note_pair(self, pair: str, session: Bearer) -> None:
        """``session`` has ``pair``."""
        self.metadata.setdefault(pair, {})[session] = None

    def forget_pair(self, pair: str, session: Bearer) -> None:
        """``session`` has it no more."""
        holders = self.metadata.get(pair)
        if holders is not None:
            holders.pop(session, None)
            if not holders:
                del self.metadata[pair]

    # -- branches ------------------------------------------------------------------------------------------------------

    def begin(self, key: bytes, name: str, user: str, most: i64, lasts_ms: i64) -> OpenBranch:
        """Begin the branch ``key``, which may last so many ms; 0: as any may.

        Raises BranchRefused when there is one, or the user has too many.
        """
        if key in self.branches or key in self.broker.branches.prepared:
            raise BranchRefused(f"the branch {name} exists already", XA_DUPID)
        mine = 0
        if len(self.branches) >= most:
            mine = sum(1 for branch in self.branches.values() if branch.user == user)
        if mine >= most:
            raise BranchRefused(f"{most} branches are open and not prepared", XA_RMERR)
        branch = OpenBranch(key, Transaction(name), user)
        self.branches[key] = branch
        self.limit(branch, lasts_ms)
        return branch

    def limit(self, branch: OpenBranch, lasts_ms: i64) -> None:
        """Let ``branch`` last so many ms from now on; 0: as any may."""
        branch.due = int(self.broker.now) + int(lasts_ms or self.branch_ms) * MILLISECOND
        if not self.watching or branch.due < self.looks:
            self._watch(branch.due)

    def _watch(self, due: int) -> None:
        self.watching = True
        self.looks = due
        self.broker.timetable.add(_TimeOut(due, self))

    def time_out(self, now: int) -> None:
        """Nobody ended some branches in time: nothing of them is done."""
        if now < self.looks:
            return  # of an alarm that a shorter one has overtaken
        self.watching = False
        first = 0
        for key, branch in list(self.branches.items()):
            if branch.due > now:
                first = min(first, branch.due) if first else branch.due
                continue
            if branch.ending:
                continue
            branch.timed_out = True
            del self.branches[key]
            self.broker.transactions.roll_back(branch.transaction)
            let_go(branch.bodies)
        if first:
            self._watch(first)
