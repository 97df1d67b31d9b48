"""What operators do to queues, for the program that runs the broker: ``broker.queues.pause("orders")``.

What looks or switches happens in the call. What may touch many messages is a coroutine: it works in bounded steps, so
that the broker goes on meanwhile, and ends when the disk has what it did. Names are those of queues, or destinations
like ``/queue/orders``. All raise InvalidDestination for a queue that does not exist.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeAlias, TypeVar

from entrepot.base.errors import EntrepotError
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.broker import BrokerCore, selector_or_none
from entrepot.core.operators import upkeep, views
from entrepot.core.operators.queue_control import find_queue
from entrepot.core.operators.upkeep import Discard, Move, Progress, Purge, Removal, Retry
from entrepot.core.operators.views import UNBOUNDED, ConsumerView, QueueView, ScheduleView
from entrepot.io.turns import Turn
from entrepot.journal.ports import Waiter
from entrepot.model.address import ANYCAST, parse_one

T = TypeVar("T")

QueueViews: TypeAlias = list[QueueView]  # a method is called list
ConsumerViews: TypeAlias = list[ConsumerView]
ScheduleViews: TypeAlias = list[ScheduleView]


class _Steps(Protocol):
    def step(self) -> Progress: ...


class _Stored(Waiter):
    """Lets a coroutine go on when the disk has everything."""

    def __init__(self, future: asyncio.Future[None]) -> None:
        self.future = future

    def stored(self, token: bytes) -> None:
        if not self.future.done():
            self.future.set_result(None)

    def store_failed(self, token: bytes, error: EntrepotError) -> None:
        if not self.future.done():
            self.future.set_exception(error)


class Queues:
    """The queues of one broker. Call from the loop on which it runs."""

    def __init__(self, running: Callable[[], tuple[BrokerCore, Turn]]) -> None:
        """``running`` returns the core and its turns, or raises InvalidOption when the broker does not run."""
        self._running = running

    # -- at once ------------------------------------------------------------------------------------------------------

    def list(self, pattern: str = "") -> QueueViews:
        """Return all queues, or those whose name a wildcard matches, by name."""
        return self._turn(lambda broker: views.list_queues(broker, pattern))

    def show(self, name: str) -> QueueView:
        """Return one queue."""
        return self._turn(lambda broker: views.queue_view(broker, find_queue(broker, name)))

    def consumers(self, name: str = "") -> ConsumerViews:
        """Return the consumers of one queue, or all."""
        return self._turn(lambda broker: views.list_consumers(broker, find_queue(broker, name).name if name else ""))

    def scheduled(self, most: int = 1_000) -> ScheduleViews:
        """Return up to ``most`` messages that wait for their time."""
        return self._turn(lambda broker: views.list_scheduled(broker, most))

    def create(self, name: str, *, durable: bool = True) -> None:
        """Make a queue, or an ``address::queue``, that no disuse deletes. Raises InvalidDestination if it exists."""
        destination = parse_one(name, ANYCAST)
        made = QueueDefinition(
            name=destination.queue or destination.name,
            address=destination.name,
            routing=destination.routing,
            durable=durable,
        )
        self._turn(lambda broker: broker.queues.create(made))

    def pause(self, name: str) -> None:
        """Stop delivery from a queue; a durable one stays paused over a restart."""
        self._turn(lambda broker: upkeep.pause(broker, find_queue(broker, name).name))

    def resume(self, name: str) -> None:
        """Deliver again."""
        self._turn(lambda broker: upkeep.resume(broker, find_queue(broker, name).name))

    def cancel(self, number: int) -> bool:
        """Forget the message with this number that waits for its time; False when there is none."""
        return self._turn(lambda broker: upkeep.cancel_scheduled(broker, number))

    # -- in steps -----------------------------------------------------------------------------------------------------

    async def purge(self, name: str, *, selector: str = "", most: int = UNBOUNDED) -> int:
        """Remove what waits in a queue; return how many messages that were."""
        condition = selector_or_none(selector)
        if condition is None:
            return await self._steps(lambda broker: Purge(broker, find_queue(broker, name).name, most))
        return await self._steps(lambda broker: Discard(broker, find_queue(broker, name).name, condition, most))

    async def delete(self, name: str, *, if_empty: bool = False, if_unused: bool = False) -> int:
        """Delete a queue with all that it holds, consumers told; return how many messages went.

        Raises InvalidDestination when it is not as the caller demands: empty, or without consumers and leases.
        """
        queue = self._turn(lambda broker: find_queue(broker, name))
        gone = 0
        if not if_empty and not (if_unused and queue.roster.is_read()):
            gone = await self._steps(lambda broker: Purge(broker, queue.name))
        gone += self._turn(lambda broker: upkeep.delete(broker, queue.name, if_empty=if_empty, if_unused=if_unused))
        await self._stored()
        return gone

    async def move(self, name: str, target: str, *, selector: str = "", most: int = UNBOUNDED) -> int:
        """Move what waits to the end of another queue, in order; return how many messages that were."""
        condition = selector_or_none(selector)
        return await self._steps(lambda broker: Move(broker, find_queue(broker, name).name, target, condition, most))

    async def copy(self, name: str, target: str, *, selector: str = "", most: int = UNBOUNDED) -> int:
        """Copy what waits to the end of another queue, in order; return how many messages that were."""
        condition = selector_or_none(selector)
        return await self._steps(
            lambda broker: Move(broker, find_queue(broker, name).name, target, condition, most, copies=True)
        )

    async def retry(self, name: str = "ActiveMQ.DLQ", *, selector: str = "", most: int = UNBOUNDED) -> int:
        """Send dead letters back to where they came from; return how many messages that were."""
        condition = selector_or_none(selector)
        return await self._steps(lambda broker: Retry(broker, find_queue(broker, name).name, condition, most))

    async def remove(self, name: str, identity: str | int) -> bool:
        """Remove one message, named by its id or its number; False when it does not wait there."""
        return await self._steps(lambda broker: Removal(broker, find_queue(broker, name).name, identity)) == 1

    def _turn(self, action: Callable[[BrokerCore], T]) -> T:
        broker, turn = self._running()
        turn.begin()
        try:
            return action(broker)
        finally:
            turn.end()

    async def _steps(self, begin: Callable[[BrokerCore], _Steps]) -> int:
        work = self._turn(begin)
        while True:
            progress = self._turn(lambda broker: work.step())
            if progress.done:
                break
            await asyncio.sleep(0)  # others have their turn
        await self._stored()
        return progress.messages

    async def _stored(self) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._turn(lambda broker: broker.journal.confirm(_Stored(future), b""))
        await future
