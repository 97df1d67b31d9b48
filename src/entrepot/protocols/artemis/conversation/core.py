"""A program's connection to brokers that speak CORE, which outlives its sockets. [C]

Puts the roles together: one session of CORE for the connection itself, which owns temporary destinations, and one for
each session of the program. Holds at most one wire; on each new one all sessions are made anew under the channels that
they had (artemis.md 5.2.6, Not reattached). Whether and whither to dial is `protocols/failover.py`'s matter.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import Entropy, Instant
from entrepot.base.errors import EntrepotError, TransactionError
from entrepot.base.uri import Endpoint
from entrepot.protocols.artemis.client import ClientPort, CoreClient
from entrepot.protocols.artemis.conversation.branches import Branches, Branching
from entrepot.protocols.artemis.conversation.identity import Identity, Windows
from entrepot.protocols.artemis.conversation.messages import address_and_routing
from entrepot.protocols.artemis.conversation.places import subscription_queue
from entrepot.protocols.artemis.conversation.requests import LOST, STARTING, Requests, refusal
from entrepot.protocols.artemis.conversation.sessions import ClientSession
from entrepot.protocols.artemis.convert import ROUTING_ANYCAST, ROUTING_MULTICAST
from entrepot.protocols.artemis.packets import (
    BindingQueryReply,
    Close,
    CloseConsumer,
    ClusterTopology,
    CreateQueue,
    CreateSessionReply,
    Credits,
    DeleteQueue,
    DisconnectConsumer,
    ExceptionReply,
    FailCredits,
    NullReply,
    Packet,
    PacketsConfirmed,
    QueueQueryReply,
    ReattachSession,
    ReattachSessionReply,
    Receive,
    ReceiveContinuation,
    ReceiveLarge,
    XaInDoubtXidsReply,
    XaReply,
)
from entrepot.protocols.artemis.primitives import Connector
from entrepot.protocols.conversing.modes import Acknowledge
from entrepot.protocols.conversing.port import Answer, ConversationEvents, SessionPort, Wire, WireEvents
from entrepot.protocols.session import NEVER, Shell

SESSIONS_CHANNEL: Final = 1  # where sessions are made
FIRST_CHANNEL: Final = 10
CLIENT_OPTIONS: Final = "jms."
MEMBERS_MAX: Final = 1_000
REPLIES: Final = (NullReply, QueueQueryReply, BindingQueryReply, ExceptionReply, XaReply, XaInDoubtXidsReply)
NOTHING: Final = "_AMQX=-1"
"""The filter of the queue that keeps a temporary topic alive and gets nothing, as Artemis' client writes it."""


class DialledWire(Wire):
    """A wire to one broker, from the first octet until it carries the conversation."""

    def __init__(self, core: CoreConversation, shell: Shell, now: Instant, events: WireEvents) -> None:
        self._core: Final = core
        self._greeting: Final = _Greeting(events)
        self.client: Final = CoreClient(shell, self._greeting, now, core.identity.windows.ttl_ms)
        super().__init__(self.client)

    def use(self) -> None:
        """Carry the conversation."""
        self.client.port = self._core.hearing
        self._core.use(self.client)
        for packet in self._greeting.members:
            located_members(self._core, packet)
        self._greeting.members.clear()

    def leave(self, why: str) -> None:
        """Carry it no more."""
        self._core.leave_wire(self.client)
        self.client.port = ClientPort()  # nobody listens to it any more


def _wake(session: ClientSession) -> None:
    """Let consumers look into their buffers: what lies there is theirs still."""
    for consumer in list(session.consumers.values()):
        if consumer.inbox:
            consumer.wake()


class _Greeting(ClientPort):
    """Hears a wire until it is used. ``members``: what was said meanwhile about who is in the cluster."""

    def __init__(self, events: WireEvents) -> None:
        self._events: Final = events
        self.members: Final[list[ClusterTopology]] = []

    def told(self, client: CoreClient, packet: Packet) -> None:
        if isinstance(packet, ClusterTopology) and len(self.members) < MEMBERS_MAX:
            self.members.append(packet)

    def greeted(self, client: CoreClient) -> None:
        self._events.opened()

    def lost(self, client: CoreClient, why: str) -> None:
        self._events.failed(why)


