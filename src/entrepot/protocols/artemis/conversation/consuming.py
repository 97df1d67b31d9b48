"""Consumers: how they are made, what they hold, what is settled, and the octets that they may still be sent. [C]

With prefetch 0 a pull asks for one message (`Window`). That nothing is there is found out by a forced delivery, which
the server answers behind all that it can deliver.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import MILLISECOND, Instant
from entrepot.base.errors import EntrepotError, Inexpressible, Refused, Unreachable
from entrepot.protocols.artemis.conversation.messages import Incoming, joined
from entrepot.protocols.artemis.conversation.owner import Owner
from entrepot.protocols.artemis.conversation.places import Place
from entrepot.protocols.artemis.conversation.window import Window
from entrepot.protocols.artemis.convert import COMPRESSED
from entrepot.protocols.artemis.headers import TYPE_BYTES, headers_at, read_headers
from entrepot.protocols.artemis.packets import (
    Acknowledge,
    CloseConsumer,
    DeleteQueue,
    Expired,
    ForceDelivery,
    IndividualAcknowledge,
    Packet,
    Receive,
    ReceiveContinuation,
    ReceiveLarge,
)
from entrepot.protocols.artemis.primitives import HEAD_OCTETS
from entrepot.protocols.artemis.properties import find, key_octets
from entrepot.protocols.conversing.content import Envelope, Headers, Wish
from entrepot.protocols.conversing.modes import Acknowledge as Mode
from entrepot.protocols.conversing.port import Answer, ConsumerPort, DeliveryPort
from entrepot.protocols.session import NEVER

FORCED: Final = key_octets("_hornetq.forced.delivery.seq")
RECEIVE_OCTETS: Final = HEAD_OCTETS + 12  # of a RECEIVE beside its message
LARGE_OCTETS: Final = HEAD_OCTETS + 20  # of a RECEIVE_LARGE beside its headers
PIECE_OCTETS: Final = HEAD_OCTETS + 13  # of a RECEIVE_CONTINUATION beside its octets
LARGE_BODY_OCTETS_MAX: Final = 1 << 30  # held in memory, because programs get a message in one piece
PACKED: Final = key_octets(COMPRESSED)
CUT: Final = "the connection was lost"
GIVEN_BACK: Final = "it was given back"
SETTLES_BY_RANGE: Final = (Mode.AUTO, Mode.DUPS_OK)


class Delivery(DeliveryPort):
    """One message handed out, or about to be. ``era``: which wire it came by."""

    def __init__(self, consumer: ConsumerCore, octets: bytes, number: i64, size: i64, count: i64) -> None:
        super().__init__(int(max(count - 1, 0)))
        self.owner: ConsumerCore = consumer
        self.incoming: Incoming = Incoming(octets)
        self.number: i64 = number
        self.size: i64 = size
        self.era: i64 = consumer.session.era

    def consumer(self) -> ConsumerPort:
        """Return whom it was handed to."""
        return self.owner

    def body(self) -> object:
        """Return the body."""
        return self.incoming.body()

    def properties(self) -> dict[str, object]:
        """Return the sender's own properties."""
        return self.incoming.properties()

    def headers(self) -> Headers:
        """Return what the sender said besides."""
        return self.incoming.said()

    def envelope(self) -> Envelope:
        """Return what its way left on it."""
        return self.incoming.envelope()

    def done(self) -> None:
        """AUTO, DUPS_OK: it is processed."""
        if self.live and not self.owner.browser:
            self.live = False
            self.owner.done(self)

    def acknowledge(self) -> int:
        """CLIENT, INDIVIDUAL: settle it as the mode says."""
        owner = self.owner
        if not self.live or owner.closed:
            return 0
        if owner.mode == Mode.INDIVIDUAL:
            owner.settle_one(self)
        elif owner.mode == Mode.CLIENT:
            owner.session.acknowledge()
        return 0

    def reject(self, cause: str) -> None:
        """CORE has no word for it. Raises Inexpressible."""
        raise Inexpressible(
            "a client of CORE cannot give a message up", remedy="roll back, or `recover`, until max-delivery-attempts"
        )

    def is_lost(self) -> bool:
        """Tell whether the wire that it came by was lost."""
        return self.era != self.owner.session.era

    def confirm(self, mark: int, answer: Answer) -> None:
        """Let ``answer`` come when its acknowledgement is stored."""
        self.owner.session.confirm(self.era, answer)


