"""One connection, its sessions, and their links, as each of these knows the others. [C]

A session counts the frames of transfers that its peer takes (the window), and has what went out and is not settled, by
delivery-id. Answers to what came in are gathered to ranges, and written at the end of a turn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64, mypyc_attr

from entrepot.base.errors import EntrepotError, Refused
from entrepot.core.broker import BrokerCore
from entrepot.core.events.facts import TEMPORARY_TOPIC_REMOVED, AddressFact
from entrepot.core.queue.consumer import Consumer, Pause
from entrepot.core.transactions.transaction import Transaction
from entrepot.model.address import MULTICAST
from entrepot.protocols.amqp.codec import Encoder, Frame
from entrepot.protocols.amqp.federated import Federated
from entrepot.protocols.amqp.options import AmqpOptions
from entrepot.protocols.amqp.performatives import (
    Accepted,
    Begin,
    Composite,
    Detach,
    Disposition,
    Flow,
    Rejected,
    Transfer,
)
from entrepot.protocols.amqp.primitives import UINT_MAX
from entrepot.protocols.amqp.refusals import error_of
from entrepot.protocols.inflow import Inflow
from entrepot.protocols.serving.confirmations import Confirmation, Confirmations
from entrepot.protocols.serving.outlet import ServedSubscription
from entrepot.protocols.serving.session import CommandSession
from entrepot.protocols.session import Shell

WINDOW: Final = (1 << 31) - 1  # frames of transfers that a peer may send: what is held is bounded otherwise
SENDER: Final = False
RECEIVER: Final = True


class Txn:
    """One transaction that a client declared. ``answered``: what its peer has settled in it, and would have back."""

    def __init__(self, transaction: Transaction) -> None:
        self.transaction: Transaction = transaction
        self.answered: list[Sent] = []
        self.unsettled: list[Sent] = []
        self.bodies: list[Inflow] = []

    def let_go(self) -> None:
        """Let go of large bodies: records of the journal hold them now, or nobody wants them."""
        for body in self.bodies:
            body.finish()
        self.bodies.clear()


@mypyc_attr(allow_interpreted_subclasses=True)
class Obeying:
    """Carries out here what policies say that another broker brings (artemis.md 4.13). This one: none of them."""

    def order(self, kind: str, said: dict[str, object]) -> None:
        """Carry out one, from now on. Raises Refused."""
        raise Refused("no policy of another broker is carried out here", remedy="write a local one at this broker")

    def made(self, address: str, queue: str) -> None:
        """There is a queue at the other broker, or ("") an address, that was asked for in vain."""

    def end(self) -> None:
        """The other broker has ended its federation, or is gone."""

    def report(self) -> dict[str, object] | None:
        """Return what an operator wants to know of it; None: nothing is carried out."""
        return None


class Asked:
    """The links of one session that this side has asked for: the peer calls each by a handle of its own."""

    def takes(self, performative: Composite) -> bool:
        """Put our handle into a frame of the peer's; return whether it was the answer to what was asked, and done."""
        raise NotImplementedError

    def ours(self, handle: i64) -> i64:
        """Return our handle of the link that the peer calls ``handle``."""
        raise NotImplementedError


class AmqpConnection(CommandSession[Frame]):
    """What a session asks of its connection."""

    def __init__(self, shell: Shell, broker: BrokerCore, options: AmqpOptions, number: i64, peer: str) -> None:
        super().__init__(shell, broker, number, peer, options.write_high_octets, options.connect_timeout_ms)
        self.options: AmqpOptions = options
        self.encoder: Encoder = Encoder()
        self.container_id: str = ""
        self.frame_max: i64 = 512  # of what the peer takes
        self.transactions: dict[bytes, Txn] = {}
        self.temporaries: dict[str, int] = {}  # dynamic nodes, and their routing types
        self.sent: i64 = 0
        self.federated: bool = False  # one of its sessions has the control link of a federation
        self.federation: str = ""  # which this side begins
        self.node: str = ""  # of the broker there, where it is one of ours
        self.obeys: Callable[[AmqpSession, dict[str, object]], Obeying] | None = None  # makes what carries out policies

    def other(self) -> str:
        """Return who the broker there is, as it says so."""
        return self.node or self.container_id

    def say(self, channel: i64, performative: Composite) -> None:
        """Write a frame."""
        self.encoder.write(self.outlet.out, channel, performative)
        self.note()

    def cannot_say(self, consumer: Consumer, number: int, reason: str) -> None:
        """A message that was delivered to ``consumer`` has no form here: it becomes a dead letter, soon."""
        raise NotImplementedError

    def give_up(self, why: str) -> None:
        """Nothing that makes sense can be written any more: close."""
        raise NotImplementedError

    def carry_out(self, txn: Txn, answer: Answer) -> None:
        """Commit ``txn`` and give ``answer``."""
        raise NotImplementedError

    def roll_back(self, txn: Txn) -> None:
        """Forget what ``txn`` would have done; what its peer has settled in it is delivered again."""
        raise NotImplementedError

    def drop_temporary(self, name: str) -> None:
        """A dynamic node goes with its link."""
        routing = self.temporaries.pop(name, -1)
        broker = self.broker
        queue = broker.table.queues.get(name)
        if routing == MULTICAST:
            broker.hub.announce(AddressFact(TEMPORARY_TOPIC_REMOVED, name, MULTICAST))
        elif queue is not None and routing >= 0:
            broker.queues.delete(queue, "its link, or its connection, is gone")


