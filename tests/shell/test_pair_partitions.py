"""A pair and its voters on machines of their own, whose network is cut in every shape: never two masters.

Machines are network namespaces, which takes root. One shape is tried always; `PAIR_ROUNDS=50` for all, fifty rounds.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from entrepot.io.ledger import Ledger
from pairs import ROUNDS, Producer, kept, until
from voters import FarBroker, Machines, Watcher, WitnessProcess, locker

QUEUE = "/queue/parted"

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("ip") is None, reason="making network namespaces takes root, and ip of iproute2"
)

thorough = pytest.mark.skipif("PAIR_ROUNDS" not in os.environ, reason="half a minute each: PAIR_ROUNDS=1")

Cuts = tuple[tuple[str, str], ...]


@pytest.fixture
def machines() -> Iterator[Machines]:
    made = Machines("a", "b", "w")
    yield made
    made.close()


class Site:
    """Two brokers, a voter beside each and one elsewhere, a producer, and somebody who watches."""

    def __init__(self, machines: Machines, place: Path) -> None:
        self.machines = machines
        self.data = place / "data"
        self.voters = [
            WitnessProcess(place, f"v{name}", host=machines.host(name), inside=machines.inside(name))
            for name in ("a", "b", "w")
        ]
        more = (*locker(self.voters), "--lease-duration", "2")
        self.a = FarBroker(machines, "a", self.data, place, *more)
        until(self.a.serves, "a serves")
        self.b = FarBroker(machines, "b", self.data, place, *more)
        until(self.b.waits, "b waits")
        self.watcher = Watcher([self.a, self.b])
        self.producer = Producer([self.a.port, self.b.port], QUEUE, hosts=[self.a.host, self.b.host])
        self.producer.flow(50)

    def stays(self, broker: FarBroker) -> None:
        """``broker`` goes on renewing its lease, for longer than that lasts."""
        before = self.renewals(broker)
        until(lambda: self.renewals(broker) > before + 7, "it renews its lease again and again")

    @staticmethod
    def renewals(broker: FarBroker) -> int:
        return int(broker.facts().get("master", {}).get("renewals", 0))

    def cut(self, *ways: tuple[str, str]) -> None:
        for sender, receiver in ways:
            self.machines.cut(sender, receiver)

    def master(self) -> FarBroker:
        found = [each for each in (self.a, self.b) if each.serves()]
        return found[0] if len(found) == 1 else self.master()

    def quiet(self) -> None:
        """Everything is well again: one serves, the other waits."""
        self.machines.heal()
        until(lambda: sorted([self.a.role(), self.b.role()]) == ["backup", "primary"], "one serves, one waits")

    def end(self) -> None:
        self.producer.flow(50)
        self.producer.stop()
        self.watcher.stop()
        assert self.watcher.wrong() == []
        master = self.master()
        kept(self.producer, master.port, master.host)
        epochs = [line["epoch"] for line in Ledger(self.data).read() if line["event"] == "master"]
        assert epochs == sorted(set(epochs))

    def clear(self) -> None:
        self.producer.stop()
        self.watcher.stop()
        for each in (self.a, self.b, *self.voters):
            each.clear()


@pytest.fixture
def site(machines: Machines, tmp_path: Path) -> Iterator[Site]:
    made = Site(machines, tmp_path)
    yield made
    made.clear()


def both(one: str, other: str) -> Cuts:
    return ((one, other), (other, one))


@pytest.mark.timeout(240)
def test_a_master_that_is_cut_off_is_replaced_and_one_with_a_voice_more_is_not(site: Site) -> None:
    # The two do not see each other, and the third sees both: whoever is master stays it.
    site.cut(*both("a", "b"))
    site.stays(site.a)
    assert not site.b.serves()
    # Neither does the backup see the third: it has no majority, and the master has.
    site.cut(*both("b", "w"))
    site.stays(site.a)
    assert not site.b.serves()
    site.quiet()
    # The master sees nobody: it stops by itself, and the other one takes over.
    site.cut(*both("a", "b"), *both("a", "w"))
    until(site.b.serves, "b takes over")
    until(lambda: not site.a.serves(), "a has stopped")
    site.producer.flow(50)
    site.quiet()
    assert site.b.serves()
    site.end()


@thorough
@pytest.mark.timeout(240)
@pytest.mark.parametrize("way", ["nothing gets out", "nothing gets in"])
def test_a_wire_that_is_cut_in_one_direction(site: Site, way: str) -> None:
    cuts = (("a", "b"), ("a", "w")) if way == "nothing gets out" else (("b", "a"), ("w", "a"))
    site.cut(*cuts)
    until(site.b.serves, "b takes over")
    until(lambda: not site.a.serves(), "a has stopped")
    site.producer.flow(50)
    site.quiet()
    site.end()


@thorough
@pytest.mark.timeout(60 + 60 * ROUNDS)
def test_wires_that_come_and_go(site: Site) -> None:
    lots = random.Random(16)
    names = ("a", "b", "w")
    for _ in range(4 * ROUNDS):
        ways = [(one, other) for one in names for other in names if one != other and lots.random() < 0.4]
        site.cut(*ways)
        at = len(site.watcher.seen)
        end = lots.choice((5, 20, 60, 150))
        until(lambda at=at, end=end: len(site.watcher.seen) >= at + end or _nobody(site), "it went on for a while")
        site.machines.heal()
    site.quiet()
    site.end()


def _nobody(site: Site) -> bool:
    return not site.a.serves() and not site.b.serves()
