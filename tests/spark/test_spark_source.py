"""The source against real brokers, through a real Spark: rows exact, nothing twice, nothing missing."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from entrepot import Broker, blocking, pipeline
from entrepot.base.errors import InvalidOption, LeaseError
from entrepot.pipeline.sessions import environment_of
from entrepot.pipeline.source import ADMISSION_CONTROL
from entrepot.protocols.conversing.bodies import SerializedObject
from entrepot.protocols.stomp.frames import encode_frame
from shell.daemon import Daemon
from spark.soak_programs import command_of, descendants
from spark.stand import Stand


def bodies(name: str, count: int) -> list[str]:
    return [f"{name}{number}" for number in range(count)]


def test_browse_shows_every_column_and_takes_nothing(stand: Stand) -> None:
    wire = stand.wire()
    headers = {
        "destination": f"/queue/{stand.queue}",
        "persistent": "true",
        "priority": "7",
        "correlation-id": "c:1",
        "reply-to": "/queue/answers",
        "type": "order",
        "JMSXGroupID": "g",
        "JMSXGroupSeq": "3",
        "expires": "4102444800000",
        "timestamp": "1700000000123",
        "farbe": "grün\nrot",
    }
    wire.ask("SEND", headers, b"t\xc3\xa4xt")
    wire.ask("SEND", {"destination": f"/queue/{stand.queue}", "content-length": "3"}, b"\0\x01\xff")
    text, octets = stand.browse().collect()
    assert text["text"] == "täxt"
    assert bytes(text["body"]) == "täxt".encode()
    assert text["properties"] == {"farbe": "grün\nrot"}
    assert (text["priority"], text["correlation_id"], text["reply_to"]) == (7, "c:1", "/queue/answers")
    assert (text["type"], text["group_id"], text["group_sequence"]) == ("order", "g", 3)
    assert (text["persistent"], text["redelivered"], text["delivery_count"]) == (True, False, 1)
    assert text["expiration"].timestamp() == 4102444800
    assert text["timestamp"].timestamp() == 1700000000.123
    assert (text["destination"], text["position"], text["path"]) == (f"/queue/{stand.queue}", None, [])
    assert text["broker"] == octets["broker"] != ""
    assert text["message_id"] != octets["message_id"]
    assert (octets["text"], bytes(octets["body"]), octets["persistent"]) == (None, b"\0\x01\xff", False)
    assert len(stand.left()) == 2


def test_a_claimed_range_is_the_same_at_every_action_and_the_rest_stays(stand: Stand) -> None:
    sent = stand.produce(bodies("m", 500))
    held = pipeline.claim(**stand.given(subscription="nightly"), limit=300)
    frame = held.read(stand.spark, minPartitions="3").select("text", "position")
    stand.produce(["later"])
    assert frame.count() == 300
    rows = sorted(frame.collect(), key=lambda row: row["position"])
    assert [row["text"] for row in rows] == sent[:300]
    held.settle()
    assert stand.left() == [*sent[300:], "later"]


def test_a_stream_adds_nothing_to_the_environment_that_all_queries_share(
    stand: Stand, furnished: frozenset[str]
) -> None:
    """The map takes no two writers: two streams that began at once broke it, and every query of that driver with it."""
    sent = stand.produce(["a"])
    stand.run(stand.stream())
    assert stand.texts() == sent
    assert set(environment_of(stand.spark).keySet()) == furnished


@pytest.mark.skipif(not ADMISSION_CONTROL, reason="before PySpark 4.2 AvailableNow is one batch")
def test_available_now_ends_and_a_restart_goes_on_behind_it(stand: Stand) -> None:
    sent = stand.produce(bodies("a", 250))
    stand.run(stand.stream(maxMessagesPerTrigger="100"))
    assert [len(rows) for rows in stand.batches.values()] == [100, 100, 50]
    assert stand.texts() == sent
    again = stand.produce(bodies("b", 30))
    stand.run(stand.stream(maxMessagesPerTrigger="100").select("text"))
    assert stand.texts() == sent + again
    assert stand.lease() == (280, 280)
    assert stand.left() == []


def test_a_batch_that_fails_comes_again_and_nobody_else_gets_it(stand: Stand) -> None:
    sent = stand.produce(bodies("m", 40))
    seen: list[list[str]] = []

    def failing(frame: Any, number: int) -> None:
        seen.append([row["text"] for row in frame.collect()])
        raise RuntimeError("the table is not there")

    with pytest.raises(Exception, match="the table is not there"):
        stand.run(stand.stream(), failing)
    assert stand.left() == []
    stand.produce(["later"])
    for _ in range(1 if ADMISSION_CONTROL else 2):  # before 4.2 a run is one batch, and this one was logged
        stand.run(stand.stream())
    assert seen == [sent]
    assert [row["text"] for row in stand.batches[0]] == sent
    assert stand.texts() == [*sent, "later"]


def test_small_batches_wait_for_more(stand: Stand) -> None:
    stream = stand.stream(minMessagesPerTrigger="100", maxTriggerDelay="120000", pollWait="50")
    first = stand.produce(bodies("a", 10))
    stand.start(stream, processingTime="100 milliseconds")
    stand.until(lambda: len(stand.texts()) == 10)  # the first waits for nothing
    some = stand.produce(bodies("b", 60))
    time.sleep(2)
    assert stand.texts() == first
    more = stand.produce(bodies("c", 40))
    stand.until(lambda: len(stand.texts()) == 110)
    assert [len(rows) for rows in stand.batches.values() if rows] == [10, 100]
    assert stand.texts() == [*first, *some, *more]


def planners() -> list[int]:
    """Return the Python processes that plan for the streams of this test's JVM."""
    return [pid for pid in descendants(os.getpid()) if "streaming_source_runner" in command_of(pid)]


