"""One prepared branch on its way to another node: from the first question to the promise of the other one.

The steps, each after the answer to the one before (artemis.md 1.20):

1. The queues are found there from which it took something, and the subscriptions here to what it sends.
2. The branch begins there, gets its messages and ends. From the first step on nobody ends it here.
3. Our disk gets to whom it is given, and under which token. Before that the other node is never told to prepare it.
4. It is prepared there. When that is on the disk there, it is forgotten here.

Whatever breaks before our disk has 3 leaves the branch here, and nothing that lasts there. Who does not hear the answer
to 4 asks (`Step.ASKING`). A node of ours knows the token: it had the branch, or it never will have it under that token,
and then the branch is ours again and begins anew under another one. An Artemis names the branches that are prepared
there; if it is not among them nobody knows whether it was and has ended since, and it stays until an operator decides.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final

from entrepot.base.errors import EntrepotError
from entrepot.cluster.clusters.asking import Asking
from entrepot.cluster.clusters.contents import Contents, Parcel
from entrepot.cluster.clusters.finding import find_queue
from entrepot.core.broker import BrokerCore
from entrepot.core.effort import Rest
from entrepot.core.queue.queue import Queue
from entrepot.core.transactions.branches import HAD, NEVER, Branch
from entrepot.core.transactions.handed import TOKEN_OCTETS
from entrepot.journal.ports import Waiter
from entrepot.protocols.artemis.headers import NO_BODY
from entrepot.protocols.artemis.large import LargeDelivery
from entrepot.protocols.artemis.linking.client import LinkClient
from entrepot.protocols.artemis.packets import (
    ExceptionReply,
    NullReply,
    Packet,
    Send,
    SendContinuation,
    SendLarge,
    XaEnd,
    XaInDoubtXids,
    XaInDoubtXidsReply,
    XaJoin,
    XaPrepare,
    XaReply,
    XaRollback,
    XaStart,
)
from entrepot.protocols.artemis.refusals import XA_DUPID
from entrepot.protocols.artemis.transacting import key_of, xid_of
from entrepot.protocols.outflow import Outflow

CHANNEL: Final = 21  # beside that of questions, on the same connection
SENDER: Final = 1
CHUNK_OCTETS: Final = 100 * 1024
MESSAGE_UNITS: Final = 4  # of `core/effort.py`, to say one message: to load it, and to lay it out


class Step(Enum):
    """What a gift waits for."""

    ASKING = "asking"  # whether the other node had it
    FINDING = "finding"  # queues there
    BEGINNING = "beginning"
    CLEARING = "clearing"  # away what was begun there, and is not to be prepared
    SENDING = "sending"
    NOTING = "noting"  # our disk
    PREPARING = "preparing"
    FORGETTING = "forgetting"  # it is there; a large one takes turns to be forgotten here
    OVER = "over"


class Target:
    """Whom branches are given to. ``ours``: it is no Artemis; ``asking``: what asks its management."""

    def __init__(self, client: LinkClient, asking: Asking, node: str, *, ours: bool) -> None:
        self.client: Final = client
        self.asking: Final = asking
        self.node: Final = node
        self.ours: Final = ours

    def say(self, packet: Packet) -> None:
        """Say ``packet`` in the session of branches."""
        packet.channel = CHANNEL
        self.client.send(packet)


class _Forgotten(Rest):
    """Hears that a large branch is forgotten here."""

    def __init__(self, gift: Gift) -> None:
        super().__init__()
        self._gift: Final = gift

    def resume(self) -> None:
        self._gift.forgotten()


class _Body(Outflow):
    """The body of a large message; each piece is a whole frame."""

    def __init__(self, gift: Gift, large: LargeDelivery, number: int) -> None:
        super().__init__(0, b"", b"")
        self._gift: Final = gift
        self._large: Final = large
        self._number: Final = number

    def piece(self) -> bytes:
        """Return the next frame. Raises StorageError."""
        octets = self._large.piece(CHUNK_OCTETS)
        self.done = self._large.is_done()
        packet = SendContinuation(
            body=octets,
            continues=not self.done,
            body_size=-1,
            require_response=self.done,
            correlation=self._number if self.done else 0,
            sender=SENDER,
            channel=CHANNEL,
        )
        return self._gift.target.client.frame(packet)

    def finish(self, gone: bool) -> None:
        """Let go of the body."""
        self._large.finish()
        if gone:
            self._gift.go_on()


class _Noted(Waiter):
    """Our disk notes that a branch is given."""

    def __init__(self, gift: Gift) -> None:
        self._gift: Final = gift

    def stored(self, token: bytes) -> None:
        """It has."""
        self._gift.stored(token)

    def store_failed(self, token: bytes, error: EntrepotError) -> None:
        """It has not."""
        self._gift.store_failed(token, error)


class Gift(Rest):
    """The branch ``key`` on its way to ``target``.

    ``over`` is told at the end why it stays, "" where it went; ``unsure``: the target may have it, and will say.
    ``said``: how many of its messages the target was told.
    """

    def __init__(self, broker: BrokerCore, key: bytes, target: Target, over: Callable[[Gift, str], None]) -> None:
        super().__init__()
        self.broker: Final = broker
        self.key: Final = key
        self.target: Final = target
        self.branch: Final[Branch] = broker.branches.prepared[key]
        self.contents: Final = Contents(broker, self.branch)
        self.step = Step.ASKING if self.branch.record.given else Step.FINDING
        self.unsure = False
        self._token = self.branch.record.token
        self._why = ""  # it is not to be prepared there after all
        self._over: Final = over
        self._missing: Final[list[Queue]] = self.contents.queues()
        self._xid: Final = xid_of(key)
        self.said = 0
        self._unanswered = 0  # messages and steps: none is left over for the next branch
        self._cleared = False
        self._ended = False  # the work on it, there

    def begin(self) -> None:
        """Take the first step."""
        self.branch.leaving = True
        if self.step is Step.ASKING:
            self._ask()
        else:
            self._find()

    # -- whether it is there already -----------------------------------------------------------------------------------

    def _ask(self) -> None:
        """Ask. A branch of no messages carries no token, and does no harm at two nodes."""
        self.step = Step.ASKING
        if self.target.ours and len(self.contents):
            self.target.asking.operation("broker", "drain", ["branch", self._token.hex()], self._heard)
        else:
            self.target.say(XaInDoubtXids())

    def _heard(self, succeeded: bool, value: object) -> None:
        if self.step is not Step.ASKING:
            return
        if succeeded and value == HAD:
            self._arrived()
        elif succeeded and value == NEVER:
            self._is_ours_again()
        else:
            self.unsure = True
            self._end(f"the node {self.target.node} may have it, and does not say: {value}")

    def _is_among(self, named: list[bytes]) -> None:
        if self.key in named:
            self._arrived()
        elif not len(self.contents):
            self._is_ours_again()
        else:
            self._end(
                f"the node {self.target.node} was given it and has it not: nobody knows whether it was ended there. "
                "Who manages this broker can commit it, or roll it back"
            )

    def _is_ours_again(self) -> None:
        """The other node will never have it under that token: begin anew, or say why not."""
        self.broker.branches.reclaim(self.branch)
        if self._why:
            self._end(self._why)
        else:
            self.step = Step.FINDING
            self._find()

    # -- its way -------------------------------------------------------------------------------------------------------

    def _find(self) -> None:
        if not self._missing:
            self._start()
            return
        queue = self._missing.pop()

        def found(there: int, why: str) -> None:
            if self.step is not Step.FINDING:
                return
            if why:
                self._end(f"the queue {queue.name}: {why}")
                return
            self.contents.there[int(queue.identity)] = there
            self._find()

        find_queue(self.target.asking, queue.definition, found)

    def _start(self) -> None:
        self.step = Step.BEGINNING
        self._token = self.broker.entropy.token(TOKEN_OCTETS)
        self._say(XaStart(xid=self._xid))

    def go_on(self) -> None:
        """Go on with its messages, if the other node reads."""
        if self.step is Step.SENDING and not self.waiting:
            self.broker.effort.later(self)

    def resume(self) -> None:
        """Give the next messages, as many as this turn and the socket have room for."""
        client, effort = self.target.client, self.broker.effort
        while self.step is Step.SENDING and self.said < len(self.contents):
            if not client.ready or client.outflows.is_busy():
                return
            if effort.is_over():
                effort.later(self)
                return
            try:
                self._say_message(self.contents.parcel(self.said, self._token, ours=self.target.ours))
            except EntrepotError as error:
                self._take_back(error.message)
                return
        if self.step is Step.SENDING and not self._ended:
            self._ended = True
            self._say(XaEnd(xid=self._xid))

    def _say(self, step: Packet) -> None:
        self._unanswered += 1
        self.target.say(step)

    def _say_message(self, parcel: Parcel) -> None:
        self.said += 1
        self.broker.effort.spent += MESSAGE_UNITS
        if parcel.large:
            body = _Body(self, LargeDelivery(self.broker, parcel.message, None), self.said)
            head = SendLarge(headers=parcel.octets[len(NO_BODY) :], channel=CHANNEL)
            self.target.client.stream(head, body)
        else:
            said = Send(message=parcel.octets, require_response=True, correlation=self.said, sender=SENDER)
            self.target.say(said)
        self._unanswered += 1

    def _note(self) -> None:
        """All of it is there. Note to whom it is given; the other node is told to prepare it when our disk has that."""
        self.step = Step.NOTING
        try:
            self.broker.branches.give(self.branch, self.target.node, self._token)
        except EntrepotError as error:
            self._take_back(error.message)
            return
        self.broker.journal.confirm(_Noted(self), self._token)

    def stored(self, token: bytes) -> None:
        """Our disk has it."""
        if self.step is Step.NOTING and token == self._token:
            self.step = Step.PREPARING
            self._say(XaPrepare(xid=self._xid))

    def store_failed(self, token: bytes, error: EntrepotError) -> None:
        """It may never have it."""
        if self.step is Step.NOTING and token == self._token:
            self._take_back(f"the disk here does not take it: {error.message}")

    def _arrived(self) -> None:
        """The other node has it on its disk: forget it here."""
        self.step = Step.FORGETTING
        try:
            work = self.broker.branches.let_go(self.key, _Forgotten(self))
        except EntrepotError as error:
            self.unsure = True
            self._end(f"the node {self.target.node} has it, and the disk here does not take that: {error.message}")
            return
        if work is None:
            self.forgotten()

    def forgotten(self) -> None:
        """It is not here any more, unless the disk failed meanwhile."""
        self.unsure = self.key in self.broker.branches.prepared
        self._end("the disk here does not take that it is gone" if self.unsure else "")

    def leave(self) -> None:
        """The connection is gone. Where it was to be prepared, the other node may have it."""
        if self.step is Step.NOTING:
            self.broker.branches.reclaim(self.branch)
        self.branch.leaving = False
        self.step = Step.OVER

    def _end(self, why: str) -> None:
        if self.step is not Step.OVER:
            self.branch.leaving = False
            self.step = Step.OVER
            self._over(self, why)

    # -- what must not be prepared -------------------------------------------------------------------------------------

    def _take_back(self, why: str) -> None:
        """The branch that began there is not to be prepared."""
        if self.step is Step.NOTING:
            self.broker.branches.reclaim(self.branch)
        self._why = why
        if self.target.ours:
            self._clear()
        else:
            self.step = Step.CLEARING
            self._say(XaEnd(xid=self._xid, failed=True))
            self._say(XaRollback(xid=self._xid))

    def _clear(self) -> None:
        """Have a node of ours forget what was begun there, by this connection or by one that is lost.

        It is not told to roll it back: one of that name that is prepared is somebody else's, and would end. It is made
        one that cannot be prepared, and told to prepare it.
        """
        self.step = Step.CLEARING
        self._cleared = True
        for step in (XaJoin(xid=self._xid), XaEnd(xid=self._xid, failed=True), XaPrepare(xid=self._xid)):
            self._say(step)

    # -- answers -------------------------------------------------------------------------------------------------------

    def told(self, packet: Packet) -> None:
        """What the other node answers."""
        if isinstance(packet, XaInDoubtXidsReply):
            if self.step is Step.ASKING:
                self._is_among([key_of(one) for one in packet.xids])
            return
        if not isinstance(packet, (XaReply, NullReply, ExceptionReply)):
            return
        self._unanswered -= 1
        if self.step is Step.CLEARING:
            if self._unanswered == 0:
                self._end(self._why) if self._why else self._start()
        elif self.step is Step.SENDING:
            self._one_more(packet)
        elif isinstance(packet, XaReply):
            self._stepped(packet)

    def _one_more(self, packet: Packet) -> None:
        """A message has arrived, or the end of all of them."""
        if isinstance(packet, ExceptionReply):
            self._take_back(packet.text or f"the target refuses a message: code {packet.code}")
        elif isinstance(packet, XaReply) and packet.error:
            self._take_back(f"the target does not take it: {packet.text or packet.code}")
        elif self._ended and self._unanswered == 0:
            self._note()

    def _stepped(self, reply: XaReply) -> None:
        text = reply.text or f"code {reply.code}"
        if self.step is Step.BEGINNING and not reply.error:
            self.step = Step.SENDING
            self.resume()
        elif self.step is Step.BEGINNING and reply.code == XA_DUPID and self.target.ours and not self._cleared:
            self._clear()
        elif self.step is Step.BEGINNING:
            self._end(f"the target does not begin it: {text}")
        elif self.step is Step.PREPARING and not reply.error:
            self._arrived()
        elif self.step is Step.PREPARING:
            self._why = f"the target does not prepare it: {text}"
            if self.target.ours:
                self._ask()
            else:
                self._is_ours_again()
