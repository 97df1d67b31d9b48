"""A record that rots on the disk while a lease holds its message: READ goes on, and a dead letter says why."""

from __future__ import annotations

import logging

import pytest

from entrepot.base.compiled import is_compiled
from entrepot.base.errors import StorageError
from entrepot.core.leases.lease import Lease
from entrepot.core.queue.bereaved import BODY_LOST, DEAD_CAUSE, LOST_LANGUAGE
from entrepot.core.queue.taking import Pick
from entrepot.model.address import parse_one
from entrepot.model.message import Message
from kit import Rig, body_of

BODIES = [f"body-{number:02}-" + "x" * 50 for number in range(30)]
ROTTEN = (0, 7, 8, 29)


def held(*rotten: int, durable: bool = True) -> tuple[Rig, Lease]:
    """Return a broker whose messages are held by lease, and the records of some of them have rotted since."""
    rig = Rig()
    rig.send_all("Q", BODIES, durable=durable)
    lease = rig.broker.leases.need(parse_one("Q"), "g", create=True)
    lease.claim(rig.journal, lease.attach(rig.journal, None), 0, len(BODIES))
    rig.restart()
    lease = rig.broker.leases.need(parse_one("Q"), "g", create=False)
    assert rig.disk is not None
    for name in rig.disk.names():
        content = bytes(rig.disk.read(name, 0, rig.disk.size(name)))
        for place in rotten:
            at = content.find(BODIES[place].encode())
            if at >= 0:
                rig.disk.medium.damage(name, at)
    return rig, lease


def letters(rig: Rig, name: str = "ActiveMQ.DLQ") -> list[Message]:
    """Return what waits in a queue, and take it."""
    rig.wait(10)
    queue = rig.broker.table.queues.get(name)
    if queue is None:
        return []
    taken = queue.taking.take(queue.stock.walk(), 100, 1000, Pick(None))
    for reference in taken:
        queue.stock.finish(reference)
    return [reference.message for reference in taken]


def note_of(message: Message, name: str) -> str:
    return "" if message.rare is None else message.rare.annotations.get(name, "")


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("octets", [0, 1, 500])
def test_its_place_in_the_range_is_kept_by_what_stands_for_it(
    durable: bool, octets: int, caplog: pytest.LogCaptureFixture
) -> None:
    rig, lease = held(*ROTTEN, durable=durable)
    with caplog.at_level(logging.ERROR, "entrepot.node"):
        for _ in range(2):
            seen: list[Message] = []
            while len(seen) < len(BODIES):
                part = lease.read(rig.journal, lease.epoch, len(seen), len(BODIES), octets)
                assert part
                assert octets == 0 or len(part) <= max(1, octets // 50)
                seen += part
            whole = [message for message in seen if message.language is not LOST_LANGUAGE]
            assert [body_of(each) for each in whole] == [
                body for place, body in enumerate(BODIES) if place not in ROTTEN
            ]
            lost = {place: message for place, message in enumerate(seen) if message.language is LOST_LANGUAGE}
            assert tuple(lost) == ROTTEN
            for place, message in lost.items():
                assert message.number == lease.numbers[place]
                assert (message.address, note_of(message, BODY_LOST)) == ("Q", "unknown")
                assert "fails its checksum" in note_of(message, DEAD_CAUSE)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == len(ROTTEN), "each once, however often it is read"
    assert "position 7 of 'g' on 'Q'" in told[1]


def test_what_is_settled_of_it_is_a_dead_letter_with_its_cause() -> None:
    rig, lease = held(*ROTTEN)
    lease.read(rig.journal, lease.epoch, 0, len(BODIES))
    assert lease.settle(rig.journal, lease.epoch, 8) == 8
    first = letters(rig)
    assert len(first) == 2
    assert lease.settle(rig.journal, lease.epoch, 30) == 22
    both = first + letters(rig)
    assert len(both) == len(ROTTEN) == rig.queue("Q").returns.dead
    for letter in both:
        assert letter.language is LOST_LANGUAGE
        assert "fails its checksum" in note_of(letter, DEAD_CAUSE)
        assert note_of(letter, "_AMQ_ORIG_QUEUE") == "Q"
    assert (rig.queue("Q").leased, lease.held, rig.queue("Q").count) == (0, 0, 0)
    lease.check()


def test_who_read_it_while_it_was_whole_settles_it_as_any_other() -> None:
    rig, lease = held(3)
    assert lease.settle(rig.journal, lease.epoch, 30) == 30
    assert letters(rig) == []


def test_a_lease_is_given_back_though_records_of_it_are_lost() -> None:
    rig, lease = held(*ROTTEN)
    lease.read(rig.journal, lease.epoch, 0, 10)
    assert lease.release(rig.journal) == 30
    lease.check()
    reader = rig.reader("Q", 100)
    rig.wait(10)
    assert reader.bodies == [body for place, body in enumerate(BODIES) if place not in ROTTEN]
    assert len(letters(rig)) == len(ROTTEN)
    assert lease.attach(rig.journal, None) == 3
    assert lease.claim(rig.journal, 3, lease.tail, 5) == lease.tail, "nothing is left, and no flaw of before is"


def test_a_lease_is_given_back_whole_or_not_at_all_when_the_disk_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    if is_compiled():
        pytest.skip("native callers do not notice a method that is replaced")
    rig, lease = held()
    genuine = rig.journal.reading.load_range

    def failing(numbers: list[int], octets: int = 0) -> list[Message]:
        raise StorageError("the disk is slow to answer")

    monkeypatch.setattr(rig.journal.reading, "load_range", failing)
    for _ in range(2):
        with pytest.raises(StorageError):
            lease.release(rig.journal)
        assert (rig.queue("Q").leased, lease.held) == (30, 30)
        lease.check()
    monkeypatch.setattr(rig.journal.reading, "load_range", genuine)
    assert lease.release(rig.journal) == 30
    assert (rig.queue("Q").leased, rig.queue("Q").count) == (0, 30)
    reader = rig.reader("Q", 100)
    rig.wait(10)
    assert reader.bodies == BODIES


def test_large_messages_are_given_back_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    if is_compiled():
        pytest.skip("native callers do not notice a method that is replaced")
    rig, lease = held()
    genuine = rig.journal.reading.load_range
    read: list[int] = []

    def counted(numbers: list[int], octets: int = 0) -> list[Message]:
        found = genuine(numbers, octets)
        read.append(len(found))
        return found

    monkeypatch.setattr(rig.journal.reading, "load_range", counted)
    monkeypatch.setattr("entrepot.core.leases.lease.RETURN_OCTETS", 400)
    assert lease.release(rig.journal) == 30
    assert sum(read) == 30
    assert max(read) <= 5
