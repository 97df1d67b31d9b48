"""What topics remember for consumers that come later and ask for what was said before (classic.md 4.7).

One `Recollection` a topic, made by the first message whose policy says so (Classic's ``subscriptionRecoveryPolicy``).
It lives in memory and is gone after a restart. What it holds is charged to the broker's memory; a broker that is full
remembers less, and never refuses a message for what it remembers. [C]
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import MILLISECOND
from entrepot.base.patterns import MIXED, is_pattern
from entrepot.base.patterns import matches as pattern_matches
from entrepot.core.addressing.address_settings import (
    RECALL_COUNT,
    RECALL_LAST,
    RECALL_NONE,
    RECALL_OCTETS,
    RECALL_RETAINED,
)
from entrepot.core.addressing.policy import Policies, Policy
from entrepot.core.ports import Host
from entrepot.model.address import MULTICAST
from entrepot.model.message import BODY_EMPTY, Message

RETAIN: Final = "ActiveMQ.Retain"  # property of a message that asks to be kept
RETAINED: Final = "ActiveMQ.Retained"  # annotation of the copy that a late consumer gets of it


class Recollection:
    """The messages of one topic, oldest first, each with the instant at which it came: ms, of the monotonic clock."""

    def __init__(self) -> None:
        self.kept: deque[tuple[int, Message]] = deque()
        self.octets: i64 = 0


class Recollections:
    """All that the topics of one broker remember."""

    def __init__(self, host: Host, policies: Policies) -> None:
        self.host: Host = host
        self.policies: Policies = policies
        self.topics: dict[str, Recollection] = {}

    def add(self, topic: str, message: Message, policy: Policy) -> None:
        """Remember ``message``, and forget what is one too many now."""
        kind = policy.recall
        if kind == RECALL_NONE:
            return
        recollection = self.topics.get(topic)
        if recollection is None:
            recollection = Recollection()
            self.topics[topic] = recollection
        if kind == RECALL_RETAINED:
            if not _asks_to_stay(message):
                return
            self._forget(recollection, 0)
            if _is_empty(message):  # which is how one takes back what is kept
                return
        self.host.memory.hold(message)
        recollection.kept.append((int(self.host.now) // MILLISECOND, message))
        recollection.octets += message.size
        self._trim(recollection, policy)

    def recall(self, name: str) -> list[Message]:
        """Return what is remembered of ``name``, a pattern too, in the order in which it came; nothing expired."""
        topics = [name] if name in self.topics else []
        if is_pattern(name, MIXED):
            topics = [topic for topic in self.topics if pattern_matches(name, topic, MIXED)]
        found: list[Message] = []
        for topic in topics:
            policy = self.policies.of(topic, MULTICAST)
            recollection = self.topics[topic]
            self._trim(recollection, policy)
            for _, message in recollection.kept:
                if message.expiration == 0 or message.expiration > self.host.wall:
                    found.append(_marked(message) if policy.recall == RECALL_RETAINED else message)
        found.sort(key=_number)
        return found

    def held(self) -> list[Message]:
        """Return every message that is remembered, for the memory account."""
        return [message for recollection in self.topics.values() for _, message in recollection.kept]

    def _trim(self, recollection: Recollection, policy: Policy) -> None:
        kind = policy.recall
        if kind == RECALL_NONE:  # the policy was changed while the broker ran
            self._forget(recollection, 0)
        elif kind in (RECALL_LAST, RECALL_RETAINED):
            self._forget(recollection, 1)
        elif kind == RECALL_COUNT:
            self._forget(recollection, policy.recall_size)
        elif kind == RECALL_OCTETS:
            while recollection.octets > policy.recall_size:
                self._forget(recollection, len(recollection.kept) - 1)
        else:
            oldest = self.host.now // MILLISECOND - policy.recall_size
            while recollection.kept and recollection.kept[0][0] < oldest:
                self._forget(recollection, len(recollection.kept) - 1)
        memory = self.host.memory
        while recollection.kept and memory.used >= memory.limit:
            self._forget(recollection, len(recollection.kept) - 1)

    def _forget(self, recollection: Recollection, left: i64) -> None:
        """Forget the oldest until ``left`` are left."""
        while len(recollection.kept) > left:
            _, message = recollection.kept.popleft()
            recollection.octets -= message.size
            self.host.memory.release(message)


def _number(message: Message) -> int:
    return int(message.number)


def _asks_to_stay(message: Message) -> bool:
    asked = message.fact(RETAIN)
    return asked is True or asked == "true"


def _is_empty(message: Message) -> bool:
    said = message.common()
    return said.body_kind == BODY_EMPTY or not said.body


def _marked(message: Message) -> Message:
    copy = message.twin(message.address)
    copy.number = message.number
    copy.annotate(RETAINED, "true")
    return copy
