"""What happens in the broker, as messages on ``activemq.notifications``: Artemis' notifications (artemis.md 1.15).

A notification is a message of CORE without a body: its properties say what happened. They are made of the facts that
the core announces (`core/events/facts.py`), while a queue is bound to the address: `doorbell` sees to that.

What is told goes out in a turn of the broker's own, in the order in which it happened: a fact is heard in the midst of
what the core does. It is the next one, so that another node hears of a temporary queue before a question comes whose
answer is for it: a client that has to be told of its queue first asks later than that. A turn sends `TOLD_A_TURN` of
them, or a quarter of what waits if that is more. No limit of a queue holds here: who acts for another broker must not
miss anything.

`send_queue_info` tells one queue alone what there is (``sendQueueInfoToQueue``). It stands in the same line as all
else: what happened before it comes before it, what happens later behind it.
"""

from __future__ import annotations

from collections import deque
from typing import Final, TypeAlias

from entrepot.base.errors import EntrepotError, InvalidDestination
from entrepot.base.primitive import BYTE, INT, LONG, Primitive
from entrepot.core.addressing.routing import Target
from entrepot.core.broker import BrokerCore
from entrepot.core.effort import Rest
from entrepot.core.events import announcing
from entrepot.core.events.facts import (
    ADDRESS_ADDED,
    ADDRESS_REMOVED,
    BINDING_ADDED,
    BINDING_REMOVED,
    CONNECTION_CLOSED,
    CONNECTION_OPENED,
    CONSUMER_ATTACHED,
    CONSUMER_DETACHED,
    CONSUMER_SLOW,
    LOGIN_REFUSED,
    MESSAGE_DISPATCHED,
    MESSAGE_EXPIRED,
    RIGHT_REFUSED,
    SESSION_CLOSED,
    SESSION_OPENED,
    AddressFact,
    BindingFact,
    ConnectionFact,
    ConsumerFact,
    Fact,
    Listener,
    MessageFact,
    MessageHandled,
    SecurityFact,
    SessionFact,
)
from entrepot.core.queue.consumer import DEMAND
from entrepot.core.queue.queue import Queue
from entrepot.core.security.access import BROWSE, CONSUME, CREATE, DELETE, MANAGE, SEND, SUBSCRIBE
from entrepot.core.sending.handing import hand_out
from entrepot.model.address import MULTICAST
from entrepot.model.message import Message
from entrepot.protocols.artemis.arriving import message_of
from entrepot.protocols.artemis.convert import NOTIFICATION
from entrepot.protocols.artemis.headers import Headers, assembled
from entrepot.protocols.artemis.places import octet_of
from entrepot.protocols.session import CORE

TOLD_A_TURN: Final = 200
NO_BODY_OPENED: Final = bytes(4)  # of a message that was written, and has nothing in it

SESSION_CREATED: Final = "SESSION_CREATED"
TYPES: Final[dict[int, str]] = {
    BINDING_ADDED: "BINDING_ADDED",
    BINDING_REMOVED: "BINDING_REMOVED",
    CONSUMER_ATTACHED: "CONSUMER_CREATED",
    CONSUMER_DETACHED: "CONSUMER_CLOSED",
    CONSUMER_SLOW: "CONSUMER_SLOW",
    SESSION_OPENED: SESSION_CREATED,
    SESSION_CLOSED: "SESSION_CLOSED",
    LOGIN_REFUSED: "SECURITY_AUTHENTICATION_VIOLATION",
    RIGHT_REFUSED: "SECURITY_PERMISSION_VIOLATION",
    ADDRESS_ADDED: "ADDRESS_ADDED",
    ADDRESS_REMOVED: "ADDRESS_REMOVED",
    CONNECTION_OPENED: "CONNECTION_CREATED",
    CONNECTION_CLOSED: "CONNECTION_DESTROYED",
    MESSAGE_DISPATCHED: "MESSAGE_DELIVERED",
    MESSAGE_EXPIRED: "MESSAGE_EXPIRED",
}
"""Kind of fact -> what Artemis calls it."""

ALWAYS: Final = (
    BINDING_ADDED
    | BINDING_REMOVED
    | CONSUMER_ATTACHED
    | CONSUMER_DETACHED
    | CONSUMER_SLOW
    | SESSION_OPENED
    | SESSION_CLOSED
    | CONNECTION_OPENED
    | CONNECTION_CLOSED
    | LOGIN_REFUSED
    | RIGHT_REFUSED
)
"""What is told whenever somebody listens. Connections: those of other protocols are one session each."""
CONNECTIONS: Final = CONNECTION_OPENED | CONNECTION_CLOSED
ADDRESSES: Final = ADDRESS_ADDED | ADDRESS_REMOVED
EXPIRED: Final = MESSAGE_EXPIRED
DELIVERED: Final = MESSAGE_DISPATCHED
"""What Artemis tells only where its NotificationActiveMQServerPlugin asks for it."""

