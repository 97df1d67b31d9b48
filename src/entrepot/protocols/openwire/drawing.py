"""One session of OpenWire that draws messages from queues of an ActiveMQ into this broker. [C]

To the other broker it is a consumer as any other: it needs no right but to read, and takes its turn with the others.
All that came in one chunk is acknowledged in one range, once our disk has it; that is half the work for an ActiveMQ of
what it does for a bridge, which settles each message for itself. A topic is read through a durable subscription there.

A message that comes again is known by its id and the time at which the other broker took it in (``brokerInTime``),
which is on the disk there too: so one that an operator there sends again from a dead letter queue, with the id that it
had, is another one. The number that ActiveMQ gives (``brokerSequenceId``) would not do: it begins anew at each start,
and a JDBC store puts its own in place of it. A broker of ours keeps its number, and has no such time.

The prefetch bounds what is on its way, in messages; it is half of the ids that this broker remembers, at the most. A
policy there may raise one that is a client's own default; where far more comes than was asked for and we have no room,
the next connection asks for one that no policy changes. Where a policy says that consumers have no prefetch, each
message is pulled when our disk has the one before.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i32, i64

from entrepot.base.environment import MILLISECOND, Entropy, Instant
from entrepot.base.errors import EntrepotError, Fault
from entrepot.base.uri import Endpoint
from entrepot.core.broker import BrokerCore
from entrepot.model.address import Destination
from entrepot.protocols.drawing import (
    ENDING,
    GRACE_LEAST,
    GRACE_WITHOUT_END,
    Batch,
    Draw,
    Drawer,
    DrawerPort,
    Intake,
    IntakePort,
    Taking,
)
from entrepot.protocols.openwire import commands
from entrepot.protocols.openwire.client import ClientPort, OpenWireClient
from entrepot.protocols.openwire.commands import (
    ActiveMQQueue,
    ActiveMQTopic,
    BrokerInfo,
    Command,
    ConnectionError,
    ConnectionId,
    ConnectionInfo,
    ConsumerControl,
    ConsumerId,
    ConsumerInfo,
    ExceptionResponse,
    FlushCommand,
    MessageAck,
    MessageDispatch,
    MessageId,
    MessagePull,
    RemoveInfo,
    Response,
    SessionId,
    SessionInfo,
)
from entrepot.protocols.openwire.convert import OPENWIRE_LANGUAGE, message_of
from entrepot.protocols.openwire.elements import Throwable
from entrepot.protocols.openwire.ids import AckType, LastDelivered, text_of
from entrepot.protocols.openwire.negotiation import WireFormatOptions
from entrepot.protocols.session import Session, Shell

SESSION: Final = 1
TOKEN_OCTETS: Final = 8
OURS: Final = WireFormatOptions().provider_name
BEYOND: Final = 10  # prefetches on their way from one queue: a policy there may raise what we asked for, but not so far
DEFAULTS: Final = (100, 1_000)  # prefetches of Java's client, in place of which ActiveMQ puts those of its policies


class OpenWireDraw(Draw):
    """One queue that is drawn over OpenWire."""

    def __init__(self, source: str, topic: str, place: Destination) -> None:
        super().__init__(source, topic, place)
        self.consumer: ConsumerId | None = None
        self.where: commands.Destination = ActiveMQTopic(topic) if topic else ActiveMQQueue(source)
        self.mark: bytes = f"{source}\t".encode("utf-8", "surrogatepass")
        self.coming: MessageId | None = None  # of the message that came
        self.last: MessageId | None = None  # of the one that was taken last
        self.prefetch: i64 = 0  # messages on their way, as it was asked for
        self.settled: i64 = 0  # messages that were acknowledged
        self.pulls: bool = False  # nothing comes unasked

    def take(self) -> None:
        """The message that came is in this broker."""
        super().take()
        self.last = self.coming


class _Range(Batch):
    """Up to the message ``last``."""

    def __init__(self, intake: Intake, draw: OpenWireDraw) -> None:
        super().__init__(intake, draw)
        self.drawn: OpenWireDraw = draw
        self.last: MessageId | None = draw.last


class OpenWireIntake(Intake):
    """What one session over OpenWire takes in."""

    def __init__(self, broker: BrokerCore, port: IntakePort, drawer: OpenWireDrawer, origin: i64) -> None:
        """``origin``: as of `Intake`."""
        super().__init__(broker, port, origin)
        self.drawer: OpenWireDrawer = drawer

    def take(self, dispatch: MessageDispatch) -> None:
        """Take a message of a queue that is drawn still; any other one goes back."""
        command = dispatch.message
        consumer = dispatch.consumer_id
        if command is None or consumer is None:
            return
        draw = self.draws.get(int(consumer.value))
        if draw is None or draw.state >= ENDING:
            return
        drawn = openwire(draw)
        message_id = command.message_id
        if message_id is None:
            self.port.fail("a message came without an id")
            return
        if draw.received - drawn.settled >= draw.doubts:  # what comes beyond is not known when it comes again
            self.drawer.insists = True
            times = draw.doubts // drawn.prefetch
            self.port.fail(f"{times} times the prefetch of {drawn.prefetch} messages came unacknowledged")
            return
        try:
            message = message_of(command, draw.place.name)
        except EntrepotError as error:
            self.refuse(draw, error)
            return
        prefix = OPENWIRE_LANGUAGE.prefix(message)
        known = f"{prefix}{message_id.producer_sequence_id}" if prefix else spelt(message_id)
        taken_in = command.broker_in_time
        if taken_in <= 0 or self.drawer.numbers_stay:
            taken_in = message_id.broker_sequence_id
        drawn.coming = message_id
        self.give(draw, message, drawn.mark + f"{known}\t{taken_in}".encode("utf-8", "surrogatepass"))

    def batch(self, draw: Draw) -> Batch:
        """Return what came from ``draw`` since the batch before."""
        return _Range(self, openwire(draw))

    def acknowledge(self, batch: Batch) -> None:
        """Acknowledge all up to the end of ``batch``: what was sent first and is not acknowledged yet begins it."""
        assert isinstance(batch, _Range)
        drawn = batch.drawn
        count = batch.upto - drawn.settled
        drawn.settled = batch.upto
        self.drawer.post(
            MessageAck(
                destination=drawn.where,
                consumer_id=drawn.consumer,
                ack_type=AckType.STANDARD,
                last_message_id=batch.last,
                message_count=i32(count),
            )
        )
        if drawn.pulls and drawn.state < ENDING:
            self.drawer.pull(drawn)


class _Ears(ClientPort):
    """What a connection says, told to the drawer while it counts on that connection."""

    def __init__(self, drawer: OpenWireDrawer) -> None:
        self.drawer: OpenWireDrawer = drawer

    def agreed(self, client: OpenWireClient) -> None:
        """Commands may be sent now."""
        if client is self.drawer.client:
            self.drawer.agreed(client)

    def dispatched(self, client: OpenWireClient, dispatch: MessageDispatch) -> None:
        """A message."""
        if client is self.drawer.client:
            self.drawer.taking.take(dispatch)

    def responded(self, client: OpenWireClient, response: Response) -> None:
        """An answer."""
        if client is self.drawer.client:
            self.drawer.responded(response)

    def told(self, client: OpenWireClient, command: Command) -> None:
        """Anything else."""
        if client is self.drawer.client:
            self.drawer.told(command)

    def settled(self, client: OpenWireClient) -> None:
        """A chunk was taken in: have it acknowledged once our disk has it."""
        if client is self.drawer.client:
            self.drawer.taking.settle()
            self.drawer.port.heard()

    def writable(self, client: OpenWireClient, ready: bool) -> None:
        """The socket is full, or takes octets again."""
        if client is self.drawer.client:
            self.drawer.port.writable(ready)

    def lost(self, client: OpenWireClient, why: str) -> None:
        """The connection is gone."""
        if client is self.drawer.client:
            self.drawer.lost(why)


class _Ask:
    """One request that is not answered yet. ``draw`` None: it only shows that the other broker answers."""

    def __init__(self, draw: OpenWireDraw | None, ends: bool) -> None:
        self.draw: OpenWireDraw | None = draw
        self.ends: bool = ends


class OpenWireDrawer(Drawer):
    """The session of one bridge that draws."""

    def __init__(
        self,
        broker: BrokerCore,
        port: DrawerPort,
        entropy: Entropy,
        *,
        origin: i64,
        user: str,
        password: str,
        client_id: str,
        prefetch: i64,
        inactivity_ms: i64,
    ) -> None:
        """``origin``: as of `Intake`. ``client_id``: also of the durable subscriptions there.

        ``prefetch``: messages on their way from one queue, at the most. ``inactivity_ms``: how long either side may be
        silent; 0: for ever.
        """
        super().__init__(broker, port)
        self.entropy: Entropy = entropy
        self.user: str | None = user or None
        self.password: str | None = password or None
        self.client_id: str = client_id
        self.prefetch: i64 = prefetch
        self.inactivity_ms: i64 = inactivity_ms
        self.client: OpenWireClient | None = None
        self.name: str = ""  # of the other broker
        self.numbers_stay: bool = False  # it is one of ours
        self.insists: bool = False  # on its prefetch, whatever a policy there says
        self.taking: OpenWireIntake = OpenWireIntake(broker, Taking(self), self, origin)
        grace = 3 * inactivity_ms * MILLISECOND if inactivity_ms > 0 else GRACE_WITHOUT_END
        self.taking.grace = max(GRACE_LEAST, grace)
        self._connection: ConnectionId = ConnectionId("")
        self._entering: i64 = 0  # the number of the command that introduces us, 0 when it is answered
        self._asked: dict[int, _Ask] = {}  # by the number of the answer

    @property
    def intake(self) -> Intake:
        """What it takes in."""
        return self.taking

    @property
    def peer(self) -> str:
        """The name of the other broker."""
        return self.name

    def draw(self, source: str, topic: str, place: Destination) -> Draw:
        """Return what is to be drawn."""
        return OpenWireDraw(source, topic, place)

    # -- connections ---------------------------------------------------------------------------------------------------

    def dial(self, shell: Shell, place: Endpoint, now: Instant) -> Session:
        """Return a connection to the other broker at ``place``; there is none before it. Raises InvalidOption."""
        options = WireFormatOptions.of(place, int(self.inactivity_ms))
        client = OpenWireClient(shell, options, _Ears(self), now, keep_encodings=True)
        self.client = client
        return client

    def is_dialled(self) -> bool:
        """Return whether there is a connection."""
        return self.client is not None

    def close(self, why: str) -> None:
        """End the connection, in order. What is not acknowledged goes back to its queues."""
        client = self.client
        self.client = None
        if client is None:
            return
        if self.open and client.live:
            client.post(RemoveInfo(object_id=self._connection, last_delivered_sequence_id=LastDelivered.UNSET))
        self._shut()
        client.port = ClientPort()  # nobody listens to it any more
        client.shut(why, int(self.broker.now))

    def lost(self, why: str) -> None:
        """The connection is gone."""
        self.client = None
        self._shut()
        self.port.lost(why)

    def _shut(self) -> None:
        self.open = False
        self.name = ""
        self._entering = 0
        self._asked.clear()
        self.taking.clear()

    def agreed(self, client: OpenWireClient) -> None:
        """Both sides speak one format: say who we are."""
        self.port.greeted()
        if self.client is None:
            return
        self.numbers_stay = client.program.startswith(OURS)
        token = self.entropy.token(TOKEN_OCTETS).hex()
        self._connection = ConnectionId(f"ID:{self.broker.ids.node_id}-{token}:1")
        self._entering = client.ask(
            ConnectionInfo(
                connection_id=self._connection,
                client_id=self.client_id,
                user_name=self.user,
                password=self.password,
                manageable=True,  # it tells consumers what an operator or a policy says
                client_master=True,
            )
        )

    def post(self, command: Command) -> None:
        """Send, where there is a session."""
        client = self.client
        if client is not None and self.open:
            client.post(command)

    def _ask(self, command: Command, draw: OpenWireDraw | None, ends: bool = False) -> i64:
        client = self.client
        if client is None or not self.open:
            return 0
        number = client.ask(command)
        self._asked[number] = _Ask(draw, ends)
        return number

    def query(self) -> i64:
        """Ask for a sign of life."""
        return self._ask(FlushCommand(), None)

    # -- queues --------------------------------------------------------------------------------------------------------

    @property
    def asked_for(self) -> i64:
        """The prefetch that we name."""
        return self.prefetch + 1 if self.insists and int(self.prefetch) in DEFAULTS else self.prefetch

    def ask_for(self, draw: Draw) -> None:
        """Consume; less at once where more could come again than is remembered here.

        Nothing comes from a queue before that is granted: an ActiveMQ that refuses only the topic on which it tells of
        the consumer leaves that consumer in the queue, with all that it was given, until it is started again.
        """
        drawn = openwire(draw)
        consumer = ConsumerId(self._connection.value, SESSION, int(draw.number))
        drawn.consumer = consumer
        remembered = self.taking.remembered(draw)
        drawn.prefetch = max(1, min(self.asked_for, remembered // 2))
        drawn.doubts = min(BEYOND * drawn.prefetch, remembered)
        self._ask(
            ConsumerInfo(
                consumer_id=consumer,
                destination=drawn.where,
                prefetch_size=i32(drawn.prefetch) if draw.topic else 0,
                dispatch_async=True,
                client_id=self.client_id,
                subscription_name=draw.source if draw.topic else None,
                optimized_acknowledge=True,
            ),
            drawn,
        )

    def started(self, draw: Draw) -> None:
        """Let a prefetch of it come."""
        drawn = openwire(draw)
        if not draw.topic:
            many = i32(drawn.prefetch)
            self.post(ConsumerControl(destination=drawn.where, consumer_id=drawn.consumer, prefetch=many))

    def ask_end(self, draw: Draw) -> None:
        """Close its consumer. All that was taken is acknowledged, so nothing else counts as delivered."""
        drawn = openwire(draw)
        self._ask(RemoveInfo(object_id=drawn.consumer, last_delivered_sequence_id=LastDelivered.UNSET), drawn, True)

    def pull(self, draw: OpenWireDraw) -> None:
        """Have one message come, when there is one."""
        self.post(MessagePull(consumer_id=draw.consumer, destination=draw.where))

    # -- what is heard -------------------------------------------------------------------------------------------------

    def responded(self, response: Response) -> None:
        """Take an answer."""
        number = response.correlation_id
        refusal = ""
        if isinstance(response, ExceptionResponse):
            refusal = words_of(response.exception) or "it gives no reason"
        if number == self._entering:
            self._entering = 0
            if refusal:
                self.fail(f"it does not let in {self.user or 'who gives no userName'}: {refusal}")
                return
            self.open = True
            self.post(SessionInfo(session_id=SessionId(self._connection.value, SESSION)))
            self.port.opened()
            return
        if number not in self._asked:
            return
        ask = self._asked.pop(number)
        draw = ask.draw
        if draw is None:
            self.port.arrived(i64(number))
        elif ask.ends or refusal:  # refused or not, it has no consumer of this number any more
            draw.why = draw.why or refusal
            self.part(draw)
        else:
            self.granted(draw)

    def told(self, command: Command) -> None:
        """Take what the other broker says unasked."""
        if isinstance(command, BrokerInfo):
            self.name = command.broker_name or ""
        elif isinstance(command, ConnectionError):
            self.fail(f"the other broker says: {words_of(command.exception)}")
        elif isinstance(command, ConsumerControl) and command.consumer_id is not None:
            draw = self.taking.draws.get(int(command.consumer_id.value))
            if draw is not None:
                self._controlled(openwire(draw), command)

    def _controlled(self, draw: OpenWireDraw, control: ConsumerControl) -> None:
        """Take what the other broker says to one consumer: that it is closed, or how much comes to it unasked."""
        if control.close:
            self.end(draw, "the other broker closed the consumer: its queue was deleted, or an operator did it")
        else:
            pulls = control.prefetch == 0
            if pulls and not draw.pulls and draw.state < ENDING:
                self.pull(draw)
            draw.pulls = pulls


def words_of(exception: Throwable | None) -> str:
    """Return what a broker says went wrong, "" for nothing."""
    if exception is None:
        return ""
    return exception.message or exception.class_name or ""


def spelt(message_id: MessageId) -> str:
    """Return an id that its sender chose, or that is unusual, with what its connection makes unique of it."""
    producer = message_id.producer_id
    text = text_of(message_id)
    return text if producer is None else f"{text}\t{text_of(producer)}:{message_id.producer_sequence_id}"


def openwire(draw: Draw) -> OpenWireDraw:
    """Return ``draw``, which is drawn over OpenWire."""
    if not isinstance(draw, OpenWireDraw):
        raise Fault("what is drawn over OpenWire was asked for otherwise")
    return draw
