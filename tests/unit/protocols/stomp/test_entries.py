"""Entries from the octets of records against those from messages: the same, whatever the messages are."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.base.errors import StorageError
from entrepot.journal.reading import Records
from entrepot.journal.record import RECORD_HEAD, crc_of, record_valid
from entrepot.model.message import BODY_TEXT, Common, Language, Message, register
from entrepot.protocols.serving.outlet import Outlet
from entrepot.protocols.stomp.convert import STOMP_LANGUAGE, tail_of
from entrepot.protocols.stomp.entries import LENGTH_DIGITS, Entries
from entrepot.protocols.stomp.frames import V1_2, Frame, FrameParser
from entrepot.protocols.stomp.ranges import OCTETS, PERSISTENT, REDELIVERED, Range, decode
from journals import World
from kit import Rig

from .test_server import Client

RIG = Rig()
Client(RIG).send(b"makes the queue")
IDS = RIG.broker.ids
QUEUE = RIG.queue("q")


class Foreign(Language):
    """A text and a property, whatever the octets are."""

    def common(self, message: Message) -> Common:
        said = Common(BODY_TEXT, message.raw.hex())
        said.properties["size"] = len(message.raw)
        return said


FOREIGN = Foreign(202, "another language")
register(FOREIGN)
LINES = st.sampled_from(
    [
        b"",
        b"content-length:3\n",
        b"colour:red\ncontent-length:3\n",
        b"content-length:3\namq-msg-type:text\n",
        b"a\\cb:c\\nd\\\\\n",
        "gr\u00fc\u00df:\u00e9\n".encode(),
        b"content-lengthy:no\n",
    ]
)


@st.composite
def tails(draw: st.DrawFn) -> tuple[bytes, int]:
    """Return a tail and where its body begins, which may be nonsense: what is stored was not always written by us."""
    lines = draw(LINES)
    body = draw(st.binary(max_size=30) | st.text(max_size=10).map(str.encode) | st.just(b"x" * 3000))
    raw = lines + b"\n" + body + b"\0"
    return raw, draw(st.just(len(lines) + 1) | st.integers(1, len(raw) + 2))


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """Return a message without a number."""
    raw, body_at = draw(tails())
    made = Message(STOMP_LANGUAGE, draw(st.sampled_from(["q", "orders.\u00fc", ""])), raw)
    made.body_at = body_at
    made.priority = draw(st.integers(0, 9))
    made.timestamp = draw(st.integers(0, 2**50))
    made.expiration = draw(st.just(0) | st.integers(0, 2**50))
    made.durable, made.redelivered, made.escaped = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    kind = draw(st.sampled_from(["plain", "plain", "plain", "foreign", "annotated", "identified", "marked"]))
    if kind == "foreign":
        made.language = FOREIGN
    elif kind == "annotated":
        made.annotate("_AMQ_ORIG_ADDRESS", "here:\n")
    elif kind == "identified":
        made.need_rare().identity = "ID:other:1"
    elif kind == "marked":
        made.mark("seen", 1)
    return made


def is_plain(message: Message) -> bool:
    return message.rare is None and message.language is STOMP_LANGUAGE and int(message.body_at) < len(message.raw)


class Written:
    """What one way of writing leaves."""

    def __init__(self, most: int, digits: int = LENGTH_DIGITS, version: int = 12) -> None:
        self.outlet: Outlet = Client(RIG).session.outlet
        self.entries = Entries(self.outlet, IDS, QUEUE, "the:reader", version, most, digits)

    def octets(self) -> bytes:
        self.entries.end()
        return self.outlet.take(0)

    def frames(self) -> list[Frame]:
        parser = FrameParser(V1_2)
        parser.feed(self.octets())
        found: list[Frame] = []
        while (frame := parser.take()) is not None:
            found.append(frame)
        assert parser.buffered <= 1, "the line end behind the last frame"
        return found


def stored(found: list[Message], first: int, segment_bytes: int = 8192) -> World:
    """Store messages; of each third the number is passed over, and the last are not handed over."""
    world = World(segment_bytes=segment_bytes)
    for place, message in enumerate(found):
        message.number = first + place + place // 3
        world.journal.store(message, [1])
        if place % 4 == 3 and place < len(found) - 2:
            world.journal.flush()
    return world


def expected(message: Message, deliveries: int) -> tuple[object, ...]:
    """What an entry says, written down plainly."""
    tail, body_at = message.raw, int(message.body_at)
    if message.language is not STOMP_LANGUAGE:
        tail, body_at = tail_of(message)
    lines = tail[: body_at - 1]
    is_octets = (b"\n" + lines).find(b"\ncontent-length:") >= 0 and b"amq-msg-type:text" not in lines
    flags = PERSISTENT * message.durable | REDELIVERED * (message.redelivered or deliveries > 0) | OCTETS * is_octets
    return (
        message.timestamp,
        message.expiration,
        message.priority,
        flags,
        deliveries,
        IDS.identity_of(message),
        "/queue/" + message.address,
        tail[body_at : len(tail) - 1] if body_at < len(tail) else b"",
    )


def said(read: Range) -> list[tuple[object, ...]]:
    return list(
        zip(
            read.timestamps,
            read.expirations,
            read.priorities,
            read.flags,
            read.deliveries,
            read.ids,
            read.destinations,
            read.bodies,
            strict=True,
        )
    )


@settings(deadline=None)
@given(
    st.lists(messages(), min_size=1, max_size=14),
    st.sampled_from([1, 995, 999_990, 2**40]),
    st.lists(st.sampled_from([0, 0, 1, 70_000]), min_size=14, max_size=14),
    st.integers(1, 8),
    st.integers(1, 600),
    st.sampled_from([10, 12]),
)
def test_records_are_written_as_their_messages_are(
    found: list[Message], first: int, deliveries: list[int], digits: int, most: int, version: int
) -> None:
    journal = stored(found, first).journal
    numbers = [int(message.number) for message in found]
    records = Records(journal.reading, numbers)
    fast, slow = Written(most, digits, version), Written(most, digits, version)
    for place, message in enumerate(found):
        records.go_to(place, 100 * place)
        made = records.message()
        assert made.number == message.number
        assert fast.entries.add_record(records, 40 + place, deliveries[place]) == is_plain(message)
        if not is_plain(message):
            fast.entries.add(made, 40 + place, deliveries[place])
        slow.entries.add(made, 40 + place, deliveries[place])
        assert fast.entries.length == slow.entries.length > 0
    octets = fast.octets()
    assert octets == slow.octets()
    parser = FrameParser(V1_2)
    parser.feed(octets)
    frame = parser.take()
    assert frame is not None
    read = decode(frame.body)
    assert read.positions == list(range(40, 40 + len(found)))
    assert (frame.headers["count"], frame.headers["content-length"]) == (str(len(found)), str(len(frame.body)))
    assert said(read) == [
        expected(message, min(times, 65_535)) for message, times in zip(found, deliveries, strict=False)
    ]
    for lines, message in zip(read.headers, found, strict=True):
        if message.language is STOMP_LANGUAGE:
            plain = message.raw[: int(message.body_at) - 1]
            assert lines[: len(plain)] == plain
            assert (len(lines) > len(plain)) == (message.rare is not None and bool(message.rare.annotations))


@settings(deadline=None)
@given(st.data())
def test_one_wrong_bit_anywhere_is_found(data: st.DataObject) -> None:
    raw, body_at = b"content-length:3\n\nabc\0", 18
    message = Message(STOMP_LANGUAGE, "q", raw)
    message.body_at = body_at
    message.durable = True
    journal = stored([message], 1).journal
    records = Records(journal.reading, [1])
    records.go_to(0, 0)
    whole = records.data
    assert Written(1).entries.add_record(records, 0, 0)
    at = data.draw(st.integers(records.at, records.end - 1))
    records.data = whole[:at] + bytes([whole[at] ^ 1 << data.draw(st.integers(0, 7))]) + whole[at + 1 :]
    written = Written(1)
    assert not written.entries.add_record(records, 0, 0)
    with pytest.raises(StorageError):
        records.message()
    assert written.octets() == b""
    for cut in (at, at - 1, 0):
        records.data = whole[: max(cut, 0)]
        assert not written.entries.add_record(records, 0, 0)


NONSENSE = {  # where in the record, counted from its type: what is there
    "another type": (0, b"\x08"),
    "transient": (1, b"\x01"),
    "lengths that lead elsewhere": (10, b"\0\0\0\x05"),
    "more queues than there are octets": (14, b"\x7f\xff"),
    "less than no queues": (14, b"\xff\xff"),
    "a layout of the future": (20, b"\x04"),
    "something rare": (22, b"\x02"),
    "a body before the headers": (40, b"\0\0\0\0"),
    "a body that begins below zero": (40, b"\xff\xff\xff\xff"),
    "a body behind the end": (40, b"\0\0\0\x0c"),
    "a name below zero": (44, b"\xff\xff"),
    "a name that is no text": (46, b"\xff"),
    "two lengths that differ": (52, b"\x01"),
}


@pytest.mark.parametrize("what", NONSENSE)
def test_what_makes_no_sense_is_left_to_who_makes_a_message_of_it(what: str) -> None:
    message = Message(STOMP_LANGUAGE, "q\u00fc", b"a:b\n\nabc\0")
    message.body_at = 5
    records = Records(stored([message], 1).journal.reading, [1])
    records.go_to(0, 0)
    assert Written(1).entries.add_record(records, 0, 0)
    at, octets = NONSENSE[what]
    body = int(records.at) + RECORD_HEAD
    whole = bytearray(records.data)
    whole[body + at : body + at + len(octets)] = octets
    whole[body - 4 : body] = (crc_of(bytes(whole[body : records.end])) & 0xFFFFFFFF).to_bytes(4, "big")
    records.data = bytes(whole)
    assert record_valid(records.data, records.at, len(records.data))
    written = Written(1)
    assert not written.entries.add_record(records, 0, 0)
    assert written.octets() == b""


def test_a_frame_that_is_dropped_leaves_nothing_and_the_one_before_it_stays() -> None:
    found = [Message(STOMP_LANGUAGE, "q", b"\n" + b"x" * 200 * number + b"\0") for number in range(4)]
    for message in found:
        message.body_at = 1
    records = Records(stored(found, 7).journal.reading, [int(message.number) for message in found])
    written = Written(4)
    for place in range(4):
        records.go_to(place, 0)
        assert written.entries.add_record(records, place, 0)
        if place == 1:
            assert written.entries.end() == 2
            assert written.entries.length == 0
    written.entries.drop()
    written.entries.drop()
    assert written.entries.end() == 0
    (frame,) = written.frames()
    assert (frame.headers["count"], frame.headers["position"], frame.headers["subscription"]) == (
        "2",
        "0",
        "the:reader",
    )
    assert decode(frame.body).bodies == [b"", b"x" * 200]
