"""How what waits in a queue goes to its consumers. [C]

`core/queue/dispatch.py` says who may have a message and whose turn it is; this module walks through what waits, in
memory and on disk, a bounded step in each turn. It goes the simple way (the oldest to the next in the ring) as long as
all consumers may take everything; with selectors, groups, priorities or an exclusive consumer each consumer keeps a
cursor of its own. `core/queue/showing.py` is the dispatcher of a queue whose consumers remove nothing.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import UNLIMITED
from entrepot.core.effort import Effort
from entrepot.core.events import trace as facts
from entrepot.core.events.facts import MESSAGE_CONSUMED, MESSAGE_DISPATCHED
from entrepot.core.ports import Host, QueueAlarm
from entrepot.core.queue.backlog import LEVELS, Backlog, Reference, Search
from entrepot.core.queue.consumer import Consumer, Measurement, Source
from entrepot.core.queue.copying import COPY_OCTETS, to_find_out
from entrepot.core.queue.dispatch import Roster
from entrepot.core.queue.gate import Gate
from entrepot.core.queue.measuring import Measuring
from entrepot.core.queue.returns import EXPIRED_UNITS, Onward, Returns
from entrepot.core.queue.stock import RELOAD_OCTETS, RELOAD_STEP, Stock
from entrepot.model.message import Message

RELOAD_BELOW: Final = 512  # references in memory below which a paged queue reads on: half of a usual prefetch
SEARCH_STEP: Final = 2_000  # messages that a selective consumer may look through before others have their turn

SEARCHED: Final = 0  # what a search on disk comes to: nothing there
FOUND: Final = 1
INTERRUPTED: Final = 2  # the rest after others had their turn


class _Work(QueueAlarm):
    """Lets a queue look at its hold, and go on with a long search after others had their turn."""

    def __init__(self, due: int, dispatcher: Dispatcher) -> None:
        super().__init__(due)
        self.dispatcher = dispatcher

    def ring(self, now: int) -> None:
        dispatcher = self.dispatcher
        dispatcher.host.working.pop(int(dispatcher.source.identity), None)
        dispatcher.advance()
        dispatcher.resume_work()


class Dispatcher(Onward):
    """Gives what waits in one queue to its consumers."""

    def __init__(self, source: Source, stock: Stock, gate: Gate, returns: Returns) -> None:
        self.source: Source = source
        self.host: Host = source.host
        self.effort: Effort = source.host.effort
        self.stock: Stock = stock
        self.backlog: Backlog = stock.backlog
        self.roster: Roster = stock.roster
        self.gate: Gate = gate
        self.returns: Returns = returns
        self.stepping: bool = False  # a pass over what waits is not over: `resume_work` goes on with it
        self.delivered: i64 = 0
        returns.onward = self

    # -- when ---------------------------------------------------------------------------------------------------------

    def opened(self, consumer: Consumer) -> None:
        """``consumer``, which is attached, may take messages again: give it what waits."""
        if consumer.listed or not consumer.window.is_open():
            return
        self.roster.list(consumer)
        if self.backlog.loaded > 0 or self.backlog.paged_count > 0:
            self.dispatch()

    def resume(self) -> None:
        """Lift an operator's pause."""
        self.gate.resume()
        self.stock.announce()
        self.rescan()

    def rescan(self) -> None:
        """Somebody's right to a waiting message may have changed: let every consumer look again."""
        self.roster.rescan()
        self.dispatch()

    def release_hold(self) -> None:
        """Begin to dispatch if consumers enough have come, or waited long enough."""
        if self.host.ceased:
            return
        if self.gate.release(self.roster.readers(), self.host.now):
            self.rescan()
            return
        due = self.gate.begin_wait(self.host.now)
        if due != 0:
            self.host.timetable.add(_Work(int(due), self))

    def advance(self) -> None:
        """Let go of a hold whose time is over."""
        if self.gate.held and self.gate.held_until:
            self.release_hold()

    def close_group(self, group: str) -> None:
        """Forget who owns ``group``; '' forgets all owners."""
        groups = self.roster.groups
        if groups is not None:
            if group:
                groups.close(group)
            else:
                groups.reset()
            self.rescan()

    def show_again(self, consumer: Consumer, reference: Reference, attempted: bool) -> None:
        """``consumer`` gave back what it was shown. Queues whose consumers take messages out show none."""
        self.stock.finish(reference)

    def resume_work(self) -> None:
        """Go on with a search that was not over when its turn was."""
        self.stepping = False
        self.dispatch()

    def _step_later(self) -> None:
        """Go on with what waits in memory after others had their turn; what comes meanwhile waits behind it."""
        self.stepping = True
        self._work_later()

    def _work_later(self) -> None:
        """Have `resume_work` called in the next turn."""
        host = self.host
        identity = int(self.source.identity)
        if identity not in host.working:
            host.working[identity] = True
            host.timetable.add(_Work(int(host.now), self))

    # -- to whom ------------------------------------------------------------------------------------------------------

    def hand(self, consumer: Consumer, message: Message, reference: Reference | None) -> None:
        """Deliver to ``consumer``, which has credit and wants it. ``reference`` is None for one that never waited."""
        source = self.source
        self.delivered += 1
        rare = message.rare
        measurement: Measurement | None = None
        if rare is not None or len(message.raw) >= COPY_OCTETS:
            measurement = to_find_out(self.host, message, consumer)
        consumer.delivered += 1
        deliveries: i64 = 0 if reference is None else reference.deliveries
        tracked = consumer.tracked or measurement is not None
        run = consumer.delivery_run
        if run is not None:
            run.note(_delivered(tracked, deliveries), message.number)
        grouped = self.roster.groups is not None and rare is not None
        if grouped:
            grouped = self._enter_group(consumer, message)
        window = consumer.window
        if tracked:
            if reference is None:
                reference = self.stock.reference(message, 0)
            source.sent(consumer, reference)
            if source.policy.mark_delivered and deliveries == 0:
                self._mark(message, reference)
            if measurement is None:
                consumer.deliver(message, deliveries)
            else:
                Measuring(source, consumer, reference, measurement, deliveries, self._group_mark(grouped))
                grouped = False
        else:
            consumer.deliver(message, deliveries)
            source.settled += 1
            self.stock.done(message, reference)
            if source.fates.tells & MESSAGE_CONSUMED or message.watched:
                source.fates.consumed(source.place(), message, consumer.key)
        if source.fates.tells & MESSAGE_DISPATCHED or message.watched:
            source.fates.dispatched(source.place(), message, consumer.key, deliveries)
        if grouped:
            message.need_rare().annotations.pop(source.traits.group_first_key, None)
        if consumer.listed and not window.is_open():
            self.roster.unlist(consumer)

    def _group_mark(self, grouped: bool) -> str:
        return self.source.traits.group_first_key if grouped else ""

    def _enter_group(self, consumer: Consumer, message: Message) -> bool:
        """Note the owner of the group; True when ``message`` is marked as its first there, for this delivery only.

        JMSXGroupFirstForConsumer (classic.md 4.4), or the key that the policy names (artemis.md 4.5 group-first-key).
        """
        first = self.roster.took(consumer, message)
        if self.roster.changed:
            self.roster.rescan()
        key = self.source.traits.group_first_key
        if not first or not key:
            return False
        message.annotate(key, "true")
        return True

    def dispatch(self) -> None:
        """Give what waits to whoever is ready, until one of the two has run out, or this turn has done enough."""
        if self.gate.shut or self.stepping:
            return
        if self.roster.simple:
            self._dispatch_simply()
        else:
            self._dispatch_with_care()

    def _dispatch_simply(self) -> None:
        backlog = self.backlog
        roster = self.roster
        gone: i64 = 0
        while roster.ready:
            if backlog.paged_count > 0 and backlog.is_starved(RELOAD_BELOW, RELOAD_OCTETS // 2):
                self.stock.reload()
            reference = backlog.first()
            if reference is None:
                break
            if not self.returns.is_live(reference):
                gone += EXPIRED_UNITS
                if gone > self.effort.stride or self.effort.is_over():
                    self._step_later()
                    break
                continue
            consumer = roster.choose(reference.message)
            if consumer is None:
                break
            self.stock.remove(reference)
            self.effort.spent += 1
            self.hand(consumer, reference.message, reference)

    def _dispatch_with_care(self) -> None:
        """Let ready consumers look through what they have not seen: the highest priority first, equals in turn."""
        consumers = list(self.roster.consumers)
        at = 0
        while at < len(consumers):
            last = at + 1
            while last < len(consumers) and consumers[last].priority == consumers[at].priority:
                last += 1
            self._serve(consumers, at, last)
            if self.stepping:
                return  # from the first again: they have not seen what the others may have
            at = last
            if self.roster.changed:  # a group lost its owner: it may be the turn of the first ones again
                self.roster.changed = False
                at = 0

    def _serve(self, consumers: list[Consumer], at: int, last: int) -> None:
        """Give ``consumers[at:last]``, of one priority, a message each until none of them finds another."""
        progress = True
        while progress:
            progress = False
            if self.backlog.paged_count > 0 and self.backlog.is_starved(RELOAD_BELOW, RELOAD_OCTETS // 2):
                self.stock.reload()
            turn = at
            while turn < last:
                consumer = consumers[turn]
                if consumer.listed and self._scan(consumer):
                    progress = True
                    if self.roster.strict:
                        break
                if self.stepping:
                    return
                turn += 1

    def _scan(self, consumer: Consumer) -> bool:
        """Find and hand over the next message for ``consumer``; False when there is none or it has no credit.

        A long search ends in the middle, ``stepping``, and goes on from there in a later turn.
        """
        if not consumer.window.is_open():
            self.roster.unlist(consumer)
            return False
        backlog = self.backlog
        reference = backlog.first() if consumer.fresh else consumer.cursor
        consumer.fresh = False
        # priorities 9 to 0 (classic.md 4.3): what is on disk goes before what is in memory of a lower level
        ranked = backlog.paged_count > 0 and backlog.levels is not None
        level: i64 = LEVELS
        looks: i64 = 0
        gone: i64 = 0
        while reference is not None:
            looks += 1
            if looks + gone > self.effort.stride or (gone > 0 and self.effort.is_over()):
                self.effort.spent += looks
                consumer.cursor = reference
                self._step_later()
                return False
            if ranked and backlog.level_of(reference.message) < level:
                level = backlog.level_of(reference.message)
                consumer.cursor = reference
                found = self._search(consumer, level)
                if found != SEARCHED:
                    return found == FOUND
            if backlog.mixed and self._has_older(reference):
                consumer.cursor = reference
                found = self._search(consumer, backlog.level_of(reference.message) - 1, reference.number)
                if found != SEARCHED:
                    return found == FOUND
            following = backlog.following(reference)
            if self.roster.may_take(consumer, reference.message):
                consumer.cursor = reference
                if not self.returns.is_live(reference):
                    gone += EXPIRED_UNITS
                    reference = following
                    continue
                self.stock.remove(reference)
                consumer.cursor = following
                self.effort.spent += 1 + (looks >> 1)
                self.hand(consumer, reference.message, reference)
                return True
            reference = following
        consumer.cursor = None
        return backlog.paged_count > 0 and self._search(consumer, -1) == FOUND

    def _has_older(self, reference: Reference) -> bool:
        """Return whether older ones than ``reference`` are on disk, which it could not follow when it came."""
        backlog = self.backlog
        if backlog.paged_count == 0:
            backlog.mixed = False
        return backlog.mixed and backlog.stands_behind(reference)

    def _search(self, consumer: Consumer, floor: i64, below: i64 = UNLIMITED) -> i64:
        """Look through the messages on disk above level ``floor`` for those that ``consumer`` wants.

        ``below``: of the lowest of these levels only those with a smaller number.
        FOUND: it was given some. SEARCHED: there is none. INTERRUPTED: the bounded step is over, `resume_work` goes on.
        """
        search = consumer.search
        if search is None:
            search = Search()
            consumer.search = search
        delivered = consumer.delivered
        examined = 0
        level = LEVELS - 1
        while level > floor and consumer.window.is_open():
            paged = self.backlog.behind(level)
            numbers: list[int] = [] if paged is None else paged.after(search.seen[level], RELOAD_STEP)
            if level == floor + 1 and numbers and numbers[-1] >= below:
                numbers = [number for number in numbers if number < below]
            if not numbers:
                level -= 1
                continue
            if examined >= SEARCH_STEP:
                self._work_later()
                return FOUND if consumer.delivered > delivered else INTERRUPTED
            examined += self._search_among(consumer, search, level, numbers)
        return FOUND if consumer.delivered > delivered else SEARCHED

    def _search_among(self, consumer: Consumer, search: Search, level: i64, numbers: list[int]) -> int:
        """Hand ``consumer`` those of ``numbers`` that it may take, until its credit ends; return how many it saw."""
        taken: list[Reference] = []
        examined = 0
        for message in self.stock.load(numbers):
            if self.stock.is_over(message) or self.stock.flaw(message) or self.roster.may_take(consumer, message):
                taken.append(self.stock.draw(message))
            search.seen[level] = int(message.number)
            examined += 1
            window = consumer.window
            if window.used + len(taken) >= window.messages or window.octets < UNLIMITED:
                break
        self.stock.strike(level, [int(reference.number) for reference in taken])
        for reference in taken:
            message = reference.message
            if not self.returns.is_sound(reference):
                continue
            if consumer.window.is_open() and self.roster.may_take(consumer, message):
                self.hand(consumer, message, reference)
            else:  # its socket or its group was lost to an earlier one
                self.stock.put_back(reference)
        return examined

    def _mark(self, message: Message, reference: Reference) -> None:
        """Note that ``message`` goes out for the first time: after a crash nobody could say whether it had.

        The record is written with what else the turn writes, and synced with the next confirmation: it survives a
        crash of the process, and may be lost with the machine. To wait for the disk before each delivery would cost
        more than the mark is worth.
        """
        if not reference.shown and (reference.paged or self.source.keeps(message)):
            self.host.journal.redelivered(message.number, self.source.identity, 1)


def _delivered(tracked: bool, deliveries: i64) -> i64:
    """Return what the trace has of a message that goes out for the time after ``deliveries`` earlier ones."""
    kind: i64 = facts.DELIVERED if tracked else facts.DELIVERED | (facts.SETTLED << 8)
    return kind | (min(deliveries, facts.DETAIL_MAX) << 16)
