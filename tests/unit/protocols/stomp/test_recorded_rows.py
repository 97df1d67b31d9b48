"""Rows that are made of records against rows of the entries that the broker makes of them: the same."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from librt.vecs import vec
from mypy_extensions import i64

from buffered import octets
from entrepot.journal.locating import Locating
from entrepot.journal.reading import Records
from entrepot.model.message import Message
from entrepot.protocols.stomp.buffers import Column, Scattered
from entrepot.protocols.stomp.columns import Columns
from entrepot.protocols.stomp.convert import STOMP_LANGUAGE
from entrepot.protocols.stomp.entry import Entry, Identity
from entrepot.protocols.stomp.located import File, Located, Locations
from entrepot.protocols.stomp.recorded_rows import RecordedRows, message_in
from journals import World

from .test_columns import NAMES
from .test_entries import IDS, Written, messages, stored


def parts(column: Column) -> tuple[object, ...]:
    held = octets(column) if isinstance(column, Scattered) else column.data
    return column.nulls, column.valid, column.offsets, held, [parts(child) for child in column.children]


def taken(columns: Columns) -> dict[str, tuple[object, ...]]:
    return {name: parts(column) for name, column in columns.take().items()}


def told(world: World, numbers: list[int], deliveries: list[int]) -> tuple[Locations, bytes]:
    """Return the places of messages in one file, and what is in it."""
    world.confirm()
    places = Locating(world.journal.tail, vec[i64](numbers))
    made = Located()
    name = ""
    for position, times in zip(range(len(numbers)), deliveries, strict=False):
        assert places.go_to(position)
        assert places.segment is not None
        if places.segment.name != name:
            name = places.segment.name
            assert made.name(File(name, 0, 0)) == 0
        made.add(0, places.number, places.offset, places.length, times)
    read = Locations(made.body())
    assert len(read.files) == 1
    return read, bytes(world.disk.medium.view[name])


@settings(deadline=None)
@given(
    st.lists(messages(), min_size=1, max_size=8),
    st.sampled_from([1, 995, 999_990, 2**40]),
    st.lists(st.sampled_from([0, 0, 1, 70_000]), min_size=8, max_size=8),
)
def test_a_row_is_what_the_broker_would_have_sent(found: list[Message], first: int, deliveries: list[int]) -> None:
    world = stored(found, first, 1 << 20)
    numbers = [int(message.number) for message in found]
    places, content = told(world, numbers, deliveries)
    direct, sent = Columns(NAMES), Columns(NAMES)
    entries = Written(len(found))
    records = Records(world.journal.reading, numbers)
    rows = RecordedRows(IDS.prefix.encode(), b"/queue/")
    for row, message in enumerate(found):
        end = int(rows.add(direct, places, row, row + 1, 40 + row, content, 0))
        known = message.language is STOMP_LANGUAGE
        assert end == row + known, "what no client sends is left to the broker"
        if known:
            records.go_to(row, 0)
            if not entries.entries.add_record(records, 40 + row, deliveries[row]):
                entries.entries.add(records.message(), 40 + row, deliveries[row])
    for frame in entries.frames():
        sent.add_entries(frame.body)
    assert (int(direct.count), int(direct.octets)) == (int(sent.count), int(sent.octets))
    assert taken(direct) == taken(sent)


def plain(body: bytes) -> Message:
    made = Message(STOMP_LANGUAGE, "q", b"\n" + body + b"\0")
    made.body_at = 1
    return made


def test_rows_go_on_up_to_the_first_that_is_damaged() -> None:
    world = stored([plain(b"%d" % number) for number in range(6)], 7, 1 << 20)
    numbers = [7 + number + number // 3 for number in range(6)]
    places, content = told(world, numbers, [0] * 6)
    start = int(places.offset(0))
    columns = Columns(["body", "message_id"])
    rows = RecordedRows(b"ID:n-1:", b"/queue/")
    assert int(rows.add(columns, places, 0, 6, 100, content[start:], start)) == 6
    assert (int(columns.count), int(columns.next)) == (6, 106)
    found = columns.take()
    assert octets(found["body"]) == [b"%d" % number for number in range(6)]
    assert octets(found["message_id"]) == [b"ID:n-1:%d" % number for number in numbers]
    at = int(places.offset(4)) + int(places.length(4)) - 2
    damaged = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
    assert int(rows.add(columns, places, 0, 6, 100, damaged[start:], start)) == 4
    assert int(rows.add(columns, places, 5, 6, 105, damaged, 0)) == 6
    assert octets(columns.take()["body"]) == [b"0", b"1", b"2", b"3", b"5"]
    for shorter in (0, 1, 7, 8, 20):
        assert int(rows.add(columns, places, 0, 1, 0, content[start : start + shorter], start)) == 0
    assert int(columns.count) == 0


@settings(deadline=None)
@given(st.binary(max_size=120), st.integers(-5, 120), st.integers(-5, 130))
def test_nonsense_is_no_record(data: bytes, at: int, end: int) -> None:
    assert not Entry(b"", b"").of_record(data, max(at, 0), max(end, 0), 1)
    assert message_in(data, max(at, 0), max(end, 0)) is None


@pytest.mark.parametrize("number", [0, 7, 999, 1000, 1001, 20_005, 10**12 + 7, 2**62])
def test_ids_are_written_as_numbers_are(number: int) -> None:
    identity = Identity(b"ID:n-1:")
    for each in (number, number + 1, number):
        identity.of_number(each)
        assert identity.whole() == b"ID:n-1:%d" % each
