"""What one remote consumer brings: given to this broker once, and told to be safe when it is on disk here.

A message that came is known by the upstream's node, the number that it has there, and the queue: one that comes again,
because its acknowledgement was lost or either broker fell, is dropped and acknowledged. Its body and its date are part
of what it is known by, so that a number which an upstream gave twice costs a repetition at the most, and no message.
"""

from __future__ import annotations

from _blake2 import blake2b  # as in `core/sending/copies.py`
from typing import Final, Protocol

from entrepot.base.errors import EntrepotError, InvalidDestination, Refused
from entrepot.cluster.federation.policies import Wish
from entrepot.core.addressing.binding import ACK_ROUTE, BRANCH, ROUTE_TO, SCALED_DOWN
from entrepot.core.addressing.routing import Target
from entrepot.core.broker import BrokerCore
from entrepot.core.sending.flow import BLOCKED, DUPLICATE
from entrepot.model.address import MULTICAST, Destination
from entrepot.model.headers import set_headers
from entrepot.model.message import Message
from entrepot.protocols.artemis.arriving import message_of
from entrepot.protocols.artemis.convert import HOPS
from entrepot.protocols.artemis.headers import NO_BODY, headers_at, read_headers
from entrepot.protocols.artemis.large import LargeArrival
from entrepot.protocols.artemis.properties import entry, key_octets, value_of, with_entries, without
from entrepot.protocols.artemis.sending import schedule
from entrepot.protocols.inflow import Pace
from entrepot.protocols.serving.confirmations import Confirmation, Confirmations
from entrepot.protocols.serving.patience import Held, Holding

NUMBER_OCTETS: Final = 8
HOPS_OCTETS: Final = 4
HOPS_MOST: Final = (1 << 31) - 1
PRINT_OCTETS: Final = 8
RELEASED: Final = 256 * 1024
"""After so many octets of a large body more of it is asked for: a quarter of what a consumer is given to begin with."""
_BETWEEN_NODES: Final = (ROUTE_TO, SCALED_DOWN, ACK_ROUTE, BRANCH)
_K_HOPS: Final[dict[bytes, None]] = {key_octets(HOPS): None}


class Acknowledging(Protocol):
    """Who brought it."""

    def acknowledge(self, number: int, octets: int) -> None:
        """The message ``number`` of the upstream, of so many octets, is safe here."""

    def release(self, octets: int) -> None:
        """So many octets of a large message that is not complete are out of memory."""

    def refused(self, why: str) -> None:
        """A message cannot be taken: it stays at the upstream."""


class _Safe(Confirmation):
    """A message on its way to disk."""

    def __init__(self, confirmations: Confirmations, owner: Arrivals, number: int, octets: int) -> None:
        super().__init__(confirmations)
        self._owner: Final = owner
        self._number: Final = number
        self._octets: Final = octets

    def give(self) -> None:
        """It is safe."""
        self._owner.settled(self._number, self._octets)

    def refuse(self, error: EntrepotError) -> None:
        """It is not."""
        self._owner.unsafe(error)


class _Room(Held):
    """An acknowledgement that waits for room here, and then, if it is ``durable``, for the disk."""

    def __init__(self, owner: Arrivals, number: int, octets: int, durable: bool) -> None:
        self._owner: Final = owner
        self._number: Final = number
        self._octets: Final = octets
        self._durable: Final = durable

    def release(self) -> None:
        """There is room."""
        self._owner.confirm(self._number, self._octets, durable=self._durable)


class _Pace(Pace):
    """A large body on its way to disk: more of it is asked for when that has what came."""

    def __init__(self, owner: Arrivals, octets: int) -> None:
        self._owner: Final = owner
        self._octets: Final = octets

    def reached(self) -> None:
        self._owner.written(self._octets)


