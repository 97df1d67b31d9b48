"""The audit: finds exactly what a test did to a million records, and agrees with what real brokers did."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.errors import InvalidOption
from entrepot.core.events.trace import NAME_QUEUE, Trace
from entrepot.io.traces import HEAD_OCTETS, TraceFiles
from entrepot.pipeline.jobs.audit import DISORDERED, DOUBLED, LOST, audit, displaced
from entrepot.pipeline.jobs.life import Traces
from entrepot.pipeline.jobs.report import report
from spark import made_traces
from spark.made_traces import ACCEPTED, ACKNOWLEDGED, DELIVERED, MadeTrace, Plan, one_hop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MESSAGES = int(os.environ.get("ENTREPOT_AUDIT_MESSAGES", "60000"))  # seven records each


def numbers_of(spark: SparkSession, target: Path, kind: str) -> list[int]:
    """Return the sequences of all findings of a kind, from Parquet: the readable report ends somewhere."""
    found = spark.read.parquet(str(target / "findings.parquet"))
    return sorted(row["sequence"] for row in found.where(found["kind"] == kind).select("sequence").collect())


def test_a_million_records_and_exactly_what_was_done_to_some(spark: SparkSession, tmp_path: Path) -> None:
    lots = random.Random(7)
    chosen = lots.sample(range(1000, MESSAGES - 1000, 7), 4 * 120)
    plan = Plan()
    plan.lost_on_the_way = set(chosen[:120])
    plan.lost_at_b = set(chosen[120:240])
    plan.doubled = set(chosen[240:360])
    plan.late = {number: lots.choice((2, 3, 5)) for number in chosen[360:] if number % 10_000 < 9_990}
    one_hop(tmp_path / "traces", MESSAGES, plan)
    outcome = audit(spark, [tmp_path / "traces"], tmp_path / "out")
    assert numbers_of(spark, tmp_path / "out", LOST) == sorted(plan.lost_on_the_way | plan.lost_at_b)
    assert numbers_of(spark, tmp_path / "out", DOUBLED) == sorted(plan.doubled)
    assert numbers_of(spark, tmp_path / "out", DISORDERED) == sorted(plan.late)
    assert outcome.counts == {LOST: 240, DOUBLED: 120, DISORDERED: len(plan.late), "in doubt": 0}
    (total,) = outcome.totals
    assert (total["sent"], total["arrived"], total["forwarded"]) == (MESSAGES, MESSAGES - 120, MESSAGES)
    assert (total["consumed"], total["lost"], total["difference"]) == (MESSAGES - 240, 120, 240)
    lost = {finding.identity: finding for finding in outcome.findings if finding.kind == LOST}
    on_the_way = lost[f"ID:a-1:{min(plan.lost_on_the_way)}"]
    assert (on_the_way.broker, on_the_way.queue) == ("a-1", "orders")
    assert on_the_way.what == "forwarded to b-1 and confirmed, but it never came there"
    at_b = lost[f"ID:a-1:{min(plan.lost_at_b)}"]
    assert (at_b.broker, at_b.what) == (
        "b-1", "the last record says accepted, and the broker did not have it when it stopped"
    )  # fmt: skip
    report = (tmp_path / "out" / "report.txt").read_text()
    assert f"{MESSAGES:,} messages were sent to queues; 240 lost, 120 doubled" in report
    assert on_the_way.identity in (tmp_path / "out" / "report.html").read_text()


def test_all_is_well_and_it_says_so(spark: SparkSession, tmp_path: Path) -> None:
    one_hop(tmp_path / "traces", 20_000)
    outcome = audit(spark, [tmp_path / "traces"], tmp_path / "out")
    assert outcome.clean
    assert outcome.totals[0]["sent"] == outcome.totals[0]["consumed"] == 20_000
    with pytest.raises(InvalidOption, match="not empty"):
        audit(spark, [tmp_path / "traces"], tmp_path / "out")
    with pytest.raises(InvalidOption, match="no trace"):
        Traces(spark, [tmp_path / "out"])


def test_a_trace_that_somebody_changed_is_named_and_the_audit_is_not_clean(spark: SparkSession, tmp_path: Path) -> None:
    home = tmp_path / "traces"
    files = TraceFiles(home, segment=64 * 1024)
    files.describe("n-1", "north", 1, "0", 1)
    trace = Trace(files)
    trace.tick(0, 1_700_000_000_000)
    trace.define(NAME_QUEUE, 1, "Q\tQ\t0")
    for kind in (ACCEPTED, ACKNOWLEDGED):
        for number in range(1, 101):
            trace.note(kind, number, 1, 0, 0)
    trace.flush()
    files.close()
    outcome = audit(spark, [home], tmp_path / "out")
    assert outcome.clean
    (link,) = outcome.links.values()
    assert link in (tmp_path / "out" / "report.txt").read_text()
    (path,) = home.glob("*.trace")
    data = bytearray(path.read_bytes())
    data[HEAD_OCTETS - 200] ^= 1  # in a place that no checksum covers
    path.write_bytes(data)
    outcome = audit(spark, [home], tmp_path / "again")
    assert not outcome.clean
    assert outcome.altered == [f"north: {path.name} was changed after it was closed: its seal is of something else"]
    assert "the traces are not as they were written" in outcome.verdict()
    assert f"Attention: {outcome.altered[0]}" in (tmp_path / "again" / "report.txt").read_text()


def test_two_brokers_that_have_the_same_message(spark: SparkSession, tmp_path: Path) -> None:
    """A lost confirmation: A gives the message to somebody else, and B has it too."""
    one_hop(tmp_path, 100)
    late = MadeTrace(tmp_path, "c-1", [(1, 4, "orders\torders\t0"), (2, 1, "other\t\t\t"), (3, 1, "ID:a-1:")])
    late.add(kind=[8], offset=[1], number=[7], place=[42], peer=[0])
    for kind, peer in ((ACCEPTED, 0), (DELIVERED, 1), (ACKNOWLEDGED, 1)):
        late.add(kind=[kind], number=[7], place=[4], peer=[peer], flags=[0x41 if kind == ACCEPTED else 0])
    late.close()
    outcome = audit(spark, [tmp_path], tmp_path / "out")
    (finding,) = outcome.findings
    assert (finding.kind, finding.identity) == (DOUBLED, "ID:a-1:42")
    assert finding.what.startswith("consumed 2 times")


def test_a_doubled_message_is_not_out_of_order_too(spark: SparkSession, tmp_path: Path) -> None:
    """It came a second time, behind younger ones: to the same reader, in a copy of its own."""
    plan = Plan()
    plan.again = {40}
    one_hop(tmp_path / "traces", 100, plan)
    outcome = audit(spark, [tmp_path / "traces"], tmp_path / "out")
    assert outcome.counts == {LOST: 0, DOUBLED: 1, DISORDERED: 0, "in doubt": 0}
    assert [finding.identity for finding in outcome.findings] == ["ID:a-1:40"]


def test_where_segments_end_makes_no_difference(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies whose facts are in several segments are found whole, and so is what comes when a copy has had its end."""
    plan = Plan()
    plan.lost_on_the_way, plan.lost_at_b, plan.doubled, plan.again = {1003}, {12_345}, {15_000}, {17_001}
    plan.late = {4000: 5}
    found = []
    for size in (690_000, 9_000):
        monkeypatch.setattr(made_traces, "SEGMENT_RECORDS", size)
        home, out = tmp_path / f"traces-{size}", tmp_path / f"out-{size}"
        one_hop(home, 25_000, plan)
        late = MadeTrace(home, "b-1", [(1, 17, "orders\torders\t0"), (2, 9, "reader\t\t\tme")])
        late.serial = 99
        for number in (70, 71):  # they had their end 99 segments ago, all of it in one
            late.add(kind=[ACKNOWLEDGED], number=[number + 10**9], place=17, peer=9)
        late.close()
        outcome = audit(spark, [home], out)
        named = sorted((one.kind, one.identity, one.broker, one.what) for one in outcome.findings)
        found.append((outcome.totals, outcome.counts, named))
        copies = spark.read.parquet(str(out / "copies.parquet"))
        assert copies.count() == copies.select("node", "place", "number").distinct().count() == 50_000
        assert not (out / "pieces.parquet").exists()
    assert found[0] == found[1]
    assert found[0][1] == {LOST: 2, DOUBLED: 4, DISORDERED: 1, "in doubt": 0}


