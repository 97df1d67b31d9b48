"""The values that columns hold as buffers, read back without Arrow."""

from __future__ import annotations

import itertools
import struct

from entrepot.protocols.stomp.buffers import Column, Piece, Scattered


def present(column: Column, count: int) -> list[bool]:
    if not column.valid:
        assert column.nulls == 0
        return [True] * count
    bits = [bool(column.valid[row >> 3] >> (row & 7) & 1) for row in range(count)]
    assert bits.count(False) == column.nulls > 0
    return bits


def ends(offsets: bytes) -> list[int]:
    return list(struct.unpack(f"<{len(offsets) // 4}i", offsets))


def values_of(held: Column | Piece) -> list[bytes]:
    return [held.data[low:high] for low, high in itertools.pairwise(ends(held.offsets))]


def values_in(piece: Piece) -> list[bytes]:
    if not piece.bounds:
        return values_of(piece)
    values = [piece.data[low:high] for low, high in itertools.pairwise(ends(piece.bounds))][::2]
    assert ends(piece.offsets) == [0, *itertools.accumulate(map(len, values))]
    return values


def octets(column: Column) -> list[bytes | None]:
    if isinstance(column, Scattered):
        values = [value for piece in column.pieces for value in values_in(piece)]
    else:
        values = values_of(column)
    return [value if there else None for value, there in zip(values, present(column, len(values)), strict=True)]
