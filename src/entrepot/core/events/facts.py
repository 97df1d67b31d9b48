"""Facts: what happened in the broker, as typed values, and the hub that hands each to every listener that wants it. [C]

Advisories, notifications, logs and metrics are listeners side by side. None knows of another, and none stands between
the core and another. A listener says which kinds it takes (`Listener.kinds`); nothing is built of one nobody takes.

The kinds in `ON_REQUEST` are about single messages. A listener hears them of the queues whose policy asks for them, or,
if they are in its `Listener.always`, of every queue. A queue keeps what it must tell in one integer (`Hub.tells`), so
that a message which nobody wants to hear of costs one test.

All listeners hear all facts in the order in which these happened: what a listener causes is heard after the fact that
it heard. An exception of a listener is reported as `ListenerFailed` to the others and goes no further.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from entrepot.core.owners import Owner
from entrepot.model.address import MULTICAST
from entrepot.model.message import Message
from entrepot.model.predicate import Predicate

QUEUE_ADDED: Final = 1 << 0
QUEUE_REMOVED: Final = 1 << 1
ADDRESS_ADDED: Final = 1 << 2
ADDRESS_REMOVED: Final = 1 << 3
BINDING_ADDED: Final = 1 << 4
BINDING_REMOVED: Final = 1 << 5
CONSUMER_ATTACHED: Final = 1 << 6
CONSUMER_DETACHED: Final = 1 << 7
FOLLOWER_ATTACHED: Final = 1 << 8  # a subscription to all queues of a pattern, whether one matches already or not
FOLLOWER_DETACHED: Final = 1 << 9
TEMPORARY_TOPIC_ADDED: Final = 1 << 10  # the core keeps nothing for it: the session that made it announces it
TEMPORARY_TOPIC_REMOVED: Final = 1 << 11
SUBSCRIPTION_REMOVED: Final = 1 << 12
CONNECTION_OPENED: Final = 1 << 13
CONNECTION_CLOSED: Final = 1 << 14
CONSUMER_SLOW: Final = 1 << 15
SPACE_SHORT: Final = 1 << 16
SPACE_FREE: Final = 1 << 17
JOB_REFUSED: Final = 1 << 18
LISTENER_FAILED: Final = 1 << 19
MESSAGE_EXPIRED: Final = 1 << 20
MESSAGE_DEAD: Final = 1 << 21
MESSAGE_DROPPED: Final = 1 << 22
MESSAGE_DUPLICATE: Final = 1 << 23
MESSAGE_UNROUTED: Final = 1 << 24
QUEUE_FULL: Final = 1 << 25  # this and those below, up to MESSAGE_REDELIVERED: on request
MESSAGE_UNREAD: Final = 1 << 26
MESSAGE_DELIVERED: Final = 1 << 27  # it came into a queue (the word of Classic's advisory)
MESSAGE_DISPATCHED: Final = 1 << 28
MESSAGE_CONSUMED: Final = 1 << 29
MESSAGE_DISCARDED: Final = 1 << 30
MESSAGE_REDELIVERED: Final = 1 << 31  # it came back from a consumer and will be delivered again
SESSION_OPENED: Final = 1 << 32  # of a protocol that has several on a connection: CORE
SESSION_CLOSED: Final = 1 << 33
LOGIN_REFUSED: Final = 1 << 34
RIGHT_REFUSED: Final = 1 << 35
BROKER_JOINED: Final = 1 << 36  # over the connection of a number come messages of another broker
BROKER_LEFT: Final = 1 << 37
BRIDGE_STARTED: Final = 1 << 38
BRIDGE_STOPPED: Final = 1 << 39
FORWARD_FAILED: Final = 1 << 40  # a bridge cannot send a message: it is a dead letter
MESSAGE_WATCHED: Final = 1 << 41  # a message whose trace is recorded came a stage further: core/events/watching.py

ON_REQUEST: Final = (
    QUEUE_FULL
    | MESSAGE_UNREAD
    | MESSAGE_DELIVERED
    | MESSAGE_DISPATCHED
    | MESSAGE_CONSUMED
    | MESSAGE_DISCARDED
    | MESSAGE_REDELIVERED
    | MESSAGE_WATCHED
)
ARRIVALS: Final = MESSAGE_DELIVERED | MESSAGE_UNREAD  # told on the way into a queue
EVERY_KIND: Final = (1 << 42) - 1

NAMES: Final = {
    QUEUE_ADDED: "queue.created",
    QUEUE_REMOVED: "queue.deleted",
    ADDRESS_ADDED: "address.created",
    ADDRESS_REMOVED: "address.deleted",
    BINDING_ADDED: "binding.added",
    BINDING_REMOVED: "binding.removed",
    CONSUMER_ATTACHED: "consumer.attached",
    CONSUMER_DETACHED: "consumer.detached",
    FOLLOWER_ATTACHED: "follower.attached",
    FOLLOWER_DETACHED: "follower.detached",
    TEMPORARY_TOPIC_ADDED: "temporary-topic.created",
    TEMPORARY_TOPIC_REMOVED: "temporary-topic.deleted",
    SUBSCRIPTION_REMOVED: "subscription.removed",
    CONNECTION_OPENED: "connection.opened",
    CONNECTION_CLOSED: "connection.closed",
    CONSUMER_SLOW: "consumer.slow",
    SPACE_SHORT: "address.full",
    SPACE_FREE: "address.free",
    JOB_REFUSED: "job.refused",
    LISTENER_FAILED: "listener.failed",
    MESSAGE_EXPIRED: "message.expired",
    MESSAGE_DEAD: "message.dead-lettered",
    MESSAGE_DROPPED: "message.dropped",
    MESSAGE_DUPLICATE: "message.duplicate",
    MESSAGE_UNROUTED: "message.unrouted",
    QUEUE_FULL: "queue.full",
    MESSAGE_UNREAD: "message.unread",
    MESSAGE_DELIVERED: "message.delivered",
    MESSAGE_DISPATCHED: "message.dispatched",
    MESSAGE_CONSUMED: "message.consumed",
    MESSAGE_DISCARDED: "message.discarded",
    MESSAGE_REDELIVERED: "message.redelivered",
    SESSION_OPENED: "session.opened",
    SESSION_CLOSED: "session.closed",
    LOGIN_REFUSED: "login.refused",
    RIGHT_REFUSED: "right.refused",
    BROKER_JOINED: "broker.joined",
    BROKER_LEFT: "broker.left",
    BRIDGE_STARTED: "bridge.started",
    BRIDGE_STOPPED: "bridge.stopped",
    FORWARD_FAILED: "bridge.forward-failed",
    MESSAGE_WATCHED: "message.watched",
}
"""Kind -> its stable name, for logs and metrics."""

LOCAL_QUEUE: Final = 0  # kinds of binding, numbered as in `_AMQ_Binding_Type` (artemis.md 1.15)
REMOTE_QUEUE: Final = 1
DIVERT: Final = 2


class Place:
    """Where a fact happened: a queue, or an address alone (no ``name``). ``flags``: durable, temporary, automatic."""

    def __init__(
        self,
        name: str,
        address: str,
        routing: i64 = MULTICAST,
        identity: i64 = 0,
        flags: tuple[bool, bool, bool] = (False, False, False),
        owner: Owner | None = None,
        condition: Predicate | None = None,
    ) -> None:
        self.name: str = name
        self.address: str = address
        self.routing: i64 = routing
        self.identity: i64 = identity
        self.began: i64 = -1  # of a queue: as `QueueHead` has it
        self.durable: bool = flags[0]
        self.temporary: bool = flags[1]
        self.auto_created: bool = flags[2]
        self.owner: Owner | None = owner
        self.filter: str = "" if condition is None else condition.text

    def called(self) -> str:
        """Return the name of the queue, or of the address where there is none."""
        return self.name or self.address


class Reader:
    """Whose subscription it is, and what it asked for. All consumers of one subscription share one."""

    def __init__(self) -> None:
        self.kind: i64 = 0  # a kind of `core/queue/consumer.py`
        self.connection: str = ""  # the client id, or the remote address
        self.peer: str = ""  # the remote address
        self.user: str = ""
        self.client_id: str = ""
        self.session: str = ""  # the name of its session; "" in protocols whose sessions have none
        self.number: i64 = -1  # what its session calls it; -1: nothing
        self.origin: i64 = 0  # the number of its connection
        self.subscription: str = ""
        self.broker: str = "\t"  # of a bridge: id TAB name of the broker on the other side
        self.selector: str = ""
        self.prefetch: i64 = 0
        self.priority: i64 = 0
        self.exclusive: bool = False
        self.no_local: bool = False
        self.announces: bool = False  # its session tells other brokers of it
        self.patterns: list[str] = []


@mypyc_attr(allow_interpreted_subclasses=True)
class Fact:
    """One thing that happened. ``kind`` is one of the constants of this module."""

    def __init__(self, kind: i64) -> None:
        self.kind: i64 = kind
        self.asked: bool = True  # of a kind in `ON_REQUEST`: the policy of the queue asks for it

    @property
    def name(self) -> str:
        """Return the stable name of the kind."""
        return NAMES[int(self.kind)]

    def subject(self) -> str:
        """Return what it happened to, for people."""
        return ""

    def details(self) -> dict[str, str]:
        """Return the rest, for logs."""
        return {}


class AddressFact(Fact):
    """ADDRESS_ADDED, ADDRESS_REMOVED, TEMPORARY_TOPIC_ADDED, TEMPORARY_TOPIC_REMOVED."""

    def __init__(self, kind: i64, address: str, routing: i64) -> None:
        super().__init__(kind)
        self.address: str = address
        self.routing: i64 = routing

    def subject(self) -> str:
        """Return the address."""
        return self.address


class QueueFact(Fact):
    """QUEUE_ADDED, QUEUE_REMOVED. ``messages`` went with a removed one; ``why`` is for people."""

    def __init__(self, kind: i64, place: Place, messages: i64 = 0, why: str = "") -> None:
        super().__init__(kind)
        self.place: Place = place
        self.messages: i64 = messages
        self.why: str = why

    def subject(self) -> str:
        """Return the name of the queue."""
        return self.place.name

    def details(self) -> dict[str, str]:
        """Return its address, or what went with it."""
        if self.kind == QUEUE_ADDED:
            return {"address": self.place.address}
        return {"messages": str(self.messages), "why": self.why, "routing": str(self.place.routing)}


class BindingFact(Fact):
    """BINDING_ADDED, BINDING_REMOVED: an address leads to a queue here, or (``distance`` > 0) elsewhere."""

    def __init__(self, kind: i64, form: i64, address: str, routing_name: str, cluster_name: str, identity: i64) -> None:
        super().__init__(kind)
        self.form: i64 = form  # LOCAL_QUEUE, REMOTE_QUEUE or DIVERT
        self.address: str = address
        self.routing_name: str = routing_name
        self.cluster_name: str = cluster_name
        self.identity: i64 = identity
        self.distance: i64 = 0
        self.filter: str = ""
        self.lost: bool = False  # nothing leads there any more, and the queue may be there still

    def subject(self) -> str:
        """Return the name that is unique in the network."""
        return self.cluster_name

    def details(self) -> dict[str, str]:
        """Return the address, and the filter where there is one."""
        return {"address": self.address, "filter": self.filter} if self.filter else {"address": self.address}


class ConsumerFact(Fact):
    """CONSUMER_ATTACHED, CONSUMER_DETACHED, CONSUMER_SLOW. ``consumers``: how many the queue has after it."""

    def __init__(self, kind: i64, place: Place, key: i64, reader: Reader, consumers: i64, unsettled: i64 = 0) -> None:
        super().__init__(kind)
        self.place: Place = place
        self.key: i64 = key
        self.reader: Reader = reader
        self.consumers: i64 = consumers
        self.unsettled: i64 = unsettled

    def subject(self) -> str:
        """Return the queue; of a slow one, the connection."""
        return self.reader.connection if self.kind == CONSUMER_SLOW else self.place.name

    def details(self) -> dict[str, str]:
        """Return who it is."""
        if self.kind == CONSUMER_SLOW:
            return {"queue": self.place.name, "consumer": str(self.key), "unsettled": str(self.unsettled)}
        return described(self.reader, self.key)


class FollowerFact(Fact):
    """FOLLOWER_ATTACHED, FOLLOWER_DETACHED: of all queues whose names match ``pattern``, now and later."""

    def __init__(self, kind: i64, pattern: str, key: i64, reader: Reader) -> None:
        super().__init__(kind)
        self.pattern: str = pattern
        self.key: i64 = key
        self.reader: Reader = reader

    def subject(self) -> str:
        """Return the pattern."""
        return self.pattern

    def details(self) -> dict[str, str]:
        """Return who it is."""
        return described(self.reader, self.key)


class SubscriptionFact(Fact):
    """SUBSCRIPTION_REMOVED: a durable subscription is gone, with its queue."""

    def __init__(self, place: Place, client_id: str, subscription: str) -> None:
        super().__init__(SUBSCRIPTION_REMOVED)
        self.place: Place = place
        self.client_id: str = client_id
        self.subscription: str = subscription

    def subject(self) -> str:
        """Return the name of its queue."""
        return self.place.name

    def details(self) -> dict[str, str]:
        """Return whose it was, and of which topic."""
        return {"client": self.client_id, "subscription": self.subscription, "topic": self.place.address}


class ConnectionFact(Fact):
    """CONNECTION_OPENED, CONNECTION_CLOSED: of a client, or of another broker's bridge."""

    def __init__(self, kind: i64, number: i64, protocol: str, peer: str, client_id: str, user: str) -> None:
        super().__init__(kind)
        self.number: i64 = number  # unique in this run of the broker
        self.protocol: str = protocol
        self.peer: str = peer
        self.client_id: str = client_id
        self.user: str = user

    def subject(self) -> str:
        """Return the remote address."""
        return self.peer

    def details(self) -> dict[str, str]:
        """Return who it is."""
        return {"protocol": self.protocol, "client": self.client_id, "user": self.user}


