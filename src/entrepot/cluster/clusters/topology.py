"""Who is in a cluster: the members that a node knows, and what it believes when it is told of one (artemis.md 1.22).

A member is known by its node id. What is said of it carries an event id, the clock of the node that announced it: a
larger one wins, so that news may come by several ways, late and in any order. A primary and its backup are two parts of
one member, which are told apart and kept together. Who has gone is remembered, lest old news bring him back.

Two nodes with one id cannot both be members: news of *this* node with another place than its own is refused
(`Verdict.IMPOSTOR`), which is how a copied data directory is found. That this node is gone is never believed: it
announces itself anew.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from entrepot.base.environment import WallTime
from entrepot.protocols.artemis.primitives import Connector

MEMBERS_MAX: Final = 1_000
"""How many nodes a cluster may have here: what is told of more is refused, or who sends news could fill memory."""
GONE_MAX: Final = 1_000
LOCAL: Final = ("localaddress", "localport")
"""Parameters of a connector that say where a connection begins, and so nothing about where it leads."""


def parameters_of(connector: Connector) -> dict[str, str]:
    """Return where ``connector`` leads: its parameters as text, by name in small letters (artemis.md 1.6)."""
    found = {
        one.key.replace("-", "").lower(): str(one.value).lower() if isinstance(one.value, bool) else str(one.value)
        for one in connector.parameters
    }
    for name in LOCAL:
        found.pop(name, None)
    return found


def same_place(one: Connector | None, other: Connector | None) -> bool:
    """Return whether both lead to the same place; what they are called does not matter."""
    if one is None or other is None:
        return one is other
    return parameters_of(one) == parameters_of(other)


class Member:
    """One node. ``event``: the clock of who announced it, ms since 1970."""

    def __init__(
        self,
        node: str,
        event: WallTime,
        primary: Connector | None = None,
        backup: Connector | None = None,
        backup_group: str | None = None,
        scale_down_group: str | None = None,
    ) -> None:
        self.node: Final = node
        self.event: Final = event
        self.primary: Final = primary
        self.backup: Final = backup
        self.backup_group: Final = backup_group
        self.scale_down_group: Final = scale_down_group

    def __repr__(self) -> str:
        return f"Member({self.node!r}, {self.event}, {self.primary!r}, {self.backup!r})"

    def renewed(self, event: WallTime) -> Member:
        """Return the same, announced at ``event``."""
        return Member(self.node, event, self.primary, self.backup, self.backup_group, self.scale_down_group)


class Verdict(Enum):
    """What became of a piece of news."""

    TAKEN = "taken"
    STALE = "stale"  # what is known is at least as new
    GONE = "gone"  # it left after that
    IMPOSTOR = "impostor"  # it says that this node is somewhere else
    FULL = "full"  # there are too many


class Overseer:
    """Who wants to know when members come, change and go."""

    def member_up(self, member: Member) -> None:
        """``member`` is new, or something about it is."""

    def member_down(self, node: str) -> None:
        """The member ``node`` is gone."""


class Topology:
    """The members that one node knows. ``own``: the node itself, which is always among them."""

    def __init__(self, own: Member) -> None:
        self.members: dict[str, Member] = {own.node: own}
        self.gone: dict[str, WallTime] = {}  # node -> when it left, oldest first
        self.overseers: list[Overseer] = []
        self._node: Final = own.node

    @property
    def own(self) -> Member:
        """Return this node."""
        return self.members[self._node]

    def announce(self, now: WallTime) -> Member:
        """Say of this node that it is still there, with a later event than ever before; return what is said."""
        own = self.own
        renewed = own.renewed(max(now, own.event + 1, self.gone.pop(own.node, 0) + 1))
        self._put(renewed)
        return renewed

    def update(self, news: Member) -> Verdict:
        """Believe ``news`` of a member, or not."""
        known = self.members.get(news.node)
        if news.node == self._node:
            assert known is not None
            if news.primary is not None and not same_place(news.primary, known.primary):
                return Verdict.IMPOSTOR
        if news.event <= self.gone.get(news.node, -1):
            return Verdict.GONE
        if known is None:
            if len(self.members) >= MEMBERS_MAX:
                return Verdict.FULL
            self._put(news)
            return Verdict.TAKEN
        if news.event > known.event or (known.primary is None and news.primary is not None):
            self._put(_merged(known, news))
            return Verdict.TAKEN
        if known.backup is None and news.backup is not None:
            self._put(_with_backup(known, news, known.event))
            return Verdict.TAKEN
        return Verdict.STALE

    def update_backup(self, news: Member, now: WallTime) -> Verdict:
        """A backup says that it stands in for the node of ``news``: its part alone changes."""
        known = self.members.get(news.node)
        if known is None:
            return self.update(news)
        self._put(_with_backup(known, news, max(now, known.event + 1)))
        return Verdict.TAKEN

    def stands_in(self, backup: Connector | None, now: WallTime) -> None:
        """``backup`` goes on where this node ends; None: nobody would."""
        own = self.own
        news = Member(own.node, own.event, own.primary, backup, own.backup_group, own.scale_down_group)
        self._put(news.renewed(max(now, own.event + 1)))

    def remove(self, node: str, event: WallTime) -> bool:
        """``node`` left at ``event``; return whether that is news. Of this node it is not believed."""
        if node == self._node:
            self.gone[node] = max(event, self.gone.get(node, 0))
            return False
        known = self.members.get(node)
        if known is not None and known.event > event:
            return False
        self.gone.pop(node, None)
        self.gone[node] = event
        while len(self.gone) > GONE_MAX:
            del self.gone[next(iter(self.gone))]
        if known is None:
            return False
        del self.members[node]
        for overseer in self.overseers:
            overseer.member_down(node)
        return True

    def _put(self, member: Member) -> None:
        self.gone.pop(member.node, None)
        self.members[member.node] = member
        for overseer in self.overseers:
            overseer.member_up(member)


def _merged(known: Member, news: Member) -> Member:
    """Return ``news`` with the parts of ``known`` that it does not name."""
    return Member(
        news.node,
        news.event,
        known.primary if news.primary is None else news.primary,
        known.backup if news.backup is None else news.backup,
        news.backup_group,
        news.scale_down_group,
    )


def _with_backup(known: Member, news: Member, event: WallTime) -> Member:
    return Member(known.node, event, known.primary, news.backup, news.backup_group, news.scale_down_group)
