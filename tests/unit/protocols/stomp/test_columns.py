"""Columns against the plain reader of `ranges.py`: the same messages, whatever they hold."""

from __future__ import annotations

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from buffered import ends, octets, present
from entrepot.base.errors import MalformedFrame
from entrepot.protocols.stomp.buffers import SEVERAL, Column, Scattered
from entrepot.protocols.stomp.columns import NOT_PROPERTIES, TEXT_HEADERS, Columns, fields_of
from entrepot.protocols.stomp.ranges import OCTETS, PERSISTENT, REDELIVERED, decode, headers_of, write_entry

NAMES = [
    "message_id",
    "destination",
    "body",
    "text",
    "properties",
    "priority",
    "timestamp",
    "expiration",
    *TEXT_HEADERS,
    "group_sequence",
    "persistent",
    "redelivered",
    "delivery_count",
    "position",
    "path",
]
WORDS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
LINES = st.lists(
    st.tuples(
        st.sampled_from(["colour", "correlation-id", "reply-to", "type", "JMSXGroupID", "JMSXGroupSeq", "broker-path"])
        | WORDS.filter(bool),
        st.sampled_from(["7", "-3", "4294967296", "x", "a,b", ""]) | WORDS,
    ),
    max_size=6,
)
ENTRY = st.tuples(
    st.integers(0, 2**62),
    st.integers(0, 2**50) | st.just(2**62),
    st.integers(0, 2**50),
    st.integers(0, 9),
    st.integers(0, 7),
    st.integers(0, 65_535),
    WORDS,
    st.sampled_from(["/queue/a", "/topic/ü"]),
    LINES,
    st.binary(max_size=40) | WORDS.map(str.encode),
)


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace(":", "\\c").replace("\r", "\\r")


def written(entries: list[tuple]) -> bytes:
    writer = BytesWriter()
    for *numbers, identity, destination, pairs, body in entries:
        lines = "".join(f"{escaped(name)}:{escaped(value)}\n" for name, value in pairs).encode()
        write_entry(writer, *numbers, identity.encode(), destination.encode(), lines, body)
    return writer.getvalue()


def numbers(column: Column, count: int, letter: str) -> list[int | None]:
    values = struct.unpack(f"<{count}{letter}", column.data)
    return [value if there else None for value, there in zip(values, present(column, count), strict=True)]


def bits(column: Column, count: int) -> list[bool]:
    return [bool(column.data[row >> 3] >> (row & 7) & 1) for row in range(count)]


def time_of(ms: int) -> int | None:
    return ms * 1000 if ms and ms * 1000 < 2**63 else None


def text_of(value: str | None) -> bytes | None:
    return None if value is None else value.encode()


def sequence_of(text: str | None) -> int | None:
    if text is None or not text.isascii() or not text.removeprefix("-").isdigit():
        return None
    return int(text) if -(2**31) <= int(text) < 2**31 else None


def check(columns: dict[str, Column], data: bytes) -> None:
    """Compare with what the plain reader says."""
    plain = decode(data)
    count = len(plain)
    headers = [headers_of(lines) for lines in plain.headers]
    assert octets(columns["message_id"]) == [each.encode() for each in plain.ids]
    assert octets(columns["destination"]) == [each.encode() for each in plain.destinations]
    assert octets(columns["body"]) == plain.bodies
    assert octets(columns["text"]) == [
        None if flags & OCTETS else body for body, flags in zip(plain.bodies, plain.flags, strict=True)
    ]
    assert numbers(columns["priority"], count, "i") == plain.priorities
    assert numbers(columns["position"], count, "q") == plain.positions
    assert numbers(columns["delivery_count"], count, "i") == [before + 1 for before in plain.deliveries]
    assert numbers(columns["timestamp"], count, "q") == [time_of(ms) for ms in plain.timestamps]
    assert numbers(columns["expiration"], count, "q") == [time_of(ms) for ms in plain.expirations]
    assert bits(columns["persistent"], count) == [bool(flags & PERSISTENT) for flags in plain.flags]
    assert bits(columns["redelivered"], count) == [bool(flags & REDELIVERED) for flags in plain.flags]
    for name, header in TEXT_HEADERS.items():
        assert octets(columns[name]) == [text_of(found.get(header.decode())) for found in headers]
    assert numbers(columns["group_sequence"], count, "i") == [
        sequence_of(found.get("JMSXGroupSeq")) for found in headers
    ]
    (brokers,) = columns["path"].children
    assert rows(columns["path"], octets(brokers)) == [
        path.encode().split(b",") if (path := found.get("broker-path")) else [] for found in headers
    ]
    keys, values = columns["properties"].children
    assert rows(columns["properties"], list(zip(octets(keys), octets(values), strict=True))) == [
        [(name.encode(), value.encode()) for name, value in found.items() if name.encode() not in NOT_PROPERTIES]
        for found in headers
    ]


def rows(column: Column, values: list) -> list[list]:
    at = ends(column.offsets)
    assert at[-1] == len(values)
    return [values[low:high] for low, high in itertools.pairwise(at)]


