"""Programs that ask and answer over temporary destinations: OpenWire clients, each with a cable to a broker.

A `Requester` makes a temporary destination, sends a request that names it, and has its patience: what is not answered
by then is an error that it sees, and it asks anew. A `Replier` answers a request before it settles it, so a crash
brings the request again; a broker that does not know the temporary destination refuses the reply, and the replier tries
again for a while, because the news of the destination may come later than the request (classic.md 1.12).

What must hold (`Talk`): a confirmed request reaches a replier; in a network that nobody disturbs a request is answered,
or its reply refused, in bounded time: a reply that a broker took never vanishes; and when a requester is gone nobody
keeps its destinations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from entrepot.base.environment import MILLISECOND, SECOND, Duration, Instant
from entrepot.protocols.openwire.bodies import text_message, text_of_body
from entrepot.protocols.openwire.client import ClientPort, OpenWireClient
from entrepot.protocols.openwire.commands import (
    ActiveMQQueue,
    ActiveMQTempQueue,
    ActiveMQTempTopic,
    ActiveMQTextMessage,
    Command,
    ConnectionId,
    ConnectionInfo,
    ConsumerId,
    ConsumerInfo,
    Destination,
    DestinationInfo,
    ExceptionResponse,
    Message,
    MessageAck,
    MessageDispatch,
    MessageId,
    ProducerId,
    ProducerInfo,
    Response,
    SessionId,
    SessionInfo,
)
from entrepot.protocols.openwire.ids import AckType, DestinationOperation
from entrepot.protocols.openwire.negotiation import WireFormatOptions
from entrepot.protocols.openwire.options import OpenWireOptions
from entrepot.protocols.session import Shell
from entrepot.simulation.cables import End

if TYPE_CHECKING:
    from entrepot.simulation.networks import Network
    from entrepot.simulation.sites import Site
    from entrepot.simulation.world import World

REQUESTS: Final = "REQUESTS"
DELAY: Final = 20_000  # ns to a broker of the same site
AGAIN: Final = 50 * MILLISECOND  # until a program dials again, and until a refused reply is tried again
ATTEMPTS_MAX: Final = 20  # of one reply
PATIENCE: Final = 2 * SECOND  # of a requester: ten slow cables there and back are far below
PREFETCH: Final = 10
ANSWER: Final = "re "
PREFIX: Final = "ID:"  # of a connection, and of its temporary destinations


class Program(ClientPort):
    """A process at a site. It dials its broker, and again whenever the connection ends, until it is `finish`-ed."""

    def __init__(self, network: Network, site: Site, name: str) -> None:
        self.network = network
        self.world: World = network.world
        self.site: Final = site
        self.name = name
        self._noted: list[Shell] = []
        self.client: OpenWireClient | None = None
        self.runs = 0
        self.sent = 0
        self.finished = False
        self._session = SessionId("", 1)
        self._end: End | None = None
        self._asked: dict[int, Callable[[Response], None]] = {}

    # -- its machine ---------------------------------------------------------------------------------------------------

    def turn(self, action: Callable[[], object]) -> None:
        """Do ``action``, and write what it has to say."""
        action()
        noted, self._noted = self._noted, []
        for shell in noted:
            shell.flush()

    def end(self, delay: Duration) -> End:
        """Return this machine's end of a new cable."""
        return End(self, delay)

    def note(self, shell: Shell) -> None:
        """Call ``shell.flush`` at the end of this turn."""
        self._noted.append(shell)

    def dial(self) -> None:
        """Connect to the broker of the site; later, when it is down."""
        if self.finished:
            return
        site = self.site
        if site.broker is None:
            self.world.later(AGAIN, self.dial)
            return
        near, far = End(self, DELAY), End(site, DELAY)
        near.other, far.other = far, near
        self._end = near
        self.runs += 1
        name = f"{PREFIX}{self.name}-{self.runs}"
        self._session = SessionId(f"{name}:1", 1)

        def accept() -> None:
            site.ends.append(far)
            far.session = site.greet(far, OpenWireOptions(), self.name)

        site.turn(accept)
        near.session = OpenWireClient(near, WireFormatOptions(), self, self.world.time)
        self.turn(lambda: None)

    def finish(self) -> None:
        """Close the connection for good."""
        self.finished = True
        client = self.client
        if client is not None:
            self.turn(lambda: client.shut("done", self.world.time))

    @property
    def connection(self) -> str:
        """The id of the present connection."""
        return self._session.connection_id or ""

    def later(self, delay: Duration, action: Callable[[], None]) -> None:
        """Do ``action`` in ``delay`` ns, if this connection is still there."""
        client = self.client

        def act() -> None:
            if client is not None and self.client is client:
                self.turn(action)

        self.world.later(delay, act)

    # -- its connection ------------------------------------------------------------------------------------------------

    def agreed(self, client: OpenWireClient) -> None:
        """Introduce ourselves."""
        self.client = client
        self._asked.clear()
        client.post(ConnectionInfo(connection_id=ConnectionId(self.connection), client_id=f"{self.name}-{self.runs}"))
        client.post(SessionInfo(session_id=self._session))
        client.post(ProducerInfo(producer_id=ProducerId(self.connection, 1, 1)))
        self.begin()

    def begin(self) -> None:
        """Open what this program needs on a new connection."""
        raise NotImplementedError

    def lost(self, client: OpenWireClient, why: str) -> None:
        """Dial again."""
        self.client = None
        self._asked.clear()
        self.world.later(AGAIN, self.dial)

    def ask(self, command: Command, answered: Callable[[Response], None]) -> None:
        """Send ``command`` and have ``answered`` called with what the broker says."""
        client = self.client
        assert client is not None
        self._asked[client.ask(command)] = answered

    def responded(self, client: OpenWireClient, response: Response) -> None:
        """Tell who asked."""
        answered = self._asked.pop(int(response.correlation_id), None)
        if answered is not None:
            answered(response)

    def subscribe(self, where: Destination) -> None:
        """Read ``where``."""
        consumer = ConsumerId(self.connection, 1, 1)
        self.ask(ConsumerInfo(consumer_id=consumer, destination=where, prefetch_size=PREFETCH), lambda response: None)

    def message(self, text: str, where: Destination) -> ActiveMQTextMessage:
        """Return a message of ours."""
        self.sent += 1
        producer = ProducerId(self.connection, 1, 1)
        made = text_message(text)
        made.producer_id = producer
        made.destination = where
        made.message_id = MessageId(producer_id=producer, producer_sequence_id=self.sent)
        made.persistent = True
        return made

    def settle(self, message: Message) -> None:
        """Acknowledge ``message``."""
        client = self.client
        if client is not None:
            client.post(
                MessageAck(
                    destination=message.destination,
                    consumer_id=ConsumerId(self.connection, 1, 1),
                    ack_type=int(AckType.INDIVIDUAL),
                    first_message_id=message.message_id,
                    last_message_id=message.message_id,
                    message_count=1,
                )
            )


