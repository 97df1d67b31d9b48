"""A lock in a register: whoever waits for it is told, and does not only look now and then."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from entrepot.base.environment import SECOND
from entrepot.ha.lease import LeaseOptions
from entrepot.io.leases import me, now
from entrepot.io.registers import RegisterLease, SqliteRegister, open_register

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


def test_a_database_that_does_not_answer_is_an_error_of_the_service(tmp_path: Path) -> None:
    alone = Contender(tmp_path, "alone")
    alone.register.read()
    alone.register.close()
    with pytest.raises(OSError, match="does not answer"):
        alone.register.pause(threading.Event(), 60.0)
