"""Destinations that a client of OpenWire makes and removes; temporary ones belong to their connection. [C]"""

from __future__ import annotations

from entrepot.base.errors import InvalidDestination, ProtocolViolation, Refused
from entrepot.core.addressing.definition import temporary
from entrepot.core.queue.queue import Queue
from entrepot.model.address import ANYCAST
from entrepot.protocols.openwire.commands import Destination, DestinationInfo
from entrepot.protocols.openwire.delivery import Subscribed
from entrepot.protocols.openwire.identity import Identity, addresses_of
from entrepot.protocols.openwire.ids import (
    DestinationOperation,
    is_queue,
    is_temporary,
    qualified_name,
    temporary_owner,
)
from entrepot.protocols.openwire.replies import Replies
from entrepot.protocols.serving.session import ServerSession


class Destinations:
    """What a client says about destinations; ``temporary``: its own."""

    def __init__(self, session: ServerSession, identity: Identity, replies: Replies, subscribed: Subscribed) -> None:
        self.session: ServerSession = session
        self.identity: Identity = identity
        self.replies: Replies = replies
        self.subscribed: Subscribed = subscribed
        self.temporary: dict[Destination, bool] = {}

    def step(self, command: DestinationInfo) -> None:
        """Make a destination or remove one, and answer. Raises Refused and what is below it."""
        where = command.destination
        if where is None:
            raise ProtocolViolation("a DestinationInfo names nothing")
        if command.operation_type == int(DestinationOperation.ADD):
            self._add(command, where)
        else:
            self._remove(where)
        self.replies.answer(command, False)

    def _add(self, command: DestinationInfo, where: Destination) -> None:
        session = self.session
        if not is_temporary(where):
            addresses = addresses_of(where)
            for address in addresses:  # of several all or none
                session.broker.access.create(session.subject, address)
            for address in addresses:
                if address.routing == ANYCAST:
                    session.broker.queues.need(address)
                else:
                    self.identity.advisories.topic_used(address.name)
            return
        if where in self.temporary:
            return
        if temporary_owner(where) != self.identity.connection_id:
            raise InvalidDestination(f"{qualified_name(where)} does not begin with the id of its connection")
        for address in addresses_of(where):
            session.broker.access.create(session.subject, address)
        name = where.physical_name or ""
        if self.identity.acceptor.is_of_another(name, self.identity.connection_id):
            raise InvalidDestination(f"{qualified_name(where)} was made by another connection")
        self.identity.acceptor.temporaries[name] = self.identity.connection_id
        if is_queue(where) and name not in session.broker.table.queues:
            session.broker.queues.create(temporary(name, self.identity.connection_id))
        self.temporary[where] = True
        self.identity.advisories.temporary_added(command)

    def _remove(self, where: Destination) -> None:
        session = self.session
        if is_temporary(where):
            if where not in self.temporary:
                return
            for subscription in self.subscribed.consumers.values():
                if subscription.info.destination == where:
                    raise Refused(f"Destination still has an active subscription: {qualified_name(where)}")
            self.delete_temporary(where)
            return
        queues: list[Queue] = []
        for address in addresses_of(where):  # of several all or none
            session.broker.access.delete(session.subject, address)
            queue = session.broker.table.queues.get(address.queue or address.name)
            if address.routing == ANYCAST and queue is not None:
                if queue.roster.is_read():
                    raise Refused(f"Destination still has an active subscription: {qualified_name(where)}")
                queues.append(queue)
        for queue in queues:
            session.broker.queues.delete(queue, "a client removed it")

    def end(self) -> None:
        """The connection is gone, and its temporary destinations with it."""
        for where in list(self.temporary):
            self.delete_temporary(where)

    def delete_temporary(self, where: Destination) -> None:
        """Remove a temporary destination of this connection, with what it holds."""
        session = self.session
        self.temporary.pop(where, None)
        name = where.physical_name or ""
        self.identity.acceptor.temporaries.pop(name, None)
        queue = session.broker.table.queues.get(name)
        if queue is not None and queue.definition.connection == self.identity.connection_id:
            session.broker.queues.delete(queue, "its connection removed it")
        connection_id = None if self.identity.info is None else self.identity.info.connection_id
        self.identity.advisories.temporary_removed(where, connection_id)
