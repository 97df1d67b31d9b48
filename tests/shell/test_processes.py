"""`entrepot run --processes`: several processes that are one broker to whoever talks to them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
from daemon import CONNECT, PATIENCE, Daemon, Wire

from entrepot.client.blocking import connect
from entrepot.client.message import Message
from entrepot.protocols.stomp.frames import FrameParser
from pairs import until
from promises import never

MESSAGES = 40
SILENCE = 0.3  # s after which nothing more comes


class Near(Wire):
    """A STOMP client at the socket of one process."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(str(path))
        self.parser = FrameParser()
        self.others = []
        self.count = 0
        self.say("CONNECT", CONNECT)
        assert self.hear().command == "CONNECTED"
        self.parser.version = "1.2"


class Broker(Daemon):
    """`entrepot run --processes`; `Daemon.port` is that of STOMP, which all share."""

    def __init__(self, home: Path, count: int, *arguments: str, files: bool = False, ephemeral: bool = False) -> None:
        super().__init__(home, "--processes", str(count), *arguments, files=files, ephemeral=ephemeral)
        self.count = count

    def at(self, number: int) -> Path:
        return Path(self.facts()["sockets"]) / f"{number}.sock"

    def pids(self) -> list[int]:
        return [int(process["pid"]) for process in self.facts()["processes"]]

    def facts(self) -> dict[str, Any]:
        found = json.loads(self.ports.read_text())
        assert isinstance(found, dict)
        return found

    def pid_now(self, number: int) -> int:
        """Return the pid of a process, 0 while it has not said that it is ready."""
        with suppress(OSError, ValueError):
            return int(json.loads((self.data / "sockets" / f"{number}.json").read_text())["pid"])
        return 0

    def cli(self, number: int, *arguments: str) -> str:
        """Do a command of operators at one process."""
        command = [sys.executable, "-m", "entrepot", *arguments, "--url", f"stomp+unix://{self.at(number)}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def asked(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Do a command of operators at the port that all share."""
        command = [sys.executable, "-m", "entrepot", *arguments, "--url", f"stomp://127.0.0.1:{self.port}"]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    def known(self, number: int) -> int:
        """Return how many queues of others one process knows."""
        [cluster] = [json.loads(line) for line in self.cli(number, "cluster", "list", "-o", "json").splitlines()]
        return sum(int(member["queues"]) for member in cluster["members"])

    def met(self, number: int) -> bool:
        """Return whether one process has met the others."""
        [cluster] = [json.loads(line) for line in self.cli(number, "cluster", "list", "-o", "json").splitlines()]
        return [one["state"] for one in cluster["contacts"]] == ["met"] * (self.count - 1)

    def waiting(self, number: int, queue: str) -> int:
        """Return how many messages wait in ``queue`` at one process."""
        for line in self.cli(number, "queue", "list").splitlines():
            if line.split()[:1] == [queue]:
                return int(line.split()[2])
        return 0


Start = Callable[..., Broker]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Start]:
    made: list[Broker] = []

    def start(count: int, *arguments: str, files: bool = False) -> Broker:
        made.append(Broker(tmp_path, count, *arguments, files=files))
        made[-1].start()
        return made[-1]  # type: ignore[return-value]

    yield start
    for one in made:
        if one.process is not None and one.process.poll() is None:
            one.stop()


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def url(language: str, path: Path) -> str:
    return f"{'core+unix' if language == 'core' else 'unix'}://{path}"


def send(language: str, path: Path, queue: str, bodies: list[str]) -> None:
    if language == "stomp":
        wire = Near(path)
        for body in bodies:
            assert wire.send(f"/queue/{queue}", body.encode(), persistent="true").command == "RECEIPT"
        wire.leave()
        return
    with (
        connect(url(language, path)) as connection,
        connection.session() as session,
        session.producer(f"queue://{queue}") as producer,
    ):
        for body in bodies:
            producer.send(body, persistent=True)


def text_of(body: object) -> str:
    return body.decode() if isinstance(body, bytes) else str(body)


