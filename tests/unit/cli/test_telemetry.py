"""The options of `entrepot run` about OpenTelemetry."""

from __future__ import annotations

import os

import pytest

from entrepot.base.errors import InvalidOption
from entrepot.cli.telemetry import telemetry
from entrepot.management import telemetry as management


@pytest.fixture(autouse=True)
def nothing_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)


def test_without_a_word_there_is_none() -> None:
    assert telemetry(None, None, None) is None


def test_a_ratio_or_a_limit_without_a_collector_is_a_mistake() -> None:
    for ratio, most in ((0.5, None), (None, 3)):
        with pytest.raises(InvalidOption, match="--otlp"):
            telemetry(None, ratio, most)


def test_what_is_said_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(management, "absent_packages", lambda: "")
    made = telemetry("http://localhost:4318", 0.5, 7)
    assert made is not None
    assert (made.options.url, made.options.ratio, made.options.most) == ("http://localhost:4318/v1/traces", 0.5, 7)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318")
    named = telemetry(None, None, None)
    assert named is not None
    assert named.options.url == "", "the SDK reads it"
