"""What is stored and what is paged, bodies included."""

from __future__ import annotations

from journals import World, message


def test_what_is_paged_counts_apart_from_what_is_stored() -> None:
    world = World(segment_bytes=1 << 20)
    world.journal.store(message(1, 5000), [1])
    world.journal.page(message(2, 3000), [1])
    world.journal.space.measure()
    assert 3000 <= world.journal.space.paged() < 3200
    assert 5000 <= world.journal.space.limits.stored < 5400
    world.journal.settle(2, 1)
    assert world.journal.space.paged() == 0


def test_a_limit_begins_and_ends_once() -> None:
    world = World(segment_bytes=1 << 20)
    space = world.journal.space
    space.limits.store = 4000
    assert not space.measure()
    world.journal.store(message(1, 5000), [1])
    assert space.measure()
    assert "may hold 4000" in space.limits.full
    assert not space.measure()
    world.journal.settle(1, 1)
    assert space.measure()
    assert space.limits.full == ""


def test_pages_may_take_their_share() -> None:
    world = World(segment_bytes=1 << 20)
    world.journal.space.limits.temp = 2000
    world.journal.space.measure()
    assert not world.journal.space.temp_full()
    world.journal.page(message(1, 3000), [1])
    assert world.journal.space.temp_full()
