"""Views of brokers that are fresh enough: asked for when somebody looks, once for all who look at the same.

However many pages are open, a broker is asked for all of itself once in `LEAST` s, and less often when that is much: a
view that took 0.1 s is taken every 4 s (`SHARE`). So what a broker works for being looked at is bounded.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from entrepot.base.errors import EntrepotError, LimitExceeded, TimedOut
from entrepot.console.desk import Desk, Desks
from entrepot.management.view import BrokerView, Rates, Sides, look, rates

LEAST: Final = 1.5  # s between two views
SHARE: Final = 0.025  # of a broker's time that looking at it may take
PATIENCE: Final = 5.0  # s that a page waits for a broker that does not answer
SHORT: Final = 0.05  # s for what is late already
ASKING_MOST: Final = 500  # questions under way, over all who ask
HISTORY: Final = 900  # points of the curves: 22 minutes and more

T = TypeVar("T")


class Watch:
    """The views of one broker as one user sees it. ``history``: (s since 1970, waiting, rates), the newest last."""

    def __init__(self, desk: Desk) -> None:
        self.desk: Final = desk
        self.view: BrokerView | None = None
        self.rates = Rates()
        self.history: deque[tuple[float, int, Rates]] = deque(maxlen=HISTORY)
        self._lock: Final = asyncio.Lock()

    async def current(self, *, fresh: bool = False) -> BrokerView:
        """Return a view that is at most an interval old; ``fresh``: of now. Raises EntrepotError."""
        asked = time.monotonic()
        async with self._lock:
            view = self.view
            if view is not None:
                interval = max(LEAST, view.took / SHARE)
                newer = view.at - view.took >= asked if fresh else asked - view.at < interval
                if newer:
                    return view
            now = await look(self.desk)
            self.rates = rates(view, now)
            self.view = now
            self.history.append((time.time(), now.total("messages"), self.rates))
            return now


class Watches:
    """The watches of all desks."""

    def __init__(self, desks: Desks) -> None:
        self.desks: Final = desks
        self._watches: dict[Desk, Watch] = {}
        self._late: Final = SideBySide()

    async def of(self, broker: str, user: str, password: str) -> Watch:
        """Return the watch of a broker for a user. Raises EntrepotError."""
        desk = await self.desks.at(broker, user, password)
        watch = self._watches.get(desk)
        if watch is None:
            self._watches = {one: kept for one, kept in self._watches.items() if one.alive}
            watch = self._watches[desk] = Watch(desk)
        return watch

    async def sides(self, user: str, password: str) -> Sides:
        """Return all brokers side by side; one that does not answer takes nothing away from the others."""

        async def view(name: str) -> BrokerView:
            return await (await self.of(name, user, password)).current()

        views, failures = await self._late.of(list(self.desks.brokers), ("view", user, password), view)
        return Sides(views, failures)

    async def asked(
        self, user: str, password: str, operation: str, *values: object
    ) -> tuple[dict[str, Any], dict[str, EntrepotError]]:
        """Return what each broker answers to an operation of its own, and why of each that does not."""

        async def ask(name: str) -> Any:
            desk = await self.desks.at(name, user, password)
            return await desk.ask("broker", operation, *values)

        return await self._late.of(list(self.desks.brokers), (operation, user, password, *values), ask)


class SideBySide:
    """Asks several brokers at once, and waits `PATIENCE` s for all of them together.

    An answer that is late is waited for by whoever asks the same next, not asked for again: a broker that is away holds
    up one page for `PATIENCE` s in `desk.OPENING`, and has one question of a kind under way, however many look.
    """

    def __init__(self) -> None:
        self._asking: dict[tuple[object, ...], tuple[float, asyncio.Future[Any]]] = {}

    async def of(
        self, names: list[str], what: tuple[object, ...], ask: Callable[[str], Awaitable[T]]
    ) -> tuple[dict[str, T], dict[str, EntrepotError]]:
        """Return name -> answer, and name -> why there is none. ``what``: the same for the same questions."""
        now = time.monotonic()
        asking = {name: self._begun(now, (name, *what), ask) for name in names}
        waits = max((PATIENCE - (now - began) for began, task in asking.values() if not task.done()), default=0.0)
        if asking:
            await asyncio.wait([task for _, task in asking.values()], timeout=max(SHORT, waits))
        found, failed = dict[str, T](), dict[str, EntrepotError]()
        for name, (_, task) in asking.items():
            if not task.done():
                failed[name] = TimedOut(f"{name} does not answer within {PATIENCE:g} s", remedy="see its log")
                continue
            try:
                found[name] = task.result()
            except EntrepotError as error:
                failed[name] = error
        return found, failed

    def _begun(
        self, now: float, key: tuple[object, ...], ask: Callable[[str], Awaitable[Any]]
    ) -> tuple[float, asyncio.Future[Any]]:
        known = self._asking.get(key)
        if known is not None:
            return known
        if len(self._asking) >= ASKING_MOST:
            raise LimitExceeded(f"{ASKING_MOST} questions are under way", remedy="try again soon")
        begun = self._asking[key] = (now, asyncio.ensure_future(ask(str(key[0]))))
        begun[1].add_done_callback(lambda done: self._ended(key, done))
        return begun

    def _ended(self, key: tuple[object, ...], done: asyncio.Future[Any]) -> None:
        self._asking.pop(key, None)
        if not done.cancelled():
            done.exception()  # looked at: everybody who waited for it may have gone
