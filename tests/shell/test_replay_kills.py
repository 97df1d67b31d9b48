"""`entrepot queue replay` where a process is killed, where there are several, and after another one took over."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from daemon import PATIENCE, Daemon

from pairs import BrokerProcess, Connection, until

FILE = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core"><name>mq</name>
<security-enabled>false</security-enabled>{more}
<journal-retention-directory unit="DAYS" period="1">{home}/retained</journal-retention-directory>
</core></configuration>
"""
LISTENS = """<journal-directory>{home}/data</journal-directory>
<acceptors><acceptor name="all">tcp://127.0.0.1:0?protocols=CORE,STOMP,OPENWIRE</acceptor></acceptors>"""
MANY = 6000  # a replay sends 200 in a turn: it is far from its end when a reader has the first


def configured(home: Path, more: str = "") -> str:
    """Return a file of a broker that keeps what was settled."""
    home.mkdir(exist_ok=True)
    file = home / "broker.xml"
    file.write_text(FILE.format(home=home, more=more.format(home=home)))
    return str(file)


def again(port: int) -> subprocess.Popen[str]:
    """Begin to send what was sent to orders to the queue again."""
    command = [sys.executable, "-m", "entrepot", "queue", "replay", "orders", "again"]
    command += ["--url", f"stomp://127.0.0.1:{port}"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def replayed(port: int) -> str:
    """Do it to the end, and return what is said of it."""
    _, told = (replay := again(port)).communicate(timeout=PATIENCE * 2)
    assert replay.returncode == 0, told
    return told.strip()


def sent(port: int, bodies: list[str]) -> None:
    connection = Connection(port, PATIENCE)
    for at in range(0, len(bodies), 500):
        connection.send("/queue/orders", some := bodies[at : at + 500])
        connection.receipts(len(some))
    connection.close()


def reading(port: int, queue: str, how: str) -> Connection:
    connection = Connection(port, PATIENCE)
    connection.socket.sendall(f"SUBSCRIBE\ndestination:/queue/{queue}\nid:1\nack:{how}\n\n\0".encode())
    return connection


def parts(frame: bytes) -> tuple[str, str]:
    """Return the ack header and the body of a MESSAGE."""
    head, _, body = frame.partition(b"\n\n")
    assert head.startswith(b"MESSAGE"), frame
    lines = dict(line.split(b":", 1) for line in head.split(b"\n")[1:])
    return lines.get(b"ack", b"").decode(), body.decode()


def taken(port: int, queue: str, count: int) -> list[str]:
    """Settle the next ``count`` messages of a queue; return their bodies."""
    connection = reading(port, queue, "client")
    bodies: list[str] = []
    while len(bodies) < count:
        acknowledge, body = parts(connection.frame())
        bodies.append(body)
        if len(bodies) % 100 == 0 or len(bodies) == count:  # more than some hundred do not come before
            receipt = "receipt:r\n" if len(bodies) == count else ""
            connection.socket.sendall(f"ACK\nid:{acknowledge}\n{receipt}\n\0".encode())
    while not connection.frame().startswith(b"RECEIPT"):
        pass  # more messages came
    connection.close()
    return bodies


def left(port: int, queue: str) -> list[str]:
    """Settle all that waits in a queue; return the bodies."""
    marks = ["end of what waits"]
    sender = Connection(port, PATIENCE)
    sender.send(f"/queue/{queue}", marks)
    sender.receipts(1)
    sender.close()
    connection = reading(port, queue, "auto")
    bodies: list[str] = []
    while bodies[-1:] != marks:
        bodies.append(parts(connection.frame())[1])
    connection.close()
    return bodies[:-1]


@pytest.mark.timeout(180)
def test_a_kill_in_the_middle_of_a_replay_leaves_its_beginning_and_what_waited(tmp_path: Path) -> None:
    broker = Daemon(tmp_path, configured(tmp_path, LISTENS), files=True).start()
    bodies = [f"m{number}" for number in range(MANY)]
    try:
        sent(broker.port, bodies)
        assert taken(broker.port, "orders", MANY // 2) == bodies[: MANY // 2]
        watching = reading(broker.port, "again", "client")
        replay = again(broker.port)
        assert parts(watching.frame())[1] == bodies[0]
        broker.kill()
        assert replay.wait(PATIENCE) != 0, "it was over already"
        broker.start()
        begun = left(broker.port, "again")
        assert begun == bodies[: len(begun)]
        assert len(begun) < MANY
        assert replayed(broker.port) == f"sent {MANY:,} messages of orders again, to again"
        assert left(broker.port, "again") == bodies
        assert left(broker.port, "orders") == bodies[MANY // 2 :]
    finally:
        broker.kill()


@pytest.mark.timeout(120)
def test_two_processes_send_again_what_each_had(tmp_path: Path) -> None:
    broker = Daemon(tmp_path, configured(tmp_path, LISTENS), "--processes", "2", files=True).start()
    bodies = [f"m{number}" for number in range(100)]
    try:
        for at in range(0, 100, 10):  # connections are dealt out among both
            sent(broker.port, bodies[at : at + 10])
        assert sorted(taken(broker.port, "orders", 100)) == sorted(bodies)
        assert replayed(broker.port) == "sent 100 messages of orders again, to again"
        assert sorted(taken(broker.port, "again", 100)) == sorted(bodies)
    finally:
        broker.stop()


@pytest.mark.timeout(120)
def test_who_took_over_a_shared_store_sends_again_what_the_other_one_had(tmp_path: Path) -> None:
    running: list[BrokerProcess] = []
    file, bodies = configured(tmp_path), [f"m{number}" for number in range(200)]
    try:
        running.append(first := BrokerProcess(tmp_path / "data", "alpha", tmp_path, file))
        until(first.serves, "the first serves")
        running.append(second := BrokerProcess(tmp_path / "data", "beta", tmp_path, file))
        until(second.waits, "the second waits")
        sent(first.port, bodies)
        assert taken(first.port, "orders", 150) == bodies[:150]
        first.kill()
        until(second.serves, "the second took over")
        until(lambda: "listening" in second.text(), "its ports are open")
        assert replayed(second.port) == "sent 200 messages of orders again, to again"
        assert left(second.port, "again") == bodies
        assert left(second.port, "orders") == bodies[150:]
    finally:
        for one in running:
            one.clear()
