"""What `Received.acknowledge` returns: who waits for it knows that the broker has stored the acknowledgement.

The acknowledgement itself is on its way already, and asks for no answer. Who waits has the broker asked, behind it,
for an answer that comes when all before it is on disk (`ConversationCore.confirm`); who does not wait pays nothing.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Final

from entrepot.base.errors import EntrepotError, Fault, Refused, TransactionError
from entrepot.protocols.openwire.consumption import Acknowledge, Delivery
from entrepot.protocols.openwire.conversation import in_doubt

if TYPE_CHECKING:
    from entrepot.client.connection import Connection
    from entrepot.client.portal import Portal


class Acknowledgement:
    """``await`` it in asyncio, or call `wait` in the blocking client, to know that it is stored; or forget it.

    Raises Unreachable when the connection was lost meanwhile: then it is in doubt, and the message may come again.
    Raises Refused when nothing was acknowledged: the consumer was closed before, the message was given back by
    `Session.recover`, it was only browsed; TransactionError in a transacted session, which settles with its commit.
    In AUTO and DUPS_OK the message counts as processed when somebody waits, also within an iteration.
    """

    __slots__ = ("_connection", "_delivery", "_portal", "_reports")

    def __init__(self, delivery: Delivery, connection: Connection | None, portal: Portal | None) -> None:
        self._delivery: Final = delivery
        self._connection: Final = connection
        self._portal: Final = portal
        self._reports = -1

    def begin(self) -> None:
        """Settle the message as the mode of its session says; in the thread of the connection."""
        delivery = self._delivery
        inbox = delivery.inbox
        self._reports = inbox.port.reports()
        if inbox.mode == Acknowledge.INDIVIDUAL:
            if not inbox.closed:
                inbox.acknowledge_one(delivery)
        elif inbox.mode == Acknowledge.CLIENT and delivery.live:
            inbox.port.acknowledge_session(inbox)

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
        inbox = delivery.inbox
        if inbox.browser:
            raise Refused("a browser looks at messages and settles none", remedy="receive it with a consumer")
        if inbox.mode == Acknowledge.TRANSACTED:
            raise TransactionError("a transacted session settles what it received with its commit")
        try:
            core = connection.core
        except EntrepotError as error:
            raise in_doubt(str(error)) from error
        if delivery.era != core.losses:
            raise in_doubt("the connection was lost after the message came")
        if delivery.live and not inbox.closed and inbox.mode in (Acknowledge.AUTO, Acknowledge.DUPS_OK):
            inbox.done(delivery)
        if delivery.live:
            why = "its consumer was closed before" if inbox.closed else "it is to be handed out again"
            raise Refused(f"the message was not acknowledged: {why}", remedy="it comes again: acknowledge it then")
        inbox.flush()
        await connection.ask(lambda answer: core.confirm(delivery.era, self._reports, answer))
