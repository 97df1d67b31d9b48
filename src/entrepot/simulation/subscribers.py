"""Readers that sit in the core of a simulated broker, settle what they get, and tell the ledger of their network."""

from __future__ import annotations

from typing import Protocol

from entrepot.base.environment import MILLISECOND
from entrepot.core.broker import BrokerCore, selector_or_none
from entrepot.core.queue.consumer import Consumer
from entrepot.core.queue.queue import Queue
from entrepot.core.reading.subscription import Subscription
from entrepot.core.scheduling.timed import Alarm
from entrepot.model import address as names
from entrepot.model.message import Message


class Home(Protocol):
    """The machine of a reader, whose broker is None while it is down."""

    broker: BrokerCore | None

    def consumed(self, reader: Reader, message: Message, deliveries: int) -> None:
        """A reader settled a message."""


class Taker(Consumer):
    """Settles what it got once the queue is done."""

    reader: Reader

    def deliver(self, message: Message, deliveries: int) -> None:
        """Take it; it is settled a millisecond later."""
        self.reader.got.append((self, message, int(deliveries)))
        self.reader.wake()


class Settle(Alarm):
    """Wakes a reader."""

    def __init__(self, due: int, reader: Reader) -> None:
        super().__init__(due)
        self.reader = reader

    def ring(self, now: int) -> None:
        """Settle what has come."""
        self.reader.settle()


class Reader(Subscription):
    """A reader of ``text`` at a site, known there as ``key``."""

    def __init__(self, site: Home, text: str, prefetch: int, *, key: str = "", selector: str = "") -> None:
        super().__init__(names.parse(text))
        self.site = site
        self.text = text
        self.key = key or text
        self.prefetch = prefetch
        self.condition = selector
        self.selector = selector_or_none(selector)
        self.got: list[tuple[Taker, Message, int]] = []
        self.waking = False

    def consumer(self, queue: Queue) -> Consumer:
        """Return a consumer whose messages come here."""
        assert self.site.broker is not None
        made = Taker(self.site.broker.ids.consumer_key(), self.window, True)
        made.reader = self
        return made

    def wake(self) -> None:
        """Have what came settled."""
        broker = self.site.broker
        if not self.waking and broker is not None:
            self.waking = True
            broker.timetable.add(Settle(int(broker.now) + MILLISECOND, self))

    def settle(self) -> None:
        """Settle everything that came and is still ours; the ledger hears of it."""
        self.waking = False
        got, self.got = self.got, []
        for consumer, message, deliveries in got:
            queue = consumer.queue
            if queue is not None and queue.settle(consumer, message.number):
                self.site.consumed(self, message, deliveries)
