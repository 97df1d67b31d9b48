"""Segments of a trace on a real disk: turned, bounded, damaged, and read while they are written."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="traces are read with pyarrow: pip install entrepot[spark]")

from entrepot.base.errors import InvalidOption, StoreUnusable
from entrepot.core.events.trace import ACCEPTED, NAME_QUEUE, Trace
from entrepot.io.traces import HEAD_OCTETS, TraceFiles
from entrepot.pipeline.traces import NAME_FAULT, Segment, numbers_of, read, segments, to_parquet

SMALL = 64 * 1024


def begun(home: Path, *, limit: int = 1 << 30) -> tuple[TraceFiles, Trace]:
    files = TraceFiles(home, segment=SMALL, limit=limit)
    files.describe("n-1", "north", 1, "0", 1)
    trace = Trace(files)
    trace.tick(0, 1_700_000_000_000)
    trace.define(NAME_QUEUE, 1, "Q\tQ\t0")
    return files, trace


def accept(files: TraceFiles, trace: Trace, first: int, count: int) -> None:
    """Note ``count`` messages, a turn for each hundred, and give the thread that makes segments its time.

    They come over two connections in turns, so that each takes a record.
    """
    for start in range(first, first + count, 100):
        for number in range(start, start + 100):
            trace.note(ACCEPTED, number, 1, number % 2, 0)
        end = time.monotonic() + 10
        while not files.fits(4000) and files._spares.empty() and time.monotonic() < end:
            time.sleep(0.001)
        trace.flush()


def numbers(home: Path) -> list[int]:
    return [number for table in read([home]) for number in table["number"].to_pylist()]


def test_segments_follow_one_another_and_each_names_its_queues(tmp_path: Path) -> None:
    files, trace = begun(tmp_path)
    accept(files, trace, 1, 10_000)
    files.close()
    found = segments([tmp_path])
    assert len(found) >= 4
    assert numbers(tmp_path) == list(range(1, 10_001))
    assert all(set(table["queue"].to_pylist()) == {"Q"} for table in read([tmp_path]))
    assert files.written == 10_000
    assert files.lost == 0
    assert all(path.stat().st_size <= SMALL for path in found)
    assert to_parquet([tmp_path], tmp_path / "all.parquet") == 10_000


def test_the_oldest_go_and_the_next_says_so(tmp_path: Path) -> None:
    files, trace = begun(tmp_path, limit=3 * SMALL)
    accept(files, trace, 1, 20_000)
    files.close()
    found = segments([tmp_path])
    assert sum(path.stat().st_size for path in found) <= 3 * SMALL
    kept = numbers(tmp_path)
    assert kept == list(range(kept[0], 20_001))
    assert 3 < Segment(found[-1]).head.dropped <= files.dropped


def test_a_later_run_goes_on_behind_the_earlier_one(tmp_path: Path) -> None:
    for first in (1, 101):
        files, trace = begun(tmp_path)
        accept(files, trace, first, 100)
        files.close()
    assert numbers(tmp_path) == list(range(1, 201))


def test_it_can_be_read_while_it_is_written_and_after_a_kill(tmp_path: Path) -> None:
    files, trace = begun(tmp_path)
    accept(files, trace, 1, 300)
    assert numbers(tmp_path) == list(range(1, 301))  # nothing was closed: this is what a kill leaves
    files.close()


def test_damage_is_named_and_what_is_before_it_is_read(tmp_path: Path) -> None:
    files, trace = begun(tmp_path)
    accept(files, trace, 1, 300)
    files.close()
    path = segments([tmp_path])[0]
    octets = bytearray(path.read_bytes())
    octets[-5] ^= 1
    path.write_bytes(octets)
    segment = Segment(path)
    assert "damaged" in segment.fault
    assert len(segment.events()) == 200
    assert segment.fault in segment.name_rows()["text"].to_pylist()
    path.write_bytes(b"\1" * HEAD_OCTETS)
    with pytest.raises(InvalidOption, match="is no trace"):
        Segment(path)
    (tmp_path / "nothing").mkdir()
    with pytest.raises(InvalidOption, match="there is no trace"):
        segments([tmp_path / "nothing"])


def test_a_full_disk_costs_records_and_says_how_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, trace = begun(tmp_path)
    real = os.posix_fallocate

    def full(descriptor: int, offset: int, length: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("entrepot.io.traces.AGAIN", 0.01)
    monkeypatch.setattr(os, "posix_fallocate", full)
    deadline = time.monotonic() + 10
    at = 1
    while files.lost < 1000 and time.monotonic() < deadline:
        for number in range(at, at + 100):
            trace.note(ACCEPTED, number, 1, 0, 0)
        trace.flush()
        at += 100
    assert files.lost >= 1000
    monkeypatch.setattr(os, "posix_fallocate", real)
    while not (files._open is not None and files._open.at > HEAD_OCTETS) and time.monotonic() < deadline:
        trace.note(ACCEPTED, at, 1, 0, 0)
        trace.flush()
        at += 1
        time.sleep(0.005)
    lost = files.lost
    files.close()
    found = [Segment(path) for path in segments([tmp_path])]
    assert found[-1].head.lost == lost
    assert sum(len(one.events()) for one in found) == at - 1 - lost
    assert NAME_FAULT in found[-1].name_rows()["kind"].to_pylist()


def test_a_place_that_cannot_be_used_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnusable):
        TraceFiles(tmp_path / "file" / "deeper")
    with pytest.raises(InvalidOption, match="three segments"):
        TraceFiles(tmp_path, limit=SMALL)


def test_a_message_is_found_by_its_id(tmp_path: Path) -> None:
    files, trace = begun(tmp_path)
    trace.identity(5, "ID:other:77")
    trace.note(ACCEPTED, 5, 1, 0, 0)
    trace.identity(6, "whatever")
    trace.note(ACCEPTED, 6, 1, 0, 0)
    trace.note(ACCEPTED, 9, 1, 0, 0)
    trace.flush()
    files.close()
    (table,) = read([tmp_path])
    for text, number in (("ID:other:77", 5), ("whatever", 6), ("ID:n-1:-1:1:9", 9)):
        assert numbers_of(table, text) == {("n-1", number)}
    assert numbers_of(table, "ID:other:78") == set()
