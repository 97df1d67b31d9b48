"""The links of a federation from the side that fetches, and those by which the side that dialled orders it. [C]"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64

from entrepot.base.environment import MILLISECOND, SECOND
from entrepot.base.errors import EntrepotError, InvalidDestination
from entrepot.core.scheduling.timed import Alarm
from entrepot.model.address import ANYCAST, MULTICAST, Destination
from entrepot.model.headers import Headers, set_headers
from entrepot.model.message import Message
from entrepot.protocols.amqp.calling.port import CallerPort
from entrepot.protocols.amqp.calling.sending import Sending
from entrepot.protocols.amqp.calling.taking import Taking
from entrepot.protocols.amqp.convert import AMQP_LANGUAGE, Arrived, sections_of
from entrepot.protocols.amqp.federated import (
    ADDRESSES,
    CAME_FROM,
    CONTROL,
    EVENTS,
    HOPS,
    HOPS_OF_CORE,
    NAME,
    POLICY,
    PRIORITY,
    QUEUES,
    SOURCE,
    SPOKEN,
    VERSION,
    Federated,
)
from entrepot.protocols.amqp.federating import Telling, say_settled
from entrepot.protocols.amqp.large import LargeArrival
from entrepot.protocols.amqp.naming import NO_LOCAL, QUEUE, SELECTOR, TEMPORARY_TOPIC, TOPIC
from entrepot.protocols.amqp.performatives import Attach, Modified, Source, Target
from entrepot.protocols.amqp.primitives import INT_4, Described, Exact
from entrepot.protocols.amqp.refusals import ILLEGAL_STATE, AmqpRefused
from entrepot.protocols.amqp.sections import MESSAGE_ANNOTATIONS, map_in, write_table
from entrepot.protocols.amqp.session import AmqpSession

FILTER: Final = "jms-selector"
LOCAL: Final = "no-local"
DETACHED: Final = "link-detach"
HOPS_MOST: Final = (1 << 31) - 1
LOOK_MIN: Final = 10 * MILLISECOND  # between two looks whether a queue is empty; each pause is twice the one before
LOOK_MAX: Final = SECOND


class ControlSending(Sending):
    """The link by which a connection is one of a federation. ``orders``: policies that the peer is to carry out."""

    def __init__(
        self, session: AmqpSession, name: str, handle: i64, port: CallerPort, under_way: dict[int, Sending]
    ) -> None:
        super().__init__(session, name, handle, port, under_way)
        self.version: int = 1  # of the peer
        self.orders: list[bytes] = []

    def asked(self, said: Attach) -> None:
        """Ask for a node that takes commands."""
        said.source = Source()
        said.target = Target(dynamic=True, capabilities=[TEMPORARY_TOPIC], expiry_policy=DETACHED)
        said.desired_capabilities = [CONTROL]
        said.properties = {VERSION: Exact(INT_4, SPOKEN), NAME: self.session.connection.federation}

    def objection(self, said: Attach) -> str:
        """Return why what the peer attached is no end of such a link."""
        version = (said.properties or {}).get(VERSION)
        self.version = version if isinstance(version, int) else 1
        if CONTROL in said.offered_capabilities:
            return ""
        return "the other side takes no federation: is it an Artemis, or a broker of this program?"

    def order(self, orders: list[bytes]) -> str:
        """Have policies carried out there, as soon as the peer takes them; return why it cannot, "" where it can."""
        most = int(self.session.connection.frame_max) - COMMAND_HEAD
        for octets in orders:
            if len(octets) > most:
                return f"a policy has {len(octets)} octets, and the other side takes frames of {most}: write several"
        self.orders += orders
        self.say_orders()
        return ""

    def say_orders(self) -> None:
        """Say them, as far as the peer takes them."""
        while self.orders and self.credit > 0 and self.session.window > 0:
            self.credit -= 1
            self.count += 1
            say_settled(self, self.orders.pop(0))

    def relieved(self) -> None:
        """The session takes frames again."""
        super().relieved()
        self.say_orders()


COMMAND_HEAD: Final = 64  # octets of a frame before what it carries


class EventsSending(Sending):
    """The link over which the peer, which fetches from here, is told what was made that it asked for in vain."""

    def __init__(
        self, session: AmqpSession, name: str, handle: i64, port: CallerPort, under_way: dict[int, Sending]
    ) -> None:
        super().__init__(session, name, handle, port, under_way)
        self.telling: Telling | None = None

    def asked(self, said: Attach) -> None:
        """Ask for a node that takes events."""
        said.source = Source()
        said.target = Target(dynamic=True, capabilities=[TEMPORARY_TOPIC], expiry_policy=DETACHED)
        said.desired_capabilities = [EVENTS]

    def begin(self, federated: Federated) -> None:
        """Tell from now on."""
        self.telling = telling = Telling(self, federated)
        telling.begin()

    def allowed(self) -> None:
        """The peer takes more, or the session takes frames again."""
        telling = self.telling
        if telling is not None:
            telling.credit = self.credit
            before = telling.count
            telling.tell()
            self.count += telling.count - before
            self.credit = telling.credit

    def relieved(self) -> None:
        """The session takes frames again."""
        super().relieved()
        self.allowed()

    def end(self, last_delivered: i64) -> None:
        """Nothing more is told."""
        super().end(last_delivered)
        telling, self.telling = self.telling, None
        if telling is not None:
            telling.end()


class Pace:
    """How fast a link takes what it reads: with ``credit`` messages on their way at the most, raised again at ``low``.

    ``pull``, where it is not 0: the link pulls so many at a time, and ``credit`` and ``low`` do not count.
    ``large_octets``: from which a body is streamed to disk; -1: none is.
    """

    def __init__(self, credit: i64, low: i64, pull: i64, large_octets: i64) -> None:
        self.credit: i64 = credit
        self.low: i64 = low
        self.pull: i64 = pull
        self.large_octets: i64 = large_octets

    def alike(self, other: Pace) -> bool:
        """Return whether ``other`` is no other pace."""
        mine = (self.credit, self.low, self.pull, self.large_octets)
        return mine == (other.credit, other.low, other.pull, other.large_octets)


class Fetch:
    """What is read there: messages of ``where`` that ``selector`` lets through, and as which reader of that queue."""

    def __init__(self, where: Destination, selector: str, priority: int, policy: str, pace: Pace) -> None:
        self.where: Destination = where
        self.selector: str = selector
        self.priority: int = priority
        self.policy: str = policy
        self.pace: Pace = pace
        self.headers: Headers = ()  # properties that are set on what comes

    def called(self) -> str:
        """Return what tells it from others of one connection."""
        condition = f" where {self.selector}" if self.selector else ""
        return f"fetch {self.where.name}::{self.where.queue}{condition} at {self.priority} for {self.policy}"

    def alike(self, other: Fetch) -> bool:
        """Return whether a link for ``other``, which is called alike, does for this one as well."""
        return self.pace.alike(other.pace) and self.headers == other.headers and self.selector == other.selector

    def link(self, session: AmqpSession, name: str, handle: i64) -> Fetching:
        """Return the link for it. Raises Refused where messages can go nowhere."""
        return Pulling(session, name, handle, self) if self.pace.pull else Fetching(session, name, handle, self)

    def source(self, outcomes: list[str]) -> Source:
        """Return where it is read."""
        where = self.where
        source = Source(
            address=f"{where.name}::{where.queue}",
            expiry_policy=DETACHED,
            capabilities=[QUEUE if where.routing == ANYCAST else TOPIC],
            outcomes=outcomes,
            default_outcome=Modified(delivery_failed=True),
        )
        if self.selector:
            source.filter = {FILTER: Described(SELECTOR[1], self.selector)}
        return source


class AddressFetch(Fetch):
    """An address that is read there, by the queue ``there``; ``ends``: when the other side may delete that.

    ``hops``: messages that crossed so many federations are not fetched; 0: however many.
    """

    def __init__(self, address: str, there: str, hops: int, ends: dict[str, object], policy: str, pace: Pace) -> None:
        super().__init__(Destination(address, MULTICAST), selector_of(hops), 0, policy, pace)
        self.there: str = there
        self.ends: dict[str, object] = ends

    def called(self) -> str:
        """Return what tells it from others of one connection: an address is read once, whatever policies mean it."""
        return f"fetch {self.where.name} by {self.there}"

    def alike(self, other: Fetch) -> bool:
        """Return whether a link for ``other``, which is called alike, does for this one as well."""
        return super().alike(other) and isinstance(other, AddressFetch) and self.ends == other.ends

    def link(self, session: AmqpSession, name: str, handle: i64) -> Fetching:
        """Return the link for it. Raises Refused where messages can go nowhere."""
        return AddressFetching(session, name, handle, self)

    def source(self, outcomes: list[str]) -> Source:
        """Return where it is read: without what came from here."""
        source = super().source(outcomes)
        source.address = f"{self.where.name}::{self.there}"
        filters = source.filter or {}
        filters[LOCAL] = Described(NO_LOCAL[1], "NoLocalFilter{}")
        source.filter = filters
        return source


def selector_of(hops: int) -> str:
    """Return what lets through messages that crossed fewer than ``hops`` federations, as Artemis writes it."""
    if hops <= 0:
        return ""
    parts = (f'"m.{HOPS}"', HOPS_OF_CORE)
    return "(" + " AND ".join(f"({name} IS NULL OR {name}<{hops})" for name in parts) + ")"


class Fetching(Taking):
    """A link that reads a queue there into the queue of that name here."""

    def __init__(self, session: AmqpSession, name: str, handle: i64, fetch: Fetch) -> None:
        """Raises Refused where messages can go nowhere."""
        super().__init__(session, name, handle, fetch.where)
        self.fetch: Fetch = fetch
        self.large_from = fetch.pace.large_octets

    def asked(self, said: Attach) -> None:
        """Ask as a federation."""
        said.desired_capabilities = [QUEUES]
        said.properties = {PRIORITY: Exact(INT_4, self.fetch.priority), POLICY: self.fetch.policy}

    def objection(self, said: Attach) -> str:
        """Return why what the peer attached is no end of such a link."""
        return "" if QUEUES in said.offered_capabilities else "the other side does not federate its queues"

    def replenish(self) -> None:
        """Let the peer send more, if it may."""
        pace = self.fetch.pace
        if self.withheld or self.ended or self.credit > pace.low:
            return
        self.credit = pace.credit
        self.session.link_flow(self.handle, self.count, self.credit, -1, False)

    def _send(self, arrived: Arrived, transaction: bytes | None, large: LargeArrival | None) -> bool:
        """Put it into the queue here. Raises Refused: it is gone, and nobody here wants the message."""
        queue = self.fetch.where.queue
        if queue and queue not in self.broker.table.queues:
            raise InvalidDestination(f"the queue {queue} is gone here")
        set_headers(arrived.message, self.fetch.headers)
        return super()._send(arrived, transaction, large)


class Pulling(Fetching):
    """A link that asks for messages only when nothing waits in the queue here.

    What its readers have at hand does not count, as at Artemis. So many as `Pace.pull` says are asked for, and no more
    before all of these came. Whether messages wait is looked at while some do, after pauses that grow.
    """

    def __init__(self, session: AmqpSession, name: str, handle: i64, fetch: Fetch) -> None:
        """Raises Refused where messages can go nowhere."""
        super().__init__(session, name, handle, fetch)
        self.pause: int = 0
        self._look: _Look | None = None

    def replenish(self) -> None:
        """Let the peer send more, if nothing waits here."""
        if self.withheld or self.ended or self.credit > 0:
            return
        self._forget_look()
        if self.backlog() > 0:
            self.pause = min(2 * self.pause, LOOK_MAX) or LOOK_MIN
            self._look = look = _Look(int(self.broker.now) + self.pause, self)
            self.broker.timetable.add(look)
            return
        self.pause = 0
        self.credit = self.fetch.pace.pull
        self.session.link_flow(self.handle, self.count, self.credit, -1, False)

    def holds_back(self) -> i64:
        """Return how many messages readers have to take here before more are asked for; 0: they were asked for."""
        return 0 if self.credit > 0 else self.backlog()

    def backlog(self) -> i64:
        """Return how many messages wait in the queue here."""
        queue = self.broker.table.queues.get(self.fetch.where.queue)
        return 0 if queue is None else queue.backlog.count

    def end(self, last_delivered: i64) -> None:
        """Nothing comes any more."""
        super().end(last_delivered)
        self._forget_look()

    def _forget_look(self) -> None:
        look, self._look = self._look, None
        if look is not None:
            look.cancelled = True


class _Look(Alarm):
    """It is time to see whether a link may pull."""

    def __init__(self, due: int, link: Pulling) -> None:
        super().__init__(due)
        self.link = link

    def ring(self, now: int) -> None:
        """See."""
        self.link.replenish()


class AddressFetching(Fetching):
    """A link that reads an address there into the address of that name here."""

    def __init__(self, session: AmqpSession, name: str, handle: i64, fetch: AddressFetch) -> None:
        """Raises Refused where messages can go nowhere."""
        super().__init__(session, name, handle, fetch)
        self.ends: dict[str, object] = fetch.ends

    def asked(self, said: Attach) -> None:
        """Ask as a federation."""
        said.desired_capabilities = [ADDRESSES]
        said.properties = {SOURCE: self.ends, POLICY: self.fetch.policy}

    def parting(self, why: str) -> EntrepotError | None:
        """Return a reason, where it is asked for anew: without one the peer drops what waits for this broker."""
        return AmqpRefused(why, ILLEGAL_STATE) if self.renews else None

    def objection(self, said: Attach) -> str:
        """Return why what the peer attached is no end of such a link."""
        return "" if ADDRESSES in said.offered_capabilities else "the other side does not federate its addresses"

    def _send(self, arrived: Arrived, transaction: bytes | None, large: LargeArrival | None) -> bool:
        """Send it to the address here, one hop farther. Raises Refused, StorageError."""
        step(arrived.message, self.connection.other())
        return super()._send(arrived, transaction, large)


def step(message: Message, peer: str) -> None:
    """Note in ``message`` that it crossed one more federation, and came from ``peer``. Raises MalformedFrame."""
    sections = sections_of(message)
    raw = message.raw
    entries: dict[str, object] = {}
    for key, value in map_in(raw, sections.annotations_at, typed=True).items():
        entries[str(key)] = value
    before = 0
    for name in (f"m.{HOPS}", HOPS_OF_CORE):
        said = AMQP_LANGUAGE.fact(message, name)
        if isinstance(said, int):
            before = max(before, said)
    entries[HOPS] = Exact(INT_4, min(before + 1, HOPS_MOST))
    entries[CAME_FROM] = peer
    behind = sections.annotations_end if sections.annotations_at >= 0 else message.body_at
    out = BytesWriter()
    out.write(raw[: message.body_at])
    write_table(out, MESSAGE_ANNOTATIONS, entries, True)
    out.write(raw[behind:])
    message.raw = out.getvalue()
