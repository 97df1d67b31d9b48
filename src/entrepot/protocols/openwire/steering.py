"""A client and other brokers: what it is told of them, and that it goes to one (classic.md 2.4). [C]"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from entrepot.core.queue.consumer import Pause
from entrepot.core.queue.queue import MAYBE_DELIVERED
from entrepot.protocols.openwire.commands import (
    BrokerInfo,
    ConnectionControl,
    ConnectionInfo,
    Destination,
    TransactionId,
)
from entrepot.protocols.openwire.options import OpenWireOptions
from entrepot.protocols.openwire.replies import Replies
from entrepot.protocols.openwire.whereabouts import ZONE_OCTETS_MAX, ZONE_TOKEN
from entrepot.protocols.serving.confirmations import Settled
from entrepot.protocols.serving.life import SERVING
from entrepot.protocols.serving.session import ServerSession
from entrepot.protocols.serving.transactions import Transactions

STEERED_SINCE: Final = 6  # version of OpenWire whose ConnectionControl names brokers


@mypyc_attr(allow_interpreted_subclasses=True)
class Cluster:
    """What a connection asks about other brokers; this one knows none."""

    def list_for(self, client: Steering) -> str:
        """Return the URIs that a client should know, "" for no list."""
        return ""

    def zones_for(self, client: Steering) -> bytes | None:
        """Return where the brokers are, for a client that said where it is; None for others."""
        return None

    def infos(self, options: OpenWireOptions) -> list[BrokerInfo]:
        """Return the other brokers, for an introduction."""
        return []

    def entered(self, client: Steering) -> None:
        """A connection was let in."""

    def exited(self, client: Steering) -> None:
        """A connection that was let in is gone."""


class Steering:
    """One connection, as other brokers concern it."""

    def __init__(self, session: ServerSession, options: OpenWireOptions, replies: Replies) -> None:
        self.session: ServerSession = session
        self.number: i64 = session.number
        self.options: OpenWireOptions = options
        self.replies: Replies = replies
        self.transactions: Transactions[TransactionId] | None = None  # until it has one
        self.temporary: dict[Destination, bool] | None = None  # its temporary destinations, until it has one
        self.is_broker: bool = False
        self.fault_tolerant: bool = False  # a failover client: it goes elsewhere when told so, or when we are gone
        self.told_zone: str = ""  # where the client says that it is
        self.sent_away: bool = False  # it was told; what it asks for now, it will ask another broker again

    @property
    def follows(self) -> bool:
        """Whether this is a client that obeys when it is told of other brokers; a broker is none."""
        session = self.session
        version = self.replies.encoder.wire_format.version
        serving = session.life == SERVING and not session.closing
        return self.fault_tolerant and serving and version >= STEERED_SINCE and not self.is_broker

    def controlled(self, control: ConnectionControl) -> None:
        """The client says that it survives its broker, and perhaps where it is."""
        self.fault_tolerant = self.fault_tolerant or control.fault_tolerant
        token = control.token
        if token is not None and token.startswith(ZONE_TOKEN) and len(token) <= ZONE_OCTETS_MAX:
            self.told_zone = token[len(ZONE_TOKEN) :].decode("utf-8", "replace")

    def introduce(self, cluster: Cluster, info: ConnectionInfo) -> None:
        """The client was let in: tell it of other brokers, if it asks for that or obeys."""
        if info.manageable:
            self.tell_brokers(cluster, cluster.list_for(self))
        elif self.follows:
            brokers = cluster.list_for(self)
            if brokers:
                self.tell_brokers(cluster, brokers)

    def tell_brokers(self, cluster: Cluster, brokers: str, place: str = "") -> None:
        """Say which brokers there are, and to which of them the client should go; "" to none."""
        self.replies.write(
            ConnectionControl(
                fault_tolerant=self.session.broker.journal.pages,
                connected_brokers=brokers,
                reconnect_to=place,
                token=cluster.zones_for(self),
            )
        )

    def hold_back(self, departure: Settled | None) -> None:
        """Deliver nothing more, since the client is to move, and tell ``departure`` of answers; None: go on."""
        outlet = self.session.outlet
        self.session.confirmations.settled = departure
        if departure is not None:
            outlet.pause(Pause.MOVING)
            return
        for subscription in outlet.subscriptions:
            subscription.window.lift(Pause.MOVING)
        for subscription in list(outlet.subscriptions):
            subscription.relieved()

    def is_idle(self) -> bool:
        """Return whether the client holds nothing, and waits for nothing."""
        patience = self.session.patience
        waits = patience is not None and len(patience.held) > 0
        return not self.is_transacting() and self.unsettled() == 0 and not waits

    def is_transacting(self) -> bool:
        """Return whether the client has a transaction open."""
        transactions = self.transactions
        return transactions is not None and len(transactions.open) > 0

    def unsettled(self) -> int:
        """Return how many messages the client holds, and answers that it waits for."""
        count = int(self.session.confirmations.waiting)
        for subscription in self.session.outlet.subscriptions:
            for consumer in subscription.consumers:
                count += len(consumer.in_flight)
        return count

    def is_durable(self) -> bool:
        """Return whether the client has a durable subscription open."""
        return any(subscription.durable_name for subscription in self.session.outlet.subscriptions)

    def send_away(self, cluster: Cluster, place: str, brokers: str) -> None:
        """Tell the client to go to ``place``; ``brokers``: what it should know from now on."""
        self.tell_brokers(cluster, brokers)  # first: who is told to go dials by its list at once
        self.tell_brokers(cluster, "", place)
        self.sent_away = True
        self.session.last_delivered = MAYBE_DELIVERED
