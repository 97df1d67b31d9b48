"""The broker that `entrepot pipeline land` runs beside the one that has the messages."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import entrepot.embedded
from entrepot.base.errors import EntrepotError, OperatorError
from entrepot.cli import pipeline_land
from entrepot.pipeline.landing.configuration import Landing, read

FILE = """
checkpoints = "state"
[beside]
data = "{home}/beside"
connect = ["activemq:(tcp://127.0.0.1:1)"]
[[land]]
name = "orders"
path = "data/orders"
[land.source]
queue = "orders"
"""
PATIENCE_S = 30.0


def landing_of(home: Path) -> Landing:
    return read(FILE.format(home=home))


def test_flows_read_it_while_it_runs(tmp_path: Path) -> None:
    ended = threading.Event()
    with pipeline_land._beside(landing_of(tmp_path), ended) as landing:
        (flow,) = landing.land
        assert flow.options["url"].startswith("stomp://127.0.0.1:")
        assert flow.options["demand"] == "true"
        assert (tmp_path / "beside").is_dir()
        ended.set()


def test_all_ends_with_an_error_where_it_ends_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    class Noted(entrepot.embedded.Broker):
        def __init__(self, **given: Any) -> None:
            super().__init__(**given)
            made.append(self)

    monkeypatch.setattr(entrepot.embedded, "Broker", Noted)
    ended = threading.Event()

    def run() -> None:
        with pipeline_land._beside(landing_of(tmp_path), ended):
            made[0].node.ask_to_stop("the journal failed")
            assert ended.wait(PATIENCE_S)

    with pytest.raises(OperatorError, match="the broker beside ended: the journal failed"):
        run()


def test_a_second_copy_is_refused(tmp_path: Path) -> None:
    with (
        pipeline_land._beside(landing_of(tmp_path), threading.Event()),
        pytest.raises(EntrepotError, match="in use"),
        pipeline_land._beside(landing_of(tmp_path), threading.Event()),
    ):
        pass