def receive(language: str, path: Path, queue: str, count: int) -> list[str]:
    """Return what comes: ``count``, and whatever comes too much."""
    found: list[str] = []
    if language == "stomp":
        wire = Near(path)
        wire.subscribe(f"/queue/{queue}", ack="auto")
        while len(found) < count:
            found.append(wire.message().body.decode())
        wire.socket.settimeout(SILENCE)
        with suppress(TimeoutError):
            found.append(wire.message().body.decode())
        wire.socket.settimeout(PATIENCE)
        wire.leave()
        return found
    with (
        connect(url(language, path)) as connection,
        connection.session() as session,
        session.consumer(f"queue://{queue}") as consumer,
    ):
        while len(found) < count:
            message = consumer.receive(PATIENCE)
            assert message is not None
            found.append(text_of(message.body))
        more = consumer.receive(SILENCE)
        found += [] if more is None else [text_of(more.body)]
    return found


LANGUAGES = ("stomp", "openwire", "core")


def test_a_client_id_of_mqtt_is_one_connections_at_all_processes(begin: Start) -> None:
    broker = begin(2)
    until(lambda: broker.met(0) and broker.met(1), "the processes know each other")
    gone = threading.Event()
    with meter(broker.at(0)) as older:
        older.on_disconnect = lambda *_: gone.set()
        with meter(broker.at(1)) as newer:
            assert gone.wait(PATIENCE)
            assert newer.is_connected()


@contextmanager
def meter(path: Path) -> Iterator[paho.Client]:
    """Yield a client of MQTT at one process, which has let it in; it does not come back by itself."""
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, "meter", transport="unix", reconnect_on_failure=False)
    entered = threading.Event()
    client.on_connect = lambda *_: entered.set()
    client.connect(str(path))
    client.loop_start()
    try:
        assert entered.wait(PATIENCE)
        yield client
    finally:
        client.disconnect()
        client.loop_stop()


def test_what_is_sent_to_one_process_is_read_once_at_another(begin: Start) -> None:
    broker = begin(2)
    bodies = [f"m{number}" for number in range(MESSAGES)]
    for turn, (said, heard) in enumerate(product(LANGUAGES, LANGUAGES)):
        queue, first = f"{said}.{heard}", turn % 2
        send(said, broker.at(first), queue, bodies)
        with never():
            assert receive(heard, broker.at(1 - first), queue, MESSAGES) == bodies, queue


