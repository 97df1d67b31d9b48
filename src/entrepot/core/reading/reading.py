"""Reading: subscriptions find their queues, consumers come and go, browsers look. [C]"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.errors import (
    Refused,
    SubscriptionInUse,
)
from entrepot.base.patterns import MIXED, is_pattern
from entrepot.base.patterns import matches as pattern_matches
from entrepot.core.addressing.binding import passes
from entrepot.core.addressing.definition import durable_subscription, subscriber
from entrepot.core.addressing.policy import Policies
from entrepot.core.addressing.queues import Queues, QueueWatcher
from entrepot.core.addressing.routing import RoutingTable, default_routing
from entrepot.core.effort import Rest
from entrepot.core.events import announcing
from entrepot.core.options import BrokerOptions
from entrepot.core.owners import SubscriptionOwner
from entrepot.core.ports import Host
from entrepot.core.queue.browser import Browser
from entrepot.core.queue.consumer import Consumer, Pause
from entrepot.core.queue.queue import MAYBE_DELIVERED, NONE_DELIVERED, UNKNOWN_DELIVERED, Queue, queue_of
from entrepot.core.reading.retroactive import still_stored
from entrepot.core.reading.subscription import DEFAULT_PREFETCH, Subscription, durable_queue_name
from entrepot.core.sending.handing import Deferral, enter, hand_out
from entrepot.core.sending.sending import Sending
from entrepot.model.address import ANYCAST, MULTICAST, UNTYPED, Destination
from entrepot.model.message import Message
from entrepot.model.predicate import Predicate

ATTACH_UNITS: Final = 6  # of `core/effort.py`: to give a queue a consumer, or take it away, and tell of it


class _Attaching(Rest):
    """Gives a subscription to a wildcard the rest of the queues that were there when it came, ``queues``, last first.

    To its reader it is as if these were made a moment later.
    """

    def __init__(self, reading: Reading, subscription: Subscription, queues: list[Queue]) -> None:
        super().__init__()
        self.reading = reading
        self.subscription = subscription
        self.queues = queues

    def resume(self) -> None:
        if self.subscription in self.reading.followers and not self.reading.attach_on(self.subscription, self.queues):
            self.reading.host.effort.later(self)


class _Leaving(Rest):
    """Takes the consumers of a subscription to a wildcard that has ended from their queues. They get nothing more."""

    def __init__(
        self, reading: Reading, subscription: Subscription, consumers: list[Consumer], last_delivered: i64
    ) -> None:
        super().__init__()
        self.reading = reading
        self.subscription = subscription
        self.consumers = consumers
        self.last_delivered = last_delivered

    def resume(self) -> None:
        if not self.reading.detach_on(self.subscription, self.consumers, self.last_delivered):
            self.reading.host.effort.later(self)


class _Recalling(Rest):
    """Gives a new subscriber what its topics remember. What comes meanwhile waits behind it."""

    def __init__(self, host: Host, queue: Queue, remembered: list[Message]) -> None:
        super().__init__()
        self.host = host
        self.queue = queue
        self.remembered = remembered
        self.at: i64 = 0
        self.deferral: Deferral | None = None
        host.effort.spent += len(remembered)  # they were looked for

    def resume(self) -> None:
        while self.at < len(self.remembered):
            if self.host.effort.is_over() and not self.queue.deleted:
                if self.deferral is None:
                    self.deferral = Deferral(self.host, self.queue)
                self.host.effort.later(self)
                return
            self._give(self.remembered[self.at])
            self.at += 1
        if self.deferral is not None:
            self.deferral.pay()

    def _give(self, message: Message) -> None:
        if not self.queue.deleted and passes(self.queue, message):
            if self.deferral is None:
                enter(self.host, self.queue, message)
            else:
                self.deferral.let_in(message)


class Reading(QueueWatcher):
    """Who reads: subscriptions, those to wildcards of queues among them, and browsers."""

    def __init__(self, host: Host, options: BrokerOptions, sending: Sending) -> None:
        self.host: Host = host
        self.options: BrokerOptions = options
        self.sending: Sending = sending
        self.queues: Queues = sending.queues
        self.table: RoutingTable = sending.table
        self.policies: Policies = sending.policies
        self.followers: list[Subscription] = []  # subscriptions to wildcards of queues

    def _follower(self, consumer: Consumer) -> Subscription | None:
        for subscription in self.followers:
            if subscription.window is consumer.window:
                return subscription
        return None

    def added(self, queue: Queue) -> None:
        """Attach the wildcard subscriptions that cover ``queue``."""
        if queue.routing == ANYCAST and not queue.definition.owner:  # a temporary queue is its connection's alone
            for subscription in self.followers:
                for pattern in subscription.patterns:
                    if pattern_matches(pattern, queue.name, MIXED):
                        self._attach(subscription, queue)
                        break

    def closed(self, queue: Queue, why: str) -> None:
        """Take its consumers from ``queue``, which is being deleted, and tell them."""
        for consumer in list(queue.roster.consumers):
            follower = self._follower(consumer)
            if follower is None:
                consumer.ended(why)
            else:
                follower.consumers.remove(consumer)
            if consumer.queue is queue:
                self.detach(queue, consumer, NONE_DELIVERED)

    def subscribe(self, subscription: Subscription) -> None:
        """Attach ``subscription`` to every queue that it names. Raises Refused; nothing is attached then."""
        if subscription.durable_name and self.options.refuses_durables:
            raise Refused(
                "durable subscriptions are refused on this broker (rejectDurableConsumers)",
                remedy="subscribe without a name, or read a queue of a virtual topic",
            )
        first = subscription.destinations[0]
        window = subscription.window
        window.octets = subscription.octets
        window.messages = subscription.prefetch
        if subscription.prefetch == DEFAULT_PREFETCH:
            window.messages = self._default_prefetch(subscription, first)
        found: list[tuple[Destination, Queue]] = []
        try:
            for destination in subscription.destinations:
                for queue in self._source(subscription, destination):
                    found.append((destination, queue))
            for _, queue in found:
                self._check_readers(queue)
            at = 0
            while at < len(found) and not (subscription.patterns and self.host.effort.is_over()):
                destination, queue = found[at]
                self._attach(subscription, queue, destination.queue != "")
                at += 1
        except Refused:
            self.unsubscribe(subscription, MAYBE_DELIVERED)
            for _, queue in found:
                if queue.temporary and queue.routing == MULTICAST and not queue.roster.consumers:
                    self.queues.delete(queue, "its subscription was refused")
            raise
        if subscription.patterns:
            self._follow(subscription)
            if at < len(found):
                left = [queue for _, queue in found[at:]]
                left.reverse()
                self.host.effort.later(_Attaching(self, subscription, left))
        for queue in subscription.recalling:
            self._recall(queue, subscription.retroactive)
        subscription.recalling.clear()

    def attach_on(self, subscription: Subscription, queues: list[Queue]) -> bool:
        """Attach ``subscription`` to ``queues`` from the end on, as far as this turn reaches; return whether to all."""
        while queues:
            if self.host.effort.is_over():
                return False
            queue = queues.pop()
            if not queue.deleted:
                try:
                    self._attach(subscription, queue)
                except SubscriptionInUse:
                    continue  # others came meanwhile, as many as it admits
        return True

    def _follow(self, subscription: Subscription) -> None:
        """Attach it to queues to come, and say so: other brokers may have messages for it in queues we do not have."""
        self.followers.append(subscription)
        for pattern in subscription.patterns:
            key = int(self.host.ids.consumer_key())
            subscription.pattern_keys.append(key)
            announcing.follows(self.host.hub, pattern, key, subscription)

    def _recall(self, queue: Queue, retroactive: bool) -> None:
        """Give a new subscription what its topic remembers, before anything that comes now (classic.md 4.7)."""
        if not queue.durable:
            _Recalling(self.host, queue, self.sending.recollections.recall(queue.address)).resume()
            return
        recalled = self.sending.recollections.recall(queue.address)
        if retroactive:
            ids = self.host.ids
            known = {ids.identity_of(message) for message in recalled}
            stored = still_stored(self.table, ids, queue)
            recalled = [one for one in stored if ids.identity_of(one) not in known] + recalled
        self.host.journal.begin()
        try:
            for message in recalled:
                if passes(queue, message):
                    # what it keeps over a restart needs a record, and a number, of its own: all of them now
                    hand_out(self.host, self.host.ids.renumbered(message), [queue])
        finally:
            self.host.journal.end()

    def _default_prefetch(self, subscription: Subscription, destination: Destination) -> i64:
        routing = destination.routing
        if routing == UNTYPED:
            routing = default_routing(self.table, destination.name)
        policy = self.policies.of(destination.name, routing)
        return policy.default_prefetch(routing == MULTICAST, subscription.durable_name != "")

    def _source(self, subscription: Subscription, destination: Destination) -> list[Queue]:
        """Return the queues that a subscription to ``destination`` reads, made as needed."""
        if destination.queue:
            return [self.queues.need(destination)]
        routing = destination.routing
        if routing == UNTYPED:
            routing = default_routing(self.table, destination.name)
        if routing == MULTICAST:
            return [self._topic_queue(subscription, destination)]
        if self.table.wildcards and is_pattern(destination.name, MIXED):
            subscription.patterns.append(destination.name)
            self.host.effort.spent += len(self.table.queues)
            found = self.table.matching(destination.name)
            return [queue for queue in found if queue.routing == ANYCAST and not queue.definition.owner]
        return [self.queues.need(destination)]

    def _topic_queue(self, subscription: Subscription, destination: Destination) -> Queue:
        """Return the queue of a topic subscription: its own for a plain one, the named one for a durable one."""
        policy = self.policies.of(destination.name, MULTICAST)
        if not policy.given.auto_create_addresses:
            self.queues.check_address(destination.name, policy)
        if not subscription.durable_name:
            name = f"{destination.name}#{self.host.ids.consumer_key()}"
            definition = subscriber(name, destination.name, subscription.selector_text)
            queue = self.queues.create(definition, subscription.selector)
            queue.pending_limit = queue.policy.pending_limit
            if queue.pending_limit < 0 and queue.policy.pending_rate >= 0.0:
                queue.pending_limit = int(float(subscription.window.messages) * queue.policy.pending_rate)
            if subscription.pending_limit >= 0:
                queue.pending_limit = subscription.pending_limit
            if subscription.no_local:
                queue.filter_origin = subscription.origin
            self._note_recall(subscription, queue)
            return queue
        name = durable_queue_name(subscription.client_id, subscription.durable_name)
        existing = self.table.queues.get(name)
        if existing is not None:
            if existing.roster.is_read() and not subscription.shared:
                raise SubscriptionInUse(f"the durable subscription {subscription.durable_name!r} is in use")
            had = existing.definition
            same = had.address == destination.name and had.selector == subscription.selector_text
            if same and had.no_local == subscription.no_local:
                return self._own(existing, subscription)
            why = "its selector, topic or no-local changed"  # JMS 2.0 8.3.3: made anew
            self.queues.delete(existing, why, renewed=True)
        owner = SubscriptionOwner(subscription.client_id, subscription.durable_name, subscription.shared)
        local = subscription.no_local
        definition = durable_subscription(name, destination.name, subscription.selector_text, owner, no_local=local)
        queue = self.queues.create(definition, subscription.selector)
        self._note_recall(subscription, queue)
        return self._own(queue, subscription)

    def _note_recall(self, subscription: Subscription, queue: Queue) -> None:
        if subscription.retroactive or queue.policy.always_retroactive:
            subscription.recalling.append(queue)

    def _own(self, queue: Queue, subscription: Subscription) -> Queue:
        """Let no-local of a durable subscription mean the connection that reads it now."""
        queue.filter_origin = subscription.origin if subscription.no_local else 0
        self.table.version += 1  # targets that were resolved without this filter look again
        return queue

    def _attach(self, subscription: Subscription, queue: Queue, selective: bool = False) -> None:
        """Attach a consumer. A topic's queue has its selector itself, unless it was named directly: ``selective``."""
        self._check_readers(queue)
        self.host.effort.spent += ATTACH_UNITS + (len(queue.roster.consumers) >> 3)
        consumer = subscription.consumer(queue)
        consumer.priority = subscription.priority
        consumer.exclusive = subscription.exclusive
        consumer.origin = subscription.origin
        consumer.connection = subscription.connection
        consumer.kind = subscription.kind
        consumer.subscriber = subscription.reader()
        if queue.routing == ANYCAST or selective:
            consumer.selector = subscription.selector
            consumer.no_local = subscription.no_local
        subscription.consumers.append(consumer)
        queue.attach(consumer)
        announcing.attached(self.host.hub, queue, consumer)

    def _check_readers(self, queue: Queue) -> None:
        """Raise SubscriptionInUse when ``queue`` has as many consumers as it admits."""
        limit = queue.traits.max_consumers
        if 0 <= limit <= queue.roster.readers():
            raise SubscriptionInUse(f"the queue {queue.name!r} admits {limit} consumers and has them")

    def unsubscribe(self, subscription: Subscription, last_delivered: i64 = UNKNOWN_DELIVERED) -> None:
        """Detach ``subscription``; what it had not settled goes back in order. A plain topic queue goes with it."""
        if subscription in self.followers:
            self.followers.remove(subscription)
            for pattern, key in zip(subscription.patterns, subscription.pattern_keys, strict=True):
                announcing.follows_no_longer(self.host.hub, pattern, key, subscription)
            subscription.pattern_keys.clear()
        subscription.window.pause(Pause.RETIRING)  # what one queue frees of its credit is not for the next one
        subscription.window.consumers.clear()
        consumers = subscription.consumers
        subscription.consumers = []
        consumers.reverse()
        if not self.detach_on(subscription, consumers, last_delivered):
            self.host.effort.later(_Leaving(self, subscription, consumers, last_delivered))

    def detach_on(self, subscription: Subscription, consumers: list[Consumer], last_delivered: i64) -> bool:
        """Detach ``consumers``, from the end on: of a wildcard as far as this turn reaches. Return whether all."""
        while consumers:
            if subscription.patterns and self.host.effort.is_over():
                return False
            consumer = consumers.pop()
            queue = queue_of(consumer)
            if queue is None:
                continue
            self.host.effort.spent += ATTACH_UNITS + len(consumer.in_flight) + (len(queue.roster.consumers) >> 2)
            self.detach(queue, consumer, last_delivered)
            if queue.temporary and queue.routing == MULTICAST and not queue.roster.consumers:
                self.queues.delete(queue, "its subscriber left")
        return True

    def detach(self, queue: Queue, consumer: Consumer, last_delivered: i64) -> None:
        """Take ``consumer`` from ``queue``, and tell of it."""
        queue.detach(consumer, last_delivered)
        announcing.detached(self.host.hub, queue, consumer)

    def durable(self, client_id: str, name: str) -> Queue | None:
        """Return the queue of a durable subscription, None when there is none."""
        return self.table.queues.get(durable_queue_name(client_id, name))

    def forget_durable(self, client_id: str, name: str) -> bool:
        """Delete a durable subscription; False when there is none. Raises SubscriptionInUse while it is read."""
        queue = self.table.queues.get(durable_queue_name(client_id, name))
        if queue is None:
            return False
        if queue.roster.is_read():
            raise SubscriptionInUse(f"the durable subscription {name!r} is in use", remedy="close its consumer first")
        self.queues.delete(queue, "it was unsubscribed")
        return True

    def browse(self, destinations: list[Destination], selector: Predicate | None) -> Browser:
        """Return a look through the queues that ``destinations`` name, each once; a wildcard names those there are."""
        found: dict[str, Queue] = {}
        for destination in destinations:
            for queue in self._browsed(destination):
                found[queue.name] = queue
        return Browser(list(found.values()), selector)

    def _browsed(self, destination: Destination) -> list[Queue]:
        if destination.queue or destination.routing == MULTICAST or not is_pattern(destination.name, MIXED):
            return [self.queues.need(destination)]
        self.host.effort.spent += len(self.table.queues)
        found = self.table.matching(destination.name)
        return [queue for queue in found if queue.routing == ANYCAST and not queue.definition.owner]
