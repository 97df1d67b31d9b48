"""Why a link takes no more messages at this moment: reasons that add up, and the credit that the peer grants. [C]"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.cluster.source import Feed
from entrepot.core.queue.consumer import Pause
from entrepot.model.message import Message

CLOSED: Final = 1  # the link is not open
UNREAD: Final = 2  # the peer does not read fast enough
NO_CREDIT: Final = 4  # the peer grants no octets
STREAMING: Final = 8  # a large message goes out part by part, and nothing may come between
UNBOUNDED: Final = 1 << 62


class FlowControl:
    """Of one link: a feed takes messages while there is no reason against it and the feed does not retire."""

    def __init__(self, feeds: dict[Feed, None]) -> None:
        self.feeds: Final = feeds
        self.reasons: int = CLOSED
        self.bounded: bool = False  # the peer counts octets
        self.credit: i64 = UNBOUNDED

    def hold(self, reason: int) -> None:
        """Take nothing more, for ``reason``."""
        self.reasons |= reason
        for feed in self.feeds:
            feed.window.pause(Pause.LINK)

    def release(self, reason: int) -> None:
        """``reason`` is over: take what waits, unless there is another one."""
        if not self.reasons & reason:
            return
        self.reasons &= ~reason
        for feed in list(self.feeds):
            self.apply(feed)

    def apply(self, feed: Feed) -> None:
        """Let ``feed`` take messages, or not. What it takes may make a new reason, which holds for those after it."""
        if self.reasons:
            feed.window.pause(Pause.LINK)
        else:
            feed.window.lift(Pause.LINK)
            feed.window.reopen()

    def writable(self, ready: bool) -> None:
        """The peer does not read fast enough (False), or does again."""
        if ready:
            self.release(UNREAD)
        else:
            self.hold(UNREAD)

    def streaming(self, busy: bool) -> None:
        """A large message goes out part by part (True); its last part went (False)."""
        if busy:
            self.hold(STREAMING)
        else:
            self.release(STREAMING)

    def limited(self, octets: i64) -> None:
        """The peer takes ``octets`` of messages, and more only when it says so (`granted`)."""
        self.bounded = True
        self.credit = octets
        if octets > 0:
            self.release(NO_CREDIT)
        else:
            self.hold(NO_CREDIT)

    def granted(self, octets: i64) -> None:
        """The peer takes ``octets`` more."""
        if self.bounded:
            self.limited(self.credit + octets)

    def withheld(self) -> None:
        """The peer takes back what it granted; what is on its way stays there."""
        self.limited(0)

    def spend(self, octets: i64) -> None:
        """A message of ``octets`` goes; the last one may be larger than the credit, or it would wait for ever."""
        self.credit -= octets
        if self.credit <= 0:
            self.hold(NO_CREDIT)

    def end(self) -> None:
        """The connection is gone: only that counts until the next one is open."""
        self.bounded = False
        self.credit = UNBOUNDED
        self.reasons = 0
        self.hold(CLOSED)


def octets_of(message: Message) -> i64:
    """Return what ``message`` takes of the credit: its octets with those of a large body."""
    rare = message.rare
    return message.size if rare is None else message.size + rare.large_length