class Piece:
    """Octets of a body, and the credit that they took."""

    def __init__(self, body: bytes, size: i64, last: bool) -> None:
        self.body: bytes = body
        self.size: i64 = size
        self.last: bool = last


class PiecewiseDelivery(Delivery):
    """A large message that is handed out while it comes. What waits here is within the window of its consumer."""

    def __init__(self, consumer: ConsumerCore, octets: bytes, number: i64, count: i64) -> None:
        super().__init__(consumer, octets, number, 0, count)
        self.pieces: deque[Piece] = deque()
        self.complete: bool = False  # the last piece came
        self.broken: str = ""
        self.skipped: bool = False

    def came(self, piece: Piece) -> None:
        """A piece came."""
        self.complete = piece.last
        self.pieces.append(piece)
        if self.skipped:
            self.skip()

    def comes_in_pieces(self) -> bool:
        """Tell that it does."""
        return True

    def body(self) -> object:
        """Raises Inexpressible."""
        raise Inexpressible("this body came in pieces", remedy="it is where it was written to")

    def piece(self) -> bytes:
        """Return the next octets, whose credit is given again now."""
        while self.pieces:
            piece = self.pieces.popleft()
            self._give_back(piece)
            if piece.body:
                return piece.body
        if self.broken:
            raise Unreachable(f"the rest of a message did not come: {self.broken}", remedy="expect it again")
        return b""

    def is_whole(self) -> bool:
        """Tell whether every piece was handed out."""
        return self.complete and not self.pieces and not self.broken

    def skip(self) -> None:
        """The rest is not wanted; it still comes, and its credit is given again."""
        self.skipped = True
        while self.pieces:
            self._give_back(self.pieces.popleft())

    def forget(self, why: str, *, credit: bool) -> None:
        """What is not handed out never will be; ``credit``: what it took is given again, to the same wire."""
        if not self.is_whole():
            self.broken = why  # before anything is taken away: what is cut short must not look complete
        self.live = False
        if credit:
            self.skip()
        self.pieces.clear()

    def _give_back(self, piece: Piece) -> None:
        window = self.owner.window
        if piece.last:
            window.handed(piece.size)
        else:
            window.piece(piece.size)


