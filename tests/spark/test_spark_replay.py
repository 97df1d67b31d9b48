"""The replay job through a real Spark: exactly what was asked for comes back, once, in its order."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from click.testing import CliRunner

from entrepot.base.errors import InvalidOption, InvalidSelector
from entrepot.cli.main import cli
from entrepot.model.predicate import Facts, Value, compile_selector
from entrepot.pipeline.jobs import compaction, replay, selection
from entrepot.pipeline.jobs.archive import Archive, Archiver
from entrepot.pipeline.jobs.replay import Replay, Wanted
from spark.stand import Stand

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT = 1_700_000_000_000  # 2023-11-14 22:13:20 UTC


def filled(stand: Stand) -> Archive:
    """200 messages, one a minute, properties n and kind, archived from the queue."""
    wire = stand.wire()
    for number in range(200):
        headers = {
            "destination": f"/queue/{stand.queue}",
            "persistent": "true",
            "timestamp": str(AT + number * 60_000),
            "correlation-id": f"c{number}",
            "priority": str(number % 10),
            "n": str(number),
            "kind": "odd" if number % 2 else "even",
            "_AMQ_DUPL_ID": f"{stand.queue}-{number}",
        }
        if number == 199:
            assert wire.ask("SEND", headers, f"m{number}".encode()).command == "RECEIPT"
        else:
            wire.say("SEND", headers, f"m{number}".encode())
    archiver = Archiver(stand.spark, str(stand.home / "archive"), [f"/queue/{stand.queue}"], {"url": stand.url})
    archiver.once()
    assert stand.left() == []
    return archiver.archive


def job(stand: Stand, archive: Archive, wanted: Wanted, **more: Any) -> Replay:
    return Replay(archive, wanted, {"url": stand.url}, **more)


def test_what_is_asked_for_comes_back_once_and_in_order(stand: Stand) -> None:
    archive = filled(stand)
    wanted = Wanted(
        since="2023-11-14T23:00:00+00:00",
        until="2023-11-15T02:00+01:00",
        selector="kind = 'odd' AND n BETWEEN 50 AND 99",
    )
    (counted,) = replay.count(archive, replay.checked(wanted))
    assert (counted.messages, counted.destination) == (25, f"/queue/{stand.queue}")
    assert stand.left() == []
    done = job(stand, archive, wanted).run()
    assert (done.rows, done.published, done.complete) == (25, 25, True)
    rows = stand.browse().collect()
    assert sorted(int(row["text"][1:]) for row in rows) == list(range(51, 100, 2))
    for priority in (1, 3, 5, 7, 9):  # a queue hands out the urgent ones first, and keeps the order of equals
        same = [int(row["text"][1:]) for row in rows if row["priority"] == priority]
        assert same == sorted(same)
    row = next(row for row in rows if row["text"] == "m51")
    assert (row["correlation_id"], row["priority"], row["properties"]) == ("c51", 1, {"n": "51", "kind": "odd"})
    again = job(stand, archive, wanted).run()
    assert (again.published, again.before, again.complete) == (0, 25, True)
    assert len(stand.left()) == 25
    named = job(stand, archive, wanted, name="again", mark=True).run()
    assert named.published == 25
    assert {row["properties"]["entrepot_replay"] for row in stand.browse().collect()} == {"again"}
    with pytest.raises(InvalidOption, match="the replay 'again' is of something else"):
        job(stand, archive, Wanted(selector="n = 1"), name="again").run()


def test_a_replay_that_dies_goes_on_where_it_was(stand: Stand, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = filled(stand)
    ids = [row["message_id"] for row in archive.read([p for p, _ in compaction.files(archive)]).collect()]
    wanted = Wanted(ids=[*ids[:90], "nobody's"])
    assert replay.missing(archive, wanted) == ["nobody's"]
    target = f"/queue/{stand.queue}.again"
    monkeypatch.setattr(replay, "PORTION_MAX", 30)
    original = archive.storage.write
    writes: list[str] = []

    def dies(name: str, text: str, **more: Any) -> bool:
        writes.append(name)
        if name.endswith("done.json") and writes.count(name) == 2:
            raise RuntimeError("killed between publishing and noting it")
        return original(name, text, **more)

    with monkeypatch.context() as patched:
        patched.setattr(archive.storage, "write", dies)
        with pytest.raises(RuntimeError, match="killed"):
            job(stand, archive, wanted, target=target).run()
    compaction.compact(archive)
    done = job(stand, archive, wanted, target=target).run()
    assert (done.rows, done.published, done.before, done.portions) == (90, 60, 30, 3)
    assert done.missing == ["nobody's"]
    texts = stand.left(queue=f"{stand.queue}.again")
    assert len(texts) == len(set(texts)) == 90


def test_a_rate_is_kept_and_an_interruption_ends_between_portions(stand: Stand) -> None:
    archive = filled(stand)
    started = time.monotonic()
    ended = threading.Event()
    one = job(stand, archive, Wanted(selector="n < 40"), rate=10)
    done = one.run(lambda rows, of: ended.set() if rows >= 20 else None, ended)
    assert (done.published, done.complete, done.portions) == (20, False, 4)
    assert time.monotonic() - started >= 1.0
    assert job(stand, archive, Wanted(selector="n < 40"), rate=10).run().published == 20
    assert len(stand.left()) == 40


def test_headers_and_properties_are_edited_on_the_way(stand: Stand) -> None:
    archive = filled(stand)
    wanted = Wanted(selector="n BETWEEN 10 AND 11")
    edits = {"JMSPriority": "7", "JMSCorrelationID": None, "JMSType": "again", "kind": "new", "n": None, "more": "x:y"}
    assert job(stand, archive, wanted, name="edited", edits=edits).run().published == 2
    for row in stand.browse().collect():
        assert (row["priority"], row["correlation_id"], row["type"]) == (7, None, "again")
        assert row["properties"] == {"kind": "new", "more": "x:y"}
    with pytest.raises(InvalidOption, match="something else"):
        job(stand, archive, wanted, name="edited").run()


def test_a_foreign_file_stops_a_replay_before_anything_is_sent(stand: Stand) -> None:
    archive = filled(stand)
    folder = f"{archive.storage.root}/destination=x/date=2023-11-14/hour=23"
    stand.spark.range(3).coalesce(1).write.parquet(folder)
    with pytest.raises(InvalidOption, match="its schema has no version of an archive"):
        job(stand, archive, Wanted()).run()
    assert stand.left() == []


class Row(Facts):
    """A message as STOMP has it: properties are text."""

    def __init__(self, facts: dict[str, Value]) -> None:
        self.facts = facts

    def fact(self, name: str) -> Value:
        return self.facts.get(name)


SELECTORS = [
    "n = 5", "n <> 5", "n > 4.5", "n <= 9007199254740993", "n BETWEEN 2 AND 7", "n NOT BETWEEN 2 AND 7", "5 < n",
    "kind = 'a''b'", "kind <> 'x'", "kind LIKE 'a%'", "kind NOT LIKE '_''b'", r"kind LIKE 'a\%%' ESCAPE '\'",
    "kind LIKE '100!%' ESCAPE '!'", "kind IN ('a''b', '5')", "kind NOT IN ('x')", "kind IS NULL", "kind IS NOT NULL",
    "flag = TRUE", "flag <> TRUE", "NOT (n = 5)", "n = 5 OR kind = 'x'", "n = 5 AND NOT kind = 'x'", "n = m", "n <> m",
    "JMSPriority > 3", "JMSPriority = '5'", "JMSDeliveryMode = 'PERSISTENT'", "JMSRedelivered", "NOT JMSRedelivered",
    "JMSPriority LIKE '5'", "JMSRedelivered = 'true'", "JMSType = 'order'", "JMSCorrelationID IS NULL", "TRUE", "NULL",
    "(n = 5) = TRUE", "REGEX('^a', kind)", "INLIST(MAKELIST(5, 'x'), n)", "JMSTimestamp > 0", "kind = 5", "n = -0.0",
    "kind LIKE 'a\\b'", "n < m", "flag = kind",
]  # fmt: skip


@pytest.fixture(scope="module")
def messages(spark: SparkSession) -> list[tuple[Row, tuple[Any, ...]]]:
    properties: list[dict[str, str]] = [
        {"n": "5", "kind": "a'b", "flag": "true", "m": "5"},
        {"n": "5.0", "kind": "5", "flag": "TRUE", "m": "05"},
        {"n": "9007199254740993", "kind": "a%c", "flag": "false", "m": "1e3"},
        {"n": "9007199254740992", "kind": "100%", "flag": "1"},
        {"n": "99999999999999999999", "kind": "x"},
        {"n": "five", "kind": "", "m": "five"},
        {"n": " 5", "kind": "a\\b", "flag": ""},
        {"n": "1e400", "kind": "a\nb"},
        {"n": "-0", "kind": "ab"},
        {},
    ]
    found = []
    for number, one in enumerate(properties):
        headers: dict[str, Value] = {
            "JMSPriority": number, "JMSRedelivered": number % 2 == 0, "JMSTimestamp": 0, "JMSExpiration": 0,
            "JMSDeliveryMode": "PERSISTENT" if number % 3 else "NON_PERSISTENT",
        }  # fmt: skip
        if number % 2:
            headers |= {"JMSType": "order", "JMSCorrelationID": f"c{number}"}
        row = (
            number, one, number, number % 2 == 0, bool(number % 3), headers.get("JMSType"),
            headers.get("JMSCorrelationID"), None, None,
        )  # fmt: skip
        found.append((Row({**one, **headers}), row))
    return found


COLUMNS = (
    "id int, properties map<string,string>, priority int, redelivered boolean, persistent boolean, type string, "
    "correlation_id string, timestamp timestamp, expiration timestamp"
)


def test_selectors_mean_in_spark_what_they_mean_in_a_broker(
    spark: SparkSession, messages: list[tuple[Row, tuple[Any, ...]]]
) -> None:
    frame = spark.createDataFrame([row for _, row in messages], COLUMNS)
    verdicts = frame.select("id", *(selection.condition(text).alias(f"s{at}") for at, text in enumerate(SELECTORS)))
    rows = {row["id"]: row for row in verdicts.collect()}
    for at, text in enumerate(SELECTORS):
        predicate = compile_selector("convert_string_expressions:" + text)
        wanted = [number for number, (row, _) in enumerate(messages) if predicate.matches(row)]
        assert [number for number in rows if rows[number][f"s{at}"]] == wanted, text


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("n + 1 = 5", r"arithmetic \(\+\)"),
        ("-n = 5", r"arithmetic \(-\)"),
        ("XPATH '/a'", "XPATH"),
        ("INLIST(SPLIT(kind, ','), 'a')", "SPLIT"),
        ("REPLACE(kind, 'a', 'b') = 'b'", "REPLACE"),
        ("AMQSize > 10", "AMQSize"),
        ("n = ", "expected"),
    ],
)
def test_what_an_archive_cannot_be_asked(spark: SparkSession, text: str, part: str) -> None:
    with pytest.raises(InvalidSelector, match=part):
        selection.condition(text)


def test_the_commands(stand: Stand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def session(*_: object) -> Iterator[SparkSession]:
        yield stand.spark

    for module in ("pipeline_archive", "pipeline_replay"):
        monkeypatch.setattr(f"entrepot.cli.{module}.spark_session", session)

    def run(*words: str) -> dict[str, Any]:
        done = CliRunner().invoke(cli, ["pipeline", *words, "--output", "json"], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return msgspec.json.decode(done.stdout, type=dict[str, Any])

    stand.produce([f"m{number}" for number in range(30)])
    root = str(tmp_path / "archive")
    page = tmp_path / "report.html"
    told = run("archive", "--to", root, "--queue", stand.queue, "--url", stand.url, "--report", str(page), "--compact")
    assert told["archived"][0]["messages"] == 30
    assert "30 messages archived" in page.read_text()
    told = run("replay", root, "--url", stand.url, "--from-queue", stand.queue, "--dry-run")
    assert told["by destination"][0]["messages"] == 30
    assert stand.left() == []
    told = run("replay", root, "--url", stand.url, "--queue", f"{stand.queue}.again", "--where", "JMSPriority = 4")
    assert told["replay"][0]["published"] == 30
    assert len(stand.left(queue=f"{stand.queue}.again")) == 30
    refused = CliRunner().invoke(cli, ["pipeline", "replay", root, "--since", "yesterday"])
    assert refused.exit_code == 2
    assert "is no time" in refused.output
    for words in (("--set", "kind"), ("--set", "a=1", "--unset", "a"), ("--set", "JMSPriority=10")):
        assert CliRunner().invoke(cli, ["pipeline", "replay", root, *words]).exit_code == 2
    told = run("replay", root, "--url", stand.url, "--queue", f"{stand.queue}.edited", "--set", "v=1=2", "--unset", "n")
    assert told["replay"][0]["published"] == 30
    assert stand.browse(queue=f"{stand.queue}.edited").first()["properties"] == {"v": "1=2"}
    absent = CliRunner().invoke(cli, ["pipeline", "replay", root, "--url", stand.url, "--id", "nobody's", "--strict"])
    assert absent.exit_code == 1
    assert "1 of the ids that were asked for are not in the archive" in absent.output
    assert "nobody's" in absent.output
