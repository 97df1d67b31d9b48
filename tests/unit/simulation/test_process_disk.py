"""What a simulated process leaves on a disk: to be read, and not durable."""

from __future__ import annotations

from entrepot.journal.ports import JournalEvents
from entrepot.simulation.process_disk import ProcessDisk
from journals import Lots

NAME = "1.seg"


class Quiet(JournalEvents):
    def synced(self, token: int) -> None:
        """It is on disk."""


def _disk() -> ProcessDisk:
    return ProcessDisk(Lots(1), lambda delay, action: action())


def _written() -> ProcessDisk:
    """Return a disk with a file, of which a process knows that it was written."""
    disk = _disk()
    disk.create(NAME, 0)
    disk.write(NAME, 0, b"first", b"")
    disk.elsewhere(lambda: None, lambda: None)
    return disk


def test_what_was_carried_out_outlives_its_process() -> None:
    disk = _written()
    disk.kill()
    assert disk.read(NAME, 0, 5) == b"first"


def test_a_sync_of_the_next_process_does_not_cover_what_the_last_one_left() -> None:
    disk = _written()
    disk.kill()
    disk.create("2.tmp", 0)
    disk.write("2.tmp", 0, b"x", b"")
    disk.attach(Quiet())
    disk.sync(1)
    assert NAME in disk.medium.durable  # the directory was synced
    assert disk.medium.durable[NAME] == b""
    assert disk.medium.durable["2.tmp"] == b"x"


def test_it_covers_the_same_file() -> None:
    disk = _written()
    disk.kill()
    disk.create("2.tmp", 0)
    disk.write(NAME, 5, b"second", b"")
    disk.attach(Quiet())
    disk.sync(1)
    assert disk.medium.durable[NAME] == b"firstsecond"


def test_a_process_that_settles_it_makes_it_durable() -> None:
    disk = _written()
    disk.kill()
    disk.medium.settle()
    assert disk.medium.durable[NAME] == b"first"


def test_a_process_that_lets_go_has_synced_its_own() -> None:
    disk = _written()
    disk.let_go()
    assert disk.medium.durable[NAME] == b"first"
