"""How messages leave over STOMP: MESSAGE frames, subscriptions, browsers, large bodies. [C]

A MESSAGE is the subscription's own first lines, which never change, the numbers of this delivery, and the tail of the
message as it came. Only an escaped tail for a consumer of an older STOMP, and a message of another language, are
written anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from entrepot.base.errors import InvalidSelector, Refused
from entrepot.core.broker import selector_or_none
from entrepot.core.browser import Browser
from entrepot.core.consumer import Consumer, Window
from entrepot.core.effort import Rest
from entrepot.core.queue import Queue
from entrepot.core.subscription import Subscription
from entrepot.model.address import MULTICAST, Destination
from entrepot.model.message import DEFAULT_PRIORITY, Message
from entrepot.model.predicate import Predicate, compile_selector
from entrepot.model.selector import CONVERT_PREFIX
from entrepot.protocols.stomp.codec import V12, decode_headers, octets_of, write_decimal
from entrepot.protocols.stomp.convert import STOMP_LANGUAGE, is_octets, tail_of

if TYPE_CHECKING:
    from entrepot.protocols.stomp.server import StompSession

ACK_AUTO: Final = 0
ACK_CLIENT: Final = 1
ACK_INDIVIDUAL: Final = 2

BROWSE_STEP: Final = 200

NUMBER_DIGITS_MAX: Final = 18  # every such number fits the 64 bits that the journal has for it


class StompConsumer(Consumer):
    """One queue read by one subscription."""

    def __init__(self, session: StompSession, subscription: StompSubscription, queue: Queue, key: i64) -> None:
        super().__init__(key, subscription.window, subscription.ack != ACK_AUTO)
        self.session: StompSession = session
        self.subscription: StompSubscription = subscription
        self.topic: bool = queue.routing == MULTICAST
        self.address: str = queue.name
        self.asks: bool = bool(subscription.transformation)
        self.first_lines: bytes = b""
        self.ack_line: bytes = b""
        if self.tracked and session.reader.version == V12:
            self.ack_line = b"\nack:%d-" % int(key)
        self._name(queue.address if self.topic else queue.name)

    def _name(self, address: str) -> None:
        """Write the lines that all messages of ``address`` begin with here."""
        self.address = address
        session = self.session
        shown = self.subscription.shown
        if not shown:
            shown = ("/topic/" if self.topic else "/queue/") + address
        version = session.reader.version
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

    def deliver(self, message: Message, deliveries: i64) -> None:
        """Write a MESSAGE frame."""
        session = self.session
        if self.topic and message.address is not self.address and message.address != self.address:
            self._name(message.address)
        writer = session.out
        writer.write(self.first_lines)
        if message.rare is None and message.language is STOMP_LANGUAGE:
            writer.write(session.id_prefix)
            write_decimal(writer, message.number)
        else:
            self._write_identity(writer, message)
        if self.tracked:
            if self.ack_line:
                writer.write(self.ack_line)
                write_decimal(writer, message.number)
            if self.subscription.ack == ACK_CLIENT:
                self.subscription.order[message.number] = self
        session.write_fixed(writer, message, deliveries)
        if message.language is STOMP_LANGUAGE and message.rare is None and not message.escaped and not self.asks:
            writer.write(message.raw)
        else:
            session.write_rest(writer, message, self.subscription.transformation, None if self.tracked else self.queue)
        if not session.noted:
            session.note()
        if len(writer) > session.high:
            session.choke()

    def _write_identity(self, writer: BytesWriter, message: Message) -> None:
        identity = self.session.broker.ids.identity_of(message)
        octets = octets_of(identity, self.session.reader.version)
        writer.write(octets)
        # A copy keeps the identity of its original, which then does not say its number, also where the prefix is ours.
        if self.tracked and identity != f"{self.session.broker.ids.node.message_prefix}{message.number}":
            self.subscription.remember(octets, int(message.number))

    def ended(self, why: str) -> None:
        """Tell the client that this subscription gives nothing any more."""
        self.session.subscription_ended(self.subscription, why)


class _Browsing(Rest):
    """The rest of a browse, when its turn is over."""

    def __init__(self, subscription: StompSubscription) -> None:
        super().__init__()
        self.subscription: StompSubscription = subscription

    def resume(self) -> None:
        """Show more."""
        self.subscription.pump()


class StompSubscription(Subscription):
    """One SUBSCRIBE. ``identity`` is the client's id for it; ``shown`` overrides the destination in its messages."""

    def __init__(self, session: StompSession, destinations: list[Destination], identity: str, ack: int) -> None:
        super().__init__(destinations)
        self.session: StompSession = session
        self.identity: str = identity
        self.ack: int = ack
        self.tracked = ack != ACK_AUTO
        self.shown: str = ""
        self.transformation: str = ""  # the form in which the client wants maps and objects
        self.order: dict[int, StompConsumer] = {}  # ack:client: what is unsettled, in the order of delivery
        self.foreign: dict[bytes, list[int]] = {}  # message ids that do not tell the number -> numbers, oldest first
        self.foreign_ids: dict[int, bytes] = {}  # number -> such an id
        self.browser: Browser | None = None
        self.browsing: _Browsing | None = None

    def consumer(self, queue: Queue) -> Consumer:
        """Return a consumer that writes to this subscription's connection, which finds it by its key in an ACK.

        Called for queues that a wildcard covers later, too.
        """
        session = self.session
        made = StompConsumer(session, self, queue, session.new_key())
        session.consumers[int(made.key)] = made
        return made

    def forget(self, number: i64) -> None:
        """Message ``number`` is no longer in flight here."""
        self.order.pop(int(number), None)
        octets = self.foreign_ids.pop(int(number), None)
        if octets is not None:
            numbers = self.foreign[octets]
            numbers.remove(int(number))
            if not numbers:
                del self.foreign[octets]

    def remember(self, octets: bytes, number: int) -> None:
        """Message ``number`` goes out under the id ``octets``; copies that died in two queues share one."""
        if number not in self.foreign_ids:
            self.foreign_ids[number] = octets
            self.foreign.setdefault(octets, []).append(number)

    def up_to(self, number: int) -> list[tuple[StompConsumer, int]]:
        """Return what an acknowledgement of ``number`` covers: it, and all that was delivered before it."""
        covered: list[tuple[StompConsumer, int]] = []
        for each, consumer in self.order.items():
            if each in consumer.in_flight:
                covered.append((consumer, each))
            if each == number:
                break
        return covered

    def pump(self) -> None:
        """Write what the browser shows next, until the socket is full or the end is reached and marked."""
        browser = self.browser
        if browser is None:
            return
        session = self.session
        effort = session.broker.effort
        while not session.choked:
            if effort.is_over():
                browsing = self.browsing
                if browsing is None:
                    browsing = _Browsing(self)
                    self.browsing = browsing
                effort.later(browsing)
                return
            for message in browser.next(BROWSE_STEP):
                session.write_browsed(self, message)
            if browser.done:
                self.browser = None
                session.write_browse_end(self)
                return


