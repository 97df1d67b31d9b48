"""What one session settles: in the order of delivery, one at a time, and what it gives back. [C]

In a session that commits what it settles by itself an acknowledgement takes effect at once, in the others with the
transaction. A rollback gives back what its consumers have: what was settled in the transaction has been tried, what
lies in the client's buffer has not (artemis.md 5.2.10).
"""

from __future__ import annotations

from entrepot.base.errors import EntrepotError, Refused, StorageError
from entrepot.core.broker import BrokerCore
from entrepot.core.queue.consumer import Consumer, Pause
from entrepot.core.queue.queue import queue_of
from entrepot.core.transactions.transaction import Settlement, State
from entrepot.protocols.artemis.acceptor import let_go
from entrepot.protocols.artemis.packets import Acknowledge, Expired, IndividualAcknowledge, Rollback
from entrepot.protocols.artemis.refusals import ILLEGAL_STATE, CoreRefused
from entrepot.protocols.artemis.session import CoreSession, Opened


class Tried:
    """What a transaction would have settled, by consumer: one message may be with several of one session."""

    def __init__(self, settlements: list[Settlement]) -> None:
        self.consumers: dict[Consumer, dict[int, None]] = {}
        for each in settlements:
            self.add(each.consumer, each.number)

    def add(self, consumer: Consumer, number: int) -> None:
        """``consumer`` has had message ``number``."""
        numbers = self.consumers.get(consumer)
        if numbers is None:
            numbers = self.consumers[consumer] = {}
        numbers[number] = None

    def has(self, consumer: Consumer, number: int) -> bool:
        """Return whether ``consumer`` has had message ``number``."""
        numbers = self.consumers.get(consumer)
        return numbers is not None and number in numbers


