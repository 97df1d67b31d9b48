"""Any octets as OpenWire: read in any format and any chunks, opened, written again, with nothing raised but PeerError.

The first octet chooses the version, the second the format, the third the size of the chunks; the rest is what the peer
sends.
"""

from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path

from entrepot.base.errors import Inexpressible, PeerError
from entrepot.protocols.openwire.bodies import octets_of, properties_of, text_of_body
from entrepot.protocols.openwire.codec import Decoder, Encoder, decode_first
from entrepot.protocols.openwire.commands import ActiveMQTextMessage, Message, MessageDispatch, WireFormatInfo
from entrepot.protocols.openwire.describe import describe
from entrepot.protocols.openwire.frames import Structure
from entrepot.protocols.openwire.negotiation import WireFormat, WireFormatOptions, offer_of
from entrepot.protocols.openwire.primitives import read_map, read_row, write_row

FRAME_OCTETS_MAX = 1 << 20
INFLATED_OCTETS_MAX = 1 << 16
HEADER_OCTETS = 3
MEMORY_PER_OCTET_MAX = 150
"""Measured: 93 for empty messages in a tight frame, plain Python; nothing else comes near it."""
MEMORY_FIXED_MAX = 1 << 20
VECTORS = Path(__file__).parents[1] / "vectors" / "openwire-5.17.2.jsonl.gz"

TIGHT, CACHED, OPEN, STACKLESS, FIRST, SMALL_CACHE = 1, 2, 4, 8, 16, 32


def fuzz(data: bytes) -> None:
    """Raises PeerError for what a peer may not send, AssertionError for our own mistakes."""
    if len(data) < HEADER_OCTETS:
        return
    flags, chunk, octets = data[1], data[2] or len(data), data[HEADER_OCTETS:]
    wire_format = format_of(data[0], flags)
    decoder = Decoder(wire_format)
    measured = not tracemalloc.is_tracing() and data[0] >= 0xF0  # measuring is slow: one input in sixteen
    if measured:
        tracemalloc.start()
    try:
        commands = received(decoder, octets, chunk)
        if measured:
            used = tracemalloc.get_traced_memory()[1]
            assert used < MEMORY_FIXED_MAX + MEMORY_PER_OCTET_MAX * len(octets), used
    finally:
        if measured:
            tracemalloc.stop()
    for command in commands:
        opened(command)
    written_again(commands, decoder.wire_format if decoder.wire_format.offer is None else WireFormat())
    values(octets)
    decoder.check()


def format_of(version: int, flags: int) -> WireFormat:
    """Return the format that the head of an input chooses."""
    if flags & FIRST:
        everything = WireFormatOptions(tight_encoding_enabled=True, cache_enabled=True, size_prefix_disabled=True)
        return WireFormat.before_agreement(offer_of(everything))
    return WireFormat(
        version=1 + version % 12,
        tight=bool(flags & TIGHT),
        cache_size=(16 if flags & SMALL_CACHE else 1024) if flags & CACHED else 0,
        size_prefix=not flags & OPEN,
        stack_traces=not flags & STACKLESS,
        max_frame_size=FRAME_OCTETS_MAX,
    )


def received(decoder: Decoder, octets: bytes, chunk: int) -> list[Structure]:
    """Return the commands before the first mistake; the decoder keeps the mistake."""
    commands: list[Structure] = []
    for at in range(0, len(octets), chunk):
        try:
            commands += decoder.feed(octets[at : at + chunk])
            decoder.check()
        except PeerError:
            break
        assert decoder.buffered() <= len(octets)
    return commands


def opened(command: Structure) -> None:
    """Open what a command carries."""
    message = command.message if isinstance(command, MessageDispatch) else command
    if not isinstance(message, Message):
        return
    if message.first is not None:
        assert describe(decode_first(message.first)) == describe(message)
    try:
        properties_of(message)
        octets_of(message, inflated_max=INFLATED_OCTETS_MAX)
        if isinstance(message, ActiveMQTextMessage):
            text_of_body(message, inflated_max=INFLATED_OCTETS_MAX)
    except PeerError:
        pass


def written_again(commands: list[Structure], wire_format: WireFormat) -> None:
    """What was read can be written, and then reads the same."""
    encoder, decoder = Encoder(wire_format), Decoder(wire_format)
    for command in commands:
        if isinstance(command, WireFormatInfo):
            continue
        try:
            octets = encoder.encode(command)
        except Inexpressible:  # a text may be longer than we would write it
            continue
        (again,) = decoder.feed(octets)
        assert describe(again) == describe(command)


def values(octets: bytes) -> None:
    """Read the same octets as a map and as a row of values."""
    for read in (read_map, read_row):
        try:
            found = read(octets, typed=True)
        except PeerError:
            continue
        if isinstance(found, list):
            # A float may be a signalling NaN, which Python hands back quiet: compare what is written twice.
            once = write_row(found)
            assert write_row(read_row(once, typed=True)) == once


def _corpus() -> list[bytes]:
    """Return frames by Java, each with the head that chooses its format."""
    kept: dict[tuple[int, int, str], bytes] = {}
    with gzip.open(VECTORS, "rt", encoding="utf-8") as lines:
        for line in lines:
            vector = json.loads(line, strict=False)
            if vector["v"] in (1, 12):
                flags = (TIGHT if vector["mode"] >= 2 else 0) | (CACHED if vector["mode"] % 2 else 0)
                head = bytes([vector["v"] - 1, flags, 0])
                kept.setdefault((vector["v"], flags, vector["cls"]), head + bytes.fromhex(vector["hex"]))
    offer = Encoder(WireFormat()).encode(offer_of(WireFormatOptions(cache_enabled=True)))
    return [*kept.values(), bytes([0, FIRST, 7]) + offer + bytes.fromhex("000000060a0000000500")]


CORPUS = _corpus()
