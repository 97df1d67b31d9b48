"""Names, routing, topics, limits (classic.md 4.1, 4.7, 4.8, 4.11; artemis.md 4.1, 4.4, 4.8, 4.9)."""

from __future__ import annotations

import pytest

from entrepot.base.errors import AddressFull, InvalidDestination, Refused, SubscriptionInUse
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.addressing.diversion import composite, divert
from entrepot.core.addressing.routing import VirtualTopic
from entrepot.core.broker import selector_or_none
from entrepot.core.owners import ConnectionOwner
from entrepot.core.sending.flow import BLOCKED, DROPPED, DUPLICATE, SENT, SpaceWaiter
from entrepot.model.address import ANYCAST, MULTICAST, Destination, parse, parse_one
from kit import Rig


def numbers(count: int, start: int = 0) -> list[str]:
    return [str(number) for number in range(start, start + count)]


# -- topics -----------------------------------------------------------------------------------------------------------


def test_every_subscriber_gets_each_message_and_a_late_one_only_what_follows():
    rig = Rig()
    first = rig.reader("topic://T", 100)
    rig.send("topic://T", "a")
    second = rig.reader("topic://T", 100, selector="n = 1")
    rig.send("topic://T", "b", properties={"n": 1})
    rig.send("topic://T", "c")
    assert (first.bodies, second.bodies) == (["a", "b", "c"], ["b"])
    first.close()
    second.close()
    assert list(rig.broker.table.queues) == []
    rig.send("topic://T", "nobody")
    assert rig.broker.memory.used == 0


def test_no_local_on_a_topic_and_on_a_queue():
    rig = Rig()
    topic = rig.reader("topic://T", 100, no_local=True, origin=7)
    queue = rig.reader("Q", 100, no_local=True, origin=7)
    for name in ("topic://T", "Q"):
        rig.send(name, "mine", origin=7)
        rig.send(name, "other", origin=8)
    assert (topic.bodies, queue.bodies) == (["other"], ["other"])


def test_a_durable_subscription_keeps_what_comes_while_it_is_away():
    rig = Rig()
    rig.reader("topic://T", 10, durable_name="s", client_id="c.1", selector="n > 1").close()
    rig.send("topic://T", "1", properties={"n": 1})
    rig.send("topic://T", "2", properties={"n": 2})
    rig.restart("kill")
    rig.send("topic://T", "3", properties={"n": 3})
    again = rig.reader("topic://T", 10, durable_name="s", client_id="c.1", selector="n > 1")
    assert again.bodies == ["2", "3"]
    with pytest.raises(SubscriptionInUse):
        rig.reader("topic://T", 10, durable_name="s", client_id="c.1", selector="n > 1")
    with pytest.raises(SubscriptionInUse):
        rig.broker.reading.forget_durable("c.1", "s")
    again.close()
    assert rig.broker.reading.forget_durable("c.1", "s")
    assert not rig.broker.reading.forget_durable("c.1", "s")


@pytest.mark.parametrize("change", [{"selector": "n > 2"}, {"topic": "topic://U"}, {"no_local": True}])
def test_another_selector_topic_or_no_local_makes_a_durable_subscription_anew(change):
    rig = Rig()
    rig.reader("topic://T", 10, durable_name="s", client_id="c").close()
    rig.send("topic://T", "old", properties={"n": 5})
    again = rig.reader(change.pop("topic", "topic://T"), 10, durable_name="s", client_id="c", **change)
    assert again.bodies == []
    assert len(rig.broker.table.queues) == 1


def test_no_local_of_a_durable_subscription_holds_for_targets_that_were_known():
    rig = Rig()
    rig.reader("topic://T", 10, durable_name="s", client_id="c", no_local=True, origin=3).close()
    target = rig.broker.target(parse("topic://T"))
    rig.broker.send(rig.message("a", "T", origin=9), target)
    reader = rig.reader("topic://T", 10, durable_name="s", client_id="c", no_local=True, origin=9)
    rig.broker.send(rig.message("b", "T", origin=9), target)
    rig.broker.send(rig.message("c", "T", origin=10), target)
    assert reader.bodies == ["a", "c"]


