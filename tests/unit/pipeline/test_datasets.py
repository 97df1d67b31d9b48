"""Names of what flows read and write, as catalogs of lineage know data; and the letter box of what they are told."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from entrepot.pipeline.landing.configuration import Flow
from entrepot.pipeline.landing.datasets import read_by, written_by
from entrepot.pipeline.landing.posting import Post


@pytest.mark.parametrize(
    ("source", "namespace", "names"),
    [
        ({"url": "stomp://me:pw@a:61613", "queue": "orders"}, "stomp://a:61613", ["queue/orders"]),
        ({"url": "failover:(stomp://a,stomp://b)", "queue": "a,b"}, "stomp://a:61613", ["queue/a", "queue/b"]),
        ({"url": "stomp+ssl://a:61617", "topic": "prices.>"}, "stomp://a:61617", ["topic/prices.>"]),
    ],
)
def test_what_is_read_is_named_without_who_may(source: dict[str, Any], namespace: str, names: list[str]) -> None:
    assert read_by(Flow("f", "p", source=source)) == [(namespace, name) for name in names]


@pytest.mark.parametrize(
    ("path", "format", "found"),
    [
        ("/data/orders", "parquet", ("file", "/data/orders")),
        ("file:///data/orders", "parquet", ("file", "/data/orders")),
        ("s3a://bucket/lake/orders/", "delta", ("s3://bucket", "lake/orders")),
        ("s3a://bucket", "delta", ("s3://bucket", "/")),
        ("hdfs://me@name:8020/lake", "json", ("hdfs://name:8020", "lake")),
        ("lake.db.orders", "iceberg", ("warehouse", "lake.db.orders")),
    ],
)
def test_what_is_written(path: str, format: str, found: tuple[str, str]) -> None:
    assert written_by(Flow("f", path, format=format), "warehouse") == found


def test_a_relative_place_is_named_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert written_by(Flow("f", "data/orders"), "").name == str(tmp_path / "data/orders")


def test_letters_go_out_in_order_and_who_writes_never_waits(caplog: pytest.LogCaptureFixture) -> None:
    held, taken = threading.Event(), threading.Event()
    got: list[int] = []

    def deliver(number: int) -> None:
        taken.set()
        assert held.wait(30)
        if number == 8:
            raise OSError("the catalog is away")
        got.append(number)

    post = Post[int](deliver, room=3)
    post.put(0)
    assert taken.wait(30)  # it is on its way: no letter of the box
    for number in range(1, 10):
        post.put(number)
    post.close(0.1)  # what does not go does not hold up the end
    assert "3 events were not delivered before the end" not in caplog.text
    assert "9 events were not delivered before the end" in caplog.text
    held.set()
    post.close(30)
    assert got == [0, 7, 9]
    assert "6 events were not delivered: too many waited" in caplog.text
