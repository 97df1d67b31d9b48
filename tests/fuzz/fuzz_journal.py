"""Any octets as a segment, and any octets as records with right checksums: recovered, loaded, described, settled.

The first octet chooses: even, the rest is a segment as it stands; odd, it is a list of records (u16 length, octets),
which are framed so that their checksums hold: what a mistaken writer, rather than a broken disk, could leave.
"""

from __future__ import annotations

from collections.abc import Callable

from librt.strings import BytesWriter, read_i32_be

from entrepot.base.errors import EntrepotError
from entrepot.journal.index import segment_name
from entrepot.journal.inspect import Counted, check, records
from entrepot.journal.log import JournalCore, JournalOptions, RecoverySink
from entrepot.journal.record import SETTLE_RUN, batch_head, frame, write_message, write_meta
from entrepot.model.message import Message, language
from entrepot.simulation.disk import SimulatedDisk

RUN_LONGEST = 10_000  # a run of millions is lawful, and only slow
NAME = segment_name(1, 1, 1, 0)


class Fixed:
    """An `Entropy` without any."""

    def token(self, octets: int) -> bytes:
        """Return zeros."""
        return bytes(octets)

    def fraction(self) -> float:
        """Return a half."""
        return 0.5


class Numbers(RecoverySink):
    """Keeps which messages live where."""

    def __init__(self) -> None:
        self.live: list[tuple[int, int]] = []

    def document(self, kind: int, key: bytes, value: bytes) -> None:
        """Take any document."""

    def message(
        self, queue_id: int, number: int, priority: int, expiration: int, deliveries: int, size: int, deliver_at: int
    ) -> None:
        """Keep one."""
        assert size >= 0
        self.live.append((number, queue_id))


def meta() -> bytes:
    """Return the META record that the segment must begin with."""
    writer = BytesWriter()
    write_meta(writer, 1, 1, 0, 0, 0, "n")
    return writer.getvalue()


def example(number: int, queues: list[int]) -> bytes:
    """Return a MESSAGE record."""
    message = Message(language(1), "orders", b"body")
    message.number = number
    message.durable = True
    message.need_rare().deliver_at = 5
    writer = BytesWriter()
    write_message(writer, message, queues, transient=False)
    return writer.getvalue()


def short(octets: bytes) -> bytes:
    """Return one record of the list."""
    return len(octets).to_bytes(2, "big") + octets


def framed(data: bytes) -> bytes:
    """Return a segment of one batch that holds the META record and the records listed in ``data``."""
    writer = BytesWriter()
    frame(writer, meta())
    count = 1
    at = 0
    while at + 2 < len(data):
        length = int.from_bytes(data[at : at + 2], "big")
        body = data[at + 2 : at + 2 + length]
        at += 2 + length
        if not body or (body[0] == SETTLE_RUN and len(body) == 17 and read_i32_be(body, 13) > RUN_LONGEST):
            continue
        frame(writer, body)
        count += 1
    octets = writer.getvalue()
    return batch_head(len(octets), count, 1, 0, 1, 0) + octets


SETTLE = b"\x03" + (1).to_bytes(4, "big") + (1).to_bytes(8, "big") + (2).to_bytes(4, "big")
REDELIVERY = b"\x05" + (2).to_bytes(8, "big") + (7).to_bytes(4, "big") + (3).to_bytes(4, "big")
LISTED = (
    short(example(1, [1]))
    + short(example(2, [1, 7]))
    + short(b"\x06\x01\x00\x00\x00\x03keyvalue")
    + short(b"\x07\x01key")
    + short(b"\x06\x00\x00\x00\x00\x04gaps" + (2).to_bytes(8, "big") + (9).to_bytes(8, "big"))
    + short(SETTLE)
    + short(b"\x04" + (7).to_bytes(4, "big") + (2).to_bytes(8, "big"))
    + short(REDELIVERY)
    + short(b"\x08" + (2).to_bytes(8, "big") + (5).to_bytes(4, "big"))
    + short(b"\x09")
)
CORPUS = [b"\x01" + LISTED, b"\x00" + framed(LISTED), b"\x00" + framed(short(example(1, [3]))) + bytes(40), b"\x01"]


def never(delay: int, action: Callable[[], None]) -> None:
    """Time does not pass."""


def fuzz(data: bytes) -> None:
    """Raises CorruptJournal for damage, AssertionError for our own mistakes."""
    disk = SimulatedDisk(Fixed(), never)
    segment = framed(data[1:]) if data[:1] and data[0] & 1 else data[1:]
    disk.create(NAME, 0)
    disk.write(NAME, 0, segment, b"")
    disk.stop()
    for line in records(disk):
        assert line.text
    checked = check(disk, Counted())
    journal = JournalCore(disk, JournalOptions())
    told = Numbers()
    try:
        journal.recover(told)
    except EntrepotError:
        assert checked.damage is not None, "a check found nothing, and the start failed"
        raise
    assert checked.damage is None, "a check found damage, and the start did not"
    journal.check()
    for number, queue in told.live:
        try:
            assert journal.reading.load(number).number == number
        finally:
            journal.settle(number, queue)
            journal.check()
    journal.close()
    assert journal.usage().messages == 0
