"""What `read_range` and `browse` yield, without Arrow."""

from __future__ import annotations

from buffered import octets
from entrepot.protocols.stomp.columns import Columns

BODY = ["body"]


def bodies(portion: Columns) -> list[bytes | None]:
    """Empty ``portion``; return the bodies that were in it."""
    return octets(portion.take()["body"])
