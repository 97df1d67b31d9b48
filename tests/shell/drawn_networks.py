"""Brokers in every kind of link that there is, and a console that shows them, for tests of its pages.

`a` and `b` are nodes of a cluster; `a` has a core bridge, an AMQP connection and an upstream to `b`, and `edge` a
network connector to each. A broker `gone` is asked for, and never runs.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Final

from shell.consoles import Process

HOSTILE: Final = "<svg/onload>\"'&{{7*7}}<script>alert(1)</script>"
NODE: Final = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core"><name>{name}</name>
<security-enabled>false</security-enabled><persistence-enabled>false</persistence-enabled>
<cluster-user>c</cluster-user><cluster-password>secret</cluster-password>
<connectors><connector name="own">tcp://127.0.0.1:{own}</connector>
<connector name="other">tcp://127.0.0.1:{other}</connector></connectors>
<acceptors><acceptor name="all">tcp://127.0.0.1:{own}</acceptor></acceptors>
<cluster-connections><cluster-connection name="mesh"><connector-ref>own</connector-ref>
<retry-interval>200</retry-interval><message-load-balancing>ON_DEMAND</message-load-balancing>
<static-connectors><connector-ref>other</connector-ref></static-connectors></cluster-connection></cluster-connections>
{more}
<addresses><address name="shared"><anycast><queue name="shared"/></anycast></address>
<address name="out"><anycast><queue name="out"/></anycast></address></addresses>
</core></configuration>
"""
LINKS: Final = """<bridges><bridge name="carry"><queue-name>out</queue-name><forwarding-address>in</forwarding-address>
<retry-interval>200</retry-interval><static-connectors><connector-ref>other</connector-ref></static-connectors></bridge></bridges>
<broker-connections><amqp-connection uri="tcp://127.0.0.1:{other}" name="called" retry-interval="200">
<sender address-match="called"/></amqp-connection></broker-connections>
<federations><federation name="F"><upstream name="U"><retry-interval>200</retry-interval>
<static-connectors><connector-ref>other</connector-ref></static-connectors><policy ref="P"/></upstream>
<queue-policy name="P"><include queue-match="fetched"/></queue-policy></federation></federations>
"""


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on."""
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return ports


class Networked:
    """Three brokers and their console. ``url``: of the console; ``tcp``: broker -> its URL."""

    def __init__(self, home: Path) -> None:
        ports = dict(zip(("a", "b", "edge", "gone"), free_ports(4), strict=True))
        self.tcp = {name: f"tcp://127.0.0.1:{port}" for name, port in ports.items()}
        self.running: dict[str, Process] = {}
        for name, other in ("ab", "ba"):
            more = LINKS.format(other=ports[other]) if name == "a" else ""
            file = home / f"{name}.xml"
            file.write_text(NODE.format(name=name, own=ports[name], other=ports[other], more=more))
            self.running[name] = Process(home, name, "run", "--zone", "ams", str(file))
        connects = [
            f"static:({self.tcp[name]})?initialReconnectDelay=100&name=to-{name}" for name in ("a", "b", "gone")
        ]
        options = [part for connect in connects for part in ("--connect", connect)]
        listen = ("--ephemeral", "--listen", f"auto://127.0.0.1:{ports['edge']}")
        self.running["edge"] = Process(
            home, "edge", "run", *listen, "--name", "edge", "--zone", "fra", "--duplex", *options
        )
        names = {"a": "a", "b": "b", "edge": HOSTILE, "gone": "gone"}
        asked = [part for name, called in names.items() for part in ("--broker", f"{called}={self.tcp[name]}")]
        self.console = Process(home, "console", "console", "--listen", "127.0.0.1:0", *asked)
        self.url: str = self.console.facts["url"]

    def stop(self) -> None:
        """End all of them."""
        self.console.stop()
        for one in self.running.values():
            one.stop()
