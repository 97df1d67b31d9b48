"""A lock in a register: whoever waits for it is told, and does not only look now and then."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from entrepot.base.environment import SECOND
from entrepot.ha.lease import LeaseOptions, decode
from entrepot.io.leases import me, now
from entrepot.io.registers import ALIVE, RegisterLease, SqliteRegister, open_register

OPTIONS = LeaseOptions(2 * SECOND)


class Contender:
    def __init__(self, data: Path, name: str) -> None:
        self.register = open_register(f"sqlite:{data}/lock.db", OPTIONS)
        self.lease = RegisterLease(self.register, data, me(name, store="", options=OPTIONS), OPTIONS)


def test_a_lock_in_sqlite_that_is_handed_back_ends_the_pause(tmp_path: Path) -> None:
    one, other = Contender(tmp_path, "one"), Contender(tmp_path, "other")
    assert one.lease.attempt(now()) is not None
    assert other.lease.attempt(now()) is None
    one.lease.release()  # before the pause: it is noticed all the same
    began = time.monotonic()
    other.lease.pause(threading.Event(), 60.0)
    assert time.monotonic() - began < 30.0
    assert other.lease.attempt(now()) is not None
    other.lease.release()
    for each in (one, other):
        each.lease.close()


def test_a_pause_in_which_nothing_happens_is_as_long_as_asked_for(tmp_path: Path) -> None:
    alone = Contender(tmp_path, "alone")
    assert isinstance(alone.register, SqliteRegister)
    assert alone.lease.attempt(now()) is not None
    alone.register.read()
    began = time.monotonic()
    alone.lease.renew()  # what we write ourselves is no news
    alone.lease.pause(threading.Event(), 0.03)
    assert time.monotonic() - began >= 0.03
    woken = threading.Event()
    woken.set()
    began = time.monotonic()
    alone.lease.pause(woken, 60.0)
    assert time.monotonic() - began < 30.0
    alone.lease.close()


def test_a_renewal_is_written_into_the_store_first(tmp_path: Path) -> None:
    holder = Contender(tmp_path, "holder")
    assert holder.lease.attempt(now()) is not None
    holder.lease.renew()
    written = decode((tmp_path / ALIVE).read_bytes())
    assert written is not None
    assert (written.name, written.beat) == ("holder", 2)
    holder.lease.close()


def test_a_store_that_cannot_be_written_costs_the_lease(tmp_path: Path) -> None:
    holder, waiting = Contender(tmp_path, "holder"), Contender(tmp_path, "waiting")
    assert holder.lease.attempt(now()) is not None
    version = holder.register.read()[1]
    os.close(holder.lease._alive)
    holder.lease._alive = os.open(tmp_path / ALIVE, os.O_RDONLY)  # writing to it fails, whoever the user is
    with pytest.raises(OSError, match="Bad file"):
        holder.lease.renew()
    assert holder.register.read()[1] == version, "nobody is told that the holder is well"
    holder.lease.release()
    (tmp_path / ALIVE).unlink()
    (tmp_path / ALIVE).mkdir()
    with pytest.raises(OSError, match="directory"):
        waiting.lease.attempt(now())
    for each in (holder, waiting):
        each.lease.close()


def test_a_store_that_is_full_does_not(tmp_path: Path) -> None:
    holder = Contender(tmp_path, "holder")
    (tmp_path / ALIVE).symlink_to("/dev/full")
    assert holder.lease.attempt(now()) is not None
    holder.lease.renew()
    holder.lease.close()


def test_a_database_that_does_not_answer_is_an_error_of_the_service(tmp_path: Path) -> None:
    alone = Contender(tmp_path, "alone")
    alone.register.read()
    alone.register.close()
    with pytest.raises(OSError, match="does not answer"):
        alone.register.pause(threading.Event(), 60.0)


def test_a_lock_that_is_deleted_is_free_only_when_its_last_holder_must_have_noticed(tmp_path: Path) -> None:
    one, other = Contender(tmp_path, "one"), Contender(tmp_path, "other")
    assert one.lease.attempt(now()) is not None, "nobody was ever master here"
    with sqlite3.connect(tmp_path / "lock.db") as somebody:
        somebody.execute("DELETE FROM entrepot_lock")
    began = now()
    assert other.lease.attempt(began) is None
    assert other.lease.attempt(began + OPTIONS.duration) is None
    grant = other.lease.attempt(began + 2 * OPTIONS.duration)
    assert grant is not None
    assert grant.epoch == 2
    assert "deleted" in grant.why
    other.lease.close()
