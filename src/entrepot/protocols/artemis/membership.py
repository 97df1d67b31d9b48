"""Who is in the cluster, as connections of CORE are told: between the server and what decides in a cluster. [C]

A broker in no cluster answers everybody with its own id and no place at all, once (artemis.md 1.22). One in a cluster
has another `Membership` (`cluster/clusters/members.py`), which keeps the connections that asked as `Onlooker` and
tells them of every change.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from entrepot.base.errors import Refused
from entrepot.core.security.directory import Subject
from entrepot.protocols.artemis.options import VERSION_NEWEST
from entrepot.protocols.artemis.packets import BackupRequest, ClusterTopology, NodeAnnounce, QuorumVote, QuorumVoteReply

TAKEN_OVER_MAX: Final = 1_000


@mypyc_attr(allow_interpreted_subclasses=True)
class Onlooker:
    """A connection that asked who is in the cluster."""

    def tell(self, packet: ClusterTopology) -> None:
        """Write ``packet`` to the peer."""
        raise NotImplementedError

    def is_slow(self) -> bool:
        """Return whether the peer does not read what it was told: it is told later."""
        raise NotImplementedError

    def called(self) -> str:
        """Return where the peer is, for people."""
        raise NotImplementedError

    def subject(self) -> Subject | None:
        """Return whom the connection speaks for, None before its first session is open."""
        return None

    def hosted(self, started: bool) -> None:
        """Answer a peer that asked for a backup. One that asked nothing is told nothing."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Membership:
    """What a server of CORE asks. This one: the broker ``node`` (its UUID as text) is in no cluster."""

    def __init__(self, node: str, started: i64) -> None:
        """``started``: when it did, ms since 1970."""
        self.node: str = node
        self.started: i64 = started
        self.awaits: bool = False  # nodes that go move here what they have: their clients wait for the end of it
        self.successor: str = ""  # the node that gets what this one has, when it stops
        self.taken_over: dict[str, bool] = {}  # nodes that did

    def look(self, onlooker: Onlooker) -> None:
        """``onlooker`` asks who is there, now and from now on."""
        onlooker.tell(
            ClusterTopology(exit=False, node=self.node, event=self.started, last=True, server_version=VERSION_NEWEST)
        )

    def forget(self, onlooker: Onlooker) -> None:
        """It is gone."""

    def take_over(self, node: str) -> None:
        """``node`` gave all that it had to this broker: its clients may go on here."""
        self.taken_over.pop(node, None)
        self.taken_over[node] = True
        while len(self.taken_over) > TAKEN_OVER_MAX:
            del self.taken_over[next(iter(self.taken_over))]

    def stands_for(self, node: str) -> bool:
        """Return whether a client of ``node`` may go on here: a broker that takes over others has to have done so.

        ``node``: "" where the client knows none (artemis.md 1.20).
        """
        return not self.awaits or node in ("", self.node) or node in self.taken_over

    def rows(self) -> list[dict[str, str]]:
        """Return who is in the cluster, as ``listNetworkTopology`` says it."""
        asked = _Asked()
        self.look(asked)
        self.forget(asked)
        return asked.rows

    def admits(self, onlooker: Onlooker, user: str, password: str) -> bool:
        """Return whether a peer that gives these may take part in the cluster: nobody, where there is none."""
        return False

    def announced(self, onlooker: Onlooker, packet: NodeAnnounce) -> None:
        """A peer that was admitted says who it is and where."""

    def host(self, onlooker: Onlooker, packet: BackupRequest) -> None:
        """A peer that was admitted wants a backup hosted: not here, where there is no cluster."""
        onlooker.hosted(False)

    def follow(self, onlooker: Onlooker) -> None:
        """A peer that was admitted wants this broker's data, as Artemis replicates them: it is refused (5.2.12)."""

    def vote(self, packet: QuorumVote) -> QuorumVoteReply | None:
        """Say who is primary for a node, to a peer that was admitted; None: there is no cluster to vote in."""
        return None


@mypyc_attr(allow_interpreted_subclasses=True)
class Federating:
    """What a server of CORE does for brokers that deploy a federation to it. This one: nothing (artemis.md 4.12)."""

    def deploy(self, asker: Onlooker, description: bytes) -> None:
        """``asker`` wants this broker to fetch from an upstream; ``description``: from which, and what.

        Raises EntrepotError where it does not.
        """
        raise Refused("no federation is deployed to this broker")

    def forget(self, asker: Onlooker) -> None:
        """``asker`` is gone, and what it deployed ends."""


class _Asked(Onlooker):
    """Somebody who looks at the topology once."""

    def __init__(self) -> None:
        self.rows: list[dict[str, str]] = []

    def tell(self, packet: ClusterTopology) -> None:
        """Note one member."""
        row = {"nodeID": packet.node}
        for name, connector in (("primary", packet.primary), ("backup", packet.backup)):
            if connector is not None:
                said = {one.key: one.value for one in connector.parameters}
                row[name] = f"{said.get('host', '')}:{said.get('port', '')}"
        if "primary" in row:
            row["live"] = row["primary"]  # what older tools look for
            self.rows.append(row)

    def is_slow(self) -> bool:
        """It is told at once."""
        return False

    def called(self) -> str:
        """Return who asks."""
        return "management"
