"""OpenTelemetry between processes: brokers that a bridge joins export one trace to a collector."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from entrepot.base.errors import InvalidOption
from entrepot.embedded import Broker
from pairs import free_port
from shell.daemon import Wire
from shell.test_bridges import until_state
from shell.test_cli import Running

PATIENCE_S = 30.0
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"
CONTEXT = f"00-{TRACE}-{SPAN}-01"

EXPORTER = pytest.importorskip(
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    reason="the packages of entrepot[telemetry] are not installed",
)
PACKAGES = str(Path(EXPORTER.__file__).parents[6])


@pytest.fixture(autouse=True)
def packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let brokers find the packages where these tests did, be that in the environment or beside it."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([os.environ.get("PYTHONPATH", ""), PACKAGES]).strip(os.pathsep))


class Collector(BaseHTTPRequestHandler):
    """Takes OTLP over HTTP, and remembers: broker -> its spans."""

    spans: ClassVar[list[tuple[str, Any]]] = []
    silent: ClassVar[threading.Event] = threading.Event()  # set: it answers

    def do_POST(self) -> None:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        octets = self.rfile.read(int(self.headers["content-length"]))
        if not self.silent.wait(PATIENCE_S):
            return
        if self.headers.get("content-encoding") == "gzip":
            import gzip

            octets = gzip.decompress(octets)
        said = ExportTraceServiceRequest.FromString(octets)
        for group in said.resource_spans:
            broker = {each.key: each.value.string_value for each in group.resource.attributes}["entrepot.broker"]
            for scope in group.scope_spans:
                self.spans.extend((broker, span) for span in scope.spans)
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[str]:
    Collector.spans.clear()
    Collector.silent.set()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    Collector.silent.set()
    server.shutdown()
    server.server_close()
    serving.join(PATIENCE_S)


def until(met: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not met():
        assert time.monotonic() < end, [(broker, span.name) for broker, span in Collector.spans]
        time.sleep(0.02)


def wire(broker: Running) -> Wire:
    return Wire(int(broker.facts["stomp"].rpartition(":")[2]))


def one(broker: str, what: str) -> Any:
    (found,) = [span for name, span in Collector.spans if name == broker and span.name.startswith(what)]
    return found


@pytest.fixture
def pair(tmp_path: Path, collector: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Running, Running]]:
    """``near`` dials ``far``; both export what producers recorded, and nothing else."""
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    port = free_port()
    homes = tmp_path / "far", tmp_path / "near"
    for home in homes:
        home.mkdir()
    telling = ("--otlp", collector, "--otlp-ratio", "0")
    far = Running(homes[0], "--data", "data", "--name", "far", "--listen", f"openwire://127.0.0.1:{port}", *telling)
    near = Running(
        homes[1], "--data", "data", "--name", "near", *telling, "--connect", f"static:(tcp://127.0.0.1:{port})"
    )
    yield near, far
    for each in (near, far):
        each.stop()


def test_one_message_over_a_bridge_is_one_trace(pair: tuple[Running, Running]) -> None:
    near, far = pair
    until_state(near, "open")
    reader, sender = wire(far), wire(near)
    reader.ask("SUBSCRIBE", {"destination": "/queue/orders", "id": "1", "ack": "client"})
    time.sleep(0.2)
    headers = {"destination": "/queue/orders", "persistent": "true", "traceparent": CONTEXT, "tracestate": "v=1"}
    sender.ask("SEND", {"destination": "/queue/orders", "persistent": "true"}, b"not recorded")
    sender.ask("SEND", headers, b"hello")
    frames = [reader.hear(), reader.hear()]
    (frame,) = [each for each in frames if each.body == b"hello"]
    assert frame.headers["traceparent"] == CONTEXT, "consumers see the context of the producer"
    assert frame.headers["tracestate"] == "v=1"
    for each in frames:
        reader.ask("ACK", {"id": each.headers["ack"]})
    until(lambda: {"acknowledge orders"} <= {span.name for broker, span in Collector.spans if broker == "far"})
    until(lambda: any(span.name == "forward orders" for _, span in Collector.spans))
    until(lambda: len(Collector.spans) == 10)
    assert {span.trace_id.hex() for _, span in Collector.spans} == {TRACE}
    received, forwarded, arrived = one("near", "receive"), one("near", "forward"), one("far", "receive")
    assert received.parent_span_id.hex() == SPAN
    assert forwarded.parent_span_id == received.span_id
    assert arrived.parent_span_id == forwarded.span_id
    assert [link.span_id.hex() for link in arrived.links] == [SPAN]
    assert one("far", "acknowledge").parent_span_id == one("far", "dispatch").span_id
    for broker, own in (("near", received), ("far", arrived)):
        for what in ("route", "persist", "dispatch"):
            assert one(broker, what).parent_span_id == own.span_id
        assert own.trace_state == "v=1"
    said = {each.key: each.value.string_value for each in forwarded.attributes}
    assert (said["messaging.system"], said["entrepot.peer"]) == ("activemq", "far")


def test_hostile_contexts_harm_nobody(pair: tuple[Running, Running]) -> None:
    near, _ = pair
    sender = wire(near)
    hostile = ["", "00", "f" * 2_000, CONTEXT[:-1], CONTEXT + "-x", CONTEXT.upper(), "00-" + "0" * 32 + CONTEXT[35:]]
    hostile += ["\N{SNOWMAN}" * 55, "-" * 55, "%s%n" * 20, "a\\b: c\nd"]
    for text in hostile:
        sender.ask("SEND", {"destination": "/queue/q", "traceparent": text, "tracestate": text * 3}, b"x")
    bad = {"destination": "/queue/q", "traceparent": CONTEXT, "tracestate": ",=,\n", "entrepot_traceparent": "x" * 99}
    sender.ask("SEND", bad, b"recorded")
    sender.ask("SUBSCRIBE", {"destination": "/queue/q", "id": "1", "ack": "auto"})
    frames = [sender.hear() for _ in range(len(hostile) + 1)]
    assert [frame.headers["traceparent"] for frame in frames] == [*hostile, CONTEXT]
    until(lambda: any(span.name == "acknowledge q" for _, span in Collector.spans))
    assert {span.trace_id.hex() for _, span in Collector.spans} == {TRACE}
    assert one("near", "receive").parent_span_id.hex() == SPAN


def test_a_collector_that_hangs_or_is_away_costs_its_spans_alone(
    tmp_path: Path, collector: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "20")
    Collector.silent.clear()
    broker = Running(
        tmp_path, "--ephemeral", "--name", "b", "--otlp", collector, "--otlp-ratio", "1", "--otlp-limit", "0"
    )
    sender = wire(broker)
    began = time.monotonic()
    for _ in range(200):
        sender.ask("SEND", {"destination": "/queue/q"}, b"x")
    assert time.monotonic() - began < 10
    began = time.monotonic()
    told = broker.stop()
    assert time.monotonic() - began < 10, "it stops without its collector"
    assert told.count("spans are dropped") == 1
    assert "spans exported" in told


def test_without_the_option_nothing_is_loaded(tmp_path: Path) -> None:
    clean = {name: text for name, text in os.environ.items() if not name.startswith("OTEL_")}
    assert clean.keys() == os.environ.keys()
    broker = Running(tmp_path, "--ephemeral")
    sender = wire(broker)
    sender.ask("SEND", {"destination": "/queue/q", "traceparent": CONTEXT}, b"x")
    maps = Path(f"/proc/{broker.process.pid}/maps").read_text()
    assert "opentelemetry" not in maps
    assert "entrepot-telemetry" not in "".join(
        path.read_text() for path in Path(f"/proc/{broker.process.pid}/task").glob("*/comm")
    )
    broker.stop()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))


def test_a_broker_inside_a_program_exports_too(collector: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    with Broker(name="within", otlp=collector, otlp_ratio=1) as broker:
        sender = Wire(int(broker.uri("stomp").rpartition(":")[2]))
        sender.send("/queue/orders", b"1")
        until(lambda: any(span.name == "receive orders" for _, span in Collector.spans))
        assert one("within", "receive").name == "receive orders"


def test_variables_of_a_program_alone_do_not_ask_for_it(collector: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector)
    assert Broker().node.options.telemetry is None
    with pytest.raises(InvalidOption, match="there is none"):
        Broker(otlp_ratio=0.5)