def test_names_with_line_breaks_and_tabs_survive_a_restart():
    rig = Rig()
    rig.reader("topic://T", 10, durable_name="a\nb\tc", client_id="x\ty", selector="n =\n 1").close()
    rig.restart("kill")
    rig.send("topic://T", "1", properties={"n": 1})
    again = rig.reader("topic://T", 10, durable_name="a\nb\tc", client_id="x\ty", selector="n =\n 1")
    assert again.bodies == ["1"]


def test_a_topic_subscriber_that_falls_behind_loses_the_oldest():
    rig = Rig(pending_limit="3")
    reader = rig.reader("topic://T", 2)
    rig.send_all("topic://T", range(10))
    assert reader.bodies == ["0", "1"]
    reader.ack()
    assert reader.bodies == ["0", "1", "7", "8", "9"]
    own = rig.reader("topic://T", 1, pending_limit=0)
    rig.send_all("topic://T", range(5))
    own.ack()
    assert own.bodies == ["0"]


def test_shared_durable_readers_compete():
    rig = Rig()
    readers = [rig.reader("topic://T", 10, durable_name="s", client_id="c", shared=True) for _ in range(2)]
    rig.send_all("topic://T", range(4))
    assert [reader.bodies for reader in readers] == [["0", "2"], ["1", "3"]]


# -- wildcards --------------------------------------------------------------------------------------------------------


def test_wildcards_of_topics():
    rig = Rig()
    one = rig.reader("topic://A.*", 100)
    many = rig.reader("topic://A.>", 100)
    for name in ("A", "A.B", "A.B.C", "B"):
        rig.send(f"topic://{name}", name)
    assert (one.bodies, many.bodies) == (["A.B"], ["A", "A.B", "A.B.C"])


def test_a_wildcard_of_queues_follows_queues_made_later_and_shares_its_credit():
    rig = Rig()
    rig.send("A.1", "old")
    reader = rig.reader("A.*", 2)
    rig.send("A.2", "new")
    rig.send("A.3", "third")
    assert reader.bodies == ["old", "new"]
    reader.ack(1)
    assert reader.bodies == ["old", "new", "third"]
    automatic = rig.reader("C.*", 100, auto=True)
    rig.send("C.1", "x")
    rig.send("C.1", "y")
    assert automatic.bodies == ["x", "y"]
    reader.close()
    rig.send("A.9", "nobody")
    assert rig.bodies("A.9") == ["nobody"]


def test_no_queue_of_a_wildcard_starves():
    rig = Rig()
    for name in ("A.1", "A.2"):
        rig.send_all(name, [f"{name}:{number}" for number in range(10)])
    reader = rig.reader("A.*", 1)
    for _ in range(19):
        reader.ack(1)
    first_ten = [body[:3] for body in reader.bodies[:10]]
    assert 3 <= first_ten.count("A.2") <= 7


def test_deleting_one_queue_of_a_wildcard_leaves_the_subscription():
    rig = Rig()
    rig.send("A.1", "a")
    rig.send("A.2", "b")
    reader = rig.reader("A.*", 1)
    assert reader.bodies == ["a"]
    rig.broker.queues.delete(rig.queue("A.1"), "an operator says so")
    rig.turn()
    assert reader.endings == []
    assert reader.bodies == ["a", "b"], "the credit that came free is used"


def test_a_wildcard_does_not_see_temporary_queues():
    rig = Rig()
    reader = rig.reader("queue://>", 10)
    rig.broker.queues.create(
        QueueDefinition(name="ID:x:1", address="ID:x:1", durable=False, owner=ConnectionOwner("1"))
    )
    rig.broker.send(rig.message("private"), rig.broker.target([Destination("ID:x:1", ANYCAST, True)]))
    assert reader.bodies == []


def test_a_send_to_a_wildcard_is_refused():
    rig = Rig()
    with pytest.raises(InvalidDestination, match="wildcard"):
        rig.send("A.*", "x")


# -- virtual topics, composites, diverts, mirrors ---------------------------------------------------------------------


