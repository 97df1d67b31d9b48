"""What `client/` asks of a conversation: the seam behind which each wire has its own.

A *conversation* is a program's connection as it outlives its sockets. A *wire* is one of these sockets with its
format. `Conversation` opens sessions, `SessionPort` opens producers and consumers, a consumer hands out deliveries. All
of it is sans-IO and belongs to one thread; who waits does so in `client/`, which is called back: an `Answer` once for
each thing that was asked, `ConversationEvents` for what nobody asked. Rules for every conversation:

- each answer comes exactly once, also when the wire is lost (asked again on the next one, or told what is in doubt)
  and at the latest with `Conversation.end`;
- what was asked while there was no wire waits for one, except a send that nobody waits for: that is not taken;
- a delivery of a lost wire settles nothing any more: the broker gives the message to somebody again. [C]
"""

from __future__ import annotations

from collections.abc import Callable

from mypy_extensions import i64, mypyc_attr

from entrepot.base.environment import Instant, WallTime
from entrepot.base.errors import AddressFull, EntrepotError, Inexpressible, TransactionInDoubt, Unreachable
from entrepot.base.uri import Endpoint
from entrepot.protocols.conversing.content import Envelope, Headers, Outgoing, Wish
from entrepot.protocols.conversing.modes import Acknowledge, RedeliveryPolicy
from entrepot.protocols.conversing.xid import Xid
from entrepot.protocols.session import Session, Shell

Answer = Callable[[EntrepotError | None], None]
"""Called once: with None when it is done, or with what went wrong."""


def in_doubt(why: str) -> Unreachable:
    """Return what is raised where nobody knows whether an acknowledgement is stored."""
    return Unreachable(
        f"the acknowledgement is in doubt: {why}",
        remedy="expect the message again: it comes unless the broker had read and stored the acknowledgement",
    )


def of_commit(error: EntrepotError | None) -> EntrepotError | None:
    """Return what the answer to a commit means: a disk that was full when it was to be written may write it later.

    Our brokers say that for want of space nothing is confirmed; what was handed to the disk, or to a replica, stays.
    """
    if isinstance(error, AddressFull):
        return TransactionInDoubt(f"in doubt: the broker had no more room when it was to commit: {error.message}")
    return error


# -- dialling ----------------------------------------------------------------------------------------------------------


@mypyc_attr(allow_interpreted_subclasses=True)
class WireEvents:
    """What a wire tells who dialled it, until it is used."""

    def opened(self) -> None:
        """It can be used: the formats are agreed."""

    def failed(self, why: str) -> None:
        """It ended before that, or before it was used."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Wire:
    """One dialled connection to a broker. ``session`` is what a shell drives."""

    def __init__(self, session: Session) -> None:
        self.session: Session = session

    def program(self) -> str:
        """Return which program the broker says it is, "" when it does not."""
        return ""

    def use(self) -> None:
        """Carry the conversation from now on: introduce it, and tell again what was."""
        raise NotImplementedError

    def leave(self, why: str) -> None:
        """Settle what is processed, and carry the conversation no more; nothing is told of this wire afterwards."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class Dialler:
    """Who uses the wires of a lifeline: a conversation, or one member of several brokers at once."""

    def speaks(self, option: str) -> bool:
        """Tell whether ``option`` of a broker's URL belongs to the wire or the client, and not to the socket."""
        raise NotImplementedError

    def dial(self, place: Endpoint, shell: Shell, now: Instant, events: WireEvents) -> Wire:
        """Return a wire to ``place``, whose options its format has. Raises InvalidOption."""
        raise NotImplementedError

    def busy(self) -> bool:
        """Tell whether to leave the broker now would repeat or undo something."""
        return False


# -- consuming ---------------------------------------------------------------------------------------------------------


