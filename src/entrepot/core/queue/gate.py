"""Whether a queue gives anything out: an operator's pause, and what it waits for before it begins. [C]

consumers-before-dispatch and delay-before-dispatch (classic.md 4.3, step 7; artemis.md 4.5) have their home here, and
the wait of group-rebalance-pause-dispatch: new owners of groups get nothing while former ones have something in flight.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.core.addressing.traits import Traits

HOLD_DEFAULT: Final = 1_000_000_000  # ns that a queue waits for its consumers when the policy gives 0 (classic.md 4.3)


class Gate:
    """What keeps a queue from dispatching. ``shut`` is what dispatch asks: paused, held, or draining."""

    def __init__(self, traits: Traits, ceased: bool) -> None:
        """``ceased``: the broker stops, and the queue is held for good."""
        self.traits: Traits = traits
        self.ceased: bool = ceased
        self.paused: bool = False
        self.held: bool = self._is_late()
        self.held_until: i64 = 0  # ns; 0: nobody came yet
        self.draining: bool = False  # nothing goes out until nothing is in flight
        self.shut: bool = self.held

    def _is_late(self) -> bool:
        return self.ceased or self.traits.consumers_before_dispatch > 0 or self.traits.delay_before_dispatch > 0

    def drain(self) -> None:
        """Stop delivery until nothing is in flight."""
        self.draining = True
        self.shut = True

    def drained(self) -> None:
        """Nothing is in flight any more."""
        self.draining = False
        self.shut = self.paused or self.held

    def pause(self) -> None:
        """Stop delivery; sends are accepted."""
        self.paused = True
        self.shut = True

    def resume(self) -> None:
        """Lift the pause."""
        self.paused = False
        self.shut = self.held or self.draining

    def cease(self) -> None:
        """Deliver nothing any more: the broker stops. What is in flight may still be settled."""
        self.ceased = True
        self.held = True
        self.shut = True

    def hold(self) -> None:
        """The last consumer has gone: wait for as many as at the beginning."""
        self.held = self._is_late()
        self.held_until = 0
        self.draining = False
        self.shut = self.paused or self.held

    def release(self, readers: int, now: i64) -> bool:
        """Let go of the hold if ``readers`` are enough, or its time is over; return whether it was let go."""
        enough = readers >= self.traits.consumers_before_dispatch > 0
        waited = self.held_until != 0 and now >= self.held_until
        if enough or waited:
            self.held = False
            self.shut = self.paused or self.draining
        return enough or waited

    def begin_wait(self, now: i64) -> i64:
        """Return when the hold ends without further consumers (ns); 0: not by itself, or it is set already."""
        if self.held_until != 0 or self.traits.delay_before_dispatch < 0:
            return 0
        self.held_until = now + (self.traits.delay_before_dispatch or HOLD_DEFAULT)
        return self.held_until
