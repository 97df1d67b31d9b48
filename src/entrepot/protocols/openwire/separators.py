"""Names whose words are set apart by another character than a dot, as ``destinationPathSeparatorPlugin`` has it. [C]

Whoever sends or reads ``a/b/c`` means ``a.b.c`` then, wildcards included, and is shown the name with dots. Commands are
changed as they come in, before anything looks at them: nothing behind this knows of other separators.
"""

from __future__ import annotations

from typing import Final

from entrepot.protocols.openwire.commands import (
    ConsumerInfo,
    Destination,
    DestinationInfo,
    Message,
    MessageAck,
    MessagePull,
    ProducerInfo,
)
from entrepot.protocols.openwire.convert import named
from entrepot.protocols.openwire.frames import Structure
from entrepot.protocols.openwire.ids import is_queue, is_temporary

WORDS: Final = "."
OTHERS: Final = ","  # what stands between the parts of a composite
KIND: Final = "://"


def dot(command: Structure, separator: str) -> None:
    """Set the words of the destination in ``command`` apart by dots. Decoded names may be shared: they stay."""
    if isinstance(command, Message):
        where = dotted(command.destination, separator)
        if where is not command.destination:
            command.destination = where
            command.first = None  # its octets have the other name
    elif isinstance(command, (ConsumerInfo, ProducerInfo, DestinationInfo, MessageAck, MessagePull)):
        command.destination = dotted(command.destination, separator)


def dotted(where: Destination | None, separator: str) -> Destination | None:
    """Return ``where`` with dots, or itself if it needs none. The kind before a part of a composite is no word."""
    if where is None or is_temporary(where) or separator not in (where.physical_name or ""):
        return where
    parts: list[str] = []
    for part in (where.physical_name or "").split(OTHERS):
        kind, mark, name = part.rpartition(KIND)
        parts.append(kind + mark + name.replace(separator, WORDS))
    return named(OTHERS.join(parts), not is_queue(where), False)
