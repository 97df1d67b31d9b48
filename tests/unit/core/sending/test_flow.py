"""Limits by the number of messages (artemis.md 4.8)."""

from __future__ import annotations

import pytest

from entrepot.base.errors import AddressFull
from entrepot.core.addressing.diversion import divert
from entrepot.core.sending.flow import BLOCKED, DROPPED, SENT, SpaceWaiter
from entrepot.model.address import parse, parse_one
from kit import Rig


def sent(rig: Rig, count: int) -> list[int]:
    return [rig.send("Q", str(number)) for number in range(count)]


def test_a_queue_is_full_by_the_number_of_its_messages():
    rig = Rig(max_messages="3", full="drop")
    assert sent(rig, 5) == [SENT] * 3 + [DROPPED] * 2
    rig.restart("kill")  # what is on disk counts
    assert sent(rig, 1) == [DROPPED]
    assert rig.bodies("Q") == ["0", "1", "2"]
    failing = Rig(max_messages="3", full="fail")
    sent(failing, 3)
    with pytest.raises(AddressFull, match="3 messages"):
        sent(failing, 1)
    assert failing.bodies("Q") == ["0", "1", "2"]


@pytest.mark.parametrize("full", ["drop", "fail", "block"])
def test_what_is_on_disk_counts_where_a_limit_is_no_matter_of_paging(full):
    rig = Rig(max_octets="4000", full=full)
    verdicts = [rig.send("Q", "x" * 1000) for _ in range(3)]
    assert verdicts == [SENT] * 3
    held = rig.queue("Q").backlog.octets
    rig.restart("kill")
    assert (rig.queue("Q").backlog.octets, rig.queue("Q").backlog.paged_octets) == (0, held)
    if full == "fail":
        with pytest.raises(AddressFull, match=f"3 messages, {held} octets"):
            rig.send("Q", "x" * 1000)
    else:
        assert rig.send("Q", "x" * 1000) == (DROPPED if full == "drop" else BLOCKED)
    rig.bodies("Q")
    assert rig.send("Q", "after") == SENT


def test_who_is_blocked_goes_on_when_half_of_them_is_gone():
    class Waiter(SpaceWaiter):
        freed = 0

        def space(self) -> None:
            self.freed += 1

    rig = Rig(max_messages="4", full="block")
    assert sent(rig, 5) == [SENT] * 4 + [BLOCKED]
    waiter = Waiter()
    rig.broker.flow.wait(1, waiter)
    reader = rig.reader("Q", 1)
    reader.ack(1)
    assert waiter.freed == 0
    reader.ack(1)
    assert waiter.freed == 1


def test_beyond_so_many_messages_they_go_to_disk_and_all_come():
    rig = Rig(max_messages="2")
    assert sent(rig, 50) == [SENT] * 50
    assert rig.queue("Q").backlog.count - rig.queue("Q").backlog.paged_count == 2
    assert rig.bodies("Q") == [str(number) for number in range(50)]


@pytest.mark.parametrize("durable", [True, False])
def test_paging_has_a_limit(durable):
    rig = Rig(max_messages="2", page_messages="3", page_full="drop")
    verdicts = [rig.send("Q", str(number), durable=durable) for number in range(7)]
    assert verdicts == [SENT] * 5 + [DROPPED] * 2
    assert rig.bodies("Q") == ["0", "1", "2", "3", "4"]
    assert rig.send("Q", "after") == SENT
    failing = Rig(max_messages="2", page_messages="3", page_full="fail")
    sent(failing, 5)
    with pytest.raises(AddressFull):
        sent(failing, 1)
    unlimited = Rig(max_messages="2", page_messages="3")
    assert sent(unlimited, 9) == [SENT] * 9


@pytest.mark.parametrize("durable", [True, False])
def test_paging_has_a_limit_by_weight(durable):
    rig = Rig(max_messages="2", page_octets="3KB", page_full="drop")
    verdicts = [rig.send("Q", str(number) + "x" * 1000, durable=durable) for number in range(7)]
    assert verdicts == [SENT] * 5 + [DROPPED] * 2
    assert rig.queue("Q").backlog.paged_octets > 3000
    assert [body[0] for body in rig.bodies("Q")] == ["0", "1", "2", "3", "4"]
    assert rig.queue("Q").backlog.paged_octets == 0
    assert rig.send("Q", "after") == SENT
    failing = Rig(max_messages="0", page_octets="1000", page_full="fail")
    sent(failing, 1)
    with pytest.raises(AddressFull):
        sent(failing, 1000)


