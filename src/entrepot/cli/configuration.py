"""From the file that an operator names to a configuration and its findings: what `run` and `check` share."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from msgspec.structs import replace

from entrepot.base.errors import InvalidConfiguration, InvalidOption, InvalidURI
from entrepot.base.settings import Dialect
from entrepot.base.uri import Endpoint, parse
from entrepot.cli.console import INSTALL, askable, missing_package
from entrepot.cli.values import named_values
from entrepot.cluster.networks import connector as cluster
from entrepot.config.console import ConsolePlace, ConsoleSettings
from entrepot.config.encrypted import decryptor
from entrepot.config.files import read
from entrepot.config.findings import Findings, Severity
from entrepot.config.model import BrokerConfig, Connector, NetworkConnector
from entrepot.config.networks import lists_of
from entrepot.config.reading import Reading
from entrepot.io.links import verify
from entrepot.io.options import without_effect
from entrepot.io.places import SPOKEN
from entrepot.io.tls import server_context
from entrepot.node import Node
from entrepot.node_options import NodeOptions
from entrepot.protocols.openwire.negotiation import WIRE_FORMAT

if TYPE_CHECKING:
    from entrepot.config.sources import Decrypt

CONNECTORS: Final = "broker/transportConnectors/transportConnector"
ACCEPTORS: Final = "configuration/core/acceptors/acceptor"
PASSWORD: Final = "ACTIVEMQ_ENCRYPTION_PASSWORD"
FILE_FORMS: Final = ("xbean:", "file:")
COLOURS: Final = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "blue"}


def path_of(text: str) -> Path:
    """Return the file that ``text`` names: a path, ``file:...`` or ``xbean:...``. Raises InvalidConfiguration."""
    for form in ("broker:", "properties:", "xbean:classpath:", "http:", "https:"):
        if text.startswith(form):
            raise InvalidConfiguration(f"a broker cannot be started from {form} here", remedy="name a file")
    for form in FILE_FORMS:
        if text.startswith(form):
            text = text[len(form) :]
    return Path("/" + text.lstrip("/") if text.startswith("//") else text)


def load(
    text: str, defines: Sequence[str], *, strict: bool, properties: str = ""
) -> tuple[BrokerConfig | None, Findings]:
    """Read the file that ``text`` names, and try what its connectors say, without opening anything.

    ``strict``: a warning is an error. The configuration is None where there is an error. Raises InvalidConfiguration
    for what is not a configuration at all, InvalidOption for ``defines``.
    """
    reading = examine(text, defines, properties)
    findings = reading.findings.strict() if strict else reading.findings
    return None if findings.errors else reading.config, findings


def examine(text: str, defines: Sequence[str], properties: str = "") -> Reading:
    """Do the same and return all that is known of the file, whatever is wrong with it. Raises as `load`."""
    password = os.environ.get(PASSWORD, "")
    decrypt: Decrypt | None = decryptor(password) if password else None
    reading = read(
        path_of(text),
        spoken=SPOKEN,
        bridges=True,
        defines=named_values("-D", defines, "activemq.data=/var/lib/mq"),
        environment=os.environ,
        decrypt=decrypt,
        properties=[Path(word.strip()) for word in properties.split(",") if word.strip()],
    )
    if reading.config is not None:
        file = str(reading.files[0] if reading.files else path_of(text))
        for connector in reading.config.connectors:
            where = ACCEPTORS if reading.config.family is Dialect.ARTEMIS else CONNECTORS
            _try(connector, reading.findings, file, f"{where} {connector.name!r}")
        for network in reading.config.networks:
            _try_bridge(network, reading.findings, file)
        return replace(reading, config=replace(reading.config, console=_tried(reading.config, reading.findings)))
    return reading


def _tried(config: BrokerConfig, findings: Findings) -> ConsoleSettings | None:
    """Return the console with the places that can be opened, None where there is nothing to open; each is a finding.

    What is wrong with it keeps no broker from starting.
    """
    console = config.console
    if console is None:
        return None
    where = (console.file, console.line, console.path)
    if missing_package():
        what = f"the console is not started: it needs the package {missing_package()!r}"
        findings.add(Severity.WARNING, *where, what, INSTALL)
        return None
    if not askable([connector.uri for connector in config.connectors]):  # others may be given by an option
        what = "the console cannot ask this broker: it does so in OpenWire, which no connector speaks"
        findings.add(Severity.WARNING, *where, what, "add one for tcp: or auto:")
    places = tuple(place for place in console.places if _opens(place, findings))
    return replace(console, places=places) if places else None


def _opens(place: ConsolePlace, findings: Findings) -> bool:
    """Return whether the TLS of a place of the console can be spoken."""
    if place.tls is None:
        return True
    from entrepot.console.door import tls_options  # noqa: PLC0415 - an extra

    try:
        server_context(tls_options(place.tls))
    except InvalidOption as error:
        what = f"the console is not opened at {place}: {error.message}"
        findings.add(Severity.WARNING, place.file, place.line, place.path, what, error.remedy)
        return False
    return True


def _try(connector: Connector, findings: Findings, file: str, path: str) -> None:
    """Let the options of one connector be read by those who obey them."""
    place = parse(connector.uri)
    assert isinstance(place, Endpoint), "the reader has refused lists"
    _note(place, findings, file, connector.line, path)
    try:
        Node(NodeOptions(listen=[connector.uri]))
    except (InvalidOption, InvalidURI) as error:
        findings.add(Severity.ERROR, file, connector.line, path, error.message, error.remedy)


def _try_bridge(network: NetworkConnector, findings: Findings, file: str) -> None:
    """Let the URI of one network connector be read by those who dial it."""
    path = f"broker/networkConnectors/networkConnector {network.options.name!r}"
    try:
        made = cluster.NetworkConnector(network.options, lists_of(network))
        for what in made.discovery.notes:
            findings.add(Severity.NOTE, file, network.line, path, what)
        for target in made.discovery.targets:
            for place in target.places:
                _note(place, findings, file, network.line, path, dialled=True)
        verify(made)
    except (InvalidOption, InvalidURI) as error:
        findings.add(Severity.ERROR, file, network.line, path, error.message, error.remedy)


def _note(place: Endpoint, findings: Findings, file: str, line: int, path: str, *, dialled: bool = False) -> None:
    """Say which options of a place have no effect; ``dialled``: OpenWire is what is spoken there."""
    for name, value in place.options.items():
        reason = "" if dialled and name.startswith(WIRE_FORMAT) else without_effect(name)
        if reason:
            what = f"the option {name}={value} has no effect here: {reason}"
            findings.add(Severity.NOTE, file, line, path, what)


def show(findings: Findings) -> None:
    """Write every finding to standard error, a line each."""
    for finding in findings.sorted():
        head, mark, rest = finding.describe().partition(f"{finding.severity.name.lower()}: ")
        click.echo(head + click.style(mark, fg=COLOURS[finding.severity]) + rest, err=True)


def counted(findings: Findings) -> str:
    """Return how many there are of each severity, in words."""
    parts = []
    for severity in sorted(Severity, reverse=True):
        count = len(findings.of(severity))
        if count:
            parts.append(f"{count} {severity.name.lower()}{'' if count == 1 else 's'}")
    return ", ".join(parts) or "nothing to report"
