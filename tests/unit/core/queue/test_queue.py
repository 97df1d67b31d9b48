"""What a queue does with one message: expiry, redelivery, dead letters, paging, browsing (classic.md 4.5, 4.6)."""

from __future__ import annotations

import pytest

from entrepot.core.queue.browser import Browser
from entrepot.model.address import parse_one
from kit import PLAIN, SECOND, START, Rig, body_of

TINY = {"max_octets": "2000"}  # about four messages of the kit: what comes behind them is paged


def numbers(count: int, start: int = 0) -> list[str]:
    return [str(number) for number in range(start, start + count)]


# -- expiry -----------------------------------------------------------------------------------------------------------


def test_an_expired_message_is_not_delivered_and_lies_with_the_dead_letters():
    rig = Rig()
    rig.send("Q", "short", ttl=1000)
    rig.send("Q", "long", ttl=100_000)
    rig.broker.tick(rig.now + 2 * SECOND, rig.wall + 2000)
    assert rig.bodies("Q") == ["long"]
    letter = rig.drain("ActiveMQ.DLQ")[0]
    assert letter.body == "short"
    assert letter.annotations["originalExpiration"] == str(START + 1000)
    assert letter.annotations["_AMQ_ORIG_QUEUE"] == "Q"
    assert letter.message.expiration == 0
    assert rig.broker.memory.used == 0


def test_the_sweep_finds_expired_messages_that_nobody_reads():
    rig = Rig(TINY and {"#": TINY})
    rig.send_all("Q", range(50), ttl=1000)
    rig.wait(31_000)
    assert rig.queue("Q").count == 0
    assert rig.bodies("ActiveMQ.DLQ") == numbers(50)


def test_non_persistent_messages_expire_into_nothing_unless_policy_keeps_them():
    rig = Rig()
    rig.send("Q", "gone", ttl=1000, durable=False)
    rig.wait(3000)
    assert rig.queue("Q").count == 0
    assert "ActiveMQ.DLQ" not in rig.broker.table.queues
    kept = Rig(dead_letter_non_persistent="true")
    kept.send("Q", "kept", ttl=1000, durable=False)
    kept.wait(3000)
    letter = kept.drain("ActiveMQ.DLQ")[0]
    assert letter.message.durable
    assert letter.annotations["originalDeliveryMode"] == "NON_PERSISTENT"


def test_an_expiry_address_gets_them_instead():
    rig = Rig(expiry_address="Expired")
    rig.send("Q", "a", ttl=1000)
    rig.wait(3000)
    assert rig.bodies("Expired") == ["a"]


def test_policy_gives_and_bounds_expirations():
    for settings, ttl, expected in [
        ({"expiry_ms": "500"}, None, 500),
        ({"expiry_ms": "500"}, 100, 100),
        ({"expiry_ms_min": "500"}, 100, 500),
        ({"expiry_ms_min": "500"}, None, 500),
        ({"expiry_ms_max": "500"}, 1000, 500),
        ({"expiry_ms_max": "500"}, None, 500),
    ]:
        rig = Rig(**settings)
        rig.send("Q", "a", **({} if ttl is None else {"ttl": ttl}))
        assert rig.drain("Q")[0].message.expiration == START + expected, settings


def test_an_expired_message_is_not_browsed_nor_found_by_a_selector_on_disk():
    rig = Rig({"#": TINY})
    rig.send_all("Q", range(20), ttl=1000, properties={"n": 1})
    rig.send_all("Q", ["fresh"], properties={"n": 1})
    rig.send_all("Q", range(600), properties={"n": 0})
    rig.broker.tick(rig.now + 2 * SECOND, rig.wall + 2000)
    browser = rig.broker.browse(parse_one("Q"), None)
    assert [body_of(message) for message in browser.next(5)] == ["fresh", "0", "1", "2", "3"]
    reader = rig.reader("Q", 10, selector="n = 1")
    assert reader.bodies == ["fresh"]


# -- redelivery and dead letters --------------------------------------------------------------------------------------


