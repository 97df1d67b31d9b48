"""Who gets the next message (classic.md 4.3, 4.4; artemis.md 4.5, 4.6)."""

from __future__ import annotations

import pytest

from entrepot.core.queue.consumer import REDISTRIBUTOR
from kit import SECOND, Rig


def numbers(count: int, start: int = 0) -> list[str]:
    return [str(number) for number in range(start, start + count)]


def test_three_consumers_with_prefetch_one_get_ten_each_in_turn():
    rig = Rig()
    readers = [rig.reader("Q", 1) for _ in range(3)]
    rig.send_all("Q", range(30))
    for _ in range(10):
        for reader in readers:
            reader.ack(1)
    assert [reader.bodies for reader in readers] == [[str(n) for n in range(first, 30, 3)] for first in range(3)]


def test_a_backlog_is_shared_in_turn_too():
    rig = Rig()
    rig.send_all("Q", range(30))
    readers = [rig.reader("Q", 1) for _ in range(3)]
    for _ in range(10):
        for reader in readers:
            reader.ack(1)
    assert sorted(len(reader.bodies) for reader in readers) == [10, 10, 10]
    assert sorted((body for reader in readers for body in reader.bodies), key=int) == numbers(30)


def test_strict_order_gives_the_first_consumer_everything_until_it_is_full():
    rig = Rig(strict_order="true")
    readers = [rig.reader("Q", 1000) for _ in range(3)]
    rig.send_all("Q", range(30))
    assert [len(reader.bodies) for reader in readers] == [30, 0, 0]


def test_strict_order_with_selectors_and_a_backlog():
    rig = Rig(strict_order="true")
    rig.send_all("Q", range(30))
    rig.broker.table.queues["Q"].gate.pause()
    readers = [rig.reader("Q", 20, selector="TRUE") for _ in range(2)]
    rig.queue("Q").dispatcher.resume()
    assert [len(reader.bodies) for reader in readers] == [20, 10]


@pytest.mark.parametrize("backlog", [False, True])
@pytest.mark.parametrize("selector", ["", "1 = 1"])
def test_the_higher_priority_gets_all_until_it_is_full(backlog, selector):
    rig = Rig()
    queue = rig.broker.queues.need(__import__("entrepot.model.address", fromlist=["parse_one"]).parse_one("Q"))
    if backlog:
        queue.gate.pause()
        rig.send_all("Q", range(30))
    low = rig.reader("Q", 100, selector=selector)
    high = rig.reader("Q", 25, priority=10, selector=selector)
    if backlog:
        queue.dispatcher.resume()
    else:
        rig.send_all("Q", range(30))
    assert (len(high.bodies), len(low.bodies)) == (25, 5)
    assert high.bodies == numbers(25)


def test_an_exclusive_consumer_gets_everything_and_its_heir_gets_the_redelivered_ones_first():
    rig = Rig()
    first = rig.reader("Q", 10, exclusive=True)
    second = rig.reader("Q", 100, exclusive=True)
    plain = rig.reader("Q", 100)
    rig.send_all("Q", range(30))
    assert (len(first.bodies), second.bodies, plain.bodies) == (10, [], [])
    first.ack(3)
    first.close()
    assert second.bodies == numbers(27, 3)
    assert [delivery.deliveries for delivery in second.deliveries[:11]] == [1] * 10 + [0]
    assert plain.bodies == []
    second.close()
    assert plain.bodies == numbers(27, 3)


def test_an_exclusive_consumer_of_higher_priority_takes_over_and_one_of_equal_does_not():
    rig = Rig()
    first = rig.reader("Q", 100, exclusive=True, priority=1)
    equal = rig.reader("Q", 100, exclusive=True, priority=1)
    rig.send("Q", "a")
    higher = rig.reader("Q", 100, exclusive=True, priority=2)
    rig.send("Q", "b")
    assert (first.bodies, equal.bodies, higher.bodies) == (["a"], [], ["b"])


