"""A line to another process: signs of life, silence, lives, and each question told once."""

from __future__ import annotations

import pytest

from entrepot.base.errors import EntrepotError, Refused, Unreachable
from entrepot.core.operators.together.line import LOOK, NEVER, SILENCE, WAITING_MAX, LineCore, Said


class Noted:
    """What a line has done for it."""

    def __init__(self) -> None:
        self.did: list[object] = []

    def dial(self, life: int) -> None:
        self.did.append(("dial", life))

    def write(self, life: int, said: Said) -> None:
        self.did.append(said)

    def hang_up(self, life: int) -> None:
        self.did.append(("hang up", life))

    def wake(self) -> None:
        pass

    def take(self) -> list[object]:
        did, self.did = self.did, []
        return did


def up() -> tuple[LineCore, Noted]:
    port = Noted()
    core = LineCore(port, "word")
    seen: list[str] = []
    core.look(seen.append, 0)
    core.look(seen.append, 0)
    assert port.take() == [("dial", 1)]
    core.opened(1)
    assert port.take() == [{"password": "word"}]
    assert seen == []
    core.heard(1, {}, 0)
    assert seen == ["", ""]
    return core, port


def test_who_says_nothing_is_given_up_and_who_waits_is_told_once() -> None:
    core, port = up()
    told: list[Said | EntrepotError] = []
    core.ask({"a": 1}, told.append, 0)
    assert port.take() == [{"a": 1, "id": 1}]
    assert core.deadline() == LOOK
    core.advance(LOOK)
    assert port.take() == [{}]
    core.heard(1, {}, LOOK + 1)  # it works
    assert core.deadline() == 2 * LOOK + 1
    core.advance(2 * LOOK + 1)
    assert core.deadline() == 2 * LOOK + 1 + SILENCE
    core.advance(core.deadline())
    [why] = told
    assert isinstance(why, Unreachable)
    assert core.deadline() == NEVER
    core.heard(1, {"id": 1, "value": 2}, 0)
    core.lost(1, "again")
    assert len(told) == 1


def test_what_comes_of_an_older_life_is_not_listened_to() -> None:
    core, _ = up()
    core.lost(1, "it is gone")
    with pytest.raises(Unreachable):
        core.ask({}, lambda _: None, 0)
    seen: list[str] = []
    core.look(seen.append, 0)
    core.heard(1, {}, 0)
    core.opened(1)
    core.lost(1, "late")
    assert seen == []
    core.opened(2)
    core.heard(2, {}, 0)
    assert seen == [""]


def test_what_is_under_way_is_bounded_and_forgotten() -> None:
    core, _ = up()
    numbers = [core.ask({}, lambda _: None, 0) for _ in range(WAITING_MAX)]
    with pytest.raises(Refused):
        core.ask({}, lambda _: None, 0)
    core.heard(1, {"id": numbers[0]}, 0)
    core.heard(1, {"id": [numbers[1]]}, 0)  # no number: no answer
    core.forget(numbers[2])
    assert core.waiting == WAITING_MAX - 2
