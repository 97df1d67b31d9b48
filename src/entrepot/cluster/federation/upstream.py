"""The connection to one upstream: dialled while the broker runs, with a session for each wish (artemis.md 4.12).

What is wanted of the upstream is in `Demand`; here each wish gets its `RemoteReader`, and each packet its reader.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from entrepot.base.environment import Instant
from entrepot.cluster.dialled import Perform, Say, link_report
from entrepot.cluster.federation.demand import Demand
from entrepot.cluster.federation.options import UpstreamEntry
from entrepot.cluster.federation.peer import SESSIONS, FederationPeer
from entrepot.cluster.federation.reader import Company, RemoteReader
from entrepot.cluster.link import LinkCore
from entrepot.core.broker import BrokerCore
from entrepot.protocols.artemis.client import CoreClient
from entrepot.protocols.artemis.linking.places import unknown_store
from entrepot.protocols.artemis.packets import (
    ClusterTopology,
    CreateSessionReply,
    ExceptionReply,
    Packet,
    Ping,
)

CHANNEL_FIRST: Final = 10  # those below are the protocol's own


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


class Upstream(FederationPeer):
    """One of one federation. ``readers``: by the keys of their wishes; ``leaving``: that nobody wants any more."""

    word = "upstream"

    def __init__(self, broker: BrokerCore, entry: UpstreamEntry, link: LinkCore, driver: Perform, say: Say) -> None:
        """See `FederationPeer`."""
        super().__init__(broker, entry, link, driver, say)
        self.readers: dict[tuple[str, str, int], RemoteReader] = {}
        self.leaving: dict[RemoteReader, None] = {}
        self.accepted = 0  # of readers that are gone
        self.duplicates = 0
        self.demand: Final = Demand(broker, entry, self._wanted)
        self._company: Final = _Company(self)
        self._entering: deque[RemoteReader] = deque()  # who waits for an answer on the channel of sessions
        self._channels: dict[int, RemoteReader] = {}
        self._channel = CHANNEL_FIRST
        self._refused = ""  # why the last connection was of no use, as the operator was told

    # -- its life ------------------------------------------------------------------------------------------------------

    def begin(self, now: Instant) -> None:
        """See what is wanted, and dial."""
        self.demand.begin()
        super().begin(now)

    def retire(self) -> None:
        """Want nothing more; what is here and not acknowledged yet is let be so."""
        self.demand.end()
        self._wanted()

    def close(self, why: str) -> None:
        """End it."""
        self.demand.end()
        for reader in [*self.readers.values(), *self.leaving]:
            reader.close()
        super().close(why)

    def is_busy(self) -> bool:
        """Return whether something that came is not acknowledged yet."""
        return any(reader.arrivals is not None and reader.arrivals.pending > 0 for reader in self.everyone())

    def everyone(self) -> list[RemoteReader]:
        """Return all readers, those that end too."""
        return [*self.readers.values(), *self.leaving]

    def greeted(self, client: CoreClient, attempt: int) -> None:
        """The upstream greets: have a session for every wish."""
        node = self.met(client, attempt)
        if node is None:
            return
        if not node:
            self._refuse(client, unknown_store(len(client.members)), attempt)
            return
        self.link.opened(self.now())
        self.client = self._company.client = client
        self.node = self._company.node = node
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
        self.shut(client, why)
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
        if packet.channel == SESSIONS:
            self._entered(packet)
        elif isinstance(packet, Ping):
            self.answered()
        elif isinstance(packet, ClusterTopology):
            self.located(packet)
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

    # -- what the link asks of its dialect -----------------------------------------------------------------------------

    def lost(self, why: str) -> None:
        """The link gave the connection up."""
        self._company.client = None
        self._entering.clear()
        self._channels.clear()
        for reader in self.everyone():
            reader.lost(why)
        super().lost(why)

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
            "peer_id": self.node,
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
