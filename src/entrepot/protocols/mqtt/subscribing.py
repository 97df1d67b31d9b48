"""SUBSCRIBE and UNSUBSCRIBE: the subscriptions of one connection. [C]

Of a session that outlives its connection a subscription of QoS 1 or 2 is a durable queue, ``<client id>.<filter>`` as
in Artemis, which other protocols and operators see; one of QoS 0, and all of other sessions, are plain subscribers to
the topic, whose queues go with the connection. Shared subscriptions are durable queues always.
"""

from __future__ import annotations

from msgspec.structs import replace
from mypy_extensions import i64

from entrepot.base.errors import AccessDenied, EntrepotError, InvalidDestination, Refused
from entrepot.core.addressing.definition import durable_subscription
from entrepot.core.broker import BrokerCore
from entrepot.core.owners import SubscriptionOwner
from entrepot.core.queue.consumer import Pause
from entrepot.core.queue.queue import MAYBE_DELIVERED, Queue
from entrepot.model.address import MULTICAST, Destination
from entrepot.protocols.mqtt.delivery import MqttSubscription, Outgoing
from entrepot.protocols.mqtt.house import SHARE_OWNER, SHARED_BY, House, Shown, share_name, share_queue
from entrepot.protocols.mqtt.options import MqttOptions
from entrepot.protocols.mqtt.packets import Subscribe, Wish, suback
from entrepot.protocols.mqtt.refusals import Connected, broken, reason_of
from entrepot.protocols.mqtt.schema import (
    FAILED_3,
    NO_SUBSCRIPTION,
    PROTOCOL_ERROR,
    UNSUBACK,
    V5,
)
from entrepot.protocols.mqtt.state import Filed, MqttState
from entrepot.protocols.mqtt.topics import address_of, shared, topic_of, virtual_queue
from entrepot.protocols.serving.confirmations import Confirmation

SHOWN = "$SYS/"  # figures of the broker are under it


