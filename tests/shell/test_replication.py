"""Two broker processes that share nothing but a lock: what one confirmed the other has, whatever happens."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from certificates import Certificates
from click.testing import CliRunner

from entrepot.cli.data import data
from entrepot.cli.ha import ha
from entrepot.ha.failback import RETURNS_MAX
from entrepot.journal.overflow import CHECK, STRETCH
from pairs import ROUNDS, ROUNDS_SLOW, BrokerProcess, Connection, Producer, free_port, kept, until

QUEUE = "/queue/copied"
ROOT = Path(__file__).parents[2]
COMPILED = "build/compiled"
ROLES = ("<primary/>", "<backup><allow-failback>false</allow-failback></backup>")


class CopyProcess(BrokerProcess):
    ha = "replication"

    def in_sync(self) -> bool:
        return bool(self.facts().get("replication", {}).get("in_sync"))


class Copies:
    """Two brokers, each with a directory and a place of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.places = [free_port(), free_port()]
        self.ports = [free_port(), free_port()]
        self.running: list[CopyProcess] = []

    def start(self, which: int, *more: str, build: Path | None = None) -> CopyProcess:
        """Start broker 0 or 1; ``build``: another one than that of the test."""
        made = CopyProcess(
            self.folder / f"store{which}",
            ("alpha", "beta")[which],
            self.folder,
            *(*self.lock(), "--peer", f"127.0.0.1:{self.places[1 - which]}"),
            *("--replication", f"127.0.0.1:{self.places[which]}", *more),
            port=self.ports[which],
            build=build,
        )
        self.running.append(made)
        return made

    def lock(self) -> tuple[str, ...]:
        """Return the words that say which lock both have."""
        return "--locker", f"file:{self.folder / 'lock'}"

    def listens(self, which: int) -> bool:
        """Say whether broker 0 or 1 is there for replicas: a moment after it serves."""
        try:
            socket.create_connection(("127.0.0.1", self.places[which]), timeout=60).close()
        except ConnectionRefusedError:
            return False
        return True

    def pair(self, *more: str) -> tuple[CopyProcess, CopyProcess]:
        """Start both; the first is primary, the second in sync."""
        first = self.start(0, *more)
        until(first.serves, "the first is primary")
        second = self.start(1, *more)
        until(second.in_sync, "the second is in sync")
        return first, second


