"""The verbs of a lease, asked of real brokers: for the driver `Shard`, for executors `read_range`.

Every verb may be repeated, so a broker that goes away in the middle is looked for and asked again. What a broker
refuses is raised as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from entrepot.base.errors import LeaseError, LeaseOver, ProtocolViolation, Unreachable
from entrepot.base.uri import Endpoint, parse
from entrepot.pipeline.ledgers import Ledger, number
from entrepot.pipeline.options import Options
from entrepot.pipeline.wire import Brokers, Wire
from entrepot.protocols.stomp import ranges
from entrepot.protocols.stomp.columns import Columns
from entrepot.protocols.stomp.frames import Frame

WAIT_MS_MAX: Final = 60_000  # of one CLAIM (docs/leases.md)


class Subject(msgspec.Struct, frozen=True):
    """Whose lease on what."""

    destination: str
    subscription: str
    selector: str = ""

    @classmethod
    def of(cls, options: Options) -> Subject:
        """Return what ``options`` name."""
        return cls(options.destination, options.text("subscription"), options.text("selector"))

    def headers(self) -> dict[str, str]:
        """Return the headers that every verb carries."""
        if self.destination.startswith("/topic/"):
            return {"topic": self.destination, "subscription": self.subscription, "group": self.subscription}
        return {"queue": self.destination, "group": self.subscription}


class Piece(msgspec.Struct, frozen=True):
    """What one task reads: positions ``low`` to ``high`` - 1 on one broker."""

    broker: str
    place: str  # where that broker was when this was planned; it is looked for elsewhere too
    epoch: int
    low: int
    high: int


class Shard:
    """The driver's end of the lease on one broker. ``live``: whether its connection stands, as far as we know."""

    def __init__(self, wire: Wire, subject: Subject) -> None:
        self.broker = wire.broker
        self.subject = subject
        self.ledger = Ledger(self.broker, f"{subject.destination} at {wire.shown}")
        self.live = True
        self._wire = wire
        self._claiming = ""  # the receipt of a claim that waits

    @property
    def place(self) -> Endpoint:
        """Where the broker is."""
        return self._wire.place

    def attach(self, starting: Mapping[str, str] | None = None) -> None:
        """Become the reader; whoever was it before is fenced. Raises Refused, Unreachable.

        ``starting``: headers that say where a lease begins that is made by this.
        """
        headers = {**self.subject.headers(), **(starting or {})}
        if self.subject.selector:
            headers["selector"] = self.subject.selector
        answer = self._ask("ATTACH", headers)
        if answer.get("node") != self.broker:
            raise ProtocolViolation(
                f"the broker {self.broker} does not say what it lends", remedy="it is too old; upgrade it first"
            )
        self.ledger.attached(answer)

    def found(self, wire: Wire) -> None:
        """The broker is back, or another took its place: go on there. The lease and its epoch came along."""
        self._wire.close()
        self._wire = wire
        self._claiming = ""
        self.live = True

    def learn(self, brokers: Brokers) -> None:
        """Ask for the other brokers of the network. Raises Unreachable."""
        with self._noticed():
            brokers.learn(self._wire)

    def settle(self, up_to: int) -> None:
        """Settle every position below ``up_to``, once."""
        if up_to > self.ledger.settled:
            self._verb("SETTLE", {"end": str(up_to)})
            self.ledger.settled = up_to

    def claim(self, start: int, most: int) -> int:
        """Extend the range to at most ``start`` + ``most``; return its end as far as it came in one step."""
        return self._ended(self._verb("CLAIM", {"start": str(start), "max": str(most)}))

    def begin_claim(self, start: int, most: int, wait_ms: int) -> None:
        """Ask for a claim that waits until something is there; `claimed` tells. A second one is not begun."""
        if not self._claiming:
            fields = {"start": str(start), "max": str(most), "wait": str(min(wait_ms, WAIT_MS_MAX))}
            with self._noticed():
                self._claiming = self._wire.say("CLAIM", self._fields(fields))

    def claimed(self) -> bool:
        """Return whether the broker has answered the claim that waits. What it claimed, the next `claim` gives."""
        with self._noticed():
            if not self._claiming or not self._wire.answered(self._claiming):
                return False
            receipt, self._claiming = self._claiming, ""
            try:
                self.ledger.answered(self._wire.answer(receipt))
            except LeaseOver as error:
                raise self._explained(error) from None
            except LeaseError:
                pass  # it waited at a position that is settled by now: asked too early, nothing is wrong
        return True

    def fileno(self) -> int:
        """Return the descriptor, for select."""
        return self._wire.fileno()

    def close(self) -> None:
        """Drop the connection; the lease stays."""
        self.live = False
        self._wire.close()

    def _verb(self, command: str, fields: dict[str, str]) -> dict[str, str]:
        try:
            answer = self._ask(command, self._fields(fields))
        except LeaseError as error:
            raise self._explained(error) from None
        self.ledger.answered(answer)
        return answer

    def _fields(self, fields: dict[str, str]) -> dict[str, str]:
        return {**self.subject.headers(), "epoch": str(self.ledger.epoch), **fields}

    def _ended(self, answer: dict[str, str]) -> int:
        return number(answer, "end")

    def _ask(self, command: str, headers: dict[str, str]) -> dict[str, str]:
        with self._noticed():
            return self._wire.ask(command, headers)

    def _noticed(self) -> _Noticed:
        return _Noticed(self)

    def _explained(self, error: LeaseError) -> LeaseError:
        if not isinstance(error, LeaseOver):
            return error
        return in_use(self.subject, self.ledger.name, error)


class _Noticed:
    """Notes in a shard that its connection is lost."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Unreachable):
            self._shard.live = False


def in_use(subject: Subject, name: str, error: LeaseError) -> LeaseError:
    """Return what to tell a reader that was replaced."""
    return LeaseError(
        f"the subscription {subject.subscription!r} on {name} is in use by a newer query; this one has been replaced "
        f"({error.message})",
        remedy="run one query for each subscription; the newer one goes on where this one stood",
    )


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
