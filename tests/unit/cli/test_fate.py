"""What became of a message, by the traces of the brokers that it passed, and why some cannot say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="traces are read with pyarrow: pip install entrepot[spark]")

from entrepot.cli.fate import fates, told
from entrepot.core.events.trace import (
    ACCEPTED,
    ACKNOWLEDGED,
    DELIVERED,
    NAME_CONSUMER,
    NAME_ORIGIN,
    NAME_QUEUE,
    SETTLED,
    Trace,
)
from entrepot.io.traces import TraceFiles

SECOND = 1_000_000_000
START = 1_700_000_000_000  # ms: 2023-11-14T22:13:20Z
ID = "ID:west-1:-1:1:7"


def begun(directory: Path, node: str, name: str) -> tuple[TraceFiles, Trace]:
    files = TraceFiles(directory)
    files.describe(node, name, 1, "0", START)
    trace = Trace(files)
    trace.tick(0, START)
    trace.define(NAME_QUEUE, 1, "Q\tQ\t0")
    return files, trace


@pytest.fixture
def network(tmp_path: Path) -> dict[str, dict[str, Any]]:
    """Message 7 of west went over a bridge to north, where it has number 3, and was acknowledged there."""
    files, west = begun(tmp_path / "west", "west-1", "west")
    west.define(NAME_CONSUMER, 5, "bridge\tnorth-1\tnorth\t")
    west.note(ACCEPTED, 7, 1, 0, 0)
    west.note(DELIVERED, 7, 1, 5, 0)
    west.flush()
    west.tick(2 * SECOND, START + 2000)
    west.note(ACKNOWLEDGED, 7, 1, 5, 0)
    west.note(ACCEPTED, 8, 1, 0, 0)
    west.flush()
    files.close()
    files, north = begun(tmp_path / "north", "north-1", "north")
    north.define(NAME_ORIGIN, 9, "west-1\twest")
    north.define(NAME_CONSUMER, 6, "10.0.0.7:40112\t\t\tbilling")
    north.tick(SECOND, START + 1000)
    north.identity(3, ID)
    north.note(ACCEPTED, 3, 1, 9, 0)
    north.note(DELIVERED | (SETTLED << 8), 3, 1, 6, 0)
    north.flush()
    files.close()
    return {
        name: {"broker": name, "node": f"{name}-1", "trace": str(tmp_path / name), "had": True, "places": []}
        for name in ("west", "north")
    }


def test_the_story_goes_over_all_brokers_by_time(network: dict[str, dict[str, Any]]) -> None:
    rows, silent = fates(list(network.values()), ID, [])
    assert silent == {}
    assert [told(row) for row in rows] == [
        "2023-11-14 22:13:20.000000 west: accepted into Q",
        "2023-11-14 22:13:20.000000 west: sent on to north, from Q",
        "2023-11-14 22:13:21.000000 north: accepted into Q, from west",
        "2023-11-14 22:13:21.000000 north: delivered from Q to 10.0.0.7:40112 (billing), which settled it (automatic "
        "acknowledgement)",
        "2023-11-14 22:13:22.000000 west: confirmed by north, so settled here",
    ]


def test_by_the_number_that_a_broker_gave_it(network: dict[str, dict[str, Any]]) -> None:
    rows, silent = fates([network["west"]], 8, [])
    assert [told(row) for row in rows] == ["2023-11-14 22:13:22.000000 west: accepted into Q"]
    assert silent == {}


def test_who_cannot_say_is_named_with_the_reason(network: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    west, north = network["west"], network["north"]
    _, silent = fates([{**west, "trace": ""}], ID, [])
    assert "runs without --trace DIR" in silent["west"]
    _, silent = fates([{**north, "trace": "/nowhere/at/all"}], ID, [])
    assert silent["north"].startswith("its trace is in /nowhere/at/all on its own machine")
    _, silent = fates([west], "ID:west-1:-1:1:99", [])
    assert "has no record of it" in silent["west"]
    _, silent = fates([{**west, "trace": ""}], ID, [tmp_path / "north"])
    assert silent["west"].startswith("none of the traces named is its own")


def test_a_copy_of_the_trace_of_another_machine_is_read(network: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    north = {**network["north"], "trace": "/only/over/there"}
    rows, silent = fates([north], ID, [tmp_path / "west", tmp_path / "north"])
    assert [row["what"] for row in rows] == ["accepted", "delivered"]
    assert silent == {}


def test_a_directory_that_a_broker_names_is_not_searched_below(
    network: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    assert "on its own machine" in fates([{**network["west"], "trace": str(tmp_path)}], ID, [])[1]["west"]


def test_a_trace_that_is_damaged_is_said_to_be(network: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    (segment,) = (tmp_path / "west").glob("*.trace")
    segment.write_bytes(b"no trace at all")
    assert fates([network["west"]], ID, [])[1]["west"].startswith("its trace cannot be read: ")


def test_nothing_is_accepted_before_it_was_sent_there_whatever_the_clocks_say(tmp_path: Path) -> None:
    """Each broker notes milliseconds of its own: a hop is faster than that."""
    files, west = begun(tmp_path / "west", "west-1", "west")
    west.define(NAME_CONSUMER, 5, "bridge\tnorth-1\tnorth\t")
    west.tick(SECOND, START + 1000)
    west.note(ACCEPTED, 7, 1, 0, 0)
    west.note(DELIVERED, 7, 1, 5, 0)
    west.flush()
    files.close()
    files, north = begun(tmp_path / "north", "north-1", "north")
    north.define(NAME_ORIGIN, 9, "west-1\twest")
    north.define(NAME_CONSUMER, 6, "10.0.0.7:40112\t\t\tbilling")
    north.identity(3, ID)
    north.note(ACCEPTED, 3, 1, 9, 0)  # a second before it was sent
    north.note(DELIVERED, 3, 1, 6, 0)
    north.flush()
    files.close()
    answers = [
        {"broker": "west", "node": "west-1", "trace": str(tmp_path / "west")},
        {"broker": "north", "node": "north-1", "trace": str(tmp_path / "north")},
    ]
    rows, silent = fates(answers, ID, ())
    assert not silent
    assert [told(row).partition(" ")[2].partition(" ")[2] for row in rows] == [
        "west: accepted into Q",
        "west: sent on to north, from Q",
        "north: accepted into Q, from west",
        "north: delivered from Q to 10.0.0.7:40112 (billing)",
    ]
