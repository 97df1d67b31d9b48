"""The consumers of one session: opened, given credit, asked whether there is more, closed. [C]"""

from __future__ import annotations

from mypy_extensions import i64

from entrepot.base.errors import Refused, SubscriptionInUse
from entrepot.core.broker import BrokerCore
from entrepot.core.queue.consumer import Pause
from entrepot.core.queue.queue import NONE_DELIVERED
from entrepot.protocols.artemis.delivery import CoreSubscription
from entrepot.protocols.artemis.packets import CloseConsumer, CreateConsumer, FlowToken, ForceDelivery
from entrepot.protocols.artemis.places import destination_of, need_queue
from entrepot.protocols.artemis.refusals import ILLEGAL_STATE, MAX_CONSUMERS, CoreRefused
from entrepot.protocols.artemis.resources import described, filter_of
from entrepot.protocols.artemis.session import CoreSession


class Consuming:
    """What a client says about its consumers."""

    def __init__(self, session: CoreSession) -> None:
        self.session: CoreSession = session
        self.broker: BrokerCore = session.broker

    def create(self, packet: CreateConsumer) -> None:
        """Open a consumer; the answer says what its queue is like. Raises Refused and what is below it."""
        session = self.session
        broker = self.broker
        if len(session.consumers) >= session.options.consumers_max:
            raise Refused(f"{session.options.consumers_max} consumers are open in this session")
        number = int(packet.consumer)
        if number in session.consumers:
            raise CoreRefused(f"the consumer {number} is open already", ILLEGAL_STATE)
        queue = need_queue(broker, packet.queue, session.options)
        where = destination_of(queue)
        selector = filter_of(packet.filter)
        if packet.browse:
            broker.access.browse(session.subject, where)
        else:
            broker.access.consume(session.subject, [where], False)
        subscription = CoreSubscription(session, number, queue, where, packet.browse)
        subscription.selector = selector
        subscription.kind = session.reader_kind
        subscription.origin = session.number
        subscription.connection = session.label()
        subscription.peer = session.peer
        subscription.user = session.subject.name
        subscription.client_id = session.client_id
        subscription.session_name = session.name
        subscription.consumer_number = number
        subscription.priority = int(packet.priority or 0)
        subscription.window.pause(Pause.PULL)
        if packet.browse:
            subscription.browser = broker.reading.browse([where], selector)
        else:
            if not session.started:
                subscription.window.pause(Pause.OPENING)
            self._subscribe(subscription)
        session.consumers[number] = subscription
        subscription.outlet.feed(subscription)
        session.replies.answer(described(broker, queue) if packet.require_response else None, False)

    def _subscribe(self, subscription: CoreSubscription) -> None:
        """Attach it to its queue. Raises CoreRefused when that has as many consumers as it admits."""
        try:
            self.broker.subscribe(subscription)
        except SubscriptionInUse:
            queue = subscription.queue
            raise CoreRefused(
                f"AMQ229200: Maximum Consumer Limit Reached on Queue:(address={queue.address},queue={queue.name})",
                MAX_CONSUMERS,
            ) from None

    def grant(self, packet: FlowToken) -> None:
        """The client takes more octets."""
        session = self.session
        session.replies.done(False, False)
        subscription = session.consumers.get(int(packet.consumer))
        if subscription is not None:
            subscription.grant(packet.credits)

    def force(self, packet: ForceDelivery) -> None:
        """The client asks whether there is more."""
        session = self.session
        session.replies.done(False, False)
        subscription = session.consumers.get(int(packet.consumer))
        if subscription is not None:
            subscription.force(int(packet.sequence))

    def close(self, packet: CloseConsumer) -> None:
        """The client wants nothing more here; what it has not settled it has not seen."""
        session = self.session
        subscription = session.consumers.get(int(packet.consumer))
        if subscription is not None:
            session.forget(subscription, NONE_DELIVERED)
        session.replies.done(True, True)

    def start(self) -> None:
        """Deliveries may begin."""
        session = self.session
        session.replies.done(False, False)
        session.started = True
        for subscription in list(session.consumers.values()):
            subscription.window.lift(Pause.OPENING)
            subscription.window.reopen()

    def stop(self) -> None:
        """Deliveries are to stop; those of browsers go on."""
        session = self.session
        session.started = False
        for subscription in session.consumers.values():
            if not subscription.browses:
                subscription.window.pause(Pause.OPENING)
        session.replies.done(True, False)

    def end(self, last_delivered: i64) -> None:
        """The session ends: what one consumer gives back is not for the next one."""
        subscriptions = list(self.session.consumers.values())
        for subscription in subscriptions:
            subscription.window.pause(Pause.ENDING)
        for subscription in subscriptions:
            self.session.forget(subscription, last_delivered)
