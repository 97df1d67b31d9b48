"""Two brokers in one network, each ActiveMQ Classic or this one; either may be the one that dials."""

from __future__ import annotations

import sys
from pathlib import Path

import classic
import ours

SHAPES = {
    "entrepot-classic": ("entrepot", "classic", False),
    "entrepot-classic-duplex": ("entrepot", "classic", True),
    "classic-entrepot": ("classic", "entrepot", False),
    "classic-entrepot-duplex": ("classic", "entrepot", True),
    "entrepot-entrepot": ("entrepot", "entrepot", False),
    "entrepot-entrepot-duplex": ("entrepot", "entrepot", True),
}

Broker = classic.Classic | ours.Entrepot


class BridgingEntrepot(ours.Entrepot):
    """This broker with network connectors."""

    def __init__(self, home: Path, *, name: str, connect: list[str], duplex: bool) -> None:
        super().__init__(home, name=name)
        self.connect = connect
        self.duplex = duplex

    def start(self) -> BridgingEntrepot:
        command = [sys.executable, "-m", "entrepot", "run", "--name", self.name, "--data", str(self.home / "data")]
        command += ["--listen", f"openwire://{ours.HOST}:{self.port}"]
        for uri in self.connect:
            command += ["--connect", uri]
        if self.duplex:
            command.append("--duplex")
        with (self.home / "log").open("ab") as log:
            self.process = ours.subprocess.Popen(command, stdin=ours.subprocess.DEVNULL, stdout=log, stderr=log)
        return self


def bridging(
    kind: str, home: Path, *, name: str, to: list[Broker], duplex: bool, attributes: str = "", connector: str = ""
) -> Broker:
    """Return a broker with one network connector to each of ``to``. ``attributes``: as in XML, `networkTTL="2"`.

    ``connector``: attributes of the transport connector (Classic).
    """
    pairs = [one.partition("=") for one in attributes.split()]
    query = "&".join(key + "=" + value.strip('"') for key, _, value in pairs)
    agent = "initialReconnectDelay=100&useExponentialBackOff=false"
    if kind == "entrepot":
        uris = [f"static:({one.url})?{agent}" + (f"&{query}" if query else "") for one in to]
        return BridgingEntrepot(home, name=name, connect=uris, duplex=duplex)
    made = classic.Classic(home, name=name, connector=connector)
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


def plain(kind: str, home: Path, *, name: str) -> Broker:
    return classic.Classic(home, name=name) if kind == "classic" else ours.Entrepot(home, name=name)