class Request(Struct):
    """One request. ``calm``: since when nothing was disturbed when it was asked, -1: something was."""

    identity: str
    asked: Instant
    calm: bool
    fresh: bool  # nobody has had the time to hear of its temporary destination
    seen: Instant = 0  # a replier has it
    taken: Instant = 0  # a broker took the reply
    refused: int = 0
    answered: Instant = 0


class Requester(Program):
    """Asks, one question at a time. ``topic``: it is answered over a temporary topic."""

    def __init__(self, talk: Talk, site: Site, name: str, *, topic: bool) -> None:
        super().__init__(talk.network, site, name)
        self.talk = talk
        self.topic = topic
        self.made: Instant = 0  # when the present temporary destination was made
        self.waiting: Request | None = None
        self.errors = 0
        self._here: Destination = ActiveMQTempQueue("")

    def begin(self) -> None:
        """Make a temporary destination of this connection, and read it."""
        name = f"{self.connection}:1"
        self._here = ActiveMQTempTopic(name) if self.topic else ActiveMQTempQueue(name)
        self.made = self.world.time
        add = int(DestinationOperation.ADD)
        made = DestinationInfo(connection_id=ConnectionId(self.connection), destination=self._here, operation_type=add)
        self.ask(made, lambda response: None)
        self.subscribe(self._here)

    def lost(self, client: OpenWireClient, why: str) -> None:
        """The question is void with its connection: that is an error, too."""
        super().lost(client, why)
        if self.waiting is not None:
            self.waiting = None
            self.errors += 1

    def question(self) -> None:
        """Ask, unless a question is open that may still be answered."""
        if self.client is None:
            return
        if self.waiting is not None:
            if self.world.time - self.waiting.asked < PATIENCE:
                return
            self.errors += 1  # `receive` returned nothing
            self.world.note(f"{self.name} gives {self.waiting.identity} up")
        self.turn(self._ask)

    def _ask(self) -> None:
        talk = self.talk
        request = talk.request(self)
        self.waiting = request
        made = self.message(request.identity, ActiveMQQueue(REQUESTS))
        made.reply_to = self._here
        made.correlation_id = request.identity
        self.world.note(f"{self.name} asks {request.identity}")
        self.ask(made, lambda response: self._sent(request, response))

    def _sent(self, request: Request, response: Response) -> None:
        if not isinstance(response, ExceptionResponse):
            self.network.confirmed(request.identity, f"queue://{REQUESTS}")

    def dispatched(self, client: OpenWireClient, dispatch: MessageDispatch) -> None:
        """An answer."""
        message = dispatch.message
        if message is None:
            return
        self.settle(message)
        identity = (_text(message)).removeprefix(ANSWER)
        request = self.talk.requests.get(identity)
        if request is None or not identity.startswith(f"{self.name}."):
            self.world.violation(f"{self.name} is told what it has not asked: {_text(message)!r}")
            return
        self.world.note(f"{self.name} is answered {identity}")
        request.answered = self.world.time
        if self.waiting is request:
            self.waiting = None


