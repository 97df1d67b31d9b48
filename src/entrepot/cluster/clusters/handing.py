"""The prepared branches of a node that gives all it has to another one, one after the other (`gift.py`).

They go before the queues: what a branch has taken comes back, if it is rolled back there, before what follows it here.
One that stays holds nobody up: what waits in its queues moves all the same, and what it has taken stays with it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final

from entrepot.cluster.clusters.contents import Contents
from entrepot.cluster.clusters.gift import CHANNEL, Gift, Target
from entrepot.core.broker import BrokerCore
from entrepot.core.transactions.branches import Branch
from entrepot.model.ids import UUID_OCTETS, uuid_text
from entrepot.protocols.artemis.packets import CreateSession, CreateSessionReply, ExceptionReply, Packet
from entrepot.protocols.artemis.schema import VERSION_MAX
from entrepot.protocols.artemis.transacting import key_of, name_of, xid_of

SESSIONS: Final = 1
NAMED_MAX: Final = 1_000  # branches that a plan or a report names
LARGE_OCTETS: Final = 100 * 1024


class Handing:
    """Of one drain. ``count``: how many branches the target has; ``refused``: those that stay, and why."""

    def __init__(self, broker: BrokerCore, tell: Callable[[str], None]) -> None:
        self.broker: Final = broker
        self.count = 0
        self.refused: Final[dict[bytes, str]] = {}
        self._moved: Final[dict[bytes, None]] = {}
        self._tell: Final = tell
        self._target: Target | None = None
        self._opened = False
        self._closed = ""  # why the target opens no session
        self.current: Gift | None = None

    @property
    def progress(self) -> int:
        """A number that changes whenever something of a branch is given."""
        return self.count + (0 if self.current is None else self.current.said)

    def begin(self) -> None:
        """A drain begins anew."""
        self.count = 0
        self._moved.clear()
        self.refused.clear()

    def connected(self, target: Target, user: str, password: str) -> None:
        """The target may be given something: open a session there."""
        self.unanswered()
        self.refused.clear()
        self._closed = ""
        self._target = target
        target.client.send(
            CreateSession(
                name=uuid_text(self.broker.entropy.token(UUID_OCTETS)),
                session_channel=CHANNEL,
                version=VERSION_MAX,
                user=user or None,
                password=password or None,
                min_large=LARGE_OCTETS,
                xa=True,
                window=-1,
                channel=SESSIONS,
            )
        )

    def told(self, packet: Packet) -> bool:
        """Take what the target says of this; False: it is for somebody else."""
        if packet.channel == SESSIONS and self._target is not None and not self._opened:
            if isinstance(packet, ExceptionReply):
                self._closed = f"the target opens no session for it: {packet.text or packet.code}"
            self._opened = isinstance(packet, (CreateSessionReply, ExceptionReply))
            return self._opened
        if packet.channel != CHANNEL:
            return False
        if self.current is not None:
            self.current.told(packet)
        return True

    def move(self) -> bool:
        """Go on; return whether no branch is left that can move."""
        if self.current is not None:
            self.current.go_on()
            return False
        for key, branch in self.broker.branches.prepared.items():
            if key in self.refused or branch.ending:
                continue
            target = self._target
            if target is None or not self._opened:
                return False
            why = self._closed or self._why_not(branch, target)
            if why:
                self._stays(key, why)
                continue
            self.current = Gift(self.broker, key, target, self._over)
            self.current.begin()
            return False
        return True

    def unanswered(self) -> None:
        """The connection is gone, or the drain ends."""
        self._target = None
        self._opened = False
        current, self.current = self.current, None
        if current is not None:
            current.leave()

    def _over(self, gift: Gift, why: str) -> None:
        self.current = None
        if not why:
            self.count += 1
            if len(self._moved) < NAMED_MAX:
                self._moved[gift.key] = None
        elif not gift.unsure:  # who is unsure is asked again
            self._stays(gift.key, why)

    def _stays(self, key: bytes, why: str) -> None:
        self.refused[key] = why
        self._tell(f"the branch {name_of(xid_of(key))} stays: {why}")

    # -- what is told of them ------------------------------------------------------------------------------------------

    def _why_not(self, branch: Branch, target: Target) -> str:
        """Return why ``branch`` does not go to ``target``, "" for one that does."""
        given = branch.record.given
        if given and given != target.node:
            return f"the node {given} was given it, and may have it: entrepot drain --to {given}"
        return _bound(Contents(self.broker, branch), ours=target.ours)

    def plan(self) -> list[tuple[str, int, str]]:
        """Return (name, messages, why it stays) of what is prepared here; many are counted together at the end."""
        prepared = self.broker.branches.prepared
        found = [self._planned(branch) for branch in islice(prepared.values(), NAMED_MAX)]
        if len(prepared) > NAMED_MAX:
            found.append((f"and {len(prepared) - NAMED_MAX} more", 0, ""))
        return found

    def _planned(self, branch: Branch) -> tuple[str, int, str]:
        contents, given = Contents(self.broker, branch), branch.record.given
        why = f"the node {given} was given it, and may have it: it goes nowhere else" if given else ""
        why = why or _bound(contents, ours=True)
        if not why and (artemis := _bound(contents, ours=False)):
            why = f"if the other node is an Artemis: {artemis}"
        return name_of(xid_of(branch.key)), len(contents), why

    def report(self) -> list[dict[str, str]]:
        """Return what became of each: the Xid, ``moved``, ``here``, ``moving`` or ``given`` and why it stays."""
        rows = [{"xid": name_of(xid_of(key)), "state": "moved", "why": ""} for key in self._moved]
        for key, branch in islice(self.broker.branches.prepared.items(), NAMED_MAX):
            given = branch.record.given
            state = "moving" if branch.leaving else f"given to {given}" if given else "here"
            rows.append({"xid": name_of(xid_of(key)), "state": state, "why": self.refused.get(key, "")})
        return rows


def _bound(contents: Contents, *, ours: bool) -> str:
    """Return why a branch can be at no other node, "" where it can."""
    key = contents.branch.key
    return contents.why_not(ours=ours) if key_of(xid_of(key)) == key else "its name is no Xid"
