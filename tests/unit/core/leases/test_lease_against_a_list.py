"""Leases of one queue, driven at random over crashes, against plain lists: what waits, and each reader's ledger.

What a crash may undo is known exactly: everything since the last sync, from some point on. So the lists keep a snapshot
of each step since then, and after a crash the queue must be one of them.
"""

from __future__ import annotations

from copy import deepcopy

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from entrepot.base.errors import LeaseError
from entrepot.core.leases.lease import Lease
from entrepot.model.address import parse_one
from kit import Rig, body_of

GROUPS = st.sampled_from(["a", "b"])
SMALL = st.integers(0, 6)


class Row:
    """One message of the model. ``rank``: its place in the queue."""

    def __init__(self, body: str, rank: int, durable: bool) -> None:
        self.body = body
        self.rank = rank
        self.durable = durable

    def __repr__(self) -> str:
        return f"{self.body}@{self.rank}"


class Ledger:
    """One reader's."""

    def __init__(self) -> None:
        self.epoch = 0
        self.base = 0
        self.held: list[Row] = []

    @property
    def tail(self) -> int:
        return self.base + len(self.held)


class Model:
    """All that must be true."""

    def __init__(self) -> None:
        self.waiting: list[Row] = []
        self.ledgers: dict[str, Ledger] = {}

    def shown(self) -> tuple[object, ...]:
        ledgers = {
            group: (ledger.epoch, ledger.base, [row.body for row in ledger.held])
            for group, ledger in self.ledgers.items()
            if ledger.epoch
        }
        return [row.body for row in self.waiting], ledgers

    def restarted(self) -> Model:
        """What is left of it when the broker stops: nothing that is not persistent and waits."""
        self.waiting = [row for row in self.waiting if row.durable]
        return self


