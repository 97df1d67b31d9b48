"""What operators do to queues: look, pause, purge, move, copy, retry, remove, delete; leases and schedules.

Each verb that touches many messages does a bounded step and says whether there is more (`Progress.done`); the caller
gives other work its turn in between. Each message is moved in one atomic batch of the journal: after a crash it is in
one place or the other, in both or neither never.

A moved message keeps the identity that clients know, gets a number of its own (its place is the end of the target), and
says where it came from as Artemis does (`_AMQ_ORIG_*`).
"""

from __future__ import annotations

from typing import Final

from entrepot.base.errors import InvalidDestination, LeaseError, StageError, StorageError
from entrepot.base.reasons import ABOUT, GIVEN_UP, Reason
from entrepot.core.addressing.binding import MOVED
from entrepot.core.broker import BrokerCore
from entrepot.core.events import trace as facts
from entrepot.core.operators.views import UNBOUNDED, need
from entrepot.core.queue.backlog import Reference
from entrepot.core.queue.bereaved import DEAD_CAUSE, is_bereaved
from entrepot.core.queue.dead_letters import (
    DEAD_COUNT,
    ORIGINAL_EXPIRATION,
    ORIGINAL_MODE,
    Home,
    mark_origin,
)
from entrepot.core.queue.queue import Queue
from entrepot.core.queue.taking import Pick
from entrepot.core.queue.walk import Walk
from entrepot.core.sending.handing import hand_out
from entrepot.core.stages.counting import NOBODY, Author
from entrepot.journal.condition import again
from entrepot.model.address import ANYCAST, MULTICAST, Destination, parse_one
from entrepot.model.message import Message
from entrepot.model.origins import ORIGIN_ANNOTATIONS, ORIGINAL_NUMBER
from entrepot.model.predicate import Predicate

STEP_MESSAGES: Final = 500  # a step moves this many: some ms, so that deliveries are not held up
STEP_LOOKS: Final = 5_000  # and looks at this many


class Progress:
    """How far a verb has come that is done in steps."""

    def __init__(self) -> None:
        self.messages = 0
        self.done = False


# -- looking ----------------------------------------------------------------------------------------------------------


def drop_stages(broker: BrokerCore, sink: str, batch: int, part: str) -> int:
    """Drop the stages of a sink, of one batch (-1: all), of one part (""; all); return how many there were."""
    found = [stage for stage in broker.stages.of(sink, batch) if part in ("", stage.part)]
    for stage in found:
        broker.stages.drop(stage, "an operator dropped it")
    return len(found)


def publish_stages(broker: BrokerCore, sink: str, batch: int, parts: list[str]) -> int:
    """Publish ``parts`` of a batch, or those that were decided here, for the program that forgot; return the messages.

    0 where nothing of the batch is staged. What is larger than one batch of the journal goes on in later turns. Raises
    StageError where nothing was decided and no parts are named, and as PUBLISH does.
    """
    stages = broker.stages
    here = [stage.part for stage in stages.of(sink, batch) if stage.closed]
    if not here:
        return 0
    if not parts:
        decided = stages.decisions.get(sink, {}).get(batch)
        if decided is None:
            raise StageError(
                f"batch {batch} of {sink!r} was not decided here",
                remedy=f"name the parts that count, of {', '.join(sorted(here)[:20])}",
            )
        parts = [part for part in decided if part in here]
    count = stages.counts.held.get(sink)
    author = NOBODY if count is None else Author(counter=count.counter)
    return int(stages.publish(sink, batch, parts, author).count)


# -- acting on a whole queue ------------------------------------------------------------------------------------------


def pause(broker: BrokerCore, name: str) -> None:
    """Stop delivery from a queue; a durable queue is paused after a restart, too."""
    queue = need(broker, name)
    queue.gate.pause()
    broker.queues.keep(queue)


def resume(broker: BrokerCore, name: str) -> None:
    """Deliver again."""
    queue = need(broker, name)
    queue.dispatcher.resume()
    broker.queues.keep(queue)


def purge(broker: BrokerCore, name: str, progress: Progress) -> None:
    """Remove some of what waits in a queue; what is in flight or leased stays. Call until ``progress.done``."""
    gone = int(need(broker, name).taking.purge(STEP_MESSAGES))
    progress.messages += gone
    progress.done = gone < STEP_MESSAGES


