"""Who goes on when the work of a turn is over."""

from __future__ import annotations

from entrepot.core.effort import FIRST_SHARE, GIVES_WAY, Effort, Rest


class Chore(Rest):
    """So many steps of one unit."""

    def __init__(self, effort: Effort, name: str, steps: int, done: list[str]) -> None:
        super().__init__()
        self.effort, self.name, self.steps, self.done = effort, name, steps, done

    def resume(self) -> None:
        while self.steps > 0:
            if self.effort.is_over():
                self.effort.later(self)
                return
            self.effort.spent += 1
            self.steps -= 1
            self.done.append(self.name)


def test_rests_take_turns_and_each_gets_a_whole_allowance() -> None:
    effort = Effort()
    effort.units = 3
    done: list[str] = []
    for name, steps in (("a", 7), ("b", 4), ("c", 1)):
        effort.later(Chore(effort, name, steps, done))
    turns = []
    while effort.waits():
        before = len(done)
        effort.go_on()
        turns.append("".join(done[before:]))
    assert turns == ["aaa", "bbb", "caa", "baa"]


def test_what_is_said_twice_waits_once() -> None:
    effort = Effort()
    done: list[str] = []
    chore = Chore(effort, "a", 2, done)
    effort.later(chore)
    effort.later(chore)
    assert effort.rests == [chore]
    effort.go_on()
    assert (done, effort.rests) == (["a", "a"], [])


def test_a_new_event_gets_less_while_others_wait() -> None:
    effort = Effort()
    effort.spent = 99
    effort.begin()
    assert (effort.spent, effort.allowance) == (0, effort.units)
    effort.later(Rest())
    effort.begin()
    assert effort.allowance == effort.units // FIRST_SHARE
    effort.units = 1
    effort.begin()
    assert effort.allowance == 1  # or nothing would ever be done


def test_those_that_wait_get_less_while_others_are_served() -> None:
    effort = Effort()
    effort.units = 12
    done: list[str] = []
    effort.later(Chore(effort, "a", 100, done))
    steps = []
    for events in (0, 0, 1, 2, 0):
        for _ in range(events):  # each in a turn of its own
            effort.begin()
        before = len(done)
        effort.begin()
        effort.go_on()
        steps.append(len(done) - before)
    assert steps == [12, 12, 12 // FIRST_SHARE, 12 // FIRST_SHARE, 12]


class Asked(Rest):
    """What an operator asked for: so many turns."""

    def __init__(self, effort: Effort, turns: int, done: list[str]) -> None:
        super().__init__()
        self.effort, self.turns, self.done = effort, turns, done

    def resume(self) -> None:
        self.turns -= 1
        self.done.append("asked")
        if self.turns:
            self.effort.aside(self)


def test_what_is_asked_for_goes_on_between_events_and_in_one_of_a_few_turns_beside_them() -> None:
    effort = Effort()
    done: list[str] = []
    asked = Asked(effort, 4, done)
    effort.aside(asked)
    effort.aside(asked)  # once, though said twice
    effort.begin()
    assert effort.allowance == effort.units  # whoever sends has as much as ever
    steps = []
    for events in (1, 1, 1, 1, 1, 0, 0, 1, 1, 0):
        for _ in range(events):
            effort.begin()
        before = len(done)
        effort.begin()
        effort.go_on()
        steps.append(len(done) - before)
    assert steps == [0, 0, 0, 0, 1, 1, 1, 0, 0, 1]
    assert GIVES_WAY == 4
    assert not effort.waits()
