"""What is drawn from queues of another broker, taken into this one and acknowledged there. [C]

A message is acknowledged there when this broker has it on its disk, and not before. The id by which this broker knows
one that comes again is made of the node there, its queue and the number that the message has in that node's journal:
Artemis keeps that number over restarts, and a backup has the journal, and the node's id, of its primary. It is
remembered among the ids of bridges (artemis.md 1.14), in the same batch of the journal as the message.

What is drawn is durable here, whatever its sender said: it has left the other broker, and is nowhere else.

Credit is given again with the acknowledgement (artemis.md 5.2.8), so the window bounds what is on its way; that of a
large body is given again piece by piece, at the pace of our disk. What does not fit here ends the drawing of its queue:
everything from there on goes back in order, and is tried again later.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from entrepot.base.errors import EntrepotError, Refused, StorageError
from entrepot.core.addressing.routing import Target
from entrepot.core.broker import BrokerCore
from entrepot.core.sending.flow import BLOCKED, DUPLICATE
from entrepot.model.address import Destination
from entrepot.model.message import Message
from entrepot.protocols.artemis.arriving import Arriving
from entrepot.protocols.artemis.headers import headers_at, number_at
from entrepot.protocols.artemis.large import LargeArrival
from entrepot.protocols.artemis.packets import (
    Acknowledge,
    FlowToken,
    Packet,
    Receive,
    ReceiveContinuation,
    ReceiveLarge,
)
from entrepot.protocols.artemis.primitives import HEAD_OCTETS
from entrepot.protocols.serving.confirmations import Confirmation, Confirmations
from entrepot.protocols.serving.pace import DiskPace
from entrepot.protocols.serving.patience import Held, Holding
from entrepot.protocols.session import Session

NUMBER_OCTETS: Final = 8
RECEIVE_OCTETS: Final = HEAD_OCTETS + 12  # of a RECEIVE beside its message: what a server takes off the credit
LARGE_OCTETS: Final = HEAD_OCTETS + 20  # of a RECEIVE_LARGE beside its headers
PIECE_OCTETS: Final = HEAD_OCTETS + 13  # of a RECEIVE_CONTINUATION beside its octets

OPENING: Final = 1  # states of a `Draw`: the other broker was asked,
OPEN: Final = 2  # messages come,
ENDING: Final = 3  # no more is taken; what was taken is still to be acknowledged,
CLOSING: Final = 4  # the other broker was told,
GONE: Final = 5  # and nothing is left


class Draw:
    """One queue of the other broker that is drawn. ``source``: its name; ``place``: where its messages go here.

    ``topic``: an address of the other broker, whose messages a queue of ours there keeps: ``source``, made when there
    is none. "" for a queue that is there.
    """

    def __init__(self, source: str, topic: str, place: Destination) -> None:
        self.source: str = source
        self.topic: str = topic
        self.place: Destination = place
        self.number: i64 = 0  # of its consumer
        self.state: i64 = OPENING
        self.why: str = ""  # it ended
        self.target: Target | None = None
        self.large: LargeArrival | None = None
        self.large_number: i64 = 0
        self.last: i64 = 0  # the message that was taken last, by its number there; 0: none since `passed`
        self.octets: i64 = 0  # credit of what was taken since
        self.owed: i64 = 0  # credit of pieces of large bodies
        self.taken: i64 = 0  # batches that wait for our disk were numbered so far
        self.acknowledged: i64 = 0  # the last of them that the other broker was told of
        self.waiting: i64 = 0  # batches that wait
        self.received: i64 = 0


class _Batch(Confirmation):
    """What came from one queue in one chunk, up to the message ``last``: acknowledged when our disk has it."""

    def __init__(self, intake: Intake, draw: Draw, last: i64, octets: i64) -> None:
        super().__init__(intake.confirmations)
        draw.taken += 1
        draw.waiting += 1
        self.intake: Intake = intake
        self.draw: Draw = draw
        self.last: i64 = last
        self.octets: i64 = octets
        self.order: i64 = draw.taken

    def give(self) -> None:
        """It is on disk."""
        self.draw.waiting -= 1
        self.intake.stored(self.draw, self.order, self.last, self.octets)

    def refuse(self, error: EntrepotError) -> None:
        """It is not: the other broker keeps it, and all behind it."""
        self.draw.waiting -= 1
        self.intake.port.fail(f"the disk does not take it: {error}")


class _HeldBatch(Held):
    """The same, of a broker that was full: it asks the disk when there is room, and gives no credit before that."""

    def __init__(self, batch: _Batch) -> None:
        self.batch: _Batch = batch

    def release(self) -> None:
        """There is room."""
        self.batch.intake.freed()
        self.batch.confirmations.ask(self.batch)


@mypyc_attr(allow_interpreted_subclasses=True)
class IntakePort:
    """What taking in asks of the session."""

    def post(self, packet: Packet) -> bool:
        """Send ``packet``; False: there is no session."""
        raise NotImplementedError

    def end(self, draw: Draw, why: str) -> None:
        """Take no more from ``draw``."""
        raise NotImplementedError

    def close_if_done(self, draw: Draw) -> None:
        """All that came from ``draw`` so far may be acknowledged."""
        raise NotImplementedError

    def fail(self, why: str) -> None:
        """The connection cannot be used any more."""
        raise NotImplementedError

    def waits(self, busy: bool) -> None:
        """This broker has no room for what comes (True), or has some again."""
        raise NotImplementedError


class Intake:
    """Of one session. ``node``: the id of the other broker's store. ``window``: octets on their way from one queue."""

    def __init__(self, broker: BrokerCore, port: IntakePort, origin: i64, window: i64) -> None:
        """``origin`` marks what comes in here; it is no connection's number."""
        self.broker: BrokerCore = broker
        self.port: IntakePort = port
        self.origin: i64 = origin
        self.window: i64 = window
        self.node: str = ""
        self.draws: dict[int, Draw] = {}  # by the number of the consumer
        self.received: i64 = 0
        self.duplicates: i64 = 0
        self.confirmations: Confirmations = Confirmations(broker.journal, origin)
        self._arriving: Arriving = Arriving()
        self._touched: dict[int, Draw] = {}  # something came from them in this chunk
        self._holding: Holding = Holding(broker, origin)
        self._pace: DiskPace = DiskPace(None)
        self._held: i64 = 0

    def begin(self, session: Session) -> None:
        """There is a connection."""
        self._pace = DiskPace(session)

    def clear(self) -> None:
        """There is none any more: what is not acknowledged comes again."""
        self.node = ""
        self._touched.clear()
        self._pace.end()
        draws = self.draws
        self.draws = {}
        for draw in draws.values():
            draw.state = GONE
            self.cut(draw)
        self.confirmations.end()
        self.confirmations = Confirmations(self.broker.journal, self.origin)
        self._holding.forget()
        self._held = 0

    def cut(self, draw: Draw) -> None:
        """Let go of a large body that is not complete: all of it comes again."""
        large = draw.large
        draw.large = None
        if large is not None:
            large.finish()

    def take(self, packet: Packet) -> None:
        """Take a message, or a part of one, of a queue that is drawn still; any other one goes back."""
        if isinstance(packet, Receive):
            draw = self.draws.get(int(packet.consumer))
            if draw is not None and draw.state == OPEN:
                octets = packet.message
                number = number_at(octets, headers_at(octets))
                self._give(draw, self._arriving.message(octets, draw.place.name), number, len(octets) + RECEIVE_OCTETS)
        elif isinstance(packet, ReceiveLarge):
            draw = self.draws.get(int(packet.consumer))
            if draw is not None and draw.state == OPEN:
                headers = packet.headers
                draw.large_number = int.from_bytes(headers[:NUMBER_OCTETS], "big", signed=True)
                draw.large = LargeArrival(self.broker, headers, draw.place.name)
                self._lend(draw, len(headers) + LARGE_OCTETS)
        elif isinstance(packet, ReceiveContinuation):
            draw = self.draws.get(int(packet.consumer))
            if draw is not None and draw.state == OPEN:
                self._go_on(draw, packet)

    def _go_on(self, draw: Draw, packet: ReceiveContinuation) -> None:
        """Take a piece of a large body, straight to disk; its credit goes back at once, or it could never be whole."""
        large = draw.large
        if large is None:
            self.port.fail("a piece of a large message came, and none has begun")
            return
        large.write(packet.body)
        size = len(packet.body) + PIECE_OCTETS
        if packet.continues:
            self._lend(draw, size)
            self._pace.look(large)
            return
        draw.large = None
        try:
            message = large.complete(-1)
        except StorageError as error:
            large.finish()
            self._refuse(draw, error)
            return
        self._give(draw, message, draw.large_number, size)
        large.finish()

    def _lend(self, draw: Draw, octets: i64) -> None:
        draw.owed += octets
        if 2 * draw.owed >= self.window:
            self.port.post(FlowToken(consumer=draw.number, credits=draw.owed))
            draw.owed = 0

    def _give(self, draw: Draw, message: Message, number: i64, octets: i64) -> None:
        """Send ``message``, which has this ``number`` there, to its queue here."""
        broker = self.broker
        try:
            target = draw.target
            if target is None:
                target = broker.target([draw.place])
                draw.target = target
            self._dress(message, target, self.identity(draw, number))
            verdict = broker.send(message, target)
        except (Refused, StorageError) as error:
            self._refuse(draw, error)
            return
        if verdict == DUPLICATE:
            self.duplicates += 1
        self.received += 1
        draw.received += 1
        draw.last = number
        draw.octets += octets
        if verdict == BLOCKED:  # it is here; no more comes than what is on its way already
            self._held += 1
            self._holding.keep(_HeldBatch(self._batch(draw)))
            self.port.waits(True)
        else:
            self._touched[int(draw.number)] = draw

    def _batch(self, draw: Draw) -> _Batch:
        """Return what came from ``draw`` since the batch before."""
        batch = _Batch(self, draw, draw.last, draw.octets)
        draw.last = 0
        draw.octets = 0
        return batch

    def identity(self, draw: Draw, number: i64) -> bytes:
        """Return by what this broker knows the message if it comes again."""
        return f"{self.node}\t{draw.source}\t".encode("utf-8", "surrogatepass") + int(number).to_bytes(
            NUMBER_OCTETS, "big", signed=True
        )

    def _dress(self, message: Message, target: Target, identity: bytes) -> None:
        """Say of ``message`` what this broker knows."""
        broker = self.broker
        message.address = target.name
        message.origin = self.origin
        if message.timestamp == 0:
            message.timestamp = broker.wall
        rare = message.need_rare()
        rare.internal = None  # what the nodes there tell each other
        rare.deliver_at = 0  # its date has come: it was delivered
        rare.duplicate_id = identity
        rare.bridged = True
        if not message.durable:
            message.durable = True
            message.language.changed(message)
        stamps = broker.options.stamps
        if stamps is not None:
            stamps.put_on(message, None)

    def _refuse(self, draw: Draw, error: EntrepotError) -> None:
        """This broker does not take a message: the queue there keeps it, and those behind it."""
        self.port.end(draw, f"a message was refused here: {error}")

    def stored(self, draw: Draw, order: i64, last: i64, octets: i64) -> None:
        """Our disk has all that came up to the message ``last``: so it may be forgotten there."""
        if draw.state >= CLOSING:
            return
        if order > draw.acknowledged:  # a batch that waited for room may be behind later ones, which told of it
            draw.acknowledged = order
            self.port.post(Acknowledge(consumer=draw.number, message=last))
        if draw.state == OPEN:
            self.port.post(FlowToken(consumer=draw.number, credits=octets))
        else:
            self.port.close_if_done(draw)

    def freed(self) -> None:
        """A batch that waited for room has it."""
        self._held -= 1
        if self._held == 0:
            self.port.waits(False)

    def settle(self) -> None:
        """A chunk was taken in: have it acknowledged once our disk has it."""
        touched = self._touched
        self._touched = {}
        for draw in touched.values():
            if draw.state != GONE and draw.last != 0:
                self.confirmations.ask(self._batch(draw))
