"""What is still stored for other durable subscriptions, for a new one that is retroactive (classic.md 4.7). [C]

KahaDB lets such a subscription begin with the oldest message that its topic's store still has: what some subscriber has
not acknowledged yet.
"""

from __future__ import annotations

from typing import Final

from entrepot.base.patterns import MIXED, is_pattern
from entrepot.base.patterns import matches as pattern_matches
from entrepot.core.addressing.routing import RoutingTable
from entrepot.core.identities import Identities
from entrepot.core.queue.browser import Browser
from entrepot.core.queue.queue import Queue
from entrepot.model.address import MULTICAST
from entrepot.model.message import Message

STEP: Final = 1_000  # messages that are looked at together


def still_stored(table: RoutingTable, ids: Identities, queue: Queue) -> list[Message]:
    """Return each persistent message of the topic of ``queue`` that another durable subscription has, in order."""
    wide = is_pattern(queue.address, MIXED)
    others: list[Queue] = []
    for other in table.queues.values():
        if other is queue or other.routing != MULTICAST or not other.durable or not other.definition.owner:
            continue
        if wide or other.address == queue.address or is_pattern(other.address, MIXED):
            others.append(other)
    found: dict[str, Message] = {}
    browser = Browser(others, None)
    while not browser.done:
        for message in browser.next(STEP):
            if message.durable and (message.address == queue.address or _covers(queue.address, message.address)):
                found.setdefault(ids.identity_of(message), message)
    messages = list(found.values())
    messages.sort(key=_number)
    return messages


def _covers(pattern: str, name: str) -> bool:
    return is_pattern(pattern, MIXED) and pattern_matches(pattern, name, MIXED)


def _number(message: Message) -> int:
    return int(message.number)
