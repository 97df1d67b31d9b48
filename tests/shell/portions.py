"""What `read_range` and `browse` yield, without Arrow."""

from __future__ import annotations

import itertools
import struct

from entrepot.protocols.stomp.columns import Columns

BODY = ["body"]


def bodies(portion: Columns) -> list[bytes]:
    """Empty ``portion``; return the bodies that were in it."""
    column = portion.take()["body"]
    ends = struct.unpack(f"<{len(column.offsets) // 4}i", column.offsets)
    return [column.data[low:high] for low, high in itertools.pairwise(ends)]
