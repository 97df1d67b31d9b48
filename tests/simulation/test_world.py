"""The world and its network for themselves."""

from __future__ import annotations

from entrepot.simulation.network import Pipe, Weather
from entrepot.simulation.workload import draw_plan
from entrepot.simulation.world import Bell, World


def test_events_of_one_instant_come_in_the_order_in_which_they_were_asked_for() -> None:
    world = World(1)
    seen: list[str] = []
    world.later(5, lambda: seen.append("b"))
    world.later(3, lambda: seen.append("a"))
    world.later(5, lambda: seen.append("c"))
    world.run(world.time + 10)
    assert seen == ["a", "b", "c"]


def test_a_bell_rings_once_for_each_deadline_however_often_it_came_nearer() -> None:
    """Each ring asks for the next deadline, as brokers do: nearer deadlines made one more chain of rings each."""
    world = World(1)
    rung: list[int] = []

    def ring() -> None:
        rung.append(world.time)
        bell.set(world.time + 1000)

    bell = Bell(world, ring)
    began = world.time
    for nearer in (900, 700, 500, 800):
        bell.set(began + nearer)
    world.run(began + 3000)
    assert [at - began for at in rung] == [500, 1500, 2500]
    bell.hush()
    world.run(began + 9000)
    assert len(rung) == 3
    bell.set(world.time - 1)
    world.run(world.time)
    assert len(rung) == 4


def test_lots_of_different_names_do_not_disturb_one_another() -> None:
    one, two = World(1), World(1)
    two.lots("other").token(100)
    assert one.lots("mine").token(8) == two.lots("mine").token(8)
    assert World(2).lots("mine").token(8) != one.lots("mine").token(8)


def test_a_plan_is_drawn_from_its_seed_alone() -> None:
    assert draw_plan(World(9).lots("plan")) == draw_plan(World(9).lots("plan"))
    assert draw_plan(World(9).lots("plan")) != draw_plan(World(10).lots("plan"))


def test_the_trace_tells_one_run_from_another() -> None:
    one, two = World(1), World(1)
    one.note("a")
    two.note("b")
    assert one.digest() != two.digest()


def test_a_violation_ends_the_run() -> None:
    world = World(1)
    seen: list[int] = []
    world.later(1, lambda: world.violation("it broke"))
    world.later(2, lambda: seen.append(1))
    world.run(world.time + 10)
    assert world.violations == ["it broke"]
    assert seen == []


class Reader:
    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.data = bytearray()
        self.reads = True
        self.ended = False
        self.marks: list[bool] = []
        self.pipe = Pipe(self.world, Weather(self.world.lots("weather")), self.take, lambda: self.reads, self.mark)

    def take(self, data: bytes) -> None:
        assert not self.ended
        self.ended = not data
        self.data += data

    def mark(self, ready: bool) -> None:
        self.marks.append(ready)


def test_a_pipe_keeps_octets_whole_and_in_order() -> None:
    for seed in range(40):
        reader = Reader(seed)
        octets = reader.world.lots("octets").token(30_000)
        for at in range(0, len(octets), 7_000):
            reader.pipe.write(octets[at : at + 7_000])
        reader.pipe.end()
        reader.world.run(reader.world.time + 10**12)
        assert bytes(reader.data) == octets
        assert reader.ended
        assert reader.marks[:1] in ([], [False])
        assert reader.marks[-1:] in ([], [True])


def test_a_reader_that_does_not_read_fills_the_pipe() -> None:
    reader = Reader(1)
    reader.reads = False
    reader.pipe.write(bytes(2_000_000))
    reader.world.run(reader.world.time + 10**10)
    assert reader.marks == [False]
    assert not reader.data
    reader.reads = True
    reader.pipe.kick()
    reader.world.run(reader.world.time + 10**12)
    assert len(reader.data) == 2_000_000
    assert reader.marks == [False, True]
