"""What the connections of one broker are told of its cluster, and whom it admits (artemis.md 1.10, 1.19, 1.22).

Every connection that asked is told all members once, and each change after that. Changes are collected for `SETTLING`
and told once for each member: a storm of news costs each connection one packet a member and round. One that does not
read waits with its changes, not with packets; and no turn tells more than `TOLD_MAX`.
"""

from __future__ import annotations

from collections.abc import Callable
from hmac import compare_digest
from typing import Final

from entrepot.base.environment import MILLISECOND, Instant
from entrepot.cluster.clusters.hosted import Backups
from entrepot.cluster.clusters.sight import Sight
from entrepot.cluster.clusters.topology import Member, Overseer, Topology, Verdict
from entrepot.cluster.clusters.voting import voted
from entrepot.core.broker import BrokerCore
from entrepot.core.scheduling.timed import Alarm
from entrepot.protocols.artemis.membership import Membership, Onlooker
from entrepot.protocols.artemis.options import VERSION_NEWEST
from entrepot.protocols.artemis.packets import BackupRequest, ClusterTopology, NodeAnnounce, QuorumVote, QuorumVoteReply

SETTLING: Final = 5 * MILLISECOND
SLOW: Final = 200 * MILLISECOND  # until who does not read is looked at again
TOLD_MAX: Final = 500  # packets in one turn
REMOVAL: Final = 114  # in this form to clients of every version (artemis.md 1.22): newer ones say a version, too
SAID_MAX: Final = 1_000  # peers whose refusal was said: each once


class Credentials:
    """The user and the password that nodes of one cluster show each other."""

    def __init__(self, user: str, password: str) -> None:
        self.user: Final = user
        self.password: Final = password

    def match(self, user: str, password: str) -> bool:
        """Return whether these are right, in a time that does not tell how far they are."""
        right = compare_digest(user.encode("utf-8", "replace"), self.user.encode("utf-8", "replace"))
        return compare_digest(password.encode("utf-8", "replace"), self.password.encode("utf-8", "replace")) and right


class _Told(Alarm):
    """Tells what has changed."""

    def __init__(self, due: Instant, members: Members) -> None:
        super().__init__(due)
        self._members: Final = members

    def ring(self, now: Instant) -> None:
        """Tell a part of it."""
        self._members.tell()


