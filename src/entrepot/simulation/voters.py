"""Voters and the wires to them, simulated: delays, cuts in one direction, restarts, disks that lose what they had.

A voter here is `ha/voter.py` on a disk with two places that are written one after the other, as `io/votes.py` does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from entrepot.base.environment import MICROSECOND, MILLISECOND, SECOND, Duration, Instant
from entrepot.ha.voter import Voter
from entrepot.ha.votes import Answer, Kind, Request, State, Verdict
from entrepot.simulation.world import World


class VoterHost:
    """A machine with a voter. ``planted``: a bug of `quorum_bugs.py` that it has."""

    def __init__(self, world: World, address: str, planted: str = "") -> None:
        self.world: Final = world
        self.address: Final = address
        self.planted: Final = planted
        self.lots = world.lots(address)
        self.life = 0
        self.up = True
        self.stores = 0
        self.places: list[State] = []
        self.ended: dict[str, bool] = {}  # instances whose connection their own kernel has closed
        self._waiting: list[tuple[Request, Callable[[Answer], None]]] = []
        self._busy = False
        self.voter = self._new()

    def _new(self) -> Voter:
        self.stores += 1
        state = State(f"{self.address}/{self.stores}")
        self.places = [state, state]
        self._before = state
        return Voter(state)

    def take(self, request: Request, answer: Callable[[Answer], None]) -> None:
        """Answer ``request`` when everything before it is answered, and what it changes is kept."""
        self._waiting.append((request, answer))
        if not self._busy:
            self._next()

    def _next(self) -> None:
        self._busy = bool(self._waiting)
        if self._waiting:
            request, answer = self._waiting.pop(0)
            self._later(self.lots.skewed(10 * MICROSECOND, MILLISECOND), lambda: self._weigh(request, answer))

    def _later(self, delay: Duration, action: Callable[[], None]) -> None:
        """Do ``action``, unless this process has ended by then."""
        life = self.life

        def act() -> None:
            if life == self.life:
                action()

        self.world.later(delay, act)

    def _weigh(self, request: Request, answer: Callable[[Answer], None]) -> None:
        weighed = self.voter.weigh(request)
        said = weighed.answer._replace(gone=bool(request.about) and request.about in self.ended)
        state = weighed.state
        forgets = (self.planted == "promise is not kept" and request.kind is Kind.PREPARE) or (
            self.planted == "value is not kept" and request.kind is Kind.ACCEPT
        )
        careless = self.planted == "any ballot is accepted" and request.kind is Kind.ACCEPT
        if careless and said.verdict is Verdict.OUTBID:
            state = self.voter.state._replace(accepted=request.ballot, value=request.value)
            said = said._replace(verdict=Verdict.YES)
        if state is None or forgets:
            if state is not None:
                self.voter.settle(state)
            answer(said)
            self._next()
        else:
            self._keep(state, lambda: answer(said))

    def _keep(self, state: State, answer: Callable[[], None]) -> None:
        """Write it to one place, then to the other; then it counts."""

        def one() -> None:
            self.places[0] = state
            self._later(self.lots.skewed(20 * MICROSECOND, 5 * MILLISECOND), two)

        def two() -> None:
            self._before = self.voter.state
            self.places[1] = state
            self.voter.settle(state)
            answer()
            self._next()

        self._later(self.lots.skewed(20 * MICROSECOND, 5 * MILLISECOND), one)

    def crash(self, length: Duration, *, loses: str = "") -> None:
        """End it at any moment and start it again. ``loses``: "write", the last one, though it was synced; "store"."""
        if not self.up:
            return
        self.life += 1
        self.up = False
        self.ended.clear()
        self.world.count("voters that crash")
        if loses == "write" and self.planted == "a lost write takes both places":
            self.places = [self._before, self._before]
        elif loses == "write":
            self.places[1 if self.places[0] == self.places[1] else 0] = State("", None)
        elif loses == "store":
            self.world.count("stores that are lost")
            if self.planted == "a lost store votes":
                old = self.voter.state
                self.places = [State(old.store, old.roster)] * 2
            else:
                self._new()
        self.world.later(length, self._start)

    def _start(self) -> None:
        """Come back with what is on the disk."""
        self.up = True
        self._waiting, self._busy = [], False
        state = self.newest
        self.places = [state, state]
        self.voter = Voter(state)

    @property
    def newest(self) -> State:
        """Return the newer of the two places that can be read."""
        readable = [state for state in self.places if state.store]
        return max(readable, key=lambda each: (each.roster or (0, ()), each.promised, each.accepted))


class Wires:
    """Between everybody and every voter; in order within one connection. ``trouble``: messages get lost at times."""

    def __init__(self, world: World, hosts: list[VoterHost]) -> None:
        self.world: Final = world
        self.hosts: Final = {host.address: host for host in hosts}
        self.lots = world.lots("wires")
        self.trouble = True
        self.cut: dict[tuple[str, str], bool] = {}  # from, to
        self._last: dict[tuple[str, str, str], Instant] = {}

    def ask(self, who: str, connection: str, address: str, request: Request, answer: Callable[[Answer], None]) -> None:
        """Carry ``request`` there and the answer back; nothing comes where something is lost."""
        self._carry(who, connection, address, lambda: self._arrive(who, connection, address, request, answer))

    def _arrive(
        self, who: str, connection: str, address: str, request: Request, answer: Callable[[Answer], None]
    ) -> None:
        host = self.hosts[address]
        if host.up:
            host.take(request, lambda said: self._carry(address, connection, who, lambda: answer(said)))

    def _carry(self, sender: str, connection: str, receiver: str, action: Callable[[], None]) -> None:
        if (sender, receiver) in self.cut or (self.trouble and self.lots.chance(0.01)):
            self.world.count("messages that are lost")
            return
        slow = self.trouble and self.lots.chance(0.05)
        at = self.world.time + self.lots.skewed(50 * MICROSECOND, SECOND if slow else 10 * MILLISECOND)
        way = (sender, receiver, connection)
        at = max(at, self._last.get(way, 0))
        self._last[way] = at
        self.world.later(at - self.world.time, action)

    def end(self, who: str, instance: str) -> None:
        """The process ``instance`` has ended: the kernel of its machine says so to whom it reaches."""
        for address, host in self.hosts.items():
            if (who, address) not in self.cut and host.up and self.lots.chance(0.7):
                self.world.later(self.lots.skewed(100 * MICROSECOND, 20 * MILLISECOND), _ends(host, instance))

    def calm(self) -> None:
        """Everything gets through from now on."""
        self.trouble = False
        self.cut.clear()


def _ends(host: VoterHost, instance: str) -> Callable[[], None]:
    life = host.life

    def end() -> None:
        if life == host.life:
            host.ended[instance] = True

    return end