def test_a_newcomer_of_priority_127_always_takes_over():
    rig = Rig()
    first = rig.reader("Q", 100, exclusive=True, priority=127)
    second = rig.reader("Q", 100, exclusive=True, priority=127)
    rig.send("Q", "a")
    assert (first.bodies, second.bodies) == ([], ["a"])


def test_policy_makes_every_consumer_exclusive():
    rig = Rig(exclusive="true")
    first = rig.reader("Q", 1)
    second = rig.reader("Q", 100)
    rig.send_all("Q", range(3))
    assert (first.bodies, second.bodies) == (["0"], [])


# -- groups -----------------------------------------------------------------------------------------------------------


def test_four_groups_of_25_stay_whole_and_in_order():
    rig = Rig()
    readers = [rig.reader("Q", 1000) for _ in range(2)]
    for number in range(100):
        rig.send("Q", f"{number % 4}:{number}", group=f"g{number % 4}")
    for group in range(4):
        at = [[body for body in reader.bodies if body.startswith(f"{group}:")] for reader in readers]
        assert sorted(len(bodies) for bodies in at) == [0, 25]
        whole = at[0] + at[1]
        assert whole == sorted(whole, key=lambda body: int(body.split(":")[1]))
    assert [len({body[0] for body in reader.bodies}) for reader in readers] == [2, 2]
    gone, other = readers
    other.take()
    gone.close()
    assert len(other.bodies) == 50
    firsts = [delivery for delivery in other.deliveries if delivery.annotations.get("JMSXGroupFirstForConsumer")]
    assert len(firsts) == 2, "each group that moved is announced once"


def test_the_first_of_a_group_is_marked_for_that_delivery_only():
    rig = Rig()
    rig.send_all("Q", ["a", "b"], group="g")
    reader = rig.reader("Q", 10)
    assert [delivery.annotations for delivery in reader.deliveries] == [{"JMSXGroupFirstForConsumer": "true"}, {}]
    reader.give_back(attempted=False)
    assert reader.deliveries[-1].body == "a"
    assert reader.deliveries[-1].annotations == {}, "this consumer owned the group already"


def test_sequence_minus_one_closes_the_group_after_its_message():
    rig = Rig()
    first = rig.reader("Q", 1)
    second = rig.reader("Q", 1)
    rig.send("Q", "a", group="g")
    assert first.bodies == ["a"]
    rig.send("Q", "b", group="g", seq=-1)
    rig.send("Q", "c", group="g")
    assert second.bodies == [], "the owner is full: its messages wait"
    first.ack(1)
    assert first.bodies == ["a", "b"]
    assert second.bodies == ["c"], "after the close anybody may have it"


def test_sequence_one_takes_an_owned_group_along():
    rig = Rig()
    first = rig.reader("Q", 1)
    second = rig.reader("Q", 5)
    rig.send("Q", "a", group="g")
    rig.send("Q", "b", group="g")
    assert second.bodies == []
    rig.send("Q", "c", group="g", seq=1)
    assert second.bodies == ["c", "b"], "what waited for the old owner follows"
    assert second.deliveries[0].annotations == {"JMSXGroupFirstForConsumer": "true"}
    first.ack()
    assert first.bodies == ["a"]


def test_a_new_group_goes_to_the_consumer_with_the_fewest():
    rig = Rig()
    first = rig.reader("Q", 100)
    for group in "abc":
        rig.send("Q", group, group=group)
    second = rig.reader("Q", 100)
    for group in "def":
        rig.send("Q", group, group=group)
    assert (first.bodies, second.bodies) == (["a", "b", "c"], ["d", "e", "f"])


def test_a_group_waits_for_its_full_owner_and_others_pass():
    rig = Rig()
    first = rig.reader("Q", 1)
    rig.send("Q", "a1", group="a")
    second = rig.reader("Q", 10)
    rig.send("Q", "a2", group="a")
    rig.send("Q", "b1", group="b")
    rig.send("Q", "plain")
    assert (first.bodies, second.bodies) == (["a1"], ["b1", "plain"])
    first.ack(1)
    assert first.bodies == ["a1", "a2"]


