"""Which number answers wait for: what waits, is on its way, is on disk or comes back counts; what left does not."""

from __future__ import annotations

from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.mirrors.answers import ALL, Answers, lowest
from entrepot.core.queue.queue import Queue
from entrepot.journal.ports import Withheld
from entrepot.model import address as names
from entrepot.model.address import ANYCAST
from entrepot.protocols.amqp.convert import message_of
from kit import Rig

OCTETS = b"\x00\x53\x70\xc0\x02\x01\x41\x00\x53\x77\xa1\x01a"


class Noted(Withheld):
    """Notes that it was reached."""

    def __init__(self) -> None:
        self.times = 0
        self.left = False

    def reached(self) -> None:
        self.times += 1

    def gone(self) -> bool:
        return self.left


class Told:
    """A broker with a queue of events, for which answers wait."""

    def __init__(self) -> None:
        self.rig = Rig()
        self.queue: Queue = self.rig.broker.queues.create(QueueDefinition(name="E", address="E", routing=ANYCAST))
        self.answers = Answers(self.rig.broker)
        self.answers.queues = [self.queue]

    def tell(self, owner: int) -> int:
        """Let ``owner`` do something of which an event tells."""
        broker = self.rig.broker
        message = message_of(OCTETS, broker.wall).message
        message.address = "E"
        broker.send(message, broker.target(names.parse("E", ANYCAST)))
        self.answers.told(owner, int(message.number))
        return int(message.number)


def test_the_lowest_is_that_on_its_way_before_that_which_waits() -> None:
    told = Told()
    assert lowest(told.queue) == ALL
    first, second = told.tell(1), told.tell(1)
    assert lowest(told.queue) == first
    reader = told.rig.reader("queue://E", prefetch=1)
    assert lowest(told.queue) == first
    reader.ack(1)
    assert lowest(told.queue) == second
    reader.close()
    assert lowest(told.queue) == second


def test_who_did_nothing_waits_for_nothing() -> None:
    told = Told()
    told.tell(1)
    assert told.answers.owes(1)
    assert not told.answers.owes(2)
    assert told.answers.position(2) == 0
    assert told.answers.position(1) > 0
    assert not told.answers.is_reached(told.answers.position(1))


def test_answers_are_given_in_order_when_what_they_wait_for_has_left() -> None:
    told = Told()
    told.tell(1)
    early, late, never = Noted(), Noted(), Noted()
    told.answers.hold(early, told.answers.position(1))
    told.tell(2)
    told.answers.hold(late, told.answers.position(2))
    never.left = True
    told.answers.hold(never, told.answers.position(2))
    told.answers.forget(2, 1)
    assert told.answers.waiting == 2
    reader = told.rig.reader("queue://E", prefetch=1)
    reader.ack(1)
    told.answers.look()
    assert (early.times, late.times) == (1, 0)
    reader.close()
    told.rig.drain("queue://E")
    told.answers.left()
    told.rig.turn()
    told.answers.look()
    assert (early.times, late.times) == (1, 1)
    assert told.answers.waiting == 0
    assert told.answers.owing == {}


def test_without_mirrors_that_are_waited_for_all_are_given() -> None:
    told = Told()
    told.tell(1)
    one = Noted()
    told.answers.hold(one, told.answers.position(1))
    told.answers.queues = []
    told.answers.look()
    assert one.times == 1
