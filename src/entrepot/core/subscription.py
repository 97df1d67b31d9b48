"""A client's wish to read: from a queue, a topic, a pattern, durably or not, or only to look.

A session subclasses `Subscription` and makes its own consumers; `BrokerCore.subscribe` finds the queues and attaches one
consumer to each. All consumers of one subscription share its window. [C]
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from entrepot.base.errors import Fault
from entrepot.core.consumer import UNLIMITED, Consumer, Window
from entrepot.core.queue import Queue
from entrepot.model.address import Destination
from entrepot.model.message import Message
from entrepot.model.predicate import Predicate

DEFAULT_PREFETCH: Final = -1  # take the policy's for this kind of destination


@mypyc_attr(allow_interpreted_subclasses=True)
class Subscription:
    """One subscription of one connection. ``prefetch`` -1: as the policy says; ``octets`` bounds it by size too."""

    def __init__(self, destinations: list[Destination]) -> None:
        self.destinations: list[Destination] = destinations
        self.selector: Predicate | None = None
        self.tracked: bool = True
        self.prefetch: i64 = DEFAULT_PREFETCH
        self.octets: i64 = UNLIMITED
        self.priority: i64 = 0
        self.exclusive: bool = False
        self.no_local: bool = False
        self.durable_name: str = ""
        self.client_id: str = ""
        self.shared: bool = False
        self.origin: i64 = 0
        self.connection: str = ""
        self.pending_limit: i64 = -1
        self.window: Window = Window(0)
        self.consumers: list[Consumer] = []
        self.patterns: list[str] = []  # wildcards of queues that it follows: new matching queues are attached too

    def consumer(self, queue: Queue) -> Consumer:
        """Return a new consumer for ``queue`` on ``self.window``. The session overrides this."""
        raise Fault("a subscription that cannot make consumers")

    def ended(self, why: str) -> None:
        """The broker ended the subscription: tell the peer. May be overridden."""


def durable_queue_name(client_id: str, name: str) -> str:
    """Return the name of a durable subscription's queue: ``client.name``, dots and backslashes escaped (artemis 4.1)."""
    return f"{_escaped(client_id)}.{_escaped(name)}" if client_id else _escaped(name)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace(".", "\\.")


class Browser:
    """A look through one queue that removes nothing: what waits, in delivery order, as far as it stood at each step.

    `next` may be called as slowly as the reader likes; messages that leave meanwhile are not shown, none is shown twice.
    """

    def __init__(self, queue: Queue, selector: Predicate | None) -> None:
        self.queue: Queue = queue
        self.selector: Predicate | None = selector
        self.level: i64 = 9
        self.seen: i64 = 0
        self.shown: i64 = 0
        self.done: bool = False

    def next(self, most: i64) -> list[Message]:
        """Return up to ``most`` further messages; ``done`` is set when there are no more."""
        found: list[Message] = []
        while not self.done and len(found) < most:
            before = self.seen
            self._from_memory(found, most)
            if len(found) < most:
                self._from_disk(found, most)
            if self.seen == before:
                self.level -= 1
                self.seen = 0
                self.done = self.level < 0
        self.shown += len(found)
        return found

    def _from_memory(self, found: list[Message], most: i64) -> None:
        waiting = self.queue.backlog.waiting(self.level)
        reference = None if waiting is None else waiting.head
        while reference is not None and len(found) < most:
            if reference.number > self.seen:
                self.seen = reference.number
                self._show(reference.message, found)
            reference = reference.after

    def _from_disk(self, found: list[Message], most: i64) -> None:
        paged = self.queue.backlog.paged[self.level]
        if paged is None:
            return
        for message in self.queue.host.journal.load_range(paged.after(self.seen, most - len(found))):
            self.seen = message.number
            self._show(message, found)

    def _show(self, message: Message, found: list[Message]) -> None:
        expired = message.expiration != 0 and message.expiration <= self.queue.host.wall
        if not expired and (self.selector is None or self.selector.matches(message)):
            found.append(message)