CLUSTER = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core"><name>{name}</name>
<security-enabled>false</security-enabled><cluster-user>nodes</cluster-user><cluster-password>secret</cluster-password>
<connectors><connector name="own">tcp://127.0.0.1:{port}</connector></connectors>
<cluster-connections><cluster-connection name="pair"><connector-ref>own</connector-ref></cluster-connection>
</cluster-connections><ha-policy><replication><primary/></replication></ha-policy></core></configuration>
"""
ASKED = (
    b"SUBSCRIBE\nid:1\ndestination:answers\nack:auto\n\n\0SEND\ndestination:activemq.management\nreply-to:answers\n"
    b"_AMQ_ResourceName:broker\n_AMQ_OperationName:listNetworkTopology\n\n[]\0"
)


def topology(port: int) -> list[dict[str, str]]:
    """Return what clients of CORE are told; nothing of nobody while the broker opens its ports."""
    try:
        one = Connection(port)
    except OSError:
        return [{}]
    one.socket.sendall(ASKED)
    body = one.frame().partition(b"\n\n")[2]
    one.close()
    return list(json.loads(json.loads(body)[0]))


def test_clients_of_core_are_told_who_would_take_over(copies: Copies, tmp_path: Path) -> None:
    places, files = [free_port(), free_port()], []
    for which, name in enumerate(("alpha", "beta")):
        files.append(tmp_path / f"{name}.xml")
        files[which].write_text(CLUSTER.format(name=name, port=places[which]).replace("<primary/>", ROLES[which]))
    own, other = (f"127.0.0.1:{place}" for place in places)
    first = copies.start(0, str(files[0]), "--copies", "1")
    until(first.serves, "the first is primary")
    until(lambda: topology(first.port) != [{}], "it answers")
    assert [(one["primary"], one.get("backup", "")) for one in topology(first.port)] == [(own, "")]
    second = copies.start(1, str(files[1]), "--copies", "1")
    until(lambda: topology(first.port)[0].get("backup") == other, "the second stands in for it")
    second.kill()
    until(lambda: "backup" not in topology(first.port)[0], "nobody does")
    second = copies.start(1, str(files[1]), "--copies", "1")
    until(lambda: topology(first.port)[0].get("backup") == other, "the second stands in for it again")
    first.kill()
    until(second.serves, "the second takes over")
    first = copies.start(0, str(files[0]), "--copies", "1")
    until(lambda: topology(second.port)[0].get("backup") == own, "the first stands in for the second")
    assert topology(second.port)[0]["primary"] == other


@pytest.fixture
def copies(tmp_path: Path) -> Iterator[Copies]:
    (tmp_path / "lock").mkdir()
    made = Copies(tmp_path)
    yield made
    for each in made.running:
        each.clear()


def contents(folder: Path) -> dict[str, bytes]:
    files = [*(folder / "journal").glob("*.seg"), *(folder / "blobs").glob("*.blob")]
    return {each.name: each.read_bytes().rstrip(b"\0") for each in files}


@pytest.mark.timeout(60 + 60 * ROUNDS)
@pytest.mark.parametrize("least", ["1", "2"])
def test_kill_9_under_load_loses_nothing(copies: Copies, least: str) -> None:
    brokers = list(copies.pair("--copies", least))
    producer = Producer(copies.ports, QUEUE)
    for turn in range(ROUNDS):
        producer.flow(200)
        primary, replica = brokers
        primary.kill()
        until(replica.serves, "the replica takes over")
        if least == "1":
            producer.flow(50)
        reborn = copies.start((turn + 0) % 2, "--copies", least)
        until(reborn.in_sync, "the dead one returns, and is in sync")
        brokers = [replica, reborn]
    producer.stop()
    assert brokers[1].stop() == 0
    assert brokers[0].serves()
    if least == "2":
        brokers[1] = copies.start((ROUNDS + 1) % 2, "--copies", least)
        until(brokers[1].in_sync, "it is in sync again")
    kept(producer, brokers[0].port)


@pytest.mark.timeout(60 + 60 * ROUNDS_SLOW)
def test_a_primary_that_stands_still_confirms_nothing_and_becomes_the_replica(copies: Copies) -> None:
    first, second = copies.pair("--copies", "1", "--lease-duration", "1")
    producer = Producer(copies.ports, QUEUE)
    for _ in range(ROUNDS_SLOW):
        producer.flow(200)
        first.pause()
        until(second.serves, "the replica takes over")
        producer.flow(200)
        first.resume()
        until(first.in_sync, "the old primary is a replica, in sync")
        first, second = second, first
    producer.stop()
    kept(producer, first.port)


@pytest.mark.timeout(120)
def test_both_stores_are_the_same_to_the_octet(copies: Copies) -> None:
    first, second = copies.pair()
    asked = CliRunner().invoke(ha, ["status", f"http://127.0.0.1:{first.status}", "--output", "json"])
    row, other = (json.loads(line) for line in asked.output.splitlines())
    assert (row["broker"], row["role"], other["broker"], other["role"]) == (
        *("alpha", "primary"),
        *("beta", "replica, in sync"),
    )
    assert {"lag_octets", "lag_ms"} <= set(other)
    with urllib.request.urlopen(f"http://127.0.0.1:{first.status}/metrics", timeout=60) as answer:
        assert 'entrepot_replica_in_sync{broker="alpha",replica="beta"} 1\n' in answer.read().decode()
    producer = Producer([first.port], QUEUE)
    producer.flow(2000)
    producer.stop()
    until(lambda: alike(copies), "what nobody waited for is written a moment later")
    first.kill()  # in this order: a stop of the other would be noted by the first
    second.kill()
    assert alike(copies)


def counts(primary: CopyProcess) -> bool:
    """Say whether the primary calls a copy in sync: that copy may take over. The copy says so a moment before."""
    told = CliRunner().invoke(ha, ["status", f"http://127.0.0.1:{primary.status}", "--output", "json"])
    return told.exit_code == 0 and '"replica, in sync"' in told.output


def alike(copies: Copies) -> bool:
    one, other = (contents(copies.folder / f"store{each}") for each in (0, 1))
    return one == other


@pytest.mark.timeout(120)
def test_a_store_of_its_own_is_refused_by_name(copies: Copies, tmp_path: Path) -> None:
    lone = BrokerProcess(tmp_path / "store1", "lone", tmp_path)
    until(lone.serves, "a broker of its own makes a store")
    connection = Connection(lone.port)
    connection.send(QUEUE, ["one"])
    connection.receipts(1)
    assert lone.stop() == 0
    first = copies.start(0)
    until(first.serves, "the first is primary")
    second = copies.start(1)
    until(lambda: "has a store of its own" in second.text(), "it is told that its store is another")
    assert "give it an empty data directory" in second.text()
    assert not second.in_sync()
    until(lambda: first.text().count("refuses a replica") > 2, "it has come again, four times at least")
    assert second.text().count("has a store of its own") == 1
    status = CliRunner().invoke(ha, ["status", f"http://127.0.0.1:{second.status}"]).output
    assert "beta has a store of its own" in status


GROUP = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
<security-enabled>false</security-enabled><ha-policy><replication>{part}</replication></ha-policy></core></configuration>
"""


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("parts", "why", "remedy"),
    [
        (
            ("<primary/>", "<primary/>"),
            "alpha and beta are both configured as the primary of this store, which has one",
            "say --part backup",
        ),
        (
            ("<primary><group-name>red</group-name></primary>", "<backup><group-name>blue</group-name></backup>"),
            "beta is of the group 'blue', alpha of the group 'red': they are no pair",
            "give both the same group-name",
        ),
    ],
)
def test_what_is_no_pair_is_refused_with_the_reason(
    copies: Copies, tmp_path: Path, parts: tuple[str, str], why: str, remedy: str
) -> None:
    files = [tmp_path / "alpha.xml", tmp_path / "beta.xml"]
    for file, part in zip(files, parts, strict=True):
        file.write_text(GROUP.format(part=part))
    first = copies.start(0, str(files[0]))
    until(first.serves, "the first is primary")
    second = copies.start(1, str(files[1]))
    until(lambda: why in second.text(), "it is refused")
    assert remedy in second.text()
    assert why in first.text()
    assert why in CliRunner().invoke(ha, ["status", f"http://127.0.0.1:{second.status}"]).output
    assert not list((tmp_path / "store1").glob("journal/*.seg")), "nothing was copied"
    files[1].write_text(GROUP.format(part=parts[0].replace("primary", "backup")))
    second.stop()
    second = copies.start(1, str(files[1]))
    until(second.in_sync, "mended, it is a copy")


