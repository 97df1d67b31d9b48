"""Views of brokers that are fresh enough: asked for when somebody looks, once for all who look at the same.

However many pages are open, a broker is asked for the same once in `LEAST` s, and less often when that is much: what
took 0.1 s is asked for every 4 s (`SHARE`). So what a broker works for being looked at is bounded. Pages for people ask
for a glance and for one page of queues, and for what a table shows when it renews itself; all queues one by one are
for metrics alone, and for a page far behind.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Any, Final, Generic, TypeVar

from entrepot.base.errors import EntrepotError, LimitExceeded, TimedOut
from entrepot.console.desk import Desk, Desks
from entrepot.core.operators.together.asker import Asker
from entrepot.management.drift import Settings, settings_of
from entrepot.management.view import (
    AddressCounts,
    BrokerView,
    Found,
    Glance,
    Moved,
    Rates,
    Sides,
    counted_addresses,
    glance,
    link_rates,
    look,
    page_of,
    rates,
)

LEAST: Final = 1.5  # s between two views
SHARE: Final = 0.01  # of a broker's time that looking at it may take
PATIENCE: Final = 5.0  # s that a page waits for a broker that does not answer
SHORT: Final = 0.05  # s for what is late already
ASKING_MOST: Final = 500  # questions under way, over all who ask
TYPING: Final = 0.25  # of a broker's time that new pages of queues may take
BURST: Final = 4.0  # s of such pauses that are forgiven: some pages opened at once wait for nothing
COST_MOST: Final = 0.1  # s that one page counts: a broker under load answers late without working longer for it
ADDRESSES_MOST: Final = 10_000  # of each broker: as many as queues have metrics
WANTED_MOST: Final = 50  # pages of queues, and answers to what living pages ask, that are kept
FORGOTTEN: Final = 30.0  # s after which one that nobody looks at is forgotten
HISTORY: Final = 900  # points of the curves: 22 minutes and more

K = TypeVar("K", bound=Hashable)
S = TypeVar("S")
T = TypeVar("T")


class Watch:
    """What one broker tells one user. ``history``: (s since 1970, rates), the newest last.

    ``moved``: see `link_rates`.
    """

    def __init__(self, desk: Desk) -> None:
        self.desk: Final = desk
        self.rates = Rates()
        self.moved: dict[str, Moved] = {}
        self.history: deque[tuple[float, Rates]] = deque(maxlen=HISTORY)
        self._views: Final = Kept(lambda: look(desk))
        self._glances: Final = Kept(lambda: glance(desk))
        self._addresses: Final = Kept(lambda: counted_addresses(desk, ADDRESSES_MOST))
        self._settings: Final = Kept(lambda: settings_of(desk))
        self._wanted: Final = Shelf[str](WANTED_MOST)
        self._noted: Glance | None = None
        self._turn: Final = asyncio.Lock()
        self._free_at = 0.0  # of a monotonic clock

    async def current(self) -> BrokerView:
        """Return a view of all of it that is at most an interval old. Raises EntrepotError."""
        return await self._views.current()

    async def glance(self) -> Glance:
        """Return all but its queues one by one, at most an interval old. Raises EntrepotError."""
        now = await self._glances.current()
        before = self._noted
        if before is None or now.at > before.at:
            self.rates = rates(before, now)
            self.moved = link_rates(before, now)
            self._noted = now
            self.history.append((time.time(), self.rates))
        return now

    async def addresses(self) -> list[AddressCounts]:
        """Return what was sent to its addresses, at most an interval old. Raises EntrepotError."""
        return await self._addresses.current()

    async def settings(self) -> Settings:
        """Return all settings of its configuration, at most an interval old. Raises EntrepotError."""
        return await self._settings.current()

    async def page(self, wanted: Mapping[str, object]) -> Found:
        """Return a page of its queues, sorted and searched by the broker, at most an interval old.

        Raises EntrepotError.
        """
        found: Found = await self._known("page", wanted, lambda: self._in_turn(wanted))
        return found

    async def ask(self, resource: str, operation: str, *values: object) -> Any:
        """Return the result of an operation that changes nothing, at most an interval old. Raises EntrepotError."""
        asked = {"of": resource, "operation": operation, "values": values}
        return await self._known("ask", asked, lambda: self.desk.ask(resource, operation, *values))

    async def _known(self, kind: str, wanted: Mapping[str, object], ask: Callable[[], Awaitable[Any]]) -> Any:
        return await self._wanted.of(kind + json.dumps(wanted, sort_keys=True), ask)

    async def _in_turn(self, wanted: Mapping[str, object]) -> Found:
        """Ask for one page after the other; who goes on and on, as by typing in a search, takes `TYPING`."""
        async with self._turn:
            now = time.monotonic()
            self._free_at = max(self._free_at, now - BURST)
            await asyncio.sleep(max(0.0, self._free_at - now))
            began = time.monotonic()
            try:
                return await page_of(self.desk, wanted)
            finally:
                self._free_at += min(COST_MOST, time.monotonic() - began) / TYPING


class Kept(Generic[T]):
    """One answer, kept for an interval that lets asking take a ``share`` of the time of who answers."""

    def __init__(self, ask: Callable[[], Awaitable[T]], share: float = SHARE) -> None:
        self.value: T | None = None
        self.wanted = 0.0
        self._ask: Final = ask
        self._share: Final = share
        self._at = 0.0
        self._took = 0.0
        self._lock: Final = asyncio.Lock()

    async def current(self, shares: int = 1) -> T:
        """Return it, asked for anew when it is old; ``shares``: how many of its kind share the time."""
        asked = self.wanted = time.monotonic()
        async with self._lock:
            value = self.value
            if value is not None and asked - self._at < max(LEAST, shares * self._took / self._share):
                return value
            began = time.monotonic()
            value = self.value = await self._ask()
            self._at = time.monotonic()
            self._took = self._at - began
            return value


class Shelf(Generic[K]):
    """Answers that are kept by what was asked, ``most`` of them; they share the time of who answers (``share``).

    One that nobody asked for in `FORGOTTEN` s goes when there is a new one, and of too many the one least wanted.
    """

    def __init__(self, most: int, share: float = SHARE) -> None:
        self._most: Final = most
        self._share: Final = share
        self._kept: dict[K, Kept[Any]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: K) -> bool:
        return key in self._kept

    async def of(self, key: K, ask: Callable[[], Awaitable[T]]) -> T:
        """Return the answer to ``key``, asked for anew when it is old. Raises what ``ask`` raises."""
        kept = self._kept.get(key)
        if kept is None:
            self._forget()
            kept = self._kept[key] = Kept(ask, self._share)
        value: T = await kept.current(len(self._kept))
        return value

    def _forget(self) -> None:
        limit = time.monotonic() - FORGOTTEN
        self._kept = {key: kept for key, kept in self._kept.items() if kept.wanted > limit}
        while len(self._kept) >= self._most:
            del self._kept[min(self._kept, key=lambda key: self._kept[key].wanted)]


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

    async def sides(self, user: str, password: str) -> Sides[BrokerView]:
        """Return all brokers side by side; one that does not answer takes nothing away from the others."""
        return await self._each("view", user, password, lambda watch: watch.current())

    async def glances(self, user: str, password: str) -> Sides[Glance]:
        """Return all brokers side by side, without their queues."""
        return await self._each("glance", user, password, lambda watch: watch.glance())

    async def pages(self, user: str, password: str, wanted: Mapping[str, object], broker: str = "") -> Sides[Found]:
        """Return a page of the queues of each broker, or of one."""
        key = "page " + json.dumps(wanted, sort_keys=True)
        return await self._each(key, user, password, lambda watch: watch.page(wanted), broker)

    async def settings(self, user: str, password: str) -> Sides[Settings]:
        """Return the configurations of all brokers side by side."""
        return await self._each("settings", user, password, lambda watch: watch.settings())

    async def _each(
        self, what: str, user: str, password: str, ask: Callable[[Watch], Awaitable[S]], broker: str = ""
    ) -> Sides[S]:
        async def one(name: str) -> S:
            return await ask(await self.of(name, user, password))

        names = [broker] if broker else list(self.desks.brokers)
        found, failures = await self._late.of(names, (what, user, password), one)
        return Sides(found, failures)

    async def asker(self, broker: str, user: str, password: str, *, lives: bool) -> Asker:
        """Return whom a page asks; one that ``lives`` hears what is at most an interval old. Raises EntrepotError."""
        return await (self.of if lives else self.desks.at)(broker, user, password)

    async def asked(
        self, user: str, password: str, operation: str, *values: object, lives: bool = False
    ) -> tuple[dict[str, Any], dict[str, EntrepotError]]:
        """Return what each broker answers to an operation of its own, and why of each that does not."""

        async def ask(name: str) -> Any:
            asker = await self.asker(name, user, password, lives=lives)
            return await asker.ask("broker", operation, *values)

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
