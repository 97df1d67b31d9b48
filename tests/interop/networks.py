"""Two brokers in one network, each ActiveMQ Classic or this one; either may be the one that dials."""

from __future__ import annotations

from pathlib import Path

import classic
import ours
from wires import Wire

SHAPES = {
    "entrepot-classic": ("entrepot", "classic", False),
    "entrepot-classic-duplex": ("entrepot", "classic", True),
    "classic-entrepot": ("classic", "entrepot", False),
    "classic-entrepot-duplex": ("classic", "entrepot", True),
    "entrepot-entrepot": ("entrepot", "entrepot", False),
    "entrepot-entrepot-duplex": ("entrepot", "entrepot", True),
}

Broker = classic.Classic | ours.Entrepot


def bridging(
    kind: str,
    home: Path,
    *,
    name: str,
    to: list[Broker],
    duplex: bool,
    attributes: str = "",
    connector: str = "",
    version: str = classic.VERSION,
) -> Broker:
    """Return a broker with one network connector to each of ``to``. ``attributes``: as in XML, `networkTTL="2"`.

    ``connector``: attributes of the transport connector (Classic). ``version``: of ActiveMQ.
    """
    pairs = [one.partition("=") for one in attributes.split()]
    query = "&".join(key + "=" + value.strip('"') for key, _, value in pairs)
    agent = "initialReconnectDelay=100&useExponentialBackOff=false"
    if kind == "entrepot":
        uris = [f"static:({one.url})?{agent}" + (f"&{query}" if query else "") for one in to]
        arguments = [word for uri in uris for word in ("--connect", uri)]
        return ours.Entrepot(home, name=name, arguments=(*arguments, *(["--duplex"] if duplex else [])))
    made = classic.Classic(home, name=name, connector=connector, version=version)
    connectors = "".join(
        f'<networkConnector name="NC{number}" uri="static:({one.url})?{agent.replace("&", "&amp;")}" '
        f'duplex="{str(duplex).lower()}" {attributes}/>'
        for number, one in enumerate(to)
    )
    file = home / "activemq.xml"
    text = file.read_text().replace(
        "<transportConnectors>", f"<networkConnectors>{connectors}</networkConnectors><transportConnectors>"
    )
    file.write_text(text)
    return made


def plain(kind: str, home: Path, *, name: str, wire: Wire | None = None) -> Broker:
    """Return a broker without connectors; ``wire``: at the other end of it."""
    if kind == "classic":
        return classic.Classic(home, name=name, wire=wire)
    return ours.Entrepot(home, name=name, wire=wire)
