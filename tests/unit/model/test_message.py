"""The envelope: what is written is read, and what a selector may ask of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from librt.strings import BytesWriter

from entrepot.base.errors import CorruptJournal, Fault, Refused
from entrepot.core.broker import selector_or_none
from entrepot.model.message import OVERHEAD_BYTES, Message, Rare, language, read_envelope, write_envelope
from kit import PLAIN, Rig

I64 = st.integers(-(1 << 63), (1 << 63) - 1)
TEXT = st.text(max_size=40)
ENVELOPE = ("address", "raw", "timestamp", "expiration", "priority", "body_at", "durable", "redelivered", "escaped")
RARE = ("group", "group_sequence", "duplicate_id", "identity", "deliver_at", "large_id", "large_length", "annotations")
MORE = ("large_checked", "internal")


@st.composite
def rares(draw: st.DrawFn) -> Rare:
    rare = Rare()
    rare.group = draw(TEXT)
    rare.group_sequence = draw(st.integers(-(1 << 31), (1 << 31) - 1))
    rare.duplicate_id = draw(st.binary(max_size=40))
    rare.identity = draw(TEXT)
    rare.deliver_at = draw(I64)
    rare.large_id = draw(I64)
    rare.large_length = draw(I64)
    rare.annotations = draw(st.dictionaries(TEXT, TEXT, max_size=5))
    rare.large_checked = draw(st.booleans())
    rare.internal = draw(st.none() | st.dictionaries(TEXT, st.binary(max_size=20) | I64 | TEXT, min_size=1, max_size=5))
    return rare


@st.composite
def messages(draw: st.DrawFn) -> Message:
    message = Message(PLAIN, draw(TEXT), draw(st.binary(max_size=200)))
    message.timestamp = draw(I64)
    message.expiration = draw(I64)
    message.priority = draw(st.integers(0, 9))
    message.body_at = draw(st.integers(0, (1 << 31) - 1))
    message.durable = draw(st.booleans())
    message.redelivered = draw(st.booleans())
    message.escaped = draw(st.booleans())
    message.rare = draw(st.none() | rares())
    return message


def fields(message: Message) -> dict[str, object]:
    rare = message.rare
    found: dict[str, object] = {name: getattr(message, name) for name in ENVELOPE}
    found["language"] = message.language.code
    found["rare"] = None
    if rare is not None:
        found["rare"] = {name: getattr(rare, name) for name in RARE + MORE}
    return found


@given(messages(), st.binary(max_size=9), st.binary(max_size=9))
def test_an_envelope_is_read_as_it_was_written_wherever_it_stands(message, before, behind):
    writer = BytesWriter()
    write_envelope(message, writer)
    assert fields(read_envelope(before + writer.getvalue() + behind, len(before))) == fields(message)


@given(messages())
def test_a_twin_is_equal_and_independent(message):
    twin = message.twin(message.address)
    assert fields(twin) == fields(message)
    assert (twin.number, twin.holders, twin.stored) == (0, 0, False)
    twin.annotate("only", "here")
    twin.mark("_AMQ_ROUTE_TO only", b"here")
    assert message.marked("_AMQ_ROUTE_TO only") is None
    twin.need_rare().group = "other"
    assert message.rare is None or "only" not in message.rare.annotations


def test_an_unknown_layout_is_refused_and_an_unknown_language_is_carried():
    writer = BytesWriter()
    write_envelope(Message(PLAIN, "Q", b"{}"), writer)
    octets = bytearray(writer.getvalue())
    octets[1] = 250
    read = read_envelope(bytes(octets), 0)
    assert read.raw == b"{}"
    with pytest.raises(Fault, match="does not speak"):
        read.common()
    assert language(250) is read.language
    octets[0] = 9
    with pytest.raises(CorruptJournal, match="layout 9"):
        read_envelope(bytes(octets), 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("JMSPriority = 7 AND AMQPriority = 7", True),
        ("JMSDeliveryMode = 'PERSISTENT' AND AMQDurable = 'DURABLE'", True),
        ("JMSTimestamp = AMQTimestamp AND JMSTimestamp > 0", True),
        ("JMSExpiration = 0 AND AMQExpiration = 0", True),
        ("JMSRedelivered = FALSE", True),
        ("JMSXGroupID = 'g' AND JMSXGroupSeq = 3", True),
        ("JMSMessageID = 'ID:theirs'", True),
        ("AMQSize > 10", True),
        ("n = 5 AND note = 'kept by the broker'", True),
        ("missing IS NULL", True),
        ("JMSType IS NULL", True),
        ("JMSPriority = '7'", False),
    ],
)
def test_what_a_selector_may_ask(text, expected):
    message = Rig().message(
        "x",
        priority=7,
        group="g",
        seq=3,
        identity="ID:theirs",
        properties={"n": 5},
        annotations={"note": "kept by the broker"},
    )
    predicate = selector_or_none(text)
    assert predicate is not None
    assert predicate.matches(message) is expected


def test_what_it_is_charged_for():
    assert Message(PLAIN, "Q", b"12345").size == 5 + OVERHEAD_BYTES


def test_internal_annotations_have_types_and_no_selector_sees_them():
    message = Message(PLAIN, "Q", b'{"properties": {}}')
    assert message.rare is None
    assert message.marked("route") is None
    message.unmark("route")
    assert message.rare is None, "absent, they cost nothing"
    message.mark("route", b"\0\x01")
    message.mark("long", -(1 << 63))
    message.mark("text", "é")
    writer = BytesWriter()
    write_envelope(message, writer)
    read = read_envelope(writer.getvalue(), 0)
    assert [read.marked(name) for name in ("route", "long", "text")] == [b"\0\x01", -(1 << 63), "é"]
    assert read.fact("route") is None
    assert read.fact("text") is None
    read.unmark("long")
    assert read.marked("long") is None
    with pytest.raises(Refused, match="64-bit"):
        message.mark("long", 1 << 63)


def test_only_messages_with_internal_annotations_have_their_layout():
    message = Message(PLAIN, "Q", b"{}")
    message.mark("route", 1)
    writer = BytesWriter()
    write_envelope(message, writer)
    assert writer.getvalue()[0] == 3
    message.unmark("route")
    writer = BytesWriter()
    write_envelope(message, writer)
    assert writer.getvalue()[0] == 1


def test_an_internal_annotation_of_an_unknown_type_is_refused():
    message = Message(PLAIN, "Q", b"{}")
    message.mark("route", 1)
    writer = BytesWriter()
    write_envelope(message, writer)
    octets = bytearray(writer.getvalue())
    octets[octets.index(b"route") + 5] = 9
    with pytest.raises(CorruptJournal, match="type 9"):
        read_envelope(bytes(octets), 0)
