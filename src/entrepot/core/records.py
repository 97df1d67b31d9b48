"""The register of what the journal keeps: kinds of documents, reserved queue ids, languages and layouts. [C]

Every number here is in the journals of users. None changes its meaning and none is given out a second time: what is no
longer written keeps its entry, because it is still read. `docs/formats/records.md` is made from this register.

A record of the journal itself (MESSAGE, SETTLE, PUT, ...) has its number in `journal/record.py`; languages and the
layouts of an envelope have theirs in `model/message.py`, where code below this layer uses them.
"""

from __future__ import annotations

from typing import Final

from entrepot.journal.moving import STAGED
from entrepot.journal.names import INTERNAL_KIND
from entrepot.journal.record import FORMAT, FORMAT_FIRST
from entrepot.model.message import (
    ENVELOPE_INTERNAL,
    ENVELOPE_LAYOUT,
    ENVELOPE_STRETCHES,
    LANGUAGE_AMQP,
    LANGUAGE_ANSWER,
    LANGUAGE_CORE,
    LANGUAGE_LOST,
    LANGUAGE_MQTT,
    LANGUAGE_OPENWIRE,
    LANGUAGE_SAMPLE,
    LANGUAGE_STOMP,
)

KIND_NODE: Final = 1
KIND_QUEUE: Final = 2
KIND_DUPLICATE: Final = 3
KIND_LEASE: Final = 4
KIND_CLAIM: Final = 5
KIND_NUMBERS: Final = 6
KIND_SEQUENCE: Final = 7
KIND_BRANCH: Final = 8
KIND_COPIES: Final = 9
KIND_UUID: Final = 10
KIND_ADDRESS: Final = 11
KIND_DIVERT: Final = 12
KIND_NOTE: Final = 14
KIND_STAGE: Final = 16
KIND_STAGE_RUNS: Final = 17
KIND_DECISION: Final = 18
KIND_PUBLICATION: Final = 19
KIND_SINK: Final = 20
KIND_COUNT: Final = 21
KIND_MQTT_SESSION: Final = 26
KIND_MQTT_RECEIVED: Final = 27
KIND_MQTT_SENT: Final = 28
KIND_LOST: Final = 29

OF_PROTOCOLS: Final = (KIND_MQTT_SESSION, KIND_MQTT_RECEIVED, KIND_MQTT_SENT)
"""Kinds that only the code of a protocol reads, which is loaded when there is such a document."""

SCHEDULED_QUEUE: Final = 1
PREPARED_QUEUE: Final = 2
STAGED_QUEUE: Final = STAGED
FIRST_QUEUE: Final = 16
"""Ids below this one are not queues of users: the journal keeps messages under them that no queue has yet."""


class Kind:
    """One kind of document: its key, its value, and the module that writes it."""

    def __init__(self, number: int, name: str, key: str, value: str, module: str) -> None:
        self.number: int = number
        self.name: str = name
        self.key: str = key
        self.value: str = value
        self.module: str = module


class Entry:
    """One number of another list of the register, and what it stands for."""

    def __init__(self, number: int, name: str, about: str) -> None:
        self.number: int = number
        self.name: str = name
        self.about: str = about