def test_buckets_own_groups_together():
    rig = Rig(group_buckets="1")
    first = rig.reader("Q", 100)
    second = rig.reader("Q", 100)
    for group in "abcdef":
        rig.send("Q", group, group=group)
    assert (first.bodies, second.bodies) == (list("abcdef"), [])


def test_a_new_consumer_rebalances_when_the_policy_says_so():
    for rebalance, expected in (("false", ["a", "a"]), ("true", ["a"])):
        rig = Rig(group_rebalance=rebalance)
        first = rig.reader("Q", 100)
        rig.send("Q", "a", group="a")
        rig.reader("Q", 100, priority=5)
        rig.send("Q", "a", group="a")
        assert first.bodies == expected


def test_an_operator_closes_a_group():
    rig = Rig()
    first = rig.reader("Q", 1)
    rig.send("Q", "a", group="g")
    second = rig.reader("Q", 10)
    rig.send("Q", "b", group="g")
    rig.queue("Q").dispatcher.close_group("g")
    rig.turn()
    assert (first.bodies, second.bodies) == (["a"], ["b"])


def test_groups_stick_with_selectors():
    rig = Rig()
    red = rig.reader("Q", 100, selector="colour = 'red'")
    blue = rig.reader("Q", 100, selector="colour = 'blue'")
    rig.send("Q", "1", group="g", properties={"colour": "red"})
    rig.send("Q", "2", group="h", properties={"colour": "blue"})
    rig.send("Q", "3", group="g", properties={"colour": "red"})
    assert (red.bodies, blue.bodies) == (["1", "3"], ["2"])


# -- message priority and selectors -----------------------------------------------------------------------------------


def test_priority_orders_what_waits():
    rig = Rig()
    for number, priority in enumerate([4, 0, 9, 4, 9, 1, 5]):
        rig.send("Q", f"{priority}:{number}", priority=priority)
    assert rig.bodies("Q") == ["9:2", "9:4", "5:6", "4:0", "4:3", "1:5", "0:1"]


def test_without_priorities_the_order_is_that_of_arrival():
    rig = Rig(prioritized="false")
    for number, priority in enumerate([4, 0, 9, 4]):
        rig.send("Q", str(number), priority=priority)
    assert rig.bodies("Q") == numbers(4)


def test_selective_consumers_are_not_blocked_by_what_they_do_not_want():
    rig = Rig()
    for number in range(1000):
        rig.send_all("Q", [str(number)], properties={"n": number})
    wanted = rig.reader("Q", 10, selector="n >= 995")
    assert wanted.bodies == numbers(5, 995)
    rest = rig.reader("Q", 2000)
    assert rest.bodies == numbers(995)


def test_a_selective_consumer_whose_socket_was_full_gets_what_came_meanwhile():
    rig = Rig()
    reader = rig.reader("Q", 10, selector="TRUE")
    reader.window.pauses = 1
    rig.send_all("Q", range(3))
    assert reader.bodies == []
    reader.window.pauses = 0
    reader.window.reopen()
    rig.turn()
    assert reader.bodies == numbers(3)


def test_consumers_are_held_until_enough_are_there():
    rig = Rig(consumers_before_dispatch="2", delay_before_dispatch="-1")
    first = rig.reader("Q", 1)
    rig.send_all("Q", range(4))
    rig.wait(5_000)
    assert first.bodies == []
    second = rig.reader("Q", 1)
    assert sorted(first.bodies + second.bodies) == ["0", "1"]
    first.close()
    third = rig.reader("Q", 2)
    assert len(third.bodies) == 2, "armed again only when nobody is left"
    second.close()
    third.close()
    fourth = rig.reader("Q", 2)
    assert fourth.bodies == []


