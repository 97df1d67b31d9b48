"""Staged commits: invisible until published, published once, whatever stops in between (docs/stages.md)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from entrepot.base.errors import AddressFull, InvalidDestination, InvalidSchedule, StageError, StorageFull
from entrepot.core.stages.stage import REMEMBERED, STAGE_AGE_MS
from entrepot.core.stages.stage_ledger import SINK_OCTETS, STAGE_OCTETS
from entrepot.core.stages.staged import StageWaiter
from entrepot.model import address as names
from entrepot.model.address import parse_one
from kit import Rig
from staging import publish, send, write

TINY = {"#": {"max_octets": "2000"}}


def referring(rig: Rig, least: int = 1) -> Rig:
    """Let few be published by reference, too."""
    rig.broker.stages.publishing.refer_least = least
    return rig


@pytest.fixture(params=["disk", "tiny", "ephemeral", "referred"])
def rig(request):
    return {
        "disk": lambda: Rig(),
        "tiny": lambda: Rig(TINY),
        "ephemeral": lambda: Rig(disk=False),
        "referred": lambda: referring(Rig()),
    }[request.param]()


def test_what_is_staged_is_seen_when_it_is_published_and_once(rig):
    reader = rig.reader("Q", 100)
    write(rig, "a", ["1", "2"])
    write(rig, "b", ["3"])
    assert reader.take() == []
    assert rig.broker.stages.decide("s", 0, ["a", "b"]) == ["a", "b"]
    assert rig.broker.stages.decide("s", 0, ["b"]) == ["a", "b"]
    assert publish(rig, "a", "b").count == 3
    assert reader.take() == ["1", "2", "3"]
    assert publish(rig, "b", "a").count == 3
    assert reader.take() == []
    reader.ack()
    reader.close()
    assert rig.broker.memory.used == rig.broker.stages.ledger.octets
    assert rig.journal.usage().messages == 0


def test_losers_and_older_batches_are_dropped(rig):
    rig.broker.queues.need(parse_one("Q"))
    write(rig, "old", ["old"])
    late = write(rig, "late", ["late"], close=False)
    write(rig, "lost", ["lost"], batch=1)
    write(rig, "won", ["won"], batch=1)
    write(rig, "next", ["next"], batch=2)
    publish(rig, "won", batch=1)
    assert [stage.part for stage in rig.broker.stages.of("s")] == ["next"]
    with pytest.raises(StageError, match="is gone: batch 1 was published without it"):
        send(rig, late, ["x"])
    with pytest.raises(StageError, match="is gone"):
        rig.broker.stages.close(late)
    with pytest.raises(StageError, match="older"):
        rig.broker.stages.open("s", 0, "x")
    write(rig, "again", ["again"], batch=1)  # a batch that is repeated is staged again, for nothing
    assert publish(rig, "won", batch=1).count == 1
    assert [stage.part for stage in rig.broker.stages.of("s")] == ["next"]
    assert rig.bodies("Q") == ["won"]
    publish(rig, "next", batch=2)
    assert rig.bodies("Q") == ["next"]
    assert rig.broker.memory.used == rig.broker.stages.ledger.octets


def test_what_is_not_here_or_not_closed_or_other_than_before_is_refused(rig):
    stages = rig.broker.stages
    with pytest.raises(StageError, match="is not here"):
        publish(rig, "a")
    opened = write(rig, "a", ["1"], close=False)
    with pytest.raises(StageError, match="was not closed"):
        publish(rig, "a")
    stages.close(opened)
    with pytest.raises(StageError, match="there is a part"):
        stages.open("s", 0, "a")
    publish(rig, "a")
    with pytest.raises(StageError, match="with the parts a"):
        publish(rig, "b")
    with pytest.raises(StageError, match="is published"):
        stages.open("s", 0, "a")
    stages.decide("s", 4, ["x"])
    with pytest.raises(StageError, match="older"):
        stages.decide("s", 3, ["x"])
    write(rig, "y", ["1"], batch=4)
    with pytest.raises(StageError, match="decided against"):
        publish(rig, "y", batch=4)
    for sink, batch, part in (("", 0, "a"), ("s", -1, "a"), ("s", 0, ""), ("s", 0, "a,b"), ("s" * 256, 0, "a")):
        with pytest.raises(StageError):
            stages.open(sink, batch, part)


def test_abandoned_parts_are_gone(rig):
    stages = rig.broker.stages
    for part in "abc":
        write(rig, part, [part])
    assert stages.abandon("s", 0, ["a", "x"]) == 1
    assert stages.abandon("s", 0, None) == 2
    assert stages.abandon("s", 0, None) == 0
    rig.turn()
    assert rig.broker.memory.used == 0
    assert rig.journal.usage().messages == 0


@pytest.mark.parametrize("how", ["close", "kill", "crash"])
def test_a_restart_keeps_what_is_closed_decided_and_published(how):
    rig = Rig()
    rig.broker.queues.need(parse_one("Q"))
    write(rig, "a", ["1", "2"], properties={"n": 1})
    write(rig, "b", ["3"], to="P")
    write(rig, "open", ["lost"] * 5, close=False)
    rig.broker.stages.decide("s", 0, ["a", "b"])
    rig.sync()
    rig.restart(how)
    assert [(stage.part, int(stage.count)) for stage in rig.broker.stages.of("s")] == [("a", 2), ("b", 1)]
    assert rig.journal.usage().messages == 3, "what was never closed is settled"
    assert rig.broker.stages.decide("s", 0, ["x"]) == ["a", "b"]
    assert publish(rig, "a", "b").count == 3
    rig.turn()
    rig.restart(how)
    assert publish(rig, "a", "b").count == 3
    assert rig.bodies("Q") == ["1", "2"]
    assert rig.bodies("P") == ["3"]
    assert rig.broker.stages.of("s") == []
    rig.restart(how)
    assert rig.journal.usage().messages == 0


def test_two_publications_and_an_answer_from_before_the_crash_agree():
    """Not synced means not published: then it is published again, and what was seen before proves nothing."""
    rig = Rig()
    write(rig, "a", ["1"])
    rig.sync()
    rig.broker.stages.publish("s", 0, ["a"])
    rig.restart("crash")
    assert publish(rig, "a").count == 1
    assert rig.bodies("Q") == ["1"]


class Waiting(StageWaiter):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.counts: list[int] = []

    def published(self, count: int) -> None:
        self.counts.append(int(count))


def small_steps(rig: Rig) -> Rig:
    """Let little be much."""
    stages = rig.broker.stages
    stages.publishing.atomic_octets = stages.publishing.step_octets = 2000
    stages.publishing.load_messages = 2
    stages.document_runs = 6
    stages.drop_step = 3
    return rig


@pytest.mark.parametrize("least", [1, 100])
@pytest.mark.parametrize("stop", range(0, 12, 2))
def test_a_large_batch_is_published_in_steps_over_restarts(stop, least):
    rig = referring(small_steps(Rig()), least)
    bodies = [str(number) for number in range(20)]
    stage = rig.broker.stages.open("s", 0, "a")
    for number, body in enumerate(bodies):
        send(rig, stage, [body], "P" if number % 3 == 0 else "Q")
        rig.send("Other", "between")
    rig.broker.stages.close(stage)
    write(rig, "b", ["x"] * 20)
    waiting = Waiting()
    publication = rig.broker.stages.publish("s", 0, ["a"])
    assert not publication.done
    publication.waiters.append(waiting)
    with pytest.raises(StageError, match="still being published"):
        rig.broker.stages.publish("s", 1, [])
    with pytest.raises(StageError, match="being published"):
        rig.broker.stages.forget("s")
    for _ in range(stop):
        rig.turn()
        rig.broker.advance()
    rig.turn()
    if not waiting.counts:
        rig.restart("kill")
        referring(small_steps(rig), least)
        publication = rig.broker.stages.publish("s", 0, ["a"])
        if not publication.done:
            publication.waiters.append(waiting)
    rig.wait(10)
    rig.sync()
    assert publication.done
    assert publication.count == 20
    assert waiting.counts in ([20], [])
    rig.restart("crash")
    assert publish(rig, "a").count == 20
    found = {"P": rig.bodies("P"), "Q": rig.bodies("Q")}
    assert found == {"P": bodies[::3], "Q": [body for body in bodies if int(body) % 3]}
    rig.bodies("Other")
    rig.wait(10)
    assert rig.journal.usage().messages == 0


def test_what_a_send_would_refuse_is_refused_when_it_is_staged():
    rig = Rig({"F": {"full": "FAIL", "max_octets": "500"}, "N": {"auto_create": "false"}})
    stage = rig.broker.stages.open("s", 0, "a")
    with pytest.raises(InvalidDestination):
        send(rig, stage, ["x"], "N")
    with pytest.raises(InvalidSchedule):
        send(rig, stage, ["x"], annotations={"AMQ_SCHEDULED_CRON": "nonsense"})
    rig.send_all("F", range(2))
    with pytest.raises(AddressFull):
        send(rig, stage, ["x"], "F")
    assert stage.count == 0
    stage.fail(AddressFull("the queue is full"))
    with pytest.raises(StageError, match="the queue is full"):
        rig.broker.stages.close(stage)
    assert rig.broker.stages.of("s") == []


def test_a_queue_that_is_gone_comes_back_or_refuses_the_batch():
    rig = Rig()
    write(rig, "a", ["1"])
    rig.broker.queues.delete(rig.queue("Q"), "test")
    rig.policies.add("Q", {"auto_create": "false"})
    with pytest.raises(InvalidDestination):
        publish(rig, "a")
    rig.policies.add("Q", {"auto_create": "true"})
    publish(rig, "a")
    assert rig.bodies("Q") == ["1"]


def test_topics_schedules_and_duplicate_ids_hold_when_it_is_published():
    rig = Rig()
    early = rig.reader("topic://T", 10)
    write(rig, "a", ["t"], to="topic://T")
    late = rig.reader("topic://T", 10)
    publish(rig, "a")
    assert early.bodies == late.bodies == ["t"]
    write(rig, "b", ["x"], batch=1, annotations={"AMQ_SCHEDULED_DELAY": "500"})
    write(rig, "c", ["d"], batch=1, duplicate=b"one")
    rig.send("Q", "d", duplicate=b"one")
    publish(rig, "b", "c", batch=1)
    assert rig.bodies("Q") == ["d"]
    rig.wait(600)
    assert rig.bodies("Q") == ["x"]


def test_what_was_published_without_being_read_fills_a_queue():
    """It waits on disk, where the queue does not page: it counts there, too."""
    rig = referring(Rig({"F": {"full": "FAIL", "max_octets": "3000"}}))
    write(rig, "a", ["x" * 1000] * 4, to="F")
    publish(rig, "a")
    backlog = rig.queue("F").backlog
    assert (backlog.octets, backlog.paged_count) == (0, 4)
    stage = rig.broker.stages.open("s", 1, "b")
    with pytest.raises(AddressFull, match="4 messages"):
        send(rig, stage, ["one more"], "F")
    rig.bodies("F")
    write(rig, "c", ["again"], batch=1, to="F")


def test_a_full_disk_refuses_and_the_same_works_later():
    rig = Rig()
    write(rig, "a", ["1"])
    opened = write(rig, "b", ["2"], close=False)
    disk = rig.disk
    assert disk is not None
    disk.room.make(disk.used())
    for _ in range(500):
        if rig.journal.refusal() is not None:
            break
        rig.send("Filler", "f" * 500)
    stages = rig.broker.stages
    for verb in (
        lambda: send(rig, opened, ["x"]),
        lambda: stages.close(opened),
        lambda: stages.decide("s", 0, ["a"]),
        lambda: stages.publish("s", 0, ["a"]),
    ):
        with pytest.raises(StorageFull):
            verb()
    disk.room.make()
    rig.turn()
    assert stages.close(opened) == 1
    assert stages.decide("s", 0, ["a", "b"]) == ["a", "b"]
    assert publish(rig, "a", "b").count == 2
    assert rig.bodies("Q") == ["1", "2"]


def test_stages_that_nobody_asks_for_are_dropped_after_a_week():
    rig = Rig()
    write(rig, "old", ["x"])
    write(rig, "decided", ["y"])
    rig.broker.stages.decide("s", 0, ["decided"])
    rig.wall += STAGE_AGE_MS - 60_000
    rig.broker.tick(rig.now, rig.wall)
    write(rig, "young", ["z"])
    opened = write(rig, "open", ["z"], close=False)
    rig.wait(300_000)
    assert [stage.part for stage in rig.broker.stages.of("s")] == ["decided", "young", "open"]
    assert not opened.dropped
    assert rig.journal.usage().messages == 3


def test_only_the_last_batches_are_remembered_and_a_forgotten_sink_begins_anew():
    rig = Rig()
    stages = rig.broker.stages
    rig.broker.queues.need(parse_one("Q"))
    for batch in range(70):
        stages.decide("s", batch, [f"p{batch}"])
        publish(rig, batch=batch)
    assert list(stages.decisions["s"]) == list(stages.publications["s"]) == list(range(6, 70))
    documents = rig.journal.usage().documents
    rig.restart()
    assert list(stages.decisions["s"]) == list(range(6, 70))
    stages = rig.broker.stages
    assert stages.decide("s", 6, ["x"]) == ["p6"]
    with pytest.raises(StageError, match="older"):
        stages.decide("s", 5, ["x"])
    with pytest.raises(StageError, match="older"):
        publish(rig, batch=5)
    write(rig, "left", ["x"], batch=80)
    assert stages.forget("s") == 1
    rig.turn()
    assert rig.journal.usage().documents == documents - 128
    assert stages.decide("s", 0, ["new"]) == ["new"]
    rig.restart()
    assert rig.broker.stages.decide("s", 0, ["x"]) == ["new"]


# -- bounds ------------------------------------------------------------------------------------------------------------


def fill(verb: Callable[[int], object]) -> int:
    """Call ``verb`` with 0, 1, ... until it is refused; return how often it was not."""
    for number in range(20_000):
        try:
            verb(number)
        except StageError:
            return number
    raise AssertionError("there is no bound")


def test_what_is_remembered_is_charged_and_given_back():
    rig = Rig()
    stages, memory = rig.broker.stages, rig.broker.memory
    write(rig, "a", ["1", "2"])
    write(rig, "b", ["3"], close=False)
    assert memory.used == stages.ledger.octets > 2 * STAGE_OCTETS
    stages.decide("s", 0, ["a"])
    publish(rig, "a")
    rig.restart()
    assert rig.bodies("Q") == ["1", "2"]
    stages, memory = rig.broker.stages, rig.broker.memory
    assert 0 < memory.used == stages.ledger.octets < SINK_OCTETS + STAGE_OCTETS
    for batch in range(1, 3 * REMEMBERED):
        stages.decide("s", batch, ["a"])
    assert stages.ledger.sinks["s"].batches == REMEMBERED + 1
    rig.turn()
    stages.forget("s")
    assert memory.used == 0
    assert not stages.ledger.sinks


def test_a_flood_of_decisions_is_refused_and_a_start_behind_it_is_no_larger():
    """20,000 decisions of 1,000 parts, each of another sink, were 1.5 GB, and again at each start."""
    rig = Rig(memory_limit=8 << 20)
    parts = [f"p{number}" for number in range(1000)]
    taken = fill(lambda number: rig.broker.stages.decide(f"sink-{number}", 0, parts))
    assert 0 < taken == len(rig.broker.stages.decisions) < 30
    with pytest.raises(StageError, match="are the most") as refused:
        rig.broker.stages.decide("sink-299", 0, parts)
    assert "--forget" in refused.value.remedy
    assert rig.broker.memory.used <= rig.broker.memory.limit // 4
    rig.sync()
    before = rig.broker.memory.used
    rig.restart("kill")
    assert rig.broker.memory.used == before
    with pytest.raises(StageError, match="are the most"):
        rig.broker.stages.decide("sink-299", 0, parts)
    rig.broker.stages.forget("sink-0")
    assert rig.broker.stages.decide("sink-299", 0, parts) == parts


def test_one_sink_does_not_take_the_room_of_all():
    rig = Rig(memory_limit=8 << 20)
    stages = rig.broker.stages
    assert fill(lambda number: stages.open("s", 0, f"p{number}")) < 1_000
    with pytest.raises(StageError, match="of the sink 's' takes"):
        stages.open("s", 0, "p")
    assert stages.decide("other", 0, ["a"]) == ["a"]
    with pytest.raises(StageError, match="of the sink 's' takes"):
        stages.decide("s", 0, ["a"] * 100)
    for stage in stages.of("s"):
        stages.drop(stage, "enough")
    assert stages.decide("s", 0, ["a"]) == ["a"]


def test_sinks_and_stages_of_a_sink_are_counted():
    rig = Rig()
    stages = rig.broker.stages
    stages.ledger.sinks_max = stages.ledger.parts_max = 3
    for number in range(3):
        stages.decide(f"s{number}", 0, [])
        stages.open("s0", 0, f"p{number}")
    for verb in (
        lambda: stages.decide("t", 0, []),
        lambda: stages.open("t", 0, "p"),
        lambda: stages.publish("t", 0, []),
    ):
        with pytest.raises(StageError, match="3 sinks are remembered"):
            verb()
    with pytest.raises(StageError, match="has 3 stages"):
        stages.open("s0", 0, "p3")
    rig.turn()


def test_a_stage_for_ever_changing_destinations_is_bounded():
    rig = Rig(memory_limit=8 << 20)
    stage = rig.broker.stages.open("s", 0, "a")
    targets = [rig.broker.target(names.parse(name)) for name in ("P", "Q")]

    def send_one(number: int) -> None:
        target = targets[number % 2]
        rig.broker.stages.send(stage, rig.message("x", target.name), target)

    assert fill(send_one) == stage.count < 9_000
    with pytest.raises(StageError, match="of the sink 's' takes"):
        send_one(int(stage.count))
    rig.broker.stages.drop(stage, "enough")
    while rig.broker.stages.garbage:
        rig.wait(1)
    assert rig.broker.memory.used == 0
    assert rig.journal.usage().messages == 0


def test_names_that_nobody_could_read_are_refused(rig):
    for name in ("a\nb", "a\x1b[2J", "\u2028", "a\tb"):
        with pytest.raises(StageError, match="is no name"):
            rig.broker.stages.open(name, 0, "p")
        with pytest.raises(StageError, match="is no name"):
            rig.broker.stages.decide("s", 0, [name])


def moved(rig: Rig) -> int:
    return sum(int(move.count) for move in rig.journal.tail.index.moves.rows)


@pytest.mark.parametrize("how", ["close", "kill", "crash"])
def test_a_batch_is_published_by_one_record_and_keeps_its_place(how):
    rig = referring(Rig())
    write(rig, "a", [f"a{number}" for number in range(20)], properties={"n": 1})
    rig.send("Q", "before")
    size = rig.journal.tail.active.end
    publish(rig, "a")
    assert moved(rig) == 20
    assert rig.journal.tail.active.end - size < 20 * 50, "no message is written again"
    rig.send("Q", "behind")
    rig.sync()
    rig.restart(how)
    assert rig.bodies("Q") == ["before", *[f"a{number}" for number in range(20)], "behind"]
    rig.sync()
    assert rig.journal.usage().messages == 0
    rig.restart(how)
    assert rig.bodies("Q") == []


def test_what_is_read_from_now_on_is_what_is_published_from_now_on():
    rig = referring(Rig())
    write(rig, "a", ["staged"])
    rig.send("Q", "before")
    lease = rig.broker.leases.need(parse_one("Q"), "late", create=True)
    lease.begin(int(rig.broker.ids.number), 0)
    epoch = lease.attach(rig.journal, None)
    publish(rig, "a")
    assert moved(rig) == 1
    assert lease.claim(rig.journal, epoch, 0, 10) == 1
    assert [b"staged" in message.raw for message in lease.read(rig.journal, epoch, 0, 1)] == [True]


def test_a_reader_that_waits_is_given_what_is_published_by_reference_and_gives_it_back():
    rig = referring(Rig())
    reader = rig.reader("Q", 2)
    write(rig, "a", ["1", "2", "3"])
    publish(rig, "a")
    assert moved(rig) == 3
    assert reader.take() == ["1", "2"]
    reader.give_back()
    reader.close()
    rig.restart("kill")
    assert rig.bodies("Q") == ["1", "2", "3"]


REWRITTEN = {
    "a duplicate id": {"duplicate": b"1"},
    "a group": {"group": "g", "seq": 1},
    "not durable": {"durable": False},
}


@pytest.mark.parametrize("what", REWRITTEN)
def test_what_is_not_plain_is_sent_as_if_it_came_now(what):
    rig = referring(Rig())
    write(rig, "a", ["1"], **REWRITTEN[what])
    publish(rig, "a")
    assert moved(rig) == 0
    assert rig.bodies("Q") == ["1"]


@pytest.mark.parametrize("to", ["topic://T", "Q,P", "Full", "Counted"])
def test_where_more_is_to_be_done_than_to_one_queue_it_is_sent(to):
    rig = referring(Rig({"Full": {"full": "DROP", "max_octets": "100000"}, "Counted": {"max_messages": "5"}}))
    reader = rig.reader("topic://T", 10) if to.startswith("topic") else None
    write(rig, "a", ["1"], to=to)
    publish(rig, "a")
    assert moved(rig) == 0
    if reader is not None:
        assert reader.take() == ["1"]
    for name in ("Q", "P") if "," in to else ():
        assert rig.bodies(name) == ["1"]


def test_a_batch_of_which_some_is_plain_keeps_its_order():
    rig = referring(Rig())
    rig.broker.stages.publishing.load_messages = 1
    stage = rig.broker.stages.open("s", 0, "a")
    for number in range(9):
        send(rig, stage, [str(number)], **({"group": "g"} if number in (3, 4, 7) else {}))
    rig.broker.stages.close(stage)
    publish(rig, "a")
    assert moved(rig) == 6
    rig.restart("kill")
    assert rig.bodies("Q") == [str(number) for number in range(9)]


@pytest.mark.parametrize("referred", [True, False])
def test_wherever_the_journal_ends_a_batch_is_published_or_staged(referred):
    """A torn tail, and a copy that is behind: what says that messages were moved and that they are published is one."""
    rig = referring(Rig(), 1 if referred else 100)
    write(rig, "a", [str(number) for number in range(6)])
    rig.sync()
    assert rig.disk is not None
    begin = int(rig.journal.tail.active.end)
    publish(rig, "a")
    end = int(rig.journal.tail.active.end)
    assert (moved(rig) == 6) is referred
    (name,) = [name for name in rig.disk.medium.durable if name.endswith(".seg")]
    content = bytes(rig.disk.medium.durable[name])
    seen = []
    for cut in range(begin, end + 1):
        beside = Rig(files={name: content[:cut]})
        staged = [stage.part for stage in beside.broker.stages.of("s")]
        known = list(beside.broker.stages.publications.get("s", {}))
        assert (staged, known) in ((["a"], []), ([], [0])), cut
        assert publish(beside, "a").count == 6
        assert beside.bodies("Q") == [str(number) for number in range(6)], cut
        seen.append(bool(known))
    assert seen == [False] * (end - begin) + [True]