FILE = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core"><name>mq</name>
<security-enabled>false</security-enabled><journal-directory>{data}</journal-directory>
<acceptors><acceptor name="all">tcp://127.0.0.1:0?protocols=CORE,STOMP,OPENWIRE</acceptor></acceptors>
</core></configuration>
"""


def test_what_waits_moves_with_a_file_that_says_nothing_of_it(begin: Start, tmp_path: Path) -> None:
    file = tmp_path / "broker.xml"
    file.write_text(FILE.format(data=tmp_path / "data"))
    broker = begin(2, str(file), files=True)
    send("core", broker.at(0), "waits", ["a", "b", "c"])
    with never():
        assert receive("openwire", broker.at(1), "waits", 3) == ["a", "b", "c"]


def test_a_topic_is_heard_at_both_and_once(begin: Start) -> None:
    broker = begin(2)
    readers = [Near(broker.at(number)) for number in (0, 1)]
    for reader in readers:
        reader.subscribe("/topic/news", ack="auto")
    until(lambda: broker.known(0) and broker.known(1), "each knows of the reader of the other")
    writer = Near(broker.at(0))
    for number in range(MESSAGES):
        writer.send("/topic/news", str(number).encode())
    for reader in readers:
        assert [int(reader.message().body) for _ in range(MESSAGES)] == list(range(MESSAGES))
        reader.socket.settimeout(SILENCE)
        with never(), pytest.raises(TimeoutError):
            reader.message()


@pytest.mark.parametrize("language", ["openwire", "core"])
@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_a_request_is_answered_by_who_is_at_another_process(begin: Start, language: str, kind: str) -> None:
    """The reply goes to a temporary queue, or topic, of the process where the question was asked."""
    broker = begin(2)
    with (
        connect(url(language, broker.at(0))) as asking,
        connect(url(language, broker.at(1))) as answering,
        asking.session() as asks,
        answering.session() as answers,
        answers.consumer("queue://questions") as questions,
        asks.producer("queue://questions") as ask,
        answers.producer() as answer,
    ):
        replies = asks.temporary_queue() if kind == "queue" else asks.temporary_topic()
        with asks.consumer(replies) as heard:
            for number in range(20):
                ask.send(Message(str(number), reply_to=replies))
                question = questions.receive(PATIENCE)
                assert question is not None
                answer.send(f"answer to {question.body}", destination=question.reply_to)
                reply = heard.receive(PATIENCE)
                assert reply is not None
                assert reply.body == f"answer to {number}"


def test_connections_are_dealt_out_and_what_they_read_is_one_queue(begin: Start) -> None:
    broker = begin(2)
    wires = [Wire(broker.port) for _ in range(24)]
    listed = [broker.cli(number, "connection", "list") for number in (0, 1)]
    counts = [sum("stomp" in line for line in text.splitlines()) - 1 for text in listed]  # without the command's own
    assert sum(counts) >= len(wires)
    assert min(counts) > 0, "the kernel gives some to each"
    for wire in wires[:12]:
        wire.subscribe("/queue/shared", ack="auto")
    for number in range(240):
        wires[12 + number % 12].send("/queue/shared", str(number).encode(), persistent="true")
    found: list[int] = []
    until(lambda: found.extend(_taken(wires[:12])) or len(found) >= 240, "all came")
    with never():
        assert sorted(found) == list(range(240))


def _taken(wires: list[Wire]) -> list[int]:
    found: list[int] = []
    for wire in wires:
        wire.socket.settimeout(0.02)
        with suppress(TimeoutError):
            while True:
                found.append(int(wire.message().body))
    return found


class Load(threading.Thread):
    """Sends by whatever process takes it; what was confirmed is in ``confirmed``. It sends again what was not."""

    def __init__(self, port: int, mark: str, over: threading.Event) -> None:
        super().__init__(daemon=True)
        self.port, self.mark, self.over = port, mark, over
        self.confirmed: list[str] = []

    def run(self) -> None:
        number = 0
        while not self.over.is_set():
            with suppress(OSError):
                wire = Wire(self.port)
                while not self.over.is_set():
                    body = f"{self.mark}-{number}"
                    if wire.send("/queue/load", body.encode(), persistent="true").command == "RECEIPT":
                        self.confirmed.append(body)
                        number += 1
                wire.cut()


class Reader(threading.Thread):
    """Takes by whatever process it comes to, and settles each."""

    def __init__(self, port: int, over: threading.Event) -> None:
        super().__init__(daemon=True)
        self.port, self.over = port, over
        self.found: Counter[str] = Counter()

    def run(self) -> None:
        while not self.over.is_set():
            with suppress(OSError):
                wire = Wire(self.port)
                wire.subscribe("/queue/load", ack="client-individual")
                wire.socket.settimeout(0.2)
                while not self.over.is_set():
                    with suppress(TimeoutError):
                        message = wire.message()
                        self.found[message.body.decode()] += 1
                        wire.say("ACK", {"id": message.headers["ack"]})


def test_nothing_confirmed_is_lost_when_one_process_is_killed_under_load(begin: Start) -> None:
    broker = begin(2)
    over, done = threading.Event(), threading.Event()
    senders = [Load(broker.port, f"s{number}", over) for number in range(4)]
    readers = [Reader(broker.port, done) for _ in range(4)]
    for thread in (*senders, *readers):
        thread.start()
    for number in (1, 0, 1):
        pid = broker.pid_now(number)
        until(lambda: sum(len(one.confirmed) for one in senders) > 200, "there is load")
        time.sleep(0.2)
        os.kill(pid, signal.SIGKILL)
        until(lambda number=number, pid=pid: broker.pid_now(number) not in (0, pid), "it is started again")
        time.sleep(0.2)
    over.set()
    for sender in senders:
        sender.join(PATIENCE)
    confirmed = {body for one in senders for body in one.confirmed}
    seen = lambda: {body for one in readers for body in list(one.found)}  # noqa: E731
    try:
        until(lambda: confirmed <= seen(), "all that was confirmed is read")
    finally:
        done.set()
    with never():
        assert confirmed <= seen()
    for reader in readers:
        reader.join(PATIENCE)
    assert broker.told().count("it is started again in") >= 3
    assert broker.stop() == 0


def test_a_stop_leaves_nothing_and_a_kill_of_the_first_ends_all(begin: Start, tmp_path: Path) -> None:
    broker = begin(2)
    send("stomp", broker.at(0), "kept", ["a", "b"])
    pids = broker.pids()
    broker.kill()
    until(lambda: not any(lives(pid) for pid in pids), "they end with the process that started them")
    broker.start()
    with never():
        assert receive("openwire", broker.at(1), "kept", 2) == ["a", "b"]
    pids = broker.pids()
    assert broker.stop() == 0
    assert not any(lives(pid) for pid in pids)
    assert not broker.ports.exists()
    assert not (broker.data / "sockets").exists()


def test_a_kill_of_the_first_leaves_no_meeting_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a directory of its own nobody would start there again, and clear it."""
    with tempfile.TemporaryDirectory() as passing:  # pytest's own path is too long for a socket
        monkeypatch.setenv("TMPDIR", passing)
        broker = Broker(tmp_path, 2, ephemeral=True)
        broker.start()
        place = Path(broker.facts()["sockets"])
        assert place.parent == Path(passing)
        pids = broker.pids()
        broker.kill()
        until(lambda: not any(lives(pid) for pid in pids), "they end with the process that started them")
        assert not place.exists()


