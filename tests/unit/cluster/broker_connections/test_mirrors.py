"""A broker mirrored into another one: what is sent, taken and made here is so there, once, whatever is cut between."""

from __future__ import annotations

import random

import pytest

from entrepot.base.compiled import is_compiled
from entrepot.base.errors import EntrepotError
from entrepot.cluster.broker_connections.calls import Calls
from entrepot.cluster.broker_connections.options import MirrorOptions
from entrepot.cluster.broker_connections.outlook import outlook
from entrepot.cluster.broker_connections.telling import Telling
from entrepot.cluster.carrying.parking import PARKED
from entrepot.config.founding import OF_EVENTS
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.mirrors.answers import GONE_MOST
from entrepot.core.mirrors.identity import MIRROR, NUMBER, ORIGIN, note
from entrepot.core.mirrors.removing import ATTEMPTS, NEAR, PAUSE_MS
from entrepot.core.operators.upkeep import Progress, purge
from entrepot.core.ports import Mirroring
from entrepot.core.queue.head import QueueHead
from entrepot.model import address as names
from entrepot.model.address import MULTICAST
from entrepot.model.message import Message
from entrepot.protocols.amqp.calling.mirroring import acknowledgement, event_of
from entrepot.protocols.amqp.convert import message_of
from entrepot.protocols.amqp.mirroring import PASSED_MOST
from entrepot.protocols.amqp.server import AmqpServerSession
from entrepot.protocols.serving.confirmations import HELD_MOST, Confirmation, Confirmations, Throttle
from kit import Rig
from mirror_bugs import BUGS, planted

from .called import Called, octets_of

EVENTS = f"{MIRROR}A"
SEEDS = 6


class Mirrored(Called):
    """``near`` is mirrored into ``far``."""

    def __init__(self, *, met: bool = True, **options: object) -> None:
        super().__init__(mirror=MirrorOptions(**options), start=False, queues=())
        self.near.policies.put(EVENTS, OF_EVENTS, literal=True)
        self.begin()
        self.make("Q")
        if met:
            self.start()

    def begin(self) -> None:
        """Tell what happens from now on."""
        calls = Calls(())
        calls.connectors.append(self.connector)
        calls.mirror(self.near.broker)

    def again(self, how: str) -> None:
        """End ``near``, and start it again."""
        self.cut()
        self.near.restart(how)
        self.connector.connection = None
        self.begin()
        self.dials.clear()

    @property
    def telling(self) -> Telling:
        assert isinstance(self.near.broker.mirrors, Telling)
        return self.near.broker.mirrors

    def take(self, queue: str = "Q", count: int = 1, *, rig: Rig | None = None, skip: int = 0) -> None:
        """Acknowledge so many messages of a queue, behind the first ``skip`` of them."""
        owner = rig or self.near
        reader = owner.reader(f"queue://{queue}")
        kept, reader.open = reader.open[:skip], reader.open[skip:]
        reader.ack(count)
        reader.open = kept
        reader.close()
        self.run()

    def told(self) -> int:
        """Return how many events wait to be told."""
        return int(self.near.queue(EVENTS).count)

    def bodies(self, rig: Rig, queue: str = "Q") -> list[str]:
        """Return what a queue has; it stays there."""
        found = rig.queue(queue)
        found.backlog.complete()
        walk = found.stock.walk()
        seen: list[Message] = []
        while not walk.done:
            seen += [each.message for each in walk.step(100)]
        return [message.raw.rpartition(b"\xa1")[2][1:].decode() for message in seen]

    def same(self, *queues: str) -> None:
        """Let all be told, and look that both have the same."""
        self.pass_ms(1_200)
        self.pass_ms(1_200)
        assert self.told() == 0
        for queue in queues or ("Q",):
            assert self.bodies(self.far, queue) == self.bodies(self.near, queue)


