"""How messages leave over STOMP: subscriptions and their consumers, MESSAGE frames, browsers. [C]

A MESSAGE is the subscription's own first lines, which never change, the numbers of this delivery, and the tail of the
message as it came. Only an escaped tail for a consumer of an older STOMP, and a message of another language, are
written anew.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64, mypyc_attr

from entrepot.core.queue.bereaved import without_body
from entrepot.core.queue.browser import Browser
from entrepot.core.queue.consumer import Consumer, Measurement
from entrepot.core.queue.queue import Queue, queue_of
from entrepot.model.address import ANYCAST, MULTICAST, Destination
from entrepot.model.message import LANGUAGE_STOMP, Message
from entrepot.protocols.serving.outlet import Outlet, ServedSubscription
from entrepot.protocols.stomp.codec import write_decimal
from entrepot.protocols.stomp.convert import STOMP_LANGUAGE
from entrepot.protocols.stomp.escapes import V10, V12, octets_of
from entrepot.protocols.stomp.headers import write_headers
from entrepot.protocols.stomp.writing import Writing

PLAIN_ID: Final = octets_of("ID:", V10)
ESCAPED_ID: Final = octets_of("ID:", V12)
"""What begins message ids, as STOMP writes it: 1.0, and from 1.1 on."""
ACK_AUTO: Final = 0
ACK_CLIENT: Final = 1
ACK_INDIVIDUAL: Final = 2


@mypyc_attr(allow_interpreted_subclasses=True)
class Subscribed:
    """What a connection has subscribed to; ``consumers``: by their keys, as its acknowledgements name them."""

    def __init__(self) -> None:
        self.named: dict[str, StompSubscription] = {}
        self.consumers: dict[int, StompConsumer] = {}

    def ended(self, subscription: StompSubscription, why: str) -> None:
        """The broker took ``subscription`` away."""
        raise NotImplementedError


class StompConsumer(Consumer):
    """One queue read by one subscription."""

    def __init__(self, writing: Writing, subscription: StompSubscription, queue: Queue, key: i64) -> None:
        super().__init__(key, subscription.window, subscription.ack != ACK_AUTO)
        self.speaks = LANGUAGE_STOMP
        self.writing: Writing = writing
        self.outlet: Outlet = writing.outlet
        self.subscription: StompSubscription = subscription
        self.topic: bool = queue.routing == MULTICAST
        self.address: str = queue.name
        self.asks: bool = bool(subscription.transformation)
        self.first_lines: bytes = b""
        self.opening: bytes = b""  # the first lines, and the id up to its last three digits, of thousand ``thousand``
        self.thousand: i64 = -1
        self.ack_line: bytes = b""
        if self.tracked and writing.reader.version == V12:
            self.ack_line = b"\nack:%d-" % int(key)
        self._name(queue.address if self.topic else queue.name)

    def _name(self, address: str) -> None:
        """Write the lines that all messages of ``address`` begin with here."""
        self.address = address
        shown = self.subscription.shown
        if not shown:
            shown = ("/topic/" if self.topic else "/queue/") + address
        version = self.writing.reader.version
        self.first_lines = b"".join(
            (
                b"MESSAGE\nsubscription:",
                octets_of(self.subscription.identity, version) if self.subscription.identity else b"",
                b"\ndestination:",
                octets_of(shown, version),
                b"\nmessage-id:",
            )
        )
        if not self.subscription.identity:
            self.first_lines = self.first_lines.replace(b"subscription:\n", b"", 1)
        self.thousand = -1

    def _open(self, thousand: i64) -> None:
        """Write what a thousand messages begin with here."""
        self.thousand = thousand
        self.opening = self.first_lines + self.writing.id_prefix + b"%d" % int(thousand)

    def deliver(self, message: Message, deliveries: i64) -> None:
        """Write a MESSAGE frame."""
        writing = self.writing
        if self.topic and message.address is not self.address and message.address != self.address:
            self._name(message.address)
        outlet = self.outlet
        writer = outlet.out
        number = message.number
        if message.rare is None and message.language is STOMP_LANGUAGE and number >= 1000:
            thousand = number // 1000
            if thousand != self.thousand:
                self._open(thousand)
            writer.write(self.opening)
            digits = number - thousand * 1000
            tens = digits // 10
            writer.append(48 + int(tens // 10))
            writer.append(48 + int(tens % 10))
            writer.append(48 + int(digits % 10))
        else:
            writer.write(self.first_lines)
            self._write_identity(writer, message)
        if self.tracked:
            if self.ack_line:
                writer.write(self.ack_line)
                write_decimal(writer, number)
            if self.subscription.ack == ACK_CLIENT:
                self.subscription.order[number] = self
        writing.write_fixed(writer, message, deliveries)
        if message.language is STOMP_LANGUAGE and message.rare is None and not message.escaped and not self.asks:
            writer.write(message.raw)
        else:
            owner = None if self.tracked else queue_of(self)
            writing.write_rest(writer, message, self.subscription.transformation, owner)
        if not outlet.noted:
            outlet.note()
        if len(writer) > outlet.high:
            outlet.choke()

    def measure(self, message: Message) -> Measurement | None:
        """Return what must be counted of a large ``message`` before it is delivered."""
        return self.subscription.measure(message)

    def _write_identity(self, writer: BytesWriter, message: Message) -> None:
        octets = self._identity(message)
        writer.write(octets)
        # A copy keeps the identity of its original, which then does not say its number, also where the prefix is ours.
        if self.tracked and octets != self.writing.id_prefix + b"%d" % int(message.number):
            self.subscription.remember(octets, int(message.number))

    def _identity(self, message: Message) -> bytes:
        ids = self.writing.broker.ids
        version = self.writing.reader.version
        digits = ids.digits_of(message)
        if digits:
            return (PLAIN_ID if version == V10 else ESCAPED_ID) + digits
        return octets_of(ids.identity_of(message), version)

    def ended(self, why: str) -> None:
        """Tell the client that this subscription gives nothing any more."""
        self.subscription.subscribed.ended(self.subscription, why)


class ForeignIds:
    """Message ids that do not tell the number of their message; copies that died in two queues share one."""

    def __init__(self) -> None:
        self.numbers: dict[bytes, list[int]] = {}  # oldest first
        self.ids: dict[int, bytes] = {}

    def remember(self, octets: bytes, number: int) -> None:
        """Message ``number`` goes out under the id ``octets``."""
        if number not in self.ids:
            self.ids[number] = octets
            self.numbers.setdefault(octets, []).append(number)

    def forget(self, number: int) -> None:
        """Message ``number`` is no longer in flight."""
        octets = self.ids.pop(number, None)
        if octets is not None:
            numbers = self.numbers[octets]
            numbers.remove(number)
            if not numbers:
                del self.numbers[octets]


class StompSubscription(ServedSubscription):
    """One SUBSCRIBE. ``identity`` is the client's id for it; ``shown`` overrides the destination in its messages."""

    def __init__(
        self, subscribed: Subscribed, writing: Writing, destinations: list[Destination], identity: str, ack: int
    ) -> None:
        super().__init__(writing.outlet, writing.broker, destinations)
        self.subscribed: Subscribed = subscribed
        self.writing: Writing = writing
        self.identity: str = identity
        self.ack: int = ack
        self.tracked = ack != ACK_AUTO
        self.shown: str = ""
        self.transformation: str = ""  # the form in which the client wants maps and objects
        self.order: dict[int, StompConsumer] = {}  # ack:client: what is unsettled, in the order of delivery
        self.foreign: ForeignIds | None = None

    def consumer(self, queue: Queue) -> Consumer:
        """Return a consumer that writes to this subscription's connection, which finds it by its key in an ACK.

        Called for queues that a wildcard covers later, too.
        """
        made = StompConsumer(self.writing, self, queue, self.writing.broker.ids.consumer_key())
        if made.tracked:  # of others nothing is acknowledged
            self.subscribed.consumers[int(made.key)] = made
        return made

    def forget(self, number: i64) -> None:
        """Message ``number`` is no longer in flight here."""
        self.order.pop(int(number), None)
        foreign = self.foreign
        if foreign is not None:
            foreign.forget(int(number))

    def remember(self, octets: bytes, number: int) -> None:
        """Message ``number`` goes out under the id ``octets``."""
        foreign = self.foreign
        if foreign is None:
            foreign = ForeignIds()
            self.foreign = foreign
        foreign.remember(octets, number)

    def up_to(self, number: int) -> list[tuple[StompConsumer, int]]:
        """Return what an acknowledgement of ``number`` covers: it, and all that was delivered before it."""
        covered: list[tuple[StompConsumer, int]] = []
        for each, consumer in self.order.items():
            if each in consumer.in_flight:
                covered.append((consumer, each))
            if each == number:
                break
        return covered

    def show(self, browser: Browser, message: Message) -> None:
        """Write what ``browser`` came to."""
        where = self.shown
        queue = browser.queue
        if len(browser.queues) > 1 and queue is not None:
            where = Destination(queue.name, ANYCAST, queue.temporary).stomp()
        self.writing.write_message(message, {"subscription": self.identity, "destination": where}, self.transformation)

    def measure(self, message: Message) -> Measurement | None:
        """Return what must be counted of a large ``message`` before it is written."""
        return self.writing.measure(message)

    def show_measured(self, browser: Browser, message: Message, flaw: str) -> None:
        """Write what had to be measured: its headers, where its body has no form."""
        self.show(browser, without_body(message, flaw) if flaw else message)

    def show_end(self) -> None:
        """Mark the end of what a browser shows (classic.md 6.3)."""
        out = self.outlet.out
        headers = {"subscription": self.identity, "destination": self.shown, "browser": "end"}
        out.write(b"MESSAGE\n")
        write_headers(out, headers, self.writing.reader.version)
        out.write(b"message-id:\n\n\0")
        self.outlet.note()
