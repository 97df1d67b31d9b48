"""Frames and values: bounds, any chunks, and everything hypothesis thinks of."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from entrepot.base.errors import LimitExceeded, MalformedFrame, PeerError, ProtocolViolation
from entrepot.base.primitive import BYTE, CHAR, DOUBLE, FLOAT, INT, LONG, SHORT, Primitive
from entrepot.protocols.amqp import performatives as said
from entrepot.protocols.amqp.codec import Decoder, Encoder, Frame, header
from entrepot.protocols.amqp.primitives import DEPTH_MAX, Described, Exact, Source
from entrepot.protocols.amqp.writing import write_value

from .described import described

TEXT = st.text(st.characters(codec="utf-8"), max_size=300)
NUMBERS = st.one_of(
    st.integers(-(1 << 63), (1 << 64) - 1),
    st.integers(-128, 127).map(lambda each: Primitive(BYTE, each)),
    st.integers(-(1 << 15), (1 << 15) - 1).map(lambda each: Primitive(SHORT, each)),
    st.integers(-(1 << 31), (1 << 31) - 1).map(lambda each: Primitive(INT, each)),
    st.integers(-(1 << 63), (1 << 63) - 1).map(lambda each: Primitive(LONG, each)),
    st.floats(allow_nan=False, width=32).map(lambda each: Primitive(FLOAT, each)),
    st.floats(allow_nan=False).map(lambda each: Primitive(DOUBLE, each)),
    st.characters(codec="utf-8", max_codepoint=0xFFFF).map(lambda each: Primitive(CHAR, each)),
)
LEAVES = st.one_of(st.none(), st.booleans(), NUMBERS, st.floats(allow_nan=False), TEXT, st.binary(max_size=300))
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.dictionaries(TEXT, inner, max_size=5),
        st.builds(Described, st.integers(0, (1 << 64) - 1), inner),
    ),
    max_leaves=12,
)


def octets_of(value: object) -> bytes:
    out = BytesWriter()
    write_value(out, value)
    return out.getvalue()


def read(octets: bytes, typed: bool = False) -> object:
    source = Source(octets, 0, len(octets))
    value = source.value(typed)
    assert source.at == len(octets)
    return value


@given(VALUES)
def test_any_value_is_written_and_read(value: Any) -> None:
    once = octets_of(value)
    assert octets_of(read(once, True)) == once


@given(st.binary(max_size=200))
def test_any_octets_are_read_or_refused(octets: bytes) -> None:
    for typed in (False, True):
        try:
            Source(octets, 0, len(octets)).value(typed)
        except PeerError:
            continue


def test_a_deep_value_is_refused() -> None:
    for nest in (b"\xc0\x02\x01", b"\x00\x53\x01"):
        with pytest.raises(PeerError):
            read(nest * (DEPTH_MAX + 2) + b"\x40")


def test_a_few_octets_make_no_million_values() -> None:
    with pytest.raises(LimitExceeded, match="more values than octets"):
        read(b"\xf0" + struct.pack(">II", 5, 1_000_000) + b"\x40")
    with pytest.raises(LimitExceeded, match="more values than octets"):
        read(b"\xf0" + struct.pack(">II", 5, 0xFFFFFFFF) + b"\x45")


@pytest.mark.parametrize(
    "octets",
    [
        b"", b"\x01", b"\x56\x02", b"\xa1\x05ab", b"\xa3\x01\xff", b"\xa1\x01\xff", b"\xc0\x02\x01",
        b"\xc0\x03\x01\x40\x40", b"\xc1\x02\x01\x40", b"\x73\x00\x11\x00\x00",
        b"\xd0\xff\xff\xff\xff\x00\x00\x00\x01", b"\xc1\x03\x02\x45\x40",
    ],
)  # fmt: skip
def test_what_is_no_value_is_refused(octets: bytes) -> None:
    with pytest.raises(MalformedFrame):
        Source(octets, 0, len(octets)).value()


def test_exact_values_keep_their_octets() -> None:
    for exact in (Exact(0x98, bytes(range(16))), Exact(0x94, bytes(16)), Exact(0x74, b"\1\2\3\4")):
        assert read(octets_of(exact)) == exact


# -- frames ------------------------------------------------------------------------------------------------------------


def frames() -> bytes:
    out = BytesWriter()
    out.write(header(3))
    encoder = Encoder()
    encoder.write(out, 0, said.SaslInit(mechanism="PLAIN", initial_response=b"\0a\0b"), 1)
    out.write(header(0))
    encoder.write(out, 0, said.Open(container_id="c"))
    out.write(b"\0\0\0\x08\x02\0\0\0")
    encoder.write(out, 65535, said.Begin(incoming_window=1, outgoing_window=2))
    encoder.transfer(out, 7, 2, 4_294_967_295, True, False, b"payload")
    encoder.write_with(out, 7, said.Transfer(handle=2, more=False), b"rest")
    encoder.write(out, 7, said.Attach(name="n", handle=1, role=True, source=said.Source(address="q", filter={"a": 1})))
    return out.getvalue()


def shown(frame: Frame) -> object:
    return frame.kind, frame.channel, described(frame.performative), frame.payload


def test_one_octet_at_a_time_gives_the_same() -> None:
    octets = frames()
    together = [shown(frame) for frame in Decoder(1 << 16).feed(octets)]
    assert len(together) == 9
    for step in (1, 2, 3, 7, 64):
        decoder = Decoder(1 << 16)
        apart = [shown(one) for at in range(0, len(octets), step) for one in decoder.feed(octets[at : at + step])]
        assert apart == together
        assert decoder.buffered() == 0


def test_the_quick_transfer_is_what_the_table_writes() -> None:
    quick, table = BytesWriter(), BytesWriter()
    Encoder().transfer(quick, 3, 300, 70_000, False, True, b"x")
    tag = (70_000).to_bytes(4, "big")
    fields = said.Transfer(handle=300, delivery_id=70_000, delivery_tag=tag, message_format=0, settled=0, more=True)
    Encoder().write_with(table, 3, fields, b"x")
    (one,) = Decoder(1 << 16).feed(quick.getvalue())
    (other,) = Decoder(1 << 16).feed(table.getvalue())
    assert shown(one) == shown(other)


@pytest.mark.parametrize(
    ("octets", "error"),
    [
        (b"AMQP\x00\x00\x09\x01", ProtocolViolation),
        (b"\x7f\xff\xff\xff\x02\x00\x00\x00", LimitExceeded),
        (b"\x00\x00\x00\x07\x02\x00\x00\x00", MalformedFrame),
        (b"\x00\x00\x00\x08\x01\x00\x00\x00", MalformedFrame),
        (b"\x00\x00\x00\x08\x03\x00\x00\x00", MalformedFrame),
        (b"\x00\x00\x00\x08\x02\x02\x00\x00", MalformedFrame),
        (b"\x00\x00\x00\x09\x02\x00\x00\x00\x40", MalformedFrame),
        (b"\x00\x00\x00\x0c\x02\x00\x00\x00\x00\x53\x99\x45", MalformedFrame),
        (b"\x00\x00\x00\x0c\x02\x00\x00\x00\x00\x53\x10\x45", MalformedFrame),
    ],
)
def test_what_is_no_frame_is_refused_behind_what_came_before(octets: bytes, error: type[PeerError]) -> None:
    with pytest.raises(error):
        Decoder(1 << 16).feed(octets)
    decoder = Decoder(1 << 16)
    assert len(decoder.feed(frames() + octets)) == 9
    with pytest.raises(error):
        decoder.check()