def test_a_hold_ends_at_its_time():
    rig = Rig(consumers_before_dispatch="5", delay_before_dispatch="300")
    reader = rig.reader("Q", 1)
    rig.send("Q", "a")
    rig.wait(299)
    assert reader.bodies == []
    rig.wait(1)
    assert reader.bodies == ["a"]


def test_classic_waits_a_second_for_consumers_when_no_time_is_given():
    rig = Rig(consumers_before_dispatch="5", delay_before_dispatch="0")
    reader = rig.reader("Q", 1)
    rig.send("Q", "a")
    rig.wait(999)
    assert reader.bodies == []
    rig.wait(1)
    assert reader.bodies == ["a"]


def test_a_queue_admits_no_more_consumers_than_its_policy():
    rig = Rig(max_consumers="1")
    rig.reader("Q")
    from entrepot.base.errors import SubscriptionInUse

    with pytest.raises(SubscriptionInUse):
        rig.reader("Q")


# -- requeue ----------------------------------------------------------------------------------------------------------


def test_unsettled_messages_go_back_in_order_marked_and_to_another():
    rig = Rig()
    first = rig.reader("Q", 5)
    rig.send_all("Q", range(8))
    first.ack(1)
    second = rig.reader("Q", 100)
    assert second.bodies == numbers(2, 6)
    first.close()
    assert second.bodies[2:] == numbers(5, 1)
    assert [delivery.deliveries for delivery in second.deliveries[2:]] == [1] * 5


def test_only_what_was_delivered_counts_when_the_client_says_so():
    rig = Rig()
    first = rig.reader("Q", 4)
    rig.send_all("Q", range(4))
    last = first.deliveries[1].number
    rig.broker.unsubscribe(first, last)
    rig.turn()
    second = rig.reader("Q", 10)
    assert [delivery.deliveries for delivery in second.deliveries] == [1, 1, 0, 0]


def test_the_head_of_the_queue_is_where_returned_messages_go():
    rig = Rig()
    first = rig.reader("Q", 3)
    rig.send_all("Q", range(10))
    first.close()
    assert rig.bodies("Q") == numbers(10)


def test_a_window_in_octets_closes():
    rig = Rig()
    reader = rig.reader("Q", 1000, octets=1)
    rig.send_all("Q", range(3))
    assert reader.bodies == ["0"]
    reader.ack(1)
    assert reader.bodies == ["0", "1"]


def test_slow_consumers_are_told_and_an_idle_one_is_not_slow():
    rig = Rig(slow_after="30000", slow="NOTIFY")
    idle = rig.reader("Q", 10)
    rig.wait(60_000)
    rig.send("Q", "a")
    rig.wait(10_000)
    assert rig.notices.of("consumer.slow") == [], "it has had the message for ten seconds only"
    rig.wait(25_000)
    assert len(rig.notices.of("consumer.slow")) == 1, "and it is said once"
    assert len(idle.open) == 1


def test_a_slow_consumer_is_ended_and_its_messages_go_to_others():
    rig = Rig(slow_after="1000", slow="KILL")
    slow = rig.reader("Q", 1)
    rig.send("Q", "a")
    rig.wait(3_000)
    assert len(slow.endings) == 1
    assert rig.bodies("Q") == ["a"]
    assert SECOND == 1000 * 1_000_000


def test_what_the_broker_reads_for_itself_is_no_reader() -> None:
    rig = Rig(max_consumers="1")
    own = rig.reader("Q", kind=REDISTRIBUTOR)
    queue = rig.queue("Q")
    assert (queue.roster.is_read(), queue.roster.readers(), len(queue.roster.consumers)) == (False, 0, 1)
    rig.reader("Q")
    assert (queue.roster.is_read(), queue.roster.readers(), len(queue.roster.consumers)) == (True, 1, 2)
    own.close()
    assert (queue.roster.readers(), queue.roster.own) == (1, 0)
