"""Which peer next: the whole life of a connection that survives its peers; for clients and for links.

Decides whom to dial, when, what to keep in reserve and when to move; never dials, reads or sleeps. Each method takes
what happened and returns effects; whoever performs them reports back with `opened`, `failed` or `addresses`, and calls
`advance` when `deadline` has come. What a new peer must be told again is not decided here (see the protocol's client).

Every transport, dialled or open, has a number (``attempt``). At most one is ``current``; the others are the one dialled
in an outage, the reserves, and a successor. A move (rebalance, ``reconnectTo``, return to a priority peer) dials the
successor first and leaves the current peer only when that answered: ActiveMQ drops first, and is alone if it fails.

Options and their defaults are ActiveMQ's (classic.md 2.1, 2.2, 2.4).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Final

from msgspec import Struct

from entrepot.base.environment import SECOND, Entropy, Instant
from entrepot.base.errors import Fault
from entrepot.base.settings import UNLIMITED
from entrepot.base.uri import Composite, Endpoint
from entrepot.protocols.peers import Backoff, FailoverOptions, Peers, key, leaves
from entrepot.protocols.session import NEVER

HOMESICK: Final = 5 * SECOND  # how long a broker of the own zone must be there before a client goes home
MOVE_PATIENCE: Final = 2 * SECOND  # for requests and transactions to end before a planned move
SHORT_LIFE: Final = 5 * SECOND  # ActiveMQ's minConnectTime: what ends sooner, again and again, is no connection


class State(Enum):
    """Where the connection is."""

    IDLE = "idle"  # `start` was not called
    READING = "reading"  # waits for the list of `FailoverOptions.update_uris_url`
    DIALLING = "dialling"
    WAITING = "waiting"  # the next round is due at `deadline`, or when a peer is found
    CONNECTED = "connected"
    FAILED = "failed"
    CLOSED = "closed"


class Signal(Enum):
    """What moves it."""

    READ = "a list must be read first"
    DIAL = "a round begins"
    OPENED = "a peer answered"
    WAIT = "a round failed, or the peer was lost"
    FAIL = "no attempt is left"
    CLOSE = "the owner is done"


TRANSITIONS: Final[Mapping[tuple[State, Signal], State]] = {
    (State.IDLE, Signal.READ): State.READING,
    (State.IDLE, Signal.DIAL): State.DIALLING,
    (State.IDLE, Signal.WAIT): State.WAITING,  # nobody is known yet
    (State.IDLE, Signal.CLOSE): State.CLOSED,
    (State.READING, Signal.DIAL): State.DIALLING,
    (State.READING, Signal.WAIT): State.WAITING,
    (State.READING, Signal.CLOSE): State.CLOSED,
    (State.DIALLING, Signal.OPENED): State.CONNECTED,
    (State.DIALLING, Signal.WAIT): State.WAITING,
    (State.DIALLING, Signal.FAIL): State.FAILED,
    (State.DIALLING, Signal.CLOSE): State.CLOSED,
    (State.WAITING, Signal.READ): State.READING,
    (State.WAITING, Signal.DIAL): State.DIALLING,
    (State.WAITING, Signal.WAIT): State.WAITING,
    (State.WAITING, Signal.CLOSE): State.CLOSED,
    (State.CONNECTED, Signal.OPENED): State.CONNECTED,  # a reserve or a successor takes over
    (State.CONNECTED, Signal.WAIT): State.WAITING,
    (State.CONNECTED, Signal.FAIL): State.FAILED,
    (State.CONNECTED, Signal.CLOSE): State.CLOSED,
    (State.FAILED, Signal.CLOSE): State.CLOSED,
}


# -- effects -----------------------------------------------------------------------------------------------------------


class Dial(Struct, frozen=True):
    """Open a transport to ``place`` and agree on the wire format; then report `opened` or `failed`."""

    attempt: int
    place: Endpoint


class Use(Struct, frozen=True):
    """The transport ``attempt`` is the connection from now on: introduce yourself, tell again what was."""

    attempt: int
    place: Endpoint
    first: bool  # of this connection's life


class Drop(Struct, frozen=True):
    """Close the transport ``attempt``, open or not; what is reported about it afterwards is ignored."""

    attempt: int


class Interrupted(Struct, frozen=True):
    """The peer was lost, or is being left for another (``planned``)."""

    why: str
    planned: bool = False


class Updated(Struct, frozen=True):
    """These peers are known now, in the order of preference."""

    places: tuple[Endpoint, ...]


class ReadAddresses(Struct, frozen=True):
    """Read the text at ``url`` and report it with `addresses`."""

    url: str


class Warn(Struct, frozen=True):
    """Tell the operator that the outage lasts."""

    rounds: int
    why: str


class GiveUp(Struct, frozen=True):
    """No more attempts: the connection has failed for good."""

    why: str


Effect = Dial | Use | Drop | Interrupted | Updated | ReadAddresses | Warn | GiveUp


class _Role(Enum):
    MAIN = "main"  # dialled in an outage
    RESERVE = "reserve"
    SUCCESSOR = "successor"  # to move to
    CURRENT = "current"


class _Transport:
    def __init__(self, place: Endpoint, role: _Role) -> None:
        self.place = place
        self.role = role
        self.open = role is _Role.CURRENT


class _Transports(dict[int, _Transport]):
    """Those that are dialled or open, by the number of their attempt."""

    def __init__(self) -> None:
        super().__init__()
        self.attempts = 0

    def dial(self, place: Endpoint, role: _Role) -> Effect:
        """Begin one."""
        self.attempts += 1
        self[self.attempts] = _Transport(place, role)
        return Dial(self.attempts, place)

    def drop(self, role: _Role) -> list[Effect]:
        """Let go of those of ``role``."""
        dropped = [attempt for attempt, transport in self.items() if transport.role is role]
        for attempt in dropped:
            del self[attempt]
        return [Drop(attempt) for attempt in dropped]

    def place_of(self, attempt: int) -> Endpoint | None:
        """Return where ``attempt`` leads, None when there is none."""
        transport = self.get(attempt)
        return None if transport is None else transport.place


class FailoverCore:
    """One connection's peers. ``current`` is the attempt in use, 0 for none; ``rounds`` failed in this outage."""

    def __init__(
        self,
        places: Iterable[Endpoint],
        options: FailoverOptions,
        entropy: Entropy,
        is_busy: Callable[[], bool] = lambda: False,
    ) -> None:
        """``places``: as configured, nested options applied. Raises InvalidURI for ``priorityURIs`` that are none.

        ``is_busy``: whether to leave the peer now would repeat or undo something.
        """
        self.options: Final = options
        self.state = State.IDLE
        self.current = 0
        self.rounds = 0
        self.ever_connected = False
        self.peers: Final = Peers(places, options, entropy)
        self._entropy = entropy
        self._transports: Final = _Transports()
        self._round: list[Endpoint] = []
        self._successors: list[Endpoint] = []
        self._why = "no peer is known"
        self._backoff: Final = Backoff(options)
        self._due: Instant = NEVER
        self._reserve_backoff: Final = Backoff(options)
        self._reserve_due: Instant = NEVER
        self._used_at: Instant = 0
        self._home_due: Instant = NEVER  # when to go home, if the reserve there still stands
        self._home = 0
        self._short_lives = 0  # connections in a row that ended soon: a peer that accepts, and then turns us away
        self._unanswered: dict[tuple[str, int, str], None] = {}  # no reserve to be had there, this time round
        self._is_busy: Final = is_busy
        self._moving: tuple[int, str] | None = None  # to which attempt, and why, when it is quiet
        self._moving_due: Instant = NEVER  # or then

    # -- what happens --------------------------------------------------------------------------------------------------

    def start(self, now: Instant) -> list[Effect]:
        """Begin with the first round."""
        return self._begin_round(now)

    def opened(self, attempt: int, now: Instant) -> list[Effect]:
        """A dialled transport answers and both sides agree on the format."""
        transport = self._transports.get(attempt)
        if transport is None or transport.open:
            return [Drop(attempt)] if transport is None else []
        transport.open = True
        if transport.role is _Role.MAIN:
            return self._use(attempt, now)
        if transport.role is _Role.SUCCESSOR:
            return self._move(attempt, "a better place was found", now)
        if (
            self.options.priority_backup
            and self.peers.preferred(transport.place)
            and not self.peers.is_preferred(self._here())
        ):
            return self._move(attempt, "a priority peer is back", now)
        if self.peers.is_away(self._here()) and self.peers.near(transport.place) and self._home_due == NEVER:
            # not all at once, and not to a peer that falls again
            self._home, self._home_due = attempt, now + int(HOMESICK * (1 + self._entropy.fraction()))
        return self._fill_reserves(now)

    def failed(self, attempt: int, why: str, now: Instant) -> list[Effect]:
        """A transport could not be opened, or was lost."""
        transport = self._transports.pop(attempt, None)
        if transport is None or self.state in (State.FAILED, State.CLOSED):
            return []
        if attempt == self.current:
            return self._lost(transport.place, why, now)
        self._why = why
        if transport.role is _Role.MAIN:
            return self._dial_next(now)
        if transport.role is _Role.SUCCESSOR:
            return self._try_successor(now)
        self._unanswered[key(transport.place)] = None
        return self._fill_reserves(now)

    def addresses(self, text: str | None, now: Instant) -> list[Effect]:
        """Take what `ReadAddresses` found; None: it could not be read, and the list stays as it is."""
        effects: list[Effect] = []
        if text is not None:
            effects += self._learn(leaves(text.replace("\n", ",")), self.options.rebalance_update_uris, now)
        if self.state is State.READING:
            effects += self._dial_round(now)
        return effects

    def control(self, brokers: str, reconnect_to: str, rebalance: bool, now: Instant) -> list[Effect]:
        """Obey a broker's ConnectionControl (classic.md 2.4); URIs that are none are the broker's fault and ignored."""
        effects: list[Effect] = []
        if brokers and self.options.update_uris_supported:
            effects += self._learn(leaves(brokers), rebalance, now)
        if reconnect_to and self.options.reconnect_supported:
            places = leaves(reconnect_to)
            if places:
                self._successors = [self.peers.prefer(places[0])]
                effects += self._try_successor(now)
        return effects

    def located(self, here: str, zones: Mapping[str, str], now: Instant) -> list[Effect]:
        """Learn in which zone the peer in use is, and others are, by URI."""
        self.peers.locate(zones)
        current = self._transports.get(self.current)
        if current is not None and here:
            self.peers.zones[key(current.place)] = here
        return self._fill_reserves(now)

    def add(self, place: Endpoint, now: Instant) -> list[Effect]:
        """Discovery found a peer."""
        if not self.peers.add(place):
            return []
        if self.state is State.WAITING and self._due == NEVER:
            return self._begin_round(now)
        return self._fill_reserves(now) if self.state is State.CONNECTED else []

    def remove(self, place: Endpoint, now: Instant) -> list[Effect]:
        """Discovery lost a peer: it is not dialled any more; a connection to it lives until it breaks."""
        self.peers.remove(place)
        return []

    def deadline(self) -> Instant:
        """Return when `advance` must be called."""
        return min(self._due, self._reserve_due, self._home_due, self._moving_due)

    def quiet(self, now: Instant) -> list[Effect]:
        """What was under way has ended, perhaps: a move may have waited for that."""
        if self._moving is None or self._is_busy():
            return []
        return self._move_at_last(now)

    def advance(self, now: Instant) -> list[Effect]:
        """Do what is due."""
        effects: list[Effect] = []
        if self.state is State.WAITING and self._due <= now:
            effects += self._begin_round(now)
        if self._moving_due <= now:
            effects += self._move_at_last(now)
        if self._reserve_due <= now:
            self._reserve_due = NEVER
            effects += self._fill_reserves(now)
        if self._home_due <= now:
            self._home_due = NEVER
            home = self._transports.get(self._home)
            if home is not None and home.open and home.role is _Role.RESERVE and self.peers.is_away(self._here()):
                effects += self._move(self._home, "its own zone is back", now)
            else:
                effects += self._fill_reserves(now)
        return effects

    def close(self, now: Instant) -> list[Effect]:
        """End it: every transport but the current one, which the owner ends in its own way, is to be dropped."""
        if self.state is State.CLOSED:
            return []
        dropped: list[Effect] = [Drop(attempt) for attempt in self._transports if attempt != self.current]
        self._become(Signal.CLOSE)
        self._transports.clear()
        return dropped

    # -- rounds --------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise Fault if an invariant does not hold."""
        main = [t for t in self._transports.values() if t.role is _Role.MAIN]
        if (self.state is State.DIALLING) != (len(main) == 1) or (self.state is State.CONNECTED) != (self.current != 0):
            raise Fault(f"failover: {len(main)} transports are dialled and {self.current} is used while {self.state}")
        if self.state is State.WAITING and self._due == NEVER and self.peers.in_order():
            raise Fault("failover: nobody will ever be dialled")

    def _begin_round(self, now: Instant) -> list[Effect]:
        self._due = NEVER
        if self.options.update_uris_url:
            self._become(Signal.READ)
            return [ReadAddresses(self.options.update_uris_url)]
        return self._dial_round(now)

    def _dial_round(self, now: Instant) -> list[Effect]:
        self._round = self.peers.in_order()
        if not self._round:
            self._become(Signal.WAIT)
            self._due = NEVER if not self.options.update_uris_url else now + self._backoff.take()
            return []
        self._become(Signal.DIAL)
        return self._dial_next(now)

    def _dial_next(self, now: Instant) -> list[Effect]:
        if self._round:
            return [self._transports.dial(self._round.pop(0), _Role.MAIN)]
        self.rounds += 1
        limit = rounds_max(self.options, self.ever_connected)
        if limit != UNLIMITED and self.rounds >= limit:
            return self._give_up(self._why)
        effects: list[Effect] = []
        period = self.options.warn_after_reconnect_attempts
        if period > 0 and self.rounds % period == 0:
            effects.append(Warn(self.rounds, self._why))
        self._become(Signal.WAIT)
        self._due = now + self._backoff.take()
        return effects

    def _use(self, attempt: int, now: Instant) -> list[Effect]:
        transport = self._transports[attempt]
        transport.role = _Role.CURRENT
        first = not self.ever_connected
        self._become(Signal.OPENED)
        self.current = attempt
        self.ever_connected = True
        self.rounds = 0
        self.peers.failed = None
        self._used_at = now
        return [Use(attempt, transport.place, first), *self._fill_reserves(now)]

    def _lost(self, place: Endpoint, why: str, now: Instant) -> list[Effect]:
        self.current = 0
        self.peers.failed = place
        self._unanswered = {key(place): None}
        self._why = why
        self.rounds = 0
        self._short_lives = self._short_lives + 1 if now - self._used_at < SHORT_LIFE else 0
        if self._short_lives <= 1:
            self._backoff.reset()
            self._reserve_backoff.reset()
        else:
            self._backoff.grow()
            self._reserve_backoff.grow()
        effects: list[Effect] = self._transports.drop(_Role.SUCCESSOR)
        if rounds_max(self.options, self.ever_connected) == 0:
            return [*effects, *self._give_up(why)]
        effects.append(Interrupted(why))
        ready = [attempt for attempt, transport in self._transports.items() if transport.open]
        ready.sort(key=lambda attempt: not self.peers.preferred(self._transports[attempt].place))
        if self.options.zone:
            ready.sort(key=lambda attempt: self.peers.distance(self._transports[attempt].place))
            near = [known for known in self.peers.in_order() if self.peers.near(known) and key(known) != key(place)]
            if ready and near and not self.peers.near(self._transports[ready[0]].place):
                ready = []  # a reserve elsewhere is used only when nobody at home answers
        if ready:
            return [*effects, *self._use(ready[0], now)]
        for attempt in [attempt for attempt, each in self._transports.items() if not each.open]:
            del self._transports[attempt]  # a reserve that does not answer yet will be dialled in its turn
            effects.append(Drop(attempt))
        self._become(Signal.WAIT)
        self._due = now + self._backoff.delay
        return effects

    def _give_up(self, why: str) -> list[Effect]:
        self._become(Signal.FAIL)
        effects: list[Effect] = [Drop(attempt) for attempt in self._transports]
        self._transports.clear()
        self._due = self._reserve_due = NEVER
        return [*effects, GiveUp(why)]

    # -- moves and reserves --------------------------------------------------------------------------------------------

    def _learn(self, places: list[Endpoint], rebalance: bool, now: Instant) -> list[Effect]:
        """Take a list of peers."""
        if not self.peers.update(places):
            return []
        effects: list[Effect] = [Updated(tuple(self.peers.updated))]
        if self.state is not State.CONNECTED:
            return effects
        if rebalance and not (self.options.priority_backup and self.peers.is_preferred(self._here())):
            here = self._transports[self.current].place
            self._successors = [
                one for one in self.peers.in_order() if self.peers.near(one) or not self.peers.near(here)
            ]
            effects += self._try_successor(now)
        return [*effects, *self._fill_reserves(now)]

    def _try_successor(self, now: Instant) -> list[Effect]:
        """Dial the next candidate; reaching where we are already ends the search."""
        effects = self._transports.drop(_Role.SUCCESSOR)
        if self.state is not State.CONNECTED or not self._successors:
            return effects
        place = self._successors.pop(0)
        here = self._transports[self.current].place
        if key(place) == key(here):
            self._successors = []
            return effects
        for attempt, transport in self._transports.items():
            if transport.open and transport.role is _Role.RESERVE and key(transport.place) == key(place):
                return [*effects, *self._move(attempt, "a better place was found", now)]
        return [*effects, self._transports.dial(place, _Role.SUCCESSOR)]

    def _move(self, attempt: int, why: str, now: Instant) -> list[Effect]:
        """Move to ``attempt``, which is open: at a quiet moment, but not later than `MOVE_PATIENCE`."""
        if self._is_busy():
            self._moving = (attempt, why)
            self._moving_due = min(self._moving_due, now + MOVE_PATIENCE)
            return []
        return self._leave_for(attempt, why, now)

    def _move_at_last(self, now: Instant) -> list[Effect]:
        moving, self._moving, self._moving_due = self._moving, None, NEVER
        if moving is None or self.state is not State.CONNECTED:
            return []
        transport = self._transports.get(moving[0])
        if transport is None or not transport.open or moving[0] == self.current:
            return []
        return self._leave_for(moving[0], moving[1], now)

    def _leave_for(self, attempt: int, why: str, now: Instant) -> list[Effect]:
        left = self.current
        self._transports.pop(left, None)
        self._successors = []
        return [Interrupted(why, planned=True), Drop(left), *self._use(attempt, now)]

    def _fill_reserves(self, now: Instant) -> list[Effect]:
        """Dial what lacks in reserve; one at a time, since each answer calls this again."""
        if self.state is not State.CONNECTED or self._reserve_due != NEVER:
            return []
        reserves = [transport for transport in self._transports.values() if transport.role is _Role.RESERVE]
        if any(not transport.open for transport in reserves):
            return []
        candidates = self._reserve_candidates(len(reserves))
        for place in candidates:
            if key(place) not in self._unanswered:
                return [self._transports.dial(place, _Role.RESERVE)]
        self._unanswered.clear()
        if candidates:
            self._reserve_due = now + self._reserve_backoff.take()
        return []

    def _reserve_candidates(self, reserves: int) -> list[Endpoint]:
        """Return where a reserve may be, besides ``reserves`` that there are, the best first."""
        options, peers = self.options, self.peers
        taken = {key(transport.place) for transport in self._transports.values()}
        wanted = options.backup and reserves < options.backup_pool_size
        homesick = options.priority_backup and not self.peers.is_preferred(self._here())
        away = self.peers.is_away(self._here()) and self._home_due == NEVER
        candidates = [
            place
            for place in peers.in_order()
            if key(place) not in taken
            and (wanted or (homesick and peers.preferred(place)) or (away and peers.near(place)))
        ]
        candidates.sort(key=lambda place: not (options.priority_backup and peers.preferred(place)))
        if options.zone:
            candidates.sort(key=peers.distance)
        return candidates

    def _here(self) -> Endpoint | None:
        return self._transports.place_of(self.current)

    def _become(self, signal: Signal) -> None:
        following = TRANSITIONS.get((self.state, signal))
        if following is None:
            raise Fault(f"failover: {signal.value!r} cannot happen while {self.state.value}")
        self.state = following
        if following is not State.CONNECTED:
            self.current = 0
            self._reserve_due = NEVER


def rounds_max(options: FailoverOptions, ever_connected: bool) -> int:
    """Return how many rounds of attempts may fail before the connection is given up."""
    if not ever_connected and options.startup_max_reconnect_attempts != UNLIMITED:
        return options.startup_max_reconnect_attempts
    return options.max_reconnect_attempts


def plain(endpoint: Endpoint) -> Composite:
    """Return a single place as the list of one that is never dialled again."""
    return Composite("failover", (endpoint,), {"maxReconnectAttempts": "0", "updateURIsSupported": "false"})
