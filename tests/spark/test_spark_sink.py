"""The sink against real brokers, through a real Spark: exactly once, whatever is tried again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from entrepot import pipeline
from entrepot.pipeline.source import ADMISSION_CONTROL
from shell.daemon import Daemon
from spark.stand import Stand

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def rows(stand: Stand, count: int, columns: str = "concat('m', id) AS text") -> DataFrame:
    return stand.spark.range(0, count, 1, 3).selectExpr(*columns.split("; "))


def write(stand: Stand, frame: DataFrame, **more: Any) -> None:
    given = stand.given(subscription=None, **more)
    frame.write.format("entrepot").options(**given).mode("append").save()


def wanted(count: int) -> list[str]:
    return sorted(f"m{number}" for number in range(count))


@pytest.mark.parametrize("mode", ["staged", "at-least-once", "duplicate-id"])
def test_a_batch_arrives(stand: Stand, mode: str) -> None:
    columns = "concat('m', id) AS text" + ("; string(id) AS duplicate_id" if mode == "duplicate-id" else "")
    write(stand, rows(stand, 500, columns), **{"commit.mode": mode})
    if mode != "staged":
        write(stand, rows(stand, 500, columns), **{"commit.mode": mode})
    assert sorted(stand.left()) == sorted(wanted(500) * (2 if mode == "at-least-once" else 1))


def test_headers_and_properties_come_from_columns(stand: Stand) -> None:
    frame = stand.spark.sql(
        f"""SELECT binary('ab') AS body, '/queue/{stand.queue}' AS destination,
        map('farbe', 'grün:rot') AS properties, 7 AS priority, timestamp'2100-01-01 00:00:00 UTC' AS expiration,
        'c1' AS correlation_id, '/queue/answers' AS reply_to, 'order' AS type, 'g' AS group_id, 3 AS group_sequence,
        true AS persistent, 12 AS amount"""
    )
    write(stand, frame, queue=None, properties="amount")
    (row,) = stand.browse().collect()
    assert bytes(row["body"]) == b"ab"
    assert row["text"] is None
    assert row["properties"] == {"farbe": "grün:rot", "amount": "12"}
    assert (row["priority"], row["correlation_id"], row["reply_to"]) == (7, "c1", "/queue/answers")
    assert (row["type"], row["group_id"], row["group_sequence"], row["persistent"]) == ("order", "g", 3, True)
    assert row["expiration"].timestamp() == 4102444800


def test_what_was_read_can_be_written_back_as_it_is(stand: Stand) -> None:
    stand.produce(["a", "b"], colour="red")
    write(stand, stand.browse(), queue=stand.queue + ".copy")
    copies = stand.browse(queue=stand.queue + ".copy").collect()
    assert sorted((row["text"], row["properties"]["colour"]) for row in copies) == [("a", "red"), ("b", "red")]


def test_attempts_that_failed_leave_nothing_behind(stand: Stand) -> None:
    def stumble(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        yield from batches
        if context.attemptNumber() < 1:
            raise RuntimeError("a worker dies behind its last row")

    write(stand, rows(stand, 300).mapInArrow(stumble, "text string"))
    assert sorted(stand.left()) == wanted(300)


def test_a_job_that_fails_shows_nothing(stand: Stand) -> None:
    frame = rows(stand, 100, "if(id = 99, raise_error('row 99 is bad'), concat('m', id)) AS text")
    with pytest.raises(Exception, match="row 99 is bad"):
        write(stand, frame)
    assert stand.left() == []


def test_the_same_number_is_published_once(stand: Stand) -> None:
    for batch, count in ((0, 10), (0, 10), (1, 5)):  # foreachBatch may come twice
        write(stand, rows(stand, count), sink=f"{stand.queue}.nightly", batch=batch)
    assert sorted(stand.left()) == sorted(wanted(10) + wanted(5))


def numbers(stand: Stand, home: str, count: int) -> DataFrame:
    """A stream of rows that is not of a broker: files, so that nothing but the sink knows of its batches."""
    there = str(stand.home / home)
    rows(stand, count).coalesce(1).write.mode("append").parquet(there)
    return stand.spark.readStream.schema("text string").parquet(there)


def refusal(stand: Stand, start: Any) -> str:
    """Run a query that must fail; return the sentence of the broker."""
    with pytest.raises(Exception) as caught:  # noqa: PT011
        start.trigger(availableNow=True).start().awaitTermination(60)
    found = pipeline.cause_of(caught.value)
    assert found is not None, caught.value
    return found.message


@pytest.mark.parametrize("way", ["writeStream", "foreachBatch"])
def test_a_fixed_sink_and_a_new_checkpoint_lose_nothing_without_a_word(stand: Stand, way: str) -> None:
    sink = f"{stand.queue}.enrich"

    def land(frame: DataFrame, number: int) -> None:
        write(stand, frame.select("text"), sink=sink, batch=number)

    def query(home: str, count: int, checkpoint: str) -> Any:
        written = numbers(stand, home, count).writeStream.queryName(f"{stand.queue}-{checkpoint}")
        written = written.option("checkpointLocation", str(stand.home / checkpoint))
        if way == "foreachBatch":
            return written.foreachBatch(land)
        return written.format("entrepot").options(**stand.given(subscription=None, sink=sink))

    def run(home: str, count: int, checkpoint: str) -> None:
        assert query(home, count, checkpoint).trigger(availableNow=True).start().awaitTermination(60)

    run("first", 100, "A")
    assert sorted(stand.left()) == wanted(100)
    run("first", 10, "A")  # the same query goes on
    assert sorted(stand.left()) == wanted(10)
    told = refusal(stand, query("second", 50, "B"))
    assert "are counted by" in told
    assert f"entrepot stage drop {sink} --forget" in told
    assert stand.left() == []
    stand.wire().ask("ABANDON", {"sink": sink, "batch": "0", "forget": "true"})
    run("second", 7, "B")
    assert sorted(stand.left()) == sorted(wanted(50) + wanted(7))


def test_two_writes_of_one_batch_under_one_name_are_refused(stand: Stand) -> None:
    sink = f"{stand.queue}.twice"

    def land(frame: DataFrame, number: int) -> None:
        for queue in (stand.queue, stand.queue + ".other"):
            write(stand, frame.select("text"), queue=queue, sink=sink, batch=number)

    written = numbers(stand, "rows", 5).writeStream.foreachBatch(land)
    told = refusal(stand, written.option("checkpointLocation", str(stand.home / "c")))
    assert "by another write of the same run" in told
    assert "every write a sink name of its own" in told


def test_a_job_that_repeats_a_number_with_other_rows_hears_of_it(stand: Stand) -> None:
    sink = f"{stand.queue}.nightly"
    write(stand, rows(stand, 10), sink=sink, batch=3)
    with pytest.raises(Exception) as caught:  # noqa: PT011
        write(stand, rows(stand, 12), sink=sink, batch=3)
    found = pipeline.cause_of(caught.value)
    assert found is not None
    assert "was decided before with 10 messages" in found.message
    with pytest.raises(Exception, match="counted by 'job'"):
        write(stand, rows(stand, 10), sink=sink, batch=4, counter="another job")
    assert sorted(stand.left()) == wanted(10)


@pytest.mark.parametrize(("mode", "part"), [("complete", "cannot be overwritten"), ("update", "Update mode")])
def test_a_stream_that_is_not_appended_is_refused(stand: Stand, mode: str, part: str) -> None:
    counted = numbers(stand, "rows", 5).groupBy("text").count().select("text")
    written = counted.writeStream.outputMode(mode).format("entrepot").options(**stand.given(subscription=None))
    query = written.option("checkpointLocation", str(stand.home / "c")).trigger(availableNow=True)
    with pytest.raises(Exception, match=part):
        query.start().awaitTermination(60)
    assert stand.left() == []


def test_a_stream_from_queue_to_queue_over_restarts(stand: Stand) -> None:
    there = stand.queue + ".out"

    def run() -> None:
        written = stand.stream().selectExpr("upper(text) AS text", "properties").writeStream.format("entrepot")
        written = written.options(**stand.given(subscription=None, queue=there))
        query = written.option("checkpointLocation", str(stand.home / "c")).trigger(availableNow=True).start()
        assert query.awaitTermination(60)

    sent = stand.produce([f"m{number}" for number in range(200)], colour="red")
    run()
    sent += stand.produce([f"n{number}" for number in range(50)], colour="blue")
    run()
    assert sorted(stand.left(queue=there)) == sorted(text.upper() for text in sent)


def test_a_driver_that_died_before_sparks_commit_log_publishes_nothing_twice(stand: Stand) -> None:
    there = stand.queue + ".out"

    def run() -> None:
        written = stand.stream().select("text").writeStream.format("entrepot")
        written = written.options(**stand.given(subscription=None, queue=there))
        query = written.option("checkpointLocation", str(stand.home / "c")).trigger(availableNow=True).start()
        assert query.awaitTermination(60)

    sent = stand.produce([f"m{number}" for number in range(100)])
    run()
    for path in (stand.home / "c" / "commits").glob("*0*"):  # as if the driver had died just before it wrote this
        path.unlink()
    if ADMISSION_CONTROL:
        with pytest.raises(Exception) as caught:  # noqa: PT011
            run()
        # the last look of AvailableNow had settled the batch: Spark's log was complete then. The brokers say so.
        found = pipeline.cause_of(caught.value)
        assert found is not None
        assert "is settled" in found.message
    else:
        run()  # the batch is held still, and is written again: the first decision stands
    assert sorted(stand.left(queue=there)) == sorted(sent)


def test_rows_spread_over_brokers_count_at_once(stand: Stand, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Daemon(tmp_path / "other").start()
    try:
        write(stand, rows(stand, 300), url=f"{stand.url},stomp://127.0.0.1:{other.port}")
        here, there = stand.left(), stand.left(other)
        assert here
        assert there
        assert sorted(here + there) == wanted(300)
    finally:
        other.stop()


@pytest.mark.parametrize(
    ("columns", "more", "part"),
    [
        ("id", {}, "nothing is known of a column 'id'"),
        ("string(id) AS correlation_id", {}, "no column for the body"),
        ("string(id) AS text", {"queue": None}, "nothing says where the rows go"),
        ("string(id) AS text; 'high' AS priority", {}, "priority is of type string"),
        ("string(id) AS text", {"commit.mode": "duplicate-id"}, "needs a column duplicate_id"),
        ("string(id) AS text", {"commit.mode": "twice"}, "it can be staged"),
        ("string(id) AS text; 'nowhere' AS destination", {"queue": None}, "'nowhere' is no destination"),
        ("string(id) AS text; 'a' AS x", {"properties": "y"}, "there is no such column"),
    ],
)
def test_rows_that_cannot_be_messages(stand: Stand, columns: str, more: dict[str, Any], part: str) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        write(stand, rows(stand, 3, columns).coalesce(1), **more)
    found = pipeline.cause_of(caught.value)
    assert found is not None, caught.value
    assert part in found.message
    assert stand.left() == []


def test_overwrite_is_refused(stand: Stand) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        rows(stand, 3).write.format("entrepot").options(**stand.given(subscription=None)).mode("overwrite").save()
    found = pipeline.cause_of(caught.value)
    assert found is not None
    assert "cannot be overwritten" in found.message