def test_the_report_counts_what_entered_once_and_reckons_from_end_to_end(spark: SparkSession, tmp_path: Path) -> None:
    one_hop(tmp_path / "traces", 20_000)
    outcome = report(spark, [tmp_path / "traces"], tmp_path / "out")
    (row,) = outcome.tables["destinations"]
    assert (row["address"], row["entered"], row["passed_on"], row["consumed"]) == ("orders", 20_000, 20_000, 20_000)
    assert sum(one["count"] for one in outcome.tables["rates"]) == 20_000
    assert outcome.head.startswith("Brokers a-1, b-1, from 2023-11-14 22:13:20")
    assert "20,000 messages entered the network" in outcome.head
    assert "20,000 times one was passed on" in outcome.head
    # at A, in blocks of 10,000: accepted at n us, delivered 10,000 later; B's clock began with A's
    assert row["took_p50_us"] == pytest.approx(30_000, abs=12_000)
    assert row["took_p50_us"] > row["waited_p50_us"]


def test_what_no_clock_can_tell_is_null_in_parquet(spark: SparkSession, tmp_path: Path) -> None:
    """A's clock is a minute ahead: every message is at B before it left A, so no crossing is measured."""
    one_hop(tmp_path / "traces", 100, ahead_us=60_000_000)
    outcome = report(spark, [tmp_path / "traces"], tmp_path / "out")
    for name, rows in outcome.tables.items():
        if rows:
            kept = spark.read.parquet(str(tmp_path / "out" / f"{name}.parquet"))
            assert sorted(kept.columns) == sorted(rows[0]), name
            assert [row.asDict() for row in kept.collect()] == rows, name
    (hop,) = outcome.tables["hops"]
    assert (hop["forwarded"], hop["crossing_p50_us"], hop["confirmed_p50_us"]) == (100, None, 100)
    again = report(spark, [tmp_path / "traces"], tmp_path / "again", tmp_path / "out")
    assert again.compared is not None
    assert (again.compared.worse, again.compared.better) == ([], [])


@given(st.permutations(range(9)))
def test_the_fewest_that_are_displaced(order: list[int]) -> None:
    out = set(displaced(order))
    kept = [value for at, value in enumerate(order) if at not in out]
    assert kept == sorted(kept)
    best = 0
    for mask in range(1 << 9):
        part = [value for at, value in enumerate(order) if mask >> at & 1]
        if part == sorted(part):
            best = max(best, len(part))
    assert len(kept) == best
