"""A producer whose broker is full: when it is stopped, how long it waits, when it is refused. [C]

BLOCKED (`BrokerCore.send`) means: taken, and now wait. A connection over which nothing comes that frees memory is read
no further; one that also consumes is read on, or its acknowledgements never come. Answers that a producer waits for
may be *held* instead: then it waits, and others on its connection go on. Whoever waited as long as the policy of his
address allows (``block_ms_max``) is refused what he sends until there is room; so is whoever cannot be stopped once the
memory holds `RETAINED_BLOCK` times its limit. What was accepted is accepted.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from entrepot.base.environment import MILLISECOND, Instant
from entrepot.base.errors import AddressFull
from entrepot.core.addressing.routing import Target
from entrepot.core.broker import BrokerCore
from entrepot.core.sending.flow import SpaceWaiter
from entrepot.protocols.session import NEVER, STOP_SPACE, Session

RETAINED_BLOCK: Final = 2  # a connection that is read on is refused at so many times the memory limit


@mypyc_attr(allow_interpreted_subclasses=True)
class Held:
    """An answer that waits for space."""

    def release(self) -> None:
        """There is space, or patience is over: answer."""
        raise NotImplementedError


class Holding(SpaceWaiter):
    """Answers of one producer that wait until the broker has room. ``key`` tells it from other producers."""

    def __init__(self, broker: BrokerCore, key: i64) -> None:
        self.broker: BrokerCore = broker
        self.key: i64 = key
        self.held: list[Held] = []

    def keep(self, answer: Held) -> None:
        """A send was BLOCKED: keep its ``answer`` until there is space. Call it right after the send."""
        self.held.append(answer)
        self.wait()

    def wait(self) -> None:
        """A send was BLOCKED and asks for no answer."""
        self.broker.flow.wait(self.key, self)

    def space(self) -> None:
        """There is room again."""
        self.release()

    def release(self) -> None:
        """Give the answers that wait."""
        held = self.held
        self.held = []
        for answer in held:
            answer.release()

    def forget(self) -> None:
        """The producer is gone: nobody waits for an answer."""
        self.held.clear()
        self.broker.flow.stop_waiting(self.key)


class Patience(Holding):
    """The waiting of one connection, made when its broker says BLOCKED for the first time."""

    def __init__(self, session: Session, broker: BrokerCore, number: i64) -> None:
        super().__init__(broker, number)
        self.session: Session = session
        self.waiting: bool = False  # the broker was full when this connection sent last, and has not said otherwise
        self.overdue: bool = False  # and it stayed full for longer than the policy lets a producer wait
        self.since: i64 = 0
        self.limit_ms: i64 = 0  # 0: for ever

    def stop(self, target: Target, consumes: bool) -> None:
        """A send to ``target`` was BLOCKED: read no further, unless the connection ``consumes``.

        Where an operator blocks the address, nothing that it says makes room: then it is not read on either.
        """
        if not consumes or self.broker.flow.blocking_addresses:
            self.session.stop_reading(STOP_SPACE)
        self._begin(target)
        self.wait()

    def hold(self, answer: Held, target: Target) -> None:
        """A send to ``target`` was BLOCKED: keep its ``answer`` until there is space."""
        self._begin(target)
        self.keep(answer)

    def _begin(self, target: Target) -> None:
        if not self.waiting:
            self.waiting = True
            self.since = self.broker.now
            policy = target.policy
            self.limit_ms = 0 if policy is None else policy.block_ms_max

    def check(self, may_stop: bool) -> None:
        """Refuse what cannot wait any more. Raises AddressFull before anything is accepted.

        ``may_stop``: nothing that frees memory can come over this connection, so it is left unread instead.
        """
        if not self.waiting:
            return
        if not self.overdue:
            memory = self.broker.memory
            if memory.used < RETAINED_BLOCK * memory.limit or self.session.stops & STOP_SPACE:
                return
            if may_stop:
                self.session.stop_reading(STOP_SPACE)
                return
        raise AddressFull("the broker has no room for this message", remedy="acknowledge messages, or raise the limit")

    def due(self) -> Instant:
        """Return when patience is over."""
        if not self.waiting or self.overdue or self.limit_ms == 0:
            return NEVER
        return int(self.since) + int(self.limit_ms) * MILLISECOND

    def advance(self, now: Instant) -> None:
        """There was no room for as long as the policy lets a producer wait: refuse what is sent until there is."""
        if now >= self.due():
            self.overdue = True
            self._go_on()

    def space(self) -> None:
        """There is room again."""
        self.waiting = False
        self.overdue = False
        self._go_on()

    def _go_on(self) -> None:
        self.release()
        self.session.read_on(STOP_SPACE)
