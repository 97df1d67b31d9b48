"""What the core notes about messages, read back from its blocks by the reader that people use.

The runs in which facts are written have tests of their own, in test_trace_runs.py.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyarrow", reason="traces are read with pyarrow: pip install entrepot[spark]")

from entrepot.core.events import trace as facts
from entrepot.core.events.trace import Trace, TraceSink
from entrepot.core.operators.upkeep import Discard, Move
from entrepot.io.traces import TraceFiles
from entrepot.model.ids import message_id_prefix
from entrepot.pipeline.traces import Segment, segments
from kit import Rig

TINY = {"max_octets": "2000"}


class Kept(TraceSink):
    """Keeps blocks, in segments of a few."""

    def __init__(self, room: int = 1 << 40) -> None:
        self.room = room
        self.used = 0
        self.segments: list[list[tuple[bytes, bytes, bytes, int]]] = [[]]

    def fits(self, octets: int) -> bool:
        return self.used + octets <= self.room

    def turn(self) -> None:
        self.segments.append([])
        self.used = 0

    def write(self, head: bytes, records: bytes, names: bytes, count: int) -> None:
        self.segments[-1].append((head, records, names, count))
        self.used += len(head) + len(records) + len(names)


def told(rig: Rig, tmp_path: Path) -> list[dict[str, Any]]:
    """Return all that the broker of ``rig`` noted so far."""
    assert isinstance(rig.sink, Kept)
    rows: list[dict[str, Any]] = []
    for number, blocks in enumerate(rig.sink.segments, 1):
        files = TraceFiles(tmp_path / str(number))
        files.describe(rig.broker.ids.node_id, "test", 1, "0", 1)
        for block in blocks:
            files.write(*block)
        files.close()
        for path in segments([tmp_path / str(number)]):
            segment = Segment(path)
            assert not segment.fault
            rows += segment.readable().to_pylist()
    return rows


def kinds(rows: list[dict[str, Any]], queue: str = "Q") -> list[tuple[str, int]]:
    return [(row["what"], row["number"]) for row in rows if row["queue"] == queue and row["number"]]


def test_the_life_of_a_message(tmp_path: Path) -> None:
    rig = Rig(sink=Kept())
    rig.send("Q", "a", priority=7, origin=12)
    reader = rig.reader("Q", connection="somebody", client_id="me")
    reader.ack()
    rows = told(rig, tmp_path)
    accepted = next(row for row in rows if row["what"] == "accepted")
    number = accepted["number"]
    assert kinds(rows) == [("accepted", number), ("delivered", number), ("acknowledged", number)]
    assert accepted["message_prefix"] == message_id_prefix(rig.broker.ids.node_id)
    assert accepted["message_sequence"] == number
    assert accepted["flags"] == facts.DURABLE | 7 << 4
    assert {row["consumer"] for row in rows if row["what"] in ("attached", "delivered", "acknowledged")} == {
        "somebody (me)"
    }


def test_what_is_returned_too_often_is_dead_and_says_why(tmp_path: Path) -> None:
    rig = Rig(sink=Kept(), max_deliveries="2")
    rig.send("Q", "a")
    reader = rig.reader("Q")
    reader.give_back()
    reader.give_back()
    rows = told(rig, tmp_path)
    ends = [row["what"] for row in rows if row["queue"] == "Q" and row["number"]]
    assert ends == ["accepted", "delivered", "returned", "delivered", "returned", "dead"]
    dead = next(row for row in rows if row["what"] == "dead")
    assert dead["why"] == "delivered 2 times without acknowledgement"
    letter = next(row for row in rows if row["queue"] == "ActiveMQ.DLQ")
    assert letter["what"] == "accepted"
    assert letter["flags"] & facts.DERIVED
    assert (letter["message_prefix"], letter["message_sequence"]) == (
        message_id_prefix(rig.broker.ids.node_id),
        dead["number"],
    )


def test_every_way_out_is_told_and_what_is_left_is_pending(tmp_path: Path) -> None:
    rig = Rig({"Q": TINY}, sink=Kept())
    rig.send_all("Q", range(30))
    rig.send_all("Old", range(2), ttl=1000)
    rig.wait(31_000)
    move = Move(rig.broker, "Q", "Other", None, 4)
    while not move.step().done:
        pass
    discard = Discard(rig.broker, "Q", None, 3)
    while not discard.step().done:
        pass
    assert rig.queue("Other").taking.purge(2) == 2
    reader = rig.reader("Q", 5)
    reader.ack(4)
    rig.turn()
    lease = rig.broker.leases.need(_queue("Q"), "spark", create=True)
    epoch = lease.attach(rig.journal, None)
    lease.claim(rig.journal, epoch, 0, 6)
    lease.settle(rig.journal, epoch, 2)
    rig.broker.end_trace()
    rows = told(rig, tmp_path)
    counts = Counter((row["queue"], row["what"], row["why"]) for row in rows if row["number"])
    assert counts["Q", "accepted", None] == 30
    assert counts["Q", "removed", "moved"] == 4
    assert counts["Q", "removed", "discarded"] == 3
    assert counts["Q", "acknowledged", None] == 4 + 2
    assert counts["Q", "pending", None] == 30 - 4 - 3 - 6 == rig.queue("Q").count
    assert counts["Other", "accepted", None] == 4
    assert counts["Other", "removed", "purged"] == 2
    assert counts["Other", "pending", None] == 2
    assert counts["Old", "expired", None] == 2
    assert rows[-1]["what"] == "stopped"
    pending = [row["number"] for row in rows if row["what"] == "pending" and row["queue"] == "Q"]
    assert len(set(pending)) == len(pending)


def _queue(name: str) -> Any:
    from entrepot.model.address import parse_one

    return parse_one(name)


def test_a_restart_names_what_it_found(tmp_path: Path) -> None:
    rig = Rig(sink=Kept())
    rig.send_all("Q", range(5))
    rig.send("Q", "gone", durable=False)
    rig.restart("kill")
    rows = told(rig, tmp_path)
    accepted = [row["number"] for row in rows if row["what"] == "accepted" and row["flags"] & facts.DURABLE]
    assert [row["number"] for row in rows if row["what"] == "recovered"] == accepted
    assert len(accepted) == 5


def test_nobody_wanted_it_and_it_came_twice(tmp_path: Path) -> None:
    rig = Rig(sink=Kept())
    rig.send("topic://T", "a")
    rig.send("Q", "a", duplicate=b"1", identity="ID:x:7")
    rig.send("Q", "a", duplicate=b"1", identity="ID:x:7")
    rows = told(rig, tmp_path)
    assert [(row["what"], row["queue"]) for row in rows if row["number"]] == [
        ("unrouted", "T"), ("accepted", "Q"), ("duplicate", "Q")
    ]  # fmt: skip
    assert {(row["message_prefix"], row["message_sequence"]) for row in rows if row["queue"] == "Q"} == {("ID:x:", 7)}


def test_advisories_are_not_traced_and_no_trace_costs_nothing(tmp_path: Path) -> None:
    rig = Rig(sink=Kept())
    reader = rig.reader("topic://ActiveMQ.Advisory.Queue")
    rig.send("topic://ActiveMQ.Advisory.Queue", "a")
    assert reader.take() == ["a"]
    assert [row["what"] for row in told(rig, tmp_path)] == ["started"]
    off = Rig()
    off.send("Q", "a")
    assert off.queue("Q").trace is None


def test_each_segment_explains_itself(tmp_path: Path) -> None:
    rig = Rig(sink=Kept(room=1000))
    reader = rig.reader("Q", connection="c")
    assert rig.broker.trace is not None
    for _ in range(40):
        rig.send("Q", "a")
        reader.ack()
        rig.broker.trace.flush()
    assert isinstance(rig.sink, Kept)
    assert len(rig.sink.segments) > 3
    rows = [row for row in told(rig, tmp_path) if row["number"] and row["what"] != "started"]
    assert len(rows) == 120
    assert {row["queue"] for row in rows} == {"Q"}
    assert {row["consumer"] for row in rows if row["what"] != "accepted"} == {"c"}


@settings(deadline=None)
@given(st.lists(st.tuples(st.text("ab:0", max_size=6), st.integers(-1, 10**19)), max_size=30))
def test_any_identity_comes_back_as_it_was(given_ids: list[tuple[str, int]]) -> None:
    """Identities are split into prefix and number only where putting them together gives the same text."""
    texts = [head + (":" if number % 2 else "") + (str(number) if number >= 0 else "") for head, number in given_ids]
    sink = Kept()
    trace = Trace(sink)
    for number, text in enumerate(texts, 1):
        trace.identity(number, text)
        trace.note(facts.ACCEPTED, number, 1, 0, 0)
    trace.flush()
    import tempfile

    with tempfile.TemporaryDirectory() as home:
        files = TraceFiles(Path(home))
        files.describe("n", "n", 1, "0", 1)
        for block in sink.segments[0]:
            files.write(*block)
        files.close()
        rows = Segment(segments([home])[0]).readable().to_pylist()
    read = [
        (row["message_prefix"] or "") + ("" if row["message_sequence"] is None else str(row["message_sequence"]))
        for row in rows
    ]
    assert read == texts


UUID = bytes.fromhex("bc19b175b029428080213b65fa14e103")


@pytest.mark.parametrize(
    ("duplicate_id", "identity"),
    [
        (UUID + (42).to_bytes(8, "big"), "core:bc19b175-b029-4280-8021-3b65fa14e103:42"),
        (UUID + (42).to_bytes(8, "big") + b"mark", "core:bc19b175-b029-4280-8021-3b65fa14e103:42"),
        (UUID + (-1).to_bytes(8, "big", signed=True), ""),
        (b"bc19b175-b029-4280-8021-3b65fa14e103\tqueue\t" + bytes(8), ""),  # fetched, not brought
        (UUID, ""),
    ],
)
def test_what_came_over_core_is_known_by_its_number_there(duplicate_id: bytes, identity: str, tmp_path: Path) -> None:
    sink = Kept()
    trace = Trace(sink)
    assert trace.crossed(7, duplicate_id) is bool(identity)
    trace.note(facts.ACCEPTED, 7, 1, 0, 0)
    trace.flush()
    files = TraceFiles(tmp_path)
    files.describe("n", "n", 1, "0", 1)
    for block in sink.segments[0]:
        files.write(*block)
    files.close()
    (row,) = Segment(segments([tmp_path])[0]).readable().to_pylist()
    assert f"{row['message_prefix']}{row['message_sequence']}" == (identity or f"{message_id_prefix('n')}7")