def test_virtual_topics_recipe():
    rig = Rig()
    a = [rig.reader("queue://Consumer.A.VirtualTopic.X", 100) for _ in range(2)]
    b = rig.reader("queue://Consumer.B.VirtualTopic.X", 100)
    plain = rig.reader("topic://VirtualTopic.X", 100)
    other = rig.reader("queue://Consumer.A.VirtualTopic.Y", 100)
    rig.send_all("topic://VirtualTopic.X", range(10))
    assert sorted(a[0].bodies + a[1].bodies) == numbers(10)
    assert len(a[0].bodies) == 5
    assert (b.bodies, plain.bodies, other.bodies) == (numbers(10), numbers(10), [])
    identities = {rig.broker.ids.identity_of(reader.deliveries[0].message) for reader in (b, plain)}
    assert len(identities) == 1


def test_a_selective_virtual_topic_gives_a_queue_what_its_consumers_want_now():
    rig = Rig()
    rig.broker.table.virtual_topics = [VirtualTopic(selective=True)]
    a = rig.reader("queue://Consumer.A.VirtualTopic.X", 100, selector="JMSPriority > 5")
    b = rig.reader("queue://Consumer.B.VirtualTopic.X", 100)
    plain = rig.reader("topic://VirtualTopic.X", 100)
    rig.send("topic://VirtualTopic.X", "low", priority=1)
    rig.send("topic://VirtualTopic.X", "high", priority=9)
    assert (a.bodies, b.bodies, plain.bodies) == (["high"], ["low", "high"], ["low", "high"])
    assert rig.bodies("Consumer.A.VirtualTopic.X") == []
    b.ack()
    b.close()
    rig.send("topic://VirtualTopic.X", "nobody there")
    assert rig.bodies("Consumer.B.VirtualTopic.X") == []
    plain.close()
    a.close()
    rig.send("topic://VirtualTopic.X", "nobody anywhere")
    assert rig.bodies("Consumer.A.VirtualTopic.X") == ["high"]


def test_what_any_virtual_topic_gives_to_all_queues_stays_with_all():
    rig = Rig()
    rig.broker.table.virtual_topics = [VirtualTopic(selective=True), VirtualTopic("VirtualTopic.>", "All.*.")]
    for prefix in ("Consumer.A", "All.A"):
        rig.reader(f"queue://{prefix}.VirtualTopic.X").close()
    rig.send("topic://VirtualTopic.X", "m")
    assert (rig.bodies("Consumer.A.VirtualTopic.X"), rig.bodies("All.A.VirtualTopic.X")) == ([], ["m"])


def test_durable_subscriptions_can_be_refused():
    rig = Rig()
    rig.broker.options.refuses_durables = True
    with pytest.raises(Refused, match="rejectDurableConsumers"):
        rig.reader("topic://T", durable_name="d", client_id="c")
    assert not rig.broker.table.queues
    rig.reader("topic://T")


def test_a_composite_sends_one_copy_to_each_part_all_or_none():
    rig = Rig({"B": {"full": "FAIL", "max_octets": "1"}})
    topic = rig.reader("topic://T", 10)
    assert rig.send("A,topic://T", "one") == SENT
    assert (topic.bodies, rig.bodies("A")) == (["one"], ["one"])
    rig.send("B", "fills it")
    with pytest.raises(AddressFull):
        rig.send("A,B", "two")
    assert rig.bodies("A") == []


def test_a_composite_queue_forwards_only_or_also_with_filters():
    rig = Rig()
    red = selector_or_none("colour = 'red'")
    rig.broker.table.add_divert(composite("C", False, [(parse_one("A"), None), (parse_one("topic://T"), red)]))
    topic = rig.reader("topic://T", 10)
    rig.send("queue://C", "r", properties={"colour": "red"})
    rig.send("queue://C", "b", properties={"colour": "blue"})
    assert (rig.bodies("A"), topic.bodies, rig.bodies("C")) == (["r", "b"], ["r"], [])
    rig.broker.table.add_divert(composite("C", False, [(parse_one("A"), red)], forward_only=False))
    rig.send("queue://C", "r", properties={"colour": "red"})
    assert (rig.bodies("A"), rig.bodies("C")) == (["r"], ["r"])
    rig.broker.table.add_divert(composite("C", False, [(parse_one("A"), red)], send_when_not_matched=True))
    rig.send("queue://C", "r", properties={"colour": "red"})
    rig.send("queue://C", "b", properties={"colour": "blue"})
    assert (rig.bodies("A"), rig.bodies("C")) == (["r"], ["b"])
    assert rig.broker.table.remove_divert("queue://C")
    assert not rig.broker.table.remove_divert("queue://C")
    rig.send("queue://C", "plain")
    assert (rig.bodies("A"), rig.bodies("C")) == ([], ["plain"])