ADDRESS: Final = "_AMQ_Address"
BINDING_ID: Final = "_AMQ_Binding_ID"
BINDING_TYPE: Final = "_AMQ_Binding_Type"
CERTIFICATE: Final = "_AMQ_CertSubjectDN"
CHECK: Final = "_AMQ_CheckType"
CLIENT_ID: Final = "_AMQ_Client_ID"
CLUSTER_NAME: Final = "_AMQ_ClusterName"
CONNECTION_NAME: Final = "_AMQ_ConnectionName"
CONSUMER_COUNT: Final = "_AMQ_ConsumerCount"
CONSUMER_NAME: Final = "_AMQ_ConsumerName"
DISTANCE: Final = "_AMQ_Distance"
FILTER: Final = "_AMQ_FilterString"
LOST: Final = "_ENTREPOT_LOST"  # of a binding: the queue may be there; an Artemis does not look at it
MESSAGE_ID: Final = "_AMQ_Message_ID"
PROTOCOL: Final = "_AMQ_Protocol_Name"
REMOTE: Final = "_AMQ_RemoteAddress"
ROUTING_NAME: Final = "_AMQ_RoutingName"
ROUTING_TYPE: Final = "_AMQ_Routing_Type"
SESSION: Final = "_AMQ_SessionName"
TIMESTAMP: Final = "_AMQ_NotifTimestamp"
USER: Final = "_AMQ_User"
VALIDATED_USER: Final = "_AMQ_ValidatedUser"
RESET: Final = "_AMQ_RESET_QUEUE_DATA"
RESET_COMPLETE: Final = "_AMQ_RESET_QUEUE_DATA_COMPLETE"
UNAVAILABLE: Final = "unavailable"

CHECKS: Final[dict[int, str]] = {
    SEND: "SEND",
    CONSUME: "CONSUME",
    BROWSE: "BROWSE",
    SUBSCRIBE: "CREATE_DURABLE_QUEUE",
    CREATE: "CREATE_ADDRESS",
    DELETE: "DELETE_ADDRESS",
    MANAGE: "MANAGE",
}
"""Right -> what Artemis calls the check of it."""

Properties: TypeAlias = dict[str, object]


class QueueInfo:
    """One queue as other brokers hear of it: its binding, and the filters of its consumers ("": one without)."""

    def __init__(self, address: str, routing_name: str, cluster_name: str, identity: int) -> None:
        self.address: str = address
        self.routing_name: str = routing_name
        self.cluster_name: str = cluster_name
        self.identity: int = identity
        self.distance: int = 0
        self.filter: str = ""
        self.consumers: list[str] = []


class Elsewhere:
    """What is known of queues of other brokers; a cluster has one that knows."""

    def infos(self) -> list[QueueInfo]:
        """Return one for each of them, with its distance from here."""
        return []


class _Told:
    """What waits to be told: ``queue`` "" is the address, else the queue that alone is told. ``wall`` in ms."""

    def __init__(self, properties: Properties, queue: str, wall: int, filtered: bool = True) -> None:
        self.properties: Properties = properties
        self.queue: str = queue
        self.wall: int = wall
        self.filtered: bool = filtered


class _Turn(Rest):
    def __init__(self, notifications: Notifications) -> None:
        super().__init__()
        self.notifications: Notifications = notifications

    def resume(self) -> None:
        self.notifications.turn()


