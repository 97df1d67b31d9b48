"""A primary, a backup with ``<scale-down>``, and a third broker that gets what the backup takes over."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

from test_pair_xml import Running, Start, receive, send, start

from pairs import PATIENCE, free_port, until
from promises import never

__all__ = ["start"]

CONFIGURATION = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core"><name>{name}</name>
<security-enabled>false</security-enabled><journal-directory>{journal}</journal-directory>
<cluster-user>c</cluster-user><cluster-password>secret</cluster-password>
<connectors><connector name="own">tcp://127.0.0.1:{core}</connector>
<connector name="third">tcp://127.0.0.1:{third}</connector></connectors>
<ha-policy>{policy}</ha-policy>
<acceptors><acceptor name="stomp">tcp://127.0.0.1:{stomp}?protocols=STOMP</acceptor>
<acceptor name="core">tcp://127.0.0.1:{core}?protocols=CORE</acceptor></acceptors>
<cluster-connections><cluster-connection name="c"><connector-ref>own</connector-ref>
<retry-interval>200</retry-interval><message-load-balancing>OFF</message-load-balancing>
<static-connectors>{seeds}</static-connectors></cluster-connection></cluster-connections>{more}
</core></configuration>
"""
PRIMARY = "<shared-store><primary/></shared-store>"
BACKUP = "<shared-store><backup><scale-down>{inside}</scale-down></backup></shared-store>"
COPIED = "<replication><primary/></replication>"
COPIES = "<replication><backup><scale-down>{inside}</scale-down></backup></replication>"
ALONE = "<primary-only/>"
DIRECT = "<connectors><connector-ref>third</connector-ref></connectors>"
SEED = "<connector-ref>third</connector-ref>"
SENT = [str(number).encode().ljust(2_000) for number in range(300)]
FULL = """<address-settings><address-setting match="#"><max-size-bytes>200000</max-size-bytes>
<address-full-policy>BLOCK</address-full-policy></address-setting></address-settings>"""
"""Of the third: it takes a part of what is sent, and no more before that is read."""


