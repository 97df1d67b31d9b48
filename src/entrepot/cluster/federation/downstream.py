"""The connection to one downstream: a broker that is told to fetch from here, while the connection is there.

It opens a session, so that the other broker knows who asks, and sends the description of the upstream. Nothing answers
one that is obeyed. One that is refused is told so by a broker of this program; Artemis from 2.52 on closes the
connection. Either way the link waits, as it does when a connection breaks, and tries again: rights may be given
meanwhile. What is deployed ends with the connection, on both sides, and is deployed anew with the next one.
"""

from __future__ import annotations

from typing import Final

from entrepot.base.environment import KIB, MILLISECOND, Instant
from entrepot.base.uri import Endpoint, authority
from entrepot.cluster.dialled import Dialled, link_report
from entrepot.cluster.federation.connector import link_of
from entrepot.cluster.federation.description import described
from entrepot.cluster.federation.ears import Ears
from entrepot.cluster.federation.options import DownstreamEntry
from entrepot.cluster.fetching import Perform, Say
from entrepot.cluster.link import Effect, LinkCore, State
from entrepot.core.broker import BrokerCore
from entrepot.model.ids import UUID_OCTETS, uuid_text
from entrepot.protocols.artemis.client import ClientPort, CoreClient
from entrepot.protocols.artemis.linking.places import beside, reached, store_at
from entrepot.protocols.artemis.naming import FEDERATION as FEDERATION_NAME
from entrepot.protocols.artemis.packets import (
    AddMetadata,
    ClusterTopology,
    CreateSession,
    CreateSessionReply,
    ExceptionReply,
    FederationDownstreamConnect,
    Packet,
    Ping,
)
from entrepot.protocols.artemis.schema import VERSION_MAX
from entrepot.protocols.session import NEVER, Session, Shell

SESSIONS: Final = 1  # the channels of the protocol
FEDERATION: Final = 4
SESSION: Final = 10
DOWNSTREAM_NAME: Final = "federation-downstream-name"
LARGE_OCTETS: Final = 100 * KIB
UNLIMITED: Final = -1
LOOP: Final = "this downstream is this broker itself"


