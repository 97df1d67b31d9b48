"""A journal of an older version is read whole, whatever it keeps (docs/formats/journal.md promises it)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kit
from entrepot.core.addressing.definition import is_older
from entrepot.core.records import KIND_QUEUE
from entrepot.core.sending.flow import DUPLICATE
from entrepot.journal.inspect import records
from entrepot.journal.log import JournalCore, JournalOptions
from entrepot.journal.record import FORMAT
from entrepot.simulation.machine import FusedDisk, PowerCut
from journals import Lots, Told
from kit import Rig
from older_journals import described

OLDER = sorted(path.parent for path in (Path(__file__).parents[2] / "vectors" / "journals").glob("*/expected.json"))


def opened(directory: Path) -> Rig:
    """Start a broker on a copy of an older data directory."""
    return Rig(files={path.name: path.read_bytes() for path in (directory / "data").rglob("*") if path.is_file()})


def expected(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / "expected.json").read_text())
    return found


@pytest.fixture(params=OLDER, ids=lambda path: path.name)
def directory(request) -> Path:
    return request.param


def test_there_is_a_directory_of_every_format():
    assert [path.name for path in OLDER] == [f"format-{number}" for number in range(1, FORMAT + 1)]


def test_all_that_an_older_journal_keeps_is_found(directory):
    rig = opened(directory)
    assert described(rig) == expected(directory)
    (delivery,) = rig.reader("bulky").deliveries
    assert rig.journal.overflow.whole(delivery.message) == b"a large body " * 100


def test_documents_of_queues_are_written_anew_in_the_layout_of_this_version(directory):
    rig = opened(directory)
    documents = Told()
    rig.restart("kill")
    assert rig.disk is not None
    rig.disk.stop()
    JournalCore(rig.disk, JournalOptions(node="n")).recover(documents)
    found = [value for kind, _, value in documents.documents if kind == KIND_QUEUE]
    assert len(found) == len(expected(directory)["queues"])
    assert not [value for value in found if is_older(value)]
    names = [line.text for line in records(rig.disk) if line.text.startswith("META")]
    assert f"format {FORMAT}" in names[-1]


def test_an_older_journal_gets_a_uuid_and_keeps_it(directory):
    rig = opened(directory)
    uuid = rig.broker.ids.node.uuid
    assert len(uuid) == 16
    for stop in ("crash", "kill", "close"):  # one it would draw now is another: the lots went on
        rig.restart(stop)
        assert rig.broker.ids.node.uuid == uuid


@pytest.mark.parametrize("stop", ["close", "kill", "crash"])
def test_what_an_older_journal_kept_is_found_again_after_more_restarts(directory, stop):
    rig = opened(directory)
    rig.restart(stop)
    assert described(rig) == expected(directory)
    rig.restart("close")
    assert described(rig) == expected(directory)


def test_work_goes_on_where_the_older_version_left_it(directory):
    rig = opened(directory)
    assert rig.send("dup", "again", duplicate=b"id-2") == DUPLICATE
    assert rig.bodies("filtered") == ["f2"]
    rig.broker.branches.commit(b"\x01\x02branch")
    rig.turn()
    assert rig.bodies("sent") == ["sent by the branch"]
    assert rig.bodies("paid") == ["p2", "p3"]
    rig.broker.stages.publish("sink", 1, ["a"])
    rig.turn()
    rig.wait(10)
    assert rig.bodies("staged") == ["b0", "b1a1", "b1a2"]
    rig.wait(6 * 3_600_000)
    assert rig.bodies("later") == ["s1"]
    reader = rig.reader("topic://news", client_id="me", durable_name="plain")
    assert reader.take()[:3] == ["n1", "n2", "n3"]
    (group,) = [lease for lease in rig.broker.leases.held.values() if lease.group == "spark"]
    assert group.settle(rig.journal, group.epoch, 3) == 2
    rig.turn()
    assert rig.bodies("leased") == ["l4"]


# -- a start that is interrupted ---------------------------------------------------------------------------------------


def files_after_a_cut(files: dict[str, bytes], fuse: int, seed: int, monkeypatch) -> dict[str, bytes] | None:
    """Start on ``files`` until the machine stops at call ``fuse`` of the disk; None when it never came so far."""
    disks: list[FusedDisk] = []

    def fused(_, later):
        disks.append(FusedDisk(Lots(seed), later))
        disks[0].fuse = fuse
        return disks[0]

    with monkeypatch.context() as patched:
        patched.setattr(kit, "SimulatedDisk", fused)
        try:
            Rig(files=files)
            return None
        except PowerCut:
            disks[0].crash()
            return {name: bytes(content) for name, content in disks[0].medium.durable.items()}


def losses(directory: Path, monkeypatch, seeds: int = 4) -> list[tuple[int, int]]:
    """Interrupt the first start at each call of the disk, and return the cuts after which something is lost.

    The second start is interrupted at the same call, the third is not.
    """
    first = {path.name: path.read_bytes() for path in (directory / "data").rglob("*") if path.is_file()}
    lost = []
    for seed in range(seeds):
        fuse = 1
        while (files := files_after_a_cut(first, fuse, seed, monkeypatch)) is not None:
            files = files_after_a_cut(files, fuse, seed + 1, monkeypatch) or files
            if described(Rig(files=files)) != expected(directory):
                lost.append((fuse, seed))
            fuse += 1
        assert fuse > 3, "nothing was interrupted"
    return lost


def test_an_upgrade_that_a_crash_interrupts_loses_nothing(directory, monkeypatch):
    assert losses(directory, monkeypatch) == []


class InTwoSteps(JournalCore):
    """Writes a document anew by removing the old one first, in a batch of its own."""

    def put(self, kind: int, key: bytes, value: bytes) -> None:
        if kind == KIND_QUEUE:
            self.delete(kind, key)
            self.tail.hand_over()
        super().put(kind, key, value)


def test_an_upgrade_in_two_steps_would_be_found_out(monkeypatch):
    """The planted bug of the test before."""
    monkeypatch.setattr(kit, "JournalCore", InTwoSteps)
    assert losses(OLDER[0], monkeypatch)
