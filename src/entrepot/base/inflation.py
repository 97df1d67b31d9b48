"""Compressed bodies, opened with a bound: a small one may inflate to a thousand times its octets.

Both families compress with zlib (RFC 1950). [C]
"""

from __future__ import annotations

import zlib
from typing import Final

from entrepot.base.environment import MIB
from entrepot.base.errors import LimitExceeded, MalformedFrame

DEFLATE_RATIO_MAX: Final = 1032
"""No deflate stream inflates to more (RFC 1951: 258 octets from two bits)."""
PIECE_OCTETS: Final = 1024  # becomes a megabyte at most
INFLATED_OCTETS_MAX: Final = 100 * MIB
"""The limit of ActiveMQ (``maxInflatedDataSize``)."""


def inflate(octets: bytes, inflated_max: int, *, unended: bool = False) -> bytes:
    """Return the octets of a zlib stream. Raises LimitExceeded for one that has more than ``inflated_max``.

    ``unended``: a stream that was flushed and not finished will do. One that could be too long is measured before
    anything of it is kept.
    """
    if len(octets) * DEFLATE_RATIO_MAX > inflated_max:
        _measure(octets, inflated_max)
    stream = zlib.decompressobj()
    try:
        body = stream.decompress(octets, inflated_max + 1)
    except zlib.error as error:
        raise MalformedFrame(f"a compressed body cannot be inflated: {error}") from error
    if len(body) > inflated_max:
        raise LimitExceeded(f"a compressed body inflates to more than {inflated_max} octets")
    if not stream.eof and not unended:
        raise MalformedFrame("a compressed body ends too early")
    return body


def _measure(octets: bytes, inflated_max: int) -> None:
    """Raise LimitExceeded when ``octets`` inflate to more than ``inflated_max``. Keeps one piece at a time."""
    stream = zlib.decompressobj()
    total = 0
    try:
        for at in range(0, len(octets), PIECE_OCTETS):
            total += len(stream.decompress(octets[at : at + PIECE_OCTETS]))
            if total > inflated_max:
                raise LimitExceeded(f"a compressed body inflates to more than {inflated_max} octets")
    except zlib.error:
        return  # what follows says so
