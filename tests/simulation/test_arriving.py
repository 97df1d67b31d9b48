"""A reader that is demand, and a bridge that opens, closes, or stays closed: worlds from seeds.

The decisions are those of the real driver; the broker that lends and its bridge are stand-ins. What must hold: a query
that takes what is there does not end before the other side has given what it has, is an error when nobody can know, and
waits for ever for nobody. Bugs are planted in the driver, and each is found.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from entrepot.base.errors import Unreachable
from entrepot.driver import holding
from entrepot.driver.arriving import PAUSE, Arriving
from entrepot.driver.effects import Course, wait
from entrepot.driver.holding import Holding
from entrepot.driver.offsets import Offsets
from unit.driver.test_arrival import PATIENCE, QUIET, Asking

SEEDS = 80
SLACK = 1.5  # s: between two looks
ENDLESS = 4 * PATIENCE


class Waited(Exception):
    """It waited for longer than anybody would."""


class Bridged(Asking):
    """One world: ``open`` are the times, since the query began, in which the bridge is; it brings all in the last."""

    def __init__(self, seed: int) -> None:
        lots = Random(seed)
        at = 0.0
        self.open: list[tuple[float, float]] = []
        for _ in range(lots.choice((0, 1, 1, 2))):
            at += lots.choice((0.0, 0.3, 3.0, 9.0)) * lots.random()
            end = at + 0.2 + lots.random() * QUIET * 0.6  # shorter than the quiet: it has not brought all yet
            self.open.append((at, end))
            at = end + 0.1
        self.stays = lots.random() < 0.75
        self.opened = at + lots.choice((0.0, 1.0, 8.0)) * lots.random() if self.stays else ENDLESS * 2
        super().__init__(
            lambda since: not (since >= self.opened or any(low <= since < high for low, high in self.open))
        )
        self.here = lots.randrange(4)
        self.come(self.here)
        self.there = 0
        moment = self.opened
        for _ in range(lots.randrange(5) if self.stays else 0):
            moment += 0.1 + lots.random() * (QUIET - SLACK)
            count = lots.randint(1, 5)
            self.arrivals[self.began + moment] = count
            self.there += count
        self.last = moment

    def look(self) -> float:
        if self.time - self.began > ENDLESS:
            raise Waited
        return super().look()

    def trouble(self) -> str:
        """Run it; return what is wrong, "" for nothing."""
        try:
            found = self.available()
        except Unreachable:
            if self.stays and self.opened < PATIENCE - SLACK:
                return "it gave up, and the bridge was open in time"
            return "" if PATIENCE <= self.time - self.began < PATIENCE + SLACK else "it gave up too early or too late"
        except Waited:
            return "it waits for ever"
        if not self.stays:
            return "it ended, and the bridge was never open for long enough"
        if found != self.here + self.there:
            return f"it ended with {found} of {self.here + self.there}"
        late = self.time - self.began > max(self.last, self.opened) + QUIET + SLACK + 1
        return "it waited for nothing" if late else ""


def test_no_world_ends_early_or_waits_for_ever() -> None:
    kinds = {"never": 0, "late": 0, "closed again": 0}
    for seed in range(1, SEEDS + 1):
        world = Bridged(seed)
        kinds["never"] += not world.stays
        kinds["late"] += world.stays and world.opened > 0
        kinds["closed again"] += bool(world.open)
        assert world.trouble() == "", f"seed {seed}"
    assert min(kinds.values()) > 5, kinds


def hears_nothing(self: Holding) -> str:
    return ""


def looks_once(self: Holding, arriving: Arriving, start: Offsets, most: int) -> Course[None]:
    yield from wait(self.query.arrival_ms / 1000)
    self.targets = yield from self._ends()
    self._arriving = None


def never_gives_up(self: Holding, arriving: Arriving, start: Offsets, most: int) -> Course[None]:
    try:
        yield from gather(self, arriving, start, most)
    except Unreachable:
        arriving.stuck = False
        yield from wait(holding.RETRY)


def waits_for_the_bridge(self: Holding, arriving: Arriving, start: Offsets, most: int) -> Course[None]:
    """Waits for it, and not for what it brings then."""
    while self._away():
        if self._clock() > PATIENCE + self.started:  # type: ignore[attr-defined]
            arriving.stuck = True
            raise Unreachable("away", remedy="")
        yield from wait(holding.RETRY)
    self.targets = yield from self._ends()
    self._arriving = None


def at_the_first_pause(self: Arriving, now: float, quiet: float) -> bool:
    return now - self._quiet >= PAUSE


def whatever_is_away(self: Arriving, ends: dict[str, int], now: float, *, away: bool) -> None:
    noted(self, ends, now, away=False)


gather = Holding._gather
noted = Arriving.note

PLANTED: dict[str, tuple[type, str, Callable[..., object]]] = {
    "what the broker says of its bridges is not heard": (Holding, "_away", hears_nothing),
    "it looks once, whatever is away": (Holding, "_gather", looks_once),
    "it waits for a bridge for ever": (Holding, "_gather", never_gives_up),
    "it does not wait for what a bridge brings": (Holding, "_gather", waits_for_the_bridge),
    "a pause is the end": (Arriving, "is_all", at_the_first_pause),
    "a bridge that is away is quiet": (Arriving, "note", whatever_is_away),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, method, replacement = PLANTED[name]
    monkeypatch.setattr(owner, method, replacement)
    monkeypatch.setattr(Holding, "started", 0.0, raising=False)
    found = [seed for seed in range(1, SEEDS + 1) if _trouble(seed)]
    assert found, f"{SEEDS} worlds did not find: {name}"


def _trouble(seed: int) -> str:
    world = Bridged(seed)
    Holding.started = world.began  # type: ignore[attr-defined]
    return world.trouble()
