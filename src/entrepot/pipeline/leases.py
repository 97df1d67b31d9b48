"""What a task reads of a lease: a piece of a range, portion by portion.

Reading may be repeated, so a broker that goes away in the middle is looked for and asked again. What a broker refuses
is raised as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from entrepot.base.errors import LeaseOver, ProtocolViolation, Unreachable
from entrepot.base.uri import Endpoint, parse
from entrepot.driver.ledger import number
from entrepot.driver.shard import Piece, Subject, in_use
from entrepot.pipeline.blocking import Brokers
from entrepot.pipeline.wire import Wire
from entrepot.protocols.stomp import ranges
from entrepot.protocols.stomp.columns import Columns
from entrepot.protocols.stomp.frames import Frame


def read_range(
    brokers: Brokers, subject: Subject, piece: Piece, octets: int, names: Sequence[str]
) -> Iterator[Columns]:
    """Yield the columns ``names`` of ``piece`` in portions of about ``octets``, following the broker if it moves.

    Each portion is to be taken out before the next one is asked for. Has no side effect: reading again gives the same
    messages. Raises LeaseError when they are settled, or held by a newer query; Unreachable.
    """
    at = piece.low
    hint = parse(piece.place) if piece.place else None
    while at < piece.high:
        wire = brokers.open(piece.broker, hint if isinstance(hint, Endpoint) else None)
        try:
            for portion in _portions(wire, subject, piece, at, octets, names):
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


def _portions(
    wire: Wire, subject: Subject, piece: Piece, at: int, octets: int, names: Sequence[str]
) -> Iterator[Columns]:
    fields = {"epoch": str(piece.epoch), "start": str(at), "end": str(piece.high), "form": ranges.FORM}
    receipt = wire.say("READ", {**subject.headers(), **fields})
    portion = Columns(names)
    held = 0  # what came: a column that is not wanted counts too, the socket's buffers hold it
    for frame in wire.messages(receipt):
        if frame.headers.get("form") == ranges.FORM:
            portion.add_entries(frame.body)
        else:
            append_single(portion, frame, number(frame.headers, "position"))
        held += len(frame.body)
        if held >= octets:
            yield portion
            held = 0
    if portion.count:
        yield portion


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
        headers.get("message-id", "").encode(),
        headers.get("destination", "").encode(),
        "".join(rest).encode(),
        frame.body,
    )


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace(":", "\\c").replace("\r", "\\r")
