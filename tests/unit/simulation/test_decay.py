"""What decays on a simulated disk is what was durable, and it is restored when the process ends."""

from __future__ import annotations

import pytest

from entrepot.simulation.checkers import Ledger, Record
from entrepot.simulation.decay import is_alone
from entrepot.simulation.machine import FusedDisk
from entrepot.simulation.world import World
from journals import Lots

NAME = "1.seg"


def written(*, durable: bool) -> FusedDisk:
    disk = FusedDisk(Lots(1), lambda delay, action: None)
    disk.create(NAME, 0)
    disk.write(NAME, 0, b"first", b"")
    if durable:
        disk.medium.settle()
    return disk


def test_what_is_not_durable_does_not_decay() -> None:
    disk = written(durable=False)
    assert not disk.decay(NAME, 1, 0x01)
    assert not disk.decay("2.seg", 1, 0x01)
    assert disk.read(NAME, 0, 5) == b"first"


@pytest.mark.parametrize("end", [FusedDisk.crash, FusedDisk.stop])
def test_it_is_read_as_it_decayed_until_the_process_ends(end: object) -> None:
    disk = written(durable=True)
    assert disk.decay(NAME, 1, 0x01)
    assert disk.decay(NAME, 4, 0x20)
    assert disk.read(NAME, 0, 5) == b"fhrsT"
    assert callable(end)
    end(disk)
    assert disk.read(NAME, 0, 5) == b"first"
    end(disk)
    assert disk.read(NAME, 0, 5) == b"first"


def test_a_file_that_went_meanwhile_stays_away() -> None:
    disk = written(durable=True)
    disk.decay(NAME, 1, 0x01)
    disk.drop(NAME)
    disk.stop()
    assert disk.names() == []


def test_only_a_record_of_one_message_in_one_queue_is_chosen() -> None:
    record = Record("m", "p", 1)
    record.queues = ["q"]
    assert is_alone(record)
    record.queues = ["q", "r"]
    assert not is_alone(record)
    record.queues, record.topics = ["q"], ["t"]
    assert not is_alone(record)


@pytest.mark.parametrize(
    ("cause", "body", "violations"),
    [("the journal is damaged at 1.seg:1: ...", b"", 0), ("", b"", 1), ("the journal is damaged at 1.seg:1", b"x", 1)],
)
def test_what_stands_for_a_rotten_record_says_so_and_has_nothing(cause: str, body: bytes, violations: int) -> None:
    world = World(1)
    ledger = Ledger(world)
    record = Record("m", "p", 1)
    ledger.records["m"] = record
    headers = {"message-id": "ID:1", "dlqDeliveryFailureCause": cause}
    assert not ledger.is_stand_in(headers)
    ledger.rots("ID:1", record)
    assert ledger.is_stand_in(headers)
    copy = ledger.seen("q", headers, body)
    assert copy is not None
    assert copy.record is record
    assert len(world.violations) == violations


@pytest.mark.parametrize(("letter", "violations"), [(True, 0), (False, 1)])
def test_what_was_shown_as_lost_and_is_settled_is_owed_as_a_dead_letter(letter: bool, violations: int) -> None:
    world = World(1)
    ledger = Ledger(world)
    ledger.records["m"] = Record("m", "p", 1)
    copy = ledger.copy("q", "m")
    copy.bereft = copy.gone = copy.asked = True
    copy.letter = letter
    ledger.finish()
    assert len(world.violations) == violations
