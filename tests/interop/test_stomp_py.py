"""stomp.py, which nobody here wrote, against the real process: every version, every ack mode, and its own reconnect."""

from __future__ import annotations

import os
import queue
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shell.daemon import PATIENCE, Daemon

stomp = pytest.importorskip("stomp")

VERSIONS = ["1.0", "1.1", "1.2"]
KINDS = {"1.0": "StompConnection10", "1.1": "StompConnection11", "1.2": "StompConnection12"}
SILENT = 0.3  # s without a message: none will come


class Heard(stomp.ConnectionListener):  # type: ignore[misc]
    """Everything that stomp.py told us."""

    def __init__(self) -> None:
        self.messages: queue.Queue[Any] = queue.Queue()
        self.receipts: queue.Queue[str] = queue.Queue()
        self.errors: queue.Queue[Any] = queue.Queue()
        self.lost = threading.Event()
        self.beats_lost = threading.Event()
        self.connected: queue.Queue[dict[str, str]] = queue.Queue()

    def on_connected(self, frame: Any) -> None:
        self.connected.put(frame.headers)

    def on_message(self, frame: Any) -> None:
        self.messages.put(frame)

    def on_receipt(self, frame: Any) -> None:
        self.receipts.put(frame.headers["receipt-id"])

    def on_error(self, frame: Any) -> None:
        self.errors.put(frame)

    def on_heartbeat_timeout(self) -> None:
        self.beats_lost.set()

    def on_disconnected(self) -> None:
        self.lost.set()

    def take(self, count: int) -> list[Any]:
        return [self.messages.get(timeout=PATIENCE) for _ in range(count)]

    def nothing(self) -> bool:
        try:
            self.messages.get(timeout=SILENT)
        except queue.Empty:
            return True
        return False


class Client:
    """A connection of stomp.py with what it heard. Each call that says so waits for its receipt."""

    def __init__(self, port: int, version: str = "1.2", *, client_id: str = "", **options: Any) -> None:
        self.version = version
        self.heard = Heard()
        self.wire = getattr(stomp, KINDS[version])([("127.0.0.1", port)], **options)
        self.wire.set_listener("test", self.heard)
        headers = {"client-id": client_id} if client_id else {}
        self.wire.connect("user", "secret", wait=True, headers=headers)
        self.count = 0

    def receipt(self) -> str:
        self.count += 1
        return f"r{self.count}"

    def confirmed(self, receipt: str) -> None:
        assert self.heard.receipts.get(timeout=PATIENCE) == receipt

    def send(self, destination: str, body: str | bytes = "x", **headers: str) -> None:
        receipt = self.receipt()
        self.wire.send(destination, body, headers={"receipt": receipt, **headers})
        self.confirmed(receipt)

    def subscribe(self, destination: str, *, id: str = "1", ack: str = "auto", **headers: str) -> None:
        receipt = self.receipt()
        self.wire.subscribe(destination, id=id, ack=ack, headers={"receipt": receipt, **headers})
        self.confirmed(receipt)

    def ack(self, frame: Any, negative: bool = False, **options: Any) -> None:
        verb = self.wire.nack if negative else self.wire.ack
        receipt = self.receipt()
        if self.version == "1.2":
            verb(frame.headers["ack"], receipt=receipt, **options)
        elif self.version == "1.1":
            verb(frame.headers["message-id"], frame.headers["subscription"], receipt=receipt, **options)
        else:
            verb(frame.headers["message-id"], receipt=receipt, **options)
        self.confirmed(receipt)

    def close(self) -> None:
        if self.wire.is_connected():
            self.wire.disconnect()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    made = Daemon(tmp_path_factory.mktemp("broker"), "--set", "redelivered:max_deliveries=2").start()
    yield made
    assert made.stop() == 0


@pytest.fixture
def clients(daemon: Daemon) -> Iterator[Any]:
    """Make clients; they are closed when the test ends."""
    made: list[Client] = []

    def make(version: str = "1.2", **options: Any) -> Client:
        made.append(Client(daemon.port, version, **options))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """Return a destination name that no other test uses."""
    return "".join(letter if letter.isalnum() else "." for letter in request.node.name).strip(".")