@given(st.lists(ENTRY, max_size=20), st.lists(ENTRY, max_size=20))
def test_columns_say_what_the_plain_reader_says(first: list[tuple], second: list[tuple]) -> None:
    columns = Columns(NAMES)
    for entries in (first, second):  # the same object again, after it was emptied
        data = written(entries)
        columns.add_entries(data)
        assert columns.count == len(entries)
        if entries:
            assert columns.next == entries[-1][0] + 1
        check(columns.take(), data)
        assert columns.count == columns.octets == 0


@given(st.lists(st.tuples(ENTRY, st.integers(1, 40)), max_size=6), st.booleans())
def test_neighbours_that_are_alike_are_all_there(found: list[tuple[tuple, int]], alone: bool) -> None:
    entries = [(place, *entry[1:]) for entry, times in found for place in range(times)]
    columns = Columns(NAMES)
    if alone:
        for *fixed, identity, destination, pairs, body in entries:
            lines = "".join(f"{escaped(name)}:{escaped(value)}\n" for name, value in pairs).encode()
            columns.add(*fixed, b"", identity.encode(), destination.encode(), lines, body, 0, len(body))
    else:
        columns.add_entries(written(entries))
    check(columns.take(), written(entries))


def test_text_and_body_have_their_pieces_in_common() -> None:
    columns = Columns(["body", "text"])
    entries = [(place, 0, 0, 4, 0, 0, "m", "/queue/q", [], b"text %d" % place) for place in range(20)]
    columns.add_entries(written([*entries, (20, 0, 0, 4, OCTETS, 0, "m", "/queue/q", [], b"octets")]))
    made = columns.take()
    text, body = made["text"], made["body"]
    assert isinstance(text, Scattered)
    assert isinstance(body, Scattered)
    assert text.pieces is body.pieces
    assert octets(text) == [b"text %d" % place for place in range(20)] + [None]
    assert octets(body)[-1] == b"octets"


def test_bodies_stay_where_they_are_unless_there_are_few_of_them() -> None:
    columns = Columns(["body"])
    numbered = [b"%d" % number for number in range(SEVERAL)]
    several = b"-" + b"-".join(numbered)
    few = (b"four", b"five", b"<six>")
    added: list[bytes] = []

    def add(octets_: bytes, low: int, high: int) -> None:
        columns.add(len(added), 0, 0, 4, 0, 0, b"", b"m", b"/queue/q", b"", octets_, low, high)
        added.append(octets_[low:high])

    at = 1
    for each in numbered:
        add(several, at, at + len(each))
        at += len(each) + 1
    for place, each in enumerate(few):
        add(each, place // 2, len(each) - place // 2)
    for _ in range(SEVERAL - 1):
        add(several, 0, 0)
    add(several, 1, 2)
    add(several, 0, 1)  # not behind the one before
    body = columns.take()["body"]
    assert isinstance(body, Scattered)
    assert [(bool(piece.bounds), piece.data) for piece in body.pieces] == [
        (True, several),
        (False, b"fourfivesix"),
        (True, several),
        (False, b"-"),
    ]
    assert body.pieces[0].data is several
    assert octets(body) == added
    add(several, 1, 2)
    assert octets(columns.take()["body"]) == [b"0"]


@given(st.lists(ENTRY, min_size=1, max_size=5), st.sets(st.sampled_from(NAMES), max_size=4))
def test_only_wanted_columns_are_made_and_they_are_the_same(entries: list[tuple], wanted: set[str]) -> None:
    some, everything = Columns(sorted(wanted)), Columns(NAMES)
    some.add_entries(written(entries))
    everything.add_entries(written(entries))
    found, whole = some.take(), everything.take()
    assert set(found) == wanted
    for name, column in found.items():
        other = whole[name]
        assert (column.offsets, column.data, column.valid) == (other.offsets, other.data, other.valid)
        if isinstance(column, Scattered):
            assert octets(column) == octets(other)


def test_what_is_no_utf_8_is_made_readable() -> None:
    columns = Columns(["message_id", "properties"])
    for end in (b"m", b"\xfe", "ü".encode()):
        columns.add(0, 0, 0, 4, 0, 0, b"ID:", end, b"/queue/q", b"colour:r\xff\n", b"", 0, 0)
    made = columns.take()
    assert octets(made["message_id"]) == [b"ID:m", "ID:\ufffd".encode(), "ID:ü".encode()]
    assert octets(made["properties"].children[1]) == 3 * ["r\ufffd".encode()]
    assert fields_of(b"a:1\na:2\nb\\c:c\\\\n\n") == {b"a": b"1", b"b:": b"c\\n"}


@given(st.lists(ENTRY, min_size=1, max_size=3), st.data())
def test_a_body_that_is_cut_is_refused(entries: list[tuple], data: st.DataObject) -> None:
    whole = written(entries)
    starts = {len(written(entries[:count])) for count in range(len(entries) + 1)}
    cut = data.draw(st.integers(0, len(whole)).filter(lambda at: at not in starts))
    with pytest.raises(MalformedFrame):
        Columns(NAMES).add_entries(whole[:cut])


@pytest.mark.parametrize("at", [0, 32, 34, 36])
def test_lengths_that_lie_are_refused(at: int) -> None:
    whole = bytearray(written([(0, 0, 0, 4, 0, 0, "id", "/queue/a", [("a", "b")], b"body")]))
    whole[at : at + 2] = b"\xff\xff"
    with pytest.raises(MalformedFrame):
        Columns(NAMES).add_entries(bytes(whole))
