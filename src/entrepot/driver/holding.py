"""One streaming query's hold on all shards of its queue: what the driver decides between micro-batches.

Settles what Spark's commit log has (the start of the next batch), claims the next messages from every broker that
answers, and plans who reads what. A broker that is gone keeps its position and joins again when it is back, or when
another took its place; a broker that is new is attached to when it is found. Nothing is attached before it is needed:
Spark makes readers in processes that never read.

Where a query reads several queues (`scope.py`), each queue on each broker is a shard. One that is deleted is left out
of the offsets from then on, also where a batch that was logged has messages of it: nobody can read those any more.

Invariants: a shard's position never goes back; what was not in a batch that Spark committed is never settled.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import msgspec

from entrepot.base.errors import Unreachable
from entrepot.driver import offsets as positions
from entrepot.driver.arriving import LOOK, Arriving
from entrepot.driver.effects import Clock, Course, wait
from entrepot.driver.offsets import Offsets
from entrepot.driver.planning import Range, shares, split
from entrepot.driver.scope import Scope
from entrepot.driver.search import Reach
from entrepot.driver.shard import Piece, QueueGone, Shard, Subject
from entrepot.driver.shards import Shards

SELECTOR_WAIT_MS: Final = 2_000  # AvailableNow: a selector needs time to find the last matches in a long queue
NO_LIMIT: Final = 1 << 40
NO_END: Final = (1 << 63) - 1
RETRY: Final = 0.05  # s

T = TypeVar("T")


class Query(msgspec.Struct, frozen=True):
    """What a query wants. ``wait_ms``: how long a batch waits for a first message.

    ``arrival_ms``: AvailableNow of a reader that is demand: so long without a new message means that all was brought.
    ``least``: messages that a batch waits for, at most ``delay_ms`` after the one before; the first waits for none.
    ``octets``: a batch ends with the message that reaches so many, of all brokers together; 0: any number.
    ``ends``: the position at which it ends on each broker, which is not in; None: it has no such end. A broker that is
    not named gives nothing. Only of a query of one queue.
    ``scope``: the queues, where it reads several.
    """

    subject: Subject
    reach: Reach
    starting: str  # the option startingPosition
    wait_ms: int
    arrival_ms: int = 0
    least: int = 0
    delay_ms: int = 0
    octets: int = 0
    ends: dict[str, int] | None = None
    scope: Scope | None = None


class Holding:
    """What one query holds. Its courses run one at a time; only the search for brokers goes on beside them."""

    def __init__(self, query: Query, clock: Clock) -> None:
        """Raises InvalidOption when the start of the query cannot be read."""
        self.query = query
        self.source = positions.source_name(query.subject.destination, query.subject.subscription)
        self.shards = Shards(query.subject, query.reach, clock, self._starting, query.scope)
        self.targets: dict[str, int] | None = None  # AvailableNow: where each shard ends
        self._arriving: Arriving | None = None  # AvailableNow of a reader that is demand: more is on its way
        self._clock = clock
        self._begin, self._new_lease = positions.parse_start(query.starting, self.source)
        self._latest = self._new_lease.get("from") == positions.LATEST
        self._unprepared = False
        self._fired: float | None = None  # when a batch was claimed last
        self._running = False  # Spark has offsets: brokers that are found from now on are read from their beginning

    def initial(self) -> Offsets:
        """Return the offsets of a new query: always the same."""
        return self._begin

    def parse(self, given: object) -> Offsets:
        """Return the offsets that Spark hands back. Raises InvalidOption for those of another source."""
        return positions.parse(given, self.source)

    def latest(self, start: Offsets, budget: int | None, *, settle: bool = True) -> Course[Offsets]:
        """Settle up to ``start``, claim at most ``budget`` messages behind it, and return where they end.

        ``settle``: False when nobody says that Spark has committed ``start``. ``budget`` None: all that is there now.
        Waits `Query.wait_ms` when there is nothing. Raises LeaseError, Unreachable.
        """
        until = self._clock() + self.query.reach.patience
        self._running = self._running or bool(start.shards)
        self.shards.note(start.shards)
        if self._unprepared:
            yield from self._set_targets()
        while True:
            yield from self.shards.meet()
            yield from self._expect_targets()
            failure = Unreachable("no broker of the url answers", remedy="start one; see failoverTimeout")
            try:
                moved = yield from self._next(start, budget, settle)
                if moved is not None:
                    self._running = True
                    return start.moved(moved, self._firsts()).without(self.shards.gone)
            except QueueGone:
                continue  # it is forgotten: the others go on
            except Unreachable as error:
                if self._arriving is not None and self._arriving.stuck:
                    raise
                failure = error
            if self.shards.live():
                continue  # one went away in the middle: the others go on
            if self._clock() > until:
                raise failure
            yield from wait(RETRY)
            self.shards.look_at_once()

    def prepare_available_now(self) -> Course[None]:
        """From now on take only what is there at this moment."""
        if self._latest:
            self._unprepared = True  # whether a lease is new and begins here, the first offset tells
        else:
            yield from self._set_targets()

    def plan(self, start: Offsets, end: Offsets, partitions_min: int, cores: int) -> Course[list[Piece]]:
        """Return who reads what of a batch; the same batch may be planned again after a restart. Raises as `latest`."""
        wanted: list[Range] = []
        self._running = self._running or bool(start.shards)
        for key, high in end.shards.items():
            before = start.shards.get(key)
            if before == high:
                continue
            try:
                shard = yield from self.shards.need(key)
            except QueueGone:
                continue
            low = shard.ledger.begin(end.first.get(key) if before is None else before)
            shard.ledger.begin(high)
            if low < high:
                wanted.append(Range(key, low, high))
        pieces: list[Piece] = []
        for piece in split(wanted, partitions_min, cores):
            found = self.shards.all.get(piece.shard)  # None: it was deleted while another one was looked for
            if found is not None:
                where = found.subject.destination if found.subject.several else ""
                place = found.place.format()
                pieces.append(Piece(found.broker, place, found.ledger.epoch, piece.low, piece.high, where))
        return pieces

    def held(self, limit: int | None) -> Course[tuple[dict[str, int], dict[str, int]]]:
        """Claim up to ``limit`` messages of what is there; return where what is held begins and ends on each broker."""
        yield from self.shards.meet()
        return (yield from self._past_the_gone(lambda: self._held(limit)))

    def tails(self) -> Course[Offsets]:
        """Return the end of what is held on every broker that answers."""
        yield from self.shards.meet()
        tails = {broker: shard.ledger.tail for broker, shard in self.shards.all.items()}
        return Offsets(self.source, tails, self._firsts())

    def waiting(self, start: Offsets) -> Offsets | None:
        """Return where all that waits ends, as the brokers said at their last answers; None when none was asked.

        Asks nobody: it is for reports. A broker that is away keeps the end that it had.
        """
        if not self.shards.all:
            return None
        ends = {broker: shard.ledger.tail + shard.ledger.more for broker, shard in self.shards.all.items()}
        return start.moved(ends, self._firsts())

    def settle(self, end: Mapping[str, int]) -> Course[None]:
        """Settle up to ``end`` on every broker in it that is there; what is left, a later call settles."""
        yield from self.shards.meet()
        for broker, position in end.items():
            if self.shards.is_live(broker):
                with contextlib.suppress(Unreachable, QueueGone):
                    yield from self.shards.all[broker].settle(position)

    def close(self) -> None:
        """Drop all connections; the brokers keep what is held."""
        self.shards.close()

    # -- inside -------------------------------------------------------------------------------------------------------

    def _starting(self) -> Mapping[str, str]:
        """Return how a lease begins that is new. A broker that joins a query which runs has nothing to be skipped."""
        return {} if self._running and self._latest else self._new_lease

    def _firsts(self) -> dict[str, int]:
        return {broker: shard.ledger.first for broker, shard in self.shards.all.items()}

    def _held(self, limit: int | None) -> Course[tuple[dict[str, int], dict[str, int]]]:
        every = self.shards.all
        begin = self._firsts()
        most = NO_LIMIT if limit is None else limit
        moved = yield from self._claim_now(Offsets(self.source, begin), list(every.values()), most, limit is None)
        return begin, moved

    def _past_the_gone(self, begin: Callable[[], Course[T]]) -> Course[T]:
        """Return what the course of ``begin`` returns, begun again without a queue that was deleted meanwhile."""
        while True:
            try:
                return (yield from begin())
            except QueueGone:
                continue

    def _set_targets(self) -> Course[None]:
        self._unprepared = False
        yield from self.shards.meet()
        there = yield from self._past_the_gone(self._ends)
        if self.query.subject.demand:
            self._arriving = Arriving(there, self._clock())
        self.targets = _wanted(self.query, there)

    def _ends(self) -> Course[dict[str, int]]:
        """Return where what is there ends on each shard that answers."""
        ends: dict[str, int] = {}
        for shard in self.shards.live():
            yield from shard.claim(shard.ledger.tail, 0)
            ends[shard.key] = shard.ledger.tail + shard.ledger.more
        return ends

    def _gather(self, arriving: Arriving, start: Offsets, most: int) -> Course[None]:
        """Wait for a batch of what bridges bring, or until all has come; set the targets.

        The first claim was the demand that they heard of. A broker that a bridge does not reach is waited for: nobody
        knows what it has. Raises Unreachable.
        """
        begun = self._clock()
        while True:
            ends = yield from self._past_the_gone(self._ends)
            now = self._clock()
            away = self._away()
            arriving.note(ends, now, away=bool(away))
            self.targets = _wanted(self.query, ends)
            if arriving.is_all(now, self.query.arrival_ms / 1000):
                self._arriving = None
                return
            every = self.shards.all
            counts = (end - self._low(every[key], start) for key, end in self.targets.items() if key in every)
            if arriving.is_batch(sum(max(0, count) for count in counts), most, now, begun):
                return
            if away and now - begun > self.query.reach.patience:
                arriving.stuck = True
                raise Unreachable(
                    f"what the brokers of the url are to bring cannot come over {away}",
                    remedy="`entrepot bridge list` says why; demand=false takes what is here already",
                )
            yield from wait(LOOK)

    def _away(self) -> str:
        """Return what brokers told of their connectors with the last claim."""
        return ", ".join(dict.fromkeys(shard.ledger.away for shard in self.shards.live() if shard.ledger.away))

    def _expect_targets(self) -> Course[None]:
        """AvailableNow has promised to read what these shards had: wait for those that are away."""
        for key in list(self.targets or {}):
            try:
                yield from self.shards.need(key)
            except QueueGone:
                self.targets = {other: end for other, end in (self.targets or {}).items() if other != key}

    def _next(self, start: Offsets, budget: int | None, settle: bool) -> Course[dict[str, int] | None]:
        """Do as `_take`; where bridges bring what there is, wait until that is something, or all has come."""
        while True:
            arriving = self._arriving
            if arriving is not None:
                yield from self._gather(arriving, start, NO_LIMIT if budget is None else budget)
            moved = yield from self._take(start, budget, settle)
            if self._arriving is None or moved is None or self._any(start, moved):
                return moved
            self._arriving.note_vain()

    def _take(self, start: Offsets, budget: int | None, settle: bool) -> Course[dict[str, int] | None]:
        """Return how far each shard was claimed, None when none of them is there."""
        live = self.shards.live()
        if self.targets is not None:
            live = [shard for shard in live if shard.key in self.targets]
            if not live and not self.targets:
                return {}
        for shard in live:
            position = start.shards.get(shard.key)
            shard.ledger.begin(position)
            if settle and position is not None:
                yield from shard.settle(position)
        if not live:
            return (yield from self._nothing())
        everything = budget is None
        most = NO_LIMIT if budget is None else budget
        if not everything and not (yield from self._is_enough(start, live, most)):
            return {}
        moved = yield from self._claim_now(start, live, most, everything)
        if not self._any(start, moved) and (yield from self._await(start, live, most)):
            moved = yield from self._claim_now(start, live, most, everything)
        if self._any(start, moved):
            self._fired = self._clock()
        return moved

    def _nothing(self) -> Course[dict[str, int] | None]:
        """No shard is there: it is no failure where brokers answer that have no queue of the query yet."""
        if self.query.scope is None or self.targets is not None or not self.shards.are_met():
            return None
        yield from wait(self.query.wait_ms / 1000)
        return {}

    def _is_enough(self, start: Offsets, live: list[Shard], budget: int) -> Course[bool]:
        """Wait `Query.wait_ms` for as many messages as a batch is to have; return whether there is one to be made.

        What was claimed before, by a run that Spark did not commit, is the next batch as it is; nobody waits then. So
        is what AvailableNow still has to read, and the first batch of a run.
        """
        least = min(self.query.least, budget)
        fired = self._fired
        if least <= 1 or fired is None or self.targets is not None:
            return True
        due = fired + self.query.delay_ms / 1000
        until = self._clock() + self.query.wait_ms / 1000
        while True:
            there = 0
            for shard in live:
                low = self._low(shard, start)
                if shard.ledger.tail > low:
                    return True
                yield from shard.claim(low, 0)
                there += shard.ledger.more
            now = self._clock()
            if there >= least or now >= due:
                return True
            if now >= until:
                return False
            yield from wait(min(until - now, due - now, LOOK))

    def _any(self, start: Offsets, moved: Mapping[str, int]) -> bool:
        return any(end > self._low(self.shards.all[key], start) for key, end in moved.items())

    def _low(self, shard: Shard, start: Offsets) -> int:
        return shard.ledger.begin(start.shards.get(shard.key))

    def _limit(self, shard: Shard, low: int, wanted: int) -> int:
        """Return how many messages may be taken behind ``low``."""
        if self.targets is not None:
            wanted = min(wanted, self.targets[shard.key] - low)
        return max(0, min(wanted, self._end(shard) - low))

    def _end(self, shard: Shard) -> int:
        """Return the position at which the query ends on ``shard``."""
        ends = self.query.ends
        return NO_END if ends is None else ends.get(shard.broker, 0)

    def _claim_now(self, start: Offsets, live: list[Shard], budget: int, everything: bool) -> Course[dict[str, int]]:
        """Claim without waiting, each shard its share; what one has no use for is offered to the others.

        ``everything``: but nothing that comes while we claim, or a busy producer would keep us here for ever.
        """
        ends = {shard.key: self._low(shard, start) for shard in live}
        ceilings: dict[str, int] = {}
        hungry = {shard.key: shard for shard in live}
        left = budget
        octets = _Octets(0 if everything else self.query.octets)  # a batch without a limit has none of octets either
        first = True  # what a claim that waited has brought is asked for in any case
        while hungry and left > 0 and (first or not octets.are_spent()):
            first = False
            each = octets.share(len(hungry))
            for key, share in shares(left, list(hungry)).items():
                shard = hungry[key]
                low = ends[key]
                wanted = min(self._limit(shard, low, share), ceilings.get(key, NO_LIMIT) - low)
                if wanted > 0:
                    ends[key] = yield from shard.claim(low, wanted, octets.most(each))
                    octets.spend(shard, moved=ends[key] > low)
                left -= ends[key] - low
                if everything:
                    ceilings.setdefault(key, shard.ledger.tail + shard.ledger.more)
                at_end = ends[key] == shard.ledger.tail and not shard.ledger.more
                if ends[key] == low or at_end:
                    del hungry[key]
        return ends

    def _await(self, start: Offsets, live: list[Shard], budget: int) -> Course[bool]:
        """Wait at all brokers until one has something, or the time is over; return whether one has."""
        wait_ms = self.query.wait_ms
        live = [shard for shard in live if self._limit(shard, self._low(shard, start), 1)]
        if self.targets is not None:
            wait_ms = SELECTOR_WAIT_MS if self.query.subject.is_picky() else 0
        elif not live:  # it is at its end, and goes on: Spark asks again at once
            yield from wait(wait_ms / 1000)
        if not wait_ms or not live:
            return False
        until = self._clock() + wait_ms / 1000
        each = shares(budget, [shard.key for shard in live])
        octets = _Octets(self.query.octets)
        for shard in live:
            low = self._low(shard, start)
            most = self._limit(shard, low, each[shard.key])
            if most > 0:
                yield from shard.begin_claim(low, most, wait_ms, octets.share(len(live)))
        while True:
            ready = yield from _answered(live)
            if any(shard.ledger.tail > self._low(shard, start) for shard in ready):
                return True
            left = until - self._clock()
            if left <= 0 or len(ready) == len(live):
                return False
            yield from wait(left, [shard.line for shard in live if shard.live])


def _wanted(query: Query, there: dict[str, int]) -> dict[str, int]:
    """Return up to where what is there is wanted; of brokers that the query does not name nothing is."""
    ends = query.ends
    if ends is None:
        return there
    return {broker: min(end, ends[broker]) for broker, end in there.items() if broker in ends}


class _Octets:
    """How many octets a batch may still have."""

    def __init__(self, most: int) -> None:
        """``most``: 0 for any number."""
        self._limited = most > 0
        self._left = most

    def are_spent(self) -> bool:
        """Return whether it is full."""
        return self._limited and self._left <= 0

    def share(self, hungry: int) -> int | None:
        """Return how many of them one of so many shards may claim; None: any number."""
        return -(-max(self._left, 0) // hungry) if self._limited else None

    def most(self, share: int | None) -> int | None:
        """Return how much of its share a shard may still claim."""
        return None if share is None else min(share, max(self._left, 0))

    def spend(self, shard: Shard, *, moved: bool) -> None:
        """``shard`` was asked, and its range reaches further if it ``moved``.

        What was there already is the batch, as large as it is: a run that Spark did not commit claimed it, or the
        answer was lost. To add to it, each time that a run fails, would make batches that no memory holds.
        """
        brought = shard.ledger.take_octets()
        self._left = 0 if moved and not brought else self._left - brought


def _answered(live: list[Shard]) -> Course[list[Shard]]:
    """Return the shards whose claim is answered. All are looked at: an answer may have come before we look."""
    ready: list[Shard] = []
    for shard in live:
        if shard.live and (yield from shard.claimed()):
            ready.append(shard)
    return ready
