"""From messages to Arrow: what `Columns` holds as RecordBatches of the schema that Spark asked for.

The buffers are taken over as they are; bodies are gathered, once for all columns that show them. pyarrow is imported by
whoever calls, in an executor: this module is not imported without it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa
from pyarrow import compute

from entrepot.protocols.stomp.buffers import Column, Piece, Scattered
from entrepot.protocols.stomp.columns import Columns

ROWS_MAX: Final = 10_000  # as many as Spark puts into one batch itself
EVERY_OTHER: Final = b"\x55"  # bits, the lowest first


def constant(octets: bytes, type_: pa.DataType) -> pa.Scalar:
    """Return a scalar of binary or string.

    `pa.scalar` would import pandas, if that is there, to see whether it is one of its own: 40 MB for each worker.
    """
    offsets = bytes(4) + len(octets).to_bytes(4, "little")
    return pa.Array.from_buffers(type_, 1, [None, pa.py_buffer(offsets), pa.py_buffer(octets)])[0]


EMPTY: Final = constant(b"", pa.binary())
TRUE: Final = constant(b"true", pa.string())
FALSE: Final = constant(b"false", pa.string())


class Batches:
    """Makes RecordBatches of one schema for messages of one broker. ``positions``: False when nothing has one."""

    def __init__(self, schema: pa.Schema, broker: str, *, positions: bool = True) -> None:
        self.schema = schema
        self._makers = [_maker(field, broker, positions=positions) for field in schema]

    @property
    def names(self) -> list[str]:
        """The columns that `Columns` must have."""
        return list(self.schema.names)

    def of(self, columns: Columns) -> Iterator[pa.RecordBatch]:
        """Empty ``columns`` and yield what was in it, in batches of at most ROWS_MAX rows."""
        count = int(columns.count)
        made = Made(count, columns.take())
        if not count or not self._makers:
            return
        whole = pa.RecordBatch.from_arrays([make(made) for make in self._makers], schema=self.schema)
        for start in range(0, count, ROWS_MAX):
            yield whole.slice(start, ROWS_MAX)


class Made:
    """What was made of ``count`` messages."""

    def __init__(self, count: int, columns: dict[str, Column]) -> None:
        self.count = count
        self.columns = columns

    @functools.cached_property
    def bodies(self) -> pa.BinaryArray:
        """All bodies, put together."""
        return gathered(next(each.pieces for each in self.columns.values() if isinstance(each, Scattered)))


def _maker(field: pa.Field, broker: str, *, positions: bool) -> Callable[[Made], pa.Array]:
    """Return what makes the array of ``field``."""
    name, type_ = field.name, field.type
    if name == "broker":
        same = constant(broker.encode(), type_)
        return lambda made: pa.repeat(same, made.count)
    if name == "position" and not positions:
        return lambda made: pa.nulls(made.count, type_)
    if name == "body":
        return lambda made: made.bodies
    if name == "text":
        return lambda made: texts(made.bodies, made.columns[name])
    if pa.types.is_struct(type_):
        return lambda made: properties(type_, made.count, made.columns[name])
    return lambda made: array(type_, made.count, made.columns[name])


def gathered(pieces: list[Piece]) -> pa.BinaryArray:
    """Return the values of all ``pieces`` as one array."""
    found = [_values(piece) for piece in pieces]
    return found[0] if len(found) == 1 else pa.concat_arrays(found)


def _values(piece: Piece) -> pa.BinaryArray:
    data, offsets = pa.py_buffer(piece.data), pa.py_buffer(piece.offsets)
    if piece.bounds:
        data = _together(data, pa.py_buffer(piece.bounds))
    return pa.Array.from_buffers(pa.binary(), len(piece.offsets) // 4 - 1, [None, offsets, data])


def _together(data: pa.Buffer, bounds: pa.Buffer) -> pa.Buffer:
    """Return the values between ``bounds`` one behind the other: what is between two of them becomes empty."""
    count = bounds.size // 4 - 1
    all_ = pa.Array.from_buffers(pa.binary(), count, [None, bounds, data])
    is_value = pa.Array.from_buffers(pa.bool_(), count, [None, pa.py_buffer(EVERY_OTHER * (count // 8 + 1))])
    return compute.if_else(is_value, all_, EMPTY).buffers()[2]


def texts(bodies: pa.BinaryArray, column: Column) -> pa.StringArray:
    """Return ``bodies`` as texts, where ``column`` says that they are; U+FFFD stands for what is not UTF-8."""
    count = len(bodies)
    if column.nulls == count:
        return pa.nulls(count, pa.string())
    if column.nulls:
        valid = pa.Array.from_buffers(pa.bool_(), count, [None, pa.py_buffer(column.valid)])
        bodies = compute.if_else(valid, bodies, pa.nulls(1, pa.binary())[0])
    try:
        return bodies.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([_text(each) for each in bodies.to_pylist()], pa.string())


def _text(octets: bytes | None) -> str | None:
    return None if octets is None else octets.decode("utf-8", "replace")


def properties(type_: pa.StructType, count: int, column: Column) -> pa.Array:
    """Return ``count`` rows of properties as the struct ``type_``; null for what is not there, or not of its type."""
    pairs = array(pa.map_(pa.string(), pa.string()), count, column)
    children = [
        typed(compute.map_lookup(pairs, constant(field.name.encode(), pa.string()), "first"), field.type)
        for field in type_
    ]
    return pa.StructArray.from_arrays(children, fields=list(type_))


def typed(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return ``texts`` read as ``type_``; null for one that is none."""
    if pa.types.is_string(type_):
        return texts
    if pa.types.is_boolean(type_):
        lowered = compute.utf8_lower(texts)
        true, false = compute.equal(lowered, TRUE), compute.equal(lowered, FALSE)
        return compute.if_else(compute.or_(true, false), true, pa.nulls(1, pa.bool_())[0])
    try:
        return texts.cast(type_)
    except pa.ArrowInvalid:  # one of them is no such number; they are seldom so many that each by itself is too slow
        return pa.array([_one(text, type_) for text in texts], type_)


def _one(text: pa.Scalar, type_: pa.DataType) -> Any:
    try:
        return text.cast(type_).as_py()
    except pa.ArrowInvalid:
        return None


def array(type_: Any, count: int, column: Column) -> pa.Array:
    """Return the array of ``count`` values that ``column`` holds."""
    if pa.types.is_map(type_):
        keys, items = column.children
        length = _length(keys)
        return pa.MapArray.from_arrays(
            _offsets(column), array(type_.key_type, length, keys), array(type_.item_type, length, items), type=type_
        )
    if pa.types.is_list(type_):
        (values,) = column.children
        return pa.ListArray.from_arrays(_offsets(column), array(type_.value_type, _length(values), values), type=type_)
    buffers = [pa.py_buffer(column.valid) if column.valid else None]
    if column.offsets:
        buffers.append(pa.py_buffer(column.offsets))
    buffers.append(pa.py_buffer(column.data))
    return pa.Array.from_buffers(type_, count, buffers, column.nulls)


def _length(column: Column) -> int:
    return len(column.offsets) // 4 - 1


def _offsets(column: Column) -> pa.Array:
    return pa.Array.from_buffers(pa.int32(), len(column.offsets) // 4, [None, pa.py_buffer(column.offsets)])