def test_what_is_sent_and_taken_here_is_so_there() -> None:
    mirrored = Mirrored()
    mirrored.send("a", "b", "c")
    assert mirrored.bodies(mirrored.far) == ["a", "b", "c"]
    mirrored.take()
    assert mirrored.bodies(mirrored.far) == ["b", "c"]
    assert mirrored.far.queue("Q").settled == 1
    mirrored.same()


def test_a_mirror_whose_queue_an_operator_deletes_gets_another_one() -> None:
    """What waited in it is not told any more, and all that comes later is."""
    mirrored = Mirrored()
    mirrored.send("a")
    broker = mirrored.near.broker
    deleted = mirrored.near.queue(EVENTS)
    broker.queues.delete(deleted, "an operator")
    mirrored.near.turn()
    mirrored.run()
    assert mirrored.near.queue(EVENTS) is not deleted
    mirrored.make("later")
    mirrored.send("b")
    mirrored.take()
    mirrored.same()
    assert mirrored.bodies(mirrored.far) == ["b"]
    assert "later" in mirrored.far.broker.table.queues
    assert deleted.count == 0
    broker.check()


def test_what_happens_while_nobody_is_there_is_told_later_in_its_order() -> None:
    mirrored = Mirrored(met=False)
    mirrored.send("a", "b")
    mirrored.take()
    assert mirrored.told() == 4  # the queue, two messages, one acknowledgement
    mirrored.start()
    assert mirrored.bodies(mirrored.far) == ["b"]
    mirrored.same()


def test_it_is_told_over_a_restart_of_this_broker_and_nothing_comes_twice() -> None:
    mirrored = Mirrored()
    mirrored.send("a", "b")
    mirrored.deafen()
    mirrored.send("c")
    mirrored.take()
    assert mirrored.told() == 2
    mirrored.again("kill")
    assert mirrored.told() == 2
    mirrored.start()
    assert mirrored.bodies(mirrored.far) == ["b", "c"]
    mirrored.same()


def test_it_is_known_over_a_restart_of_the_other_broker() -> None:
    mirrored = Mirrored()
    mirrored.send("a")
    mirrored.deafen()
    mirrored.send("b")
    mirrored.cut()
    mirrored.far.restart("crash")
    mirrored.same()
    mirrored.take()
    mirrored.same()


def test_a_queue_that_is_made_anew_is_another_one_though_the_events_come_again() -> None:
    mirrored = Mirrored()
    mirrored.deafen()
    broker = mirrored.near.broker
    mirrored.send("a")
    broker.queues.delete(mirrored.near.queue("Q"), "it is not needed")
    mirrored.make("Q")
    mirrored.send("b")
    assert mirrored.bodies(mirrored.far) == ["b"]
    mirrored.cut()
    mirrored.same()
    assert mirrored.bodies(mirrored.far) == ["b"]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_deletion_that_comes_again_takes_nothing_of_what_came_meanwhile(restarts: bool) -> None:
    mirrored = Mirrored()
    mirrored.deafen()
    mirrored.send("before")
    mirrored.near.broker.queues.delete(mirrored.near.queue("Q"), "it is not needed")
    mirrored.make("Q")
    mirrored.run()
    mirrored.far.send("Q", "sent there since")
    mirrored.far.sync()
    mirrored.cut()
    if restarts:
        mirrored.far.restart("crash")
    mirrored.pass_ms(1_200)
    assert mirrored.told() == 0
    assert mirrored.far.bodies("Q") == ["sent there since"]


def test_what_is_not_here_when_it_is_said_to_be_taken_is_told_to_those_behind_once() -> None:
    mirrored = Mirrored()
    mirrored.cut()
    telling = mirrored.telling
    for _ in range(2):
        telling.acting = telling.doer = "another"
        telling.missed("Q", "Q", "another", 7, 1)
        telling.acting = telling.doer = telling.mirrors[0].remote
        telling.missed("Q", "Q", "another", 8, 1)  # who says it knows it
    assert mirrored.told() == 1


