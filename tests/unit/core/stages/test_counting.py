"""Who counts the batches of a sink: every way in which a commit could be taken for one that was done before."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from entrepot.base.errors import StageError
from entrepot.core.operators.views import list_sinks
from entrepot.core.records import KIND_COUNT
from entrepot.core.stages.counting import NOBODY, STARTS_REMEMBERED, Author
from entrepot.model import address as names
from kit import Rig


class Sink:
    """What a program does with a batch, from the first stage to the end, at one broker."""

    def __init__(self, rig: Rig, name: str = "s") -> None:
        self.rig = rig
        self.name = name
        self.made = 0

    def stage(self, batch: int, bodies: list[str], author: Author) -> str:
        self.made += 1
        part = f"part-{self.made}"
        stages = self.rig.broker.stages
        stage = stages.open(self.name, batch, part, author)
        target = self.rig.broker.target(names.parse("Q"))
        for body in bodies:
            stages.send(stage, self.rig.message(body, target.name), target)
        stages.close(stage)
        return part

    def commit(self, batch: int, bodies: list[str], author: Author) -> int:
        """Stage, decide, publish; return how many messages the batch has for good."""
        part = self.stage(batch, bodies, author)
        won = self.rig.broker.stages.decide(self.name, batch, [part], author)
        count = self.rig.broker.stages.publish(self.name, batch, won, author).count
        self.sync()
        return int(count)

    def sync(self) -> None:
        self.rig.sync()


def spark(query: str = "query", start: str = "1", write: str = "7", decider: str = "") -> Author:
    return Author(query, start, write, decider)


@pytest.fixture
def sink() -> Sink:
    return Sink(Rig())


# Each is done behind batches 0 to 5 of spark(); each must be refused, and why.
CONFUSIONS: dict[str, tuple[Callable[[Sink], object], str]] = {
    "the checkpoint is new": (lambda sink: sink.commit(0, ["x"], spark("other", "2")), "counted by 'query', not by"),
    "two queries on one sink name": (
        lambda sink: sink.commit(6, ["x"], spark("other", "2")),
        "entrepot stage drop s --forget",
    ),
    "a program that says nothing on a sink that is counted": (
        lambda sink: sink.commit(6, ["x"], NOBODY),
        "one who does not say who it is",
    ),
    "batch numbers are reset, the query is the same": (
        lambda sink: sink.commit(0, ["x"], spark(start="2")),
        "has lost its count",
    ),
    "a checkpoint of last week is restored": (
        lambda sink: sink.commit(4, ["x"], spark(start="2")),
        "a checkpoint was copied, restored or emptied",
    ),
    "it is told so before anything is staged": (
        lambda sink: sink.stage(4, ["x"], spark(start="2")),
        "has lost its count",
    ),
    "the same, by who staged before": (
        lambda sink: sink.rig.broker.stages.decide("s", 4, ["x"], spark(start="2")),
        "has lost its count",
    ),
    "a second write of a batch": (
        lambda sink: sink.commit(5, ["x"], spark(write="8")),
        "by another write of the same run",
    ),
    "a driver that hung comes back": (
        lambda sink: (sink.commit(6, ["new"], spark(start="2")), sink.commit(7, ["x"], spark(start="1"))),
        "a newer start of what counts the sink 's' has taken over",
    ),
    "a copied checkpoint that runs beside the first": (
        lambda sink: (sink.commit(6, ["new"], spark(start="2")), sink.commit(6, ["x"], spark(start="1"))),
        "a checkpoint was copied",
    ),
    "another broker of the url decides": (
        lambda sink: sink.rig.broker.stages.publish(
            "s", 6, [sink.stage(6, ["x"], spark())], spark(decider="ID:another-broker")
        ),
        "are decided by the broker",
    ),
    "a publication by another": (
        lambda sink: sink.rig.broker.stages.publish("s", 5, ["part-6"], spark("other")),
        "counted by 'query'",
    ),
    "its start is one of many that were replaced": (
        lambda sink: [sink.commit(6, ["new"], spark(start=str(start))) for start in (*range(2, STARTS_REMEMBERED), 3)],
        "has taken over",
    ),
}


@pytest.mark.parametrize("restart", [False, True], ids=["running", "restarted"])
@pytest.mark.parametrize("name", list(CONFUSIONS))
def test_what_could_be_taken_for_a_batch_of_before_is_refused(sink: Sink, name: str, restart: bool) -> None:
    for batch in range(6):
        assert sink.commit(batch, [f"b{batch}"], spark()) == 1
    if restart:
        sink.rig.restart("crash")
    confuse, why = CONFUSIONS[name]
    with pytest.raises(StageError) as caught:
        confuse(sink)
    assert why in f"{caught.value.message} {caught.value.remedy}"
    for batch in (5, 6):
        sink.rig.broker.stages.abandon("s", batch, None)
    assert "x" not in sink.rig.bodies("Q")


# Each is done behind batch 0 and 1 of spark(); each is right: what comes out, behind b0 and b1.
REPEATS: dict[str, tuple[Callable[[Sink], object], list[str]]] = {
    "the next batch": (lambda sink: sink.commit(2, ["x"], spark()), ["x"]),
    "a restart with the next batch": (lambda sink: sink.commit(2, ["x"], spark(start="2", write="1")), ["x"]),
    "a restart that repeats the last": (lambda sink: sink.commit(1, ["b1"], spark(start="2", write="7")), []),
    "the same write asks again": (lambda sink: sink.commit(1, ["b1"], spark()), []),
    "a batch is left out": (lambda sink: sink.commit(5, ["x"], spark()), ["x"]),
    "the sink is forgotten, and another counts": (
        lambda sink: (sink.rig.broker.stages.forget("s"), sink.commit(0, ["x"], spark("other", "2"))),
        ["x"],
    ),
    "the sink is forgotten, and the same goes on": (
        lambda sink: (sink.rig.broker.stages.forget("s"), sink.commit(2, ["x"], spark())),
        ["x"],
    ),
    "who counts by hand asks again for an older batch": (
        lambda sink: sink.rig.broker.stages.decide("s", 0, ["x"], Author("query")),
        [],
    ),
    "another sink of the same query": (lambda sink: Sink(sink.rig, "t").commit(1, ["x"], spark(write="8")), ["x"]),
}


@pytest.mark.parametrize("restart", [False, True], ids=["running", "restarted"])
@pytest.mark.parametrize("name", list(REPEATS))
def test_what_is_right_goes_on(sink: Sink, name: str, restart: bool) -> None:
    for batch in range(2):
        sink.commit(batch, [f"b{batch}"], spark())
    if restart:
        sink.rig.restart("crash")
    do, more = REPEATS[name]
    do(sink)
    assert sink.rig.bodies("Q") == ["b0", "b1", *more]


def test_a_write_that_was_decided_and_not_published_may_be_done_again_by_the_same_start(sink: Sink) -> None:
    """A program that catches the error of a write and writes again: the first decision stands, and is published."""
    stages = sink.rig.broker.stages
    part = sink.stage(0, ["first"], spark())
    assert stages.decide("s", 0, [part], spark()) == [part]
    assert sink.commit(0, ["again"], spark(write="8")) == 1
    assert sink.rig.bodies("Q") == ["first"]
    with pytest.raises(StageError, match="another write of the same run"):
        sink.commit(0, ["third"], spark(write="9"))


def test_a_batch_without_rows_is_done_when_it_is_decided(sink: Sink) -> None:
    stages = sink.rig.broker.stages
    assert stages.decide("s", 0, [], spark()) == []
    assert stages.decide("s", 0, [], spark()) == []
    with pytest.raises(StageError, match="another write"):
        stages.decide("s", 0, ["p"], spark(write="8"))


@pytest.mark.parametrize("last", [0, 5])
def test_a_sink_of_before_takes_the_first_who_says_who_it_is(sink: Sink, last: int) -> None:
    """A journal that knows of no counts: the query goes on where it is; one that begins at 0 does not get far."""
    for batch in range(last + 1):
        sink.commit(batch, [f"b{batch}"], NOBODY)
    sink.rig.restart("crash")
    if last:
        with pytest.raises(StageError, match="has lost its count"):
            sink.commit(0, ["x"], spark("new"))
    assert sink.commit(last, ["again"], spark()) == 1
    sink.commit(last + 1, ["next"], spark())
    assert sink.rig.bodies("Q") == [*(f"b{batch}" for batch in range(last + 1)), "next"]
    with pytest.raises(StageError, match="counted by 'query'"):
        sink.commit(last + 2, ["x"], spark("new"))


def test_a_broker_that_publishes_remembers_who_decides(sink: Sink) -> None:
    """With several brokers in another order: the one that was not asked before refuses to decide."""
    author = spark(decider="ID:first")
    part = sink.stage(0, ["x"], author)
    sink.rig.broker.stages.publish("s", 0, [part], author)
    sink.sync()
    sink.rig.restart("crash")
    with pytest.raises(StageError, match="are decided by the broker ID:first"):
        sink.rig.broker.stages.decide("s", 1, ["y"], spark(start="2"))


def test_a_broker_restored_from_a_backup_refuses_other_parts_than_it_published(sink: Sink) -> None:
    """The decider has forgotten batch 1 and decides it anew; who still knows it does not take it for the old one."""
    author = spark(decider="ID:decider")
    sink.rig.broker.stages.publish("s", 0, [sink.stage(0, ["a"], author)], author)
    with pytest.raises(StageError, match="is published here with the parts"):
        sink.rig.broker.stages.publish("s", 0, ["new"], spark(start="2", decider="ID:decider"))


def test_a_publication_that_is_repeated_when_its_sink_was_forgotten_is_an_error(sink: Sink) -> None:
    part = sink.stage(0, ["x"], spark())
    stages = sink.rig.broker.stages
    stages.publish("s", 0, stages.decide("s", 0, [part], spark()), spark())
    stages.forget("s")
    with pytest.raises(StageError, match="is not here, and the batch is not published"):
        stages.publish("s", 0, [part], spark())


def test_the_journal_keeps_one_small_document_and_forgets_it_with_the_sink(sink: Sink) -> None:
    for batch in range(3):
        sink.commit(batch, ["x"], spark())
    before = sink.rig.journal.usage().documents
    for start in range(2, 40):
        sink.commit(3, ["x"], spark(start=str(start)))
    assert sink.rig.journal.usage().documents - before == 2, "a decision and a publication; the count is one document"
    assert len(sink.rig.broker.stages.counts.held["s"].gone) == STARTS_REMEMBERED
    sink.rig.broker.stages.forget("s")
    sink.sync()
    sink.rig.restart("crash")
    assert sink.rig.broker.stages.counts.held == {}
    assert KIND_COUNT == 21, "a kind that is in the journals of users stays what it is"


@pytest.mark.parametrize(
    "author", [Author("q" * 256), Author("", "start"), Author("", "", "write"), Author("q", "s" * 300)]
)
def test_words_that_cannot_be_remembered_are_refused(sink: Sink, author: Author) -> None:
    with pytest.raises(StageError):
        sink.rig.broker.stages.decide("s", 0, [], author)


def test_an_operator_sees_who_counts_and_how_far(sink: Sink) -> None:
    sink.commit(3, ["x"], spark())
    sink.commit(4, ["x"], spark())
    Sink(sink.rig, "other").stage(0, ["x"], NOBODY)
    shown = [(view.sink, view.counter, view.newest) for view in list_sinks(sink.rig.broker)]
    assert shown == [("other", "", -1), ("s", "query", 4)]
