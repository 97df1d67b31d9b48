"""What a broker has of Artemis: who speaks CORE, who is in its clusters, and the bridges that those ask for.

Few brokers need it, and it is a tenth of the memory of one that rests. So `assembly.py` loads it when it is needed: for
the first connection that speaks CORE, a listener that speaks nothing else, or a cluster of the configuration.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from entrepot.cluster.clusters.connection import AllClusters, ClusterConnection
from entrepot.config.clusters import PASSWORD, Clusters
from entrepot.core.broker import BrokerCore
from entrepot.core.security.directory import User
from entrepot.protocols.artemis.acceptor import CoreAcceptor
from entrepot.protocols.artemis.doorbell import Doorbell
from entrepot.protocols.artemis.options import CoreOptions
from entrepot.protocols.artemis.server import CoreServerSession
from entrepot.protocols.session import Session, Shell

UNTRUSTED: Final = (
    "cluster-password is the default, which everybody knows: no node of the cluster comes in here. Set it on every node"
)


class ArtemisSide:
    """One broker's: made once. ``say``: takes what an operator should know, who and what."""

    def __init__(self, broker: BrokerCore, doorbell: Doorbell, say: Callable[[str, str], None]) -> None:
        self.broker: Final = broker
        self.doorbell: Final = doorbell
        self.say: Final = say
        self.acceptor: Final = CoreAcceptor(broker)
        self.clusters: Final[list[ClusterConnection]] = []

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
        self.acceptor.membership = self.clusters[0].members

    def greet(self, shell: Shell, options: CoreOptions, number: int, peer: str) -> Session:
        """Make the session of connection ``number``."""
        return CoreServerSession(shell, self.acceptor, options, number, peer)

    def _tell(self, kind: str, said: dict[str, object]) -> None:
        if self.doorbell.listening:
            self.doorbell.notifications.tell(kind, said)
