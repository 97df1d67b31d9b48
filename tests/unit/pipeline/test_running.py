"""The supervisor's loop, with queries that are told when to end."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from entrepot.base.errors import LeaseError, Unreachable
from entrepot.pipeline.landing.configuration import Flow, Landing, Supervision
from entrepot.pipeline.landing.running import Runner, Witness
from entrepot.pipeline.landing.supervising import State

FOR_EVER = 1 << 30


class Query:
    """A query that lives for some looks, landing a batch at each, and then ends with ``error``."""

    def __init__(self, looks: int, error: Exception | None) -> None:
        self.looks = looks
        self.error = error
        self.stopped = False
        self.batch = -1
        self.told: list[dict[str, Any]] = []
        self.status = {"isTriggerActive": False}

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        return not self.stopped and self.looks > 0

    @property
    def lastProgress(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        if self.looks > FOR_EVER // 2:
            return None
        if self.looks <= 0:
            return self.told[-1]
        self.looks -= 1
        self.batch += 2  # two since the last look; and behind them Spark says that it idles before the next
        self.told = [self._progress(self.batch + step, rows) for step, rows in ((-1, 10), (0, 10), (1, 0))]
        return self.told[-1]

    @property
    def recentProgress(self) -> list[dict[str, Any]]:  # noqa: N802 - Spark's name
        return self.told

    def _progress(self, batch: int, rows: int) -> dict[str, Any]:
        at = f"2026-11-22T10:00:00.{batch:06}Z"
        return {"runId": str(id(self)), "batchId": batch, "numInputRows": rows, "timestamp": at, "sources": []}

    def exception(self) -> Exception | None:
        return self.error

    def stop(self) -> None:
        self.stopped = True


def runner(
    queries: dict[str, list[Query | Exception]], ended: threading.Event, **given: Any
) -> tuple[Runner, list[Query]]:
    """Return one whose flows are these queries, one after the other; ``ended`` is set when there are no more."""
    landing = Landing("state", [Flow(name, "path") for name in queries], restart=Supervision(first=0.01, longest=0.02))
    begun: list[Query] = []

    def start(spark: object, landing: Landing, flow: Flow) -> Any:
        if not queries[flow.name]:
            ended.set()
            begun.append(Query(FOR_EVER, None))
            return begun[-1]
        found = queries[flow.name].pop(0)
        if isinstance(found, Exception):
            raise found
        begun.append(found)
        return found

    return Runner(None, landing, start, **given), begun  # type: ignore[arg-type]


def test_one_that_ends_is_started_again_and_its_rows_are_counted_once() -> None:
    ended = threading.Event()
    made, begun = runner(
        {"a": [Query(3, RuntimeError("Java said no")), Unreachable("no broker answers"), Query(2, None)]}, ended
    )
    made.run(ended)
    life = made.supervisor.lives["a"]
    assert life.rows == 2 * 10 * (3 + 2)
    assert life.batches == 2 * (3 + 2)
    assert life.starts == 3  # the last is the one that goes on
    assert begun[-1].stopped


def test_what_lasts_is_told_from_what_passes() -> None:
    for error, lasting in (
        (Unreachable("gone"), False),
        (LeaseError("a newer query"), True),
        (RuntimeError("?"), False),
    ):
        ended = threading.Event()
        made, _ = runner({"a": [error]}, ended)
        made.run(ended)
        assert made.supervisor.lives["a"].lasting is lasting, error
        assert str(error) in made.supervisor.lives["a"].why


@pytest.mark.parametrize(
    ("java", "said"),
    [
        (
            "An error occurred while calling o72.count.\n: java.lang.NoSuchMethodError: 'void org.apache.spark.sql"
            ".execution.LogicalRDD.<init>(scala.collection.immutable.Seq)'",
            "built for another version of Spark: NoSuchMethodError",
        ),
        (
            "An error occurred while calling o58.sql.\n: java.lang.IncompatibleClassChangeError: class org.apache"
            ".iceberg.spark.source.SparkView can not implement org.apache.spark.sql.connector.catalog.View",
            "built for another version of Spark: IncompatibleClassChangeError",
        ),
        ("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: delta.", "a package of Spark is missing"),
    ],
)
def test_a_package_that_does_not_fit_is_said_in_a_sentence_and_lasts(java: str, said: str) -> None:
    ended = threading.Event()
    made, _ = runner({"a": [RuntimeError(java)]}, ended)
    made.run(ended)
    life = made.supervisor.lives["a"]
    assert life.lasting
    assert said in life.why
    assert "docs/lakes.md" in life.why


def test_the_others_go_on_and_all_are_stopped_at_the_end() -> None:
    ended = threading.Event()
    made, begun = runner({"a": [Query(1, RuntimeError("ended"))], "b": [Query(FOR_EVER, None)]}, ended)
    made.run(ended)
    assert made.supervisor.lives["b"].starts == 1
    assert [query.stopped for query in begun if query.looks > 1000] == [True, True]


class Heard(Witness):
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, object]] = []

    def started(self, flow: Flow) -> None:
        self.told.append((flow.name, "started", ""))

    def landed(self, flow: Flow, rows: int) -> None:
        self.told.append((flow.name, "landed", rows))

    def failed(self, flow: Flow, why: str) -> None:
        self.told.append((flow.name, "failed", why))

    def completed(self, flow: Flow) -> None:
        self.told.append((flow.name, "completed", ""))


def test_once_each_flow_runs_to_its_end_and_none_is_tried_again() -> None:
    heard = Heard()
    queries: dict[str, list[Query | Exception]] = {
        "good": [Query(2, None)],
        "ends": [Query(1, RuntimeError("Java said no")), Query(1, None)],
        "never": [Unreachable("no broker answers"), Query(1, None)],
    }
    made, _ = runner(queries, threading.Event(), once=True, witness=heard)
    made.run(threading.Event())  # it comes to its end by itself
    lives = made.supervisor.lives
    assert {name: life.state for name, life in lives.items()} == {
        "good": State.DONE, "ends": State.FAILED, "never": State.FAILED
    }  # fmt: skip
    assert (lives["good"].rows, lives["ends"].why) == (40, "Java said no")
    assert [len(left) for left in queries.values()] == [0, 1, 1]
    assert [one[1:] for one in heard.told if one[0] == "good"] == [
        ("started", ""), ("landed", 20), ("landed", 20), ("completed", "")
    ]  # fmt: skip
    assert [one[1:] for one in heard.told if one[0] == "never"] == [("failed", "no broker answers")]


def test_one_that_is_told_to_end_before_it_is_done_has_not_failed_and_is_not_done() -> None:
    heard, ended = Heard(), threading.Event()
    made, _ = runner({"short": [Query(1, None)], "long": []}, ended, once=True, witness=heard)
    made.run(ended)  # the second query sets it
    states = {name: life.state for name, life in made.supervisor.lives.items()}
    assert states["long"] is State.STOPPED
    assert heard.told[-1][1] == "completed"
