"""What an operator asks for, and spans as the SDK of OpenTelemetry takes them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import pytest

from entrepot.base.errors import InvalidOption
from entrepot.management import telemetry
from entrepot.management.spans import SERVER, Span
from entrepot.management.telemetry import (
    RATIO,
    Sender,
    Telemetry,
    TelemetryOptions,
    collector,
    readable,
    resource_of,
    telemetry_options,
)
from kit import Rig
from unit.base.test_trace_context import SPAN, TRACE

URL = "http://localhost:4318"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "absent_packages", lambda: "")


@pytest.mark.usefixtures("installed")
def test_nothing_is_asked_for_without_a_collector() -> None:
    assert telemetry_options(None, None, {}) is None
    assert telemetry_options(None, None, {"OTEL_SERVICE_NAME": "x", "OTEL_TRACES_SAMPLER": "always_on"}) is None
    named = {"OTEL_EXPORTER_OTLP_ENDPOINT": URL}
    assert telemetry_options(None, None, named) == TelemetryOptions()
    assert telemetry_options(None, None, {**named, "OTEL_SDK_DISABLED": "true"}) is None
    assert telemetry_options(None, None, {**named, "OTEL_TRACES_EXPORTER": "none"}) is None
    for ratio, most in ((0.5, None), (None, 5)):
        with pytest.raises(InvalidOption, match="--otlp-ratio"):
            telemetry_options(None, ratio, {}, most)
    limited = telemetry_options(URL, None, {}, 0)
    assert limited is not None
    assert limited.most == 0


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("variables", "honours", "ratio"),
    [
        ({}, True, RATIO),
        ({"OTEL_TRACES_SAMPLER_ARG": "0.25"}, True, 0.25),
        ({"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.5"}, True, 0.5),
        ({"OTEL_TRACES_SAMPLER": "parentbased_always_on"}, True, 1.0),
        ({"OTEL_TRACES_SAMPLER": "parentbased_always_off"}, True, 0.0),
        ({"OTEL_TRACES_SAMPLER": "always_on"}, False, 1.0),
        ({"OTEL_TRACES_SAMPLER": "always_off"}, False, 0.0),
        ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.1"}, False, 0.1),
        ({"OTEL_TRACES_SAMPLER": "traceidratio"}, False, 1.0),
    ],
)
def test_samplers_have_the_names_of_opentelemetry(variables: dict[str, str], honours: bool, ratio: float) -> None:
    options = telemetry_options(URL, None, variables)
    assert options is not None
    assert (options.honours, options.ratio, options.url) == (honours, ratio, URL + "/v1/traces")
    given = telemetry_options(URL, 0.125, variables)
    assert given is not None
    assert given.ratio == 0.125


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"OTEL_TRACES_SAMPLER": "jaeger_remote"}, "jaeger_remote"),
        ({"OTEL_TRACES_SAMPLER_ARG": "often"}, "often"),
        ({"OTEL_TRACES_SAMPLER_ARG": "1.5"}, "1.5"),
        ({"OTEL_TRACES_SAMPLER_ARG": "nan"}, "nan"),
        ({"OTEL_BSP_MAX_QUEUE_SIZE": "0"}, "OTEL_BSP_MAX_QUEUE_SIZE"),
        ({"OTEL_BSP_SCHEDULE_DELAY": "soon"}, "soon"),
    ],
)
def test_what_makes_no_sense_is_refused(variables: dict[str, str], named: str) -> None:
    with pytest.raises(InvalidOption, match=named):
        telemetry_options(URL, None, variables)


@pytest.mark.usefixtures("installed")
def test_the_queue_is_as_long_as_the_variables_say() -> None:
    variables = {
        "OTEL_BSP_MAX_QUEUE_SIZE": "10",
        "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "5",
        "OTEL_BSP_SCHEDULE_DELAY": "250",
    }
    options = telemetry_options(URL, None, variables)
    assert options is not None
    assert (options.limit, options.batch, options.delay) == (10, 5, 0.25)


def test_a_collector_has_the_path_of_traces_unless_it_has_one() -> None:
    assert collector("http://host:4318") == "http://host:4318/v1/traces"
    assert collector("https://host/") == "https://host/v1/traces"
    assert collector("http://host/other") == "http://host/other"
    for text in ("host:4318", "grpc://host", "http://", ""):
        with pytest.raises(InvalidOption):
            collector(text)


def test_the_packages_are_an_extra(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(telemetry, "PACKAGES", ("no_such_package.of.ours",))
    with pytest.raises(InvalidOption, match="no_such_package") as caught:
        telemetry_options(URL, None, {})
    assert "entrepot[telemetry]" in (caught.value.remedy or "")
    with caplog.at_level(logging.WARNING):
        assert telemetry_options(None, None, {"OTEL_EXPORTER_OTLP_ENDPOINT": URL}) is None
    assert "no telemetry" in caplog.text, "a variable for all programs of a machine keeps no broker from starting"


def test_a_broker_that_is_watched_sends_its_spans(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    rig = Rig(disk=False)
    taken: list[Span] = []
    there = threading.Event()

    def send(batch: list[Span]) -> bool:
        taken.extend(batch)
        there.set()
        return True

    telemetry = Telemetry(TelemetryOptions(ratio=1.0, delay=0.01, most=1), send)
    soon: list[Callable[[], None]] = []
    telemetry.watch(rig.broker, soon.append)
    rig.send_all("/queue/orders", range(2))
    assert there.wait(20)
    telemetry.close()
    assert [span.name for span in taken] == ["route orders", "receive orders"]
    assert telemetry.outbox is not None
    assert (telemetry.outbox.sent, telemetry.outbox.dropped) == (2, 0)
    assert "1 messages were not traced" in caplog.text
    Telemetry(TelemetryOptions()).close()  # of a broker that never started


def test_a_flood_costs_no_more_than_ten_messages_a_second_unless_more_are_asked_for() -> None:
    rig = Rig(disk=False)
    telemetry = Telemetry(TelemetryOptions(ratio=1.0, delay=60.0), lambda batch: True)
    telemetry.watch(rig.broker, lambda work: None)
    rig.send_all("/queue/orders", range(100))
    assert telemetry.watching is not None
    assert int(telemetry.watching.passed_over) == 90
    telemetry.close()
    assert telemetry.outbox is not None
    assert telemetry.outbox.sent == 10 * len(["receive", "route"])


SPANS = [
    Span(
        "receive orders", TRACE, "1" * 16, SPAN, 1_000, 2_000, SERVER, {"messaging.system": "activemq"},
        [(TRACE, "2" * 16)], "ENT-1", "v=1", True,
    ),
    Span("route orders", TRACE, "3" * 16, "", 1_000, 1_500),
]  # fmt: skip
ABSENT = "the packages of entrepot[telemetry] are not installed"


def test_spans_are_those_of_the_sdk() -> None:
    pytest.importorskip("opentelemetry.sdk.trace", reason=ABSENT)
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from opentelemetry.trace import SpanKind, StatusCode

    exporter = InMemorySpanExporter()
    exporter.export(readable(SPANS, resource_of("north", "node-1")))
    first, second = exporter.get_finished_spans()
    assert (first.name, first.kind, first.start_time, first.end_time) == ("receive orders", SpanKind.SERVER, 1000, 2000)
    assert first.context.trace_id == int(TRACE, 16)
    assert first.context.trace_state.get("v") == "1"
    assert first.context.trace_flags.sampled
    assert first.parent is not None
    assert (first.parent.span_id, first.parent.is_remote) == (int(SPAN, 16), True)
    assert first.status.status_code is StatusCode.ERROR
    assert dict(first.attributes or {}) == {"messaging.system": "activemq", "error.type": "ENT-1"}
    assert [link.context.span_id for link in first.links] == [int("2" * 16, 16)]
    assert second.parent is None
    assert second.resource.attributes["service.instance.id"] == "node-1"
    assert second.resource.attributes["service.name"] == "entrepot"
    assert '"trace_id": "0x' + TRACE in first.to_json()


def test_the_operator_names_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("opentelemetry.sdk.resources", reason=ABSENT)
    monkeypatch.setenv("OTEL_SERVICE_NAME", "orders-broker")
    assert resource_of("north", "n").attributes["service.name"] == "orders-broker"


@pytest.mark.timeout(60)
def test_a_collector_that_is_away_takes_nothing() -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http.trace_exporter", reason=ABSENT)
    sender = Sender("http://127.0.0.1:9/v1/traces", Rig(disk=False).broker)
    sender.timeout = 0.2
    assert sender(SPANS) is False