@pytest.mark.parametrize("passed", [PASSED_MOST - 1, PASSED_MOST])
def test_what_nobody_has_is_told_on_so_often_and_no_more(passed: int) -> None:
    """Else it would go round for ever in a ring that the one who did it is no part of."""
    mirrored = Mirrored()
    heard: list[int] = []

    class Further(Mirroring):
        def left(self, queue: QueueHead, message: Message) -> None:
            pass

        def missed(self, address: str, queue: str, origin: str, number: int, passed: int) -> None:
            heard.append(int(passed))

    mirrored.far.broker.mirrors = Further()
    octets = acknowledgement("Q", "Q", 7, "beyond", "beyond", passed)
    mirrored.telling.tell(mirrored.telling.mirrors[0], octets)
    mirrored.run()
    mirrored.pass_ms(ATTEMPTS * PAUSE_MS)
    assert mirrored.told() == 0
    assert heard == ([PASSED_MOST] if passed < PASSED_MOST else [])


def test_queues_and_addresses_come_and_go() -> None:
    mirrored = Mirrored()
    near, far = mirrored.near.broker, mirrored.far.broker
    near.queues.declare("T", 1)
    made = near.queues.create(
        QueueDefinition(name="S", address="T", routing=MULTICAST, selector="kind = 'a'", max_consumers=3)
    )
    mirrored.run()
    found = mirrored.far.queue("S")
    assert (found.address, found.routing, found.definition.selector) == ("T", MULTICAST, "kind = 'a'")
    assert found.traits.max_consumers == 3
    assert far.table.declared["T"] == 1
    near.queues.delete(made, "it is not needed")
    near.queues.undeclare(near.table.addresses["T"])
    mirrored.run()
    assert "S" not in far.table.queues
    assert "T" not in far.table.addresses


def test_of_a_topic_those_get_it_that_got_it_here() -> None:
    mirrored = Mirrored()
    near = mirrored.near.broker
    for name in ("one", "two"):
        near.queues.create(QueueDefinition(name=name, address="T", routing=MULTICAST))
    mirrored.run()
    other = QueueDefinition(name="other", address="T", routing=MULTICAST)
    mirrored.far.broker.queues.create(other)
    target = near.target(names.parse("topic://T", MULTICAST))
    message = message_of(octets_of("a"), near.wall).message
    message.address = "T"
    near.send(message, target)
    mirrored.run()
    assert [mirrored.bodies(mirrored.far, name) for name in ("one", "two", "other")] == [["a"], ["a"], []]
    mirrored.take("T::one")
    assert [mirrored.bodies(mirrored.far, name) for name in ("one", "two")] == [[], ["a"]]


def test_what_stands_far_behind_the_head_is_found() -> None:
    mirrored = Mirrored()
    count = NEAR * 8
    mirrored.send(*[str(number) for number in range(count)])
    mirrored.take(skip=count - 3, count=2)
    assert mirrored.bodies(mirrored.far)[-3:] == [str(count - 5), str(count - 4), str(count - 1)]
    mirrored.same()


def test_an_acknowledgement_that_comes_first_waits_for_its_message_and_not_for_ever() -> None:
    mirrored = Mirrored()
    mirrored.send("a")
    (link,) = links(mirrored)
    (reference,) = mirrored.near.queue("Q").backlog.references()
    number = int(reference.number) + 1
    early = message_of(event_of("postAck", "Q", "Q", number), mirrored.near.wall).message
    early.number = mirrored.near.broker.ids.number  # the next is that of the message
    mirrored.telling.tell(mirrored.telling.mirrors[0], early.raw)
    mirrored.run()
    assert link["looked_for"] == 0
    (link,) = links(mirrored)
    assert link["looked_for"] == 1
    for _ in range(ATTEMPTS + 1):
        mirrored.pass_ms(PAUSE_MS + 10)
    (link,) = links(mirrored)
    assert (link["looked_for"], link["unmatched"]) == (0, 1)
    assert mirrored.told() == 0


