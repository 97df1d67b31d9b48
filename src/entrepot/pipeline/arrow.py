"""From messages to Arrow: what `Columns` holds as RecordBatches of the schema that Spark asked for.

The buffers are taken over as they are. pyarrow is imported by whoever calls, in an executor: this module is not
imported without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyarrow import compute

from entrepot.protocols.stomp.columns import Column, Columns

ROWS_MAX: Final = 10_000  # as many as Spark puts into one batch itself


class Batches:
    """Makes RecordBatches of one schema for messages of one broker. ``positions``: False when nothing has one."""

    def __init__(self, schema: pa.Schema, broker: str, *, positions: bool = True) -> None:
        self.schema = schema
        self.broker = broker
        self._positions = positions

    @property
    def names(self) -> list[str]:
        """The columns that `Columns` must have."""
        return list(self.schema.names)

    def of(self, columns: Columns) -> Iterator[pa.RecordBatch]:
        """Empty ``columns`` and yield what was in it, in batches of at most ROWS_MAX rows."""
        count = int(columns.count)
        made = columns.take()
        if not count or not len(self.schema):
            return
        arrays = [self._array(field, count, made) for field in self.schema]
        whole = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        for start in range(0, count, ROWS_MAX):
            yield whole.slice(start, ROWS_MAX)

    def _array(self, field: pa.Field, count: int, made: dict[str, Column]) -> pa.Array:
        if field.name == "broker":
            return pa.repeat(pa.scalar(self.broker, field.type), count)
        if field.name == "position" and not self._positions:
            return pa.nulls(count, field.type)
        if pa.types.is_struct(field.type):
            return properties(field.type, count, made[field.name])
        return array(field.type, count, made[field.name])


def properties(type_: pa.StructType, count: int, column: Column) -> pa.Array:
    """Return ``count`` rows of properties as the struct ``type_``; null for what is not there, or not of its type."""
    pairs = array(pa.map_(pa.string(), pa.string()), count, column)
    children = [typed(compute.map_lookup(pairs, field.name, "first"), field.type) for field in type_]
    return pa.StructArray.from_arrays(children, fields=list(type_))


def typed(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Return ``texts`` read as ``type_``; null for one that is none."""
    if pa.types.is_string(type_):
        return texts
    if pa.types.is_boolean(type_):
        lowered = compute.utf8_lower(texts)
        true, false = compute.equal(lowered, "true"), compute.equal(lowered, "false")
        return compute.if_else(compute.or_(true, false), true, None)
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
