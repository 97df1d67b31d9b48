"""What a conversation has open, as data: sessions, producers, consumers, transactions, and what was asked. [C]"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from entrepot.base.errors import (
    AccessDenied,
    AddressFull,
    EntrepotError,
    InvalidDestination,
    InvalidSelector,
    Refused,
    SubscriptionInUse,
    TransactionError,
    TransactionRolledBack,
)
from entrepot.protocols.conversing.modes import Acknowledge
from entrepot.protocols.openwire.commands import (
    Command,
    ConnectionId,
    ConnectionInfo,
    ConsumerInfo,
    Message,
    MessagePull,
    ProducerInfo,
    Response,
    SessionInfo,
    TransactionId,
    TransactionInfo,
    XATransactionId,
)
from entrepot.protocols.openwire.conversation.inbox import Delivery, Inbox
from entrepot.protocols.openwire.elements import Throwable
from entrepot.protocols.openwire.ids import TransactionStep, text_of

Reply = Callable[[Response | None, EntrepotError | None], None]
"""Called once: with the response, None where nothing had to be asked, or with what went wrong."""

ERRORS: Final[dict[str, type[Refused]]] = {
    "InvalidClientIDException": SubscriptionInUse,
    "JMSSecurityException": AccessDenied,
    "SecurityException": AccessDenied,
    "InvalidDestinationException": InvalidDestination,
    "DestinationDoesNotExistException": InvalidDestination,
    "InvalidSelectorException": InvalidSelector,
    "ActiveMQInvalidFilterExpressionException": InvalidSelector,  # Artemis
    "ResourceAllocationException": AddressFull,
    "TransactionRolledBackException": TransactionRolledBack,
    "TransactionInProgressException": TransactionError,
    "XAException": TransactionError,
}


def refusal(exception: Throwable | None) -> Refused:
    """Return what a broker's exception means here; its class is only compared by name."""
    if exception is None:
        return Refused("the broker refused without a reason")
    name = (exception.class_name or "").rpartition(".")[2]
    if name == "DestinationDoesNotExistException" and exception.message:
        return InvalidDestination(f"the destination {exception.message} does not exist")
    return ERRORS.get(name, Refused)(exception.message or name or "the broker gave no reason")


class Identity:
    """The names that a conversation gives: its own, and a number for each thing that it opens."""

    def __init__(self, info: ConnectionInfo) -> None:
        self.info: Final = info
        self.connection_id: Final[ConnectionId | None] = info.connection_id
        self.text: Final = text_of(info.connection_id) if info.connection_id is not None else ""
        self._numbers = 0

    def fresh(self) -> int:
        """Return a number that was not given before."""
        self._numbers += 1
        return self._numbers

    def step(self, transaction_id: TransactionId, step: TransactionStep) -> TransactionInfo:
        """Return the command for a step of a transaction."""
        return TransactionInfo(connection_id=self.connection_id, transaction_id=transaction_id, type=step)


class Request:
    """A command that wants an answer. ``transaction``: it commits that one. ``confirms``: what went before it."""

    def __init__(
        self, command: Command, reply: Reply, transaction: Transaction | None = None, confirms: bool = False
    ) -> None:
        self.command: Final = command
        self.reply: Final = reply
        self.transaction: Final = transaction
        self.confirms: Final = confirms


class Transaction:
    """Work that counts together. ``doomed``: why it cannot commit any more.

    ``settled``: what a branch of a distributed transaction settled, by inbox, in case that it is rolled back.
    """

    def __init__(self, transaction_id: TransactionId) -> None:
        self.transaction_id: Final = transaction_id
        self.is_branch: Final = isinstance(transaction_id, XATransactionId)
        self.settled: list[tuple[Inbox, list[Delivery]]] = []
        self.sends: list[Message] = []
        self.closed_producers: list[ProducerInfo] = []
        self.begun = False
        self.consumed = False
        self.doomed = ""


class ProducerRecord:
    """A producer. ``outstanding``: octets sent that the broker's ProducerAck did not give back."""

    def __init__(self, info: ProducerInfo, session: SessionRecord) -> None:
        self.info: Final = info
        self.session: Final = session
        self.sequence = 0
        self.outstanding = 0
        self.confirmed = False

    @property
    def full(self) -> bool:
        """Whether the window is used up."""
        return 0 < self.info.window_size <= self.outstanding


class ConsumerRecord:
    """A consumer. ``closing``: its program is done with it, its transaction is not."""

    def __init__(self, info: ConsumerInfo, inbox: Inbox, session: SessionRecord | None) -> None:
        self.info: Final = info
        self.inbox: Final = inbox
        self.session: Final = session
        self.confirmed = False
        self.closing = False
        self.pull: MessagePull | None = None


class SessionRecord:
    """A session and what it opened, by number."""

    def __init__(self, info: SessionInfo, mode: Acknowledge) -> None:
        self.info: Final = info
        self.mode: Final = mode
        self.producers: dict[int, ProducerRecord] = {}
        self.consumers: dict[int, ConsumerRecord] = {}
        self.transaction: Transaction | None = None

    @property
    def number(self) -> int:
        """The number of the session within the connection."""
        return int(self.info.session_id.value) if self.info.session_id is not None else 0