@pytest.mark.parametrize("source", VERSIONS)
@pytest.mark.parametrize("target", VERSIONS)
def test_text_octets_and_headers_between_versions(clients: Any, name: str, source: str, target: str) -> None:
    producer, consumer = clients(source), clients(target)
    consumer.subscribe(f"/queue/{name}")
    producer.send(f"/queue/{name}", "text with ü", colour="red\\blue", content_type="text/plain")
    producer.send(f"/queue/{name}", bytes(range(256)), persistent="true")
    text, octets = consumer.heard.take(2)
    assert text.headers["colour"] == "red\\blue"
    assert text.body == "text with ü"
    assert octets.headers["persistent"] == "true"
    assert octets.headers["content-length"] == "256"
    assert text.headers["destination"] == f"/queue/{name}"
    assert consumer.heard.connected.get(timeout=PATIENCE).get("version", "1.0") == target


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("mode", ["auto", "client", "client-individual"])
def test_every_ack_mode(clients: Any, name: str, version: str, mode: str) -> None:
    producer, consumer = clients(version), clients(version)
    for number in range(4):
        producer.send(f"/queue/{name}", str(number), persistent="true")
    consumer.subscribe(f"/queue/{name}", ack=mode)
    frames = consumer.heard.take(4)
    assert [frame.body for frame in frames] == ["0", "1", "2", "3"]
    left = {"auto": [], "client": ["3"], "client-individual": ["0", "1", "3"]}[mode]
    if mode != "auto":
        consumer.ack(frames[2])
    consumer.close()
    again = clients(version)
    again.subscribe(f"/queue/{name}")
    frames = again.heard.take(len(left))
    assert [frame.body for frame in frames] == left
    assert all(frame.headers["redelivered"] == "true" for frame in frames)
    assert again.heard.nothing()


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_nack_goes_to_the_dead_letters_with_its_reason(clients: Any, name: str, version: str) -> None:
    client = clients(version)
    client.subscribe("/queue/ActiveMQ.DLQ", id="dead", ack="auto")
    client.subscribe(f"/queue/{name}", ack="client-individual")
    client.send(f"/queue/{name}", "bad", persistent="true", colour="red")
    client.ack(client.heard.take(1)[0], negative=True)
    (letter,) = client.heard.take(1)
    assert (letter.body, letter.headers["colour"], letter.headers["_AMQ_ORIG_QUEUE"]) == ("bad", "red", name)
    assert "NACK" in letter.headers["dlqDeliveryFailureCause"]


@pytest.mark.parametrize("version", VERSIONS)
def test_transactions(clients: Any, name: str, version: str) -> None:
    client, consumer = clients(version), clients(version)
    consumer.subscribe(f"/queue/{name}")
    for end in (client.wire.abort, client.wire.commit):
        transaction = client.wire.begin()
        for part in "ab":
            client.wire.send(f"/queue/{name}", part, transaction=transaction)
        assert consumer.heard.nothing()
        end(transaction)
    assert [frame.body for frame in consumer.heard.take(2)] == ["a", "b"]
    assert consumer.heard.nothing()


def test_an_acknowledgement_in_a_transaction(clients: Any, name: str) -> None:
    client = clients()
    client.send(f"/queue/{name}", "job")
    client.subscribe(f"/queue/{name}", ack="client-individual")
    (frame,) = client.heard.take(1)
    transaction = client.wire.begin()
    client.ack(frame, transaction=transaction)
    client.wire.abort(transaction)
    client.close()
    again = clients()
    again.subscribe(f"/queue/{name}", ack="client-individual")
    (frame,) = again.heard.take(1)
    transaction = again.wire.begin()
    again.ack(frame, transaction=transaction)
    again.wire.commit(transaction)
    again.close()
    last = clients()
    last.subscribe(f"/queue/{name}")
    assert last.heard.nothing()


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_heart_beats_keep_a_quiet_connection(clients: Any, name: str, version: str) -> None:
    client = clients(version, heartbeats=(500, 500))
    assert client.heard.connected.get(timeout=PATIENCE)["heart-beat"] == "500,500"
    assert not client.heard.lost.wait(2.5)
    assert not client.heard.beats_lost.is_set()
    client.send(f"/queue/{name}", "still here")


def test_a_client_that_stops_beating_is_found_dead_and_its_messages_go_to_another(clients: Any, name: str) -> None:
    consumer, other = clients(heartbeats=(500, 0)), clients()
    other.send(f"/queue/{name}", "job")
    consumer.subscribe(f"/queue/{name}", ack="client-individual")
    consumer.heard.take(1)
    other.subscribe(f"/queue/{name}")
    consumer.wire.transport.send = lambda frame: None  # the process hangs: no beat leaves it
    (frame,) = other.heard.take(1)
    assert (frame.body, frame.headers["redelivered"]) == ("job", "true")


