"""What a sender of a connection over AMQP reads: one queue, as far as the peer grants credit for it. [C]"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import SECOND, Instant
from entrepot.cluster.broker_connections.wanted import Wish
from entrepot.cluster.carrying.bridge import REFUSALS_MAX
from entrepot.cluster.source import Feed, Forwarder
from entrepot.core.mirrors.identity import DOER, ORIGIN
from entrepot.core.queue.consumer import Measurement, Objection, Pause, Source
from entrepot.core.queue.queue import Queue
from entrepot.core.scheduling.timed import Alarm
from entrepot.model.address import Destination
from entrepot.model.message import LANGUAGE_AMQP, Message
from entrepot.protocols.amqp.calling.sending import Sending
from entrepot.protocols.amqp.convert import AMQP_LANGUAGE
from entrepot.protocols.amqp.refusals import FORCED, INTERNAL, LIMIT, LOCKED, NOT_FOUND, UNAUTHORIZED
from entrepot.protocols.large_body import COMMON, INFLATED_MAX, to_count

PREFETCH: Final = 2_000  # messages of one queue on their way; the peer's credit is below that, as a rule
RETURNED: Final = 1 * SECOND  # a queue rests when the peer gave a message back: it would get it again at once
PASSING: Final = (LIMIT, UNAUTHORIZED, INTERNAL, FORCED, LOCKED, NOT_FOUND)
"""Why a message may be refused that has nothing to do with what it is itself: no room, no right, no queue."""


class QueueFeed(Feed):
    """What one sender reads. ``sending``: its link at the peer, while there is one."""

    def __init__(
        self,
        link: Forwarder,
        queue: Queue,
        wish: Wish,
        halted: Callable[[QueueFeed], Objection | None],
        bereaved: Callable[[], None],
    ) -> None:
        """``halted``: says why nothing crosses; ``bereaved`` is called when the queue is gone."""
        where = Destination(queue.definition.address, queue.routing, False, queue.name)
        super().__init__(link, [where], PREFETCH)
        self.speaks = LANGUAGE_AMQP
        self.stays = True
        self.holds = Pause.PULL
        self.connection = link.name
        self.wish: Final = wish
        self._halted: Final = halted
        self._bereaved: Final = bereaved
        self.sending: Sending | None = None
        self.rest: Rest | None = None

    def granted(self, credit: i64) -> None:
        """The peer takes so many."""
        window = self.window
        if credit > 0:
            window.lift(Pause.PULL)
            window.reopen()
        else:
            window.pause(Pause.PULL)

    def is_poison(self, number: int, condition: str) -> bool:
        """Message ``number`` was refused. Return whether that is about the message, and was so too often by now."""
        return condition not in PASSING and self.wish.refused.again(number) >= REFUSALS_MAX

    def admits(self, message: Message, queue: Queue | None) -> bool:
        """Return whether ``message`` crosses: a mirror tells no broker what it sent, or said, first."""
        sending = self.sending
        if not self.wish.mirrors or sending is None:
            return True
        return sending.remote != message.marked(ORIGIN) and sending.remote != message.marked(DOER)

    def consumed(self) -> Source | None:
        """Return the queue that it reads; None: it is gone."""
        return self.consumers[0].queue if self.consumers else None

    def begin_rest(self, now: Instant) -> None:
        """Its message came back, and it was paused before: let it read on a while later."""
        if self.rest is None:
            self.rest = Rest(now + RETURNED, self)
            self.link.broker.timetable.add(self.rest)

    def end_rest(self) -> None:
        """It reads no more."""
        rest, self.rest = self.rest, None
        if rest is not None:
            rest.cancelled = True

    def unlinked(self) -> None:
        """There is no link over which it could send."""
        self.sending = None
        self.window.pause(Pause.PULL)

    def measure(self, message: Message) -> Measurement | None:
        """Return what must be counted of a large body before it crosses."""
        if message.language is AMQP_LANGUAGE:
            return None
        return to_count(self.link.broker, message, COMMON, INFLATED_MAX)

    def halted(self) -> Objection | None:
        """Return in words why nothing crosses."""
        return self._halted(self)

    def ended(self, why: str) -> None:
        """The queue was deleted."""
        super().ended(why)
        self._bereaved()


def kind_of(wish: Wish) -> type[Sending]:
    """Return the kind of link that ``wish`` takes, which sends."""
    if not wish.mirrors:
        return Sending
    from entrepot.protocols.amqp.calling.mirroring import MirrorSending  # noqa: PLC0415 - few connections mirror

    return MirrorSending


class Rest(Alarm):
    """A queue whose message came back reads on."""

    def __init__(self, due: int, feed: QueueFeed) -> None:
        super().__init__(due)
        self.feed: Final = feed

    def ring(self, now: int) -> None:
        """It is rested."""
        self.feed.rest = None
        self.feed.window.lift(Pause.ANSWER)
        self.feed.window.reopen()
