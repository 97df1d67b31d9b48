"""The names and numbers that a broker gives: to itself, to messages, to consumers, to temporary destinations. [C]

Message numbers rise over the whole life of a data directory. They are reserved in the journal in blocks, so that none
is given twice after a crash.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from entrepot.base.errors import EntrepotError
from entrepot.core.records import KIND_NUMBERS
from entrepot.journal.log import JournalCore, Waiter
from entrepot.model.ids import NodeIdentity, connection_id
from entrepot.model.message import Message

NUMBERS_RESERVED: Final = 1 << 20  # message numbers reserved at a time: one small record a million messages


class _Secured(Waiter):
    """Makes the journal sync where nobody waits for an answer."""

    def stored(self, token: bytes) -> None:
        """It is safe."""

    def store_failed(self, token: bytes, error: EntrepotError) -> None:
        """The journal failed: nothing that matters is accepted any more."""


class Identities:
    """What tells this broker, this run of it, and all that it numbers from everything else."""

    def __init__(self, journal: JournalCore) -> None:
        self.journal: JournalCore = journal
        self.node_id: str = ""
        self.node: NodeIdentity = NodeIdentity()
        self.prefix: str = ""  # of the ids of messages, and the UUID: as ``node`` has them, once a message
        self.uuid: bytes = b""
        self.run: i64 = 0  # tells this run of the broker from every other
        self.number: i64 = 0  # of the last message
        self.reserved: i64 = 0
        self.next_key: i64 = 0

    def set_node(self, node: NodeIdentity) -> None:
        """Take the identity that the journal keeps."""
        self.node = node
        self.node_id = node.node_id
        self.prefix = node.message_prefix
        self.uuid = node.uuid

    def next_number(self) -> i64:
        """Return a fresh message number; reserves a further block in the journal well before the last is used up."""
        number = self.number + 1
        self.number = number
        if number > self.reserved - NUMBERS_RESERVED // 2:
            self.reserve()
        return number

    def next_numbers(self, count: i64) -> i64:
        """Take as many fresh numbers, one behind the other; return the first. At most a quarter of a block."""
        first = self.number + 1
        self.number += count
        if self.number > self.reserved - NUMBERS_RESERVED // 2:
            self.reserve()
        return first

    def reserve(self) -> None:
        """Reserve a further block of numbers, and have it synced: one lost in a crash would be given twice."""
        self.reserved += NUMBERS_RESERVED
        self.journal.put(KIND_NUMBERS, b"", int(self.reserved).to_bytes(8, "big"))
        self.secure()  # half a block is left until it is needed

    def secure(self) -> None:
        """Have all that was done so far synced, though nobody waits for an answer: else only the next one brings it."""
        self.journal.confirm(_Secured(), b"")

    def identity_of(self, message: Message) -> str:
        """Return the message id as clients see it."""
        rare = message.rare
        if rare is not None and rare.identity:
            return rare.identity
        return message.language.identity(message) or f"{self.prefix}{int(message.number)}"

    def digits_of(self, message: Message) -> bytes:
        """Return what stands behind ``ID:`` in that, where no protocol has to escape it; b"" elsewhere."""
        rare = message.rare
        return b"" if rare is not None and rare.identity else message.language.digits(message)

    def renumbered(self, message: Message) -> Message:
        """Return a twin with a number of its own that keeps the identity clients know."""
        twin = message.twin(message.address)
        twin.number = self.next_number()
        rare = twin.need_rare()
        if not rare.identity:
            rare.identity = self.identity_of(message)
        rare.duplicate_id = b""
        return twin

    def consumer_key(self) -> i64:
        """Return a fresh key for a consumer."""
        self.next_key += 1
        return self.next_key

    def temporary_name(self, connection: i64, alias: str) -> str:
        """Return a name for a temporary destination of one connection, which no other broker or run gives again."""
        self.next_key += 1
        return f"{connection_id(self.node_id, int(connection))}:{int(self.run):x}-{self.next_key}:{alias}"
