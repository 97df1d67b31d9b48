"""Queues of a real ActiveMQ, read by Spark through a broker of ours beside it (docs/spark-on-activemq.md)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import classic
import pytest
from classic import Classic
from ours import listens

import entrepot
from entrepot import pipeline
from entrepot.protocols.stomp.frames import encode_frame
from guides import all_blocks
from promises import never
from shell.certificates import Certificates
from shell.daemon import Daemon, Wire
from spark.soak_programs import landed
from spark.stand import PATIENCE, QUICK, Stand

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = "docs/spark-on-activemq.md"
REMEMBERS = 'maxFailoverProducersToTrack="4096"'  # as the page says
ROUNDS = int(os.environ.get("ENTREPOT_ROUNDS", "2"))

pytestmark = pytest.mark.skipif(bool(classic.unavailable()), reason=f"ActiveMQ: {classic.unavailable()}")


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Classic]:
    started = Classic(tmp_path_factory.mktemp("foreign"), stomp=True).start()
    try:
        listens(classic.HOST, started.stomp_port)
        yield started
    finally:
        started.kill()


def connection_of_the_page() -> str:
    """Return what the page has behind ``--connect`` in its first command."""
    words = shlex.split(next(block.text for block in all_blocks("text") if block.page == PAGE))
    return words[words.index("--connect") + 1]


DRAWN, BRIDGE = "drawn", "bridge"
BOTH = pytest.mark.parametrize("beside", [DRAWN, BRIDGE], indirect=True)


@pytest.fixture
def beside(request: pytest.FixtureRequest, foreign: Classic, tmp_path: Path, stand: Stand) -> Iterator[Daemon]:
    """The broker beside it, as the page says; ``stand`` reads from there."""
    (tmp_path / "beside").mkdir()
    if getattr(request, "param", DRAWN) == BRIDGE:
        connector = f"static:({foreign.url})?initialReconnectDelay=100&checkDuplicateMessagesOnDuplex=true"
        joined = ("--connect", connector, "--duplex")
    else:
        uri = connection_of_the_page().replace("tcp://activemq:61616", foreign.url)
        joined = ("--connect", f"{uri}?retryInterval=100&maxRetryInterval=500", "--name", f"b{classic.free_port()}")
    port = classic.free_port()  # the same when it is started again
    listen = f"stomp://127.0.0.1:{port}"
    daemon = Daemon(tmp_path / "beside", "--listen", listen, *joined).start()
    stand.url = listen
    yield daemon
    stand.close()
    daemon.stop()


@pytest.fixture(params=[DRAWN, BRIDGE])
def returning(request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession) -> Iterator[Returning]:
    made = Returning(tmp_path, spark, request.param)
    try:
        yield made
    finally:
        made.end()


class Returning:
    """An ActiveMQ that audits what networks bring, and the broker beside it that gives it the queue ``results``."""

    def __init__(self, home: Path, spark: SparkSession, way: str) -> None:
        self.foreign = Classic(home / "foreign", stomp=True, connector='auditNetworkProducers="true"')
        file = self.foreign.home / "activemq.xml"
        file.write_text(file.read_text().replace("<kahaDB ", f"<kahaDB {REMEMBERS} "))
        self.start_foreign()
        place = home / "beside"
        place.mkdir()
        listen = f"127.0.0.1:{classic.free_port()}"  # the same when it is started again
        if way == BRIDGE:
            (block,) = [one for one in all_blocks("xml") if one.page == PAGE]
            text = block.text.replace("tcp://activemq:61616", self.foreign.url).replace("127.0.0.1:61613", listen)
            (place / "beside.xml").write_text(text)
            self.beside = Daemon(place, "beside.xml", files=True).start()
        else:
            uri = f"{connection_of_the_page().replace('tcp://activemq:61616', self.foreign.url)}?back=results"
            self.beside = Daemon(place, "--listen", f"stomp://{listen}", "--connect", uri).start()
        self.stand = Stand(spark, self.beside, home, "results")
        self.stand.url = f"stomp://{listen}"

    def start_foreign(self) -> None:
        self.foreign.start()
        listens(classic.HOST, self.foreign.stomp_port)

    def _wire(self) -> Wire:
        """Return a connection to ActiveMQ, which closes those that come while it starts."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return Wire(self.foreign.stomp_port)
            except ConnectionError:
                assert time.monotonic() < until, "ActiveMQ serves nobody"
                time.sleep(0.1)

    def end(self) -> None:
        self.stand.close()
        self.beside.stop()
        self.foreign.kill()

    def write(self, batch: int, count: int) -> list[str]:
        """Publish a batch; return its texts."""
        frame = self.stand.spark.range(count).selectExpr(f"concat('{batch}-', id) AS text")
        options = self.stand.given(subscription=None, sink="returning", batch=batch)
        frame.write.format("entrepot").options(**options).mode("append").save()
        return [f"{batch}-{number}" for number in range(count)]

    def take(self, count: int) -> list[str]:
        """Consume ``count`` messages at ActiveMQ, of those that come while they are taken."""
        wire = self._wire()
        wire.subscribe("/queue/results", ack="client-individual")
        taken: list[str] = []
        while len(taken) < count:
            frame = wire.message()
            taken.append(frame.body.decode())
            wire.say("ACK", {"id": frame.headers["ack"]})
        wire.leave()
        return taken


