"""Every option of the wire with every other: versions 1 to 12, tight or loose, cache, size prefix.

What the Java marshallers wrote is carried through all 96 formats, and broken in them octet by octet.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from entrepot.base.errors import PeerError
from entrepot.protocols.openwire.codec import Decoder, Encoder
from entrepot.protocols.openwire.frames import Structure
from entrepot.protocols.openwire.negotiation import WireFormat

from .examples import VERSIONS, format_of, plain, vectors

SWITCHES = list(product((False, True), (0, 1024), (True, False)))  # tight, cache, size prefix
CHUNK = 1009  # prime: frames are cut everywhere
BAD_OCTETS = (0x00, 0x7F, 0x80, 0xFF)
SIZE_OCTETS = 4
STRIDE = 23  # octets between two places that are tried; each format begins elsewhere


def _written_by_java() -> dict[int, list[Structure]]:
    """Return what the vectors say, by version; loose and without a cache, as each stands for itself."""
    found: dict[int, list[Structure]] = {}
    for vector in vectors():
        if vector["mode"] == 0:
            decoder = Decoder(format_of(vector))
            found.setdefault(vector["v"], []).extend(decoder.feed(bytes.fromhex(vector["hex"])))
    return found


JAVA = _written_by_java()


def commands_for(version: int) -> list[Structure]:
    """Return those of the newest version of the vectors that a peer of ``version`` understands whole."""
    return JAVA[max(known for known in JAVA if known <= version)]


def one_of_each(version: int) -> Iterator[Structure]:
    yield from {type(command): command for command in commands_for(version)}.values()


@pytest.mark.parametrize(("tight", "cache_size", "size_prefix"), SWITCHES)
@pytest.mark.parametrize("version", VERSIONS)
def test_what_java_wrote_goes_through_every_format(
    version: int, tight: bool, cache_size: int, size_prefix: bool
) -> None:
    wire_format = WireFormat(version=version, tight=tight, cache_size=cache_size, size_prefix=size_prefix)
    encoder, decoder = Encoder(wire_format), Decoder(wire_format)
    sent = commands_for(version)
    octets = b"".join(encoder.encode(command) for command in [*sent, *sent])  # the second time out of the cache
    received: list[Structure] = []
    for at in range(0, len(octets), CHUNK):
        received += decoder.feed(octets[at : at + CHUNK])
    decoder.check()
    assert decoder.buffered() == 0
    assert len(received) == 2 * len(sent) > 200
    said = plain(sent)
    assert plain(received) == [*said, *said]


def outcome(wire_format: WireFormat, octets: bytes) -> str:
    """Return what a fresh decoder makes of ``octets``: how many commands, or the code of the error."""
    decoder = Decoder(wire_format)
    try:
        received = decoder.feed(octets)
        decoder.check()
    except PeerError as error:
        return error.code
    return str(len(received))


@pytest.mark.parametrize(("tight", "cache_size", "size_prefix"), SWITCHES)
@pytest.mark.parametrize("version", [1, 12])
def test_a_frame_that_ends_too_early_is_refused_or_waited_for(
    version: int, tight: bool, cache_size: int, size_prefix: bool
) -> None:
    wire_format = WireFormat(version=version, tight=tight, cache_size=cache_size, size_prefix=size_prefix)
    for command in one_of_each(version):
        frame = Encoder(wire_format).encode(command)
        assert outcome(wire_format, frame) == "1"
        for end in range(1 + SWITCHES.index((tight, cache_size, size_prefix)), len(frame), STRIDE):
            assert outcome(wire_format, frame[:end]) == "0", "more may come"
            if size_prefix and end > SIZE_OCTETS:
                short = (end - SIZE_OCTETS).to_bytes(SIZE_OCTETS, "big") + frame[SIZE_OCTETS:end]
                assert outcome(wire_format, short).startswith("ENT-"), (command, end)


@pytest.mark.parametrize(("tight", "cache_size", "size_prefix"), SWITCHES)
@pytest.mark.parametrize("version", [1, 12])
def test_an_octet_that_is_wrong_raises_nothing_but_a_peer_error(
    version: int, tight: bool, cache_size: int, size_prefix: bool
) -> None:
    wire_format = WireFormat(
        version=version, tight=tight, cache_size=cache_size, size_prefix=size_prefix, max_frame_size=1 << 20
    )
    refused = 0
    for command in one_of_each(version):
        frame = Encoder(wire_format).encode(command)
        for at in range(SWITCHES.index((tight, cache_size, size_prefix)), len(frame), STRIDE):
            bad = BAD_OCTETS[at // STRIDE % len(BAD_OCTETS)]
            refused += outcome(wire_format, frame[:at] + bytes([bad]) + frame[at + 1 :]).startswith("ENT-")
    assert refused > 20