def test_a_composite_topic_and_queue_of_one_name_are_two():
    rig = Rig()
    rig.broker.table.add_divert(composite("C", True, [(parse_one("A"), None)]))
    rig.send("queue://C", "to the queue")
    rig.send("topic://C", "to the topic")
    assert (rig.bodies("A"), rig.bodies("queue://C")) == (["to the topic"], ["to the queue"])


def test_diverts_of_artemis_copy_or_take_over_and_say_where_from():
    rig = Rig()
    rig.broker.table.add_divert(divert("d", "Q", [parse_one("Copy")], condition=selector_or_none("n = 1")))
    rig.send("Q", "1", properties={"n": 1})
    rig.send("Q", "2", properties={"n": 2})
    original = rig.drain("Q")
    copy = rig.drain("Copy")
    assert ([d.body for d in original], [d.body for d in copy]) == (["1", "2"], ["1"])
    assert copy[0].annotations["_AMQ_ORIG_ADDRESS"] == "Q"
    assert rig.broker.ids.identity_of(copy[0].message) != rig.broker.ids.identity_of(original[0].message)
    rig.broker.table.add_divert(
        divert("d", "Q", [parse_one("Copy")], exclusive=True, condition=selector_or_none("n = 1"))
    )
    rig.send("Q", "1", properties={"n": 1})
    rig.send("Q", "2", properties={"n": 2})
    assert (rig.bodies("Copy"), rig.bodies("Q")) == (["1"], ["2"])
    rig.restart("kill")


def test_a_circle_of_diverts_ends():
    rig = Rig()
    rig.broker.table.add_divert(divert("ab", "A", [parse_one("B")]))
    rig.broker.table.add_divert(divert("ba", "B", [parse_one("A")]))
    rig.send("A", "x")
    assert len(rig.bodies("B")) == 1
    assert len(rig.bodies("A")) == 2


def test_mirrored_queues():
    rig = Rig()
    rig.broker.table.mirror("VirtualTopic.Mirror.")
    rig.send("Q", "before")
    mirror = rig.reader("topic://VirtualTopic.Mirror.Q", 10)
    rig.send("Q", "after")
    assert mirror.bodies == ["after"]
    assert rig.bodies("Q") == ["before", "after"]


# -- the address model ------------------------------------------------------------------------------------------------


def test_anycast_queues_of_one_address_take_turns_and_multicast_ones_all_get_it():
    rig = Rig()
    for name in ("q1", "q2", "q3"):
        rig.broker.queues.create(QueueDefinition(name=name, address="A"))
    rig.broker.queues.create(QueueDefinition(name="m", address="A", routing=MULTICAST))
    rig.send_all("queue://A", range(6))
    assert [rig.bodies(f"A::{name}") for name in ("q1", "q2", "q3")] == [["0", "3"], ["1", "4"], ["2", "5"]]
    assert rig.bodies("A::m") == []
    rig.send("topic://A", "t")
    assert (rig.bodies("A::m"), rig.bodies("A::q1")) == (["t"], [])
    rig.send("A", "both")
    assert rig.bodies("A::m") == ["both"]
    assert sum(len(rig.bodies(f"A::{name}")) for name in ("q1", "q2", "q3")) == 1


def test_transactions_do_not_skip_a_turn_of_the_rotation():
    from entrepot.core.transactions.transaction import Transaction

    rig = Rig()
    for name in ("q1", "q2"):
        rig.broker.queues.create(QueueDefinition(name=name, address="A"))
    target = rig.broker.target(parse("queue://A"))
    for number in range(4):
        transaction = Transaction("t")
        transaction.send(rig.message(str(number), "A"), target)
        rig.commit(transaction)
    assert (rig.bodies("A::q1"), rig.bodies("A::q2")) == (["0", "2"], ["1", "3"])


