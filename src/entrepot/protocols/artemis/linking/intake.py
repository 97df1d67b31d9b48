"""What is drawn from queues of an Artemis, or of whoever speaks CORE; see `protocols/drawing.py`. [C]

The id by which this broker knows a message that comes again is made of the node there, its queue and the number that
the message has in that node's journal: Artemis keeps that number over restarts, and a backup has the journal, and the
node's id, of its primary.

Credit is given again with the acknowledgement (artemis.md 5.2.8), so the window bounds what is on its way; it is no
larger than what this broker remembers the ids of, were all messages as small as they can be. The credit of a large
body is given again piece by piece, at the pace of our disk.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from entrepot.base.errors import Fault, StorageError
from entrepot.core.broker import BrokerCore
from entrepot.model.address import Destination
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
from entrepot.protocols.drawing import OPEN, Batch, Draw, Intake, IntakePort
from entrepot.protocols.serving.pace import DiskPace
from entrepot.protocols.session import Session

NUMBER_OCTETS: Final = 8
RECEIVE_OCTETS: Final = HEAD_OCTETS + 12  # of a RECEIVE beside its message: what a server takes off the credit
LARGE_OCTETS: Final = HEAD_OCTETS + 20  # of a RECEIVE_LARGE beside its headers
LEAST_OCTETS: Final = RECEIVE_OCTETS + 39  # of a RECEIVE without a body or properties, at an address of one letter
PIECE_OCTETS: Final = HEAD_OCTETS + 13  # of a RECEIVE_CONTINUATION beside its octets


class CoreDraw(Draw):
    """One queue that is drawn over CORE."""

    def __init__(self, source: str, topic: str, place: Destination) -> None:
        super().__init__(source, topic, place)
        self.large: LargeArrival | None = None
        self.large_number: i64 = 0
        self.coming: i64 = 0  # the message that came, by its number there,
        self.size: i64 = 0  # and the credit that it took
        self.last: i64 = 0  # the message that was taken last
        self.octets: i64 = 0  # credit of what is in no batch yet
        self.window: i64 = 0  # octets on their way, as it was asked for
        self.owed: i64 = 0  # credit of pieces of large bodies

    def take(self) -> None:
        """The message that came is in this broker."""
        super().take()
        self.last = self.coming
        self.octets += self.size


class _CoreBatch(Batch):
    """Up to the message ``last``; its credit is ``octets``."""

    def __init__(self, intake: Intake, draw: CoreDraw) -> None:
        super().__init__(intake, draw)
        self.last: i64 = draw.last
        self.octets: i64 = draw.octets
        draw.octets = 0


@mypyc_attr(allow_interpreted_subclasses=True)
class Poster:
    """Who sends what taking in has to say."""

    def post(self, packet: Packet) -> bool:
        """Send ``packet``; False: there is no session."""
        raise NotImplementedError


class CoreIntake(Intake):
    """Of one session. ``node``: the id of the other broker's store. ``window``: octets on their way from one queue."""

    def __init__(self, broker: BrokerCore, port: IntakePort, poster: Poster, origin: i64, window: i64) -> None:
        """``origin``: as of `Intake`."""
        super().__init__(broker, port, origin)
        self.poster: Poster = poster
        self.window: i64 = window
        self.node: str = ""
        self._arriving: Arriving = Arriving()
        self._pace: DiskPace = DiskPace(None)

    def begin(self, session: Session) -> None:
        """There is a connection."""
        self._pace = DiskPace(session)

    def clear(self) -> None:
        """There is none any more."""
        self.node = ""
        self._pace.end()
        super().clear()

    def cut(self, draw: Draw) -> None:
        """Let go of a large body that is not complete."""
        large = core(draw).large
        core(draw).large = None
        if large is not None:
            large.finish()

    def take(self, packet: Packet) -> None:
        """Take a message, or a part of one, of a queue that is drawn still; any other one goes back."""
        if isinstance(packet, Receive):
            draw = self._open(packet.consumer)
            if draw is not None:
                octets = packet.message
                draw.coming = number_at(octets, headers_at(octets))
                draw.size = len(octets) + RECEIVE_OCTETS
                self.give(draw, self._arriving.message(octets, draw.place.name), self.identity(draw, draw.coming))
        elif isinstance(packet, ReceiveLarge):
            draw = self._open(packet.consumer)
            if draw is not None:
                headers = packet.headers
                draw.large_number = int.from_bytes(headers[:NUMBER_OCTETS], "big", signed=True)
                draw.large = LargeArrival(self.broker, headers, draw.place.name)
                self._lend(draw, len(headers) + LARGE_OCTETS)
        elif isinstance(packet, ReceiveContinuation):
            draw = self._open(packet.consumer)
            if draw is not None:
                self._go_on(draw, packet)

    def _open(self, consumer: i64) -> CoreDraw | None:
        draw = self.draws.get(int(consumer))
        return core(draw) if draw is not None and draw.state == OPEN else None

    def _go_on(self, draw: CoreDraw, packet: ReceiveContinuation) -> None:
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
            self.refuse(draw, error)
            return
        draw.coming = draw.large_number
        draw.size = size
        self.give(draw, message, self.identity(draw, draw.large_number))
        large.finish()

    def _lend(self, draw: CoreDraw, octets: i64) -> None:
        draw.owed += octets
        if 2 * draw.owed >= draw.window:
            self.poster.post(FlowToken(consumer=draw.number, credits=draw.owed))
            draw.owed = 0

    def open_window(self, draw: Draw) -> i64:
        """Return how many octets may be on their way from the queue of ``draw``, which begins."""
        drawn = core(draw)
        remembered = self.remembered(draw)
        drawn.window = min(self.window, remembered * LEAST_OCTETS)
        drawn.doubts = min(drawn.window // PIECE_OCTETS + 1, remembered)  # of a large one only its last piece counts
        return drawn.window

    def identity(self, draw: Draw, number: i64) -> bytes:
        """Return by what this broker knows the message if it comes again."""
        return f"{self.node}\t{draw.source}\t".encode("utf-8", "surrogatepass") + int(number).to_bytes(
            NUMBER_OCTETS, "big", signed=True
        )

    def batch(self, draw: Draw) -> Batch:
        """Return what came from ``draw`` since the batch before."""
        return _CoreBatch(self, core(draw))

    def acknowledge(self, batch: Batch) -> None:
        """Acknowledge all up to the end of ``batch``."""
        assert isinstance(batch, _CoreBatch)
        self.poster.post(Acknowledge(consumer=batch.draw.number, message=batch.last))

    def restore(self, batch: Batch) -> None:
        """Give its credit again."""
        assert isinstance(batch, _CoreBatch)
        self.poster.post(FlowToken(consumer=batch.draw.number, credits=batch.octets))


def core(draw: Draw) -> CoreDraw:
    """Return ``draw``, which is drawn over CORE."""
    if not isinstance(draw, CoreDraw):
        raise Fault("what is drawn over CORE was asked for otherwise")
    return draw
