"""`entrepot explain` and `entrepot where` over three broker processes in a chain: west → north → east."""

from __future__ import annotations

import json
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from entrepot import Acknowledge, blocking
from entrepot.protocols.openwire.commands import KeepAliveInfo
from entrepot.protocols.stomp.frames import encode_frame
from pairs import free_port
from shell.daemon import Daemon, Wire
from shell.test_cli import Running

PATIENCE_S = 20.0
KEEP_ALIVE = KeepAliveInfo().type_id
Chain = dict[str, Running]


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[Chain]:
    """Each dials the next; networkTTL is 1, as it is when nobody says more."""
    ports = {"north": free_port(), "east": free_port()}
    brokers: Chain = {}
    for name, towards in (("east", ""), ("north", "east"), ("west", "north")):
        home = tmp_path / name
        home.mkdir()
        arguments = ["--ephemeral", "--name", name]
        if name in ports:
            arguments += ["--listen", f"openwire://127.0.0.1:{ports[name]}"]
        if towards:
            arguments += ["--connect", f"static:(tcp://127.0.0.1:{ports[towards]})?name=to-{towards}"]
        brokers[name] = Running(home, *arguments)
    yield brokers
    for one in brokers.values():
        if one.process.poll() is None:
            one.stop()


def lines(broker: Running, *arguments: str) -> list[dict[str, Any]]:
    result = broker.do(*arguments, "-o", "json")
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def until(holds: Callable[[], Any]) -> Any:
    end = time.monotonic() + PATIENCE_S
    while not (found := holds()):
        assert time.monotonic() < end
        time.sleep(0.05)
    return found


def codes(told: list[dict[str, Any]]) -> set[tuple[str, str]]:
    local = {
        (answer["broker"], reason["code"])
        for answer in told[:-1]
        for queue in answer["queues"]
        for reason in queue["reasons"]
    }
    return local | {(reason["broker"], reason["code"]) for reason in told[-1]["network"]}


def openwire(broker: Running) -> str:
    uri: str = next(uri for uri in broker.facts["uris"] if uri.startswith("openwire"))
    return uri.replace("openwire", "tcp")


def test_reasons_and_places_over_a_network(chain: Chain) -> None:
    west, north, east = chain["west"], chain["north"], chain["east"]
    until(lambda: [answer["broker"] for answer in lines(west, "explain", "Q")[:-1]] == ["west", "north", "east"])
    with blocking.connect(openwire(east)) as connection, connection.session() as session:
        consumer = session.consumer("queue://Q")
        assert west.do("send", "/queue/Q", given="lost on its way\n").returncode == 0
        until(lambda: codes(lines(west, "explain", "Q")) == {("west", "no-consumer"), ("west", "consumer-ttl")})
        text = west.do("explain", "Q").stdout
        assert "west: Q: 1 waiting" in text
        assert "networkTTL=2" in text
        assert "consumer " in text  # of east
        assert consumer is not None
    identity = lines(west, "explain", "Q", "--alone")[0]["queues"][0]["head"]
    assert "west: waiting in Q as the next one" in west.do("where", identity).stdout
    with blocking.connect(openwire(north)) as connection, connection.session(Acknowledge.CLIENT) as session:
        reader = session.consumer("queue://Q")
        until(lambda: "north: in flight in Q, consumer" in west.do("where", identity).stdout)
        assert "it came west → north" in west.do("where", identity).stdout
        received = reader.receive(5)
        assert received is not None
        session.acknowledge()
    gone = west.do("where", identity)
    assert "west: it was here and is no more" in gone.stdout
    assert "  it cannot say when: it runs without --trace DIR" in gone.stdout
    unknown = west.do("where", "ID:nobody")
    assert unknown.returncode == 1
    assert "asked: west, north, east" in unknown.stderr
    assert west.do("send", "/queue/Q", given="again\n").returncode == 0
    north.process.send_signal(signal.SIGKILL)
    until(lambda: ("west", "bridge-down") in codes(lines(west, "explain", "Q")))
    silent = lines(west, "explain", "Q")[-1]["silent"]
    assert [one["broker"] for one in silent] == ["north"]
    for url in (openwire(east), east.facts["stomp"]):
        told = west.do("explain", "Q", "--also", url)
        assert "no answer from north" in told.stderr
        assert "east: " in told.stdout
    assert "no answer from stomp://127.0.0.1:1" in west.do("explain", "Q", "--also", "stomp://127.0.0.1:1").stderr