def test_what_is_thrown_away_or_expires_here_goes_there() -> None:
    mirrored = Mirrored()
    mirrored.send(*[str(number) for number in range(50)])
    purge(mirrored.near.broker, "Q", Progress())
    mirrored.run()
    assert mirrored.bodies(mirrored.far) == []
    mirrored.same()


def test_what_waits_on_disk_is_told_by_its_name() -> None:
    mirrored = Mirrored()
    mirrored.send("a", "b")
    mirrored.again("close")  # what the queue has is on disk, unread
    mirrored.start()
    assert mirrored.near.queue("Q").backlog.paged_count == 2
    purge(mirrored.near.broker, "Q", Progress())
    mirrored.run()
    assert mirrored.bodies(mirrored.far) == []


def test_only_what_the_element_says_is_told() -> None:
    mirrored = Mirrored(address_filter="Q,!Q.no", acknowledgements=False, removal=False)
    for name in ("Q.no", "R"):
        mirrored.make(name)
        mirrored.send("a", to=name)
    mirrored.send("a")
    mirrored.take()
    assert mirrored.bodies(mirrored.far) == ["a"]
    assert not {"Q.no", "R"} & set(mirrored.far.broker.table.queues)
    mirrored.near.broker.queues.delete(mirrored.near.queue("Q"), "it is not needed")
    mirrored.run()
    assert "Q" in mirrored.far.broker.table.queues


def test_two_that_mirror_each_other_do_not_echo() -> None:
    mirrored = Mirrored()
    far = mirrored.far.broker
    back = Telling(far)
    back.follow({"B": MirrorOptions()})
    events = mirrored.far.queue(f"{MIRROR}B")
    assert events.count == 1  # the queue that was there
    purge(far, f"{MIRROR}B", Progress())
    back.met(f"{MIRROR}B", mirrored.near.broker.ids.node.uuid_text)
    mirrored.send("a", "b")
    mirrored.take()
    mirrored.near.broker.queues.create(QueueDefinition(name="N", address="N"))
    mirrored.run()
    assert mirrored.bodies(mirrored.far) == ["b"]
    assert events.count == 0
    mirrored.take(rig=mirrored.far)  # that is news for the first one
    (told,) = events.backlog.references()
    annotated = told.message.raw
    assert b"postAck" in annotated
    assert mirrored.near.broker.ids.node.uuid_text.encode() in annotated  # whose message it was


def test_who_said_something_is_not_told_it_though_it_was_not_met_before() -> None:
    mirrored = Mirrored(met=False)
    mirrored.send("a")
    (message,) = mirrored.near.queue("Q").backlog.references()
    far = mirrored.far.broker.ids.node.uuid_text
    mirrored.telling.acting = mirrored.telling.doer = far
    mirrored.near.broker.queues.create(QueueDefinition(name="N", address="N"))
    mirrored.near.broker.queues.delete(mirrored.near.queue("N"), "it was said there")
    mirrored.telling.acting = mirrored.telling.doer = ""
    note(message.message, far, 7, message.number)
    mirrored.send("b", to="N2")
    assert mirrored.told() > 3
    mirrored.far.broker.queues.create(QueueDefinition(name="N", address="N"))
    mirrored.start()
    mirrored.pass_ms(10)
    assert "N" in mirrored.far.broker.table.queues  # else it would be deleted with what is in it
    assert "Q" in mirrored.far.broker.table.queues
    assert mirrored.far.queue("Q").count == 0
    assert mirrored.told() == 0


def test_a_dead_letter_of_what_came_is_a_message_of_its_own() -> None:
    mirrored = Mirrored()
    back = Telling(mirrored.far.broker)
    back.follow({"B": MirrorOptions()})
    back.met(f"{MIRROR}B", mirrored.near.broker.ids.node.uuid_text)
    mirrored.send("a")
    reader = mirrored.far.reader("queue://Q")
    reader.reject()
    reader.close()
    (letter,) = mirrored.far.queue("ActiveMQ.DLQ").backlog.references()
    assert letter.message.marked(ORIGIN) == mirrored.far.broker.ids.node.uuid_text
    assert letter.message.marked(NUMBER) == int(letter.number)
    told = [one.message for one in mirrored.far.queue(f"{MIRROR}B").backlog.references()]
    assert any(message is letter.message for message in told)
    assert any(b"postAck" in message.raw for message in told)


