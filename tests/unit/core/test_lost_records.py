"""A record that rots on the disk while the broker runs: its message is reported and buried, and its queue goes on."""

from __future__ import annotations

import pytest

from entrepot.base.compiled import is_compiled
from entrepot.base.errors import StorageError
from entrepot.core.operators.census import Census
from entrepot.core.operators.explain import explain
from entrepot.core.operators.views import list_scheduled
from entrepot.core.queue.bereaved import DEAD_CAUSE, LOST_LANGUAGE
from entrepot.core.queue.taking import Pick
from entrepot.model.message import Message
from kit import Rig
from staging import publish, write

BODIES = [f"body-{number}-" + "x" * 50 for number in range(30)]


def rotten(*damaged: str, **options: object) -> Rig:
    """Return a broker that has found its messages on disk, some of whose records have rotted since."""
    rig = Rig(**options)  # type: ignore[arg-type]
    rig.send_all("Q", BODIES)
    rig.restart()
    assert rig.disk is not None
    for name in rig.disk.names():
        content = bytes(rig.disk.read(name, 0, rig.disk.size(name)))
        for body in damaged:
            at = content.find(body.encode())
            if at >= 0:
                rig.disk.medium.damage(name, at)
    return rig


def whole(*damaged: str) -> list[str]:
    return [body for body in BODIES if body not in damaged]


def found(rig: Rig, name: str) -> list[Message]:
    """Return what waits in a queue, and take it."""
    queue = rig.queue(name)
    taken = queue.taking.take(queue.stock.walk(), 100, 1000, Pick(None))
    for reference in taken:
        queue.stock.finish(reference)
    return [reference.message for reference in taken]


@pytest.mark.parametrize("places", [(0,), (29,), (3, 4, 17), tuple(range(30))])
def test_the_others_are_delivered_and_it_becomes_a_dead_letter_with_its_cause(places: tuple[int, ...]) -> None:
    damaged = [BODIES[place] for place in places]
    rig = rotten(*damaged)
    reader = rig.reader("Q", 100)
    rig.wait(10)
    assert reader.bodies == whole(*damaged)
    reader.ack()
    letters = found(rig, "ActiveMQ.DLQ")
    assert len(letters) == len(places) == rig.queue("Q").returns.dead
    for letter in letters:
        assert letter.rare is not None
        assert letter.language is LOST_LANGUAGE
        assert "fails its checksum" in letter.rare.annotations[DEAD_CAUSE]
        assert letter.rare.annotations["_AMQ_ORIG_QUEUE"] == "Q"
    assert rig.queue("Q").count == 0


def test_a_selector_finds_what_stands_behind_it() -> None:
    rig = rotten(BODIES[5], BODIES[6])
    reader = rig.reader("Q", 100, selector="colour = 'red'")
    rig.wait(10)
    assert reader.bodies == []
    rig.send("Q", "late", properties={"colour": "red"})
    rig.wait(10)
    assert reader.bodies == ["late"]


def test_the_letter_is_stored_and_read_again() -> None:
    rig = rotten(BODIES[5])
    rig.reader("Q", 100).ack()
    rig.wait(10)
    queue = rig.queue("ActiveMQ.DLQ")
    (reference,) = queue.taking.take(queue.stock.walk(), 10, 100, Pick(None))
    kept = rig.journal.reading.load(reference.message.number)
    queue.stock.finish(reference)
    assert kept.language is LOST_LANGUAGE
    assert kept.rare is not None
    assert "fails its checksum" in kept.rare.annotations[DEAD_CAUSE]


def test_who_walks_through_a_queue_sees_the_others() -> None:
    rig = rotten(BODIES[5])
    assert len(found(rig, "Q")) == 29
    rig.wait(10)
    assert rig.queue("ActiveMQ.DLQ").count == 1


def test_one_that_nobody_wants_as_a_dead_letter_is_told_of_by_name() -> None:
    rig = rotten(BODIES[5], **{"dead-letter-address": ""})  # type: ignore[arg-type]
    reader = rig.reader("Q", 100)
    rig.wait(10)
    assert reader.bodies == whole(BODIES[5])
    assert rig.queue("Q").returns.dead == 1


def rot(rig: Rig, *damaged: str) -> None:
    """Let the records of messages with these bodies rot."""
    rig.sync()
    assert rig.disk is not None
    for body in damaged:
        found = 0
        for name in rig.disk.names():
            at = bytes(rig.disk.read(name, 0, rig.disk.size(name))).find(body.encode())
            if at >= 0:
                assert rig.disk.medium.damage(name, at)
                found += 1
        assert found == 1


