"""What one session sends: messages, the pieces of large ones, and what its producers may send. [C]

A message goes at once, or with the transaction of the session. The reply to one that asks for it comes when the disk
has it. Producers need not be known: after a failover a client names them without making them again (artemis.md 5.2.6).
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.errors import (
    AccessDenied,
    EntrepotError,
    InvalidDestination,
    ProtocolViolation,
    Refused,
    StorageError,
)
from entrepot.base.patterns import MIXED, is_pattern, matches
from entrepot.core.addressing.binding import ACK_ROUTE, BRANCH, ROUTE_TO, SCALED_DOWN
from entrepot.core.addressing.routing import Target
from entrepot.core.broker import BrokerCore
from entrepot.core.scheduling.timed import SCHEDULED_TIME
from entrepot.core.sending.flow import BLOCKED
from entrepot.core.transactions.handed import is_among, read_handed
from entrepot.core.transactions.transaction import KEEP_UNITS
from entrepot.model.address import MULTICAST, UNTYPED
from entrepot.model.message import Message, Rare
from entrepot.protocols.artemis.arriving import Arriving
from entrepot.protocols.artemis.convert import ROUTING_NONE, routing_of
from entrepot.protocols.artemis.crediting import Crediting
from entrepot.protocols.artemis.large import LargeArrival
from entrepot.protocols.artemis.packets import (
    CreateProducer,
    RemoveProducer,
    RequestCredits,
    Send,
    SendContinuation,
    SendLarge,
)
from entrepot.protocols.artemis.places import ROUTING, place
from entrepot.protocols.artemis.refusals import ILLEGAL_STATE, CoreRefused
from entrepot.protocols.artemis.session import CoreSession
from entrepot.protocols.serving.pace import DiskPace
from entrepot.protocols.serving.targets import keep_target

PRODUCERS_KEPT: Final = 1_000  # of one session; more are not listed
_OF_NODES: Final = (ROUTE_TO, SCALED_DOWN, ACK_ROUTE, BRANCH)
"""Brokers of the cluster say where a message goes, and nobody else."""


def schedule(message: Message, rare: Rare, wall: i64) -> None:
    """Have ``message`` wait for the date that its sender gave it, if that is to come."""
    if rare.deliver_at > wall:
        rare.annotations[SCHEDULED_TIME] = str(rare.deliver_at)
    else:
        rare.deliver_at = 0


class Sending:
    """The producers of one session."""

    def __init__(self, session: CoreSession) -> None:
        self.session: CoreSession = session
        self.broker: BrokerCore = session.broker
        self.crediting: Crediting = Crediting(session.broker, session.channel)
        self.arriving: Arriving = Arriving()
        self.targets: dict[str, Target] = {}  # by routing type and address, as the client says it
        self.last: Target | None = None  # the one of these that the last message went to, with what was said of it
        self.last_written: str = ""
        self.last_routing: i64 = ROUTING_NONE
        self.producers: dict[int, str] = {}  # address by the client's id, for operators
        self.large: LargeArrival | None = None
        self.pace: DiskPace = DiskPace(None)

    # -- producers -----------------------------------------------------------------------------------------------------

    def produce(self, packet: CreateProducer) -> None:
        """A producer is opened: nothing has to be known of it but for operators."""
        if len(self.producers) < PRODUCERS_KEPT:
            self.producers[packet.sender] = packet.address or ""
        self.session.replies.done(False, False)

    def remove(self, packet: RemoveProducer) -> None:
        """A producer is closed."""
        self.producers.pop(packet.sender, None)
        self.session.replies.done(False, False)

    def credit(self, packet: RequestCredits) -> None:
        """Grant credits, now or when there is room."""
        session = self.session
        session.replies.done(False, False)
        address = packet.address
        try:
            target = self.broker.target([place(address, UNTYPED, session.options)])
        except Refused:  # it does not exist and may not: the send says so
            target = Target(address, UNTYPED)
        self.crediting.ask(address, packet.credits, target)

    # -- messages ------------------------------------------------------------------------------------------------------

    def send(self, packet: Send) -> None:
        """Send a message, now or with the transaction."""
        session = self.session
        try:
            message, target = self._taken(packet.message)
            self._send(message, target)
            stored = message.durable and not session.is_transacted(session.commits_sends)
        except (Refused, StorageError) as error:
            self._refuse(error, packet.require_response, packet.correlation)
            return
        session.replies.done(packet.require_response, stored, packet.correlation)

    def _taken(self, octets: bytes) -> tuple[Message, Target]:
        """Return the message in ``octets``, and where it goes. Raises Refused, MalformedFrame."""
        session = self.session
        arriving = self.arriving
        message = arriving.message(octets, session.default_address)
        return message, self._prepared(message, arriving.routing)

    def _prepared(self, message: Message, routing: i64) -> Target:
        """Say of ``message``, sent with ``routing`` (ROUTING_...), what the broker knows; return where it goes.

        Raises Refused.
        """
        session = self.session
        broker = self.broker
        self.crediting.check()
        connection = session.connection
        if connection is not None and connection.patience is not None and not self.waits_for_credit(message.address):
            connection.patience.check(False)
        target = self.last
        if target is None or message.address is not self.last_written or routing != self.last_routing:
            target = self._led(message.address, routing)
        message.address = target.name
        message.origin = session.number
        if message.timestamp == 0:
            message.timestamp = broker.wall
        rare = message.rare
        if rare is not None and rare.internal is not None and (connection is None or not connection.admitted):
            for key in _OF_NODES:
                message.unmark(key)
        if rare is not None and rare.deliver_at > 0:
            schedule(message, rare, broker.wall)
        stamps = broker.options.stamps
        if stamps is not None:
            try:
                stamps.put_on(message, session.subject.name)
            except AccessDenied as error:
                raise CoreRefused(error.message, ILLEGAL_STATE, remedy=error.remedy) from None
        return target

    def _led(self, written: str, routing: i64) -> Target:
        """Return where the address ``written`` leads, and remember it. Raises Refused."""
        kind = ROUTING.get(int(routing), UNTYPED)
        key = f"{kind}{written}"
        target = self.targets.get(key)
        if target is None:
            return self._target(key, written, kind)
        self.last = target
        self.last_written = written
        self.last_routing = routing
        return target

    def _target(self, key: str, written: str, routing: int) -> Target:
        session = self.session
        where = place(written, routing, session.options)
        self.broker.access.send(session.subject, [where], written)
        try:
            target = self.broker.target([where])
        except InvalidDestination:
            if where.name in self.broker.table.addresses or is_pattern(where.name, MIXED):
                raise
            target = Target(where.name, MULTICAST)  # nothing is bound there: as Artemis, take it and drop it
            return target
        self.broker.access.keep(target, session.subject, [where], written)
        keep_target(self.targets, key, target)
        return target

    def _send(self, message: Message, target: Target) -> None:
        session = self.session
        rare = message.rare
        if rare is not None and rare.internal is not None and self._was_taken(message, target):
            return
        if session.is_transacted(session.commits_sends):
            self.broker.effort.spent += KEEP_UNITS
            session.need_transaction().send(message, target)
            if self.broker.flow.is_blocked(target):
                self._stop_for(message, target)  # its commit is not read either
            return
        if self.broker.sending.send(message, target) == BLOCKED:
            self._stop_for(message, target)

    def _stop_for(self, message: Message, target: Target) -> None:
        """There is no room where ``message`` goes: read no further, unless the client waits for credit by itself."""
        connection = self.session.connection
        if connection is not None and not self.waits_for_credit(message.address):
            connection.stop_for(target)

    def _was_taken(self, message: Message, target: Target) -> bool:
        """Take what a branch says of ``message`` that comes from another broker; False: it is to be sent (1.20).

        What that branch has taken there is kept for its queue here when this one is prepared. Raises CoreRefused where
        there is no such queue, so that nothing is prepared: rolled back, the message would have no place.
        """
        acks = message.marked(ACK_ROUTE)
        said = message.marked(BRANCH)
        if acks is None and said is None:
            return False
        message.unmark(ACK_ROUTE)
        message.unmark(BRANCH)
        branch = self.session.branch
        if branch is None:
            return False
        deliveries: i64 = 0
        if isinstance(said, bytes):
            deliveries = read_handed(said, branch.transaction)
        if not isinstance(acks, bytes):
            return False
        route = message.marked(ROUTE_TO)
        left = b""
        if isinstance(route, bytes):
            for at in range(0, len(route) - 7, 8):
                one = route[at : at + 8]
                if not is_among(one, acks):
                    left += one
        for at in range(0, len(acks) - 7, 8):
            queue = self.broker.table.told(int.from_bytes(acks[at : at + 8], "big", signed=True))
            if queue is None or not (queue.address == target.name or matches(queue.address, target.name, MIXED)):
                raise CoreRefused(
                    f"the queue of {target.name}, from which the branch {branch.transaction.name} took a message, "
                    "is not here",
                    ILLEGAL_STATE,
                )
            self.broker.effort.spent += KEEP_UNITS
            own = message.twin(message.address)
            own.unmark(ROUTE_TO)
            branch.transaction.take(own, queue, deliveries)
        if not left:
            return True
        message.mark(ROUTE_TO, left)
        return False

    def waits_for_credit(self, address: str) -> bool:
        """Return whether the client asks for credit before it sends to ``address``: then it need not be stopped."""
        return address in self.crediting.asked

    def _refuse(self, error: EntrepotError, wanted: bool, correlation: i64) -> None:
        session = self.session
        if session.is_transacted(session.commits_sends):
            session.doom(error)
        if wanted:
            session.replies.refuse(error, correlation)
        else:
            session.replies.done(False, False)

    # -- large messages ------------------------------------------------------------------------------------------------

    def begin_large(self, packet: SendLarge) -> None:
        """The headers of a large message: its body follows in pieces, straight to disk."""
        session = self.session
        if self.large is not None:
            raise ProtocolViolation("a large message begins in the middle of another one")
        self.large = LargeArrival(self.broker, packet.headers, session.default_address)
        session.replies.done(False, False)

    def go_on(self, packet: SendContinuation) -> None:
        """A piece of a large message; with the last one it is sent."""
        session = self.session
        large = self.large
        if large is None:
            raise ProtocolViolation("a piece of a large message came, and none has begun")
        large.write(packet.body)
        if packet.continues:
            session.replies.done(packet.require_response, False, packet.correlation)
            self.pace.session = session.connection
            self.pace.look(large)
            return
        self.large = None
        try:
            self._send_large(large, packet.body_size)
        except (Refused, StorageError) as error:
            large.finish()
            self._refuse(error, packet.require_response, packet.correlation)
            return
        message = large.message
        stored = message.durable and not session.is_transacted(session.commits_sends)
        session.replies.done(packet.require_response, stored, packet.correlation)

    def _send_large(self, large: LargeArrival, body_size: i64) -> None:
        """Send a large message whose body is complete. Raises Refused, StorageError."""
        session = self.session
        message = large.complete(body_size)
        target = self._prepared(message, routing_of(message))
        transacted = session.is_transacted(session.commits_sends)
        if transacted:
            session.hold_body(large)
        self._send(message, target)
        if not transacted:
            large.finish()

    def end(self) -> None:
        """The session ends: what was half sent was not sent."""
        large = self.large
        if large is not None:
            self.large = None
            large.finish()
        self.crediting.end()
