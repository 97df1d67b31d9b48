"""What `Received.acknowledge` returns: who waits for it knows that the broker has stored the acknowledgement.

The acknowledgement itself is on its way already, and asks for no answer. Who waits has the broker asked, behind it,
for an answer that comes when all before it is on disk (`DeliveryPort.confirm`); who does not wait pays nothing.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from entrepot.base.errors import EntrepotError, Fault, Refused, TransactionError
from entrepot.client.base import ConnectionBase
from entrepot.client.portal import Portal
from entrepot.protocols.conversing.modes import Acknowledge
from entrepot.protocols.conversing.port import DeliveryPort, in_doubt


class Acknowledgement:
    """``await`` it in asyncio, or call `wait` in the blocking client, to know that it is stored; or forget it.

    Raises Unreachable when the connection was lost meanwhile: then it is in doubt, and the message may come again.
    Raises Refused when nothing was acknowledged: the consumer was closed before, the message was given back by
    `Session.recover`, it was only browsed; TransactionError in a transacted session, which settles with its commit.
    In AUTO and DUPS_OK the message counts as processed when somebody waits, also within an iteration.
    """

    __slots__ = ("_connection", "_delivery", "_mark", "_portal")

    def __init__(self, delivery: DeliveryPort, connection: ConnectionBase | None, portal: Portal | None) -> None:
        self._delivery: Final = delivery
        self._connection: Final = connection
        self._portal: Final = portal
        self._mark = -1

    def begin(self) -> None:
        """Settle the message as the mode of its session says; in the thread of the connection."""
        self._mark = self._delivery.acknowledge()

    def wait(self) -> None:
        """Block until it is stored. For the blocking client; raises as the class says."""
        if self._portal is None:
            raise Fault("an acknowledgement of the asyncio client is awaited")
        self._portal.call(self._stored)

    def __await__(self) -> Generator[object, None, None]:
        if self._portal is not None:
            raise Fault("the blocking client has no event loop: call `wait` of the acknowledgement")
        return self._stored().__await__()

    async def _stored(self) -> None:
        connection = self._connection
        if connection is None:
            raise Fault("this message came from no connection")
        delivery = self._delivery
        consumer = delivery.consumer()
        if consumer.browser:
            raise Refused("a browser looks at messages and settles none", remedy="receive it with a consumer")
        if consumer.mode == Acknowledge.TRANSACTED:
            raise TransactionError("a transacted session settles what it received with its commit")
        try:
            _ = connection.conversation
        except EntrepotError as error:
            raise in_doubt(str(error)) from error
        if delivery.is_lost():
            raise in_doubt("the connection was lost after the message came")
        if delivery.live and not consumer.closed and consumer.mode in (Acknowledge.AUTO, Acknowledge.DUPS_OK):
            delivery.done()
        if delivery.live:
            why = "its consumer was closed before" if consumer.closed else "it is to be handed out again"
            raise Refused(f"the message was not acknowledged: {why}", remedy="it comes again: acknowledge it then")
        consumer.flush()
        await connection.ask(lambda answer: delivery.confirm(self._mark, answer))
