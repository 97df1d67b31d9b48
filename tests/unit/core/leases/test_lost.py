"""A record that rots on the disk while a lease holds its message: READ goes on, and a dead letter says why."""

from __future__ import annotations

import logging

import pytest

from entrepot.base.compiled import is_compiled
from entrepot.base.errors import StorageError
from entrepot.core.leases.lease import Lease
from entrepot.core.leases.lease_records import LOST_BLOCK
from entrepot.core.leases.lost import BEFORE, NAMED
from entrepot.core.operators.views import list_leases
from entrepot.core.queue.bereaved import BODY_LOST, DEAD_CAUSE, LOST_LANGUAGE
from entrepot.core.queue.taking import Pick
from entrepot.core.records import KIND_LOST
from entrepot.model.address import parse_one
from entrepot.model.message import Message
from kit import Rig, Synced, body_of

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
    flip(rig, lease, *rotten)
    return rig, lease


def flip(rig: Rig, lease: Lease, *places: int) -> None:
    """Let the records at positions of ``lease`` rot; done once more, they are as they were."""
    assert rig.disk is not None
    index = rig.journal.tail.index
    for place in places:
        segment = index.find(lease.numbers[place])
        assert segment is not None
        end = int(segment.offsets[index.slot] + segment.lengths[index.slot])
        assert rig.disk.medium.damage(segment.name, end - 10)


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


def documents(rig: Rig) -> dict[int, int]:
    """Return how many documents of each kind the journal has."""
    found: dict[int, int] = {}
    for name in rig.journal.tail.index.documents:
        found[name[0]] = found.get(name[0], 0) + 1
    return found


def restart(rig: Rig, how: str) -> None:
    """Start again when the disk has what was answered."""
    rig.journal.confirm(Synced(), b"")
    rig.turn()
    rig.wait(10)
    rig.restart(how)


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


@pytest.mark.parametrize("how", ["close", "kill", "crash"])
def test_what_a_reader_was_shown_is_a_dead_letter_though_he_settles_it_after_a_restart(how: str) -> None:
    """A journal with a rotten record does not start: its file was restored, or a copy took over that has it whole."""
    rig, lease = held(*ROTTEN)
    epoch = lease.epoch
    for position in range(len(BODIES)):  # as READ does that makes entries of records
        lease.read(rig.journal, epoch, position, position + 1)
    flip(rig, lease, *ROTTEN)
    restart(rig, how)
    lease = rig.broker.leases.need(parse_one("Q"), "g", create=False)
    assert (lease.lost.count, lease.held) == (len(ROTTEN), 30)
    assert lease.settle(rig.journal, epoch, 8) == 8
    found = letters(rig)
    restart(rig, how)
    lease = rig.broker.leases.need(parse_one("Q"), "g", create=False)
    assert lease.lost.count == 2
    assert lease.settle(rig.journal, epoch, 30) == 22
    found += letters(rig)
    assert [body_of(letter) for letter in found] == [BODIES[place] for place in ROTTEN], "it is there again"
    assert {note_of(letter, DEAD_CAUSE) for letter in found} == {BEFORE}
    assert rig.journal.usage().messages == 0
    assert lease.lost.blocks == {}
    assert KIND_LOST not in documents(rig)


def test_a_range_of_many_blocks_is_known_bit_by_bit_after_a_restart() -> None:
    rig = Rig()
    rig.send_all("Q", range(10))
    lease = rig.broker.leases.need(parse_one("Q"), "g", create=True)
    lease.claim(rig.journal, lease.attach(rig.journal, None), 0, 10)
    shown = [0, 1, LOST_BLOCK - 1, LOST_BLOCK, 5 * LOST_BLOCK + 7]
    lease.lost.note_shown(rig.journal, shown)
    lease.lost.note_shown(rig.journal, shown)
    assert documents(rig)[KIND_LOST] == 3
    rig.restart()
    lease = rig.broker.leases.need(parse_one("Q"), "g", create=False)
    assert [position for position in range(6 * LOST_BLOCK) if lease.lost.has(position)] == shown
    lease.lost.settled(rig.journal, 2 * LOST_BLOCK)
    assert (documents(rig)[KIND_LOST], lease.lost.count) == (1, 1)
    rig.broker.queues.delete(rig.queue("Q"), "it is not needed")
    assert KIND_LOST not in documents(rig)


def test_the_log_names_a_few_and_counts_the_others(caplog: pytest.LogCaptureFixture) -> None:
    rig, lease = held(*range(30))
    with caplog.at_level(logging.ERROR, "entrepot.node"):
        lease.read(rig.journal, lease.epoch, 0, 30)
        assert len(caplog.records) == NAMED == 20
        (view,) = list_leases(rig.broker)
        assert (view.held, view.lost) == (30, 30)
        lease.settle(rig.journal, lease.epoch, 1)
        assert [record.getMessage() for record in caplog.records[NAMED:]] == [
            "10 more messages that 'g' held on 'Q' are lost; its reader was told, a dead letter stands for each"
        ]
        lease.read(rig.journal, lease.epoch, 1, 30)
        lease.settle(rig.journal, lease.epoch, 30)
    assert len(caplog.records) == NAMED + 1, "of none is told twice"
    assert list_leases(rig.broker)[0].lost == 0
    assert len(letters(rig)) == 30


def test_what_is_given_back_is_counted_in_the_log_too(caplog: pytest.LogCaptureFixture) -> None:
    rig, lease = held(*range(25))
    with caplog.at_level(logging.ERROR, "entrepot.node"):
        lease.read(rig.journal, lease.epoch, 0, 30)
        lease.release(rig.journal)
    assert len(caplog.records) == NAMED + 1
    assert caplog.records[-1].getMessage().startswith("5 more messages")
    assert KIND_LOST not in documents(rig)


def test_what_was_settled_until_the_disk_failed_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    if is_compiled():
        pytest.skip("native callers do not notice a method that is replaced")
    rig, lease = held(*ROTTEN)
    epoch = lease.epoch
    lease.read(rig.journal, epoch, 0, len(BODIES))
    flip(rig, lease, *ROTTEN)
    genuine = rig.journal.reading.load_range

    def failing(numbers: list[int], octets: int = 0) -> list[Message]:
        if numbers == [lease.numbers[8]]:
            raise StorageError("the disk is slow to answer")
        return genuine(numbers, octets)

    monkeypatch.setattr(rig.journal.reading, "load_range", failing)
    with pytest.raises(StorageError):
        lease.settle(rig.journal, epoch, 30)
    monkeypatch.setattr(rig.journal.reading, "load_range", genuine)
    assert (lease.base, lease.held, rig.queue("Q").leased) == (8, 22, 22)
    lease.check()
    assert len(letters(rig)) == 2
    rig.restart()
    lease = rig.broker.leases.need(parse_one("Q"), "g", create=False)
    assert (lease.base, lease.held, lease.lost.count) == (8, 22, 2)
    assert lease.settle(rig.journal, epoch, 30) == 22
    assert len(letters(rig)) == 2


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