def delete(broker: BrokerCore, name: str, *, if_empty: bool = False, if_unused: bool = False) -> int:
    """Delete a queue with all that it holds, leases included; return how many messages went.

    Raises InvalidDestination when there is none, or it is not as the caller demands.
    """
    queue = need(broker, name)
    if if_empty and queue.count > 0:
        raise InvalidDestination(f"the queue {name!r} holds {queue.count} messages", remedy="purge it first")
    if if_unused and (queue.roster.is_read() or broker.leases.on(queue)):
        raise InvalidDestination(f"the queue {name!r} has consumers or leases", remedy="close them first")
    return int(broker.queues.delete(queue, "an operator deleted it"))


def release(broker: BrokerCore, name: str, group: str) -> int:
    """Take a lease away from its reader: what it held goes back in order. Return how many messages that were.

    Raises LeaseError when there is none.
    """
    lease = broker.leases.held.get((name, group))
    if lease is None:
        raise LeaseError(f"{group!r} holds no lease on {name!r}")
    return broker.leases.release(lease)


def cancel_scheduled(broker: BrokerCore, number: int) -> bool:
    """Forget a message that waits for its time; False when there is none of that number."""
    if number not in broker.scheduled.schedules:
        return False
    broker.scheduled.cancel(number)
    return True


# -- moving -----------------------------------------------------------------------------------------------------------


def _queue_named(broker: BrokerCore, text: str) -> Queue:
    destination = parse_one(text, ANYCAST)
    if destination.routing == MULTICAST and not destination.queue:
        raise InvalidDestination(f"{text!r} is a topic", remedy="name a queue, or one subscription as topic://T::queue")
    return broker.queues.need(destination)


class Move:
    """Moves what waits in one queue to another, or copies it, a step at a time, in order.

    ``most`` bounds how many. Messages that come to the source after the move began are not touched: a move onto a
    queue that feeds its source ends.
    """

    def __init__(
        self,
        broker: BrokerCore,
        source: str,
        target: str,
        selector: Predicate | None = None,
        most: int = UNBOUNDED,
        copies: bool = False,
    ) -> None:
        self.broker = broker
        self.source = need(broker, source)
        self.target = None if not target else _queue_named(broker, target)
        if self.target is self.source:
            raise InvalidDestination(f"source and target are both {source!r}", remedy="name another target")
        self.selector = selector
        self.most = most
        self.copies = copies
        self.progress = Progress()
        self.last = int(broker.ids.number)
        self.walk: Walk = self.source.stock.walk()

    def step(self) -> Progress:
        """Move some; call until ``done``.

        Raises StorageFull, StorageError, and InvalidDestination when the target was deleted meanwhile: what was not
        moved is where it was.
        """
        queues = self.broker.table.queues
        if queues.get(self.source.name) is not self.source:
            self.progress.done = True
            return self.progress
        target = self.target
        if target is not None and queues.get(target.name) is not target:
            raise InvalidDestination(
                f"the queue {target.name!r} was deleted after {self.progress.messages} messages had gone there",
                remedy="the rest is where it was; name another target",
            )
        refusal = self.broker.journal.refusal()
        if refusal is not None:
            raise again(refusal)
        most = min(STEP_MESSAGES, self.most - self.progress.messages)
        if self.copies:
            self._copy(most)
        else:
            self._move(most)
        if self.walk.done or self.progress.messages >= self.most:
            self.progress.done = True
        return self.progress

    def _move(self, most: int) -> None:
        taken = self.source.taking.take(self.walk, most, STEP_LOOKS, Pick(self.selector))
        at = 0
        try:
            while at < len(taken):
                reference = taken[at]
                if reference.number > self.last:
                    self.source.stock.put_back(reference)
                elif self.one(reference):
                    self.progress.messages += 1
                else:
                    self.source.stock.put_back(reference)
                at += 1
        except StorageError:
            for reference in taken[at:]:
                self.source.stock.put_back(reference)
            raise
        finally:
            self.source.dispatcher.dispatch()

    def one(self, reference: Reference) -> bool:
        """Move one message that was taken out, in one atomic batch; False when it has nowhere to go."""
        target = self._target_of(reference.message)
        if target is None or target is self.source:
            return False
        self.broker.journal.begin()
        try:
            self.source.note(facts.REMOVED, reference.number, 0, facts.MOVED)
            hand_out(self.broker, self._copy_of(reference.message, target), [target])
            self.source.stock.finish(reference)
        finally:
            self.broker.journal.end()
        return True

    def _copy(self, most: int) -> None:
        looks = STEP_LOOKS
        while not self.walk.done and most > 0 and looks > 0:
            found = self.walk.step(min(most, looks))
            looks -= len(found)
            for each in found:
                message = each.message
                if message.number > self.last or (self.selector is not None and not self.selector.matches(message)):
                    continue
                target = self._target_of(message)
                assert target is not None
                hand_out(self.broker, self._copy_of(message, target), [target])
                self.progress.messages += 1
                most -= 1

    def _target_of(self, message: Message) -> Queue | None:
        return self.target

    def _copy_of(self, message: Message, target: Queue) -> Message:
        copy = self.broker.ids.renumbered(message)
        copy.address = target.address
        source = self.source
        home = Home(source.address, source.routing, source.policy, source.name)
        mark_origin(copy, message, home, self.broker.ids.identity_of(message))
        return copy


