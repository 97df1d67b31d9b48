"""Two broker processes on one directory: who serves, who waits, and what a client was promised, whatever happens."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from entrepot.cli.serving import serve_alone
from entrepot.ha.options import SharedStoreOptions
from entrepot.ha.role import Role
from entrepot.io.ledger import Ledger
from entrepot.io.standby import Standby
from entrepot.node_options import NodeOptions
from pairs import (
    PATIENCE,
    ROUNDS,
    ROUNDS_SLOW,
    BrokerProcess,
    Connection,
    Producer,
    Start,
    kept,
    pair,
    settled,
    stand_still,
    until,
)

QUEUE = "/queue/pair"


def test_the_backup_opens_no_port_and_says_who_is_master(start: Start) -> None:
    master, backup = pair(start)
    with pytest.raises(ConnectionRefusedError):
        Connection(backup.port)
    until(lambda: "master" in backup.facts(), "it has looked at the lock")  # it is a backup before its first look
    facts = backup.facts()
    assert facts["ready"] is False
    assert facts["master"]["broker"] == "alpha"
    assert facts["master"]["pid"] == master.process.pid
    assert facts["master"]["epoch"] == 1
    until(lambda: "is locked by another server, broker alpha" in backup.text(), "the log says so")
    assert "slave mode" in backup.text()


def test_the_backup_is_small(start: Start) -> None:
    _, backup = pair(start)
    time.sleep(1.0)  # it has loaded what it loads ahead
    assert backup.waits()
    assert backup.resident() <= 40_000_000


def test_a_broker_loads_nothing_that_few_need() -> None:
    """Each costs a waiting broker 0.2 to 1 MB: passwords, PKCS#12, XML in messages, HTTP, misspelt options."""
    code = "import sys, entrepot.node; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = out.stdout.split()
    assert "entrepot.io.tls" in loaded
    assert not [
        each for each in ("h11", "hashlib", "tempfile", "shutil", "xml.parsers.expat", "difflib") if each in loaded
    ]


@pytest.mark.timeout(60 + 30 * ROUNDS)
def test_kill_9_under_load_loses_nothing(start: Start, tmp_path: Path) -> None:
    brokers = list(pair(start))
    producer = Producer([one.port for one in brokers], QUEUE)
    for turn in range(ROUNDS):
        producer.flow(200)
        master, backup = brokers
        master.kill()
        until(backup.serves, "the backup takes over")
        reborn = start(f"again{turn}")
        producer.ports = [backup.port, reborn.port]
        until(reborn.waits, "the dead one returns as a backup")
        brokers = [backup, reborn]
    producer.stop()
    kept(producer, brokers[0].port)
    epochs = [line["epoch"] for line in Ledger(tmp_path / "data").read() if line["event"] == "master"]
    assert epochs == list(range(1, ROUNDS + 2))


@pytest.mark.timeout(60 + 30 * ROUNDS)
def test_a_master_that_was_paused_finds_out_and_becomes_the_backup(start: Start) -> None:
    first, second = pair(start, "--lease-duration", "1")
    producer = Producer([first.port, second.port], QUEUE)
    first, second = stand_still(producer, first, second, ROUNDS)
    producer.stop()
    assert "is not the master any more" in second.text()
    kept(producer, first.port)


def test_who_loses_the_lease_while_the_journal_is_read_back_begins_anew(tmp_path: Path) -> None:
    shared = SharedStoreOptions()

    async def main() -> None:
        standby = Standby(tmp_path, "alpha", shared)
        await standby.win()
        standby.tenure.lose("it stood still")  # what reads the journal back finds out, at its end
        options = NodeOptions(name="alpha", data=tmp_path, shared=shared, listen=["stomp://127.0.0.1:0"])
        assert await serve_alone(options, standby, None), "it begins anew"
        assert standby.role.role is Role.FENCED

    asyncio.run(main())
    assert [line["event"] for line in Ledger(tmp_path).read()] == ["master", "lost"], "what is lost is not handed over"


