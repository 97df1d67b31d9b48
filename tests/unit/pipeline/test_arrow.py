from __future__ import annotations

import subprocess
import sys
from typing import Any, Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from entrepot.pipeline.leases import append_single
from entrepot.pipeline.schema import COLUMNS
from entrepot.protocols.stomp.columns import Columns
from entrepot.protocols.stomp.ranges import OCTETS

from .fakes import frame

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

from entrepot.pipeline.arrow import ROWS_MAX, Batches  # noqa: E402 - needs pyarrow

TYPES = {
    "string": pa.string(),
    "binary": pa.binary(),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", "UTC"),
    "array<string>": pa.list_(pa.string()),
}
SCHEMA = pa.schema([(column.name, TYPES[column.type]) for column in COLUMNS])


def some(count: int = 2, names: list[str] = SCHEMA.names) -> Columns:
    portion = Columns(names)
    for number in range(count):
        headers = {"message_id": f"m{number}", "destination": "/queue/q"}
        append_single(
            portion, frame("MESSAGE", b"text", priority="4", timestamp="1000", colour="red", **headers), 40 + number
        )
    return portion


def test_every_column_has_a_maker_and_its_type() -> None:
    (batch,) = Batches(SCHEMA, "A").of(some())
    assert batch.schema == SCHEMA
    row = batch.to_pylist()[1]
    assert row["message_id"] == "m1"
    assert row["position"] == 41
    assert row["properties"] == [("colour", "red")]
    assert row["timestamp"].timestamp() == 1
    assert row["expiration"] is None
    assert (row["broker"], row["path"], row["delivery_count"]) == ("A", [], 1)


def test_a_large_body_that_came_as_a_frame_of_its_own_keeps_what_it_said() -> None:
    portion = Columns(SCHEMA.names)
    said = {
        "content_length": "1",
        "JMSXGroupID": "g:1",
        "correlation_id": "c\n",
        "broker_path": "A,B",
        "redelivered": "true",
    }
    headers = {"JMSXGroupID": said.pop("JMSXGroupID")}
    append_single(portion, frame("MESSAGE", b"\xff", message_id="m", destination="/queue/q", **said, **headers), 1)
    (batch,) = Batches(SCHEMA, "A").of(portion)
    (row,) = batch.to_pylist()
    assert (row["text"], row["body"], row["group_id"]) == (None, b"\xff", "g:1")
    assert (row["correlation_id"], row["path"], row["redelivered"]) == ("c\n", ["A", "B"], True)
    assert row["properties"] == []


def test_only_the_columns_that_are_asked_for_in_their_order() -> None:
    schema = pa.schema([("position", pa.int64()), ("text", pa.string())])
    (batch,) = Batches(schema, "A").of(some(names=schema.names))
    assert batch.to_pylist() == [{"position": 40, "text": "text"}, {"position": 41, "text": "text"}]


def test_a_browsed_message_has_no_position() -> None:
    (batch,) = Batches(SCHEMA, "A", positions=False).of(some())
    assert batch.column("position").to_pylist() == [None, None]
    assert batch.column("broker").to_pylist() == ["A", "A"]


BODIES = st.lists(st.binary(max_size=12) | st.text(max_size=6).map(str.encode), min_size=1, max_size=40)


@given(st.lists(st.tuples(BODIES, st.lists(st.booleans(), min_size=40, max_size=40)), min_size=1, max_size=5))
def test_bodies_and_texts_are_what_came_wherever_they_stood(frames: list[tuple[list[bytes], list[bool]]]) -> None:
    schema = pa.schema([("text", pa.string()), ("body", pa.binary())])
    batches = Batches(schema, "A")
    portion = Columns(batches.names)
    wanted: list[dict[str, Any]] = []
    for bodies, kinds in frames:
        whole = b"+".join(bodies)
        at = 0
        for body, is_text in zip(bodies, kinds, strict=False):
            flags = 0 if is_text else OCTETS
            portion.add(len(wanted), 0, 0, 4, flags, 0, b"", b"m", b"/queue/q", b"", whole, at, at + len(body))
            at += len(body) + 1
            wanted.append({"text": body.decode("utf-8", "replace") if is_text else None, "body": body})
    (batch,) = batches.of(portion)
    batch.validate(full=True)
    assert batch.to_pylist() == wanted


