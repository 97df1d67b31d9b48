"""What a broker has of Artemis: who speaks CORE, who is in its clusters, and the bridges that those ask for.

Few brokers need it, and it is a tenth of the memory of one that rests. So `assembly.py` loads it when it is needed: for
the first connection that speaks CORE, a listener that speaks nothing else, or a cluster of the configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from entrepot.cluster.clusters.connection import AllClusters, ClusterConnection
from entrepot.cluster.clusters.draining import Drain
from entrepot.cluster.clusters.grouping import GroupingHandler
from entrepot.cluster.routers.options import RouterOptions
from entrepot.cluster.routers.router import Router, Routers
from entrepot.config.clusters import PASSWORD, Clusters
from entrepot.config.model import ServingOptions
from entrepot.core.broker import BrokerCore
from entrepot.core.operators.census import Census
from entrepot.core.security.directory import User
from entrepot.protocols.artemis.acceptor import CoreAcceptor
from entrepot.protocols.artemis.doorbell import Doorbell
from entrepot.protocols.artemis.membership import Federating, Onlooker
from entrepot.protocols.artemis.notifying import is_meant
from entrepot.protocols.artemis.options import CoreOptions
from entrepot.protocols.artemis.server import CoreServerSession
from entrepot.protocols.session import Session, Shell

if TYPE_CHECKING:
    from entrepot.cluster.federation.federations import Federations

UNTRUSTED: Final = (
    "cluster-password is the default, which everybody knows: no node of the cluster comes in here. Set it on every node"
)


class _Deploying(Federating):
    """Has what others deploy loaded when the first of them does."""

    def __init__(self, make: Callable[[], Federating]) -> None:
        self._make: Final = make
        self._made: Federating | None = None

    def deploy(self, asker: Onlooker, description: bytes) -> None:
        """Fetch as ``description`` says. Raises EntrepotError."""
        if self._made is None:
            self._made = self._make()
        self._made.deploy(asker, description)

    def forget(self, asker: Onlooker) -> None:
        """What ``asker`` deployed ends."""
        if self._made is not None:
            self._made.forget(asker)


class ArtemisSide:
    """One broker's: made once. ``say``: takes what an operator should know, who and what."""

    def __init__(
        self,
        broker: BrokerCore,
        doorbell: Doorbell,
        say: Callable[[str, str], None],
        serving: ServingOptions | None = None,
    ) -> None:
        self.broker: Final = broker
        self.doorbell: Final = doorbell
        self.say: Final = say
        self.acceptor: Final = CoreAcceptor(broker)
        if serving is not None:
            self.acceptor.branch_ms = serving.branch_ms
            self.acceptor.limits = {user: (limit.sessions, limit.queues) for user, limit in serving.users}
        self.clusters: Final[list[ClusterConnection]] = []
        self.routers: Routers | None = None
        self.drain: Drain | None = None
        self.grouping: GroupingHandler | None = None

    def federate(self, federations: Federations, roles: Callable[[], Sequence[str]]) -> None:
        """Let other brokers deploy federations to this one; see `Deployments`."""

        def made() -> Federating:
            from entrepot.cluster.federation.deployed import Deployments  # noqa: PLC0415 - few brokers need it

            return Deployments(self.broker, federations.deployed, roles, federations.deploy, self.say)

        self.acceptor.federating = _Deploying(made)

    def join(self, clusters: Clusters, *, guarded: bool) -> None:
        """Make the cluster connections, not started: connections of CORE are told what the first of them knows.

        ``guarded``: the broker asks who comes.
        """
        for note in clusters.notes:
            self.say("cluster", note)
        credentials = clusters.credentials
        for options in clusters.connections:
            listens = bool(clusters.hears.get(options.name))
            self.clusters.append(
                ClusterConnection(self.broker, options, credentials, self.say, listens=listens, tell=self._tell)
            )
        if not self.clusters:
            return
        if credentials.password == PASSWORD and guarded:
            self.say("cluster", UNTRUSTED)
        else:
            self.broker.access.trust(User(credentials.user, f"plain:{credentials.password}", peer=True))
        self.doorbell.notifications.elsewhere = AllClusters(self.clusters)
        self._group(clusters)
        first = self.clusters[0]
        self.acceptor.membership = first.members
        first.members.awaits = clusters.scale_down is not None
        group = "" if clusters.scale_down is None else clusters.scale_down.group
        announces = clusters.scale_down is not None
        self.drain = Drain(first, self.say, group, announces=announces, direct=clusters.takers)
        for one in self.clusters:
            if one.registry.redistribution is not None:
                one.registry.redistribution.respect(self.drain.ways.withheld)

    def _group(self, clusters: Clusters) -> None:
        """Let the nodes agree where message groups go, if the file asks for that."""
        if clusters.grouping is None:
            return
        rules = [one.options.address for one in self.clusters]
        self.grouping = GroupingHandler(
            self.broker,
            clusters.grouping,
            lambda what: self.say("grouping-handler", what),
            self._tell,
            lambda address: any(is_meant(address, rule) for rule in rules),
        )
        for one in self.clusters:
            one.registry.group(self.grouping)

    def route(self, options: Sequence[RouterOptions], census: Census) -> None:
        """Make the connection routers, which do not look at any broker yet; `join` comes before it."""
        made = [Router(self.broker, one, census.count, self.say) for one in options]
        for one in made:
            pool = one.pool
            for cluster in self.clusters if pool is not None else ():
                assert pool is not None
                if cluster.options.name == pool.options.cluster:
                    cluster.topology.overseers.append(pool)
        self.routers = Routers(made)
        self.broker.guides = self.routers

    def greet(self, shell: Shell, options: CoreOptions, number: int, peer: str) -> Session:
        """Make the session of connection ``number``."""
        return CoreServerSession(shell, self.acceptor, options, number, peer)

    def _tell(self, kind: str, said: dict[str, object]) -> None:
        if self.doorbell.listening:
            self.doorbell.notifications.tell(kind, said)
