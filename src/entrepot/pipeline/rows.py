"""Rows that become SEND frames: one Arrow batch in, octets out. Pure but for Arrow's own types.

Header values are escaped as STOMP 1.2 says. Columns are looked up once for each batch, not for each row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from entrepot.base.errors import InvalidDestination, InvalidOption
from entrepot.pipeline.schema import WRITABLE

if TYPE_CHECKING:
    import pyarrow as pa

DUPLICATE: Final = "_AMQ_DUPL_ID"
_ESCAPED: Final = str.maketrans({"\\": "\\\\", "\n": "\\n", ":": "\\c", "\r": "\\r"})
_NEEDS_ESCAPE: Final = re.compile(r"[\\\n\r:]")
INT_MAX: Final = (1 << 31) - 1


def escaped(text: str) -> str:
    """Return ``text`` as it stands in a header. Raises InvalidOption for a NUL, which no header can hold."""
    if "\0" in text:
        raise InvalidOption(f"the header value {text[:40]!r} holds a NUL, which STOMP cannot carry")
    return text.translate(_ESCAPED) if _NEEDS_ESCAPE.search(text) else text


class Encoder:
    """Encodes rows of one schema. ``fixed``: headers of every message, such as the stage it belongs to."""

    def __init__(self, names: Sequence[str], properties: Sequence[str], destination: str) -> None:
        self._names = list(names)
        self._properties = list(properties)
        self._destination = destination
        check_properties(self._properties)
        self._columns = [name for name in self._names if name in WRITABLE and name not in self._properties]
        if destination and "destination" in self._columns:
            self._columns.remove("destination")  # the option counts; what was read somewhere is not sent back there

    def frames(self, batch: pa.RecordBatch, fixed: str) -> Iterator[bytes]:
        """Yield the frame of each row. Raises InvalidOption, InvalidDestination for a row that cannot be a message."""
        columns: dict[str, list[Any]] = {
            name: batch.column(self._names.index(name)).to_pylist() for name in [*self._columns, *self._properties]
        }
        maps = columns.pop("properties", None) if "properties" in self._columns else None
        bodies = columns.pop("body", None)
        texts = columns.pop("text", None)
        heads = _Heads(columns, self._properties, maps, fixed, self._destination)
        for row in range(batch.num_rows):
            yield _frame(heads.head(row), bodies[row] if bodies else None, texts[row] if texts else None)


class _Heads:
    """The command and the headers of each row of one batch: ``columns`` by their names, ``maps`` of more properties.

    ``fixed``: headers of every row, as they are written. ``destination``: of every row; "": a column has it.
    """

    def __init__(
        self,
        columns: dict[str, list[Any]],
        properties: Sequence[str],
        maps: list[Any] | None,
        fixed: str,
        destination: str,
    ) -> None:
        self._writers: list[tuple[list[Any], Callable[[Any], str]]] = [
            (values, _as_property(name) if name in properties else WRITERS[name]) for name, values in columns.items()
        ]
        self._maps = maps
        self._said = {name: values for name, column in MEANT.items() if (values := columns.get(column)) is not None}
        self._persistence = columns.get("persistent")
        self._destinations = None if destination else columns.get("destination")
        head = "SEND\n" + (f"destination:{escaped(destination)}\n" if destination else "") + fixed
        self._first = head if self._persistence is not None else head + "persistent:true\n"

    def head(self, row: int) -> str:
        """Return all that stands before the body. Raises InvalidOption, InvalidDestination."""
        if self._destinations is not None and not self._destinations[row]:
            raise InvalidDestination(
                f"row {row} of a batch has no destination",
                remedy="fill the column, or use an option: queue or topic",
            )
        lines = [self._first]
        for values, writer in self._writers:
            value = values[row]
            if value is not None:
                lines.append(writer(value))
        if self._maps is not None and self._maps[row] is not None:
            lines.append(_properties(self._maps[row], row, self._said))
        if self._persistence is not None and self._persistence[row] is None:
            lines.append("persistent:true\n")
        return "".join(lines)


def _frame(head: str, body: Any, text: Any) -> bytes:
    if body is None:
        body = text if text is not None else b""
    if isinstance(body, str):
        octets = body.encode()
        if b"\0" in octets:  # a length alone would make it a message of octets
            return b"%bcontent-length:%d\namq-msg-type:text\n\n%b\0" % (head.encode(), len(octets), octets)
        return b"%b\n%b\0" % (head.encode(), octets)
    if text is not None and body == text.encode():  # read from a text message, written back as one
        return _frame(head, text, None)
    return b"%bcontent-length:%d\n\n%b\0" % (head.encode(), len(body), body)


def _header(name: str) -> Callable[[Any], str]:
    return lambda value: f"{name}:{escaped(str(value))}\n"


def _as_property(name: str) -> Callable[[Any], str]:
    shown = escaped(name)

    def line(value: Any) -> str:
        text = ("true" if value else "false") if isinstance(value, bool) else str(value)
        return f"{shown}:{escaped(text)}\n"

    return line


def _destination(value: str) -> str:
    if not value.startswith(("/queue/", "/topic/")):
        raise InvalidDestination(
            f"{value[:60]!r} is no destination", remedy='the column "destination" holds /queue/NAME or /topic/NAME'
        )
    return f"destination:{escaped(value)}\n"


def _priority(value: int) -> str:
    if not 0 <= value <= 9:
        raise InvalidOption(f"the priority {value} is not within 0 and 9")
    return f"priority:{value}\n"


def check_properties(names: Iterable[str]) -> None:
    """Raise InvalidOption for a name that no property can have: as a header of SEND it would be something else."""
    for name in names:
        column = RESERVED.get(name)
        if column is not None:
            raise InvalidOption(
                f"no property can be called {name!r}: that is a header of STOMP",
                remedy=f"use the column {column}" if column else "give it another name",
            )


def _properties(value: Any, row: int, said: Mapping[str, Sequence[Any]]) -> str:
    """Return the headers of a map. ``said``: what columns say of names that mean something, by row."""
    pairs = value.items() if isinstance(value, dict) else value
    lines: list[str] = []
    for name, text in pairs:
        if text is None or name in PASSED_OVER:
            continue
        if name in RESERVED:
            check_properties((name,))
        if name in said and said[name][row] is not None:
            raise InvalidOption(
                f"the property {name!r} and the column {MEANT[name]} say the same", remedy="leave one of the two out"
            )
        lines.append(f"{escaped(name)}:{escaped(text)}\n")
    return "".join(lines)


def _expiration(value: datetime) -> str:
    return f"expires:{int(value.timestamp() * 1000)}\n"


def _group_sequence(value: int) -> str:
    if abs(value) > INT_MAX:
        raise InvalidOption(f"the group sequence {value} does not fit 32 bits")
    return f"JMSXGroupSeq:{value}\n"


def _delay(value: int) -> str:
    if value < 0:
        raise InvalidOption(f"the delay of {value} ms lies in the past")
    return f"AMQ_SCHEDULED_DELAY:{value}\n" if value else ""


WRITERS: Final[dict[str, Callable[[Any], str]]] = {
    "destination": _destination,
    "priority": _priority,
    "expiration": _expiration,
    "correlation_id": _header("correlation-id"),
    "reply_to": _header("reply-to"),
    "type": _header("type"),
    "group_id": _header("JMSXGroupID"),
    "group_sequence": _group_sequence,
    "persistent": lambda value: "persistent:true\n" if value else "persistent:false\n",
    "duplicate_id": _header(DUPLICATE),
    "delay_ms": _delay,
}
# One rule for the names of properties. A header of STOMP that the broker takes for itself can be none: refused, with
# the column that is meant, "" where there is none. Names that JMS and ActiveMQ give to properties with a meaning keep
# it; some have a column, and then one of the two says it. What the broker writes itself is passed over, as the
# columns of a source are that mean nothing to a sink.
RESERVED: Final[dict[str, str]] = {
    "destination": "destination",
    "persistent": "persistent",
    "priority": "priority",
    "expires": "expiration",
    "correlation-id": "correlation_id",
    "reply-to": "reply_to",
    "type": "type",
    **dict.fromkeys(
        (
            "ack",
            "amq-msg-type",
            "broker-path",
            "content-length",
            "destination-type",
            "message-id",
            "receipt",
            "receipt-message-id",
            "redelivered",
            "stage",
            "subscription",
            "timestamp",
            "transaction",
        ),
        "",
    ),
}
MEANT: Final[dict[str, str]] = {
    "JMSXGroupID": "group_id",
    "_AMQ_GROUP_ID": "group_id",
    "JMSXGroupSeq": "group_sequence",
    "_AMQ_GROUP_SEQUENCE": "group_sequence",
    DUPLICATE: "duplicate_id",
    "AMQ_SCHEDULED_DELAY": "delay_ms",
    "AMQ_SCHEDULED_TIME": "delay_ms",
}
PASSED_OVER: Final = frozenset(("JMSXUserID",))
