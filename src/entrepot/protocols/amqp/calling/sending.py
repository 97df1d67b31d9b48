"""Links over which this broker sends what waits in its own queues to a peer that it dialled. [C]

A message is written when the peer has granted credit for it, and belongs to its queue here until the peer says what
became of it. A message that needs several frames is written as the session and the socket take them; until its last
frame went, nothing else is sent over the connection.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.model.message import Message
from entrepot.protocols.amqp.calling.port import CallerPort, LinkOwner
from entrepot.protocols.amqp.codec import TRANSFER_OCTETS
from entrepot.protocols.amqp.convert import is_large
from entrepot.protocols.amqp.large import Piecemeal
from entrepot.protocols.amqp.outgoing import write_piece
from entrepot.protocols.amqp.performatives import Attach, Detach, Flow, Transfer
from entrepot.protocols.amqp.presenting import passes, presented
from entrepot.protocols.amqp.primitives import UINT_MAX
from entrepot.protocols.amqp.refusals import NOT_ALLOWED, SIZE_EXCEEDED, AmqpRefused
from entrepot.protocols.amqp.session import AmqpSession, Link
from entrepot.protocols.large_body import length_of

GONE: Final = "the other side has closed the link"


class Sending(Link):
    """One of them. ``under_way``: deliveries of the whole connection that are not answered, and whose they are."""

    def __init__(
        self, session: AmqpSession, name: str, handle: i64, port: CallerPort, under_way: dict[int, Sending]
    ) -> None:
        super().__init__(session, name, handle)
        self.owner: LinkOwner = LinkOwner()
        self.credit: i64 = 0
        self.count: i64 = 0
        self.routing: int = 0  # of the queue that it reads
        self.live: bool = False  # the peer has the other end of it
        self.remote: str = ""  # the broker on the other side, where that says who it is
        self.most: i64 = 0  # octets of a message that the peer takes; 0: it says nothing of it
        self.why: str = GONE
        self.condition: str = ""  # why the peer closed it, as a word of the standard
        self._port: CallerPort = port
        self._under_way: dict[int, Sending] = under_way
        self._outflow: Piecemeal | None = None
        self._drains: bool = False

    def asked(self, said: Attach) -> None:
        """Say in ``said``, which asks the peer for its end, what else is wanted."""

    def objection(self, said: Attach) -> str:
        """Return why what the peer says of its end will not do; "": it will."""
        return ""

    # -- credit --------------------------------------------------------------------------------------------------------

    def flow(self, flow: Flow) -> None:
        """The peer takes messages; it may ask where the link stands."""
        if flow.link_credit >= 0:
            base: i64 = 0 if flow.delivery_count < 0 else flow.delivery_count
            ahead = (self.count - base) & UINT_MAX  # sent, and not seen by the peer when it said this
            if ahead > UINT_MAX // 2:
                ahead = 0
            self.credit = max(flow.link_credit - ahead, i64(0))
            self._drains = flow.drain
            self.owner.granted(self.credit)
            self._say_drained()
        if flow.echo and not flow.drain:
            self.session.link_flow(self.handle, self.count, self.credit, -1, False)

    def _say_drained(self) -> None:
        """The peer wants all that there is, and then no more: what was there went when it granted."""
        if not self._drains or self.is_pouring():
            return
        self._drains = False
        self.count = (self.count + self.credit) & UINT_MAX
        self.credit = 0
        self.owner.granted(0)
        self.session.link_flow(self.handle, self.count, 0, -1, True)

    # -- messages ------------------------------------------------------------------------------------------------------

    def write(self, message: Message, deliveries: i64) -> i64:
        """Write ``message``, or begin it; return its confirmation.

        Raises EntrepotError if it has no form in AMQP, or is larger than the peer takes.
        """
        session = self.session
        connection = session.connection
        broker = connection.broker
        large = is_large(message)
        length: i64 = 0
        if passes(message, deliveries):
            octets = message.raw
            if large:
                length = message.need_rare().large_length
        else:
            if large:
                length = length_of(broker, message)
            identity = broker.ids.identity_of(message)
            octets = presented(message, deliveries, self.routing_of(message), identity, broker.wall, length)
        octets = self.dressed(octets, message)
        if 0 < self.most < len(octets) + length:
            raise AmqpRefused(
                f"it has {len(octets) + length} octets, and the other side takes no more than {self.most}",
                SIZE_EXCEEDED,
                remedy="let the other side take larger messages",
            )
        outflow: Piecemeal | None = None
        if large or len(octets) + TRANSFER_OCTETS > connection.frame_max:
            outflow = Piecemeal(broker, message, octets, None)
        delivery = session.next_delivery
        session.next_delivery = (delivery + 1) & UINT_MAX
        self._under_way[int(delivery)] = self
        self.count = (self.count + 1) & UINT_MAX
        self.credit -= 1
        connection.sent += 1
        if outflow is None:
            outlet = connection.outlet
            connection.encoder.transfer(outlet.out, session.channel, self.handle, delivery, False, False, octets)
            self._wrote()
        else:
            outflow.delivery = delivery
            self._outflow = outflow
            self._port.streams(True)
            self.pour()
        return delivery + 1

    def dressed(self, octets: bytes, message: Message) -> bytes:
        """Return the octets of ``message``, which may be without its body, as they go out."""
        return octets

    def routing_of(self, message: Message) -> int:
        """Return how ``message``, of another language, was sent."""
        return self.routing

    def _wrote(self) -> None:
        session = self.session
        outlet = session.connection.outlet
        session.sent_frame()
        if session.window <= 0:
            self._port.waits(True)
        outlet.note()
        if len(outlet.out) > outlet.high:
            outlet.choke()

    def is_pouring(self) -> bool:
        """Return whether a message is on its way out. A method, for the compiler (see CORE's)."""
        return self._outflow is not None

    def pour(self) -> None:
        """Write the next frames of a message, as far as the session and the socket take them."""
        session = self.session
        outlet = session.connection.outlet
        while not outlet.choked and session.window > 0:
            outflow = self._outflow
            if outflow is None:
                return
            if not write_piece(session, self.handle, outflow, False):
                return
            last = outflow.is_done()
            if last:
                self._outflow = None
                outflow.finish()
            self._wrote()
            if last:
                self._port.streams(False)
                self._say_drained()

    def relieved(self) -> None:
        """The session takes frames again."""
        self.pour()

    # -- the end -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Send nothing more over it; what is not answered is for its queue."""
        session = self.session
        if session.links.pop(int(self.handle), None) is not None:
            session.quiet[int(self.handle)] = None
            session.say(Detach(handle=self.handle, closed=True))
        self.end(0)

    def transfer(self, transfer: Transfer, payload: bytes) -> None:
        """Nothing may come here."""
        raise AmqpRefused("a transfer came over a link whose sender is this broker", NOT_ALLOWED)

    def address(self) -> str:
        """Return nothing: its peer sends nothing over it."""
        return ""

    def detach(self, detach: Detach) -> None:
        """The peer detaches it, or refuses it."""
        self.session.say(Detach(handle=self.handle, closed=True))
        self.end(0)
        self.owner.ended(self.why)

    def end(self, last_delivered: i64) -> None:
        """Nothing more is written over it."""
        self.live = False
        self.credit = 0
        outflow = self._outflow
        if outflow is not None:
            self._outflow = None
            outflow.finish()
            self._port.streams(False)
