"""A ring, a last-value queue, or both, driven at random, against a list that follows artemis.md 4.5.

The list knows what waits and what each reader holds. A reader gets the head of what waits, always; what comes back
waits again unless a newer value of its key came, and pushes the head out of a full ring. After a crash all that is
durable and was not settled waits, of each key the newest, in the order in which it came.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kit import Reader, Rig

KEYS = ["", "a", "b", "c"]


class Row:
    """One message of the model."""

    def __init__(self, number: int, key: str, durable: bool) -> None:
        self.number = number
        self.body = str(number)
        self.key = key
        self.durable = durable


class KeepingAgainstList(RuleBasedStateMachine):
    """Rules are what sessions do; the invariant compares."""

    @initialize(
        tiny=st.booleans(),
        ring=st.sampled_from([-1, 1, 3, 6]),
        last=st.booleans(),
        seed=st.integers(0, 1000),
    )
    def start(self, tiny: bool, ring: int, last: bool, seed: int) -> None:
        chosen = {
            "max_octets": "700" if tiny else "64m",
            "prioritized": "false",
            "max_deliveries": "-1",
            "ring_size": str(ring),
            "last_value": str(last).lower(),
        }
        self.rig = Rig({"Q": chosen}, seed=seed, segment_bytes=4096)
        self.ring = ring
        self.last = last
        self.count = 0
        self.rows: dict[str, Row] = {}
        self.waiting: list[Row] = []
        self.newest: dict[str, Row] = {}
        self.held: dict[int, list[Row]] = {}
        self.readers: list[Reader] = []
        self.rig.send("Q", "first")
        assert self.rig.bodies("Q") == ["first"]
        self.rig.handed.clear()

    # -- the rules of the specification -------------------------------------------------------------------------------

    def gone(self, row: Row) -> None:
        if self.newest.get(row.key) is row:
            del self.newest[row.key]

    def trim(self) -> None:
        while 0 <= self.ring < len(self.waiting):
            self.gone(self.waiting.pop(0))

    def come(self, row: Row) -> None:
        if self.last and row.key:
            self.waiting = [one for one in self.waiting if one.key != row.key]
            self.newest[row.key] = row
        self.waiting.append(row)

    def come_back(self, row: Row) -> None:
        if self.last and row.key:
            newest = self.newest.get(row.key)
            if newest is not None and newest.number > row.number:
                return
            self.newest[row.key] = row
            self.waiting = [one for one in self.waiting if one.key != row.key]
        self.waiting.append(row)
        self.waiting.sort(key=lambda one: one.number)
        self.trim()

    def look(self) -> None:
        """Take what was delivered: each time the head."""
        for reader, delivery in self.rig.handed:
            row = self.rows[delivery.body]
            assert self.waiting, f"{row.body} was delivered and does not wait"
            assert self.waiting[0] is row, f"{row.body} was delivered before {self.waiting[0].body}"
            del self.waiting[0]
            self.held[id(reader)].append(row)
        self.rig.handed.clear()
        for reader in self.readers:
            reader.deliveries.clear()

    # -- what happens -------------------------------------------------------------------------------------------------

    @rule(key=st.sampled_from(KEYS), durable=st.booleans(), count=st.integers(1, 5))
    def send(self, key: str, durable: bool, count: int) -> None:
        for _ in range(count):
            self.count += 1
            row = Row(self.count, key, durable)
            self.rows[row.body] = row
            self.come(row)
            fields: dict[str, Any] = {"properties": {"_AMQ_LVQ_NAME": key}} if key else {}
            self.rig.send("Q", row.body, durable=durable, **fields)
            self.look()
            self.trim()

    @precondition(lambda self: len(self.readers) < 3)
    @rule(prefetch=st.integers(1, 4))
    def attach(self, prefetch: int) -> None:
        reader = Reader(self.rig, "Q", -1)
        self.held[id(reader)] = []
        reader.prefetch = prefetch
        reader.tracked = True
        self.rig.readers.append(reader)
        self.readers.append(reader)
        self.rig.broker.subscribe(reader)
        reader.window.reopen()
        self.rig.turn()
        self.look()

    @precondition(lambda self: bool(self.readers))
    @rule(which=st.integers(0, 2), count=st.integers(1, 3))
    def acknowledge(self, which: int, count: int) -> None:
        reader = self.readers[which % len(self.readers)]
        held = self.held[id(reader)]
        for row in held[:count]:
            self.gone(row)
        del held[:count]
        reader.ack(min(count, len(reader.open)))
        self.look()

    @precondition(lambda self: any(self.held.values()))
    @rule(which=st.integers(0, 2))
    def give_back(self, which: int) -> None:
        holders = [reader for reader in self.readers if self.held[id(reader)]]
        reader = holders[which % len(holders)]
        self.come_back(self.held[id(reader)].pop(0))
        reader.give_back()
        self.look()

    @precondition(lambda self: bool(self.readers))
    @rule(which=st.integers(0, 2))
    def leave(self, which: int) -> None:
        reader = self.readers.pop(which % len(self.readers))
        for row in self.held.pop(id(reader)):
            self.come_back(row)
        reader.close()
        self.look()

    @rule(how=st.sampled_from(["kill", "crash"]))
    def restart(self, how: str) -> None:
        left = [row for row in (*self.waiting, *(row for held in self.held.values() for row in held)) if row.durable]
        left.sort(key=lambda one: one.number)
        self.readers.clear()
        self.held.clear()
        self.newest.clear()
        self.waiting.clear()
        for row in left:
            self.come(row)
        self.trim()
        self.end(how)
        self.rig.handed.clear()

    def end(self, how: str) -> None:
        """An acknowledgement that is not synced may be lost with the machine; here all is, before it crashes."""
        if how == "crash":
            self.rig.broker.ids.secure()
            self.rig.turn()
        self.rig.restart(how)

    @invariant()
    def counts_agree(self) -> None:
        if hasattr(self, "rig"):
            assert self.rig.queue("Q").count == len(self.waiting) + sum(map(len, self.held.values()))

    def teardown(self) -> None:
        if not hasattr(self, "rig"):
            return
        while self.readers:
            self.leave(0)
        assert self.rig.bodies("Q") == [row.body for row in self.waiting]
        assert self.rig.broker.memory.used == 0
        self.end("crash")
        assert self.rig.queue("Q").count == 0


TestKeepingAgainstList = KeepingAgainstList.TestCase
TestKeepingAgainstList.settings = settings(
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