class CoreConversation(Branching):
    """One connection of a program to brokers that speak CORE."""

    def __init__(
        self,
        name: str,
        client_id: str,
        user: str | None,
        password: str | None,
        events: ConversationEvents,
        entropy: Entropy,
        *,
        reconnects: bool,
        windows: Windows | None = None,
    ) -> None:
        super().__init__(events)
        self.identity: Final = Identity(
            name, client_id, user, password, entropy, windows or Windows(), reconnects=reconnects
        )
        self.hearing: Final = Hearing(self)
        self.wire: CoreClient | None = None
        self.own: Final = ClientSession(self.identity, Acknowledge.AUTO, FIRST_CHANNEL, serves=True)
        self.sessions: Final[dict[int, ClientSession]] = {FIRST_CHANNEL: self.own}
        self.opening: Final[deque[ClientSession]] = deque()  # who waits for an answer on `SESSIONS_CHANNEL`
        self.temporaries: Final[dict[str, CreateQueue]] = {}
        self.members: Final[dict[str, list[str]]] = {}  # of the cluster: where each is reached
        self._later: list[Callable[[], None]] = []
        self._first = True
        self._channels: i64 = FIRST_CHANNEL
        self._coordinator: ClientSession | None = None  # who is asked to prepare and commit branches
        self.reattached: i64 = 0  # sessions that went on over another wire

    # -- the wire ------------------------------------------------------------------------------------------------------

    def speaks(self, option: str) -> bool:
        """Tell whether ``option`` is about the client, not about the socket."""
        return option.startswith(CLIENT_OPTIONS)

    def dial(self, place: Endpoint, shell: Shell, now: Instant, events: WireEvents) -> Wire:
        """Return a wire to ``place``."""
        return DialledWire(self, shell, now, events)

    def use(self, wire: CoreClient) -> None:
        """Make our own session on ``wire``; the others follow when it is there."""
        self._tell_time()
        self.wire = wire
        self._begin(self.own)

    def _begin(self, session: ClientSession) -> None:
        """Ask the server to go on with a session that waits for it, or make it."""
        wire, replay = self.wire, session.requests.replay
        if wire is None:
            return
        if replay is None:
            self._create(session)
        else:
            self.opening.append(session)
            last = replay.last_heard()
            wire.send(ReattachSession(name=replay.name, last_confirmed=last, channel=SESSIONS_CHANNEL))

    def _create(self, session: ClientSession) -> None:
        wire = self.wire
        if wire is not None:
            self.opening.append(session)
            wire.send(session.creation())

    def session_found(self, reply: ReattachSessionReply) -> None:
        """The oldest session that was asked for goes on here, or this server does not have it."""
        wire = self.wire
        if wire is None or not self.opening:
            return
        session = self.opening.popleft()
        if reply.reattached:
            self.reattached += 1
            session.requests.resume(wire, reply.last_confirmed)
            _wake(session)
            wire.alarm = min(wire.alarm, session.rang(self.now))
            if session is self.own:
                self._introduced(True)
            return
        session.lost()
        if session.closed:
            self._ended(session)
        else:
            self._create(session)

    def session_made(self) -> None:
        """The oldest session that was asked for is open."""
        wire = self.wire
        if wire is None or not self.opening:
            return
        session = self.opening.popleft()
        session.created(wire)
        if session is self.own:
            self._introduced(False)

    def session_refused(self, reply: ExceptionReply) -> None:
        """The oldest session that was asked for is refused: so is the connection."""
        if not self.opening:
            return
        session = self.opening.popleft()
        if reply.code == STARTING:
            self._fall("the broker is starting")
            return
        error = refusal(reply)
        if session is not self.own:
            session.end(error)
            return
        first = self._first
        self._withdraw()
        self.events.rejected(error, first)

    def _introduced(self, reattached: bool) -> None:
        first, self._first = self._first, False
        self.introduced = True
        for create in self.temporaries.values():
            if not first and not reattached:
                self.own.requests.ask(create, _ignored)
        for session in list(self.sessions.values()):
            if session is not self.own:
                self._begin(session)
        self.events.introduced(first)

    def lost(self, wire: CoreClient, why: str) -> None:
        """The wire is gone."""
        if wire is self.wire:
            self._fall(why)

    def _fall(self, why: str) -> None:
        self._withdraw()
        self.events.lost(why)

    def leave_wire(self, wire: CoreClient) -> None:
        """Settle what is processed, and use this wire no more: nobody comes back for its sessions."""
        if wire is self.wire:
            self.flush()
            for session in self.sessions.values():
                if session.requests.replay is not None and session.requests.wire is wire:
                    session.requests.post(Close())
            self._withdraw(for_good=True)

    def _withdraw(self, *, for_good: bool = False) -> None:
        self.introduced = False
        self.wire = None
        self.opening.clear()
        for session in list(self.sessions.values()):
            if not for_good and session.requests.suspend():
                continue
            session.lost()
            if session.closed:
                self._ended(session)

    def _tell_time(self) -> None:
        self.identity.instant = self.now
        self.identity.wall_time = self.wall

    # -- what a program asks -------------------------------------------------------------------------------------------

    def busy(self) -> bool:
        """Tell whether to leave now would repeat or undo something."""
        return any(session.at_work() for session in self.sessions.values())

    def has_room(self) -> bool:
        """Tell whether the broker reads as fast as we write."""
        return self.wire is None or self.wire.ready

    def unwritten(self) -> int:
        """Return how many octets wait for the socket."""
        return 0 if self.wire is None else int(self.wire.pending())

    def settle_turn(self, now: Instant) -> None:
        """Tell the broker what was processed in the turn that ends."""
        self._tell_time()
        self.flush()

    def flush(self) -> None:
        """Tell the broker what is processed."""
        for session in self.sessions.values():
            session.flush()

    def open_session(self, mode: Acknowledge, xa: bool = False) -> SessionPort:
        """Open a session; ``xa``: for branches. Raises TransactionError for a mode that has no transactions."""
        if xa and mode is not Acknowledge.TRANSACTED:
            raise TransactionError("only a TRANSACTED session works for branches", remedy="Acknowledge.TRANSACTED")
        return self._open(mode, self.branches if xa else None, serves=False)

    def _open(self, mode: Acknowledge, branches: Branches | None, *, serves: bool) -> ClientSession:
        self._tell_time()
        self._channels += 1
        session = ClientSession(self.identity, mode, self._channels, serves=serves, branches=branches)
        session.ended = self._ended
        self.sessions[int(self._channels)] = session
        if self.introduced:
            self._create(session)
        return session

    def coordinator(self) -> Requests:
        """Return the requests of the session that works for no branch."""
        session = self._coordinator
        if session is None:
            session = self._coordinator = self._open(Acknowledge.AUTO, self.branches, serves=True)
        return session.requests

    def _ended(self, session: ClientSession) -> None:
        self.sessions.pop(int(session.channel), None)
        self._go_on()

    def add_temporary(self, topic: bool, answer: Answer) -> str:
        """Make a temporary queue or topic: a queue of the connection's own session, which ends with it."""
        name = self.identity.unique()
        routing = ROUTING_MULTICAST if topic else ROUTING_ANYCAST
        create = CreateQueue(
            address=name,
            queue=name,
            filter=NOTHING if topic else None,
            temporary=True,
            require_response=True,
            routing=routing,
        )
        self.temporaries[name] = create
        # Lost before the answer, it is made with the others on the next wire.
        self.own.requests.ask(create, lambda packet, error: answer(None if error is LOST else error))
        return f"temp-{'topic' if topic else 'queue'}://{name}"

    def remove_temporary(self, destination: str, answer: Answer) -> None:
        """Delete a temporary destination of this connection."""
        name, _ = address_and_routing(destination)
        self.temporaries.pop(name, None)
        self.own.requests.ask(DeleteQueue(queue=name), lambda packet, error: answer(error), again=True)

    def unsubscribe(self, name: str, answer: Answer) -> None:
        """Delete a durable subscription of this client id."""
        queue = subscription_queue(self.identity.client_id, name)

        def go() -> None:
            # Sessions are independent: behind the end of its consumer, in the same session, the queue is free.
            session = self.own
            for each in self.sessions.values():
                if each.requests.waits_for(CloseConsumer):
                    session = each
            session.requests.ask(DeleteQueue(queue=queue), lambda packet, error: answer(error), again=True)

        self._later.append(go)
        self._go_on()

    def _go_on(self) -> None:
        """Do what waits for sessions to be gone, when they are."""
        if not any(session.closed for session in self.sessions.values()):
            later, self._later = self._later, []
            for go in later:
                go()

    def leave(self, answer: Answer) -> None:
        """Close all sessions, our own last; ``answer`` comes with the end of that."""
        if self.wire is None or not self.wire.live:
            answer(None)
            return
        own = self.own
        others = [session for session in self.sessions.values() if session is not own]

        def ended(session: ClientSession) -> None:
            self._ended(session)
            if len(self.sessions) == 1 and own.channel in self.sessions:
                own.close()
            elif not self.sessions:
                answer(None)

        for session in [*others, own]:
            session.ended = ended
        if not others:
            own.close()
        for session in others:
            session.close()

    def end(self, error: EntrepotError) -> None:
        """The connection is over: everything that waits gets ``error``."""
        if self.failure is not None:
            return
        self.failure = error
        for session in list(self.sessions.values()):
            session.end(error)
        later, self._later = self._later, []
        for go in later:
            go()