def causes(rig: Rig) -> list[str]:
    """Return the causes of the dead letters, and take them."""
    return ["" if letter.rare is None else letter.rare.annotations[DEAD_CAUSE] for letter in found(rig, "ActiveMQ.DLQ")]


def test_what_is_scheduled_behind_it_goes_out_and_it_becomes_a_dead_letter() -> None:
    rig = Rig()
    for at, body in enumerate(BODIES[:4]):
        rig.send("Q", body, annotations={"AMQ_SCHEDULED_DELAY": str(1000 + at)})
    rot(rig, BODIES[1])
    assert [view.target for view in list_scheduled(rig.broker)] == ["", *["queue://Q"] * 3]
    assert explain(rig.broker, rig.queue("Q"), Census()).scheduled == 3
    rig.wait(2000)
    reader = rig.reader("Q", 100)
    rig.wait(10)
    assert reader.bodies == [BODIES[0], BODIES[2], BODIES[3]]
    (cause,) = causes(rig)
    assert "fails its checksum" in cause
    assert "scheduled" in cause
    reader.ack()
    assert rig.broker.scheduled.schedules == {}
    assert rig.journal.usage().messages == 0


def test_one_that_the_disk_does_not_give_when_it_is_due_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    if is_compiled():
        pytest.skip("native callers do not notice a method that is replaced")
    rig = Rig()
    for at, body in enumerate(BODIES[:3]):
        rig.send("Q", body, annotations={"AMQ_SCHEDULED_DELAY": str(1000 + at)})
    genuine = rig.journal.reading.load_range
    tries = [0]

    def failing(numbers: list[int], octets: int = 0) -> list[Message]:
        tries[0] += 1
        if tries[0] < 4:
            raise StorageError("the disk is slow to answer")
        return genuine(numbers, octets)

    monkeypatch.setattr(rig.journal.reading, "load_range", failing)
    rig.wait(20_000)
    assert tries[0] >= 4
    assert rig.broker.scheduled.schedules == {}
    assert sorted(rig.bodies("Q")) == BODIES[:3]


@pytest.mark.parametrize("least", [1, 1000])
@pytest.mark.parametrize("step", [1 << 20, 150])
def test_a_batch_is_published_without_it_and_it_becomes_a_dead_letter(step: int, least: int) -> None:
    rig = Rig()
    publishing = rig.broker.stages.publishing
    publishing.atomic_octets = publishing.step_octets = step
    publishing.refer_least = least
    publishing.load_messages = 3
    write(rig, "a", BODIES[:10])
    rot(rig, BODIES[0], BODIES[4])
    publication = publish(rig, "a")
    rig.wait(5000)
    assert (publication.done, publication.trouble) == (True, "")
    reader = rig.reader("Q", 100)
    rig.wait(10)
    assert reader.bodies == [body for body in BODIES[:10] if body not in (BODIES[0], BODIES[4])]
    reader.ack()
    letters = causes(rig)
    assert len(letters) == 2
    assert all("fails its checksum" in cause for cause in letters)
    assert publish(rig, "a").done
    assert rig.journal.usage().messages == 0


@pytest.mark.parametrize("first", [0, 1, 2])
def test_whichever_octet_rots_of_what_is_published_by_one_record_the_others_are_there(first: int) -> None:
    """Its place and its size are taken from its head alone: a head that makes no sense must not stop the batch."""
    length = 0
    for offset in range(first, 400, 3):
        rig = Rig()
        rig.broker.stages.publishing.refer_least = 1
        write(rig, "a", BODIES[:4])
        rig.sync()
        index = rig.journal.tail.index
        segment = index.find(rig.broker.ids.number - 2)
        assert segment is not None
        assert rig.disk is not None
        length = int(segment.lengths[index.slot])
        if offset >= length:
            break
        assert rig.disk.medium.damage(segment.name, int(segment.offsets[index.slot]) + offset)
        assert publish(rig, "a").done
        rig.wait(5000)
        reader = rig.reader("Q", 100)
        rig.wait(10)
        reader.ack()
        rig.wait(10)
        assert sorted([*reader.bodies, BODIES[1]]) == BODIES[:4], offset
        assert len(causes(rig)) == 1, offset
        assert rig.queue("Q").count == 0
        assert rig.journal.usage().messages == 0
    assert 50 < length < 400
