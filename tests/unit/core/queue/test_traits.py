"""What queues of Artemis do beyond others: limits, purges, holds, rings, last values, reading that removes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from entrepot.base.errors import LeaseError, Refused, SubscriptionInUse
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.queue.browser import Browser
from entrepot.core.transactions.transaction import Transaction
from entrepot.model.address import ANYCAST, MULTICAST, Destination
from kit import Rig, body_of

TINY = {"max_octets": "700"}  # two messages of the kit: what comes behind them is paged


def made(rig: Rig, **said: Any) -> None:
    """Make the queue Q, which says so of itself."""
    rig.broker.queues.create(QueueDefinition(name="Q", address="Q", **said))
    rig.turn()


def keyed(rig: Rig, *bodies: str, **fields: Any) -> None:
    """Send messages whose first letter is their key."""
    for body in bodies:
        rig.send("Q", body, properties={"_AMQ_LVQ_NAME": body[0]}, **fields)


def seen(rig: Rig) -> list[str]:
    """Return what a browser shows."""
    browser = Browser([rig.queue("Q")], None)
    found: list[str] = []
    while not browser.done:
        found += map(body_of, browser.next(10))
    return found


# -- who reads, and when ----------------------------------------------------------------------------------------------


def test_what_a_queue_says_goes_before_the_settings_of_its_address():
    rig = Rig(max_consumers="1", exclusive="true")
    made(rig, max_consumers=2, exclusive=False)
    one, two = rig.reader("Q", 10), rig.reader("Q", 10)
    with pytest.raises(SubscriptionInUse):
        rig.reader("Q")
    rig.send_all("Q", range(4))
    assert (one.bodies, two.bodies) == (["0", "2"], ["1", "3"])


def test_an_exclusive_queue_serves_one_consumer_and_the_next_when_that_leaves():
    rig = Rig()
    made(rig, exclusive=True)
    one, two = rig.reader("Q", 10), rig.reader("Q", 10)
    rig.send_all("Q", range(3))
    assert (one.bodies, two.bodies) == (["0", "1", "2"], [])
    one.close()
    assert two.bodies == ["0", "1", "2"]
    high = rig.reader("Q", 10, priority=1)
    rig.send("Q", "3")
    assert high.bodies == ["3"]


def test_without_consumers_a_purging_queue_holds_nothing():
    rig = Rig()
    made(rig, purge_on_no_consumers=True)
    rig.send("Q", "to nobody")
    reader = rig.reader("Q", 1)
    assert reader.bodies == []
    rig.send_all("Q", ["held", "waiting"])
    assert reader.bodies == ["held"]
    other = rig.reader("Q", 1)
    reader.close()
    assert rig.queue("Q").count == 2
    other.close()
    assert rig.queue("Q").count == 0
    rig.send("Q", "to nobody")
    assert rig.queue("Q").count == 0
    assert rig.journal.usage().messages == 0


def test_a_purge_of_very_many_takes_turns_and_spares_what_comes_for_the_next_reader():
    rig = Rig(**TINY)
    made(rig, purge_on_no_consumers=True)
    reader = rig.reader("Q", 1)
    rig.send_all("Q", range(50))
    rig.broker.effort.stride = 10
    rig.broker.effort.allowance = 10
    reader.close()
    assert 0 < rig.queue("Q").count < 50
    late = rig.reader("Q", 1000)
    rig.send("Q", "new")
    while rig.broker.effort.waits():
        rig.broker.effort.go_on()
    rig.turn()
    assert late.bodies[-1] == "new"
    late.ack()
    assert rig.queue("Q").count == 0


def test_nothing_is_routed_to_a_queue_that_is_off():
    rig = Rig()
    made(rig, enabled=False)
    rig.send("Q", "lost")
    assert rig.queue("Q").count == 0
    rig.broker.queues.redefine(rig.queue("Q"), QueueDefinition(name="Q", address="Q"))
    rig.send("Q", "kept")
    assert rig.bodies("Q") == ["kept"]


def test_a_queue_waits_for_its_consumers_or_its_delay():
    rig = Rig()
    made(rig, consumers_before_dispatch=2, delay_before_dispatch_ms=500)
    first = rig.reader("Q", 10)
    rig.send("Q", "a")
    assert first.bodies == []
    rig.wait(600)
    assert first.bodies == ["a"]
    first.ack()
    first.close()
    first = rig.reader("Q", 1)
    rig.send("Q", "b")
    assert first.bodies == []
    second = rig.reader("Q", 1)
    assert sorted(first.bodies + second.bodies) == ["b"]


def test_a_delay_of_nothing_is_no_second():
    rig = Rig()
    made(rig, consumers_before_dispatch=2, delay_before_dispatch_ms=0)
    first = rig.reader("Q", 10)
    rig.send("Q", "a")
    rig.wait(1)
    assert first.bodies == ["a"]


def test_a_queue_goes_when_it_holds_no_more_than_it_may():
    rig = Rig()
    made(rig, auto_delete=True, auto_delete_delay_ms=3000, auto_delete_messages=1)
    rig.send_all("Q", range(2))
    rig.wait(10_000)
    assert "Q" in rig.broker.table.queues
    reader = rig.reader("Q", 1)
    reader.ack(1)
    reader.close()
    rig.wait(2000)
    assert "Q" in rig.broker.table.queues
    rig.wait(3000)
    assert "Q" not in rig.broker.table.queues


def test_settings_delete_what_was_made_on_purpose_and_never_used():
    for created, unused, left in (("true", "true", False), ("false", "true", True), ("true", "false", True)):
        rig = Rig(auto_delete_created=created, auto_delete_unused=unused, auto_delete_delay="0")
        made(rig)
        rig.wait(3000)
        assert ("Q" in rig.broker.table.queues) is left


# -- groups -----------------------------------------------------------------------------------------------------------


def test_no_buckets_are_no_groups():
    rig = Rig()
    made(rig, group_buckets=0)
    one, two = rig.reader("Q", 10), rig.reader("Q", 10)
    for _ in range(4):
        rig.send("Q", "a", group="g")
    assert (len(one.bodies), len(two.bodies)) == (2, 2)


def test_the_first_of_a_group_has_the_key_of_its_queue():
    rig = Rig(group_first_key="of.policy")
    made(rig, group_first_key="first")
    reader = rig.reader("Q", 10)
    rig.send("Q", "a", group="g")
    rig.send("Q", "b", group="g")
    assert [one.annotations.get("first") for one in reader.deliveries] == ["true", None]


def test_new_owners_wait_until_the_former_ones_are_done():
    rig = Rig()
    made(rig, group_rebalance=True, group_rebalance_pause=True)
    one = rig.reader("Q", 10)
    rig.send("Q", "a", group="g")
    two = rig.reader("Q", 10, priority=1)
    rig.send("Q", "b", group="g")
    assert (one.bodies, two.bodies) == (["a"], [])
    assert rig.queue("Q").gate.draining
    one.ack()
    assert (one.bodies, two.bodies) == (["a"], ["b"])
    rig.send("Q", "c", group="h")
    three = rig.reader("Q", 10, priority=2)
    two.close()
    assert three.bodies == ["b", "c"]
    assert not rig.queue("Q").gate.shut


# -- rings ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, TINY])
def test_a_ring_keeps_the_newest(settings):
    rig = Rig(**settings)
    made(rig, ring_size=3)
    rig.send_all("Q", range(10))
    assert rig.queue("Q").count == 3
    assert rig.journal.usage().messages == 3
    rig.restart("kill")
    assert rig.bodies("Q") == ["7", "8", "9"]
    assert rig.broker.memory.used == 0


def test_what_is_in_flight_is_not_of_the_ring_and_comes_back_as_its_oldest():
    rig = Rig()
    made(rig, ring_size=2)
    rig.send_all("Q", range(2))
    reader = rig.reader("Q", 2)
    rig.send_all("Q", range(2, 4))
    assert rig.queue("Q").count == 4
    reader.close()
    assert rig.bodies("Q") == ["2", "3"]
    rig.send_all("Q", range(4, 6))
    back = rig.reader("Q", 2)
    rig.send("Q", "6")
    back.close()
    assert rig.bodies("Q") == ["5", "6"]


def test_a_transaction_rolls_back_into_a_ring():
    rig = Rig()
    made(rig, ring_size=2)
    transaction = Transaction("t")
    for body in "abc":
        transaction.send(rig.message(body, "Q"), rig.broker.target([Destination("Q", ANYCAST)]))
    rig.commit(transaction)
    assert seen(rig) == ["b", "c"]


def test_a_ring_that_shrinks_loses_messages_with_the_next_that_comes():
    rig = Rig()
    made(rig, ring_size=5)
    rig.send_all("Q", range(5))
    assert rig.broker.queues.redefine(rig.queue("Q"), QueueDefinition(name="Q", address="Q", ring_size=2))
    assert rig.queue("Q").count == 5
    rig.send("Q", "5")
    assert rig.queue("Q").count == 2
    rig.restart("kill")
    assert rig.queue("Q").traits.ring_size == 2
    assert rig.bodies("Q") == ["4", "5"]


# -- last values ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, TINY])
def test_the_last_value_of_each_key_is_kept_at_its_own_place(settings):
    rig = Rig(**settings)
    made(rig, last_value=True)
    keyed(rig, "a1", "b1", "a2", "c1", "a3", "b2")
    rig.send("Q", "no key")
    assert seen(rig) == ["c1", "a3", "b2", "no key"]
    assert (rig.queue("Q").count, rig.journal.usage().messages) == (4, 4)
    rig.restart("kill")
    keyed(rig, "c2")
    assert rig.bodies("Q") == ["a3", "b2", "no key", "c2"]
    assert rig.broker.memory.used == 0
    assert rig.journal.usage().messages == 0


def test_a_key_may_be_named_and_be_a_number():
    rig = Rig()
    made(rig, last_value_key="code")
    for code, body in ((1, "a"), ("1", "b"), (1, "c"), (True, "d")):
        rig.send("Q", body, properties={"code": code})
    assert rig.bodies("Q") == ["b", "c", "d"]


def test_a_value_in_delivery_comes_back_only_without_a_newer_one():
    rig = Rig()
    made(rig, last_value=True)
    keyed(rig, "a1", "b1")
    reader = rig.reader("Q", 2)
    keyed(rig, "a2")
    reader.close()
    assert rig.bodies("Q") == ["b1", "a2"]
    assert rig.journal.usage().messages == 0


def test_a_value_that_waits_for_its_redelivery_is_replaced():
    rig = Rig(redelivery_delay="1000")
    made(rig, last_value=True)
    keyed(rig, "a1")
    reader = rig.reader("Q", 1)
    reader.give_back()
    reader.close()
    keyed(rig, "a2")
    rig.wait(2000)
    assert rig.bodies("Q") == ["a2"]
    assert rig.journal.usage().messages == 0


def test_what_was_replaced_stays_so_when_its_end_did_not_reach_the_disk():
    rig = Rig()
    made(rig, last_value=True)
    keyed(rig, "a1")
    rig.broker.ids.secure()
    rig.turn()
    reader = rig.reader("Q", 1)
    keyed(rig, "a2")
    assert reader.bodies == ["a1"]
    rig.broker.ids.secure()
    rig.turn()
    rig.restart("crash")  # both are on disk: the reader had not settled the first
    assert seen(rig) == ["a2"]
    assert rig.journal.usage().messages == 1


def test_last_values_expire_are_purged_and_leave_no_key_behind():
    rig = Rig()
    made(rig, last_value=True)
    keyed(rig, "a1", ttl=500)
    keyed(rig, "b1")
    rig.wait(2000)
    keyed(rig, "a2")
    assert seen(rig) == ["b1", "a2"]
    rig.queue("Q").taking.purge()
    stock: Any = rig.queue("Q").stock
    assert (stock.newest, stock.held) == ({}, {})


def test_last_values_of_a_topic_share_a_record_with_other_subscribers():
    rig = Rig(**TINY)
    for name, last in (("L", True), ("P", False)):
        rig.broker.queues.create(QueueDefinition(name=name, address="T", routing=MULTICAST, last_value=last))
    for durable in (True, False, True, False):
        for body in ("a1", "b1", "a2"):
            rig.send("topic://T", body, properties={"_AMQ_LVQ_NAME": body[0]}, durable=durable)
    assert rig.bodies("T::L") == ["b1", "a2"]
    assert len(rig.bodies("T::P")) == 12
    assert rig.journal.usage().messages == 0
    assert rig.broker.memory.used == 0


def test_a_ring_of_last_values():
    rig = Rig()
    made(rig, last_value=True, ring_size=2)
    keyed(rig, "a1", "b1", "a2", "c1")
    assert rig.bodies("Q") == ["a2", "c1"]


# -- reading without removing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, TINY])
def test_every_consumer_sees_all_and_nothing_goes(settings):
    rig = Rig(**settings)
    made(rig, non_destructive=True)
    rig.send_all("Q", range(6))
    one = rig.reader("Q", 4)
    assert one.bodies == ["0", "1", "2", "3"]
    one.ack(4)
    assert one.bodies == ["0", "1", "2", "3", "4", "5"]
    auto = rig.reader("Q", 100, auto=True)
    rig.send("Q", "6", priority=9)
    assert auto.bodies == ["0", "1", "2", "3", "4", "5", "6"]
    assert [one.deliveries for one in auto.deliveries] == [1, 1, 1, 1, 1, 1, 1]
    one.close()
    assert rig.queue("Q").count == 7
    assert seen(rig) == ["6", "0", "1", "2", "3", "4", "5"]
    rig.restart("kill")
    assert rig.reader("Q", 100).bodies == ["6", "0", "1", "2", "3", "4", "5"]


def test_what_one_consumer_gives_back_it_gets_again_and_stays_for_others():
    rig = Rig(max_deliveries="2")
    made(rig, non_destructive=True)
    rig.send_all("Q", range(2))
    reader = rig.reader("Q", 1)
    reader.give_back()
    assert reader.bodies == ["0", "0"]
    reader.give_back()
    assert reader.bodies == ["0", "0", "1"]
    reader.reject()
    assert rig.queue("Q").count == 2
    assert "ActiveMQ.DLQ" not in rig.broker.table.queues
    assert rig.reader("Q", 10).bodies == ["0", "1"]


def test_a_selector_and_an_exclusive_consumer_of_what_is_not_removed():
    rig = Rig()
    made(rig, non_destructive=True, exclusive=True)
    for number in range(4):
        rig.send("Q", str(number), properties={"n": number})
    one, two = rig.reader("Q", 10, selector="n > 1"), rig.reader("Q", 10)
    assert (one.bodies, two.bodies) == (["2", "3"], [])
    one.close()
    assert two.bodies == ["0", "1", "2", "3"]


@pytest.mark.parametrize("settings", [{}, TINY])
def test_what_is_not_removed_expires_is_purged_and_replaced(settings):
    rig = Rig(dead_letter_address="", **settings)
    made(rig, non_destructive=True, last_value=True)
    keyed(rig, "a1", "b1")
    reader = rig.reader("Q", 10)
    keyed(rig, "a2")
    keyed(rig, "c1", ttl=500)
    assert reader.bodies == ["a1", "b1", "a2", "c1"]
    reader.ack()
    rig.wait(3000)
    assert seen(rig) == ["b1", "a2"]
    assert rig.reader("Q", 10).bodies == ["b1", "a2"]
    rig.queue("Q").taking.purge()
    rig.turn()
    for each in list(rig.readers):
        each.close()
    assert rig.queue("Q").count == 0
    assert rig.broker.memory.used == 0
    assert rig.journal.usage().messages == 0


def test_what_a_transaction_took_of_it_is_there_all_the_same():
    rig = Rig()
    made(rig, non_destructive=True)
    rig.send("Q", "a")
    reader = rig.reader("Q", 10)
    transaction = Transaction("t")
    delivery = reader.open.pop()
    transaction.settle(delivery.consumer, delivery.number)
    reader.close()
    rig.commit(transaction)
    assert rig.queue("Q").count == 1
    assert rig.journal.usage().messages == 1
    assert rig.broker.memory.used == rig.queue("Q").backlog.octets


def test_very_many_messages_are_shown_in_turns():
    rig = Rig()
    made(rig, non_destructive=True)
    rig.send_all("Q", range(100))
    rig.broker.effort.stride = 30
    reader = rig.reader("Q", 1000)
    assert len(reader.bodies) == 30
    rig.wait(1)
    assert reader.bodies == [str(number) for number in range(100)]


@pytest.mark.parametrize("said", [{"non_destructive": True}, {"last_value": True}])
def test_nobody_has_a_lease_on_such_a_queue(said):
    rig = Rig()
    made(rig, **said)
    with pytest.raises(LeaseError):
        rig.broker.leases.need(Destination("Q", ANYCAST), "group", create=True)


# -- definitions ------------------------------------------------------------------------------------------------------


def test_all_that_was_said_outlives_a_restart():
    said: dict[str, Any] = {
        "max_consumers": 4,
        "exclusive": True,
        "purge_on_no_consumers": False,
        "consumers_before_dispatch": 1,
        "delay_before_dispatch_ms": 5,
        "group_rebalance": True,
        "group_rebalance_pause": True,
        "group_buckets": 6,
        "group_first_key": "k",
        "last_value": True,
        "last_value_key": "key",
        "non_destructive": True,
        "ring_size": 7,
        "enabled": False,
        "auto_delete": False,
        "auto_delete_delay_ms": 8,
        "auto_delete_messages": 9,
        "user": "me",
    }
    rig = Rig()
    made(rig, **said)
    definition = rig.queue("Q").definition
    rig.restart("kill")
    assert rig.queue("Q").definition == definition == QueueDefinition(name="Q", address="Q", **said)
    traits = rig.queue("Q").traits
    assert (traits.ring_size, traits.last_value_key, traits.non_destructive, traits.enabled) == (7, "key", True, False)


def test_queues_of_which_nothing_is_said_share_their_traits():
    rig = Rig()
    for name in "ab":
        rig.broker.queues.create(QueueDefinition(name=name, address=name))
    assert rig.queue("a").traits is rig.queue("b").traits


def test_what_no_queue_can_be_is_refused():
    rig = Rig()
    for said in ({"ring_size": -2}, {"max_consumers": 2**41}, {"internal": True}):
        with pytest.raises(Refused):
            made(rig, **said)
    assert rig.broker.table.queues == {}


def test_a_definition_that_changes_is_obeyed_at_once_and_what_cannot_change_stays():
    rig = Rig()
    made(rig, max_consumers=1, last_value=True)
    one = rig.reader("Q", 10)
    renewed = QueueDefinition(name="Q", address="Q", max_consumers=2, exclusive=True, selector="n = 1")
    assert rig.broker.queues.redefine(rig.queue("Q"), renewed)
    assert not rig.broker.queues.redefine(rig.queue("Q"), renewed)
    two = rig.reader("Q", 10)
    for body in "ab":
        rig.send("Q", body, properties={"n": 1})
    rig.send("Q", "c", properties={"n": 2})
    assert (one.bodies, two.bodies) == (["a", "b"], [])
    assert rig.queue("Q").definition.last_value is True