class SessionFact(Fact):
    """SESSION_OPENED, SESSION_CLOSED: one of those that a client has on the connection ``number``."""

    def __init__(self, kind: i64, number: i64, protocol: str, session: str, user: str, client_id: str) -> None:
        super().__init__(kind)
        self.number: i64 = number
        self.protocol: str = protocol
        self.session: str = session
        self.user: str = user
        self.client_id: str = client_id

    def subject(self) -> str:
        """Return the name of the session."""
        return self.session

    def details(self) -> dict[str, str]:
        """Return whose it is."""
        return {"protocol": self.protocol, "client": self.client_id, "user": self.user}


class SecurityFact(Fact):
    """LOGIN_REFUSED: ``user`` may not come in from ``peer``. RIGHT_REFUSED: he may not do ``right`` to ``address``."""

    def __init__(self, kind: i64, user: str, peer: str = "", address: str = "", right: i64 = 0) -> None:
        super().__init__(kind)
        self.user: str = user
        self.peer: str = peer
        self.address: str = address
        self.right: i64 = right  # one of `core/security/access.py`

    def subject(self) -> str:
        """Return who it was."""
        return self.user

    def details(self) -> dict[str, str]:
        """Return where he came from, or what he wanted."""
        return {"peer": self.peer} if self.kind == LOGIN_REFUSED else {"address": self.address}


