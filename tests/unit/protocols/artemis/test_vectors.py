"""Every frame that Artemis' own classes wrote is read to the values they had, and written back octet for octet."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import pytest

from entrepot.protocols.artemis import schema
from entrepot.protocols.artemis.codec import Decoder, Encoder

from .examples import decoded, described, vectors

CLOSED = ("message", "headers", "paged", "data", "record", "description")


def kind_of(vector: dict[str, Any]) -> tuple[int, str, int]:
    return vector["id"], vector["packet"], vector["version"]


KINDS = {kind: list(lines) for kind, lines in groupby(sorted(vectors(), key=kind_of), key=kind_of)}


def test_the_vectors_are_all_there() -> None:
    assert len(vectors()) == 2269
    written = {number for number, _, _ in KINDS}
    tabled = {number for each in schema.PACKETS for number, _ in each.forms}
    assert written == tabled - {-16}  # federation alone has no vectors


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_value_is_read_as_java_had_it(kind: tuple[int, str, int]) -> None:
    for vector in KINDS[kind]:
        packet = decoded(vector)
        assert packet.channel == vector["channel"]
        found = {name: value for name, value in described(packet, vector["version"]).items() if name not in CLOSED}
        wanted = {name: value for name, value in vector["fields"].items() if name not in CLOSED}
        if vector["packet"] == "ReplicationSyncFileMessage" and wanted["body"] is None:
            del wanted["body"]  # the end of a file has none, which the table says by ``when``
        assert found == wanted, vector["index"]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_what_is_read_is_written_octet_for_octet(kind: tuple[int, str, int]) -> None:
    encoder = Encoder()
    for vector in KINDS[kind]:
        encoder.speak(vector["version"])
        assert encoder.encode(decoded(vector)).hex() == vector["hex"], vector["index"]


@pytest.mark.parametrize("version", sorted({vector["version"] for vector in vectors()}))
def test_one_octet_at_a_time_gives_the_same(version: int) -> None:
    frames = [bytes.fromhex(vector["hex"]) for vector in vectors() if vector["version"] == version][:200]
    whole, dripped = Decoder(preface=True), Decoder(preface=True)
    whole.speak(version)
    dripped.speak(version)
    stream = b"ARTEMIS" + b"".join(frames)
    together = whole.feed(stream)
    apart = [packet for at in range(len(stream)) for packet in dripped.feed(stream[at : at + 1])]
    assert len(together) == len(apart) == len(frames)
    encoder = Encoder()
    encoder.speak(version)
    assert [encoder.encode(one) for one in together] == [encoder.encode(one) for one in apart] == frames
    assert whole.buffered() == dripped.buffered() == 0
