"""A real Artemis pair that replicates, and a node of ours as the third voice: who is primary is what ours sees."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import artemis
import pytest
import shared_classes
from java_broker import JAVA

from pairs import Connection, until
from voters import Machines

pytestmark = [
    pytest.mark.skipif(bool(artemis.unavailable()), reason=f"Artemis: {artemis.unavailable()}"),
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("ip") is None, reason="making network namespaces takes root, and ip"
    ),
]

PORT: Final = 61616
PATIENCE_S: Final = 150.0
SYNCED: Final = (
    "SEND\ndestination:activemq.management\nreply-to:answers\n"
    "_AMQ_ResourceName:broker\n_AMQ_Attribute:replicaSync\n\n\0"
)
CORE: Final = """<cluster-user>c</cluster-user><cluster-password>secret</cluster-password>
<connectors>{connectors}</connectors>
<cluster-connections><cluster-connection name="c"><connector-ref>{own}</connector-ref>
<check-period>500</check-period><connection-ttl>2000</connection-ttl><retry-interval>200</retry-interval>
<reconnect-attempts>2</reconnect-attempts><call-timeout>3000</call-timeout>
<message-load-balancing>OFF</message-load-balancing>
<static-connectors>{seeds}</static-connectors></cluster-connection></cluster-connections>{policy}"""
POLICY: Final = "<ha-policy><replication><{part}>{more}</{part}></replication></ha-policy>"
VOTES: Final = "<vote-retries>40</vote-retries><vote-retry-wait>500</vote-retry-wait>"
OURS: Final = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core"><name>ours</name>
<security-enabled>false</security-enabled>
<acceptors><acceptor name="all">tcp://{host}:{port}?protocols=CORE</acceptor></acceptors>{core}</core></configuration>"""


class Cluster:
    """The primary on machine p, its backup on b, ours on o; each knows all."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.machines = Machines("p", "b", "o")
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def core(self, name: str, policy: str) -> str:
        every = ("p", "b", "o")
        connectors = "".join(
            f'<connector name="{each}">tcp://{self.machines.host(each)}:{PORT}</connector>' for each in every
        )
        seeds = "".join(f"<connector-ref>{each}</connector-ref>" for each in every if each != name)
        return CORE.format(connectors=connectors, own=name, seeds=seeds, policy=policy)

    def log(self, name: str) -> str:
        return (self.home / f"{name}.log").read_text(errors="replace")

    def _run(self, name: str, command: list[str]) -> None:
        with (self.home / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [*self.machines.inside(name), *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def ours(self) -> None:
        """Start the node of ours."""
        file = self.home / "ours.xml"
        file.write_text(OURS.format(host=self.machines.host("o"), port=PORT, core=self.core("o", "")))
        data = ("--data", str(self.home / "ours"))
        self._run("o", [sys.executable, "-m", "entrepot", "run", str(file), *data])

    def artemis(self, name: str, part: str, more: str) -> None:
        """Start one of the pair."""
        folder = self.home / name
        folder.mkdir(exist_ok=True)
        host = self.machines.host(name)
        told = dict.fromkeys(("acceptor", "settings", "addresses", "rights"), "")
        text = artemis.CONFIGURATION.format(
            name=name,
            home=folder,
            host=host,
            port=PORT,
            secure="false",
            permissions=artemis.PERMISSIONS,
            core=self.core(name, POLICY.format(part=part, more=more)),
            **told,
        )
        own = f'<connectors><connector name="self">tcp://{host}:{PORT}</connector></connectors>'
        (folder / "broker.xml").write_text(text.replace(own, ""))
        path = artemis.class_path()
        java = [*JAVA, *shared_classes.taken(path), "-cp", path]
        self._run(name, [*java, "Artemis", str(folder / "broker.xml")])

    def serves(self, name: str) -> bool:
        try:
            Connection(PORT, 2.0, self.machines.host(name)).close()
        except OSError:
            return False
        return True

    def in_sync(self) -> bool:
        """Ask the primary whether its backup is in sync."""
        try:
            one = Connection(PORT, 10.0, self.machines.host("p"))
            one.socket.sendall(b"SUBSCRIBE\nid:1\ndestination:answers\nack:auto\n\n\0" + SYNCED.encode())
            said = one.frame()
            one.close()
        except OSError:  # it is busy
            return False
        return b"[true]" in said

    def begin(self, *, backup_first: bool = False) -> None:
        """Start all, until the backup is in sync and ours knows the pair. ``backup_first``: it asks ours for its data.

        It takes whichever node it hears of first, and waits for its answer.
        """
        self.ours()
        if backup_first:
            self._backup()
            until(lambda: "its data are asked for" in self.log("o"), "the backup asks ours", PATIENCE_S)
        self.artemis("p", "primary", f"{VOTES}<vote-on-replication-failure>true</vote-on-replication-failure>")
        until(lambda: self.serves("p"), "the primary serves", PATIENCE_S)
        if not backup_first:
            self._backup()
        until(self.in_sync, "the backup is in sync, or looked elsewhere", PATIENCE_S)
        time.sleep(3)  # the cluster has settled: each knows all

    def _backup(self) -> None:
        self.artemis("b", "backup", f"{VOTES}<allow-failback>false</allow-failback>")

    def kill(self, name: str) -> None:
        process = self.processes.pop(name)
        process.kill()
        process.wait(30)

    def close(self) -> None:
        for name in list(self.processes):
            self.kill(name)
        self.machines.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.timeout(700)
def test_a_backup_that_asked_ours_for_data_finds_its_primary_and_takes_over_when_ours_does_not_see_it(
    cluster: Cluster,
) -> None:
    cluster.begin(backup_first=True)
    cluster.kill("p")
    until(lambda: cluster.serves("b"), "the backup takes over", PATIENCE_S)
    said = cluster.log("o")
    assert "whether its backup may take over" in said
    assert "is not seen from here, so yes" in said


@pytest.mark.timeout(700)
def test_a_backup_that_is_cut_off_from_the_primary_alone_does_not(cluster: Cluster) -> None:
    """It asks ours, which sees the primary; and the primary, which lost its backup, asks ours and goes on."""
    cluster.begin()
    cluster.machines.cut("p", "b")
    cluster.machines.cut("b", "p")
    until(lambda: "whether its backup may take over" in cluster.log("o"), "the backup asks", PATIENCE_S)
    until(lambda: "whether it may stay primary" in cluster.log("o"), "the primary asks", PATIENCE_S)
    end = time.monotonic() + 10.0
    while time.monotonic() < end:
        assert not cluster.serves("b")
        assert cluster.serves("p")
        time.sleep(0.5)
    said = cluster.log("o")
    assert "whether its backup may take over: that node is here, so no" in said
    assert "whether it may stay primary: that node is here, so yes" in said
    assert "is not seen from here" not in said
