"""How messages leave over OpenWire: dispatches, credit, pulls, browsers. [C]

A dispatch is a head of the consumer's own that never changes, the octets of the message as they came with the four
numbers of the broker patched in, and the redelivery counter. Only what was changed, converted, or must be said in
another format is encoded anew.
"""

from __future__ import annotations

from typing import Final

from librt.strings import write_i32_be, write_i64_be
from mypy_extensions import i32, i64, mypyc_attr

from entrepot.base.environment import UNLIMITED, Instant
from entrepot.core.queue.browser import Browser
from entrepot.core.queue.consumer import Consumer, Measurement, Pause
from entrepot.core.queue.head import ADVISORY
from entrepot.core.queue.queue import Queue
from entrepot.model.address import MULTICAST
from entrepot.model.address import Destination as Address
from entrepot.model.message import Message
from entrepot.protocols.openwire.commands import ConsumerId, ConsumerInfo
from entrepot.protocols.openwire.convert import GROUP_FIRST, OPENWIRE_LANGUAGE, is_untouched, named, times_mark
from entrepot.protocols.openwire.dispatching import DispatchConsumer, Dispatching
from entrepot.protocols.openwire.identity import Identity
from entrepot.protocols.openwire.large import measure
from entrepot.protocols.serving.outlet import Outlet, ServedSubscription
from entrepot.protocols.session import NEVER

SEARCH_MS: Final = 1_000  # that a pull without patience has while its queue is being searched


@mypyc_attr(allow_interpreted_subclasses=True)
class Subscribed:
    """The consumers of one connection by their ids, and which of them browse, or get a message when they ask."""

    def __init__(self) -> None:
        self.consumers: dict[ConsumerId, OpenWireSubscription] = {}
        self.pullers: dict[ConsumerId, OpenWireSubscription] = {}

    def ended(self, subscription: OpenWireSubscription, why: str) -> None:
        """The broker took ``subscription`` away."""
        raise NotImplementedError


class OpenWireConsumer(DispatchConsumer):
    """One queue read by one subscription."""

    def __init__(self, subscription: OpenWireSubscription, queue: Queue, key: i64) -> None:
        super().__init__(key, subscription.window, subscription.consumer_id)
        self.dispatching: Dispatching = subscription.dispatching
        self.outlet: Outlet = subscription.outlet
        self.subscription: OpenWireSubscription = subscription
        self.topic: bool = queue.routing == MULTICAST
        self.temporary: bool = queue.temporary and not self.topic
        self.address: str = ""
        self.head: bytes = b""
        self._name(queue.address if self.topic else queue.name)

    def _name(self, address: str) -> None:
        """Prepare what all dispatches of ``address`` begin with."""
        self.address = address
        subscription = self.subscription
        temporary = subscription.temporary if self.topic else self.temporary
        self.where = named(address, self.topic, temporary)
        self.head = self.dispatching.head(subscription.consumer_id, self.where)

    def deliver(self, message: Message, deliveries: i64) -> None:
        """Write a MessageDispatch."""
        dispatching = self.dispatching
        subscription = self.subscription
        named_so = message.address is self.address or message.address == self.address
        if self.topic and not named_so:
            self._name(message.address)
            named_so = True
        if subscription.pulling:
            subscription.pulled()
        if subscription.several:
            subscription.order[message.number] = self
        rare = message.rare
        head = self.head
        if (
            len(head) > 0
            and message.language is OPENWIRE_LANGUAGE
            and not message.escaped
            and (rare is None or is_untouched(rare))
            and named_so
        ):
            raw = message.raw
            sequence: i64 = message.body_at
            times = times_mark(raw)
            size = len(head) + len(raw) + 4
            if size <= dispatching.frame_octets_max:
                outlet = self.outlet
                writer = outlet.out
                first = rare is not None and GROUP_FIRST in rare.annotations
                write_i32_be(writer, i32(size))
                writer.write(head)
                writer.write(raw[: sequence - 8])
                write_i64_be(writer, message.number)
                writer.write(raw[sequence : times - 16])
                write_i64_be(writer, message.timestamp)
                write_i64_be(writer, dispatching.broker.wall)
                writer.append(1 if first else raw[times])
                if times + 1 < len(raw):
                    writer.write(raw[times + 1 :])
                counter = deliveries
                if counter == 0 and message.redelivered:
                    counter = 1
                write_i32_be(writer, i32(counter))
                dispatching.sent += 1
                if not outlet.noted:
                    outlet.note()
                if len(writer) > outlet.high:
                    outlet.choke()
                return
        dispatching.deliver_anew(self, message, deliveries)

    def measure(self, message: Message) -> Measurement | None:
        """Return what must be counted of a large ``message`` before it is delivered."""
        return self.subscription.measure(message)

    def pulls(self) -> i64:
        """Return what was asked for and did not come yet; -1: messages come unasked."""
        return self.subscription.pulls if self.subscription.pulling else -1

    def ended(self, why: str) -> None:
        """Tell the client that this consumer gets nothing any more."""
        self.subscription.ended(why)

    def forget(self, number: int) -> None:
        """Message ``number`` is no longer in flight here."""
        self.subscription.forget(number)


