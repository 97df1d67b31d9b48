"""SUBSCRIBE and UNSUBSCRIBE: the subscriptions of one connection, opened, browsed and ended. [C]"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import UNLIMITED
from entrepot.base.errors import EntrepotError, InvalidDestination, ProtocolViolation, Refused
from entrepot.core.queue.consumer import Pause
from entrepot.core.queue.queue import MAYBE_DELIVERED, UNKNOWN_DELIVERED
from entrepot.model import address as names
from entrepot.model.address import UNTYPED
from entrepot.protocols.serving.session import ServerSession
from entrepot.protocols.stomp.answers import Answers
from entrepot.protocols.stomp.codec import Reader
from entrepot.protocols.stomp.delivery import ACK_AUTO, ACK_CLIENT, ACK_INDIVIDUAL, StompSubscription, Subscribed
from entrepot.protocols.stomp.escapes import V10
from entrepot.protocols.stomp.headers import selector_of, whole_number
from entrepot.protocols.stomp.places import ROUTING_TYPES, Places
from entrepot.protocols.stomp.writing import Writing

ACK_MODES: Final = {"auto": ACK_AUTO, "client": ACK_CLIENT, "client-individual": ACK_INDIVIDUAL}


class Consuming(Subscribed):
    """What a client says about its subscriptions. Only this adds and removes them."""

    def __init__(
        self,
        session: ServerSession,
        reader: Reader,
        answers: Answers,
        writing: Writing,
        places: Places,
        most: i64,
    ) -> None:
        super().__init__()
        self.session: ServerSession = session
        self.reader: Reader = reader
        self.answers: Answers = answers
        self.writing: Writing = writing
        self.places: Places = places
        self.most: i64 = most

    def subscribe(self, headers: dict[str, str]) -> None:
        """SUBSCRIBE. Raises Refused and what is below it, ProtocolViolation."""
        broker = self.session.broker
        key = self._key(headers)
        subscription = self._described(headers)
        destinations = subscription.destinations
        if headers.get("browser", "") == "true":
            for one in destinations:
                broker.access.browse(self.session.subject, one)
            self.places.check_owner(destinations)
            self._browse(subscription, key)
            return
        self._options(subscription, headers, destinations[0].options)
        if subscription.durable_name and not subscription.client_id:
            raise ProtocolViolation("a durable subscription needs a client-id on CONNECT")
        self.places.may_consume(destinations, subscription.durable_name)
        subscription.window.pause(Pause.OPENING)  # the RECEIPT comes before the first message (classic.md 6.3)
        try:
            broker.subscribe(subscription)
        except EntrepotError:
            self._release(subscription)
            raise
        self.named[key] = subscription
        self.session.outlet.feed(subscription)
        self.answers.confirm(bool(subscription.durable_name))
        subscription.opened()

    def _key(self, headers: dict[str, str]) -> str:
        """Return what the new subscription is called here. Raises ProtocolViolation, InvalidDestination, Refused."""
        identity = headers.get("id", "")
        written = headers.get("destination", "")
        if not identity and self.reader.version != V10:
            raise ProtocolViolation("SUBSCRIBE has no id, which STOMP 1.1 and 1.2 require")
        if not written:
            raise InvalidDestination("SUBSCRIBE has no destination")
        key = identity or written
        if key in self.named:
            raise ProtocolViolation(f"there is already a subscription {key!r} on this connection")
        if len(self.named) >= self.most:
            raise Refused(f"{self.most} subscriptions are open on this connection")
        return key

    def _described(self, headers: dict[str, str]) -> StompSubscription:
        """Return a new subscription to what the frame names. Raises ProtocolViolation and what is wrong with it."""
        written = headers.get("destination", "")
        mode = headers.get("ack", "auto")
        if mode not in ACK_MODES:
            raise ProtocolViolation(f"ack is {mode!r}", remedy="use auto, client or client-individual")
        routing = ROUTING_TYPES.get(headers.get("subscription-type", headers.get("destination-type", "")), UNTYPED)
        destinations = [self.places.real(one) for one in names.parse(written, routing)]
        subscription = StompSubscription(self, self.writing, destinations, headers.get("id", ""), ACK_MODES[mode])
        subscription.selector = selector_of(headers.get("selector", ""))
        subscription.transformation = headers.get("transformation", "")
        if any(one.temporary for one in destinations):
            subscription.shown = written
        return subscription

    def _options(self, subscription: StompSubscription, headers: dict[str, str], query: dict[str, str]) -> None:
        """Read the extension headers of both families, and Classic's ``?consumer.*`` in the destination (4.1)."""
        session = self.session
        found = {name[len("consumer.") :]: value for name, value in query.items() if name.startswith("consumer.")}
        unknown = [name for name in query if not name.startswith("consumer.")]
        for name, value in headers.items():
            if name.startswith("activemq."):
                found[name[len("activemq.") :]] = value
        if unknown:
            raise Refused(f"unknown destination options: {', '.join(unknown)}", remedy="they begin with consumer.")
        if "prefetchSize" in found:
            subscription.prefetch = max(0, whole_number(found["prefetchSize"], "prefetchSize"))
        if "consumer-window-size" in headers:
            octets = whole_number(headers["consumer-window-size"], "consumer-window-size")
            subscription.octets = octets if octets > 0 else UNLIMITED
        subscription.priority = whole_number(found.get("priority", "0"), "priority")
        subscription.exclusive = found.get("exclusive", "false") == "true"
        subscription.no_local = found.get("noLocal", headers.get("no-local", "false")) == "true"
        subscription.retroactive = found.get("retroactive", "false") == "true"
        if "maximumPendingMessageLimit" in found:
            subscription.pending_limit = whole_number(found["maximumPendingMessageLimit"], "maximumPendingMessageLimit")
        subscription.durable_name = headers.get(
            "durable-subscription-name", headers.get("durable-subscriber-name", found.get("subscriptionName", ""))
        )
        if "selector" in found and subscription.selector is None:
            subscription.selector = selector_of(found["selector"])
        subscription.client_id = session.client_id
        subscription.origin = session.number
        subscription.connection = session.client_id or session.peer
        subscription.peer = session.peer
        subscription.user = session.subject.name

    def _browse(self, subscription: StompSubscription, key: str) -> None:
        subscription.browser = self.session.broker.reading.browse(subscription.destinations, subscription.selector)
        if not subscription.shown:
            subscription.shown = subscription.destinations[0].stomp()
        self.named[key] = subscription
        self.session.outlet.feed(subscription)
        self.answers.confirm(False)
        subscription.pump()

    def unsubscribe(self, headers: dict[str, str]) -> None:
        """UNSUBSCRIBE. Raises InvalidDestination, SubscriptionInUse."""
        session = self.session
        broker = session.broker
        key = headers.get("id") or headers.get("destination", "")
        durable = headers.get("durable-subscription-name", headers.get("activemq.subscriptionName", ""))
        subscription = self.named.pop(key, None)
        if subscription is not None:
            self._release(subscription)
        if durable:
            client_id = session.client_id
            broker.access.forget(session.subject, broker.reading.durable(client_id, durable))
            if not broker.reading.forget_durable(client_id, durable) and subscription is None:
                raise InvalidDestination(f"there is no durable subscription {durable!r} of client {client_id!r}")
        elif subscription is None:
            raise InvalidDestination(f"there is no subscription {key!r} on this connection")
        self.answers.confirm(bool(durable))

    def ended(self, subscription: StompSubscription, why: str) -> None:
        """The broker took a subscription away: say so once, and forget it."""
        for key, known in list(self.named.items()):
            if known is subscription:
                del self.named[key]
                self._release(subscription, MAYBE_DELIVERED)
                self.answers.error(Refused(f"the subscription {key!r} ended: {why}"), b"")

    def _release(self, subscription: StompSubscription, last_delivered: i64 = UNKNOWN_DELIVERED) -> None:
        """Detach a subscription; what it had not settled goes back."""
        subscription.browser = None
        self.session.outlet.starve(subscription)
        for consumer in subscription.consumers:
            self.consumers.pop(int(consumer.key), None)
        self.session.broker.unsubscribe(subscription, last_delivered)

    def end(self, last_delivered: i64) -> None:
        """Stop reading from queues; what is not settled goes back, and what one gives back is not for the next."""
        self.session.outlet.pause(Pause.ENDING)
        for subscription in list(self.named.values()):
            subscription.browser = None
            self.session.outlet.starve(subscription)
            self.session.broker.unsubscribe(subscription, last_delivered)
        self.named.clear()
        self.consumers.clear()
