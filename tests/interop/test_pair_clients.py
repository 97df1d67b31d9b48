"""Clients that nobody here wrote, ours, and a bridge, while the masters of a pair are killed one after the other."""
# ruff: noqa: SIM117  nested blocks say in which order things close

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import core_clients
import ours
import pytest
from copies_clients import WELL, JavaCore
from test_java_client import Program
from test_java_client import unavailable as java_unavailable

from entrepot.base.errors import TransactionRolledBack
from entrepot.client.connection import connect
from entrepot.protocols.conversing.modes import Acknowledge
from pairs import PATIENCE, BrokerProcess, drain, free_port, until
from promised import History
from promises import never

stomp = pytest.importorskip("stomp")
paho = pytest.importorskip("paho.mqtt.client")

HAPROXY = shutil.which("haproxy") or ("/usr/sbin/haproxy" if Path("/usr/sbin/haproxy").exists() else "")
KILLS = 2
BATCHES = 250  # of five messages each


class Pair:
    """Two places to be; whoever is killed comes back as the backup, at the same place."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.openwire = [free_port(), free_port()]
        self.stomp = [free_port(), free_port()]
        self.mqtt = [free_port(), free_port()]
        self.status = [free_port(), free_port()]
        self.brokers = [self._begin(0)]
        until(self.brokers[0].serves, "the first serves")
        self.brokers.append(self._begin(1))
        until(self.brokers[1].waits, "the second waits")

    def _begin(self, place: int) -> BrokerProcess:
        return BrokerProcess(
            self.home / "data",
            f"broker{place}",
            self.home,
            "--listen",
            f"openwire://127.0.0.1:{self.openwire[place]}",
            "--listen",
            f"mqtt://127.0.0.1:{self.mqtt[place]}",
            port=self.stomp[place],
            status=self.status[place],
        )

    def uris(self) -> str:
        return ",".join(f"tcp://127.0.0.1:{port}" for port in self.openwire)

    @property
    def master(self) -> int:
        return next(place for place, broker in enumerate(self.brokers) if broker.serves())

    def kill(self) -> None:
        """Kill the master; return when the other one serves and the dead one waits."""
        place = self.master
        self.brokers[place].kill()
        other = self.brokers[1 - place]
        until(other.serves, "the other takes over")
        self.brokers[place] = self._begin(place)
        until(self.brokers[place].waits, "the dead one is the backup")

    def left(self, queue: str) -> dict[str, int]:
        return drain(self.stomp[self.master], queue)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path)
    yield made
    for broker in made.brokers:
        broker.clear()


@pytest.fixture(scope="module")
def program() -> Program:
    return Program()


@pytest.mark.skipif(bool(java_unavailable()), reason=f"Java clients: {java_unavailable()}")
@pytest.mark.parametrize("how", ["single", "transacted"])
def test_a_java_client_follows(pair: Pair, program: Program, how: str) -> None:
    url = f"failover:({pair.uris()})?randomize=false&maxReconnectDelay=100"
    command = program.command("Sender", url, f"java.{how}", how, str(BATCHES))
    sender = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    told: list[str] = []
    assert sender.stdout is not None
    reader = threading.Thread(target=lambda: told.extend(line.strip() for line in sender.stdout or ()))
    reader.start()
    try:
        for _ in range(KILLS):
            before = len(told)
            until(lambda mark=before: len(told) > mark + 30, "it sends")
            assert sender.poll() is None, "the load is still on"
            pair.kill()
        reader.join(90)
    finally:
        sender.kill()
        sender.wait()
    assert told[-1:] == ["done"], told[-5:]
    found = pair.left(f"/queue/java.{how}")
    assert set(found.values()) == {1}, {body: times for body, times in found.items() if times > 1}
    for line in told[:-1]:
        fate, name = line.split()
        there = [part for part in range(5) if f"{name}.{part}" in found]
        if fate == "kept":
            assert there == list(range(5)), f"{line}: {there}"
        elif how == "transacted":
            assert there in ([], list(range(5))), f"{line}: torn, {there}"
            assert not (there and fate == "rolled-back"), line
    assert sum(line.startswith("kept") for line in told) == BATCHES


@pytest.mark.parametrize("how", [Acknowledge.AUTO, Acknowledge.TRANSACTED], ids=["single", "transacted"])
def test_the_python_client_follows(pair: Pair, how: Acknowledge) -> None:
    """Moves messages from one queue to another while masters die: each arrives once when it moves in a transaction."""
    count = 300
    transacted = how is Acknowledge.TRANSACTED
    url = f"failover:({pair.uris()})?maxReconnectDelay=100&jms.redeliveryPolicy.maximumRedeliveries=-1"
    sent: list[int] = []

    async def produce() -> None:
        async with connect(url) as connection, connection.session(how) as session:
            async with session.producer("source") as producer:
                for first in range(0, count, 3):
                    for number in range(first, first + 3):
                        await producer.send(str(number))
                    if transacted:
                        await session.commit()  # never in doubt: the store is the same
                    sent.append(first)
                    await asyncio.sleep(0.015)

    async def move(producing: asyncio.Task[None]) -> None:
        idle = 0  # looks in a row that found nothing, once everything is sent
        async with connect(url) as connection, connection.session(how) as session:
            async with session.consumer("source") as consumer, session.producer("target") as producer:
                while idle < 3:
                    try:
                        batch = await consumer.receive_many(4 if transacted else 1, timeout=0.4)
                        for message in batch:
                            await producer.send(message.body)
                        if transacted:
                            await session.commit()
                        idle = idle + 1 if producing.done() and not batch and connection.connected else 0
                    except TransactionRolledBack:
                        idle = 0

    async def main() -> None:
        async with asyncio.timeout(90):
            producing = asyncio.create_task(produce())
            moving = asyncio.create_task(move(producing))
            for _ in range(KILLS):
                mark = len(sent) + 15
                while len(sent) < mark and not producing.done():
                    await asyncio.sleep(0.005)
                assert not producing.done(), "the load is still on"
                await asyncio.to_thread(pair.kill)
            await asyncio.gather(producing, moving)

    asyncio.run(main())
    found = pair.left("/queue/target")
    assert sorted(found, key=int) == [str(number) for number in range(count)]
    if transacted:
        assert set(found.values()) == {1}


def test_a_bridge_follows(pair: Pair, tmp_path: Path) -> None:
    """A third broker forwards to whoever is master: `masterslave:` as ActiveMQ's network connectors have it."""
    uri = f"masterslave:({pair.uris()})?initialReconnectDelay=50&maxReconnectDelay=200"
    third = ours.Entrepot(tmp_path / "third", name="third", arguments=("--connect", uri))
    third.start().await_ready()
    total = 600
    seen: dict[str, int] = {}

    async def produce() -> None:
        async with connect(third.url) as connection, connection.session() as session:
            async with session.producer("bridged") as producer:
                for number in range(total):
                    await producer.send(str(number))
                    await asyncio.sleep(0.005)

    async def consume() -> None:
        url = f"failover:({pair.uris()})?maxReconnectDelay=100"
        async with connect(url) as connection, connection.session() as session:
            async with session.consumer("bridged") as consumer:
                while len(seen) < total:
                    message = await consumer.receive(1.0)
                    if message is not None:
                        seen[str(message.body)] = seen.get(str(message.body), 0) + 1

    async def main() -> None:
        consuming, producing = asyncio.create_task(consume()), asyncio.create_task(produce())
        for _ in range(KILLS):
            mark = len(seen) + 60
            async with asyncio.timeout(PATIENCE):
                while len(seen) < mark:
                    await asyncio.sleep(0.01)
            await asyncio.to_thread(pair.kill)
        await producing
        async with asyncio.timeout(PATIENCE):
            await consuming

    try:
        asyncio.run(main())
    except TimeoutError:
        missing = [number for number in range(total) if str(number) not in seen]
        raise AssertionError(f"{len(missing)} of {total} did not cross: {missing[:10]}") from None
    finally:
        third.kill()


