"""What survives a restart of names alone: addresses that somebody made on purpose, and diverts of Artemis.

Each is one document of the journal, written when it is made or changed, and removed when that is. The configuration
says its addresses and diverts at every start; what it leaves out stays until somebody removes it
(``config-delete-addresses``, ``config-delete-diverts``), as in Artemis. Composites of Classic are configuration alone.

Not compiled: the fields of a record lose their types there, and msgspec would read lists for tuples.
"""

from __future__ import annotations

import msgspec

from entrepot.core.addressing.diversion import divert
from entrepot.core.addressing.routing import Divert
from entrepot.core.records import KIND_ADDRESS, KIND_DIVERT
from entrepot.journal.log import JournalCore
from entrepot.model.address import Destination
from entrepot.model.predicate import compile_selector


class AddressRecord(msgspec.Struct, frozen=True, array_like=True):
    """An address. ``types``: the routing types that it was made for, 1 multicast, 2 anycast, 0 not said."""

    types: int


class DivertRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A divert. ``targets``: address, routing type, queue. ``passes``: copies keep their routing type.

    ``headers``: properties that are set on copies.
    """

    address: str
    targets: tuple[tuple[str, int, str], ...]
    exclusive: bool = False
    selector: str = ""
    passes: bool = False
    headers: tuple[tuple[str, str], ...] = ()


def encode_divert(order: Divert) -> bytes:
    """Return the document of a divert."""
    first = order.forwards[0] if order.forwards else None
    condition = None if first is None else first.condition
    targets = [forward.target for forward in order.forwards]
    record = DivertRecord(
        address=order.address,
        targets=tuple([(one.name, one.routing, one.queue_name) for one in targets]),
        exclusive=order.exclusive,
        selector="" if condition is None else condition.text,
        passes=first is not None and len(first.passing) > 0,
        headers=order.headers,
    )
    return msgspec.msgpack.encode(record)


def decode_divert(name: str, value: bytes) -> Divert:
    """Return the divert ``name`` that a document describes. Raises InvalidSelector."""
    record = msgspec.msgpack.decode(value, type=DivertRecord)
    condition = compile_selector(record.selector) if record.selector else None
    targets = [Destination(address, routing, False, queue) for address, routing, queue in record.targets]
    return divert(
        name, record.address, targets, record.exclusive, condition, passes=record.passes, headers=record.headers
    )


class Standing:
    """The documents of one broker, by kind and key: what is written already is not written again."""

    def __init__(self, journal: JournalCore) -> None:
        self.journal: JournalCore = journal
        self.kept: dict[tuple[int, bytes], bytes] = {}

    def keep_address(self, name: str, types: int) -> None:
        """Remember an address."""
        self._put(KIND_ADDRESS, name, msgspec.msgpack.encode(AddressRecord(types)))

    def drop_address(self, name: str) -> None:
        """Forget an address."""
        self._delete(KIND_ADDRESS, name)

    def keep_divert(self, order: Divert) -> None:
        """Remember a divert, if it is one of Artemis'."""
        if order.marks:
            self._put(KIND_DIVERT, order.name, encode_divert(order))

    def drop_divert(self, name: str) -> None:
        """Forget a divert."""
        self._delete(KIND_DIVERT, name)

    def recovered(self, kind: int, key: bytes, value: bytes) -> None:
        """Take back a document."""
        self.kept[(kind, key)] = value

    def _put(self, kind: int, name: str, value: bytes) -> None:
        key = name.encode()
        if self.kept.get((kind, key)) != value:
            self.kept[(kind, key)] = value
            self.journal.put(kind, key, value)

    def _delete(self, kind: int, name: str) -> None:
        key = name.encode()
        if self.kept.pop((kind, key), None) is not None:
            self.journal.delete(kind, key)


def types_in(value: bytes) -> int:
    """Return the routing types that the document of an address says."""
    return msgspec.msgpack.decode(value, type=AddressRecord).types