class LeasesAgainstLists(RuleBasedStateMachine):
    """Rules are what readers, producers and power cuts do."""

    @initialize(tiny=st.booleans(), seed=st.integers(0, 1000))
    def start(self, tiny: bool, seed: int) -> None:
        self.rig = Rig({"Q": {"max_octets": "1500" if tiny else "64m"}}, seed=seed, segment_bytes=4096)
        self.rig.broker.queues.need(parse_one("Q"))
        self.model = Model()
        self.rank = 0
        self.count = 0
        self.history: list[Model] = []
        self.sync()

    # -- helpers ------------------------------------------------------------------------------------------------------

    def sync(self) -> None:
        self.rig.sync()
        self.history = [deepcopy(self.model)]

    def did(self) -> None:
        self.rig.turn()
        self.history.append(deepcopy(self.model))

    def lease(self, group: str) -> Lease:
        return self.rig.broker.leases.need(parse_one("Q"), group, create=True)

    def ledger(self, group: str) -> Ledger:
        return self.model.ledgers.setdefault(group, Ledger())

    def next_rank(self) -> int:
        self.rank += 1
        return self.rank

    def actual(self) -> tuple[object, ...]:
        broker = self.rig.broker
        browser = broker.browse(parse_one("Q"), None)
        waiting: list[str] = []
        while not browser.done:
            waiting += [body_of(message) for message in browser.next(100)]
        ledgers = {}
        for (_, group), lease in broker.leases.held.items():
            if lease.epoch:
                found = lease.read(self.rig.journal, lease.epoch, lease.base, lease.tail)
                ledgers[group] = (lease.epoch, lease.base, [body_of(message) for message in found])
        return waiting, ledgers

    # -- what producers and consumers do ------------------------------------------------------------------------------

    @rule(count=st.integers(1, 5), durable=st.booleans())
    def send(self, count: int, durable: bool) -> None:
        for _ in range(count):
            self.count += 1
            body = str(self.count) + "." * (self.count % 300)
            self.rig.send("Q", body, durable=durable)
            self.model.waiting.append(Row(body, self.next_rank(), durable))
            self.did()

    @rule(count=st.integers(1, 4))
    def consume(self, count: int) -> None:
        reader = self.rig.reader("Q", count)
        got = reader.ack(count)
        reader.close()
        assert got[:count] == [row.body for row in self.model.waiting[: len(got)]]
        for _ in got:
            self.model.waiting.pop(0)
        self.history += [self.history[-1], deepcopy(self.model)]
        self.sync()  # the consumer looked at more than it settled: only the end is compared

    # -- what readers do ----------------------------------------------------------------------------------------------

    @rule(group=GROUPS)
    def attach(self, group: str) -> None:
        ledger = self.ledger(group)
        ledger.epoch += 1
        assert self.lease(group).attach(self.rig.journal, None) == ledger.epoch
        self.did()

    @rule(group=GROUPS, back=SMALL, most=SMALL)
    def claim(self, group: str, back: int, most: int) -> None:
        ledger = self.ledger(group)
        if not ledger.epoch:
            return
        start = max(ledger.base, ledger.tail - back)
        taken = self.model.waiting[: max(0, start + most - ledger.tail)]
        del self.model.waiting[: len(taken)]
        for row in taken:
            if not row.durable:
                row.durable = True  # what is leased is kept
                row.rank = self.next_rank()
        ledger.held += taken
        assert self.lease(group).claim(self.rig.journal, ledger.epoch, start, most) == min(ledger.tail, start + most)
        self.did()

    @rule(group=GROUPS, count=SMALL)
    def settle(self, group: str, count: int) -> None:
        ledger = self.ledger(group)
        if not ledger.epoch:
            return
        end = min(ledger.tail, ledger.base + count)
        assert self.lease(group).settle(self.rig.journal, ledger.epoch, end) == end - ledger.base
        del ledger.held[: end - ledger.base]
        ledger.base = end
        self.did()

    @rule(group=GROUPS)
    def release(self, group: str) -> None:
        ledger = self.ledger(group)
        if not ledger.epoch:
            return
        assert self.lease(group).release(self.rig.journal) == len(ledger.held)
        self.model.waiting = sorted(self.model.waiting + ledger.held, key=lambda row: row.rank)
        ledger.base = ledger.tail
        ledger.held = []
        ledger.epoch += 1
        self.did()

    @rule(group=GROUPS, low=SMALL, count=SMALL)
    def read(self, group: str, low: int, count: int) -> None:
        ledger = self.ledger(group)
        if not ledger.epoch:
            return
        start = ledger.base + low
        lease = self.lease(group)
        if start + count > ledger.tail:
            with pytest.raises(LeaseError):
                lease.read(self.rig.journal, ledger.epoch, start, start + count)
            return
        found = [body_of(message) for message in lease.read(self.rig.journal, ledger.epoch, start, start + count)]
        assert found == [row.body for row in ledger.held[low : low + count]]

    @rule(group=GROUPS, age=st.integers(1, 3))
    def stale(self, group: str, age: int) -> None:
        ledger = self.ledger(group)
        lease = self.lease(group)
        epoch = ledger.epoch - age
        for verb in (
            lambda: lease.claim(self.rig.journal, epoch, ledger.tail, 1),
            lambda: lease.read(self.rig.journal, epoch, ledger.base, ledger.base),
            lambda: lease.settle(self.rig.journal, epoch, ledger.tail),
        ):
            with pytest.raises(LeaseError):
                verb()

    # -- what breaks --------------------------------------------------------------------------------------------------

    @rule()
    def confirmed(self) -> None:
        self.sync()

    @precondition(lambda self: self.history)
    @rule(how=st.sampled_from(["close", "kill", "crash", "crash"]))
    def restart(self, how: str) -> None:
        self.rig.restart(how)
        if how == "crash":
            found = self.actual()
            candidates = [snapshot.restarted() for snapshot in self.history]
            same = [snapshot for snapshot in candidates if snapshot.shown() == found]
            assert same, f"{found} is none of {[snapshot.shown() for snapshot in candidates]}"
            self.model = deepcopy(same[-1])
        else:
            self.model.restarted()
        self.sync()

    @invariant()
    def compare(self) -> None:
        if hasattr(self, "rig"):
            assert self.actual() == self.model.shown()


LeasesAgainstLists.TestCase.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestLeasesAgainstLists = LeasesAgainstLists.TestCase


def test_what_a_lease_has_put_on_disk_keeps_its_place_in_the_next_lease() -> None:
    """A non-persistent message that one reader let go of is claimed again: it has its record, and its number."""
    state = LeasesAgainstLists()
    state.start(tiny=False, seed=0)
    for group in ("a", "b"):
        state.attach(group)
    state.send(1, False)
    state.claim("b", 0, 1)
    state.send(1, False)
    state.release("b")
    state.claim("a", 0, 1)
    state.release("a")
    state.compare()