CONFIGURATION = """
defaults
    mode tcp
    timeout connect 2s
    timeout client 60s
    timeout server 60s
listen clients
    bind 127.0.0.1:{front}
    balance first
    option tcp-check
    default-server inter 200ms fall 1 rise 1 on-marked-down shutdown-sessions
    server a 127.0.0.1:{places[0]} check
    server b 127.0.0.1:{places[1]} check
listen status
    mode http
    bind 127.0.0.1:{web}
    option httpchk GET /ready
    default-server inter 200ms fall 1 rise 1
    server a 127.0.0.1:{status[0]} check
    server b 127.0.0.1:{status[1]} check
"""


through_haproxy = pytest.mark.skipif(not HAPROXY, reason="HAProxy is not installed (Debian: haproxy)")


@contextmanager
def proxied(pair: Pair, places: list[int], home: Path) -> Iterator[tuple[int, int]]:
    """Run HAProxy as the documentation has it: TCP for clients, HTTP by /ready. Yields both ports."""
    front, web = free_port(), free_port()
    text = CONFIGURATION.format(front=front, web=web, places=places, status=pair.status)
    (home / "haproxy.cfg").write_text(text)
    with (home / "haproxy.log").open("wb") as log:
        proxy = subprocess.Popen([HAPROXY, "-db", "-f", str(home / "haproxy.cfg")], stdout=log, stderr=log)
    try:
        yield front, web
    finally:
        proxy.terminate()
        proxy.wait(10)


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


