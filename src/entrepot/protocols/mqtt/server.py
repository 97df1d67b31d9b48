"""MQTT as a dialect of the server session: packets in, verbs of the broker out, answers back. [C]

What breaks the standard ends the connection, and only it: with a reason in DISCONNECT or CONNACK from MQTT 5 on. What
is refused is answered where MQTT has an answer. Nothing that a client is told of is only in memory: PUBACK, PUBREC,
PUBCOMP, SUBACK and UNSUBACK come when the disk has what they confirm.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import SECOND
from entrepot.base.errors import (
    EntrepotError,
    InvalidDestination,
    MalformedFrame,
    PeerError,
    ProtocolViolation,
    Refused,
    ShuttingDown,
    StorageError,
)
from entrepot.core.broker import BrokerCore
from entrepot.core.guiding import HERE, THERE, UNREADY
from entrepot.model.address import MULTICAST, Destination
from entrepot.protocols.mqtt.codec import Properties, Reader
from entrepot.protocols.mqtt.convert import packed
from entrepot.protocols.mqtt.delivery import Outgoing
from entrepot.protocols.mqtt.house import House
from entrepot.protocols.mqtt.options import MqttOptions
from entrepot.protocols.mqtt.packets import (
    Connect,
    Farewell,
    Will,
    connack,
    read_ack,
    read_connect,
    read_farewell,
    read_subscribe,
)
from entrepot.protocols.mqtt.records import WillRecord
from entrepot.protocols.mqtt.refusals import Connected, broken, reason_of
from entrepot.protocols.mqtt.schema import (
    ASSIGNED_CLIENT_ID,
    AUTH,
    AUTH_METHOD,
    CONNECT,
    DISCONNECT,
    ENTRY_REASONS,
    KEEP_ALIVE_OVER,
    MAXIMUM_PACKET,
    MESSAGE_EXPIRY,
    PACKETS,
    PINGREQ,
    PINGRESP,
    PROTOCOL_ERROR,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    REASON,
    RECEIVE_MAXIMUM,
    REFUSED_3,
    REQUEST_PROBLEM,
    SERVER_KEEP_ALIVE,
    SERVER_REFERENCE,
    SESSION_EXPIRY,
    SUBSCRIBE,
    SUCCESS,
    TAKEN_OVER,
    TOPIC_ALIAS_MAXIMUM,
    UNAVAILABLE,
    UNSUBSCRIBE,
    USE_ANOTHER,
    V5,
    V31,
    V311,
    WILL_DELAY,
    WRONG_CLIENT_ID,
    WRONG_METHOD,
    WRONG_TOPIC,
    WRONG_VERSION,
)
from entrepot.protocols.mqtt.sending import Sending
from entrepot.protocols.mqtt.state import MqttState, delay_of, version_name
from entrepot.protocols.mqtt.subscribing import Subscribing
from entrepot.protocols.mqtt.topics import address_of, check_topic
from entrepot.protocols.serving.confirmations import Confirmation
from entrepot.protocols.serving.guiding import guided
from entrepot.protocols.serving.life import ENTER, LEAVING, OPENING
from entrepot.protocols.session import MQTT, Shell

CLIENT_ID_OCTETS_MAX: Final = 1024
GRACE_TENTHS: Final = 15  # a client is given up after one and a half times its keep-alive (5: 3.1.2.10)
REASON_MAX: Final = 200


class MqttSession(Connected):
    """One accepted connection. Its parts are made when it is let in."""

    def __init__(self, shell: Shell, house: House, options: MqttOptions, number: i64, peer: str) -> None:
        broker: BrokerCore = house.broker
        super().__init__(shell, broker, number, peer, options.write_high_octets, options.connect_timeout_ms)
        self.protocol = MQTT
        self.house: House = house
        self.options: MqttOptions = options
        self.reader: Reader = Reader(options.packet_octets_max)
        self.entering: Connect | None = None  # until it is known who that is
        self.state: MqttState | None = None
        self.sending: Sending | None = None
        self.outbound: Outgoing | None = None
        self.subscribing: Subscribing | None = None
        self.welcoming: bool = False  # CONNACK waits for the disk: nothing is said before it
        self.turned_away: bool = False  # CONNACK said no
        self.elsewhere: str = ""  # the broker that serves it
        self.parted: bool = False  # it said DISCONNECT, and that all is well: its will is not spoken

    # -- what the machine asks -----------------------------------------------------------------------------------------

    def work(self, data: bytes) -> i64:
        """Do the packets that came, as far as this turn reaches."""
        reader = self.reader
        if data:
            reader.feed(data)
        try:
            entering = self.entering
            if self.welcoming:
                self.unfinished = True
            elif entering is None or self._admit(entering):
                self._work()
        except PeerError as error:
            self.fail(error)
        return reader.waiting()

    def beat(self) -> None:
        """Servers of MQTT do not beat."""

    def unopened(self) -> str:
        """Return what did not come in time."""
        return "no CONNECT packet"

    def consumes(self) -> bool:
        """Return whether messages go to this peer whose acknowledgement makes room."""
        subscribing = self.subscribing
        return subscribing is not None and any(one.tracked for one in subscribing.open.values())

    def farewell(self, why: str) -> None:
        """Say that our side ends the connection."""
        if OPENING < self.life < LEAVING:
            self._say_end(ShuttingDown(f"the broker ends this connection: {why}"))

    def fail(self, error: EntrepotError) -> None:
        """Say what is wrong and close this connection."""
        if self.life < LEAVING:
            if self.reason == 0 and self.beat_receive > 0 and self.broker.now >= self.heard + self.beat_receive:
                self.reason = KEEP_ALIVE_OVER
            self._say_end(error)
        self.refused = str(error)
        self.leave()
        self.note()

    def superseded(self, why: str) -> None:
        """Another connection takes the client id over: end, with all that this one holds (5: 3.1.4)."""
        self.reason = TAKEN_OVER
        self.fail(ShuttingDown(why))
        self.detach("its client id was taken over", self.broker.now)

    def give_back(self) -> None:
        """Give back what is on its way, and leave the session to itself."""
        state = self.state
        if self.outbound is not None:
            self.outbound.end()
        if self.subscribing is not None:
            self.subscribing.end()
        if state is not None:
            self.house.left(state, not self.parted)
        self.state = None
        self.sending = None
        self.outbound = None
        self.subscribing = None

    def readers(self) -> int:
        """Return how many subscriptions it has."""
        return 0 if self.subscribing is None else len(self.subscribing.open)

    def describe(self) -> dict[str, str]:
        """Return what an operator wants to know."""
        state = self.state
        outgoing = self.outbound
        return {
            "protocol": f"mqtt {version_name(int(self.reader.version))}",
            "peer": self.peer,
            "client-id": self.client_id,
            "login": self.subject.name,
            "subscriptions": str(self.readers()),
            "received": str(self.received),
            "sent": str(0 if outgoing is None else outgoing.sent),
            "in-flight": str(0 if state is None else len(state.flights) + len(state.releasing)),
            "session-expiry": str(0 if state is None else state.expiry),
            "refused": self.refused,
        }

    # -- packets -------------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        reader = self.reader
        effort = self.broker.effort
        while self.life < LEAVING and not self.unfinished:
            if effort.spent >= effort.allowance and reader.has_more():
                self.unfinished = True
                effort.later(self.rest)
                return
            if not reader.next():
                return
            self.received += 1
            effort.spent += 1
            if reader.kind == PUBLISH and self.sending is not None:
                self.sending.publish()
            else:
                self._packet(reader.kind)  # it is ``unfinished`` while somebody looks who this is

    def _packet(self, kind: i64) -> None:
        reader = self.reader
        outgoing = self.outbound
        sending = self.sending
        if outgoing is None or sending is None:
            if kind != CONNECT:
                raise ProtocolViolation(f"the first packet is {PACKETS[int(kind)]}, not CONNECT")
            if reader.flags:
                raise MalformedFrame("reserved flags of CONNECT are set")
            self._connect(read_connect(reader.data, reader.begin, reader.end))
            return
        version = reader.version
        if kind in (PUBACK, PUBREC, PUBREL, PUBCOMP):
            ack = read_ack(kind, reader.flags, reader.data, reader.begin, reader.end, version)
            if kind == PUBACK:
                outgoing.puback(ack.packet_id)
            elif kind == PUBREC:
                outgoing.pubrec(ack.packet_id, ack.code)
            elif kind == PUBREL:
                sending.pubrel(ack.packet_id)
            else:
                outgoing.pubcomp(ack.packet_id)
        elif kind in (SUBSCRIBE, UNSUBSCRIBE):
            self._subscribe(kind, version)
        elif kind == PINGREQ:
            if reader.flags or reader.end > reader.begin:
                raise MalformedFrame("a PINGREQ says something")
            self.say(bytes((PINGRESP << 4, 0)))
        elif kind == DISCONNECT:
            self._part(read_farewell(kind, reader.flags, reader.data, reader.begin, reader.end, version))
        elif kind == CONNECT:
            raise ProtocolViolation("a second CONNECT")
        elif kind == AUTH:
            raise ProtocolViolation("an AUTH, and no authentication method was agreed")
        else:
            raise ProtocolViolation(f"a client sent packet type {int(kind)}")

    def _subscribe(self, kind: i64, version: i64) -> None:
        reader = self.reader
        subscribing = self.subscribing
        assert subscribing is not None
        packet = read_subscribe(kind, reader.flags, reader.data, reader.begin, reader.end, version)
        self.broker.effort.spent += len(packet.wishes)
        try:
            if kind == SUBSCRIBE:
                subscribing.subscribe(packet)
            else:
                subscribing.unsubscribe(packet)
        except (Refused, StorageError) as error:
            self.fail(error)

    # -- coming in -----------------------------------------------------------------------------------------------------

    def _connect(self, connect: Connect) -> None:
        reader = self.reader
        reader.version = connect.version if connect.version > 0 else V311
        if connect.version == 0:
            raise broken(self, WRONG_VERSION, "the protocol level of CONNECT is none of 3, 4 and 5")
        self.explains = connect.properties.get(REQUEST_PROBLEM, 1) == 1
        size = connect.properties.get(MAXIMUM_PACKET)
        if isinstance(size, int):
            self.packet_max = size
        if AUTH_METHOD in connect.properties:
            raise broken(self, WRONG_METHOD, "enhanced authentication is not spoken here")
        if self.broker.ceased:
            raise self._stopping()
        self.entering = connect
        self._admit(connect)

    def _stopping(self) -> ProtocolViolation:
        return broken(self, 0x88, "the broker stops")

    def _admit(self, connect: Connect) -> bool:
        """Let the client in once it is known who that is; False while that is being looked at."""
        password: str | None = None
        try:
            if connect.password is not None:
                password = connect.password.decode("utf-8", "replace")
            if not self.ask_who(connect.user, password):
                return False
            if self.options.router and not self._is_served(connect):
                return False
            self.entering = None
            self._enter(connect)
        except (Refused, StorageError) as refusal:
            self.entering = None
            self.fail(refusal)
        return True

    def _is_served(self, connect: Connect) -> bool:
        """Ask the router of the listener; False: it is not known yet. Raises Refused for elsewhere, too (5: 4.11)."""
        guidance = guided(self, self.options.router, connect.client_id)
        if guidance is None or guidance.verdict == HERE:
            return guidance is not None
        self.reason = UNAVAILABLE if guidance.verdict == UNREADY else USE_ANOTHER
        if guidance.verdict == THERE:
            self.elsewhere = f"{guidance.host}:{guidance.port}"
        raise Refused(guidance.why, remedy=f"connect to {self.elsewhere or 'another broker'}")

    def _enter(self, connect: Connect) -> None:
        """Begin to serve this user. Raises Refused, PeerError, StorageError."""
        version = connect.version
        properties: Properties = {}
        client_id = self._client_id(connect, properties)
        will = connect.will
        spoken = None if will is None else self._will(will)
        self.house.check_owner(client_id, self.subject.name)
        taken = self.claim(client_id, self.options.link_stealing)
        if taken:
            raise broken(self, 0x80, f"client id {client_id!r} is already connected from {taken}")
        state, present = self.house.open(
            client_id, self.subject.name, version, connect.clean, self.options.virtual_topics
        )
        self.state = state
        state.will = spoken
        state.expiry = self._expiry(connect, properties)
        quota = self.options.in_flight_max
        asked = connect.properties.get(RECEIVE_MAXIMUM)
        if isinstance(asked, int):
            quota = min(quota, asked)
        outgoing = Outgoing(self, self.house, state, version, quota)
        self.outbound = outgoing
        self._limit(connect, outgoing)
        self.sending = Sending(self, self.house, state, self.options, self.reader)
        self.subscribing = Subscribing(self, self.house, outgoing, self.options)
        self._watch(connect, properties)
        if version == V5:
            self._announce(properties)
        self.become(ENTER)
        if present:
            self.subscribing.resume()
        octets = connack(version, present and version != V31, 0, properties)
        if self.house.keep(state) or present:
            self.welcoming = True
            self.unfinished = True
            self.confirmations.ask(_Welcome(self, octets))
        else:
            self.say(octets)

    def _client_id(self, connect: Connect, properties: Properties) -> str:
        client_id = connect.client_id
        if len(client_id.encode()) > CLIENT_ID_OCTETS_MAX:
            raise broken(self, WRONG_CLIENT_ID, f"a client id has more than {CLIENT_ID_OCTETS_MAX} octets")
        if client_id:
            return client_id
        if connect.version == V31 or (connect.version == V311 and not connect.clean):
            raise broken(self, WRONG_CLIENT_ID, "a session that stays needs a client id")
        ids = self.broker.ids
        client_id = f"auto-{ids.node_id}-{int(ids.run)}-{int(self.number)}"
        properties[ASSIGNED_CLIENT_ID] = client_id
        return client_id

    def _will(self, will: Will) -> WillRecord:
        """Return a will as it is kept. Raises ProtocolViolation, AccessDenied."""
        try:
            check_topic(will.topic)
            if will.topic[0] == "$" and not self.options.dollar_topics:
                raise InvalidDestination("a will cannot be published to a topic that begins with $")
        except InvalidDestination as error:
            raise broken(self, WRONG_TOPIC, error.message) from None
        self.broker.access.send(
            self.subject, [Destination(address_of(will.topic, self.options.virtual_topics), MULTICAST)]
        )
        delay = delay_of(will)
        kept = {key: value for key, value in will.properties.items() if key not in (WILL_DELAY, MESSAGE_EXPIRY)}
        expiry = will.properties.get(MESSAGE_EXPIRY, 0)
        raw, body_at = packed(kept, will.payload)
        lives = expiry if isinstance(expiry, int) else 0
        return WillRecord(will.topic, raw, int(body_at), int(will.qos), will.retain, lives, delay)

    def _expiry(self, connect: Connect, properties: Properties) -> int:
        """Return how long the session outlives this connection, s."""
        if connect.version != V5:
            return 0 if connect.clean else int(self.options.session_expiry)
        asked = connect.properties.get(SESSION_EXPIRY, 0)
        assert isinstance(asked, int)
        if asked > self.options.session_expiry_max:
            asked = int(self.options.session_expiry_max)
            properties[SESSION_EXPIRY] = asked
        return asked

    def _limit(self, connect: Connect, outgoing: Outgoing) -> None:
        """Note what the client can take."""
        outgoing.packet_max = min(outgoing.packet_max, self.packet_max)
        aliases = connect.properties.get(TOPIC_ALIAS_MAXIMUM)
        if isinstance(aliases, int):
            outgoing.aliases_max = min(aliases, int(self.options.aliases_out_max))

    def _announce(self, properties: Properties) -> None:
        """Say what we can take."""
        options = self.options
        if options.receive_maximum < 65_535:
            properties[RECEIVE_MAXIMUM] = int(options.receive_maximum)
        properties[MAXIMUM_PACKET] = int(options.packet_octets_max)
        if options.topic_aliases_max > 0:
            properties[TOPIC_ALIAS_MAXIMUM] = int(options.topic_aliases_max)

    def _watch(self, connect: Connect, properties: Properties) -> None:
        """Give the client up when it is silent for too long."""
        seconds = connect.keep_alive
        ours = self.options.keep_alive_server
        if connect.version == V5:
            if ours >= 0 and (ours == 0 or seconds == 0 or seconds > ours) and seconds != ours:
                seconds = ours
                properties[SERVER_KEEP_ALIVE] = int(ours)
        elif seconds == 0:
            seconds = self.options.keep_alive_default
        self.beat_receive = seconds * SECOND * GRACE_TENTHS // 10

    # -- going ---------------------------------------------------------------------------------------------------------

    def _part(self, packet: Farewell) -> None:
        """DISCONNECT."""
        state = self.state
        assert state is not None
        expiry = packet.properties.get(SESSION_EXPIRY)
        if isinstance(expiry, int):
            if state.expiry == 0 and expiry > 0:
                raise broken(self, PROTOCOL_ERROR, "a session that ends with its connection cannot live on")
            state.expiry = min(expiry, int(self.options.session_expiry_max))
            if not state.persistent:
                self.house.keep(state)
        self.parted = packet.code == SUCCESS  # any other code leaves the will in force (5: 3.1.2.5)
        self.leave()
        self.note()

    def _say_end(self, error: EntrepotError) -> None:
        """Say why, where MQTT can: in CONNACK as long as there was none (5: 3.2)."""
        if self.life == OPENING or self.welcoming:
            if not self.turned_away:
                self.turned_away = True
                self._refuse_entry(error)
        else:
            self._disconnect(error)

    def _disconnect(self, error: EntrepotError) -> None:
        """Say why after CONNACK."""
        if self.reader.version != V5:
            return
        packet = Farewell(self.reason if self.reason else reason_of(error))
        bare = packet.octets(V5)
        packet.properties[REASON] = _brief(error)
        self.say_why(bare, packet.octets(V5))

    def _refuse_entry(self, error: EntrepotError) -> None:
        """Answer a CONNECT that has no effect."""
        version = self.reader.version
        code = self.reason if self.reason else reason_of(error)
        if version == V5:
            if int(code) not in ENTRY_REASONS:
                code = UNAVAILABLE
            properties: Properties = {SERVER_REFERENCE: self.elsewhere} if self.elsewhere else {}
            explained: Properties = {REASON: _brief(error), **properties}
            self.say_why(connack(V5, False, code, properties), connack(V5, False, code, explained))
        elif version > 0 and int(code) in REFUSED_3:
            self.say(connack(version, False, REFUSED_3[int(code)], {}))


class _Welcome(Confirmation):
    """CONNACK, once the disk has the session; then what is owed to the client follows."""

    def __init__(self, session: MqttSession, octets: bytes) -> None:
        super().__init__(session.confirmations)
        self.session: MqttSession = session
        self.octets: bytes = octets

    def give(self) -> None:
        """Write it."""
        session = self.session
        if session.turned_away:
            return
        session.say(self.octets)
        session.welcoming = False
        session.broker.effort.later(session.rest)
        outgoing = session.outbound
        subscribing = session.subscribing
        if outgoing is not None and subscribing is not None:
            outgoing.resume()
            subscribing.begin()

    def refuse(self, error: EntrepotError) -> None:
        """The disk failed: the connection ends."""
        self.session.fail(error)


def _brief(error: EntrepotError) -> str:
    return error.message[:REASON_MAX].replace("\0", "")
