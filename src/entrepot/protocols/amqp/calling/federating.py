"""The links of a federation from the side that dialled: one that says it is one, and others that read queues. [C]"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.errors import InvalidDestination
from entrepot.model.address import ANYCAST, Destination
from entrepot.protocols.amqp.calling.sending import Sending
from entrepot.protocols.amqp.calling.taking import Taking
from entrepot.protocols.amqp.convert import Arrived
from entrepot.protocols.amqp.federating import CONTROL, POLICY, PRIORITY, QUEUES, SPOKEN, VERSION
from entrepot.protocols.amqp.large import LargeArrival
from entrepot.protocols.amqp.naming import QUEUE, SELECTOR, TEMPORARY_TOPIC, TOPIC
from entrepot.protocols.amqp.performatives import Attach, Modified, Source, Target
from entrepot.protocols.amqp.primitives import INT_4, Described, Exact
from entrepot.protocols.amqp.session import AmqpSession

FILTER: Final = "jms-selector"
DETACHED: Final = "link-detach"


class ControlSending(Sending):
    """The link by which a connection is one of a federation; nothing goes over it."""

    def asked(self, said: Attach) -> None:
        """Ask for a node that takes commands."""
        said.source = Source()
        said.target = Target(dynamic=True, capabilities=[TEMPORARY_TOPIC], expiry_policy=DETACHED)
        said.desired_capabilities = [CONTROL]
        said.properties = {VERSION: Exact(INT_4, SPOKEN)}

    def objection(self, said: Attach) -> str:
        """Return why what the peer attached is no end of such a link."""
        if CONTROL in said.offered_capabilities:
            return ""
        return "the other side takes no federation: is it an Artemis, or a broker of this program?"


class Fetch:
    """What is read there: messages of ``where`` that ``selector`` lets through, and as which reader of that queue.

    ``credit``: messages on their way at the most; it is raised again at ``low``.
    """

    def __init__(self, where: Destination, selector: str, priority: int, policy: str, credit: int, low: int) -> None:
        self.where: Destination = where
        self.selector: str = selector
        self.priority: int = priority
        self.policy: str = policy
        self.credit: int = credit
        self.low: int = low

    def source(self, outcomes: list[str]) -> Source:
        """Return where it is read."""
        where = self.where
        source = Source(
            address=f"{where.name}::{where.queue}",
            expiry_policy=DETACHED,
            capabilities=[QUEUE if where.routing == ANYCAST else TOPIC],
            outcomes=outcomes,
            default_outcome=Modified(delivery_failed=True),
        )
        if self.selector:
            source.filter = {FILTER: Described(SELECTOR[1], self.selector)}
        return source


class Fetching(Taking):
    """A link that reads a queue there into the queue of that name here."""

    def __init__(self, session: AmqpSession, name: str, handle: i64, fetch: Fetch) -> None:
        """Raises Refused where messages can go nowhere."""
        super().__init__(session, name, handle, fetch.where)
        self.fetch: Fetch = fetch

    def asked(self, said: Attach) -> None:
        """Ask as a federation."""
        said.desired_capabilities = [QUEUES]
        said.properties = {PRIORITY: Exact(INT_4, self.fetch.priority), POLICY: self.fetch.policy}

    def objection(self, said: Attach) -> str:
        """Return why what the peer attached is no end of such a link."""
        return "" if QUEUES in said.offered_capabilities else "the other side does not federate its queues"

    def replenish(self) -> None:
        """Let the peer send more, if it may."""
        if self.withheld or self.ended or self.credit > self.fetch.low:
            return
        self.credit = self.fetch.credit
        self.session.link_flow(self.handle, self.count, self.credit, -1, False)

    def _send(self, arrived: Arrived, transaction: bytes | None, large: LargeArrival | None) -> bool:
        """Put it into the queue here. Raises Refused: it is gone, and nobody here wants the message."""
        if self.fetch.where.queue not in self.broker.table.queues:
            raise InvalidDestination(f"the queue {self.fetch.where.queue} is gone here")
        return super()._send(arrived, transaction, large)