class Sent:
    """A delivery that its receiver has not settled. ``consumer`` None: a browser showed it."""

    def __init__(self, feed: ServedSubscription, consumer: Consumer | None, number: i64) -> None:
        self.feed: ServedSubscription = feed
        self.consumer: Consumer | None = consumer
        self.number: i64 = number


class Link:
    """One link of a session. ``handle`` is ours and the peer's: nothing says that they must differ."""

    def __init__(self, session: AmqpSession, name: str, handle: i64) -> None:
        self.session: AmqpSession = session
        self.name: str = name
        self.handle: i64 = handle
        self.dynamic: str = ""  # the node that was made for it

    def flow(self, flow: Flow) -> None:
        """The peer says what it has, or takes. Raises Refused."""
        raise NotImplementedError

    def transfer(self, transfer: Transfer, payload: bytes) -> None:
        """A message comes, or a part of one. Raises Refused."""
        raise NotImplementedError

    def detach(self, detach: Detach) -> None:
        """The peer detaches the link."""
        raise NotImplementedError

    def end(self, last_delivered: i64) -> None:
        """Give back what it holds; nothing is said any more."""
        raise NotImplementedError

    def held(self) -> i64:
        """Return the octets of a message that is not complete."""
        return 0

    def sends(self) -> bool:
        """Return whether its peer sends messages over it."""
        return False

    def address(self) -> str:
        """Return where these go; "" for a link that names no place."""
        return ""

    def mirrors(self) -> dict[str, object] | None:
        """Return what an operator wants to know of a link by which another broker does something for this one.

        It mirrors itself here, or has policies carried out. None: it is no such link.
        """
        return None

    def relieved(self) -> None:
        """The session takes frames again."""

    def detach_for(self, error: EntrepotError) -> None:
        """Our side detaches it, because of ``error``."""
        session = self.session
        if session.links.pop(int(self.handle), None) is None:
            return
        session.quiet[int(self.handle)] = None
        self.end(session.connection.last_delivered)
        session.answer()
        session.say(Detach(handle=self.handle, closed=True, error=error_of(error)))