@pytest.mark.timeout(120)
def test_who_does_not_know_the_secret_gets_nothing(copies: Copies, tmp_path: Path) -> None:
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    right.write_text("0123456789abcdef0123\n")
    wrong.write_text("0123456789abcdef9999\n")
    for secret in (right, wrong):
        secret.chmod(0o600)
    first = copies.start(0, "--replication-secret", str(right))
    until(first.serves, "the first is primary")
    second = copies.start(1, "--replication-secret", str(wrong))
    until(lambda: "does not know the secret" in second.text(), "it is refused")
    assert not (tmp_path / "store1" / "journal").exists()


@pytest.mark.timeout(120)
def test_strangers_that_say_nothing_go_and_keep_no_replica_out(copies: Copies) -> None:
    first = copies.start(0)
    until(lambda: copies.listens(0), "the first is primary, and there for replicas")
    strangers = [socket.create_connection(("127.0.0.1", copies.places[0]), timeout=60) for _ in range(40)]
    try:
        for each in strangers[:24]:  # the oldest, of more than sixteen
            _read_to_the_end(each)
        second = copies.start(1)
        until(second.in_sync, "the second is in sync")
        for each in strangers[24:]:  # five seconds are over
            _read_to_the_end(each)
    finally:
        for each in strangers:
            each.close()
    assert "have not said who they are" in first.text()


def _read_to_the_end(connection: socket.socket) -> None:
    try:
        while connection.recv(4096):
            pass
    except ConnectionResetError:
        return