def produce(foreign: Classic, queue: str, bodies: list[str], *, kind: str = "queue") -> list[str]:
    wire = Wire(foreign.stomp_port)
    headers = {"destination": f"/{kind}/{queue}", "persistent": "true"}
    wire.socket.sendall(b"".join(encode_frame("SEND", headers, body.encode()) for body in bodies[:-1]))
    assert wire.ask("SEND", headers, bodies[-1].encode()).command == "RECEIPT"
    wire.leave()
    return bodies


def left(foreign: Classic, queue: str) -> list[str]:
    wire = Wire(foreign.stomp_port)
    found = [frame.body.decode() for frame in wire.drain(f"/queue/{queue}")]
    wire.leave()
    return found


def test_what_is_there_and_what_comes(foreign: Classic, beside: Daemon, stand: Stand) -> None:
    sent = produce(foreign, stand.queue, [f"{number}" for number in range(3000)])
    stand.run(stand.stream(demand="true").select("text"))
    assert sorted(stand.texts(), key=int) == sent
    query = stand.start(stand.stream(demand="true").select("text"), processingTime="0 seconds")
    sent += produce(foreign, stand.queue, [f"{number}" for number in range(3000, 3100)])
    stand.until(lambda: sorted(stand.texts(), key=int) == sent)
    query.stop()
    assert left(foreign, stand.queue) == []


def test_the_page_does_what_it_says(foreign: Classic, beside: Daemon, stand: Stand, tmp_path: Path) -> None:
    (block,) = [one for one in all_blocks("python") if one.page == PAGE]
    text = block.text.replace("stomp://127.0.0.1:61613", stand.url).replace('"data/', f'"{tmp_path}/data/')
    sent = produce(foreign, "orders", [f"{number}" for number in range(50)])
    made = {"spark": stand.spark}
    exec(compile(text, block.page, "exec"), made)  # the words of the page
    assert made["query"].awaitTermination(PATIENCE)
    landed = stand.spark.read.parquet(f"{tmp_path}/data/orders").select("text").collect()
    assert sorted((row["text"] for row in landed), key=int) == sent


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Classic, Path]]:
    """An ActiveMQ as Amazon MQ is: TLS, and nobody without a password; and the authority of its certificate."""
    home = tmp_path_factory.mktemp("locked")
    files = Certificates(home)
    started = Classic(home / "broker", authenticated=True, key_store=files.store).start()
    try:
        listens(classic.HOST, started.port)
        yield started, files.authority
    finally:
        started.kill()