@pytest.mark.timeout(60 + 30 * ROUNDS)
@pytest.mark.parametrize("how", ["deleted", "replaced", "touched"])
def test_a_lock_file_that_is_tampered_with_stops_the_holder(start: Start, tmp_path: Path, how: str) -> None:
    first, second = pair(start, "--lease-duration", "1")
    producer = Producer([first.port, second.port], QUEUE)
    lock = tmp_path / "data" / "LOCK"
    for _ in range(ROUNDS):
        producer.flow(100)
        epoch = first.facts()["master"]["epoch"] if first.serves() else second.facts()["master"]["epoch"]
        if how == "deleted":
            lock.unlink()
        elif how == "replaced":
            copy = lock.with_name("copy")
            copy.write_bytes(lock.read_bytes())
            copy.replace(lock)
        else:
            os.utime(lock)
        settled(first, second, epoch)
    producer.stop()
    kept(producer, first.port if first.serves() else second.port)


def test_a_graceful_stop_hands_over_at_once(start: Start, tmp_path: Path) -> None:
    master, backup = pair(start)
    time.sleep(1.0)
    producer = Producer([master.port, backup.port], QUEUE, window=1)
    producer.flow(20)
    assert master.stop() == 0
    until(backup.serves, "the backup takes over")
    producer.flow(1)
    producer.stop()
    kept(producer, backup.port)
    events = [(line["event"], line["broker"]) for line in Ledger(tmp_path / "data").read()]
    assert events == [("master", "alpha"), ("released", "alpha"), ("master", "beta")]
    assert "handed over" in Ledger(tmp_path / "data").read()[-1]["why"]
    codes = [re.findall("AMQ2210(?:07|10)", broker.text()) for broker in (master, backup)]
    assert codes == [["AMQ221007"], ["AMQ221010"]]


@pytest.mark.timeout(60 + 30 * ROUNDS)
def test_of_two_started_at_once_one_serves(start: Start) -> None:
    for turn in range(2 * ROUNDS if ROUNDS > 2 else 1):
        one, other = start(f"one{turn}"), start(f"other{turn}")
        settled(one, other)
        one.clear()
        other.clear()


@pytest.mark.timeout(60 + 30 * ROUNDS)
def test_any_order_of_starts_and_stops_ends_with_one_master(start: Start, tmp_path: Path) -> None:
    """Whatever is stopped, killed and started when; and the ledger tells afterwards what happened."""
    lots = random.Random(20)
    running: dict[str, BrokerProcess] = {}
    ended: dict[int, str] = {}  # process -> how
    served: dict[int, str] = {}  # epoch -> who was seen with it
    for _ in range(ROUNDS_SLOW):
        for _ in range(lots.randint(2, 5)):
            name = lots.choice(("alpha", "beta", "gamma"))
            broker = running.pop(name, None)
            if broker is None:
                running[name] = start(name)
            elif lots.random() < 0.5:
                broker.kill()
                ended[broker.process.pid] = "killed"
            else:
                # Before it listens to signals, one ends it as a kill does.
                ended[broker.process.pid] = "stopped" if broker.stop() == 0 else "killed"
            time.sleep(lots.choice((0.0, 0.0, 0.1, 0.6)))
        for name in ("alpha", "beta"):
            if name not in running:
                running[name] = start(name)
        masters: list[str] = []
        until(lambda found=masters: _roles(running, found), "one serves, all others wait")
        facts = running[masters[0]].facts()["master"]
        served[facts["epoch"]] = masters[0]
    lines = Ledger(tmp_path / "data").read()
    tenures = [line for line in lines if line["event"] == "master"]
    assert [line["epoch"] for line in tenures] == list(range(1, len(tenures) + 1))
    assert {line["epoch"]: line["broker"] for line in tenures}.items() >= served.items()
    for before, after in itertools.pairwise(tenures):
        handed = any(line["event"] == "released" and line["epoch"] == before["epoch"] for line in lines)
        assert ("handed over" in after["why"]) == handed, after
        assert before["broker"] in after["why"], after
        assert handed == (ended[before["pid"]] == "stopped"), f"{before} was {ended[before['pid']]}"


def _roles(running: dict[str, BrokerProcess], masters: list[str]) -> bool:
    roles = {name: broker.role() for name, broker in running.items()}
    masters[:] = [name for name, role in roles.items() if role == "primary"]
    return len(masters) == 1 and list(roles.values()).count("backup") == len(roles) - 1


