"""The load of `entrepot perf --connect`: over CORE or OpenWire, by the Python client. What is measured is `load.py`'s.

A message says its run and when it was due in properties. A window is as many sends that wait for their confirmation.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Final

from entrepot.base.environment import SECOND
from entrepot.base.errors import TimedOut
from entrepot.cli.load import BATCH, Load, LoadPlan, Schedule, Work
from entrepot.cli.over_client import MODES, destination_of, opened
from entrepot.client.message import Message
from entrepot.protocols.conversing.modes import Acknowledge

if TYPE_CHECKING:
    from entrepot.client.consumer import Consumer
    from entrepot.client.producer import Producer

RECEIVED_AT_ONCE: Final = 1_000


class ClientLoad(Load):
    """One run of a plan whose ``url`` is one of the client's."""

    def __init__(self, plan: LoadPlan) -> None:
        super().__init__(plan)
        self.mode: Final = MODES[plan.ack]
        self.where: Final = destination_of(plan.destination)

    async def open(self, stack: AsyncExitStack) -> tuple[list[Work], list[Work]]:
        """Connect all; return what consumers and what producers do. Raises as the client does."""
        plan = self.plan
        receivers: list[Work] = []
        senders: list[Work] = []
        for _ in range(plan.consumers):
            session = (await stack.enter_async_context(opened(plan.url))).session(self.mode)
            consumer = await session.consumer(self.where)
            receivers.append(partial(self._receive, consumer))
        for number in range(plan.producers):
            session = (await stack.enter_async_context(opened(plan.url))).session()
            producer = await session.producer(self.where)
            senders.append(partial(self._send, producer, number))
        return receivers, senders

    async def _receive(self, consumer: Consumer) -> None:
        while not self._stop:
            received = await consumer.receive_many(RECEIVED_AT_ONCE)
            now = time.monotonic_ns()
            for message in received:
                self.count(message.properties.get("run"), message.properties.get("due"), now)
                if self.mode is Acknowledge.INDIVIDUAL:
                    message.acknowledge()
            if self.mode is Acknowledge.CLIENT and received:
                received[-1].acknowledge()
            self.received_at = now

    async def _send(self, producer: Producer, number: int) -> None:
        plan = self.plan
        schedule = Schedule(plan, number, self.started)
        body = "x" * plan.size
        asked: set[asyncio.Task[None]] = set()
        try:
            while await self.is_time(schedule):
                for _ in range(BATCH):
                    now = time.monotonic_ns()
                    due = schedule.due(now)
                    if due > now or schedule.is_complete():
                        break
                    message = Message(body, properties={"run": plan.run, "due": str(due)})
                    if plan.window:
                        await self._room(asked, plan.window - 1)
                        asked.add(asyncio.create_task(self._ask(producer, message, due)))
                    else:
                        await producer.send(message, persistent=plan.persistent, wait=False)
                    if schedule.period:
                        self.lateness.record(now - due)
                    schedule.sent += 1
                    self.sent += 1
                await asyncio.sleep(0)
            await self._room(asked, 0)
            self.sent_at = time.monotonic_ns()
        finally:
            for task in asked:
                task.cancel()

    async def _ask(self, producer: Producer, message: Message, due: int) -> None:
        await producer.send(message, persistent=self.plan.persistent, wait=True)
        self._confirmed(due)

    async def _room(self, asked: set[asyncio.Task[None]], most: int) -> None:
        """Wait until at most ``most`` are not confirmed. Raises what a send raises, TimedOut."""
        while len(asked) > most:
            done, _ = await asyncio.wait(
                asked, timeout=self.plan.patience / SECOND, return_when=asyncio.FIRST_COMPLETED
            )
            if not done:
                raise TimedOut(f"nothing was confirmed for {self.plan.patience / SECOND:g} s")
            for task in done:
                asked.discard(task)
                task.result()
