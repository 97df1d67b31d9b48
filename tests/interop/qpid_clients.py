"""Qpid JMS, unmodified: the programs of `java/core/` as far as they are JMS alone, compiled against it.

`Kit` is written anew for it: a factory of Qpid JMS, which knows no options of Artemis' client, and nothing of CORE in
what is shown. Features that ask Artemis' client for something that Qpid JMS does not have are left out by name.
"""

from __future__ import annotations

import re
from typing import Final

import artemis
import core_clients
import maven
import ours
from java_clients import SOURCES, compiled, run

LIBRARY: Final = "org.apache.qpid:qpid-jms-client:1.12.1"
JAKARTA: Final = "org.apache.qpid:qpid-jms-client:2.8.0"
"""The same client of the same years; JMS is ``jakarta.jms`` there."""
PARTS: Final = ("Bodies", "Sending", "Settling", "Subscribing", "Semantics")
LEFT_OUT: Final = ("Branches", "Refusals", "Addresses", "CoreApi", "Rounds")
FACTORY: Final = "org.apache.qpid.jms.JmsConnectionFactory"


def features() -> list[str]:
    """Return the names of the features, in their order."""
    return [
        name
        for part in PARTS
        for name in re.findall(r'features\.put\("(\w+)"', (core_clients.SOURCES / f"{part}.java").read_text())
    ]


def kit(text: str) -> str:
    """Return `Kit` for Qpid JMS."""
    text = re.sub(r"import org\.apache\.activemq[^\n]*\n", "", text)
    text = text.replace("ActiveMQConnectionFactory", FACTORY).replace("(with(options))", "(url)")
    text = re.sub(r"        ClientMessage core = .*?core\.isDurable\(\)[^\n]*\n", "", text, flags=re.DOTALL)
    return re.sub(r"        [^\n]*ActiveMQException[^\n]*\n", "", text)


def sources() -> dict[str, str]:
    """Return the programs."""
    found = {f"{part}.java": (core_clients.SOURCES / f"{part}.java").read_text() for part in (*PARTS, "Streamed")}
    found["Kit.java"] = kit((core_clients.SOURCES / "Kit.java").read_text())
    program = (core_clients.SOURCES / "Features.java").read_text()
    for part in LEFT_OUT:
        program = re.sub(rf"        {part}\.list\(features\);\n", "", program)
    found["Features.java"] = program
    for each in (SOURCES / "Mapped.java", *(SOURCES / "amqp").glob("*.java")):
        found[each.name] = each.read_text()
    return found


class Program:
    """The programs; `run` returns what one printed. Raises maven.Unavailable."""

    def __init__(self, library: str = LIBRARY) -> None:
        jars = maven.jars(library)
        written = sources()
        if library == JAKARTA:
            written = {name: text.replace("javax.jms", "jakarta.jms") for name, text in written.items()}
        self.made_of = (library, written)
        self.path = f"{compiled(written, f'{jars}/*')}:{jars}/*"

    def command(self, name: str, *arguments: str) -> list[str]:
        return ["java", "-XX:TieredStopAtLevel=1", "-Xmx256M", "-cp", self.path, name, *arguments]

    def run(self, name: str, *arguments: str) -> str:
        return run(self.command(name, *arguments))


def amqp_url(broker: artemis.Artemis | ours.Entrepot) -> str:
    """Return where Qpid JMS finds ``broker``."""
    return broker.url.replace("tcp://", "amqp://")
