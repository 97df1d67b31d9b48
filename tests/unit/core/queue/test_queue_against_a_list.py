"""One queue, driven at random, against a plain list that follows the rules of the specification.

The list knows what waits (in order of priority, then number) and what each consumer holds. It does not predict which of
several willing consumers gets a message; it demands that whatever happens is allowed: that each delivery is the first
that waits among those its consumer may have, counts deliveries, and at rest nobody who could take something waits.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from kit import Reader, Rig

SELECTORS = {"": None, "colour = 'red'": "red", "colour = 'blue'": "blue"}


class Row:
    """One message of the model."""

    def __init__(self, key: int, priority: int, colour: str, durable: bool) -> None:
        self.key = key
        self.body = str(key)
        self.priority = priority
        self.colour = colour
        self.durable = durable
        self.deliveries = 0
        self.group = ""

    @property
    def rank(self) -> tuple[int, int]:
        return (-self.priority, self.key)


class QueueAgainstList(RuleBasedStateMachine):
    """Rules are what sessions and operators do; the invariant compares."""

    readers = Bundle("readers")

    @initialize(
        full=st.sampled_from(["tiny", "roomy"]),
        prioritized=st.booleans(),
        limit=st.sampled_from([-1, 2, 3]),
        exclusive=st.sampled_from(["false", "false", "true"]),
        seed=st.integers(0, 1000),
    )
    def start(self, full: str, prioritized: bool, limit: int, exclusive: str, seed: int) -> None:
        self.rig = Rig(
            {
                "Q": {
                    "max_octets": "1500" if full == "tiny" else "64m",
                    "prioritized": str(prioritized),
                    "max_deliveries": str(limit),
                    "exclusive": exclusive,
                }
            },
            seed=seed,
            segment_bytes=4096,
        )
        self.prioritized = prioritized
        self.limit = limit
        self.count = 0
        self.rows: dict[str, Row] = {}  # everything that is in the queue
        self.waiting: list[Row] = []
        self.held: dict[int, dict[str, Row]] = {}  # reader -> body -> row
        self.dead: list[str] = []
        self.paused = False
        self.list: list[Reader] = []
        self.owners: dict[str, Reader] = {}
        self.rig.broker.queues.need(__import__("entrepot.model.address", fromlist=["x"]).parse_one("Q"))

    # -- what happens -------------------------------------------------------------------------------------------------

    @rule(
        priority=st.integers(0, 9),
        colour=st.sampled_from(["red", "blue"]),
        durable=st.booleans(),
        count=st.integers(1, 8),
        group=st.sampled_from(["", "", "", "g", "h"]),
    )
    def send(self, priority: int, colour: str, durable: bool, count: int, group: str) -> None:
        for _ in range(count):
            row = Row(self.count, priority if self.prioritized else 4, colour, durable)
            self.count += 1
            row.group = group
            self.rows[row.body] = row
            self.waiting.append(row)
            self.waiting.sort(key=lambda each: each.rank)
            fields: dict[str, Any] = {"group": group} if group else {}
            self.rig.send("Q", row.body, priority=priority, durable=durable, properties={"colour": colour}, **fields)
            self.look()

    @rule(
        target=readers,
        prefetch=st.integers(1, 6),
        selector=st.sampled_from(list(SELECTORS)),
        priority=st.integers(0, 1),
    )
    def attach(self, prefetch: int, selector: str, priority: int) -> Any:
        if len(self.list) >= 4:
            return multiple()
        reader = self.rig.reader("Q", prefetch, selector=selector, priority=priority)
        reader.wanted = SELECTORS[selector]  # type: ignore[attr-defined]
        self.list.append(reader)
        self.held[id(reader)] = {}
        self.look()
        return reader

    def next_of(self, reader: Reader) -> Row | None:
        if reader.closed or not reader.open:
            return None
        return self.held[id(reader)].pop(reader.open[0].body)

    @rule(reader=readers)
    def settle(self, reader: Reader) -> None:
        row = self.next_of(reader)
        if row is not None:
            del self.rows[row.body]
            reader.ack(1)
            self.look()

    @rule(reader=readers)
    def reject(self, reader: Reader) -> None:
        row = self.next_of(reader)
        if row is not None:
            del self.rows[row.body]
            self.dead.append(row.body)
            reader.reject()
            self.look()

    @rule(reader=readers, attempted=st.booleans())
    def give_back(self, reader: Reader, attempted: bool) -> None:
        row = self.next_of(reader)
        if row is not None:
            self.back(row, attempted)
            reader.give_back(attempted)
            self.look()

    def back(self, row: Row, attempted: bool) -> None:
        if attempted:
            row.deliveries += 1
            if 0 <= self.limit <= row.deliveries:
                del self.rows[row.body]
                self.dead.append(row.body)
                return
        self.waiting.append(row)
        self.waiting.sort(key=lambda each: each.rank)

    @rule(reader=consumes(readers))
    def detach(self, reader: Reader) -> None:
        if reader.closed:
            return
        self.list.remove(reader)
        for row in sorted(self.held.pop(id(reader)).values(), key=lambda each: each.key):
            self.back(row, True)
        self.owners = {group: owner for group, owner in self.owners.items() if owner is not reader}
        reader.close()
        self.look()

    @rule(reader=readers, shut=st.booleans())
    def socket(self, reader: Reader, shut: bool) -> None:
        if not reader.closed:
            reader.window.pauses = int(shut)
            reader.window.reopen()
            self.rig.turn()
            self.look()

    @rule()
    def pause(self) -> None:
        self.rig.queue("Q").gate.pause()
        self.paused = True

    @rule()
    def resume(self) -> None:
        self.rig.queue("Q").dispatcher.resume()
        self.paused = False
        self.rig.turn()
        self.look()

    @precondition(lambda self: self.count > 3)
    @rule(how=st.sampled_from(["kill", "close"]))
    def restart(self, how: str) -> None:
        if how == "close":
            for held in self.held.values():
                for row in sorted(held.values(), key=lambda each: each.key):
                    self.back(row, True)
        else:
            for held in self.held.values():
                self.waiting.extend(held.values())
        # a session that closes hands what it held to the next: only at rest does the model know where it is
        upkeep_paused = self.rig.queue("Q").gate.paused
        self.rig.queue("Q").gate.pause()
        self.rig.restart(how)
        self.paused = self.rig.queue("Q").gate.paused
        assert self.paused is False or upkeep_paused
        self.list.clear()
        self.held.clear()
        self.owners.clear()
        for row in list(self.rows.values()):
            if not row.durable:
                del self.rows[row.body]
        self.waiting = sorted((row for row in self.waiting if row.durable), key=lambda each: each.rank)
        self.dead = [body for body in self.dead if True]

    # -- what must be true --------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Take in what was delivered; each delivery must have been allowed."""
        news, self.rig.handed = self.rig.handed, []
        for reader, delivery in news:
            row = self.rows[delivery.body]
            assert row in self.waiting, f"{row.body} was delivered and did not wait"
            assert not self.paused
            assert delivery.deliveries == row.deliveries
            assert reader.wanted is None or reader.wanted == row.colour  # type: ignore[attr-defined]
            # a delivery can give its group an owner: each is judged by who owned what when it went out
            earlier = [each.body for each in self.waiting if each.rank < row.rank and self.may_have(reader, each)]
            assert not earlier, f"{row.body} came before {earlier}"
            self.waiting.remove(row)
            self.held[id(reader)][row.body] = row
            if row.group:
                self.owners[row.group] = reader
        for reader in self.list:
            held = self.held[id(reader)]
            assert set(held) == {delivery.body for delivery in reader.open}
            assert len(held) <= reader.window.messages

    def may_have(self, reader: Reader, row: Row) -> bool:
        wanted = reader.wanted  # type: ignore[attr-defined]
        owner = self.owners.get(row.group) if row.group else None
        return (wanted is None or wanted == row.colour) and (owner is None or owner is reader)

    @invariant()
    def it_adds_up(self) -> None:
        if not hasattr(self, "rig"):
            return
        queue = self.rig.queue("Q")
        held = sum(len(rows) for rows in self.held.values())
        assert queue.count == len(self.waiting) + held
        assert queue.in_flight == held
        if not self.paused and queue.roster.exclusive is None:
            for reader in self.list:
                if reader.window.is_open():
                    assert not any(self.may_have(reader, row) for row in self.waiting), "somebody could take what waits"

    def teardown(self) -> None:
        if not hasattr(self, "rig"):
            return
        for reader in list(self.list):
            for row in sorted(self.held.pop(id(reader)).values(), key=lambda each: each.key):
                self.back(row, True)
            self.rig.queue("Q").gate.pause()
            reader.close()
        self.rig.queue("Q").dispatcher.resume()
        assert self.rig.bodies("Q") == [row.body for row in self.waiting]
        if "ActiveMQ.DLQ" in self.rig.broker.table.queues:
            assert sorted(self.rig.bodies("ActiveMQ.DLQ")) == sorted(self.dead)
        assert self.rig.broker.memory.used == 0
        assert self.rig.journal.usage().messages == 0


QueueAgainstList.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
TestAQueueIsAList = QueueAgainstList.TestCase
