"""Keeps a conversation on a wire: carries out what `FailoverCore` decides, in the order in which it was decided.

Owns the wires that were dialled, one of which is in use. Must never: open a socket, set a timer. The owner, a
`LifelinePort`, dials and tells what came of it, and calls `advance` when `deadline` has come.
"""

from __future__ import annotations

from typing import Final, assert_never

from entrepot.base.environment import Instant
from entrepot.base.errors import EntrepotError, Unreachable
from entrepot.base.uri import Endpoint
from entrepot.protocols.conversing.port import Dialler, Wire, WireEvents
from entrepot.protocols.failover import (
    Dial,
    Drop,
    Effect,
    FailoverCore,
    GiveUp,
    Interrupted,
    ReadAddresses,
    Updated,
    Use,
    Warn,
)
from entrepot.protocols.session import NEVER, Shell

MOVES: Final = "this connection moves to another broker"


class LifelinePort:
    """What a lifeline asks of the world, and tells its owner."""

    def now(self) -> Instant:
        """Return the monotonic time."""
        raise NotImplementedError

    def dial(self, attempt: int, place: Endpoint) -> None:
        """Open a transport; give it the session of `LifelineCore.wire`, or report `LifelineCore.failed`."""
        raise NotImplementedError

    def hang_up(self, attempt: int, why: str) -> None:
        """Close the transport of ``attempt``, in order if it is open; nothing is reported of it any more."""
        raise NotImplementedError

    def let_go(self, attempt: int) -> None:
        """Forget the transport of ``attempt``, which is lost or did not open; close at once what is left of it."""
        raise NotImplementedError

    def read(self, url: str) -> None:
        """Read the list of brokers at ``url``, and report `LifelineCore.addresses`."""
        raise NotImplementedError

    def arm(self, due: Instant) -> None:
        """Call `LifelineCore.advance` at ``due``, and not at what was said before; NEVER for not at all."""
        raise NotImplementedError

    def interrupted(self, why: str, planned: bool) -> None:
        """The broker was lost, or is being left for another."""

    def updated(self, places: tuple[Endpoint, ...]) -> None:
        """The brokers announced these."""

    def warned(self, rounds: int, why: str) -> None:
        """The outage lasts."""

    def ended(self, error: EntrepotError) -> None:
        """No broker can be reached any more."""


class _Attempt(WireEvents):
    """Hears a wire until it is used."""

    def __init__(self, lifeline: LifelineCore, attempt: int) -> None:
        self._lifeline: Final = lifeline
        self._attempt: Final = attempt

    def opened(self) -> None:
        self._lifeline.opened(self._attempt)

    def failed(self, why: str) -> None:
        self._lifeline.failed(self._attempt, why)


class LifelineCore:
    """One connection's wires. ``place`` is the broker in use, or the last one."""

    def __init__(self, failover: FailoverCore, dialler: Dialler, port: LifelinePort) -> None:
        """``dialler`` makes the wires, and uses them one after another."""
        self.failover: Final = failover
        self.dialler: Final = dialler
        self.place: Endpoint | None = None
        self._port: Final = port
        self._dialled: dict[int, Wire | None] = {}  # attempt -> its wire, None until there is a socket
        self._queue: list[Effect] = []
        self._performing = False

    # -- what happens --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to dial."""
        self.perform(self.failover.start(self._port.now()))

    def is_wanted(self, attempt: int) -> bool:
        """Tell whether ``attempt`` is still of use: it was neither dropped nor lost."""
        return attempt in self._dialled

    def wire(self, attempt: int, place: Endpoint, shell: Shell) -> Wire:
        """Return a wire for the socket of ``attempt``, which is open. Raises InvalidOption."""
        wire = self.dialler.dial(place, shell, self._port.now(), _Attempt(self, attempt))
        if attempt in self._dialled:
            self._dialled[attempt] = wire
        return wire

    def opened(self, attempt: int) -> None:
        """A wire can be used."""
        self.perform(self.failover.opened(attempt, self._port.now()))

    def settled(self) -> None:
        """What the broker said is taken in: perhaps a quiet moment."""
        effects = self.failover.quiet(self._port.now())
        if effects:
            self.perform(effects)

    def failed(self, attempt: int, why: str) -> None:
        """A transport did not open, or is lost."""
        if attempt in self._dialled:
            del self._dialled[attempt]
            self._port.let_go(attempt)
        self.perform(self.failover.failed(attempt, why, self._port.now()))

    def lost(self, why: str) -> None:
        """The wire in use is lost."""
        self.failed(self.failover.current, why)

    def refused(self, attempt: int, error: EntrepotError) -> None:
        """What is written wrong in a URL does not get better by trying again."""
        self._dialled.pop(attempt, None)
        self._port.ended(error)

    def control(self, brokers: str, reconnect_to: str, rebalance: bool) -> None:
        """The broker says where to go."""
        self.perform(self.failover.control(brokers, reconnect_to, rebalance, self._port.now()))

    def located(self, here: str, zones: dict[str, str]) -> None:
        """The broker says in which zone it is, and others are."""
        self.perform(self.failover.located(here, zones, self._port.now()))

    def addresses(self, text: str | None) -> None:
        """A list of brokers was read; None: it could not be."""
        self.perform(self.failover.addresses(text, self._port.now()))

    def found(self, place: Endpoint) -> None:
        """Discovery found a broker."""
        self.perform(self.failover.add(place, self._port.now()))

    def vanished(self, place: Endpoint) -> None:
        """Discovery lost one."""
        self.perform(self.failover.remove(place, self._port.now()))

    def program(self) -> str:
        """Return which program the broker in use says it is; "" without one."""
        wire = self._dialled.get(self.failover.current)
        return "" if wire is None else wire.program()

    def close(self) -> None:
        """Drop all but the wire in use, which the owner ends in its own way."""
        self.perform(self.failover.close(self._port.now()))
        self._port.arm(NEVER)

    def deadline(self) -> Instant:
        """Return when `advance` must be called."""
        return self.failover.deadline()

    def advance(self) -> None:
        """Do what is due."""
        now = self._port.now()
        if self.failover.deadline() <= now:
            self.perform(self.failover.advance(now))
        else:
            self._arm()

    # -- effects -------------------------------------------------------------------------------------------------------

    def perform(self, effects: list[Effect]) -> None:
        """Do what was decided, in order; what happens meanwhile is done afterwards."""
        self._queue += effects
        if self._performing:
            return
        self._performing = True
        try:
            while self._queue:
                self._perform(self._queue.pop(0))
        finally:
            self._performing = False
        self._arm()

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Dial(attempt, place):
                self._dialled[attempt] = None
                self._port.dial(attempt, place)
            case Use(attempt, place):
                wire = self._dialled.get(attempt)
                if wire is not None:
                    self.place = place
                    wire.use()
            case Drop(attempt):
                self._drop(attempt)
            case Interrupted(why, planned):
                self._port.interrupted(why, planned)
            case Updated(places):
                self._port.updated(places)
            case ReadAddresses(url):
                self._port.read(url)
            case Warn(rounds, why):
                self._port.warned(rounds, why)
            case GiveUp(why):
                self._port.ended(Unreachable(f"no broker can be reached: {why}", remedy="is one running there?"))
            case _:
                assert_never(effect)

    def _drop(self, attempt: int) -> None:
        if attempt not in self._dialled:
            return
        wire = self._dialled.pop(attempt)
        if wire is not None:
            wire.leave(MOVES)
        self._port.hang_up(attempt, MOVES)

    def _arm(self) -> None:
        self._port.arm(self.deadline())
