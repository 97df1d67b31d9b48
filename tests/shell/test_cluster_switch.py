"""`entrepot cluster stop` and `start` at one of two processes: what it sends, what stays, and what goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from test_pair_xml import Running, Start, send, start

from entrepot import blocking
from pairs import free_port, until
from promises import never

__all__ = ["start"]

CONFIGURATION = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core"><name>{name}</name>
<security-enabled>false</security-enabled><journal-directory>{journal}</journal-directory>
<cluster-user>c</cluster-user><cluster-password>secret</cluster-password>
<connectors><connector name="own">tcp://127.0.0.1:{core}</connector>
<connector name="other">tcp://127.0.0.1:{other}</connector></connectors>
<acceptors><acceptor name="stomp">tcp://127.0.0.1:{stomp}?protocols=STOMP</acceptor>
<acceptor name="core">tcp://127.0.0.1:{core}?protocols=CORE</acceptor></acceptors>
<cluster-connections><cluster-connection name="mesh"><connector-ref>own</connector-ref>
<retry-interval>200</retry-interval><message-load-balancing>ON_DEMAND</message-load-balancing>
<static-connectors><connector-ref>other</connector-ref></static-connectors></cluster-connection></cluster-connections>
<address-settings><address-setting match="#"><redistribution-delay>0</redistribution-delay></address-setting>
</address-settings>
<addresses><address name="q"><anycast><queue name="q"/></anycast></address></addresses>
</core></configuration>
"""


class Two:
    """Two nodes, `a` and `b`, each with a port for STOMP and one for CORE."""

    def __init__(self, home: Path, start: Start) -> None:
        self.stomp = {name: free_port() for name in "ab"}
        self.core = {name: free_port() for name in "ab"}
        self.running: dict[str, Running] = {}
        for name, other in ("ab", "ba"):
            file = home / f"{name}.xml"
            file.write_text(
                CONFIGURATION.format(
                    name=name, journal=home / name, core=self.core[name], other=self.core[other], stomp=self.stomp[name]
                )
            )
            self.running[name] = start(file)
        for name, one in self.running.items():
            until(one.serves, f"{name} serves")

    def tell(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Give a command to `a`."""
        url = f"stomp://127.0.0.1:{self.stomp['a']}"
        command = [sys.executable, "-m", "entrepot", *words, "--url", url]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def shown(self) -> dict[str, Any]:
        """Return the cluster connection of `a`."""
        return dict(json.loads(self.tell("cluster", "show", "mesh", "--output", "json").stdout))

    def meets(self) -> bool:
        """Whether `a` knows the consumer of the queue of `b`."""
        return any(one["state"] == "met" and one["consumers"] for one in self.shown()["members"])

    def waiting(self) -> int:
        """Return how many messages wait in the queue of `a`."""
        return int(json.loads(self.tell("queue", "show", "q", "--output", "json").stdout)["messages"])


def test_a_cluster_connection_is_stopped_and_started_by_command(tmp_path: Path, start: Start) -> None:
    two = Two(tmp_path, start)
    with blocking.connect(f"core://127.0.0.1:{two.core['b']}") as connection, connection.session() as session:
        reader = session.consumer("queue://q")

        def read() -> str:
            message = reader.receive(timeout=20)
            assert message is not None, "nothing came"
            return bytes(message.body).decode() if isinstance(message.body, bytes) else str(message.body)

        until(two.meets, "they meet")
        send(two.stomp["a"], b"before")
        assert read() == "before"

        said = two.tell("cluster", "stop", "mesh")
        assert (said.returncode, said.stderr) == (0, "stopped mesh\n"), said.stdout
        assert two.tell("cluster", "stop", "mesh").returncode == 0, "once more is no mistake"
        assert not two.meets()
        send(two.stomp["a"], b"one", b"two")
        assert reader.receive(timeout=0.5) is None
        assert two.waiting() == 2, "what is sent there stays with its own queue"

        said = two.tell("cluster", "start", "mesh", "--output", "json")
        assert json.loads(said.stdout) == {"cluster": "mesh", "started": True}
        with never():
            assert [read(), read()] == ["one", "two"], "what waited goes on its way"
        until(two.meets, "they meet again")
        send(two.stomp["a"], b"after")
        assert read() == "after"

    wrong = two.tell("cluster", "stop", "none")
    assert wrong.returncode != 0
    assert "none" in wrong.stderr