def test_fqqn_reaches_one_queue_through_its_filter_and_is_made_when_it_may_be():
    rig = Rig()
    rig.broker.queues.create(QueueDefinition(name="q1", address="A", selector="n = 1"))
    rig.send("A::q1", "no", properties={"n": 2})
    rig.send("A::q1", "yes", properties={"n": 1})
    assert rig.bodies("A::q1") == ["yes"]
    rig.send("A::fresh", "x")
    assert rig.queue("fresh").address == "A"
    selective = rig.reader("topic://A::s", 10, selector="n = 7")
    rig.send("topic://A", "6", properties={"n": 6})
    rig.send("topic://A", "7", properties={"n": 7})
    assert selective.bodies == ["7"], "a selector on a queue that was named directly is the consumer's"


def test_policy_may_forbid_to_create():
    rig = Rig({"closed.#": {"auto_create": "false"}})
    for verb in (lambda: rig.send("closed.Q"), lambda: rig.reader("closed.Q"), lambda: rig.send("closed.A::q")):
        with pytest.raises(InvalidDestination):
            verb()
    assert list(rig.broker.table.queues) == []


def test_unused_queues_are_deleted_after_their_delay_also_after_a_restart():
    rig = Rig(auto_delete="true", auto_delete_delay="5000")
    rig.send("Q", "a")
    rig.wait(20_000)
    assert rig.bodies("Q") == ["a"]
    rig.wait(3_000)
    assert "Q" in rig.broker.table.queues
    rig.reader("Q").close()
    rig.wait(4_000)
    assert "Q" in rig.broker.table.queues, "somebody looked in"
    rig.wait(3_000)
    assert "Q" not in rig.broker.table.queues
    rig.send("R", "b")
    rig.bodies("R")
    rig.restart("kill")
    rig.wait(8_000)
    assert list(rig.broker.table.queues) == []
    rig.broker.queues.create(QueueDefinition(name="made", address="made"))
    rig.send("made", "x")
    rig.bodies("made")
    rig.wait(20_000)
    assert "made" in rig.broker.table.queues, "only what made itself goes by itself"


def test_a_target_outlives_its_queue_but_not_a_temporary_one():
    rig = Rig()
    target = rig.broker.target(parse("Q"))
    rig.broker.queues.delete(rig.queue("Q"), "why not")
    rig.broker.send(rig.message("a", "Q"), target)
    assert rig.bodies("Q") == ["a"]
    queue = rig.broker.queues.create(
        QueueDefinition(name="ID:t", address="ID:t", durable=False, owner=ConnectionOwner("1"))
    )
    temporary = rig.broker.target([Destination("ID:t", ANYCAST, True)])
    rig.broker.queues.delete(queue, "its connection is gone")
    with pytest.raises(InvalidDestination):
        rig.broker.send(rig.message("a", "ID:t"), temporary)


def test_temporary_names_differ_between_runs():
    rig = Rig()
    first = rig.broker.ids.temporary_name(1, "x")
    rig.restart("kill")
    assert rig.broker.ids.temporary_name(1, "x") != first


def test_a_subscription_that_is_refused_leaves_nothing_behind():
    rig = Rig({"closed": {"auto_create": "false"}})
    with pytest.raises(InvalidDestination):
        rig.reader("topic://T,queue://closed")
    assert list(rig.broker.table.queues) == []


def test_deleting_a_queue_tells_its_readers_and_keeps_nothing():
    rig = Rig(max_deliveries="1")
    rig.send_all("Q", range(10))
    readers = [rig.reader("Q", 2) for _ in range(3)]
    assert rig.broker.queues.delete(rig.queue("Q"), "no longer needed") == 10
    rig.turn()
    assert [reader.endings for reader in readers] == [["no longer needed"]] * 3
    assert [len(reader.deliveries) for reader in readers] == [2, 2, 2], "nobody is given more of a dying queue"
    assert list(rig.broker.table.queues) == []
    assert rig.journal.usage().messages == 0
    assert rig.broker.memory.used == 0
    rig.restart("kill")
    assert list(rig.broker.table.queues) == []


# -- limits -----------------------------------------------------------------------------------------------------------


class Waiter(SpaceWaiter):
    def __init__(self) -> None:
        self.called = 0

    def space(self) -> None:
        self.called += 1


FULL = {"max_octets": "2000"}


def fill(rig: Rig, name: str) -> list[int]:
    return [rig.send(name, str(number)) for number in range(10)]