@example(ROWS_MAX)
@example(2 * ROWS_MAX + 1)
@given(st.integers(0, 200))
def test_batches_are_bounded_and_complete(count: int) -> None:
    schema = pa.schema([("position", pa.int64())])
    portion = Columns(["position"])
    for position in range(count):
        portion.add(position, 0, 0, 4, 0, 0, b"", b"", b"", b"", b"", 0, 0)
    sizes = [batch.num_rows for batch in Batches(schema, "A").of(portion)]
    assert sum(sizes) == count
    assert all(0 < size <= ROWS_MAX for size in sizes)


def typed_rows(wanted: dict[str, Any], *said: dict[str, str]) -> list[dict[str, Any]]:
    portion = Columns(["properties"])
    for number, headers in enumerate(said):
        append_single(
            portion, frame("MESSAGE", b"", message_id=f"m{number}", destination="/queue/q", **headers), number
        )
    schema = pa.schema([("properties", pa.struct(list(wanted.items())))])
    (batch,) = Batches(schema, "A").of(portion)
    return [row["properties"] for row in batch.to_pylist()]


def test_properties_are_read_as_the_types_that_were_asked_for() -> None:
    wanted = {"price": pa.float64(), "count": pa.int32(), "big": pa.int64(), "paid": pa.bool_(), "region": pa.string()}
    said = {"price": "12.5", "count": "-3", "big": str(1 << 40), "paid": "TRUE", "region": "nord"}
    assert typed_rows(wanted, said, {"other": "x"}) == [
        {"price": 12.5, "count": -3, "big": 1 << 40, "paid": True, "region": "nord"},
        dict.fromkeys(wanted),
    ]


def test_a_property_that_is_not_of_its_type_is_null_and_harms_no_other() -> None:
    wanted = {"price": pa.float64(), "count": pa.int32(), "paid": pa.bool_()}
    rows = typed_rows(
        wanted,
        {"price": "dear", "count": "1", "paid": "yes"},
        {"price": "1e3", "count": str(1 << 40), "paid": "false"},
        {"price": "", "count": "1.5", "paid": ""},
    )
    assert rows == [
        {"price": None, "count": 1, "paid": None},
        {"price": 1000.0, "count": None, "paid": False},
        {"price": None, "count": None, "paid": None},
    ]


MAKE_SOME: Final = """
import sys

import pyarrow as pa

from entrepot.pipeline.arrow import Batches
from entrepot.protocols.stomp.columns import Columns

typed = pa.struct([("price", pa.float64()), ("paid", pa.bool_()), ("region", pa.string())])
names = {"message_id": pa.string(), "body": pa.binary(), "text": pa.string(), "timestamp": pa.timestamp("us", "UTC")}
schema = pa.schema([*names.items(), ("properties", typed), ("broker", pa.string()), ("position", pa.int64())])
batches = Batches(schema, "A")
made = Columns(batches.names)
for place, flags in enumerate((0, 4)):
    made.add(place, 1, 0, 4, flags, 0, b"ID:", b"7", b"/queue/q", b"price:1.5\\npaid:true\\n", b"<text>", 1, 5)
(batch,) = batches.of(made)
print(batch.num_rows, "pandas" in sys.modules)
"""


def test_a_worker_needs_no_pandas() -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    found = subprocess.run([sys.executable, "-c", MAKE_SOME], capture_output=True, text=True, timeout=60, check=False)
    assert (found.stdout, found.stderr) == ("2 False\n", "")