@contextlib.contextmanager
def beside_locked(place: Path, port: int, authority: Path, password: str = "secret") -> Iterator[Daemon]:
    """The broker beside it, by the command of the page."""
    (line,) = [one.text for one in all_blocks("text") if one.page == PAGE and "ssl://" in one.text]
    words = shlex.split(line)
    uri = words[words.index("--connect") + 1].replace("//a:61617", f"//localhost:{classic.free_port()}")
    uri = uri.replace("//b:61617", f"//localhost:{port}").replace("ca.pem", str(authority))
    uri = uri.replace("spark&password=SECRET", f"app&password={password}") + "&retryInterval=100&maxRetryInterval=500"
    place.mkdir()
    listen = f"stomp://127.0.0.1:{classic.free_port()}"
    daemon = Daemon(place, "--listen", listen, "--connect", uri).start()
    try:
        yield daemon
    finally:
        daemon.stop()


def test_tls_and_a_user(locked: tuple[Classic, Path], stand: Stand, tmp_path: Path) -> None:
    foreign, authority = locked

    async def produce_there() -> None:
        url = f"ssl://localhost:{foreign.port}?transport.trustStorePath={authority}"
        async with (
            asyncio.timeout(PATIENCE),
            entrepot.connect(url, user="app", password="secret") as connection,
            connection.session() as session,
            session.producer(stand.queue) as producer,
        ):
            for body in "abc":
                await producer.send(body)

    asyncio.run(produce_there())
    with beside_locked(tmp_path / "beside", foreign.port, authority) as daemon:
        stand.url = f"stomp://127.0.0.1:{daemon.port}"
        stand.run(stand.stream(demand="true").select("text"))
        stand.close()
    assert sorted(stand.texts()) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("password", "it does not let in app: User name [app] or password is invalid."),
        ("authority", "its certificate is not trusted: "),
    ],
)
def test_what_is_wrong_with_either_is_said_with_a_remedy(
    locked: tuple[Classic, Path], stand: Stand, tmp_path: Path, what: str, said: str
) -> None:
    foreign, authority = locked
    password = "wrong" if what == "password" else "secret"
    if what == "authority":
        (tmp_path / "other").mkdir()
        authority = Certificates(tmp_path / "other").authority
    with beside_locked(tmp_path / "beside", foreign.port, authority, password) as daemon:
        until = time.monotonic() + PATIENCE
        while said not in daemon.told():
            assert time.monotonic() < until, daemon.told()
            time.sleep(0.1)
        stand.url = f"stomp://127.0.0.1:{daemon.port}"
        with pytest.raises(Exception, match="cannot come over activemq") as away:  # and no query that found nothing
            stand.run(stand.stream(demand="true", failoverTimeout="3000"))
        assert "entrepot bridge list" in str(pipeline.cause_of(away.value))
        stand.close()


def test_without_demand_nothing_is_brought(foreign: Classic, beside: Daemon, stand: Stand) -> None:
    sent = produce(foreign, stand.queue, ["a", "b"])
    stand.run(stand.stream().select("text"))
    assert stand.texts() == []
    assert left(foreign, stand.queue) == sent


def test_a_topic_and_what_came_while_nobody_read(foreign: Classic, beside: Daemon, stand: Stand) -> None:
    def topic() -> None:
        stand.run(stand.stream(queue=None, topic="events", subscription="spark", demand="true").select("text"))

    topic()
    sent = produce(foreign, "events", ["a", "b"], kind="topic")
    topic()
    assert sorted(stand.texts()) == sent