def test_a_full_queue_fails_drops_blocks_or_pages():
    rig = Rig({"fail": {**FULL, "full": "FAIL"}, "drop": {**FULL, "full": "DROP"}, "page": FULL})
    with pytest.raises(AddressFull):
        fill(rig, "fail")
    kept = rig.queue("fail").count
    assert 0 < kept < 10
    verdicts = fill(rig, "drop")
    assert verdicts.count(DROPPED) == 10 - kept
    assert rig.queue("drop").fates.dropped == 10 - kept
    assert rig.bodies("drop") == numbers(kept)
    assert set(fill(rig, "page")) == {SENT}
    assert rig.queue("page").backlog.loaded == kept
    assert rig.bodies("page") == numbers(10)


def test_a_blocked_producer_goes_on_at_half_and_another_queue_does_not_hold_it():
    rig = Rig({"B.#": {**FULL, "full": "BLOCK"}, "F": {**FULL, "full": "FAIL"}})
    with pytest.raises(AddressFull):
        fill(rig, "F")
    waiters = {}
    for name in ("B.1", "B.2"):
        assert fill(rig, name)[-1] == BLOCKED
        waiters[name] = Waiter()
        rig.broker.flow.wait(len(waiters), waiters[name])
    rig.turn()
    assert [waiter.called for waiter in waiters.values()] == [0, 0]
    assert rig.bodies("B.1") == numbers(10)
    rig.turn()
    assert [waiter.called for waiter in waiters.values()] == [1, 0]
    rig.broker.queues.delete(rig.queue("B.2"), "go")
    rig.turn()
    assert [waiter.called for waiter in waiters.values()] == [1, 1]


def test_the_limit_of_the_broker_counts_for_every_queue():
    rig = Rig({"#": {"full": "BLOCK"}}, memory_limit=3000)
    rig.send_all("A", range(7))
    assert rig.broker.memory.used >= 3000
    assert rig.send("B", "x") == BLOCKED
    waiter = Waiter()
    rig.broker.flow.wait(1, waiter)
    rig.bodies("B")
    rig.turn()
    assert waiter.called == 0
    rig.bodies("A")
    rig.turn()
    assert waiter.called == 1


def test_an_ephemeral_broker_blocks_where_another_pages():
    rig = Rig({"#": FULL}, disk=False)
    assert fill(rig, "Q")[-1] == BLOCKED
    waiter = Waiter()
    rig.broker.flow.wait(1, waiter)
    rig.turn()
    assert waiter.called == 0
    rig.bodies("Q")
    rig.turn()
    assert waiter.called == 1


def test_a_waiter_that_left_is_forgotten():
    rig = Rig({"#": {**FULL, "full": "BLOCK"}})
    fill(rig, "Q")
    waiter = Waiter()
    rig.broker.flow.wait(1, waiter)
    rig.broker.flow.stop_waiting(1)
    rig.bodies("Q")
    rig.turn()
    assert waiter.called == 0


def test_a_full_disk_blocks_what_it_would_page():
    rig = Rig({"#": FULL})
    disk = rig.disk
    assert disk is not None
    disk.room.make(disk.used() + 3000)
    for _ in range(100):
        if rig.journal.refusal() is not None:
            break
        rig.send("Filler", "f" * 200)
    verdicts = [rig.send("Q", str(number), durable=False) for number in range(10)]
    assert verdicts[0] == SENT
    assert verdicts[-1] == BLOCKED
    disk.room.make()
    rig.turn()
    assert rig.bodies("Q") == numbers(10)


# -- duplicates -------------------------------------------------------------------------------------------------------


def test_a_duplicate_id_is_accepted_once_per_address_also_after_a_restart():
    rig = Rig()
    assert rig.send("Q", "a", duplicate=b"1") == SENT
    assert rig.send("Q", "a", duplicate=b"1") == DUPLICATE
    assert rig.send("R", "a", duplicate=b"1") == SENT
    rig.restart("kill")
    assert rig.send("Q", "a", duplicate=b"1") == DUPLICATE
    assert rig.bodies("Q") == ["a"]
    assert rig.broker.sending.duplicates.clear("Q") == 1
    assert rig.send("Q", "a", duplicate=b"1") == SENT


