"""What was dropped because it is here already, or was: how often, and the last of it by the clients' ids. [C]"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

REPETITIONS_KEPT: Final = 10_000
IDENTITY_MOST: Final = 1_000  # a longer id is counted and not remembered


class Repetition:
    """One message of which a repetition was dropped. ``code``: why (`base/reasons.py`); ``wall``: ms since 1970."""

    def __init__(self, identity: str, address: str, code: str) -> None:
        self.identity: str = identity
        self.address: str = address
        self.code: str = code
        self.wall: i64 = 0
        self.count: i64 = 0


class Repetitions:
    """All that were dropped since the broker started; the last `REPETITIONS_KEPT` of them by id."""

    def __init__(self) -> None:
        self.count: i64 = 0
        self.last: dict[str, Repetition] = {}

    def add(self, identity: str, address: str, code: str, wall: i64) -> None:
        """Note one that is dropped now."""
        self.count += 1
        if len(identity) > IDENTITY_MOST:
            return
        found = self.last.pop(identity, None)
        if found is None or found.address != address:
            found = Repetition(identity, address, code)
            if len(self.last) >= REPETITIONS_KEPT:
                for oldest in self.last:
                    del self.last[oldest]
                    break
        found.code = code
        found.wall = wall
        found.count += 1
        self.last[identity] = found