def test_what_is_weighed_on_disk_is_weighed_after_a_restart_and_a_purge():
    rig = Rig(max_messages="0", page_octets="100KB", page_full="drop")
    for _ in range(10):
        rig.send("Q", "x" * 1000)
    weighed = rig.queue("Q").backlog.paged_octets
    assert weighed > 10_000
    rig.restart()
    assert 0.9 * weighed < rig.queue("Q").backlog.paged_octets < 1.1 * weighed
    rig.queue("Q").taking.purge(4)
    assert 0.5 * weighed < rig.queue("Q").backlog.paged_octets < 0.7 * weighed
    rig.queue("Q").taking.purge(100)
    assert rig.queue("Q").backlog.paged_octets == 0


# -- an address that an operator blocks -------------------------------------------------------------------------------


class Waiting(SpaceWaiter):
    """A producer that was told BLOCKED; it counts how often it may go on."""

    def __init__(self, rig: Rig, key: int = 1) -> None:
        self.freed = 0
        rig.broker.flow.wait(key, self)

    def space(self) -> None:
        self.freed += 1


@pytest.mark.parametrize("full", ["page", "block", "drop", "fail"])
def test_producers_of_a_blocked_address_wait_whatever_its_policy_until_it_is_unblocked(full):
    rig = Rig(full=full)
    flow = rig.broker.flow
    assert sent(rig, 2) == [SENT] * 2
    flow.block("Q")
    assert sent(rig, 1) == [BLOCKED]
    waiter = Waiting(rig)
    assert rig.send("Other") == SENT
    assert rig.bodies("Q") == ["0", "1", "0"], "what was accepted is there, and is read"
    rig.turn()
    assert waiter.freed == 0, "room alone does not let them go on"
    flow.unblock("Q")
    rig.turn()
    assert waiter.freed == 1
    assert sent(rig, 1) == [SENT]


def test_what_leads_to_a_blocked_address_is_blocked_and_what_is_kept_for_later_knows_it():
    rig = Rig()
    broker = rig.broker
    rig.send("there")
    rig.send("topic://news")
    broker.queues.follow(divert("d", "here", [parse_one("queue://there")]))
    broker.flow.block("there")
    assert rig.send("queue://here") == BLOCKED
    assert rig.send("queue://there,queue://elsewhere") == BLOCKED
    assert rig.send("queue://elsewhere") == SENT
    assert broker.flow.is_blocked(broker.target(parse("queue://a,queue://there")))
    assert not broker.flow.is_blocked(broker.target(parse("queue://elsewhere")))
    assert broker.sending.admits(rig.message("x", "there"), broker.target(parse("queue://there"))) == BLOCKED
    broker.flow.block("news")
    assert rig.send("topic://news") == BLOCKED, "nobody reads there, and still its producers wait"
    assert rig.bodies("queue://there") == ["x", "x", "x"]


def test_an_address_is_blocked_until_the_broker_starts_again_or_it_is_gone():
    rig = Rig()
    rig.send("Q")
    rig.broker.flow.block("Q")
    assert rig.send("Q") == BLOCKED
    rig.restart("kill")
    assert rig.send("Q") == SENT
    rig.broker.flow.block("Q")
    assert rig.send("Q") == BLOCKED
    waiter = Waiting(rig)
    rig.drain("Q")
    rig.broker.queues.delete(rig.queue("Q"), "test")
    rig.turn()
    assert waiter.freed == 1
    assert rig.send("Q") == SENT


