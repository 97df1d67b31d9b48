"""Any octets as CORE: read in any version and any chunks, opened, written again, with nothing raised but PeerError.

The first octet chooses the version of the channel, the second the size of the chunks; the rest is what the peer sends.
"""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path

from entrepot.base.errors import Inexpressible, PeerError
from entrepot.base.primitive import plain
from entrepot.protocols.artemis.arriving import large_message_of, message_of
from entrepot.protocols.artemis.bodies import map_body, map_of, object_of, stream_body, stream_of, text_of
from entrepot.protocols.artemis.codec import Decoder, Encoder
from entrepot.protocols.artemis.convert import passes, presented
from entrepot.protocols.artemis.packets import Packet, Receive, ReceiveLarge, Send, SendLarge
from entrepot.protocols.artemis.schema import VERSION_MAX, VERSION_MIN

FRAME_OCTETS_MAX = 1 << 20
HEADER_OCTETS = 2
MEMORY_PER_OCTET_MAX = 150
"""As for OpenWire: the smallest packet is 13 octets, and an empty entry of a list 4."""
MEMORY_FIXED_MAX = 1 << 20
VECTORS = Path(__file__).parents[1] / "vectors" / "core-2.42.0.jsonl.gz"


def fuzz(data: bytes) -> None:
    """Raises PeerError for what a peer may not send, AssertionError for our own mistakes."""
    if len(data) < HEADER_OCTETS:
        return
    version = VERSION_MIN - 1 + data[0] % (VERSION_MAX - VERSION_MIN + 2)  # the first one: not known yet
    version = 0 if version < VERSION_MIN else version
    octets = data[HEADER_OCTETS:]
    decoder = Decoder(preface=data[0] >= 0x80, frame_max=FRAME_OCTETS_MAX)
    decoder.speak(version)
    measured = not tracemalloc.is_tracing() and data[0] >= 0xF0  # measuring is slow: one input in sixteen
    if measured:
        tracemalloc.start()
    try:
        packets = received(decoder, octets, data[1] or len(data))
        if measured:
            used = tracemalloc.get_traced_memory()[1]
            assert used < MEMORY_FIXED_MAX + MEMORY_PER_OCTET_MAX * len(octets), used
    finally:
        if measured:
            tracemalloc.stop()
    for packet in packets:
        written_again(packet, version)
        opened(packet)
    values(octets)
    decoder.check()


def received(decoder: Decoder, octets: bytes, chunk: int) -> list[Packet]:
    """Return the packets before the first mistake; the decoder keeps the mistake."""
    packets: list[Packet] = []
    for at in range(0, len(octets), chunk):
        try:
            packets += decoder.feed(octets[at : at + chunk])
            decoder.check()
        except PeerError:
            break
        assert decoder.buffered() <= len(octets)
    return packets


def written_again(packet: Packet, version: int) -> None:
    """What was read can be written, and is written the same once it was read again."""
    encoder, decoder = Encoder(), Decoder(preface=False)
    encoder.speak(version)
    decoder.speak(version)
    once = encoder.encode(packet)
    (again,) = decoder.feed(once)
    assert type(again) is type(packet)
    assert encoder.encode(again) == once


def opened(packet: Packet) -> None:
    """Open the message that a packet carries, and say it as a reader of CORE hears it."""
    try:
        if isinstance(packet, Send | Receive):
            message = message_of(packet.message, "default")
        elif isinstance(packet, SendLarge | ReceiveLarge):
            message = large_message_of(packet.headers, "default")
        else:
            return
    except PeerError:
        return
    assert passes(message)
    message.common()
    message.language.identity(message)
    for name in ("JMSMessageID", "JMSDestination", "JMSXGroupID", "AMQUserID", "a"):
        message.fact(name)
    message.language.changed(message)
    again = message_of(presented(message, 1, ""), "")
    assert again.common().properties == message.common().properties or has_nan(message.common().properties)


def has_nan(properties: dict[str, object]) -> bool:
    """Tell whether a value is not even equal to itself."""
    return any(value != value for value in properties.values())


def values(octets: bytes) -> None:
    """Read the same octets as every kind of body."""
    for read in (text_of, object_of):
        try:
            read(octets)
        except PeerError:
            continue
    try:
        row = stream_of(octets, typed=True)
        once = stream_body(row)
        assert stream_body(stream_of(once, typed=True)) == once
    except PeerError:
        pass
    try:
        entries = map_of(octets, typed=True)
        once = map_body(entries)
        assert map_body(map_of(once, typed=True)) == once
        plain(entries)
    except (PeerError, Inexpressible):
        pass


def _corpus() -> list[bytes]:
    """Return frames by Java, each with the octet that chooses its version."""
    kept: dict[tuple[int, str, int], bytes] = {}
    with gzip.open(VECTORS, "rt", encoding="utf-8") as lines:
        for line in lines:
            vector = json.loads(line, strict=False)
            message = vector["fields"].get("message")
            kind = message.get("type", 0) if isinstance(message, dict) else 0
            head = bytes([vector["version"] - VERSION_MIN + 1, 0])
            kept.setdefault((vector["version"], vector["packet"], kind), head + bytes.fromhex(vector["hex"]))
    return [*kept.values(), b"\x90\7ARTEMIS" + bytes.fromhex("000000110900000000000000000000000000000000")]


CORPUS = _corpus()