class Replier(Program):
    """Answers what it reads, and settles it then."""

    def __init__(self, talk: Talk, site: Site, name: str) -> None:
        super().__init__(talk.network, site, name)
        self.talk = talk

    def begin(self) -> None:
        """Read requests."""
        self.subscribe(ActiveMQQueue(REQUESTS))

    def dispatched(self, client: OpenWireClient, dispatch: MessageDispatch) -> None:
        """A request."""
        message = dispatch.message
        if message is None:
            return
        identity = _text(message)
        request = self.talk.requests[identity]
        request.seen = request.seen or self.world.time
        self.network.seen.setdefault(identity, []).append(self.site.name)
        self.world.note(f"{self.name} has {identity}")
        self._answer(message, request, 1)

    def _answer(self, message: Message, request: Request, attempt: int) -> None:
        where = message.reply_to
        assert where is not None
        made = self.message(ANSWER + request.identity, where)
        made.correlation_id = message.correlation_id

        def answered(response: Response) -> None:
            if not isinstance(response, ExceptionResponse):
                request.taken = self.world.time
            else:
                request.refused += 1
                if attempt < ATTEMPTS_MAX:
                    self.later(AGAIN, lambda: self._answer(message, request, attempt + 1))
                    return
            self.settle(message)

        self.ask(made, answered)


class Talk:
    """All requesters and repliers of a network, and what they asked."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.requesters: list[Requester] = []
        self.repliers: list[Replier] = []
        self.requests: dict[str, Request] = {}
        self.calm = False  # nothing is broken, and the network has had the time to see that

    def ask_at(self, name: str, *, topic: bool) -> None:
        """Have a requester at the site ``name``."""
        self.requesters.append(Requester(self, self.network.sites[name], f"asker{len(self.requesters)}", topic=topic))

    def answer_at(self, name: str) -> None:
        """Have a replier at the site ``name``."""
        self.repliers.append(Replier(self, self.network.sites[name], f"answerer{len(self.repliers)}"))

    def start(self) -> None:
        """Let everybody connect."""
        for program in [*self.repliers, *self.requesters]:
            program.dial()

    def finish(self) -> None:
        """Let everybody leave."""
        for program in [*self.requesters, *self.repliers]:
            program.finish()

    def request(self, by: Requester) -> Request:
        """Return a new request."""
        made = Request(
            identity=f"{by.name}.{len(self.requests)}",
            asked=by.world.time,
            calm=self.calm,
            fresh=by.world.time - by.made < PATIENCE,
        )
        self.requests[made.identity] = made
        return made

    def question(self) -> None:
        """Let everybody ask who has no question open."""
        for requester in self.requesters:
            requester.question()

    def lost(self) -> list[str]:
        """Return confirmed requests that no replier has seen."""
        seen = self.network.seen
        return [identity for identity in self.requests if identity in self.network.accepted and identity not in seen]

    def unanswered(self) -> list[str]:
        """Return what was asked while nothing was disturbed, long enough ago, and has not been answered."""
        return [one.identity for one in self._due() if not one.answered]

    def vanished(self) -> list[str]:
        """Return those whose reply a broker took, and that is nowhere: it should have been refused.

        A reply to a topic that nobody reads yet where it is sent is gone, as on any topic.
        """
        topics = {requester.name for requester in self.requesters if requester.topic}
        return [
            one.identity
            for one in self._due()
            if one.taken and not one.answered and not (one.fresh and one.identity.partition(".")[0] in topics)
        ]

    def _due(self) -> list[Request]:
        now = self.network.world.time
        return [one for one in self.requests.values() if one.calm and now - one.asked >= PATIENCE]

    def left_behind(self) -> list[str]:
        """Return temporary destinations that some broker still keeps, or tells of, though all requesters are gone."""
        found: list[str] = []
        for site in self.network.sites.values():
            if site.broker is None or site.neighbourhood is None:
                continue
            acceptor = site.neighbourhood.acceptor
            names = dict.fromkeys(acceptor.temporaries)
            names.update(dict.fromkeys(where.physical_name or "" for where in acceptor.advisories.temporaries))
            names.update(dict.fromkeys(acceptor.advisories.bridged))
            names.update(dict.fromkeys(site.broker.table.queues))
            found += [f"{site.name}:{name}" for name in names if name.startswith(PREFIX)]
        return found

    def counts(self) -> dict[str, int]:
        """Return what came of it, for sums."""
        requests = list(self.requests.values())
        return {
            "requests": len(requests),
            "requests answered": sum(1 for one in requests if one.answered),
            "requests given up": sum(one.errors for one in self.requesters),
            "replies refused": sum(one.refused for one in requests),
        }


def _text(message: Message) -> str:
    return (text_of_body(message) if isinstance(message, ActiveMQTextMessage) else None) or ""