class AmqpSession:
    """One session. ``channel`` is ours and the peer's."""

    def __init__(self, connection: AmqpConnection, channel: i64, begin: Begin) -> None:
        self.connection: AmqpConnection = connection
        self.channel: i64 = channel
        self.links: dict[int, Link] = {}
        self.feeds: dict[ServedSubscription, None] = {}  # who delivers on it
        self.quiet: dict[int, None] = {}  # handles whose links our side has detached, and the peer not yet
        self.next_incoming: i64 = begin.next_outgoing_id
        self.next_outgoing: i64 = 0
        self.window: i64 = begin.incoming_window  # frames of transfers that the peer takes
        self.next_delivery: i64 = 0
        self.unsettled: dict[int, Sent] = {}
        self.expected: i64 = -1  # the id of the delivery that comes next
        self.second: dict[int, None] = {}  # deliveries that came, were accepted, and whose sender settles last
        self.ended: bool = False
        self.federated: Federated | None = None
        self.asked: Asked | None = None
        self.handles_theirs: i64 = begin.handle_max  # the highest handle that the peer takes
        self._first: i64 = -1  # deliveries to be answered: accepted and settled
        self._last: i64 = -1
        self._settles: bool = True

    @property
    def confirmations(self) -> Confirmations:
        """Answers that wait for the disk."""
        return self.connection.confirmations

    def say(self, performative: Composite) -> None:
        """Write a frame."""
        if not self.ended:
            self.connection.say(self.channel, performative)

    def producers(self) -> dict[str, str]:
        """Return where its peer sends to, by the names of the links."""
        return {link.name: link.address() for link in self.links.values() if link.sends()}

    def passed(self, transfer: Transfer) -> None:
        """A delivery has begun, on a link that takes it or on one that our side has ended: the next id is its next."""
        if transfer.delivery_id >= 0:
            self.expected = (transfer.delivery_id + 1) & UINT_MAX

    # -- the window ----------------------------------------------------------------------------------------------------

    def sent_frame(self) -> None:
        """A transfer was written."""
        self.next_outgoing = (self.next_outgoing + 1) & UINT_MAX
        self.window -= 1
        if self.window <= 0:
            self.pause(Pause.LINK)

    def pause(self, reason: i64) -> None:
        """Let no link deliver."""
        for feed in self.feeds:
            feed.window.pause(reason)

    def opened(self, flow: Flow) -> None:
        """The peer says how many frames it takes."""
        base: i64 = 0 if flow.next_incoming_id < 0 else flow.next_incoming_id
        ahead = (self.next_outgoing - base) & UINT_MAX  # written, and not seen by the peer when it said this
        if ahead > WINDOW:
            ahead = 0
        was = self.window
        self.window = flow.incoming_window - ahead
        if self.window > 0 and was <= 0:
            for feed in self.feeds:
                feed.window.lift(Pause.LINK)
            for link in list(self.links.values()):
                link.relieved()
        elif self.window <= 0:
            self.pause(Pause.LINK)

    def link_flow(self, handle: i64, count: i64, credit: i64, available: i64, drain: bool) -> None:
        """Say where a link stands, and the session with it; ``handle`` -1: the session alone."""
        self.say(
            Flow(
                next_incoming_id=self.next_incoming,
                incoming_window=WINDOW,
                next_outgoing_id=self.next_outgoing,
                outgoing_window=WINDOW,
                handle=handle,
                delivery_count=count if handle >= 0 else -1,
                link_credit=credit if handle >= 0 else -1,
                available=available,
                drain=drain,
            )
        )

    # -- answers -------------------------------------------------------------------------------------------------------

    def accept(self, delivery: i64, settles: bool) -> None:
        """Delivery ``delivery`` was accepted: say so with those beside it, at the end of the turn."""
        if self._first >= 0 and (delivery != self._last + 1 or settles != self._settles):
            self.answer()
        if self._first < 0:
            self._first = delivery
            self._settles = settles
            self.connection.note()
        self._last = delivery
        if not settles:
            self.second[int(delivery)] = None

    def answer(self) -> None:
        """Say what was accepted."""
        if self._first >= 0:
            first, last = self._first, self._last
            self._first = -1
            self.say(Disposition(role=RECEIVER, first=first, last=last, settled=self._settles, state=Accepted()))

    def dispose(self, delivery: i64, state: Composite, role: bool = RECEIVER) -> None:
        """Settle one delivery with ``state``."""
        self.answer()
        self.say(Disposition(role=role, first=delivery, last=delivery, settled=True, state=state))

    def end(self, last_delivered: i64) -> None:
        """Give back what its links hold; nothing is said any more."""
        self.ended = True
        links = list(self.links.values())
        self.links.clear()
        self.pause(Pause.ENDING)
        for link in links:
            link.end(last_delivered)
        self.unsettled.clear()

    def held(self) -> i64:
        """Return the octets of messages that are not complete."""
        octets: i64 = 0
        for link in self.links.values():
            octets += link.held()
        return octets


class Answer(Confirmation):
    """One state for one delivery, once all that was taken so far is on disk."""

    def __init__(self, session: AmqpSession, delivery: i64, state: Composite | None, role: bool = RECEIVER) -> None:
        """``state`` None: accepted, and answered together with others."""
        super().__init__(session.confirmations)
        self.session: AmqpSession = session
        self.delivery: i64 = delivery
        self.state: Composite | None = state
        self.role: bool = role
        self.settles: bool = True

    def give(self) -> None:
        """Write it."""
        state = self.state
        if state is None:
            self.session.accept(self.delivery, self.settles)
        else:
            self.session.dispose(self.delivery, state, self.role)

    def refuse(self, error: EntrepotError) -> None:
        """Say that it is not stored."""
        self.session.dispose(self.delivery, Rejected(error=error_of(error)), self.role)
