"""How a program wants its messages treated: when one is processed, when it comes again, what is looked at. [C]"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from mypy_extensions import i64

AUDIT_DEPTH: Final = 2048  # ActiveMQ's auditDepth
AUDIT_PRODUCERS: Final = 64  # and its auditMaximumProducerNumber
UNLIMITED: Final = -1


class Acknowledge(IntEnum):
    """When a message counts as processed."""

    AUTO = 1
    """`receive` returned it, or the next one is asked of an iteration."""
    CLIENT = 2
    """`acknowledge` was called on it or on a later one of the session."""
    DUPS_OK = 3
    """As AUTO, told in batches: a lost connection repeats more."""
    INDIVIDUAL = 4
    """`acknowledge` was called on it."""
    TRANSACTED = 0
    """The session committed."""


class RedeliveryPolicy:
    """When a message that was rolled back is handed out again, and when it is given up (classic.md 4.6). ms."""

    def __init__(
        self,
        *,
        initial_delay_ms: int = 1000,
        delay_ms: int = 1000,
        back_off_multiplier: float = 5.0,
        use_exponential_back_off: bool = False,
        maximum_redeliveries: int = 6,
        maximum_delay_ms: int = UNLIMITED,
        use_collision_avoidance: bool = False,
        collision_avoidance_factor: float = 0.15,
        pre_dispatch_check: bool = True,
    ) -> None:
        self.initial_delay_ms: int = initial_delay_ms
        self.delay_ms: int = delay_ms
        self.back_off_multiplier: float = back_off_multiplier
        self.use_exponential_back_off: bool = use_exponential_back_off
        self.maximum_redeliveries: int = maximum_redeliveries
        self.maximum_delay_ms: int = maximum_delay_ms
        self.use_collision_avoidance: bool = use_collision_avoidance
        self.collision_avoidance_factor: float = collision_avoidance_factor
        self.pre_dispatch_check: bool = pre_dispatch_check

    def exhausted(self, redeliveries: int) -> bool:
        """Tell whether a message that comes for the ``redeliveries``-th time again is given up."""
        return self.maximum_redeliveries != UNLIMITED and redeliveries > self.maximum_redeliveries

    def next_delay_ms(self, previous_ms: int, fraction: float) -> int:
        """Return the wait after one of ``previous_ms`` (0: the first); ``fraction`` in [0, 1) is the lot for jitter."""
        delay = self.initial_delay_ms
        if previous_ms > 0:
            delay = int(previous_ms * self.back_off_multiplier) if self.use_exponential_back_off else self.delay_ms
        if self.maximum_delay_ms > 0:
            delay = min(delay, self.maximum_delay_ms)
        if self.use_collision_avoidance:
            delay += int(delay * self.collision_avoidance_factor * (2.0 * fraction - 1.0))
        return max(delay, 0)


class Handling:
    """How inboxes treat what comes; the ``jms.`` options of a URL (classic.md 4.17).

    ``lazily``: tell the broker late what is processed in AUTO, at the latest with the first message after ``lazy_ns``.
    ``by_priority``: hand out what waits here by priority. ``individually``: settle one by one, never a range; goes with
    ``by_priority``, because ranges are in the broker's order. ``non_blocking``: what waits to be redelivered lets
    others pass. ``check_expiry``: look at the clock before handing out.
    """

    def __init__(
        self,
        *,
        audit_depth: int = AUDIT_DEPTH,
        audit_producers: int = AUDIT_PRODUCERS,
        lazily: bool = False,
        lazy_ns: int = 0,
        by_priority: bool = False,
        individually: bool = False,
        non_blocking: bool = False,
        check_expiry: bool = True,
    ) -> None:
        self.audit_depth: int = audit_depth
        self.audit_producers: int = audit_producers
        self.lazily: bool = lazily
        self.lazy_ns: i64 = lazy_ns
        self.by_priority: bool = by_priority
        self.individually: bool = individually or by_priority
        self.non_blocking: bool = non_blocking
        self.check_expiry: bool = check_expiry


USUAL: Final = Handling()
