"""Producer flow control: who may send, who is told to wait for room, and who goes on. [C]"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from entrepot.base.errors import (
    AddressFull,
)
from entrepot.core.addressing.address_settings import FULL_BLOCK, FULL_DROP, FULL_FAIL, FULL_PAGE
from entrepot.core.addressing.routing import RoutingTable, Target
from entrepot.core.events import announcing
from entrepot.core.ports import Host
from entrepot.core.queue.queue import Queue
from entrepot.core.queue.stock import has_paged_enough, messages_held, octets_held
from entrepot.journal.space import Space
from entrepot.model.message import Message

SENT: Final = 0
BLOCKED: Final = 1  # accepted, and the producer should wait for space before it sends more
DROPPED: Final = 2  # by every queue to which it would have gone
DUPLICATE: Final = 3
SCHEDULED: Final = 4


@mypyc_attr(allow_interpreted_subclasses=True)
class SpaceWaiter:
    """A producer that was told BLOCKED. ``space`` is called once when there is room again."""

    def space(self) -> None:
        """Read on."""


class Waiting:
    """Who waits, and for what: a queue (None: any room), the disk, addresses that an operator blocked.

    ``room``: whether for room, too; for addresses alone it does not matter how full memory is.
    """

    def __init__(self, waiter: SpaceWaiter, queue: Queue | None, disk: bool, addresses: list[str], room: bool) -> None:
        self.waiter: SpaceWaiter = waiter
        self.queue: Queue | None = queue
        self.disk: bool = disk
        self.addresses: list[str] = addresses
        self.room: bool = room


class FlowControl:
    """Room for messages: in each queue, in memory and on disk."""

    def __init__(self, host: Host, table: RoutingTable) -> None:
        self.host: Host = host
        self.table: RoutingTable = table
        self.waiting: dict[int, Waiting] = {}
        self.barred: i64 = 0  # of these, those that wait for addresses alone
        self.blocking: Queue | None = None  # the queue on whose account the last BLOCKED was said
        self.blocking_disk: bool = False
        self.blocking_addresses: list[str] = []  # or the addresses that an operator blocked
        self.granted: bool = False  # a transaction is being carried out whose every send was granted before

    def verdict_of(self, queue: Queue) -> int:
        """Return SENT when ``queue`` may take another message, or what its policy says now that it is full."""
        if not queue.stock.is_full():
            return SENT
        policy = queue.policy
        full = policy.full
        if full == FULL_PAGE and has_paged_enough(queue.backlog, policy):
            full = policy.page_full
        if full == FULL_FAIL and not self.granted:
            octets = octets_held(queue.backlog, policy)
            raise AddressFull(
                f"the queue {queue.name!r} is full ({queue.backlog.count} messages, {octets} octets, "
                f"{self.host.memory.used} of {self.host.memory.limit} in the broker)",
                remedy="try again later, consume, or let it page to disk: full=PAGE",
            )
        if full == FULL_DROP:
            return DROPPED
        if self.blocks(queue):
            self.blame(queue, False)
            return BLOCKED
        return SENT

    def blame(self, queue: Queue | None, disk: bool, addresses: list[str] | None = None) -> None:
        """BLOCKED is said on account of this; `wait` comes next."""
        self.blocking = queue
        self.blocking_disk = disk
        self.blocking_addresses = [] if addresses is None else addresses

    def block(self, address: str) -> None:
        """Let the producers of ``address`` wait, whatever room there is, until `unblock`; a restart ends it, too.

        As Artemis' AddressControl.block. Who sends to it is told BLOCKED with his next message.
        """
        self.table.blocked[address] = True
        self.table.version += 1

    def unblock(self, address: str) -> None:
        """Let them go on at the end of this turn (`space_changed`), where there is room."""
        if self.table.blocked.pop(address, False):
            self.table.version += 1

    def is_blocked(self, target: Target) -> bool:
        """Return whether an operator blocked where ``target`` leads, with `wait` prepared: for what is sent later."""
        blocked = self.table.blocked
        if not blocked:
            return False
        found = [one.name for one in [target, *target.parts] if one.name in blocked and one.service is None]
        if found:
            self.blame(None, False, found)
        return len(found) > 0

    def check_room(self, queues: list[Queue]) -> int:
        """Return the worst that any of ``queues`` says about its room. Raises AddressFull."""
        verdict = SENT
        for queue in queues:
            verdict = max(verdict, self.verdict_of(queue))
        return verdict

    def takers(self, queues: list[Queue]) -> list[Queue]:
        """Return those of ``queues`` that do not drop what comes."""
        return [queue for queue in queues if self.verdict_of(queue) != DROPPED]

    def has_disk(self, message: Message, queues: list[Queue]) -> bool:
        """Say whether the limits of the disk let ``message`` go to ``queues`` without its producer waiting.

        Raises AddressFull where a queue's policy wants that; nothing is stored then.
        """
        full = self.host.journal.space.limits.full
        if full and (self.host.journal.space.limits.all or (message.durable and _one_is_durable(queues))):
            for queue in queues:
                if queue.policy.full == FULL_FAIL and not self.granted:
                    raise AddressFull(full, remedy="consume, or raise the limit of the store")
            self.blame(None, True)
            return False
        if self.host.journal.space.temp_full():
            rare = message.rare
            large = rare is not None and rare.large_id != 0
            for queue in queues:
                if not (message.durable and queue.durable) and (large or queue.stock.is_full()):
                    self.blame(queue, True)
                    return False
        return True

    def blocks(self, queue: Queue) -> bool:
        """Return whether ``queue`` stops producers when it is full: by policy, or for want of a disk to page to."""
        full = queue.policy.full
        if full == FULL_PAGE:
            return not self.host.journal.pages or self.host.journal.refusal() is not None
        return full == FULL_BLOCK

    def lacks_share(self, queue: Queue) -> bool:
        """Return whether ``queue`` is full and what may be lost has no more room on disk: its producers wait."""
        return bool(queue.stock.is_full() and self.host.journal.pages and self.host.journal.space.temp_full())

    def wait(self, key: i64, waiter: SpaceWaiter) -> None:
        """Call ``waiter.space`` when there is room again: memory at most half full, and so the queue that was full.

        Call it right after the send that was answered BLOCKED. Where that was an operator's doing, it is called when he
        unblocks: memory may be more than half full for as long as nobody reads.
        """
        if not self.waiting:
            why = f"an operator blocks {', '.join(self.blocking_addresses)}" if self.blocking_addresses else ""
            announcing.short_of_space(self.host.hub, self.host.memory.used, why)
        made = Waiting(waiter, self.blocking, self.blocking_disk, self.blocking_addresses, not self.blocking_addresses)
        known = self.waiting.get(int(key))
        if known is not None:  # it waits for all of that as well
            made.addresses = known.addresses + [one for one in made.addresses if one not in known.addresses]
            if known.room and not made.room:
                made.queue, made.disk, made.room = known.queue, known.disk, True
            self.barred -= i64(not known.room)
        self.waiting[int(key)] = made
        self.barred += i64(not made.room)

    def stop_waiting(self, key: i64) -> None:
        """Forget a waiter: its connection is gone, or it goes on."""
        known = self.waiting.pop(int(key), None)
        if known is not None:
            self.barred -= i64(not known.room)

    def free_waiters(self) -> None:
        """Let blocked producers go on, where there is room again."""
        memory = self.host.memory
        short = memory.used > memory.limit // 2 or memory.crowded
        if not self.waiting or (short and self.barred == 0):
            return
        free: list[SpaceWaiter] = []
        space = self.host.journal.space
        for key, waiting in list(self.waiting.items()):
            if waiting.addresses and _one_is_blocked(waiting.addresses, self.table.blocked):
                continue
            if waiting.room and (short or not self._has_room_for(waiting, space)):
                continue
            self.stop_waiting(key)
            free.append(waiting.waiter)
        if free and not self.waiting:
            announcing.space_again(self.host.hub, self.host.memory.used)
        for waiter in free:
            waiter.space()

    def _has_room_for(self, waiting: Waiting, space: Space) -> bool:
        """Return whether there is room again where ``waiting`` waits for it, besides in memory."""
        queue = waiting.queue
        gone = queue is None or self.table.queues.get(queue.name) is not queue
        if waiting.disk and (space.limits.full if queue is None else not gone and space.temp_full()):
            return False
        return queue is None or gone or _has_room_again(queue)

    def space_changed(self) -> None:
        """Something was settled: let blocked producers go on if there is room. The shell calls this once a turn."""
        if self.waiting:
            self.free_waiters()

    def limits_changed(self) -> None:
        """That the journal may store begins or ends (`Space.measure`): have all targets looked at again."""
        self.table.version += 1
        full = self.host.journal.space.limits.full
        if full:
            announcing.short_of_space(self.host.hub, self.host.journal.space.limits.stored, full)
        else:
            announcing.space_again(self.host.hub, self.host.journal.space.limits.stored)


def verdict_of_all(verdicts: list[int]) -> int:
    """Return what is said of a message to several: BLOCKED if one of ``verdicts`` is, DROPPED if all are, else SENT."""
    if BLOCKED in verdicts:
        return BLOCKED
    return DROPPED if DROPPED in verdicts and SENT not in verdicts else SENT


def _one_is_durable(queues: list[Queue]) -> bool:
    for queue in queues:  # noqa: SIM110 - a loop compiles to half the time of a generator
        if queue.durable:
            return True
    return False


def _one_is_blocked(addresses: list[str], blocked: dict[str, bool]) -> bool:
    return any(one in blocked for one in addresses)


def _has_room_again(queue: Queue) -> bool:
    """Return whether a queue that was full is at most half full."""
    policy = queue.policy
    backlog = queue.backlog
    octets, messages = octets_held(backlog, policy), messages_held(backlog, policy)
    return octets <= policy.max_octets // 2 and messages <= policy.max_messages // 2
