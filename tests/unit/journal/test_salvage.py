"""What is read of damaged journals: everything around the damage, with a list of what is missing."""

from __future__ import annotations

import random

import pytest

from entrepot.base.errors import CorruptJournal
from entrepot.journal.index import segment_range
from entrepot.journal.inspect import Untouched
from entrepot.journal.recovery import Recovery
from entrepot.journal.salvage import Loss, Salvage
from journals import Told, World, message

Row = tuple[int, int, int]


class Before:
    """A journal of several segments, and what was in it before anybody damaged it."""

    def __init__(self, seed: int, *, clean: bool = True) -> None:
        lots = random.Random(seed)
        self.world = world = World(seed, segment_bytes=4096, garbage_percent=60)
        journal = world.journal
        journal.put(3, b"queue", b"a definition")
        settled: list[int] = []
        for number in range(1, 200):
            queues = [1, 2] if number % 17 == 0 else [1 + number % 2]
            journal.store(message(number, lots.randrange(20, 300)), queues)
            if number % 23 == 0:
                journal.redelivered(number, queues[0], 2)
            if lots.random() < 0.5:
                done = lots.randrange(1, number + 1)
                journal.settle(done, 1)
                journal.settle(done, 2)
                settled.append(done)
            if lots.random() < 0.2:
                world.confirm()
            if lots.random() < 0.05:
                journal.compact(1 << 20)
                world.settle_down()
        world.confirm()
        if clean:
            journal.close()
            world.disk.stop()
        recovery = Recovery(Untouched(world.disk))
        recovery.run()
        told = Told()
        recovery.tell(told)
        self.rows: list[Row] = told.messages
        self.documents = told.documents
        self.places: dict[int, tuple[str, int, int]] = {}
        for segment in recovery.index.segments:
            for slot in range(int(segment.count)):
                if segment.states[slot]:
                    number = int(segment.number_at(slot))
                    self.places[number] = (segment.name, int(segment.offsets[slot]), int(segment.lengths[slot]))

    def segments(self) -> list[str]:
        return sorted(self.world.segments())

    def salvaged(self) -> tuple[Salvage, Told]:
        before = {name: bytes(content) for name, content in self.world.disk.medium.view.items()}
        found = Salvage(self.world.disk)
        found.run()
        told = Told()
        found.tell(told)
        after = {name: bytes(content) for name, content in self.world.disk.medium.view.items()}
        assert after == before, "it only reads"
        return found, told

    def judge(self, found: Salvage, told: Told) -> tuple[set[Row], set[Row]]:
        """Return (lost, come again); all that is lost is in what was listed, and nothing comes again unannounced."""
        lost = set(self.rows) - set(told.messages)
        again = set(told.messages) - set(self.rows)
        numbers = {row[:2] for row in again}
        lost = {row for row in lost if row[:2] not in numbers}  # one whose redelivery count was lost is there
        for _, number, _ in lost:
            name, offset, length = self.places[number]
            assert any(covers(loss, name, offset, length) for loss in found.losses), f"{number} is lost in silence"
        if again:
            assert any(loss.settlements for loss in found.losses), f"{again} come again unannounced"
        return lost, again


def covers(loss: Loss, name: str, offset: int, length: int) -> bool:
    if not loss.segment:
        return loss.offset <= int(segment_range(name)[0]) and loss.octets == 0
    behind = loss.octets == 0 and offset + length > loss.offset
    return loss.segment == name and (behind or (loss.offset < offset + length and offset < loss.offset + loss.octets))


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_what_is_whole_is_taken_as_recovery_takes_it(seed: int, clean: bool) -> None:
    before = Before(seed, clean=clean)
    found, told = before.salvaged()
    assert found.losses == []
    assert told.rows
    assert told.messages == before.rows
    assert told.documents == before.documents