def place_of(connector: Connector) -> str:
    """Return the URL at which a connector of TCP is dialled, "" for any other."""
    host, port = connector.value("host"), connector.value("port")
    if not isinstance(host, str) or not isinstance(port, (int, str)) or not str(port).isdecimal():
        return ""
    secure = str(connector.value("sslEnabled")).lower() == "true"
    name = f"[{host}]" if ":" in host else host
    return f"{'ssl' if secure else 'tcp'}://{name}:{port}"


def located_members(core: CoreConversation, packet: ClusterTopology) -> None:
    """A member of the cluster is there, or gone: all of them may be dialled instead of this one."""
    places = [place_of(each) for each in (packet.primary, packet.backup) if each is not None]
    known = [place for place in places if place]
    if packet.exit or not known:
        core.members.pop(packet.node, None)
    elif packet.node in core.members or len(core.members) < MEMBERS_MAX:
        core.members[packet.node] = known
    # In one order, whoever tells it first: policies of balancing count through it.
    everybody = [place for node in sorted(core.members) for place in core.members[node]]
    if everybody and (packet.last or packet.exit or len(core.members) == 1):
        core.events.directed(",".join(everybody), "", False)


def _ignored(packet: Packet | None, error: EntrepotError | None) -> None:
    """What goes wrong shows where it is used."""


