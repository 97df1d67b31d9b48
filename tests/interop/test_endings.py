"""How a consumer may end, beside a real ActiveMQ Classic: what it held comes back with the same counts and marks.

`java/Ends.java` draws up the table with an unmodified Java client: close of consumer, session and connection, a cut
link; queues and durable subscriptions; every mode of acknowledgement; two queues, and two consumers, on one connection.
What STOMP adds is spoken here.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Final

import classic
import pytest
from classic import HOST, Classic
from java_clients import Program, unavailable
from ours import Entrepot

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=f"Java clients: {unavailable()}")


@pytest.fixture(scope="module")
def program() -> Program:
    return Program()


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Classic, Entrepot]]:
    """ActiveMQ, and ours on the same file."""
    home = tmp_path_factory.mktemp("endings")
    theirs = classic.Classic(home / "classic", stomp=True)
    ours = Entrepot(home / "ours", like=theirs)
    try:
        yield theirs.start().await_ready(), ours.start().await_ready()
    finally:
        theirs.kill()
        ours.kill()


def by_name(report: str) -> dict[str, str]:
    """Name of the row -> what came, by number: Classic puts what one consumer held in front of the other's, we sort."""
    rows = (line.split(": ", 1) for line in report.splitlines())
    return {name: " | ".join(" ".join(sorted(part.split())) for part in found.split("|")) for name, found in rows}


def of_both(brokers: tuple[Classic, Entrepot], ask: Callable[[Classic | Entrepot], str]) -> list[str]:
    """Ask both at once: the programs wait most of the time."""
    with ThreadPoolExecutor(len(brokers)) as pool:
        return list(pool.map(ask, brokers))


def test_every_end_counts_what_classic_counts(program: Program, brokers: tuple[Classic, Entrepot]) -> None:
    theirs, ours = map(by_name, of_both(brokers, lambda each: program.run("Ends", each.url, "table")))
    assert len(theirs) > 150
    assert not any("Exception" in line for line in theirs.values())
    assert ours == theirs


MODES: Final = ("auto", "dups", "client", "transacted")


def counted_up(modes: tuple[str, ...]) -> str:
    """Return what ten connections in turn report where none harms a message."""
    left = " ".join(f"m{at}/1" for at in range(11, 21))
    return "".join(f"{mode}:{' 1' * 10} left {left} dead nothing\n" for mode in modes)


def test_ten_short_lived_connections_harm_no_message(program: Program, brokers: tuple[Classic, Entrepot]) -> None:
    theirs, ours = of_both(brokers, lambda each: program.run("Ends", each.url, "loop", *MODES))
    assert ours == theirs == counted_up(MODES)


def test_nor_with_the_defaults_of_this_broker(program: Program, tmp_path: Path) -> None:
    broker = Entrepot(tmp_path).start().await_ready()
    try:
        assert program.run("Ends", broker.url, "loop", "auto", "transacted") == counted_up(("auto", "transacted"))
    finally:
        broker.kill()


# -- STOMP -------------------------------------------------------------------------------------------------------------

ACKS: Final = ("auto", "client", "client-individual")
WAYS: Final = ("unsubscribe", "disconnect", "cut", "end")
SETTLED: Final = ("none", "first", "last")


class Stomp:
    """One connection of octets."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection((HOST, port), timeout=10)
        self.buffer = b""
        self.say("CONNECT", {"accept-version": "1.2", "host": "x"})
        assert self.frame()[0] == "CONNECTED"

    def say(self, command: str, headers: dict[str, str]) -> None:
        lines = [command, *(f"{key}:{value}" for key, value in headers.items())]
        self.socket.sendall("\n".join(lines).encode() + b"\n\n\0")

    def frame(self) -> tuple[str, dict[str, str]]:
        while b"\0" not in self.buffer:
            got = self.socket.recv(65536)
            assert got, "the broker closed the connection"
            self.buffer += got
        text, _, rest = self.buffer.partition(b"\0")
        self.buffer = rest.lstrip(b"\n")
        head = text.decode().lstrip("\n").split("\n\n", 1)[0].split("\n")
        return head[0], dict(line.split(":", 1) for line in head[1:])

    def receipt(self) -> None:
        while (frame := self.frame())[0] != "RECEIPT":
            assert frame[0] == "MESSAGE", frame


def take_and_end(port: int, queue: str, ack: str, settled: str, way: str) -> None:
    """Take three of six messages (the rest is on its way as well), settle, end."""
    wire = Stomp(port)
    wire.say("SUBSCRIBE", {"id": "1", "destination": f"/queue/{queue}", "ack": ack, "activemq.prefetchSize": "4"})
    taken = [wire.frame()[1] for _ in range(4)]
    if settled != "none":
        wire.say("ACK", {"id": taken[0 if settled == "first" else 2]["ack"]})
        for _ in range(2 if (ack, settled) == ("client", "last") else 1):  # as many come as were settled, of six
            wire.frame()
    if way == "unsubscribe":
        wire.say("UNSUBSCRIBE", {"id": "1", "receipt": "gone"})
        wire.receipt()
    elif way == "disconnect":
        wire.say("DISCONNECT", {"receipt": "gone"})
        wire.receipt()
    elif way == "cut":
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset, as after kill -9
    wire.socket.close()


def test_every_end_over_stomp_counts_what_classic_counts(program: Program, brokers: tuple[Classic, Entrepot]) -> None:
    every = [
        (f"stomp.{ack}.{settled}.{way}", ack, settled, way)
        for ack, settled, way in product(ACKS, SETTLED, WAYS)
        if ack != "auto" or settled == "none"
    ]
    names = [name for name, *_ in every]

    def ended(broker: Classic | Entrepot) -> str:
        program.run("Ends", broker.url, "send", *names)
        for name, ack, settled, way in every:
            take_and_end(broker.stomp_port, name, ack, settled, way)
        return program.run("Ends", broker.url, "read", *names)

    theirs, ours = map(by_name, of_both(brokers, ended))
    assert len(theirs) == len(every)
    assert ours == theirs


# -- pools -------------------------------------------------------------------------------------------------------------


def test_a_pool_of_one_session_is_not_blocked_by_what_its_commit_made_room_for(
    program: Program, brokers: tuple[Classic, Entrepot]
) -> None:
    """The reader of a Java connection waits for a free ServerSession; the answer to its commit must be there before.

    In ActiveMQ 5.17 both run on threads of their own, and this program stops sooner or later.
    """
    _, ours = brokers
    assert program.run("Pooled", ours.url, "pooled", "30") == "handled 30\n"
