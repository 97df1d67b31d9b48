"""A pair whose lease voters keep, as processes: whoever ends, stands still, forgets, or wants to be believed."""

from __future__ import annotations

import shutil
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from entrepot.ha.lease import LeaseOptions
from entrepot.io import voting
from entrepot.io.ledger import Ledger
from entrepot.io.quorum import QuorumRegister
from entrepot.io.tls import TlsOptions, server_context
from entrepot.io.votes import VoteStore
from pairs import PATIENCE, ROUNDS_SLOW, Producer, Start, kept, pair, stand_still, until
from shell.certificates import Certificates
from voters import WitnessProcess, locker, two_at_once

QUEUE = "/queue/quorum"
Voters = Callable[..., list[WitnessProcess]]


@pytest.fixture
def voters(tmp_path: Path) -> Iterator[Voters]:
    made: list[WitnessProcess] = []

    def begin(count: int = 3, *more: str) -> list[WitnessProcess]:
        made.extend(WitnessProcess(tmp_path, f"w{number}", *more) for number in range(count))
        return made

    yield begin
    for each in made:
        each.clear()


@pytest.mark.timeout(60 + 30 * ROUNDS_SLOW)
def test_a_death_is_noticed_at_once_and_nothing_is_lost(start: Start, voters: Voters, tmp_path: Path) -> None:
    """The lease is so long that nobody could have waited for it: the voters saw the process end."""
    more = (*locker(voters()), "--lease-duration", "60")
    brokers = list(pair(start, *more))
    producer = Producer([one.port for one in brokers], QUEUE)
    for turn in range(ROUNDS_SLOW):
        producer.flow(200)
        master, backup = brokers
        master.kill()
        until(backup.serves, "the backup takes over")
        reborn = start(f"again{turn}", *more)
        producer.ports = [backup.port, reborn.port]
        until(reborn.waits, "the dead one returns as a backup")
        brokers = [backup, reborn]
    producer.flow(50)
    assert brokers[0].stop() == 0
    until(brokers[1].serves, "it is handed over")
    producer.flow(50)
    producer.stop()
    kept(producer, brokers[1].port)
    lines = [line for line in Ledger(tmp_path / "data").read() if line["event"] == "master"]
    assert [line["epoch"] for line in lines] == list(range(1, ROUNDS_SLOW + 3))
    assert "has ended without handing over" in lines[1]["why"]
    assert "handed over" in lines[-1]["why"]


def test_a_master_that_stands_still_is_replaced_and_finds_out(start: Start, voters: Voters) -> None:
    first, second = pair(start, *locker(voters()), "--lease-duration", "1")
    producer = Producer([first.port, second.port], QUEUE)
    first, _ = stand_still(producer, first, second, ROUNDS_SLOW)
    producer.stop()
    kept(producer, first.port)


def test_a_voter_may_go_and_two_may_not(start: Start, voters: Voters) -> None:
    """One that is killed and comes back costs nothing; without a majority nobody serves, and then somebody does."""
    there = voters()
    master, backup = pair(start, *locker(there), "--lease-duration", "8")
    producer = Producer([master.port, backup.port], QUEUE)
    for each in there:
        producer.flow(100)
        each.kill()
        producer.flow(100)
        each.start()
    assert master.facts()["master"]["epoch"] == 1
    there[0].kill()
    there[1].kill()
    until(lambda: not master.serves() and not backup.serves(), "nobody serves")
    until(lambda: "voters count, 2 are needed" in master.text() + backup.text(), "they say why")
    there[0].start()
    until(lambda: master.serves() or backup.serves(), "somebody serves again")
    producer.flow(50)
    producer.stop()
    kept(producer, master.port if master.serves() else backup.port)


def test_a_voter_that_lost_its_store_is_admitted_again(start: Start, voters: Voters) -> None:
    there = voters()
    master, _ = pair(start, *locker(there), "--lease-duration", "5")
    assert there[2].stop() == 0
    before = there[2].shown()["entrepot"]
    shutil.rmtree(there[2].data)
    there[2].start()
    assert "it is new" in there[2].text()
    until(lambda: "had lost its store; all others are there, so it votes again" in _texts(start), "it votes again")
    there[0].kill()  # the majority is the new one and the other
    renewed = master.facts()["master"]["renewals"]
    producer = Producer([master.port], QUEUE)
    producer.flow(50)
    producer.stop()
    # One may have been on its way; the second is one that the new voter has accepted.
    until(lambda: master.facts()["master"]["renewals"] > renewed + 1, "the lease is renewed")
    assert master.serves()
    assert there[2].stop() == 0
    after = there[2].shown()["entrepot"]
    assert after["store"] != before["store"]
    assert after["version"] > before["version"]
    assert after["change"] == 2


