"""Settings that Classic's files need: for queues or topics alone, and what its strategies say (classic.md 4.6, 4.7)."""

from __future__ import annotations

from entrepot.core.addressing.policy import Policies
from entrepot.model.address import ANYCAST, MULTICAST
from kit import Rig

MIB = 1024 * 1024


def test_an_entry_for_topics_leaves_queues_of_the_same_name_alone() -> None:
    policies = Policies()
    policies.add(">", {"memoryLimit": "3mb"})
    policies.add(">", {"memoryLimit": "1mb"}, ANYCAST)
    policies.add("a", {"memoryLimit": "2mb"}, MULTICAST)
    assert policies.of("a", ANYCAST).max_octets == MIB
    assert policies.of("a", MULTICAST).max_octets == 2 * MIB
    assert policies.of("b", MULTICAST).max_octets == 3 * MIB
    assert policies.of("a").max_octets == MIB, "untyped is taken for a queue"


def test_a_later_entry_is_heard_although_the_answer_was_cached() -> None:
    policies = Policies()
    assert policies.of("a", MULTICAST).pending_limit == -1
    policies.add("a", {"pending_limit": "5"}, MULTICAST)
    assert (policies.of("a", MULTICAST).pending_limit, policies.of("a", ANYCAST).pending_limit) == (5, -1)


def test_a_subscriber_may_leave_waiting_a_multiple_of_its_prefetch() -> None:
    rig = Rig({"news": {"pending_rate": "1.5"}})
    reader = rig.reader("topic://news", 4)
    rig.send_all("topic://news", range(20), durable=False)
    assert reader.take() == ["0", "1", "2", "3"]
    reader.ack()
    reader.ack()
    assert [int(body) for body in reader.bodies] == [14, 15, 16, 17, 18, 19]


def test_a_limit_in_messages_wins_over_one_in_prefetches() -> None:
    rig = Rig({"news": {"pending_rate": "1.5", "pending_limit": "1"}})
    reader = rig.reader("topic://news", 4)
    rig.send_all("topic://news", range(20), durable=False)
    reader.ack()
    assert reader.bodies == ["0", "1", "2", "3", "19"]


def test_dead_letters_have_a_suffix_and_a_life_of_their_own() -> None:
    individual = {"dead_letter_individual": "true", "dead_letter_prefix": "D.", "dead_letter_suffix": ".q"}
    rig = Rig({"a": {**individual, "dead_letter_expiry_ms": "500", "max_deliveries": "1"}})
    rig.send("queue://a", "bad")
    reader = rig.reader("queue://a")
    reader.reject()
    (letter,) = rig.drain("queue://D.a.q")
    assert letter.message.expiration == rig.wall + 500


def test_a_broker_without_a_scheduler_delivers_at_once() -> None:
    rig = Rig()
    rig.send("queue://a", "later", annotations={"AMQ_SCHEDULED_DELAY": "60000"})
    assert rig.bodies("queue://a") == []
    rig.broker.options.scheduler = False
    rig.send("queue://a", "now", annotations={"AMQ_SCHEDULED_DELAY": "60000"})
    assert rig.bodies("queue://a") == ["now"]


def test_queues_and_topics_of_one_name_follow_their_own_entries() -> None:
    rig = Rig()
    rig.policies.add(">", {"queue_prefetch": "2"}, ANYCAST)
    rig.policies.add(">", {"topic_prefetch": "1", "queue_prefetch": "9"}, MULTICAST)
    subscriber, reader = rig.reader("topic://x"), rig.reader("queue://x")
    for kind in ("queue", "topic"):
        rig.send_all(f"{kind}://x", range(5))
    assert len(reader.bodies) == 2
    assert len(subscriber.bodies) == 1