class OpenWireSubscription(ServedSubscription):
    """One ConsumerInfo. ``prefetch`` 0 delivers only what is pulled."""

    def __init__(
        self,
        subscribed: Subscribed,
        identity: Identity,
        dispatching: Dispatching,
        info: ConsumerInfo,
        consumer_id: ConsumerId,
        where: list[Address],
    ) -> None:
        super().__init__(dispatching.outlet, dispatching.broker, where)
        self.subscribed: Subscribed = subscribed
        self.identity: Identity = identity
        self.dispatching: Dispatching = dispatching
        self.announces = True
        self.info: ConsumerInfo = info
        self.consumer_id: ConsumerId = consumer_id
        self.temporary: bool = where[0].temporary
        self.several: bool = False  # reads several queues: then ``order`` knows in which order messages went out
        self.order: dict[int, OpenWireConsumer] = {}
        self.base: i64 = i64(info.prefetch_size)
        self.extension: i64 = 0  # messages that the client has seen and not settled: they take no credit
        self.owed: i64 = 0  # credit of what a commit settled, kept until the commit is answered
        self.pulling: bool = False
        self.pulls: i64 = 0
        self.pull_due: i64 = NEVER
        self.closed: bool = False
        self.advises: bool = all(one.name.startswith(ADVISORY) for one in self.destinations)

    def consumer(self, queue: Queue) -> Consumer:
        """Return a consumer that writes to this subscription's connection."""
        if self.consumers:
            self.several = True
        identity = self.identity
        key = identity.broker.ids.consumer_key()
        identity.advisories.own[str(key)] = self.info  # the session tells of it, with more than the core knows
        return OpenWireConsumer(self, queue, key)

    # -- credit -------------------------------------------------------------------------------------------------------

    def set_prefetch(self, prefetch: i64) -> None:
        """Change the prefetch, also of a running consumer; call `settle_credit` after it."""
        self.base = max(prefetch, 0)
        self.pulling = self.base == 0
        self.prefetch = UNLIMITED if self.pulling else self.base

    def settle_credit(self) -> None:
        """Bring the window up to date and let messages flow if it is open."""
        window = self.window
        if self.pulling and self.pulls == 0:
            window.pause(Pause.PULL)
        else:
            window.lift(Pause.PULL)
        window.messages = UNLIMITED if self.pulling else self.base + self.extension - self.owed
        window.reopen()

    def relieved(self) -> None:
        """The peer reads again."""
        self.settle_credit()
        self.pump()

    def opened(self) -> None:
        """Deliver: what the client must hear before the first message has been said."""
        self.window.lift(Pause.OPENING)
        self.settle_credit()

    def extend(self, count: i64) -> None:
        """The client saw ``count`` messages more and will settle them later (classic.md 4.2)."""
        if self.pulling or count <= 0 or not self.identity.options.prefetch_extension:
            return
        # never more than what is out: a client may not lend itself credit
        self.extension = min(self.extension + count, self.window.used)
        self.window.messages = self.base + self.extension - self.owed
        self.window.reopen()

    def settled(self, count: i64) -> None:
        """``count`` messages are settled: take back the credit that was lent for them. Call it before settling."""
        if self.extension > 0:
            self.extension = max(self.extension - count, 0)
            self.window.messages = self.base + self.extension - self.owed

    def owe(self, count: i64) -> None:
        """A commit settles ``count`` messages: what it makes room for must not overtake its answer. Call `repay` then.

        A client may read nothing further before it has taken what comes: its reader would wait for the thread that
        waits for the answer (a pool of one ServerSession, prefetch 1).
        """
        if not self.pulling:
            self.owed += count
            self.window.messages = self.base + self.extension - self.owed

    def repay(self, count: i64) -> None:
        """The commit is answered."""
        self.owed = max(self.owed - count, 0)
        if not self.closed:
            self.settle_credit()

    def pull(self, timeout_ms: i64, now: Instant) -> bool:
        """Let one message through; return whether it came at once. ``timeout_ms``: -1 only now, 0 for ever."""
        self.pulls += 1
        self.settle_credit()
        if self.pulls == 0:
            return True
        if timeout_ms < 0 and self.is_searching():
            timeout_ms = SEARCH_MS  # what it wants may be there and was not come to yet
        if timeout_ms < 0:
            self.pulls = 0
            self.window.pause(Pause.PULL)
            return False
        self.pull_due = NEVER if timeout_ms == 0 else now + timeout_ms * 1_000_000
        return True

    def is_searching(self) -> bool:
        """Return whether a queue has not seen yet all that it may have for this, or measures some of it."""
        if self.window.pauses & Pause.MEASURING != 0:
            return True
        for consumer in self.consumers:
            queue = consumer.queue
            if queue is not None and int(queue.identity) in queue.host.working:
                return True
        return False

    def pulled(self) -> None:
        """A message goes out that was pulled."""
        if self.pulls > 0:
            self.pulls -= 1
        if self.pulls == 0:
            self.window.pause(Pause.PULL)
            self.pull_due = NEVER

    def pull_ended(self) -> None:
        """The time for a pull is over."""
        self.pulls = 0
        self.pull_due = NEVER
        self.window.pause(Pause.PULL)

    # -- acknowledgement ----------------------------------------------------------------------------------------------

    def holder(self, number: int) -> OpenWireConsumer | None:
        """Return the consumer at which message ``number`` is in flight."""
        if self.several:
            known = self.order.get(number)
            if known is not None and number in known.in_flight:
                return known
            return None
        for consumer in self.consumers:
            if number in consumer.in_flight and isinstance(consumer, OpenWireConsumer):
                return consumer
        return None

    def covered(self, first: int, last: int) -> list[tuple[OpenWireConsumer, int]]:
        """Return what is in flight from ``first`` (0: the oldest) to ``last``, in the order of delivery."""
        found: list[tuple[OpenWireConsumer, int]] = []
        only = self.holder(last)
        if only is None:
            return found
        if first == last:
            found.append((only, last))
            return found
        inside = first == 0 or self.holder(first) is None
        for number in self.numbers():
            if number == first:
                inside = True
            if inside:
                consumer = self.holder(number)
                if consumer is not None:
                    found.append((consumer, number))
            if number == last:
                break
        return found

    def numbers(self) -> list[int]:
        """Return the numbers that are in flight, in the order of delivery."""
        if self.several:
            return list(self.order)
        for consumer in self.consumers:
            return list(consumer.in_flight)
        return []

    def forget(self, number: int) -> None:
        """Message ``number`` is no longer in flight here."""
        if self.several:
            self.order.pop(number, None)

    def ended(self, why: str) -> None:
        """The broker ended the subscription."""
        self.subscribed.ended(self, why)

    # -- browsing -----------------------------------------------------------------------------------------------------

    def show(self, browser: Browser, message: Message) -> None:
        """Write what ``browser`` came to."""
        where = self.info.destination
        queue = browser.queue
        if len(browser.queues) > 1 and queue is not None:
            where = named(queue.name, False, queue.temporary)
        self.dispatching.show(self.consumer_id, where, message)

    def measure(self, message: Message) -> Measurement | None:
        """Return what must be counted of a large ``message`` before it is written."""
        return measure(self.broker, message, self.dispatching.frame_octets_max)

    def show_end(self) -> None:
        """Say that a browser has shown all."""
        self.dispatching.show_none(self.consumer_id)
