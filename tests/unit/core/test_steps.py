"""Verbs that are long by themselves are done in steps: others have their turn in between, and nothing is overtaken."""

from __future__ import annotations

import pytest

from kit import Rig


def rig_with(stride: int, units: int = 10_000, *, disk: bool = True) -> Rig:
    rig = Rig(disk=disk)
    rig.broker.effort.stride = stride
    rig.broker.effort.units = units
    return rig


def bodies(reader) -> list[str]:  # type: ignore[no-untyped-def]
    return [delivery.body for delivery in reader.deliveries]


def test_a_selector_looks_through_memory_in_steps_and_nothing_overtakes_it() -> None:
    rig = rig_with(10)
    for number in range(100):
        rig.send("Q", str(number), properties={"colour": "red" if number in (55, 95) else "blue"})
    reader = rig.reader("Q", 10, selector="colour = 'red'")
    queue = rig.queue("Q")
    assert (bodies(reader), queue.dispatcher.stepping) == ([], True)
    rig.send("Q", "late", properties={"colour": "red"})  # it stands behind what was not looked at yet
    assert bodies(reader) == []
    rig.wait(100)
    assert bodies(reader) == ["55", "95", "late"]
    assert not queue.dispatcher.stepping
    rig.send("Q", "last", properties={"colour": "red"})
    assert bodies(reader)[-1] == "last"


def test_two_selective_readers_and_a_late_return_find_all_of_theirs() -> None:
    rig = rig_with(7)
    for number in range(60):
        rig.send("Q", str(number), properties={"colour": ("red", "blue", "green")[number % 3]})
    red = rig.reader("Q", 100, selector="colour = 'red'")
    blue = rig.reader("Q", 100, selector="colour = 'blue'")
    rig.wait(1)
    red.close()
    again = rig.reader("Q", 100, selector="colour <> 'blue'")
    rig.wait(200)
    assert bodies(blue) == [str(number) for number in range(1, 60, 3)]
    assert sorted(map(int, bodies(again))) == [number for number in range(60) if number % 3 != 1]


def test_a_deleted_queue_does_not_keep_one_of_its_name_from_its_search() -> None:
    rig = rig_with(5)
    for number in range(30):
        rig.send("Q", str(number), properties={"colour": "blue"})
    rig.reader("Q", 1, selector="colour = 'red'")
    assert rig.queue("Q").dispatcher.stepping
    rig.broker.queues.delete(rig.queue("Q"), "test")
    for number in range(30):
        rig.send("Q", str(number), properties={"colour": "blue" if number < 29 else "red"})
    reader = rig.reader("Q", 1, selector="colour = 'red'")
    rig.wait(100)
    assert bodies(reader) == ["29"]


@pytest.mark.parametrize("selector", ["", "colour is null"])
def test_what_is_over_expires_in_steps(selector: str) -> None:
    rig = rig_with(8, units=60)
    for number in range(50):
        rig.send("Q", str(number), ttl=10)
    rig.send("Q", "fresh")
    rig.now += 20_000_000
    rig.wall += 20
    rig.broker.tick(rig.now, rig.wall)
    reader = rig.reader("Q", 10, selector=selector)
    assert bodies(reader) == []
    assert 0 < rig.queue("Q").returns.expired < 50
    rig.wait(500)
    assert bodies(reader) == ["fresh"]
    assert rig.queue("Q").returns.expired == 50


def test_a_full_queue_is_deleted_in_steps_and_nothing_of_it_comes_back() -> None:
    rig = rig_with(10, units=10)
    rig.send_all("Q", range(95))
    rig.broker.tick(rig.now, rig.wall)
    assert rig.broker.queues.delete(rig.queue("Q"), "test") == 95
    assert "Q" not in rig.broker.table.queues
    (left,) = rig.broker.queues.removals.values()
    assert 0 < left.count < 95
    rig.broker.check()
    rig.send("Q", "new")  # another queue of that name
    rig.broker.journal.flush()
    rig.restart("kill")  # in the middle
    assert rig.bodies("Q") == ["new"]
    assert rig.broker.journal.usage().messages == 0  # it was read, and of the others nothing is left


def test_a_deletion_comes_to_its_end() -> None:
    rig = rig_with(10, units=10)
    rig.send_all("Q", range(95))
    rig.broker.tick(rig.now, rig.wall)
    rig.broker.queues.delete(rig.queue("Q"), "test")
    rig.wait(1)
    assert rig.broker.queues.removals == {}
    assert rig.broker.memory.used == 0
    assert rig.broker.journal.usage().messages == 0


def test_a_wildcard_is_attached_and_detached_in_steps() -> None:
    rig = rig_with(10, units=60)
    for number in range(50):
        rig.send(f"W.{number}", str(number))
    rig.broker.tick(rig.now, rig.wall)
    reader = rig.reader("W.>", 1000)
    assert 0 < len(reader.consumers) < 50
    rig.send("W.new", "new")  # made meanwhile
    rig.wait(1)
    assert len(reader.consumers) == 51
    assert sorted(bodies(reader)) == sorted([*map(str, range(50)), "new"])
    rig.broker.tick(rig.now, rig.wall)
    rig.broker.unsubscribe(reader)
    left = sum(len(queue.roster.consumers) for queue in rig.broker.table.queues.values())
    assert 0 < left < 51
    other = rig.reader("W.0", 10)
    rig.wait(1)
    assert bodies(other) == ["0"]
    assert sum(len(queue.roster.consumers) for queue in rig.broker.table.queues.values()) == 1
    assert all(queue.in_flight == 0 for queue in rig.broker.table.queues.values() if queue.name != "W.0")
    rig.broker.check()


def test_a_wildcard_that_leaves_while_it_is_attached_is_gone() -> None:
    rig = rig_with(10, units=60)
    for number in range(50):
        rig.send(f"W.{number}", str(number))
    rig.broker.tick(rig.now, rig.wall)
    reader = rig.reader("W.>", 1000)
    rig.broker.unsubscribe(reader)
    rig.wait(1)
    assert all(not queue.roster.consumers for queue in rig.broker.table.queues.values())
    assert [rig.queue(f"W.{number}").count for number in range(50)] == [1] * 50


def test_many_queues_are_swept_in_steps() -> None:
    rig = rig_with(10, units=20)
    for number in range(50):
        rig.send(f"Q{number}", "x", ttl=10)
    rig.wait(1500)
    assert all(rig.queue(f"Q{number}").count == 0 for number in range(50))


def test_a_broker_that_stops_leaves_no_work() -> None:
    rig = rig_with(10, units=10)
    rig.send_all("Q", range(95))
    rig.broker.tick(rig.now, rig.wall)
    rig.broker.queues.delete(rig.queue("Q"), "test")
    rig.broker.finish_work()
    assert rig.broker.effort.waits() is False
    assert rig.broker.memory.used == 0
