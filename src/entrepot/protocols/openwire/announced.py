"""What the core announces, as advisories: queues, consumers of other protocols, and the fates of messages.

Advisories about single messages are made only where the policy of their destination asks for them (classic.md 1.14 and
4.16); expired and dead messages are always told of. Nothing is put into words before somebody reads it.
"""

from __future__ import annotations

from typing import Final

from entrepot.base.errors import EntrepotError
from entrepot.base.patterns import MIXED, is_pattern
from entrepot.base.patterns import matches as pattern_matches
from entrepot.base.primitive import LONG, Primitive
from entrepot.core import notices
from entrepot.core.policy import Policy
from entrepot.core.ports import NoticePort
from entrepot.core.queue import Queue
from entrepot.model.address import ANYCAST, MULTICAST
from entrepot.model.message import Message
from entrepot.protocols.openwire.advisories import ADVISER_SESSION, PREFIX, Advisories, is_advisory, kind_word
from entrepot.protocols.openwire.commands import (
    ActiveMQMessage,
    ActiveMQTempTopic,
    ActiveMQTopic,
    ConnectionId,
    ConsumerId,
    ConsumerInfo,
    Destination,
    DestinationInfo,
    ProducerId,
    ProducerInfo,
    RemoveInfo,
    RemoveSubscriptionInfo,
)
from entrepot.protocols.openwire.convert import (
    FOREIGN_SESSION,
    OPENWIRE_LANGUAGE,
    message_of,
    named,
    presented,
    without_body,
)
from entrepot.protocols.openwire.ids import DestinationOperation, is_temporary, qualified_name, text_of

WORDS: Final = {
    notices.MESSAGE_EXPIRED: "Expired",
    notices.MESSAGE_DEAD: "MessageDLQd",
    notices.MESSAGE_DELIVERED: "MessageDelivered",
    notices.MESSAGE_DISPATCHED: "MessageDispatched",
    notices.MESSAGE_CONSUMED: "MessageConsumed",
    notices.MESSAGE_DISCARDED: "MessageDiscarded",
}
"""Notices about messages -> the part of the topic's name that says what happened."""

OF_EITHER_KIND: Final = ("Expired", "NoConsumer")
"""What is told of a temporary destination as of any other; the rest names it TempQueue or TempTopic, as in Classic."""

MESSAGE_ID: Final = "orignalMessageId"  # sic, both: this is how ActiveMQ writes them
DESTINATION: Final = "orignalDestination"
CONSUMER_ID: Final = "consumerId"