class Downstream(Dialled):
    """One of one federation, while it is started."""

    def __init__(self, broker: BrokerCore, entry: DownstreamEntry, link: LinkCore, driver: Perform, say: Say) -> None:
        """``driver`` performs what the link decides; ``say``: what an operator should know: who, and what."""
        super().__init__(broker, link)
        self.entry: Final = entry
        self._driver: Final = driver
        self._say: Final = say
        self._client: CoreClient | None = None
        self._attempt = 0
        self._node = ""
        self._pings = 0
        self._sent = False  # the description, over this connection
        self._said = ""  # as the operator was told last
        link.port = self

    def perform(self, effects: list[Effect]) -> None:
        """Have done what the link decided, and see when it wants to be called again."""
        if effects:
            self._driver(self, effects)
        self.watch()

    def begin(self, now: Instant) -> None:
        """Dial."""
        self.perform(self.link.start(now))

    def close(self, why: str) -> None:
        """End it, and with it what it deployed."""
        self.perform(self.link.close(why, int(self.broker.now)))

    def greet(self, shell: Shell, attempt: int, place: Endpoint, now: Instant) -> Session:
        """Return the session of the connection ``attempt``."""
        return CoreClient(shell, Ears(self, attempt), now, self.entry.options.time_to_live() // MILLISECOND)

    # -- what the other broker says ------------------------------------------------------------------------------------

    def greeted(self, client: CoreClient, attempt: int) -> None:
        """The other broker greets: open a session."""
        now = int(self.broker.now)
        members = {name: reached(connector) for name, connector in client.members.items()}
        node = store_at(members or {client.node: []}, self.link.place)
        if node == self.broker.ids.node.uuid_text:
            self._tell(LOOP)
            self.perform(self.link.give_up(LOOP, now))
            return
        effects = self.link.connected(attempt, now)
        if effects:  # it is another attempt that counts
            self.perform(effects)
            return
        self._client, self._attempt, self._node = client, attempt, node
        self._sent = False
        options = self.entry.options
        client.send(
            CreateSession(
                name=uuid_text(self.broker.entropy.token(UUID_OCTETS)),
                session_channel=SESSION,
                version=VERSION_MAX,
                user=options.user or None,
                password=options.password or None,
                min_large=LARGE_OCTETS,
                auto_commit_sends=True,
                auto_commit_acks=True,
                window=UNLIMITED,
                pre_ack=False,
                channel=SESSIONS,
            )
        )
        self.watch()

    def take(self, client: CoreClient, packet: Packet) -> None:
        """Go on when the session is open; wait where something is refused."""
        if client is not self._client:
            return
        if isinstance(packet, ExceptionReply):
            if packet.channel in (SESSIONS, FEDERATION):
                self._refused(packet.text or f"code {packet.code}")
        elif isinstance(packet, CreateSessionReply):
            self._deploy(client)
        elif isinstance(packet, Ping):
            self._alive()
        elif isinstance(packet, ClusterTopology):
            self._located(packet)

    def _deploy(self, client: CoreClient) -> None:
        """The session is open."""
        if self.link.state is not State.OPENING:
            return
        entry = self.entry
        for key, data in ((FEDERATION_NAME, entry.federation), (DOWNSTREAM_NAME, entry.options.name)):
            client.send(AddMetadata(key=key, data=data, channel=SESSION))
        client.send(FederationDownstreamConnect(description=described(entry), channel=FEDERATION))
        self._sent = True
        self.probe()

    def _alive(self) -> None:
        """What was said before the ping is done: a broker answers in order, and a refusal would have come first."""
        now = int(self.broker.now)
        if self.link.state is not State.OPENING:
            self.link.confirmed(self._pings, now)
        elif self._sent:
            self.link.opened(now)
            self._tell(f"it is deployed to the broker at {self.peer()}")
            self.watch()

    def _refused(self, what: str) -> None:
        why = f"the other broker refuses: {what}"
        self._tell(why)
        self._hang_up(why)
        self.perform(self.link.failed(self._attempt, why, int(self.broker.now)))

    def _located(self, packet: ClusterTopology) -> None:
        """A member of the cluster beyond: with ``ha`` the backup of the downstream is dialled, too."""
        here = self.link.place
        if self.entry.options.ha and here is not None:
            fresh = beside(packet, here, self.link.places)
            if fresh:
                self.perform(self.link.moved([*self.link.places, *fresh], int(self.broker.now)))

    def heard(self, client: CoreClient) -> None:
        """Something came."""
        if client is self._client:
            self.link.supervision.heard(int(self.broker.now))

    def gone(self, client: CoreClient, attempt: int, why: str) -> None:
        """The connection is gone."""
        self.perform(self.link.failed(attempt, why, int(self.broker.now)))

    # -- what the link asks of its dialect -----------------------------------------------------------------------------

    def probe(self) -> int:
        """Ask what the other broker itself answers."""
        client = self._client
        if client is None:
            return 0
        self._pings += 1
        client.send(Ping(ttl=self.entry.options.time_to_live() // MILLISECOND))
        return self._pings

    def lost(self, why: str) -> None:
        """The link gave the connection up."""
        if self._client is not None:
            self._tell(f"the downstream is gone: {why}")
        self._hang_up(why)

    def _hang_up(self, why: str) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.port = ClientPort()  # nobody listens to it any more
            client.shut(why, int(self.broker.now))

    def peer(self) -> str:
        """Return where the other broker is."""
        place = self.link.place
        return self._node if place is None else authority(place)

    def report(self, now: Instant) -> dict[str, object]:
        """Return what an operator wants to know; times in ms, the round trip in us, -1 for what never was."""
        entry = self.entry
        return {
            "connector": entry.name,
            "kind": "downstream",
            "peer": self.peer(),
            "peer_id": self._node,
            "peer_url": "",
            **link_report(self.link, now),
            "initiator": True,
            "duplex": False,
            "deployed": [*(one.name for one in entry.queues), *(one.name for one in entry.addresses)],
            "back": authority(entry.back),
            "canary": "ping",
        }

    def _tell(self, what: str) -> None:
        """Tell the operator; what repeats with every attempt once."""
        if self._said != what:
            self._said = what
            self._say(self.entry.name, what)
            self.note_told(what)


class DownstreamConnector:
    """One downstream, as operators start and stop it. ``since``: it was started or stopped."""

    def __init__(self, entry: DownstreamEntry) -> None:
        self.entry: Final = entry
        self.name: Final = entry.name
        self.places: list[Endpoint] = list(entry.places)
        self.downstream: Downstream | None = None
        self.started = False
        self.since: Instant = NEVER

    def start(self, broker: BrokerCore, perform: Perform, say: Say, now: Instant, interval: int = 0) -> None:
        """Dial. ``interval``: of supervision in ns, 0: as the options say."""
        if self.downstream is not None:
            self.downstream.close("it begins anew")
        self.started = True
        self.since = now
        link = link_of(self.entry, broker, self.places, interval)
        self.downstream = Downstream(broker, self.entry, link, perform, say)
        self.downstream.begin(now)

    def located(self, places: list[Endpoint], now: Instant) -> None:
        """Its discovery group hears ``places``, all that there are now."""
        self.places = places
        if self.downstream is not None:
            self.downstream.perform(self.downstream.link.moved(places, now))

    def drain(self, now: Instant) -> bool:
        """No message comes over it: there is nothing to wait for."""
        return True

    def leave(self, now: Instant) -> None:
        """Stop: the other broker fetches no more."""
        self._end("it was stopped", now)

    def stop(self, now: Instant) -> None:
        """End the connection: the broker stops."""
        self._end("the broker stops", now)

    def _end(self, why: str, now: Instant) -> None:
        downstream, self.downstream = self.downstream, None
        if self.started:
            self.since = now
        self.started = False
        if downstream is not None:
            downstream.close(why)

    def report(self, now: Instant) -> dict[str, object]:
        """Return what an operator wants to know, as `Downstream.report`, or little where it is stopped."""
        if self.downstream is not None:
            return self.downstream.report(now)
        place = ", ".join(one.masked() for one in self.places) or f"the discovery group {self.entry.group}"
        return {
            "connector": self.name,
            "kind": "downstream",
            "peer": "",
            "peer_url": "",
            "place": place,
            "state": "stopped",
            "since_ms": (now - self.since) // MILLISECOND if self.since <= now else -1,
            "initiator": True,
            "duplex": False,
        }