def test_a_message_that_fails_too_often_is_a_dead_letter_with_its_history():
    rig = Rig(max_deliveries="3")
    rig.send("Q", "poison")
    reader = rig.reader("Q", 1)
    for _ in range(3):
        reader.give_back()
    assert [delivery.deliveries for delivery in reader.deliveries] == [0, 1, 2]
    letter = rig.drain("ActiveMQ.DLQ")[0]
    assert letter.annotations["dlqDeliveryFailureCause"] == "delivered 3 times without acknowledgement"
    assert letter.annotations["deliveryCount"] == "3"
    assert letter.annotations["_AMQ_ORIG_ADDRESS"] == letter.annotations["_AMQ_ORIG_QUEUE"] == "Q"
    assert letter.annotations["_AMQ_ORIG_ROUTING_TYPE"] == "1"
    assert rig.broker.ids.identity_of(letter.message) == letter.annotations["_AMQ_ORIG_MESSAGE_ID"]
    assert rig.notices.of("message.dead-lettered")[0][1]["to"] == "ActiveMQ.DLQ"


def test_minus_one_tries_for_ever():
    rig = Rig(max_deliveries="-1", redelivery_delay="1", redelivery_multiplier="5", redelivery_delay_max="10")
    rig.send("Q", "a")
    reader = rig.reader("Q", 1)
    for _ in range(500):  # 5 to the power of 450 is no float
        reader.give_back()
        rig.wait(10)
    assert len(reader.deliveries) == 501


def test_rejection_is_a_dead_letter_at_once():
    rig = Rig()
    rig.send_all("Q", ["a", "b"])
    reader = rig.reader("Q", 1)
    reader.reject("the customer does not exist")
    assert reader.bodies == ["a", "b"]
    letter = rig.drain("ActiveMQ.DLQ")[0]
    assert letter.annotations["dlqDeliveryFailureCause"] == "the customer does not exist"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"redelivery_delay": "100"}, [100, 100, 100]),
        ({"redelivery_delay": "100", "redelivery_multiplier": "2"}, [100, 200, 400]),
        ({"redelivery_delay": "100", "redelivery_multiplier": "5"}, [100, 500, 1000, 1000]),
        (
            {"redelivery_delay": "100", "redelivery_multiplier": "5", "redelivery_delay_max": "0"},
            [100, 500, 2500, 12_500],
        ),
        ({"redelivery_delay": "100", "redelivery_delay_first": "10"}, [10, 100, 100]),
        (
            {
                "redelivery_delay": "100",
                "redelivery_delay_first": "10",
                "redelivery_multiplier": "5",
                "redelivery_delay_max": "0",
            },
            [10, 50, 250],
        ),
        ({"redelivery_delay": "100", "redelivery_delay_first": "0"}, [0, 100, 100]),
        ({}, [0, 0]),
    ],
)
def test_delays_between_tries(settings, expected):
    rig = Rig(max_deliveries="-1", **settings)
    rig.send("Q", "a")
    reader = rig.reader("Q", 1)
    for delay in expected:
        seen = len(reader.deliveries)
        reader.give_back()
        if delay:
            assert len(reader.deliveries) == seen
            assert rig.queue("Q").count == 1
            rig.wait(delay - 1)
            assert len(reader.deliveries) == seen, f"before {delay} ms"
            rig.wait(1)
        assert len(reader.deliveries) == seen + 1


def test_jitter_spreads_the_delays_and_a_seed_repeats_them():
    def instants(seed: int) -> list[int]:
        rig = Rig(seed=seed, redelivery_delay="1000", redelivery_jitter="0.5", max_deliveries="-1")
        rig.send("Q", "a")
        reader = rig.reader("Q", 1)
        found = []
        for _ in range(20):
            reader.give_back()
            found.append(next(iter(rig.queue("Q").returns.delayed.values())).due - rig.now)
            rig.wait(1500)
        return found

    drawn = instants(1)
    assert drawn == instants(1)
    assert min(drawn) >= 500 * 1_000_000
    assert max(drawn) <= 1500 * 1_000_000
    assert len(set(drawn)) > 10


