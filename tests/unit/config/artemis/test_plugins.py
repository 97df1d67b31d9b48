"""broker-plugins: what the notifying plugin of Artemis has told, and what becomes of the others."""

from __future__ import annotations

import pytest

from entrepot.config.artemis import interpret
from entrepot.config.artemis.plugins import GUARDING, LOGGING, NOTIFYING, TOLD
from entrepot.config.findings import Findings, Severity
from entrepot.config.reading import Reading
from entrepot.config.sources import Sources
from entrepot.config.xml import parse


def read(name: str, **properties: str) -> Reading:
    inside = "".join(f'<property key="{key}" value="{value}"/>' for key, value in properties.items())
    text = (
        '<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core"><security-enabled>false</security-enabled>'
        f'<broker-plugins><broker-plugin class-name="{name}">{inside}</broker-plugin></broker-plugins>'
        '<persistence-enabled>false</persistence-enabled><acceptors><acceptor name="a">'
        "tcp://127.0.0.1:0?protocols=STOMP</acceptor></acceptors></core></configuration>"
    )
    sources = Sources(Findings())
    sources.file = "broker.xml"
    return interpret(parse(text.encode(), "broker.xml"), sources, spoken=("stomp",))


def kinds(**properties: str) -> int:
    reading = read(NOTIFYING, **properties)
    assert reading.config is not None
    assert reading.findings.sorted() == []
    return reading.config.notices.kinds


def test_the_notifying_plugin_tells_what_its_properties_say() -> None:
    assert kinds() == 0
    assert kinds(SEND_SESSION_NOTIFICATIONS="true") == 0, "sessions are told of without it"
    for name, kind in TOLD.items():
        assert (kinds(**{name: "true"}), kinds(**{name: "false"})) == (kind, 0)
    everything = 0
    for kind in TOLD.values():
        everything |= kind
    assert kinds(**dict.fromkeys(TOLD, "TRUE")) == everything


@pytest.mark.parametrize(
    ("name", "severity", "words"),
    [
        (LOGGING, Severity.NOTE, "--log-level debug"),
        (GUARDING, Severity.ERROR, "readers would see more"),
        ("com.example.Mine", Severity.WARNING, "cannot be loaded"),
    ],
)
def test_other_plugins_are_named(name: str, severity: Severity, words: str) -> None:
    reading = read(name, anything="x")
    (finding,) = reading.findings.sorted()
    assert finding.severity is severity
    assert words in finding.what
    assert (reading.config is None) == (severity is Severity.ERROR)


def test_a_property_that_does_not_exist_is_an_error() -> None:
    reading = read(NOTIFYING, SEND_EVERYTHING="true")
    assert [one.what for one in reading.findings.errors] == ["there is no property 'SEND_EVERYTHING'"]
