"""Two nodes of a cluster, each of which hosts the other's backup (artemis.md 2.5)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest
from test_pair_xml import Running, Start, receive, send, start

from pairs import until

__all__ = ["start"]

CONFIGURATION = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core"><name>{name}</name>
<security-enabled>false</security-enabled><journal-directory>{home}/{name}</journal-directory>
<cluster-user>c</cluster-user><cluster-password>secret</cluster-password>
<connectors><connector name="own">tcp://127.0.0.1:{core}</connector>
<connector name="other">tcp://127.0.0.1:{other}</connector></connectors>
<ha-policy><{kind}><colocated><request-backup>true</request-backup>
<backup-request-retry-interval>300</backup-request-retry-interval><backup-port-offset>{offset}</backup-port-offset>
<excludes><connector-ref>other</connector-ref></excludes>
{parts}
</colocated></{kind}></ha-policy>
<acceptors><acceptor name="stomp">tcp://127.0.0.1:{stomp}?protocols=STOMP</acceptor>
<acceptor name="core">tcp://127.0.0.1:{core}?protocols=CORE</acceptor></acceptors>
<cluster-connections><cluster-connection name="c"><connector-ref>own</connector-ref>
<retry-interval>200</retry-interval><message-load-balancing>OFF</message-load-balancing>
<static-connectors><connector-ref>other</connector-ref></static-connectors></cluster-connection></cluster-connections>
</core></configuration>
"""
OFFSET = 7
SHARED = """<primary><failover-on-shutdown>true</failover-on-shutdown></primary>
<backup><allow-failback>true</allow-failback></backup>"""
COPIED = "<primary/><backup><allow-failback>true</allow-failback></backup>"


def free_ports() -> list[int]:
    """Return eight ports that are free, and those of their backups with them."""
    for base in range(20_000 + os.getpid() % 8_000, 32_000, 30):
        wanted = [*range(base, base + 6), *(base + OFFSET + each for each in range(6))]
        wanted += [base + 14, base + 15, base + 14 + OFFSET, base + 15 + OFFSET]
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
        return [*wanted[:6], base + 14, base + 15]
    raise AssertionError("no ports")


class Node:
    """One of the two."""

    def __init__(self, home: Path, name: str, ports: list[int], other: int, copies: Sequence[str] = ()) -> None:
        """``copies``: the options of one that has a store of its own."""
        self.copies = copies
        self.stomp, self.core, self.status = ports
        self.file = home / f"{name}.xml"
        told = {"home": home, "name": name, "core": self.core, "other": other, "stomp": self.stomp, "offset": OFFSET}
        told |= {"kind": "replication", "parts": COPIED} if copies else {"kind": "shared-store", "parts": SHARED}
        self.file.write_text(CONFIGURATION.format(**told))
        self.runs: Running

    def start(self, start: Start) -> None:
        self.runs = start(self.file, "--status", f"127.0.0.1:{self.status}", *self.copies)
        until(self.runs.serves, "it serves", 60.0)

    def facts(self, offset: int = 0) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.status + offset}/status", timeout=5) as answer:
            found = json.load(answer)
        assert isinstance(found, dict)
        return found

    def role_of_backup(self) -> str:
        """Return what the backup that it hosts says of itself, "" while it says nothing."""
        try:
            return str(self.facts(OFFSET)["role"])
        except OSError:
            return ""

    def hosts(self) -> list[dict[str, Any]]:
        return [one for one in self.facts().get("colocated", {}).get("hosts", ()) if one["state"] == "runs"]

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


def sharing(home: Path) -> tuple[Node, Node]:
    """Return two nodes, each with a store that its backup shares."""
    ports = free_ports()
    first, second = ports[:3], ports[3:6]
    return Node(home, "a", first, second[1]), Node(home, "b", second, first[1])


def test_each_hosts_the_other_and_its_twin_serves(start: Start, tmp_path: Path) -> None:
    a, b = sharing(tmp_path)
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


def copied(home: Path, *more: str) -> tuple[Node, Node]:
    """Return two nodes, each with a store of its own, and their lock."""
    ports = free_ports()
    first, second, places = ports[:3], ports[3:6], [f"127.0.0.1:{port}" for port in ports[6:]]
    (home / "lock").mkdir()
    ha = ["--ha", "replication", "--locker", f"file:{home / 'lock'}", *more]
    return (
        Node(home, "a", first, second[1], [*ha, "--replication", places[0], "--peer", places[1]]),
        Node(home, "b", second, first[1], [*ha, "--replication", places[1], "--peer", places[0]]),
    )


def follows(node: Node) -> bool:
    """Say whether the copy that ``node`` hosts is in sync."""
    try:
        facts = node.facts(OFFSET)
    except URLError:
        return False
    return facts["role"] == "backup" and bool(facts["replication"]["in_sync"])


def test_each_hosts_a_copy_of_the_other_and_the_last_one_serves_whoever_starts(start: Start, tmp_path: Path) -> None:
    """With two copies of each message a store waits for its copy to be hosted, and nothing is lost with a node."""
    a, b = copied(tmp_path)
    a.start(start)
    b.start(start)
    until(lambda: a.has_backup() and b.has_backup(), "each has a backup")
    until(lambda: follows(a) and follows(b), "each hosts a copy that is in sync")
    (row,) = b.hosts()
    assert (row["of"], row["number"]) == ("a", 1)
    assert {each.name for each in (tmp_path / "lock").iterdir()} == {"a", "b"}, "a lock for each store"
    bodies = [str(number).encode() for number in range(50)]
    send(a.stomp, *bodies)
    send(b.stomp, b"of b")

    a.runs.end(signal.SIGKILL)
    until(lambda: b.role_of_backup() == "primary", "the copy of a serves, at b")
    b.runs.end(signal.SIGKILL)
    until(lambda: not listens(b.stomp + OFFSET), "what b hosted ends with it")
    b.start(start)
    until(lambda: b.role_of_backup() == "primary", "who hosts remembers what: nobody is there to ask", 60.0)

    a.start(start)
    assert receive(a.stomp, 50) == bodies
    until(lambda: follows(a) and follows(b), "each hosts a copy again")
    assert receive(b.stomp, 1) == [b"of b"]
    assert [one["number"] for one in b.hosts()] == [1]


