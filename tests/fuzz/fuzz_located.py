"""Places that a broker tells, and files that hold anything: a reader makes rows of whole records alone."""

from __future__ import annotations

from librt.strings import BytesWriter

from entrepot.journal.record import frame, write_message
from entrepot.model.message import Message, language
from entrepot.protocols.languages import FOLDERS, offer_languages
from entrepot.protocols.stomp.columns import Columns
from entrepot.protocols.stomp.convert import STOMP_LANGUAGE
from entrepot.protocols.stomp.located import File, Located, Locations
from entrepot.protocols.stomp.recorded_rows import RecordedRows

NAMES = ["message_id", "destination", "body", "text", "properties", "priority", "timestamp", "expiration", "position"]

offer_languages()


def recorded(message: Message, deliveries: int = 0) -> bytes:
    """Return an input: places of one message, how long they are, and the record."""
    message.number = 1007
    body = BytesWriter()
    write_message(body, message, [1], False)
    record = BytesWriter()
    frame(record, body.getvalue())
    octets = record.getvalue()
    made = Located()
    made.add(made.name(File("a.seg", 1, 2)), 1007, 0, len(octets), deliveries)
    told = made.body()
    return bytes([len(told)]) + told + octets


def sent(raw: bytes, body_at: int, code: int = 0) -> Message:
    message = Message(language(code) if code else STOMP_LANGUAGE, "orders", raw)
    message.body_at = body_at
    return message


def named() -> Message:
    message = sent(b"a:b\n\nhello\0", 5)
    message.annotate("_AMQ_ORIG_ADDRESS", "elsewhere")
    message.need_rare().identity = "ID:other"
    return message


CORPUS = [
    recorded(sent(b"a:b\ncontent-length:5\n\nhello\0", 23)),
    recorded(sent(b"\n\0", 1), 3),
    recorded(named()),
    *(recorded(sent(b"\x85\x00\x00\x01hello", 2, code)) for code in FOLDERS),
]


def fuzz(data: bytes) -> None:
    """Raises AssertionError for our own mistakes, MalformedFrame for places that are none."""
    length = data[0] if data else 0
    places = Locations(data[1 : 1 + length])
    content = data[1 + length :]
    columns = Columns(NAMES)
    rows = RecordedRows(b"ID:n-1:", b"/queue/")
    count = int(places.count)
    row = 0
    while row < count:
        end = int(places.stretch(row, 100, 1000))
        assert row < end <= count
        start = int(places.offset(row))
        found = int(rows.add(columns, places, row, end, row, content[start : start + 5000], start))
        assert row <= found <= end
        row = found + (found < end)
    assert int(columns.count) <= count
    columns.take()