class SpaceFact(Fact):
    """SPACE_SHORT: producers begin to wait, in memory (``why`` is "") or for the disk. SPACE_FREE: they go on."""

    def __init__(self, kind: i64, used: i64, why: str = "") -> None:
        super().__init__(kind)
        self.used: i64 = used  # octets
        self.why: str = why

    def details(self) -> dict[str, str]:
        """Return how much is used."""
        return {"used": str(self.used), "why": self.why} if self.why else {"used": str(self.used)}


class JobFact(Fact):
    """JOB_REFUSED: a scheduled message could not be sent to ``target`` when its time came."""

    def __init__(self, target: str, code: str, why: str) -> None:
        super().__init__(JOB_REFUSED)
        self.target: str = target
        self.code: str = code
        self.why: str = why

    def subject(self) -> str:
        """Return where it was to go."""
        return self.target

    def details(self) -> dict[str, str]:
        """Return the refusal."""
        return {"code": self.code, "why": self.why}


class ListenerFailed(Fact):
    """LISTENER_FAILED: ``listener`` raised ``error`` when it heard of ``of``."""

    def __init__(self, listener: Listener, of: Fact, error: Exception) -> None:
        super().__init__(LISTENER_FAILED)
        self.listener: Listener = listener
        self.of: Fact = of
        self.error: Exception = error

    def subject(self) -> str:
        """Return the class of the listener."""
        return type(self.listener).__name__

    def details(self) -> dict[str, str]:
        """Return the fact and the error."""
        return {"fact": self.of.name, "error": f"{type(self.error).__name__}: {self.error}"}


