"""Destinations that a client of OpenWire makes and removes; temporary ones belong to their connection. [C]"""

from __future__ import annotations

from typing import TYPE_CHECKING

from entrepot.base.errors import InvalidDestination, ProtocolViolation, Refused
from entrepot.core.queue import Queue
from entrepot.model.address import ANYCAST
from entrepot.protocols.openwire.commands import Destination, DestinationInfo
from entrepot.protocols.openwire.ids import (
    DestinationOperation,
    is_queue,
    is_temporary,
    qualified_name,
    temporary_owner,
)

if TYPE_CHECKING:
    from entrepot.protocols.openwire.server import OpenWireSession


class Destinations:
    """What a client says about destinations. Its temporary ones stand in ``session.temporary``; only this adds them."""

    def __init__(self, session: OpenWireSession) -> None:
        self.session: OpenWireSession = session

    def step(self, command: DestinationInfo) -> None:
        """Make a destination or remove one, and answer. Raises Refused and what is below it."""
        where = command.destination
        if where is None:
            raise ProtocolViolation("a DestinationInfo names nothing")
        if command.operation_type == int(DestinationOperation.ADD):
            self._add(command, where)
        else:
            self._remove(where)
        self.session.answer(command, False)

    def _add(self, command: DestinationInfo, where: Destination) -> None:
        session = self.session
        if not is_temporary(where):
            addresses = session.addresses(where)
            for address in addresses:  # of several all or none
                session.broker.access.create(session.subject, address)
            for address in addresses:
                if address.routing == ANYCAST:
                    session.broker.queues.need(address)
                else:
                    session.advisories.topic_used(address.name)
            return
        if where in session.temporary:
            return
        if temporary_owner(where) != session.connection_id:
            raise InvalidDestination(f"{qualified_name(where)} does not begin with the id of its connection")
        for address in session.addresses(where):
            session.broker.access.create(session.subject, address)
        name = where.physical_name or ""
        if session.acceptor.is_of_another(name, session.connection_id):
            raise InvalidDestination(f"{qualified_name(where)} was made by another connection")
        session.acceptor.temporaries[name] = session.connection_id
        if is_queue(where) and name not in session.broker.table.queues:
            queue = session.broker.queues.create(name, name, ANYCAST, durable=False, owner=session.connection_id)
            queue.temporary = True
        session.temporary[where] = True
        session.advisories.temporary_added(command)

    def _remove(self, where: Destination) -> None:
        session = self.session
        if is_temporary(where):
            if where not in session.temporary:
                return
            for subscription in session.consumers.values():
                if subscription.info.destination == where:
                    raise Refused(f"Destination still has an active subscription: {qualified_name(where)}")
            self.delete_temporary(where)
            return
        queues: list[Queue] = []
        for address in session.addresses(where):  # of several all or none
            session.broker.access.delete(session.subject, address)
            queue = session.broker.table.queues.get(address.queue or address.name)
            if address.routing == ANYCAST and queue is not None:
                if queue.roster.consumers:
                    raise Refused(f"Destination still has an active subscription: {qualified_name(where)}")
                queues.append(queue)
        for queue in queues:
            session.broker.queues.delete(queue, "a client removed it")

    def delete_temporary(self, where: Destination) -> None:
        """Remove a temporary destination of this connection, with what it holds."""
        session = self.session
        session.temporary.pop(where, None)
        name = where.physical_name or ""
        session.acceptor.temporaries.pop(name, None)
        queue = session.broker.table.queues.get(name)
        if queue is not None and queue.owner == session.connection_id:
            session.broker.queues.delete(queue, "its connection removed it")
        connection_id = None if session.info is None else session.info.connection_id
        session.advisories.temporary_removed(where, connection_id)
