"""What a browser shows: everything that is not settled, whoever has it, in the order of delivery."""

from __future__ import annotations

import random

import pytest

from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.effort import OCTETS_SHIFT
from entrepot.core.owners import ConnectionOwner
from entrepot.core.queue.browser import Browser
from entrepot.core.queue.copying import LONG_OCTETS
from entrepot.core.transactions.transaction import Transaction
from entrepot.model.address import parse, parse_one
from kit import Rig, body_of

from .test_measuring import large

TINY = {"max_octets": "1000"}


def shown(browser: Browser, step: int = 1000) -> list[str]:
    seen: list[str] = []
    while not browser.done:
        seen += [body_of(message) for message in browser.next(step)]
    return seen


def look(rig: Rig, text: str, step: int = 1000) -> list[str]:
    return shown(rig.broker.reading.browse(parse(text), None), step)


def test_what_a_consumer_has_prefetched_is_shown() -> None:
    rig = Rig()
    reader = rig.reader("Q", 10)
    rig.send_all("Q", range(3))
    assert look(rig, "Q") == ["0", "1", "2"]
    reader.ack(1)
    assert look(rig, "Q") == ["1", "2"]


@pytest.mark.parametrize("step", [1, 3, 1000])
def test_in_the_order_of_delivery_whoever_has_it(step: int) -> None:
    rig = Rig({"#": TINY})  # most of it waits on disk
    readers = [rig.reader("Q", 4, selector=f"n = {n}") for n in range(3)]
    for at in range(60):
        rig.send("Q", f"{at}", properties={"n": at % 4}, priority=at % 2)
    for reader in readers:
        reader.ack(1)
    gone = {reader.deliveries[0].body for reader in readers}
    expected = [str(at) for odd in (1, 0) for at in range(odd, 60, 2) if str(at) not in gone]
    assert look(rig, "Q", step) == expected


@pytest.mark.parametrize("deflated", [False, True])
def test_what_is_long_in_memory_comes_a_few_at_a_time_and_counts_as_work(deflated: bool) -> None:
    rig = Rig()
    bodies = [str(at) * (2_000 if deflated else 2 * LONG_OCTETS) for at in range(6)]
    for body in bodies:
        message = rig.message(body, "Q")
        message.need_rare().deflated = deflated
        rig.broker.send(message, rig.broker.target(parse("queue://Q")))
    browser = rig.broker.reading.browse(parse("queue://Q"), None)
    effort = rig.broker.effort
    seen: list[str] = []
    while not browser.done:
        effort.begin()
        step = browser.next(1000)
        assert len(step) <= 1
        assert effort.spent >= len(step) * (LONG_OCTETS >> OCTETS_SHIFT)
        seen += [body_of(message) for message in step]
    assert seen == bodies


def test_what_a_transaction_keeps_and_what_is_set_aside_is_shown() -> None:
    rig = Rig(redelivery_delay="60000")
    rig.send_all("Q", ["promised", "delayed", "waits"])
    reader = rig.reader("Q", 2)
    transaction = Transaction("t")
    first, second = reader.open
    transaction.settle(first.consumer, first.number)
    assert second.consumer.queue is not None
    rig.broker.unsubscribe(reader, first.number)
    rig.turn()
    assert rig.queue("Q").promised
    again = rig.reader("Q", 1)
    again.give_back()
    assert len(rig.queue("Q").returns.delayed) == 1
    assert look(rig, "Q") == ["promised", "delayed", "waits"]


@pytest.mark.parametrize("large_ones", [0.0, 0.2, 1.0])
def test_what_goes_out_or_comes_back_between_two_steps_is_shown_once(large_ones: float) -> None:
    for seed in range(30):
        lots = random.Random(seed)
        rig = Rig({"#": TINY})
        for at in range(80):
            if lots.random() < large_ones:
                large(rig, str(at))
            else:
                rig.send("Q", str(at))
        readers = [rig.reader("Q", lots.randint(1, 20))]
        browser = rig.broker.browse(parse_one("Q"), None)
        seen: list[str] = []
        while not browser.done:
            seen += [body_of(message) for message in browser.next(lots.randint(1, 9))]
            if lots.random() < 0.5:
                readers.append(rig.reader("Q", lots.randint(1, 20)))
            else:
                readers.pop(lots.randrange(len(readers))).close()
                readers.append(rig.reader("Q", 3))
        assert sorted(seen, key=int) == [str(at) for at in range(80)], seed
        assert len(seen) == len(set(seen))


@pytest.mark.parametrize("paged", [False, True])
@pytest.mark.parametrize("held", [0, 30])
def test_one_with_a_large_body_is_the_last_that_comes_at_once(paged: bool, held: int) -> None:
    rig = Rig({"#": TINY} if paged else {})
    for at in range(60):
        if at % 7 == 0:
            large(rig, f"large {at}", priority=at % 2 * 4)
        else:
            rig.send("Q", f"{at}", priority=at % 2 * 4)
    rig.reader("Q", held)
    browser = rig.broker.browse(parse_one("Q"), None)
    found: list[str] = []
    while not browser.done:
        several = [body_of(message) for message in browser.next(1000)]
        assert len(several) == len(browser.deliveries)
        assert not any(one.startswith("large") for one in several[:-1])
        found += several
    expected = [at for odd in (1, 0) for at in range(odd, 60, 2)]
    assert found == [f"large {at}" if at % 7 == 0 else f"{at}" for at in expected]
    assert browser.shown == 60


def test_a_composite_and_a_wildcard_show_each_queue_once() -> None:
    """Finding D4."""
    rig = Rig()
    rig.send_all("a.one", ["x"])
    rig.send_all("a.two", ["y", "z"])
    rig.send_all("b", ["other"])
    rig.reader("a.two", 1)
    assert look(rig, "a.*") == ["x", "y", "z"]
    assert look(rig, "b,a.one") == ["other", "x"]
    assert look(rig, "a.one,a.*") == ["x", "y", "z"]
    assert look(rig, "nobody.*") == []
    assert "nobody.*" not in rig.broker.table.queues


def test_a_wildcard_shows_no_subscription_and_nothing_temporary() -> None:
    rig = Rig()
    rig.reader("topic://t", 10, durable_name="sub", client_id="a").close()
    rig.send("topic://t", "x")
    owner = ConnectionOwner("h-1")
    rig.broker.queues.create(QueueDefinition(name="ID:h-1:1", address="ID:h-1:1", durable=False, owner=owner))
    rig.send("Q", "mine")
    assert look(rig, ">") == ["mine"]


def test_what_has_been_settled_meanwhile_is_not_shown() -> None:
    rig = Rig()
    reader = rig.reader("Q", 10)
    rig.send_all("Q", range(6))
    browser = rig.broker.browse(parse_one("Q"), None)
    assert [body_of(message) for message in browser.next(2)] == ["0", "1"]
    reader.ack(4)
    assert shown(browser) == ["4", "5"]


@pytest.mark.parametrize("step", [1, 2, 3, 1000])
def test_a_look_that_turns_back_from_a_lower_priority_shows_all_of_that_in_order_and_once(step: int) -> None:
    rig = Rig()
    reader = rig.reader("Q", 1, selector="n = 1")
    rig.send("Q", "early", priority=4)
    large(rig, "large", priority=5, properties={"n": 1})
    rig.send("Q", "late", priority=4)
    assert reader.bodies == ["large"]
    assert look(rig, "Q", step) == ["large", "early", "late"]