class Retry(Move):
    """Sends dead letters back to the queues that they came from, as they were before (artemis.md 4.7)."""

    def __init__(
        self, broker: BrokerCore, source: str, selector: Predicate | None = None, most: int = UNBOUNDED
    ) -> None:
        super().__init__(broker, source, "", selector, most)
        self.homeless = 0

    def _target_of(self, message: Message) -> Queue | None:
        """Return the queue that ``message`` came from, made again if it may be.

        None for one that tells nothing, and for one that has lost its body.
        """
        if is_bereaved(message):  # an empty one must not be taken for what was sent
            self.homeless += 1
            return None
        rare = message.rare
        name = "" if rare is None else rare.annotations.get("_AMQ_ORIG_QUEUE", "")
        address = "" if rare is None else rare.annotations.get("_AMQ_ORIG_ADDRESS", name)
        queue = self.broker.table.queues.get(name)
        if queue is None and name and name == address:
            try:
                queue = self.broker.queues.need(Destination(name, ANYCAST))
            except InvalidDestination:
                queue = None
        if queue is None:
            self.homeless += 1
        return queue

    def _copy_of(self, message: Message, target: Queue) -> Message:
        """Return the message without what its death added. Its time to live, if it is over, is not given back."""
        copy = self.broker.ids.renumbered(message)
        annotations = copy.need_rare().annotations
        copy.address = annotations.get("_AMQ_ORIG_ADDRESS", target.address)
        if annotations.get(ORIGINAL_MODE) == "NON_PERSISTENT":
            copy.durable = False
        expiration = int(annotations.get(ORIGINAL_EXPIRATION, "0"))
        if expiration > self.broker.wall:
            copy.expiration = expiration
        for name in (*ORIGIN_ANNOTATIONS, DEAD_CAUSE, DEAD_COUNT, ORIGINAL_EXPIRATION, ORIGINAL_MODE):
            annotations.pop(name, None)
        copy.unmark(ORIGINAL_NUMBER)
        copy.mark(MOVED, copy.address)  # its first record is that of when it was sent: a replay sends it once
        copy.language.route(copy, target.routing)
        return copy


class Discard(Move):
    """Removes what a selector wants from a queue, a step at a time."""

    def __init__(
        self, broker: BrokerCore, source: str, selector: Predicate | None = None, most: int = UNBOUNDED
    ) -> None:
        super().__init__(broker, source, "", selector, most)

    def one(self, reference: Reference) -> bool:
        """Remove one message that was taken out."""
        self.source.note(facts.REMOVED, reference.number, 0, facts.DISCARDED)
        self.source.stock.finish(reference)
        return True


