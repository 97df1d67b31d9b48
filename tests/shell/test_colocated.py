"""Two nodes of a cluster, each of which hosts the other's backup (artemis.md 2.5)."""

from __future__ import annotations

import json
import os
import signal
import socket
import urllib.request
from pathlib import Path
from typing import Any
from urllib.error import URLError

from test_pair_xml import Running, Start, receive, send, start

from pairs import until

__all__ = ["start"]

CONFIGURATION = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core"><name>{name}</name>
<security-enabled>false</security-enabled><journal-directory>{home}/{name}</journal-directory>
<cluster-user>c</cluster-user><cluster-password>secret</cluster-password>
<connectors><connector name="own">tcp://127.0.0.1:{core}</connector>
<connector name="other">tcp://127.0.0.1:{other}</connector></connectors>
<ha-policy><shared-store><colocated><request-backup>true</request-backup>
<backup-request-retry-interval>300</backup-request-retry-interval><backup-port-offset>{offset}</backup-port-offset>
<excludes><connector-ref>other</connector-ref></excludes>
<primary><failover-on-shutdown>true</failover-on-shutdown></primary><backup><allow-failback>true</allow-failback></backup>
</colocated></shared-store></ha-policy>
<acceptors><acceptor name="stomp">tcp://127.0.0.1:{stomp}?protocols=STOMP</acceptor>
<acceptor name="core">tcp://127.0.0.1:{core}?protocols=CORE</acceptor></acceptors>
<cluster-connections><cluster-connection name="c"><connector-ref>own</connector-ref>
<retry-interval>200</retry-interval><message-load-balancing>OFF</message-load-balancing>
<static-connectors><connector-ref>other</connector-ref></static-connectors></cluster-connection></cluster-connections>
</core></configuration>
"""
OFFSET = 7


def free_ports() -> list[int]:
    """Return six ports that are free, and those of their backups with them."""
    for base in range(20_000 + os.getpid() % 8_000, 32_000, 20):
        wanted = [*range(base, base + 6), *(base + OFFSET + each for each in range(6))]
        held: list[socket.socket] = []
        try:
            for port in wanted:
                held.append(socket.socket())
                held[-1].bind(("127.0.0.1", port))
        except OSError:
            continue
        finally:
            for one in held:
                one.close()
        return wanted[:6]
    raise AssertionError("no ports")


class Node:
    """One of the two."""

    def __init__(self, home: Path, name: str, ports: list[int], other: int) -> None:
        self.stomp, self.core, self.status = ports
        self.file = home / f"{name}.xml"
        told = {"home": home, "name": name, "core": self.core, "other": other, "stomp": self.stomp, "offset": OFFSET}
        self.file.write_text(CONFIGURATION.format(**told))
        self.runs: Running

    def start(self, start: Start) -> None:
        self.runs = start(self.file, "--status", f"127.0.0.1:{self.status}")
        until(self.runs.serves, "it serves")

    def facts(self, offset: int = 0) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.status + offset}/status", timeout=5) as answer:
            found = json.load(answer)
        assert isinstance(found, dict)
        return found

    def role_of_backup(self) -> str:
        """Return what the backup that it hosts says of itself, "" while it says nothing."""
        try:
            return str(self.facts(OFFSET)["role"])
        except URLError:
            return ""

    def hosts(self) -> list[dict[str, Any]]:
        return [one for one in self.facts()["colocated"]["hosts"] if one["state"] == "runs"]

    def has_backup(self) -> bool:
        return bool(self.facts()["colocated"]["backup"]["host"])


def listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_each_hosts_the_other_and_its_twin_serves(start: Start, tmp_path: Path) -> None:
    ports = free_ports()
    first, second = ports[:3], ports[3:]
    a, b = Node(tmp_path, "a", first, second[1]), Node(tmp_path, "b", second, first[1])
    a.start(start)
    b.start(start)
    until(lambda: a.has_backup() and b.has_backup(), "each has a backup")
    until(lambda: len(a.hosts()) == len(b.hosts()) == 1, "each hosts one, and no more")
    twin, at_a = b.hosts()[0]["pid"], a.hosts()[0]["pid"]
    until(lambda: b.role_of_backup() == "backup", "it waits, with a status page of its own")
    bodies = [str(number).encode() for number in range(50)]
    send(a.stomp, *bodies)

    a.runs.end(signal.SIGKILL)
    until(lambda: b.role_of_backup() == "primary", "the backup of a serves, at b")
    until(lambda: listens(b.stomp + OFFSET), "its port is open")
    until(lambda: not lives(at_a), "what a hosted ends with it")
    assert receive(b.stomp + OFFSET, 50) == bodies
    send(b.stomp + OFFSET, b"while away")

    a.start(start)
    assert receive(a.stomp, 1) == [b"while away"]
    until(lambda: a.has_backup() and b.has_backup(), "each has a backup again")
    assert [one["pid"] for one in b.hosts()] == [twin], "the same one, and no second"

    os.kill(twin, signal.SIGKILL)
    until(lambda: b.hosts() and b.hosts()[0]["restarts"] == 1 and b.hosts()[0]["pid"] != twin, "it is started again")
    twin, at_a = b.hosts()[0]["pid"], a.hosts()[0]["pid"]
    assert b.runs.end() == 0
    assert not lives(twin), "a stop in order ends what it hosts"
    until(lambda: a.role_of_backup() == "primary", "b hands over to its twin")
    assert a.runs.end() == 0
    assert not lives(at_a)
