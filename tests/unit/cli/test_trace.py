"""`entrepot trace` and the help of `entrepot pipeline`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("pyarrow", reason="traces are read with pyarrow: pip install entrepot[spark]")

from entrepot.cli.main import cli
from entrepot.core.events.trace import ACCEPTED, ACKNOWLEDGED, DEAD, NAME_CAUSE, NAME_QUEUE, Trace
from entrepot.io.traces import TraceFiles


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    files = TraceFiles(tmp_path / "traces")
    files.describe("n-1", "north", 1, "0", 1)
    trace = Trace(files)
    trace.tick(0, 1_700_000_000_000)
    trace.define(NAME_QUEUE, 1, "orders\torders\t0")
    for number in (1, 2):
        trace.note(ACCEPTED, number, 1, 0, 0)
    trace.note(ACKNOWLEDGED, 1, 1, 0, 0)
    trace.note(DEAD, 2, 1, int(trace.number_of(NAME_CAUSE, "no good")), 0)
    trace.flush()
    files.close()
    return tmp_path / "traces"


def rows(*arguments: str) -> list[dict[str, str]]:
    result = CliRunner().invoke(cli, ["trace", "show", *arguments, "-o", "json"])
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_show_tells_the_story_of_one_message(traces: Path) -> None:
    assert [row["what"] for row in rows(str(traces), "--message", "ID:n-1:-1:1:2")] == ["accepted", "dead"]
    assert [row["why"] for row in rows(str(traces), "--what", "dead")] == ["no good"]
    assert len(rows(str(traces), "--queue", "orders", "--limit", "3")) == 3
    assert rows(str(traces), "--queue", "other") == []


def test_a_kind_or_a_place_that_is_not_there_is_named(traces: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["trace", "show", str(traces), "--what", "nonsense"])
    assert result.exit_code != 0
    assert "is no kind of record" in result.output
    result = CliRunner().invoke(cli, ["trace", "show", str(tmp_path / "none")])
    assert result.exit_code != 0
    assert "none" in result.output


def verified(*arguments: str) -> tuple[int, list[dict[str, object]], str]:
    result = CliRunner().invoke(cli, ["trace", "verify", *arguments, "-o", "json"])
    return result.exit_code, [json.loads(line) for line in result.stdout.splitlines()], result.stderr


def test_verify_knows_a_link_again_and_finds_a_changed_octet(traces: Path) -> None:
    code, (row,), said = verified(str(traces))
    assert (code, said, row["broker"], row["segments"], row["sealed"]) == (0, "", "n-1", 1, 1)
    link = str(row["last link"])
    assert verified(str(traces), "--expect", link.upper())[0] == 0
    code, _, said = verified(str(traces), "--expect", "00" * 31)
    assert code == 1
    assert "is not there" in said
    (path,) = traces.glob("*.trace")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    code, _, said = verified(str(traces))
    assert code == 1
    assert f"{path.name} was changed after it was closed" in said


def test_convert_writes_parquet_once(traces: Path, tmp_path: Path) -> None:
    target = tmp_path / "all.parquet"
    result = CliRunner().invoke(cli, ["trace", "convert", str(traces), "--to", str(target)])
    assert result.exit_code == 0, result.output
    import pyarrow.parquet as pq

    assert pq.read_table(target)["what"].to_pylist() == ["accepted", "accepted", "acknowledged", "dead"]
    again = CliRunner().invoke(cli, ["trace", "convert", str(traces), "--to", str(target)])
    assert "there already" in again.output


def test_the_help_of_jobs_needs_no_spark() -> None:
    for words in (["pipeline", "--help"], ["pipeline", "audit", "--help"], ["pipeline", "plan", "--help"]):
        result = CliRunner().invoke(cli, words)
        assert result.exit_code == 0, result.output
