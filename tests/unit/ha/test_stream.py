"""Frames of replication: whole or not at all, and no name leads out of a store."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.errors import ProtocolViolation
from entrepot.ha.stream import DROP, FRAME_MAX, WRITE, Frame, Frames, encode, is_file_name

NAME = "016777216-016777216-00000000000001-00000000000000.seg"


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=300)), max_size=5), st.data())
def test_frames_come_back_from_any_pieces(rows: list[tuple[int, bytes]], data: st.DataObject) -> None:
    octets = b"".join(encode(Frame(WRITE, NAME, first=first, octets=body)) for first, body in rows)
    cut = data.draw(st.integers(0, len(octets)))
    frames = Frames()
    found = frames.feed(octets[:cut]) + frames.feed(octets[cut:])
    assert [(each.kind, each.name, each.first, each.octets) for each in found] == [
        (WRITE, NAME, first, body) for first, body in rows
    ]
    assert sum(each.size for each in found) == len(octets)


@pytest.mark.parametrize("place", [9, 20, 40])
def test_a_flipped_bit_is_noticed(place: int) -> None:
    octets = bytearray(encode(Frame(WRITE, NAME, first=7, octets=b"x" * 50)))
    octets[place] ^= 4
    with pytest.raises(ProtocolViolation, match="checksum"):
        Frames().feed(bytes(octets))


def test_a_stranger_is_refused_by_his_first_octets() -> None:
    with pytest.raises(ProtocolViolation, match="no frame"):
        Frames().feed(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(ProtocolViolation, match="no frame"):
        Frames().feed((FRAME_MAX + 1).to_bytes(4, "big") + bytes(4) + bytes([WRITE]))


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/x.seg", "a/b.seg", ".hidden.seg", "replica.json", "..seg"])
def test_no_name_leads_out_of_the_store(name: str) -> None:
    assert not is_file_name(name)
    with pytest.raises(ProtocolViolation, match="no name of a file"):
        Frames().feed(encode(Frame(DROP, name)))


@pytest.mark.parametrize("name", [NAME, NAME + ".tmp", "1099511627777.blob"])
def test_files_of_a_store_have_names(name: str) -> None:
    assert is_file_name(name)
