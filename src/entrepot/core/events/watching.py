"""Which messages are watched, so that their traces are recorded (OpenTelemetry), and how far they came. [C]

A send asks `Watch` once. A message with a W3C context is watched if its producer recorded it; one without begins a
trace by the ratio. Between two that do lie as many as one number says, drawn for each gap, so the others cost a count
down. Who reads the octets of a message and sees its headers anyway notes in `Message.context` what they say; of others
it is looked up by `Language.context`, which opens nothing.

A watched message carries `Message.watched`, one bit that whoever hands it on tests, and an internal annotation that the
journal keeps: ``<traceparent of the broker's own span> <ms since 1970 when it came>``. So nothing is remembered beside
messages, however long they wait, and a restart forgets no trace.

The context of the producer stays as it is. A message that has none gets that of the broker's span. A bridge adds
`HOP` to what it writes: its own span, for the next broker, and which span of a producer it stands for.
"""

from __future__ import annotations

import math
from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import Entropy
from entrepot.base.errors import EntrepotError
from entrepot.base.trace_context import (
    ABSENT,
    LENGTH,
    TRACEPARENT,
    TRACESTATE,
    UNASKED,
    UNSAMPLED,
    TraceContext,
    parse,
    said,
    state_of,
)
from entrepot.core.events.facts import MESSAGE_WATCHED, Hub, MessageFact, Place
from entrepot.journal.log import JournalCore
from entrepot.journal.ports import Waiter
from entrepot.model.address import UNTYPED
from entrepot.model.message import LANGUAGE_AMQP, WATCHED, Message

HOP: Final = "entrepot_traceparent"  # an identifier of Java, as names of properties must be
OWN: Final = ("ActiveMQ.Advisory.", "activemq.notifications", "activemq.management", "$sys.")
"""Where the broker itself speaks: what it says of messages is not traced as messages."""
NEVER: Final = 1 << 62
FIRST_SPAN: Final = "0000000000000001"

RECEIVED: Final = 0
ROUTED: Final = 1
ACCEPTED: Final = 2
REFUSED: Final = 3
PERSISTED: Final = 4
LOST: Final = 5  # the disk did not take it
FORWARDED: Final = 6


class WatchedFact(MessageFact):
    """MESSAGE_WATCHED: the stage that ``message`` reached. What is not of its stage is empty."""

    def __init__(self, stage: i64, place: Place, message: Message, code: str = "") -> None:
        super().__init__(MESSAGE_WATCHED, place, message, code)
        self.asked = False  # no policy asks for it
        self.stage: i64 = stage
        self.parent: str = ""  # RECEIVED: the span of who sent it here
        self.state: str = ""  # RECEIVED: the `tracestate` of its producer
        self.created: str = ""  # RECEIVED: the span of its producer, where it has one
        self.span: str = ""  # FORWARDED: of the bridge
        self.consumer: i64 = 0  # FORWARDED: the key of the bridge's consumer
        self.peer: str = ""  # FORWARDED: the broker on the other side
        self.queues: list[str] = []  # ROUTED


class Mark:
    """What a watched message says of its trace: ``span`` is the broker's own, from receiving it."""

    def __init__(self, trace: str, span: str, wall: i64) -> None:
        self.trace: str = trace
        self.span: str = span
        self.wall: i64 = wall


def mark_of(message: Message) -> Mark | None:
    """Return what ``message`` is marked with; None for one that is not watched."""
    text = message.marked(WATCHED) if message.watched else None
    if not isinstance(text, str):
        return None
    wall = text[LENGTH + 1 :]  # nobody else writes it: it is not looked at as closely as what comes from outside
    return Mark(text[3:35], text[36:52], int(wall)) if wall.isdecimal() and wall.isascii() else None


def context_of(message: Message) -> TraceContext | None:
    """Return what its producer wrote on ``message``; None where that is nothing, or malformed."""
    found = parse(message.fact(TRACEPARENT))
    if found is None and message.language.code == LANGUAGE_AMQP:
        found = parse(message.fact("m." + TRACEPARENT))  # an annotation of the message
    return found


def hop_of(message: Message, created: TraceContext) -> str:
    """Return the span of the bridge that brought ``message``; "" where none did, or it stands for another context.

    An application that copies properties onto a message of its own copies this one as well.
    """
    text = message.fact(HOP)
    own, _, stands_for = text.partition(" ") if isinstance(text, str) else ("", "", "")
    found = parse(own)
    return "" if found is None or found.trace != created.trace or stands_for != created.span else found.span