class Three:
    """Their files, ports and processes."""

    def __init__(self, home: Path, start: Start, *, inside: str = "", third: str = "", copies: bool = False) -> None:
        """``copies``: each of the pair has a store of its own."""
        self._start = start
        self.stomp = {name: free_port() for name in ("primary", "backup", "third")}
        self.status = {name: free_port() for name in ("primary", "backup")}
        core = {name: free_port() for name in self.stomp}
        parts = (COPIED, COPIES) if copies else (PRIMARY, BACKUP)
        policies = {"primary": parts[0], "backup": parts[1].format(inside=inside), "third": ALONE}
        self._replicas: dict[str, list[str]] = {}
        if copies:
            (home / "lock").mkdir()
            places = {name: f"127.0.0.1:{free_port()}" for name in ("primary", "backup")}
            for name, other in (("primary", "backup"), ("backup", "primary")):
                self._replicas[name] = ["--ha", "replication", "--replication", places[name], "--peer", places[other]]
                self._replicas[name] += ["--copies", "1", "--locker", f"file:{home / 'lock'}"]
        self.files = {}
        for name, policy in policies.items():
            self.files[name] = home / f"{name}.xml"
            seeds = "" if name == "third" else SEED
            journal = home / (name if copies or name == "third" else "pair")
            text = CONFIGURATION.format(
                name=name, journal=journal, core=core[name], third=core["third"], policy=policy,
                stomp=self.stomp[name], seeds=seeds, more=third if name == "third" else "",
            )  # fmt: skip
            self.files[name].write_text(text)

    def start(self, name: str) -> Running:
        more = () if name == "third" else ("--status", f"127.0.0.1:{self.status[name]}")
        return self._start(self.files[name], *more, *self._replicas.get(name, ()))

    def pair(self) -> tuple[Running, Running]:
        """Start the primary and its backup, and send `SENT` to the primary."""
        primary = self.start("primary")
        until(primary.serves, "the primary serves")
        backup = self.start("backup")
        until(self.in_sync if self._replicas else backup.waits, "the backup waits")
        send(self.stomp["primary"], *SENT)
        return primary, backup

    def told(self, *command: str) -> str:
        """Return what a command says of the backup."""
        line = [sys.executable, "-m", "entrepot", *command, f"http://127.0.0.1:{self.status['backup']}"]
        done = subprocess.run(line, capture_output=True, timeout=PATIENCE, text=True)
        return done.stdout + done.stderr

    def facts(self) -> dict[str, Any]:
        """Return what the status page of the backup says; nothing while it has none."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.status['backup']}/status", timeout=5) as answer:
                facts = json.load(answer)
        except OSError:
            return {}
        assert facts["ready"] is False
        return dict(facts)

    def drain(self) -> dict[str, Any]:
        """Return what it says that the backup gives away; nothing while it does not."""
        return dict(self.facts().get("drain", {}))

    def in_sync(self) -> bool:
        return bool(self.facts().get("replication", {}).get("in_sync"))

    def all_at_third(self) -> None:
        found = receive(self.stomp["third"], len(SENT))
        with never():
            assert found == SENT


def test_a_backup_gives_what_it_takes_over_to_the_third_and_waits_again(start: Start, tmp_path: Path) -> None:
    three = Three(tmp_path, start)
    until(three.start("third").serves, "the third serves")
    primary, backup = three.pair()
    primary.end(signal.SIGKILL)
    until(lambda: backup.text().count("left the store") == 1, "it gave all away, and waits for the primary")
    assert "  listening  " not in backup.text()
    assert "300 messages" in backup.text()
    three.all_at_third()
    again = three.start("primary")
    until(again.serves, "the primary has its store back")
    send(three.stomp["primary"], b"after")
    assert receive(three.stomp["primary"], 1) == [b"after"], "it is empty, and consistent"


def test_killed_in_the_middle_it_goes_on_with_the_same_target(start: Start, tmp_path: Path) -> None:
    three = Three(tmp_path, start, inside=DIRECT, third=FULL)
    primary, backup = three.pair()
    primary.end(signal.SIGKILL)  # the third is not there: everything waits
    until(lambda: three.drain().get("left") == 300, "it gives away, and finds nobody")
    assert "0 moved, 300 left" in three.told("ha", "status")
    assert "0 moved, 300 left" in three.told("drain", "--status", "--url")
    until(three.start("third").serves, "the third serves")
    until(lambda: three.drain()["moved"] > 10, "the third takes what it has room for")
    backup.end(signal.SIGKILL)
    again = three.start("backup")
    until(lambda: three.drain().get("state") == "moving", "it goes on")
    assert 0 < three.drain()["left"] < 290, "it was in the middle"
    three.all_at_third()
    until(lambda: "left the store" in again.text(), "all is at the third")
    assert "goes on with the node that has a part of it" in again.text()


def test_a_primary_that_is_back_meanwhile_serves_what_is_left(start: Start, tmp_path: Path) -> None:
    three = Three(tmp_path, start)
    primary, backup = three.pair()
    primary.end(signal.SIGKILL)
    until(lambda: "serves     nobody" in backup.text(), "it gives away, to nobody yet")
    assert backup.end() == 0, "a stop in order, with nothing moved"
    backup = three.start("backup")
    until(lambda: backup.text().count("serves     nobody") == 1, "whoever is there next goes on")
    again = three.start("primary")
    until(again.serves, "the primary asked for its store, and has it")
    assert receive(three.stomp["primary"], len(SENT)) == SENT
    until(backup.waits, "the backup waits again")


def test_with_a_store_each_it_is_empty_and_gives_the_store_back(start: Start, tmp_path: Path) -> None:
    three = Three(tmp_path, start, copies=True)
    until(three.start("third").serves, "the third serves")
    primary, backup = three.pair()
    primary.end(signal.SIGKILL)
    until(lambda: three.drain().get("state") == "done", "it gave all away")
    assert three.drain()["left"] == 0
    three.all_at_third()
    assert backup.process.poll() is None, "only from it can the primary have a copy that counts"
    again = three.start("primary")
    until(again.serves, "the primary is in sync, asked for its store, and has it")
    send(three.stomp["primary"], b"after")
    assert receive(three.stomp["primary"], 1) == [b"after"], "it is empty, and consistent"
    until(three.in_sync, "the backup follows again")


def test_with_a_store_each_and_killed_in_the_middle_it_goes_on(start: Start, tmp_path: Path) -> None:
    three = Three(tmp_path, start, copies=True, third=FULL)
    until(three.start("third").serves, "the third serves")
    primary, backup = three.pair()
    primary.end(signal.SIGKILL)
    until(lambda: three.drain().get("moved", 0) > 10, "the third takes what it has room for")
    backup.end(signal.SIGKILL)
    three.start("backup")
    until(lambda: three.drain().get("state") == "moving", "it goes on")
    three.all_at_third()
    until(lambda: three.drain().get("state") == "done", "all is at the third")
    until(three.start("primary").serves, "the primary has its store back")