def test_a_planner_that_is_killed_ends_the_query_and_the_next_run_goes_on_where_it_was(stand: Stand) -> None:
    sent = stand.produce(bodies("a", 50))
    query = stand.start(stand.stream(maxMessagesPerTrigger="20"), processingTime="100 milliseconds")
    stand.until(lambda: len(stand.texts()) == 50)
    (planner,) = planners()
    os.kill(planner, signal.SIGKILL)
    sent += stand.produce(bodies("b", 50))
    with pytest.raises(StreamingQueryException):
        query.awaitTermination(60)
    stand.run(stand.stream(maxMessagesPerTrigger="20"))
    assert stand.texts() == sent
    assert stand.left() == []


def test_reading_twice_in_one_batch_gives_the_same_rows(stand: Stand) -> None:
    sent = stand.produce(bodies("m", 60))
    counts: list[int] = []

    def twice(frame: Any, number: int) -> None:
        counts.append(frame.count())
        stand.keep(frame, number)

    stream = stand.stream().select("text")
    stand.run(stream.union(stream), twice)
    assert counts == [120]
    assert sorted(stand.texts()) == sorted(sent * 2)


def test_a_task_that_is_tried_again_reads_the_same(stand: Stand) -> None:
    sent = stand.produce(bodies("m", 50))

    def stumble(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for batch in batches:
            yield batch
            if context.attemptNumber() < 2:
                raise RuntimeError("a worker dies in the middle")

    stand.run(stand.stream(minPartitions="2").select("text").mapInArrow(stumble, "text string"))
    assert sorted(stand.texts()) == sorted(sent)


def test_rows_of_a_running_query_arrive_as_they_are_sent(stand: Stand) -> None:
    stand.start(stand.stream(), processingTime="0 seconds")
    sent: list[str] = []
    for round_ in range(3):
        sent += stand.produce(bodies(f"r{round_}-", 20))
        stand.until(lambda: len(stand.texts()) == len(sent))  # noqa: B023 - called at once
        assert stand.texts() == sent


def test_a_selector_takes_its_own_and_leaves_the_others(stand: Stand) -> None:
    red = stand.produce(bodies("red", 20), colour="red")
    blue = stand.produce(bodies("blue", 20), colour="blue")
    stand.run(stand.stream(selector="colour = 'red'").select("text", "properties"))
    assert stand.texts() == red
    assert stand.left() == blue


@pytest.mark.skipif(not ADMISSION_CONTROL, reason="before PySpark 4.2 AvailableNow is one batch")
def test_batches_end_with_the_message_that_reaches_their_octets(stand: Stand) -> None:
    sent = stand.produce([*("x" * 20_000 for _ in range(8)), "y" * 2_000_000, "z" * 2_000_000, "end"])
    stand.run(stand.stream(maxOctetsPerTrigger="100000"))
    assert stand.texts() == sent
    sizes = [[len(row["body"]) for row in stand.batches[number]] for number in sorted(stand.batches)]
    assert [len(rows) for rows in sizes] == [5, 4, 1, 1], sizes


def test_what_was_sent_after_its_bound_is_left_to_later_runs(stand: Stand) -> None:
    bound = "2026-01-31T12:00:00Z"
    old = stand.produce(bodies("old", 30), timestamp="1769860799000")
    new = stand.produce(bodies("new", 20), timestamp="1769860801000")
    assert sorted(row["text"] for row in stand.browse(until=bound).collect()) == sorted(old)
    assert [row["text"] for row in stand.browse(until=bound, selector="JMSPriority > 4").collect()] == []
    held = pipeline.claim(**stand.given(subscription="s", until=bound), limit=10)
    assert sorted(row["text"] for row in held.read(stand.spark).collect()) == sorted(old[:10])
    held.settle()
    stand.run(stand.stream(until=bound, maxMessagesPerTrigger="15"))
    assert stand.texts() == old[10:]
    assert stand.left() == new


def test_a_query_ends_at_a_position_and_the_next_one_goes_on_there(stand: Stand) -> None:
    stand.queue += uuid.uuid4().hex  # of this try alone: positions go on where an earlier one ended
    sent = stand.produce(bodies("m", 50))
    broker = stand.wire().ask("ATTACH", {"queue": f"/queue/{stand.queue}", "group": "s"}).headers["node"]
    held = pipeline.claim(**stand.given(subscription="s", until=json.dumps({broker: 10})))
    assert [row["text"] for row in held.read(stand.spark).collect()] == sent[:10]
    held.settle()
    stand.run(stand.stream(until=json.dumps({broker: 40}), maxMessagesPerTrigger="20"))
    assert stand.texts() == sent[10:40]
    assert stand.left() == sent[40:]


def test_a_topic_is_read_through_a_durable_subscription(stand: Stand) -> None:
    def topic() -> Any:
        return stand.stream(queue=None, topic="news." + stand.queue)

    stand.run(topic())  # makes the subscription
    wire = stand.wire()
    fixed = {"destination": f"/topic/news.{stand.queue}", "persistent": "true"}
    for body in ("one", "two"):
        wire.ask("SEND", fixed, body.encode())
    stand.run(topic())
    rows = [row for number in sorted(stand.batches) for row in stand.batches[number]]
    assert [(row["text"], row["destination"]) for row in rows] == [
        ("one", fixed["destination"]),
        ("two", fixed["destination"]),
    ]


def test_a_large_body_comes_whole(stand: Stand) -> None:
    body = "x" * 3_000_000
    stand.produce([body, "small"])
    stand.run(stand.stream(batchOctets="65536").select("text"))
    assert stand.texts() == [body, "small"]


def test_parts_of_a_queue_on_several_brokers_and_one_that_dies(stand: Stand, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Daemon(tmp_path / "other").start()
    try:
        sent = stand.produce(bodies("a", 50)) + stand.produce(bodies("b", 50), other)
        port = other.port
        url = f"{stand.url},stomp://127.0.0.1:{port}"
        other.arguments += ["--listen", f"stomp://127.0.0.1:{port}"]
        stand.start(stand.stream(url=url), processingTime="0 seconds")
        stand.until(lambda: sorted(stand.texts()) == sorted(sent))
        other.kill()
        sent += stand.produce(bodies("while-one-is-gone", 20))
        stand.until(lambda: sorted(stand.texts()) == sorted(sent))
        other.start()
        sent += stand.produce(bodies("it-is-back", 20), other)
        stand.until(lambda: sorted(stand.texts()) == sorted(sent))
        brokers = {row["broker"] for rows in stand.batches.values() for row in rows}
        assert len(brokers) == 2
    finally:
        stand.close()
        other.stop()


# -- what goes wrong, in one sentence -------------------------------------------------------------------------------


def told(error: BaseException | None) -> pipeline.PipelineError:
    found = pipeline.cause_of(error)
    assert found is not None, error
    return found


@pytest.mark.parametrize(
    ("more", "part"),
    [
        ({"queue": None}, "nothing to read from"),
        ({"subscription": None}, "a stream needs a subscription"),
        ({"queu": "q"}, "did you mean 'queue'?"),
        ({"maxOffsetsPerTrigger": "5"}, "use maxMessagesPerTrigger"),
        ({"maxTriggerDelay": "5"}, "here it waits for none"),
        ({"maxMessagesPerTrigger": "none"}, "whole number"),
        ({"url": "stomp://127.0.0.1:1", "failoverTimeout": "0"}, "no broker answers at stomp://127.0.0.1:1"),
        ({"selector": "colour = "}, "selector"),
        ({"queue": "a,,b"}, "an empty name"),
    ],
)
def test_bad_options_are_said_plainly(stand: Stand, more: dict[str, Any], part: str) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - Spark wraps it in several ways
        stand.run(stand.stream(**more))
    assert part in told(caught.value).message


def test_columns_that_messages_do_not_have(stand: Stand) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        stand.spark.read.format("entrepot").schema("colour string").options(
            **stand.given(subscription=None)
        ).load().collect()
    assert "no column 'colour'" in told(caught.value).message


def test_a_checkpoint_of_another_queue(stand: Stand) -> None:
    stand.produce(["a"])
    stand.run(stand.stream())
    with pytest.raises(Exception) as caught:  # noqa: PT011
        stand.run(stand.stream(queue="another"))
    assert "the checkpoint is of" in told(caught.value).message
    assert told(caught.value).kind is InvalidOption


def test_two_queries_with_one_subscription(stand: Stand) -> None:
    stand.produce(["a"])
    first = stand.start(stand.stream(), processingTime="0 seconds")
    stand.until(lambda: stand.texts() == ["a"])
    second = stand.start(stand.stream(), lambda frame, number: None, checkpoint="second", processingTime="0 seconds")
    with contextlib.suppress(Exception):
        first.awaitTermination(30)
    error = told(first.exception())
    assert "in use by a newer query" in error.message
    assert error.kind is LeaseError
    assert second.isActive


def test_a_broker_that_is_no_entrepot(stand: Stand) -> None:
    import socket
    import threading

    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = listening.accept()
                peer.recv(4096)
                peer.sendall(encode_frame("CONNECTED", {"version": "1.2", "server": "ActiveMQ/6.1.0"}))

    threading.Thread(target=serve, daemon=True).start()
    with pytest.raises(Exception) as caught:  # noqa: PT011
        stand.run(stand.stream(url=f"stomp://127.0.0.1:{listening.getsockname()[1]}"))
    listening.close()
    assert "ActiveMQ/6.1.0" in told(caught.value).message
    assert "too old, or no entrepot" in told(caught.value).message


def test_the_reduced_mode_of_older_sparks_settles_late_and_loses_nothing(stand: Stand) -> None:
    from entrepot.pipeline import options as option_table
    from entrepot.pipeline.datasource import EntrepotDataSource
    from entrepot.pipeline.source import ReducedStreamReader

    class Reduced(EntrepotDataSource):
        @classmethod
        def name(cls) -> str:
            return "entrepot-reduced"

        def streamReader(self, schema: Any) -> ReducedStreamReader:  # noqa: N802
            return ReducedStreamReader(option_table.read(dict(self.options), option_table.STREAM), schema)

    stand.spark.dataSource.register(Reduced)
    sent = stand.produce(bodies("m", 30))
    for _ in range(2):
        stream = stand.spark.readStream.format("entrepot-reduced")
        stand.run(stream.options(**stand.given(maxMessagesPerTrigger="20")).load())
        sent += stand.produce(bodies("later", 10))
    stand.run(stand.spark.readStream.format("entrepot-reduced").options(**stand.given()).load())
    assert stand.texts() == sent


USERS = """
user good readers plain:secret
user other others plain:secret
allow readers all >
allow others read,consume >
"""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    home = tmp_path_factory.mktemp("guarded")
    (home / "users").write_text(USERS)
    running = Daemon(home, "--users", str(home / "users")).start()
    yield running
    running.stop()


@pytest.mark.parametrize(
    ("login", "passcode", "part"),
    [
        ("good", "secret", ""),
        ("good", "wrong", "password"),
        ("", "", "password"),
        ("other", "secret", "not authorized"),
    ],
)
def test_who_may_not_is_told_so(stand: Stand, guarded: Daemon, login: str, passcode: str, part: str) -> None:
    stream = stand.stream(url=f"stomp://127.0.0.1:{guarded.port}", login=login, passcode=passcode)
    if not part:
        stand.run(stream)
        return
    with pytest.raises(Exception) as caught:  # noqa: PT011
        stand.run(stream)
    assert part in told(caught.value).message


@pytest.mark.skipif(not ADMISSION_CONTROL, reason="PySpark before 4.2 does not ask for it")
def test_progress_says_how_many_messages_wait(stand: Stand) -> None:
    """A query is behind: its progress says by how much, and `pipeline.lag` makes a number of it."""
    stand.produce(bodies("m", 250))
    stand.run(stand.stream(maxMessagesPerTrigger="100"))
    (query,) = stand._queries
    assert [pipeline.lag(progress) for progress in query.recentProgress] == [
        {f"/queue/{stand.queue}#s": waiting} for waiting in (150, 50, 0)
    ]


def test_an_option_names_the_columns(stand: Stand) -> None:
    stand.produce(["a"])
    frame = stand.browse(columns="text, priority")
    assert frame.dtypes == [("text", "string"), ("priority", "int")]
    assert [tuple(row) for row in frame.collect()] == [("a", 4)]
    for given, part in (("text,colour", "messages have no column 'colour'"), ("text,text", "names 'text' twice")):
        with pytest.raises(Exception, match=part):
            stand.browse(columns=given)
    reader = stand.spark.read.format("entrepot").options(**stand.given(subscription=None, columns="text"))
    with pytest.raises(Exception, match="the schema and the option columns differ"):
        reader.schema("priority int").load().collect()


def test_properties_are_a_struct_of_types_where_the_schema_says_so(stand: Stand) -> None:
    schema = "text string, properties struct<price:double,count:int,paid:boolean,region:string>"
    stand.produce(["a"], price="12.5", count="3", paid="true")
    stand.produce(["b"], price="dear")
    given = stand.given(subscription=None)
    read = stand.spark.read.format("entrepot").options(**given).schema(schema).load()
    rows = {row["text"]: row["properties"].asDict() for row in read.collect()}
    assert rows == {
        "a": {"price": 12.5, "count": 3, "paid": True, "region": None},
        "b": {"price": None, "count": None, "paid": None, "region": None},
    }
    assert [row["text"] for row in read.where("properties.price > 10").select("text").collect()] == ["a"]
    stream = stand.spark.readStream.format("entrepot").options(**stand.given()).schema(schema).load()
    stand.run(stream.select("text", "properties.count"))
    (rows_of,) = stand.batches.values()
    assert sorted((row["text"], row["count"]) for row in rows_of) == [("a", 3), ("b", None)]
    with pytest.raises(Exception, match="cannot be read as"):
        stand.spark.read.format("entrepot").options(**given).schema("properties struct<price:date>").load().collect()


def test_maps_and_lists_are_json_and_objects_are_octets(stand: Stand) -> None:
    serialised = b"\xac\xed\x00\x05t\x00\x01a"
    with Broker() as broker, blocking.connect(broker.url) as connection, connection.session() as session:
        with session.producer("kinds") as producer:
            for body in ({"order": 7, "of": "Ada"}, [1, "x"], SerializedObject(serialised)):
                producer.send(body)
        given = {"url": broker.uri("stomp"), "queue": "kinds"}
        rows = stand.spark.read.format("entrepot").options(**given).load().select("text", "body").collect()
    assert [json.loads(row["text"]) for row in rows[:2]] == [{"order": 7, "of": "Ada"}, [1, "x"]]
    assert (rows[2]["text"], bytes(rows[2]["body"])) == (None, serialised)


def test_a_wildcard_reads_queues_that_are_made_while_it_runs(stand: Stand) -> None:
    """A list, a wildcard and a queue that comes: one query, each row with its queue, none twice."""
    sent = send_to(stand, "shop.eu", 20) + send_to(stand, "bills", 10)
    looked = stand.browse(queue="bills,shop.>")
    assert sorted(row["text"] for row in looked.select("text").collect()) == sorted(sent)
    stream = stand.stream(queue="bills,shop.>").select("text", "destination")
    stand.start(stream, processingTime="100 milliseconds")
    stand.until(lambda: len(stand.texts()) == 30)
    sent += send_to(stand, "shop.us", 20)
    stand.until(lambda: len(stand.texts()) == 50)
    assert sorted(stand.texts()) == sorted(sent)
    rows = [row for batch in stand.batches.values() for row in batch]
    assert {row["destination"] for row in rows} == {"/queue/bills", "/queue/shop.eu", "/queue/shop.us"}
    assert all(row["destination"].endswith(row["text"].partition("-")[0]) for row in rows)


def send_to(stand: Stand, queue: str, count: int) -> list[str]:
    """Send ``count`` messages whose texts begin with the queue's name."""
    return stand.produce([f"{queue}-{number}" for number in range(count)], destination=f"/queue/{queue}")