@pytest.mark.timeout(120)
def test_over_tls_both_sides_show_a_certificate(copies: Copies, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    theirs.mkdir()
    right, wrong = Certificates(ours), Certificates(theirs)
    tls = ("--replication-trust", str(right.authority))
    first = copies.start(0, "--replication-certificate", str(right.server), *tls)
    until(lambda: copies.listens(0), "the first is primary, and there for replicas")
    stranger = copies.start(1, "--replication-certificate", str(wrong.client), *tls)
    until(lambda: "follows" in stranger.text() or "TLS fails" in stranger.text(), "it is turned away")
    assert not (copies.folder / "store1" / "journal").exists()
    stranger.kill()
    with socket.create_connection(("127.0.0.1", copies.places[0]), timeout=60) as plain:
        plain.sendall(b"\x00\x00\x00\x30" * 8)
        _read_to_the_end(plain)
    second = copies.start(1, "--replication-certificate", str(right.client), *tls)
    until(second.in_sync, "the second is in sync")
    producer = Producer(copies.ports, QUEUE)
    producer.flow(200)
    first.kill()
    until(second.serves, "the second takes over")
    producer.stop()
    kept(producer, second.port)


def url_of(broker: CopyProcess) -> str:
    return f"stomp://127.0.0.1:{broker.port}"


def verified(broker: CopyProcess) -> tuple[int, list[dict[str, object]]]:
    """Compare all replicas of ``broker``; return the exit status and a row for each."""
    done = CliRunner().invoke(ha, ["verify", "--url", url_of(broker), "--output", "json"])
    return done.exit_code, [json.loads(line) for line in done.output.splitlines() if line.startswith("{")]


def turn_over(path: Path, at: int) -> None:
    """Turn a bit over, as a disk does that nobody watches."""
    with path.open("r+b") as file:
        file.seek(at)
        octet = file.read(1)
        file.seek(at)
        file.write(bytes([octet[0] ^ 1]))


def a_segment(folder: Path) -> tuple[Path, int]:
    """Return the fullest segment, and a place in the middle of what stands there."""
    found = max((folder / "journal").glob("*.seg"), key=lambda each: len(each.read_bytes().rstrip(b"\0")))
    return found, len(found.read_bytes().rstrip(b"\0")) // 2


@pytest.mark.timeout(120)
def test_copies_are_compared_under_load_and_one_that_rotted_is_made_anew(copies: Copies) -> None:
    first, second = copies.pair("--copies", "1")
    producer = Producer(copies.ports, QUEUE)
    producer.flow(500)
    code, (row,) = verified(first)
    assert (code, row["replica"], row["result"]) == (0, "beta", "same")
    turn_over(*a_segment(copies.folder / "store1"))
    code, (row,) = verified(first)
    assert (code, row["result"]) == (1, "differs"), row
    assert ".seg at octet" in str(row["found"])
    until(second.in_sync, "it is made anew")
    assert verified(first)[0] == 0
    producer.flow(200)
    first.kill()
    until(second.serves, "the copy that was mended serves")
    producer.stop()
    kept(producer, second.port)


@pytest.mark.timeout(120)
def test_what_is_damaged_at_the_primary_is_not_copied_and_the_other_serves_when_told_to(copies: Copies) -> None:
    first, second = copies.pair("--copies", "1")
    producer = Producer(copies.ports, QUEUE)
    producer.flow(500)
    path, at = a_segment(copies.folder / "store0")
    turn_over(path, at)
    code, (row,) = verified(first)
    assert (code, row["result"]) == (1, "damaged here"), row
    assert path.name in str(row["found"])
    assert second.in_sync()
    told = CliRunner().invoke(ha, ["demote", "--url", url_of(first)])
    assert told.exit_code == 0, told.output
    until(second.serves, "the sound copy serves")
    until(first.in_sync, "the damaged one is made anew, under the same number")
    producer.flow(200)
    assert verified(second)[0] == 0
    producer.stop()
    kept(producer, second.port)


@pytest.mark.timeout(120)
def test_a_replica_that_comes_back_keeps_what_is_damaged_at_the_primary(copies: Copies) -> None:
    first, second = copies.pair("--copies", "1")
    producer = Producer(copies.ports, QUEUE)
    producer.flow(500)
    second.kill()
    producer.flow(200)
    path, at = a_segment(copies.folder / "store1")
    before = path.read_bytes()
    turn_over(copies.folder / "store0" / "journal" / path.name, at)
    second = copies.start(1, "--copies", "1")
    until(lambda: "is not made the same" in first.text(), "what it has otherwise is damaged there")
    assert path.name in first.text()
    assert not second.in_sync()
    assert path.read_bytes()[at] == before[at]
    (told,) = first.facts()["replication"]["verified"]
    assert (told["name"], told["state"]) == ("beta", "damaged here")
    assert first.serves()
    second.kill()
    shutil.rmtree(copies.folder / "store1")
    second = copies.start(1, "--copies", "1")
    until(second.in_sync, "an empty directory is made a copy of what the primary has")
    until(lambda: first.facts()["replication"]["verified"] == [], "nothing is said against it")
    producer.flow(200)
    producer.stop()


@pytest.mark.timeout(120)
def test_a_damaged_large_body_is_found(copies: Copies) -> None:
    first, second = copies.pair("--copies", "1")
    sender = Connection(first.port)
    sender.send(QUEUE, ["long"], size=3 << 20)
    assert sender.receipts(1) == ["long"]
    (body,) = (copies.folder / "store1" / "blobs").glob("*.blob")
    assert verified(first)[0] == 0
    turn_over(body, STRETCH + CHECK + 17)
    code, (row,) = verified(first)
    assert (code, row["result"]) == (1, "differs"), row
    until(second.in_sync, "it is made anew")
    assert body.read_bytes() == (copies.folder / "store0" / "blobs" / body.name).read_bytes()
    turn_over(copies.folder / "store0" / "blobs" / body.name, 17)
    code, (row,) = verified(first)
    assert (code, row["result"]) == (1, "damaged here"), row


@pytest.mark.timeout(120)
def test_nobody_steps_down_for_nobody(copies: Copies) -> None:
    first = copies.start(0, "--copies", "1")
    until(first.serves, "it is primary")
    told = CliRunner().invoke(ha, ["demote", "--url", url_of(first)])
    assert told.exit_code == 1
    assert "no other copy" in str(told.exception)
    assert verified(first)[0] == 1
    assert first.serves()


@pytest.mark.timeout(120)
def test_nobody_steps_down_for_one_that_is_eligible_and_gone(copies: Copies) -> None:
    """With two copies asked for, a replica that is lost stays in the record: nothing is confirmed without it."""
    first, second = copies.pair("--copies", "2")
    second.kill()
    until(lambda: not first.facts()["replication"]["replicas"], "it is gone")
    assert first.facts()["replication"]["eligible"] == ["beta"]
    told = CliRunner().invoke(ha, ["demote", "--url", url_of(first)])
    assert told.exit_code == 1
    assert "no other copy" in str(told.exception)
    assert first.serves()


MINE = ("--part", "primary")
GIVES_BACK = ("--part", "backup", "--failback")


@pytest.mark.timeout(60 + 90 * ROUNDS)
def test_a_primary_that_was_killed_has_its_store_back_once_it_is_in_sync(copies: Copies) -> None:
    """Clients move once when it dies, and once when it is back; each confirmed message is there once."""
    first = copies.start(0, "--copies", "1", *MINE)
    until(first.serves, "the primary serves")
    second = copies.start(1, "--copies", "1", *GIVES_BACK)
    until(second.in_sync, "the backup is in sync")
    producer = Producer(copies.ports, QUEUE, repeats=True)
    for turn in range(min(ROUNDS, 2)):  # each time it must be in sync for longer
        producer.flow(300)
        first.kill()
        until(second.serves, "the backup serves")
        producer.flow(300)
        first = copies.start(0, "--copies", "1", *MINE)
        until(first.in_sync, "the primary is a replica, in sync")
        until(first.serves, "the primary has its store back", 60.0)
        until(second.in_sync, "the backup is a replica again, in the same process")
        assert second.process.poll() is None
        assert second.text().count("the primary asks for its store back: alpha") >= turn + 1
        standing = json.loads((copies.folder / "store1" / "replica.json").read_text())
        assert len(standing["returned"]) == turn + 1
    producer.flow(200)
    producer.stop()
    kept(producer, first.port)


@pytest.mark.timeout(120)
def test_a_backup_that_may_not_give_back_goes_on_and_a_primary_is_demoted_for_good(copies: Copies) -> None:
    first = copies.start(0, "--copies", "1", *MINE)
    until(first.serves, "the primary serves")
    second = copies.start(1, "--copies", "1", "--part", "backup")
    until(second.in_sync, "the backup is in sync")
    told = CliRunner().invoke(ha, ["demote", "--url", url_of(first)])
    assert told.exit_code == 0, told.output
    until(second.serves, "the backup serves")
    until(first.in_sync, "the primary is its replica")
    time.sleep(12)  # longer than a primary is waited for that is in sync
    assert second.serves()
    assert first.in_sync()


BY_FILE = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
<security-enabled>false</security-enabled><ha-policy><replication>{}</replication></ha-policy></core></configuration>
"""


@pytest.mark.timeout(120)
def test_a_file_says_who_has_the_store_and_that_a_backup_ends_once_it_gave_it_back(copies: Copies) -> None:
    for name, part in (
        ("primary", "<primary/>"),
        ("backup", "<backup><allow-failback>true</allow-failback><restart-backup>false</restart-backup></backup>"),
    ):
        (copies.folder / f"{name}.xml").write_text(BY_FILE.format(part))
    second = copies.start(1, "--copies", "1", str(copies.folder / "backup.xml"))
    until(lambda: "holds no copy" in str(second.facts().get("replication", {}).get("refusal")), "it begins no store")
    first = copies.start(0, "--copies", "1", str(copies.folder / "primary.xml"))
    until(first.serves, "the primary serves")
    until(second.in_sync, "the backup is in sync")
    assert first.stop() == 0  # failover-on-shutdown is of a shared store
    until(second.serves, "the backup serves")
    producer = Producer(copies.ports, QUEUE, repeats=True)
    producer.flow(200)
    first = copies.start(0, "--copies", "1", str(copies.folder / "primary.xml"))
    until(first.serves, "the primary has its store back", 60.0)
    producer.flow(200)
    assert second.process.wait(30) == 0
    producer.stop()
    kept(producer, first.port)


@pytest.mark.timeout(120)
def test_a_store_that_was_given_back_too_often_is_kept_until_an_operator_says_so(copies: Copies) -> None:
    first = copies.start(0, "--copies", "1", *MINE)
    until(first.serves, "the primary serves")
    refusing = copies.start(1, "--copies", "1", *GIVES_BACK)
    until(refusing.in_sync, "the backup is in sync")
    told = CliRunner().invoke(ha, ["demote", "--url", url_of(first)])
    assert told.exit_code == 1  # it would have its store back at once
    assert "it would ask for its store at once" in str(told.exception)
    assert refusing.stop() == 0
    note = copies.folder / "store1" / "replica.json"
    standing = json.loads(note.read_text())
    note.write_text(json.dumps({**standing, "returned": [time.time_ns() // 1_000_000] * RETURNS_MAX}) + "\n")
    second = copies.start(1, "--copies", "1", *GIVES_BACK)
    until(lambda: counts(first), "the lock's record says that the backup is in sync, too")
    first.kill()
    until(second.serves, "the backup serves")
    first = copies.start(0, "--copies", "1", *MINE)
    until(lambda: "it was given back 5 times within 24 h" in second.text(), "it keeps the store, and says why")
    assert second.serves()
    asked = CliRunner().invoke(ha, ["status", f"http://127.0.0.1:{second.status}", "--output", "json"])
    assert "5 times within 24 h" in json.loads(asked.output.splitlines()[0])["note"]
    assert second.facts()["replication"]["returned"] == RETURNS_MAX
    told = CliRunner().invoke(ha, ["demote", "--url", url_of(second)])
    assert told.exit_code == 0, told.output
    until(first.serves, "an operator's word does it")


@pytest.mark.timeout(120)
def test_an_operator_says_which_copy_counts(copies: Copies) -> None:
    first, second = copies.pair("--copies", "1")
    producer = Producer([first.port], QUEUE)
    producer.flow(300)
    second.kill()
    producer.flow(100)  # confirmed alone: the other copy may not serve
    producer.stop()
    first.kill()
    second = copies.start(1, "--copies", "1")
    until(lambda: "not up to date" in str(second.facts().get("replication", {}).get("refusal")), "it waits")
    refused = CliRunner().invoke(ha, ["promote", str(copies.folder / "store1"), "--yes"])
    assert refused.exit_code == 1  # its broker runs
    second.stop()
    promoted = CliRunner().invoke(ha, ["promote", str(copies.folder / "store1"), "--yes"])
    assert promoted.exit_code == 0, promoted.output
    second = copies.start(1, "--copies", "1")
    until(second.serves, "it serves on an operator's word")
    first = copies.start(0, "--copies", "1")
    until(first.in_sync, "the one with the longer history is made its copy")
    (aside,) = (copies.folder / "store0").glob("oldreplica.*")
    (kept_file,) = (each for each in aside.iterdir() if each.suffix == ".seg")
    differs = f"{kept_file.name} from octet "
    assert f"alpha had what beta has not, or has otherwise: {differs}" in first.text()
    status = CliRunner().invoke(ha, ["status", f"http://127.0.0.1:{first.status}"]).output
    assert f"is kept in {aside}: {differs}" in status
    history = CliRunner().invoke(ha, ["history", str(copies.folder / "lock")]).output
    assert [line for line in history.splitlines() if "kept aside" in line and differs in line]
    assert b"p399" in kept_file.read_bytes()
    printed = CliRunner().invoke(data, ["print", str(aside)])
    assert printed.exit_code == 0 and f"{kept_file.name}:" in printed.output  # noqa: PT018 - both say it works
    first.stop()
    again = copies.start(0, "--copies", "1")
    until(again.in_sync, "it is in sync, as before")
    assert again.facts()["replication"]["differed"].startswith(differs), "a restart forgets nothing"
    assert len(list((copies.folder / "store0").glob("oldreplica.*"))) == 1


OTHER_BUILD = ROOT / "src" if COMPILED in os.environ.get("PYTHONPATH", "") else ROOT / COMPILED


@pytest.mark.timeout(180)
def test_a_pair_is_upgraded_without_a_message_that_is_lost_or_doubled(copies: Copies) -> None:
    """The steps of docs/replication.md, with producers that send again what broke off."""
    old, new = OTHER_BUILD if OTHER_BUILD.is_dir() else None, None
    more = ("--copies", "1")
    first = copies.start(0, *more, build=old)
    until(first.serves, "the first is primary")
    second = copies.start(1, *more, build=old)
    until(second.in_sync, "the second is in sync")
    producer = Producer(copies.ports, QUEUE, repeats=True)
    producer.flow(300)
    assert second.stop() == 0
    second = copies.start(1, *more, build=new)
    until(second.in_sync, "the replica is of the new build, in sync with the old one")
    producer.flow(200)
    assert first.stop() == 0
    until(second.serves, "the new build serves")
    first = copies.start(0, *more, build=old)
    until(first.in_sync, "the old build follows the new one: one may go back")
    producer.flow(200)
    assert first.stop() == 0
    first = copies.start(0, *more, build=new)
    until(first.in_sync, "both are new")
    assert verified(second)[0] == 0
    producer.flow(200)
    producer.stop()
    assert producer.gap < 5.0
    kept(producer, second.port)


@pytest.mark.timeout(180)
def test_a_replica_is_added_replaced_and_removed_under_load(copies: Copies, tmp_path: Path) -> None:
    first, second = copies.pair("--copies", "1")
    producer = Producer(copies.ports, QUEUE, repeats=True)
    producer.flow(300)
    place, status = free_port(), free_port()
    third = CopyProcess(
        tmp_path / "store2",
        "gamma",
        tmp_path,
        *("--locker", f"file:{copies.folder / 'lock'}", "--peer", f"127.0.0.1:{copies.places[0]}"),
        *("--peer", f"127.0.0.1:{copies.places[1]}", "--replication", f"127.0.0.1:{place}", "--copies", "1"),
        status=status,
    )
    copies.running.append(third)
    until(third.in_sync, "it is added")
    second.kill()
    shutil.rmtree(copies.folder / "store1")  # its disk is gone
    producer.flow(200)
    second = copies.start(1, "--copies", "1")
    until(second.in_sync, "it is replaced, by one with an empty directory")
    assert third.stop() == 0  # and one is removed
    producer.flow(200)
    until(lambda: first.facts()["replication"]["eligible"] == ["beta"], "the record has who is left")
    code, rows = verified(first)
    assert (code, [row["replica"] for row in rows if row["result"] == "same"]) == (0, ["beta"])
    first.kill()
    until(second.serves, "who was replaced serves")
    producer.flow(200)
    producer.stop()
    kept(producer, second.port)
