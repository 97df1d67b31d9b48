"""Plays recorded conversations of Artemis' own client against the server core, and shows both sides as text.

A recording is what a client and a real Artemis said (tests/vectors/core-conversations). Here the client's frames go in
as they were recorded, and what our server says is compared, channel by channel, with what Artemis said. Numbers that
the broker chooses are put into the client's frames: it acknowledges by them.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from entrepot.core.addressing.definition import QueueDefinition
from entrepot.protocols.artemis import packets
from entrepot.protocols.artemis.acceptor import CoreAcceptor
from entrepot.protocols.artemis.codec import PREFACE, Decoder, Encoder
from entrepot.protocols.artemis.headers import headers_at, properties_in, read_headers
from entrepot.protocols.artemis.options import CoreOptions
from entrepot.protocols.artemis.packets import Packet
from entrepot.protocols.artemis.server import CoreServerSession
from entrepot.protocols.session import Shell
from kit import Rig

RECORDINGS = Path(__file__).parents[3] / "vectors" / "core-conversations"
NOT_SAID = ("channel", "form", "octets")
NEWEST = 136
OF_THE_BROKER = (
    "_AMQ_ORIG_MESSAGE_ID",
    "_AMQ_ORIG_ROUTING_TYPE",
    "_AMQ_ROUTING_TYPE",
    "deliveryCount",
    "dlqDeliveryFailureCause",
)
"""Of dead letters: what each broker says its own way."""

Line = tuple[int, str]
"""A channel, and what was said there."""


def lines(name: str) -> Iterator[dict[str, Any]]:
    """Yield the lines of one recording."""
    with gzip.open(RECORDINGS / f"{name}.jsonl.gz", "rt") as file:
        for text in file:
            yield json.loads(text)


class Shown(Shell):
    """Remembers nothing: the player asks for what there is to say."""


class Player:
    """One recording, played. ``said`` and ``expected``: what we said, and Artemis, as lines; by connection."""

    def __init__(self, name: str, rig: Rig) -> None:
        self.name = name
        self.rig = rig
        self.acceptor = CoreAcceptor(rig.broker)
        self.sessions: dict[int, CoreServerSession] = {}
        self.ours: dict[int, Decoder] = {}
        self.theirs: dict[int, Decoder] = {}
        self.clients: dict[int, Decoder] = {}
        self.said: dict[int, list[Line]] = {}
        self.expected: dict[int, list[Line]] = {}
        self.numbers: dict[int, int] = {}  # message number of Artemis -> ours
        self.theirs_waiting: list[tuple[bytes, int]] = []
        self.ours_waiting: list[tuple[bytes, int]] = []
        self.encoder = Encoder()
        self.encoder.speak(NEWEST)

    def play(self) -> None:
        """Play all of it."""
        for line in lines(self.name):
            event = line.get("event")
            if event == "open":
                self._open(line["conn"])
            elif event == "close":
                self._close(line["conn"])
            elif event is None:
                octets = bytes.fromhex(line["hex"])
                if line["dir"] == "c>s":
                    self._client(line["conn"], octets)
                else:
                    self._server(line["conn"], octets)

    def _open(self, number: int) -> None:
        rig = self.rig
        rig.now += 1_000_000
        rig.broker.tick(rig.now, rig.wall)
        self.sessions[number] = CoreServerSession(Shown(), self.acceptor, CoreOptions(), number + 1, f"peer-{number}")
        for decoders in (self.ours, self.theirs):
            decoders[number] = Decoder(preface=False)
            decoders[number].speak(NEWEST)
        self.clients[number] = Decoder(preface=False)
        self.clients[number].speak(NEWEST)
        self.said[number] = []
        self.expected[number] = []

    def _close(self, number: int) -> None:
        session = self.sessions[number]
        session.receive(b"", self.rig.now)
        session.detach("closed", self.rig.now)
        self.rig.turn()

    def _client(self, number: int, octets: bytes) -> None:
        rig = self.rig
        rig.now += 1_000
        rig.broker.tick(rig.now, rig.wall)
        session = self.sessions[number]
        session.receive(self._translated(number, octets), rig.now)
        for _ in range(100):
            self._collect(number)
            rig.turn()
            while rig.broker.effort.waits():
                rig.broker.effort.go_on()
            if session.unfinished:
                session.resume(rig.now)
            if not session.pending():
                break

    def _collect(self, number: int) -> None:
        for other, session in self.sessions.items():
            data = session.outgoing()
            if data:
                for packet in self.ours[other].feed(data):
                    self.said[other].append(self._line(packet, self.ours_waiting))

    def _server(self, number: int, octets: bytes) -> None:
        for packet in self.theirs[number].feed(octets):
            self.expected[number].append(self._line(packet, self.theirs_waiting))

    def _line(self, packet: Packet, seen: list[tuple[bytes, int]]) -> Line:
        note(packet, seen)
        return int(packet.channel), said(packet)

    def _translated(self, number: int, octets: bytes) -> bytes:
        """Return a frame of the client with our numbers in place of Artemis'."""
        if octets == PREFACE:
            return octets
        packet = self.clients[number].feed(octets)[0]
        if isinstance(packet, (packets.Acknowledge, packets.IndividualAcknowledge, packets.Expired)):
            key = next(key for key, theirs in self.theirs_waiting if theirs == packet.message)
            packet.message = next(ours for known, ours in reversed(self.ours_waiting) if known == key)
            return self.encoder.encode(packet)
        if isinstance(packet, packets.CheckForFailover):
            packet.node = self.rig.broker.ids.node.uuid_text
            return self.encoder.encode(packet)
        return octets