class ConsumerCore(ConsumerPort):
    """One consumer: what waits in it, what was handed out, and the credit that is to be given again."""

    def __init__(self, session: Owner, number: i64, wish: Wish, wake: Callable[[], None], window: i64) -> None:
        super().__init__(int(session.mode), wish.browser)
        self.session: Owner = session
        self.number: i64 = number
        self.wish: Wish = wish
        self.place: Place = Place(session.identity, wish)
        self.wake: Callable[[], None] = wake
        self.window: Window = Window(session, number, 0 if wish.prefetch == 0 and not wish.browser else window)
        self.confirmed: bool = False
        self.opening: Answer | None = None  # who waits for it to be open
        self.inbox: deque[Delivery] = deque()
        self.handed: dict[int, Delivery] = {}  # not settled, in order; by the number of the message
        self.processed: i64 = 0
        self.large: ReceiveLarge | None = None
        self.pieces: list[bytes] = []
        self.pieces_octets: i64 = 0
        self.coming: PiecewiseDelivery | None = None  # in place of ``large``, where it is handed out while it comes
        self.forcing: i64 = 0  # forced deliveries that were not answered yet
        self.pull_due: i64 = NEVER

    # -- what comes ----------------------------------------------------------------------------------------------------

    def arrive(self, packet: Packet) -> None:
        """Take what the server sends."""
        if isinstance(packet, Receive):
            if self.forcing and self._is_forced(packet.message):
                self._nothing_there()
                return
            self._take(packet.message, len(packet.message) + RECEIVE_OCTETS, packet.delivery_count)
        elif isinstance(packet, ReceiveLarge):
            self.large = packet
            self.pieces.clear()
            self.pieces_octets = 0
            self.window.piece(len(packet.headers) + LARGE_OCTETS)
            if self.wish.in_pieces and not self.closed and not self.session.dropping:
                self._begin(packet)
        elif isinstance(packet, ReceiveContinuation):
            self._gather(packet)

    def _begin(self, packet: ReceiveLarge) -> None:
        """Hand out a large message while it comes, if its body is octets and nothing else."""
        octets = joined(b"", packet.headers)
        headers = read_headers(octets, headers_at(octets))
        if headers.kind != TYPE_BYTES or find(octets, headers.properties_at, PACKED) >= 0:
            return
        self.large = None
        self.coming = PiecewiseDelivery(self, octets, headers.number, packet.delivery_count)
        self.inbox.append(self.coming)
        self.wake()

    def _gather(self, packet: ReceiveContinuation) -> None:
        """Take a piece of a large message, whose octets are asked for again at once: it could be above the window.

        Of one that is handed out while it comes, they are asked for again when somebody took them.
        """
        large = self.large
        size = len(packet.body) + PIECE_OCTETS
        coming = self.coming
        if coming is not None:
            last = not packet.continues
            answered = last and self.window.came(size)
            if last:
                self.coming = None
            coming.came(Piece(packet.body, size, last))
            if answered and coming.skipped:
                self.window.pull()  # nobody had it: the one that was asked for is still to come
            self.wake()
            return
        if large is None or packet.continues:
            self.window.piece(size)
        if large is None:
            return
        self.pieces.append(packet.body)
        self.pieces_octets += len(packet.body)
        if self.pieces_octets > LARGE_BODY_OCTETS_MAX:
            self.drop_large()
            self.end(f"a message is larger than {LARGE_BODY_OCTETS_MAX} octets")
            return
        if not packet.continues:
            self.large = None
            octets = joined(b"".join(self.pieces), large.headers)
            self.pieces.clear()
            self._take(octets, size, large.delivery_count)

    def _take(self, octets: bytes, size: i64, count: i64) -> None:
        window = self.window
        answered = window.came(size)
        if self.closed:
            return
        if self.session.dropping:
            window.handed(size)
            if answered:
                window.pull()
            return
        number = read_headers(octets, headers_at(octets)).number
        self.inbox.append(Delivery(self, octets, number, size, count))
        self.wake()

    def _is_forced(self, octets: bytes) -> bool:
        headers = read_headers(octets, headers_at(octets))
        return find(octets, headers.properties_at, FORCED) >= 0

    def _nothing_there(self) -> None:
        self.forcing -= 1
        if self.inbox or self.forcing:  # the last one knows what was asked for since
            return
        if self.browser:
            self.exhausted = True
        else:
            self.pulled_nothing = True
            self.window.revoke()
        self.wake()

    # -- handing out ---------------------------------------------------------------------------------------------------

    def take(self, now: Instant) -> DeliveryPort | None:
        """Hand out the next message: none while nobody knows whether the broker still has it for us."""
        if self.session.requests.away and not self.browser:
            return None
        inbox = self.inbox
        while inbox:
            delivery = inbox.popleft()
            self.window.handed(delivery.size)
            if self._is_over(delivery):
                delivery.skip()
                if self.window.octets == 0 and not inbox:
                    self.window.pull()  # the one that was asked for is still to come
                continue
            self.pull_due = NEVER
            if not self.browser:
                self.handed[int(delivery.number)] = delivery
                if self.mode not in SETTLES_BY_RANGE:
                    self.session.consumed = True
            return delivery
        if self.browser and self.confirmed and not self.forcing and not self.exhausted:
            self._force()
        return None

    def _is_over(self, delivery: Delivery) -> bool:
        """Return whether the time of ``delivery`` is over; then the server is told."""
        expiration = delivery.incoming.message.expiration
        if self.browser or expiration == 0 or expiration > self.session.identity.wall():
            return False
        self.session.requests.post(Expired(consumer=self.number, message=delivery.number))
        return True

    def _force(self) -> None:
        if self.session.requests.post(ForceDelivery(consumer=self.number, sequence=1)):
            self.forcing += 1

    def deadline(self, now: Instant) -> i64:
        """Nothing is delayed here: the server keeps what is to come later."""
        return NEVER

    def wants_pull(self) -> bool:
        """Tell whether nothing comes unless it is asked for."""
        return self.window.octets == 0

    def pull(self, timeout_ms: int) -> None:
        """Ask for one message: for what is there now (-1), without end (0), or for so long."""
        if self.inbox:
            return
        self.window.pull()
        if timeout_ms < 0:
            self._force()
        elif timeout_ms > 0:
            self.pull_due = self.session.identity.now() + timeout_ms * MILLISECOND
            self.session.ring_at(self.pull_due)

    def rang(self) -> None:
        """The time of a pull is over: have the server say that there is nothing."""
        self.pull_due = NEVER
        if not self.forcing and not self.inbox:
            self._force()

    # -- settling ------------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """AUTO, DUPS_OK: tell the server what is processed."""
        processed = self.processed
        if processed and self.session.requests.post(Acknowledge(consumer=self.number, message=processed)):
            self.processed = 0

    def done(self, delivery: Delivery) -> None:
        """AUTO, DUPS_OK: it is processed. One that overtook another is settled alone: a range would settle both."""
        handed = self.handed
        number = int(delivery.number)
        if next(iter(handed), number) == number:
            self.processed = delivery.number
        else:
            self.session.requests.post(IndividualAcknowledge(consumer=self.number, message=delivery.number))
        handed.pop(number, None)

    def settle_one(self, delivery: Delivery) -> None:
        """INDIVIDUAL: this one is processed."""
        delivery.live = False
        self.handed.pop(int(delivery.number), None)
        self.session.requests.post(IndividualAcknowledge(consumer=self.number, message=delivery.number))
        self.session.unsaved = True

    def settle_all(self) -> None:
        """CLIENT, TRANSACTED: all that was handed out is processed, as far as this session is concerned."""
        if not self.handed or self.mode in SETTLES_BY_RANGE:
            return
        last = list(self.handed)[-1]
        for delivery in self.handed.values():
            delivery.live = False
        self.handed.clear()
        self.session.requests.post(Acknowledge(consumer=self.number, message=last))
        self.session.unsaved = True

    def drop(self) -> None:
        """Forget what is here: the server delivers it again."""
        inbox, self.inbox = self.inbox, deque()
        for delivery in inbox:
            self.window.handed(delivery.size)
            _forget(delivery, GIVEN_BACK, True)
        for delivery in self.handed.values():
            _forget(delivery, GIVEN_BACK, True)
        self.handed.clear()
        self.drop_large()

    def drop_large(self) -> None:
        """Forget a large message that is not complete: a server that rolls back writes no more of it."""
        if self.large is not None or self.coming is not None:
            self.window.cut()
        self.large = None
        self.coming = None
        self.pieces.clear()

    # -- its life ------------------------------------------------------------------------------------------------------

    def opened(self, error: EntrepotError | None) -> None:
        """The server made it, or did not."""
        opening, self.opening = self.opening, None
        if error is not None:
            self.session.forget_consumer(self.number)
            if opening is None:
                self.end(str(error))
        else:
            self.confirmed = True
            self.window.open()
            if self.browser:
                self._force()
        if opening is not None:
            opening(error)

    def lost(self) -> None:
        """The wire is gone, and with it all that came by it."""
        for delivery in self.inbox:
            _forget(delivery, CUT, False)
        self.window.lost(len(self.inbox) > 0)
        self.inbox.clear()
        for delivery in self.handed.values():
            _forget(delivery, CUT, False)
        self.handed.clear()
        self.processed = 0
        self.large = None
        if self.coming is not None:
            self.coming = None
            self.wake()  # somebody may wait for the next piece
        self.pieces.clear()
        self.forcing = 0

    def end(self, why: str) -> None:
        """Nothing comes any more."""
        if not self.ended:
            self.ended = why
        if self.coming is not None:
            self.coming.forget(why, credit=False)
            self.coming = None
        self.wake()

    def close(self) -> None:
        """Close it; what was not settled goes back."""
        if self.closed:
            return
        self.flush()
        if self.mode == Mode.TRANSACTED and self.session.settles:
            self.settle_all()
        self.closed = True
        session = self.session
        session.forget_consumer(self.number)
        if self.confirmed and session.requests.is_there():
            self.undo(True)
        self.drop()
        opening, self.opening = self.opening, None
        if opening is not None:  # what is being made for it is undone when it is there
            opening(Refused("the consumer was closed before it was open"))

    def undo(self, made: bool) -> None:
        """Have the server take back what it made for a closed consumer: its queue; itself, if it was ``made``."""
        requests = self.session.requests
        if made:
            requests.ask(CloseConsumer(consumer=self.number), nobody)
        if self.place.is_own:
            requests.ask(DeleteQueue(queue=self.place.queue), nobody)


def _forget(delivery: Delivery, why: str, credit: bool) -> None:
    """``delivery`` settles nothing any more: the server gives its message to somebody again."""
    delivery.live = False
    if isinstance(delivery, PiecewiseDelivery):
        delivery.forget(why, credit=credit)


def nobody(packet: Packet | None, error: EntrepotError | None) -> None:
    """Nobody waits for this answer."""
