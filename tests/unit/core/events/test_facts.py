"""Several listeners hear the same facts in the same order, each only what it takes, and none can harm another."""

from __future__ import annotations

from entrepot.core.addressing.diversion import divert
from entrepot.core.addressing.policy import Policy
from entrepot.core.events import facts
from entrepot.core.events.facts import (
    BINDING_ADDED,
    BINDING_REMOVED,
    DIVERT,
    EVERY_KIND,
    LISTENER_FAILED,
    MESSAGE_CONSUMED,
    MESSAGE_DELIVERED,
    MESSAGE_EXPIRED,
    MESSAGE_REDELIVERED,
    NAMES,
    ON_REQUEST,
    QUEUE_ADDED,
    AddressFact,
    BindingFact,
    Fact,
    Hub,
    Listener,
    ListenerFailed,
    MessageFact,
    Place,
)
from entrepot.core.observing import ignore, observe, observe_all
from entrepot.model.address import parse_one
from kit import Rig


class Heard(Listener):
    """Remembers the names of what it heard."""

    def __init__(self, kinds: int = EVERY_KIND, always: int = 0) -> None:
        super().__init__(kinds, always)
        self.facts: list[Fact] = []

    def heard(self, fact: Fact) -> None:
        self.facts.append(fact)

    @property
    def names(self) -> list[str]:
        return [fact.name for fact in self.facts]


class Failing(Listener):
    def heard(self, fact: Fact) -> None:
        raise ValueError("not my day")


class Answering(Listener):
    """Announces something itself when it hears of a queue."""

    def __init__(self, hub: Hub) -> None:
        super().__init__(QUEUE_ADDED)
        self.hub = hub

    def heard(self, fact: Fact) -> None:
        self.hub.announce(AddressFact(facts.ADDRESS_ADDED, "caused", 0))


def queue_added(name: str = "Q") -> Fact:
    return facts.QueueFact(QUEUE_ADDED, Place(name, name))


def test_every_kind_is_one_bit_and_has_a_name_of_its_own() -> None:
    assert list(NAMES) == [1 << at for at in range(len(NAMES))]
    assert len(set(NAMES.values())) == len(NAMES)
    assert sum(NAMES) == EVERY_KIND


def test_what_nobody_takes_is_told_to_nobody() -> None:
    some, all_of_it = Heard(MESSAGE_EXPIRED), Heard()
    hub = Hub([some])
    hub.announce(queue_added())
    assert some.facts == []
    hub.add(all_of_it)
    hub.announce(queue_added())
    assert (some.names, all_of_it.names) == ([], ["queue.created"])
    hub.remove(all_of_it)
    assert hub.kinds == MESSAGE_EXPIRED


def test_a_listener_that_raises_harms_no_other_and_is_reported() -> None:
    failing, after = Failing(EVERY_KIND), Heard()
    Hub([failing, after]).announce(queue_added())
    assert after.names == ["queue.created", "listener.failed"]
    failed = after.facts[1]
    assert isinstance(failed, ListenerFailed)
    assert failed.listener is failing
    assert failed.details() == {"fact": "queue.created", "error": "ValueError: not my day"}


def test_who_cannot_even_hear_of_failures_does_not_go_round_in_circles() -> None:
    hub = Hub([Failing(EVERY_KIND), Failing(LISTENER_FAILED)])
    hub.announce(queue_added())
    hub.announce(queue_added())
    assert not hub.telling
    assert hub.waiting == []


def test_all_hear_in_the_order_of_what_happened_whatever_a_listener_causes() -> None:
    hub = Hub()
    after = Heard()
    for listener in (Answering(hub), after):
        hub.add(listener)
    hub.announce(queue_added())
    assert after.names == ["queue.created", "address.created"]


def test_single_messages_are_heard_of_where_the_policy_asks_or_the_listener_takes_all() -> None:
    asked, always = Heard(ON_REQUEST), Heard(0, MESSAGE_CONSUMED)
    hub = Hub([asked, always])
    rig = Rig(advises_consumed="true", advises_delivered="true")
    wanting = rig.policies.of("Q")
    assert hub.tells(Policy().asked()) == MESSAGE_CONSUMED
    assert hub.tells(wanting.asked()) == MESSAGE_CONSUMED | MESSAGE_DELIVERED
    unasked = MessageFact(MESSAGE_CONSUMED, Place("Q", "Q"), None)
    unasked.asked = False
    hub.announce(unasked)
    assert (asked.names, always.names) == ([], ["message.consumed"])


def test_diverts_are_told_of_when_they_come_change_and_go() -> None:
    rig = Rig()
    watcher = Heard(BINDING_ADDED | BINDING_REMOVED)
    observe(rig.broker, watcher)
    rig.broker.queues.follow(divert("d", "A", [parse_one("B")]))
    rig.broker.queues.follow(divert("d", "A", [parse_one("C")]))
    assert rig.broker.queues.forget("d")
    assert not rig.broker.queues.forget("d")
    told = [(fact.name, fact.address, fact.routing_name) for fact in watcher.facts if isinstance(fact, BindingFact)]
    added, removed = ("binding.added", "A", "d"), ("binding.removed", "A", "d")
    assert told == [added, removed, added, removed]
    assert all(isinstance(fact, BindingFact) and fact.form == DIVERT for fact in watcher.facts)


def test_a_running_broker_tells_a_new_listener_of_messages_at_once() -> None:
    rig = Rig()
    reader = rig.reader("Q")
    rig.send("Q", "a")
    watcher = Heard(0, MESSAGE_CONSUMED | MESSAGE_REDELIVERED | MESSAGE_DELIVERED)
    observe(rig.broker, watcher)
    rig.send("Q", "b")
    assert watcher.names == ["message.delivered"], "a resolved target is looked at again"
    reader.ack()
    assert watcher.names == ["message.delivered", "message.consumed", "message.consumed"]
    ignore(rig.broker, watcher)
    rig.send("Q", "c")
    reader.ack()
    assert len(watcher.facts) == 3
    assert rig.queue("Q").fates.tells == 0


def test_a_snapshot_and_what_happens_later_fit_together_without_gap_or_overlap() -> None:
    rig = Rig()
    rig.reader("Q")
    watcher = Heard()
    before = observe_all(rig.broker, watcher)
    assert [fact.name for fact in before] == [
        "address.created",
        "queue.created",
        "binding.added",
        "consumer.attached",
    ]
    rig.reader("R")
    told = [fact.name for fact in watcher.facts]
    assert told == ["address.created", "queue.created", "binding.added", "consumer.attached"]
    assert {fact.subject() for fact in before if fact.name == "queue.created"} == {"Q"}
    assert {fact.subject() for fact in watcher.facts if fact.name == "queue.created"} == {"R"}


def test_whoever_goes_is_told_of_with_all_that_was_told_of_its_coming() -> None:
    rig = Rig()
    rig.reader("Q", selector="a = 1")
    watcher = Heard(facts.CONSUMER_DETACHED | facts.QUEUE_REMOVED | facts.ADDRESS_REMOVED | facts.BINDING_REMOVED)
    observe(rig.broker, watcher)
    rig.broker.queues.delete(rig.queue("Q"), "a test")
    assert watcher.names == ["consumer.detached", "binding.removed", "queue.deleted", "address.deleted"]
    gone = watcher.facts[0]
    assert isinstance(gone, facts.ConsumerFact)
    assert (gone.place.name, gone.reader.selector, gone.consumers) == ("Q", "a = 1", 0)
