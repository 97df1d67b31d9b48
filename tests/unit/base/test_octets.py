"""The bounded reader and writer: against `struct`, against each other, and against truncated and hostile input."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from entrepot.base.errors import Fault, Inexpressible, MalformedFrame
from entrepot.base.octets import OctetReader, OctetWriter, varint_size

FIXED = {"u8": ">B", "u16": ">H", "u32": ">I", "i16": ">h", "i32": ">i", "i64": ">q", "f32": ">f", "f64": ">d"}
BOUNDS = {
    "u8": (0, 2**8 - 1),
    "u16": (0, 2**16 - 1),
    "u32": (0, 2**32 - 1),
    "i16": (-(2**15), 2**15 - 1),
    "i32": (-(2**31), 2**31 - 1),
    "i64": (-(2**63), 2**63 - 1),
    "varint": (0, 2**64 - 1),
}
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)

integer_fields = st.sampled_from(sorted(BOUNDS)).flatmap(
    lambda name: st.tuples(st.just(name), st.integers(*BOUNDS[name]) | st.sampled_from(BOUNDS[name]))
)
fields = (
    integer_fields
    | st.tuples(st.just("f32"), st.floats(width=32, allow_nan=False))
    | st.tuples(st.just("f64"), st.floats(allow_nan=False))
    | st.tuples(st.sampled_from(["raw_32", "raw_varint"]), st.binary(max_size=200))
    | st.tuples(st.sampled_from(["utf8_16", "utf8_32", "utf8_varint"]), TEXT)
)


def written(layout: list[tuple[str, Any]]) -> bytes:
    writer = OctetWriter()
    for name, value in layout:
        getattr(writer, name)(value)
    return writer.getvalue()


@given(st.lists(fields, max_size=12), st.binary(max_size=5), st.binary(max_size=5))
def test_what_is_written_is_read(layout: list[tuple[str, Any]], before: bytes, behind: bytes) -> None:
    data = written(layout)
    reader = OctetReader(before + data + behind, len(before), len(before) + len(data))
    assert reader.remaining == len(data)
    assert [getattr(reader, name)() for name, _ in layout] == [value for _, value in layout]
    reader.finish()
    assert reader.position == len(before) + len(data)


@given(st.lists(fields, min_size=1, max_size=6), st.data())
def test_no_read_leaves_its_bounds(layout: list[tuple[str, Any]], data: st.DataObject) -> None:
    """What is beyond the end is there in ``data`` and would complete the field; the reader must not look at it."""
    whole = written(layout)
    end = data.draw(st.integers(0, len(whole) - 1))
    reader = OctetReader(whole, 0, end)
    for name, _ in layout:
        began = reader.position
        try:
            getattr(reader, name)()
        except MalformedFrame:
            assert reader.position == began <= end
            return
    pytest.fail("all fields were read from fewer octets than they have")


@given(
    st.binary(max_size=30),
    st.lists(st.sampled_from([*FIXED, "varint", "raw_32", "raw_varint", "utf8_16", "utf8_32", "utf8_varint"])),
)
def test_hostile_bytes_raise_nothing_but_malformed(data: bytes, names: list[str]) -> None:
    reader = OctetReader(data)
    for name in names:
        began = reader.position
        try:
            getattr(reader, name)()
        except MalformedFrame:
            assert reader.position == began
            return
        assert began < reader.position <= len(data)


@given(st.sampled_from(sorted(FIXED)), st.binary(min_size=8, max_size=8))
def test_fixed_widths_are_those_of_struct(name: str, data: bytes) -> None:
    layout = FIXED[name]
    expected = struct.unpack_from(layout, data)[0]
    value = getattr(OctetReader(data), name)()
    assert value == expected or (math.isnan(value) and math.isnan(expected))
    if not (isinstance(value, float) and math.isnan(value)):
        assert written([(name, value)]) == struct.pack(layout, value)


@pytest.mark.parametrize(
    ("value", "octets"),
    [
        (0, "00"),
        (127, "7f"),
        (128, "8001"),
        (300, "ac02"),
        (2**63 - 1, "ffffffffffffffff7f"),
        (2**63, "80808080808080808001"),
        (2**64 - 1, "ffffffffffffffffff01"),
    ],
)
def test_varint_layout(value: int, octets: str) -> None:
    assert written([("varint", value)]).hex() == octets
    assert OctetReader(bytes.fromhex(octets)).varint() == value
    assert varint_size(value) == len(octets) // 2


@pytest.mark.parametrize(
    "octets",
    [
        "",
        "80",
        "8000",
        "ff8000",
        "ffffffffffffffffff02",
        "ffffffffffffffffff00",
        "ffffffffffffffffff81",
        "8080808080808080808001",
    ],
)
def test_varints_that_are_unfinished_overlong_or_too_large(octets: str) -> None:
    reader = OctetReader(bytes.fromhex(octets))
    with pytest.raises(MalformedFrame):
        reader.varint()
    assert reader.position == 0


@given(st.binary(min_size=1, max_size=11))
@example(b"\x80\x00")
def test_a_varint_has_one_encoding(data: bytes) -> None:
    reader = OctetReader(data)
    try:
        value = reader.varint()
    except MalformedFrame:
        return
    assert written([("varint", value)]) == data[: reader.position]


@pytest.mark.parametrize("octets", ["c080", "ed a0 80", "ff", "e2 82", "f4 90 80 80"])
def test_text_that_is_not_utf8(octets: str) -> None:
    data = bytes.fromhex(octets)
    reader = OctetReader(len(data).to_bytes(2, "big") + data)
    with pytest.raises(MalformedFrame, match="UTF-8"):
        reader.utf8_16()
    assert reader.position == 0


def test_raw_utf8_and_skip_take_exact_counts() -> None:
    reader = OctetReader("aé€z".encode())
    assert reader.raw(1) == b"a"
    assert reader.utf8(5) == "é€"
    for take in (reader.raw, reader.utf8, reader.sub, reader.skip):
        for count in (2, -1, 2**63 - 1, -(2**63)):
            with pytest.raises(MalformedFrame):
                take(count)
    reader.skip(1)
    assert reader.remaining == 0
    assert reader.raw(0) == b""


def test_a_sub_reader_ends_where_its_parent_goes_on() -> None:
    parent = OctetReader(bytes(range(10)), 2, 8)
    child = parent.sub(4)
    assert (child.position, child.end, parent.position) == (2, 6, 6)
    assert child.i32() == 0x02030405
    with pytest.raises(MalformedFrame):
        child.u8()
    with pytest.raises(MalformedFrame, match="2 octets too many"):
        parent.finish()
    assert parent.u16() == 0x0607
    parent.finish()


@pytest.mark.parametrize(("start", "end"), [(-1, 2), (0, 4), (2, 1), (4, -1), (0, -2)])
def test_bounds_outside_the_data_are_our_own_fault(start: int, end: int) -> None:
    with pytest.raises(Fault):
        OctetReader(b"abc", start, end)


@pytest.mark.parametrize("name", sorted(BOUNDS))
def test_numbers_that_do_not_fit_write_nothing(name: str) -> None:
    lowest, highest = BOUNDS[name]
    writer = OctetWriter()
    for value in (lowest - 1, highest + 1):
        with pytest.raises((Fault, ValueError, TypeError)):
            getattr(writer, name)(value)
    assert writer.getvalue() == b""


def test_text_without_a_form_writes_nothing() -> None:
    writer = OctetWriter()
    with pytest.raises(Inexpressible):
        writer.utf8_16("é" * 32_768)
    for write in (writer.utf8, writer.utf8_16, writer.utf8_32, writer.utf8_varint):
        with pytest.raises(Inexpressible, match="surrogate"):
            write("a\ud800")
    assert len(writer) == 0
    writer.utf8_16("x" * 65_535)
    assert writer.getvalue()[:3] == b"\xff\xffx"


@given(st.lists(fields, min_size=1, max_size=6), st.integers(0, 60))
def test_the_limit_of_a_writer_holds(layout: list[tuple[str, Any]], limit: int) -> None:
    """Every field is written whole or not at all, and refused only when it does not fit."""
    writer = OctetWriter(limit)
    for name, value in layout:
        size = len(written([(name, value)]))
        before = writer.getvalue()
        try:
            getattr(writer, name)(value)
        except Inexpressible:
            assert len(before) + size > limit
            assert writer.getvalue() == before
        else:
            assert len(writer) == len(before) + size <= limit


def test_sizes_are_filled_in_afterwards() -> None:
    writer = OctetWriter()
    writer.u8(9)
    outer = writer.reserve_32()
    inner = writer.reserve_32()
    writer.raw(b"x" * 300)
    writer.fill_32(inner)
    writer.fill_32(outer)
    reader = OctetReader(writer.getvalue())
    assert reader.u8() == 9
    assert reader.u32() == 304
    assert reader.raw_32() == b"x" * 300
    reader.finish()


def test_fill_and_truncate_refuse_places_that_do_not_exist() -> None:
    writer = OctetWriter()
    writer.raw(b"abc")
    calls: list[tuple[Callable[[int], None], int]] = [
        (writer.fill_32, -4),
        (writer.fill_32, 0),
        (writer.truncate, -1),
        (writer.truncate, 4),
    ]
    for call, at in calls:
        with pytest.raises(Fault):
            call(at)
    writer.truncate(1)
    assert writer.getvalue() == b"a"
    assert writer.position == 1


def test_floats_keep_infinities_and_nan() -> None:
    for name in ("f32", "f64"):
        for value in (math.inf, -math.inf):
            assert getattr(OctetReader(written([(name, value)])), name)() == value
        assert math.isnan(getattr(OctetReader(written([(name, math.nan)])), name)())
    assert OctetReader(written([("f32", 1e300)])).f32() == math.inf
