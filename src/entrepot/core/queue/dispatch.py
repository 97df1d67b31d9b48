"""Who gets the next message: priority, exclusive owner, message groups, round robin. [C]

The roster of one queue. The common case (no selector, no group, no exclusive consumer, one priority) takes a ring of
ready consumers; everything else walks the consumers in order. Both give the order of `classic.md` 4.3: highest priority
first, among equals the one that was not served last. Consumer priority, exclusive consumers and the group settings of
Artemis (buckets, rebalance, first key) are decided here; max-consumers where a consumer attaches (`queue.py`).

Invariant: a consumer is in ``ready`` exactly when ``listed``; it may have lost its credit meanwhile through a window
that it shares, which is found out when its turn comes.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

from mypy_extensions import i64

from entrepot.core.queue.backlog import Reference
from entrepot.core.queue.consumer import LEASE, REDISTRIBUTOR, Consumer
from entrepot.model.message import Message

HIGHEST_CONSUMER_PRIORITY: Final = 127  # an exclusive consumer of this priority always takes over (classic.md 4.3)
GROUPS_KEPT: Final = (
    65_536  # owners remembered a queue; beyond, the oldest group loses its stickiness (as Classic's LRU)
)


class Groups:
    """Message group -> the consumer that owns it. ``buckets`` > 0 assigns hash buckets instead of single groups."""

    def __init__(self, buckets: i64) -> None:
        self.buckets: i64 = buckets
        self.owners: dict[str, Consumer] = {}
        self.evicted: i64 = 0

    def key(self, group: str) -> str:
        """Return what is owned: the group, or its bucket."""
        if self.buckets <= 0:
            return group
        return str(crc32(group.encode()) % int(self.buckets))

    def owner(self, group: str) -> Consumer | None:
        """Return the consumer that owns ``group`` now."""
        return self.owners.get(self.key(group))

    def assign(self, group: str, consumer: Consumer) -> None:
        """Make ``consumer`` the owner of ``group``."""
        key = self.key(group)
        previous = self.owners.get(key)
        if previous is consumer:
            return
        if previous is not None:
            previous.groups -= 1
        elif len(self.owners) >= GROUPS_KEPT:
            self._evict()
        self.owners[key] = consumer
        consumer.groups += 1

    def close(self, group: str) -> None:
        """Forget the owner of ``group``: its next message may go to anybody."""
        owner = self.owners.pop(self.key(group), None)
        if owner is not None:
            owner.groups -= 1

    def leave(self, consumer: Consumer) -> None:
        """Drop all that ``consumer`` owns."""
        if consumer.groups > 0:
            for key in [key for key, owner in self.owners.items() if owner is consumer]:
                del self.owners[key]
            consumer.groups = 0

    def reset(self) -> None:
        """Forget every owner."""
        for owner in self.owners.values():
            owner.groups = 0
        self.owners.clear()

    def _evict(self) -> None:
        for oldest in self.owners:
            self.close(oldest)
            self.evicted += 1
            return


class Roster:
    """The consumers of one queue and the choice among them."""

    def __init__(self, buckets: i64) -> None:
        self.consumers: list[Consumer] = []  # priority descending, then the order of service
        self.own: int = 0  # of these, what the broker attached on its own account
        self.ready: list[Consumer] = []
        self.turn: i64 = 0
        self.simple: bool = True
        self.anew: bool = False  # it is simple, and has been since everybody was told to look from the head
        self.particular: dict[int, None] = {}  # keys of those who do not take just anything
        self.strict: bool = False  # strictOrderDispatch: the first consumer gets all until it is full
        self.exclusive: Consumer | None = None
        self.groups: Groups | None = None
        self.buckets: i64 = buckets
        self.all_exclusive: bool = False
        self.changed: bool = False  # a group lost its owner: messages that were passed over may go to somebody else

    def add(self, consumer: Consumer) -> None:
        """Take ``consumer`` in, behind those of its own priority."""
        consumers = self.consumers
        low = 0
        high = len(consumers)
        while low < high:
            middle = (low + high) >> 1
            if consumers[middle].priority >= consumer.priority:
                low = middle + 1
            else:
                high = middle
        consumers.insert(low, consumer)
        if consumer.selector is not None or consumer.no_local:
            self.particular[int(consumer.key)] = None
        if consumer.kind == REDISTRIBUTOR:
            self.own += 1
        if self._contends(consumer):
            self._contend(consumer)
        self._classify()

    def remove(self, consumer: Consumer) -> None:
        """Let ``consumer`` go; its groups and its exclusive right pass on."""
        self.unlist(consumer)
        self.particular.pop(int(consumer.key), None)
        if consumer in self.consumers:
            self.consumers.remove(consumer)
            if consumer.kind == REDISTRIBUTOR:
                self.own -= 1
        groups = self.groups
        if groups is not None:
            groups.leave(consumer)
        if self.exclusive is consumer:
            self.exclusive = None
            for candidate in self.consumers:
                if self._contends(candidate):
                    self.exclusive = candidate
                    break
        self._classify()

    def redefine(self, all_exclusive: bool, buckets: i64) -> None:
        """Take the settings of a queue that was changed: the first consumer is the exclusive one, groups begin anew."""
        if buckets != self.buckets:
            self.buckets = buckets
            for consumer in self.consumers:
                consumer.groups = 0
            self.groups = None
        if all_exclusive != self.all_exclusive:
            self.all_exclusive = all_exclusive
            self.exclusive = None
            for consumer in self.consumers:
                if self._contends(consumer):
                    self._contend(consumer)
        self._classify()

    def readers(self) -> int:
        """Return how many consumers read for somebody: the broker's own redistributor does not."""
        return len(self.consumers) - self.own

    def is_read(self) -> bool:
        """Return whether anybody reads here."""
        return len(self.consumers) > self.own

    def last_key(self) -> i64:
        """Return the key of the last consumer in order; 0 when there is none."""
        return self.consumers[-1].key if self.consumers else 0

    def list(self, consumer: Consumer) -> None:
        """Mark ``consumer`` ready: it has credit and its peer reads."""
        if not consumer.listed:
            consumer.listed = True
            self.ready.append(consumer)

    def unlist(self, consumer: Consumer) -> None:
        """Mark ``consumer`` not ready."""
        if consumer.listed:
            consumer.listed = False
            turn = self.turn
            if turn < len(self.ready) and self.ready[turn] is consumer:
                del self.ready[turn]
            else:
                at = self.ready.index(consumer)
                del self.ready[at]
                if at < turn:
                    self.turn = turn - 1

    # -- how far each has looked ---------------------------------------------------------------------------------------

    def appended(self, reference: Reference, ranked: bool) -> None:
        """Let consumers that have seen everything look at ``reference`` when they come back.

        ``ranked``: there are priorities, and it may stand before what they have seen.
        """
        for consumer in self.consumers:
            if ranked:
                consumer.fresh = True
            elif consumer.cursor is None:
                consumer.cursor = reference

    def revisit(self, reference: Reference, ranked: bool) -> None:
        """``reference`` came back: consumers that have passed its place look at it again."""
        for consumer in self.consumers:
            cursor = consumer.cursor
            if ranked:
                consumer.fresh = True
            elif not consumer.fresh and (cursor is None or cursor.number > reference.number):
                consumer.cursor = reference

    def step_on(self, reference: Reference, following: Reference | None) -> None:
        """``reference`` leaves: cursors that stand on it go on to ``following``."""
        for consumer in self.consumers:
            if consumer.cursor is reference:
                consumer.cursor = following

    def rewind(self, level: i64, number: i64) -> None:
        """What has a number above ``number`` waits on disk again: searches of ``level`` begin behind that."""
        for consumer in self.consumers:
            search = consumer.search
            if search is not None:
                search.seen[level] = min(search.seen[level], number)

    def rescan(self) -> None:
        """Somebody's right to a waiting message may have changed: every consumer looks from the head again.

        The simple way moves nobody's cursor, so it is enough to say so once.
        """
        if self.anew:
            return
        self.anew = self.simple
        for consumer in self.consumers:
            consumer.search = None
            consumer.fresh = True
            consumer.cursor = None

    # -- the choice ---------------------------------------------------------------------------------------------------

    def saw_group(self) -> None:
        """Remember that messages with groups come here: the simple way no longer serves. 0 buckets: groups are off."""
        if self.groups is None and self.buckets != 0:
            self.groups = Groups(self.buckets)
            self._classify()

    def choose(self, message: Message) -> Consumer | None:
        """Return the ready consumer that ``message`` goes to now, and give the turn to the next; None: all wait."""
        if not self.simple:
            return self._choose_with_care(message)
        while self.ready:
            turn = self.turn
            if turn >= len(self.ready):
                turn = 0
            self.turn = turn
            consumer = self.ready[turn]
            if consumer.window.is_open():
                if not self.strict:
                    self.turn = turn + 1
                return consumer
            self.unlist(consumer)
        return None

    def foreseen(self, message: Message) -> Consumer | None:
        """Return whom `choose` would give ``message`` to now: it is asked, and what it moved is put back."""
        ready = self.ready
        consumers = self.consumers
        turn = self.turn
        self.ready = list(ready)
        self.consumers = list(consumers)
        try:
            return self.choose(message)
        finally:
            self.ready = ready
            self.consumers = consumers
            self.turn = turn
            for consumer in ready:
                consumer.listed = True

    def may_take(self, consumer: Consumer, message: Message) -> bool:
        """Return whether ``consumer`` may have ``message``: exclusive right, group owner, selector, no-local."""
        return self.reserved_for(consumer, message) is None and consumer.wants(message)

    def might_take(self, consumer: Consumer, message: Message) -> bool:
        """Return the same to somebody who only asks."""
        return self.reserved_for(consumer, message) is None and consumer.would_take(message)

    def reserved_for(self, consumer: Consumer, message: Message) -> Consumer | None:
        """Return another one who alone may have ``message``: the exclusive consumer, or the owner of its group."""
        exclusive = self.exclusive
        if exclusive is not None and exclusive is not consumer:
            return exclusive
        rare = message.rare
        groups = self.groups
        if groups is not None and rare is not None and rare.group and rare.group_sequence != 1:
            owner = groups.owner(rare.group)
            if owner is not None and owner is not consumer:
                return owner
        return None

    def took(self, consumer: Consumer, message: Message) -> bool:
        """Note that ``message`` goes to ``consumer``; return whether it is the first of its group there (4.4)."""
        rare = message.rare
        groups = self.groups
        if groups is None or rare is None or not rare.group or consumer.kind == REDISTRIBUTOR:
            return False  # what goes to another node is owned by who reads it there
        owner = groups.owner(rare.group)
        if rare.group_sequence < 0:
            self.changed = owner is not None
            groups.close(rare.group)  # the close takes effect after this message
        elif owner is not consumer:
            evicted = groups.evicted
            groups.assign(rare.group, consumer)
            self.changed = owner is not None or groups.evicted != evicted
        return rare.group_sequence == 1 or owner is not consumer

    def _choose_with_care(self, message: Message) -> Consumer | None:
        consumers = self.consumers
        at = 0
        fewest: Consumer | None = None
        where = 0
        unowned = self._is_unowned(message)
        while at < len(consumers):
            consumer = consumers[at]
            if fewest is not None and consumer.priority < fewest.priority:
                break
            if not consumer.window.is_open():
                self.unlist(consumer)  # or `Queue.opened` would think that it never stopped
            elif self.may_take(consumer, message):
                if not unowned:
                    self._served(at)
                    return consumer
                # a new group goes to the consumer with the fewest groups among equals (classic.md 4.3, step 2)
                if fewest is None or consumer.groups < fewest.groups:
                    fewest = consumer
                    where = at
            at += 1
        if fewest is not None:
            self._served(where)
        return fewest

    def _is_unowned(self, message: Message) -> bool:
        groups = self.groups
        rare = message.rare
        if groups is None or rare is None or not rare.group:
            return False
        return groups.owner(rare.group) is None

    def _served(self, at: int) -> None:
        """Move the consumer at ``at`` behind those of its own priority, unless order is strict or exclusive."""
        if self.strict or self.exclusive is not None:
            return
        consumers = self.consumers
        consumer = consumers[at]
        last = at
        while last + 1 < len(consumers) and consumers[last + 1].priority == consumer.priority:
            last += 1
        if last > at:
            del consumers[at]
            consumers.insert(last, consumer)

    def _contends(self, consumer: Consumer) -> bool:
        """Return whether ``consumer`` may be the exclusive one; nothing is dispatched to a lease: it would stop all."""
        return (self.all_exclusive or consumer.exclusive) and consumer.kind != REDISTRIBUTOR and consumer.kind != LEASE

    def _contend(self, consumer: Consumer) -> None:
        owner = self.exclusive
        if (
            owner is None
            or consumer.priority > owner.priority
            or (consumer.priority == HIGHEST_CONSUMER_PRIORITY and owner.priority == HIGHEST_CONSUMER_PRIORITY)
        ):
            self.exclusive = consumer

    def _classify(self) -> None:
        consumers = self.consumers
        level = not consumers or consumers[0].priority == consumers[-1].priority
        self.simple = level and self.exclusive is None and self.groups is None and not self.particular and self.own == 0
        if not self.simple:
            self.anew = False