class Subscribing:
    """What a client says about its subscriptions. ``open``: those that deliver, by filter as it was written."""

    def __init__(self, session: Connected, house: House, outgoing: Outgoing, options: MqttOptions) -> None:
        self.session: Connected = session
        self.broker: BrokerCore = session.broker
        self.house: House = house
        self.outgoing: Outgoing = outgoing
        self.state: MqttState = outgoing.state
        self.options: MqttOptions = options
        self.prefetch: i64 = outgoing.quota
        self.open: dict[str, MqttSubscription] = {}

    def subscribe(self, packet: Subscribe) -> None:
        """SUBSCRIBE. Raises ProtocolViolation."""
        version = self.outgoing.version
        codes: list[int] = []
        fresh: list[MqttSubscription] = []
        for wish in packet.wishes:
            if wish.no_local and wish.filter.startswith("$share/"):
                raise broken(self.session, PROTOCOL_ERROR, "a shared subscription cannot be no-local")
        for wish in packet.wishes:
            try:
                fresh.append(self._subscribe(wish, packet.identifier))
                codes.append(int(wish.qos))
            except Refused as error:
                codes.append(int(reason_of(error)) if version == V5 else FAILED_3)
        if self.state.persistent:
            self.house.keep(self.state)
        self.session.confirmations.ask(_Subscribed(self, suback(packet.packet_id, codes, version), fresh))

    def _subscribe(self, wish: Wish, identifier: i64) -> MqttSubscription:
        """Do one filter. Raises Refused and what is below it."""
        state = self.state
        share, text = shared(wish.filter)
        known = wish.filter in state.subscriptions
        if not known and len(state.subscriptions) >= self.options.subscriptions_max:
            raise _too_many(self.options.subscriptions_max)
        if not known and not share and text.startswith(SHOWN):
            self._figures().check(self._owner())
        subscription = self.open.get(wish.filter)
        if subscription is not None and not self._stays(subscription, wish):
            self._release(subscription)
            subscription = None
        if subscription is None:
            subscription = self._attach(wish.filter, share, text, wish.options, identifier)
        subscription.let(wish.options, identifier)
        self._bar_own(subscription, wish)
        state.subscriptions[wish.filter] = Filed(wish.options, identifier)
        self.house.joined(state, wish.filter)
        queue = subscription.queue
        if queue is not None and not share and (wish.handling == 0 or (wish.handling == 1 and not known)):
            self.house.give_retained(queue, address_of(text, state.virtual))  # before anything that comes now
        self._show(subscription, share, text, wish.handling == 0 or (wish.handling == 1 and not known))
        return subscription

    def _show(self, subscription: MqttSubscription, share: str, text: str, at_once: bool) -> None:
        """Let it have the figures of the broker that it asks for, if any; ``at_once``: and what they are now."""
        queue = subscription.queue
        if queue is None or share or not text.startswith(SHOWN):
            return
        pattern = address_of(text)
        figures = self._figures()
        figures.watch(queue, pattern, self._owner())
        if at_once:
            figures.give(queue, pattern)

    def _figures(self) -> Shown:
        """Return the figures of the broker, made when somebody asks for them first."""
        figures = self.house.figures
        if figures is None:
            from entrepot.protocols.mqtt.figures import Figures  # noqa: PLC0415 - few ask for them

            figures = self.house.figures = Figures(self.house)
        return figures

    def _owner(self) -> str:
        """Return on whose account subscriptions count: his user's, his client id's where there are no users."""
        name = self.session.subject.name
        return name if name else "client id " + self.session.client_id

    def _stays(self, subscription: MqttSubscription, wish: Wish) -> bool:
        """Return whether an open subscription can serve the same filter with other options: nothing is lost then."""
        return subscription.tracked or wish.qos == 0

    def _bar_own(self, subscription: MqttSubscription, wish: Wish) -> None:
        """Let no-local mean this connection: what it sends is not routed to the queue of the subscription."""
        queue = subscription.queue
        origin: i64 = self.session.number if wish.no_local else 0
        if queue is not None and queue.filter_origin != origin:
            queue.filter_origin = origin
            self.broker.table.version += 1

    def _attach(self, written: str, share: str, text: str, options: i64, identifier: i64) -> MqttSubscription:
        """Open a subscription; it delivers nothing yet. Raises Refused and what is below it."""
        session = self.session
        virtual = self.state.virtual
        address = address_of(text, virtual)
        destination = Destination(address, MULTICAST)
        subscription = MqttSubscription(self.outgoing, destination, written)
        subscription.tracked = options & 3 > 0
        kept = self.house.queue_of(self.state, written)
        if share:
            if kept is not None and kept.address != address:
                raise InvalidDestination(
                    f"{written!r} has the queue {kept.name!r}, and that is of {topic_of(kept.address)!r} already",
                    remedy="use a share name without dots",
                )
            subscription.shared = True
            subscription.client_id = SHARE_OWNER
            subscription.durable_name = share_name(share, text, virtual)
            subscription.tracked = True
        elif self.state.persistent and (subscription.tracked or kept is not None):
            subscription.tracked = True
            if virtual:
                subscription.destinations[0] = Destination(address, MULTICAST, False, self._named(kept, text, options))
            else:
                subscription.client_id = session.client_id
                subscription.durable_name = address
        lasts = bool(subscription.durable_name) or bool(subscription.destinations[0].queue)
        self.broker.access.consume(session.subject, [destination], lasts)
        if lasts:
            self.broker.access.forget(session.subject, kept)
        if share and kept is None:
            self._make_share(share, text)
        elif virtual and lasts and kept is None:
            self._make_virtual(subscription.destinations[0])
        subscription.prefetch = self.prefetch
        subscription.octets = self.options.in_flight_octets
        subscription.origin = session.number
        subscription.connection = session.client_id
        subscription.peer = session.peer
        subscription.user = session.subject.name
        subscription.let(options, identifier)
        subscription.window.pause(Pause.OPENING)  # SUBACK, or CONNACK, comes before the first message
        if self.outgoing.paused:
            subscription.window.pause(Pause.QUOTA)
        try:
            self.broker.subscribe(subscription)
        except EntrepotError:
            self.broker.unsubscribe(subscription, MAYBE_DELIVERED)
            raise
        self.open[written] = subscription
        session.outlet.feed(subscription)
        return subscription

    def _make_share(self, share: str, text: str) -> None:
        """Make the queue of a shared subscription, by whose maker it is known after a crash."""
        virtual = self.state.virtual
        owner = SubscriptionOwner(SHARE_OWNER, share_name(share, text, virtual), True)
        made = durable_subscription(share_queue(share, text, virtual), address_of(text, virtual), "", owner)
        self.broker.queues.create(replace(made, user=SHARED_BY))

    def _named(self, kept: Queue | None, text: str, options: i64) -> str:
        """Return the name of the queue of a virtual topic: it keeps the one that it began with."""
        return virtual_queue(self.state.client_id, max(options & 3, i64(1)), text) if kept is None else kept.name

    def _make_virtual(self, where: Destination) -> None:
        """Make the queue of a subscription that lasts, of a virtual topic."""
        owner = SubscriptionOwner(self.state.client_id, where.name)
        self.broker.queues.create(durable_subscription(where.queue, where.name, "", owner))

    def resume(self) -> None:
        """The session goes on: open what it is subscribed to. Call `begin` when CONNACK is written."""
        for text, filed in list(self.state.subscriptions.items()):
            wish = Wish(text, filed.options)
            try:
                share, rest = shared(text)
                subscription = self._attach(text, share, rest, filed.options, filed.identifier)
                self._bar_own(subscription, wish)
                self._show(subscription, share, rest, False)
            except Refused:  # he may not any more, or the name belongs to somebody else now
                self.state.subscriptions.pop(text, None)

    def begin(self) -> None:
        """Let all subscriptions deliver."""
        for subscription in list(self.open.values()):
            subscription.opened()

    def unsubscribe(self, packet: Subscribe) -> None:
        """UNSUBSCRIBE."""
        version = self.outgoing.version
        codes: list[int] = []
        for wish in packet.wishes:
            try:
                shared(wish.filter)
            except InvalidDestination as error:
                codes.append(int(reason_of(error)))
                continue
            subscription = self.open.get(wish.filter)
            if subscription is not None:
                self._release(subscription)
            try:
                self.broker.access.forget(self.session.subject, self.house.queue_of(self.state, wish.filter))
            except AccessDenied as error:
                codes.append(int(reason_of(error)))
                continue
            codes.append(0 if self.house.forget(self.state, wish.filter) else NO_SUBSCRIPTION)
        if self.state.persistent:
            self.house.keep(self.state)
        self.session.confirmations.ask(_Subscribed(self, suback(packet.packet_id, codes, version, UNSUBACK), []))

    def _release(self, subscription: MqttSubscription) -> None:
        """Stop a subscription; what is on its way is finished with the client, and nothing else is."""
        self.open.pop(subscription.text, None)
        self.session.outlet.starve(subscription)
        for flight in self.state.flights.values():
            if flight.consumer in subscription.consumers:
                flight.consumer = None
        self.broker.unsubscribe(subscription, MAYBE_DELIVERED)

    def end(self) -> None:
        """The connection is gone: what is not settled goes back to its queues."""
        self.session.outlet.pause(Pause.ENDING)
        for subscription in list(self.open.values()):
            self.session.outlet.starve(subscription)
            self.broker.unsubscribe(subscription, MAYBE_DELIVERED)
        self.open.clear()


class _Subscribed(Confirmation):
    """SUBACK or UNSUBACK, once the disk has what it confirms; then subscriptions deliver."""

    def __init__(self, subscribing: Subscribing, octets: bytes, fresh: list[MqttSubscription]) -> None:
        super().__init__(subscribing.session.confirmations)
        self.subscribing: Subscribing = subscribing
        self.octets: bytes = octets
        self.fresh: list[MqttSubscription] = fresh

    def give(self) -> None:
        """Write it, and let subscriptions deliver."""
        self.subscribing.session.say(self.octets)
        for subscription in self.fresh:
            subscription.opened()

    def refuse(self, error: EntrepotError) -> None:
        """The disk failed: the connection ends."""
        self.subscribing.session.fail(error)


def _too_many(most: i64) -> Refused:
    return Refused(f"the session has {most} subscriptions, and may have no more", remedy="unsubscribe from some")
