"""What sessions, and what they open, ask of the connection that they belong to."""

from __future__ import annotations

import asyncio
import fnmatch
from collections.abc import Callable
from typing import Final, TypeVar

from entrepot.base.environment import SECOND, Instant, WallTime
from entrepot.base.errors import EntrepotError, TimedOut, Unreachable
from entrepot.client.opening import Closing
from entrepot.client.options import ClientOptions, Target
from entrepot.client.parts import FOR_EVER, Listeners, Parts
from entrepot.io.runtime import SystemClock
from entrepot.protocols.conversing.destinations import full_name
from entrepot.protocols.conversing.modes import RedeliveryPolicy
from entrepot.protocols.conversing.port import Answer, Conversation

A = TypeVar("A")


class ConnectionBase(Closing, Listeners):
    """A connection as sessions have it: its conversation, its time, and how one waits for an answer."""

    def __init__(self, target: Target, redelivery: dict[str, RedeliveryPolicy] | None) -> None:
        """``redelivery``: policies by destination, wildcards (``queue://A.*``) allowed."""
        super().__init__()
        self.options: Final[ClientOptions] = target.client
        self._target: Final = target
        self._policies: Final = dict(redelivery or {})
        self._clock: Final = SystemClock()
        self._parts: Parts | None = None

    @property
    def conversation(self) -> Conversation:
        """The conversation. Raises Unreachable when the connection was not opened, or ended."""
        parts = self._parts
        if parts is None:
            raise Unreachable("this connection is not open", remedy="use it in `async with`")
        if parts.conversation.failure is not None:
            raise parts.conversation.failure
        return parts.conversation

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop that owns this connection."""
        assert self._parts is not None
        return self._parts.loop

    def now(self) -> Instant:
        """Return the monotonic time, ns."""
        return self._clock.now()

    def time(self) -> float:
        """Return the loop's time, s."""
        return self.loop.time()

    def wall(self) -> WallTime:
        """Return ms since 1970."""
        return self._clock.wall()

    def redelivery_policy(self, where: str) -> RedeliveryPolicy:
        """Return the policy of a destination."""
        for pattern, policy in self._policies.items():
            if fnmatch.fnmatchcase(where, full_name(pattern).replace(">", "*")):
                return policy
        return self.options.redelivery_policy()

    async def ask(self, start: Callable[[Answer], object], timeout: int | None = None) -> None:
        """Start something that is answered, and wait for the answer. ``timeout``: ns, 0 for ever, None the default.

        Raises what the answer says; TimedOut.
        """
        future: asyncio.Future[None] = self.loop.create_future()
        start(answer_into(future))
        await self.bounded(future, timeout)

    async def bounded(self, future: asyncio.Future[A], timeout: int | None = None) -> A:
        """Wait for ``future`` as long as `ask` does. Raises TimedOut."""
        limit = self.options.request_timeout if timeout is None else timeout
        if future.done():
            return future.result()
        if limit <= 0:
            return await future
        try:
            async with asyncio.timeout(limit / SECOND):
                return await future
        except TimeoutError:
            raise TimedOut(f"the broker did not answer within {limit / SECOND:g} s") from None

    async def add_temporary(self, *, topic: bool) -> str:
        """Make a temporary destination and return its name."""
        made: list[str] = []
        await self.ask(lambda answer: made.append(self.conversation.add_temporary(topic, answer)))
        return made[0]

    def soon(self) -> None:
        """See to it that acknowledgements go out when the program next waits."""
        assert self._parts is not None
        self._parts.turn.schedule()

    async def drained(self) -> None:
        """Let the loop write; wait while the broker does not read."""
        await asyncio.sleep(0)
        if not self.conversation.has_room() and self._parts is not None:
            await self._parts.wait_flowing(FOR_EVER)

    async def flowing(self) -> None:
        """Wait until a producer may try again. Raises TimedOut, Unreachable."""
        conversation = self.conversation
        assert self._parts is not None
        if conversation.introduced:
            await self._parts.wait_flowing(FOR_EVER)
            return
        limit = self._target.failover.timeout
        try:
            await self._parts.wait_flowing(FOR_EVER if limit < 0 else limit / SECOND)
        except TimeoutError:
            ms = limit * 1000 // SECOND
            raise TimedOut(f"Failover timeout of {ms} ms reached.", remedy="is a broker running?") from None


def answer_into(future: asyncio.Future[None]) -> Answer:
    """Return an `Answer` that settles ``future``, unless nobody waits for it any more."""

    def answer(error: EntrepotError | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(None)

    return answer


def told_into(future: asyncio.Future[A]) -> Callable[[A, EntrepotError | None], None]:
    """Return what settles ``future`` with an answer that was read, or with what went wrong."""

    def tell(told: A, error: EntrepotError | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(told)

    return tell