class Notifications(Listener):
    """The notifications of one broker, on ``address``. ``plugin``: more kinds (`ADDRESSES`, `CONNECTIONS`,
    `EXPIRED`, `DELIVERED`).

    ``sessions``: SESSION_CREATED and SESSION_CLOSED are told (not with suppress-session-notifications).
    """

    def __init__(self, broker: BrokerCore, address: str, plugin: int = 0, *, sessions: bool = True) -> None:
        super().__init__(ALWAYS | plugin, always=plugin & DELIVERED)
        self.broker: BrokerCore = broker
        self.address: str = address
        self.connections: bool = plugin & CONNECTIONS != 0
        self.sessions: bool = sessions
        self.elsewhere: Elsewhere = Elsewhere()
        self.waiting: deque[_Told] = deque()
        self.target: Target = Target(address, MULTICAST)
        self._turn: _Turn = _Turn(self)

    # -- what happens --------------------------------------------------------------------------------------------------

    def heard(self, fact: Fact) -> None:
        """Tell what ``fact`` means for readers of notifications."""
        kind = int(fact.kind)
        if isinstance(fact, BindingFact):
            self.tell(TYPES[kind], self._binding(fact))
        elif isinstance(fact, ConsumerFact):
            if fact.reader.kind in DEMAND:
                self.tell(TYPES[kind], self._slow(fact) if kind == CONSUMER_SLOW else self._consumer(fact))
        elif isinstance(fact, SessionFact):
            self._session(kind, fact.number, fact.session, fact.protocol, fact.user, fact.client_id)
        elif isinstance(fact, ConnectionFact):
            if self.connections:
                self.tell(TYPES[kind], {CONNECTION_NAME: str(fact.number), REMOTE: fact.peer})
            if fact.protocol != CORE:
                told = SESSION_OPENED if kind == CONNECTION_OPENED else SESSION_CLOSED
                self._session(told, fact.number, str(fact.number), fact.protocol, fact.user, fact.client_id)
        elif isinstance(fact, SecurityFact):
            self.tell(TYPES[kind], _refused(fact))
        elif isinstance(fact, AddressFact):
            self.tell(TYPES[kind], {ADDRESS: fact.address, ROUTING_TYPE: _routing_type(int(fact.routing))})
        elif isinstance(fact, MessageFact) and fact.place.address != self.address:
            self.tell(TYPES[kind], _of_message(fact))

    def _session(self, kind: int, number: int, session: str, protocol: str, user: str, client_id: str) -> None:
        if not self.sessions:
            return
        said: Properties = {
            USER: user or None,
            DISTANCE: Primitive(INT, 0),
            SESSION: session,
            PROTOCOL: protocol.upper(),
            ADDRESS: self.address,
            CLIENT_ID: client_id or None,
            CONNECTION_NAME: str(number),
        }
        self.tell(TYPES[kind], said)

    def _binding(self, fact: BindingFact) -> Properties:
        added = fact.kind == BINDING_ADDED
        said: Properties = {BINDING_TYPE: Primitive(INT, int(fact.form))} if added else {}
        said[ADDRESS] = fact.address
        said[CLUSTER_NAME] = fact.cluster_name
        said[ROUTING_NAME] = fact.routing_name
        said[BINDING_ID] = Primitive(LONG, int(fact.identity))
        said[DISTANCE] = Primitive(INT, int(fact.distance))
        if fact.filter or not added:
            said[FILTER] = fact.filter or None
        if fact.lost:
            said[LOST] = True
        return said

    def _consumer(self, fact: ConsumerFact) -> Properties:
        place, reader = fact.place, fact.reader
        came = fact.kind == CONSUMER_ATTACHED
        said: Properties = {
            ADDRESS: place.address,
            CLUSTER_NAME: place.name + self.broker.ids.node.uuid_text,
            ROUTING_NAME: announcing.routing_name(place, self.broker.ids.node),
            DISTANCE: Primitive(INT, 0),
            CONSUMER_COUNT: Primitive(INT, int(fact.consumers)),
            USER: reader.user or None,
            REMOTE: reader.peer,
            SESSION: reader.session or str(reader.origin),
            CONSUMER_NAME: Primitive(LONG, int(reader.number if reader.number >= 0 else fact.key)),
        }
        if came:
            said[VALIDATED_USER] = None
            said[CERTIFICATE] = UNAVAILABLE
        if reader.client_id:
            said[CLIENT_ID] = reader.client_id
        if reader.selector or not came:
            said[FILTER] = reader.selector or None
        return said

    def _slow(self, fact: ConsumerFact) -> Properties:
        reader = fact.reader
        return {
            ADDRESS: fact.place.address,
            CONSUMER_COUNT: Primitive(INT, int(fact.consumers)),
            REMOTE: reader.peer,
            CONNECTION_NAME: str(reader.origin),
            CONSUMER_NAME: Primitive(LONG, int(reader.number if reader.number >= 0 else fact.key)),
            SESSION: reader.session or str(reader.origin),
        }

    # -- what there is -------------------------------------------------------------------------------------------------

    def send_queue_info(self, queue: str, rule: str) -> None:
        """Tell ``queue`` alone what queues there are and who reads them, of addresses of which ``rule`` (1.9) speaks.

        Raises InvalidDestination when there is no such queue.
        """
        if queue not in self.broker.table.queues:
            raise InvalidDestination(f"there is no queue {queue!r}", remedy="make it before you ask")
        self._wait(_Told({RESET: True}, queue, 0, filtered=False))
        for info in [*self._infos(), *self.elsewhere.infos()]:
            if is_meant(info.address, rule):
                self._tell_info(info, queue)
        self._wait(_Told({RESET_COMPLETE: True}, queue, 0, filtered=False))

    def _infos(self) -> list[QueueInfo]:
        found: list[QueueInfo] = []
        node = self.broker.ids.node.uuid_text
        for queue in self.broker.table.queues.values():
            place = queue.place()
            name = announcing.routing_name(place, self.broker.ids.node)
            info = QueueInfo(place.address, name, place.name + node, int(queue.told()))
            info.filter = place.filter
            for consumer in queue.roster.consumers:
                reader = consumer.subscriber
                if reader.kind in DEMAND:
                    info.consumers.append(reader.selector)
            info.consumers.sort(key=bool)  # those without a filter first
            found.append(info)
        return found

    def _tell_info(self, info: QueueInfo, queue: str) -> None:
        wall = int(self.broker.wall)
        said: Properties = {
            ROUTING_NAME: info.routing_name,
            DISTANCE: Primitive(INT, info.distance),
            ADDRESS: info.address,
            NOTIFICATION: TYPES[BINDING_ADDED],
            BINDING_ID: Primitive(LONG, info.identity),
            FILTER: info.filter or None,
            TIMESTAMP: Primitive(LONG, wall),
            CLUSTER_NAME: info.cluster_name,
        }
        self._wait(_Told(said, queue, wall))
        for selector in info.consumers:
            said = {
                ADDRESS: info.address,
                CLUSTER_NAME: info.cluster_name,
                ROUTING_NAME: info.routing_name,
                NOTIFICATION: TYPES[CONSUMER_ATTACHED],
                DISTANCE: Primitive(INT, info.distance),
                TIMESTAMP: Primitive(LONG, wall),
            }
            if selector:
                said[FILTER] = selector
            self._wait(_Told(said, queue, wall))

    # -- telling -------------------------------------------------------------------------------------------------------

    def tell(self, kind: str, properties: Properties) -> None:
        """Tell readers of the address ``properties`` as a notification of ``kind``; soon, and in its order."""
        wall = int(self.broker.wall)
        properties[NOTIFICATION] = kind
        properties[TIMESTAMP] = Primitive(LONG, wall)
        self._wait(_Told(properties, "", wall))

    def _wait(self, told: _Told) -> None:
        if not self.waiting:
            self.broker.effort.later(self._turn)
        self.waiting.append(told)

    def turn(self) -> None:
        """Send some of what waits."""
        waiting = self.waiting
        broker = self.broker
        granted = broker.flow.granted
        broker.flow.granted = True  # full or not
        try:
            for _ in range(min(len(waiting), max(TOLD_A_TURN, len(waiting) >> 2))):
                broker.effort.spent += 1
                self._send(waiting.popleft())
        finally:
            broker.flow.granted = granted
            if waiting:
                broker.effort.later(self._turn)

    def _send(self, told: _Told) -> None:
        broker = self.broker
        if told.queue:
            queue = broker.table.queues.get(told.queue)
            if queue is not None:
                self._send_to(queue, told)
            return
        message = made(self.address, told.properties, told.wall, durable=True)
        try:
            broker.send(message, self.target)
        except EntrepotError as error:
            announcing.unrouted(broker.hub, message, self.address, error)

    def _send_to(self, queue: Queue, told: _Told) -> None:
        message = made(told.queue, told.properties, told.wall, durable=False)
        if told.filtered and queue.filter is not None and not queue.filter.matches(message):
            return
        message.number = self.broker.ids.next_number()
        hand_out(self.broker, message, [queue])


