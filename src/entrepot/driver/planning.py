"""How a batch is cut: a budget of messages over shards, and the ranges of shards over tasks. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

PARTITION_MESSAGES_MIN: Final = 2_000  # with fewer the start of a task (10-20 ms) costs more than it saves
AUTOMATIC_PARTITIONS_MAX: Final = 64


class Range(msgspec.Struct, frozen=True):
    """Positions ``low`` to ``high`` - 1 of one shard."""

    shard: str
    low: int
    high: int

    @property
    def count(self) -> int:
        """How many messages that are."""
        return self.high - self.low


def shares(budget: int, shards: Sequence[str], pending: Mapping[str, int] | None = None) -> dict[str, int]:
    """Divide ``budget`` messages among ``shards``: evenly, and what one has no use for goes to the others.

    ``pending``: how many each has at most; a shard that is not in it may have any number.
    """
    left = dict.fromkeys(shards, 0)
    open_: list[str] = list(shards)
    while budget > 0 and open_:
        each, odd = divmod(budget, len(open_))
        still: list[str] = []
        for index, shard in enumerate(open_):
            wanted = each + (1 if index < odd else 0)
            most = None if pending is None else pending.get(shard)
            given = wanted if most is None else min(wanted, most - left[shard])
            left[shard] += given
            budget -= given
            if given == wanted and (most is None or left[shard] < most):
                still.append(shard)
        if len(still) == len(open_):
            break
        open_ = still
    return left


def split(ranges: Sequence[Range], partitions_min: int, cores: int) -> list[Range]:
    """Cut ``ranges`` into at least ``partitions_min`` pieces where there are messages enough; 0: one for each core.

    Together the pieces are exactly the ranges, in order; none is empty. A piece never spans two shards.
    """
    filled = [range_ for range_ in ranges if range_.count > 0]
    total = sum(range_.count for range_ in filled)
    if total == 0:
        return []
    wanted = partitions_min or min(cores, AUTOMATIC_PARTITIONS_MAX, -(-total // PARTITION_MESSAGES_MIN))
    pieces: list[Range] = []
    for range_ in filled:
        parts = max(1, min(range_.count, -(-wanted * range_.count // total)))
        size, odd = divmod(range_.count, parts)
        low = range_.low
        for index in range(parts):
            high = low + size + (1 if index < odd else 0)
            pieces.append(Range(range_.shard, low, high))
            low = high
    return pieces
