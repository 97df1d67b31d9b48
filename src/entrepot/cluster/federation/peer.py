"""The broker at the other end of a federation, and how it is dialled: what an upstream and a downstream share.

The link (`LinkCore`) dials, waits and watches. It has no feeds: over an upstream messages come and none go, and over a
downstream there are none.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from entrepot.base.environment import MILLISECOND, Duration, Instant
from entrepot.base.uri import Endpoint, authority
from entrepot.cluster.dialled import Driven, Perform, Say, report_at_rest
from entrepot.cluster.federation.options import UpstreamEntry
from entrepot.cluster.link import LinkCore, LinkOptions
from entrepot.cluster.supervision import INTERVALS_SILENT
from entrepot.core.broker import BrokerCore
from entrepot.protocols.artemis.client import ClientPort, CoreClient
from entrepot.protocols.artemis.linking.places import beside, reached, store_at
from entrepot.protocols.artemis.packets import ClusterTopology, Packet, Ping
from entrepot.protocols.session import NEVER, Session, Shell

SESSIONS: Final = 1  # the channel of the protocol on which sessions are asked for
LOOP: Final = "this {} is this broker itself"


class _Ears(ClientPort):
    """Hears one connection."""

    def __init__(self, peer: FederationPeer, attempt: int) -> None:
        self._peer: Final = peer
        self._attempt: Final = attempt

    def greeted(self, client: CoreClient) -> None:
        """It speaks CORE."""
        self._peer.greeted(client, self._attempt)

    def told(self, client: CoreClient, packet: Packet) -> None:
        """Anything that it says."""
        if client is self._peer.client:
            self._peer.take(client, packet)

    def settled(self, client: CoreClient) -> None:
        """It lives."""
        if client is self._peer.client:
            self._peer.link.supervision.heard(self._peer.now())

    def lost(self, client: CoreClient, why: str) -> None:
        """The connection is gone."""
        self._peer.perform(self._peer.link.failed(self._attempt, why, self._peer.now()))


class FederationPeer(Driven):
    """One of one federation, while it is started. ``client``: the connection, while there is one that is of use."""

    word = "peer"
    """What people call it."""

    def __init__(self, broker: BrokerCore, entry: UpstreamEntry, link: LinkCore, driver: Perform, say: Say) -> None:
        """``driver`` performs what the link decides; ``say``: what an operator should know: who, and what."""
        super().__init__(broker, link, driver, say)
        self.entry: Final = entry
        self.client: CoreClient | None = None
        self.node = ""
        self._pings = 0
        link.port = self

    def begin(self, now: Instant) -> None:
        """Dial."""
        self.perform(self.link.start(now))

    def close(self, why: str) -> None:
        """End it."""
        self.perform(self.link.close(why, self.now()))

    def greet(self, shell: Shell, attempt: int, place: Endpoint, now: Instant) -> Session:
        """Return the session of the connection ``attempt``."""
        return CoreClient(shell, _Ears(self, attempt), now, self.entry.options.time_to_live() // MILLISECOND)

    # -- what the other broker says ------------------------------------------------------------------------------------

    def greeted(self, client: CoreClient, attempt: int) -> None:
        """The other broker greets."""
        raise NotImplementedError

    def take(self, client: CoreClient, packet: Packet) -> None:
        """Anything else that it says over ``client``."""
        raise NotImplementedError

    def met(self, client: CoreClient, attempt: int) -> str | None:
        """Return the id of the broker that greets, "" where that is not known; None: this connection is not needed."""
        now = self.now()
        members = {name: reached(connector) for name, connector in client.members.items()}
        node = store_at(members or {client.node: []}, self.link.place)
        if node == self.broker.ids.node.uuid_text:
            why = LOOP.format(self.word)
            self.say(why)
            self.perform(self.link.give_up(why, now))
            return None
        effects = self.link.connected(attempt, now)
        if effects:  # it is another attempt that counts
            self.perform(effects)
            return None
        return node

    def located(self, packet: ClusterTopology) -> None:
        """A member of the cluster beyond is told: with ``ha`` the backup of the other broker is dialled, too."""
        here = self.link.place
        if self.entry.options.ha and here is not None:
            fresh = beside(packet, here, self.link.places)
            if fresh:
                self.perform(self.link.moved([*self.link.places, *fresh], self.now()))

    # -- what the link asks of its dialect -----------------------------------------------------------------------------

    def probe(self) -> int:
        """Ask what the other broker itself answers."""
        client = self.client
        if client is None:
            return 0
        self._pings += 1
        client.send(Ping(ttl=self.entry.options.time_to_live() // MILLISECOND))
        return self._pings

    def answered(self) -> None:
        """It answered what was asked last."""
        self.link.confirmed(self._pings, self.now())

    def lost(self, why: str) -> None:
        """The link gave the connection up."""
        client, self.client = self.client, None
        if client is not None:
            self.say(f"the {self.word} is gone: {why}")
            self.shut(client, why)

    def shut(self, client: CoreClient, why: str) -> None:
        """Hang up; nobody listens to ``client`` any more."""
        client.port = ClientPort()
        client.shut(why, self.now())

    def peer(self) -> str:
        """Return where the other broker is."""
        place = self.link.place
        return self.node if place is None else authority(place)


Entry = TypeVar("Entry", bound=UpstreamEntry)
Peer = TypeVar("Peer", bound=FederationPeer)


class PeerConnector(Generic[Entry, Peer]):
    """One of them, as operators start and stop it. ``peer`` while it is started; ``since``: it began or was stopped."""

    kind = ""
    """What reports call it."""

    def __init__(self, entry: Entry) -> None:
        self.entry: Final = entry
        self.name: Final = entry.name
        self.places: list[Endpoint] = list(entry.places)
        self.peer: Peer | None = None
        self.started = False
        self.auto_start = True
        self.since: Instant = NEVER

    def made(self, broker: BrokerCore, link: LinkCore, perform: Perform, say: Say) -> Peer:
        """Return a new one, which does not dial yet."""
        raise NotImplementedError

    def start(self, broker: BrokerCore, perform: Perform, say: Say, now: Instant, interval: Duration = 0) -> None:
        """Dial. ``interval``: of supervision, 0: as the options say."""
        if self.peer is not None:
            self.peer.close("it begins anew")
        self.started = True
        self.since = now
        options = self.entry.options
        link_options = LinkOptions(
            reconnect=options.reconnection(),
            interval=interval or options.interval(INTERVALS_SILENT),
            patience=options.call_timeout,
            language="CORE",
        )
        link = LinkCore(self.name, broker, link_options, self.places, sought=self.entry.group != "")
        self.peer = self.made(broker, link, perform, say)
        self.peer.begin(now)

    @property
    def place(self) -> str:
        """Where it leads, without secrets."""
        return ", ".join(place.masked() for place in self.places) or f"the discovery group {self.entry.group}"

    def located(self, places: list[Endpoint], now: Instant) -> None:
        """Its discovery group hears ``places``, all that there are now."""
        self.places = places
        if self.peer is not None:
            self.peer.perform(self.peer.link.moved(places, now))

    def drain(self, now: Instant) -> bool:
        """Take no more; return whether everything that was taken is acknowledged."""
        return True

    def leave(self, now: Instant) -> None:
        """Stop. It may be started again."""
        self._end("it was stopped", now)

    def stop(self, now: Instant) -> None:
        """End the connection: the broker stops."""
        self._end("the broker stops", now)

    def _end(self, why: str, now: Instant) -> None:
        peer, self.peer = self.peer, None
        if self.started:
            self.since = now
        self.started = False
        if peer is not None:
            peer.close(why)

    def report(self, now: Instant) -> dict[str, object]:
        """Return what an operator wants to know, as the peer reports it, or little where it is stopped."""
        if self.peer is not None:
            return self.peer.report(now)
        since_ms = (now - self.since) // MILLISECOND if self.since <= now else -1
        return report_at_rest(self.name, self.kind, self.place, "stopped", since_ms, initiator=True)