@through_haproxy
def test_paho_and_its_session_follow_through_haproxy(pair: Pair, tmp_path: Path) -> None:
    """What was published with QoS 1 before, while and after the master is killed comes to a session that stays."""
    sent = [f"{turn}.{number}" for turn in range(KILLS) for number in range(300)]
    found: list[str] = []

    def dial(name: str, port: int) -> Any:
        client = paho.Client(paho.CallbackAPIVersion.VERSION2, client_id=name, clean_session=False)
        client.on_connect = lambda one, *_: one.subscribe("proxied/#", qos=1) if name == "reads" else None
        client.on_message = lambda _one, _data, message: found.append(message.payload.decode())
        client.reconnect_delay_set(0.1, 1)
        client.connect("127.0.0.1", port)
        client.loop_start()
        return client

    with proxied(pair, pair.mqtt, tmp_path) as (front, _):
        until(lambda: listens(front), "HAProxy runs")
        reads, writes = dial("reads", front), dial("writes", front)
        subscribed = threading.Event()
        reads.on_subscribe = lambda *_: subscribed.set()
        try:
            assert subscribed.wait(PATIENCE), "it is subscribed before anything is sent"
            for turn in range(KILLS):
                killing = threading.Thread(target=pair.kill)
                killing.start()
                told = [writes.publish("proxied/x", body, qos=1) for body in sent[turn * 300 : (turn + 1) * 300]]
                until(lambda told=told: all(each.is_published() for each in told), "all are acknowledged", 60.0)
                killing.join()
            until(lambda: set(found) >= set(sent), "all have come", 60.0)
        finally:
            for client in (reads, writes):
                client.disconnect()
                client.loop_stop()
    assert set(found) == set(sent)