class MessageFact(Fact):
    """What happened to one message of one queue, or of an address. ``code`` is a stable word, ``why`` is for people."""

    def __init__(self, kind: i64, place: Place, message: Message | None, code: str = "", why: str = "") -> None:
        super().__init__(kind)
        self.place: Place = place
        self.message: Message | None = message
        self.code: str = code
        self.why: str = why
        self.identity: str = ""  # the message id as clients see it, where the core had it at hand

    def subject(self) -> str:
        """Return the queue or the address."""
        return self.place.called()

    def details(self) -> dict[str, str]:
        """Return the reason and the message id, as far as they are known."""
        told: dict[str, str] = {}
        if self.code:
            told["code"] = self.code
        if self.why:
            told["why"] = self.why
        if self.identity:
            told["id"] = self.identity
        return told


class MessageDead(MessageFact):
    """MESSAGE_DEAD: it is in the dead-letter queue ``to`` now, after ``deliveries`` attempts."""

    def __init__(self, place: Place, message: Message, code: str, why: str, to: str, deliveries: i64) -> None:
        super().__init__(MESSAGE_DEAD, place, message, code, why)
        self.to: str = to
        self.deliveries: i64 = deliveries

    def details(self) -> dict[str, str]:
        """Return where it is, too."""
        return super().details() | {"to": self.to}


