"""Retroactive addresses: a queue that is new gets the last messages of its address (artemis.md 4.5). [C]

As in Artemis an address whose settings say ``retroactive-message-count`` has an internal queue for each routing type,
and a divert that fills them. They keep the newest messages, and what is durable survives a restart. Both are made by
the first send, and go with the address. The message is not copied: it is one record in one queue more.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.core.addressing.address_settings import AddressSettings
from entrepot.core.addressing.addresses import Retroactive
from entrepot.core.addressing.binding import passes
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.addressing.policy import Policy
from entrepot.core.addressing.queues import Queues
from entrepot.core.addressing.routing import Divert, Forward, Target
from entrepot.core.ports import Host
from entrepot.core.queue.browser import Browser
from entrepot.core.queue.queue import Queue
from entrepot.core.sending.handing import hand_out
from entrepot.model.address import MULTICAST, UNTYPED
from entrepot.model.message import Message

PREFIX: Final = "$.artemis.internal."
SUFFIX: Final = ".retro"
TYPES: Final = (".queue.anycast", ".queue.multicast")  # by routing type
STEP: Final = 1_000  # messages that are looked at together
POLICY: Final = Policy(AddressSettings(dead_letter_address="", dead_letter_expired=False))
"""Of the internal queues: what expires is gone, and what does not fit memory is on disk."""


def queue_of(address: str, routing: int) -> str:
    """Return the name of the queue that keeps the last messages of ``address``, of one routing type."""
    return f"{PREFIX}{address}{TYPES[routing]}{SUFFIX}"


class Retroaction(Retroactive):
    """All retroactive addresses of one broker."""

    def __init__(self, host: Host, queues: Queues) -> None:
        self.host: Host = host
        self.queues: Queues = queues
        self.counts: dict[str, i64] = {}  # address -> how many messages its queues keep, since somebody sent there

    def prepare(self, address: str, count: i64) -> bool:
        """Have the last ``count`` messages of ``address`` kept from now on; return whether that is new."""
        if self.counts.get(address, 0) == count or address.startswith(PREFIX):
            return False
        table = self.queues.table
        inner = f"{PREFIX}{address}.address{SUFFIX}"
        known = address in self.counts
        self.counts[address] = count
        table.address(address)
        order = Divert(f"{PREFIX}{address}.divert{SUFFIX}", address, UNTYPED)
        order.keeps_unmatched = True
        forward = Forward(Target(inner, MULTICAST), None)
        for routing in range(len(TYPES)):
            name = queue_of(address, routing)
            queue = table.queues.get(name)
            if queue is None:
                queue = self.queues.create(
                    QueueDefinition(name=name, address=inner, routing=MULTICAST, max_consumers=0)
                )
            queue.policy = POLICY
            queue.remembers = True
            queue.pending_limit = count
            queue.taking.trim()
            forward.passing.append(Target(inner, MULTICAST, name))
        forward.passing.append(forward.target)  # without a type: to both
        order.forwards = [forward]
        if not known:
            self.queues.follow(order)
        return True

    def created(self, queue: Queue) -> None:
        """Give a new queue what its address remembers, before anything that comes now."""
        if queue.address.startswith(PREFIX):
            return
        source = self.queues.table.queues.get(queue_of(queue.address, queue.routing))
        if source is None:
            return
        most = self.queues.policies.of(queue.address, queue.routing).retroactive
        found: list[Message] = []
        browser = Browser([source], None)
        while not browser.done:
            found.extend(browser.next(STEP))
        host = self.host
        host.journal.begin()
        try:
            for message in found[max(0, len(found) - int(most)) :]:
                live = message.expiration == 0 or message.expiration > host.wall
                if live and passes(queue, message):
                    hand_out(host, host.ids.renumbered(message), [queue])
        finally:
            host.journal.end()

    def closed(self, queue: Queue, why: str) -> None:
        """Forget what an address kept that went with its last queue."""
        address = queue.address
        table = self.queues.table
        if address in table.addresses or address.startswith(PREFIX):
            return
        self.counts.pop(address, None)
        for routing in range(len(TYPES)):
            kept = table.queues.get(queue_of(address, routing))
            if kept is not None:
                self.queues.forget(f"{PREFIX}{address}.divert{SUFFIX}")
                self.queues.delete(kept, "its address is gone")