def test_a_broker_of_activemq_is_looked_at_and_not_asked(tmp_path: Path) -> None:
    """One of ours that says it were one: what advisories and browsers show is the same."""
    port = free_port()
    for name in ("west", "north"):
        (tmp_path / name).mkdir()
    posing = f"openwire://127.0.0.1:{port}?wireFormat.providerName=ActiveMQ&wireFormat.providerVersion=5.17.2"
    north = Running(tmp_path / "north", "--ephemeral", "--name", "north", "--listen", posing)
    west = Running(
        tmp_path / "west",
        "--ephemeral",
        "--name",
        "west",
        "--connect",
        f"static:(tcp://127.0.0.1:{port})?name=to-north",
    )
    try:
        until(lambda: "north (ActiveMQ 5.17.2): has no queue Q" in west.do("explain", "Q").stdout)
        with blocking.connect(openwire(north)) as connection, connection.session() as session:
            reader = session.consumer("queue://Q", prefetch=1)
            assert west.do("send", "/queue/Q", given="1\n2\n3\n").returncode == 0
            shown = "north (ActiveMQ 5.17.2): Q: 3 waiting or in flight, as far as it shows them, 1 consumer, 0 bridges"
            until(lambda: shown in west.do("explain", "Q").stdout)
            assert reader.receive(5) is not None
        until(lambda: "no client reads it there" in west.do("explain", "Q").stdout)
        assert "north (it is ActiveMQ 5.17.2, which cannot be asked that)" in west.do("where", "ID:nobody").stderr
    finally:
        for one in (west, north):
            if one.process.poll() is None:
                one.stop()


def steps_of(broker: Running, identity: str) -> list[str]:
    """Return what the traces say of a message, in order, without the times."""
    said = broker.do("where", identity).stdout
    return [line.partition(" ")[2].partition(" ")[2] for line in said.splitlines() if line.startswith("20")]


def test_traces_say_when_and_by_whom_a_message_was_settled(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="traces are read with pyarrow: pip install entrepot[spark]")
    port = free_port()
    for name in ("west", "north"):
        (tmp_path / name).mkdir()
    kept = "--trace", str(tmp_path / "traces")
    north = Running(tmp_path / "north", "--name", "north", *kept, "--listen", f"openwire://127.0.0.1:{port}")
    west = Running(tmp_path / "west", "--name", "west", *kept, "--connect", f"static:(tcp://127.0.0.1:{port})")
    try:
        assert west.do("send", "/queue/Q", given="x\n").returncode == 0
        identity = lines(west, "explain", "Q", "--alone")[0]["queues"][0]["head"]
        with blocking.connect(openwire(north), client_id="billing") as connection, connection.session() as session:
            received = session.consumer("queue://Q").receive(PATIENCE_S)
            assert received is not None
        steps = until(
            lambda: told if len(told := steps_of(west, identity)) >= 6 else None
        )  # each trace in its own time
        assert steps[:3] == [
            "west: accepted into Q",
            "west: sent on to north, from Q",
            "north: accepted into Q, from west",
        ]
        assert sorted(steps[3:]) == [
            "north: acknowledged by billing, so settled",
            "north: delivered from Q to billing",
            "west: confirmed by north, so settled here",
        ]
    finally:
        west.stop()
        north.stop()


def test_a_group_may_go_to_another_consumer(chain: Chain) -> None:
    east = chain["east"]
    assert east.do("send", "/queue/G", given="x\n").returncode == 0
    assert lines(east, "queue", "regroup", "G", "--group", "g") == [{"queue": "G", "group": "g"}]
    assert lines(east, "queue", "regroup", "G") == [{"queue": "G", "group": ""}]


