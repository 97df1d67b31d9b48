"""What a task reads of a lease: a piece of a range, portion by portion.

Reading may be repeated, so a broker that goes away in the middle is looked for and asked again. What a broker refuses
is raised as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from entrepot.base.errors import LeaseOver, ProtocolViolation, Refused, Unreachable
from entrepot.base.uri import Endpoint, parse
from entrepot.driver.ledger import number
from entrepot.driver.shard import Piece, Subject, in_use
from entrepot.pipeline.beside import Files, PlacedRows
from entrepot.pipeline.blocking import Brokers
from entrepot.pipeline.wire import Wire
from entrepot.protocols.stomp import located, ranges
from entrepot.protocols.stomp.columns import Columns
from entrepot.protocols.stomp.frames import Frame

ASKED_FIRST: Final = 1_024  # messages; then as many as one read has, whose bodies are gathered without a further copy
ASKED_LEAST: Final = 64  # however long they are, or short a batch: an answer is a way to the broker and back
SENT_FIRST: Final = 16  # messages; a group among others is a few
SENT_ALONE: Final = 8_192  # where so many in a row could not be read, it is not even asked where as many more are


def read_range(
    brokers: Brokers, subject: Subject, piece: Piece, octets: int, names: Sequence[str], *, direct: bool = True
) -> Iterator[Columns]:
    """Yield the columns ``names`` of ``piece`` in portions of about ``octets``, following the broker if it moves.

    ``direct``: from the files of a broker on this machine, where they can be read. Each portion is to be taken out
    before the next one is asked for. Has no side effect: reading again gives the same messages. Raises LeaseError when
    they are settled, or held by a newer query; Unreachable.
    """
    at = piece.low
    hint = parse(piece.place) if piece.place else None
    while at < piece.high:
        wire = brokers.open(piece.broker, hint if isinstance(hint, Endpoint) else None)
        try:
            for portion in _Reading(wire, subject, piece, octets, names).portions(at, direct=direct and wire.is_beside):
                following = int(portion.next)
                yield portion
                at = following
        except Unreachable:
            continue
        except LeaseOver as error:
            raise in_use(subject, f"{subject.destination} at {wire.shown}", error) from None
        finally:
            wire.close()
        if at < piece.high:
            raise ProtocolViolation(
                f"{wire.shown} gave positions up to {at} of a range that ends at {piece.high}", remedy="see its log"
            )


class _Reading:
    """The reading of one piece over one connection."""

    def __init__(self, wire: Wire, subject: Subject, piece: Piece, octets: int, names: Sequence[str]) -> None:
        self._wire = wire
        self._high = piece.high
        self._fields = {**subject.headers(), "epoch": str(piece.epoch)}
        self._octets = octets
        self._portion = Columns(names)
        self._sent = SENT_FIRST  # messages that are asked for where one cannot be read where it is
        self._most = ASKED_FIRST  # messages whose places are asked for
        self._asked = ""  # the receipt of what was asked ahead
        self._heard: Frame | None = None  # and the answer, if it had to be taken early

    def portions(self, at: int, *, direct: bool) -> Iterator[Columns]:
        """Yield what is at ``at`` and behind it."""
        if direct:
            yield from self._where_they_are(at)
        else:
            yield from self._as_sent(at, self._high)
        if self._portion.count:
            yield self._portion

    def _say(self, at: int, high: int, form: str) -> str:
        return self._wire.say("READ", {**self._fields, "start": str(at), "end": str(high), "form": form})

    def _as_sent(self, at: int, high: int) -> Iterator[Columns]:
        portion = self._portion
        self._hear_ahead()
        for frame in self._wire.messages(self._say(at, high, ranges.FORM)):
            if frame.headers.get("form") == ranges.FORM:
                portion.add_entries(frame.body)
            else:
                append_single(portion, frame, number(frame.headers, "position"))
            if portion.octets >= self._octets:
                yield portion

    def _where_they_are(self, at: int) -> Iterator[Columns]:
        """Yield what is read in the files of the broker, and what is sent where that cannot be."""
        files = Files()
        try:
            while at < self._high:
                told = self._told(at) if self._sent < SENT_ALONE else None
                if told is None:
                    end = self._following(at, self._high)
                    yield from self._as_sent(at, end)
                    at = end
                else:
                    rows = PlacedRows(told, files, self._portion, self._octets)
                    if not 0 < rows.count <= self._high - at:
                        raise ProtocolViolation(
                            f"{self._wire.shown} told the places of {rows.count} messages; {self._high - at} are left",
                            remedy="see its log, or read with shortCircuit=false",
                        )
                    self._most = max(rows.filling(self._most), ASKED_LEAST)
                    self._ask_ahead(at + rows.count)
                    yield from self._placed(rows, at)
                    at += rows.count
        finally:
            files.close()

    def _placed(self, rows: PlacedRows, first: int) -> Iterator[Columns]:
        """Yield the messages that one answer tells the places of, the first of which is at ``first``."""
        while rows.row < rows.count:
            found = rows.add(first + rows.row)
            if found >= self._sent:
                self._sent = SENT_FIRST
            elif found == 0:
                at = first + rows.row
                end = self._following(at, first + rows.count)
                yield from self._as_sent(at, end)
                rows.row += end - at
            if self._portion.octets * 2 >= self._octets:  # the next read may be as much as a whole portion
                yield self._portion

    def _following(self, at: int, high: int) -> int:
        """Return up to where messages are sent; twice as many the next time, unless reading goes on well meanwhile."""
        end = min(at + self._sent, high)
        self._sent *= 2
        return end

    def _ask_ahead(self, at: int) -> None:
        """Ask where the messages at ``at`` and behind it are: the broker answers while files are read."""
        if at < self._high:
            self._asked = self._say(at, min(at + self._most, self._high), located.FORM)

    def _hear_ahead(self) -> None:
        """Take the answer to that, if it is still to come: another question would get it."""
        if self._asked:
            receipt, self._asked = self._asked, ""
            self._heard = self._answer(receipt)

    def _told(self, at: int) -> Frame | None:
        """Return where the messages from ``at`` on are; None: the broker has to send them."""
        if not self._asked and self._heard is None:
            self._ask_ahead(at)
        self._hear_ahead()
        told, self._heard = self._heard, None
        return told if told is not None and number(told.headers, "position") == at else None

    def _answer(self, receipt: str) -> Frame | None:
        """Return what came; a broker that is too old to know what it was asked tells nothing."""
        try:
            frames = list(self._wire.messages(receipt))
        except Refused as error:
            if error.code != Refused.code:
                raise
            return None
        return frames[0] if frames else None


OWN_FIELDS: Final = (
    "subscription",
    "destination",
    "message-id",
    "position",
    "timestamp",
    "expires",
    "priority",
    "persistent",
    "redelivered",
    "ack",
)


def append_single(portion: Columns, frame: Frame, position: int) -> None:
    """Append a message that came as a frame of its own: one with a large body, or one that is browsed."""
    headers = frame.headers
    flags = ranges.PERSISTENT if headers.get("persistent") == "true" else 0
    flags |= ranges.REDELIVERED if headers.get("redelivered") == "true" else 0
    if "content-length" in headers and headers.get("amq-msg-type") != "text":
        flags |= ranges.OCTETS
    rest = [f"{_escaped(name)}:{_escaped(text)}\n" for name, text in headers.items() if name not in OWN_FIELDS]
    portion.add(
        position,
        int(headers.get("timestamp") or 0),
        int(headers.get("expires") or 0),
        int(headers.get("priority") or 4),
        flags,
        1 if flags & ranges.REDELIVERED else 0,
        b"",
        headers.get("message-id", "").encode(),
        headers.get("destination", "").encode(),
        "".join(rest).encode(),
        frame.body,
        0,
        len(frame.body),
    )


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace(":", "\\c").replace("\r", "\\r")