class MessageHandled(MessageFact):
    """MESSAGE_DISPATCHED, MESSAGE_CONSUMED, MESSAGE_REDELIVERED, MESSAGE_DISCARDED: a consumer had a part in it.

    ``consumer`` is its key (0: none is known). ``count``: attempts so far, or messages of the queue discarded so far.
    """

    def __init__(self, kind: i64, place: Place, message: Message, consumer: i64, count: i64) -> None:
        super().__init__(kind, place, message)
        self.consumer: i64 = consumer
        self.count: i64 = count

    def details(self) -> dict[str, str]:
        """Return the key of the consumer, and how many were discarded."""
        told: dict[str, str] = {}
        if self.kind == MESSAGE_DISCARDED:
            told["discarded"] = str(self.count)
        if self.consumer:
            told["consumer"] = str(self.consumer)
        return told


class QueueFull(MessageFact):
    """QUEUE_FULL: ``message`` comes to a queue that holds ``used`` octets, as many as it may."""

    def __init__(self, place: Place, message: Message, used: i64) -> None:
        super().__init__(QUEUE_FULL, place, message)
        self.used: i64 = used

    def details(self) -> dict[str, str]:
        """Return how much it holds."""
        return {"used": str(self.used)}


@mypyc_attr(allow_interpreted_subclasses=True)
class Listener:
    """Takes facts of the given kinds; ``always``: those of `ON_REQUEST` that it takes whatever policies say.

    ``follows``: of those it takes only what is about messages that are watched, so that no other need be told.
    `heard` may call verbs of the broker only where the fact leaves it consistent; most listeners set an alarm instead.
    """

    def __init__(self, kinds: i64 = EVERY_KIND, always: i64 = 0) -> None:
        self.kinds: i64 = kinds | always
        self.always: i64 = always & ON_REQUEST
        self.follows: bool = False

    def heard(self, fact: Fact) -> None:
        """Take note of ``fact``. The default forgets it."""


