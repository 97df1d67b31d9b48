"""A client's wish to read: from a queue, a topic, a pattern, durably or not, or only to look.

A session subclasses `Subscription` and makes its own consumers; `BrokerCore.subscribe` finds the queues and attaches
one consumer to each. All consumers of one subscription share its window. [C]
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from entrepot.base.errors import Fault
from entrepot.core.consumer import UNLIMITED, Consumer, Window
from entrepot.core.queue import Queue
from entrepot.core.walk import Walk
from entrepot.model.address import Destination
from entrepot.model.message import Message
from entrepot.model.predicate import Predicate

BROWSE_LOOKS: Final = 2_000  # messages that one step of a browser with a selector may look at
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
        self.retroactive: bool = False  # of a topic: it wants what the topic remembers too
        self.origin: i64 = 0
        self.connection: str = ""
        self.far: str = "\t"  # of a bridge: id TAB name of the broker on the other side, for the trace
        self.pending_limit: i64 = -1  # of a topic subscriber, instead of the policy's
        self.window: Window = Window(0)
        self.consumers: list[Consumer] = []
        self.recalling: list[Queue] = []  # queues made for it that begin with what their topic remembers
        self.patterns: list[str] = []  # wildcards of queues that it follows: new matching queues are attached too
        self.pattern_keys: list[int] = []  # what each of these is called, as consumers are by their keys
        self.announces: bool = False  # its session tells others of it: nobody else needs to

    def consumer(self, queue: Queue) -> Consumer:
        """Return a new consumer for ``queue`` on ``self.window``. The session overrides this."""
        raise Fault("a subscription that cannot make consumers")

    def ended(self, why: str) -> None:
        """The broker ended the subscription: tell the peer. May be overridden."""


def durable_queue_name(client_id: str, name: str) -> str:
    """Return the name of a durable subscription's queue: ``client.name``, dots and backslashes escaped."""
    return f"{_escaped(client_id)}.{_escaped(name)}" if client_id else _escaped(name)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace(".", "\\.")


class Browser:
    """A look through one queue that removes nothing: what waits, in delivery order, as far as it stood at each step.

    `next` may be called as slowly as the reader likes; what leaves meanwhile is not shown, nothing is shown twice.
    """

    def __init__(self, queue: Queue, selector: Predicate | None) -> None:
        self.queue: Queue = queue
        self.selector: Predicate | None = selector
        self.walk: Walk = queue.walk()
        self.shown: i64 = 0

    @property
    def done(self) -> bool:
        """Return whether the end was reached."""
        return self.walk.done

    def next(self, most: i64) -> list[Message]:
        """Return up to ``most`` further messages; fewer, even none, when a selector left out many: ask `done`."""
        found: list[Message] = []
        looks: i64 = max(most, BROWSE_LOOKS)
        while not self.walk.done and len(found) < most and looks > 0:
            step = self.walk.step(min(looks, most - len(found)))
            looks -= len(step)
            for each in step:
                message = each.message
                expired = message.expiration != 0 and message.expiration <= self.queue.host.wall
                if not expired and (self.selector is None or self.selector.matches(message)):
                    found.append(message)
        self.shown += len(found)
        return found
