"""Answers to questions for statistics, as ``statisticsBrokerPlugin`` of ActiveMQ gives them (classic.md 7.6).

A message with a reply-to that is sent to `BROKER`, to `DESTINATION` and a name or wildcard, or to `SUBSCRIPTION` is not
queued: map messages go to its reply-to, one for each destination or subscription asked for. They have the keys of
ActiveMQ where there is such a figure here, and no others: there is no limit of the store to tell, time in queues is not
measured, and what was sent to a topic is only counted at its subscriptions.

Any number of answers may be asked for, so they are made in steps: other work has its turn between them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from entrepot.base.errors import EntrepotError
from entrepot.base.patterns import MIXED, is_pattern
from entrepot.base.patterns import matches as pattern_matches
from entrepot.base.primitive import INT, LONG, Primitive
from entrepot.base.reasons import TOO_MANY_REQUESTS, Reason
from entrepot.core.events import announcing
from entrepot.core.events.facts import Place
from entrepot.core.operators.service import TurnedService
from entrepot.core.queue.consumer import Consumer
from entrepot.core.queue.queue import Queue
from entrepot.model import address as names
from entrepot.model.address import ANYCAST, MULTICAST
from entrepot.model.message import DEFAULT_PRIORITY, Message
from entrepot.protocols.openwire.acceptor import Acceptor
from entrepot.protocols.openwire.advisories import ADVISER_SESSION, ADVISORY_TYPE, is_advisory
from entrepot.protocols.openwire.announced import place_of
from entrepot.protocols.openwire.bodies import map_message
from entrepot.protocols.openwire.commands import Destination, MessageId, ProducerId
from entrepot.protocols.openwire.convert import message_of, named
from entrepot.protocols.openwire.ids import is_queue, qualified_name

PREFIX: Final = "ActiveMQ.Statistics."
BROKER: Final = PREFIX + "Broker"
DESTINATION: Final = PREFIX + "Destination"
SUBSCRIPTION: Final = PREFIX + "Subscription"
RESET: Final = "ActiveMQ.Statistics.Broker.Reset"
FIRST: Final = "ActiveMQ.Statistics.Destination.Include.First.Message.Timestamp"
END_OF_LIST: Final = "ActiveMQ.Statistics.Destination.List.End.With.Null"

STATISTICIAN: Final = 3  # the producer of these, beside that of advisories
STEP: Final = 50  # answers in one turn
QUESTIONS_MAX: Final = 1_000  # that wait; more are dropped
PERCENT: Final = 100
INT_MAX: Final = 2**31 - 1
SCHEMES: Final = ("openwire", "stomp", "ssl", "stomp+ssl", "vm")

Figures = dict[str, object]
Answer = Callable[[], Figures | None]


class _Question:
    """What was asked for, and by whom. ``answers`` are made when their turn comes."""

    def __init__(self, reply_to: str, correlation_id: str | None) -> None:
        self.reply_to = reply_to
        self.correlation_id = correlation_id
        self.answers: deque[Answer] = deque()


class _Counts:
    """What a queue counted: messages that came, went out to consumers, expired, and left in any way."""

    def __init__(self, queue: Queue | None = None) -> None:
        self.came = 0 if queue is None else int(queue.accepted)
        self.dispatched = 0 if queue is None else int(queue.dispatcher.delivered)
        self.expired = 0 if queue is None else int(queue.returns.expired)
        self.left = 0 if queue is None else int(queue.settled + queue.returns.expired + queue.returns.dead)

    def add(self, other: _Counts, sign: int = 1) -> None:
        """Add, or take away, what ``other`` counted."""
        self.came += sign * other.came
        self.dispatched += sign * other.dispatched
        self.expired += sign * other.expired
        self.left += sign * other.left


class Statistics(TurnedService):
    """The service below `PREFIX`. ``places``: scheme -> where it listens; ``directory``: of the data."""

    def __init__(self, acceptor: Acceptor, places: Callable[[], Mapping[str, str]], directory: str) -> None:
        super().__init__(acceptor.broker)
        self.advisories: Final = acceptor.advisories
        self.places: Final = places
        self.directory: Final = directory
        self._questions: deque[_Question] = deque()
        self._sequence = 0
        self._before: dict[int, _Counts] = {}  # queue -> what it had counted at the last reset

    def take(self, message: Message, routing: int) -> None:
        """Note a question; who says not where the answer goes is not answered."""
        reply_to = text_in(message, "JMSReplyTo")
        if not reply_to:
            return
        if len(self._questions) >= QUESTIONS_MAX:
            place = Place("", message.address)
            announcing.dropped(self.broker.hub, place, message, "", Reason(TOO_MANY_REQUESTS))
            return
        question = _Question(reply_to, text_in(message, "JMSCorrelationID") or None)
        name = message.address
        if name.startswith(DESTINATION):
            pattern = name.removeprefix(DESTINATION).removeprefix(".")
            first = text_in(message, FIRST) != ""
            for where in self._destinations(pattern, routing == MULTICAST):
                question.answers.append(partial(self._of_destination, where, first))
            if text_in(message, END_OF_LIST):
                question.answers.append(dict)
        elif name.startswith(SUBSCRIPTION):
            for queue in self._queues():
                if not _is_fleeting_or_durable(queue):
                    for consumer in queue.roster.consumers:
                        question.answers.append(partial(self._of_subscription, queue, consumer))
        elif name.startswith(BROKER):
            if text_in(message, RESET):
                self._before = {int(queue.identity): _Counts(queue) for queue in self._queues()}
            question.answers.append(self._of_broker)
        self._questions.append(question)
        self.ask_turn()

    def turn(self) -> None:
        """Give some answers."""
        left = STEP
        while self._questions and left > 0:
            question = self._questions[0]
            while question.answers and left > 0:
                left -= 1
                self._answer(question, question.answers.popleft()())
            if not question.answers:
                self._questions.popleft()
        if self._questions:
            self.ask_turn()

    def _answer(self, question: _Question, figures: Figures | None) -> None:
        """Send one answer; an empty one is the end of a list. None: what was asked for is gone."""
        if figures is None:
            return
        broker = self.broker
        self._sequence += 1
        producer = ProducerId(connection_id=broker.ids.node_id, value=STATISTICIAN, session_id=ADVISER_SESSION)
        made = map_message(figures)
        made.producer_id = producer
        made.message_id = MessageId(producer_id=producer, producer_sequence_id=self._sequence)
        made.jms_type = ADVISORY_TYPE
        made.correlation_id = question.correlation_id
        made.priority = DEFAULT_PRIORITY
        made.timestamp = broker.wall
        granted = broker.flow.granted
        broker.flow.granted = True  # full or not
        try:
            place = names.parse_one(question.reply_to)
            if broker.addresses.service_at(place.name) is not None:
                return  # a broker that asks itself would never end
            target = broker.target([place])
            made.destination = named(place.name, place.routing == MULTICAST, place.temporary)
            broker.send(message_of(made, target.name), target)
        except EntrepotError as error:
            announcing.unrouted(broker.hub, None, question.reply_to, error)
        finally:
            broker.flow.granted = granted

    # -- figures -------------------------------------------------------------------------------------------------------

    def _queues(self) -> list[Queue]:
        """Return all queues, subscriptions to topics among them, but for advisories."""
        return [queue for queue in self.broker.table.queues.values() if not is_advisory(queue.address)]

    def _of_queues(self, queues: list[Queue], before: Mapping[int, _Counts]) -> Figures:
        """Return what is known of any set of queues. ``before``: what of their counts does not count."""
        counts = _Counts()
        for queue in queues:
            counts.add(_Counts(queue))
            if int(queue.identity) in before:
                counts.add(before[int(queue.identity)], -1)
        cached = sum(int(queue.backlog.count - queue.backlog.paged_count) for queue in queues)
        octets = sum(int(queue.backlog.octets) for queue in queues)
        return {
            "brokerName": self.broker.options.name,
            "brokerId": self.broker.ids.node_id,
            "size": _long(sum(int(queue.count) for queue in queues)),
            "enqueueCount": _long(counts.came),
            "dequeueCount": _long(counts.left),
            "dispatchCount": _long(counts.dispatched),
            "expiredCount": _long(counts.expired),
            "inflightCount": _long(sum(int(queue.in_flight) for queue in queues)),
            "messagesCached": _long(cached),
            "averageMessageSize": _long(octets // cached if cached else 0),
        }

    def _of_broker(self) -> Figures:
        broker = self.broker
        queues = self._queues()
        figures = self._of_queues(queues, self._before)
        figures["consumerCount"] = _long(sum(queue.roster.readers() for queue in queues))
        figures["producerCount"] = _long(len(self.advisories.producers))
        _memory(figures, int(broker.memory.used), int(broker.memory.limit))
        figures["storeUsage"] = _long(int(broker.journal.usage().disk))
        figures["dataDirectory"] = self.directory
        places = self.places()
        for scheme in SCHEMES:
            figures[scheme] = places.get(scheme, "")
        return figures

    # -- destinations --------------------------------------------------------------------------------------------------

    def _destinations(self, pattern: str, topic: bool) -> list[Destination]:
        """Return the queues or topics that ``pattern`` means, by their names."""
        table = self.broker.table
        if topic:
            found = [*self.advisories.topics, *(each.name for each in table.addresses.values() if each.has(MULTICAST))]
        else:
            found = [
                each.name for each in table.queues.values() if each.routing == ANYCAST and not each.definition.owner
            ]
        return [
            named(name, topic, False)
            for name in sorted(dict.fromkeys(found))
            if not is_advisory(name) and not is_pattern(name, MIXED) and pattern_matches(pattern, name, MIXED)
        ]

    def _of_destination(self, where: Destination, first: bool) -> Figures | None:
        table = self.broker.table
        name = where.physical_name or ""
        if is_queue(where):
            queue = table.queues.get(name)
            if queue is None:
                return None
            queues = [queue]
        else:
            address = table.addresses.get(name)
            queues = [] if address is None else address.multicast
        figures = self._of_queues(queues, {})
        if not is_queue(where):
            del figures["enqueueCount"]
        figures["destinationName"] = qualified_name(where)
        figures["consumerCount"] = _long(self.advisories.readers(where))
        figures["producerCount"] = _long(self.advisories.writers(where))
        limit = int(self.broker.memory.limit)
        if queues:
            limit = min(limit, int(queues[0].policy.max_octets))
        _memory(figures, sum(int(queue.backlog.octets) for queue in queues), limit)
        if first:
            came = [_came_first(queue) for queue in queues if queue.count]
            if any(came):
                figures["firstMessageTimestamp"] = _long(min(one for one in came if one))
        return figures

    # -- subscriptions -------------------------------------------------------------------------------------------------

    def _of_subscription(self, queue: Queue, consumer: Consumer) -> Figures | None:
        if consumer.queue is not queue:
            return None
        key = str(consumer.key)
        info = self.advisories.own.get(key) or self.advisories.foreign.get(key)
        identity = None if info is None else info.consumer_id
        limit = 0 if info is None else int(info.maximum_pending_message_limit)
        in_flight = len(consumer.in_flight)
        return {
            "brokerName": self.broker.options.name,
            "brokerId": self.broker.ids.node_id,
            "destinationName": place_of(queue.place()).physical_name,
            "clientId": consumer.connection,
            "connectionId": "" if identity is None else identity.connection_id or "",
            "sessionId": _long(0 if identity is None else int(identity.session_id)),
            "selector": None if consumer.selector is None else consumer.selector.text,
            "enqueueCounter": _long(int(consumer.delivered)),
            "dequeueCounter": _long(max(int(consumer.delivered) - in_flight, 0)),
            "dispatchedCounter": _long(int(consumer.delivered)),
            "dispatchedQueueSize": _long(in_flight),
            "prefetchSize": Primitive(INT, min(int(consumer.window.messages), INT_MAX)),
            "maximumPendingMessageLimit": Primitive(INT, limit),
            "exclusive": consumer.exclusive,
            "retroactive": info is not None and info.retroactive,
            "slowConsumer": consumer.slow,
        }


def text_in(message: Message, name: str) -> str:
    """Return a header or property as text; what is not set, or cannot be read, is ""."""
    try:
        value = message.fact(name)
    except EntrepotError:
        return ""
    return "" if value is None else str(value)


def _is_fleeting_or_durable(queue: Queue) -> bool:
    """Return whether ActiveMQ would not tell of its readers: those of temporary queues, and durable subscribers."""
    return queue.definition.subscription is not None if queue.routing == MULTICAST else queue.temporary


def _came_first(queue: Queue) -> int:
    """Return when the oldest of what waits was sent, ms since 1970; 0 when nothing waits."""
    for reference in queue.stock.walk().step(1):
        return int(reference.message.timestamp)
    return 0


def _memory(figures: Figures, used: int, limit: int) -> None:
    figures["memoryUsage"] = _long(used)
    figures["memoryLimit"] = _long(limit)
    figures["memoryPercentUsage"] = Primitive(INT, min(used * PERCENT // max(limit, 1), INT_MAX))


def _long(value: int) -> Primitive:
    return Primitive(LONG, value)