def test_individual_dead_letter_queues_and_no_chain_of_them():
    rig = Rig(dead_letter_individual="true", max_deliveries="1")
    rig.send("Q", "a")
    reader = rig.reader("Q", 1)
    reader.give_back()
    dead = rig.reader("ActiveMQ.DLQ.Queue.Q", 1)
    assert dead.bodies == ["a"]
    dead.give_back()
    assert [name for name in rig.broker.table.queues if name.startswith("ActiveMQ.DLQ")] == ["ActiveMQ.DLQ.Queue.Q"]


def test_a_durable_subscriber_has_its_own_dead_letter_queue():
    rig = Rig(dead_letter_individual="true")
    reader = rig.reader("topic://T", 1, durable_name="s", client_id="c")
    rig.send("topic://T", "a")
    reader.reject()
    assert rig.bodies("ActiveMQ.DLQ.Topic.T") == ["a"]


def test_dead_letters_go_where_nobody_may_create_queues():
    rig = Rig({"ActiveMQ.DLQ": {"auto_create": "false"}})
    rig.send("Q", "a")
    rig.reader("Q", 1).reject()
    assert rig.bodies("ActiveMQ.DLQ") == ["a"]


def test_no_dead_letter_address_drops():
    rig = Rig(dead_letter_address="")
    rig.send("Q", "a")
    rig.reader("Q", 1).reject()
    assert rig.queue("Q").count == 0
    assert len(rig.notices.of("message.dropped")) == 1


def test_dead_letters_wait_while_the_disk_is_full():
    rig = Rig()
    rig.send_all("Q", ["a", "b"])
    reader = rig.reader("Q", 2)
    disk = rig.disk
    assert disk is not None
    disk.room.make(disk.used())
    for _ in range(200):
        if rig.journal.refusal() is not None:
            break
        rig.send("Filler", "f" * 500)
    else:
        raise AssertionError("the disk never filled up")
    reader.reject("why")
    assert rig.queue("Q").count == 2
    disk.room.make()
    rig.wait(2000)
    assert [(d.body, d.annotations["dlqDeliveryFailureCause"]) for d in rig.drain("ActiveMQ.DLQ")] == [("a", "why")]
    assert len(reader.deliveries) == 2, "a rejected message is not tried again meanwhile"


# -- paging -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("size", [3, 600, 2500])
def test_order_holds_across_memory_and_disk(durable, size):
    rig = Rig({"#": TINY})
    rig.send_all("Q", range(size), durable=durable)
    assert rig.queue("Q").backlog.octets < 3000
    reader = rig.reader("Q", 10)
    seen: list[str] = []
    while len(seen) < size:
        seen += reader.ack(7)
        rig.send_all("Side", ["x"])
    assert seen == numbers(size)
    reader.close()
    rig.bodies("Side")
    assert rig.broker.memory.used == 0
    assert rig.journal.usage().messages == 0


def test_requeued_messages_go_before_what_is_on_disk():
    rig = Rig({"#": TINY})
    rig.send_all("Q", range(1500))
    first = rig.reader("Q", 1000)
    assert len(first.open) == 1000
    first.ack(10)
    first.close()
    assert rig.bodies("Q") == numbers(1490, 10)


def test_priorities_hold_across_memory_and_disk():
    rig = Rig({"#": TINY})
    for number in range(1400):
        rig.send_all("Q", [f"{number % 10}:{number}"], priority=number % 10)
    expected = [f"{priority}:{number}" for priority in range(9, -1, -1) for number in range(priority, 1400, 10)]
    assert rig.bodies("Q") == expected


def test_a_paged_higher_priority_goes_before_lower_ones_in_memory():
    rig = Rig(max_octets="300000")
    rig.send_all("Q", range(1000), priority=4)
    assert rig.queue("Q").backlog.loaded > 600
    rig.send_all("Q", ["urgent"], priority=9)
    assert rig.queue("Q").backlog.is_paging(9)
    assert rig.reader("Q", 1).bodies == ["urgent"]


