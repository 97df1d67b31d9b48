"""Which stores a backup may wait for, and what becomes of one that dies."""

from __future__ import annotations

import asyncio
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from clustered import Cluster
from entrepot.cluster.clusters.copied import Copy
from entrepot.cluster.clusters.hosted import Hosted
from entrepot.cluster.clusters.members import Credentials
from entrepot.config.clusters import PASSWORD
from entrepot.config.model import Colocation, Sharing
from entrepot.ha.lease import LeaseOptions
from entrepot.io import colocated
from entrepot.io.colocated import DEATHS_MAX, Colocated, Housing, closed_by, looked, unfit
from entrepot.io.hosted_copies import prepared
from entrepot.io.leases import LOCK, me
from entrepot.io.runtime import SystemClock
from entrepot.io.turns import Turn
from entrepot.protocols.artemis.membership import Onlooker
from entrepot.protocols.artemis.packets import BackupRequest

UNTIL_INPUT_ENDS = "import sys; sys.stdin.read()"
PATIENCE = 20.0  # s: nothing here takes a tenth of it on an idle machine


def store(path: Path, *, released: bool = False) -> Path:
    """Make a store whose lock has a record."""
    path.mkdir()
    record = me("other", store="s", options=LeaseOptions())
    record.epoch = 1
    record.released = released
    (path / LOCK).write_bytes(record.encode())
    return path


def test_a_store_must_have_a_master_by_a_lock_that_is_in_it(tmp_path: Path) -> None:
    good = store(tmp_path / "good")
    own = store(tmp_path / "own")
    (tmp_path / "link").symlink_to(own)
    (tmp_path / "empty").mkdir()
    assert unfit(str(good), str(own)) == ""
    assert unfit(str(own), str(own)) == unfit(str(tmp_path / "link"), str(own)) == "it is the store of this broker"
    assert unfit(str(store(tmp_path / "left", released=True)), str(own)) == "nobody is master of that store"
    assert "must be the same directory on both machines" in unfit(str(tmp_path / "empty"), str(own))
    assert "No such file" in unfit(str(tmp_path / "nowhere"), str(own))


def test_a_file_system_that_does_not_answer_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = threading.Event()
    monkeypatch.setattr(colocated, "LOOK_PATIENCE", 0.05)
    monkeypatch.setattr(colocated, "unfit", lambda directory, own: str(gate.wait()))
    assert "did not answer" in asyncio.run(looked(partial(colocated.unfit, "/a", "/b")))
    gate.set()


class Asking(Onlooker):
    """A node that asks; ``answered`` is set with its answer."""

    def __init__(self) -> None:
        self.answered: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def called(self) -> str:
        return "n1:1"

    def hosted(self, started: bool) -> None:
        self.answered.set_result(started)


def colocation(script: str, own: Path, password: str = "secret") -> Colocated:
    node = Cluster().node(0, [], credentials=Credentials("c", password))
    turn = Turn(asyncio.get_running_loop(), SystemClock())
    options = Colocation(backup=Sharing())
    housing = Housing(1, [sys.executable, "-c", script], str(own), closed=closed_by(password))
    return Colocated(turn, node.connection, options, housing, str(own))


async def ask(made: Colocated, directory: Path) -> bool:
    asking = Asking()
    made.housing.backups.asked(asking, BackupRequest(journal_dir=str(directory), node="n1"))
    return await asyncio.wait_for(asking.answered, PATIENCE)


def test_one_runs_until_the_node_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(colocated, "STARTING", 0.05)

    async def run() -> None:
        made = colocation(UNTIL_INPUT_ENDS, tmp_path)
        directory = store(tmp_path / "a")
        assert await ask(made, directory)
        assert await ask(made, directory)
        (facts,) = made.housing.backups.facts()
        assert (facts["state"], facts["restarts"], facts["directory"]) == ("runs", 0, str(directory))
        pid = facts["pid"]
        assert Path(f"/proc/{pid}").exists()
        await made.stop()
        assert not Path(f"/proc/{pid}").exists()
        assert made.facts() == {"backup": None, "hosts": [], "max": 1}

    asyncio.run(run())


def test_one_that_cannot_start_is_refused_and_not_tried_again(tmp_path: Path) -> None:
    async def run() -> None:
        made = colocation("raise SystemExit(3)", tmp_path)
        directory = store(tmp_path / "a")
        assert not await ask(made, directory)
        assert not await ask(made, directory)
        await made.stop()

    asyncio.run(run())


def test_one_that_dies_again_and_again_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(colocated, "PAUSE", 0.001)
    monkeypatch.setattr(colocated, "PAUSE_MOST", 0.001)

    async def run() -> None:
        made = colocation("raise SystemExit(3)", tmp_path)
        hosted = Hosted(str(store(tmp_path / "a")), "n1", 1)
        hosted.runs = True  # it was well once
        made.housing.backups.hosted[hosted.directory] = hosted
        made.housing.start(hosted)
        await asyncio.wait_for(asyncio.gather(*made.housing._tasks.values()), PATIENCE)
        assert made.housing.backups.hosted == {}
        assert hosted.restarts == DEATHS_MAX - 1
        assert not await ask(made, tmp_path / "a"), "and not started again at once"

    asyncio.run(run())


def test_one_that_ends_in_order_leaves_its_place(tmp_path: Path) -> None:
    async def run() -> None:
        made = colocation("pass", tmp_path)
        assert not await ask(made, store(tmp_path / "a"))
        assert made.housing.backups.hosted == {}

    asyncio.run(run())


def test_where_everybody_knows_the_password_nothing_is_started(tmp_path: Path) -> None:
    async def run() -> None:
        made = colocation(UNTIL_INPUT_ENDS, tmp_path, PASSWORD)
        assert not await ask(made, store(tmp_path / "a"))
        assert made.housing._tasks == {}

    asyncio.run(run())


def test_before_this_broker_serves_what_it_hosted_runs_and_is_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody asks a node that waits, and what it hosts may be the last copy of its store."""
    monkeypatch.setattr(colocated, "AGAIN", 0.05)
    begun = tmp_path / "begun"
    script = f"open({str(begun)!r}, 'a').write('x')"  # ends in order, as one does that is told to
    copy, own = Copy("a" * 32, "alice", "10.0.0.1:61620"), "b" * 32
    assert prepared(tmp_path, own, copy, "n1", 1) == ""

    async def run() -> None:
        housing = Housing(1, [sys.executable, "-c", script], str(tmp_path), store=lambda: own)
        housing.go_on()
        async with asyncio.timeout(PATIENCE):
            while not housing.backups.facts():  # its notes are read by a thread
                await asyncio.sleep(0.002)
        (facts,) = housing.backups.facts()
        assert (facts["of"], facts["number"], facts["node"]) == ("alice", 1, "n1")
        async with asyncio.timeout(PATIENCE):
            while not begun.exists() or len(begun.read_text()) < 2:
                await asyncio.sleep(0.02)
        await housing.stop()
        assert housing.facts() == {"backup": None, "hosts": [], "max": 1}

    asyncio.run(run())
