"""Whether a node is seen from here: whether any connection leads to it, or comes from it, now.

The topology does not say so: who dies without a word stays a member, for it may come back, or its backup may serve
(artemis.md 1.22). Artemis' own nodes take a member out when their connections to it are given up, and so vote by
connections (artemis.md 1.23). To call a node gone that is not lets its backup serve beside it, so one that is not seen
is looked for first: for `GRACE` where it may not have been connected yet, for `LAPSE` where a connection was lost.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final

from entrepot.base.environment import SECOND, Duration, Instant
from entrepot.cluster.clusters.topology import Member, Overseer
from entrepot.protocols.artemis.membership import Onlooker
from entrepot.protocols.artemis.primitives import Connector

GRACE: Final[Duration] = 10 * SECOND  # retries and announcements take a second or two by default
LAPSE: Final[Duration] = 2 * SECOND  # who is there is dialled and met again by then


class Seen(Enum):
    """What is seen of a node, for people."""

    HERE = "is here"
    SOUGHT = "is looked for"
    GONE = "is not seen from here"


class Sight(Overseer):
    """Of one node. ``leads``: whether a connection that this node dialled leads to another one; ``now``: the time.

    It remembers what the topology has and a node for each connection, so it is bounded as these are.
    """

    def __init__(self, now: Callable[[], Instant], leads: Callable[[str], bool]) -> None:
        self._now: Final = now
        self._leads: Final = leads
        self._looks = False  # this node connects to others: an operator may have stopped that
        self._began: Instant = now()
        self._came: dict[Onlooker, tuple[str, Connector | None]] = {}
        self._until: dict[str, Instant] = {}  # member -> how long it is looked for, if it is not seen

    # -- what happens --------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """This node connects to others, once more: none of them is connected yet."""
        self._looks = True
        self._began = self._now()
        self._until = dict.fromkeys(self._until, self._began + GRACE)

    def end(self) -> None:
        """It has hung up, and looks for nobody: who is not seen may be there."""
        self._looks = False

    def came(self, onlooker: Onlooker, node: str, primary: Connector | None) -> None:
        """A connection that was admitted says that it comes from ``node``, a primary at ``primary``."""
        self._came[onlooker] = (node, primary)

    def went(self, onlooker: Onlooker) -> None:
        """A connection ended."""
        came = self._came.pop(onlooker, None)
        if came is not None:
            self.lost(came[0])

    def lost(self, node: str) -> None:
        """A connection to or from ``node`` was lost."""
        if node in self._until:
            self._until[node] = self._now() + LAPSE

    def member_up(self, member: Member) -> None:
        """``member`` is known: it is looked for, if it is new."""
        self._until.setdefault(member.node, self._now() + GRACE)

    def member_down(self, node: str) -> None:
        """A member took leave, or others gave it up."""
        self._until.pop(node, None)

    # -- what is seen --------------------------------------------------------------------------------------------------

    def of(self, node: str) -> Seen:
        """Return what is seen of ``node``."""
        if self._leads(node) or any(each == node for each, _ in self._came.values()):
            return Seen.HERE
        until = self._until.get(node, self._began + GRACE)
        return Seen.GONE if self._looks and self._now() >= until else Seen.SOUGHT

    def said(self, node: str) -> Connector | None:
        """Return where ``node`` says that it is, over a connection that is there."""
        return next((where for each, where in self._came.values() if each == node), None)
