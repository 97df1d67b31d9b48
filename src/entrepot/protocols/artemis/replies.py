"""What a client of CORE is told about its commands: at once, or when the disk has them; always in their order. [C]

A command is *done* when its answer is due. Where both sides count (`channel.py`), an answer that is due at once waits
behind those that wait for the disk: a confirmation covers all that came before it.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.environment import SECOND
from entrepot.base.errors import EntrepotError
from entrepot.core.broker import BrokerCore
from entrepot.core.scheduling.timed import Alarm
from entrepot.protocols.artemis.channel import Channel
from entrepot.protocols.artemis.packets import ExceptionReply, NullReply, Packet, XaInDoubtXidsReply, XaReply
from entrepot.protocols.artemis.refusals import XA_RMERR, XA_RMFAIL, BranchRefused, code_of
from entrepot.protocols.serving.confirmations import Confirmation, Confirmations

UNASKED: Final = 0  # correlation of a command that shows none
ANY: Final = -1  # what a reply says instead
UNSAID_AT_MOST: Final = 2 * SECOND  # connection-ttl-check-interval of Artemis (artemis.md 5.2.6)


class Answer(Confirmation):
    """What is due once all that was taken so far is on disk. ``packet`` None: nothing is said, the command counts."""

    def __init__(self, replies: Replies, packet: Packet | None, octets: i64) -> None:
        super().__init__(replies.confirmations)
        self.replies: Replies = replies
        self.packet: Packet | None = packet
        self.octets: i64 = octets

    def give(self) -> None:
        """Write it."""
        self.replies.finish(self.packet, self.octets)

    def refuse(self, error: EntrepotError) -> None:
        """Say that it is not stored, if anybody waits for an answer."""
        packet = self.packet
        if isinstance(packet, NullReply):
            correlation = packet.correlation
            self.replies.finish(exception_of(error, UNASKED if correlation is None else correlation), self.octets)
        elif isinstance(packet, XaReply):
            self.replies.finish(branch_exception_of(error), self.octets)
        elif isinstance(packet, XaInDoubtXidsReply):
            self.replies.finish(exception_of(error), self.octets)
        else:
            self.replies.finish(packet, self.octets)


class _Saying(Alarm):
    """Says how far the commands of a session are done, though its window is not full: somebody may wait for that."""

    def __init__(self, due: int, replies: Replies) -> None:
        super().__init__(due)
        self.replies: Replies = replies

    def ring(self, now: int) -> None:
        replies = self.replies
        replies.saying = False
        if not replies.confirmations.ended:
            replies.channel.confirm()


class Replies:
    """The answers of one session. ``octets``: the size of the frame of the command that is being done."""

    def __init__(self, channel: Channel, confirmations: Confirmations, broker: BrokerCore) -> None:
        self.channel: Channel = channel
        self.confirmations: Confirmations = confirmations
        self.broker: BrokerCore = broker
        self.octets: i64 = 0
        self.saying: bool = False  # an alarm is set

    def finish(self, packet: Packet | None, octets: i64) -> None:
        """A command is done, and that is its answer: count it first, so that a confirmation comes before (5.2.6)."""
        channel = self.channel
        channel.done(octets)
        if channel.pending > 0 and not self.saying:
            self.saying = True
            self.broker.timetable.add(_Saying(int(self.broker.now) + UNSAID_AT_MOST, self))
        if packet is not None:
            channel.write(packet)

    def answer(self, packet: Packet | None, stored: bool) -> None:
        """The command at hand is done, or will be when the disk has it (``stored``)."""
        confirmations = self.confirmations
        if stored or confirmations.waiting > 0 or confirmations.owes():
            if packet is not None or self.channel.counts:
                confirmations.ask(Answer(self, packet, self.octets))
        elif packet is not None or self.channel.counts:
            self.finish(packet, self.octets)

    def done(self, wanted: bool, stored: bool, correlation: i64 = UNASKED) -> None:
        """As `answer`, with the plain reply if one is ``wanted``."""
        self.answer(null_reply(correlation) if wanted else None, stored)

    def refuse(self, error: EntrepotError, correlation: i64 = UNASKED) -> None:
        """The command at hand had no effect."""
        self.answer(exception_of(error, correlation), False)


def null_reply(correlation: i64) -> NullReply:
    """Return the plain reply to a command that shows ``correlation``."""
    return NullReply(correlation=int(correlation) if correlation != UNASKED else ANY)


def exception_of(error: EntrepotError, correlation: i64 = UNASKED) -> ExceptionReply:
    """Return how ``error`` is said; with ``correlation`` where the command showed one."""
    shown = None if correlation in (UNASKED, ANY) else int(correlation)
    return ExceptionReply(code=code_of(error), text=error.message, correlation=shown)


def branch_exception_of(error: EntrepotError, prepared: bool = False) -> XaReply:
    """Return how ``error`` is said about a step of a distributed transaction.

    ``prepared``: the branch is prepared, and stays so. To a coordinator XA_RMERR says that what was to be committed
    was rolled back; XA_RMFAIL, that it has to ask again.
    """
    result = error.result if isinstance(error, BranchRefused) else XA_RMERR
    if not isinstance(error, BranchRefused) and (prepared or error.code.startswith("ENT-4")):
        result = XA_RMFAIL
    return XaReply(error=True, code=result, text=error.message)
