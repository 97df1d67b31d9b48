"""What all OpenWire connections of one broker share: who is connected, temporary destinations, advisories. [C]"""

from __future__ import annotations

from typing import Final

from entrepot.core.broker import BrokerCore
from entrepot.core.observing import observe
from entrepot.protocols.openwire.advisories import Advisories
from entrepot.protocols.openwire.announced import Announced
from entrepot.protocols.openwire.commands import ActiveMQTempTopic
from entrepot.protocols.openwire.refusals import ClientIdInUse, DestinationGone
from entrepot.protocols.openwire.steering import Cluster, Steering
from entrepot.protocols.serving.session import ServerSession

AGAIN: Final = "the same connection came in on another socket"


class Acceptor:
    """Made once a broker, before its first connection; has advisories made of what the broker announces."""

    def __init__(self, broker: BrokerCore) -> None:
        self.broker: BrokerCore = broker
        self.url: str = ""  # where clients and other brokers reach this broker
        self.introduction: str | None = None  # networkProperties of our BrokerInfo: what ActiveMQ does not know
        self.cluster: Cluster = Cluster()
        self.advisories: Advisories = Advisories(broker)
        self.connections: dict[str, ServerSession] = {}
        self.clients: dict[str, Steering] = {}  # the same connections, as other brokers concern them
        self.temporaries: dict[str, str] = {}  # name -> id of the connection that made it
        observe(broker, Announced(self.advisories))

    def set_url(self, url: str) -> None:
        """Tell clients that this broker is reached at ``url``."""
        self.url = url
        self.advisories.url = url

    def enter(self, client: Steering, connection_id: str, client_id: str) -> None:
        """Let a connection in; one with the same id gives way. Raises ClientIdInUse (classic.md 4.18)."""
        session = client.session
        before = self.connections.get(connection_id)
        if before is not None:
            if before.subject.name != session.subject.name:  # or whoever hears of an id could end its connection
                raise ClientIdInUse(
                    f"Broker: {self.broker.options.name} - Connection: {connection_id} is another user's"
                )
            before.superseded(AGAIN)
        taken = session.claim(client_id, client.options.link_stealing)
        if taken:
            raise ClientIdInUse(
                f"Broker: {self.broker.options.name} - Client: {client_id} already connected from {taken}"
            )
        self.connections[connection_id] = session
        self.clients[connection_id] = client

    def leave(self, client: Steering, connection_id: str) -> None:
        """A connection is gone."""
        if self.connections.get(connection_id) is client.session:
            del self.connections[connection_id]
            del self.clients[connection_id]
            self.cluster.exited(client)

    def is_elsewhere(self, session: ServerSession, connection_id: str | None) -> bool:
        """Return whether ``connection_id`` is that of another connection that is here: its ids are its own."""
        other = self.connections.get(connection_id or "")
        return other is not None and other is not session

    def is_of_another(self, name: str, connection_id: str) -> bool:
        """Return whether the temporary destination ``name`` is there and not of this connection, whatever its name."""
        if self.temporaries.get(name, connection_id) != connection_id or name.startswith(
            f"ID:{self.broker.ids.node_id}-c"
        ):
            return True  # the second is how we call those of clients of STOMP: nobody may be there before them
        queue = self.broker.table.queues.get(name)
        if queue is not None and queue.definition.connection != connection_id:
            return True
        return name not in self.temporaries and ActiveMQTempTopic(name) in self.advisories.temporaries

    def check_answered(self, name: str) -> None:
        """Raise DestinationGone unless the temporary destination ``name`` exists, here or at a node of a cluster."""
        address = self.broker.table.addresses.get(name)
        if address is None or name in self.temporaries or len(address.remotes()) == 0:
            self.check_temporary(name)

    def check_temporary(self, name: str) -> None:
        """Raise DestinationGone unless the temporary destination ``name`` exists here."""
        if name in self.temporaries or name in self.broker.table.queues:
            return
        if ActiveMQTempTopic(name) not in self.advisories.temporaries:  # a topic of another protocol is only told of
            raise DestinationGone(name)
