"""One prepared branch on its way to another node: from the note that it is given to the promise of the other one.

The steps, each after the answer to the one before (artemis.md 1.20):

1. Where it was given before, the other node is asked whether it had it. A node of ours knows the token of the branch. An
   Artemis names the branches that are prepared there; if it is not among them, nobody knows whether it was, and it stays.
2. The queues are found there from which it took something, and the durable subscriptions to what it sends.
3. Our disk gets that it is given, to whom, and under which token.
4. The branch begins there, gets its messages, ends, and is prepared. What it has taken says from which queue.
5. It is forgotten here.

A refusal before the last answer leaves nothing there: what came is taken back, and the branch is ours again.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final

from mypy_extensions import i64

from entrepot.base.errors import EntrepotError, Refused
from entrepot.base.primitive import LONG, Primitive
from entrepot.cluster.clusters.asking import Asking
from entrepot.cluster.clusters.finding import find_queue
from entrepot.core.addressing.binding import ACK_ROUTE, BRANCH, ROUTE_TO
from entrepot.core.broker import BrokerCore
from entrepot.core.effort import Rest
from entrepot.core.queue.queue import Queue
from entrepot.core.scheduling.timed import asks_for_schedule
from entrepot.core.transactions.branches import Branch, Hold
from entrepot.core.transactions.handed import TOKEN_OCTETS, write_handed
from entrepot.core.transactions.transaction import OCTETS_MAX
from entrepot.journal.ports import Waiter
from entrepot.model import address as names
from entrepot.model.address import MULTICAST
from entrepot.model.message import Message
from entrepot.protocols.artemis.convert import DELIVER_AT, readdressed
from entrepot.protocols.artemis.headers import NO_BODY, headers_at, read_headers
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
from entrepot.protocols.artemis.places import octet_of
from entrepot.protocols.artemis.presenting import headers_of, octets_of
from entrepot.protocols.artemis.properties import entry, key_octets, with_entries, without
from entrepot.protocols.artemis.refusals import XA_DUPID
from entrepot.protocols.artemis.transacting import key_of, xid_of
from entrepot.protocols.outflow import Outflow

CHANNEL: Final = 21  # beside that of questions, on the same connection
SENDER: Final = 1
CHUNK_OCTETS: Final = 100 * 1024
_K_DATE: Final = {key_octets(DELIVER_AT): None}
Done = Callable[["Gift", str], None]


class Step(Enum):
    """What a gift waits for."""

    ASKING = "asking"  # the other node about it, or our own disk
    BEGINNING = "beginning"
    CLEARING = "clearing"  # away what an earlier connection has left there
    SENDING = "sending"
    ENDING = "ending"
    PREPARING = "preparing"
    OVER = "over"


class Target:
    """Whom branches are given to. ``ours``: it is no Artemis; ``asking``: what asks its management."""

    def __init__(self, client: LinkClient, asking: Asking, node: str, *, ours: bool) -> None:
        self.client: Final = client
        self.asking: Final = asking
        self.node: Final = node
        self.ours: Final = ours


class _Letting(Rest):
    """Hears that a large branch is forgotten here."""

    def __init__(self, gift: Gift) -> None:
        super().__init__()
        self._gift: Final = gift

    def resume(self) -> None:
        self._gift.let_go()


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


class Gift(Rest, Waiter):
    """The branch ``key`` on its way to ``target``. ``done`` is told at the end: why it stays, "" where it went."""

    def __init__(self, broker: BrokerCore, key: bytes, target: Target, done: Done) -> None:
        super().__init__()
        self.broker: Final = broker
        self.key: Final = key
        self.xid: Final = xid_of(key)
        self.target: Final = target
        self.branch: Final[Branch] = broker.branches.prepared[key]
        self.token = self.branch.record.token
        self.again: Final = self.branch.record.given != ""  # it may be there since an earlier time
        self.step = Step.ASKING
        self.why = ""
        self._done: Final = done
        self._wanted: Final = self._queues()
        self._there: Final[dict[int, bytes]] = {}  # identity of a queue here -> its number there
        self._holds: Final[list[Hold]] = [hold for hold in self.branch.holds if self._is_here(hold.queue)]
        self._at = 0
        self._octets = 0
        self._answers = 0  # that are still to come for messages
        self._clearing = 0  # answers that are still to come
        self._cleared = False
        self._ended = False  # the work on it, there

    @property
    def messages(self) -> int:
        """How many it has: what it sends, and what it has taken."""
        return len(self.branch.record.sends) + len(self._holds)

    def _is_here(self, queue: Queue) -> bool:
        return self.broker.table.by_identity.get(int(queue.identity)) is queue

    def _queues(self) -> list[Queue]:
        """Return those that must be there: what it took from, and who waits here for what it sends to topics."""
        found = {int(hold.queue.identity): hold.queue for hold in self.branch.holds if self._is_here(hold.queue)}
        for text in dict.fromkeys(text for _, text in self.branch.record.sends):
            for one in names.parse(text):
                address = self.broker.table.addresses.get(one.name)
                if one.routing == MULTICAST and address is not None:
                    found.update({int(queue.identity): queue for queue in address.multicast if _lasts(queue)})
        return list(found.values())

    # -- steps ---------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Take the first step."""
        if not self.again:
            self._find()
        elif self.target.ours:
            self.target.asking.operation("broker", "drain", ["had", self.token.hex()], self._asked)
        else:
            self._post(XaInDoubtXids())

    def _asked(self, succeeded: bool, value: object) -> None:
        if self.step is not Step.ASKING:
            return
        if not succeeded:
            self.fail(f"the node {self.target.node} does not say whether it had it: {value}")
        elif value is True:
            self._arrived()
        else:
            self._find()

    def _find(self) -> None:
        if not self._wanted:
            self._give()
            return
        queue = self._wanted.pop()

        def found(there: int, why: str) -> None:
            if self.step is not Step.ASKING:
                return
            if why:
                self.fail(f"the queue {queue.name}: {why}")
                return
            self._there[int(queue.identity)] = there.to_bytes(8, "big", signed=True)
            self._find()

        find_queue(self.target.asking, queue.definition, found)

    def _give(self) -> None:
        """Note to whom it is given; it is told to the other node when our disk has that."""
        if self.again:
            self._start()
            return
        self.token = self.broker.entropy.token(TOKEN_OCTETS)
        try:
            self.broker.branches.give(self.key, self.target.node, self.token)
        except EntrepotError as error:
            self.fail(error.message)
            return
        self.broker.journal.confirm(self, self.token)

    def stored(self, token: bytes) -> None:
        """Our disk has it."""
        if self.step is Step.ASKING:
            self._start()

    def store_failed(self, token: bytes, error: EntrepotError) -> None:
        """It has not."""
        if self.step is Step.ASKING:
            self.fail(f"the disk here does not take it: {error.message}")

    def _start(self) -> None:
        self.step = Step.BEGINNING
        self._post(XaStart(xid=self.xid))

    def go_on(self) -> None:
        """Go on with its messages, if the other node reads."""
        if self.step is Step.SENDING and not self.waiting:
            self.broker.effort.later(self)

    def resume(self) -> None:
        """Give the next messages, as many as this turn and the socket have room for."""
        client, effort = self.target.client, self.broker.effort
        while self.step is Step.SENDING and self._at < self.messages:
            if not client.ready or client.outflows.is_busy():
                return
            if effort.is_over():
                effort.later(self)
                return
            try:
                self._say_next()
            except EntrepotError as error:
                self.why = error.message
                self._take_back()
                return
        if self.step is Step.SENDING:
            self.step = Step.ENDING
            self._post(XaEnd(xid=self.xid))

    def _take_back(self) -> None:
        """The branch that began there is not to be prepared.

        A node of ours is not told to roll it back: if an earlier connection has prepared it this very moment, that
        would end it, and its token would say that it was there. It is made one that cannot be prepared.
        """
        self.step = Step.CLEARING
        self._cleared = True
        if self.target.ours:
            steps: list[Packet] = [XaEnd(xid=self.xid, failed=True), XaPrepare(xid=self.xid)]
        else:
            steps = [XaEnd(xid=self.xid, failed=True), XaRollback(xid=self.xid)]
        self._clearing = len(steps)
        for packet in steps:
            self._post(packet)

    def told(self, packet: Packet) -> None:
        """What the other node answers."""
        if isinstance(packet, XaReply):
            self._answered(packet)
        elif isinstance(packet, XaInDoubtXidsReply) and self.step is Step.ASKING:
            if self.key in [key_of(one) for one in packet.xids]:
                self._arrived()
            else:
                self.fail("it is not prepared there, and may have been: it may have been ended since")
        elif isinstance(packet, NullReply) and self.step in (Step.SENDING, Step.ENDING):
            self._answers -= 1
            self._prepare()
        elif isinstance(packet, ExceptionReply) and self.step in (Step.SENDING, Step.ENDING):
            self.why = packet.text or f"code {packet.code}"
            self._take_back()

    def _answered(self, reply: XaReply) -> None:
        text = reply.text or f"code {reply.code}"
        if self.step is Step.CLEARING:
            self._clearing -= 1
            if self._clearing == 0:
                self.fail(self.why) if self.why else self._start()
        elif self.step is Step.BEGINNING and not reply.error:
            self.step = Step.SENDING
            self.resume()
        elif self.step is Step.BEGINNING and reply.code == XA_DUPID and not self._cleared:
            self._clear()
        elif self.step is Step.BEGINNING:
            self.fail(f"the target does not begin it: {text}")
        elif self.step is Step.ENDING and not reply.error:
            self._ended = True
            self._prepare()
        elif self.step is Step.ENDING:
            self.fail(f"the target does not take it: {text}")
        elif self.step is Step.PREPARING and reply.error:
            self.fail(f"the target does not prepare it: {text}")
        elif self.step is Step.PREPARING:
            self._arrived()

    def _clear(self) -> None:
        """An earlier connection may have begun it there: make that one fail, if it is not prepared."""
        self.step = Step.CLEARING
        self._cleared = True
        steps: list[Packet] = [XaJoin(xid=self.xid), XaEnd(xid=self.xid, failed=True), XaPrepare(xid=self.xid)]
        self._clearing = len(steps)
        for packet in steps:
            self._post(packet)

    def _arrived(self) -> None:
        """The other node has it on its disk: forget it here."""
        branch = self.broker.branches.prepared.get(self.key)
        if branch is not self.branch or branch.record.token != self.token:
            if self.step is Step.PREPARING:
                self._post(XaRollback(xid=self.xid))
            self.fail("it was ended here meanwhile, by who manages this broker")
            return
        try:
            work = self.broker.branches.let_go(self.key, _Letting(self))
        except EntrepotError as error:
            self._over(f"the target has it, and the disk here does not take that: {error.message}")
            return
        if work is None:
            self.let_go()

    def let_go(self) -> None:
        """It is forgotten here, unless the disk failed meanwhile."""
        failed = self.key in self.broker.branches.prepared
        self._over("the target has it, and the disk here does not take that" if failed else "")

    def fail(self, why: str) -> None:
        """It stays. The other node has not prepared it, unless that was so before."""
        if not self.again and self.step is not Step.OVER:
            self.broker.branches.reclaim(self.key)
        self._over(why)

    def leave(self) -> None:
        """The connection is gone. What was begun and not answered may be there."""
        if self.step is Step.ASKING:
            self.fail("")
        self.step = Step.OVER

    def _over(self, why: str) -> None:
        if self.step is not Step.OVER:
            self.step = Step.OVER
            self._done(self, why)

    # -- its messages --------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        if self._ended and self._answers == 0 and self.step is not Step.OVER:
            self.step = Step.PREPARING
            self._post(XaPrepare(xid=self.xid))

    def _post(self, packet: Packet) -> None:
        packet.channel = CHANNEL
        self.target.client.send(packet)

    def _say_next(self) -> None:
        """Give one message: first what it sends, then what it has taken. Raises EntrepotError."""
        branches, branch = self.broker.branches, self.branch
        sends = branch.record.sends
        at = self._at
        self._at += 1
        if at < len(sends):
            message = branches.message(branch, at)
            (one,) = names.parse(sends[at][1])
            if asks_for_schedule(message) and message.need_rare().deliver_at == 0:
                raise Refused("it sends something for a later time, in the words of another language")
            address = f"{one.name}::{one.queue}" if one.queue else one.name
            self._say(message, address, octet_of(one.routing), b"", 0)
        else:
            hold = self._holds[at - len(sends)]
            message, deliveries = branches.held(hold)
            route = self._there[int(hold.queue.identity)]
            self._say(message, message.address, octet_of(hold.queue.routing), route, deliveries)

    def _say(self, message: Message, address: str, routing: i64, route: bytes, deliveries: int) -> None:
        ids = self.broker.ids
        rare = message.rare
        self._octets += int(message.size)
        if self._octets > OCTETS_MAX:
            raise Refused(f"what it sends and has taken is more than {OCTETS_MAX} octets")
        large = rare is not None and rare.large_id != 0
        octets = NO_BODY + headers_of(message, routing, ids) if large else octets_of(message, routing, ids)
        at = headers_at(octets)
        if read_headers(octets, at).address != address:
            octets = readdressed(octets, at, address)
        properties_at = read_headers(octets, at).properties_at
        entries: list[bytes] = []
        if rare is not None and rare.deliver_at > 0:
            octets = without(octets, properties_at, _K_DATE)
            entries.append(entry(DELIVER_AT, Primitive(LONG, int(rare.deliver_at))))
        if route:
            entries += [entry(ROUTE_TO, route), entry(ACK_ROUTE, route)]
        if self.target.ours:
            entries.append(entry(BRANCH, write_handed(self.token, deliveries, self.messages, self.branch.user or "")))
        if entries:
            octets = with_entries(octets, properties_at, b"".join(entries), len(entries))
        self._answers += 1
        self.broker.effort.spent += 2
        if not large:
            self._post(
                Send(message=octets, require_response=True, correlation=self._at, sender=SENDER)
            )
            return
        body = _Body(self, LargeDelivery(self.broker, message, None), self._at)
        self.target.client.stream(SendLarge(headers=octets[len(NO_BODY) :], channel=CHANNEL), body)


def _lasts(queue: Queue) -> bool:
    return queue.durable and not queue.definition.temporary
