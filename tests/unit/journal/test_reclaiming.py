"""Files go once the reason for it is on disk, and not before."""

from __future__ import annotations

import pytest

from entrepot.base.errors import Fault
from entrepot.journal.moving import STAGED
from entrepot.simulation.disk import SimulatedDisk
from journals import World, message


def filled(count: int = 60) -> World:
    world = World()
    for number in range(1, count + 1):
        world.journal.store(message(number, 300), [1])
        world.journal.flush()
    world.confirm()
    return world


def test_a_segment_that_holds_nothing_goes_behind_the_next_sync() -> None:
    world = filled()
    oldest = world.disk.names()[0]
    held = [number for number in range(1, 61) if world.journal.tail.index.find(number).name == oldest]  # type: ignore[union-attr]
    for number in held:
        world.journal.settle(number, 1)
    assert oldest in world.disk.names()
    world.journal.flush()
    assert oldest in world.disk.names(), "the settlements are not on disk yet"
    world.timeline.run()
    assert oldest not in world.disk.names()


def test_after_a_crash_before_that_sync_nothing_is_missed() -> None:
    world = filled()
    for number in range(1, 31):
        world.journal.settle(number, 1)
    world.journal.flush()
    world.crash()
    assert {number for _, number, _ in world.told.messages} >= set(range(31, 61))


def test_a_body_goes_behind_the_sync_that_covers_the_settlement() -> None:
    world = World()
    world.journal.overflow.create(7)
    world.journal.overflow.write(7, b"a" * 1000)
    world.journal.overflow.seal(7)
    sent = message(7, 10)
    sent.need_rare().large_id = 7
    world.journal.store(sent, [1])
    world.journal.overflow.release(7)
    world.confirm()
    world.journal.settle(7, 1)
    world.journal.flush()
    assert world.disk.blobs() == [7]
    world.timeline.run()
    assert world.disk.blobs() == []


def test_nothing_can_be_copied_or_switched_that_was_not_chosen() -> None:
    reclaiming = filled().journal._reclaiming
    with pytest.raises(Fault):
        reclaiming.copy(1000)
    with pytest.raises(Fault):
        reclaiming.switch()
    assert not reclaiming.expects("x.seg")


def test_that_nothing_is_awaited_of_what_was_compacted_is_found_out_though_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[bool] = []
    monkeypatch.setattr(SimulatedDisk, "awaited", lambda self, name, waits: told.append(bool(waits)))
    world = World(segments_min=2, garbage_percent=10)
    for number in range(1, 61):
        world.journal.store(message(number, 300), [STAGED if number == 3 else 1])
        world.journal.flush()
    for number in range(1, 61):
        if number % 6 != 3:
            world.journal.settle(number, 1)
    world.confirm()

    def idle(looks: int) -> None:
        for _ in range(looks):
            while world.journal.compact(1 << 20):
                pass
            world.timeline.run()

    idle(20)
    assert told
    assert all(told)
    world.journal.settle(3, STAGED)  # as what is published one by one; one batch more, and then nothing
    world.confirm()
    before = world.journal.tail.sequence
    idle(len(world.journal.tail.index.segments) + 2)
    assert told[-1] is False
    assert world.journal.tail.sequence == before