class Hearing(ClientPort):
    """Takes what a broker says on the wire in use to the session that it concerns."""

    def __init__(self, core: CoreConversation) -> None:
        self._core: Final = core

    def told(self, client: CoreClient, packet: Packet) -> None:
        """Take a packet."""
        core = self._core
        if client is not core.wire:
            return
        if packet.channel == SESSIONS_CHANNEL:
            if isinstance(packet, CreateSessionReply):
                core.session_made()
            elif isinstance(packet, ReattachSessionReply):
                core.session_found(packet)
            elif isinstance(packet, ExceptionReply):
                core.session_refused(packet)
            return
        session = core.sessions.get(int(packet.channel))
        if session is not None:
            _told_session(session, packet, core)
        elif isinstance(packet, ClusterTopology):
            located_members(core, packet)

    def settled(self, client: CoreClient) -> None:
        """A chunk is taken in."""
        if client is self._core.wire:
            self._core.events.settled()

    def rang(self, client: CoreClient, now: Instant) -> None:
        """Look who is due."""
        soonest = NEVER
        for session in list(self._core.sessions.values()):
            soonest = min(soonest, session.rang(now))
        client.alarm = soonest

    def writable(self, client: CoreClient, ready: bool) -> None:
        """The socket drained, or is full."""
        if ready:
            self._core.events.flowing()

    def lost(self, client: CoreClient, why: str) -> None:
        """The wire is gone."""
        self._core.lost(client, why)


def _told_session(session: ClientSession, packet: Packet, core: CoreConversation) -> None:
    """Take what is said on the channel of ``session``."""
    replay, wire = session.requests.replay, session.requests.wire
    if replay is not None and wire is not None:
        if isinstance(packet, PacketsConfirmed):
            replay.confirmed(packet.command)
            return
        replay.came(wire, packet)
    if isinstance(packet, (Receive, ReceiveLarge, ReceiveContinuation)):
        consumer = session.consumers.get(int(packet.consumer))
        if consumer is not None:
            consumer.arrive(packet)
    elif isinstance(packet, REPLIES):
        if not session.requests.answered(packet) and isinstance(packet, ExceptionReply):
            core.events.failed(refusal(packet))
    elif isinstance(packet, (Credits, FailCredits)):
        session.credit(packet.address).granted(packet.credits)
        core.events.flowing()
    elif isinstance(packet, DisconnectConsumer):
        consumer = session.consumers.pop(int(packet.consumer), None)
        if consumer is not None:
            consumer.end("the broker closed this consumer: its queue was deleted, or an administrator did it")
