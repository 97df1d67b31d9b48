"""The connection to one downstream: a broker that is told to fetch from here, while the connection is there.

It opens a session, so that the other broker knows who asks, and sends the description of the upstream. Nothing answers
one that is obeyed. One that is refused is told so by a broker of this program; Artemis from 2.52 on closes the
connection. Either way the link waits, as it does when a connection breaks, and tries again: rights may be given
meanwhile. What is deployed ends with the connection, on both sides, and is deployed anew with the next one.
"""

from __future__ import annotations

from typing import Final

from entrepot.base.environment import KIB, Instant
from entrepot.base.uri import authority
from entrepot.cluster.dialled import Perform, Say, link_report
from entrepot.cluster.federation.description import described
from entrepot.cluster.federation.options import DownstreamEntry
from entrepot.cluster.federation.peer import SESSIONS, FederationPeer, PeerConnector
from entrepot.cluster.link import LinkCore, State
from entrepot.core.broker import BrokerCore
from entrepot.model.ids import UUID_OCTETS, uuid_text
from entrepot.protocols.artemis.client import CoreClient
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

FEDERATION: Final = 4  # a channel of the protocol
SESSION: Final = 10
DOWNSTREAM_NAME: Final = "federation-downstream-name"
LARGE_OCTETS: Final = 100 * KIB
UNLIMITED: Final = -1


class Downstream(FederationPeer):
    """One of one federation, while it is started."""

    word = "downstream"

    def __init__(self, broker: BrokerCore, entry: DownstreamEntry, link: LinkCore, driver: Perform, say: Say) -> None:
        """See `FederationPeer`."""
        super().__init__(broker, entry, link, driver, say)
        self._brings: Final = entry
        self._attempt = 0
        self._sent = False  # the description, over this connection
        self._said = ""  # as the operator was told last

    def say(self, what: str) -> None:
        """Tell the operator; what repeats with every attempt once."""
        if self._said != what:
            self._said = what
            super().say(what)

    # -- what the other broker says ------------------------------------------------------------------------------------

    def greeted(self, client: CoreClient, attempt: int) -> None:
        """The other broker greets: open a session."""
        node = self.met(client, attempt)
        if node is None:
            return
        self.client, self._attempt, self.node = client, attempt, node
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
        if isinstance(packet, ExceptionReply):
            if packet.channel in (SESSIONS, FEDERATION):
                self._refused(packet.text or f"code {packet.code}")
        elif isinstance(packet, CreateSessionReply):
            self._deploy(client)
        elif isinstance(packet, Ping):
            self._alive()
        elif isinstance(packet, ClusterTopology):
            self.located(packet)

    def _deploy(self, client: CoreClient) -> None:
        """The session is open."""
        if self.link.state is not State.OPENING:
            return
        entry = self._brings
        for key, data in ((FEDERATION_NAME, entry.federation), (DOWNSTREAM_NAME, entry.options.name)):
            client.send(AddMetadata(key=key, data=data, channel=SESSION))
        client.send(FederationDownstreamConnect(description=described(entry), channel=FEDERATION))
        self._sent = True
        self.probe()

    def _alive(self) -> None:
        """What was said before the ping is done: a broker answers in order, and a refusal would have come first."""
        if self.link.state is not State.OPENING:
            self.answered()
        elif self._sent:
            self.link.opened(self.now())
            self.say(f"it is deployed to the broker at {self.peer()}")
            self.watch()

    def _refused(self, what: str) -> None:
        why = f"the other broker refuses: {what}"
        self.say(why)
        client, self.client = self.client, None
        if client is not None:
            self.shut(client, why)
        self.perform(self.link.failed(self._attempt, why, self.now()))

    def report(self, now: Instant) -> dict[str, object]:
        """Return what an operator wants to know; times in ms, the round trip in us, -1 for what never was."""
        entry = self._brings
        return {
            "connector": entry.name,
            "kind": "downstream",
            "peer": self.peer(),
            "peer_id": self.node,
            "peer_url": "",
            **link_report(self.link, now),
            "initiator": True,
            "duplex": False,
            "deployed": [*(one.name for one in entry.queues), *(one.name for one in entry.addresses)],
            "back": authority(entry.back),
            "canary": "ping",
        }


class DownstreamConnector(PeerConnector[DownstreamEntry, Downstream]):
    """One downstream, as operators start and stop it. No message comes over it: a drain waits for nothing."""

    kind = "downstream"

    def made(self, broker: BrokerCore, link: LinkCore, perform: Perform, say: Say) -> Downstream:
        """Return a new one."""
        return Downstream(broker, self.entry, link, perform, say)

    @property
    def downstream(self) -> Downstream | None:
        """It, while it is started."""
        return self.peer