def test_the_cache_forgets_the_oldest_and_zero_remembers_nothing():
    rig = Rig({"off": {"id_cache": "0"}, "Q": {"id_cache": "2"}})
    for identity in (b"1", b"2", b"3"):
        rig.send("Q", "x", duplicate=identity)
    assert rig.send("Q", "x", duplicate=b"1") == SENT
    assert rig.send("Q", "x", duplicate=b"3") == DUPLICATE
    assert rig.send("off", "x", duplicate=b"1") == SENT
    assert rig.send("off", "x", duplicate=b"1") == SENT


def test_a_refused_message_does_not_use_up_its_id():
    rig = Rig({"Q": {**FULL, "full": "FAIL"}})
    with pytest.raises(AddressFull):
        fill(rig, "Q")
    with pytest.raises(AddressFull):
        rig.send("Q", "x", duplicate=b"1")
    rig.bodies("Q")
    assert rig.send("Q", "x", duplicate=b"1") == SENT


def test_a_scheduled_message_is_checked_for_its_duplicate_id():
    rig = Rig()
    for _ in range(2):
        rig.send("Q", "x", duplicate=b"1", annotations={"AMQ_SCHEDULED_DELAY": 100})
    rig.wait(1000)
    assert rig.bodies("Q") == ["x"]


def test_a_non_persistent_id_is_remembered_until_the_broker_stops():
    rig = Rig()
    rig.send("Q", "x", duplicate=b"1", durable=False)
    assert rig.send("Q", "x", duplicate=b"1", durable=False) == DUPLICATE
    rig.restart("kill")
    assert rig.send("Q", "x", duplicate=b"1", durable=False) == SENT


# -- restart ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["close", "kill"])
def test_durable_messages_survive_in_order_with_their_counts_and_others_do_not(how):
    rig = Rig()
    for number in range(5):
        rig.send("Q", str(number), priority=number, durable=number != 2)
    reader = rig.reader("Q", 1)
    assert reader.bodies == ["4"]
    reader.give_back()
    rig.restart(how)
    found = rig.drain("Q")
    assert [d.body for d in found] == ["4", "3", "1", "0"]
    assert found[0].deliveries == (2 if how == "close" else 1)


def test_numbers_are_never_given_twice():
    rig = Rig()
    rig.send("Q", "a")
    first = rig.drain("Q")[0].number
    rig.restart("crash")
    rig.send("Q", "b")
    assert rig.drain("Q")[0].number > first


def test_refusals_are_of_the_callers_making():
    assert issubclass(AddressFull, Refused)


@pytest.mark.parametrize("marks", [False, True])
def test_what_was_out_when_the_broker_died_comes_as_redelivered_where_that_is_asked_for(marks: bool) -> None:
    rig = Rig(mark_delivered=str(marks).lower())
    rig.send_all("queue://q", ["out", "waiting"], durable=True)
    reader = rig.reader("queue://q", prefetch=1)
    assert [(one.body, one.deliveries) for one in reader.deliveries] == [("out", 0)]
    rig.restart("kill")
    assert [(one.body, one.deliveries) for one in rig.drain("queue://q")] == [("out", int(marks)), ("waiting", 0)]
    rig.restart("kill")
    assert rig.bodies("queue://q") == []


def test_a_broker_that_has_ceased_hands_nothing_on_and_takes_what_is_sent_and_settled() -> None:
    rig = Rig()
    first, second = rig.reader("Q", 10), rig.reader("Q", 10)
    rig.send_all("Q", range(4))
    rig.broker.cease()
    first.close()
    rig.send_all("Q", range(4, 6))
    rig.reader("Q", 10)
    late = rig.reader("later", 10)
    rig.send("later", "x")
    rig.wait(5_000)
    second.ack(1)
    assert second.bodies == ["1", "3"]
    assert late.bodies == []
    assert rig.queue("Q").count == 5
    rig.restart()
    assert rig.bodies("Q") == ["0", "2", "3", "4", "5"]


def test_a_queue_that_waits_for_its_consumers_is_not_released_when_the_broker_stops() -> None:
    rig = Rig(consumers_before_dispatch="1")
    rig.send("Q", "x")
    rig.broker.cease()
    reader = rig.reader("Q", 10)
    rig.wait(5_000)
    assert reader.bodies == []
