"""Leases in the real servers of Debian's packages: PostgreSQL and ZooKeeper, and SQLite; and HAProxy before a pair."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from contending import Contender
from entrepot.base.environment import SECOND
from entrepot.base.errors import StoreLost
from entrepot.ha.lease import LeaseOptions
from entrepot.ha.options import SharedStoreOptions
from entrepot.io.leases import me, now
from entrepot.io.registers import RegisterLock, open_register
from pairs import BrokerProcess, Connection, Producer, drain, free_port, until
from promises import never

OPTIONS = LeaseOptions(2 * SECOND)  # a call may take a fifth of it, on a machine that is busy
POSTGRES = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))[-1:]
ZOOKEEPER = Path("/usr/share/java/zookeeper.jar")
HAPROXY = shutil.which("haproxy") or ("/usr/sbin/haproxy" if Path("/usr/sbin/haproxy").exists() else "")
Start = Callable[..., BrokerProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    made: list[BrokerProcess] = []

    def begin(name: str, *more: str) -> BrokerProcess:
        made.append(BrokerProcess(tmp_path / "data", name, tmp_path, *more))
        return made[-1]

    yield begin
    for broker in made:
        broker.clear()


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    if not POSTGRES:
        pytest.skip("PostgreSQL is not installed (Debian: postgresql)")
    place = tmp_path_factory.mktemp("postgres")
    port = free_port()
    user = "postgres" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
    below = user if os.getuid() == 0 else None  # it refuses to run as root
    if below is not None:
        for each in (place, *place.parents):
            if each != Path("/") and each.owner() == "root" and each != Path("/tmp"):
                each.chmod(each.stat().st_mode | 0o011)
        shutil.chown(place, "postgres")
    binaries = POSTGRES[0].parent
    made = [str(binaries / "initdb"), "-D", str(place / "db"), "-A", "trust", "-U", user, "--no-sync"]
    subprocess.run(made, check=True, stdout=subprocess.DEVNULL, cwd="/", user=below)
    options = ["-D", str(place / "db"), "-p", str(port), "-k", str(place), "-c", "listen_addresses=127.0.0.1"]
    log = (place / "log").open("wb")
    server = subprocess.Popen([str(binaries / "postgres"), *options], stderr=log, stdout=log, cwd="/", user=below)
    uri = f"postgresql://{user}@127.0.0.1:{port}/postgres"
    try:
        until(lambda: _answers(uri), "PostgreSQL answers")
        yield uri, server
    finally:
        server.send_signal(signal.SIGINT)  # with SIGTERM it waits for its clients
        server.wait(20)


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("kazoo", reason="kazoo is not installed")
    if not ZOOKEEPER.exists() or shutil.which("java") is None:
        pytest.skip("ZooKeeper is not installed (Debian: zookeeper)")
    place = tmp_path_factory.mktemp("zookeeper")
    port = free_port()
    (place / "zoo.cfg").write_text(
        f"tickTime=500\ndataDir={place}\nclientPort={port}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n"
    )
    log = (place / "log").open("wb")
    command = ["java", "-Xmx128m", "-cp", "/usr/share/java/*:/etc/zookeeper/conf"]
    command += ["org.apache.zookeeper.server.quorum.QuorumPeerMain", str(place / "zoo.cfg")]
    server = subprocess.Popen(command, stdout=log, stderr=log)
    uri = f"zookeeper://127.0.0.1:{port}/entrepot"
    try:
        until(lambda: _answers(uri), "ZooKeeper answers")
        yield uri
    finally:
        server.terminate()
        server.wait(20)


def _answers(uri: str) -> bool:
    register = open_register(uri, OPTIONS)
    try:
        register.read()
    except OSError:
        return False
    finally:
        register.close()
    return True


@pytest.fixture(params=["sqlite", "postgres", "zookeeper"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:{tmp_path}/lock.db"
    server = request.getfixturevalue(request.param)
    return f"{server if isinstance(server, str) else server[0]}?name={tmp_path.name}"


def contender(uri: str, data: Path, name: str) -> Contender:
    mine = me(name, store="", options=OPTIONS)
    return Contender(
        data, RegisterLock(open_register(uri, OPTIONS), data, mine), mine, SharedStoreOptions(lease=OPTIONS)
    )


def test_a_lease_is_won_kept_handed_over_and_lost(uri: str, tmp_path: Path) -> None:
    one, other = contender(uri, tmp_path, "one"), contender(uri, tmp_path, "other")
    grant = one.attempt(now())
    assert grant is not None
    assert grant.epoch == 1
    assert other.attempt(now()) is None
    assert other.candidate.holder is not None
    assert other.candidate.holder.name == "one"
    one.renew(now())
    one.release(now())
    grant = other.attempt(now())
    assert grant is not None
    assert grant.epoch == 2
    assert "handed over" in grant.why
    # the other stands still: after a lease without a sign of life it is succeeded, and finds out
    until(lambda: one.attempt(now()) is not None, "the lease runs out")
    assert one.mine.epoch == 3
    with pytest.raises(StoreLost, match="belongs to broker one"):
        other.renew(grant.asked + 1)  # as its clock has it
    other.release(now())
    one.renew(now())
    for each in (one, other):
        each.close()


def test_who_waits_is_told_that_the_lock_is_handed_back(uri: str, tmp_path: Path) -> None:
    one, other = contender(uri, tmp_path, "one"), contender(uri, tmp_path, "other")
    assert one.attempt(now()) is not None
    assert other.attempt(now()) is None
    wake = threading.Event()
    other.lock.pause(wake, 0.001)  # the first pause tells the register whom to wake
    assert other.attempt(now()) is None
    released = threading.Timer(0.05, one.release, [now()])
    released.start()
    began = now()
    other.lock.pause(wake, 60.0)
    assert now() - began < 30 * SECOND
    released.join()
    assert other.attempt(now()) is not None
    other.release(now())
    for each in (one, other):
        each.close()


def test_of_many_at_once_one_wins(uri: str, tmp_path: Path) -> None:
    contenders = [contender(uri, tmp_path, f"c{number}") for number in range(4)]
    for _ in range(10):
        won = [each for each in contenders if each.attempt(now()) is not None]
        assert len(won) == 1
        won[0].release(now())
    for each in contenders:
        each.close()


def test_a_pair_of_brokers_takes_over(uri: str, start: Start) -> None:
    more = ("--locker", uri, "--lease-duration", "1")
    master = start("alpha", *more)
    until(master.serves, "alpha serves")
    backup = start("beta", *more)
    until(backup.waits, "beta waits")
    producer = Producer([master.port, backup.port], "/queue/locker")
    producer.flow(100)
    master.kill()
    until(backup.serves, "beta takes over")
    producer.flow(100)
    producer.stop()
    assert backup.facts()["master"]["epoch"] == 2


def test_a_database_that_stands_still_costs_the_master_its_store(
    postgres: tuple[str, subprocess.Popen[bytes]], start: Start, tmp_path: Path
) -> None:
    """Whoever cannot renew stops in time; whoever reaches the database again first is the next master."""
    uri, server = postgres
    more = ("--locker", f"{uri}?name={tmp_path.name}", "--lease-duration", "1")
    master = start("alpha", *more)
    until(master.serves, "alpha serves")
    children = subprocess.run(["pgrep", "-P", str(server.pid)], capture_output=True, text=True, check=False).stdout
    stopped = [int(pid) for pid in children.split()]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        until(lambda: "is not the master any more" in master.text(), "alpha gives up")
        with pytest.raises(OSError, match=r"refused|reset|closed"):
            Connection(master.port)
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    until(master.serves, "alpha is master again, in a new epoch")
    assert master.facts()["master"]["epoch"] == 2


@pytest.mark.skipif(not HAPROXY, reason="HAProxy is not installed (Debian: haproxy)")
def test_haproxy_sends_clients_to_the_master(start: Start, tmp_path: Path) -> None:
    """The usual configuration of two servers: plain connects as checks, the first that answers gets everybody."""
    master, backup = start("alpha"), None
    until(master.serves, "alpha serves")
    backup = start("beta")
    until(backup.waits, "beta waits")
    port = free_port()
    (tmp_path / "haproxy.cfg").write_text(f"""
global
    maxconn 200
defaults
    mode tcp
    timeout connect 2s
    timeout client 60s
    timeout server 60s
    option redispatch
    retries 3
listen broker
    bind 127.0.0.1:{port}
    balance first
    option tcp-check
    default-server inter 200ms fall 1 rise 1 on-marked-down shutdown-sessions
    server alpha 127.0.0.1:{master.port} check
    server beta 127.0.0.1:{backup.port} check
""")
    with (tmp_path / "haproxy.log").open("wb") as log:
        command = [HAPROXY, "-db", "-f", str(tmp_path / "haproxy.cfg")]
        proxy = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        producer = Producer([port], "/queue/proxied")
        producer.flow(200)
        master.kill()
        producer.flow(200)
        assert backup.serves()
        again = start("gamma")
        until(again.waits, "gamma waits")
        producer.flow(50)
        producer.stop()
        found = drain(port, "/queue/proxied", awaited=producer.promised)
        with never():
            assert all(found.get(body) == 1 for body in producer.promised)
    finally:
        proxy.terminate()
        proxy.wait(10)