@mypyc_attr(allow_interpreted_subclasses=True)
class DeliveryPort:
    """One message handed to a consumer. ``redeliveries``: how often it was handed out before."""

    def __init__(self, redeliveries: int) -> None:
        self.redeliveries: int = redeliveries
        self.live: bool = True  # False: settled, or its wire is gone

    def consumer(self) -> ConsumerPort:
        """Return whom it was handed to."""
        raise NotImplementedError

    # What it says; each is opened when it is asked for. Raises MalformedFrame, LimitExceeded.

    def body(self) -> object:
        """Return the body; its type is the message's kind."""
        raise NotImplementedError

    def properties(self) -> dict[str, object]:
        """Return the sender's own properties."""
        raise NotImplementedError

    def headers(self) -> Headers:
        """Return what the sender said besides."""
        raise NotImplementedError

    def envelope(self) -> Envelope:
        """Return what its way left on it."""
        raise NotImplementedError

    # A body that comes in pieces is not in `body`.

    def comes_in_pieces(self) -> bool:
        """Tell whether `piece` has its body: that of a large message, for a consumer that wants pieces."""
        return False

    def piece(self) -> bytes:
        """Return the next octets of its body, b"" when there are none now. Raises Unreachable: the rest never comes."""
        return b""

    def is_whole(self) -> bool:
        """Tell whether every piece was handed out."""
        return True

    def skip(self) -> None:
        """The rest of its body is not wanted."""

    def advice(self) -> object:
        """Return the command that an advisory is about, None of any other message."""
        return None

    # What becomes of it.

    def done(self) -> None:
        """AUTO, DUPS_OK: it is processed. The broker is told at the end of the turn, or lazily."""
        raise NotImplementedError

    def acknowledge(self) -> int:
        """CLIENT, INDIVIDUAL: settle it as the mode says, or do nothing. Return a mark for `confirm`."""
        raise NotImplementedError

    def reject(self, cause: str) -> None:
        """Give it up: the broker puts it into the dead letter queue. Not in a transaction."""
        raise NotImplementedError

    def is_lost(self) -> bool:
        """Tell whether the wire that it came by was lost."""
        raise NotImplementedError

    def confirm(self, mark: int, answer: Answer) -> None:
        """Let ``answer`` come when its acknowledgement is stored; in doubt (`in_doubt`) when the wire is lost before.

        ``mark``: what `acknowledge` returned. An error that the broker reported since may be about it, and is told.
        """
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class ConsumerPort:
    """A consumer, and what it holds. ``ended``: why nothing comes any more; ``exhausted``: a browse is complete.

    ``closed``: the broker was told that nothing more is wanted. ``pulled_nothing``: a pull found nothing; who reads it
    sets it back.
    """

    def __init__(self, mode: int, browser: bool) -> None:
        self.mode: int = mode  # Acknowledge; an int, because it is compared for every message
        self.browser: bool = browser
        self.ended: str = ""
        self.closed: bool = False
        self.exhausted: bool = False
        self.pulled_nothing: bool = False

    def take(self, now: Instant) -> DeliveryPort | None:
        """Hand out the next message, or None. In AUTO and DUPS_OK say `DeliveryPort.done` when it is processed."""
        raise NotImplementedError

    def deadline(self, now: Instant) -> i64:
        """Return when a delayed redelivery may be taken, NEVER for none."""
        raise NotImplementedError

    def wants_pull(self) -> bool:
        """Tell whether nothing comes unless `pull` asks for it."""
        return False

    def pull(self, timeout_ms: int) -> None:
        """Ask for one message (prefetch 0): -1 what is there now, 0 wait for ever, else so long."""

    def flush(self) -> None:
        """Tell the broker what is processed."""
        raise NotImplementedError

    def close(self) -> None:
        """Close it. One that consumed in an open transaction stays until that ends."""
        raise NotImplementedError


# -- producing ---------------------------------------------------------------------------------------------------------