class Burial(Discard):
    """Sends messages to the dead letters of their queue, as if they had failed too often."""

    def __init__(
        self, broker: BrokerCore, source: str, selector: Predicate | None = None, most: int = UNBOUNDED
    ) -> None:
        super().__init__(broker, source, selector, most)
        policy = self.source.policy
        name = policy.dead_letter_address
        if not name or name in (self.source.name, self.source.address):
            raise InvalidDestination(
                f"the queue {source!r} has no dead-letter address", remedy="set dead_letter_address for it, or remove"
            )

    def one(self, reference: Reference) -> bool:
        """Make one message that was taken out a dead letter, in one atomic batch."""
        self.broker.journal.begin()
        try:
            self.source.note_dead(reference.number, ABOUT[GIVEN_UP])
            self.broker.dead_letter(self.source, reference.message, Reason(GIVEN_UP), reference.deliveries)
            self.source.stock.finish(reference)
        finally:
            self.broker.journal.end()
        return True


class Expiry(Discard):
    """Lets messages expire now, whatever time they have left."""

    def one(self, reference: Reference) -> bool:
        """Let one message that was taken out expire."""
        self.source.returns.expire(reference)
        return True


class Purge:
    """Removes all that waits in a queue when it begins, or the first ``most`` of it, unread; a step at a time."""

    def __init__(self, broker: BrokerCore, name: str, most: int = UNBOUNDED) -> None:
        self.queue = need(broker, name)
        self.progress = Progress()
        self.left = max(0, min(most, int(self.queue.backlog.count) + len(self.queue.returns.delayed)))

    def step(self) -> Progress:
        """Remove some; call until ``done``."""
        most = min(STEP_MESSAGES, self.left)
        gone = int(self.queue.taking.purge(most)) if most > 0 else 0
        self.left -= gone
        self.progress.messages += gone
        self.progress.done = gone < most or self.left == 0
        return self.progress


class Count:
    """Counts what waits in a queue and a selector wants; a step at a time."""

    def __init__(self, broker: BrokerCore, name: str, selector: Predicate) -> None:
        self.selector = selector
        self.progress = Progress()
        self.walk: Walk = need(broker, name).stock.walk()

    def step(self) -> Progress:
        """Count on; call until ``done``."""
        for each in self.walk.step(STEP_LOOKS):
            if self.selector.matches(each.message):
                self.progress.messages += 1
        self.progress.done = self.walk.done
        return self.progress


def is_named(broker: BrokerCore, message: Message, identity: str | int) -> bool:
    """Return whether ``identity`` is the number of ``message``, or the id that clients know."""
    if isinstance(identity, int):
        return bool(message.number == identity)
    return broker.ids.identity_of(message) == identity


class Removal:
    """Looks for one message among those that wait, and removes it, or does ``instead``; a step at a time.

    ``identity`` is the message id that clients know, or the number that the broker gave it.
    """

    def __init__(self, broker: BrokerCore, name: str, identity: str | int, instead: Move | None = None) -> None:
        self.broker = broker
        self.queue = need(broker, name)
        self.identity = identity
        self.instead = instead
        self.progress = Progress()
        self.walk: Walk = self.queue.stock.walk()

    def step(self) -> Progress:
        """Look on; ``messages`` is 1 when it was found and removed. Raises StorageFull, StorageError."""
        if self.broker.table.queues.get(self.queue.name) is not self.queue:
            self.progress.done = True
            return self.progress
        for each in self.walk.step(STEP_LOOKS):
            if is_named(self.broker, each.message, self.identity):
                self.progress.messages = self._act(self.queue.taking.take_found(each))
                self.progress.done = True
                return self.progress
        self.progress.done = self.walk.done
        return self.progress

    def _act(self, reference: Reference) -> int:
        if self.instead is None:
            self.queue.note(facts.REMOVED, reference.number, 0, facts.DISCARDED)
            self.queue.stock.finish(reference)
            return 1
        refusal = self.broker.journal.refusal()
        try:
            if refusal is not None:
                raise again(refusal)
            done = self.instead.one(reference)
        except StorageError:
            self._put_back(reference)
            raise
        if not done:
            self._put_back(reference)
        return 1 if done else 0

    def _put_back(self, reference: Reference) -> None:
        self.queue.stock.put_back(reference)
        self.queue.dispatcher.dispatch()
