"""The consumers of one OpenWire connection: opened, browsed, pulled, steered and ended. [C]

What they are given is `delivery.py`'s, what they settle the session's own. A subscription stands in
``self.consumers`` from here until here: only this adds and removes.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from entrepot.base.errors import InvalidDestination, ProtocolViolation, Refused, SubscriptionInUse
from entrepot.core.broker import selector_or_none
from entrepot.core.queue.consumer import INCOMING_BRIDGE, Pause
from entrepot.core.queue.queue import MAYBE_DELIVERED, UNKNOWN_DELIVERED
from entrepot.model.address import MULTICAST
from entrepot.model.address import Destination as Address
from entrepot.protocols.openwire.advisories import is_advisory
from entrepot.protocols.openwire.commands import (
    ConsumerControl,
    ConsumerId,
    ConsumerInfo,
    Destination,
    MessagePull,
    RemoveSubscriptionInfo,
)
from entrepot.protocols.openwire.delivery import OpenWireSubscription, Subscribed
from entrepot.protocols.openwire.dispatching import Dispatching
from entrepot.protocols.openwire.identity import Identity, addresses_of
from entrepot.protocols.openwire.options import UNCOUNTED
from entrepot.protocols.openwire.refusals import check_count, shown
from entrepot.protocols.openwire.replaying import replay
from entrepot.protocols.openwire.replies import Replies
from entrepot.protocols.serving.session import ServerSession

DEFAULT_QUEUE_PREFETCHES: Final = (1000,)
DEFAULT_TOPIC_PREFETCHES: Final = (32_766, 32_767)
DEFAULT_DURABLE_PREFETCHES: Final = (100, 1000)


@mypyc_attr(allow_interpreted_subclasses=True)
class Doorman:
    """Whoever looks at a consumer that is about to be opened."""

    def opening(self, subscription: OpenWireSubscription, first: Address) -> None:
        """``subscription``, to ``first`` and perhaps others, is about to be opened."""
        raise NotImplementedError


class Consuming(Subscribed):
    """What a client says about its consumers. Only this adds and removes them."""

    def __init__(self, session: ServerSession, identity: Identity, replies: Replies, dispatching: Dispatching) -> None:
        super().__init__()
        self.session: ServerSession = session
        self.identity: Identity = identity
        self.replies: Replies = replies
        self.dispatching: Dispatching = dispatching
        self.doorman: Doorman | None = None  # who looks at what is about to be opened, if anybody

    def consume(self, info: ConsumerInfo) -> None:
        """Open what ``info`` describes, and answer it. Raises Refused and what is below it."""
        session = self.session
        consumer_id = info.consumer_id
        if consumer_id is None or info.destination is None:
            raise ProtocolViolation("a consumer has no id or no destination")
        if consumer_id in self.consumers:  # a failover client says it again: it may have another prefetch
            self._set_prefetch(self.consumers[consumer_id], i64(info.prefetch_size))
            self.replies.answer(info, False)
            return
        addresses = self._admitted(consumer_id, info.destination)
        subscription = OpenWireSubscription(self, self.identity, self.dispatching, info, consumer_id, addresses)
        subscription.selector = selector_or_none(info.selector or "")
        if info.browser:
            for one in addresses:
                session.broker.access.browse(session.subject, one)
            self._browse(subscription, info, consumer_id)
            return
        self._settings(subscription, info, addresses[0])
        if self.doorman is not None:
            self.doorman.opening(subscription, addresses[0])
        self._may_consume(info.destination, addresses, subscription.durable_name)
        subscription.window.pause(Pause.OPENING)
        try:
            session.broker.subscribe(subscription)
        except SubscriptionInUse:
            if not info.subscription_name:
                raise
            raise SubscriptionInUse(
                f"Durable consumer is in use for client: {session.client_id} and "
                f"subscriptionName: {info.subscription_name}"
            ) from None
        self.consumers[consumer_id] = subscription
        session.outlet.feed(subscription)
        if subscription.patterns:
            subscription.several = True
        if subscription.pulling:
            self.pullers[consumer_id] = subscription
        for one in addresses:
            if one.routing == MULTICAST and not one.temporary:
                self.identity.advisories.topic_used(one.name)
        self.replies.answer(info, bool(info.subscription_name))
        self.identity.advisories.consumer_added(info)
        replay(self.identity.advisories, subscription, consumer_id)
        if session.confirmations.settled is not None:  # the client is to move
            subscription.window.pause(Pause.MOVING)
        subscription.opened()

    def _admitted(self, consumer_id: ConsumerId, where: Destination) -> list[Address]:
        """Return what a new consumer reads. Raises Refused and what is below it."""
        if len(self.consumers) >= self.identity.options.consumers_max:
            raise Refused(f"{self.identity.options.consumers_max} consumers are open on this connection")
        if self.identity.options.consumers_allowed < UNCOUNTED:
            known = [one.info.destination for one in self.consumers.values()]
            check_count("consumer", known, where, self.identity.options.consumers_allowed)
        if self.identity.acceptor.is_elsewhere(self.session, consumer_id.connection_id):
            raise Refused("the id of a consumer begins with that of another connection")
        addresses = addresses_of(where)
        for one in addresses:
            if one.temporary:
                self._check_owner(one)
        return addresses

    def _may_consume(self, where: Destination, addresses: list[Address], durable: str) -> None:
        """Raise AccessDenied unless this connection may read ``addresses``."""
        session = self.session
        access = session.broker.access
        access.consume(session.subject, addresses, bool(durable), shown(where, addresses))
        if durable:  # one of that name may be about another topic: it would be removed
            access.forget(session.subject, session.broker.reading.durable(session.client_id, durable))

    def _settings(self, subscription: OpenWireSubscription, info: ConsumerInfo, first: Address) -> None:
        session = self.session
        topic = first.routing == MULTICAST
        durable = topic and bool(info.subscription_name)
        if durable:
            if not session.client_id:
                raise Refused("a durable subscription needs a client id")
            if is_advisory(first.name):
                raise Refused("advisories cannot be subscribed durably")
            subscription.durable_name = info.subscription_name or ""
            subscription.client_id = session.client_id
        prefetch = self._prefetch(info, first, topic, durable)
        subscription.set_prefetch(prefetch)
        info.prefetch_size = int(prefetch)  # as advisories tell it
        subscription.priority = min(max(int(info.priority), -128), 127)
        subscription.exclusive = info.exclusive and not topic
        subscription.no_local = info.no_local
        subscription.retroactive = info.retroactive
        subscription.origin = session.number
        subscription.connection = session.client_id or session.peer
        subscription.peer = session.peer
        subscription.user = session.subject.name
        if info.network_subscription:
            subscription.kind = INCOMING_BRIDGE
        if info.maximum_pending_message_limit > 0:
            subscription.pending_limit = i64(info.maximum_pending_message_limit)

    def _prefetch(self, info: ConsumerInfo, first: Address, topic: bool, durable: bool) -> i64:
        """Return the client's prefetch; what a Java client says unasked is no wish (classic.md 4.2)."""
        asked = int(info.prefetch_size)
        unasked: tuple[int, ...] = DEFAULT_QUEUE_PREFETCHES
        if topic:
            unasked = DEFAULT_DURABLE_PREFETCHES if durable else DEFAULT_TOPIC_PREFETCHES
        if asked not in unasked:
            return asked
        return self.session.broker.policies.of(first.name, first.routing).default_prefetch(topic, durable)

    def _check_owner(self, address: Address) -> None:
        """Only who made a temporary destination may read it: its name proves nothing, a client chooses its own id."""
        if self.identity.acceptor.temporaries.get(address.name) == self.identity.connection_id:
            return
        self.identity.acceptor.check_temporary(address.name)
        raise InvalidDestination(f"cannot consume from {address.name!r}: another connection made it")

    def _browse(self, subscription: OpenWireSubscription, info: ConsumerInfo, consumer_id: ConsumerId) -> None:
        session = self.session
        subscription.browser = session.broker.reading.browse(subscription.destinations, subscription.selector)
        self.consumers[consumer_id] = subscription
        session.outlet.feed(subscription)
        self.replies.answer(info, False)
        subscription.pump()

    def end(self, subscription: OpenWireSubscription, last_delivered: i64 = UNKNOWN_DELIVERED) -> None:
        """End a subscription; ``last_delivered``: as `Queue.detach` says it."""
        session = self.session
        consumer_id = subscription.consumer_id
        if self.consumers.pop(consumer_id, None) is None:
            return
        subscription.closed = True
        subscription.browser = None
        session.outlet.starve(subscription)
        self.pullers.pop(consumer_id, None)
        session.broker.unsubscribe(subscription, last_delivered)
        self.identity.advisories.consumer_removed(consumer_id)

    def end_all(self, subscriptions: list[OpenWireSubscription], last_delivered: i64) -> None:
        """End several at once: what one gives back is not for the next one."""
        for subscription in subscriptions:
            subscription.window.pause(Pause.ENDING)
        for subscription in subscriptions:
            self.end(subscription, last_delivered)

    def ended(self, subscription: OpenWireSubscription, why: str) -> None:
        """The broker took a subscription away: tell the client to close its consumer."""
        if subscription.closed or self.session.released:
            return
        self.end(subscription, MAYBE_DELIVERED)
        self.replies.write(
            ConsumerControl(destination=subscription.info.destination, close=True, consumer_id=subscription.consumer_id)
        )

    def control(self, command: ConsumerControl) -> None:
        """Close a consumer, or give it another prefetch."""
        consumer_id = command.consumer_id
        subscription = None if consumer_id is None else self.consumers.get(consumer_id)
        if subscription is not None and consumer_id is not None:
            if command.close:
                self.end(subscription)
            elif not (command.flush or command.start or command.stop):
                self._set_prefetch(subscription, i64(command.prefetch))
        self.replies.answer(command, False)

    def _set_prefetch(self, subscription: OpenWireSubscription, prefetch: i64) -> None:
        if subscription.browser is not None or not subscription.consumers:
            return
        subscription.set_prefetch(prefetch)
        if subscription.pulling:
            self.pullers[subscription.consumer_id] = subscription
        else:
            self.pullers.pop(subscription.consumer_id, None)
        subscription.settle_credit()

    def pull(self, command: MessagePull) -> None:
        """Let a consumer without prefetch have its next message."""
        session = self.session
        consumer_id = command.consumer_id
        subscription = None if consumer_id is None else self.consumers.get(consumer_id)
        self.replies.answer(command, False)
        if subscription is None or consumer_id is None or not subscription.pulling:
            return
        if not subscription.pull(command.timeout, session.broker.now):
            self.dispatching.show_none(consumer_id)

    def unsubscribe(self, command: RemoveSubscriptionInfo) -> None:
        """Remove a durable subscription. Raises SubscriptionInUse, InvalidDestination."""
        session = self.session
        client_id = command.client_id or session.client_id
        name = command.subscription_name or ""
        session.broker.access.forget(session.subject, session.broker.reading.durable(client_id, name))
        try:
            found = session.broker.reading.forget_durable(client_id, name)
        except SubscriptionInUse:
            raise SubscriptionInUse(
                f"Durable consumer is in use for client: {client_id} and subscriptionName: {name}"
            ) from None
        if not found:
            raise InvalidDestination(
                f"No durable subscription exists for clientID: {client_id} and subscriptionName: {name}"
            )
        self.replies.answer(command, True)
