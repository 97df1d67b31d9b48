"""Copies of other brokers: what is known, over crashes at whatever point, and what is forgotten, and of whom."""

from __future__ import annotations

import random

import pytest

from entrepot.core.records import KIND_COPIES
from entrepot.core.sending.copies import (
    CHUNK_MOST,
    COPIES_KEPT,
    STREAMS_KEPT,
    Copies,
    former_mark_of,
    hash_of,
    mark_of,
    mixed,
)
from entrepot.journal.memory import MemoryJournal
from journals import World, message

SENDERS = ("\tID:a", "\tID:b", "\tID:c")


def rebuilt(world: World, kept: int) -> Copies:
    copies = Copies(world.journal, kept)
    copies.recovered({key: value for kind, key, value in world.told.documents if kind == KIND_COPIES})
    copies.check()
    return copies


def noted(copies: Copies, sender: str, number: int, *, durable: bool = True) -> None:
    copies.note(copies.stream(sender, "Q"), number, number, durable)


def take(world: World, copies: Copies, sender: str, number: int) -> None:
    world.journal.begin()
    world.journal.store(message(number), [1])
    noted(copies, sender, number)
    world.journal.end()


def knows(copies: Copies, sender: str, number: int) -> bool:
    return copies.seen(copies.stream(sender, "Q"), number, number)


def known(copies: Copies) -> dict[str, set[int]]:
    for sender in copies.senders.values():
        sender.has(0)
    return {name: set(sender.known) for name, sender in copies.senders.items()}


def test_a_mark_tells_queue_message_and_copy_apart() -> None:
    q, r, one, two = hash_of("q"), hash_of("r"), hash_of("ID:1"), hash_of("ID:2")
    told = ((q, one, 1, 5), (r, one, 1, 5), (q, two, 1, 5), (q, one, 2, 5), (q, one, 1, 6))
    made = [mark_of(*each) for each in told]
    assert len(set(made)) == 5
    assert mark_of(q, one, 1, 5) == made[0]
    assert hash_of("\ud800") == hash_of("\ud800")
    assert -(2**63) <= min(made) <= max(made) < 2**63


def test_marks_are_the_same_on_both_builds_and_in_every_process() -> None:
    assert hash_of("q") == 3113518941435925557
    made = [mixed(0, 0), mixed(1, 0), mixed(0, -1)]
    assert made == [4352864509608265773, -2741929481603072710, 7929443764658410484]


def test_numbers_in_a_row_mix_into_bits_that_are_as_good_as_drawn() -> None:
    state = hash_of("q")
    some = [mixed(state, number) for number in range(20_000)]
    assert len(set(some)) == len(some)
    assert len({each & 0xFFFF_FFFF for each in some}) > 19_900  # 0.05 are expected to meet
    assert len({each >> 32 for each in some}) > 19_900
    for bit in range(64):
        ones = sum((each >> bit) & 1 for each in some)
        assert 9_500 < ones < 10_500, bit
        for other in (0, 1, 7, 31, 32, 40):  # each bit of a number changes each bit of its mark about half of the time
            changed = sum(((mixed(state, number ^ (1 << other)) ^ some[number]) >> bit) & 1 for number in range(400))
            assert 120 < changed < 280, (bit, other)


@pytest.mark.parametrize("seed", range(40))
def test_what_was_stored_is_known_and_nothing_else_is(seed: int) -> None:
    """The sender's mark of a message is its number, so both can be compared after a crash between any two batches."""
    lots = random.Random(seed)
    looks = lots.random() < 0.5
    world = World(seed, segment_bytes=2048, batch_bytes=lots.choice((300, 1 << 20)))
    copies = rebuilt(world, 1 << 16)
    number = 0
    marks: dict[int, str] = {}
    for _ in range(8):
        for _ in range(lots.randrange(60)):
            number += 1
            marks[number] = lots.choice(SENDERS)
            take(world, copies, marks[number], number)
            if looks and lots.random() < 0.3:
                asked = lots.randrange(1, number + 10)
                assert knows(copies, lots.choice(SENDERS), asked) in (False, asked <= number)
                copies.check()
            if lots.random() < 0.2:
                world.journal.flush()
            if lots.random() < 0.1:
                world.settle_down()
            if lots.random() < 0.1:
                world.journal.page(message(number + 100_000, durable=False), [2])
        if lots.random() < 0.3:
            world.compact()
        lots.choice((world.crash, world.kill, world.restart))()
        copies = rebuilt(world, 1 << 16)
        alive = {number for queue, number, _ in world.told.messages if queue == 1}
        assert {each for each, sender in marks.items() if knows(copies, sender, each)} == alive
    assert not any(knows(copies, sender, each) for each, who in marks.items() for sender in SENDERS if sender != who)


