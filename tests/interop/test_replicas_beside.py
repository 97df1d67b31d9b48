"""Our replicated pairs and hosted copies with real Artemis brokers in the same cluster."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import artemis
import pytest
from artemis import Artemis
from classic import free_port
from ours import member
from test_scale_down import LARGE, read

import entrepot
from entrepot import Message

pytestmark = pytest.mark.skipif(bool(artemis.unavailable()), reason=f"Artemis: {artemis.unavailable()}")

PATIENCE_S: Final = 60.0
COUNT: Final = 60
CLUSTER: Final = """<cluster-user>c</cluster-user><cluster-password>secret</cluster-password>
<connectors><connector name="own">tcp://127.0.0.1:{own}</connector>
<connector name="other">tcp://127.0.0.1:{other}</connector></connectors>
<cluster-connections><cluster-connection name="c"><connector-ref>own</connector-ref>
<retry-interval>200</retry-interval><message-load-balancing>OFF</message-load-balancing>
<static-connectors>{seeds}</static-connectors></cluster-connection></cluster-connections>"""
SEED: Final = "<connector-ref>other</connector-ref>"
OURS: Final = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core"><name>{name}</name>
<security-enabled>false</security-enabled><journal-directory>{home}/{name}</journal-directory>
<acceptors><acceptor name="all">tcp://127.0.0.1:{own}?protocols=CORE</acceptor></acceptors>
{cluster}<ha-policy><replication>{policy}</replication></ha-policy></core></configuration>"""
DRAINS: Final = """<backup><scale-down><connectors><connector-ref>other</connector-ref></connectors></scale-down>
</backup>"""
COLOCATED: Final = """<ha-policy><replication><colocated><request-backup>true</request-backup>
<backup-request-retry-interval>500</backup-request-retry-interval><max-backups>1</max-backups>
<excludes><connector-ref>other</connector-ref></excludes><primary/><backup/></colocated></replication></ha-policy>"""
HOSTS: Final = COLOCATED.removeprefix("<ha-policy><replication>").removesuffix("</replication></ha-policy>")


async def fill(url: str) -> None:
    async with (
        asyncio.timeout(PATIENCE_S),
        entrepot.connect(url) as connection,
        connection.session() as session,
        session.producer("moved") as producer,
        session.producer("big") as big,
    ):
        for number in range(COUNT):
            await producer.send(Message(str(number), properties={"number": number}))
        await big.send(LARGE)


def until(true: Callable[[], object], what: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.05)


class Ours:
    """One broker of ours with a store of its own."""

    def __init__(self, home: Path, name: str, port: int, other: int, policy: str, *, places: tuple[int, int]) -> None:
        """``other``: where the Artemis is; ``places``: where replicas connect here, and at the other of ours."""
        self.port, self.status = port, free_port()
        file = home / f"{name}.xml"
        told = {"name": name, "home": home, "own": port, "policy": policy}
        file.write_text(OURS.format(**told, cluster=CLUSTER.format(own=port, other=other, seeds=SEED)))
        (home / "lock").mkdir(exist_ok=True)
        self.command = [
            *(sys.executable, "-m", "entrepot", "run", str(file), "--ha", "replication", "--copies", "1"),
            *("--locker", f"file:{home / 'lock'}", "--status", f"127.0.0.1:{self.status}"),
            *("--replication", f"127.0.0.1:{places[0]}", "--peer", f"127.0.0.1:{places[1]}"),
        ]
        self.log = home / f"{name}.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)

    def facts(self) -> dict[str, Any]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.status}/status", timeout=5) as answer:
                return dict(json.load(answer))
        except OSError:
            return {}

    def end(self, how: signal.Signals = signal.SIGKILL) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(30)
            self.process = None

    @property
    def listens(self) -> bool:
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", self.port)) == 0


@pytest.fixture
def running() -> Iterator[list[Artemis | Ours]]:
    found: list[Artemis | Ours] = []
    yield found
    for one in found:
        if isinstance(one, Ours):
            one.end()
        else:
            one.kill()


def test_a_backup_with_a_store_of_its_own_gives_all_to_an_artemis(
    tmp_path: Path, running: list[Artemis | Ours]
) -> None:
    ports, places = (free_port(), free_port()), (free_port(), free_port())
    there = free_port()
    target = member(
        "artemis", tmp_path / "third", "third", there, CLUSTER.format(own=there, other=ports[1], seeds=SEED)
    )
    assert isinstance(target, Artemis)
    primary = Ours(tmp_path, "primary", ports[0], target.port, "<primary/>", places=places)
    backup = Ours(tmp_path, "backup", ports[1], target.port, DRAINS, places=(places[1], places[0]))
    running += [target, primary, backup]
    target.start()
    primary.start()
    until(lambda: primary.facts().get("ready"), "the primary serves")
    backup.start()
    until(lambda: backup.facts().get("replication", {}).get("in_sync"), "the backup is in sync")
    asyncio.run(fill(f"core://127.0.0.1:{primary.port}"))
    target.await_ready()
    primary.end()
    until(lambda: backup.facts().get("drain", {}).get("state") == "done", "it gave all away")
    assert backup.facts()["drain"]["left"] == 0
    assert not backup.listens
    url = f"core://127.0.0.1:{target.port}"
    assert asyncio.run(read(url, "moved", COUNT)) == [str(number) for number in range(COUNT)]
    assert asyncio.run(read(url, "big", 1)) == [LARGE]
    primary.start()
    until(lambda: primary.facts().get("ready"), "the primary has its store back")
    until(lambda: primary.listens, "and serves")
    assert asyncio.run(read(f"core://127.0.0.1:{primary.port}", "moved", 0)) == []


def test_nodes_that_host_no_copies_of_one_another_say_so_and_stay_together(
    tmp_path: Path, running: list[Artemis | Ours]
) -> None:
    """Each asks the other again and again; the connections on which they do stay."""
    ports, places = (free_port(), free_port()), (free_port(), free_port())
    core = CLUSTER.format(own=ports[0], other=ports[1], seeds=SEED) + COLOCATED
    theirs = member("artemis", tmp_path / "theirs", "theirs", ports[0], core)
    assert isinstance(theirs, Artemis)
    ours = Ours(tmp_path, "ours", ports[1], ports[0], HOSTS, places=places)
    running += [theirs, ours]
    theirs.start()
    ours.start()
    until(lambda: "none of 1 nodes hosts its backup" in ours.log.read_text(), "the Artemis hosts no copy of ours")
    time.sleep(3)  # six questions of the Artemis
    assert "LOG-3008" not in ours.log.read_text(), "it refused what the Artemis said"
    assert "hosts backup" not in ours.log.read_text()
