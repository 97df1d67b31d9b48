"""A large body that is measured before it is delivered: others have their turns, and the message is never lost."""

from __future__ import annotations

from typing import Any

import pytest

from entrepot.core.queue.consumer import Consumer, Measurement, Pause
from entrepot.core.queue.queue import Queue
from entrepot.model import address as names
from entrepot.model.message import Message
from kit import Reader, Recorder, Rig

STEPS = 40
STEP_UNITS = 1_000


class Slow(Measurement):
    """Takes STEPS steps, each a tenth of what a turn may do."""

    def __init__(self, flaw: str = "") -> None:
        super().__init__()
        self.steps = 0
        self.found = flaw
        self.rig: Rig

    def step(self) -> bool:
        self.steps += 1
        self.rig.broker.effort.spent += STEP_UNITS
        if self.steps < STEPS:
            return False
        self.flaw = self.found
        return True


class Measured(Recorder):
    """A consumer whose large messages are measured."""

    made: list[Slow]
    flaw: str

    def measure(self, message: Message) -> Measurement | None:
        slow = Slow(self.flaw)
        slow.rig = self.reader.rig
        self.made.append(slow)
        return slow


class MeasuredReader(Reader):
    def __init__(self, rig: Rig, text: str, routing: int) -> None:
        super().__init__(rig, text, routing)
        self.made: list[Slow] = []
        self.flaw = ""

    def consumer(self, queue: Queue) -> Consumer:
        made = Measured(self.rig.broker.ids.consumer_key(), self.window, self.tracked)
        made.reader, made.made, made.flaw = self, self.made, self.flaw
        return made


def large(rig: Rig, body: str, **more: Any) -> None:
    overflow = rig.broker.journal.overflow
    blob = rig.broker.ids.next_number()
    overflow.create(blob)
    overflow.write(blob, b"x" * 100)
    overflow.seal(blob)
    message = rig.message(body, "Q", **more)
    rare = message.need_rare()
    rare.large_id, rare.large_length, rare.large_checked = blob, 100, True
    rig.broker.send(message, rig.broker.target(names.parse("queue://Q")))
    rig.turn()
    overflow.release(blob)


def attach(rig: Rig, *, tracked: bool = True, flaw: str = "", prefetch: int = 10) -> MeasuredReader:
    reader = MeasuredReader(rig, "queue://Q", names.UNTYPED)
    reader.flaw = flaw
    reader.tracked = tracked
    reader.prefetch = prefetch
    rig.broker.subscribe(reader)
    reader.window.reopen()
    rig.readers.append(reader)
    return reader


def rounds(rig: Rig) -> int:
    """Let the rest be done; return in how many turns. None of them does more than it may."""
    effort = rig.broker.effort
    turns = 0
    while effort.waits():
        effort.go_on()
        assert effort.spent <= effort.allowance + 2 * STEP_UNITS
        turns += 1
    rig.turn()
    return turns


@pytest.mark.parametrize("tracked", [True, False])
def test_it_takes_turns_and_what_is_behind_it_waits(tracked: bool) -> None:
    rig = Rig()
    reader = attach(rig, tracked=tracked)
    large(rig, "large")
    rig.send("queue://Q", "small")
    assert reader.bodies == []
    assert rounds(rig) >= STEPS * STEP_UNITS // rig.broker.effort.units
    assert reader.bodies == ["large", "small"]
    assert len(reader.made) == 1
    assert rig.queue("Q").in_flight == (2 if tracked else 0)
    if not tracked:
        assert rig.queue("Q").count == 0


@pytest.mark.parametrize("tracked", [True, False])
def test_who_leaves_before_it_is_over_never_saw_it(tracked: bool) -> None:
    rig = Rig()
    reader = attach(rig, tracked=tracked)
    large(rig, "large")
    rig.broker.effort.go_on()
    assert reader.made[0].steps < STEPS
    reader.close()
    rounds(rig)
    assert reader.bodies == []
    assert reader.made[0].steps < STEPS
    other = rig.reader("queue://Q")
    assert [(one.body, one.deliveries) for one in other.deliveries] == [("large", 0)]


@pytest.mark.parametrize("tracked", [True, False])
def test_what_has_no_form_for_its_reader_is_a_dead_letter_with_its_body(tracked: bool) -> None:
    rig = Rig()
    reader = attach(rig, tracked=tracked, flaw="it is too long")
    large(rig, "large")
    rig.send("queue://Q", "small")
    rounds(rig)
    assert reader.bodies == ["small"]
    dead = rig.reader("queue://ActiveMQ.DLQ")
    assert dead.bodies == ["large"]
    message = dead.deliveries[0].message
    assert "it is too long" in dead.deliveries[0].annotations["dlqDeliveryFailureCause"]
    assert rig.broker.journal.overflow.whole(message) == b"x" * 100


def test_an_unclean_end_does_not_mark_it() -> None:
    rig = Rig()
    attach(rig)
    large(rig, "large")
    rig.broker.effort.go_on()
    rig.restart("kill")
    other = rig.reader("queue://Q")
    assert [(one.body, one.deliveries) for one in other.deliveries] == [("large", 0)]


def test_an_acknowledgement_that_guesses_ends_it() -> None:
    rig = Rig()
    reader = attach(rig)
    large(rig, "large")
    queue = rig.queue("Q")
    consumer = reader.consumers[0]
    queue.settle(consumer, next(iter(consumer.in_flight)))
    rig.send("queue://Q", "small")
    rounds(rig)
    assert reader.bodies == ["small"]


def test_the_mark_of_a_groups_first_message_is_there_when_it_is_delivered() -> None:
    rig = Rig()
    reader = attach(rig)
    large(rig, "large", group="g")
    rounds(rig)
    assert reader.deliveries[0].annotations["JMSXGroupFirstForConsumer"] == "true"
    assert "JMSXGroupFirstForConsumer" not in reader.deliveries[0].message.need_rare().annotations


@pytest.mark.parametrize("tracked", [True, False])
def test_who_is_stopped_meanwhile_gets_it_when_he_goes_on_and_nothing_before(tracked: bool) -> None:
    rig = Rig()
    reader = attach(rig, tracked=tracked)
    large(rig, "large")
    rig.send("queue://Q", "small")
    rig.broker.effort.go_on()
    reader.window.pause(Pause.OPENING)
    rounds(rig)
    assert reader.bodies == []
    assert (rig.queue("Q").count, rig.queue("Q").in_flight) == (2, 0)
    reader.window.lift(Pause.OPENING)
    reader.window.reopen()
    rounds(rig)
    assert [(one.body, one.deliveries) for one in reader.deliveries] == [("large", 0), ("small", 0)]
