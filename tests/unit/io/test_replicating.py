"""A primary's side of replication in its process: what it tells the log, and what reaches it once it is over."""

from __future__ import annotations

import asyncio
import threading
import time
from types import SimpleNamespace
from typing import cast

import pytest

from entrepot.base.environment import MILLISECOND
from entrepot.base.errors import EntrepotError, Refused, StorageError
from entrepot.ha.catchup import CatchUp
from entrepot.ha.failback import RETURNS_MAX
from entrepot.ha.follower import Follower, Link, Stage
from entrepot.ha.lease import BACKUP
from entrepot.ha.mirror import Mirror
from entrepot.ha.options import SharedStoreOptions
from entrepot.ha.replication_options import ReplicationOptions
from entrepot.ha.standing import Standing
from entrepot.io.disk import Disk
from entrepot.io.replicating import STRANGERS_MAX, Hosting, _Gate, _Greeted
from entrepot.io.standby import Standby
from entrepot.simulation.disk import SimulatedDisk
from journals import Lots


def made(disk: object = None, *, drains: bool = False) -> Hosting:
    copy = SimpleNamespace(standing=Standing("a", store="s"))
    options = SharedStoreOptions(part=BACKUP, allow_failback=not drains, drains=drains)
    candidate = SimpleNamespace(gave_back=False)
    standby = SimpleNamespace(copy=copy, mine=SimpleNamespace(name="alpha"), options=options, candidate=candidate)
    mirror = Mirror(SimulatedDisk(Lots(1), lambda delay, action: action()))
    return Hosting(cast(Standby, standby), ReplicationOptions(listen="127.0.0.1:0"), mirror, cast(Disk, disk))


def test_what_is_read_for_replicas_when_all_is_over_concerns_nobody() -> None:
    """A stop during a catch-up asked a thread that had ended for the next piece, and the log had a traceback."""
    begun, goes_on = threading.Event(), threading.Event()

    def read(offset: int, length: int) -> bytes:
        begun.set()
        goes_on.wait(60)
        return b"octets"

    async def stopped() -> list[bytes | EntrepotError]:
        came: list[bytes | EntrepotError] = []
        hosting = made(SimpleNamespace(files=SimpleNamespace(reader=lambda *asked: read)))
        hosting.fetch("1.seg", 0, 6, came.append)
        assert await asyncio.to_thread(begun.wait, 60)
        thread = hosting._reading
        assert thread is not None
        hosting.stop()
        goes_on.set()
        await asyncio.to_thread(thread.shutdown)
        await asyncio.sleep(0)
        return came

    assert asyncio.run(stopped()) == []


class Stranger:
    def __init__(self, hosting: Hosting) -> None:
        self.hosting = hosting

    def turn_away(self) -> None:
        self.hosting.strangers.pop(cast(_Gate, self))


def test_strangers_that_come_and_come_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    hosting = made()
    for _ in range(STRANGERS_MAX + 40):
        hosting.come(cast(_Gate, Stranger(hosting)))
    assert len(hosting.strangers) == STRANGERS_MAX
    assert len(caplog.records) == len([1, 2, 4, 8, 16, 32])


def test_who_is_refused_and_comes_again_does_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def refuse(hosting: Hosting) -> None:
        for _ in range(40):
            _Greeted(hosting).refuse(Refused("it has another store"))

    asyncio.run(refuse(made()))
    assert len(caplog.records) == len([1, 2, 4, 8, 16, 32])
    assert "it has another store" in caplog.text


@pytest.mark.parametrize("writable", [True, False])
def test_a_store_is_given_back_once_that_is_on_disk_and_kept_where_it_cannot_be_noted(writable: bool) -> None:
    hosting = made()
    noted: list[list[int]] = []
    stops: list[str] = []

    def persist(standing: Standing) -> None:
        assert not hosting.standby.candidate.gave_back
        if not writable:
            raise StorageError("the disk is full", remedy="make room")
        noted.append(list(standing.returned))

    cast(SimpleNamespace, hosting.standby.copy).persist = persist
    hosting.asked = stops.append
    primary = Follower(cast(Link, None), "p", "omega", 0, CatchUp())
    hosting.asked_back(primary)
    assert not stops, "it is not in sync"
    primary.since = 0
    hosting.asked_back(primary)
    hosting.asked_back(primary)
    assert stops == (["the primary asks for its store back: omega"] if writable else [])
    assert hosting.standby.candidate.gave_back == writable
    assert len(noted) == (1 if writable else 0)


def test_who_serves_nobody_gives_the_store_back_at_once_and_always() -> None:
    hosting = made(drains=True)
    stops: list[str] = []
    hosting.asked = stops.append
    primary = Follower(cast(Link, None), "p", "omega", 0, CatchUp())
    hosting.asked_back(primary)
    assert not stops, "it is not in sync"
    hosting.standby.copy.standing.returned = [1 << 60] * RETURNS_MAX  # type: ignore[union-attr]
    primary.since = 0
    hosting.asked_back(primary)
    assert stops == ["the primary asks for its store back: omega"]
    assert hosting.standby.candidate.gave_back


def test_operators_see_how_often_a_store_was_given_back_and_why_it_is_kept() -> None:
    hosting = made()
    assert (hosting.facts()["returned"], hosting.facts()["withheld"]) == (0, "")
    hosting.returns.standing.returned = [time.time_ns() // MILLISECOND] * RETURNS_MAX
    assert hosting.facts()["returned"] == RETURNS_MAX
    assert "entrepot ha demote" in hosting.facts()["withheld"]


def test_clients_are_told_who_takes_over_once_the_lock_names_him() -> None:
    """Clients knew him at once, and the lock with its next renewal: who was killed in between had another successor."""
    hosting = made()
    asked: list[str] = []
    named = [""]

    def name(heir: str) -> str:
        asked.append(heir)
        return named[-1]

    told: list[object] = []
    hosting.standby.name = name  # type: ignore[method-assign]
    hosting.stands_in = told.append
    places = {"pair": "tcp://b:61616"}
    replica = Follower(cast(Link, None), "b", "beta", 0, CatchUp())
    replica.introduced({"connectors": places})
    replica.stage = Stage.IN_SYNC
    hosting.replication.followers.append(replica)
    hosting.replication.tick = lambda now: None  # type: ignore[method-assign]
    hosting._look()
    assert (asked, told) == (["b"], [])
    hosting._named("b")
    assert told == [places]
    named.append("b")
    hosting._look()
    assert told == [places]
    hosting.replication.followers.clear()
    hosting._look()
    assert told == [places], "the lock names him yet"
    hosting._named("")
    assert told == [places, {}]
