"""The picture of a lab fits into its terminal, whatever size that has."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from entrepot.cli.lab.brokers import Network
from entrepot.cli.lab.load import Load
from entrepot.cli.lab.picture import picture
from entrepot.cli.lab.watch import Watch


def shown(tmp_path: Path, width: int, height: int, *, count: int = 3, shape: str = "ring") -> list[str]:
    network = Network(tmp_path, count, shape)
    events = [f"{number:6.1f} s  event {number}: {'x' * 100}" for number in range(20)]
    console = Console(width=width, height=height, file=io.StringIO(), force_terminal=True, color_system=None)
    load = Load(network, 10.0, events.append)
    with console.capture() as captured:
        console.print(picture(network, Watch(network), load, events, width=width, height=height))
    return captured.get().rstrip("\n").split("\n")


@pytest.mark.parametrize(("width", "height"), [(80, 24), (80, 50), (104, 24), (130, 20), (130, 45), (200, 60)])
def test_it_fits_and_leaves_out_neither_figures_nor_the_last_events(tmp_path: Path, width: int, height: int) -> None:
    lines = shown(tmp_path, width, height)
    assert len(lines) <= height
    assert all(len(line) <= width for line in lines)
    text = "\n".join(lines)
    for wanted in ("load off", "event 19", "event 17", "b3 ─ b1", "[q] end"):
        assert wanted in text


def test_the_drawing_is_there_where_there_is_room_for_it(tmp_path: Path) -> None:
    drawn = {
        size: any("[b1]" in line for line in shown(tmp_path, *size))
        for size in ((80, 24), (80, 40), (120, 24), (120, 19))
    }
    assert drawn == {(80, 24): False, (80, 40): True, (120, 24): True, (120, 19): False}


def test_a_mesh_of_many_in_a_small_terminal_shows_what_it_can(tmp_path: Path) -> None:
    lines = shown(tmp_path, 80, 24, count=6, shape="mesh")[:24]  # what is below the edge nobody sees
    assert any("load off" in line for line in lines)
    assert any("b6" in line for line in lines)
