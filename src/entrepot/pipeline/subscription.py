"""One streaming query's hold on all shards of its queue: what the driver decides between micro-batches.

Settles what Spark's commit log has (the start of the next batch), claims the next messages from every broker that
answers, and plans who reads what. A broker that is gone keeps its position and joins again when it is back, or when
another took its place; a broker that is new is attached to when it is found. Nothing is attached before it is needed:
Spark makes readers in processes that never read.

Invariants: a shard's position never goes back; what was not in a batch that Spark committed is never settled.
"""

from __future__ import annotations

import contextlib
import logging
import select
import threading
import time
from collections.abc import Mapping
from typing import Final

from entrepot.base.errors import EntrepotError, Unreachable
from entrepot.base.uri import Endpoint
from entrepot.pipeline import offsets as positions
from entrepot.pipeline.leases import Piece, Shard, Subject
from entrepot.pipeline.offsets import Offsets
from entrepot.pipeline.options import Options
from entrepot.pipeline.planning import Range, shares, split
from entrepot.pipeline.wire import Brokers, Wire

LOOK_EVERY: Final = 2.0  # s between looks for brokers that are not there
SELECTOR_WAIT_MS: Final = 2_000  # AvailableNow: a selector needs time to find the last matches in a long queue
NO_LIMIT: Final = 1 << 40
RETRY: Final = 0.05  # s
AGAIN_AFTER: Final = 15.0  # s that an announced broker which refuses is left alone

log: Final = logging.getLogger("entrepot.pipeline")


