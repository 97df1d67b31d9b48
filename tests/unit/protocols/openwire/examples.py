"""Commands to test with: made by hypothesis from the schema, filled by hand from the schema, written by Java."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from entrepot.protocols.openwire import schema
from entrepot.protocols.openwire.codec import prototypes
from entrepot.protocols.openwire.describe import describe
from entrepot.protocols.openwire.elements import MAGIC, StackLine, Throwable
from entrepot.protocols.openwire.frames import Structure
from entrepot.protocols.openwire.negotiation import WireFormat
from entrepot.protocols.openwire.schema import Field, Kind, Type

VECTORS = Path(__file__).parents[3] / "vectors" / "openwire-5.17.2.jsonl.gz"
VERSIONS = range(schema.VERSION_MIN, schema.VERSION_MAX + 1)
DEPTH_MAX = 3


def vectors() -> Iterator[dict[str, Any]]:
    """Yield the lines of the vectors in order."""
    with gzip.open(VECTORS, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line, strict=False)


def format_of(vector: dict[str, Any]) -> WireFormat:
    """Return the format in which the frame of a vector is written."""
    mode = vector["mode"]
    return WireFormat(version=vector["v"], tight=mode >= 2, cache_size=1024 if mode % 2 else 0)


def travelling(version: int) -> list[Type]:
    """Return the types that a version has."""
    return [each for each in schema.TYPES if each.number and each.since <= version]


# -- filled by hand ------------------------------------------------------------------------------------------------


class Filling:
    """Fills every field that travels with a value that no other field has."""

    def __init__(self, version: int, *, stack_traces: bool = True) -> None:
        self.version = version
        self.stack_traces = stack_traces
        self.count = 0

    def structure(self, each: Type, depth: int = 0) -> Structure:
        prototype = prototypes(self.version)[each.number]
        assert prototype is not None
        made = prototype.fresh()
        for field in each.fields:
            if field.travels(self.version):
                value = self.value(field, depth)
                setattr(made, field.name, value)
                if field.mirror:
                    setattr(made, field.mirror, value)
        return made

    def value(self, field: Field, depth: int) -> object:
        self.count += 1
        number = self.count
        match field.kind:
            case Kind.BOOLEAN:
                return number % 2 == 0
            case Kind.BYTE:
                return number % 256 - 128
            case Kind.INT:
                return -number if number % 2 else number
            case Kind.LONG:
                return [0, number, 70_000 + number, 2**31 + number, 2**33 + number, -number][number % 6]
            case Kind.STRING:
                return f"{field.name} \u00e9\0\U0001f600 {number}" if number % 2 else f"{field.name}{number}"
            case Kind.OCTETS:
                return bytes([number % 256] * (number % 5))
            case Kind.MAGIC:
                return MAGIC
            case Kind.THROWABLE:
                return self.throwable(number)
            case Kind.ARRAY:
                return [self.held(field, depth, turn) for turn in range(2)] if depth < DEPTH_MAX else []
        return self.held(field, depth, number) if depth < DEPTH_MAX else None

    def held(self, field: Field, depth: int, turn: int) -> Structure:
        choices = [each for each in held_types(field) if each.since <= self.version]
        return self.structure(choices[turn % len(choices)], depth + 1)

    def throwable(self, number: int) -> Throwable:
        if not self.stack_traces:
            return Throwable("javax.jms.JMSException", f"boom {number}")
        stack = [StackLine("C", "m", None if line else "C.java", number + line) for line in range(2)]
        return Throwable("javax.jms.JMSException", f"boom {number}", stack, Throwable(None, None))


def held_types(field: Field) -> list[Type]:
    """Return the types that may stand in a field."""
    if field.holds == "Structure":
        return [schema.type_named(name) for name in ("ConnectionId", "ConsumerInfo", "XATransactionId", "MessageId")]
    return schema.children(field.holds)


# -- made by hypothesis --------------------------------------------------------------------------------------------

texts = st.text(st.characters(codec=None) | st.sampled_from("\0\x7f\u0080\ud800\udc00\U0001f600"), max_size=12)
throwables = st.builds(
    Throwable,
    st.none() | texts,
    st.none() | texts,
    st.lists(st.builds(StackLine, texts, st.none() | texts, texts, st.integers(-(2**31), 2**31 - 1)), max_size=2),
    st.none() | st.builds(Throwable, texts, texts),
)
PLAIN: dict[Kind, st.SearchStrategy[Any]] = {
    Kind.BOOLEAN: st.booleans(),
    Kind.BYTE: st.integers(-128, 127),
    Kind.INT: st.integers(-(2**31), 2**31 - 1),
    Kind.LONG: st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0, 1, 65535, 65536, 2**32 - 1, 2**32]),
    Kind.STRING: st.none() | texts,
    Kind.OCTETS: st.none() | st.binary(max_size=20),
    Kind.MAGIC: st.just(MAGIC),
    Kind.THROWABLE: st.none() | throwables,
}


@st.composite
def commands(draw: st.DrawFn, version: int, each: Type | None = None, depth: int = 0) -> Structure:
    """Draw any structure that ``version`` has."""
    if each is None:
        each = draw(st.sampled_from(travelling(version)))
    prototype = prototypes(version)[each.number]
    assert prototype is not None
    made = prototype.fresh()
    for field in each.fields:
        if not field.travels(version):
            continue
        if field.kind in PLAIN:
            value = draw(PLAIN[field.kind])
        else:
            choices = [held for held in held_types(field) if held.since <= version]
            one = st.sampled_from(choices).flatmap(lambda held: commands(version, held, depth + 1))
            if depth >= DEPTH_MAX or draw(st.booleans()):
                value = None
            else:
                value = draw(st.lists(one, max_size=2) if field.kind is Kind.ARRAY else one)
        setattr(made, field.name, value)
        if field.mirror:
            setattr(made, field.mirror, value)
    return made


@st.composite
def formats(draw: st.DrawFn) -> WireFormat:
    """Draw any format that two peers can agree on."""
    return WireFormat(
        version=draw(st.sampled_from(VERSIONS)),
        tight=draw(st.booleans()),
        # 16 wraps around within a few commands, 3 is below what a sender uses
        cache_size=draw(st.sampled_from([0, 3, 16, 1024])),
        size_prefix=draw(st.booleans()),
    )


def plain(values: list[Structure]) -> list[object]:
    """Return commands as plain data, to compare."""
    return [describe(value) for value in values]
