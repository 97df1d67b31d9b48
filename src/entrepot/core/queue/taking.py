"""Messages taken out of a queue without a consumer: for leases and moves, by sweeps, purges and limits. [C]"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.errors import StorageError
from entrepot.core.effort import Effort, Rest
from entrepot.core.events import trace as facts
from entrepot.core.queue.backlog import LEVELS, Backlog, Reference
from entrepot.core.queue.head import QueueHead
from entrepot.core.queue.returns import Returns
from entrepot.core.queue.stock import RELOAD_MESSAGES, Stock
from entrepot.core.queue.walk import Found, Walk
from entrepot.journal.reading import Heads
from entrepot.model.message import OVERHEAD_BYTES, Message
from entrepot.model.predicate import Predicate

TAKE_OCTETS: Final = 16 * 1024 * 1024  # bodies that one `take` may hold at a time
DRAW_MESSAGES: Final = 2048  # heads that are read together
DRAW_OCTETS: Final = 4 * 1024 * 1024
SWEEP_READS: Final = 4  # so often one sweep reads in more from disk: 16 MiB, of which each is gone before the next
SWEEP_LOOKS: Final = 2_000  # messages that one sweep looks at: 0.1 ms compiled


class Pick:
    """Which messages are taken: those that ``selector`` lets pass, stamped within ``since`` and ``until`` (ms since
    1970; 0: any), until their bodies have ``most`` octets together (0: any number). ``octets``: of those it took.
    """

    def __init__(self, selector: Predicate | None, since: i64 = 0, until: i64 = 0, most: i64 = 0) -> None:
        self.selector: Predicate | None = selector
        self.since: i64 = since
        self.until: i64 = until
        self.most: i64 = most
        self.octets: i64 = 0

    def is_full(self) -> bool:
        """Return whether it has as many octets as it may; the message that reached that is in it."""
        return self.most > 0 and self.octets >= self.most

    def takes(self, message: Message) -> bool:
        """Return whether ``message`` is taken, and count it."""
        if message.timestamp < self.since or (self.until > 0 and message.timestamp > self.until):
            return False
        selector = self.selector
        if selector is not None and not selector.matches(message):
            return False
        self.octets += len(message.raw)
        if message.rare is not None:
            self.octets += message.rare.large_length
        return True


class Drawn:
    """Plain messages that were taken out of what waits on disk, by their numbers, and were not made (`Heads`)."""

    def __init__(self) -> None:
        self.numbers: list[int] = []


class Taking:
    """Takes messages out of one queue's stock."""

    def __init__(self, head: QueueHead, stock: Stock, returns: Returns) -> None:
        self.head: QueueHead = head
        self.stock: Stock = stock
        self.backlog: Backlog = stock.backlog
        self.returns: Returns = returns
        self.swept: Reference | None = None  # where the last sweep for expired messages ended

    def sweep(self, most: i64) -> i64:
        """Expire up to ``most`` messages whose time is over, looking at a part of the backlog; return how many.

        Of what is on disk only the next are read in, where nothing is in memory: RELOAD_OCTETS, and the next of them
        when all of those are over.
        """
        if self.stock.expiring <= 0:
            return 0
        backlog = self.backlog
        gone: i64 = 0
        reads: i64 = 0
        while gone < most:
            if backlog.loaded == 0:
                if backlog.paged_count == 0 or reads >= SWEEP_READS or not self.stock.reload():
                    break
                reads += 1
            some = self._sweep_memory(most - gone)
            gone += some
            if some == 0 or backlog.loaded > 0:
                break
        return gone

    def _sweep_memory(self, most: i64) -> i64:
        backlog = self.backlog
        gone: i64 = 0
        looks: i64 = 0
        reference = self.swept
        if reference is None or not reference.linked:
            reference = backlog.first()
        while reference is not None and gone < most and looks < SWEEP_LOOKS:
            following = backlog.following(reference)
            if not self.returns.is_live(reference):
                gone += 1
            looks += 1
            reference = following
        self.swept = reference
        return gone

    def take(self, walk: Walk, most: i64, looks: i64, pick: Pick) -> list[Reference]:
        """Take up to ``most`` waiting messages out, in order, looking at no more than ``looks``: for a lease or a move.

        The caller must `Stock.finish` or `Stock.put_back` each. It ends early when bodies are large; ask ``walk.done``.
        When ``pick`` is full, what the walk came to behind that is still there: begin another one.
        """
        taken: list[Reference] = []
        octets: i64 = 0
        while not walk.done and len(taken) < most and looks > 0 and octets < TAKE_OCTETS and not pick.is_full():
            try:
                found = walk.step(min(looks, most - len(taken)))
            except StorageError:
                if not taken:
                    raise
                break  # what was taken is no longer in the queue: who asks again is told
            looks -= len(found)
            wanted: list[Found] = []
            for each in found:
                if pick.is_full():
                    break
                message = each.message
                if self.stock.is_over(message):
                    wanted.append(each)
                elif pick.takes(message):
                    wanted.append(each)
                    octets += message.size
            for reference in self.take_all(wanted):
                if self.returns.is_sound(reference):
                    taken.append(reference)
        return taken

    def draw(self, drawn: Drawn, floor: i64, most: i64, pick: Pick) -> None:
        """Take plain messages out by what the heads of their records say, ahead of `take`, up to ``most``, in order.

        For who takes all that comes, behind the number ``floor``, and needs nothing of a message but that the journal
        has it. It ends before the first message that something is to be done about: one that is not plain, or over, or
        damaged; nothing is taken where something is in memory. What is not taken is for `take`. Raises StorageError,
        and then has taken what ``drawn`` says.
        """
        stock = self.stock
        backlog = self.backlog
        if backlog.loaded > 0 or backlog.owed is not None or not stock.journal.pages or not self._is_plain():
            return
        octets: i64 = 0
        level: i64 = LEVELS - 1
        while level >= 0:
            paged = backlog.behind(level)
            numbers: list[int] = []
            left: i64 = most - len(drawn.numbers)
            if paged is not None and left > 0 and octets < TAKE_OCTETS and not pick.is_full():
                numbers = paged.after(floor, min(left, DRAW_MESSAGES))
            if not numbers:
                level -= 1
                continue
            heads = stock.journal.reading.heads(numbers, DRAW_OCTETS)
            count = self._count_drawn(heads, pick)
            if count == 0:
                return
            octets += heads.octets
            found = numbers if count == len(numbers) else numbers[:count]
            if paged is not None and paged.front() == numbers[0]:
                backlog.take_paged(level, count)
            else:
                stock.strike(level, found)
            drawn.numbers.extend(found)
            if count < len(heads.sizes) or (count < len(numbers) and heads.octets < DRAW_OCTETS):
                return

    def _is_plain(self) -> bool:
        """Return whether a message that leaves this queue for a reader is known by its number alone."""
        traits = self.head.traits
        return self.head.durable and self.stock.numbered and not traits.non_destructive

    def _count_drawn(self, heads: Heads, pick: Pick) -> int:
        """Return how many of the first of ``heads`` are taken, and count them."""
        stock = self.stock
        at = 0
        while at < len(heads.sizes) and not pick.is_full():
            expiration: i64 = i64(heads.expirations[at])
            if expiration != 0:
                if expiration <= stock.host.wall:
                    break
                stock.expiring -= 1
            size: i64 = i64(heads.sizes[at])
            stock.backlog.lighten(size)
            pick.octets += size - OVERHEAD_BYTES
            at += 1
        return at

    def take_found(self, found: Found) -> Reference:
        """Take out what the last step of a `Walk` found; nothing else may have happened since."""
        return self.take_all([found])[0]

    def take_all(self, found: list[Found]) -> list[Reference]:
        """Take out what the last step of a `Walk` found, or some of it, in order; as `take_found`."""
        stock = self.stock
        references: list[Reference] = []
        numbers: list[int] = []
        level: i64 = -1
        for each in found:
            reference = each.reference
            if reference is not None:
                stock.remove(reference)
            else:
                if each.level != level:
                    stock.strike(level, numbers)
                    level = each.level
                    numbers = []
                numbers.append(int(each.message.number))
                reference = stock.draw(each.message)
            references.append(reference)
        stock.strike(level, numbers)
        return references

    def trim(self) -> i64:
        """Discard the oldest beyond the queue's ``pending_limit`` (classic.md 4.7); return how many."""
        backlog = self.backlog
        gone: i64 = 0
        while backlog.count > self.head.pending_limit:
            reference = backlog.first()
            if reference is None or (backlog.paged_count > 0 and backlog.is_starved(0, 0)):
                if not self.stock.reload():
                    return gone
                continue
            self.stock.remove(reference)
            self.head.note(facts.REMOVED, reference.number, 0, facts.OVERFLOWED)
            self.stock.finish(reference)
            self.head.drop(reference.message, self.stock.roster.last_key())
            gone += 1
        return gone

    def purge(self, most: i64 = 1 << 62) -> i64:
        """Remove up to ``most`` of the messages that wait; in flight and leased ones stay with their readers.

        Return how many went; fewer than ``most`` means that nothing waits any more.
        """
        stock = self.stock
        gone: i64 = 0
        why = facts.QUEUE_DELETED if self.head.deleted else facts.PURGED
        while gone < most:
            reference = self.backlog.first()
            if reference is None:
                break
            stock.remove(reference)
            self.head.note(facts.REMOVED, reference.number, 0, why)
            stock.finish(reference)
            gone += 1
        gone += self._purge_disk(most - gone, why)
        gone += self.returns.purge(most - gone, why)
        stock.emptied()
        return gone

    def _purge_disk(self, most: i64, why: i64) -> i64:
        gone: i64 = 0
        level: i64 = 0
        while level < LEVELS and gone < most:
            numbers = self.backlog.take_unread(level, min(RELOAD_MESSAGES, most - gone))
            for number in numbers:
                self.head.note(facts.REMOVED, number, 0, why)
                self.stock.discard(number)
                gone += 1
            if not numbers:
                level += 1
        return gone


class Emptying(Rest):
    """Purges what waits in a queue that keeps nothing without readers, some in each turn.

    What comes in meanwhile, for a reader that came, stays.
    """

    def __init__(self, effort: Effort, taking: Taking) -> None:
        super().__init__()
        self.effort: Effort = effort
        self.taking: Taking = taking
        self.left: i64 = 0

    def begin(self) -> None:
        """Purge all that waits now, or is set aside."""
        self.left = self.taking.backlog.count + len(self.taking.returns.delayed)
        self.resume()

    def resume(self) -> None:
        """Purge the next."""
        effort = self.effort
        while self.left > 0:
            most = min(effort.stride, self.left)
            gone = self.taking.purge(most)
            effort.spent += gone
            self.left = self.left - gone if gone == most else 0
            if self.left > 0 and effort.is_over():
                effort.later(self)
                return
