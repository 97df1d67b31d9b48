"""Spans of OpenTelemetry, made of the facts about watched messages (docs/decisions/0023).

Each broker that a message passes makes these, each the child of the one above it that stands further left::

    receive        the turn of the loop in which the message came, until its queues had it      SERVER
        route      until it was known which queues it enters
        persist    until the disk had it
        forward    from writing it to another broker until that confirmed it                     CLIENT
        dispatch   from coming until it was handed to a consumer, or a bridge: how long it waited
            acknowledge    from there until the consumer settled it                             SERVER

What ends otherwise is a span without a length below `receive`: return, expire, dead-letter, drop, discard. The parent
of `receive` is what its producer wrote, or the `forward` of the broker before. What a consumer settles in one turn is
one `acknowledge` with links to what it settled.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from msgspec import Struct, field

from entrepot.base.environment import MILLISECOND
from entrepot.core.events import watching
from entrepot.core.events.facts import (
    CONSUMER_ATTACHED,
    CONSUMER_DETACHED,
    MESSAGE_CONSUMED,
    MESSAGE_DEAD,
    MESSAGE_DISCARDED,
    MESSAGE_DISPATCHED,
    MESSAGE_DROPPED,
    MESSAGE_DUPLICATE,
    MESSAGE_EXPIRED,
    MESSAGE_REDELIVERED,
    MESSAGE_WATCHED,
    ConsumerFact,
    Fact,
    Listener,
    MessageFact,
    MessageHandled,
    Place,
)
from entrepot.core.events.watching import Mark, WatchedFact, mark_of
from entrepot.model.message import LANGUAGE_CORE, LANGUAGE_MQTT, LANGUAGE_STOMP, Message

HELD_MAX: Final = 10_000  # messages at consumers whose dispatch is remembered: some 4 MB; beyond, the oldest is not
LINKS_MAX: Final = 128  # of a span: what the SDK of OpenTelemetry allows

INTERNAL: Final = 0
SERVER: Final = 1
CLIENT: Final = 2
"""Kinds, as the SDK numbers them."""

ENDS: Final = {
    MESSAGE_EXPIRED: "expire",
    MESSAGE_DEAD: "dead-letter",
    MESSAGE_DROPPED: "drop",
    MESSAGE_DISCARDED: "discard",
    MESSAGE_DUPLICATE: "drop",
}
"""What takes a message away without a consumer."""

Key = tuple[int, int]
"""A message in a queue: the identity of the queue, the number of the message."""


class Span(Struct):
    """One span; times in ns since 1970, ids in hex. ``parent`` "": the first of its trace. ``error``: its type."""

    name: str
    trace: str
    span: str
    parent: str
    start: int
    end: int
    kind: int = INTERNAL
    attributes: dict[str, str | int | bool] = field(default_factory=dict)
    links: list[tuple[str, str]] = field(default_factory=list)
    error: str = ""
    state: str = ""
    remote: bool = False  # the parent is another process's


class _Handed(Struct):
    """A message that is at a consumer, or on its way to another broker. ``span``: of handing it over, or of forward."""

    trace: str
    span: str
    parent: str
    start: int
    place: Place
    attributes: dict[str, str | int | bool]


class SpanMaker(Listener):
    """Hands ``put`` the spans of what it hears. ``clock``: ns since 1970; ``token``: 8 fresh octets, in hex.

    ``identity_of``: the id of a message as clients see it. ``soon``: calls back when this turn of the loop is over.
    """

    def __init__(
        self,
        put: Callable[[Span], None],
        clock: Callable[[], int],
        token: Callable[[], str],
        identity_of: Callable[[Message], str],
        soon: Callable[[Callable[[], None]], object],
    ) -> None:
        kinds = CONSUMER_ATTACHED | CONSUMER_DETACHED
        for kind in (MESSAGE_EXPIRED, MESSAGE_DEAD, MESSAGE_DROPPED, MESSAGE_DUPLICATE):
            kinds |= kind
        always = MESSAGE_DISPATCHED | MESSAGE_CONSUMED | MESSAGE_REDELIVERED | MESSAGE_DISCARDED | MESSAGE_WATCHED
        super().__init__(kinds, always)
        self.follows = True
        self._put: Final = put
        self._clock: Final = clock
        self._token: Final = token
        self._identity_of: Final = identity_of
        self._soon: Final = soon
        self._clients: Final[dict[int, str]] = {}  # key of a consumer -> the client id, or the remote address
        self._sends: Final[dict[int, WatchedFact]] = {}  # number -> what was told when it came; while it is sent
        self._routed: Final[dict[int, int]] = {}  # number -> when its queues were known; until the disk has it
        self._held: Final[OrderedDict[Key, _Handed]] = OrderedDict()
        self._crossing: Final[OrderedDict[Key, _Handed]] = OrderedDict()
        self._acknowledged: dict[int, list[_Handed]] = {}  # key of a consumer -> what it settled in this turn
        self._settled_at_once: Key = (0, 0)  # who needs no acknowledgement is told as settled before as handed over

    def heard(self, fact: Fact) -> None:
        """Make the spans that end with ``fact``, or remember when one began."""
        if isinstance(fact, ConsumerFact):
            self._consumer(fact)
            return
        if not isinstance(fact, MessageFact) or fact.message is None:
            return
        mark = mark_of(fact.message)
        if mark is None:
            return
        if isinstance(fact, WatchedFact):
            self._stage(fact, fact.message, mark)
        elif isinstance(fact, MessageHandled) and fact.kind != MESSAGE_DISCARDED:
            self._handled(fact, fact.message, mark)
        else:
            self._ended(fact, fact.message, mark)

    def _consumer(self, fact: ConsumerFact) -> None:
        if fact.kind == CONSUMER_ATTACHED:
            self._clients[int(fact.key)] = fact.reader.client_id or fact.reader.connection
        else:
            self._clients.pop(int(fact.key), None)

    # -- while it is sent ----------------------------------------------------------------------------------------------

    def _stage(self, fact: WatchedFact, message: Message, mark: Mark) -> None:
        number, stage = int(message.number), fact.stage
        if stage == watching.RECEIVED:
            self._sends[number] = fact
        elif stage == watching.ROUTED:
            self._route(fact, message, mark)
        elif stage in (watching.ACCEPTED, watching.REFUSED):
            self._received(fact, message, mark)
        elif stage == watching.FORWARDED:
            self._leaves(fact, message, mark)
        else:
            now = self._clock()
            start = self._routed.pop(number, now)
            self._put(self._below(mark, "persist", fact.place, message, start, now, error=fact.code))

    def _route(self, fact: WatchedFact, message: Message, mark: Mark) -> None:
        now = self._clock()
        number = int(message.number)
        came = number in self._sends
        start = int(mark.wall) * MILLISECOND if came else now  # a scheduled one came long before
        span = self._below(mark, "route", fact.place, message, min(start, now), now)
        span.attributes["entrepot.queues"] = len(fact.queues)
        if len(fact.queues) == 1:
            span.attributes["entrepot.queue"] = fact.queues[0]
        self._put(span)
        if came and message.durable:
            self._routed[number] = now

    def _received(self, fact: WatchedFact, message: Message, mark: Mark) -> None:
        number = int(message.number)
        came = self._sends.pop(number, None)
        if fact.stage == watching.REFUSED or not message.stored:
            self._routed.pop(number, None)
        if came is None:
            return
        now = self._clock()
        span = Span(
            f"receive {came.place.called()}", mark.trace, mark.span, came.parent, int(mark.wall) * MILLISECOND, now
        )
        span.start = min(span.start, now)
        span.kind, span.error, span.state, span.remote = SERVER, fact.code, came.state, True
        span.attributes = self._described("receive", came.place, message)
        span.attributes["messaging.operation.type"] = "send"  # what it is to whom the broker serves
        if came.created and came.created != came.parent:
            span.links = [(mark.trace, came.created)]
        self._put(span)

    # -- on its way out ------------------------------------------------------------------------------------------------

    def _leaves(self, fact: WatchedFact, message: Message, mark: Mark) -> None:
        told = self._described("forward", fact.place, message)
        told["messaging.operation.type"] = "send"
        if fact.peer:
            told["entrepot.peer"] = fact.peer
        handed = _Handed(mark.trace, fact.span, mark.span, self._clock(), fact.place, told)
        self._remember(self._crossing, (int(fact.place.identity), int(message.number)), handed)

    def _handled(self, fact: MessageHandled, message: Message, mark: Mark) -> None:
        key = (int(fact.place.identity), int(message.number))
        if fact.kind == MESSAGE_DISPATCHED:
            self._dispatched(fact, message, mark, key)
            return
        crossing, held = self._crossing.pop(key, None), self._held.pop(key, None)
        returned = fact.kind == MESSAGE_REDELIVERED
        if crossing is not None:
            self._crossed(crossing, "returned" if returned else "")
        elif returned:
            now = self._clock()
            self._put(self._below(mark, "return", fact.place, message, now, now))
        else:
            if held is None:
                self._settled_at_once = key
                told = self._described("acknowledge", fact.place, message)
                held = _Handed(mark.trace, mark.span, mark.span, self._clock(), fact.place, told)
            self._acknowledge(int(fact.consumer), held)

    def _dispatched(self, fact: MessageHandled, message: Message, mark: Mark, key: Key) -> None:
        now = self._clock()
        span = self._below(mark, "dispatch", fact.place, message, min(int(mark.wall) * MILLISECOND, now), now)
        client = self._clients.get(int(fact.consumer), "")
        if client:
            span.attributes["messaging.client.id"] = client
        if fact.count:
            span.attributes["entrepot.deliveries"] = int(fact.count)
        if key == self._settled_at_once:
            self._settled_at_once = (0, 0)
        elif key not in self._crossing:
            told = dict(span.attributes)
            self._remember(self._held, key, _Handed(mark.trace, span.span, mark.span, now, fact.place, told))
        self._put(span)

    def _remember(self, among: OrderedDict[Key, _Handed], key: Key, handed: _Handed) -> None:
        among[key] = handed
        if len(among) > HELD_MAX:
            among.popitem(last=False)

    def _crossed(self, handed: _Handed, error: str) -> None:
        span = Span(f"forward {handed.place.called()}", handed.trace, handed.span, handed.parent, handed.start, 0)
        span.end, span.kind, span.error, span.attributes = self._clock(), CLIENT, error, handed.attributes
        self._put(span)

    def _acknowledge(self, consumer: int, handed: _Handed) -> None:
        if not self._acknowledged:
            self._soon(self.flush)
        self._acknowledged.setdefault(consumer, []).append(handed)

    def flush(self) -> None:
        """Make the spans of what consumers settled in this turn."""
        now = self._clock()
        settled, self._acknowledged = self._acknowledged, {}
        for batch in settled.values():
            first = batch[0]
            span = Span(f"acknowledge {first.place.called()}", first.trace, self._token(), first.span, first.start, now)
            span.kind, span.attributes = SERVER, first.attributes
            span.attributes["messaging.operation.name"] = "acknowledge"
            span.attributes["messaging.operation.type"] = "settle"
            if len(batch) > 1:
                span.start = min(handed.start for handed in batch)
                span.attributes["messaging.batch.message_count"] = len(batch)
                span.attributes.pop("messaging.message.id", None)
                span.links = [(handed.trace, handed.span) for handed in batch[:LINKS_MAX]]
            self._put(span)

    def _ended(self, fact: MessageFact, message: Message, mark: Mark) -> None:
        key = (int(fact.place.identity), int(message.number))
        self._held.pop(key, None)
        crossing = self._crossing.pop(key, None)
        if crossing is not None:
            self._crossed(crossing, fact.code or "failed")
        now = self._clock()
        what = ENDS.get(int(fact.kind), fact.name)
        self._put(self._below(mark, what, fact.place, message, now, now, error=fact.code or what))

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _below(
        self, mark: Mark, what: str, place: Place, message: Message, start: int, end: int, *, error: str = ""
    ) -> Span:
        """Return a span below that of receiving ``message``. Who has completed it puts it, and changes it no more."""
        span = Span(f"{what} {place.called()}", mark.trace, self._token(), mark.span, start, end)
        span.error, span.attributes = error, self._described(what, place, message)
        return span

    def _described(self, what: str, place: Place, message: Message) -> dict[str, str | int | bool]:
        told: dict[str, str | int | bool] = {
            "messaging.system": "activemq",
            "messaging.operation.name": what,
            "messaging.destination.name": place.called(),
            "messaging.message.envelope.size": len(message.raw) + large_octets(message),
        }
        identity = self._identity_of(message)
        if identity:
            told["messaging.message.id"] = identity
        if place.temporary:
            told["messaging.destination.temporary"] = True
        octets = body_octets(message)
        if octets >= 0:
            told["messaging.message.body.size"] = octets
        return told


def large_octets(message: Message) -> int:
    """Return how long a body is that lies beside the octets of ``message``."""
    return 0 if message.rare is None else int(message.rare.large_length)


def body_octets(message: Message) -> int:
    """Return how long the body is, where that is known without opening ``message``; else -1."""
    large = large_octets(message)
    if large:
        return large
    code, size, at = message.language.code, len(message.raw), int(message.body_at)
    if code == LANGUAGE_STOMP:
        return size - at - 1  # the octet 0 behind it
    if code == LANGUAGE_MQTT:
        return size - at
    return at - 4 if code == LANGUAGE_CORE else -1  # its length stands before it
