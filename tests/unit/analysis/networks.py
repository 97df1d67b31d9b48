"""Short ways to the configurations of a network and what is found in it."""

from __future__ import annotations

from entrepot.analysis.members import member_of
from entrepot.analysis.model import Issue, Network
from entrepot.analysis.rules import judge
from entrepot.analysis.survey import network_of
from entrepot.config import artemis
from entrepot.config.classic import interpret
from entrepot.config.findings import Findings, Severity
from entrepot.config.sources import Sources
from entrepot.config.xml import parse

SPOKEN = ("openwire", "stomp", "http")


def connector(to: str, attributes: str = "", body: str = "", *, name: str = "") -> str:
    """Return a network connector; ``to`` is a place, or a whole URI."""
    uri = to if "(" in to or "://" in to else f"static:(tcp://{to})"
    name = name or "to-" + to.partition(":")[0]
    return f'<networkConnector name="{name}" uri="{uri}" {attributes}>{body}</networkConnector>'


def listed(kind: str, *entries: str) -> str:
    """Return a list of destinations, each like ``queue:a.>``."""
    inner = "".join(f'<{one.partition(":")[0]} physicalName="{one.partition(":")[2]}"/>' for one in entries)
    return f"<{kind}>{inner}</{kind}>"


class Files:
    """Configurations by broker name; the hosts of brokers are called as they are."""

    def __init__(self, **hosts: str) -> None:
        self.hosts = hosts
        self.texts: dict[str, str] = {}

    def add(
        self, name: str, *connectors: str, body: str = "", attributes: str = "", listen: str = "tcp://0.0.0.0:61616"
    ) -> Files:
        places = "".join(
            f'<transportConnector name="t{number}" uri="{uri}"/>' for number, uri in enumerate(listen.split())
        )
        persistent = "" if "persistent=" in attributes or "<persistenceAdapter>" in body else 'persistent="false"'
        file = f"{name}.xml" if f"{name}.xml" not in self.texts else f"{name}2.xml"
        self.texts[file] = (
            f'<broker xmlns="http://activemq.apache.org/schema/core" brokerName="{name}" {persistent} {attributes}>\n'
            + ("<networkConnectors>\n" + "\n".join(connectors) + "\n</networkConnectors>\n" if connectors else "")
            + f"{body}<transportConnectors>{places}</transportConnectors></broker>"
        )
        return self

    def with_body(self, body: str) -> Files:
        """Add ``body`` to every broker."""
        for file, text in self.texts.items():
            self.texts[file] = text.replace("<transportConnectors>", body + "<transportConnectors>")
        return self

    def network(self) -> Network:
        members = []
        for file, text in self.texts.items():
            sources = Sources(Findings())
            sources.file = file
            root = parse(text.encode(), file)
            if artemis.belongs(root):
                reading = artemis.interpret(root, sources, spoken=SPOKEN)
            else:
                reading = interpret(root, sources, spoken=SPOKEN, bridges=True)
            assert reading.draft is not None
            members.append(member_of(reading.draft, file, self.hosts.get(reading.draft.broker.name, "")))
        return network_of(members)

    def issues(self, severity: Severity | None = None) -> list[Issue]:
        return [one for one in judge(self.network()) if severity in (None, one.severity)]

    def said(self, severity: Severity | None = None) -> list[str]:
        return [one.what for one in self.issues(severity)]


def chain(*names: str, attributes: str = 'duplex="true"') -> Files:
    """Return brokers each of which dials the next."""
    files = Files()
    for name, following in zip(names, (*names[1:], ""), strict=True):
        files.add(name, *([connector(f"{following}:61616", attributes)] if following else []))
    return files