def _texts(start: Start) -> str:
    made = start.__closure__[0].cell_contents  # type: ignore[attr-defined]
    return "".join(each.text() for each in made)


@pytest.mark.parametrize("how", ["a copy", "rotten"])
def test_a_store_that_cannot_be_right_does_not_vote(voters: Voters, how: str) -> None:
    (one,) = voters(1)
    assert not list(one.data.glob("*.votes"))  # there is no register before somebody asks
    _meet(one)
    assert one.stop() == 0
    (path,) = one.data.glob("*.votes")
    if how == "a copy":
        copy = path.with_name("copy")
        shutil.copy2(path, copy)
        copy.replace(path)
    else:
        path.write_bytes(b"\xff" * path.stat().st_size)
    one.start()
    assert one.process.wait(PATIENCE) != 0
    assert ("is a copy, or was restored" if how == "a copy" else "neither of its two places is whole") in one.text()
    assert "remove the file" in one.text()


def _meet(one: WitnessProcess) -> None:
    """Have it make the file of a register."""
    register = QuorumRegister(locker([one])[1], LeaseOptions())
    assert register.read() == (b"", 0)
    register.close()


def test_it_is_small(voters: Voters) -> None:
    (one,) = voters(1)
    _meet(one)
    assert one.resident() <= 25_000_000


