"""What one session asked and has no answer to. [C]

A server answers the requests of a session in their order (artemis.md 5.2.6), so the oldest one is meant. A session that
may be reattached is *away* while there is no wire: what is asked and posted then waits, and nothing is lost if the next
wire reaches the server that has it. Otherwise what was sent on a wire that is lost is sent again on the next one if
that does no harm (``again``), or its answer is `LOST`; what was not sent yet is `UNSENT`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from entrepot.base.errors import (
    AccessDenied,
    AddressFull,
    DuplicateRejected,
    EntrepotError,
    InvalidDestination,
    InvalidSelector,
    Refused,
    SubscriptionInUse,
    TransactionRolledBack,
    Unreachable,
)
from entrepot.protocols.artemis.client import CoreClient
from entrepot.protocols.artemis.conversation.replay import Replay
from entrepot.protocols.artemis.packets import ExceptionReply, Packet

Reply = Callable[[Packet | None, EntrepotError | None], None]
"""Called once: with what the server answered, or with what went wrong."""

LOST: Final = Unreachable("the connection was lost before the answer")
"""The answer to what was sent on a wire that is gone, and must not be sent again."""

UNSENT: Final = Unreachable("the connection was lost before this could be sent")
"""The answer to what waited for a session that its server has no more."""

QUEUE_MISSING: Final = 100
QUEUE_EXISTS: Final = 101
STARTING: Final = 112
INCOMPATIBLE: Final = 108


def refusal(reply: ExceptionReply) -> EntrepotError:
    """Return what a code of artemis.md 5.2.9 means to a program."""
    code = reply.code
    text = reply.text or f"the broker refused with code {code}"
    if code == 105:
        return AccessDenied(text)
    if code == 103:
        return InvalidSelector(text)
    if code in (QUEUE_MISSING, QUEUE_EXISTS, 106, 107, 215, 216):
        return InvalidDestination(text)
    if code in (111, 115, 120):
        return TransactionRolledBack(text)
    if code == 113:
        return DuplicateRejected(text)
    if code == 210:
        return AddressFull(text)
    if code in (114, 214):
        return SubscriptionInUse(text)
    return Refused(text)


def is_lost(error: EntrepotError | None) -> bool:
    """Tell whether an answer says no more than that the wire is gone."""
    return error is LOST or error is UNSENT


class Request:
    """One request: the packets that make it, the last of which is answered; ``reply`` None: it is not."""

    def __init__(self, packets: list[Packet], reply: Reply | None, again: bool) -> None:
        self.packets: list[Packet] = packets
        self.reply: Reply | None = reply
        self.again: bool = again

    def answer(self, packet: Packet | None, error: EntrepotError | None) -> None:
        """Tell who asked."""
        if self.reply is not None:
            self.reply(packet, error)


class Requests:
    """The requests of one session. ``wire``: it is open there; None: what is asked waits."""

    def __init__(self, channel: i64) -> None:
        self.channel: i64 = channel
        self.wire: CoreClient | None = None
        self.pending: deque[Request] = deque()
        self.parked: list[Request] = []
        self.failure: EntrepotError | None = None
        self.replay: Replay | None = None  # what both sides count, where the session can be reattached
        self.away: bool = False  # it waits to be reattached
        self.later: list[Request] = []  # what was asked, or posted, meanwhile

    def is_there(self) -> bool:
        """Tell whether the server has the session, as far as is known: on a wire, or waiting for the next."""
        return self.away or self.wire is not None

    def post(self, packet: Packet) -> bool:
        """Send what is not answered; False: there is no wire, and it was not sent. Raises Inexpressible."""
        wire = self.wire
        if wire is not None:
            self._send(wire, packet)
            return True
        if self.away:
            self.later.append(Request([packet], None, False))
            return True
        return False

    def _send(self, wire: CoreClient, packet: Packet) -> None:
        packet.channel = self.channel
        replay = self.replay
        if replay is None:
            wire.send(packet)
        else:
            replay.send(wire, packet)

    def ask(self, packet: Packet, reply: Reply, *, again: bool = False) -> None:
        """Send what is answered, now or when there is a wire. Raises Inexpressible."""
        self.ask_with([packet], reply, again=again)

    def ask_with(self, packets: list[Packet], reply: Reply, *, again: bool = False) -> None:
        """As `ask`, of several packets of which the last is answered."""
        if self.failure is not None:
            reply(None, self.failure)
            return
        request = Request(packets, reply, again)
        if self.wire is not None:
            self._put(self.wire, request)
        elif self.away:
            self.later.append(request)
        else:
            self.parked.append(request)

    def _put(self, wire: CoreClient, request: Request) -> None:
        for packet in request.packets:
            self._send(wire, packet)
        if request.reply is not None:
            self.pending.append(request)

    def tell(self, packets: list[Packet]) -> None:
        """Send what is not answered, now or when there is a wire; in order with what is asked. Raises Inexpressible."""
        if self.is_there():
            for packet in packets:
                self.post(packet)
        else:
            self.parked.append(Request(packets, None, False))

    def waits_for(self, kind: type[Packet]) -> bool:
        """Tell whether a packet of ``kind`` has no answer yet."""
        return any(type(request.packets[-1]) is kind for request in self.pending)

    def answered(self, packet: Packet) -> bool:
        """Give the oldest request its answer; False: there is none."""
        if not self.pending:
            return False
        request = self.pending.popleft()
        if isinstance(packet, ExceptionReply):
            request.answer(None, refusal(packet))
        else:
            request.answer(packet, None)
        return True

    def unpark(self) -> None:
        """Send what waited for a wire."""
        parked, self.parked = self.parked, []
        for request in parked:
            if self.wire is None:
                self.parked.append(request)
            else:
                self._put(self.wire, request)

    def suspend(self) -> bool:
        """The wire is gone, and the server is asked for the session on the next one; False: it went with the wire."""
        if self.replay is None:
            return False
        self.wire = None
        self.away = True
        return True

    def resume(self, wire: CoreClient, last: i64) -> None:
        """The server goes on with the session on ``wire``; it did everything up to the packet ``last``."""
        self.wire = wire
        self.away = False
        if self.replay is not None:
            self.replay.go_on(wire, last)
        later, self.later = self.later, []
        for request in later:
            self._put(wire, request)

    def lost(self) -> None:
        """The session is gone, with the wire or since."""
        self.wire = None
        self.away = False
        self.replay = None
        later, self.later = self.later, []
        self.parked += [request for request in later if request.again]
        unsent = [request for request in later if not request.again]
        pending, self.pending = self.pending, deque()
        again = [request for request in pending if request.again]
        self.parked = again + self.parked
        for request in pending:
            if not request.again:
                request.answer(None, LOST)
        for request in unsent:
            request.answer(None, UNSENT)

    def end(self, error: EntrepotError) -> None:
        """Nothing will be answered any more."""
        self.failure = error
        self.wire = None
        self.away = False
        waiting = [*self.pending, *self.later, *self.parked]
        self.later.clear()
        self.pending.clear()
        self.parked.clear()
        for request in waiting:
            request.answer(None, error)
