"""A reader by lease that is demand: others hear of it as of a consumer, and of its end (docs/leases.md)."""

from __future__ import annotations

import pytest

from conversation import Conversation
from entrepot.core.leases.wanting import LeaseReader
from entrepot.core.ports import Neighbours
from entrepot.core.queue.consumer import LEASE
from entrepot.core.queue.queue import NONE_DELIVERED
from entrepot.protocols.stomp.leasing import DEMANDS_MAX
from kit import Notices

ATTACH = ["open r 1.2", "r ATTACH queue:/queue/q group:etl receipt:1"]
CLAIM = "r CLAIM queue:/queue/q group:etl epoch:1 receipt:2"


@pytest.fixture
def talk() -> Conversation:
    made = Conversation()
    made.run(ATTACH)
    return made


@pytest.fixture
def notices(talk: Conversation) -> Notices:
    made = Notices()
    talk.rig.broker.hub.add(made)
    return made


def readers(talk: Conversation) -> list[int]:
    return [int(consumer.kind) for consumer in talk.rig.queue("q").roster.consumers]


def told(notices: Notices) -> list[str]:
    return [fact.name for fact in notices.facts if fact.name.startswith("consumer.")]


def test_a_lease_alone_is_nobody(talk: Conversation, notices: Notices) -> None:
    talk.run([CLAIM])
    assert readers(talk) == []
    assert told(notices) == []


def test_others_hear_of_it_once_and_of_its_end(talk: Conversation, notices: Notices) -> None:
    talk.run([f"{CLAIM} demand:true", f"{CLAIM} demand:true"])
    assert readers(talk) == [LEASE]
    (consumer,) = talk.rig.queue("q").roster.consumers
    assert isinstance(consumer, LeaseReader)
    objection = consumer.halted()
    assert objection is not None
    assert objection.code == "lease"
    assert told(notices) == ["consumer.attached"]
    talk.run([f"{CLAIM} demand:false"])
    assert readers(talk) == []
    assert told(notices) == ["consumer.attached", "consumer.detached"]


@pytest.mark.parametrize("end", ["close r", "r RELEASE queue:/queue/q group:etl receipt:3", "delete q", "kill"])
def test_it_ends_with_connection_lease_queue_and_broker(talk: Conversation, end: str) -> None:
    talk.run([f"{CLAIM} demand:true", end])
    queue = talk.rig.broker.table.queues.get("q")
    assert queue is None or not queue.roster.consumers


def test_it_is_told_of_bridges_that_reach_nobody(talk: Conversation) -> None:
    class Alone(Neighbours):
        def away(self, name: str, topic: bool) -> str:
            return f"there, NC ({name}{' a topic' if topic else ''})"

    talk.rig.broker.neighbours = Alone()
    assert not any("away" in line for line in talk.run([CLAIM]))
    assert any("away:there, NC (q)" in line for line in talk.run([f"{CLAIM} demand:true"]))
    talk.run(["r ATTACH topic:/topic/t subscription:s group:etl receipt:7"])
    claim = "r CLAIM topic:/topic/t subscription:s group:etl epoch:1 receipt:8 demand:true"
    assert any("away:there, NC (t a topic)" in line for line in talk.run([claim]))


def test_nothing_is_dispatched_to_it_and_others_go_on(talk: Conversation) -> None:
    talk.run([f"{CLAIM} demand:true", "open a 1.2", "a SEND destination:/queue/q persistent:true | one"])
    assert talk.run(["queues"]) == ["q: 1 messages, 0 in flight"]
    shown = talk.run(["a SUBSCRIBE id:1 destination:/queue/q"])
    assert any("| one" in line for line in shown)


def test_on_an_exclusive_queue_a_consumer_is_the_exclusive_one(talk: Conversation) -> None:
    roster = talk.rig.queue("q").roster
    roster.redefine(True, -1)
    talk.run([f"{CLAIM} demand:true", "open a 1.2", "a SEND destination:/queue/q persistent:true | one"])
    shown = talk.run(["a SUBSCRIBE id:1 destination:/queue/q"])
    assert any("| one" in line for line in shown)
    roster.redefine(False, -1)
    roster.redefine(True, -1)
    assert roster.exclusive is not None
    assert roster.exclusive.kind != LEASE
    talk.run(["close a"])
    assert roster.exclusive is None


def test_its_selector_is_told(talk: Conversation) -> None:
    talk.run(["r ATTACH queue:/queue/q group:etl receipt:3 \"selector:kind='a'\""])
    talk.run(["r CLAIM queue:/queue/q group:etl epoch:2 demand:true receipt:4"])
    (consumer,) = talk.rig.queue("q").roster.consumers
    assert consumer.subscriber.selector.endswith("kind = 'a'")


def test_they_are_bounded(talk: Conversation, monkeypatch: pytest.MonkeyPatch) -> None:
    talk.rig.thorough = False
    commands = [f"r ATTACH queue:/queue/q{number} group:etl receipt:a" for number in range(DEMANDS_MAX + 1)]
    commands += [
        f"r CLAIM queue:/queue/q{number} group:etl epoch:1 demand:true receipt:c" for number in range(DEMANDS_MAX)
    ]
    talk.run(commands)
    shown = talk.run([f"r CLAIM queue:/queue/q{DEMANDS_MAX} group:etl epoch:1 demand:true receipt:last"])
    assert any("leases of this connection are demand" in line for line in shown)
    assert not talk.rig.queue(f"q{DEMANDS_MAX}").roster.consumers
    talk.rig.broker.check()


def test_one_whose_consumer_an_operator_closed_is_heard_of_again_with_its_next_claim(talk: Conversation) -> None:
    talk.run([f"{CLAIM} demand:true"])
    queue = talk.rig.queue("q")
    talk.rig.broker.reading.detach(queue, queue.roster.consumers[0], NONE_DELIVERED)
    assert readers(talk) == []
    talk.run([f"{CLAIM} demand:true"])
    assert readers(talk) == [LEASE]


def test_one_whose_queue_is_gone_takes_no_room(talk: Conversation) -> None:
    for _ in range(2):
        talk.run(["r ATTACH queue:/queue/x group:etl receipt:a"])
        talk.run(["r CLAIM queue:/queue/x group:etl epoch:1 demand:true receipt:c", "delete x"])
    talk.rig.thorough = False
    talk.run([f"r ATTACH queue:/queue/q{number} group:etl receipt:a" for number in range(DEMANDS_MAX)])
    shown = talk.run(
        [f"r CLAIM queue:/queue/q{number} group:etl epoch:1 demand:true receipt:c" for number in range(DEMANDS_MAX)]
    )
    assert len(shown) == DEMANDS_MAX
    assert not any("ERROR" in line for line in shown)
    assert len(talk.rig.queue(f"q{DEMANDS_MAX - 1}").roster.consumers) == 1
    talk.rig.broker.check()