def test_a_selector_finds_what_is_on_disk_in_order_in_bounded_steps():
    rig = Rig({"#": TINY})
    for number in range(9000):
        rig.broker.send(rig.message(str(number), properties={"n": number % 3000}), rig.broker.target([parse_one("Q")]))
    rig.turn()
    reader = rig.reader("Q", 10, selector="n = 2999 OR n = 5")
    rig.wait(1)
    assert reader.bodies == ["5", "2999", "3005", "5999", "6005", "8999"]
    rig.send("Q", "late", properties={"n": 5})
    assert reader.bodies[-1] == "late"
    assert len(rig.queue("Q").backlog.references()) < 2000
    reader.close()
    assert rig.bodies("Q") == [*numbers(9000), "late"]


def test_selective_search_and_priorities():
    rig = Rig({"#": TINY})
    for number in range(3000):
        rig.send_all("Q", [str(number)], priority=number % 10, properties={"n": number})
    reader = rig.reader("Q", 100, selector="n >= 2990")
    rig.wait(5)
    assert reader.bodies == [str(number) for number in range(2999, 2989, -1)]


def test_a_new_message_does_not_overtake_a_search():
    rig = Rig({"#": TINY})
    for number in range(6000):
        rig.broker.send(rig.message(str(number), properties={"n": number}), rig.broker.target([parse_one("Q")]))
    rig.turn()
    reader = rig.reader("Q", 10, selector="n >= 5999")
    rig.send("Q", "new", properties={"n": 6000})
    rig.wait(5)
    assert reader.bodies == ["5999", "new"]


def test_large_messages_read_back_stay_within_bounds():
    rig = Rig({"#": {"max_octets": "100000"}}, segment_bytes=1 << 22)
    body = "x" * 500_000
    for number in range(60):
        rig.send_all("Q", [f"{number}:{body}"])
    reader = rig.reader("Q", 1)
    assert rig.broker.memory.used < 12_000_000
    seen = []
    while reader.open:
        seen += [text.split(":")[0] for text in reader.ack(1)]
        assert rig.broker.memory.used < 12_000_000
    assert seen == numbers(60)


def test_an_ephemeral_queue_keeps_everything_in_memory_in_order():
    rig = Rig({"#": TINY}, disk=False)
    rig.send_all("Q", range(100))
    assert rig.bodies("Q") == numbers(100)
    assert rig.broker.memory.used == 0


@pytest.mark.parametrize("disk", [True, False])
@pytest.mark.parametrize("durable", [True, False])
def test_large_bodies_keep_their_place_and_are_freed(disk, durable):
    rig = Rig({"#": TINY}, disk=disk)
    overflow = rig.journal.overflow
    target = rig.broker.target([parse_one("Q")])
    for number in range(12):
        message = rig.message(str(number), "Q", durable=durable)
        if number % 3 == 0:
            blob = rig.broker.ids.next_number()
            overflow.create(blob)
            overflow.write(blob, b"large")
            overflow.seal(blob)
            message.need_rare().large_id = blob
            message.need_rare().large_length = 5
            message.need_rare().large_checked = True
            rig.broker.send(message, target)
            overflow.release(blob)
        else:
            rig.broker.send(message, target)
    rig.turn()
    reader = rig.reader("Q", 100)
    assert reader.bodies == numbers(12)
    for delivery in reader.deliveries:
        rare = delivery.message.rare
        if rare is not None and rare.large_id:
            assert overflow.whole(delivery.message) == b"large"
    reader.ack()
    assert rig.journal.port.blobs() == []


# -- pause, purge, browse ---------------------------------------------------------------------------------------------


def test_a_paused_queue_takes_and_does_not_give():
    rig = Rig()
    reader = rig.reader("Q", 10)
    rig.queue("Q").gate.pause()
    rig.send_all("Q", range(3))
    assert reader.bodies == []
    rig.queue("Q").dispatcher.resume()
    assert reader.bodies == numbers(3)


@pytest.mark.parametrize("settings", [{}, {"#": TINY}])
def test_purge_takes_all_that_waits_and_leaves_what_is_in_flight(settings):
    rig = Rig(settings)
    rig.send_all("Q", range(100), ttl=10_000)
    reader = rig.reader("Q", 5)
    queue = rig.queue("Q")
    assert queue.taking.purge(10) == 10
    assert queue.taking.purge() == 85
    rig.turn()
    assert queue.count == 5
    assert len(reader.ack()) == 5
    assert rig.broker.memory.used == 0
    assert rig.journal.usage().messages == 0