class Watch:
    """Decides which messages are watched. ``ratio``: of those without a context; ``honours``: what producers decided.

    Without ``honours`` the ratio is for all, whatever their contexts say. No more than ``most`` are watched in a
    second, 0: as many as come; `passed_over` counts the others. A flood of which every hundredth is recorded would else
    spend more on that than on its messages.
    """

    def __init__(
        self, hub: Hub, journal: JournalCore, entropy: Entropy, ratio: float, honours: bool = True, most: i64 = 0
    ) -> None:
        self.hub: Hub = hub
        self.journal: JournalCore = journal
        self.entropy: Entropy = entropy
        self.ratio: float = ratio
        self.honours: bool = honours
        self.most: i64 = most
        self.second: i64 = 0  # of those that `begun` counts
        self.begun: i64 = 0
        self.passed_over: i64 = 0
        self.passing: i64 = self._gap()
        self.syncing: Syncing = Syncing(self)

    def _gap(self) -> i64:
        """Draw how many messages are passed over before the next: as if each were drawn for itself."""
        if self.ratio >= 1:
            return 0
        if self.ratio <= 0:
            return NEVER
        gap = math.log(1.0 - self.entropy.fraction()) / math.log1p(-self.ratio)
        return NEVER if gap >= float(NEVER) else i64(int(gap))

    def _drawn(self) -> bool:
        if self.passing > 0:
            self.passing -= 1
            return False
        self.passing = self._gap()
        return True

    def _may_begin(self, wall: i64) -> bool:
        if self.most <= 0:
            return True
        second: i64 = wall // 1000
        if second != self.second:
            self.second = second
            self.begun = 0
        if self.begun >= self.most:
            self.passed_over += 1
            return False
        self.begun += 1
        return True

    def passes_over(self, message: Message) -> bool:
        """Return whether ``message`` is surely not watched, and count it; False: ask `takes`.

        Nearly every message ends here, so this is all that most of them cost.
        """
        context = message.context
        if context == ABSENT and self.passing > 0:
            self.passing -= 1
            return True
        return context == UNSAMPLED and self.honours

    def takes(self, message: Message, address: str, routing: i64, wall: i64) -> bool:
        """Return whether ``message``, which is sent to ``address``, is watched from now on; if so, tell of it.

        Its octets are looked through only where that can change the answer.
        """
        context = self._context(message) if self.honours else ABSENT
        if context != ABSENT:
            if context == UNSAMPLED or message.watched:
                return False
            created = context_of(message)
            if created is not None and not created.sampled:
                return False
            if created is None and not self._drawn():
                return False
        else:
            if not self._drawn() or message.watched:
                return False
            created = None if self.honours else self._said_of(message)
        if address.startswith(OWN) or not self._may_begin(wall):
            return False
        self._begin(message, Place("", address, routing), created, wall)
        return True

    def _said_of(self, message: Message) -> TraceContext | None:
        """Return what its producer wrote on ``message``, which is drawn whatever that says."""
        return None if self._context(message) == ABSENT else context_of(message)

    def _context(self, message: Message) -> i64:
        known = i64(message.context)
        return known if known != UNASKED else message.language.context(message)

    def _begin(self, message: Message, place: Place, created: TraceContext | None, wall: i64) -> None:
        trace = self._fresh(16) if created is None else created.trace
        span = self._fresh(8)
        own = said(trace, span)
        fact = WatchedFact(RECEIVED, place, message)
        if created is None:
            message.annotate(TRACEPARENT, own)
        else:
            fact.created = created.span
            fact.parent = hop_of(message, created) or created.span
            fact.state = state_of(message.fact(TRACESTATE))
        message.mark(WATCHED, f"{own} {wall}")
        message.watched = True
        self.hub.announce(fact)

    def _fresh(self, octets: int) -> str:
        made = self.entropy.token(octets).hex()
        return made if made.strip("0") else FIRST_SPAN.zfill(2 * octets)

    # -- stages --------------------------------------------------------------------------------------------------------

    def routed(self, message: Message, queues: list[str]) -> None:
        """``message`` is in the journal, where it must be, and enters ``queues``."""
        fact = self._staged(ROUTED, message)
        fact.queues = queues
        self.hub.announce(fact)

    def accepted(self, message: Message, dropped: bool) -> None:
        """The send of ``message`` is over. What the journal has of it is on its way to the disk."""
        self.hub.announce(self._staged(REFUSED if dropped else ACCEPTED, message, "full" if dropped else ""))
        if message.durable and message.stored:
            self.syncing.wait(message)

    def refused(self, message: Message, code: str) -> None:
        """The send of ``message`` was refused."""
        self.hub.announce(self._staged(REFUSED, message, code))

    def persisted(self, message: Message, code: str) -> None:
        """The disk has ``message``, or, with a ``code``, failed to take it."""
        self.hub.announce(self._staged(LOST if code else PERSISTED, message, code))

    def leaves(self, message: Message, source: Place, consumer: i64, peer: str) -> None:
        """A bridge begins to write ``message``: have it say so. Call `left` when it is written."""
        mark = mark_of(message)
        created = context_of(message)
        if mark is None or created is None:
            return
        fact = WatchedFact(FORWARDED, source, message)
        fact.span = self._fresh(8)
        fact.consumer = consumer
        fact.peer = peer
        message.annotate(HOP, f"{said(mark.trace, fact.span)} {created.span}")
        self.hub.announce(fact)

    def left(self, message: Message) -> None:
        """``message`` is written: what `leaves` wrote on it was for the other broker alone."""
        message.need_rare().annotations.pop(HOP, None)

    def _staged(self, stage: i64, message: Message, code: str = "") -> WatchedFact:
        return WatchedFact(stage, Place("", message.address, UNTYPED), message, code)


class Syncing(Waiter):
    """Watched messages that wait for the disk."""

    def __init__(self, watch: Watch) -> None:
        self.watch: Watch = watch
        self.waiting: dict[bytes, Message] = {}

    def wait(self, message: Message) -> None:
        """Tell when the disk has ``message``."""
        token = int(message.number).to_bytes(8, "big")
        self.waiting[token] = message
        self.watch.journal.confirm(self, token)

    def stored(self, token: bytes) -> None:
        """Tell it."""
        message = self.waiting.pop(token, None)
        if message is not None:
            self.watch.persisted(message, "")

    def store_failed(self, token: bytes, error: EntrepotError) -> None:
        """Tell that it failed."""
        message = self.waiting.pop(token, None)
        if message is not None:
            self.watch.persisted(message, error.code)
