"""Which clients should move, and where to: spread within a zone, guests sent home. Decides; moves nobody.

Every broker decides for its own clients alone, from the same table (`census.py`), by arithmetic in which all agree: the
even share of each broker, who has how many too many, who too few, and which surplus fills which gap. So nobody asks
anybody, and no client is moved by two. Only what is beyond the share moves, never more.

Against storms, and each bound is a number below: an imbalance must last before anything moves; brokers that have just
come are not believed yet; moves go in waves, and the next wave waits for the end of the last one and for the figures
that tell of it; a small unevenness of many clients is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from entrepot.base.environment import MILLISECOND, SECOND, Instant
from entrepot.cluster.census import UNKNOWN, Facts

PATIENCE: Final = 2 * SECOND  # how long an imbalance lasts, and nobody comes or goes, before it counts
MOTION: Final = 10 * SECOND  # how long clients that come, go or are between two brokers put a decision off
PAUSE: Final = 600 * MILLISECOND  # between two waves: three times what the others' figures need to arrive
WAVE: Final = 16  # clients that are on their way at once
HOMESICK: Final = 5 * SECOND  # how long a home must be there before guests go back
TOLERANCE: Final = 20  # a surplus below a share's twentieth stays: half of what was promised (10 % of even)


class Client(Struct, frozen=True):
    """One client that could be told to go. ``cost``: what moving it disturbs, any order will do; small moves first."""

    key: int
    zone: str = ""  # where it belongs, "" for here
    movable: bool = True
    cost: int = 0


class Move(Struct, frozen=True):
    """The client ``key`` should go to the broker ``to``."""

    key: int
    to: Facts
    homeward: bool = False


def shares(loads: Mapping[str, int]) -> dict[str, int]:
    """Return the even share of each; what cannot be divided stays with those that have the most."""
    share, rest = divmod(sum(loads.values()), len(loads))
    ranked = sorted(loads, key=lambda key: (-loads[key], key))
    return {key: share + (1 if at < rest else 0) for at, key in enumerate(ranked)}


def transfers(loads: Mapping[str, int], wanted: Mapping[str, int]) -> list[tuple[str, str, int]]:
    """Return who gives how many to whom, so that ``loads`` become ``wanted``: the fewest moves that do."""
    gaps = {key: wanted[key] - loads[key] for key in sorted(loads) if loads[key] < wanted[key]}
    found: list[tuple[str, str, int]] = []
    for giver in sorted(loads):
        surplus = loads[giver] - wanted[giver]
        for taker, gap in gaps.items():
            count = min(surplus, gap)
            if count > 0:
                found.append((giver, taker, count))
                gaps[taker] = gap - count
                surplus -= count
    return found


class Balance:
    """The decisions of one broker over time. Call `look` often; it answers when something is to be done."""

    def __init__(self) -> None:
        self._uneven_since: Instant | None = None
        self._total = 0  # of the zone's clients when it was looked at last
        self._still_since: Instant = 0  # since when that did not change, or not to be waited for any longer
        self._not_before: Instant = 0
        self._under_way = False
        self._members: tuple[str, ...] = ()
        self._homes: dict[str, Instant] = {}  # zone -> since when it has a broker
        self._guesses: dict[str, int] = {}  # clients of those that do not tell

    def look(
        self,
        here: Facts,
        settled: Sequence[Facts],
        clients: Callable[[], Sequence[Client]],
        *,
        count: int,
        guests: bool,
        leaving: int,
        now: Instant,
        rebalance: bool = True,
    ) -> list[Move]:
        """Return who should begin to move.

        ``settled``: other brokers that are believed. ``count``: failover clients here that are not ``leaving``, and
        ``clients`` lists them: asked only if somebody is to move, for there may be thousands. ``guests``: whether some
        belong elsewhere.
        """
        self._note(here, settled, now)
        if leaving:
            self._under_way = True
            return []
        if self._under_way:  # those who left are between two brokers: no figure tells of them
            self._under_way = False
            self._uneven_since = None
            self._not_before = now + PAUSE
        if now < self._not_before:
            return []
        moves = self._home(here, settled, clients, now) if guests else []
        if not moves and rebalance:
            moves = self._level(here, settled, clients, count, now)
        return moves[:WAVE]

    def _note(self, here: Facts, settled: Sequence[Facts], now: Instant) -> None:
        members = tuple(one.id for one in settled)
        if members != self._members:
            self._members = members
            self._uneven_since = None
        zones = dict.fromkeys(one.zone for one in [here, *settled])
        self._homes = {zone: self._homes.get(zone, now) for zone in zones}
        known = dict.fromkeys(members)
        self._guesses = {key: guess for key, guess in self._guesses.items() if key in known}

    # -- home ----------------------------------------------------------------------------------------------------------

    def _home(
        self, here: Facts, settled: Sequence[Facts], clients: Callable[[], Sequence[Client]], now: Instant
    ) -> list[Move]:
        if all(zone == here.zone or now - since < HOMESICK for zone, since in self._homes.items()):
            return []
        loads = {one.id: self._load(one) for one in settled}
        moves: list[Move] = []
        for client in _cheapest(clients()):
            if client.zone in ("", here.zone) or now - self._homes.get(client.zone, now) < HOMESICK:
                continue
            doors = [one for one in settled if one.zone == client.zone]
            if doors:
                to = min(doors, key=lambda one: (loads[one.id], one.id))
                loads[to.id] += 1
                moves.append(Move(client.key, to, homeward=True))
        return moves

    # -- within the zone -----------------------------------------------------------------------------------------------

    def _level(
        self,
        here: Facts,
        settled: Sequence[Facts],
        clients: Callable[[], Sequence[Client]],
        count: int,
        now: Instant,
    ) -> list[Move]:
        peers = {one.id: one for one in settled if one.zone == here.zone}
        loads = {here.id: count, **{key: self._load(one) for key, one in peers.items()}}
        wanted = shares(loads)
        share = sum(loads.values()) // len(loads)
        if count <= wanted[here.id] + share // TOLERANCE:
            self._uneven_since = None
            self._assume(peers, wanted, loads)
            return []
        if self._uneven_since is None:
            self._uneven_since = self._still_since = now
        if sum(loads.values()) != self._total and now - self._uneven_since < MOTION:
            self._still_since = now
        self._total = sum(loads.values())
        if now - self._still_since < PATIENCE:
            return []
        gifts = [(peers[taker], given) for giver, taker, given in transfers(loads, wanted) if giver == here.id]
        moves = [Move(client.key, to) for client, to in zip(_cheapest(clients()), _in_turn(gifts), strict=False)]
        self._promise(moves)
        return moves

    def _load(self, one: Facts) -> int:
        return one.clients if one.clients != UNKNOWN else self._guesses.get(one.id, 0)

    def _promise(self, moves: Sequence[Move]) -> None:
        for move in moves[:WAVE]:
            if move.to.clients == UNKNOWN:
                self._guesses[move.to.id] = self._guesses.get(move.to.id, 0) + 1

    def _assume(self, peers: Mapping[str, Facts], wanted: Mapping[str, int], loads: Mapping[str, int]) -> None:
        """Nothing is left to give: who does not tell has got his share, from others too."""
        for key, one in peers.items():
            if one.clients == UNKNOWN and loads[key] and wanted[key] > loads[key]:
                self._guesses[key] = wanted[key]


def _cheapest(clients: Iterable[Client]) -> list[Client]:
    """Return those that may move, the cheapest first; of equal ones the youngest: it has grown the least roots."""
    return sorted((one for one in clients if one.movable), key=lambda one: (one.cost, -one.key))


def _in_turn(gifts: Sequence[tuple[Facts, int]]) -> list[Facts]:
    """Return the takers, one after the other as often as each takes: a wave serves all of them."""
    most = max((count for _, count in gifts), default=0)
    return [to for turn in range(most) for to, count in gifts if turn < count]
