"""What the source asks of Spark, and of Sparks that answer otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install entrepot[spark]")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install entrepot[spark]")

import pyarrow as pa
from pyspark.sql.pandas import types as spark_types
from pyspark.sql.types import StringType, StructType, TimestampType

from entrepot.driver.shard import Piece
from entrepot.pipeline import source
from entrepot.pipeline.options import STREAM, read
from entrepot.pipeline.source import ReducedStreamReader, arrow_schema

from .fakes import FakeBroker, World

UTC = pa.schema([pa.field("timestamp", pa.timestamp("us", "UTC"))])


def test_times_are_in_utc_whether_spark_can_be_told_so_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = StructType().add("timestamp", TimestampType())
    assert arrow_schema(schema) == UTC
    real = spark_types.to_arrow_schema

    def of_41(schema: StructType, error_on_duplicated_field_names_in_struct: bool = False) -> Any:
        return real(schema, timezone="UTC")

    monkeypatch.setattr(spark_types, "to_arrow_schema", of_41)
    assert arrow_schema(schema) == UTC


def test_a_spark_that_does_not_say_where_a_batch_begins_settles_one_batch_late(monkeypatch: pytest.MonkeyPatch) -> None:
    from entrepot.pipeline import wire

    world = World(FakeBroker("A"))
    monkeypatch.setattr(wire, "Wire", world.wire)
    (broker,) = world.brokers
    broker.waiting = list("abcdef")
    url = "stomp://h:1"
    given = {"url": url, "queue": "q", "subscription": "g", "pollWait": "0", "maxMessagesPerTrigger": "2"}
    reader = ReducedStreamReader(read(given, STREAM), StructType())
    start = reader.initialOffset()
    first = reader.latestOffset()  # as Spark 4.1 calls it: without a start, and without a limit
    assert first["shards"] == {"A": 2}
    second = reader.latestOffset()
    assert (second["shards"], broker.base) == ({"A": 4}, 0)
    reader.commit(first)
    assert broker.base == 2
    pieces = [piece.piece for piece in reader.partitions(first, second)]  # type: ignore[attr-defined]
    assert [(piece.low, piece.high) for piece in pieces] == [(2, 4)]
    again = ReducedStreamReader(read(given, STREAM), StructType())  # a new driver: what is held comes first
    assert again.partitions(first, second)
    assert again.latestOffset()["shards"] == {"A": 6}
    assert start["shards"] == {}


def test_a_broker_that_is_gone_does_not_hold_up_the_settling_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    from entrepot.driver import shards
    from entrepot.pipeline import wire

    a, b = FakeBroker("A"), FakeBroker("B")
    world = World(a, b)
    monkeypatch.setattr(wire, "Wire", world.wire)
    a.waiting, b.waiting = list("ab"), list("cd")
    reader = ReducedStreamReader(world.options(failoverTimeout="60000"), StructType())
    end = reader.latestOffset()
    b.up = False
    reader.commit(end)
    assert (a.base, b.base) == (2, 0)
    b.up = True
    monkeypatch.setattr(shards, "LOOK_EVERY", 0.0)
    for _ in range(1000):
        reader.commit(end)
        if b.base == 2:
            break
    assert b.base == 2


@pytest.mark.parametrize("said", ["", "true", "false"])
def test_a_task_reads_the_files_of_its_broker_unless_it_is_told_not_to(
    monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    asked: list[bool] = []

    def read_range(*given: Any, direct: bool) -> Iterator[Any]:
        asked.append(direct)
        return iter(())

    monkeypatch.setattr(source, "read_range", read_range)
    given = {"url": "stomp://h:1", "queue": "q", "subscription": "s", **({"shortCircuit": said} if said else {})}
    reader = source.ReducedStreamReader(read(given, STREAM), StructType().add("text", StringType()))
    assert list(reader.read(source.Part("b", Piece("b", "", 1, 0, 5)))) == []
    assert asked == [said != "false"]