@pytest.mark.parametrize("seed", range(60))
def test_a_flipped_bit_costs_one_record(seed: int) -> None:
    before = Before(seed % 7)
    lots = random.Random(seed)
    name = lots.choice(before.segments())
    size = len(before.world.disk.medium.durable[name])
    before.world.disk.medium.damage(name, lots.randrange(size), 1 << lots.randrange(8))
    with pytest.raises(CorruptJournal):
        Recovery(Untouched(before.world.disk)).run()
    found, told = before.salvaged()
    assert found.losses
    lost, again = before.judge(found, told)
    assert len({number for _, number, _ in lost}) <= 1
    assert len(again) <= 64, "of one record"
    assert len(found.losses) <= 1


@pytest.mark.parametrize("seed", range(40))
def test_a_block_of_zeros_costs_what_it_covers(seed: int) -> None:
    before = Before(seed % 7)
    lots = random.Random(seed)
    name = lots.choice(before.segments())
    content = before.world.disk.medium.view[name]
    at = lots.randrange(max(1, len(content) - 512)) // 512 * 512
    content[at : at + 512] = bytes(len(content[at : at + 512]))
    before.world.disk.medium.durable[name] = content
    found, told = before.salvaged()
    before.judge(found, told)
    elsewhere = {number for number, (where, _, _) in before.places.items() if where != name}
    alive = {number for _, number, _ in told.messages}
    assert elsewhere <= alive, "the other segments are untouched"


@pytest.mark.parametrize("seed", range(40))
def test_a_truncated_segment_costs_its_end(seed: int) -> None:
    before = Before(seed % 7)
    lots = random.Random(seed)
    name = lots.choice(before.segments()[:-1])
    length = lots.randrange(len(before.world.disk.medium.view[name]))
    before.world.disk.medium.shorten(name, length)
    found, told = before.salvaged()
    assert found.losses
    before.judge(found, told)
    alive = {number for _, number, _ in told.messages}
    assert {number for number, (where, _, _) in before.places.items() if where != name} <= alive


@pytest.mark.parametrize("seed", range(20))
def test_a_missing_segment_is_named_with_what_may_have_been_in_it(seed: int) -> None:
    before = Before(seed % 7)
    name = random.Random(seed).choice(before.segments()[:-1])
    before.world.disk.medium.lose(name)
    found, told = before.salvaged()
    first, last = (int(each) for each in segment_range(name)[:2])
    assert [loss for loss in found.losses if not loss.segment and loss.offset == first], found.losses
    assert f"segments {first} to {last}" in found.losses[0].what
    lost = set(before.rows) - set(told.messages)
    assert {before.places[number][0] for _, number, _ in lost} <= {name}


def test_records_in_a_body_are_never_taken_for_records() -> None:
    other = World(1, segment_bytes=1 << 20)
    other.journal.store(message(77), [1])
    other.confirm()
    forged = bytes(other.disk.medium.view[other.segments()[0]])
    world = World(1, segment_bytes=1 << 20)
    evil = message(2)
    evil.raw = forged * 3
    world.journal.store(evil, [1])
    world.journal.store(message(3), [1])
    world.confirm()
    world.journal.close()
    world.disk.stop()
    (name,) = world.segments()
    place = bytes(world.disk.medium.view[name]).index(forged) - 100
    for mask in (1, 2, 4, 128):
        for at in range(place, place + 90):
            world.disk.medium.damage(name, at, mask)
            found = Salvage(world.disk)
            found.run()
            told = Told()
            found.tell(told)
            assert {number for _, number, _ in told.messages} <= {2, 3}
            world.disk.medium.damage(name, at, mask)


def test_what_was_never_confirmed_is_left_out() -> None:
    before = Before(3, clean=False)
    world = before.world
    newest = max(before.segments())
    end = len(bytes(world.disk.medium.view[newest]).rstrip(b"\0"))
    world.disk.medium.view[newest][end:] = b"EJB1 half of a batch"
    found, told = before.salvaged()
    assert found.unconfirmed == f"{newest}:{end}"
    assert found.losses == []
    assert told.messages == before.rows