def made(address: str, properties: Properties, wall: int, *, durable: bool) -> Message:
    """Return a notification; ``wall``: when it happened, ms since 1970, 0 for what has no time."""
    headers = Headers()
    headers.address = address
    headers.durable = durable
    headers.timestamp = wall
    headers.priority = 0
    return message_of(assembled(NO_BODY_OPENED, headers, properties), "")


def is_meant(address: str, rule: str) -> bool:
    """Return whether ``rule`` is about ``address``: beginnings of addresses with commas between, ``!`` for all but."""
    parts = [part.strip() for part in rule.split(",") if part.strip()]
    if any(part[0] == "!" and address.startswith(part[1:]) for part in parts):
        return False
    wanted = [part for part in parts if part[0] != "!"]
    return not wanted or any(address.startswith(part) for part in wanted)


def _refused(fact: SecurityFact) -> Properties:
    if fact.kind == LOGIN_REFUSED:
        return {USER: fact.user or None, CERTIFICATE: UNAVAILABLE, REMOTE: fact.peer}
    return {ADDRESS: fact.address, CHECK: CHECKS.get(int(fact.right), ""), USER: fact.user or None}


def _of_message(fact: MessageFact) -> Properties:
    place = fact.place
    said: Properties = {
        ADDRESS: place.address,
        ROUTING_TYPE: _routing_type(int(place.routing)),
        ROUTING_NAME: place.name,
        MESSAGE_ID: Primitive(LONG, 0 if fact.message is None else int(fact.message.number)),
    }
    if isinstance(fact, MessageHandled) and fact.consumer:
        said[CONSUMER_NAME] = Primitive(LONG, int(fact.consumer))
    return said


def _routing_type(routing: int) -> Primitive:
    return Primitive(BYTE, octet_of(routing))