def note(packet: Packet, seen: list[tuple[bytes, int]]) -> None:
    """Remember which number a delivered message has, by what its sender calls it."""
    octets = b""
    at = 0
    if isinstance(packet, packets.Receive):
        octets, at = packet.message, int(headers_at(packet.message))
    elif isinstance(packet, packets.ReceiveLarge):
        octets = packet.headers
    if octets:
        headers = read_headers(octets, at)
        seen.append((headers.user_id + octets[4:at], int(headers.number)))


def said(packet: Packet) -> str:
    """Return a packet as text, without what differs from broker to broker."""
    fields: dict[str, object] = {}
    for name in dir(packet):
        value = getattr(packet, name)
        if name.startswith("_") or name in NOT_SAID or callable(value):
            continue
        fields[name] = value
    if isinstance(packet, packets.ClusterTopology):
        fields["node"] = fields["event"] = "*"
    elif isinstance(packet, packets.ExceptionReply) or (isinstance(packet, packets.XaReply) and packet.error):
        fields["text"] = "*"
    elif isinstance(packet, packets.QueueQueryReply):
        fields["configuration_managed"] = "*"
    elif isinstance(packet, packets.BindingQueryReply):
        fields["queues"] = sorted(packet.queues)
    elif isinstance(packet, packets.Receive):
        fields["message"] = message_text(packet.message, int(headers_at(packet.message)))
    elif isinstance(packet, packets.ReceiveLarge):
        fields["headers"] = message_text(packet.headers, 0)
    elif isinstance(packet, packets.ReceiveContinuation):
        fields["body"] = len(packet.body)
    return f"{type(packet).__name__} " + " ".join(f"{name}={value}" for name, value in fields.items())


def message_text(octets: bytes, at: int) -> str:
    """Return a message as text."""
    headers = read_headers(octets, at)
    whole = octets if at else (13).to_bytes(4, "big") + octets
    properties = sorted(f"{name}={value}" for name, value in properties_in(whole).items() if name not in OF_THE_BROKER)
    body = octets[4:at].hex()[:200]
    return (
        f"({headers.kind} {headers.address} {headers.user_id.hex()} durable={headers.durable} "
        f"expires={headers.expiration} time={headers.timestamp} priority={headers.priority} {body} {properties})"
    )


def by_channel(spoken: list[Line]) -> dict[str, list[str]]:
    """Return what was said on each channel, and to each consumer there, in order.

    Pings do not count, nor how often it is confirmed what came; Artemis delivers on other threads than it answers on.
    """
    found: dict[str, list[str]] = {}
    for channel, text in spoken:
        if text.startswith("Credits"):
            found.setdefault(f"{channel}, credits", []).append(text)
        elif text.startswith("Receive"):
            consumer = text.partition(" consumer=")[2].split()[0]
            found.setdefault(f"{channel}, consumer {consumer}", []).append(text)
        elif not text.startswith(("Ping", "PacketsConfirmed")):
            found.setdefault(str(channel), []).append(text)
    return found


def broker_of_recording() -> Rig:
    """Return a broker set as Artemis was (its single.xml)."""
    rig = Rig(
        max_deliveries="3",
        dead_letter_address="DLQ",
        expiry_address="ExpiryQueue",
        auto_delete="false",
        auto_delete_delay="0",
        group_first_key="",
        auto_create="true",
    )
    for queue in ("DLQ", "ExpiryQueue"):
        rig.broker.queues.create(QueueDefinition(name=queue, address=queue))
    return rig