def test_a_node_that_waits_for_its_own_store_goes_on_with_the_copy_that_it_hosts(start: Start, tmp_path: Path) -> None:
    """It hosted nothing before it served itself: two nodes, each with the last copy of the other, waited for ever."""
    a, b = copied(tmp_path, "--copies", "1")
    for node in (a, b):  # the store stays where it is, so that a waits
        node.file.write_text(node.file.read_text().replace("<allow-failback>true", "<allow-failback>false"))
        node.start(start)
    until(lambda: follows(a) and follows(b), "each hosts a copy that is in sync")
    a.runs.end(signal.SIGKILL)
    until(lambda: b.role_of_backup() == "primary" and listens(b.stomp + OFFSET), "the copy of a serves, at b")
    send(b.stomp + OFFSET, b"of a")
    send(b.stomp, b"of b")

    a.runs = start(a.file, "--status", f"127.0.0.1:{a.status}", *a.copies)
    until(lambda: follows(a), "a goes on with the copy of b")
    until(lambda: a.facts().get("role") == "backup" and len(a.hosts()) == 1, "a waits, and hosts one copy")
    until(lambda: a.facts().get("replication", {}).get("in_sync"), "a follows the copy of its own store")
    until(lambda: len(a.hosts()) == 1, "and still hosts it")
    twin = a.hosts()[0]["pid"]
    b.runs.end(signal.SIGKILL)
    until(a.runs.serves, "a has its store", 60.0)
    until(lambda: a.role_of_backup() == "primary" and listens(a.stomp + OFFSET), "and serves that of b")
    assert receive(a.stomp, 1) == [b"of a"]
    assert receive(a.stomp + OFFSET, 1) == [b"of b"]
    until(lambda: [each["pid"] for each in a.hosts()] == [twin], "it went on through all of that")


def test_a_node_that_lost_its_disk_is_made_anew_from_what_another_hosts(start: Start, tmp_path: Path) -> None:
    a, b = copied(tmp_path, "--copies", "1")
    a.start(start)
    b.start(start)
    until(lambda: follows(a) and follows(b), "each hosts a copy that is in sync")
    send(a.stomp, b"one")
    a.runs.end(signal.SIGKILL)
    until(lambda: b.role_of_backup() == "primary", "the copy of a serves, at b")
    shutil.rmtree(tmp_path / "a")
    a.start(start)
    assert receive(a.stomp, 1) == [b"one"], "it followed its own copy, and neither store of b"
    until(lambda: follows(a) and follows(b), "each hosts a copy again")


FULL = """<address-settings><address-setting match="#"><max-size-bytes>200000</max-size-bytes>
<address-full-policy>BLOCK</address-full-policy></address-setting></address-settings></core>"""
"""Of a host: it takes a part of what its guest gives it, and no more before that is read."""


def drains(node: Node) -> dict[str, Any]:
    """Return how far the copy that ``node`` hosts is with giving all away, {} while it does not."""
    try:
        return dict(node.facts(OFFSET).get("drain", {}))
    except OSError:  # it begins anew
        return {}


@pytest.mark.parametrize("copies", [True, False], ids=["copies", "shared"])
def test_a_backup_that_scales_down_gives_all_to_its_host(start: Start, tmp_path: Path, copies: bool) -> None:
    """Who hosts a copy goes on with it when both were killed; a store that is shared waits for its node then."""
    a, b = copied(tmp_path, "--copies", "1") if copies else sharing(tmp_path)
    waits = follows if copies else (lambda node: node.role_of_backup() == "backup")
    for node, settings in ((a, "</core>"), (b, FULL)):
        text = node.file.read_text().replace("<allow-failback>true</allow-failback>", "<scale-down/>")
        node.file.write_text(text.replace("</core>", settings))
        node.start(start)
    until(lambda: waits(a) and waits(b), "each hosts a backup")
    bodies = [str(number).encode().ljust(2_000) for number in range(300)]
    send(a.stomp, *bodies)

    a.runs.end(signal.SIGKILL)
    until(lambda: drains(b).get("moved", 0) > 10, "the backup of a gives b what b has room for")
    assert b.role_of_backup() == "draining"
    assert not listens(b.stomp + OFFSET), "it serves nobody"
    if copies:
        b.runs.end(signal.SIGKILL)
        until(lambda: not drains(b), "what b hosted ends with it")
        b.start(start)
        until(lambda: drains(b).get("state") == "moving", "b hosts it again, and it goes on", 60.0)
        assert 0 < drains(b)["left"] < 290, "it was in the middle"
    assert receive(b.stomp, 300) == bodies, "each once, in their order"
    until(lambda: drains(b).get("state", "done") == "done", "all is at b")
    send(b.stomp, b"of b")
    assert receive(b.stomp, 1) == [b"of b"], "nothing came twice"

    a.start(start)
    send(a.stomp, b"after")
    assert receive(a.stomp, 1) == [b"after"], "its store is empty, and consistent"
    until(lambda: waits(a) and waits(b), "each hosts a backup again")