class Announced(NoticePort):
    """Takes the place of the broker's notice port and passes everything on to ``behind``."""

    def __init__(self, advisories: Advisories, behind: NoticePort) -> None:
        self.advisories = advisories
        self.broker = advisories.broker
        self.behind = behind
        self.temporaries: dict[str, ConnectionId] = {}  # queues of clients of other protocols

    def notice(self, what: str, subject: str, detail: dict[str, str]) -> None:
        """Tell what ``what`` means for readers of advisories, and pass it on."""
        self.behind.notice(what, subject, detail)
        if what == notices.QUEUE_CREATED:
            self._created(subject)
        elif what == notices.QUEUE_DELETED:
            self.advisories.bridged.pop(subject, None)
            connection_id = self.temporaries.pop(subject, None)
            if connection_id is not None:
                self.advisories.temporary_removed(named(subject, False, True), connection_id)
            elif detail.get("routing") == str(ANYCAST) and detail.get("temporary") != "1":
                self._destination(subject, DestinationOperation.REMOVE)
                self.advisories.queue_gone(named(subject, False, False))
        elif what == notices.TEMPORARY_TOPIC_CREATED:
            self._heard_of(subject, True)
        elif what == notices.TEMPORARY_TOPIC_DELETED:
            connection_id = self.temporaries.pop(subject, None)
            self.advisories.temporary_removed(named(subject, True, True), connection_id)
        elif what == notices.CONSUMER_ATTACHED:
            self._attached(subject, detail)
        elif what == notices.CONSUMER_DETACHED:
            self._detached(detail)
        elif what == notices.FOLLOWER_ATTACHED:
            self._follows(subject, detail)
        elif what == notices.FOLLOWER_DETACHED:
            self._detached(detail)
        elif what == notices.CONSUMER_SLOW:
            self._slow(detail)
        elif what == notices.SUBSCRIPTION_REMOVED:
            self._unsubscribed(detail)

    def about(self, what: str, queue: Queue, message: Message, detail: dict[str, str]) -> None:
        """Tell about ``message`` of ``queue``, and pass it on."""
        self.behind.about(what, queue, message, detail)
        where = self._place(queue)
        if is_advisory(where.physical_name or ""):
            return
        if what == notices.QUEUE_FULL:
            self._full(queue, where, message, detail)
        elif what == notices.MESSAGE_UNREAD:
            self._unread(where, message)
        elif what in WORDS:
            self._about(WORDS[what], where, message, detail, queue.policy)

    def about_topic(self, what: str, topic: str, message: Message) -> None:
        """Tell about ``message``, sent to ``topic``, and pass it on."""
        self.behind.about_topic(what, topic, message)
        if is_advisory(topic):
            return
        where = self._topic_named(topic)
        if what == notices.MESSAGE_UNREAD:
            self._unread(where, message)
        elif what in WORDS:
            self._about(WORDS[what], where, message, {}, self.broker.policies.of(topic, MULTICAST))

    def _place(self, queue: Queue) -> Destination:
        """Return `place_of` ``queue``, a temporary topic as what it is."""
        return self._topic_named(queue.address) if queue.routing == MULTICAST else place_of(queue)

    def _topic_named(self, name: str) -> Destination:
        return named(name, True, ActiveMQTempTopic(name) in self.advisories.temporaries)

    # -- messages -----------------------------------------------------------------------------------------------------

    def _about(self, word: str, where: Destination, message: Message, detail: dict[str, str], policy: Policy) -> None:
        """Tell of a message, with its headers and properties, and its body if the policy says so."""
        topic = _topic(word, where)
        if not self.advisories.is_read(topic):
            return
        identity = self.broker.ids.identity_of(message)
        told: dict[str, object] = {}
        if word != "MessageDLQd":
            told[MESSAGE_ID] = identity
        if word not in ("MessageDLQd", "Expired"):
            told[DESTINATION] = qualified_name(where)
        if "consumer" in detail:
            told[CONSUMER_ID] = self._consumer_text(detail["consumer"])
        if "discarded" in detail:
            told["discardedCount"] = int(detail["discarded"])
        try:
            shown = presented(message, where, identity, self.broker.ids.node_id, None)
            if not policy.advises_bodies:
                shown = without_body(shown)
        except EntrepotError:
            shown = ActiveMQMessage(destination=where)
        self.advisories.later(topic, shown, told)

    def _unread(self, where: Destination, message: Message) -> None:
        """Nobody reads ``where``: its message goes to the advisory topic itself, whole."""
        topic = _topic("NoConsumer", where)
        if not self.advisories.is_read(topic):
            return
        try:
            made = presented(
                message, ActiveMQTopic(topic), self.broker.ids.identity_of(message), self.broker.ids.node_id, None
            )
            self.advisories.later_send(topic, message_of(made, topic))
        except EntrepotError:
            return  # one that cannot be said cannot be shown

    def _full(self, queue: Queue, where: Destination, message: Message, detail: dict[str, str]) -> None:
        """A message comes for what is full: say so, and who sends it."""
        if queue.policy.advises_full:
            used = Primitive(LONG, int(detail["used"]))
            told: dict[str, object] = {"usageName": usage_name(where), "usageCount": used}
            self.advisories.later(_topic("FULL", where), None, told)
        topic = _topic("FastProducer", where)
        if queue.policy.advises_fast and self.advisories.is_read(topic):
            producer_id = self._sender(message)
            info = self.advisories.producers.get(producer_id) or ProducerInfo(producer_id=producer_id)
            self.advisories.later(topic, info, {"producerId": text_of(producer_id)})

    def _sender(self, message: Message) -> ProducerId:
        """Return who sent ``message``; all senders of other protocols are one."""
        producer_id: ProducerId | None = None
        if message.language is OPENWIRE_LANGUAGE:
            producer_id = OPENWIRE_LANGUAGE.opened(message).producer_id
        if producer_id is None:
            producer_id = ProducerId(connection_id=self.broker.ids.node_id, value=1, session_id=FOREIGN_SESSION)
        return producer_id

    # -- queues and topics --------------------------------------------------------------------------------------------

    def _created(self, name: str) -> None:
        queue = self.broker.table.queues.get(name)
        if queue is None:
            return
        if queue.routing == MULTICAST:
            if not is_pattern(queue.address, MIXED):
                self._topic_used(queue.address)
        elif queue.owner:
            self._temporary(queue)
        elif not queue.temporary:
            self._destination(name, DestinationOperation.ADD)
            self.advisories.queue_made(named(name, False, False))

    def _temporary(self, queue: Queue) -> None:
        """A client of another protocol made ``queue`` for itself. A Java client sends to none that it did not hear of.

        So it is told at once: whoever is given the name must know it already. Nothing else happens in its making.
        """
        connection, _, _ = queue.name.rpartition(":")
        if (
            connection != queue.owner and queue.name not in self.advisories.bridged
        ):  # those of OpenWire are reported by their session
            self._heard_of(queue.name, False)

    def _heard_of(self, name: str, topic: bool) -> None:
        """Tell of the temporary destination ``name`` of a client of another protocol."""
        connection_id = ConnectionId(name.rpartition(":")[0])
        self.temporaries[name] = connection_id
        made = DestinationInfo(
            connection_id=connection_id,
            destination=named(name, topic, True),
            operation_type=int(DestinationOperation.ADD),
        )
        self.advisories.temporary_added(made)

    def _topic_used(self, name: str) -> None:
        """As `Advisories.topic_used`, for when the core is at work."""
        topics = self.advisories.topics
        if name not in topics and not is_advisory(name) and not name.startswith("ID:"):
            topics[name] = True
            info = DestinationInfo(destination=ActiveMQTopic(name), operation_type=int(DestinationOperation.ADD))
            self.advisories.later(PREFIX + "Topic", info, {})

    def _destination(self, name: str, operation: DestinationOperation) -> None:
        info = DestinationInfo(destination=named(name, False, False), operation_type=int(operation))
        self.advisories.later(PREFIX + "Queue", info, {})

    # -- consumers ----------------------------------------------------------------------------------------------------

    def _attached(self, subject: str, detail: dict[str, str]) -> None:
        """A consumer came whose session does not report it: one of another protocol."""
        key = detail.get("consumer", "")
        queue = self.broker.table.queues.get(subject)
        if not key or key in self.advisories.own or queue is None or is_advisory(queue.address):
            return
        info = self._stranger(place_of(queue), key, detail)
        self.advisories.foreign[key] = info
        patterns = detail.get("patterns", "")
        if patterns and any(pattern_matches(pattern, subject, MIXED) for pattern in patterns.split(",")):
            return  # told of when it began to follow
        self._tell_of(info)

    def _follows(self, pattern: str, detail: dict[str, str]) -> None:
        """Somebody reads all queues that ``pattern`` covers: other brokers may have some that this one has not."""
        if detail.get("announces") or is_advisory(pattern):
            return
        key = detail["consumer"]
        info = self._stranger(named(pattern, False, False), key, detail)
        self.advisories.foreign[key] = info
        self._tell_of(info)

    def _tell_of(self, info: ConsumerInfo) -> None:
        assert info.consumer_id is not None
        assert info.destination is not None
        self.advisories.consumers[info.consumer_id] = info
        self.advisories.later_about_consumer(info.destination, info)

    def _stranger(self, where: Destination, key: str, detail: dict[str, str]) -> ConsumerInfo:
        """Return what an OpenWire client would have said of itself."""
        return ConsumerInfo(
            consumer_id=ConsumerId(connection_id=self.broker.ids.node_id, session_id=ADVISER_SESSION, value=int(key)),
            destination=where,
            client_id=detail.get("client") or detail.get("connection", ""),
            subscription_name=detail.get("subscription") or None,
            selector=detail.get("selector") or None,
            prefetch_size=int(detail.get("prefetch", "1000")),
            priority=int(detail.get("priority", "0")),
            exclusive=detail.get("exclusive") == "1",
            no_local=detail.get("no-local") == "1",
        )

    def _detached(self, detail: dict[str, str]) -> None:
        key = detail.get("consumer", "")
        self.advisories.own.pop(key, None)
        info = self.advisories.foreign.pop(key, None)
        if info is None or info.consumer_id is None or info.destination is None:
            return
        if self.advisories.consumers.pop(info.consumer_id, None) is not None:
            self.advisories.later_about_consumer(info.destination, RemoveInfo(object_id=info.consumer_id))

    def _slow(self, detail: dict[str, str]) -> None:
        queue = self.broker.table.queues.get(detail.get("queue", ""))
        if queue is None or not queue.policy.advises_slow or is_advisory(queue.address):
            return
        key = detail.get("consumer", "")
        told: dict[str, object] = {CONSUMER_ID: self._consumer_text(key)}
        self.advisories.later(_topic("SlowConsumer", self._place(queue)), self._consumer(key), told)

    def _unsubscribed(self, detail: dict[str, str]) -> None:
        """A durable subscription is gone for good."""
        topic = detail.get("topic", "")
        if not is_advisory(topic):
            info = RemoveSubscriptionInfo(
                client_id=detail.get("client", ""), subscription_name=detail.get("subscription", "")
            )
            self.advisories.later_about_consumer(named(topic, True, False), info)

    def _consumer(self, key: str) -> ConsumerInfo | None:
        return self.advisories.own.get(key) or self.advisories.foreign.get(key)

    def _consumer_text(self, key: str) -> str:
        """Return the id of a consumer as advisories write it."""
        info = self._consumer(key)
        return key if info is None or info.consumer_id is None else text_of(info.consumer_id)


def place_of(queue: Queue) -> Destination:
    """Return the destination that clients know ``queue`` by."""
    topic = queue.routing == MULTICAST
    return named(queue.address if topic else queue.name, topic, queue.temporary and not topic)


def usage_name(where: Destination) -> str:
    """Return how ActiveMQ calls the memory of a destination, a part of the broker's."""
    return f"Main:memory:{qualified_name(where)}:memory"


def _topic(word: str, where: Destination) -> str:
    kind = kind_word(where)
    if word not in OF_EITHER_KIND and is_temporary(where):
        kind = f"Temp{kind}"
    return f"{PREFIX}{word}.{kind}.{where.physical_name}"
