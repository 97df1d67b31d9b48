"""A producer whose broker is full: stopped, held, refused, and let go on."""

from __future__ import annotations

import pytest

from entrepot.base.errors import AddressFull
from entrepot.model import address as names
from entrepot.protocols.serving.patience import RETAINED_BLOCK, Held, Patience
from entrepot.protocols.session import NEVER, STOP_DISK, STOP_SPACE, Session, Shell
from kit import MILLISECOND, Rig


class Answer(Held):
    """Counts how often it was given."""

    def __init__(self) -> None:
        self.given = 0

    def release(self) -> None:
        self.given += 1


class Scene:
    """One connection, whose producer was told BLOCKED as soon as `stop` or `hold` is called."""

    def __init__(self, **settings: str) -> None:
        self.rig = Rig(**settings)
        self.session = Session(Shell())
        self.patience = Patience(self.session, self.rig.broker, 1)
        self.target = self.rig.broker.target(names.parse("/queue/q"))

    def fill(self, times: int) -> None:
        memory = self.rig.broker.memory
        memory.used = memory.limit * times

    def due(self) -> int:
        return int(self.patience.due())


def test_a_connection_that_consumes_nothing_is_read_no_further_until_there_is_room() -> None:
    scene = Scene()
    scene.patience.stop(scene.target, False)
    assert not scene.session.readable
    assert scene.due() == NEVER
    scene.fill(RETAINED_BLOCK)
    scene.patience.check(False)  # the rest of what came with it is taken
    scene.patience.space()
    assert scene.session.readable
    assert not scene.patience.waiting


def test_one_that_consumes_is_read_on_and_refused_at_twice_the_limit() -> None:
    scene = Scene()
    scene.patience.stop(scene.target, True)
    assert scene.session.readable
    scene.fill(1)
    scene.patience.check(False)
    scene.fill(RETAINED_BLOCK)
    with pytest.raises(AddressFull):
        scene.patience.check(False)
    scene.patience.check(True)  # nothing that it says frees memory after all: it is left unread
    assert not scene.session.readable


def test_nothing_is_refused_that_was_not_blocked() -> None:
    scene = Scene()
    scene.fill(RETAINED_BLOCK)
    scene.patience.check(False)


def test_held_answers_are_given_once_when_there_is_room() -> None:
    scene = Scene()
    first, second = Answer(), Answer()
    scene.patience.hold(first, scene.target)
    scene.patience.hold(second, scene.target)
    assert scene.session.readable
    scene.patience.space()
    scene.patience.space()
    assert (first.given, second.given) == (1, 1)


def test_patience_ends_and_then_everything_is_refused_until_there_is_room() -> None:
    scene = Scene(block_ms_max="2000")
    answer = Answer()
    scene.patience.hold(answer, scene.target)
    scene.patience.stop(scene.target, False)
    over = int(scene.rig.now) + 2000 * MILLISECOND
    assert scene.due() == over
    scene.patience.advance(over - 1)
    assert not scene.session.readable
    scene.patience.advance(over)
    assert scene.session.readable
    assert answer.given == 1, "what was accepted is accepted"
    assert scene.due() == NEVER
    with pytest.raises(AddressFull):
        scene.patience.check(True)
    scene.patience.space()
    scene.patience.check(False)


def test_room_does_not_bring_back_one_that_waits_for_the_disk_too() -> None:
    scene = Scene()
    scene.session.stop_reading(STOP_DISK)
    scene.patience.stop(scene.target, False)
    scene.patience.space()
    assert not scene.session.readable
    scene.session.read_on(STOP_SPACE)
    assert not scene.session.readable
    scene.session.read_on(STOP_DISK)
    assert scene.session.readable
