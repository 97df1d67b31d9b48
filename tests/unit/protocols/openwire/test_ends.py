"""Whatever way consumers end, what was delivered counts, and nothing else: for many seeds, and with bugs planted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from entrepot.base.compiled import is_compiled
from entrepot.core.queue.consumer import Consumer
from entrepot.core.queue.queue import UNKNOWN_DELIVERED, Queue
from entrepot.protocols.openwire.consuming import Consuming
from entrepot.protocols.openwire.server import OpenWireSession

from .ends import Ends

SEEDS = 60

DETACH = Queue.detach
RELEASE = OpenWireSession.release
SHUT = OpenWireSession.shut


@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
def test_what_was_delivered_counts_and_nothing_else(seed: int) -> None:
    assert Ends(seed).run() == ""


def connection_counts_all(self: OpenWireSession) -> None:
    self.last_delivered = UNKNOWN_DELIVERED
    RELEASE(self)


def stop_counts_all(self: OpenWireSession, why: str, now: int) -> None:
    SHUT(self, why, now)
    self.last_delivered = UNKNOWN_DELIVERED


def lower_numbers_count(self: Queue, consumer: Consumer, last_delivered: int = UNKNOWN_DELIVERED) -> None:
    """What this broker did before: whatever has that number or a lower one counts."""
    if last_delivered >= 0:
        ordered = sorted(consumer.in_flight.items())
        consumer.in_flight.clear()
        consumer.in_flight.update(ordered)
        last_delivered = max((number for number, _ in ordered if number <= last_delivered), default=-1)
    DETACH(self, consumer, last_delivered)


def nothing_counts(self: Queue, consumer: Consumer, last_delivered: int = UNKNOWN_DELIVERED) -> None:
    DETACH(self, consumer, -1)


def one_after_the_other(self: Consuming, subscriptions: list[Any], last_delivered: int) -> None:
    for subscription in subscriptions:
        self.end(subscription, last_delivered)


BUGS: dict[str, tuple[Any, str, Callable[..., None]]] = {
    "the end of a connection counts all that was prefetched": (OpenWireSession, "release", connection_counts_all),
    "the stop of the broker counts all that was prefetched": (OpenWireSession, "shut", stop_counts_all),
    "lower numbers count": (Queue, "detach", lower_numbers_count),
    "nothing counts": (Queue, "detach", nothing_counts),
    "what one consumer gives back goes to the next that ends": (Consuming, "end_all", one_after_the_other),
}


@contextmanager
def planted(owner: Any, name: str, bug: Callable[..., None]) -> Iterator[None]:
    genuine = getattr(owner, name)
    setattr(owner, name, bug)
    try:
        yield
    finally:
        setattr(owner, name, genuine)


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str) -> None:
    if is_compiled():
        pytest.skip("native callers do not see a replaced method: planted in the plain build")
    with planted(*BUGS[name]):
        found = next((seed for seed in range(1, SEEDS + 1) if Ends(seed).run()), 0)
    assert found, f"{SEEDS} seeds did not find: {name}"