def test_purge_takes_delayed_ones_too():
    rig = Rig(redelivery_delay="1000")
    rig.send("Q", "a")
    reader = rig.reader("Q", 1)
    reader.give_back()
    assert rig.queue("Q").taking.purge() == 1
    rig.wait(2000)
    assert len(reader.deliveries) == 1


def browse(browser: Browser, step: int) -> list[str]:
    seen: list[str] = []
    while not browser.done:
        seen += [body_of(message) for message in browser.next(step)]
    return seen


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_browsing_shows_everything_once_in_order_and_takes_nothing(step):
    rig = Rig({"#": TINY})
    for number in range(120):
        rig.send_all("Q", [f"{number % 3}:{number}"], priority=number % 3)
    expected = [f"{priority}:{number}" for priority in (2, 1, 0) for number in range(priority, 120, 3)]
    assert browse(rig.broker.browse(parse_one("Q"), None), step) == expected
    assert rig.queue("Q").count == 120


def test_browsing_while_the_queue_changes_shows_nothing_twice():
    rig = Rig({"#": TINY})
    rig.send_all("Q", range(200))
    browser = rig.broker.browse(parse_one("Q"), None)
    seen = [body_of(message) for message in browser.next(50)]
    reader = rig.reader("Q", 100)
    reader.ack(80)
    reader.close()
    seen += [body_of(message) for message in browser.next(30)]
    rig.send("Q", "new")
    seen += browse(browser, 10)
    assert seen[:50] == numbers(50)
    assert len(seen) == len(set(seen))
    assert set(numbers(120, 80)) <= set(seen), "what stayed all the time is shown"
    assert seen[-1] == "new"


def test_browsing_with_a_selector():
    rig = Rig()
    for number in range(10):
        rig.send("Q", str(number), properties={"n": number})
    from entrepot.core.broker import selector_or_none

    browser = rig.broker.browse(parse_one("Q"), selector_or_none("n > 6"))
    assert browse(browser, 2) == ["7", "8", "9"]


def test_memory_is_charged_once_for_a_message_in_many_queues():
    rig = Rig()
    readers = [rig.reader("topic://T", 10) for _ in range(5)]
    rig.send("topic://T", "a")
    one = readers[0].deliveries[0].message.size
    assert rig.broker.memory.used == one
    for reader in readers[:4]:
        reader.ack()
        assert rig.broker.memory.used == one
    readers[4].ack()
    assert rig.broker.memory.used == 0


def test_an_automatic_reader_needs_no_memory():
    rig = Rig()
    reader = rig.reader("Q", 10, auto=True)
    rig.send_all("Q", range(50))
    assert reader.bodies == numbers(50)
    assert rig.broker.memory.used == 0
    assert rig.journal.usage().messages == 0
    assert PLAIN.code == 201


def test_a_selective_reader_gets_what_is_on_disk_before_what_is_in_memory_of_a_lower_priority() -> None:
    rig = Rig({"Q": {"max_octets": "700"}})
    red = {"properties": {"colour": "red"}, "priority": 2}
    rig.send("Q", "low", **red)
    while not rig.queue("Q").stock.is_full():
        rig.send("Q", "other", properties={"colour": "blue"}, priority=2)
    rig.send("Q", "high", **red | {"priority": 8})
    assert rig.queue("Q").backlog.paged_count == 1  # the urgent one waits on disk
    rig.send_all("Q", ["other"] * 3, properties={"colour": "blue"}, priority=9)
    reader = rig.reader("Q", 1, selector="colour = 'red'")
    assert reader.bodies == ["high"]
    reader.ack(1)
    assert reader.bodies == ["high", "low"]


@pytest.mark.parametrize("selector", ["", "n = 1"])
def test_what_has_expired_when_it_comes_does_not_go_to_a_consumer_that_is_ready(selector: str) -> None:
    rig = Rig()
    reader = rig.reader("Q", selector=selector)
    rig.send("Q", "over", ttl=-1, properties={"n": 1})
    rig.send("Q", "in time", ttl=1000, properties={"n": 1})
    assert reader.bodies == ["in time"]
    assert rig.queue("Q").returns.expired == 1
