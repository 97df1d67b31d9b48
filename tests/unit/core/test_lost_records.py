"""A record that rots on the disk while the broker runs: its message is reported and buried, and its queue goes on."""

from __future__ import annotations

import pytest

from entrepot.core.queue.bereaved import DEAD_CAUSE, LOST_LANGUAGE
from entrepot.core.queue.taking import Pick
from entrepot.model.message import Message
from kit import Rig

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
