"""One session of a CORE client: who speaks, what he chose, and the transaction that is open. [C]

A session lives on one channel of one connection. With a confirmation window it outlives that connection: `lose` keeps
it, with all that it holds, until the client brings it to another one (`take_over`) or its time is over.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.errors import EntrepotError, Refused, TransactionError
from entrepot.core.broker import BrokerCore
from entrepot.core.queue.consumer import APPLICATION, Consumer, Pause
from entrepot.core.queue.queue import MAYBE_DELIVERED
from entrepot.core.security.directory import Subject
from entrepot.core.transactions.transaction import State, Transaction
from entrepot.model.address import Destination
from entrepot.protocols.artemis.acceptor import Bearer, CoreAcceptor, OpenBranch
from entrepot.protocols.artemis.channel import Channel
from entrepot.protocols.artemis.codec import Encoder
from entrepot.protocols.artemis.options import CoreOptions
from entrepot.protocols.artemis.order import Order
from entrepot.protocols.artemis.packets import CreateSession, DisconnectConsumer, Packet
from entrepot.protocols.artemis.replies import Replies
from entrepot.protocols.inflow import Inflow
from entrepot.protocols.serving.confirmations import Confirmations, Throttle
from entrepot.protocols.serving.outlet import Outlet, ServedSubscription
from entrepot.protocols.serving.session import CommandSession
from entrepot.protocols.session import STOP_MIRROR, Shell

BODIES_MAX: Final = 1_000  # of large messages in one transaction: each is a file


class CoreConnection(CommandSession[Packet]):
    """What a session asks of its connection."""

    def __init__(
        self, shell: Shell, broker: BrokerCore, number: i64, peer: str, high: i64, connect_timeout_ms: i64
    ) -> None:
        super().__init__(shell, broker, number, peer, high, connect_timeout_ms)
        self.encoder: Encoder = Encoder()
        self.admitted: bool = False  # to the cluster, by CLUSTER_CONNECT

    def give_up(self, why: str) -> None:
        """Nothing that makes sense can be written any more: close."""
        raise NotImplementedError

    def cannot_say(self, consumer: Consumer, number: int, reason: str) -> None:
        """A message that was delivered to ``consumer`` has no form here: it becomes a dead letter, soon."""
        raise NotImplementedError

    def closed_channel(self, number: int) -> None:
        """A session said its last word."""
        raise NotImplementedError

    def give_away(self, number: int) -> None:
        """Another connection goes on with a session of this one."""
        raise NotImplementedError


class Opened(ServedSubscription):
    """A consumer, as its session knows it. ``browses``: it only looks; ``closed``: it gets nothing any more."""

    def __init__(self, outlet: Outlet, broker: BrokerCore, number: i64, where: Destination, browses: bool) -> None:
        super().__init__(outlet, broker, [where])
        self.number: i64 = number
        self.browses: bool = browses
        self.closed: bool = False
        self.unsettled: dict[int, None] | None = None  # numbers of what is not settled, where settling is committed
        self.order: Order = Order()  # of these, or of what its consumer has in flight

    def grant(self, octets: i64) -> None:
        """The client takes so many octets more; 0: none at all, -1: any number."""
        raise NotImplementedError

    def force(self, sequence: int) -> None:
        """Deliver what there is, and then say so with ``sequence``."""
        raise NotImplementedError

    def break_off(self) -> None:
        """All that it has unsettled is given back: write no more of a large message that has been begun."""
        raise NotImplementedError

    def end(self) -> None:
        """It gets nothing any more."""
        raise NotImplementedError


class _ReadsOn(Throttle):
    """Lets the connection be read on which the session is, or not, as its answers wait for other brokers."""

    def __init__(self, session: CoreSession) -> None:
        self.session: CoreSession = session

    def stop(self) -> None:
        """Read nothing more."""
        if self.session.connection is not None:
            self.session.connection.stop_reading(STOP_MIRROR)

    def go_on(self) -> None:
        """Read on."""
        if self.session.connection is not None:
            self.session.connection.read_on(STOP_MIRROR)


class CoreSession(Bearer):
    """``connection``: the one that it is on; a session that waits to be reattached keeps its last one's name only."""

    def __init__(
        self,
        connection: CoreConnection,
        acceptor: CoreAcceptor,
        options: CoreOptions,
        channel: Channel,
        asked: CreateSession,
        subject: Subject,
    ) -> None:
        self.connection: CoreConnection | None = connection
        self.acceptor: CoreAcceptor = acceptor
        self.options: CoreOptions = options
        self.broker: BrokerCore = connection.broker
        self.channel: Channel = channel
        self.confirmations: Confirmations = Confirmations(connection.broker.journal, connection.number, alone=False)
        self.confirmations.throttle = _ReadsOn(self)
        self.replies: Replies = Replies(channel, self.confirmations, connection.broker)
        self.subject: Subject = subject
        self.name: str = asked.name
        self.number: i64 = connection.number
        self.peer: str = connection.peer
        self.client_id: str = asked.client_id or ""
        self.outlet: Outlet = connection.outlet
        self.commits_sends: bool = asked.auto_commit_sends
        self.commits_acks: bool = asked.auto_commit_acks
        self.settles_early: bool = asked.pre_ack
        self.chunk_octets: i64 = asked.min_large
        self.default_address: str = asked.default_address or ""
        self.version: i64 = asked.version
        self.started: bool = False
        self.ended: bool = False
        self.consumers: dict[int, Opened] = {}
        self.transaction: Transaction | None = None
        self.sent: i64 = 0
        self.branch: OpenBranch | None = None  # that what it does belongs to now
        self.bodies: list[Inflow] | None = None  # of large messages that the transaction sends
        self.begun: i64 = 0  # transactions so far
        self.branch_ms: i64 = 0  # that a branch of it may last; 0: as any may
        self.temporaries: dict[str, None] | None = None  # queues that go with the connection
        self.reader_kind: i64 = APPLICATION  # of its consumers, a kind of `core/queue/consumer.py`

    # -- the transaction -----------------------------------------------------------------------------------------------

    def need_transaction(self) -> Transaction:
        """Return the transaction that sends and settlements belong to now, begun if there is none."""
        branch = self.branch
        if branch is not None:
            return branch.transaction
        transaction = self.transaction
        if transaction is None or transaction.state in (State.COMMITTED, State.ROLLED_BACK):
            self.begun += 1
            transaction = Transaction(f"{self.name}:{self.begun}")
            self.transaction = transaction
        return transaction

    def hold_body(self, body: Inflow) -> None:
        """Keep a large body until the transaction, to which its message was added, ends. Raises TransactionError."""
        branch = self.branch
        if branch is not None:
            bodies = branch.bodies
        else:
            if self.bodies is None:
                self.bodies = []
            bodies = self.bodies
        if len(bodies) >= BODIES_MAX:
            raise TransactionError(f"a transaction has {BODIES_MAX} large messages", remedy="commit sooner")
        bodies.append(body)

    def take_bodies(self) -> list[Inflow]:
        """Return the large bodies that the session's own transaction sends: they are the caller's to let go of."""
        bodies = self.bodies
        self.bodies = None
        return [] if bodies is None else bodies

    def is_transacted(self, commits: bool) -> bool:
        """Return whether what is done now waits for a commit; ``commits``: what the session chose for that."""
        return not commits or self.branch is not None

    def doom(self, error: EntrepotError) -> None:
        """A part of the open transaction could not be done: its commit must fail."""
        transaction = self.need_transaction()
        if transaction.state is State.ACTIVE:
            transaction.fail(error if isinstance(error, Refused) else TransactionError(error.message))

    # -- what its consumers ask ----------------------------------------------------------------------------------------

    def give_up(self, why: str) -> None:
        """Nothing that makes sense can be written any more."""
        connection = self.connection
        if connection is not None:
            connection.give_up(why)

    def cannot_say(self, consumer: Consumer, number: int, reason: str) -> None:
        """A message that was delivered to ``consumer`` has no form here."""
        connection = self.connection
        if connection is not None:
            connection.cannot_say(consumer, number, reason)

    def took_away(self, subscription: Opened) -> None:
        """The broker ended a consumer: tell the client."""
        if subscription.closed or self.ended:
            return
        self.forget(subscription, MAYBE_DELIVERED)
        self.channel.write(DisconnectConsumer(consumer=subscription.number))

    def forget(self, subscription: Opened, last_delivered: i64) -> None:
        """End a consumer; ``last_delivered``: as `Queue.detach` says it."""
        if subscription.closed:
            return
        self.consumers.pop(int(subscription.number), None)
        subscription.end()
        subscription.outlet.starve(subscription)
        self.broker.unsubscribe(subscription, last_delivered)

    def move(self, connection: CoreConnection) -> None:
        """Go on over ``connection``: write again what the client has not seen, and then deliver."""
        outlet = connection.outlet
        self.connection = connection
        self.number = connection.number
        self.confirmations.owner = connection.number
        self.peer = connection.peer
        self.channel.attach(outlet, connection.encoder)
        self.outlet = outlet
        subscriptions = list(self.consumers.values())
        for subscription in subscriptions:
            subscription.outlet.starve(subscription)
            subscription.outlet = outlet
            outlet.feed(subscription)
            if not outlet.choked:
                subscription.window.lift(Pause.SOCKET)
        for subscription in subscriptions:
            if not outlet.choked and not subscription.closed:
                subscription.relieved()

    # -- who it is -----------------------------------------------------------------------------------------------------

    def label(self) -> str:
        """Return who reads here, for people."""
        connection = self.connection
        known = "" if connection is None else connection.client_id
        return known or self.client_id or self.peer

    def need_temporaries(self) -> dict[str, None]:
        """Return the names of the queues that go with the connection."""
        temporaries = self.temporaries
        if temporaries is None:
            temporaries = self.temporaries = {}
        return temporaries