def test_who_waits_for_a_blocked_address_and_for_room_waits_for_both():
    rig = Rig({"F": {"full": "block", "max_messages": "1"}})
    rig.send("F", durable=False)
    rig.send("Q")
    rig.broker.flow.block("Q")
    assert rig.send("Q") == BLOCKED
    waiter = Waiting(rig)
    assert rig.send("F") == BLOCKED
    rig.broker.flow.wait(1, waiter)
    rig.drain("F")
    rig.turn()
    assert waiter.freed == 0
    rig.broker.flow.unblock("Q")
    rig.turn()
    assert waiter.freed == 1


def test_who_waits_for_a_blocked_address_alone_goes_on_with_the_block_however_full_memory_is():
    rig = Rig(memory_limit=100_000)
    while rig.broker.memory.used < 60_000:
        rig.send("Other")
    rig.send("Q")
    rig.broker.flow.block("Q")
    assert rig.send("Q") == BLOCKED
    waiter, gone = Waiting(rig), Waiting(rig, 2)
    rig.broker.flow.stop_waiting(2)
    rig.turn()
    assert waiter.freed == 0
    rig.broker.flow.unblock("Q")
    rig.turn()
    assert (waiter.freed, gone.freed) == (1, 0)
    assert rig.send("Q") == SENT


@pytest.mark.parametrize("together", [False, True])
def test_who_sent_to_two_blocked_addresses_waits_for_both(together):
    for first, second in (("Q", "R"), ("R", "Q")):
        rig = Rig()
        rig.send("Q")
        rig.send("R")
        for one in "QR":
            rig.broker.flow.block(one)
        if together:
            assert rig.send("queue://Q,queue://R") == BLOCKED
            waiter = Waiting(rig)
        else:
            assert rig.send("Q") == BLOCKED
            waiter = Waiting(rig)
            assert rig.send("R") == BLOCKED
            rig.broker.flow.wait(1, waiter)
        rig.broker.flow.unblock(first)
        rig.turn()
        assert waiter.freed == 0
        rig.broker.flow.unblock(second)
        rig.turn()
        assert waiter.freed == 1


def test_the_log_says_that_an_operator_is_why_they_wait():
    rig = Rig()
    rig.send("Q")
    rig.broker.flow.block("Q")
    rig.send("Q")
    Waiting(rig)
    assert [details["why"] for _, details in rig.notices.of("address.full")] == ["an operator blocks Q"]


DROPS = {"D": {"full": "drop", "max_messages": "1"}}


def test_who_sends_to_a_queue_that_drops_as_well_waits_for_the_one_that_does_not():
    rig = Rig({**DROPS, "B": {"full": "block", "max_messages": "1"}})
    assert rig.send("D", "there") == SENT
    assert [rig.send("B,D", "both"), rig.send("D,B", "both")] == [SENT, BLOCKED]
    assert rig.broker.flow.blocking is rig.queue("B")
    assert rig.send("D", "dropped") == DROPPED
    assert rig.send("D,D", "dropped") == DROPPED
    assert rig.bodies("B") == ["both", "both"]
    assert rig.bodies("D") == ["there"]


def test_a_blocked_address_beside_one_that_drops_is_a_block():
    rig = Rig(DROPS)
    assert rig.send("D", "there") == SENT
    rig.send("Q", "there")
    rig.broker.flow.block("Q")
    target = rig.broker.target(parse("queue://Q,queue://D"))
    assert rig.send("Q,D", "one") == BLOCKED
    assert rig.broker.sending.admits(rig.message("one"), target) == BLOCKED
    assert rig.broker.flow.blocking_addresses == ["Q"]
    rig.broker.flow.block("D")
    assert rig.send("D", "none") == DROPPED, "nobody has it: that is said first"


def test_it_is_dropped_if_no_part_of_a_composite_takes_it():
    rig = Rig({"D": {"full": "drop", "max_messages": "1"}, "E": {"full": "drop", "max_messages": "1"}})
    target = rig.broker.target(parse("queue://D,queue://E"))
    assert rig.send("D", "there") == SENT
    assert rig.broker.sending.admits(rig.message("E alone"), target) == SENT
    assert [rig.send("D,E", "E alone"), rig.send("D,E", "none")] == [SENT, DROPPED]
    assert rig.broker.sending.admits(rig.message("none"), target) == DROPPED
    assert (rig.bodies("D"), rig.bodies("E")) == (["there"], ["E alone"])
