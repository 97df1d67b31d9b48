"""The chain of a trace: who changes a row of a closed segment, or takes a segment away, is found."""

from __future__ import annotations

import struct
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.core.events.trace import ACCEPTED, BLOCK_HEAD_OCTETS, NAME_QUEUE, RECORD_OCTETS, Trace
from entrepot.io import seals
from entrepot.io.traces import HEAD_OCTETS, TraceFiles

SMALL = 64 * 1024


def run(home: Path, first: int, count: int, *, killed: bool = False) -> None:
    """One run of a broker; of one that is killed nothing is closed."""
    files = TraceFiles(home, segment=SMALL)
    files.describe("n-1", "north", 1, "0", 1)
    trace = Trace(files)
    trace.tick(0, 1_700_000_000_000)
    trace.define(NAME_QUEUE, 1, "Q\tQ\t0")
    for start in range(first, first + count, 100):
        for number in range(start, start + 100):
            trace.note(ACCEPTED, number, 1, number % 2, 0)
        while not files.fits(4000) and files._spares.empty():
            pass
        trace.flush()
    if killed:
        before = {path: path.read_bytes() for path in home.glob("*.trace")}
        files.close()
        unsealed = [path for path, data in before.items() if seals.read(data) is None]
        for path in unsealed:
            path.write_bytes(before[path])
    else:
        files.close()


def row(home: Path) -> list[seals.Sealed]:
    paths = sorted(home.glob("*.trace"))
    return [seals.look(path) for path in paths if path.read_bytes()[:8].strip(b"\0")]


def change_a_row(path: Path, *, seal_again: bool = False) -> None:
    """Change the queue of the first record, as somebody would who knows the format: its checksum fits."""
    data = bytearray(path.read_bytes())
    count, named = struct.unpack_from("<II", data, HEAD_OCTETS + 4)
    end = HEAD_OCTETS + BLOCK_HEAD_OCTETS + count * RECORD_OCTETS + named
    data[HEAD_OCTETS + BLOCK_HEAD_OCTETS + 16] ^= 1
    struct.pack_into("<I", data, HEAD_OCTETS + 12, crc32(data[HEAD_OCTETS + 16 : end]) or 1)
    if seal_again:
        found = seals.read(bytes(data))
        assert found is not None
        data[seals.AT : HEAD_OCTETS] = seals.seal(found[0], seals.link_of(found[0], bytes(data)))
    path.write_bytes(data)


def test_the_page_of_a_seal_is_that_of_the_head() -> None:
    assert seals.PAGE_OCTETS == HEAD_OCTETS
    assert seals.AT + len(seals.seal(seals.NONE, seals.NONE)) == HEAD_OCTETS


def test_a_trace_is_whole_over_runs_and_kills(tmp_path: Path) -> None:
    run(tmp_path, 1, 8_000)
    run(tmp_path, 8_001, 4_000, killed=True)
    assert [bool(one.link) for one in row(tmp_path)][-1] is False
    assert seals.wrong(row(tmp_path)) == []  # what a kill left without a seal is at the end
    run(tmp_path, 12_001, 4_000)
    found = row(tmp_path)
    assert len(found) >= 6
    assert all(one.link == one.found != "" for one in found)
    assert seals.wrong(found) == []


def test_one_changed_row_is_found_in_the_last_segment_too(tmp_path: Path) -> None:
    run(tmp_path, 1, 8_000)
    paths = sorted(tmp_path.glob("*.trace"))
    for path in (paths[0], paths[-1]):
        kept = path.read_bytes()
        change_a_row(path)
        assert seals.wrong(row(tmp_path)) == [
            f"{path.name} was changed after it was closed: its seal is of something else"
        ]
        path.write_bytes(kept)
    change_a_row(paths[1], seal_again=True)  # whoever seals it again is betrayed by the next one
    (said,) = seals.wrong(row(tmp_path))
    assert said.startswith(f"{paths[2].name} does not follow {paths[1].name}")


def test_a_segment_that_is_taken_away_and_a_seal_that_is_are_found(tmp_path: Path) -> None:
    run(tmp_path, 1, 12_000)
    first, second, third, *_ = paths = sorted(tmp_path.glob("*.trace"))
    kept = second.read_bytes()
    second.unlink()
    assert seals.wrong(row(tmp_path))[0].startswith(f"{third.name} does not follow {first.name}")
    second.write_bytes(kept[: seals.AT] + bytes(seals.FORM.size) + kept[HEAD_OCTETS:])
    assert f"{second.name} has no seal, and later ones have" in seals.wrong(row(tmp_path))
    second.write_bytes(kept)
    data = first.read_bytes()
    first.write_bytes(data[: seals.AT] + bytes(seals.FORM.size) + data[HEAD_OCTETS:])
    assert seals.wrong(row(tmp_path))[0].startswith(f"the seal of {first.name} was taken away")
    first.unlink()  # as --trace-limit does
    assert seals.wrong(row(tmp_path)) == []
    assert len(paths) > 3


def test_a_chain_begins_behind_what_an_older_version_wrote(tmp_path: Path) -> None:
    run(tmp_path, 1, 20_000)
    paths = sorted(tmp_path.glob("*.trace"))
    assert len(paths) > seals.ADOPTED_MAX + 2
    for path in paths:
        data = path.read_bytes()
        path.write_bytes(data[: seals.AT] + bytes(seals.FORM.size) + data[HEAD_OCTETS:])
    assert seals.wrong(row(tmp_path)) == []
    run(tmp_path, 20_001, 100)
    found = row(tmp_path)
    assert [bool(one.link) for one in found] == [at >= len(paths) - seals.ADOPTED_MAX for at in range(len(found))]
    assert seals.wrong(found) == []


@given(torn=st.integers(0, seals.FORM.size - 1), before=st.binary(min_size=32, max_size=32))
def test_a_seal_that_a_kill_tore_is_none(torn: int, before: bytes) -> None:
    link = seals.link_of(before, bytes(HEAD_OCTETS))
    whole = seals.seal(before, link)
    page = bytes(seals.AT) + whole[:torn] + bytes(len(whole) - torn)
    assert seals.read(page) in (None, (before, link))
    assert seals.read(page[: seals.AT] + whole) == (before, link)
    assert seals.read(page[:-1]) is None


@pytest.mark.parametrize("sealed", [True, False])
def test_a_spare_of_a_killed_run_is_no_link(tmp_path: Path, sealed: bool) -> None:
    run(tmp_path, 1, 100, killed=not sealed)
    (tmp_path / "n-1.00000099.trace").write_bytes(bytes(SMALL))
    last = seals.adopt(sorted(tmp_path.glob("*.trace")))
    assert last.hex() == row(tmp_path)[-1].link != ""
    assert seals.read((tmp_path / "n-1.00000099.trace").read_bytes()) is None
    assert seals.adopt([]) == seals.NONE