def test_one_process_draws_and_lands_and_is_killed(foreign: Classic, tmp_path: Path) -> None:
    """The file of the page: killed while messages come, and then once."""
    (block,) = [one for one in all_blocks("toml") if one.page == PAGE]
    settings = "\n".join(f'"{name.replace("__", ".")}" = "{value}"' for name, value in QUICK.items())
    where = "activemq:(tcp://activemq:61616)?userName=spark&password=${AMQ_PASSWORD}"
    assert where in block.text
    text = block.text.replace(where, f"activemq:({foreign.url})?retryInterval=100&only=one")
    text = text.replace('queue = "orders"', 'queue = "one"').replace("[beside]", '[beside]\nname = "one"')
    master = 'master = "local[2,4]"\nmemory = "600m"\n'
    (tmp_path / "orders.toml").write_text(f"{master}{text}\n[spark]\n{settings}\n")
    command = [sys.executable, "-m", "entrepot", "pipeline", "land", "orders.toml"]

    def environment() -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(Path(entrepot.__file__).resolve().parents[1])}

    sent = produce(foreign, "one", [f"{number}" for number in range(30_000)])
    with (tmp_path / "log").open("wb") as log:
        running = subprocess.Popen(
            command, cwd=tmp_path, env=environment(), stdout=log, stderr=log, start_new_session=True
        )
    until = time.monotonic() + 2 * PATIENCE
    while (
        not (tmp_path / "beside" / "journal").exists() or b"messages come from" not in (tmp_path / "log").read_bytes()
    ):
        assert time.monotonic() < until, (tmp_path / "log").read_text()[-3000:]
        time.sleep(0.05)
    time.sleep(0.5)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    done = subprocess.run(
        [*command, "--once"], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=4 * PATIENCE
    )
    assert done.returncode == 0, done.stderr[-3000:]
    with never():
        assert sorted(landed(tmp_path / "data/orders")) == sorted(sent)
        assert left(foreign, "one") == []


@BOTH
def test_kills_of_either_broker_lose_nothing_and_double_nothing(foreign: Classic, beside: Daemon, stand: Stand) -> None:
    sent: list[str] = []
    query = stand.start(stand.stream(demand="true").select("text"), processingTime="0 seconds")
    for turn in range(ROUNDS):
        sent += produce(foreign, stand.queue, [f"{turn}-{number}" for number in range(500)])
        before = len(stand.texts())
        if turn % 2:
            beside.kill()
            beside.start()
        else:
            foreign.kill()
            foreign.start()
            listens(classic.HOST, foreign.stomp_port)
        stand.until(lambda: len(stand.texts()) > before)  # noqa: B023 - called here
    stand.until(lambda: len(stand.texts()) >= len(sent))
    query.stop()
    with never():
        assert sorted(stand.texts()) == sorted(sent)
        assert left(foreign, stand.queue) == []


def test_the_way_back_loses_nothing_and_doubles_nothing(returning: Returning) -> None:
    """Neither a batch that Spark writes again, nor a kill of either broker while the hop is under way."""
    sent: list[str] = []
    came: list[str] = []
    for turn in range(ROUNDS + 1):  # the last one without a kill, behind all that may come again
        if turn % 2 and turn < ROUNDS:  # what comes is consumed at once, and goes again when it is gone there
            with ThreadPoolExecutor(1) as elsewhere:
                taking = elsewhere.submit(returning.take, 5000)
                sent += returning.write(turn, 5000)
                os.kill(returning.beside.pid, signal.SIGSTOP)  # it hears no answer to what it has on its way
                time.sleep(1)
                returning.beside.kill()
                returning.beside.start()
                came += taking.result()
            continue
        sent += returning.write(turn, 5000)
        if turn == ROUNDS:
            returning.write(turn, 5000)
        else:
            returning.foreign.kill()
            returning.start_foreign()
        came += returning.take(5000)
    came += left(returning.foreign, "results")
    twice = sorted(text for text in set(came) if came.count(text) > 1)
    with never():
        assert set(came) == set(sent), twice
        assert twice == []
        assert returning.stand.left() == []