def test_operators_see_one_broker(begin: Start) -> None:
    broker = begin(2)
    send("stomp", broker.at(0), "orders", ["a", "b"])
    send("stomp", broker.at(1), "orders", ["c", "d", "e"])
    send("stomp", broker.at(1), "other", ["f"])

    def listed() -> dict[str, dict[str, Any]]:
        done = broker.asked("queue", "list", "-o", "json")
        assert done.returncode == 0, done.stderr
        return {row["name"]: row for row in map(json.loads, done.stdout.splitlines())}

    rows = listed()
    assert (rows["orders"]["messages"], rows["orders"]["process"]) == (5, "0 1")
    assert (rows["other"]["messages"], rows["other"]["process"]) == (1, "1")
    told = [json.loads(line) for line in broker.asked("explain", "orders", "-o", "json").stdout.splitlines()]
    assert sorted(answer["broker"][-1] for answer in told if "broker" in answer) == ["0", "1"]
    assert "process 0" not in json.dumps(told[-1]["silent"])
    assert broker.asked("queue", "pause", "orders").returncode == 0
    assert [broker.cli(number, "queue", "list").count("yes") for number in (0, 1)] == [1, 1]
    assert broker.asked("queue", "resume", "orders").returncode == 0
    moved = broker.asked("queue", "move", "orders", "moved", "--count", "4")
    assert "moved 4 messages" in moved.stderr
    until(lambda: [listed()[name]["messages"] for name in ("orders", "moved")] == [1, 4], "they are there")
    assert "removed 4 messages" in broker.asked("queue", "purge", "moved", "--yes").stderr


ARTEMIS = 'org.apache.activemq.artemis:broker="test"'


def test_jolokia_sees_one_broker(begin: Start) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{probe.getsockname()[1]}"
    broker = begin(2, "--name", "test", "--listen", "auto://127.0.0.1:0", "--console", place)
    send("stomp", broker.at(0), "orders", ["a", "b"])
    send("stomp", broker.at(1), "orders", ["c", "d", "e"])
    send("stomp", broker.at(1), "other", ["f"])
    orders = f'{ARTEMIS},component=addresses,address="orders",subcomponent=queues,routing-type="anycast",queue="orders"'

    def jolokia(asked: dict[str, Any], path: str = "/console/jolokia/") -> Any:
        request = urllib.request.Request(f"http://{place}{path}", json.dumps(asked).encode())
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            told = json.loads(answer.read())
        assert told["status"] == 200, told
        return told["value"]

    def answers() -> bool:
        with suppress(OSError):
            jolokia({"type": "version"})
            return True
        return False

    until(answers, "the console is there")
    read = {"type": "read", "mbean": orders, "attribute": "MessageCount"}
    assert jolokia(read) == 5
    found = jolokia({"type": "read", "mbean": ARTEMIS, "attribute": ["Name", "QueueNames", "TotalMessageCount"]})
    assert (found["Name"], found["TotalMessageCount"]) == ("test", 6)
    assert [found["QueueNames"].count(name) for name in ("orders", "other")] == [1, 1]
    search = {"type": "search", "mbean": f'{ARTEMIS},component=addresses,subcomponent=queues,queue="o*",*'}
    assert len(jolokia(search)) == 2
    assert jolokia({"type": "exec", "mbean": orders, "operation": "pause()"}) is None
    assert [broker.cli(number, "queue", "list").count("yes") for number in (0, 1)] == [1, 1]
    counts = {
        jolokia({**read, "mbean": orders.replace("test", f"test-{one}")}, f"/console/jolokia/?broker=test-{one}")
        for one in (0, 1)
    }
    assert counts == {2, 3}
    removed = jolokia(
        {"type": "exec", "mbean": orders, "operation": "removeMessages(java.lang.String)", "arguments": [""]}
    )
    assert removed == 5
    assert jolokia(read) == 0


