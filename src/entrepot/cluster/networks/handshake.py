"""How a bridge introduces itself to the other broker (classic.md 1.3). [C]"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from entrepot.base.environment import Instant
from entrepot.cluster.networks.neighbourhood import BridgeEnd, Part
from entrepot.cluster.networks.properties import write_properties
from entrepot.cluster.networks.wanted import SESSION
from entrepot.cluster.networks.wires import Wire
from entrepot.protocols.openwire.commands import (
    BrokerId,
    BrokerInfo,
    ConnectionId,
    ConnectionInfo,
    ProducerId,
    ProducerInfo,
    SessionId,
    SessionInfo,
)


class Handshake(Part):
    """Of one bridge. ``let_in``: called once messages may flow."""

    def __init__(self, end: BridgeEnd, let_in: Callable[[Instant], None]) -> None:
        self.end: Final = end
        self.let_in: Final = let_in

    def introduce(self, wire: Wire, connection: str, now: Instant) -> None:
        """Say who dialled. Classic's end of a duplex connection answers nothing before there are messages."""
        end = self.end
        options = end.options
        acceptor = end.neighbourhood.acceptor
        wire.post(
            BrokerInfo(
                broker_id=BrokerId(end.broker.ids.node_id),
                broker_url=acceptor.url,
                broker_name=end.names.here,
                duplex_connection=end.duplex,
                network_connection=True,
                network_properties=write_properties(options, end.lists) + (acceptor.introduction or ""),
            )
        )
        info = ConnectionInfo(
            connection_id=ConnectionId(connection),
            client_id=end.names.remote_client,
            user_name=options.remote_user or options.user or None,
            password=options.remote_password or options.password or None,
        )
        if end.duplex:
            wire.post(info)
            self.let_in(now)
        else:
            end.awaited[wire.ask(info)] = self

    def reply(self, wire: Wire, connection: str, now: Instant) -> None:
        """Be the other end of a duplex connection, which its initiator opened: he said who may come in to him."""
        end = self.end
        wire.post(
            ConnectionInfo(
                connection_id=ConnectionId(connection),
                client_id=end.names.remote_client,
                user_name=end.options.user or None,
                password=end.options.password or None,
            )
        )
        self.let_in(now)

    def answered(self, number: int, refusal: str | None, now: Instant) -> None:
        """The other broker lets us in, or not."""
        if refusal is not None:
            link = self.end.link
            self.end.perform(link.failed(link.attempt, f"the other broker does not let us in: {refusal}", now))
        else:
            self.let_in(now)

    @staticmethod
    def finish(wire: Wire, producer: ProducerId) -> None:
        """Open the session and the producer by which messages are sent."""
        wire.post(SessionInfo(session_id=SessionId(producer.connection_id or "", SESSION)))
        wire.post(ProducerInfo(producer_id=producer, dispatch_async=True))
