"""The connection to one upstream: dialled while the broker runs, with a session for each wish (artemis.md 4.12).

The link (`LinkCore`) dials, waits and watches; it has no feeds, because messages come over it and none go. What is
wanted of the upstream is in `Demand`; here each wish gets its `RemoteReader`, and each packet its reader.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from entrepot.base.environment import MILLISECOND, Instant
from entrepot.base.uri import Endpoint, authority
from entrepot.cluster.dialled import Dialled, link_report
from entrepot.cluster.federation.demand import Demand
from entrepot.cluster.federation.ears import Ears
from entrepot.cluster.federation.options import UpstreamEntry
from entrepot.cluster.federation.reader import SESSIONS, Company, RemoteReader
from entrepot.cluster.fetching import Perform, Say
from entrepot.cluster.link import Effect, LinkCore
from entrepot.core.broker import BrokerCore
from entrepot.protocols.artemis.client import ClientPort, CoreClient
from entrepot.protocols.artemis.linking.places import beside, reached, store_at, unknown_store
from entrepot.protocols.artemis.packets import (
    ClusterTopology,
    CreateSessionReply,
    ExceptionReply,
    Packet,
    Ping,
)
from entrepot.protocols.session import Session, Shell

CHANNEL_FIRST: Final = 10  # those below are the protocol's own
LOOP: Final = "this upstream is this broker itself"


class _Company(Company):
    """What readers ask of their upstream."""

    def __init__(self, upstream: Upstream) -> None:
        options = upstream.entry.options
        broker = upstream.broker
        super().__init__(broker, upstream.entry.federation, options.name, options.user, options.password)
        self._upstream: Final = upstream

    def enter(self, reader: RemoteReader) -> int:
        """Note who asks for a session."""
        return self._upstream.enter(reader)

    def say(self, what: str) -> None:
        """Tell an operator."""
        self._upstream.say(what)

    def left(self, reader: RemoteReader) -> None:
        """Forget a reader."""
        self._upstream.left(reader)


class Upstream(Dialled):
    """One of one federation. ``readers``: by the keys of their wishes; ``leaving``: that nobody wants any more."""

    def __init__(self, broker: BrokerCore, entry: UpstreamEntry, link: LinkCore, driver: Perform, say: Say) -> None:
        """``driver`` performs what the link decides; ``say``: what an operator should know: who, and what."""
        super().__init__(broker, link)
        self.entry: Final = entry
        self.readers: dict[tuple[str, str, int], RemoteReader] = {}
        self.leaving: dict[RemoteReader, None] = {}
        self.accepted = 0  # of readers that are gone
        self.duplicates = 0
        self.demand: Final = Demand(broker, entry, self._wanted)
        self._driver: Final = driver
        self._say: Final = say
        self._company: Final = _Company(self)
        self._entering: deque[RemoteReader] = deque()  # who waits for an answer on the channel of sessions
        self._channels: dict[int, RemoteReader] = {}
        self._channel = CHANNEL_FIRST
        self._pings = 0
        self._client: CoreClient | None = None
        self._refused = ""  # why the last connection was of no use, as the operator was told
        link.port = self

    def now(self) -> Instant:
        """Return the time of this turn."""
        return int(self.broker.now)

    def say(self, what: str) -> None:
        """Tell the operator."""
        self._say(self.entry.name, what)
        self.note_told(what)

    def perform(self, effects: list[Effect]) -> None:
        """Have done what the link decided, and see when it wants to be called again."""
        if effects:
            self._driver(self, effects)
        self.watch()

    # -- its life ------------------------------------------------------------------------------------------------------

    def begin(self, now: Instant) -> None:
        """See what is wanted, and dial."""
        self.demand.begin()
        self.perform(self.link.start(now))

    def retire(self) -> None:
        """Want nothing more; what is here and not acknowledged yet is let be so."""
        self.demand.end()
        self._wanted()

    def close(self, why: str) -> None:
        """End it."""
        self.demand.end()
        for reader in [*self.readers.values(), *self.leaving]:
            reader.close()
        self.perform(self.link.close(why, self.now()))

    def is_busy(self) -> bool:
        """Return whether something that came is not acknowledged yet."""
        return any(reader.arrivals is not None and reader.arrivals.pending > 0 for reader in self.everyone())

    def everyone(self) -> list[RemoteReader]:
        """Return all readers, those that end too."""
        return [*self.readers.values(), *self.leaving]

    def greet(self, shell: Shell, attempt: int, place: Endpoint, now: Instant) -> Session:
        """Return the session of the connection ``attempt``."""
        return CoreClient(shell, Ears(self, attempt), now, self.entry.options.time_to_live() // MILLISECOND)

    def greeted(self, client: CoreClient, attempt: int) -> None:
        """The upstream greets: have a session for every wish."""
        now = self.now()
        members = {name: reached(connector) for name, connector in client.members.items()}
        node = store_at(members or {client.node: []}, self.link.place)
        if node == self.broker.ids.node.uuid_text:
            self.say(LOOP)
            self.perform(self.link.give_up(LOOP, now))
            return
        effects = self.link.connected(attempt, now)
        if effects:  # it is another attempt that counts
            self.perform(effects)
            return
        if not node:
            self._refuse(client, unknown_store(len(members)), attempt)
            return
        self.link.opened(now)
        self._client = self._company.client = client
        self._company.node = node
        self._refused = ""
        self.say(f"the upstream at {self.peer()} is there")
        self.watch()
        for reader in list(self.readers.values()):
            reader.start()

    def _refuse(self, client: CoreClient, why: str, attempt: int) -> None:
        """Fetch nothing over this connection: what comes again could not be told from what is new."""
        if self._refused != why:
            self._refused = why
            self.say(why)
        client.port = ClientPort()  # nobody listens to it any more
        client.shut(why, self.now())
        self.perform(self.link.failed(attempt, why, self.now()))

    def enter(self, reader: RemoteReader) -> int:
        """Note that ``reader`` asks for a session; return the channel of it."""
        self._entering.append(reader)
        self._channel += 1
        self._channels.pop(reader.past, None)
        self._channels[self._channel] = reader
        return self._channel

    def left(self, reader: RemoteReader) -> None:
        """``reader`` is closed."""
        self.leaving.pop(reader, None)
        if self.readers.get(reader.wish.key) is reader:
            del self.readers[reader.wish.key]
        self._channels.pop(reader.past, None)
        self.accepted += reader.accepted
        self.duplicates += reader.duplicates

    def _wanted(self) -> None:
        """Wishes came or went."""
        wishes = self.demand.wishes
        for key, reader in list(self.readers.items()):
            if key not in wishes:
                del self.readers[key]
                self.leaving[reader] = None
                reader.unwanted()
        for key, wish in wishes.items():
            if key not in self.readers:
                reader = self.readers[key] = RemoteReader(wish, self._company)
                reader.start()

    # -- what it says --------------------------------------------------------------------------------------------------

    def take(self, client: CoreClient, packet: Packet) -> None:
        """Give a packet to the reader that it is for."""
        if client is not self._client:
            return
        if packet.channel == SESSIONS:
            self._entered(packet)
        elif isinstance(packet, Ping):
            self.link.confirmed(self._pings, self.now())
        elif isinstance(packet, ClusterTopology):
            self._located(packet)
        else:
            reader = self._channels.get(int(packet.channel))
            if reader is not None and reader.channel == packet.channel:
                reader.told(packet)

    def _entered(self, packet: Packet) -> None:
        """Answers on the channel of sessions come in the order of what was asked."""
        if not isinstance(packet, (CreateSessionReply, ExceptionReply)) or not self._entering:
            return
        reader = self._entering.popleft()
        if isinstance(packet, CreateSessionReply):
            reader.entered()
        else:
            reader.not_entered(packet.text or f"code {packet.code}")

    def _located(self, packet: ClusterTopology) -> None:
        """A member of the cluster beyond: with ``ha`` the backup of the upstream is dialled, too."""
        here = self.link.place
        if self.entry.options.ha and here is not None:
            fresh = beside(packet, here, self.link.places)
            if fresh:
                self.perform(self.link.moved([*self.link.places, *fresh], self.now()))

    def heard(self, client: CoreClient) -> None:
        """Something came."""
        if client is self._client:
            self.link.supervision.heard(self.now())

    def gone(self, client: CoreClient, attempt: int, why: str) -> None:
        """The connection is gone."""
        self.perform(self.link.failed(attempt, why, self.now()))

    # -- what the link asks of its dialect -----------------------------------------------------------------------------

    def probe(self) -> int:
        """Ask what the upstream itself answers."""
        client = self._client
        if client is None:
            return 0
        self._pings += 1
        client.send(Ping(ttl=self.entry.options.time_to_live() // MILLISECOND))
        return self._pings

    def lost(self, why: str) -> None:
        """The link gave the connection up."""
        client, self._client = self._client, None
        self._company.client = None
        self._entering.clear()
        self._channels.clear()
        for reader in self.everyone():
            reader.lost(why)
        if client is not None:
            self.say(f"the upstream is gone: {why}")
            client.port = ClientPort()  # nobody listens to it any more
            client.shut(why, self.now())

    def peer(self) -> str:
        """Return where the upstream is."""
        place = self.link.place
        return self._company.node if place is None else authority(place)

    def report(self, now: Instant) -> dict[str, object]:
        """Return what an operator wants to know; times in ms, the round trip in us, -1 for what never was."""
        everyone = self.everyone()
        arrivals = [one.arrivals for one in everyone if one.arrivals is not None]
        gone = [self.accepted, *(one.accepted for one in everyone)]
        again = [self.duplicates, *(one.duplicates for one in everyone)]
        return {
            "connector": self.entry.name,
            "kind": "federation",
            "peer": self.peer(),
            "peer_id": self._company.node,
            "peer_url": "",
            "brought": self.entry.brought,
            **link_report(self.link, now),
            "initiator": True,
            "duplex": False,
            "queue": "",
            "forwards": "",
            "demand": sorted(one.wish.queue for one in self.readers.values()),
            "demands": len(self.readers),
            "received": sum(gone) + sum(one.accepted for one in arrivals),
            "duplicates": sum(again) + sum(one.duplicates for one in arrivals),
            "waiting": {one.wish.queue: one.why for one in self.readers.values() if one.why},
            "canary": "ping",
        }
