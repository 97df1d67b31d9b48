"""One session of CORE that carries messages to another broker, over one connection after another. [C]

Every SEND asks for its answer, which comes when the other broker has the message on its disk (artemis.md 1.14); it
carries the number under which `CarrierPort.arrived` says so. What our own disk does not have yet waits on the shelf
(`linking/shelf.py`). A large body goes from disk, in pieces, at the pace of the
socket. Octets are asked for by address (5.2.7): at an address that has no room the carrier says that it must wait.

A session with a confirmation window waits at the other broker for as long as the connection would have been believed.
The next connection brings it back (`reattachable`): the answers that were not heard come again, and what has none then
is to be written again. A query is sent behind the reattachment, because its answer comes behind theirs.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from entrepot.base.environment import KIB, Entropy, Instant
from entrepot.core.broker import BrokerCore
from entrepot.core.queue.queue import Queue
from entrepot.model.ids import UUID_OCTETS, uuid_text
from entrepot.model.message import Message
from entrepot.protocols.artemis.client import ClientPort, CoreClient
from entrepot.protocols.artemis.conversation.credit import Credit
from entrepot.protocols.artemis.conversation.requests import Requests
from entrepot.protocols.artemis.large import CHUNK_OCTETS_MAX, CHUNK_OCTETS_MIN, LargeDelivery
from entrepot.protocols.artemis.linking.client import LinkClient
from entrepot.protocols.artemis.linking.crossing import Crossing
from entrepot.protocols.artemis.linking.ledger import Ledger
from entrepot.protocols.artemis.linking.shelf import Parcel, Sender, Shelf
from entrepot.protocols.artemis.packets import (
    BindingQuery,
    BindingQueryReply,
    Close,
    ClusterConnect,
    ClusterConnectReply,
    ClusterTopology,
    CreateProducer,
    CreateSession,
    CreateSessionReply,
    Credits,
    ExceptionReply,
    FailCredits,
    NullReply,
    Packet,
    PacketsConfirmed,
    ReattachSession,
    ReattachSessionReply,
    RemoveProducer,
    Send,
    SendContinuation,
    SendLarge,
)
from entrepot.protocols.artemis.schema import VERSION_MAX
from entrepot.protocols.outflow import Outflow
from entrepot.protocols.session import Shell

SESSIONS: Final = 1  # the channel where sessions are made
CLUSTER: Final = 3  # and the one where brokers of a cluster know each other
CHANNEL: Final = 10
SENDER: Final = 1
CONFIRM_OCTETS: Final = 64 * KIB  # of answers, that the other broker keeps until we confirm them
ACCOUNTS_MAX: Final = 1_000  # addresses that we remember what we may send to
ASKED: Final = "activemq.management"  # an address that every broker has, for a query that only shows that it answers


class Terms:
    """As whom the session is opened, and on which terms. ``window``, ``producer_window``: octets, -1 for none.

    ``chunk``: octets of one piece of a large body. ``cluster``: the brokers know each other by user and password
    before sessions are opened.
    """

    def __init__(
        self,
        user: str = "",
        password: str = "",
        *,
        window: int = 10 * 1024 * KIB,
        producer_window: int = 1024 * KIB,
        chunk: int = 100 * KIB,
        ttl_ms: int = 60_000,
        client_id: str = "",
        cluster: bool = False,
    ) -> None:
        self.user: str | None = user or None
        self.password: str | None = password or None
        self.window: i64 = window if window > 0 else -1
        self.producer_window: i64 = producer_window if producer_window > 0 else -1
        self.chunk: i64 = min(max(chunk, CHUNK_OCTETS_MIN), CHUNK_OCTETS_MAX)
        self.ttl_ms: i64 = ttl_ms
        self.client_id: str | None = client_id or None
        self.cluster: bool = cluster


@mypyc_attr(allow_interpreted_subclasses=True)
class CarrierPort:
    """Who hears what becomes of what is carried."""

    def greeted(self) -> None:
        """The other broker speaks CORE; sessions come next."""

    def opened(self) -> None:
        """A new session is open: what an earlier one did not answer must be carried again."""

    def resumed(self) -> None:
        """The session is there again, and all its answers came: what has none must be carried again."""

    def arrived(self, number: i64) -> None:
        """The other broker has the message of this number, or answered the query of it."""

    def arrived_up_to(self, number: i64) -> None:
        """The other broker has all up to this number."""

    def refused(self, number: i64, code: i64, why: str) -> None:
        """The other broker refuses the message of this number, for a code of artemis.md 5.2.9."""

    def waits(self, busy: bool) -> None:
        """An address there has no room (True), or all have some again."""

    def streams(self, busy: bool) -> None:
        """A large body is on its way out (True), or is gone."""

    def heard(self) -> None:
        """Something came."""

    def told(self, packet: Packet) -> None:
        """Something that is no matter of the session: the topology, what is sent to consumers."""

    def writable(self, ready: bool) -> None:
        """The socket is full (False), or takes octets again."""

    def lost(self, why: str) -> None:
        """The connection is gone, or cannot be used. Comes once for each."""


class _Counted(Requests):
    """Posts what the server counts."""

    def __init__(self, carrier: Carrier) -> None:
        super().__init__(CHANNEL)
        self.carrier: Carrier = carrier

    def post(self, packet: Packet) -> bool:
        """Send what is not answered."""
        return self.carrier.post(packet)


class _Body(Outflow):
    """The body of a large message on its way out; each piece is a whole frame."""

    def __init__(self, carrier: Carrier, client: LinkClient, large: LargeDelivery, number: i64) -> None:
        super().__init__(0, b"", b"")
        self.carrier: Carrier = carrier
        self.client: LinkClient = client
        self.large: LargeDelivery = large
        self.number: i64 = number

    def piece(self) -> bytes:
        """Return the next frame. Raises StorageError."""
        octets = self.large.piece(self.carrier.terms.chunk)
        self.done = self.large.is_done()
        return self.client.encoder.encode(
            SendContinuation(
                body=octets,
                continues=not self.done,
                body_size=-1,
                require_response=self.done,
                correlation=self.number if self.done else i64(0),
                sender=SENDER,
                channel=CHANNEL,
            )
        )

    def finish(self, gone: bool) -> None:
        """Let go of the body."""
        self.large.finish()
        self.carrier.streamed(self.client, gone)


class _Dispatch(Sender):
    """Writes what leaves the shelf."""

    def __init__(self, carrier: Carrier) -> None:
        self.carrier: Carrier = carrier

    def write(self, parcel: Parcel) -> None:
        """Write it, and count it."""
        self.carrier.write(parcel)

    def spoiled(self, why: str) -> None:
        """The connection ends."""
        self.carrier.fail(why)


def _same(one: CoreClient | None, other: CoreClient) -> bool:
    """Return whether they are one. Asked in place, compiled code would take it that nothing changed since."""
    return one is other


class Carrier(ClientPort):
    """The session of one bridge. ``name``: of the session that is open, or may be brought back; "" for none."""

    def __init__(self, broker: BrokerCore, port: CarrierPort, terms: Terms, entropy: Entropy) -> None:
        self.broker: BrokerCore = broker
        self.port: CarrierPort = port
        self.terms: Terms = terms
        self.entropy: Entropy = entropy
        self.client: LinkClient | None = None
        self.name: str = ""
        self.open: bool = False
        self.node: str = ""  # of the other broker
        self.number: i64 = 0  # of what asked for an answer last
        self.ledger: Ledger = Ledger()
        self.requests: Requests = _Counted(self)
        self.shelf: Shelf = Shelf(broker.journal, _Dispatch(self))
        self.accounts: dict[str, Credit] = {}
        self.empty: dict[str, None] = {}  # addresses without credit
        self._query: i64 = 0  # that has no answer, 0: none
        self._resuming: bool = False
        self._streaming: bool = False
        self._cut: bool = False  # a body was cut off: the other broker has half of it

    # -- connections ---------------------------------------------------------------------------------------------------

    def dial(self, shell: Shell, now: Instant) -> LinkClient:
        """Return a connection to the other broker; there is none before it."""
        client = LinkClient(shell, self, now, self.terms.ttl_ms)
        self.client = client
        return client

    def reattachable(self) -> bool:
        """Return whether the next connection may bring the session back."""
        return self.name != "" and self.terms.window > 0 and self.ledger.straight and not self._cut

    def forget(self) -> None:
        """The next connection gets a session of its own."""
        self.name = ""

    def close(self, why: str) -> None:
        """End the session and the connection, in order."""
        client = self.client
        self.client = None
        if client is None:
            return
        if self.open and client.live and not self._streaming:
            client.send(RemoveProducer(sender=SENDER, channel=CHANNEL))
            client.send(Close(channel=CHANNEL))
            self.name = ""
        self._shut()
        client.port = ClientPort()  # nobody listens to it any more
        client.shut(why, int(self.broker.now))

    def greeted(self, client: CoreClient) -> None:
        """The other broker greets."""
        if not _same(self.client, client):
            return
        self.node = client.node
        self.port.greeted()
        if not _same(self.client, client):
            return
        if self.terms.cluster:
            user, password = self.terms.user or "", self.terms.password or ""
            client.send(ClusterConnect(user=user, password=password, channel=CLUSTER))
        else:
            self._enter(client)

    def _enter(self, client: CoreClient) -> None:
        """Bring the session back, or make one."""
        if self.reattachable():
            self._resuming = True
            client.send(ReattachSession(name=self.name, last_confirmed=self.ledger.last_received(), channel=SESSIONS))
            return
        terms = self.terms
        self._resuming = False
        self._cut = False
        self.name = self._unique()
        self.ledger = Ledger()
        client.send(
            CreateSession(
                name=self.name,
                session_channel=CHANNEL,
                version=VERSION_MAX,
                user=terms.user,
                password=terms.password,
                min_large=terms.chunk,
                auto_commit_sends=True,
                auto_commit_acks=True,
                window=terms.window,
                pre_ack=True,
                client_id=terms.client_id,
                channel=SESSIONS,
            )
        )

    def _unique(self) -> str:
        return uuid_text(self.entropy.token(UUID_OCTETS))

    def _begin(self) -> None:
        """The session is new."""
        self.open = True
        self.accounts.clear()
        self.empty.clear()
        self.post(CreateProducer(sender=SENDER))
        self.port.opened()

    def _reattached(self, reply: ReattachSessionReply) -> None:
        client = self.client
        if client is None:
            return
        if not reply.reattached:
            self.name = ""
            self._enter(client)
        elif not self.ledger.resume(reply.last_confirmed):
            self.name = ""
            self.fail("a large body was cut off: the session cannot go on")
        else:
            self.open = True
            for account in self.accounts.values():  # the answer may be lost, and nothing is spent while there is none
                account.asked = 0
                account.ask()
            self._query = self._next()
            self.post(BindingQuery(address=ASKED))

    def fail(self, why: str) -> None:
        """The connection cannot be used any more."""
        client = self.client
        self.client = None
        self._shut()
        if client is not None:
            client.port = ClientPort()
            client.shut(why, int(self.broker.now))
        self.port.lost(why)

    def _shut(self) -> None:
        self.open = False
        self.shelf.clear()
        self._query = 0
        self._resuming = False
        self._streaming = False

    # -- what is sent --------------------------------------------------------------------------------------------------

    def _next(self) -> i64:
        self.number += 1
        return self.number

    def post(self, packet: Packet) -> bool:
        """Send what the server counts; False: there is no session."""
        client = self.client
        if client is None or not self.open:
            return False
        packet.channel = CHANNEL
        client.send(packet)
        self.ledger.written += 1
        return True

    def query(self) -> i64:
        """Ask something that the other broker itself answers; return the number of the answer, 0 for nothing asked."""
        if self._query != 0 or not self.open:
            return 0
        number = self._next()
        if not self.post(BindingQuery(address=ASKED)):
            return 0
        self._query = number
        return number

    def carry(self, crossing: Crossing, message: Message, queue: Queue) -> i64:
        """Send ``message``, found in ``queue``, once our disk has it; return its number.

        Raises EntrepotError for one that cannot be sent.
        """
        client = self.client
        assert client is not None
        rare = message.rare
        address = crossing.address_of(message)
        if rare is not None and rare.large_id != 0:
            return self._carry_large(client, crossing, message, queue, address)
        octets = crossing.octets(message, queue)
        number = self.number + 1
        packet = Send(message=octets, require_response=True, correlation=number, sender=SENDER, channel=CHANNEL)
        self.shelf.pass_on(Parcel(number, packet, 1, None), message.number)
        self.number = number
        self._spend(address, len(octets))
        return number

    def _carry_large(self, client: LinkClient, crossing: Crossing, message: Message, queue: Queue, address: str) -> i64:
        headers = crossing.headers(message, queue)
        large = LargeDelivery(self.broker, message, None)
        number = self.number + 1
        body = _Body(self, client, large, number)
        chunk = self.terms.chunk
        pieces = (large.length + chunk - 1) // chunk
        parcel = Parcel(number, SendLarge(headers=headers, channel=CHANNEL), 1 + max(pieces, 1), body)
        self.port.streams(True)
        self.shelf.pass_on(parcel, message.number)
        self.number = number
        self._spend(address, len(headers) + large.length)
        return number

    def write(self, parcel: Parcel) -> None:
        """Write what the disk has. Raises EntrepotError for what cannot be sent."""
        client = self.client
        assert client is not None
        body = parcel.body
        if body is None:
            client.send(parcel.packet)
        else:
            self._streaming = True
            client.stream(parcel.packet, body)
        self.ledger.send(parcel.packets, parcel.number)

    def streamed(self, client: LinkClient, gone: bool) -> None:
        """A large body was written, or its connection is gone."""
        if not gone:
            self._cut = True
        if client is self.client and self._streaming:
            self._streaming = False
            self.port.streams(False)

    # -- credit --------------------------------------------------------------------------------------------------------

    def _spend(self, address: str, octets: i64) -> None:
        if self.terms.producer_window < 0:
            return
        account = self.accounts.get(address)
        if account is None:
            account = self._account(address)
        account.spend(octets)
        if account.is_empty():
            self.empty[address] = None
            self.port.waits(True)

    def _account(self, address: str) -> Credit:
        if len(self.accounts) >= ACCOUNTS_MAX:
            for oldest in self.accounts:
                if oldest not in self.empty:
                    del self.accounts[oldest]
                    break
        account = Credit(self.requests, address, self.terms.producer_window)
        self.accounts[address] = account
        return account

    def _granted(self, packet: Credits) -> None:
        account = self.accounts.get(packet.address)
        if account is None:
            return
        account.granted(packet.credits)
        if not account.is_empty() and packet.address in self.empty:
            del self.empty[packet.address]
            if not self.empty:
                self.port.waits(False)

    # -- what is heard -------------------------------------------------------------------------------------------------

    def told(self, client: CoreClient, packet: Packet) -> None:
        """Take a packet of the other broker."""
        if client is not self.client:
            return
        if packet.channel == CHANNEL:
            self._heard(packet)
        elif packet.channel == SESSIONS:
            self._entered(packet)
        elif isinstance(packet, ClusterConnectReply):
            if packet.authorized:
                self._enter(client)
            else:
                self.fail("the other broker does not accept the user and password of its cluster from us")
        else:
            if isinstance(packet, ClusterTopology) and not packet.exit and not self.node:
                self.node = packet.node
            self.port.told(packet)

    def _entered(self, packet: Packet) -> None:
        if isinstance(packet, CreateSessionReply):
            self._begin()
        elif isinstance(packet, ReattachSessionReply):
            self._reattached(packet)
        elif isinstance(packet, ExceptionReply):
            self.name = ""
            self.fail(f"the other broker opens no session: {packet.text or packet.code}")

    def _heard(self, packet: Packet) -> None:
        ledger = self.ledger
        if isinstance(packet, PacketsConfirmed):
            number = ledger.confirmed(packet.command)
            if number > 0 and ledger.straight:
                self.port.arrived_up_to(number)
            return
        ledger.received += 1
        ledger.unsaid += packet.octets
        if isinstance(packet, NullReply):
            correlation = packet.correlation
            number = ledger.replied(0 if correlation is None or correlation < 0 else i64(correlation))
            if number > 0:
                self.port.arrived(number)
        elif isinstance(packet, Credits):
            self._granted(packet)
        elif isinstance(packet, FailCredits):
            return  # what was asked for comes when there is room
        elif isinstance(packet, BindingQueryReply):
            self._answered()
        elif isinstance(packet, ExceptionReply):
            ledger.straight = False
            correlation = packet.correlation
            number = ledger.replied(0 if correlation is None or correlation < 0 else i64(correlation))
            self.port.refused(number, packet.code, packet.text or f"code {packet.code}")
        else:
            self.port.told(packet)

    def _answered(self) -> None:
        number, self._query = self._query, i64(0)
        if self._resuming:
            self._resuming = False
            self.port.resumed()
        elif number > 0:
            self.port.arrived(number)

    def settled(self, client: CoreClient) -> None:
        """A chunk was taken in: confirm what came, before the other broker keeps too much of it."""
        if client is not self.client:
            return
        ledger = self.ledger
        if ledger.unsaid >= CONFIRM_OCTETS and self.open and self.terms.window > 0:
            ledger.unsaid = 0
            client.send(PacketsConfirmed(command=ledger.last_received(), channel=CHANNEL))
        self.port.heard()

    def writable(self, client: CoreClient, ready: bool) -> None:
        """The socket is full, or takes octets again."""
        if client is self.client:
            self.port.writable(ready)

    def lost(self, client: CoreClient, why: str) -> None:
        """The connection is gone."""
        if client is self.client:
            if self._streaming:
                self._cut = True
            self.client = None
            self._shut()
            self.port.lost(why)
