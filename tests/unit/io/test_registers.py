"""A lock in a register: whoever waits for it is told, and does not only look now and then."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from contending import Contender
from entrepot.base.environment import SECOND
from entrepot.ha.lease import LeaseOptions, decode
from entrepot.ha.options import SharedStoreOptions
from entrepot.io.leases import me, now
from entrepot.io.registers import ALIVE, RegisterLock, SqliteRegister, open_register

OPTIONS = LeaseOptions(2 * SECOND)


def contender(data: Path, name: str) -> Contender:
    mine = me(name, store="", options=OPTIONS)
    lock = RegisterLock(open_register(f"sqlite:{data}/lock.db", OPTIONS), data, mine)
    return Contender(data, lock, mine, SharedStoreOptions(lease=OPTIONS))


def test_a_lock_in_sqlite_that_is_handed_back_ends_the_pause(tmp_path: Path) -> None:
    one, other = contender(tmp_path, "one"), contender(tmp_path, "other")
    assert one.attempt(now()) is not None
    assert other.attempt(now()) is None
    one.release(now())  # before the pause: it is noticed all the same
    began = time.monotonic()
    other.lock.pause(threading.Event(), 60.0)
    assert time.monotonic() - began < 30.0
    assert other.attempt(now()) is not None
    other.release(now())
    for each in (one, other):
        each.close()


def test_a_pause_in_which_nothing_happens_is_as_long_as_asked_for(tmp_path: Path) -> None:
    alone = contender(tmp_path, "alone")
    assert isinstance(alone.lock._register, SqliteRegister)
    assert alone.attempt(now()) is not None
    alone.lock._register.read()
    began = time.monotonic()
    alone.renew(now())  # what we write ourselves is no news
    alone.lock.pause(threading.Event(), 0.03)
    assert time.monotonic() - began >= 0.03
    woken = threading.Event()
    woken.set()
    began = time.monotonic()
    alone.lock.pause(woken, 60.0)
    assert time.monotonic() - began < 30.0
    alone.close()


def test_a_renewal_is_written_into_the_store_first(tmp_path: Path) -> None:
    holder = contender(tmp_path, "holder")
    assert holder.attempt(now()) is not None
    holder.renew(now())
    written = decode((tmp_path / ALIVE).read_bytes())
    assert written is not None
    assert (written.name, written.beat) == ("holder", 2)
    holder.close()


def test_a_store_that_cannot_be_written_costs_the_lease(tmp_path: Path) -> None:
    holder, waiting = contender(tmp_path, "holder"), contender(tmp_path, "waiting")
    assert holder.attempt(now()) is not None
    version = holder.lock._register.read()[1]
    os.close(holder.lock._alive)
    holder.lock._alive = os.open(tmp_path / ALIVE, os.O_RDONLY)  # writing to it fails, whoever the user is
    with pytest.raises(OSError, match="Bad file"):
        holder.renew(now())
    assert holder.lock._register.read()[1] == version, "nobody is told that the holder is well"
    holder.release(now())
    (tmp_path / ALIVE).unlink()
    (tmp_path / ALIVE).mkdir()
    with pytest.raises(OSError, match="directory"):
        waiting.attempt(now())
    for each in (holder, waiting):
        each.close()


def test_a_store_that_is_full_does_not(tmp_path: Path) -> None:
    holder = contender(tmp_path, "holder")
    (tmp_path / ALIVE).symlink_to("/dev/full")
    assert holder.attempt(now()) is not None
    holder.renew(now())
    holder.close()


def test_a_database_that_does_not_answer_is_an_error_of_the_service(tmp_path: Path) -> None:
    alone = contender(tmp_path, "alone")
    alone.lock._register.read()
    alone.lock._register.close()
    with pytest.raises(OSError, match="does not answer"):
        alone.lock._register.pause(threading.Event(), 60.0)


def test_a_lock_that_is_deleted_is_free_only_when_its_last_holder_must_have_noticed(tmp_path: Path) -> None:
    one, other = contender(tmp_path, "one"), contender(tmp_path, "other")
    assert one.attempt(now()) is not None, "nobody was ever master here"
    with sqlite3.connect(tmp_path / "lock.db") as somebody:
        somebody.execute("DELETE FROM entrepot_lock")
    began = now()
    assert other.attempt(began) is None
    assert other.attempt(began + OPTIONS.duration) is None
    grant = other.attempt(began + 2 * OPTIONS.duration)
    assert grant is not None
    assert grant.epoch == 2
    assert "deleted" in grant.why
    other.close()
