"""A client's wish to read: from a queue, a topic, a pattern, durably or not, or only to look.

A session subclasses `Subscription` and makes its own consumers; `BrokerCore.subscribe` finds the queues and attaches
one consumer to each. All consumers of one subscription share its window. [C]
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from entrepot.base.environment import UNLIMITED
from entrepot.base.errors import Fault
from entrepot.core.events.facts import Reader
from entrepot.core.queue.consumer import APPLICATION, Consumer, Window
from entrepot.core.queue.queue import Queue
from entrepot.model.address import Destination
from entrepot.model.predicate import Predicate

DEFAULT_PREFETCH: Final = -1  # take the policy's for this kind of destination
PREFETCH_SHOWN_MAX: Final = (1 << 31) - 1  # Java's int


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
        self.kind: i64 = APPLICATION  # of its consumers
        self.connection: str = ""
        self.peer: str = ""  # the remote address
        self.user: str = ""
        self.session_name: str = ""  # as `Reader` says it, and the next one too
        self.consumer_number: i64 = -1
        self._reader: Reader | None = None
        self.far: str = "\t"  # of a bridge: id TAB name of the broker on the other side, for the trace
        self.pending_limit: i64 = -1  # of a topic subscriber, instead of the policy's
        self.window: Window = Window(0)
        self.consumers: list[Consumer] = []
        self.recalling: list[Queue] = []  # queues made for it that begin with what their topic remembers
        self.patterns: list[str] = []  # wildcards of queues that it follows: new matching queues are attached too
        self.pattern_keys: list[int] = []  # what each of these is called, as consumers are by their keys
        self.announces: bool = False  # its session tells others of it: nobody else needs to

    @property
    def selector_text(self) -> str:
        """The selector as it was written, "" for none."""
        return "" if self.selector is None else self.selector.text

    def consumer(self, queue: Queue) -> Consumer:
        """Return a new consumer for ``queue`` on ``self.window``. The session overrides this."""
        raise Fault("a subscription that cannot make consumers")

    def reader(self) -> Reader:
        """Return what facts say of who reads; what is set here after the first call is not in it."""
        reader = self._reader
        if reader is None:
            reader = self._reader = Reader()
            reader.kind = self.kind
            reader.connection = self.connection
            reader.peer = self.peer
            reader.user = self.user
            reader.client_id = self.client_id
            reader.session = self.session_name
            reader.number = self.consumer_number
            reader.origin = self.origin
            reader.subscription = self.durable_name
            reader.broker = self.far
            reader.selector = "" if self.selector is None else self.selector.text
            reader.prefetch = min(self.window.messages, PREFETCH_SHOWN_MAX)
            reader.priority = self.priority
            reader.exclusive = self.exclusive
            reader.no_local = self.no_local
            reader.announces = self.announces
            reader.patterns = self.patterns
        return reader

    def ended(self, why: str) -> None:
        """The broker ended the subscription: tell the peer. May be overridden."""


def durable_queue_name(client_id: str, name: str) -> str:
    """Return the name of a durable subscription's queue: ``client.name``, dots and backslashes escaped."""
    return f"{_escaped(client_id)}.{_escaped(name)}" if client_id else _escaped(name)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace(".", "\\.")