class Arrivals:
    """Of one remote consumer on one session. ``pending``: messages that are here and not acknowledged yet."""

    def __init__(self, broker: BrokerCore, wish: Wish, node: str, owner: Acknowledging) -> None:
        """``node``: the id of the upstream."""
        self.broker: Final = broker
        self.wish: Final = wish
        self.pending = 0
        self.accepted = 0
        self.duplicates = 0
        self._owner: Final = owner
        self._node: Final = node.encode()
        self._origin: Final = -int(broker.ids.consumer_key())  # no connection's number
        self._holding: Final = Holding(broker, self._origin)
        self._confirmations: Final = Confirmations(broker.journal, self._origin)
        self._target: Target | None = None
        self._large: LargeArrival | None = None
        self._large_number = 0
        self._large_octets = 0  # of its frames; those that are not released yet
        self._large_print = blake2b(digest_size=PRINT_OCTETS)
        self._ended = False

    # -- what comes ----------------------------------------------------------------------------------------------------

    def take(self, octets: bytes, size: int) -> None:
        """A message came in a frame of ``size`` octets. Raises EntrepotError where it cannot be taken."""
        at = headers_at(octets)
        print_ = blake2b(octets[4:at], digest_size=PRINT_OCTETS)
        number = _number_at(octets, at)
        message = message_of(self._counted(octets, at), self.wish.address)
        self._send(message, number, self._identity(number, message, print_.digest()), size)

    def begin(self, headers: bytes, size: int) -> None:
        """A large message begins: its ``headers``. Raises EntrepotError."""
        self._drop_large()
        octets = NO_BODY + headers
        at = len(NO_BODY)
        self._large_number = _number_at(octets, at)
        self._large_octets = size
        self._large_print = blake2b(digest_size=PRINT_OCTETS)
        self._large = LargeArrival(self.broker, self._counted(octets, at)[at:], self.wish.address)

    def go_on(self, piece: bytes, size: int, *, more: bool) -> None:
        """A piece of it came. Raises EntrepotError."""
        large = self._large
        if large is None:
            return
        large.write(piece)
        self._large_print.update(piece)
        self._large_octets += size
        if large.refusal is not None:
            error = large.refusal
            self._drop_large()
            raise error
        if more:
            if large.is_due():
                octets, self._large_octets = self._large_octets, 0
                large.ask_the_disk(_Pace(self, octets))
            elif self._large_octets >= RELEASED:
                octets, self._large_octets = self._large_octets, 0
                self._owner.release(octets)
            return
        try:
            message = large.complete(-1)
            identity = self._identity(self._large_number, message, self._large_print.digest())
            self._send(message, self._large_number, identity, self._large_octets)
        finally:
            self._drop_large()

    def written(self, octets: int) -> None:
        """The disk has what came of a large body."""
        if not self._ended:
            self._owner.release(octets)

    def end(self) -> None:
        """The session is gone: what is not acknowledged comes again, and is known then."""
        self._ended = True
        self.pending = 0
        self._confirmations.end()
        self._holding.forget()
        self._drop_large()

    # -- where it goes -------------------------------------------------------------------------------------------------

    def _counted(self, octets: bytes, at: int) -> bytes:
        """Return the message with one hop more, if it comes of an address."""
        if self.wish.policy is None:
            return octets
        properties_at = read_headers(octets, at).properties_at
        had = value_of(octets, properties_at, key_octets(HOPS))
        hops = int.from_bytes(had, "big") if isinstance(had, bytes) and len(had) == HOPS_OCTETS else 0
        said = entry(HOPS, min(hops + 1, HOPS_MOST).to_bytes(HOPS_OCTETS, "big"))
        return with_entries(without(octets, properties_at, _K_HOPS), properties_at, said, 1)

    def _identity(self, number: int, message: Message, body: bytes) -> bytes:
        """Return by what a message is known that comes again."""
        headers = read_headers(message.raw, message.body_at)
        date = int(message.timestamp).to_bytes(NUMBER_OCTETS, "big", signed=True)
        said = blake2b(body + date + headers.user_id, digest_size=PRINT_OCTETS).digest()
        mark = self.wish.queue.encode()
        return self._node + number.to_bytes(NUMBER_OCTETS, "big", signed=True) + said + mark

    def _send(self, message: Message, number: int, identity: bytes, octets: int) -> None:
        broker = self.broker
        target = self._where()
        if message.timestamp == 0:
            message.timestamp = broker.wall
        message.address = target.name
        message.origin = self._origin
        set_headers(message, self.wish.headers)
        rare = message.need_rare()
        for key in _BETWEEN_NODES:
            message.unmark(key)
        rare.duplicate_id = identity
        rare.bridged = True
        if rare.deliver_at > 0:
            schedule(message, rare, broker.wall)
        verdict = broker.send(message, target)
        if verdict == DUPLICATE:
            self.duplicates += 1
        else:
            self.accepted += 1
        self.pending += 1
        if verdict == BLOCKED:
            self._holding.keep(_Room(self, number, octets, message.durable))
        else:
            self.confirm(number, octets, durable=message.durable)

    def _where(self) -> Target:
        """Return where messages go here. Raises Refused where the queue is gone: then they are not for this broker."""
        broker, wish = self.broker, self.wish
        if wish.local and wish.local not in broker.table.queues:
            raise Refused(f"the queue {wish.local} is gone here")
        target = self._target
        if target is None:
            target = self._target = self._found()
        return target

    def _found(self) -> Target:
        wish = self.wish
        if wish.local:
            return self.broker.target([Destination(wish.address, wish.routing, False, wish.local)])
        try:
            return self.broker.target([Destination(wish.address, MULTICAST)])
        except InvalidDestination:  # who wanted it has gone, and it may not be made: nobody gets it
            return Target(wish.address, MULTICAST)

    # -- what is safe --------------------------------------------------------------------------------------------------

    def confirm(self, number: int, octets: int, *, durable: bool) -> None:
        """Acknowledge the message ``number`` as soon as it may be."""
        if self._ended:
            return
        if durable:
            self._confirmations.ask(_Safe(self._confirmations, self, number, octets))
        else:
            self.settled(number, octets)

    def settled(self, number: int, octets: int) -> None:
        """The message ``number`` is safe."""
        self.pending -= 1
        self._owner.acknowledge(number, octets)

    def unsafe(self, error: EntrepotError) -> None:
        """The disk did not take a message."""
        self.pending -= 1
        self._owner.refused(error.message)

    def _drop_large(self) -> None:
        large, self._large = self._large, None
        if large is not None:
            large.finish()


def _number_at(octets: bytes, at: int) -> int:
    """Return the number that a message has at the upstream: its headers begin with it."""
    return int.from_bytes(octets[at : at + NUMBER_OCTETS], "big", signed=True)
