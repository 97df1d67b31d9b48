"""How a real Artemis is launched beside the others: from Maven, in the form that programs embed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from brokers import HOST, Broker, Ports, free_port

sys.path[:0] = [str(Path(__file__).resolve().parent.parent / "tests" / "interop")]

import artemis  # noqa: E402 - the line above must come first

MEMORY: Final = ("-Xms512M", "-Xmx2G", "-XX:+UseParallelGC")  # what the start script of Artemis gives the machine
CONFIGURATION: Final = """\
<configuration xmlns="urn:activemq">
  <core xmlns="urn:activemq:core">
    <name>bench</name>
    <journal-type>NIO</journal-type>
    <paging-directory>{home}/paging</paging-directory>
    <bindings-directory>{home}/bindings</bindings-directory>
    <journal-directory>{home}/journal</journal-directory>
    <large-messages-directory>{home}/large-messages</large-messages-directory>
    <security-enabled>false</security-enabled>
    <wildcard-addresses><any-words>&gt;</any-words></wildcard-addresses>
    <acceptors>
      <acceptor name="core">tcp://{host}:{core}?protocols=CORE</acceptor>
      <acceptor name="stomp">tcp://{host}:{stomp}?protocols=STOMP;anycastPrefix=/queue/;multicastPrefix=/topic/</acceptor>
    </acceptors>
  </core>
</configuration>
"""


class Artemis(Broker):
    """A real one. Destinations over STOMP are written as for the others."""

    name = "artemis"
    title = f"Artemis {artemis.VERSION}"

    def unavailable(self) -> str | None:
        return artemis.unavailable() or None

    def command(self, home: Path, ports: Ports, *, fast_fill: bool, bridge_to: int = 0) -> list[str]:
        file = home / "broker.xml"
        core = ports.openwire or free_port()
        file.write_text(CONFIGURATION.format(home=home, host=HOST, core=core, stomp=ports.stomp))
        return ["java", *MEMORY, "-cp", artemis.class_path(), "Artemis", str(file)]