def test_what_the_other_side_never_takes_is_parked_and_the_rest_goes_on() -> None:
    mirrored = Mirrored()
    mirrored.telling.tell(mirrored.telling.mirrors[0], event_of("somethingNew", "Q", "Q", "{}"))
    mirrored.send("a")
    for _ in range(4):
        mirrored.pass_ms(1_100)
    assert mirrored.bodies(mirrored.far) == ["a"]
    assert mirrored.told() == 0
    assert mirrored.near.queue(PARKED).count == 1
    assert mirrored.connection.report(mirrored.near.now)["parked"] == 1


def test_explain_says_how_far_it_is() -> None:
    mirrored = Mirrored()
    mirrored.deafen()
    mirrored.send("a")
    (row,) = outlook(mirrored.connector, "Q", now=mirrored.near.now)
    assert (row["code"], row["state"]) == ("mirrored", "open")
    assert "was not told yet of 1 events" in str(row["text"])
    assert outlook(mirrored.connector, "$.own", now=mirrored.near.now) == []


def test_what_is_of_this_broker_alone_and_what_passes_is_not_told() -> None:
    mirrored = Mirrored()
    mirrored.run()
    before = mirrored.near.queue(EVENTS).accepted
    broker = mirrored.near.broker
    broker.queues.create(QueueDefinition(name="$.own", address="$.own"))
    broker.queues.create(QueueDefinition(name="t", address="t", temporary=True, durable=False))
    mirrored.send("a", to="$.own")
    mirrored.send("a", to="t")
    assert mirrored.near.queue(EVENTS).accepted == before


class Waits(Confirmation):
    """An answer that is noted."""

    def __init__(self, of: Confirmations, given: list[str], name: str) -> None:
        super().__init__(of)
        self.given = given
        self.name = name

    def give(self) -> None:
        self.given.append(self.name)

    def refuse(self, error: EntrepotError) -> None:
        self.given.append(f"not {self.name}")


class InStep(Mirrored):
    """Answers wait for the other side."""

    def __init__(self, **options: object) -> None:
        super().__init__(sync=True, **options)
        self.given: list[str] = []
        self.clients: dict[int, Confirmations] = {}

    def client(self, number: int) -> Confirmations:
        return self.clients.setdefault(number, Confirmations(self.near.broker.journal, number))

    def ask(self, number: int, name: str) -> None:
        self.client(number).ask(Waits(self.client(number), self.given, name))

    def publish(self, number: int, *bodies: str, to: str = "Q", durable: bool = True) -> None:
        """Send as the connection ``number``, which wants an answer to each."""
        broker = self.near.broker
        target = broker.target(names.parse(to, names.ANYCAST))
        for body in bodies:
            message = message_of(octets_of(body, durable), broker.wall).message
            message.address = target.name
            message.origin = number
            broker.send(message, target)
            self.ask(number, body)
        self.run()


def test_who_sends_is_answered_when_the_other_side_has_it() -> None:
    mirrored = InStep()
    mirrored.publish(7, "a")
    assert mirrored.given == ["a"]
    mirrored.deafen()
    mirrored.publish(7, "b", "c")
    assert mirrored.given == ["a"]
    assert mirrored.telling.waiting() == 2
    assert mirrored.connection.report(mirrored.near.now)["answers_waiting"] == 2
    (row,) = outlook(mirrored.connector, "Q", now=mirrored.near.now)
    assert "2 answers to clients wait for that (sync)" in str(row["text"])
    mirrored.cut()
    mirrored.pass_ms(1_100)
    assert mirrored.given == ["a", "b", "c"]
    assert mirrored.bodies(mirrored.far) == ["a", "b", "c"]
    assert mirrored.telling.waiting() == 0
    assert mirrored.telling.answers.owing == {}


