"""Two broker processes on one directory: who serves, who waits, and what a client was promised, whatever happens."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from entrepot.io.ledger import Ledger
from pairs import PATIENCE, BrokerProcess, Connection, Producer, drain, until

Start = Callable[..., BrokerProcess]
QUEUE = "/queue/pair"
ROUNDS = int(os.environ.get("PAIR_ROUNDS", "2"))
"""Rounds under load of each kind; `PAIR_ROUNDS=50` is what a release is tested with."""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    made: list[BrokerProcess] = []

    def begin(name: str, *more: str, data: Path | None = None) -> BrokerProcess:
        made.append(BrokerProcess(tmp_path / "data" if data is None else data, name, tmp_path, *more))
        return made[-1]

    yield begin
    for broker in made:
        broker.clear()


def pair(start: Start, *more: str) -> tuple[BrokerProcess, BrokerProcess]:
    master = start("alpha", *more)
    until(master.serves, "alpha serves")
    backup = start("beta", *more)
    until(backup.waits, "beta waits")
    return master, backup


def settled(one: BrokerProcess, other: BrokerProcess, after: int = 0) -> None:
    """Wait until one serves, with an epoch above ``after``, and one waits."""

    def true() -> bool:
        facts = sorted([one.facts(), other.facts()], key=lambda each: str(each.get("role")))
        roles = [each.get("role") for each in facts]
        epoch = facts[1].get("master", {}).get("epoch", 0)  # missing in the moment in which the lease is lost
        return roles == ["backup", "primary"] and epoch > after

    until(true, f"one serves with an epoch above {after}, one waits")


def kept(producer: Producer, port: int) -> None:
    """Everything receipted is there exactly once; what broke off may be there or not."""
    found = drain(port, producer.queue)
    missing = [body for body in producer.promised if body not in found]
    twice = [body for body, times in found.items() if times > 1]
    strange = [body for body in found if body not in producer.promised and body not in producer.doubtful]
    assert not missing, f"{len(missing)} of {len(producer.promised)} promised are lost: {missing[:5]}"
    assert not twice, f"{len(twice)} came twice: {twice[:5]}"
    assert not strange


def test_the_backup_opens_no_port_and_says_who_is_master(start: Start) -> None:
    master, backup = pair(start)
    with pytest.raises(ConnectionRefusedError):
        Connection(backup.port)
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
    assert backup.resident() <= 40 * 1024 * 1024


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
    for _ in range(ROUNDS):
        producer.flow(200)
        first.pause()
        until(second.serves, "the backup takes over")
        producer.flow(200)
        first.resume()
        until(first.waits, "the old master is a backup")
        first, second = second, first
    producer.stop()
    assert "is not the master any more" in second.text()
    kept(producer, first.port)


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


def test_of_two_started_at_once_one_serves(start: Start) -> None:
    for turn in range(ROUNDS):
        one, other = start(f"one{turn}"), start(f"other{turn}")
        settled(one, other)
        one.clear()
        other.clear()


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
