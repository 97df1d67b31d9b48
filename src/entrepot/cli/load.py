"""The load that `entrepot perf` makes: producers and consumers on one loop, and what they measured.

Open loop: with a rate, message n of a producer is due at start + n / rate whatever happened to the others, and its
latency counts from that moment. A broker that stands still for a second is charged for every message that fell due in
it, not for one (this is what "coordinated omission" leaves out). ``lateness`` says how late the producers themselves
were; where it comes near the latency, this program was measured and not a broker.

Without a rate producers send as fast as they may, and latency counts from the moment of sending: mostly time in queues.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Any, Final

import msgspec

from entrepot.base.environment import MILLISECOND, SECOND, Duration, Instant
from entrepot.base.errors import EntrepotError
from entrepot.cli.dialogue import Dialogue, talking
from entrepot.cli.histogram import Histogram
from entrepot.protocols.stomp.client import AUTO, CLIENT

UNDER_WAY_MAX: Final = 20_000  # a flood stops here, so that nobody measures the paging of a growing backlog
BATCH: Final = 64  # messages a producer sends before the others have their turn
SPIN: Final = 1 * MILLISECOND  # loops sleep in whole ms; the last one is waited for awake
LOOK: Final = 0.05  # s between two looks at what has ended


Work = Callable[[], Coroutine[Any, Any, None]]
"""What one connection does for as long as the load goes on."""


class LoadPlan(msgspec.Struct, frozen=True):
    """What to do. ``rate``: messages a second of all producers together, 0 for as fast as possible.

    ``window``: receipts that each producer awaits, 0 for none. ``count`` 0: only ``duration`` ends it.
    """

    url: str
    destination: str
    topic: bool
    producers: int
    consumers: int
    size: int
    persistent: bool
    rate: float
    duration: Duration
    count: int
    ack: str
    window: int
    patience: Duration
    run: str


class Schedule:
    """When one of the producers of a plan sends, and how much it has sent.

    ``period``: ns between two messages, 0 for as fast as possible. ``end``: ns, 0 where only the count ends it.
    """

    def __init__(self, plan: LoadPlan, number: int, started: Instant) -> None:
        share = plan.count // plan.producers + (number < plan.count % plan.producers)
        self.most: int | None = share if plan.count else None
        self.period = plan.producers * SECOND / plan.rate if plan.rate else 0.0
        # Producers of one rate take turns, or the broker would get them all at the same moment.
        self.start = started + int(self.period * number / plan.producers)
        self.end = started + plan.duration if plan.duration else 0
        self.sent = 0

    def is_complete(self) -> bool:
        """Return whether this producer has sent its share of the count."""
        return self.most is not None and self.sent >= self.most

    def due(self, now: Instant) -> Instant:
        """Return when the next message is due; without a rate that is always now."""
        return self.start + int(self.sent * self.period) if self.period else now


class Load:
    """One run of a plan, and its figures so far."""

    def __init__(self, plan: LoadPlan) -> None:
        self.plan = plan
        self.sent = 0
        self.received = 0
        self.foreign = 0  # messages of other runs
        self.latency = Histogram()
        self.confirmation = Histogram()
        self.lateness = Histogram()
        self.started: Instant = 0
        self.sent_at: Instant = 0  # when the last producer was done
        self.received_at: Instant = 0  # the last message
        self.first_received_at: Instant = 0
        self._stop = False

    @property
    def expected(self) -> int:
        """How many deliveries the messages sent so far make."""
        if self.plan.consumers == 0:
            return 0
        return self.sent * self.plan.consumers if self.plan.topic else self.sent

    async def run(self) -> None:
        """Do it. Raises what a `Dialogue` raises."""
        async with AsyncExitStack() as stack:
            receivers, senders = await self.open(stack)
            self.started = time.monotonic_ns()
            consuming = [asyncio.create_task(receive()) for receive in receivers]
            producing = [asyncio.create_task(send()) for send in senders]
            try:
                await self._supervise(producing, consuming)
            finally:
                self._stop = True
                for task in (*producing, *consuming):
                    task.cancel()
                await asyncio.gather(*producing, *consuming, return_exceptions=True)

    async def open(self, stack: AsyncExitStack) -> tuple[list[Work], list[Work]]:
        """Connect all; return what consumers and what producers do."""
        plan = self.plan
        dialogues = [await stack.enter_async_context(talking(plan.url)) for _ in range(plan.consumers)]
        for dialogue in dialogues:
            _, receipt = dialogue.client.subscribe(plan.destination, ack=plan.ack, receipt=True)
            await dialogue.ask(receipt)
        sources = [await stack.enter_async_context(talking(plan.url)) for _ in range(plan.producers)]
        return (
            [partial(self._consume, dialogue) for dialogue in dialogues],
            [partial(self._produce, dialogue, at) for at, dialogue in enumerate(sources)],
        )

    async def _supervise(self, producing: list[asyncio.Task[None]], consuming: list[asyncio.Task[None]]) -> None:
        """Return when all is sent and received, or nothing moves any more; raise the first failure."""
        until = self.started + self.plan.duration
        while producing or time.monotonic_ns() < until:
            running = [task for task in producing if not task.done()]
            if producing and not running:
                break
            await asyncio.wait([*running, *consuming], timeout=LOOK, return_when=asyncio.FIRST_EXCEPTION)
            _raise_first(producing, consuming)
            if not producing and self.plan.count and self.received >= self.plan.count:
                return
        _raise_first(producing, consuming)
        if not producing:
            self.sent_at = time.monotonic_ns()
            return
        seen, moved_at = self.received, time.monotonic_ns()
        while self.received < self.expected:
            await asyncio.wait(consuming, timeout=LOOK, return_when=asyncio.FIRST_EXCEPTION)
            _raise_first(consuming)
            now = time.monotonic_ns()
            if self.received != seen:
                seen, moved_at = self.received, now
            elif now - moved_at > self.plan.patience:
                return

    async def _produce(self, dialogue: Dialogue, number: int) -> None:
        plan = self.plan
        schedule = Schedule(plan, number, self.started)
        dialogue.on_confirmed = self._confirmed
        body = b"x" * plan.size
        headers = {"run": plan.run, "due": "", "persistent": "true" if plan.persistent else "false"}
        while await self.is_time(schedule):
            await dialogue.room(plan.window - 1 if plan.window else 0, plan.patience)
            self._send_batch(dialogue, schedule, headers, body)
            await asyncio.sleep(0)
        if plan.window:
            await dialogue.room(0, plan.patience)
        self.sent_at = time.monotonic_ns()

    def _send_batch(self, dialogue: Dialogue, schedule: Schedule, headers: dict[str, str], body: bytes) -> None:
        """Send what is due now, as far as the window and the batch reach."""
        plan = self.plan
        now = time.monotonic_ns()
        for _ in range(BATCH):
            due = schedule.due(now)
            if due > now or schedule.is_complete() or not dialogue.client.ready:
                return
            if plan.window and len(dialogue.unconfirmed) >= plan.window:
                return
            headers["due"] = str(due)
            receipt = dialogue.client.send(plan.destination, body, headers, receipt=plan.window > 0)
            if receipt:
                dialogue.unconfirmed[receipt] = due
            if schedule.period:
                self.lateness.record(now - due)
            schedule.sent += 1
            self.sent += 1

    async def is_time(self, schedule: Schedule) -> bool:
        """Wait until the next message is due, and there is room for it; return whether there is a next one."""
        while not schedule.is_complete():
            now = time.monotonic_ns()
            if schedule.end and now >= schedule.end:
                return False
            due = schedule.due(now)
            if due > now:
                await _sleep_until(due)
            elif not schedule.period and self.plan.consumers > 0 and self.expected - self.received > UNDER_WAY_MAX:
                await asyncio.sleep(0.001)
            else:
                return True
        return False

    def _confirmed(self, due: int) -> None:
        self.confirmation.record(time.monotonic_ns() - due)

    def count(self, run: object, due: object, now: Instant) -> None:
        """A message came that says of which run it is, and when it was due."""
        self.first_received_at = self.first_received_at or now
        if self.plan.producers == 0:
            self.received += 1
        elif run == self.plan.run:
            self.received += 1
            self.latency.record(now - int(str(due)))
        else:
            self.foreign += 1

    async def _consume(self, dialogue: Dialogue) -> None:
        plan = self.plan
        client = dialogue.client
        messages = dialogue.messages
        while not self._stop:
            await dialogue.until(lambda: len(messages) > 0)
            now = time.monotonic_ns()
            last = None
            while messages:
                last = messages.popleft()
                self.count(last.headers.get("run"), last.headers.get("due"), now)
                if plan.ack not in (AUTO, CLIENT):
                    client.ack(last)
            if plan.ack == CLIENT and last is not None:
                client.ack(last)
            self.received_at = now

    def report(self) -> dict[str, Any]:
        """Return the figures: rates per second, times in ms."""
        sending = max(self.sent_at - self.started, 1) / SECOND
        receiving = max(self.received_at - self.started, 1) / SECOND
        figures: dict[str, Any] = {
            "destination": self.plan.destination,
            "sent": self.sent,
            "received": self.received,
            "missing": max(self.expected - self.received, 0),
            "seconds": round(max(sending, receiving if self.received else 0.0), 3),
            "sent_per_second": round(self.sent / sending, 1),
            "received_per_second": round(self.received / receiving, 1) if self.received else 0.0,
        }
        for name, histogram in (
            ("latency_ms", self.latency),
            ("confirmation_ms", self.confirmation),
            ("lateness_ms", self.lateness),
        ):
            if histogram.count:
                figures[name] = histogram.summary()
        if self.foreign:
            figures["foreign"] = self.foreign
        return figures


async def _sleep_until(due: Instant) -> None:
    left = due - time.monotonic_ns()
    await asyncio.sleep((left - SPIN) / SECOND if left > 2 * SPIN else 0)


def _raise_first(*groups: list[asyncio.Task[None]]) -> None:
    for task in (task for group in groups for task in group):
        if task.done() and not task.cancelled():
            error = task.exception()
            if error is not None:
                raise error


async def run_load(load: Load, watch: Callable[[], None] | None, every: float = 0.5) -> None:
    """Run ``load``; call ``watch`` every so many seconds."""
    running = asyncio.create_task(load.run())
    try:
        while not running.done():
            await asyncio.wait([running], timeout=every)
            if watch is not None:
                watch()
        await running
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError, EntrepotError):
            await running
