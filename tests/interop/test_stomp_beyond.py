"""Messages that STOMP clients gave a broker of ours, at a real ActiveMQ behind a bridge: read, and audited, there."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import classic
import pytest
from classic import HOST, Classic
from ours import listens

from promises import never
from shell.daemon import Daemon, Wire

stomp = pytest.importorskip("stomp")

PATIENCE: Final = 20.0  # s
VERSIONS: Final = {"1.0": stomp.Connection10, "1.1": stomp.Connection11, "1.2": stomp.Connection12}

pytestmark = pytest.mark.skipif(bool(classic.unavailable()), reason=f"ActiveMQ: {classic.unavailable()}")


class Reader(stomp.ConnectionListener):  # type: ignore[misc]
    """Says what comes, and that the broker ended the connection."""

    def __init__(self) -> None:
        self.came: queue.Queue[Any] = queue.Queue()

    def on_message(self, frame: Any) -> None:
        self.came.put(frame)

    def on_error(self, frame: Any) -> None:
        self.came.put(AssertionError(frame.body))

    def on_disconnected(self) -> None:
        self.came.put(ConnectionError("the broker closed the connection"))

    def next(self) -> Any:
        found = self.came.get(timeout=PATIENCE)
        if isinstance(found, Exception):
            raise found
        return found


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Classic]:
    started = Classic(tmp_path_factory.mktemp("foreign"), stomp=True).start()
    try:
        started.await_ready()
        listens(HOST, started.stomp_port)
        yield started
    finally:
        started.kill()


@pytest.fixture(scope="module")
def ours(foreign: Classic, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    connector = f"static:({foreign.url})?initialReconnectDelay=100"
    running = Daemon(tmp_path_factory.mktemp("ours"), "--connect", connector, "--duplex").start()
    yield running
    running.stop()


@pytest.mark.parametrize(
    ("version", "ack"),
    [
        ("1.0", "client"),
        ("1.1", "client"),
        ("1.1", "client-individual"),
        ("1.2", "client"),
        ("1.2", "client-individual"),
    ],
)
def test_it_is_acknowledged_there(foreign: Classic, ours: Daemon, version: str, ack: str) -> None:
    """ActiveMQ reads the id that an ACK names: one that it cannot read ends the connection."""
    place = f"/queue/beyond.{version}.{ack}"
    reader = Reader()
    connection = VERSIONS[version]([(HOST, foreign.stomp_port)])
    connection.set_listener("", reader)
    connection.connect(wait=True)
    connection.subscribe(place, id="1", ack=ack)
    wire = Wire(ours.port)
    for number in range(5):
        assert wire.send(place, b"%d" % number, persistent="true").command == "RECEIPT"
    for number in range(5):
        frame = reader.next()
        assert frame.body == f"{number}"
        named = frame.headers["ack" if version == "1.2" else "message-id"]
        connection.ack(*([named, "1"] if version == "1.1" else [named]))
    wire.leave()
    connection.send(place, "behind them")  # it is served still
    assert reader.next().body == "behind them"
    connection.disconnect()
    left = Wire(foreign.stomp_port)
    assert [item.body for item in left.drain(place)] == [b"behind them"]
    left.leave()


STATIC: Final = """<broker xmlns="http://activemq.apache.org/schema/core" brokerName="ours">
  <persistenceAdapter><kahaDB directory="ours"/></persistenceAdapter>
  <networkConnectors><networkConnector uri="static:({there})?initialReconnectDelay=100"><staticallyIncludedDestinations>
    <queue physicalName="first"/><queue physicalName="second"/>
    <queue physicalName="Consumer.a.VirtualTopic.T"/><queue physicalName="Consumer.b.VirtualTopic.T"/>
  </staticallyIncludedDestinations></networkConnector></networkConnectors>
  <transportConnectors><transportConnector uri="stomp://127.0.0.1:0"/></transportConnectors>
</broker>
"""


def test_an_audit_there_drops_nothing_that_is_new(tmp_path: Path) -> None:
    """ActiveMQ's audit takes what has a lower number than the last of its producer for a repetition."""
    foreign = Classic(tmp_path / "foreign", stomp=True, connector='auditNetworkProducers="true"')
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours" / "ours.xml").write_text(STATIC.format(there=foreign.url))
    ours = Daemon(tmp_path / "ours", "ours.xml", files=True).start()
    try:
        wire = Wire(ours.port)
        copies = [f"Consumer.{one}.VirtualTopic.T" for one in "ab"]
        for name in copies:
            wire.subscribe(f"/queue/{name}")
            wire.ask("UNSUBSCRIBE", {"id": f"/queue/{name}"})
        # Those of the second queue have the lower numbers, and cross later; copies of one message have one id.
        sent = {f"/queue/{name}": [f"{name[0]}{number}" for number in range(300)] for name in ("second", "first")}
        sent["/topic/VirtualTopic.T"] = [f"t{number}" for number in range(50)]
        for place, bodies in sent.items():
            for body in bodies:
                assert wire.send(place, body.encode(), persistent="true").command == "RECEIPT"
        wire.leave()
        wanted = {**sent, **dict.fromkeys([f"/queue/{name}" for name in copies], sent["/topic/VirtualTopic.T"])}
        del wanted["/topic/VirtualTopic.T"]
        foreign.start().await_ready()
        listens(HOST, foreign.stomp_port)
        for place, bodies in wanted.items():
            reader = Wire(foreign.stomp_port)
            reader.subscribe(place, ack="client-individual")
            came = []
            while len(came) < len(bodies):
                frame = reader.message()
                came.append(frame.body.decode())
                reader.say("ACK", {"id": frame.headers["ack"]})
            reader.leave()
            with never():
                assert came == bodies
    finally:
        ours.stop()
        foreign.kill()