class Subscription:
    """The shards of one query. Belongs to one thread; only the search for brokers runs beside it."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.subject = Subject.of(options)
        self.source = positions.source_name(options.destination, options.text("subscription"))
        self.brokers = Brokers(options)
        self.shards: dict[str, Shard] = {}
        self.targets: dict[str, int] | None = None  # AvailableNow: where each shard ends
        self._begin, self._new_lease = positions.parse_start(options.text("startingPosition"), self.source)
        self._latest = self._new_lease.get("from") == positions.LATEST
        self._unprepared = False
        self._running = False  # Spark has offsets: brokers that are found from now on are read from their beginning
        self._scout: _Scout | None = None
        self._looked = 0.0
        self._same: dict[str, str] = {}  # further places of a broker that has another connection
        self._passed_over: dict[str, float] = {}  # announced brokers that cannot be read -> when to try again

    def initial(self) -> Offsets:
        """Return the offsets of a new query: always the same."""
        return self._begin

    def parse(self, given: object) -> Offsets:
        """Return the offsets that Spark hands back. Raises InvalidOption for those of another source."""
        return positions.parse(given, self.source)

    def latest(self, start: Offsets, budget: int | None, *, settle: bool = True) -> Offsets:
        """Settle up to ``start``, claim at most ``budget`` messages behind it, and return where they end.

        ``settle``: False when nobody says that Spark has committed ``start``. ``budget`` None: all that is there now.
        Waits ``pollWait`` when there is nothing. Raises LeaseError, Unreachable.
        """
        until = time.monotonic() + self.options.seconds("failoverTimeout")
        self._running = self._running or bool(start.shards)
        if self._unprepared:
            self._set_targets()
        while True:
            self._meet()
            self._expect_targets()
            failure = Unreachable("no broker of the url answers", remedy="start one; see failoverTimeout")
            try:
                moved = self._take(start, budget, settle)
                if moved is not None:
                    return start.moved(moved, {broker: self.shards[broker].ledger.first for broker in moved})
            except Unreachable as error:
                failure = error
            if any(shard.live for shard in self.shards.values()):
                continue  # one went away in the middle: the others go on
            if time.monotonic() > until:
                raise failure
            time.sleep(RETRY)
            self._looked = 0.0

    def prepare_available_now(self) -> None:
        """From now on take only what is there at this moment."""
        if self._latest:
            self._unprepared = True  # whether a lease is new and begins here, the first offset tells
        else:
            self._set_targets()

    def _set_targets(self) -> None:
        self._unprepared = False
        self._meet()
        self.targets = {}
        for shard in list(self.shards.values()):
            if shard.live:
                shard.claim(shard.ledger.tail, 0)
                self.targets[shard.broker] = shard.ledger.tail + shard.ledger.more

    def plan(self, start: Offsets, end: Offsets, partitions_min: int, cores: int) -> list[Piece]:
        """Return who reads what of a batch; the same batch may be planned again after a restart. Raises as `latest`."""
        wanted: list[Range] = []
        self._running = self._running or bool(start.shards)
        for broker, high in end.shards.items():
            before = start.shards.get(broker)
            if before == high:
                continue
            ledger = self._need(broker).ledger
            low = ledger.begin(end.first.get(broker) if before is None else before)
            ledger.begin(high)
            if low < high:
                wanted.append(Range(broker, low, high))
        pieces: list[Piece] = []
        for piece in split(wanted, partitions_min, cores):
            shard = self.shards[piece.shard]
            place = shard.place.format()
            pieces.append(Piece(piece.shard, place, shard.ledger.epoch, piece.low, piece.high))
        return pieces

    def held(self, limit: int | None) -> tuple[dict[str, int], dict[str, int]]:
        """Claim up to ``limit`` messages of what is there; return where what is held begins and ends on each broker."""
        self._meet()
        begin = {broker: shard.ledger.first for broker, shard in self.shards.items()}
        start = Offsets(self.source, begin)
        moved = self._claim_now(start, [*self.shards.values()], NO_LIMIT if limit is None else limit, limit is None)
        return begin, moved

    def tails(self) -> Offsets:
        """Return the end of what is held on every broker that answers."""
        self._meet()
        tails = {broker: shard.ledger.tail for broker, shard in self.shards.items()}
        return Offsets(self.source, tails, {broker: shard.ledger.first for broker, shard in self.shards.items()})

    def waiting(self, start: Offsets) -> Offsets | None:
        """Return where all that waits ends, as the brokers said at their last answers; None when none was asked.

        Asks nobody: it is for reports. A broker that is away keeps the end that it had.
        """
        if not self.shards:
            return None
        ends = {broker: shard.ledger.tail + shard.ledger.more for broker, shard in self.shards.items()}
        return start.moved(ends, {broker: shard.ledger.first for broker, shard in self.shards.items()})

    def settle(self, end: Mapping[str, int]) -> None:
        """Settle up to ``end`` on every broker in it that is there; what is left, a later call settles."""
        self._meet()
        for broker, position in end.items():
            if self._is_live(broker):
                with contextlib.suppress(Unreachable):
                    self.shards[broker].settle(position)

    def close(self) -> None:
        """Drop all connections; the brokers keep what is held."""
        for shard in self.shards.values():
            shard.close()

    # -- who is there -------------------------------------------------------------------------------------------------

    def _meet(self) -> None:
        """Attach to brokers that are new or back."""
        if not self.shards:
            self._welcome(self.brokers.all())
            self._looked = time.monotonic()
            self._explore()
            return
        if self._scout is not None and self._scout.done:
            self._return_of_the_scout(self._scout)
        if self._scout is None and time.monotonic() - self._looked >= LOOK_EVERY:
            self._looked = time.monotonic()
            self._learn()
            taken = {shard.place.format() for shard in self.shards.values() if shard.live}
            taken.update(place for place, broker in self._same.items() if self._is_live(broker))
            places = [place for place in self.brokers.places if place.format() not in taken]
            announced = self._not_met()
            if places or announced:
                self._scout = _Scout(self.brokers, places, announced)
                if not any(shard.live for shard in self.shards.values()):
                    self._scout.join()  # nothing else to do meanwhile

    def _explore(self) -> None:
        """Attach to all brokers of the network, at once: a query that takes what is there now must know them."""
        tried: dict[str, None] = {}
        while self._learn() and (announced := [broker for broker in self._not_met() if broker not in tried]):
            tried.update(dict.fromkeys(announced))
            scout = _Scout(self.brokers, [], announced)
            scout.join()
            self._return_of_the_scout(scout)

    def _learn(self) -> bool:
        """Ask every broker for the others. Return whether brokers of the network are to be found at all."""
        if self.options.discovers:
            for shard in [shard for shard in self.shards.values() if shard.live]:
                with contextlib.suppress(Unreachable):  # it is gone: noted
                    shard.learn(self.brokers)
        return self.options.discovers

    def _not_met(self) -> list[str]:
        """Return the brokers that were announced, are not connected, and were not found wanting a moment ago."""
        now = time.monotonic()
        return [
            broker
            for broker in self.brokers.announced
            if not self._is_live(broker) and self._passed_over.get(broker, now) <= now
        ]

    def _return_of_the_scout(self, scout: _Scout) -> None:
        self._scout = None
        for broker, error in scout.failures.items():
            self._pass_over(broker, error)
        self._welcome([wire for wire in scout.wires if wire.broker not in scout.announced])
        for wire in scout.wires:
            if wire.broker in scout.announced:
                try:
                    self._welcome([wire])
                except EntrepotError as error:  # a right is missing there, or it is too old; the url does not name it
                    wire.close()
                    self._pass_over(wire.broker, error)
                else:
                    if not self._is_live(wire.broker):
                        self._passed_over[wire.broker] = time.monotonic() + LOOK_EVERY  # it went away again

    def _pass_over(self, broker: str, error: EntrepotError) -> None:
        """Say once that a broker which the url does not name cannot be read; one that refuses is left alone a while."""
        if broker not in self._passed_over and broker not in self.shards:
            log.warning("the broker %s of the network is not read: %s", broker, error)
        self._passed_over[broker] = time.monotonic() + (0 if isinstance(error, Unreachable) else AGAIN_AFTER)

    def _is_live(self, broker: str) -> bool:
        shard = self.shards.get(broker)
        return shard is not None and shard.live

    def _welcome(self, wires: list[Wire]) -> None:
        for wire in wires:
            shard = self.shards.get(wire.broker)
            if shard is None:
                shard = Shard(wire, self.subject)
                try:
                    shard.attach(self._starting())
                except Unreachable:
                    continue
                self.shards[wire.broker] = shard
            elif shard.live:
                self._same[wire.place.format()] = wire.broker
                wire.close()
            else:
                shard.found(wire)

    def _starting(self) -> Mapping[str, str]:
        """Return how a lease begins that is new. A broker that joins a query which runs has nothing to be skipped."""
        return {} if self._running and self._latest else self._new_lease

    def _need(self, broker: str) -> Shard:
        """Return the shard on ``broker``, looking for it. Raises Unreachable."""
        shard = self.shards.get(broker)
        if shard is not None and shard.live:
            return shard
        if shard is None and not self.shards:
            self._meet()
            if broker in self.shards:
                return self.shards[broker]
        self._welcome([self.brokers.open(broker)])
        return self.shards[broker]

    def _expect_targets(self) -> None:
        """AvailableNow has promised to read what these shards had: wait for those that are away."""
        for broker in self.targets or {}:
            self._need(broker)

    # -- what is taken ------------------------------------------------------------------------------------------------

    def _take(self, start: Offsets, budget: int | None, settle: bool) -> dict[str, int] | None:
        """Return how far each shard was claimed, None when none of them is there."""
        live = [shard for shard in self.shards.values() if shard.live]
        if self.targets is not None:
            live = [shard for shard in live if shard.broker in self.targets]
            if not live and not self.targets:
                return {}
        for shard in live:
            position = start.shards.get(shard.broker)
            shard.ledger.begin(position)
            if settle and position is not None:
                shard.settle(position)
        if not live:
            return None
        everything = budget is None
        most = NO_LIMIT if budget is None else budget
        moved = self._claim_now(start, live, most, everything)
        if not self._any(start, moved) and self._await(start, live, most):
            moved = self._claim_now(start, live, most, everything)
        return moved

    def _any(self, start: Offsets, moved: Mapping[str, int]) -> bool:
        return any(end > self._low(self.shards[broker], start) for broker, end in moved.items())

    def _low(self, shard: Shard, start: Offsets) -> int:
        return shard.ledger.begin(start.shards.get(shard.broker))

    def _limit(self, shard: Shard, low: int, wanted: int) -> int:
        """Return how many messages may be taken behind ``low``."""
        if self.targets is None:
            return wanted
        return max(0, min(wanted, self.targets[shard.broker] - low))

    def _claim_now(self, start: Offsets, live: list[Shard], budget: int, everything: bool) -> dict[str, int]:
        """Claim without waiting, each shard its share; what one has no use for is offered to the others.

        ``everything``: but nothing that comes while we claim, or a busy producer would keep us here for ever.
        """
        ends = {shard.broker: self._low(shard, start) for shard in live}
        ceilings: dict[str, int] = {}
        hungry = {shard.broker: shard for shard in live}
        left = budget
        while hungry and left > 0:
            for broker, share in shares(left, list(hungry)).items():
                shard = hungry[broker]
                low = ends[broker]
                wanted = min(self._limit(shard, low, share), ceilings.get(broker, NO_LIMIT) - low)
                ends[broker] = shard.claim(low, wanted) if wanted > 0 else low
                left -= ends[broker] - low
                if everything:
                    ceilings.setdefault(broker, shard.ledger.tail + shard.ledger.more)
                at_end = ends[broker] == shard.ledger.tail and not shard.ledger.more
                if ends[broker] == low or at_end:
                    del hungry[broker]
        return ends

    def _await(self, start: Offsets, live: list[Shard], budget: int) -> bool:
        """Wait at all brokers until one has something, or the time is over; return whether one has."""
        wait_ms = self.options.number("pollWait")
        if self.targets is not None:
            live = [shard for shard in live if self._low(shard, start) < self.targets[shard.broker]]
            wait_ms = SELECTOR_WAIT_MS if self.subject.selector else 0
        if not wait_ms or not live:
            return False
        until = time.monotonic() + wait_ms / 1000
        each = shares(budget, [shard.broker for shard in live])
        for shard in live:
            low = self._low(shard, start)
            most = self._limit(shard, low, each[shard.broker])
            if most > 0:
                shard.begin_claim(low, most, wait_ms)
        while True:
            # no short cut: an answer may have come before we look
            ready = [shard for shard in live if shard.live and shard.claimed()]
            if any(shard.ledger.tail > self._low(shard, start) for shard in ready):
                return True
            left = until - time.monotonic()
            if left <= 0 or len(ready) == len(live):
                return False
            select.select([shard for shard in live if shard.live], [], [], left)


class _Scout:
    """Looks for brokers in threads of its own: a place that does not answer must not hold up the others.

    ``places`` are those of the url, ``announced`` brokers that others told of. `wires` has who answered, `failures` why
    an announced broker could not be met; read both when `done`.
    """

    def __init__(self, brokers: Brokers, places: list[Endpoint], announced: list[str]) -> None:
        self.wires: list[Wire] = []
        self.failures: dict[str, EntrepotError] = {}
        self.announced = announced
        self._brokers = brokers
        self._threads = [threading.Thread(target=self._try_places, args=(places,), daemon=True)] if places else []
        for broker in announced:
            self._threads.append(threading.Thread(target=self._try_announced, args=(broker,), daemon=True))
        for thread in self._threads:
            thread.start()

    @property
    def done(self) -> bool:
        """Whether it has looked everywhere."""
        return not any(thread.is_alive() for thread in self._threads)

    def join(self) -> None:
        """Wait until it has."""
        for thread in self._threads:
            thread.join()

    def _try_places(self, places: list[Endpoint]) -> None:
        for place in places:
            try:
                self.wires.append(Wire(place, self._brokers.options))
            except EntrepotError:  # not there, or not ours: asked again later, and by name when a batch needs it
                continue

    def _try_announced(self, broker: str) -> None:
        try:
            self.wires.append(self._brokers.announced_wire(broker))
        except EntrepotError as error:
            self.failures[broker] = error