def test_a_waiting_broker_stops_when_asked(start: Start) -> None:
    _, backup = pair(start)
    assert backup.stop() == 0


def test_the_same_name_twice_is_refused(start: Start) -> None:
    master = start("alpha", "--lease-duration", "1")
    until(master.serves, "alpha serves")
    twin = start("alpha", "--lease-duration", "1")
    assert twin.process.wait(PATIENCE) == 2
    assert "is called alpha, too" in twin.text()
    assert master.serves()


def test_a_lock_of_another_store_is_refused(start: Start, tmp_path: Path) -> None:
    locker = ("--locker", f"sqlite:{tmp_path}/lock.db")
    master = start("alpha", *locker)
    until(master.serves, "alpha serves")
    stranger = start("beta", *locker, data=tmp_path / "elsewhere")
    assert stranger.process.wait(PATIENCE) == 2
    assert "another store" in stranger.text()


def test_a_directory_that_cannot_be_made_is_refused(start: Start, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    broker = start("alpha", data=tmp_path / "file" / "data")
    assert broker.process.wait(PATIENCE) == 1
    assert "cannot be written" in broker.text()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--lease-duration", "0.1"), "0.1 is not in the range"),
        (("--lease-duration", "0.2", "--locker", "nothing:"), "there is no locker 'nothing'"),
        (("--locker", "zookeeper:///path"), "names no server"),
        (("--status", "8162"), "is not HOST:PORT"),
        (("--ephemeral",), "--data has no meaning"),
    ],
)
def test_what_cannot_work_is_refused(start: Start, options: tuple[str, ...], told: str) -> None:
    broker = start("alpha", *options)
    assert broker.process.wait(PATIENCE) == 2
    assert told in broker.text()


@pytest.mark.skipif(os.geteuid() == 0 and shutil.which("setpriv") is None, reason="root may write everywhere")
def test_a_lock_directory_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "data"
    place.mkdir(mode=0o555)
    for each in (tmp_path, *tmp_path.parents):
        if os.geteuid() == 0 and each.stat().st_uid == 0 and each != Path("/"):
            each.chmod(each.stat().st_mode | 0o055)
    command = [sys.executable, "-m", "entrepot", "run", "--ha", "shared-store", "--data", str(place)]
    if os.geteuid() == 0:
        command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--reuid=65534", "--clear-groups", *command]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if "Permission denied" in done.stderr and "entrepot" not in done.stderr:
        pytest.skip("nobody may not run the interpreter of this machine")
    assert done.returncode == 1, done.stderr
    assert "cannot be written: Permission denied" in done.stderr
    assert "let the user who runs the broker write it" in done.stderr


def test_sqlite_locker_takes_over_after_the_lease_and_at_once_after_a_stop(start: Start, tmp_path: Path) -> None:
    master, backup = pair(start, "--locker", f"sqlite:{tmp_path}/lock.db", "--lease-duration", "1")
    producer = Producer([master.port, backup.port], QUEUE)
    producer.flow(200)
    master.kill()
    until(backup.serves, "the backup takes over")
    third = start("gamma", "--locker", f"sqlite:{tmp_path}/lock.db", "--lease-duration", "1")
    until(third.waits, "gamma waits")
    producer.ports = [backup.port, third.port]
    backup.stop()
    until(third.serves, "gamma takes over")
    producer.stop()
    kept(producer, third.port)


def test_the_ledger_is_printed(start: Start, tmp_path: Path) -> None:
    master, backup = pair(start)
    master.kill()
    until(backup.serves, "the backup takes over")
    command = [sys.executable, "-m", "entrepot", "ha", "history", str(tmp_path / "data")]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "alpha" in text
    assert "ended without handing over" in text
    rows = subprocess.run([*command, "--output", "json"], capture_output=True, text=True, check=True).stdout
    assert [json.loads(line)["epoch"] for line in rows.splitlines()] == [1, 2]
    status = [sys.executable, "-m", "entrepot", "ha", "status", str(tmp_path / "data")]
    assert "beta" in subprocess.run(status, capture_output=True, text=True, check=True).stdout
