"""Links over which a client sends: credit, the parts of messages, what becomes of each, large bodies. [C]

A client has credit for some messages, and gets more as they come, unless the broker is full: then it gets more when
there is room. A delivery that it has not settled itself is answered when the disk has it, or rejected with the reason.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.errors import (
    EntrepotError,
    InvalidDestination,
    PeerError,
    Refused,
    StorageError,
    TransactionError,
)
from entrepot.base.patterns import MIXED, is_pattern
from entrepot.core.addressing.routing import Target as Place
from entrepot.core.broker import BrokerCore
from entrepot.core.sending.flow import BLOCKED
from entrepot.core.transactions.transaction import KEEP_UNITS
from entrepot.model.address import MULTICAST, Destination
from entrepot.model.message import Message
from entrepot.protocols.amqp.convert import TRANSFORMER_MARK, Arrived, message_of
from entrepot.protocols.amqp.large import LargeArrival, find_body
from entrepot.protocols.amqp.naming import named
from entrepot.protocols.amqp.performatives import (
    Accepted,
    Detach,
    Flow,
    Rejected,
    TransactionalState,
    Transfer,
)
from entrepot.protocols.amqp.primitives import UINT_MAX
from entrepot.protocols.amqp.refusals import (
    NOT_ALLOWED,
    NOT_IMPLEMENTED,
    SIZE_EXCEEDED,
    TRANSFER_LIMIT,
    UNKNOWN_TRANSACTION,
    AmqpRefused,
    error_of,
)
from entrepot.protocols.amqp.session import AmqpConnection, AmqpSession, Answer, Link, Txn
from entrepot.protocols.serving.confirmations import Confirmation
from entrepot.protocols.serving.pace import DiskPace
from entrepot.protocols.serving.patience import Held
from entrepot.protocols.serving.targets import keep_target

BODIES_MAX: Final = 1_000  # large messages of one transaction: each is a file


class Detached(Confirmation):
    """The answer to a detach, behind those to what came before it."""

    def __init__(self, link: Link, closed: bool) -> None:
        super().__init__(link.session.confirmations)
        self.link: Link = link
        self.closed: bool = closed

    def give(self) -> None:
        """Write it."""
        session = self.link.session
        session.answer()
        session.say(Detach(handle=self.link.handle, closed=self.closed))

    def refuse(self, error: EntrepotError) -> None:
        """The same: what was not stored was said to be."""
        self.give()


class _Credit(Held):
    """More credit for a link, when there is room."""

    def __init__(self, link: Arriving) -> None:
        self.link: Arriving = link

    def release(self) -> None:
        self.link.withheld = False
        self.link.replenish()


class Arriving(Link):
    """A link over which messages come. Who takes them says so in `take`."""

    def __init__(self, session: AmqpSession, name: str, handle: i64, second: bool, count: i64) -> None:
        super().__init__(session, name, handle)
        self.second: bool = second  # the sender settles when it has heard (rcv-settle-mode second)
        self.credit: i64 = 0
        self.count: i64 = count  # deliveries so far
        self.withheld: bool = False
        self.ended: bool = False
        self.delivery: i64 = -1  # whose parts come
        self.settled: bool = False
        self.transaction: bytes | None = None
        self.parts: list[bytes] = []
        self.octets: i64 = 0
        self.large: LargeArrival | None = None
        self.large_from: i64 = session.connection.options.large_octets  # octets of a body that is streamed; -1: none is
        self.look_at: i64 = 0  # octets at which it is looked whether the body can be streamed; -1: it cannot

    @property
    def connection(self) -> AmqpConnection:
        """The connection that it is on."""
        return self.session.connection

    # -- credit --------------------------------------------------------------------------------------------------------

    def replenish(self) -> None:
        """Let the peer send more, if it may."""
        options = self.connection.options
        if self.withheld or self.ended or self.credit > options.credit_low:
            return
        self.credit = options.credit
        self.session.link_flow(self.handle, self.count, self.credit, -1, False)

    def withhold(self, place: Place) -> None:
        """The broker is full: give no credit until there is room."""
        if not self.withheld:
            self.withheld = True
            self.connection.be_patient().hold(_Credit(self), place)

    def flow(self, flow: Flow) -> None:
        """The peer says what it has; it may ask where it stands."""
        if flow.delivery_count >= 0:
            self.count = flow.delivery_count
        if flow.echo:
            self.session.link_flow(self.handle, self.count, self.credit, -1, False)

    # -- transfers -----------------------------------------------------------------------------------------------------

    def transfer(self, transfer: Transfer, payload: bytes) -> None:
        """A message comes, or a part of one. Raises Refused."""
        if transfer.resume:
            raise AmqpRefused("a delivery cannot be resumed here", NOT_IMPLEMENTED, remedy="send it again")
        if self.delivery < 0:
            self._begin(transfer)
        elif transfer.delivery_id >= 0 and transfer.delivery_id != self.delivery:
            raise AmqpRefused("a delivery begins in the middle of another one", NOT_ALLOWED)
        if transfer.settled == 1:
            self.settled = True
        if transfer.aborted:
            self._forget()
            self.replenish()
            return
        self._gather(payload, transfer.more)
        if not transfer.more:
            self._complete()

    def _begin(self, transfer: Transfer) -> None:
        if transfer.delivery_id < 0:
            raise AmqpRefused("a transfer begins a delivery and has no delivery-id", NOT_ALLOWED)
        session = self.session
        expected = session.expected
        session.passed(transfer)
        if self.credit <= 0:
            raise AmqpRefused("a message came without credit", TRANSFER_LIMIT, remedy="wait for credit")
        if expected >= 0 and transfer.delivery_id != expected:
            raise AmqpRefused(f"the delivery-id {transfer.delivery_id} comes where {expected} is next", NOT_ALLOWED)
        self.credit -= 1
        self.count = (self.count + 1) & UINT_MAX
        self.delivery = transfer.delivery_id
        self.settled = False
        state = transfer.state
        self.transaction = state.txn_id if isinstance(state, TransactionalState) else None
        self.look_at = self.large_from if self.connection.broker.journal.pages else -1

    def _gather(self, payload: bytes, more: bool) -> None:
        large = self.large
        if large is not None:
            large.take(payload)
            self._pace(large)
            return
        self.parts.append(payload)
        self.octets += len(payload)
        if more and 0 <= self.look_at < self.octets:
            octets = b"".join(self.parts)
            self.parts = [octets]
            head = find_body(octets)
            self.look_at = -1 if head is None and self.octets > 16 * self.large_from else 2 * self.octets
            if head is not None and head.length > self.large_from:
                self.parts = []
                self.octets = 0
                self.large = LargeArrival(self.connection.broker, octets, head)
            elif head is not None:
                self.look_at = -1
        if self.octets > self.connection.options.message_octets_max:
            raise AmqpRefused(
                f"a message has more than {self.connection.options.message_octets_max} octets", SIZE_EXCEEDED
            )

    def _pace(self, large: LargeArrival) -> None:
        """Let the body come as fast as the disk takes it."""

    def _complete(self) -> None:
        delivery, settled, large = self.delivery, self.settled, self.large
        octets = b"" if large is not None else (self.parts[0] if len(self.parts) == 1 else b"".join(self.parts))
        self.large = None
        self._forget()
        self.take(delivery, settled, octets, large)
        self.replenish()

    def _forget(self) -> None:
        self.delivery = -1
        self.parts = []
        self.octets = 0
        large = self.large
        if large is not None:
            self.large = None
            large.finish()

    def take(self, delivery: i64, settled: bool, octets: bytes, large: LargeArrival | None) -> None:
        """A message is complete. Raises Refused for what ends the link."""
        raise NotImplementedError

    def held(self) -> i64:
        """Return the octets of the message that is not complete."""
        return self.octets

    # -- the end -------------------------------------------------------------------------------------------------------

    def detach(self, detach: Detach) -> None:
        """The peer detaches the link: answered behind what was sent over it."""
        self.end(0)
        if self.dynamic and detach.closed:
            self.connection.drop_temporary(self.dynamic)
        self.session.confirmations.ask(Detached(self, detach.closed))

    def end(self, last_delivered: i64) -> None:
        """Nothing comes any more: what was half sent was not sent."""
        self.ended = True
        self._forget()


class Incoming(Arriving):
    """A link whose messages are sent. ``where`` None: each message says where it goes (the anonymous relay)."""

    def __init__(
        self, session: AmqpSession, name: str, handle: i64, second: bool, count: i64, where: Destination | None
    ) -> None:
        super().__init__(session, name, handle, second, count)
        self.broker: BrokerCore = session.connection.broker
        self.where: Destination | None = where
        self.known: dict[str, Place] = {}
        self.pace: DiskPace | None = None
        self.own: Place | None = None if where is None else self.place(where)

    def sends(self) -> bool:
        """Return True: its peer sends messages over it."""
        return True

    def address(self) -> str:
        """Return where these go; "" for the anonymous relay."""
        return "" if self.where is None else self.where.name

    def _pace(self, large: LargeArrival) -> None:
        pace = self.pace
        if pace is None:
            pace = self.pace = DiskPace(self.connection)
        pace.look(large)

    def place(self, where: Destination) -> Place:
        """Return where messages for ``where`` go. Raises Refused."""
        broker = self.broker
        broker.access.send(self.connection.subject, [where])
        try:
            place = broker.target([where])
        except InvalidDestination:
            if where.routing != MULTICAST or where.name in broker.table.addresses or is_pattern(where.name, MIXED):
                raise
            return Place(where.name, MULTICAST)  # nothing is bound there: it is taken and dropped
        broker.access.keep(place, self.connection.subject, [where])
        return place

    def take(self, delivery: i64, settled: bool, octets: bytes, large: LargeArrival | None) -> None:
        """Send a message, now or with its transaction."""
        session = self.session
        transaction = self.transaction
        try:
            wall = self.broker.wall
            arrived = message_of(octets, wall) if large is None else large.complete(wall)
            durable = self._send(arrived, transaction, large)
        except (Refused, StorageError, PeerError) as error:
            if large is not None:
                large.finish()
            self._refuse(error, delivery, settled, transaction)
            return
        if large is not None and transaction is None:
            large.finish()
        if settled:
            return
        if transaction is not None:
            state = TransactionalState(txn_id=transaction, outcome=Accepted())
            session.dispose(delivery, state)
        elif durable or session.confirmations.owes():
            answer = Answer(session, delivery, None)
            answer.settles = not self.second
            session.confirmations.ask(answer)
        else:
            session.accept(delivery, not self.second)

    def _refuse(self, error: EntrepotError, delivery: i64, settled: bool, transaction: bytes | None) -> None:
        if transaction is not None:
            self._doom(transaction, error)
        if settled and transaction is None:
            self.detach_for(error)  # there is nothing else that it would hear
        elif not settled:
            self.session.dispose(delivery, Rejected(error=error_of(error)))

    def _doom(self, name: bytes, error: EntrepotError) -> None:
        txn = self.connection.transactions.get(name)
        if txn is not None and txn.transaction.why == "":
            txn.transaction.fail(error if isinstance(error, Refused) else TransactionError(error.message))

    def _send(self, arrived: Arrived, transaction: bytes | None, large: LargeArrival | None) -> bool:
        """Send it; return whether the disk is to have it. Raises Refused, StorageError."""
        message = arrived.message
        connection = self.connection
        patience = connection.patience
        if patience is not None:
            patience.check(False)
        place = self.own
        if place is None:
            place = self._named(arrived)
        message.address = place.name
        message.origin = connection.number
        transformer = connection.options.transformer
        if transformer != "jms":
            message.mark(TRANSFORMER_MARK, transformer)
        stamps = self.broker.options.stamps
        if stamps is not None:
            stamps.put_on(message, connection.subject.name)
        if transaction is not None:
            self._send_in(transaction, message, place, large)
        elif self.broker.sending.send(message, place) == BLOCKED:
            self.withhold(place)
        return message.durable or message.rare is not None

    def _named(self, arrived: Arrived) -> Place:
        """Return where a message goes by its own properties. Raises Refused."""
        if not isinstance(arrived.to, str) or not arrived.to:
            raise InvalidDestination("the message does not say where it goes", remedy="set `to` in its properties")
        key = f"{arrived.routing}{arrived.to}"
        found = self.known.get(key)
        if found is None:
            options = self.connection.options
            found = self.place(named(arrived.to, arrived.routing, False, options, self.broker))
            keep_target(self.known, key, found)
        return found

    def _send_in(self, name: bytes, message: Message, place: Place, large: LargeArrival | None) -> None:
        txn = self._transaction(name)
        try:
            if large is not None:
                if len(txn.bodies) >= BODIES_MAX:
                    raise TransactionError(f"a transaction has {BODIES_MAX} large messages", remedy="commit sooner")
                txn.bodies.append(large)
            self.broker.effort.spent += KEEP_UNITS
            txn.transaction.send(message, place)
            if self.broker.flow.is_blocked(place):
                self.withhold(place)
        except Refused as refusal:
            if txn.transaction.why == "":
                txn.transaction.fail(refusal)  # or its commit would do the rest without this
            raise

    def _transaction(self, name: bytes) -> Txn:
        txn = self.connection.transactions.get(name)
        if txn is None:
            raise AmqpRefused(f"no transaction {name.hex()} is open", UNKNOWN_TRANSACTION)
        return txn
