"""What a queue is: one immutable value, made from the configuration, by a verb or for a reader, kept in the journal.

The fields are those of Artemis' QueueConfiguration (artemis.md 4.1), and who owns the queue. The settings of its
address are not here (`core/addressing/policy.py`), nor its state: `QueueRecord` is what the journal keeps of both.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import fields

from entrepot.base.errors import CorruptJournal, Refused
from entrepot.core.owners import ConnectionOwner, Owner, ReaderOwner, SubscriptionOwner, connection_of
from entrepot.core.records import QUEUE_LAYOUT
from entrepot.model.address import ANYCAST, MULTICAST

ROW: Final = 0x80


class QueueDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a queue is, from its making to its end. -1 is off or unlimited, "" none, None not said."""

    name: str
    address: str
    routing: int = ANYCAST
    selector: str = ""
    durable: bool = True
    temporary: bool = False
    auto_created: bool = False
    no_local: bool = False  # of a durable subscription: its reader's own messages are not routed here
    owner: Owner | None = None
    internal: bool = False  # not obeyed yet: `check` refuses it
    user: str = ""  # who made it, for people
    configured: bool = False  # a configuration file named it when that was read last
    enabled: bool = True
    # What nobody said (None) the settings of the address decide: `core/addressing/traits.py`.
    max_consumers: int | None = None
    exclusive: bool | None = None
    purge_on_no_consumers: bool | None = None
    consumers_before_dispatch: int | None = None
    delay_before_dispatch_ms: int | None = None
    group_rebalance: bool | None = None
    group_rebalance_pause: bool | None = None
    group_buckets: int | None = None
    group_first_key: str | None = None
    last_value: bool | None = None
    last_value_key: str | None = None
    non_destructive: bool | None = None
    ring_size: int | None = None
    auto_delete: bool | None = None
    auto_delete_delay_ms: int | None = None
    auto_delete_messages: int | None = None

    @property
    def connection(self) -> str:
        """The connection whose own this temporary queue is; "" when it is nobody's."""
        return connection_of(self.owner)

    @property
    def made_for_reader(self) -> bool:
        """Whether it is a subscription that was made for one reader by lease alone."""
        return isinstance(self.owner, ReaderOwner)

    @property
    def subscription(self) -> tuple[str, str] | None:
        """Client id and name of the durable subscription that this is; those made for a reader: its group and topic."""
        owner = self.owner
        if isinstance(owner, SubscriptionOwner):
            return owner.client_id, owner.name
        return (owner.group, owner.topic) if isinstance(owner, ReaderOwner) else None

    def says_nothing(self) -> bool:
        """Say whether the settings of the address decide all that a queue does."""
        return self.enabled and all(getattr(self, name) is None for name in ATTRIBUTES)

    def check(self) -> None:
        """Raise Refused for what this version does not obey: nobody shall believe that a queue has it."""
        for field in fields(self):
            value = getattr(self, field.name)
            name = field.name.removesuffix("_ms").replace("_", "-")
            if field.name in NOT_OBEYED and value != field.default:
                raise Refused(
                    f"the queue {self.name!r} cannot have {name}: queues do not obey it yet",
                    remedy="leave it out; what address settings say is obeyed",
                )
            if field.name in ATTRIBUTES and type(value) is int and not -1 <= value <= MOST:
                raise Refused(f"the queue {self.name!r} cannot have {name} {value}", remedy=f"use -1 to {MOST}")


ATTRIBUTES: Final = (
    "max_consumers",
    "exclusive",
    "purge_on_no_consumers",
    "consumers_before_dispatch",
    "delay_before_dispatch_ms",
    "group_rebalance",
    "group_rebalance_pause",
    "group_buckets",
    "group_first_key",
    "last_value",
    "last_value_key",
    "non_destructive",
    "ring_size",
    "auto_delete",
    "auto_delete_delay_ms",
    "auto_delete_messages",
)
"""What a definition may say in place of the settings of its address."""
NOT_OBEYED: Final = frozenset(("internal",))
MOST: Final = 2**40  # of counts, and of ms: 34 years


def temporary(name: str, connection: str) -> QueueDefinition:
    """Define the temporary queue ``name`` of one connection."""
    return QueueDefinition(name=name, address=name, durable=False, temporary=True, owner=ConnectionOwner(connection))


def subscriber(name: str, topic: str, selector: str) -> QueueDefinition:
    """Define the queue of a plain subscriber to ``topic``, which goes when he does."""
    return QueueDefinition(
        name=name, address=topic, routing=MULTICAST, selector=selector, durable=False, temporary=True
    )


def durable_subscription(
    name: str, topic: str, selector: str, owner: Owner, *, no_local: bool = False
) -> QueueDefinition:
    """Define the queue of a durable subscription to ``topic``."""
    made = isinstance(owner, ReaderOwner)
    return QueueDefinition(
        name=name,
        address=topic,
        routing=MULTICAST,
        selector=selector,
        auto_created=made,
        no_local=no_local,
        owner=owner,
    )


class QueueRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the journal keeps of a queue. ``began``: the number of the last message before it was made, -1 not known."""

    definition: QueueDefinition
    paused: bool = False
    began: int = -1


def encode(record: QueueRecord) -> bytes:
    """Return the document of a queue, in the layout of this version."""
    return bytes((QUEUE_LAYOUT,)) + msgspec.msgpack.encode(record)


def is_older(value: bytes) -> bool:
    """Return whether the document of a queue has an older layout than `encode` gives it."""
    return value[0] != QUEUE_LAYOUT


def decode(value: bytes) -> QueueRecord:
    """Return what the document of a queue says, whatever layout it has. Raises CorruptJournal for one not known."""
    if value[0] == QUEUE_LAYOUT:
        return msgspec.msgpack.decode(memoryview(value)[1:], type=QueueRecord)
    if value[0] < ROW:
        raise CorruptJournal(
            f"the document of a queue has layout {value[0]}; this build reads layouts 1 to {QUEUE_LAYOUT}",
            remedy="open the journal with the version of entrepot that wrote it",
        )
    return _first_layout(msgspec.msgpack.decode(value, type=dict[str, str]))


def _first_layout(row: dict[str, str]) -> QueueRecord:
    """Read layout 1: a map of texts, with the owner of a queue as a text that had to be guessed."""
    routing = int(row["routing"])
    auto = row["auto"] == "1"
    first, tab, second = row["owner"].partition("\t")
    owner: Owner | None = None
    if tab and routing == MULTICAST:
        owner = ReaderOwner(first, second) if auto else SubscriptionOwner(first, second)
    elif first:
        owner = ConnectionOwner(first)
    definition = QueueDefinition(
        name=row["name"],
        address=row["address"],
        routing=routing,
        selector=row["filter"],
        auto_created=auto,
        no_local=row["no-local"] == "1",
        owner=owner,
    )
    return QueueRecord(definition, paused=row["paused"] == "1", began=int(row.get("began", "-1")))
