"""The archive job through a real Spark: what was produced is in Parquet once, whoever is killed in between."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from entrepot import pipeline
from entrepot.base.errors import InvalidOption
from entrepot.pipeline.jobs import compaction, layout, storage, summary, table
from entrepot.pipeline.jobs.archive import Archive, Archiver, Batch
from shell.daemon import Daemon
from spark.stand import PATIENCE, Stand

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Filling:
    """An archive that is filled from the queue of a stand."""

    def __init__(self, stand: Stand, **more: str) -> None:
        self.stand = stand
        self.root = str(stand.home / "archive")
        self.destination = f"/queue/{stand.queue}"
        self.batches: list[Batch] = []
        given = {"url": stand.url, "failoverTimeout": "30000", **more}
        self.archiver = Archiver(
            stand.spark, self.root, [self.destination], given, told=lambda where, batch: self.batches.append(batch)
        )

    @property
    def archive(self) -> Archive:
        return self.archiver.archive

    def rows(self) -> list[Any]:
        found = self.archive.read([path for path, _ in compaction.files(self.archive)])
        return found.select("text", "time", "date", "hour", "destination", "subscription").collect()

    def texts(self) -> list[str]:
        return sorted(row["text"] for row in self.rows())


def follow(filling: Filling, ended: threading.Event, **more: Any) -> threading.Thread:
    thread = threading.Thread(target=filling.archiver.follow, args=(ended,), kwargs=more, daemon=True)
    thread.start()
    return thread


def test_a_queue_lands_once_by_destination_date_and_hour_over_restarts(stand: Stand) -> None:
    at = 1_700_000_000_000  # 2023-11-14 22:13:20 UTC
    sent = stand.produce([f"a{number}" for number in range(120)], timestamp=str(at))
    sent += stand.produce([f"b{number}" for number in range(30)], timestamp=str(at + 7_200_000))
    sent += stand.produce(["from the future"], timestamp="4102444800000")
    filling = Filling(stand, maxMessagesPerTrigger="50")
    filling.archiver.once()
    assert sum(batch.rows for batch in filling.batches) == 151
    sent += stand.produce([f"c{number}" for number in range(20)], timestamp=str(at))
    again = Filling(stand)
    again.archiver.once()
    assert again.texts() == sorted(sent)
    assert stand.left() == []
    rows = {row["text"]: row for row in again.rows()}
    assert (str(rows["a0"]["date"]), rows["a0"]["hour"]) == ("2023-11-14", 22)
    assert (str(rows["b0"]["date"]), rows["b0"]["hour"]) == ("2023-11-15", 0)
    assert rows["from the future"]["time"].year < 2100
    assert {row["destination"] for row in rows.values()} == {filling.destination}
    assert table.read(stand.spark, filling.root).count() == len(sent)
    plain = stand.spark.read.parquet(filling.root)  # what any reader of Parquet sees
    assert plain.count() == len(sent)
    assert plain.schema.fields[0].metadata[layout.VERSION_KEY] == layout.VERSION
    assert again.archive.storage.names(layout.STAGING) == []


def test_a_hundred_large_messages_of_a_batch_are_more_than_java_may_hold(stand: Stand) -> None:
    sent = stand.produce([f"{number:03}" + "x" * 1_200_000 for number in range(110)])
    words = ["pipeline", "archive", "--to", str(stand.home / "archive"), "--queue", stand.queue, "--memory", "512m"]
    words += ["--url", stand.url, "--option", "maxOctetsPerTrigger=0", "--compact"]
    done = subprocess.run([sys.executable, "-m", "entrepot", *words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert stand.left() == []
    found = stand.spark.read.parquet(str(stand.home / "archive")).selectExpr("substring(text, 1, 3) AS name").collect()
    assert sorted(row["name"] for row in found) == [text[:3] for text in sent]


def test_a_broker_that_is_killed_and_a_continuous_archive(stand: Stand, tmp_path: Path) -> None:
    home = tmp_path / "killed"
    home.mkdir()
    broker = Daemon(home).start()
    broker.stay()
    stand.url = f"stomp://127.0.0.1:{broker.port}"
    ended = threading.Event()
    try:
        sent = stand.produce([f"a{number}" for number in range(300)], broker)
        filling = Filling(stand, maxMessagesPerTrigger="100")
        thread = follow(filling, ended, every="0 seconds")
        stand.until(lambda: len(filling.batches) >= 1)
        broker.kill()
        broker.start()
        sent += stand.produce([f"b{number}" for number in range(300)], broker)
        stand.until(lambda: thread.is_alive() and sum(batch.rows for batch in filling.batches) >= len(sent))
        ended.set()
        thread.join(PATIENCE)
        Filling(stand).archiver.once()
        assert filling.texts() == sorted(sent)
        assert stand.left(broker) == []
    finally:
        ended.set()
        broker.stop()


def test_a_driver_that_dies_anywhere_between_writing_and_its_place(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = stand.produce([f"m{number}" for number in range(90)])
    storage_of = type(Filling(stand).archive.storage)
    for method in ("look", "write", "move", "sync", "remove"):
        original = getattr(storage_of, method)
        with monkeypatch.context() as patched:

            def dies(*given: Any, **named: Any) -> Any:
                raise RuntimeError(f"killed in {method}")  # noqa: B023 - called before the next one

            filling = Filling(stand)
            patched.setattr(storage_of, method, dies)
            with pytest.raises(Exception, match="killed in"):
                filling.archiver.once()
        assert getattr(storage_of, method) is original
    filling = Filling(stand)
    filling.archiver.once()
    assert filling.texts() == sorted(sent)
    assert stand.left() == []
    now_ms = time.time_ns() // 1_000_000
    left = filling.archive.storage.names(layout.STAGING)
    assert left  # what those who died had written and not decided
    assert compaction.tidy(filling.archive, now_ms) == 0
    assert compaction.tidy(filling.archive, now_ms + 8 * 24 * 3_600_000) == len(left)
    assert filling.texts() == sorted(sent)


def test_compaction_keeps_every_row_and_a_half_done_one_is_finished(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = 1_700_000_000_000
    sent: list[str] = []
    filling = Filling(stand, maxMessagesPerTrigger="20", minPartitions="2")
    for hour in range(2):
        sent += stand.produce([f"h{hour}-{number}" for number in range(60)], timestamp=str(at + hour * 3_600_000))
    filling.archiver.once()
    before = filling.rows()
    many = compaction.files(filling.archive)
    assert len(many) > 4

    with monkeypatch.context() as patched:
        original = filling.archive.storage.remove
        left = [3]

        def dies(name: str) -> None:
            left[0] -= 1
            if left[0] < 0:
                raise RuntimeError("killed")
            original(name)

        patched.setattr(filling.archive.storage, "remove", dies)
        with pytest.raises(RuntimeError, match="killed"):
            compaction.compact(filling.archive)
    assert filling.texts() == sorted(sent)  # seen by the jobs as it should be, though half of it is done
    done = compaction.compact(filling.archive)
    assert len(compaction.files(filling.archive)) == 2
    assert sorted(filling.rows()) == sorted(before)
    assert done.files_after >= 1
    assert compaction.pending(filling.archive) == []
    assert stand.spark.read.parquet(filling.root).count() == len(sent)
    assert compaction.compact(filling.archive).partitions == 0


def test_several_destinations_and_topics(stand: Stand) -> None:
    topic, other = f"/topic/{stand.queue}", f"/topic/{stand.queue}.other.>"
    given = {"url": stand.url}
    tally = summary.Tally([f"/queue/{stand.queue}", topic, other])
    archiver = Archiver(stand.spark, str(stand.home / "a"), list(tally.written), given, told=tally.add)
    archiver.once()  # the durable subscriptions begin here
    stand.produce(["one", "two"])
    for place in (topic, f"/topic/{stand.queue}.other.x"):
        assert stand.wire().send(place, b"four", persistent="true").command == "RECEIPT"
    archiver.once()
    counts = {one.destination: one.messages for one in tally.written.values()}
    assert counts == {f"/queue/{stand.queue}": 2, topic: 1, other: 1}
    report = summary.of_archive("a", tally, None)
    assert report.title == "4 messages archived in a"
    assert topic in report.text()
    assert f"<td>{topic}</td>" in report.html()


def test_a_topic_that_an_older_version_began_to_read_keeps_its_name(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = f"/topic/{stand.queue}"

    def archiver() -> Archiver:
        return Archiver(stand.spark, str(stand.home / "a"), [topic], {"url": stand.url}, subscription=stand.queue)

    with monkeypatch.context() as older:
        older.setattr("entrepot.pipeline.jobs.archive._reader", lambda destination, subscription: subscription)
        archiver().once()
    assert stand.wire().send(topic, b"between", persistent="true").command == "RECEIPT"
    archiver().once()
    rows = table.read(stand.spark, str(stand.home / "a")).select("body", "subscription").collect()
    assert [(bytes(row["body"]), row["subscription"]) for row in rows] == [(b"between", stand.queue)]


def test_what_is_no_archive_is_refused(spark: SparkSession, stand: Stand, tmp_path: Path) -> None:
    spark.range(3).write.parquet(str(tmp_path / "foreign"))
    with pytest.raises(InvalidOption, match="is not of an entrepot archive"):
        Archive(spark, str(tmp_path / "foreign"), create=True)
    with pytest.raises(InvalidOption, match="it is empty, or not there"):
        Archive(spark, str(tmp_path / "nowhere"))
    filling = Filling(stand)
    stand.produce(["m"])
    filling.archiver.once()
    spark.range(3).coalesce(1).write.mode("append").parquet(filling.root + "/destination=x/date=2026-01-01/hour=1")
    archive = filling.archive
    (strange,) = [path for path, _ in archive.storage.files() if "destination=x" in path]
    with pytest.raises(InvalidOption, match=r"no version of an archive \(its columns: id\)"):
        archive.storage.look(strange, 0)
    Path(filling.root, "destination=x/date=2026-01-01/hour=1/y.parquet").write_bytes(b"no Parquet at all, but a file")
    with pytest.raises(InvalidOption, match="is not of an entrepot archive"):
        archive.storage.look("destination=x/date=2026-01-01/hour=1/y.parquet", 0)
    mark = archive.storage.read(layout.MARK)
    assert mark is not None
    archive.storage.write(layout.MARK, mark.replace('"version":1', '"version":2'), replace=True)
    with pytest.raises(InvalidOption, match="version 2"):
        Archive(spark, filling.root)


def test_a_foreign_checkpoint_says_so_in_one_sentence(stand: Stand) -> None:
    stand.produce(["m"])
    filling = Filling(stand)
    filling.archiver.once()
    (name,) = filling.archive.storage.names(layout.CHECKPOINTS)
    offsets = Path(filling.root, layout.CHECKPOINTS, name, "offsets")
    for path in offsets.glob("[0-9]*"):
        path.write_text(path.read_text().replace(stand.queue, "another"))
        (offsets / f".{path.name}.crc").unlink(missing_ok=True)
    with pytest.raises(pipeline.PipelineError, match="the checkpoint is of"):
        Filling(stand).archiver.once()


def test_an_object_store_shows_whole_objects_and_renames_nothing(
    stand: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory that is treated as one: what decides is created under its name, and a second time refused."""
    monkeypatch.setattr(storage, "RENAMING", ())
    root = (tmp_path / "objects").as_uri()
    given = {"url": stand.url, "maxMessagesPerTrigger": "20"}
    destinations = [f"/queue/{stand.queue}"]
    with pytest.raises(InvalidOption, match="checkpoints cannot be renamed"):
        Archiver(stand.spark, root, destinations, given)
    checkpoints = str(tmp_path / "checkpoints")
    sent = stand.produce([f"m{number}" for number in range(50)])
    for _ in range(2):
        archiver = Archiver(stand.spark, root, destinations, given, checkpoints=checkpoints)
        assert archiver.archive.storage.root == root.replace("file://", "file:")
        archiver.once()
        sent += stand.produce(["later"])
    archiver.once()
    assert sorted(row["text"] for row in table.read(stand.spark, root).select("text").collect()) == sorted(sent)
    files = archiver.archive.storage
    assert files.write("decided", "first")
    assert not files.write("decided", "second")
    assert files.read("decided") == "first"
    assert files.write("decided", "third", replace=True)
    assert not list((tmp_path / "objects").rglob("*.part"))
    # a driver died between the copy and the end of its source
    files.write("a/source", "whole")
    files.write("b/target", "whole")
    files.move("a/source", "b/target")
    assert (files.read("a/source"), files.read("b/target")) == (None, "whole")


def test_a_place_that_nothing_can_reach_is_said_in_a_sentence(spark: SparkSession) -> None:
    with pytest.raises(InvalidOption, match=r"nowhere://bucket/x cannot be reached: .*nowhere.*\(Spark must have"):
        storage.Storage(spark, "nowhere://bucket/x")