class Jam:
    """A relay to a broker; once it is ``jammed`` all that gets there is that whoever dialled lives."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.jammed = False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self.listener.accept()
                far = socket.create_connection(("127.0.0.1", self.target))
                threading.Thread(target=self._frames, args=(near, far), daemon=True).start()
                threading.Thread(target=self._octets, args=(far, near), daemon=True).start()

    def _octets(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                target.sendall(data)
        target.close()

    def _frames(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError), source.makefile("rb") as frames:
            while len(head := frames.read(4)) == 4:
                body = frames.read(int.from_bytes(head, "big"))
                if not self.jammed or body[0] == KEEP_ALIVE:
                    target.sendall(head + body)
        target.close()


def test_a_bridge_whose_broker_lives_and_confirms_nothing_is_stalled_since_then(tmp_path: Path) -> None:
    port = free_port()
    jam = Jam(port)
    for name in ("near", "far"):
        (tmp_path / name).mkdir()
    far = Running(tmp_path / "far", "--ephemeral", "--name", "far", "--listen", f"openwire://127.0.0.1:{port}")
    towards = f"static:(tcp://127.0.0.1:{jam.port}?wireFormat.maxInactivityDuration=12000)?name=to-far"
    near = Running(
        tmp_path / "near", "--ephemeral", "--name", "near", "--connect", towards + "&supervisionInterval=2500"
    )
    try:
        with blocking.connect(openwire(far)) as connection, connection.session() as session:
            session.consumer("queue://Q")
            until(lambda: lines(near, "explain", "Q")[0]["queues"])  # the bridge reads it for that consumer
            # A link with nothing on its way would be given up after two intervals. Who has just written something says
            # only later that he lives: the other end must wait for that.
            jam.jammed = True
            assert near.do("send", "/queue/Q", given="x\n").returncode == 0
            until(lambda: ("near", "bridge-stalled") in codes(lines(near, "explain", "Q", "--alone")))
            stalled = re.compile(r"the bridge to far is stalled since (\d+\.\d) s: its broker lives")
            found = until(lambda: stalled.search(near.do("explain", "Q", "--alone").stdout))
            assert float(found.group(1)) > 0.4
    finally:
        near.stop()
        far.stop()
        jam.listener.close()


def test_a_search_that_goes_on_is_said_to(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, "--set", "deep:max_octets=1000").start()
    try:
        wire = Wire(daemon.port)
        for number in range(6000):
            colour = {"colour": "red" if number == 5999 else "blue"}
            wire.say("SEND", {"destination": "/queue/deep", "persistent": "true", **colour}, b"%d" % number)
        wire.subscribe("/temp-queue/answers")
        ask = {
            "destination": "/queue/activemq.management",
            "reply-to": "/temp-queue/answers",
            "_AMQ_ResourceName": "broker",
            "_AMQ_OperationName": "explain",
        }
        search = {"destination": "/queue/deep", "id": "deep", "selector": "colour = 'red'"}
        # in one write, so that the question comes in the turn in which the search begins
        wire.socket.sendall(encode_frame("SUBSCRIBE", search) + encode_frame("SEND", ask, b'["deep"]'))
        found = {frame.headers["destination"]: frame for frame in (wire.message(), wire.message())}
        red = found.pop("/queue/deep")
        assert red.body == b"5999"
        ((answer,),) = (json.loads(frame.body) for frame in found.values())
        reasons = {reason["code"]: reason["text"] for queue in answer["queues"] for reason in queue["reasons"]}
        assert "on disk are still being searched for what consumer" in reasons["searching"]
        wire.leave()
    finally:
        daemon.kill()


def test_a_broker_that_says_nothing_is_not_waited_for_longer_than_asked(chain: Chain) -> None:
    west, north = chain["west"], chain["north"]
    until(lambda: [answer["broker"] for answer in lines(west, "explain", "Q")[:-1]] == ["west", "north", "east"])
    north.process.send_signal(signal.SIGSTOP)
    try:
        began = time.monotonic()
        told = lines(west, "explain", "Q", "--timeout", "0.5")
        assert time.monotonic() - began < 15  # half of what a command waits for an answer otherwise, on a busy machine
        assert [one["broker"] for one in told[-1]["silent"]] == ["north"]
    finally:
        north.process.send_signal(signal.SIGCONT)
