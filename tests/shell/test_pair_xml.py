"""Two brokers from one activemq.xml: the second waits for the first, as ActiveMQ's do."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pairs import PATIENCE, Connection, free_port, until

CONFIGURATION = """<beans xmlns="http://www.springframework.org/schema/beans">{around}
<broker xmlns="http://activemq.apache.org/schema/core" brokerName="orders" useJmx="false">
<persistenceAdapter><kahaDB directory="{home}/kahadb" {attributes}>{locker}</kahaDB></persistenceAdapter>
<transportConnectors><transportConnector name="s" uri="stomp://127.0.0.1:{port}"/></transportConnectors>
</broker></beans>
"""


class Running:
    """`entrepot run FILE`, one of several with that very file."""

    def __init__(self, file: Path, number: int, *more: str) -> None:
        self.log = file.with_name(f"{file.stem}-{number}.log")
        command = [sys.executable, "-m", "entrepot", "run", str(file), *more]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def serves(self) -> bool:
        assert self.process.poll() is None, self.text()
        return "  listening  stomp://" in self.text()

    def waits(self) -> bool:
        assert self.process.poll() is None, self.text()
        return "slave mode" in self.text() or "left the store" in self.text()

    def end(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(PATIENCE)


Start = Callable[..., Running]


@pytest.fixture
def start() -> Iterator[Start]:
    made: list[Running] = []

    def begin(file: Path, *more: str) -> Running:
        made.append(Running(file, len(made), *more))
        return made[-1]

    yield begin
    for one in made:
        one.end(signal.SIGKILL)


def send(port: int, *bodies: bytes) -> None:
    connection = Connection(port)
    for body in bodies:
        connection.socket.sendall(b"SEND\ndestination:/queue/q\npersistent:true\nreceipt:r\n\n" + body + b"\0")
    for _ in bodies:  # a disk that others keep busy takes its time for each that is waited for by itself
        assert connection.frame().startswith(b"RECEIPT")
    connection.socket.close()


def receive(port: int, count: int) -> list[bytes]:
    connection = Connection(port)
    connection.socket.sendall(b"SUBSCRIBE\ndestination:/queue/q\nid:1\nack:auto\n\n\0")
    found = [connection.frame().partition(b"\n\n")[2] for _ in range(count)]
    connection.socket.close()
    return found


@pytest.mark.parametrize(
    ("attributes", "locker", "around"),
    [
        ("", '<locker><shared-file-locker lockAcquireSleepInterval="1000"/></locker>', ""),
        (
            'lockKeepAlivePeriod="200"',
            '<locker><lease-database-locker dataSource="#ds" lockAcquireSleepInterval="1000"/></locker>',
            '<bean id="ds" class="org.sqlite.SQLiteDataSource"><property name="url" value="jdbc:sqlite:{home}/l.db"/>'
            "</bean>",
        ),
    ],
    ids=["file", "database"],
)
def test_one_file_twice_is_a_master_and_a_slave(
    start: Start, tmp_path: Path, attributes: str, locker: str, around: str
) -> None:
    file, port = tmp_path / "activemq.xml", free_port()
    text = CONFIGURATION.replace("{around}", around)
    file.write_text(text.format(home=tmp_path, attributes=attributes, locker=locker, port=port))
    first = start(file)
    until(first.serves, "the first serves")
    second = start(file)
    until(second.waits, "the second waits, and has not even the port that is taken")
    send(port, b"one", b"two")
    first.end(signal.SIGKILL)
    until(second.serves, "the slave takes over")
    third = start(file)
    until(third.waits, "the third waits")
    assert receive(port, 2) == [b"one", b"two"]
    assert second.end() == 0
    until(third.serves, "it was handed over")


def test_a_broker_that_should_not_wait_is_refused(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "activemq.xml"
    text = CONFIGURATION.format(
        home=tmp_path, port=free_port(), around="", attributes='failIfDatabaseIsLocked="true"', locker=""
    )
    file.write_text(text)
    first = start(file)
    until(first.serves, "the first serves")
    second = start(file)
    assert second.process.wait(PATIENCE) != 0
    assert "ENT-2004" in second.text()