class Members(Membership, Overseer):
    """The cluster as one broker tells it. ``say``: takes what an operator should know; ``leads``: as of `Sight`."""

    def __init__(
        self,
        broker: BrokerCore,
        topology: Topology,
        credentials: Credentials,
        say: Callable[[str], None],
        leads: Callable[[str], bool],
    ) -> None:
        Membership.__init__(self, topology.own.node, broker.wall)
        self.topology: Final = topology
        self._broker: Final = broker
        self._credentials: Final = credentials
        self._say: Final = say
        self._onlookers: dict[Onlooker, dict[str, None]] = {}  # -> members of which it has to be told
        self._waiting: dict[Onlooker, None] = {}  # who has something to be told
        self._alarm: _Told | None = None
        self._said: dict[str, None] = {}
        self.hidden = False  # this node serves nobody: others are not told where it is
        self.backups: Backups | None = None  # that this node hosts for others, where it may
        self.sight: Final = Sight(lambda: int(broker.now), leads)
        topology.overseers += [self, self.sight]

    # -- what connections ask ------------------------------------------------------------------------------------------

    def look(self, onlooker: Onlooker) -> None:
        """Tell all members; the last one says that it is."""
        members = list(self.topology.members.values())
        for member in members:
            onlooker.tell(packet_of(member, last=member is members[-1]))
        self._onlookers[onlooker] = {}
        self._waiting.pop(onlooker, None)

    def forget(self, onlooker: Onlooker) -> None:
        """Tell it nothing more."""
        self._onlookers.pop(onlooker, None)
        self._waiting.pop(onlooker, None)
        self.sight.went(onlooker)

    def admits(self, onlooker: Onlooker, user: str, password: str) -> bool:
        """Return whether ``user`` and ``password`` are those of the cluster; say whom they kept out."""
        if self._credentials.match(user, password):
            return True
        self._say_once(
            onlooker.called().rpartition(":")[0],
            f"{onlooker.called()} is not admitted to the cluster: its cluster-user or cluster-password is another",
        )
        return False

    def announced(self, onlooker: Onlooker, packet: NodeAnnounce) -> None:
        """A node says who it is: a primary, or with ``backup`` one that stands in for it."""
        if packet.backup:
            news = Member(
                packet.node, packet.event, None, packet.connector, packet.backup_group, packet.scale_down_group
            )
            self.topology.update_backup(news, int(self._broker.wall))
            return
        news = Member(
            packet.node,
            packet.event,
            packet.connector,
            packet.backup_connector,
            packet.backup_group,
            packet.scale_down_group,
        )
        self.heard(news, onlooker.called())
        self.sight.came(onlooker, packet.node, packet.connector)

    def heard(self, news: Member, source: str) -> Verdict:
        """Take ``news`` that came from ``source``; say when it shows a node id that two have."""
        verdict = self.topology.update(news)
        if verdict is Verdict.IMPOSTOR:
            self._say_once(
                repr(news.primary),
                f"{source} says that the node {news.node} is at {where(news)}, and that is this broker's id: its data "
                "directory is a copy of this one, or this one of it. It is not taken into the cluster; start it with "
                "an empty data directory",
            )
        elif verdict is Verdict.FULL:
            self._say_once("full", f"there are {len(self.topology.members)} nodes: {news.node} is not taken in")
        return verdict

    def host(self, onlooker: Onlooker, packet: BackupRequest) -> None:
        """A node that was admitted wants a backup here: nobody gets one where the configuration hosts none."""
        if self.backups is None:
            onlooker.hosted(False)
        else:
            self.backups.asked(onlooker, packet)

    def follow(self, onlooker: Onlooker) -> None:
        """A backup of Artemis is sent elsewhere; operators are told, once for each place."""
        place = onlooker.called().rpartition(":")[0]
        self._say_once(
            f"follow {place}",
            f"{place}: its data are asked for by a backup of Artemis, whose replication is not spoken here: it is sent "
            "elsewhere. Give it and its primary a <group-name>",
        )

    def vote(self, packet: QuorumVote) -> QuorumVoteReply | None:
        """Say of a node what this one sees of it; operators are told who asked for what, once."""
        member = self.topology.members.get(packet.node)
        known = None if member is None else member.primary
        seen = self.sight.of(packet.node)
        reply = voted(packet, known or self.sight.said(packet.node), seen)
        asks = "whether it may stay primary" if packet.vote else "whether its backup may take over"
        self._say_once(
            f"{packet.node} {seen.name} {packet.vote}",
            f"votes on the node {packet.node}, {asks}: that node {seen.value}, so {'yes' if reply.vote else 'no'}",
        )
        return reply

    # -- what the topology says ----------------------------------------------------------------------------------------

    def member_up(self, member: Member) -> None:
        """Tell everybody, soon."""
        self._changed(member.node)

    def member_down(self, node: str) -> None:
        """Tell everybody, soon."""
        self._changed(node)

    def _changed(self, node: str) -> None:
        for onlooker, changes in self._onlookers.items():
            changes[node] = None
            self._waiting[onlooker] = None
        self._tell_in(SETTLING)

    def _tell_in(self, delay: Instant) -> None:
        if self._alarm is None and self._waiting:
            self._alarm = _Told(int(self._broker.now) + delay, self)
            self._broker.timetable.add(self._alarm)

    def tell(self) -> None:
        """Tell what has changed: to each who reads, and to no more than one turn may."""
        self._alarm = None
        told = 0
        for onlooker in list(self._waiting):
            if told >= TOLD_MAX:
                self._tell_in(0)
                return
            if onlooker.is_slow():
                continue
            changes = self._onlookers[onlooker]
            del self._waiting[onlooker]
            for node in changes:
                onlooker.tell(self._packet(node))
            told += len(changes)
            changes.clear()
        self._tell_in(SLOW)

    def _packet(self, node: str) -> ClusterTopology:
        member = self.topology.members.get(node)
        if member is not None:
            return packet_of(member, last=False)
        event = self.topology.gone.get(node, int(self._broker.wall))
        return ClusterTopology(exit=True, node=node, event=event, server_version=VERSION_NEWEST, form=REMOVAL)

    def _say_once(self, key: str, what: str) -> None:
        if key not in self._said and len(self._said) < SAID_MAX:
            self._said[key] = None
            self._say(what)


class Siblings(Members):
    """The same for processes that clients take for one broker: each tells of itself, and of no place.

    So a client comes back to the place that it dialled, which all processes share, and to whichever takes it there.
    """

    def look(self, onlooker: Onlooker) -> None:
        """Tell of this node, as a broker does that is in no cluster (artemis.md 1.22)."""
        Membership.look(self, onlooker)


def packet_of(member: Member, *, last: bool) -> ClusterTopology:
    """Return what says that ``member`` is there."""
    return ClusterTopology(
        exit=False,
        node=member.node,
        event=member.event,
        primary=member.primary,
        backup=member.backup,
        last=last,
        backup_group=member.backup_group,
        scale_down_group=member.scale_down_group,
        server_version=VERSION_NEWEST,
    )


def member_of(packet: ClusterTopology) -> Member:
    """Return the member that ``packet`` tells of."""
    return Member(
        packet.node, packet.event, packet.primary, packet.backup, packet.backup_group, packet.scale_down_group
    )


def where(member: Member) -> str:
    """Return where a member is, for people."""
    if member.primary is None:
        return "no place"
    return f"{member.primary.value('host')}:{member.primary.value('port')}"