def test_what_is_not_mirrored_waits_for_nobody_and_no_answer_overtakes_another_one() -> None:
    mirrored = InStep(address_filter="!plain")
    mirrored.deafen()
    mirrored.publish(7, "a")
    mirrored.publish(8, "b", to="plain")
    mirrored.publish(7, "c", to="plain")
    assert mirrored.given == ["b"]
    mirrored.cut()
    mirrored.pass_ms(1_100)
    assert mirrored.given == ["b", "a", "c"]


def test_a_message_that_is_not_persistent_waits_too() -> None:
    mirrored = InStep()
    mirrored.deafen()
    assert not mirrored.client(7).owes()
    mirrored.publish(7, "a", durable=False)
    assert mirrored.client(7).owes()
    assert not mirrored.client(8).owes()
    assert mirrored.given == []


def test_who_acknowledges_is_answered_when_the_other_side_knows() -> None:
    mirrored = InStep()
    mirrored.publish(7, "a", "b")
    mirrored.deafen()
    mirrored.near.reader("queue://Q", origin=9).ack(1)
    mirrored.ask(9, "taken")
    mirrored.run()
    assert mirrored.given == ["a", "b"]
    mirrored.cut()
    mirrored.pass_ms(1_100)
    mirrored.pass_ms(1_100)
    assert mirrored.given == ["a", "b", "taken"]
    assert mirrored.bodies(mirrored.far) == ["b"]


def test_who_says_again_what_is_here_is_not_answered_before_the_other_side_has_it() -> None:
    mirrored = InStep()
    mirrored.deafen()
    mirrored.publish(7, "a")
    mirrored.client(7).end()  # it never heard of it, and comes again
    mirrored.telling.again(8, "Q")
    mirrored.ask(8, "again")
    mirrored.run()
    assert mirrored.given == []
    mirrored.cut()
    mirrored.pass_ms(1_100)
    assert mirrored.given == ["again"]


def test_one_with_very_many_answers_that_wait_is_read_no_further() -> None:
    mirrored = InStep()
    stops: list[bool] = []

    class Reading(Throttle):
        def stop(self) -> None:
            stops.append(True)

        def go_on(self) -> None:
            stops.append(False)

    mirrored.deafen()
    mirrored.client(7).throttle = Reading()
    for _ in range(HELD_MOST + 1):
        mirrored.publish(7, "a")
    assert stops == [True]
    mirrored.cut()
    mirrored.pass_ms(1_100)
    assert stops == [True, False]
    assert mirrored.given == ["a"] * (HELD_MOST + 1)


def test_answers_of_those_that_are_gone_are_not_kept() -> None:
    mirrored = InStep()
    mirrored.deafen()
    for number in range(1, 400):
        mirrored.publish(number, "a")
        mirrored.client(number).end()
    assert mirrored.telling.waiting() == 0
    assert len(mirrored.telling.answers._held) <= 2 * GONE_MOST + 1
    assert mirrored.telling.answers.owing == {}


@pytest.mark.parametrize("how", ["purged", "deleted", "taken out of the file"])
def test_nobody_waits_for_what_is_never_told(how: str) -> None:
    mirrored = InStep()
    mirrored.deafen()
    mirrored.publish(7, "a")
    assert mirrored.given == []
    if how == "purged":
        mirrored.cut()  # what is on its way is not purged
        purge(mirrored.near.broker, EVENTS, Progress())
    elif how == "deleted":
        mirrored.near.broker.queues.delete(mirrored.near.queue(EVENTS), "an operator")
    else:
        mirrored.telling.follow({})
    mirrored.near.turn()
    mirrored.run()
    assert mirrored.given == ["a"]