def test_a_broker_that_hangs_is_found_dead_by_its_client(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, ephemeral=True).start()
    try:
        client = Client(daemon.port, heartbeats=(0, 500), reconnect_attempts_max=1)
        os.kill(daemon.pid, signal.SIGSTOP)
        assert client.heard.beats_lost.wait(PATIENCE)
    finally:
        os.kill(daemon.pid, signal.SIGCONT)
        daemon.kill()


@pytest.mark.parametrize("header", ["durable-subscription-name", "activemq.subscriptionName"])
def test_a_durable_subscription_collects_while_nobody_is_there(clients: Any, name: str, header: str) -> None:
    named = {header: "prices"}
    reader = clients(client_id=name)
    reader.subscribe(f"/topic/{name}", **named)
    reader.close()
    producer = clients()
    producer.send(f"/topic/{name}", "10", persistent="true")
    producer.send(f"/topic/{name}", "11", persistent="true")
    reader = clients(client_id=name)
    reader.subscribe(f"/topic/{name}", **named)
    assert [frame.body for frame in reader.heard.take(2)] == ["10", "11"]
    receipt = reader.receipt()
    reader.wire.unsubscribe("1", headers={"receipt": receipt, **named})
    reader.confirmed(receipt)
    producer.send(f"/topic/{name}", "12", persistent="true")
    reader.subscribe(f"/topic/{name}", **named)
    assert reader.heard.nothing()


def test_selectors(clients: Any, name: str) -> None:
    client = clients()
    client.subscribe(f"/queue/{name}", selector="price > 10 AND colour IN ('red', 'blue')")
    for price, colour in (("9", "red"), ("11", "green"), ("12", "blue"), ("100", "red")):
        client.send(f"/queue/{name}", price, price=price, colour=colour)
    assert [frame.body for frame in client.heard.take(2)] == ["12", "100"]
    assert client.heard.nothing()


def test_request_and_reply_over_a_temporary_queue(clients: Any, name: str) -> None:
    asker, server = clients(), clients()
    server.subscribe(f"/queue/{name}")
    asker.subscribe("/temp-queue/answers", id="a")
    asker.send(f"/queue/{name}", "what?", **{"reply-to": "/temp-queue/answers"})
    (question,) = server.heard.take(1)
    server.send(question.headers["reply-to"], "that")
    (answer,) = asker.heard.take(1)
    assert (answer.body, answer.headers["destination"]) == ("that", "/temp-queue/answers")


def test_an_error_says_what_is_wrong_and_the_connection_goes_on(clients: Any, name: str) -> None:
    client = clients()
    client.wire.subscribe(f"/queue/{name}", id="1", headers={"selector": "colour = ", "receipt": "wrong"})
    error = client.heard.errors.get(timeout=PATIENCE)
    assert (error.headers["receipt-id"], error.headers["code"]) == ("wrong", "ENT-3001")
    assert "selector" in error.headers["message"]
    client.send(f"/queue/{name}", "goes on")


def test_its_own_reconnect_after_the_broker_was_killed(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    daemon = Daemon(tmp_path, "--listen", f"stomp://127.0.0.1:{port}").start()
    client = Client(port, reconnect_attempts_max=50, reconnect_sleep_initial=0.05, reconnect_sleep_max=0.2)
    try:
        client.send("/queue/a", "before", persistent="true")
        daemon.kill()
        assert client.heard.lost.wait(PATIENCE)
        daemon.start()
        client.wire.connect("user", "secret", wait=True)  # it dials until somebody answers
        client.subscribe("/queue/a")
        client.send("/queue/a", "after", persistent="true")
        assert [frame.body for frame in client.heard.take(2)] == ["before", "after"]
        client.close()
    finally:
        assert daemon.stop() == 0


def test_many_messages_in_order_from_several_threads(clients: Any, name: str) -> None:
    consumer = clients()
    consumer.subscribe(f"/queue/{name}", ack="auto")
    producers = [clients() for _ in range(3)]

    def produce(number: int) -> None:
        for each in range(300):
            producers[number].wire.send(f"/queue/{name}", f"{number} {each}", persistent="true")

    threads = [threading.Thread(target=produce, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    found = [frame.body.split() for frame in consumer.heard.take(900)]
    for thread in threads:
        thread.join()
    for number in range(3):
        assert [int(each) for who, each in found if int(who) == number] == list(range(300))
