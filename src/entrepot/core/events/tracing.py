"""Puts into the trace what the hub of facts tells: who reads, which brokers send here, what came and is in no queue.

The stages of a message (accepted, delivered, acknowledged, and what removes it) are not facts of the hub when they are
traced: a queue counts them in runs (`core/events/trace.py`), some 5 ns each, where a fact is an object that is made and
handed around (docs/decisions/0017).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from entrepot.base.reasons import FULL
from entrepot.core.events import trace as records
from entrepot.core.events.facts import (
    BROKER_JOINED,
    BROKER_LEFT,
    CONSUMER_ATTACHED,
    CONSUMER_DETACHED,
    MESSAGE_DROPPED,
    MESSAGE_DUPLICATE,
    MESSAGE_UNROUTED,
    ConsumerFact,
    Fact,
    Listener,
    MessageFact,
)
from entrepot.core.events.neighbours import BrokerFact
from entrepot.core.events.trace import UNTRACED, Trace
from entrepot.model.message import Message

TAKEN: Final = (
    CONSUMER_ATTACHED
    | CONSUMER_DETACHED
    | BROKER_JOINED
    | BROKER_LEFT
    | MESSAGE_UNROUTED
    | MESSAGE_DUPLICATE
    | MESSAGE_DROPPED
)


class Tracing(Listener):
    """Writes what it hears into ``trace``."""

    def __init__(self, trace: Trace, identity_of: Callable[[Message], str]) -> None:
        """``identity_of``: returns the id of a message as clients see it."""
        super().__init__(TAKEN)
        self.trace: Final = trace
        self.identity_of: Final = identity_of

    def heard(self, fact: Fact) -> None:
        """Note ``fact``."""
        if isinstance(fact, ConsumerFact):
            if not fact.place.address.startswith(UNTRACED):
                self._reader(fact)
        elif isinstance(fact, BrokerFact):
            if fact.kind == BROKER_JOINED:
                self.trace.define(records.NAME_ORIGIN, fact.number, f"{fact.broker_id}\t{fact.broker}")
            else:
                self.trace.forget(records.NAME_ORIGIN, fact.number)
        elif isinstance(fact, MessageFact):
            if fact.kind == MESSAGE_DUPLICATE:
                self._nowhere(records.DUPLICATE, fact)
            elif fact.code == (FULL if fact.kind == MESSAGE_DROPPED else ""):
                self._nowhere(records.UNROUTED, fact)

    def _reader(self, fact: ConsumerFact) -> None:
        trace, key, place = self.trace, fact.key, fact.place.identity
        if fact.kind == CONSUMER_ATTACHED:
            reader = fact.reader
            trace.define(records.NAME_CONSUMER, key, f"{reader.connection}\t{reader.broker}\t{reader.client_id}")
            trace.note(records.ATTACHED, 0, place, key, 0)
        else:
            trace.note(records.DETACHED, 0, place, key, 0)
            trace.forget(records.NAME_CONSUMER, key)

    def _nowhere(self, kind: int, fact: MessageFact) -> None:
        """Note that a message came and is in no queue."""
        message, address = fact.message, fact.place.called()
        if message is not None and not address.startswith(UNTRACED):
            self.trace.identity(message.number, self.identity_of(message))
            number = self.trace.number_of(records.NAME_ADDRESS, address)
            self.trace.note(kind, message.number, number, message.origin, 0)


def rename(trace: Trace | None, key: int, connection: str, far: str, client_id: str) -> None:
    """The consumer ``key`` is a bridge's, which knows now that it leads to ``far``: a broker's id, TAB, its name."""
    if trace is not None and trace.is_named(records.NAME_CONSUMER, key):
        trace.define(records.NAME_CONSUMER, key, f"{connection}\t{far}\t{client_id}")