class Hub:
    """Hands facts to listeners. ``strict`` (tests, simulation): an exception of a listener is raised, not reported."""

    def __init__(self, listeners: list[Listener] | None = None, strict: bool = False) -> None:
        self.strict: bool = strict
        self.listeners: list[Listener] = []
        self.kinds: i64 = 0  # what anybody takes
        self.always: i64 = 0  # of this, what somebody takes whatever policies say
        self.waiting: list[Fact] = []
        self.telling: bool = False
        for one in listeners or []:
            self.add(one)

    def add(self, listener: Listener) -> None:
        """Tell ``listener`` what happens from now on. Once there are queues, use `observing.observe` instead."""
        self.listeners = [*self.listeners, listener]
        self._count()

    def remove(self, listener: Listener) -> None:
        """Tell ``listener`` nothing any more. Once there are queues, use `observing.ignore` instead."""
        self.listeners = [one for one in self.listeners if one is not listener]
        self._count()

    def _count(self) -> None:
        self.kinds = 0
        self.always = 0
        for listener in self.listeners:
            self.kinds |= listener.kinds
            self.always |= 0 if listener.follows else listener.always

    def tells(self, asked: i64) -> i64:
        """Return which kinds of `ON_REQUEST` must be announced where the policy asks for the kinds ``asked``."""
        return (asked & self.kinds) | self.always

    def announce(self, fact: Fact) -> None:
        """Tell every listener that takes the kind of ``fact``; after what is being told, if this is in its midst."""
        if fact.kind & self.kinds == 0:
            return
        if self.telling:
            self.waiting.append(fact)
            return
        self.telling = True
        try:
            self._tell(fact)
            at = 0
            while at < len(self.waiting):
                self._tell(self.waiting[at])
                at += 1
        finally:
            if self.waiting:
                self.waiting = []
            self.telling = False

    def _tell(self, fact: Fact) -> None:
        kind = fact.kind
        for listener in self.listeners:
            if listener.kinds & kind == 0 or not (fact.asked or listener.always & kind):
                continue
            try:
                listener.heard(fact)
            except Exception as error:
                if self.strict:
                    raise
                if kind != LISTENER_FAILED:
                    self.announce(ListenerFailed(listener, fact, error))


def described(reader: Reader, key: i64) -> dict[str, str]:
    """Return who reads, for logs: only what is set."""
    told = {
        "connection": reader.connection,
        "consumer": str(key),
        "client": reader.client_id,
        "user": reader.user,
        "subscription": reader.subscription,
        "selector": reader.selector,
        "prefetch": str(reader.prefetch),
        "priority": str(reader.priority) if reader.priority else "",
        "exclusive": "1" if reader.exclusive else "",
        "no-local": "1" if reader.no_local else "",
        "patterns": ",".join(reader.patterns),
    }
    return {name: text for name, text in told.items() if text}
