"""What is done to a queue beyond emptying and moving: delayed messages sent now, one copied, counts begun anew."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from entrepot.base.errors import EntrepotError
from entrepot.core.broker import BrokerCore
from entrepot.core.operators.control import json_of
from entrepot.core.operators.listing import message_row
from entrepot.core.operators.upkeep import STEP_LOOKS, STEP_MESSAGES, Move, is_named
from entrepot.core.queue.backlog import Reference
from entrepot.core.queue.queue import Queue
from entrepot.core.scheduling.timed import SCHEDULED_TARGET
from entrepot.core.sending.handing import hand_out
from entrepot.journal.condition import again
from entrepot.model.address import parse
from entrepot.model.message import Message
from entrepot.model.predicate import Predicate

SCHEDULES_A_STEP: Final = 200  # each may be read from disk, and sent


class CopyOne(Move):
    """Copies one message that waits; the answer of its `Found` is whether it was there."""

    def __init__(self, broker: BrokerCore, source: str, target: str, identity: str | int) -> None:
        super().__init__(broker, source, target, copies=True)
        self.identity: Final = identity

    def _copy(self, most: int) -> None:
        target = self.target
        assert target is not None
        for found in self.walk.step(STEP_LOOKS):
            if is_named(self.broker, found.message, self.identity):
                hand_out(self.broker, self._copy_of(found.message, target), [target])
                self.progress.messages = 1
                self.most = 1
                return


class Delivery:
    """A `Work` that delivers at once what waits for its time: delays of this queue, and schedules that lead to it.

    ``identity`` None: all that ``selector`` wants. What is delayed because the disk is full stays.
    """

    def __init__(
        self, broker: BrokerCore, queue: Queue, selector: Predicate | None, identity: str | int | None = None
    ) -> None:
        self.broker: Final = broker
        self.queue: Final = queue
        self.selector: Final = selector
        self.identity: Final = identity
        self.found = False
        delayed, schedules = queue.returns.delayed, broker.scheduled.schedules
        self.delayed: Iterator[Reference]
        self.schedules: Iterator[int]
        if isinstance(identity, int):  # by its number it is found at once
            self.delayed = iter([delayed[identity]] if identity in delayed else [])
            self.schedules = iter([identity] if identity in schedules else [])
        else:
            self.delayed = iter(list(delayed.values()))
            self.schedules = iter(sorted(schedules))

    def step(self) -> bool:
        """Deliver some. Raises StorageFull, StorageError: the other schedules wait for their time, as before."""
        returns = self.queue.returns
        some = list(islice(self.delayed, STEP_MESSAGES))
        for reference in some:
            if int(reference.number) not in returns.doomed and self._is_meant(reference.message):
                returns.due(reference)
        if some:
            return self.found
        numbers = list(islice(self.schedules, SCHEDULES_A_STEP))
        for number in numbers:
            refusal = self.broker.journal.refusal()
            if refusal is not None:  # what fires and cannot be stored would be gone until the next start
                raise again(refusal)
            self._fire(number)
        return self.found or not numbers

    def _fire(self, number: int) -> None:
        scheduled = self.broker.scheduled
        if number not in scheduled.schedules:
            return
        message = scheduled.load(number)
        annotations = {} if message.rare is None else message.rare.annotations
        if self._leads_here(annotations.get(SCHEDULED_TARGET, message.address)) and self._is_meant(message):
            scheduled.fire(number, int(self.broker.wall))

    def _leads_here(self, text: str) -> bool:
        try:
            places = parse(text)
        except EntrepotError:
            return False
        here = self.queue
        return any(one.name == here.address and one.queue in ("", here.name) for one in places)

    def _is_meant(self, message: Message) -> bool:
        if self.identity is not None:
            named = is_named(self.broker, message, self.identity)
            self.found = self.found or named
            return named
        return self.selector is None or self.selector.matches(message)

    def result(self) -> object:
        """Return nothing."""
        return None


class FirstDelayed:
    """A `Work` that looks for the message of ``queue`` whose time comes first; the answer is JSON."""

    def __init__(self, broker: BrokerCore, queue: Queue) -> None:
        self.broker: Final = broker
        self.left: Final[Iterator[Reference]] = iter(list(queue.returns.delayed.values()))
        self.first: Reference | None = None

    def step(self) -> bool:
        """Look at some."""
        some = list(islice(self.left, STEP_LOOKS))
        known = [] if self.first is None else [self.first]
        self.first = min(known + some, key=lambda reference: int(reference.due), default=None)
        return not some

    def result(self) -> object:
        """Return its row, null for none."""
        return json_of(None if self.first is None else message_row(self.broker, self.first.message))


def reset_added(queue: Queue) -> None:
    """Count from now on what comes."""
    queue.used = queue.used or queue.accepted > 0  # else it would not be deleted by itself any more
    queue.accepted = 0


def reset_acknowledged(queue: Queue) -> None:
    """Count from now on what is settled."""
    queue.returns.attempts += queue.settled
    queue.settled = 0


def reset_expired(queue: Queue) -> None:
    """Count from now on what expires."""
    queue.returns.attempts += queue.returns.expired
    queue.returns.expired = 0


def reset_killed(queue: Queue) -> None:
    """Count from now on what becomes a dead letter."""
    queue.returns.attempts += queue.returns.dead
    queue.returns.dead = 0