@mypyc_attr(allow_interpreted_subclasses=True)
class StreamPort:
    """One message whose body is sent in pieces, none of which is kept. It is lost with its wire."""

    def piece_octets(self) -> int:
        """Return how many octets a piece may have."""
        raise NotImplementedError

    def is_full(self) -> bool:
        """Tell whether the next piece must wait for `ConversationEvents.flowing`."""
        raise NotImplementedError

    def write(self, piece: bytes) -> None:
        """Send a piece that is not the last. Raises Unreachable: the wire is gone, and nothing was sent."""
        raise NotImplementedError

    def end(self, piece: bytes, answer: Answer) -> None:
        """Send the last piece; ``answer`` comes when the broker has the message. Raises Unreachable as `write`."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class ProducerPort:
    """A producer."""

    def is_full(self) -> bool:
        """Tell whether so much is under way that the next send must wait for `ConversationEvents.flowing`."""
        return False

    def send(self, outgoing: Outgoing, answer: Answer | None) -> bool:
        """Send; with ``answer`` the broker confirms. False: there is no wire and nothing was sent; wait and repeat.

        In a transaction nothing is confirmed before the commit, ``answer`` is not used, and a wire is not needed.
        Raises Inexpressible, InvalidDestination.
        """
        raise NotImplementedError

    def stream(self, outgoing: Outgoing) -> StreamPort:
        """Begin a message without its body. Nothing else may be sent in its session until the last piece is.

        Raises Inexpressible, Unreachable.
        """
        raise Inexpressible("this protocol has no messages in pieces", remedy="connect to core://")

    def close(self) -> None:
        """Close it. What was sent is not affected."""
        raise NotImplementedError


# -- sessions ----------------------------------------------------------------------------------------------------------


@mypyc_attr(allow_interpreted_subclasses=True)
class SessionPort:
    """One order of events on a connection."""

    def __init__(self, mode: Acknowledge) -> None:
        self.mode: Acknowledge = mode

    def open_producer(self, destination: str | None, window: int, answer: Answer) -> ProducerPort:
        """Open a producer; ``window`` octets may be under way when it sends without answers, 0 for any number.

        Raises InvalidDestination.
        """
        raise NotImplementedError

    def open_consumer(
        self, wish: Wish, policy: RedeliveryPolicy, wake: Callable[[], None], answer: Answer
    ) -> ConsumerPort:
        """Open a consumer. ``wake``: something may be taken, or it ended. Raises InvalidDestination."""
        raise NotImplementedError

    def acknowledge(self) -> None:
        """Settle all that was handed out (CLIENT)."""
        raise NotImplementedError

    def recover(self, now: Instant) -> None:
        """Hand out again, after the redelivery delay, what is not settled (CLIENT, INDIVIDUAL); consumers are woken."""
        raise NotImplementedError

    def commit(self, answer: Answer) -> None:
        """Commit what the session did; ``answer`` gets TransactionRolledBack when that did not come about.

        TransactionInDoubt: the wire was lost while the broker was to commit, and nobody knows. Raises TransactionError.
        """
        raise NotImplementedError

    def roll_back(self, now: Instant, answer: Answer) -> None:
        """Undo what was sent, hand out again what was consumed; consumers are woken. Raises TransactionError."""
        raise NotImplementedError

    def begin_branch(self, xid: Xid) -> None:
        """From now on what the session sends and settles belongs to ``xid``. Raises TransactionError."""
        raise NotImplementedError

    def end_branch(self, xid: Xid, answer: Answer) -> None:
        """The session is done with ``xid``: what it was handed is settled with it. Raises TransactionError."""
        raise NotImplementedError

    def close(self) -> None:
        """Close it with all that it opened; what it did in an open transaction is undone."""
        raise NotImplementedError


# -- the conversation --------------------------------------------------------------------------------------------------


@mypyc_attr(allow_interpreted_subclasses=True)
class ConversationEvents:
    """What a conversation tells its owner."""

    def introduced(self, first: bool) -> None:
        """The broker accepted us; everything is told again."""

    def rejected(self, error: EntrepotError, first: bool) -> None:
        """The broker does not accept us: the wire was taken away, and is to be closed."""

    def lost(self, why: str) -> None:
        """The wire is gone."""

    def settled(self) -> None:
        """What the broker said is taken in; a good moment to look at `Dialler.busy`."""

    def failed(self, error: EntrepotError) -> None:
        """The broker reports an error that answers no request."""

    def located(self, here: str, zones: dict[str, str]) -> None:
        """The broker says in which zone it is, "" for none, and by URL in which others are."""

    def directed(self, brokers: str, reconnect_to: str, rebalance: bool) -> None:
        """The broker names URLs, separated by commas: who is there, whom to go to; ``rebalance``: leave for one."""

    def flowing(self) -> None:
        """A producer may send again: the socket drained, or a window opened."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Conversation(Dialler):
    """One connection of a program. ``failure``: why it ended for good; every later request gets that.

    ``introduced``: a broker is there and accepted us. The owner sets ``now`` and ``wall`` before each turn.
    """

    def __init__(self, events: ConversationEvents) -> None:
        self.events: ConversationEvents = events
        self.failure: EntrepotError | None = None
        self.introduced: bool = False
        self.now: Instant = 0
        self.wall: WallTime = 0

    def has_room(self) -> bool:
        """Tell whether the broker reads as fast as we write; True without one."""
        return True

    def unwritten(self) -> int:
        """Return how many octets wait for the socket."""
        return 0

    def settle_turn(self, now: Instant) -> None:
        """Tell the broker what was processed in the turn that ends; lazily if that is wanted."""

    def flush(self) -> None:
        """Tell the broker what is processed, in any case."""

    def open_session(self, mode: Acknowledge, xa: bool = False) -> SessionPort:
        """Open a session; ``xa``: to work for branches, where a wire wants to know that before."""
        raise NotImplementedError

    def unsubscribe(self, name: str, answer: Answer) -> None:
        """Delete a durable subscription of this client id."""
        raise NotImplementedError

    def add_temporary(self, topic: bool, answer: Answer) -> str:
        """Make a temporary queue or topic, which ends with this connection; return its name with its kind."""
        raise NotImplementedError

    def remove_temporary(self, destination: str, answer: Answer) -> None:
        """Delete a temporary destination of this connection. Raises InvalidDestination."""
        raise NotImplementedError

    def prepare_branch(self, xid: Xid, answer: Callable[[bool, EntrepotError | None], None]) -> None:
        """Have the broker promise; ``answer`` is told whether there is something to commit."""
        raise NotImplementedError

    def commit_branch(self, xid: Xid, one_phase: bool, answer: Answer) -> None:
        """Commit a branch that is prepared, or in one phase one that is not."""
        raise NotImplementedError

    def roll_back_branch(self, xid: Xid, now: Instant, answer: Answer) -> None:
        """Undo a branch; what it settled is handed out again."""
        raise NotImplementedError

    def recover_branches(self, answer: Callable[[list[Xid], EntrepotError | None], None]) -> None:
        """Ask which branches are prepared and not ended."""
        raise NotImplementedError

    def leave(self, answer: Answer) -> None:
        """Take leave of the broker; ``answer`` comes when it agreed, or at once without one."""
        raise NotImplementedError

    def end(self, error: EntrepotError) -> None:
        """The connection is over: everything that waits gets ``error``."""
        raise NotImplementedError