@through_haproxy
def test_stomp_py_reconnects_through_haproxy(pair: Pair, tmp_path: Path) -> None:
    """The configuration of the documentation: TCP for clients, HTTP by /ready; what has no receipt is sent again."""
    receipted: dict[str, bool] = {}

    class Listener(stomp.ConnectionListener):  # type: ignore[misc]
        def on_receipt(self, frame: object) -> None:
            receipted[frame.headers["receipt-id"]] = True  # type: ignore[attr-defined]

    with proxied(pair, pair.stomp, tmp_path) as (front, web):
        wire = stomp.Connection12([("127.0.0.1", front)], reconnect_attempts_max=1)
        wire.set_listener("", Listener())

        def deliver(body: str) -> None:
            """Send until there is a receipt."""
            end = time.monotonic() + PATIENCE
            while body not in receipted:
                assert time.monotonic() < end, f"no receipt for {body}"
                try:
                    if not wire.is_connected():
                        wire.connect(wait=True)
                    wire.send("/queue/proxied", body, persistent="true", receipt=body)
                except (stomp.exception.StompException, OSError):
                    time.sleep(0.05)
                    continue
                while body not in receipted and wire.is_connected() and time.monotonic() < end:
                    time.sleep(0.0005)

        def served() -> str:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{web}/status", timeout=2) as answer:
                    facts = json.load(answer)
            except OSError:  # HAProxy answers 503 while neither is ready
                return ""
            return str(facts["broker"]) if facts["ready"] else ""

        until(lambda: served() == pair.brokers[pair.master].name, "HTTP leads to the master")
        for turn in range(KILLS):
            for number in range(100):
                deliver(f"{turn}.{number}")
            killing = threading.Thread(target=pair.kill)
            killing.start()
            for number in range(100, 400):
                deliver(f"{turn}.{number}")
            killing.join()
            until(lambda: served() == pair.brokers[pair.master].name, "HTTP leads to the new master")
        wire.disconnect()
        found = drain(front, "/queue/proxied")
    assert set(found) == {f"{turn}.{number}" for turn in range(KILLS) for number in range(400)}
    twice = [body for body, times in found.items() if times > 1]
    with never():
        assert len(twice) <= KILLS, f"only what a kill left without an answer may have been sent twice: {twice}"


XML = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core"><name>{name}</name>
<security-enabled>false</security-enabled><cluster-user>nodes</cluster-user><cluster-password>secret</cluster-password>
<journal-directory>{home}/journal</journal-directory>
<connectors><connector name="own">tcp://127.0.0.1:{core}</connector></connectors>
<cluster-connections><cluster-connection name="pair"><connector-ref>own</connector-ref></cluster-connection>
</cluster-connections><ha-policy><shared-store><{part}/></shared-store></ha-policy>
<acceptors><acceptor name="core">tcp://127.0.0.1:{core}?protocols=CORE</acceptor></acceptors>
</core></configuration>
"""


def shared(home: Path, part: str, core: int) -> BrokerProcess:
    file = home / f"{part}.xml"
    file.write_text(XML.format(name=part, home=home, part=part, core=core))
    place = f"tcp://127.0.0.1:{core}?protocols=CORE"
    return BrokerProcess(home / "data", part, home, str(file), "--listen", place)


@pytest.mark.skipif(bool(java_unavailable()), reason=f"Java clients: {java_unavailable()}")
def test_a_java_client_of_core_is_told_of_the_backup_of_a_shared_store(tmp_path: Path) -> None:
    """It knows one place, that of the primary; the other one it has from the topology."""
    ports = [free_port(), free_port()]
    brokers = [shared(tmp_path, "primary", ports[0])]
    until(brokers[0].serves, "the primary serves")
    brokers.append(shared(tmp_path, "backup", ports[1]))
    until(lambda: brokers[0].facts().get("successor") == "backup", "the primary knows who waits")
    url = f"(tcp://127.0.0.1:{ports[0]})?ha=true&reconnectAttempts=-1&retryInterval=100&callTimeout=10000"
    command = core_clients.Program(core_clients.SAME).command("Rounds", url)
    client = JavaCore(command, "going", tmp_path / "core.log")
    try:
        until(lambda: client.going() > 50, "messages flow")
        brokers[0].kill()
        until(brokers[1].serves, "the backup takes over")
        before = client.going()
        until(lambda: client.going() > before + 50, "messages flow again", 60)
        assert client.end(History()) == [f"core: {WELL}"]
    finally:
        client.close()
        for broker in brokers:
            broker.clear()