KINDS: Final = [
    Kind(INTERNAL_KIND, "the journal's own", "`gaps`", "i64 first, i64 last id, for each gap", "journal/tail.py"),
    Kind(KIND_NODE, "node", "empty", "node id, UTF-8", "core/recovery.py"),
    Kind(KIND_QUEUE, "queue", "u32 queue", "u8 layout · MessagePack: `QueueRecord`", "core/addressing/queues.py"),
    Kind(KIND_DUPLICATE, "duplicate id", "address, UTF-8 · 0 · id", "empty", "core/sending/duplicates.py"),
    Kind(KIND_LEASE, "lease", "u32 queue · group, UTF-8", "MessagePack: `LeaseRecord`", "core/leases/lease.py"),
    Kind(
        KIND_CLAIM,
        "claim of a lease",
        "u32 queue · group, UTF-8 · 0 · i64 first position",
        "MessagePack: `ClaimRecord`",
        "core/leases/lease.py",
    ),
    Kind(KIND_NUMBERS, "message numbers", "empty", "i64: numbers up to here may have been given", "core/identities.py"),
    Kind(KIND_SEQUENCE, "last message of a producer", "producer, UTF-8", "i64 sequence", "core/sending/duplicates.py"),
    Kind(KIND_BRANCH, "prepared branch", "XID", "MessagePack: `BranchRecord`", "core/transactions/branches.py"),
    Kind(
        KIND_COPIES,
        "marks of copies",
        "u64 serial · sender, UTF-8",
        "u8 1 · i64 highest number · n i64 mark; before it n u64 mark",
        "core/sending/copies.py",
    ),
    Kind(KIND_UUID, "UUID of the node", "empty", "16 octets", "core/recovery.py"),
    Kind(KIND_ADDRESS, "address", "name, UTF-8", "MessagePack: `AddressRecord`", "core/addressing/standing.py"),
    Kind(KIND_DIVERT, "divert", "name, UTF-8", "MessagePack: `DivertRecord`", "core/addressing/standing.py"),
    Kind(KIND_NOTE, "note", "part, UTF-8 · 0 · key, UTF-8", "UTF-8, as the part writes it", "core/notes.py"),
    Kind(
        KIND_STAGE,
        "closed stage",
        "sink, UTF-8 · 0 · u64 batch · part, UTF-8",
        "MessagePack: `StageRecord`",
        "core/stages/stage.py",
    ),
    Kind(
        KIND_STAGE_RUNS,
        "runs of a stage",
        "key of the stage · 0 · u32 chunk",
        "MessagePack: `RunsRecord`",
        "core/stages/stage.py",
    ),
    Kind(
        KIND_DECISION,
        "decided batch",
        "sink, UTF-8 · 0 · u64 batch",
        "MessagePack: `DecisionRecord`",
        "core/stages/stage.py",
    ),
    Kind(
        KIND_PUBLICATION,
        "published batch",
        "sink, UTF-8 · 0 · u64 batch",
        "MessagePack: `PublicationRecord`",
        "core/stages/stage.py",
    ),
    Kind(KIND_SINK, "user of a sink", "sink, UTF-8", "user, UTF-8", "core/stages/stage_ledger.py"),
    Kind(KIND_COUNT, "counter of a sink", "sink, UTF-8", "MessagePack: `CountRecord`", "core/stages/counting.py"),
    Kind(
        KIND_MQTT_SESSION,
        "session of MQTT",
        "client id, UTF-8",
        "MessagePack: `SessionRecord`",
        "protocols/mqtt/house.py",
    ),
    Kind(KIND_MQTT_RECEIVED, "QoS 2 received", "client id, UTF-8 · 0 · u16 id", "empty", "protocols/mqtt/house.py"),
    Kind(
        KIND_MQTT_SENT,
        "QoS 2 on its way out",
        "client id, UTF-8 · 0 · u16 id",
        "u8 1 · i64 message · u32 queue; u8 2: PUBREC came",
        "protocols/mqtt/house.py",
    ),
    Kind(
        KIND_LOST,
        "lost messages of a lease",
        "u32 queue · group, UTF-8 · 0 · i64 first position",
        "MessagePack: `LostRecord`",
        "core/leases/lost.py",
    ),
]

RESERVED_QUEUES: Final = [
    Entry(SCHEDULED_QUEUE, "scheduled", "messages that wait for their time"),
    Entry(PREPARED_QUEUE, "prepared", "messages that a prepared branch sends"),
    Entry(STAGED_QUEUE, "staged", "messages of stages that are not published"),
]

LANGUAGES: Final = [
    Entry(LANGUAGE_SAMPLE, "sample", "a message that nobody sent; never stored"),
    Entry(LANGUAGE_STOMP, "STOMP", "a tail: header lines, an empty line, the body, a NUL"),
    Entry(LANGUAGE_OPENWIRE, "OpenWire", "from type octet to end: loose, without cache, version 12"),
    Entry(LANGUAGE_CORE, "CORE", "length of the body + 13, body, headers and properties, as on channels from 129 on"),
    Entry(LANGUAGE_AMQP, "AMQP", "the sections of the message, without delivery annotations"),
    Entry(LANGUAGE_MQTT, "MQTT", "properties of MQTT 5 behind their length, if there are some; the payload"),
    Entry(LANGUAGE_ANSWER, "management", "JSON: what a management address answers"),
    Entry(LANGUAGE_LOST, "lost", "nothing: the dead letter of a message whose record could not be read"),
]

QUEUE_LAYOUT: Final = 2
"""The first octet of a queue's document. Layout 1 has none: it begins as a map of MessagePack does, from 0x80 on."""

LAYOUTS: Final = [
    Entry(FORMAT_FIRST, "journal", "the format in META, at the head of each segment: before 0.1.0"),
    Entry(2, "journal", "messages may have internal annotations, queues are kept as definitions"),
    Entry(3, "journal", "a large transaction may be written in parts, between batches of others"),
    Entry(FORMAT, "journal", "messages may have another number and queue than their record says, by a MOVE"),
    Entry(ENVELOPE_LAYOUT, "envelope", "as drawn in `model/message.py`"),
    Entry(ENVELOPE_STRETCHES, "envelope", "the same; the large body lies in stretches that have checksums"),
    Entry(ENVELOPE_INTERNAL, "envelope", "has internal annotations too"),
    Entry(1, "queue", "no octet says it: a MessagePack map of texts, in journals of format 1"),
    Entry(QUEUE_LAYOUT, "queue", "the first octet; `QueueRecord` of `core/addressing/definition.py` follows"),
]
