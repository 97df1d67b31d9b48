"""The search for a broker: the order of places, patience, who is believed. Effects are carried out by a list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from entrepot.base.errors import EntrepotError, Refused, Unreachable
from entrepot.base.uri import Endpoint
from entrepot.driver.effects import Ask, Connect, Course, Wait
from entrepot.driver.search import Reach, Search


class Line:
    def __init__(self, broker: str, place: Endpoint) -> None:
        self.broker = broker
        self.place = place
        self.shown = place.format()
        self.closed = False

    def close(self) -> None:
        self.closed = True


class World:
    """``at``: who is at which port; ``told``: what each of them answers to BROKERS."""

    def __init__(self, at: Mapping[int, str | EntrepotError], told: Mapping[str, str] | None = None) -> None:
        self.at = dict(at)
        self.told = told or {}
        self.time = 0.0
        self.tried: list[int] = []
        self.lines: list[Line] = []

    def clock(self) -> float:
        return self.time

    def run(self, course: Course[Any]) -> Any:
        outcome: Any = None
        try:
            while True:
                failed = isinstance(outcome, EntrepotError)
                effect = course.throw(outcome) if failed else course.send(outcome)
                outcome = self.carry_out(effect)
        except StopIteration as end:
            return end.value

    def carry_out(self, effect: object) -> Any:
        if isinstance(effect, Wait):
            self.time += effect.seconds
            return None
        if isinstance(effect, Ask):
            assert effect.command == "BROKERS"
            return {"brokers": self.told.get(effect.line.broker, "")}
        assert isinstance(effect, Connect)
        self.tried.append(effect.place.port)
        found = self.at.get(effect.place.port, Unreachable(f"nobody at {effect.place.port}"))
        if isinstance(found, EntrepotError):
            return found
        self.lines.append(Line(found, effect.place))
        return self.lines[-1]


def place(port: int) -> Endpoint:
    return Endpoint("stomp", "h", port)


def search(world: World, *groups: tuple[int, ...], discovers: bool = False, patience: float = 5.0) -> Search:
    places = tuple(tuple(place(port) for port in group) for group in groups)
    return Search(Reach(places, discovers=discovers, tls={}, patience=patience), world.clock)


def test_where_it_was_comes_first_then_the_hint_then_what_others_say_and_last_where_another_one_is() -> None:
    world = World({})
    looking = search(world, (1,), (2,), (3,), patience=0.0)
    looking.known = {"B": place(3), "A": place(1)}
    looking.announced = {"B": place(9)}
    with pytest.raises(Unreachable, match="none of the places"):
        world.run(looking.open("B", place(7)))
    assert world.tried[:5] == [3, 7, 9, 2, 1]


def test_a_broker_is_looked_for_as_long_as_we_are_patient_and_no_longer() -> None:
    world = World({1: "A"})
    looking = search(world, (1,), patience=5.0)
    with pytest.raises(Unreachable, match="other brokers answer there"):
        world.run(looking.open("B"))
    assert 3.0 < world.time <= 5.0
    assert all(line.closed for line in world.lines)


def test_a_refusal_ends_the_search() -> None:
    world = World({1: Refused("who are you"), 2: "B"})
    with pytest.raises(Refused):
        world.run(search(world, (1, 2)).open("B"))
    assert world.tried == [1]


def test_a_broker_is_found_where_another_one_says_that_it_is() -> None:
    world = World({1: "A", 5: "B"}, {"A": "B=stomp://h:5"})
    line = world.run(search(world, (1,), discovers=True).open("B"))
    assert (line.broker, line.place.port) == ("B", 5)


def test_who_answers_at_an_announced_place_must_be_the_one() -> None:
    world = World({1: "A", 5: "stranger"}, {"A": "B=stomp://h:5"})
    found = world.run(search(world, (1,), discovers=True).everyone())
    assert [line.broker for line in found] == ["A"]
    assert world.lines[-1].closed


def test_tasks_take_turns_among_the_members_of_the_url() -> None:
    world = World({1: "A", 3: "C"})
    looking = search(world, (1,), (2,), (3,))
    assert [world.run(looking.one_of(first)).broker for first in range(4)] == ["A", "C", "C", "A"]


def test_a_question_is_asked_again_when_the_answer_was_lost() -> None:
    world = World({1: "A"}, {"A": "x"})
    looking = search(world, (1,))
    lost = [Unreachable("cut"), Unreachable("cut")]

    def once() -> Course[str]:
        yield Wait(0.0)
        if lost:
            raise lost.pop()
        return "done"

    assert world.run(looking.patiently(once)) == "done"
