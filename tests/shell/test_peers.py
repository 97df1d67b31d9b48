"""Two primaries with one ``coordination-id``: whoever is first has the store until it ends (artemis.md 2.4)."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from test_replication import QUEUE, Copies, CopyProcess

from pairs import PATIENCE, Connection, Producer, drain, kept, until
from promises import never

PEER = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
<security-enabled>false</security-enabled><ha-policy><replication><primary>{manager}
<coordination-id>{identity}</coordination-id></primary></replication></ha-policy></core></configuration>
"""
MANAGER = """<manager>
<class-name>org.apache.activemq.artemis.lockmanager.file.FileBasedLockManager</class-name>
<properties><property key="locks-folder" value="{folder}"/></properties></manager>"""


class Peers(Copies):
    """Two brokers of one file, whose lock that file names."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.file = self.write("peers", "orders")

    def write(self, name: str, identity: str, *, managed: bool = True) -> Path:
        """Write a file of peers with ``identity``; their locks are in one folder."""
        (self.folder / "locks").mkdir(exist_ok=True)
        file = self.folder / f"{name}.xml"
        manager = MANAGER.format(folder=self.folder / "locks") if managed else ""
        file.write_text(PEER.format(manager=manager, identity=identity))
        return file

    def start(self, which: int, *more: str, build: Path | None = None, file: Path | None = None) -> CopyProcess:
        """Start broker 0 or 1 with its ``file``, that of both where there is none."""
        return super().start(which, str(file or self.file), "--copies", "1", *more, build=build)

    def lock(self) -> tuple[str, ...]:
        """Return none: the file names it."""
        return ()


@pytest.fixture
def peers(tmp_path: Path) -> Iterator[Peers]:
    made = Peers(tmp_path)
    yield made
    for each in made.running:
        each.clear()


def refusal(broker: CopyProcess) -> str:
    return str(broker.facts().get("replication", {}).get("refusal", ""))


def ready(broker: CopyProcess) -> bool:
    """Say whether it serves, and its ports are open: it says that a moment later."""
    return broker.serves() and bool(broker.facts().get("ready")) and is_open(broker.port)


def is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


def send(port: int, *bodies: str) -> None:
    connection = Connection(port)
    connection.send(QUEUE, list(bodies))
    connection.receipts(len(bodies))
    connection.close()


@pytest.mark.parametrize("first", [0, 1])
def test_the_first_serves_and_when_it_is_killed_the_other_does_until_it_ends(peers: Peers, first: int) -> None:
    one = peers.start(first)
    until(partial(ready, one), "the first serves")
    other = peers.start(1 - first)
    until(other.in_sync, "the other has a copy")
    producer = Producer(peers.ports, QUEUE, repeats=True)
    producer.flow(100)
    one.kill()
    until(partial(ready, other), "the other activates")
    producer.flow(100)
    back = peers.start(first)
    until(back.in_sync, "who is back has a copy")
    producer.flow(100)
    assert other.serves(), "no peer has a claim: the store stays where it is"
    assert other.facts()["replication"].get("returned") is None
    assert other.stop() == 0
    until(partial(ready, back), "a stop hands it over")
    producer.flow(100)
    producer.stop()
    kept(producer, back.port)


def test_of_two_that_begin_at_once_one_serves_and_the_other_has_a_copy(peers: Peers) -> None:
    both = [peers.start(which) for which in (0, 1)]
    until(lambda: any(ready(each) for each in both) and any(each.in_sync() for each in both), "each has its part")
    assert sorted(each.serves() for each in both) == [False, True]
    serving = next(each for each in both if each.serves())
    send(serving.port, "a", "b")
    serving.kill()
    other = next(each for each in both if each is not serving)
    until(partial(ready, other), "the other activates")
    with never():
        assert drain(other.port, QUEUE) == {"a": 1, "b": 1}


def test_stale_data_is_never_activated_and_the_newest_is(peers: Peers) -> None:
    one = peers.start(0)
    until(partial(ready, one), "the first serves")
    other = peers.start(1)
    until(other.in_sync, "the other has a copy")
    send(one.port, "early")
    other.kill()
    until(lambda: not one.facts()["replication"]["replicas"], "it goes on alone")
    send(one.port, "late")
    one.kill()
    other = peers.start(1)
    until(lambda: "not up to date" in refusal(other), "it says why it does not serve")
    assert not other.serves()
    one = peers.start(0)
    until(partial(ready, one), "the newest activates")
    until(other.in_sync, "and the stale one is made a copy")
    with never():
        assert drain(one.port, QUEUE) == {"early": 1, "late": 1}


def test_peers_with_different_data_are_no_pair(peers: Peers) -> None:
    for which, identity in ((0, "own"), (1, "another")):
        alone = peers.start(which, file=peers.write(identity, identity))
        until(partial(ready, alone), "it serves by itself")
        send(alone.port, identity)
        assert alone.stop() == 0
    one = peers.start(0, file=peers.write("own", "own"))
    until(partial(ready, one), "the first serves")
    other = peers.start(1, file=peers.write("own", "own"))
    until(lambda: "has a store of its own" in other.text(), "the other is refused, and says why")
    assert not other.serves()
    with never():
        assert drain(one.port, QUEUE) == {"own": 1}
    assert other.stop() == 0
    again = peers.start(1, file=peers.write("another", "another"))
    until(partial(ready, again), "with its own lock it serves what it has")
    with never():
        assert drain(again.port, QUEUE) == {"another": 1}


def test_an_id_without_a_manager_needs_a_lock_from_the_command_line(peers: Peers) -> None:
    file = peers.write("bare", "orders", managed=False)
    checked = subprocess.run(
        [sys.executable, "-m", "entrepot", "check", str(file)], capture_output=True, timeout=PATIENCE, text=True
    )
    assert "coordination-id" in checked.stdout + checked.stderr
    assert "--locker" in checked.stdout + checked.stderr
    refused = peers.start(0, file=file)
    assert refused.process.wait(PATIENCE) != 0
    assert "--locker" in refused.text()
    lock = ("--locker", f"file:{peers.folder / 'locks' / 'bare'}")
    one = peers.start(0, *lock, file=file)
    until(partial(ready, one), "with one it serves")
    other = peers.start(1, *lock, file=file)
    until(other.in_sync, "and its peer has a copy")
    one.kill()
    until(partial(ready, other), "the peer activates")