def test_operators_are_told_of_a_process_that_does_not_answer(begin: Start) -> None:
    broker = begin(2)
    send("stomp", broker.at(0), "orders", ["a", "b"])
    send("stomp", broker.at(1), "orders", ["c"])
    for number in (0, 1):  # whichever is asked: the other cannot be
        (broker.data / "sockets" / f"{number}.sock").unlink()
    looked = broker.asked("queue", "show", "orders", "-o", "json")
    assert "is left out: no broker answers" in looked.stderr
    row = json.loads(looked.stdout)
    assert (row["process"], row["messages"]) in (("0", 2), ("1", 1))
    purged = broker.asked("queue", "purge", "orders", "--yes")
    assert purged.returncode != 0
    assert "nothing was changed" in purged.stderr


def test_a_group_that_is_told_to_end_ends_in_order(begin: Start) -> None:
    """As systemd does it: each process gets a SIGTERM, and the first one ends the others beside that."""
    broker = begin(3)
    for pid in broker.pids():
        os.kill(pid, signal.SIGTERM)
    assert broker.stop() == 0
    assert "ended with -" not in broker.told()


def test_fewer_processes_take_over_what_the_others_had(begin: Start, tmp_path: Path) -> None:
    broker = begin(3)
    bodies = [f"m{number}" for number in range(MESSAGES)]
    for number in range(3):
        send("stomp", broker.at(number), "left", [f"{number}.{body}" for body in bodies])
    assert broker.waiting(2, "left") == MESSAGES
    assert broker.stop() == 0
    alone = subprocess.run(
        [sys.executable, "-m", "entrepot", "run", "--data", str(broker.data), "--listen", "stomp://127.0.0.1:0"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert alone.returncode != 0
    assert "has the stores of 3 processes" in alone.stderr
    assert "--processes 3" in alone.stderr

    fewer = begin(1)
    until(lambda: fewer.told().count("has given its messages to the others") == 2, "both have given all")
    with never():
        found = receive("stomp", fewer.at(0), "left", 3 * MESSAGES)
        assert sorted(found) == sorted(f"{number}.{body}" for number in range(3) for body in bodies)
    assert fewer.stop() == 0
    checked = subprocess.run(
        [sys.executable, "-m", "entrepot", "data", "check", str(fewer.data / "2"), "-o", "json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert '"messages": 0' in checked.stdout or '"messages":0' in checked.stdout


def test_ports_of_another_are_not_shared(begin: Start, tmp_path: Path) -> None:
    broker = begin(2)
    command = [sys.executable, "-m", "entrepot", "run", "--processes", "2", "--data", str(tmp_path / "other")]
    other = subprocess.run(
        [*command, "--listen", f"stomp://127.0.0.1:{broker.port}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert other.returncode != 0
    assert "another program does" in other.stderr


def test_a_process_that_cannot_start_is_said(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "1").write_text("no directory")
    command = [sys.executable, "-m", "entrepot", "run", "--processes", "2", "--data", str(tmp_path / "data")]
    done = subprocess.run(
        [*command, "--listen", "stomp://127.0.0.1:0"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode != 0
    assert "process 1 ended with" in done.stderr
    assert "before it was ready" in done.stderr
