"""One session of CORE that draws messages from queues of another broker into this one. [C]

It opens the session, has a consumer for each queue that is drawn, and closes them; what comes `Intake` takes. Requests
are answered in order, so what an answer is to is known without a number. A consumer is closed when all that was taken
from it is acknowledged: the other broker gives to somebody else what is not.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import MILLISECOND, Entropy, Instant
from entrepot.base.uri import Endpoint
from entrepot.core.broker import BrokerCore
from entrepot.model.address import Destination
from entrepot.model.ids import UUID_OCTETS, uuid_text
from entrepot.protocols.artemis.client import ClientPort, CoreClient
from entrepot.protocols.artemis.linking.intake import CoreDraw, CoreIntake, Poster
from entrepot.protocols.artemis.linking.places import backup_of, beside, store_at, unknown_store
from entrepot.protocols.artemis.packets import (
    BindingQuery,
    BindingQueryReply,
    Close,
    CloseConsumer,
    ClusterTopology,
    CreateConsumer,
    CreateQueue,
    CreateSession,
    CreateSessionReply,
    DisconnectConsumer,
    ExceptionReply,
    FlowToken,
    NullReply,
    Packet,
    QueueQueryReply,
    Receive,
    ReceiveContinuation,
    ReceiveLarge,
    Start,
)
from entrepot.protocols.artemis.places import CORE_MULTICAST
from entrepot.protocols.artemis.refusals import NO_QUEUE, QUEUE_EXISTS
from entrepot.protocols.artemis.schema import VERSION_MAX
from entrepot.protocols.drawing import GRACE_LEAST, MISSING, Draw, Drawer, DrawerPort, Intake, Taking
from entrepot.protocols.session import Shell

SESSIONS: Final = 1  # the channel where sessions are made
CHANNEL: Final = 10
UNLIMITED: Final = -1
ASKED: Final = "activemq.management"  # an address that every broker has, for a query that only shows that it answers
LARGE_FROM: Final = 100 * 1024  # what Artemis' clients say; a server decides by its own mark

ASKS_QUEUE: Final = 1  # what a reply is to: CREATE_QUEUE,
ASKS_CONSUMER: Final = 2  # CREATE_CONSUMER,
ASKS_END: Final = 3  # CLOSE_CONSUMER,
ASKS_SIGN: Final = 4  # a query that only shows that the other broker answers


class _Ask:
    """One request that is not answered yet; answers come in order."""

    def __init__(self, kind: i64, draw: Draw | None, number: i64) -> None:
        self.kind: i64 = kind
        self.draw: Draw | None = draw
        self.number: i64 = number


class _Voice(Poster):
    """What taking in says, sent on the session."""

    def __init__(self, drawer: CoreDrawer) -> None:
        self.drawer: CoreDrawer = drawer

    def post(self, packet: Packet) -> bool:
        """Send it."""
        return self.drawer.post(packet)


class _Ears(ClientPort):
    """What a connection says, told to the drawer."""

    def __init__(self, drawer: CoreDrawer) -> None:
        self.drawer: CoreDrawer = drawer

    def greeted(self, client: CoreClient) -> None:
        """The other broker greets."""
        self.drawer.greeted(client)

    def told(self, client: CoreClient, packet: Packet) -> None:
        """A packet."""
        self.drawer.told(client, packet)

    def settled(self, client: CoreClient) -> None:
        """A chunk was read."""
        self.drawer.settled(client)

    def writable(self, client: CoreClient, ready: bool) -> None:
        """Back-pressure."""
        self.drawer.writable(client, ready)

    def lost(self, client: CoreClient, why: str) -> None:
        """It is gone."""
        self.drawer.lost(client, why)


class CoreDrawer(Drawer):
    """The session of one bridge. ``taking`` knows the node there, "" while there is no session."""

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
        window: i64,
        ttl_ms: i64,
        ha: bool = True,
    ) -> None:
        """``origin``, ``window``: as of `CoreIntake`. ``ha``: tell where the backup of the other broker is."""
        super().__init__(broker, port)
        self.entropy: Entropy = entropy
        self.user: str | None = user or None
        self.password: str | None = password or None
        self.client_id: str | None = client_id or None
        self.ttl_ms: i64 = ttl_ms
        self.ha: bool = ha
        self.client: CoreClient | None = None
        self.place: Endpoint | None = None  # that was dialled
        self.taking: CoreIntake = CoreIntake(broker, Taking(self), _Voice(self), origin, window)
        self.taking.grace = max(GRACE_LEAST, 3 * ttl_ms * MILLISECOND)
        self._members: dict[str, list[Endpoint]] = {}  # of the other broker's cluster, by node
        self._asked: deque[_Ask] = deque()
        self._queries: i64 = 0

    @property
    def intake(self) -> Intake:
        """What it takes in."""
        return self.taking

    @property
    def peer(self) -> str:
        """The id of the node there."""
        return self.taking.node

    def draw(self, source: str, topic: str, place: Destination) -> Draw:
        """Return what is to be drawn."""
        return CoreDraw(source, topic, place)

    # -- connections ---------------------------------------------------------------------------------------------------

    def dial(self, shell: Shell, place: Endpoint, now: Instant) -> CoreClient:
        """Return a connection to the other broker at ``place``; there is none before it."""
        client = CoreClient(shell, _Ears(self), now, self.ttl_ms)
        self.client = client
        self.place = place
        self._members = {}
        self.taking.begin(client)
        return client

    def close(self, why: str) -> None:
        """End the session and the connection, in order. What is not acknowledged goes back to its queues."""
        client = self.client
        self.client = None
        if client is None:
            return
        if self.open and client.live:
            client.send(Close(channel=CHANNEL))
        self._shut()
        client.port = ClientPort()  # nobody listens to it any more
        client.shut(why, int(self.broker.now))

    def is_dialled(self) -> bool:
        """Return whether there is a connection."""
        return self.client is not None

    def lost(self, client: CoreClient, why: str) -> None:
        """The connection is gone."""
        if client is self.client:
            self.client = None
            self._shut()
            self.port.lost(why)

    def _shut(self) -> None:
        self.open = False
        self._asked.clear()
        self.taking.clear()

    def greeted(self, client: CoreClient) -> None:
        """The other broker greets: ask for a session."""
        if client is not self.client:
            return
        self.port.greeted()
        if self.client is None:
            return
        client.send(
            CreateSession(
                name=uuid_text(self.entropy.token(UUID_OCTETS)),
                session_channel=CHANNEL,
                version=VERSION_MAX,
                user=self.user,
                password=self.password,
                min_large=LARGE_FROM,
                auto_commit_sends=True,
                auto_commit_acks=True,
                window=UNLIMITED,
                pre_ack=False,
                client_id=self.client_id,
                channel=SESSIONS,
            )
        )

    def _entered(self, packet: Packet) -> None:
        if isinstance(packet, CreateSessionReply):
            node = store_at(self._members, self.place)
            if not node:
                self.fail(unknown_store(len(self._members)))
                return
            self.taking.node = node
            self.open = True
            self.post(Start())
            self.port.opened()
        elif isinstance(packet, ExceptionReply):
            self.fail(f"the other broker opens no session: {packet.text or packet.code}")

    def post(self, packet: Packet) -> bool:
        """Send ``packet`` on the session; False: there is none."""
        client = self.client
        if client is None or not self.open:
            return False
        packet.channel = CHANNEL
        client.send(packet)
        return True

    def _ask(self, packet: Packet, kind: i64, draw: Draw | None, number: i64 = 0) -> None:
        if self.post(packet):
            self._asked.append(_Ask(kind, draw, number))

    def query(self) -> i64:
        """Ask something that the other broker itself answers; return the number of the answer, 0 for nothing asked."""
        if not self.open:
            return 0
        self._queries += 1
        self._ask(BindingQuery(address=ASKED), ASKS_SIGN, None, self._queries)
        return self._queries

    # -- queues --------------------------------------------------------------------------------------------------------

    def ask_for(self, draw: Draw) -> None:
        """Make its queue, where it is of a topic, and consume."""
        if draw.topic:
            self._ask(
                CreateQueue(
                    address=draw.topic,
                    queue=draw.source,
                    durable=True,
                    require_response=True,
                    routing=CORE_MULTICAST,
                    max_consumers=UNLIMITED,
                    auto_delete=False,
                ),
                ASKS_QUEUE,
                draw,
            )
        else:
            self._consume(draw)

    def _consume(self, draw: Draw) -> None:
        consumer = CreateConsumer(consumer=draw.number, queue=draw.source, require_response=True, priority=0)
        self._ask(consumer, ASKS_CONSUMER, draw)

    def started(self, draw: Draw) -> None:
        """Let a window of it come."""
        self.post(FlowToken(consumer=draw.number, credits=self.taking.open_window(draw)))

    def pause(self, draw: Draw) -> None:
        """Take all credit back."""
        self.post(FlowToken(consumer=draw.number, credits=0))

    def ask_end(self, draw: Draw) -> None:
        """Close its consumer."""
        self._ask(CloseConsumer(consumer=draw.number), ASKS_END, draw)

    def _answered(self, refusal: ExceptionReply | None) -> None:
        """The oldest request is answered."""
        if not self._asked:
            if refusal is not None:
                self.fail(f"the other broker says: {refusal.text or refusal.code}")
            return
        ask = self._asked.popleft()
        draw = ask.draw
        if draw is None:
            self.port.arrived(ask.number)
            return
        if refusal is not None and not (ask.kind == ASKS_QUEUE and refusal.code == QUEUE_EXISTS):
            if not draw.why:
                missing = refusal.code == NO_QUEUE
                draw.why = MISSING if missing else refusal.text or f"code {refusal.code}"
            self.part(draw)
        elif ask.kind == ASKS_QUEUE:
            self._consume(draw)
        elif ask.kind == ASKS_END:
            self.part(draw)
        else:
            self.granted(draw)

    # -- what is heard -------------------------------------------------------------------------------------------------

    def told(self, client: CoreClient, packet: Packet) -> None:
        """Take a packet of the other broker."""
        if client is not self.client:
            return
        if packet.channel == CHANNEL:
            self._heard(packet)
        elif packet.channel == SESSIONS:
            self._entered(packet)
        elif isinstance(packet, ClusterTopology):
            if packet.exit:
                self._members.pop(packet.node, None)
            else:
                self._members[packet.node] = backup_of(packet)
            if self.ha and self.place is not None:
                self.port.located(beside(packet, self.place, ()))

    def _heard(self, packet: Packet) -> None:
        if isinstance(packet, (Receive, ReceiveLarge, ReceiveContinuation)):
            self.taking.take(packet)
        elif isinstance(packet, ExceptionReply):
            self._answered(packet)
        elif isinstance(packet, (QueueQueryReply, NullReply, BindingQueryReply)):
            self._answered(None)
        elif isinstance(packet, DisconnectConsumer):
            draw = self.taking.draws.get(int(packet.consumer))
            if draw is not None:
                draw.why = "the other broker closed the consumer: its queue was deleted, or an operator did it"
                self.part(draw)

    def settled(self, client: CoreClient) -> None:
        """A chunk was taken in: have it acknowledged once our disk has it."""
        if client is not self.client:
            return
        self.taking.settle()
        self.port.heard()

    def writable(self, client: CoreClient, ready: bool) -> None:
        """The socket is full, or takes octets again."""
        if client is self.client:
            self.port.writable(ready)
