"""What the journal keeps of staged commits (`core/stages/stage.py`)."""

from __future__ import annotations

import msgspec


class StageRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A stage that was closed. ``targets``: the destinations that its runs point to. Times in ms since 1970.

    ``doubtful``: it was salvaged, and whether it was published cannot be read any more.
    """

    sink: str
    batch: int
    part: str
    created: int
    count: int
    octets: int
    targets: list[str]
    chunks: int
    doubtful: bool = False


class RunsRecord(msgspec.Struct, frozen=True):
    """A piece of the runs of a stage: first number, how many, index of the target; and so on."""

    sink: str
    batch: int
    part: str
    chunk: int
    runs: list[int]


class DecisionRecord(msgspec.Struct, frozen=True):
    """Which parts of a batch won. ``by``: which write of which start asked first (`core/stages/counting.py`)."""

    sink: str
    batch: int
    parts: list[str]
    by: str = ""


class CountRecord(msgspec.Struct, frozen=True):
    """Who counts the batches of a sink (`core/stages/counting.py`)."""

    sink: str
    counter: str
    start: str
    gone: list[str]
    decider: str


class PublicationRecord(msgspec.Struct, frozen=True):
    """A batch that was published here. ``done`` is False while its messages are being moved."""

    sink: str
    batch: int
    parts: list[str]
    count: int
    done: bool


def encode(record: StageRecord | RunsRecord | DecisionRecord | PublicationRecord | CountRecord) -> bytes:
    """Return the octets of a document."""
    return msgspec.msgpack.encode(record)


def decode_stage(value: bytes) -> StageRecord:
    """Read a document of KIND_STAGE."""
    return msgspec.msgpack.decode(value, type=StageRecord)


def decode_runs(value: bytes) -> RunsRecord:
    """Read a document of KIND_STAGE_RUNS."""
    return msgspec.msgpack.decode(value, type=RunsRecord)


def decode_decision(value: bytes) -> DecisionRecord:
    """Read a document of KIND_DECISION."""
    return msgspec.msgpack.decode(value, type=DecisionRecord)


def decode_publication(value: bytes) -> PublicationRecord:
    """Read a document of KIND_PUBLICATION."""
    return msgspec.msgpack.decode(value, type=PublicationRecord)


def decode_count(value: bytes) -> CountRecord:
    """Read a document of KIND_COUNT."""
    return msgspec.msgpack.decode(value, type=CountRecord)


def batch_key(sink: str, batch: int) -> bytes:
    """Return the key of what belongs to one batch of one sink; a sink's name holds no NUL."""
    return sink.encode() + b"\0" + batch.to_bytes(8, "big")


def stage_key(sink: str, batch: int, part: str) -> bytes:
    """Return the key of one stage."""
    return batch_key(sink, batch) + part.encode()


def runs_key(sink: str, batch: int, part: str, chunk: int) -> bytes:
    """Return the key of one piece of the runs of a stage."""
    return stage_key(sink, batch, part) + b"\0" + chunk.to_bytes(4, "big")