def test_who_sends_most_is_forgotten_first_here_and_on_disk() -> None:
    world = World(segment_bytes=1 << 16)
    copies = rebuilt(world, 100)
    for number in range(1, 11):
        take(world, copies, "few", number)
    for number in range(11, 1011):
        take(world, copies, "many", number)
        if number % 7 == 0:
            world.confirm()
    copies.check()
    assert all(knows(copies, "few", number) for number in range(1, 11))
    assert knows(copies, "many", 1010)
    assert not knows(copies, "many", 11)
    assert copies.count <= 100
    world.confirm()
    world.crash()
    again = rebuilt(world, 100)
    assert known(again) == known(copies)
    take(world, again, "few", 2000)
    assert knows(again, "few", 2000)


def test_a_hundred_senders_are_remembered() -> None:
    world = World()
    copies = rebuilt(world, 1000)
    early = copies.stream("sender 1", "Q")
    for number in range(1, 151):
        take(world, copies, f"sender {number}", number)
    copies.check()
    assert len(copies.senders) == 100
    assert early.stale
    assert knows(copies, "sender 150", 150)
    assert not knows(copies, "sender 50", 50)


def test_messages_that_are_not_kept_are_known_until_the_broker_stops() -> None:
    world = World()
    copies = rebuilt(world, 1000)
    noted(copies, "a", 1, durable=False)
    assert knows(copies, "a", 1)
    world.confirm()
    world.kill()
    assert not knows(rebuilt(world, 1000), "a", 1)


def test_an_ephemeral_broker_keeps_no_list_of_what_it_would_write() -> None:
    copies = Copies(MemoryJournal(), 1000)
    for mark in range(1, 5000):
        noted(copies, "a", mark)
    copies.check()
    assert not copies._dirty
    assert knows(copies, "a", 4999)


def test_one_record_a_batch_and_eight_octets_a_message() -> None:
    world = World(segment_bytes=1 << 20)
    copies = rebuilt(world, 1 << 16)
    for number in range(1, 81):
        take(world, copies, "a", number)
    world.confirm()
    assert sum(1 for sender in copies.senders.values() for _ in sender.chunks) == 1
    world.crash()
    ((kind, key, value),) = [one for one in world.told.documents if one[0] == KIND_COPIES]
    assert (kind, len(key), len(value)) == (KIND_COPIES, 8 + 1, 1 + 8 + 80 * 8)


def test_what_comes_in_order_is_not_looked_up() -> None:
    copies = Copies(MemoryJournal())
    stream = copies.stream("a", "Q")
    for number in range(1, 3 * CHUNK_MOST):
        assert not copies.seen(stream, number, number)
        copies.note(stream, number, number, durable=True)
    assert not stream.sender.known
    assert copies.seen(stream, 1, 1)
    assert not copies.seen(stream, 1, 2 * CHUNK_MOST + 5_000)
    assert len(stream.sender.known) == 3 * CHUNK_MOST - 1


def test_queues_of_one_broker_are_streams_of_their_own_and_a_new_one_begins_where_any_is() -> None:
    copies = Copies(MemoryJournal())
    one, other = copies.stream("a", "one"), copies.stream("a", "other")
    copies.note(one, 100, 1, durable=True)
    assert not copies.seen(other, 7, 2)
    copies.note(other, 7, 2, durable=True)
    assert copies.seen(other, 7, 2)
    third = copies.stream("a", "third")
    assert third.highest == 100
    assert not copies.seen(third, 100, 3)
    assert copies.stream("a", "one") is one


def test_streams_beyond_the_limit_are_looked_up_anew_and_forget_nothing() -> None:
    copies = Copies(MemoryJournal())
    first = copies.stream("a", "0")
    copies.note(first, 5, 5, durable=True)
    for number in range(1, STREAMS_KEPT + 1):
        copies.stream("a", str(number))
    assert first.stale
    again = copies.stream("a", "0")
    assert again is not first
    assert copies.seen(again, 5, 5)
    copies.check()


def test_what_was_looked_up_is_forgotten_as_what_was_not() -> None:
    copies = Copies(MemoryJournal(), 3000)
    for number in range(1, 10_000):
        noted(copies, "a", number)
        if number % 1700 == 0:
            assert knows(copies, "a", number - 5)
            copies.check()
    copies.check()
    assert not knows(copies, "a", 1)
    assert knows(copies, "a", 9_999)
    assert len(copies.senders["a"].known) == copies.count <= 3000


def test_a_journal_of_the_layout_before_is_read() -> None:
    """Its marks are made otherwise, and say nothing of numbers: they are compared as they were until they go."""
    world = World(segment_bytes=1 << 16)
    marks = [former_mark_of("Q", f"ID:p:1:1:{number}", number, 5) for number in range(1, 9)]
    key = (1).to_bytes(8, "big") + b"a"
    world.journal.put(KIND_COPIES, key, b"".join(mark.to_bytes(8, "big") for mark in marks))
    world.confirm()
    world.crash()
    copies = rebuilt(world, 20)
    stream = copies.stream("a", "Q")
    assert set(stream.sender.former) == set(marks)
    assert copies.count == 8
    for number in range(9, 22):
        take(world, copies, "a", number)
        world.confirm()
    assert not stream.sender.former
    copies.check()
    world.crash()
    assert known(rebuilt(world, COPIES_KEPT))["a"] == set(range(9, 22))
