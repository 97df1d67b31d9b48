"""What clients say of deliveries, and what becomes of the messages. [C]

accepted: settled. rejected: a dead letter. released: delivered again, and not counted as a try; modified: counted if
its delivery failed, a dead letter if it is not to be delivered here. With a transactional state it takes effect with
the commit. A state that is not settled is answered when the disk has it, and settled by us: exactly once (2.6.12).
"""

from __future__ import annotations

from typing import TypeVar

from mypy_extensions import i64

from entrepot.base.reasons import REJECTED, Reason
from entrepot.core.queue.consumer import Consumer, Pause
from entrepot.core.queue.queue import queue_of
from entrepot.protocols.amqp.outgoing import Feed
from entrepot.protocols.amqp.performatives import (
    Accepted,
    Composite,
    Disposition,
    Modified,
    Received,
    Rejected,
    Released,
    TransactionalState,
)
from entrepot.protocols.amqp.primitives import UINT_MAX
from entrepot.protocols.amqp.refusals import UNKNOWN_TRANSACTION, AmqpRefused
from entrepot.protocols.amqp.session import RECEIVER, SENDER, AmqpSession, Answer, Sent

Open = TypeVar("Open")


def dispose(session: AmqpSession, said: Disposition) -> None:
    """Do what ``said`` asks for. Raises AmqpRefused for what ends the session."""
    last = said.first if said.last < 0 else said.last
    span = (last - said.first) & UINT_MAX
    if said.role == RECEIVER:
        _received(session, said, said.first, span)
    elif said.settled and session.second:
        for delivery in _covered(list(session.second), said.first, span):
            session.second.pop(delivery, None)


def _covered(known: list[int], first: i64, span: i64) -> list[int]:
    """Return those of ``known`` that a range covers. A range may be wide, and what is there is not."""
    if span < len(known):
        there = dict.fromkeys(known)
        return [
            number for number in [int((first + step) & UINT_MAX) for step in range(int(span) + 1)] if number in there
        ]
    return [number for number in known if (number - first) & UINT_MAX <= span]


def covered_of(unsettled: dict[int, Open], first: i64, span: i64) -> list[int]:
    """Return those deliveries of ``unsettled`` that a range covers, in its order as far as that costs little."""
    if span == 0:
        return [int(first)] if int(first) in unsettled else []
    if span >= len(unsettled):
        return _covered(list(unsettled), first, span)
    found: list[int] = []
    for step in range(int(span) + 1):
        number = int((first + step) & UINT_MAX)
        if number in unsettled:
            found.append(number)
    return found


def _received(session: AmqpSession, said: Disposition, first: i64, span: i64) -> None:
    unsettled = session.unsettled
    covered = covered_of(unsettled, first, span)
    if not covered:
        return
    state = said.state
    if state is None and not said.settled:
        return
    if isinstance(state, Received):
        return
    session.connection.broker.effort.spent += len(covered)
    paused = _pause(session, covered) if not isinstance(state, (Accepted, TransactionalState)) else []
    for delivery in covered:
        sent = unsettled[delivery]
        if said.settled:
            del unsettled[delivery]
        _apply(session, sent, state, said.settled)
    for feed in paused:
        feed.window.lift(Pause.ANSWER)
    for feed in paused:
        if not feed.closed:
            feed.window.reopen()
    if not said.settled and state is not None and not isinstance(state, TransactionalState):
        for delivery in covered:
            unsettled.pop(delivery, None)
            session.confirmations.ask(Answer(session, delivery, state, SENDER))


def _pause(session: AmqpSession, covered: list[int]) -> list[Feed]:
    """Deliver nothing to those who give back, until all of it is back: its order is kept."""
    found: dict[Feed, None] = {}
    for delivery in covered:
        feed = session.unsettled[delivery].feed
        if isinstance(feed, Feed):
            found[feed] = None
    for feed in found:
        feed.window.pause(Pause.ANSWER)
    return list(found)


def _apply(session: AmqpSession, sent: Sent, state: Composite | None, settled: bool) -> None:
    if isinstance(state, TransactionalState):
        _promise(session, sent, state, settled)
        return
    consumer = sent.consumer
    queue = None if consumer is None else queue_of(consumer)
    if consumer is None or queue is None:
        return
    number = sent.number
    if isinstance(state, Accepted):
        queue.settle(consumer, number)
    elif isinstance(state, Rejected):
        error = state.error
        why = "" if error is None else str(getattr(error, "description", None) or getattr(error, "condition", ""))
        queue.reject(consumer, number, Reason(REJECTED, f"its consumer rejected it{': ' + why if why else ''}"))
    elif isinstance(state, Modified):
        if state.undeliverable_here and _is_over(session, consumer, number):
            queue.give_back(consumer, number, False)
            queue.taking.sweep(1)
        elif state.undeliverable_here:
            queue.reject(consumer, number, Reason(REJECTED, "its consumer says that it cannot be delivered there"))
        else:
            queue.give_back(consumer, number, state.delivery_failed)
    else:  # released; or settled without a word
        queue.give_back(consumer, number, not isinstance(state, Released) and state is not None)


def _is_over(session: AmqpSession, consumer: Consumer, number: i64) -> bool:
    """Return whether the time of a message is over: clients give such ones back as if they could not be delivered."""
    reference = consumer.in_flight.get(int(number))
    if reference is None:
        return False
    return 0 < reference.message.expiration <= session.connection.broker.wall


def _promise(session: AmqpSession, sent: Sent, state: TransactionalState, settled: bool) -> None:
    """Settle it with a transaction. Raises AmqpRefused when there is none of that name."""
    txn = session.connection.transactions.get(state.txn_id)
    if txn is None:
        raise AmqpRefused(f"no transaction {state.txn_id.hex()} is open", UNKNOWN_TRANSACTION)
    consumer = sent.consumer
    if state.outcome is not None and not isinstance(state.outcome, Accepted):
        _apply(session, sent, state.outcome, settled)  # what is given back is given back at once, as in Artemis
        return
    if consumer is None:
        return
    txn.transaction.settle(consumer, int(sent.number))
    if settled:
        txn.answered.append(sent)
    else:
        txn.unsettled.append(sent)
