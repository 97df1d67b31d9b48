"""What consumers of a queue can take: seen while they catch up with messages that a pause let wait.

A consumer that never had to hurry shows what it was given, not what it can take. So delivery is held for some seconds,
and then it is watched how fast the queue's messages are settled while others wait for them. The first interval is left
out: windows that the pause has emptied fill in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

LEAST_S: Final = 0.5  # that they were seen at their limit
LEAST_SAMPLES: Final = 3


class Sample:
    """A queue at one moment. ``at``: s of any clock."""

    def __init__(self, at: float, view: dict[str, Any]) -> None:
        """``view``: what `describe` of a queue answers."""
        self.at: Final = at
        self.waiting: Final = int(view["waiting"])
        self.settled: Final = int(view["settled"])
        self.accepted: Final = int(view["accepted"])
        self.consumers: Final = int(view["consumers"])


class Limit:
    """What was seen. ``rate``: messages a second, of all consumers; ``known``: they could not have taken more."""

    def __init__(self, rate: float, consumers: int, arriving: float, *, known: bool) -> None:
        """``arriving``: messages a second that came meanwhile."""
        self.rate: Final = rate
        self.consumers: Final = consumers
        self.arriving: Final = arriving
        self.known: Final = known

    @property
    def each(self) -> float:
        """Return the messages a second of one consumer."""
        return self.rate / self.consumers if self.consumers else 0.0


def limit(samples: Sequence[Sample]) -> Limit:
    """Return what consumers took in ``samples``, from the end of a pause until nothing waited, or it was given up.

    Where they caught up too soon for a rate, it is what they took at least.
    """
    hurried = []
    for sample in samples:
        hurried.append(sample)
        if not sample.waiting:
            break  # what they did behind this was not at their limit
    at_limit = [sample for sample in hurried[1:] if sample.waiting]
    known = len(at_limit) >= LEAST_SAMPLES and at_limit[-1].at - at_limit[0].at >= LEAST_S
    seen = at_limit if known else hurried
    if len(seen) < 2:
        return Limit(0.0, seen[-1].consumers if seen else 0, 0.0, known=False)
    span = max(seen[-1].at - seen[0].at, 1e-3)
    return Limit(
        (seen[-1].settled - seen[0].settled) / span,
        min(sample.consumers for sample in seen),
        (samples[-1].accepted - samples[0].accepted) / max(samples[-1].at - samples[0].at, 1e-3),
        known=known,
    )