class Settling:
    """The acknowledgements of one session."""

    def __init__(self, session: CoreSession) -> None:
        self.session: CoreSession = session
        self.broker: BrokerCore = session.broker

    # -- settling ------------------------------------------------------------------------------------------------------

    def acknowledge(self, packet: Acknowledge) -> None:
        """Settle all that a consumer was delivered up to one message."""
        self._settle(packet.consumer, packet.message, packet.require_response, False)

    def acknowledge_one(self, packet: IndividualAcknowledge) -> None:
        """Settle one message."""
        self._settle(packet.consumer, packet.message, packet.require_response, True)

    def _settle(self, consumer_id: int, number: int, wanted: bool, single: bool) -> None:
        session = self.session
        try:
            subscription = self._consumer(consumer_id)
            if subscription.tracked:
                numbers = [number] if single else covered(subscription, number)
                if single and not is_held(subscription, number):
                    raise missing(number)
                self._settle_all(subscription, numbers)
        except (Refused, StorageError) as error:
            self._refuse(error, wanted)
            return
        session.replies.done(wanted, not session.is_transacted(session.commits_acks))

    def _consumer(self, consumer_id: int) -> Opened:
        subscription = self.session.consumers.get(int(consumer_id))
        if subscription is None:
            raise CoreRefused(f"AMQ229101: there is no consumer {consumer_id}", ILLEGAL_STATE)
        return subscription

    def _refuse(self, error: EntrepotError, wanted: bool) -> None:
        session = self.session
        if session.is_transacted(session.commits_acks):
            session.doom(error)
        if wanted:
            session.replies.refuse(error)
        else:
            session.replies.done(False, False)

    def _settle_all(self, subscription: Opened, numbers: list[int]) -> None:
        session = self.session
        unsettled = subscription.unsettled
        if session.is_transacted(session.commits_acks):
            transaction = session.need_transaction()
            for consumer in subscription.consumers:
                for number in numbers:
                    transaction.settle(consumer, number)
                    if unsettled is not None:
                        unsettled.pop(number, None)
            return
        for consumer in subscription.consumers:
            queue = consumer.queue
            if queue is not None:
                for number in numbers:
                    queue.settle(consumer, number)

    def expire(self, packet: Expired) -> None:
        """The client found that the time of a message is over."""
        session = self.session
        subscription = session.consumers.get(int(packet.consumer))
        number = int(packet.message)
        if subscription is not None:
            if subscription.unsettled is not None:
                subscription.unsettled.pop(number, None)
            for consumer in list(subscription.consumers):
                self._expire(consumer, number)
        session.replies.done(False, True)

    def _expire(self, consumer: Consumer, number: int) -> None:
        queue = queue_of(consumer)
        reference = consumer.in_flight.get(number)
        if queue is None or reference is None:
            return
        if reference.message.expiration > 0:
            reference.message.expiration = min(reference.message.expiration, self.broker.wall)
            queue.give_back(consumer, number, False)
            queue.taking.sweep(1)
        else:
            queue.settle(consumer, number)

    # -- giving back ---------------------------------------------------------------------------------------------------

    def roll_back(self, packet: Rollback) -> None:
        """Undo what the transaction did, and give back all that the consumers of this session have.

        With ``consider_last_delivered`` the client has seen the first message that it has not settled (JMS recover).
        """
        session = self.session
        settled = self.forget_transaction()
        session.replies.done(True, True)
        self.give_back(settled, packet.consider_last_delivered)

    def forget_transaction(self) -> Tried:
        """Roll the session's own transaction back; return what it would have settled."""
        session = self.session
        transaction = session.transaction
        session.transaction = None
        settled = Tried([])
        if transaction is not None and transaction.state in (State.ACTIVE, State.DOOMED):
            settled = Tried(transaction.settlements)
            self.broker.transactions.roll_back(transaction)
        let_go(session.take_bodies())
        return settled

    def give_back(self, settled: Tried, seen: bool) -> None:
        """Give back all that the consumers have; ``settled`` counts as tried, and the first other one if ``seen``.

        What was settled at consumers of another session (of the same branch) is given back as well.
        """
        subscriptions = list(self.session.consumers.values())
        for subscription in subscriptions:
            subscription.window.pause(Pause.ANSWER)
        for subscription in subscriptions:
            self._give_back(subscription, settled, seen)
        self.give_back_tried(settled)
        for subscription in subscriptions:
            subscription.window.lift(Pause.ANSWER)
        for subscription in subscriptions:
            if not subscription.closed:
                subscription.window.reopen()

    def _give_back(self, subscription: Opened, settled: Tried, seen: bool) -> None:
        if subscription.unsettled is not None:
            subscription.unsettled.clear()
        subscription.break_off()
        for consumer in list(subscription.consumers):
            queue = consumer.queue
            if queue is None:
                continue
            first = seen
            for number in list(consumer.in_flight):
                if number in consumer.promised:
                    continue  # by a branch that the session works on no longer
                tried = settled.has(consumer, number)
                if not tried and first and number != consumer.unwritten:
                    first = False
                    tried = True
                queue.give_back(consumer, number, tried)

    def give_back_settled(self, settled: Tried) -> None:
        """A commit failed: what it would have settled is delivered again; what the client has besides stays there."""
        for subscription in self.session.consumers.values():
            subscription.window.pause(Pause.ANSWER)
        self.give_back_tried(settled)
        for subscription in list(self.session.consumers.values()):
            subscription.window.lift(Pause.ANSWER)
            subscription.window.reopen()

    def give_back_tried(self, settled: Tried) -> None:
        """Give back what was settled in a transaction that is rolled back."""
        for consumer, numbers in settled.consumers.items():
            queue = consumer.queue
            if queue is not None:
                for number in numbers:
                    queue.give_back(consumer, number, True)


def covered(subscription: Opened, last: int) -> list[int]:
    """Return what is unsettled up to ``last``, in the order of delivery. Raises CoreRefused if that is not there."""
    unsettled = subscription.unsettled
    if unsettled is not None:
        if last in unsettled:
            return subscription.order.up_to(last, unsettled)
        raise missing(last)
    for consumer in subscription.consumers:
        if last in consumer.in_flight:
            return subscription.order.up_to(last, consumer.in_flight)
    raise missing(last)


def is_held(subscription: Opened, number: int) -> bool:
    """Return whether the client has message ``number`` and has not settled it."""
    unsettled = subscription.unsettled
    if unsettled is not None:
        return number in unsettled
    return any(number in consumer.in_flight for consumer in subscription.consumers)


def missing(number: int) -> CoreRefused:
    """Return what is said of a message that is not here."""
    return CoreRefused(f"AMQ229027: Could not find reference on consumer ID={number}", ILLEGAL_STATE)
