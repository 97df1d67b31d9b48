"""The prepared branches of a node that gives all it has to another one, one after the other (`gift.py`).

They go before the queues: what a branch has taken comes back, if it is rolled back there, before what follows it here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from entrepot.cluster.clusters.gift import CHANNEL, Gift, Target
from entrepot.core.broker import BrokerCore
from entrepot.core.transactions.branches import Branch
from entrepot.model import address as names
from entrepot.model.ids import UUID_OCTETS, uuid_text
from entrepot.protocols.artemis.packets import CreateSession, CreateSessionReply, ExceptionReply, Packet
from entrepot.protocols.artemis.schema import VERSION_MAX
from entrepot.protocols.artemis.transacting import key_of, name_of, xid_of

SESSIONS: Final = 1
TRIES_MAX: Final = 20  # of a branch that may be there: the disk of the target may not have it yet, which takes a moment
NAMED_MAX: Final = 1_000  # branches that a report names


class Handing:
    """Of one drain. ``moved``: branches that the target has; ``refused``: those that stay, and why."""

    def __init__(self, broker: BrokerCore, tell: Callable[[str], None]) -> None:
        self.broker: Final = broker
        self.moved: Final[dict[bytes, None]] = {}
        self.count = 0
        self.refused: Final[dict[bytes, str]] = {}
        self._tries: Final[dict[bytes, int]] = {}
        self._tell: Final = tell
        self._target: Target | None = None
        self._opened = False
        self._current: Gift | None = None

    def begin(self) -> None:
        """A drain begins anew."""
        self.moved.clear()
        self.count = 0
        self.refused.clear()

    def connected(self, target: Target, user: str, password: str) -> None:
        """The target may be given something: open a session there."""
        self.unanswered()
        self.refused.clear()
        self._tries.clear()
        self._target = target
        target.client.send(
            CreateSession(
                name=uuid_text(self.broker.entropy.token(UUID_OCTETS)),
                session_channel=CHANNEL,
                version=VERSION_MAX,
                user=user or None,
                password=password or None,
                min_large=100 * 1024,
                xa=True,
                window=-1,
                channel=SESSIONS,
            )
        )

    def told(self, packet: Packet) -> bool:
        """Take what the target says of this; False: it is for somebody else."""
        if packet.channel == SESSIONS and self._target is not None and not self._opened:
            if isinstance(packet, ExceptionReply):
                why = f"the target opens no session for it: {packet.text or packet.code}"
                self.refused.update(dict.fromkeys(self.broker.branches.prepared, why))
            self._opened = isinstance(packet, (CreateSessionReply, ExceptionReply))
            return self._opened
        if packet.channel != CHANNEL:
            return False
        if self._current is not None:
            self._current.told(packet)
        return True

    def move(self) -> bool:
        """Go on; return whether no branch is left that can move."""
        target = self._target
        if target is None:
            return not self.broker.branches.prepared
        if self._current is not None:
            self._current.go_on()
            return False
        for key, branch in self.broker.branches.prepared.items():
            if key in self.refused or branch.ending:
                continue
            if not self._opened:
                return False
            why = self.why_not(branch, target.node)
            if why:
                self._stays(key, why)
                continue
            self._current = Gift(self.broker, key, target, self._over)
            self._current.begin()
            return False
        return True

    def unanswered(self) -> None:
        """The connection is gone, or the drain ends."""
        self._target = None
        self._opened = False
        current, self._current = self._current, None
        if current is not None:
            current.leave()

    def _over(self, gift: Gift, why: str) -> None:
        self._current = None
        if why and gift.again and self._tries.get(gift.key, 0) < TRIES_MAX:
            self._tries[gift.key] = self._tries.get(gift.key, 0) + 1
        elif why:
            self._stays(gift.key, why)
        elif gift.key not in self.broker.branches.prepared:
            self.count += 1
            if len(self.moved) < NAMED_MAX:
                self.moved[gift.key] = None

    def _stays(self, key: bytes, why: str) -> None:
        self.refused[key] = why
        self._tell(f"the branch {name_of(xid_of(key))} stays: {why}")

    # -- what is told of them ------------------------------------------------------------------------------------------

    def why_not(self, branch: Branch, node: str) -> str:
        """Return why ``branch`` does not go to ``node``, "" for one that does; "" as node: to any."""
        given = branch.record.given
        if given and node and given != node:
            return f"the node {given} was given it, and may have it: entrepot drain --to {given}"
        if key_of(xid_of(branch.key)) != branch.key:
            return "its name is no Xid"
        for text in dict.fromkeys(text for _, text in branch.record.sends):
            meant = names.parse(text)
            if len(meant) != 1:
                return f"it sends one message to {text}"
            queue = self.broker.table.queues.get(meant[0].queue or meant[0].name)
            if queue is not None and queue.definition.temporary:
                return f"it sends to {queue.name}, which is temporary"
        for hold in branch.holds:
            if hold.queue.definition.temporary:
                return f"it has taken something from {hold.queue.name}, which is temporary"
        return ""

    def plan(self) -> list[tuple[str, int, str]]:
        """Return (name, messages, why it stays) of what is prepared here."""
        found = list(self.broker.branches.prepared.items())[:NAMED_MAX]
        return [
            (name_of(xid_of(key)), len(one.record.sends) + len(one.holds), self.why_not(one, "")) for key, one in found
        ]

    def report(self) -> list[dict[str, str]]:
        """Return what became of each: the Xid, ``moved`` or ``here`` or ``moving``, and why it stays."""
        rows = [{"xid": name_of(xid_of(key)), "state": "moved", "why": ""} for key in self.moved]
        for key, branch in list(self.broker.branches.prepared.items())[:NAMED_MAX]:
            given = branch.record.given
            state = f"given to {given}" if given else "here"
            rows.append({"xid": name_of(xid_of(key)), "state": state, "why": self.refused.get(key, "")})
        return rows
