"""What a queue tells of its messages: which of their fates somebody wants to hear of, and the facts about them. [C]

A queue asks `Fates.tells` before it calls one of the methods, so that a message nobody asked about costs that test.
"""

from __future__ import annotations

from mypy_extensions import i64

from entrepot.core.addressing.address_settings import RECALL_NONE
from entrepot.core.addressing.policy import Policy
from entrepot.core.events.facts import (
    ARRIVALS,
    MESSAGE_CONSUMED,
    MESSAGE_DELIVERED,
    MESSAGE_DISCARDED,
    MESSAGE_DISPATCHED,
    MESSAGE_REDELIVERED,
    MESSAGE_UNREAD,
    Hub,
    MessageFact,
    MessageHandled,
    Place,
    QueueFull,
)
from entrepot.model.address import ANYCAST
from entrepot.model.message import Message


class Fates:
    """The announcements of one queue about its messages."""

    def __init__(self, hub: Hub, policy: Policy) -> None:
        self.hub: Hub = hub
        self.policy: Policy = policy
        self.asked: i64 = 0
        self.tells: i64 = 0  # kinds of `facts.ON_REQUEST` that must be announced
        self.careful: bool = False  # a send must do more than hand the message out: tell of it, or remember it
        self.dropped: i64 = 0
        self.repeated: i64 = 0  # dropped because they were here already
        self.refresh()

    def refresh(self) -> None:
        """Look again who listens."""
        self.asked = self.policy.asked()
        self.tells = self.hub.tells(self.asked)
        self.careful = self.policy.recall != RECALL_NONE or self.tells & ARRIVALS != 0

    def drop(self) -> None:
        """Count a message that is thrown away."""
        self.dropped += 1

    def repeat(self) -> None:
        """Count a message that is dropped because it was here already."""
        self.repeated += 1

    def full(self, place: Place, message: Message, used: i64) -> None:
        """Tell that ``message`` comes to a queue which holds ``used`` octets, as many as it may."""
        self._announce(QueueFull(place, message, used))

    def arrived(self, place: Place, message: Message, read: bool) -> None:
        """Tell that ``message`` comes into the queue, and, if nobody reads it there and it can be lost, that too."""
        if self.tells & MESSAGE_DELIVERED:
            self._announce(MessageFact(MESSAGE_DELIVERED, place, message))
        if self.tells & MESSAGE_UNREAD and not read and not message.durable:
            self._announce(MessageFact(MESSAGE_UNREAD, place, message))

    def dispatched(self, place: Place, message: Message, consumer: i64, deliveries: i64) -> None:
        """Tell that ``message`` went out to ``consumer`` after ``deliveries`` earlier attempts."""
        self._announce(MessageHandled(MESSAGE_DISPATCHED, place, message, consumer, deliveries))

    def consumed(self, place: Place, message: Message, consumer: i64) -> None:
        """Tell that ``message`` is settled. Policies do not mean plain topic subscribers by that (classic.md 4.16)."""
        fact = MessageHandled(MESSAGE_CONSUMED, place, message, consumer, 0)
        fact.asked = place.routing == ANYCAST or place.owner is not None
        self._announce(fact)

    def discarded(self, place: Place, message: Message, consumer: i64) -> None:
        """Tell that ``message`` was thrown away, of a topic because ``consumer`` is too far behind."""
        self._announce(MessageHandled(MESSAGE_DISCARDED, place, message, consumer, self.dropped))

    def redelivered(self, place: Place, message: Message, deliveries: i64) -> None:
        """Tell that ``message`` came back and will be delivered again, after ``deliveries`` attempts."""
        self._announce(MessageHandled(MESSAGE_REDELIVERED, place, message, 0, deliveries))

    def _announce(self, fact: MessageFact) -> None:
        fact.asked = fact.asked and self.asked & fact.kind != 0
        self.hub.announce(fact)