def test_a_mirror_that_is_not_durable_forgets_with_its_broker_what_was_not_told() -> None:
    mirrored = Mirrored(durable=False)
    mirrored.send("a")
    mirrored.cut()
    mirrored.send("b")
    assert not mirrored.near.queue(EVENTS).durable
    mirrored.again("kill")
    mirrored.start()
    mirrored.send("c")
    assert mirrored.bodies(mirrored.near) == ["a", "b", "c"]
    assert mirrored.bodies(mirrored.far) == ["a", "c"]


def test_what_happens_in_a_ring_is_done_once() -> None:
    """What another broker tells of something that was done here first is no news."""
    mirrored = Mirrored()
    own = mirrored.far.broker.ids.node.uuid_text
    mirrored.send("a")
    (message,) = mirrored.near.queue("Q").backlog.references()
    events = [
        event_of("createQueue", "N", "N", '{"name": "N", "address": "N"}', doer=own),
        event_of("postAck", "Q", "Q", int(message.number), doer=own),
        event_of("deleteQueue", "Q", "Q", "Q", doer=own),
    ]
    for event in events:
        mirrored.telling.tell(mirrored.telling.mirrors[0], event)
    mirrored.run()
    assert mirrored.told() == 0
    assert "N" not in mirrored.far.broker.table.queues
    assert mirrored.bodies(mirrored.far) == ["a"]


def test_who_did_it_first_is_passed_on() -> None:
    mirrored = Mirrored()
    mirrored.telling.acting, mirrored.telling.doer = "second", "first"
    mirrored.near.broker.queues.create(QueueDefinition(name="N", address="N"))
    mirrored.telling.acting = mirrored.telling.doer = ""
    (link,) = links(mirrored)
    assert link["peer_id"] != "first"
    mirrored.run()
    assert "N" in mirrored.far.broker.table.queues


def walk(seed: int) -> None:
    """Send, take, make, delete and cut as drawn; at the end both must have the same."""
    lots = random.Random(seed)
    mirrored = Mirrored()
    sent = 0
    for _ in range(40):
        lot = lots.random()
        if lot < 0.4:
            queue = lots.choice(["Q", "R"])
            if queue not in mirrored.near.broker.table.queues:
                mirrored.make(queue)
            for _ in range(lots.randrange(1, 4)):
                mirrored.send(str(sent), to=queue, durable=lots.random() < 0.9)
                sent += 1
        elif lot < 0.65:
            queue = lots.choice(["Q", "R"])
            if queue in mirrored.near.broker.table.queues:
                mirrored.take(queue, lots.randrange(1, 3), skip=lots.randrange(3))
        elif lot < 0.72 and "R" in mirrored.near.broker.table.queues:
            mirrored.near.broker.queues.delete(mirrored.near.queue("R"), "it is not needed")
            mirrored.run()
        elif lot < 0.77:
            mirrored.deafen()
        elif lot < 0.82:
            for cable in mirrored.cables.values():
                cable.heard = False
        elif lot < 0.92:
            mirrored.cut()
            mirrored.pass_ms(lots.choice([10, 1_100]))
        else:
            mirrored.pass_ms(200)
    mirrored.cut()
    mirrored.same(*[name for name in ("Q", "R") if name in mirrored.near.broker.table.queues])


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_is_cut_both_have_the_same(seed: int) -> None:
    walk(seed)


@pytest.mark.skipif(is_compiled(), reason="native callers do not notice a method that is replaced")
@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_found(bug: str) -> None:
    def fails(seed: int) -> bool:
        try:
            walk(seed)
        except AssertionError:
            return True
        return False

    with planted(bug):
        assert any(fails(seed) for seed in range(SEEDS))


def links(mirrored: Mirrored) -> list[dict[str, object]]:
    """Return what links of mirrors say at ``far``."""
    found: list[dict[str, object]] = []
    for cable in mirrored.cables.values():
        session = cable.far.session
        assert isinstance(session, AmqpServerSession)
        found += session.mirrors()
    return found