def write_headers(writer: BytesWriter, headers: dict[str, str], version: i64) -> None:
    """Append header lines, escaped as ``version`` wants."""
    for name, value in headers.items():
        writer.write(octets_of(name, version))
        writer.append(58)
        writer.write(octets_of(value, version))
        writer.append(10)


def tail_for(message: Message, version: i64, asked: str = "") -> bytes:
    """Return the tail of ``message`` as a consumer of ``version`` can read it, in the form that it ``asked`` for."""
    if message.language is not STOMP_LANGUAGE or (asked and not is_octets(message)):
        tail, body_at = tail_of(message, asked)
        if version == V12 or b"\\" not in tail[:body_at]:
            return tail
        return _rewritten(tail, body_at, version)
    if not message.escaped or version == V12:
        return message.raw
    return _rewritten(message.raw, int(message.body_at), version)


def _rewritten(tail: bytes, body_at: int, version: i64) -> bytes:
    headers = decode_headers(tail[:body_at], V12, False)
    writer = BytesWriter()
    write_headers(writer, headers, version)
    writer.append(10)
    return writer.getvalue() + tail[body_at:]


def fixed_lines(message: Message) -> bytes:
    """Return the lines that every MESSAGE carries behind its ids (classic.md 6.3)."""
    return b"\npriority:%d\nexpires:%d\ntimestamp:%d\n" % (
        int(message.priority),
        int(message.expiration),
        int(message.timestamp),
    )


def is_plain(message: Message) -> bool:
    """Return whether only the time stamp tells the fixed lines of ``message`` from those of its neighbours."""
    return message.priority == DEFAULT_PRIORITY and message.expiration == 0


def selector_of(text: str) -> Predicate | None:
    """Return the predicate of a selector; STOMP properties are strings, so numbers compare by conversion (4.9)."""
    text = text.strip()
    if not text or text.startswith(CONVERT_PREFIX):
        return selector_or_none(text)
    try:
        return compile_selector(CONVERT_PREFIX + text)
    except InvalidSelector:
        compile_selector(text)  # raises too, and counts characters as the client does
        raise


def whole_number(text: str, name: str) -> int:
    """Return the value of the header ``name``. Raises Refused for one that is no whole number of 18 digits at most."""
    digits = text.strip()
    if digits.startswith("-"):
        digits = digits[1:]
    if not (digits.isascii() and digits.isdigit()) or len(digits) > NUMBER_DIGITS_MAX:
        raise Refused(f"{name} is {text[:40]!r}, not a whole number")
    return int(text)


__all__ = [
    "StompConsumer",
    "StompSubscription",
    "Window",
    "fixed_lines",
    "is_plain",
    "selector_of",
    "tail_for",
    "whole_number",
    "write_headers",
]
