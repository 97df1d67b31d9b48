"""From messages to Arrow: columns of a `Range` as RecordBatches of the schema that Spark asked for.

Only the columns that are asked for are made; header lines are read only when one of them needs them. pyarrow is
imported by whoever calls, in an executor: this module is not imported without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa

from entrepot.protocols.stomp.ranges import OCTETS, PERSISTENT, REDELIVERED, Range, headers_of

ROWS_MAX: Final = 10_000  # as many as Spark puts into one batch itself
PATH: Final = "broker-path"  # header: brokers passed, with commas between them
# Headers that have columns of their own, or say what another column says.
NOT_PROPERTIES: Final = frozenset(
    ("content-length", "correlation-id", "reply-to", "type", "amq-msg-type", "JMSXGroupID", "JMSXGroupSeq", PATH)
)

Headers = list[dict[str, str]]
Values = list[Any]


class Batches:
    """Makes RecordBatches of one schema for messages of one broker."""

    def __init__(self, schema: pa.Schema, broker: str, *, positions: bool = True) -> None:
        self.schema = schema
        self.broker = broker
        self._positions = positions
        self._makers: list[tuple[pa.Field, Callable[[Range, Headers], Values]]] = [
            (field, getattr(self, f"_{field.name}")) for field in schema
        ]
        self._needs_headers = any(field.name in OF_HEADERS for field in schema)

    def of(self, portion: Range) -> Iterator[pa.RecordBatch]:
        """Yield ``portion`` in batches of at most ROWS_MAX rows."""
        count = len(portion)
        headers: Headers = _headers(portion.headers) if self._needs_headers else []
        arrays = [self._array(field, maker(portion, headers)) for field, maker in self._makers]
        if not arrays:
            return
        whole = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        for start in range(0, count, ROWS_MAX):
            yield whole.slice(start, ROWS_MAX)

    def _array(self, field: pa.Field, values: Values) -> pa.Array:
        if pa.types.is_map(field.type):
            return _map_array(field.type, values)
        return pa.array(values, field.type)

    # -- one method for each column, by its name ----------------------------------------------------------------------

    def _message_id(self, portion: Range, headers: Headers) -> Values:
        return portion.ids

    def _destination(self, portion: Range, headers: Headers) -> Values:
        return portion.destinations

    def _body(self, portion: Range, headers: Headers) -> Values:
        return portion.bodies

    def _text(self, portion: Range, headers: Headers) -> Values:
        return [
            None if flags & OCTETS else body.decode("utf-8", "replace")
            for body, flags in zip(portion.bodies, portion.flags, strict=True)
        ]

    def _properties(self, portion: Range, headers: Headers) -> Values:
        return [[pair for pair in found.items() if pair[0] not in NOT_PROPERTIES] for found in headers]

    def _priority(self, portion: Range, headers: Headers) -> Values:
        return portion.priorities

    def _timestamp(self, portion: Range, headers: Headers) -> Values:
        return [ms * 1000 if ms else None for ms in portion.timestamps]

    def _expiration(self, portion: Range, headers: Headers) -> Values:
        return [ms * 1000 if ms else None for ms in portion.expirations]

    def _correlation_id(self, portion: Range, headers: Headers) -> Values:
        return [found.get("correlation-id") for found in headers]

    def _reply_to(self, portion: Range, headers: Headers) -> Values:
        return [found.get("reply-to") for found in headers]

    def _type(self, portion: Range, headers: Headers) -> Values:
        return [found.get("type") for found in headers]

    def _group_id(self, portion: Range, headers: Headers) -> Values:
        return [found.get("JMSXGroupID") for found in headers]

    def _group_sequence(self, portion: Range, headers: Headers) -> Values:
        return [_number(found.get("JMSXGroupSeq")) for found in headers]

    def _persistent(self, portion: Range, headers: Headers) -> Values:
        return [bool(flags & PERSISTENT) for flags in portion.flags]

    def _redelivered(self, portion: Range, headers: Headers) -> Values:
        return [bool(flags & REDELIVERED) for flags in portion.flags]

    def _delivery_count(self, portion: Range, headers: Headers) -> Values:
        return [before + 1 for before in portion.deliveries]

    def _broker(self, portion: Range, headers: Headers) -> Values:
        return [self.broker] * len(portion)

    def _position(self, portion: Range, headers: Headers) -> Values:
        return portion.positions if self._positions else [None] * len(portion)

    def _path(self, portion: Range, headers: Headers) -> Values:
        return [_split(found.get(PATH)) for found in headers]


OF_HEADERS: Final = frozenset(
    ("properties", "correlation_id", "reply_to", "type", "group_id", "group_sequence", "path")
)


def _headers(lines: list[bytes]) -> Headers:
    """Return the headers of each message; runs of messages often carry the same lines, which are read once."""
    found: Headers = []
    before = b""
    read: dict[str, str] = {}
    for octets in lines:
        if octets != before:
            before = octets
            read = headers_of(octets)
        found.append(read)
    return found


def _map_array(type_: pa.MapType, values: list[list[tuple[str, str]]]) -> pa.Array:
    offsets = [0]
    keys: list[str] = []
    items: list[str] = []
    for pairs in values:
        for key, item in pairs:
            keys.append(key)
            items.append(item)
        offsets.append(len(keys))
    return pa.MapArray.from_arrays(
        pa.array(offsets, pa.int32()), pa.array(keys, type_.key_type), pa.array(items, type_.item_type), type=type_
    )


def _number(text: str | None) -> int | None:
    if text is None or not text.lstrip("-").isdigit():
        return None
    number = int(text)
    return number if -(1 << 31) <= number < 1 << 31 else None


def _split(text: str | None) -> list[str]:
    return text.split(",") if text else []
