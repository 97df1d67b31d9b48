"""Broadcast and discovery groups over UDP: who announces itself, and who is heard (artemis.md 1.3, 1.4).

A datagram names a node, a token that its announcer drew at its start, and connectors. Whoever is not heard again for
the refresh timeout is forgotten; that is looked at while datagrams come and when a timer says, so that the last one is
forgotten too (Artemis forgets only while another one is heard). Two tokens under one node id within that time are two
nodes with one id: `Heard.twin` says it, as AMQ212034 does there.

Datagrams are believed by nobody but the cluster's credentials: who forges one makes this broker dial a place, and no
more than `HEARD_MAX` of them.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from entrepot.base.environment import MILLISECOND, Duration, Instant
from entrepot.base.errors import MalformedFrame, PeerError
from entrepot.cluster.clusters.topology import same_place
from entrepot.protocols.artemis.primitives import Connector, PacketReader, PacketWriter
from entrepot.protocols.artemis.schema import VERSION_MAX
from entrepot.protocols.session import NEVER

DATAGRAM_OCTETS_MAX: Final = 65_535
CONNECTORS_MAX: Final = 100  # in one datagram
HEARD_MAX: Final = 1_000
CHANNEL: Final = b"entrepot channel "  # before an announcement for one channel


class BroadcastGroup(Struct, frozen=True, kw_only=True):
    """Where this broker announces itself: in ``directory``, or else by multicast. ``channel``: of JGroups, "" for none.

    ``period``: ns between two announcements; ``local_port`` -1: any."""

    name: str
    address: str
    port: int
    connectors: tuple[Connector, ...]
    local_address: str = ""
    local_port: int = -1
    directory: str = ""
    channel: str = ""
    period: Duration = 2_000 * MILLISECOND


class DiscoveryGroup(Struct, frozen=True, kw_only=True):
    """Where others are heard. ``refresh``: ns after which one that is not heard again is forgotten."""

    name: str
    address: str
    port: int
    local_address: str = ""
    local_port: int = -1
    directory: str = ""
    channel: str = ""
    refresh: Duration = 10_000 * MILLISECOND


class Announcement(Struct, frozen=True):
    """One datagram. ``token`` tells apart two announcers of one ``node``."""

    node: str
    token: str
    connectors: tuple[Connector, ...]


def encode(announcement: Announcement) -> bytes:
    """Return the datagram that says ``announcement``. Raises MalformedFrame for one that no receiver could take."""
    writer = PacketWriter(VERSION_MAX)
    writer.text(announcement.node)
    writer.text(announcement.token)
    writer.int32(len(announcement.connectors))
    for connector in announcement.connectors:
        writer.connector(connector)
    data = writer.out.getvalue()
    if len(data) > DATAGRAM_OCTETS_MAX:
        raise MalformedFrame(f"an announcement of {len(data)} octets does not fit a datagram")
    return data


def wrapped(data: bytes, channel: str) -> bytes:
    """Return an announcement for the members of ``channel`` alone; "" is none, and is as Artemis has it."""
    return b"".join((CHANNEL, channel.encode(), b"\0", data)) if channel else data


def unwrapped(data: bytes, channel: str) -> bytes:
    """Return the announcement in ``data``. Raises MalformedFrame for one that is for another channel, or for none."""
    head = wrapped(b"", channel)
    if not data.startswith(head):
        raise MalformedFrame("an announcement for members of another channel")
    return data[len(head) :]


def decode(data: bytes) -> Announcement:
    """Return what a datagram says; octets behind it are ignored, as Artemis does. Raises PeerError."""
    if len(data) > DATAGRAM_OCTETS_MAX:
        raise MalformedFrame(f"an announcement of {len(data)} octets")
    reader = PacketReader(data, 0, len(data), VERSION_MAX)
    try:
        node, token = reader.text(), reader.text()
        count = int(reader.int32())
        if not 0 <= count <= CONNECTORS_MAX:
            raise MalformedFrame(f"an announcement of {count} connectors")
        return Announcement(node, token, tuple(reader.connector() for _ in range(count)))
    except UnicodeDecodeError as error:
        raise MalformedFrame(f"an announcement is no text: {error.reason}") from None


class Found(Struct, frozen=True):
    """A node announces itself at ``connector``, which is news."""

    node: str
    connector: Connector


class Lost(Struct, frozen=True):
    """A node is not announced at ``connector`` any more."""

    node: str
    connector: Connector


class Twin(Struct, frozen=True):
    """Two announcers have the id ``node``: AMQ212034 of Artemis."""

    node: str


Event = Found | Lost | Twin


class _Entry:
    """Who was heard. ``until``: when he is forgotten."""

    def __init__(self, announcement: Announcement, connector: Connector, until: Instant) -> None:
        self.token: Final = announcement.token
        self.connector: Final = connector
        self.until: Final = until


class Hearing:
    """Who is heard in one group. ``own``: this node's id; ``tokens``: those that it announces itself with."""

    def __init__(self, group: DiscoveryGroup, own: str, tokens: dict[str, None]) -> None:
        self.group: Final = group
        self.malformed = 0  # datagrams
        self._own: Final = own
        self._tokens: Final = tokens
        self._entries: dict[str, _Entry] = {}
        self._told: dict[str, str] = {}  # node -> the token with which two were told apart last

    def heard(self, data: bytes, now: Instant) -> list[Event]:
        """Take one datagram."""
        events = self.advance(now)
        try:
            announcement = decode(unwrapped(data, self.group.channel))
        except PeerError:
            self.malformed += 1
            return events
        node = announcement.node
        if node == self._own:
            if announcement.token not in self._tokens:
                events += self._twin(node, announcement.token)
            return events
        if not announcement.connectors:
            return events
        connector = announcement.connectors[-1]  # as Artemis: the last one counts
        known = self._entries.get(node)
        if known is None and len(self._entries) >= HEARD_MAX:
            return events
        self._entries[node] = _Entry(announcement, connector, now + self.group.refresh)
        if known is not None and known.token != announcement.token:
            events += self._twin(node, announcement.token)
        if known is not None and not same_place(known.connector, connector):
            events.append(Lost(node, known.connector))
        if known is None or not same_place(known.connector, connector):
            events.append(Found(node, connector))
        return events

    def advance(self, now: Instant) -> list[Event]:
        """Forget whoever was not heard for too long."""
        events: list[Event] = []
        for node, entry in list(self._entries.items()):
            if entry.until <= now:
                del self._entries[node]
                self._told.pop(node, None)
                events.append(Lost(node, entry.connector))
        return events

    def deadline(self) -> Instant:
        """Return when somebody is to be forgotten, NEVER for nobody."""
        return min((entry.until for entry in self._entries.values()), default=NEVER)

    def report(self) -> list[dict[str, object]]:
        """Return who is heard, for people."""
        return [{"node": node, "connector": entry.connector.name} for node, entry in self._entries.items()]

    def _twin(self, node: str, token: str) -> list[Event]:
        if self._told.get(node) == token or len(self._told) >= HEARD_MAX:
            return []
        self._told[node] = token
        return [Twin(node)]
