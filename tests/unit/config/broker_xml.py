"""Short ways to a broker's XML and what is read from it."""

from __future__ import annotations

from typing import Any

from entrepot.config.classic import Reading, interpret
from entrepot.config.findings import Findings, Severity
from entrepot.config.sources import Sources
from entrepot.config.xml import parse

LISTEN = '<transportConnectors><transportConnector name="s" uri="stomp://127.0.0.1:0"/></transportConnectors>'
MEMORY = "<persistenceAdapter><memoryPersistenceAdapter/></persistenceAdapter>"


def broker(body: str = "", attributes: str = "", *, around: str = "", listen: str = LISTEN) -> str:
    """Return a file with one broker."""
    return (
        f'<beans xmlns="http://www.springframework.org/schema/beans">{around}'
        f'<broker xmlns="http://activemq.apache.org/schema/core" {attributes}>{body}{listen}</broker></beans>'
    )


def read(text: str, **given: Any) -> Reading:
    """Read a file from its text. ``spoken`` and ``bridges`` as for the reader, the rest fills placeholders."""
    spoken = given.pop("spoken", ("openwire", "stomp"))
    bridges = given.pop("bridges", False)
    sources = Sources(Findings(), **given)
    sources.file = "f.xml"
    return interpret(parse(text.encode(), "f.xml"), sources, spoken=spoken, bridges=bridges)


def said(reading: Reading, severity: Severity | None = None) -> list[str]:
    """Return what the findings say, of one severity or of all."""
    return [finding.what for finding in reading.findings if severity in (None, finding.severity)]


def errors(text: str, **given: Any) -> list[str]:
    """Return the errors of a file; there is no model exactly when there are some."""
    reading = read(text, **given)
    found = said(reading, Severity.ERROR)
    assert (reading.config is None) == bool(found)
    return found
