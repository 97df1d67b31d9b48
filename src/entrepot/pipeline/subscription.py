"""One query's hold on its queue, for a driver that may wait: `entrepot.driver.holding` on sockets."""

from __future__ import annotations

import time
from collections.abc import Mapping

from entrepot.base.uri import Endpoint
from entrepot.driver.holding import Holding
from entrepot.driver.offsets import Offsets
from entrepot.driver.shard import Piece
from entrepot.pipeline.blocking import Blocking
from entrepot.pipeline.options import Options


class Subscription:
    """What `Holding` decides, carried out. Belongs to one thread."""

    def __init__(self, options: Options) -> None:
        """Raises InvalidOption when the start of the query cannot be read."""
        self._world = Blocking(options)
        self._holding = Holding(options.query(), time.monotonic)

    @property
    def epochs(self) -> dict[str, int]:
        """The epoch of the lease on each broker."""
        return {broker: shard.ledger.epoch for broker, shard in self._holding.shards.all.items()}

    @property
    def places(self) -> dict[str, Endpoint]:
        """Where each broker is, or was last."""
        return {broker: shard.place for broker, shard in self._holding.shards.all.items()}

    def initial(self) -> Offsets:
        """Return the offsets of a new query: always the same."""
        return self._holding.initial()

    def parse(self, given: object) -> Offsets:
        """Return the offsets that Spark hands back. Raises InvalidOption for those of another source."""
        return self._holding.parse(given)

    def latest(self, start: Offsets, budget: int | None, *, settle: bool = True) -> Offsets:
        """Settle up to ``start``, claim at most ``budget`` messages behind it, and return where they end."""
        return self._world.run(self._holding.latest(start, budget, settle=settle))

    def prepare_available_now(self) -> None:
        """From now on take only what is there at this moment."""
        self._world.run(self._holding.prepare_available_now())

    def plan(self, start: Offsets, end: Offsets, partitions_min: int, cores: int) -> list[Piece]:
        """Return who reads what of a batch; the same batch may be planned again after a restart."""
        return self._world.run(self._holding.plan(start, end, partitions_min, cores))

    def held(self, limit: int | None) -> tuple[dict[str, int], dict[str, int]]:
        """Claim up to ``limit`` messages of what is there; return where what is held begins and ends on each broker."""
        return self._world.run(self._holding.held(limit))

    def tails(self) -> Offsets:
        """Return the end of what is held on every broker that answers."""
        return self._world.run(self._holding.tails())

    def waiting(self, start: Offsets) -> Offsets | None:
        """Return where all that waits ends, as the brokers said at their last answers; asks nobody."""
        return self._holding.waiting(start)

    def settle(self, end: Mapping[str, int]) -> None:
        """Settle up to ``end`` on every broker in it that is there; what is left, a later call settles."""
        self._world.run(self._holding.settle(end))

    def close(self) -> None:
        """Drop all connections; the brokers keep what is held."""
        self._holding.close()
