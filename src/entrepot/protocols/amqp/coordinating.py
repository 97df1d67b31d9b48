"""Transactions of a client: a link to the coordinator, over which they are declared and discharged (part 4). [C]"""

from __future__ import annotations

from mypy_extensions import i64

from entrepot.base.errors import MalformedFrame, PeerError, Refused
from entrepot.core.transactions.transaction import State, Transaction
from entrepot.protocols.amqp.incoming import Arriving
from entrepot.protocols.amqp.large import LargeArrival
from entrepot.protocols.amqp.performatives import (
    Accepted,
    Composite,
    Declare,
    Declared,
    Discharge,
    Rejected,
    composite_of,
)
from entrepot.protocols.amqp.primitives import Source
from entrepot.protocols.amqp.refusals import LIMIT, NOT_IMPLEMENTED, UNKNOWN_TRANSACTION, AmqpRefused, error_of
from entrepot.protocols.amqp.sections import VALUE, scan
from entrepot.protocols.amqp.session import AmqpSession, Answer, Txn

REQUEST_OCTETS_MAX = 64 * 1024


class Coordinating(Arriving):
    """A link to the coordinator. The transactions that it declared end with it."""

    def __init__(self, session: AmqpSession, name: str, handle: i64, count: i64) -> None:
        super().__init__(session, name, handle, False, count)
        self.declared: dict[bytes, None] = {}

    def take(self, delivery: i64, settled: bool, octets: bytes, large: LargeArrival | None) -> None:
        """Do what the client asks for, and answer it. Raises Refused."""
        session = self.session
        try:
            if large is not None or len(octets) > REQUEST_OCTETS_MAX:
                if large is not None:
                    large.finish()
                raise AmqpRefused("what is said to the coordinator is too long", LIMIT)
            asked = _asked(octets)
            if isinstance(asked, Declare):
                session.dispose(delivery, Declared(txn_id=self._declare(asked)))
            elif isinstance(asked, Discharge):
                self._discharge(asked, delivery)
            else:
                raise AmqpRefused("the coordinator is asked for something else", NOT_IMPLEMENTED)
        except (Refused, PeerError) as error:
            session.dispose(delivery, Rejected(error=error_of(error)))

    def _declare(self, asked: Declare) -> bytes:
        connection = self.connection
        if asked.global_id is not None:
            raise AmqpRefused("transactions of others are not taken part in", NOT_IMPLEMENTED)
        if len(connection.transactions) >= connection.options.transactions_max:
            raise AmqpRefused(f"{connection.options.transactions_max} transactions are open", LIMIT)
        name = int(connection.broker.ids.consumer_key()).to_bytes(8, "big")
        connection.transactions[name] = Txn(Transaction(f"{connection.number}:{name.hex()}"))
        self.declared[name] = None
        return name

    def _discharge(self, asked: Discharge, delivery: i64) -> None:
        connection = self.connection
        txn = connection.transactions.pop(asked.txn_id, None)
        self.declared.pop(asked.txn_id, None)
        if txn is None:
            raise AmqpRefused(f"no transaction {asked.txn_id.hex()} is open", UNKNOWN_TRANSACTION)
        answer = Answer(self.session, delivery, Accepted())
        if asked.fail:
            connection.roll_back(txn)
            self.session.confirmations.ask(answer)
        else:
            connection.carry_out(txn, answer)

    def end(self, last_delivered: i64) -> None:
        """What was declared over it and not discharged is rolled back."""
        super().end(last_delivered)
        connection = self.connection
        for name in list(self.declared):
            txn = connection.transactions.pop(name, None)
            if txn is not None and txn.transaction.state in (State.ACTIVE, State.DOOMED):
                connection.roll_back(txn)
        self.declared.clear()


def _asked(octets: bytes) -> Composite | None:
    """Return what a message to the coordinator says. Raises MalformedFrame, LimitExceeded."""
    sections = scan(octets)
    if sections.body_kind != VALUE:
        raise MalformedFrame("what is said to the coordinator is no value")
    return composite_of(Source(octets, sections.bodies[0], len(octets)))