def test_one_half_of_the_places_that_rots_is_no_loss(voters: Voters) -> None:
    (one,) = voters(1)
    _meet(one)
    assert one.stop() == 0
    (path,) = one.data.glob("*.votes")
    before = one.shown()
    for half in (0, 1):
        octets = bytearray(path.read_bytes())
        whole = bytes(octets)
        octets[half * len(octets) // 2 + 60] ^= 0xFF
        with path.open("r+b") as file:
            file.write(octets)
        assert one.shown() == before
        with path.open("r+b") as file:
            file.write(whole)


def test_a_hostile_peer_harms_nobody(start: Start, voters: Voters) -> None:
    """Nonsense, frames without end, peers that say nothing, forged frames: the pair notices none of it."""
    there = voters()
    master, _ = pair(start, *locker(there), "--lease-duration", "2")
    epoch = master.facts()["master"]["epoch"]
    host, _, port = there[0].address.rpartition(":")
    silent = [socket.create_connection((host, int(port)), 5.0) for _ in range(100)]
    hello = b'{"entrepot": 1, "register": "entrepot", "nonce": "00", "instance": "x"}'
    for octets in (
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff" * 5000,
        struct.pack(">I", 900) + b"x" * 899,
        struct.pack(">I", len(hello)) + hello + struct.pack(">I", 40) + b"\0" * 40,
        struct.pack(">I", 4) + b"[][]",
        struct.pack(">I", 25) + b'{"entrepot": 7, "a": "b"}',
    ):
        with socket.create_connection((host, int(port)), 5.0) as one:
            one.sendall(octets)
            one.shutdown(socket.SHUT_WR)
            while one.recv(4096):
                pass
    until(lambda: "does not know the secret" in there[0].text(), "the forged frame was refused")
    assert "speaks version 7" in there[0].text()
    there[1].kill()  # so the one that was pestered must count
    before = master.facts()["master"]["renewals"]
    until(lambda: master.facts()["master"]["renewals"] > before + 5, "the lease is renewed")
    assert master.facts()["master"]["epoch"] == epoch
    for each in silent:
        each.close()


def test_another_secret_and_other_voters_are_refused_with_the_reason(
    start: Start, voters: Voters, tmp_path: Path
) -> None:
    there = voters()
    master = start("alpha", *locker(there))
    until(master.serves, "alpha serves")
    other = tmp_path / "other.secret"
    other.touch(mode=0o600)
    other.write_text("not what the voters were given\n")
    names = ",".join(each.address for each in there)
    stranger = start("beta", "--locker", f"quorum:({names})?secret-file={other}")
    until(lambda: "its secret is another one" in stranger.text(), "it says so")
    fewer = start("gamma", *locker(there[:2]))
    assert fewer.process.wait(PATIENCE) == 2
    assert "the voters of this register are" in fewer.text()
    other.chmod(0o644)
    open_to_all = start("delta", "--locker", f"quorum:({names})?secret-file={other}")
    assert open_to_all.process.wait(PATIENCE) == 2
    assert "everybody on this machine may read" in open_to_all.text()
    assert master.serves()


def test_tls_around_it(start: Start, voters: Voters, tmp_path: Path) -> None:
    """Brokers believe what the authority signed, and nothing else."""
    files = Certificates(tmp_path)
    there = voters(3, "--tls-certificate", str(files.server))
    trusting = locker(there, f"trust-store={files.authority}")
    master, backup = pair(start, *trusting, "--lease-duration", "60")
    master.kill()
    until(backup.serves, "the backup takes over")
    plain = start("plain", *locker(there))
    until(lambda: "the voters do not answer" in plain.text(), "without TLS there is no answer")
    assert not plain.serves()


def test_who_does_not_shake_hands_is_a_stranger_like_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest goes as soon as there are too many, whoever is in the middle of TLS included."""
    monkeypatch.setattr(voting, "PATIENCE", 300.0)
    tls = server_context(TlsOptions(certificate=str(Certificates(tmp_path).server)))
    server = voting.VoteServer(VoteStore(tmp_path / "w"), "127.0.0.1:0", b"s" * 16, tls)
    server.open()
    threading.Thread(target=server.serve, daemon=True).start()
    silent = [socket.create_connection(("127.0.0.1", server.port), 30.0) for _ in range(3 * voting.STRANGERS_MAX)]
    try:
        for each in silent[: voting.STRANGERS_MAX]:
            assert each.recv(1) == b""
        silent[-1].setblocking(False)
        with pytest.raises(BlockingIOError):
            silent[-1].recv(1)
    finally:
        server.close()
        for each in silent:
            each.close()


def test_without_a_secret_it_listens_to_this_machine_only(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "entrepot", "witness", "--listen", "0.0.0.0:0", "--data", str(tmp_path / "w")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 2
    assert "without a secret anybody who reaches 0.0.0.0:0 could decide who is master" in done.stderr


def test_what_the_watcher_takes_for_two_masters() -> None:
    assert two_at_once([(0.0, 0.1, 1, "a"), (1.0, 1.1, 2, "b"), (2.0, 2.1, 3, "a")]) == []
    assert two_at_once([(0.0, 2.1, 1, "a"), (1.0, 1.1, 2, "b")]) == []  # the answer was long under way
    assert two_at_once([(1.0, 1.1, 2, "b"), (1.2, 1.3, 1, "a")]) == ["a was master with epoch 1 after b was with 2"]
    assert two_at_once([(1.0, 1.1, 2, "b"), (1.2, 1.3, 2, "a")]) == ["a and b both with epoch 2"]


def ha(*words: str) -> str:
    command = [sys.executable, "-m", "entrepot", "ha", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    return done.stdout + done.stderr


def test_an_operator_sees_and_changes_who_votes(start: Start, voters: Voters) -> None:
    there = voters(4)
    first, second = locker(there[:3])[1], locker([there[0], there[1], there[3]])[1]
    master = start("alpha", "--locker", first, "--lease-duration", "2")
    until(master.serves, "alpha serves")
    assert "alpha" in ha("status", first)
    assert ha("voters", first).count("votes") == 3
    assert "these vote now" in ha(
        "voters", first, "--become", ",".join(each.address for each in (*there[:2], there[3]))
    )
    there[0].kill()
    before = master.facts()["master"]["renewals"]
    until(lambda: master.facts().get("master", {}).get("renewals", 0) > before + 5, "it follows, and renews its lease")
    text = ha("voters", second)
    assert "away" in text
    assert text.count("votes") == 2
    there[1].kill()
    until(lambda: not master.serves(), "it has no majority")
    lost = ",".join(each.address for each in there[:2])
    assert f"these vote now: quorum:({there[3].address})" in ha("promote", second, "--without", lost, "--yes")
    master.clear()
    again = start("beta", *locker([there[3]]), "--lease-duration", "2")
    until(again.serves, "a broker that is told so serves")
    assert again.facts()["master"]["epoch"] == 2
