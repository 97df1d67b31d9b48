"""What a catalog of lineage is told, by OpenLineage's own library, of queries that end so and so; over HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from entrepot.base.errors import InvalidOption
from entrepot.pipeline.landing.configuration import Flow, Landing, LineageTo

pytest.importorskip("openlineage.client", reason="make pipeline-extras has it")

from entrepot.pipeline.landing.lineage import PARENT, Lineage

PARENT_RUN = "0192a3b4-0000-7000-8000-000000000001"
FLOW = Flow("orders", "/data/orders", source={"url": "stomp://me:pw@a:61613", "queue": "orders"})


class Catalog:
    """Takes what it is sent."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.status = 201
        catalog = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if catalog.status == 201:
                    catalog.events.append({"path": self.path, **json.loads(body)})
                self.send_response(catalog.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def catalog() -> Iterator[Catalog]:
    made = Catalog()
    yield made
    made.server.shutdown()
    made.server.server_close()


def lineage(catalog: Catalog, every: float = 60.0) -> Lineage:
    landing = Landing("state", [FLOW], lineage=LineageTo("warehouse", catalog.url, every))
    return Lineage(landing, lambda flow: [("order", "int"), ("text", "string")])


def test_a_run_begins_counts_and_ends(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PARENT, f"airflow/nightly.land/{PARENT_RUN}")
    made = lineage(catalog, every=1e-9)
    made.started(FLOW)
    made.landed(FLOW, 7)
    made.landed(FLOW, 5)
    made.completed(FLOW)
    made.close()
    assert [one["eventType"] for one in catalog.events] == ["START", "RUNNING", "RUNNING", "COMPLETE"]
    assert {one["path"] for one in catalog.events} == {"/api/v1/lineage"}
    assert len({one["run"]["runId"] for one in catalog.events}) == 1
    first, *_, last = catalog.events
    assert (first["job"]["namespace"], first["job"]["name"]) == ("warehouse", "orders")
    assert first["job"]["facets"]["jobType"]["processingType"] == "STREAMING"
    assert [(one["namespace"], one["name"]) for one in first["inputs"]] == [("stomp://a:61613", "queue/orders")]
    (out,) = first["outputs"]
    assert (out["namespace"], out["name"]) == ("file", "/data/orders")
    fields = [(one["name"], one["type"]) for one in out["facets"]["schema"]["fields"]]
    assert fields == [("order", "int"), ("text", "string")]
    assert last["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 12
    parent = first["run"]["facets"]["parent"]
    assert (parent["job"]["name"], parent["run"]["runId"]) == ("nightly.land", PARENT_RUN)
    assert "pw" not in json.dumps(catalog.events)


def test_each_try_is_a_run_and_says_why_it_failed(catalog: Catalog) -> None:
    made = lineage(catalog)
    made.started(FLOW)
    made.landed(FLOW, 7)  # too soon to be told
    made.failed(FLOW, "no broker answers")
    made.failed(FLOW, "no broker answers yet")  # it could not be started
    made.completed(FLOW)  # the process ends, and no run is open
    made.close()
    assert [one["eventType"] for one in catalog.events] == ["START", "FAIL", "START", "FAIL"]
    assert len({one["run"]["runId"] for one in catalog.events}) == 2
    failed = [one["run"]["facets"]["errorMessage"]["message"] for one in catalog.events[1::2]]
    assert failed == ["no broker answers", "no broker answers yet"]
    assert catalog.events[1]["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 7


def test_a_catalog_that_refuses_holds_up_nothing(catalog: Catalog, caplog: pytest.LogCaptureFixture) -> None:
    catalog.status = 400
    made = lineage(catalog)
    made.started(FLOW)
    made.completed(FLOW)
    made.close()
    assert "1 events were not delivered: " in caplog.text
    assert catalog.events == []


def test_what_cannot_be_meant_is_said(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    landing = Landing("state", [FLOW], lineage=LineageTo(url="catalog:5000"))
    with pytest.raises(InvalidOption, match="lineage cannot be told"):
        Lineage(landing, lambda flow: [])
    monkeypatch.setenv(PARENT, "airflow/nightly/7")
    with pytest.raises(InvalidOption, match=PARENT):
        lineage(catalog)
