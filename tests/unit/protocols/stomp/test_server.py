"""The server's sessions on a whole broker: versions mixed, large bodies, flow control, and how a connection ends."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.core.transactions.transaction import OCTETS_MAX
from entrepot.journal.memory import MemoryJournal
from entrepot.protocols.inflow import CROWDED_OCTETS
from entrepot.protocols.serving.life import LEAVING
from entrepot.protocols.serving.outlet import WRITER_KEPT_OCTETS, WRITER_QUIET
from entrepot.protocols.session import NEVER, Shell
from entrepot.protocols.stomp.frames import Frame, FrameParser, encode_frame
from entrepot.protocols.stomp.options import StompOptions
from entrepot.protocols.stomp.server import StompSession
from kit import MILLISECOND, SECOND, Rig

LARGE = 1000  # octets from which bodies are streamed, here


class Client(Shell):
    """One connection without a socket; ``got`` is every frame that came."""

    count = 0

    def __init__(self, rig: Rig, version: str = "1.2", **headers: str) -> None:
        Client.count += 1
        self.rig = rig
        options = StompOptions()
        options.large_octets = LARGE
        self.session = StompSession(self, rig.broker, options, Client.count, f"peer-{Client.count}")
        self.parser = FrameParser()
        self.version = version
        self.got: list[Frame] = []
        self.raw = b""
        self.say(
            "CONNECT", {"accept-version": version, "host": "x", **{k.replace("_", "-"): v for k, v in headers.items()}}
        )
        self.hear()
        self.parser.version = version
        self.connected = self.got.pop(0)

    def say(self, command: str, headers: dict[str, str], body: bytes = b"") -> None:
        version = "1.0" if command == "CONNECT" else self.version
        self.feed(encode_frame(command, headers, body, version))

    def feed(self, data: bytes, chunk: int = 0) -> None:
        size = chunk or max(len(data), 1)
        for at in range(0, len(data), size):
            self.session.receive(data[at : at + size], self.rig.now)
            while self.session.unfinished:
                self.rig.broker.effort.go_on()

    def go_on(self) -> None:
        self.session.resume(self.rig.now)

    def hear(self, writes: int = 1 << 30) -> list[Frame]:
        """Take what the session writes, at most so many times; return the new frames."""
        new: list[Frame] = []
        for _ in range(writes):
            data = self.session.outgoing()
            if not data:
                break
            self.raw += data
            self.parser.feed(data)
            while frame := self.parser.take():
                new.append(frame)
        self.got += new
        return new

    def ask(self, command: str, body: bytes = b"", **headers: str) -> list[Frame]:
        """Send a frame; return what comes of it here once the disk has answered."""
        self.say(command, {name.replace("_", "-"): text for name, text in headers.items()}, body)
        self.rig.turn()
        return self.hear()

    def send(self, body: bytes, destination: str = "/queue/q", **headers: str) -> list[Frame]:
        return self.ask("SEND", body, destination=destination, content_length=str(len(body)), receipt="r", **headers)

    def subscribe(self, destination: str = "/queue/q", **headers: str) -> list[Frame]:
        return self.ask("SUBSCRIBE", destination=destination, **{"id": "1", **headers})

    def cut(self) -> None:
        self.session.detach("cut", self.rig.now)
        self.rig.turn()


def bodies(found: list[Frame]) -> list[bytes]:
    return [frame.body for frame in found if frame.command == "MESSAGE"]


def kinds(found: list[Frame]) -> list[str]:
    return [frame.command for frame in found]


# -- versions mixed ---------------------------------------------------------------------------------------------------

TEXTS = st.text(st.sampled_from("ab\\:nrc é"), max_size=8)
LINES = st.text(st.sampled_from("ab\\:nrc\r\n"), max_size=8)


@settings(deadline=None, max_examples=60)
@given(
    source=st.sampled_from(["1.0", "1.1", "1.2"]),
    target=st.sampled_from(["1.0", "1.1", "1.2"]),
    value=TEXTS,
    line=LINES,
    chunk=st.integers(0, 5),
)
def test_a_header_means_the_same_to_producer_and_consumer(
    source: str, target: str, value: str, line: str, chunk: int
) -> None:
    rig = Rig(disk=False)
    producer, consumer = Client(rig, source), Client(rig, target)
    consumer.subscribe(selector="plain is not null")
    headers = {"destination": "/queue/q", "plain": value}
    if source == "1.2" or (source == "1.1" and not line.endswith("\r")):
        headers["line"] = line
    elif source == "1.1":
        headers["line"] = line  # 1.1 has no escape for it: it stands there raw
    producer.feed(encode_frame("SEND", headers, b"body", source), chunk)
    rig.turn()
    (message,) = consumer.hear()
    assert message.headers["plain"] == value
    if "line" in headers:
        expected = line.replace("\n", " ") if target == "1.0" else line
        assert message.headers["line"] == expected
    assert message.body == b"body"


def test_a_raw_carriage_return_of_1_1_is_escaped_for_1_2() -> None:
    rig = Rig(disk=False)
    producer, consumer, old = Client(rig, "1.1"), Client(rig, "1.2"), Client(rig, "1.1")
    consumer.subscribe("/topic/t")
    old.subscribe("/topic/t")
    producer.feed(b"SEND\ndestination:/topic/t\nx:y\r\n\nbody\0")
    assert consumer.hear()[0].headers["x"] == "y\r"
    assert b"\nx:y\\r\n" in consumer.raw
    assert old.hear()[0].headers["x"] == "y\r"


def test_selectors_see_what_the_header_means_not_how_it_is_written() -> None:
    rig = Rig(disk=False)
    consumer = Client(rig)
    consumer.subscribe(selector="path = 'c:\\new'")
    for version in ("1.0", "1.1", "1.2"):
        Client(rig, version).ask("SEND", destination="/queue/q", path="c:\\new")
    assert [frame.headers["path"] for frame in consumer.hear()] == ["c:\\new"] * 3


# -- large bodies -----------------------------------------------------------------------------------------------------


def test_a_message_is_delivered_before_the_disk_has_it_and_confirmed_after_that() -> None:
    # The order that ARCHITECTURE.md tells: delivery does not wait for the disk, the answer does.
    rig = Rig()
    consumer, producer = Client(rig), Client(rig)
    consumer.say("SUBSCRIBE", {"destination": "/queue/a", "id": "1"})
    rig.turn()
    consumer.hear()
    producer.say("SEND", {"destination": "/queue/a", "persistent": "true", "receipt": "r"}, b"x")
    assert kinds(consumer.hear()) == ["MESSAGE"]
    rig.journal.flush()  # the disk has the batch, and has not answered
    assert kinds(producer.hear()) == []
    rig.turn()
    assert kinds(producer.hear()) == ["RECEIPT"]


def blobs(rig: Rig) -> list[int]:
    rig.turn()
    return rig.journal.overflow._port.blobs()


BODY = bytes(range(256)) * 10  # holds NULs


@pytest.mark.parametrize("chunk", [0, 1, 7, 999])
@pytest.mark.parametrize("persistent", ["true", "false"])
def test_a_large_body_goes_through_the_disk_and_leaves_nothing_there(chunk: int, persistent: str) -> None:
    rig = Rig()
    producer, consumer = Client(rig), Client(rig)
    head = f"SEND\ndestination:/queue/q\npersistent:{persistent}\nreceipt:r\nx:\\c\ncontent-length:{len(BODY)}\n\n"
    producer.feed(head.encode() + BODY + b"\0" + encode_frame("SEND", {"destination": "/queue/q"}, b"after"), chunk)
    rig.turn()
    assert kinds(producer.hear()) == ["RECEIPT"]
    assert len(blobs(rig)) == 1
    found = consumer.subscribe(ack="client-individual")
    assert bodies(found) == [BODY, b"after"]
    assert found[0].headers["x"] == ":"
    assert len(blobs(rig)) == 1
    consumer.ask("ACK", id=found[0].headers["ack"])
    assert blobs(rig) == []


def test_a_body_comes_in_no_faster_than_the_disk_takes_it() -> None:
    rig = Rig()
    producer = Client(rig)
    size = 64 << 20
    producer.feed(b"SEND\ndestination:/queue/q\npersistent:true\nreceipt:r\ncontent-length:%d\n\n" % size)
    sent = stops = 0
    while sent < size:
        if not producer.session.readable:
            stops += 1
            rig.turn()  # the disk has its time
            assert producer.session.readable
        producer.feed(bytes(1 << 18))
        sent += 1 << 18
    producer.feed(b"\0")
    rig.turn()
    assert kinds(producer.hear()) == ["RECEIPT"]
    assert stops >= 3, "up to 16 MiB may wait for the disk"


def test_bodies_of_many_connections_come_in_no_faster_than_the_disk_takes_them() -> None:
    """What one may be ahead of the disk all of them may be together: 20 x 99 MiB without a length took 2.5 GB once."""
    rig = Rig()
    producers = [Client(rig) for _ in range(20)]
    for producer in producers:
        producer.feed(b"SEND\ndestination:/queue/q\npersistent:true\nreceipt:r\n\n")
    piece = b"x" * (1 << 18)
    rounds = 0
    for _ in range(3):  # as long as the disk stands still
        taken = 0
        while readable := [one for one in producers if one.session.readable]:
            for producer in readable:
                producer.feed(piece)
                taken += len(piece)
        assert taken <= CROWDED_OCTETS + len(producers) * len(piece)
        rounds += taken
        rig.turn()
    assert rounds > 2 * CROWDED_OCTETS  # and each time that it moves they do, too
    for producer in producers:
        producer.feed(b"\0")
    rig.turn()
    assert [kinds(producer.hear()) for producer in producers] == [["RECEIPT"]] * 20


def test_a_large_body_cut_in_the_middle_leaves_nothing() -> None:
    rig = Rig()
    producer = Client(rig)
    producer.feed(b"SEND\ndestination:/queue/q\ncontent-length:5000\n\n" + bytes(3000))
    assert len(blobs(rig)) == 1
    producer.cut()
    assert blobs(rig) == []
    assert "q" not in rig.broker.table.queues


def test_a_large_body_without_its_nul_closes_and_leaves_nothing() -> None:
    rig = Rig()
    producer = Client(rig)
    producer.feed(b"SEND\ndestination:/queue/q\ncontent-length:2000\n\n" + bytes(2000) + b"x")
    (error,) = producer.hear()
    assert "does not end with NUL" in error.headers["message"]
    assert producer.session.closing
    producer.cut()
    assert blobs(rig) == []


def test_several_consumers_each_get_a_large_body_whole() -> None:
    rig = Rig()
    producer = Client(rig)
    readers = [Client(rig, version) for version in ("1.0", "1.1", "1.2")]
    for each in readers:
        each.subscribe("/topic/t")
        each.subscribe("/topic/>", id="2")
    producer.send(BODY, "/topic/t", x="a\\b")
    for each in readers:
        found = each.hear()
        assert bodies(found) == [BODY, BODY]
        assert [frame.headers["x"] for frame in found] == ["a\\b", "a\\b"]
    assert blobs(rig) == []


def test_large_bodies_and_what_is_said_meanwhile_do_not_mix() -> None:
    rig = Rig()
    producer, consumer = Client(rig), Client(rig)
    for number in range(5):
        producer.send(bytes([number]) * (300_000 if number % 2 else 10))
    consumer.subscribe()
    consumer.ask("SEND", b"mine", destination="/queue/other", receipt="meanwhile")
    consumer.subscribe("/queue/other", id="2")
    consumer.hear()
    assert [len(body) for body in bodies(consumer.got)] == [10, 300_000, 10, 300_000, 10, 4]
    assert kinds(consumer.got).count("RECEIPT") == 1


def test_a_browser_shows_large_bodies_one_behind_the_other() -> None:
    rig = Rig()
    producer, looker = Client(rig), Client(rig)
    for number in range(4):
        producer.send(bytes([number]) * 2000, persistent="true")
    found = looker.subscribe(browser="true")
    assert bodies(found) == [bytes([number]) * 2000 for number in range(4)] + [b""]
    assert found[-1].headers["browser"] == "end"
    assert rig.queue("q").count == 4


def test_a_reader_by_lease_gets_large_bodies_again() -> None:
    rig = Rig()
    client = Client(rig)
    for number in range(3):
        client.send(bytes([number]) * 2000)
    client.ask("ATTACH", queue="/queue/q", group="g", receipt="a")
    client.ask("CLAIM", queue="/queue/q", group="g", epoch="1", receipt="b")
    for _ in range(2):
        found = client.ask("READ", queue="/queue/q", group="g", epoch="1", receipt="c")
        assert bodies(found) == [bytes([number]) * 2000 for number in range(3)]
    client.ask("SETTLE", queue="/queue/q", group="g", epoch="1", end="3", receipt="d")
    assert blobs(rig) == []


@pytest.mark.parametrize("chunk", [0, 1, 7, 999])
def test_a_large_body_without_length_goes_through_the_disk_too(chunk: int) -> None:
    rig = Rig()
    producer, consumer = Client(rig), Client(rig)
    body = b"no length " * 300
    producer.feed(b"SEND\ndestination:/queue/q\npersistent:true\nreceipt:r\n\n" + body + b"\0", chunk)
    rig.turn()
    assert kinds(producer.hear()) == ["RECEIPT"]
    assert len(blobs(rig)) == 1
    assert rig.queue("q").backlog.octets < len(body)  # only what names it is in memory
    consumer.subscribe(ack="client-individual")
    (message,) = consumer.got[-1:]
    assert message.body == body
    assert "content-length" not in message.headers  # it stays a text
    consumer.ask("ACK", id=message.headers["ack"])
    rig.turn()
    assert blobs(rig) == []


def test_what_many_begin_and_do_not_end_is_bounded() -> None:
    rig = Rig()
    rig.broker.memory.limit = 64 << 20
    rig.broker.memory.lent = (126 << 20) + 1  # by others
    clients = [Client(rig) for _ in range(12)]
    for client in clients:
        client.session.reader.large_octets = 1 << 62  # as in a broker without a disk: a body must be held
        client.feed(b"SEND\ndestination:/queue/q\n\n")
    for _ in range(20):
        for client in clients:
            client.feed(b"x" * (100 << 10))
    assert rig.broker.memory.lent <= (128 << 20) + 12 * (1 << 20) + (100 << 10)
    ended = [client for client in clients if client.session.life >= LEAVING]
    assert ended
    assert b"frames that are not complete" in ended[0].session.writer.getvalue()
    for client in clients:
        client.cut()
    assert rig.broker.memory.lent == (126 << 20) + 1


def test_a_body_of_a_transaction_is_held_while_there_is_room() -> None:
    rig = Rig()
    client = Client(rig)
    client.ask("BEGIN", transaction="t")
    start = b"SEND\ndestination:/queue/q\ntransaction:t\n\n"
    client.feed(start + bytes([120]) * 5000 + b"\0", 99)
    assert kinds(client.ask("COMMIT", transaction="t", receipt="c")) == ["RECEIPT"]
    assert rig.queue("q").count == 1
    client.session.reader.pressed = True
    client.ask("BEGIN", transaction="t")
    client.feed(start + bytes([120]) * 5000 + b"\0", 5100)
    (error,) = client.hear()
    assert "too long for a transaction" in error.headers["message"]


def test_a_transaction_refuses_a_large_body_and_stays_in_step() -> None:
    rig = Rig()
    client = Client(rig)
    client.ask("BEGIN", transaction="t")
    (error,) = client.send(BODY, transaction="t")
    assert (error.headers["receipt-id"], error.headers["code"]) == ("r", "ENT-3006")
    assert kinds(client.send(b"small")) == ["RECEIPT"]
    assert kinds(client.ask("COMMIT", transaction="t", receipt="c")) == ["ERROR"]
    assert blobs(rig) == []


def test_a_transaction_that_grew_too_large_says_so_once_and_at_its_commit() -> None:
    rig = Rig()
    client = Client(rig)
    client.ask("BEGIN", transaction="t")
    client.session.transacting.transactions.open["t"].octets = OCTETS_MAX
    for _ in range(50):
        client.say("SEND", {"destination": "/queue/q", "transaction": "t"}, b"x")
    (error,) = client.hear()
    assert "holds more than" in error.headers["message"]
    (asked,) = client.send(b"y", transaction="t")  # what asks for an answer has one: it is forgotten, and no error
    assert asked.command == "RECEIPT"
    (error,) = client.ask("COMMIT", transaction="t", receipt="c")
    assert (error.command, error.headers["receipt-id"]) == ("ERROR", "c")
    assert "holds more than" in error.headers["message"]
    assert rig.broker.table.queues["q"].count == 0


def test_refusals_in_a_transaction_are_said_once() -> None:
    rig = Rig()
    client = Client(rig)
    client.ask("BEGIN", transaction="t")
    for _ in range(50):
        client.say("SEND", {"destination": "/queue/>", "transaction": "t"}, b"x")
        client.say("ACK", {"id": "7-7", "transaction": "t"})
    assert kinds(client.hear()) == ["ERROR"]
    (error,) = client.ask("SEND", b"x", destination="/queue/>", transaction="t", receipt="r")
    assert error.headers["receipt-id"] == "r"
    assert kinds(client.ask("COMMIT", transaction="t", receipt="c")) == ["ERROR"]
    client.ask("BEGIN", transaction="t")
    assert kinds(client.ask("SEND", b"x", destination="/queue/>", transaction="t")) == ["ERROR"]  # another transaction


def test_a_large_body_dies_and_rises_with_its_headers() -> None:
    rig = Rig()
    client = Client(rig)
    client.send(BODY, persistent="true", colour="red")
    (message,) = client.subscribe(ack="client-individual")
    client.ask("NACK", id=message.headers["ack"])
    rig.restart("crash")
    client = Client(rig)
    (letter,) = client.subscribe("/queue/ActiveMQ.DLQ", ack="client-individual")
    assert (letter.body, letter.headers["colour"]) == (BODY, "red")
    assert "dlqDeliveryFailureCause" in letter.headers
    client.ask("ACK", id=letter.headers["ack"])
    assert blobs(rig) == []


def test_large_bodies_wait_on_disk_when_memory_is_full() -> None:
    rig = Rig(max_octets="3000")
    producer, consumer = Client(rig), Client(rig)
    sizes = [200 if number % 3 else 1500 for number in range(40)]
    for number, size in enumerate(sizes):
        assert kinds(producer.send(bytes([number]) * size)) == ["RECEIPT"]
    assert rig.queue("q").backlog.paged_count > 0
    consumer.subscribe()
    consumer.hear()
    assert bodies(consumer.got) == [bytes([number]) * size for number, size in enumerate(sizes)]
    assert blobs(rig) == []


def test_to_two_queues_at_once_and_to_a_group() -> None:
    rig = Rig()
    client = Client(rig)
    client.send(BODY, "/queue/a,/queue/b", JMSXGroupID="g")
    for at, name in enumerate("ab"):
        assert bodies(client.subscribe(f"/queue/{name}", id=str(at))) == [BODY]
    assert blobs(rig) == []


def test_a_peer_that_leaves_while_a_body_flows_frees_it() -> None:
    rig = Rig()
    producer, consumer = Client(rig), Client(rig)
    producer.send(bytes(1_000_000))
    consumer.say("SUBSCRIBE", {"id": "1", "destination": "/queue/q"})
    consumer.hear(writes=2)
    consumer.session.writable(False, rig.now)
    assert consumer.session.outgoing() == b""
    consumer.cut()
    assert blobs(rig) == []


@pytest.mark.parametrize("goodbye", [True, False])
def test_an_end_waits_for_the_body_that_has_begun(goodbye: bool) -> None:
    rig = Rig()
    producer, consumer = Client(rig), Client(rig)
    producer.send(bytes(1_000_000))
    consumer.say("SUBSCRIBE", {"id": "1", "destination": "/queue/q"})
    consumer.hear(writes=1)
    consumer.session.writable(False, rig.now)
    if goodbye:
        consumer.say("DISCONNECT", {"receipt": "bye"})
        rig.turn()
    else:
        consumer.feed(b"HELLO\n\n\0")
    assert not consumer.session.closing
    consumer.feed(encode_frame("SEND", {"destination": "/queue/q"}, b"not heard"))
    consumer.session.writable(True, rig.now)
    assert kinds(consumer.hear()) == ["MESSAGE", "RECEIPT" if goodbye else "ERROR"]
    assert len(consumer.got[0].body) == 1_000_000
    assert consumer.session.closing
    assert rig.queue("q").count == 0
    consumer.cut()


def test_a_broker_without_a_disk_takes_large_bodies_into_memory() -> None:
    rig = Rig(disk=False)
    client = Client(rig)
    client.send(BODY)
    assert bodies(client.subscribe()) == [BODY]
    assert isinstance(rig.journal, MemoryJournal)


# -- flow -------------------------------------------------------------------------------------------------------------


def test_policy_fail_refuses_before_anything_is_taken() -> None:
    rig = Rig(full="FAIL", max_octets="5000")
    client = Client(rig)
    answers = [client.send(bytes(900))[0] for _ in range(10)]
    taken = [answer.command for answer in answers].count("RECEIPT")
    assert [answer.command for answer in answers] == ["RECEIPT"] * taken + ["ERROR"] * (10 - taken)
    assert answers[-1].headers["code"] == "ENT-3004"
    assert rig.queue("q").count == taken
    assert len(bodies(client.subscribe())) == taken
    assert kinds(client.send(b"again")) == ["MESSAGE", "RECEIPT"]


def test_policy_block_stops_reading_and_goes_on_when_there_is_room() -> None:
    rig = Rig(full="BLOCK", max_octets="5000")
    producer, consumer = Client(rig), Client(rig)
    sent = 0
    while producer.session.readable:
        producer.send(bytes(900))
        sent += 1
    assert sent < 20
    consumer.subscribe()
    assert producer.session.readable
    assert len(bodies(consumer.hear()) or bodies(consumer.got)) == sent


@pytest.mark.parametrize("consumes", [False, True])
def test_who_sends_to_a_blocked_address_is_read_no_further_until_it_is_unblocked(consumes: bool) -> None:
    rig = Rig()
    producer, other = Client(rig), Client(rig)
    producer.send(b"before")
    rig.bodies("/queue/q")
    if consumes:
        producer.subscribe("/queue/read")
    rig.broker.flow.block("q")
    producer.send(b"one")
    assert not producer.session.readable
    other.send(b"elsewhere", "/queue/other")
    assert other.session.readable
    rig.broker.flow.unblock("q")
    rig.turn()
    assert producer.session.readable
    producer.send(b"two")
    assert rig.queue("q").count == 2


def test_a_transaction_for_a_blocked_address_waits_with_its_commit() -> None:
    rig = Rig()
    producer = Client(rig)
    producer.send(b"before")
    rig.bodies("/queue/q")
    rig.broker.flow.block("q")
    producer.ask("BEGIN", transaction="t")
    producer.ask("SEND", b"one", destination="/queue/q", transaction="t", receipt="r")
    assert not producer.session.readable, "its COMMIT is not read"
    rig.broker.flow.unblock("q")
    rig.turn()
    assert producer.session.readable
    producer.ask("COMMIT", transaction="t")
    assert rig.bodies("/queue/q") == ["one"]


def test_a_transaction_is_refused_what_comes_when_its_producer_has_waited_long_enough() -> None:
    rig = Rig(block_ms_max="2000")
    producer = Client(rig)
    producer.send(b"before")
    rig.bodies("/queue/q")
    rig.broker.flow.block("q")
    for name in "ab":
        producer.ask("BEGIN", transaction=name)
    producer.ask("SEND", b"one", destination="/queue/q", transaction="a", receipt="r")
    rig.wait(2000)
    producer.session.advance(rig.now)
    assert producer.session.readable
    (error,) = producer.ask("SEND", b"two", destination="/queue/q", transaction="b", receipt="r")
    assert error.headers["code"] == "ENT-3004"
    assert producer.session.readable, "or nobody would read it before the end of the block"
    assert kinds(producer.ask("COMMIT", transaction="a", receipt="r")) == ["RECEIPT"]
    (error,) = producer.ask("COMMIT", transaction="b", receipt="r")
    assert error.headers["code"] == "ENT-3006"
    assert rig.bodies("/queue/q") == ["one"]


def test_a_block_with_an_end_refuses_until_there_is_room() -> None:
    rig = Rig(full="BLOCK", max_octets="5000", block_ms_max="2000")
    producer = Client(rig)
    while producer.session.readable:
        producer.send(bytes(900))
    held = rig.queue("q").count
    assert producer.session.deadline() == rig.now + 2000 * MILLISECOND
    rig.wait(2000)
    producer.session.advance(rig.now)
    assert producer.session.readable
    for _ in range(3):
        (error,) = producer.send(bytes(900))
        assert (error.headers["code"], error.headers["receipt-id"]) == ("ENT-3004", "r")
    assert rig.queue("q").count == held
    assert len(rig.bodies("/queue/none")) == 0
    rig.queue("q").taking.purge()
    rig.turn()
    assert kinds(producer.send(bytes(900))) == ["RECEIPT"]


def test_one_who_produces_and_consumes_is_never_stopped_and_never_unbounded() -> None:
    rig = Rig(disk=False, memory_limit=50_000)
    client = Client(rig)
    client.subscribe(ack="client-individual", **{"activemq.prefetchSize": "1"})
    answers: list[str] = []
    for _ in range(300):
        answers += [kind for kind in kinds(client.send(bytes(900))) if kind != "MESSAGE"]
    assert client.session.readable
    assert rig.broker.memory.used < 2 * 50_000 + 2_000
    accepted = answers.count("RECEIPT")
    assert answers == ["RECEIPT"] * accepted + ["ERROR"] * (300 - accepted)
    got = 0
    while tags := [frame.headers["ack"] for frame in client.got if frame.command == "MESSAGE"]:
        client.got.clear()
        got += len(tags)
        for tag in tags:
            client.ask("ACK", id=tag)
    assert got == accepted, "what was refused was not taken, what was taken is not lost"
    assert kinds(client.send(b"room again")) == ["MESSAGE", "RECEIPT"]


@pytest.mark.parametrize(
    ("destination", "headers", "credit"),
    [
        ("/queue/q", {}, 1000),
        ("/topic/t", {}, 32_767),
        ("/topic/t", {"durable-subscription-name": "d"}, 100),
        ("/queue/q", {"activemq.prefetchSize": "7"}, 7),
        ("/queue/q?consumer.prefetchSize=8", {}, 8),
    ],
)
def test_credit_is_what_the_page_says(destination: str, headers: dict[str, str], credit: int) -> None:
    rig = Rig(disk=False)
    client = Client(rig, client_id="c")
    client.subscribe(destination, **{"ack": "client-individual", **headers})
    for _ in range(min(credit, 1200) + 10):
        client.say("SEND", {"destination": destination.partition("?")[0]}, b"x")
    assert client.session.consuming.named["1"].window.messages == credit
    assert len(bodies(client.hear())) == min(credit, min(credit, 1200) + 10)


def test_what_one_connection_may_have_open() -> None:
    client = Client(Rig())
    client.session.options.transactions_max = 2
    client.session.options.subscriptions_max = 1
    answers = [client.ask("BEGIN", transaction=str(number), receipt="r") for number in range(3)]
    assert [kinds(answer) for answer in answers] == [["RECEIPT"], ["RECEIPT"], ["ERROR"]]
    client.subscribe()
    assert kinds(client.subscribe(id="2", receipt="r")) == ["ERROR"]
    assert not client.session.closing


def test_a_slow_reader_is_written_no_more_than_its_mark() -> None:
    rig = Rig()
    producer, consumer = Client(rig), Client(rig)
    consumer.session.outlet.high = 20_000
    consumer.subscribe(ack="auto")
    consumer.session.writable(False, rig.now)
    for _ in range(100):
        producer.send(bytes(900))
    assert consumer.session.pending() < 22_000
    assert rig.queue("q").count > 70
    consumer.session.writable(True, rig.now)
    consumer.hear()
    assert len(bodies(consumer.got)) == 100


def test_a_burst_leaves_no_buffer_behind() -> None:
    rig = Rig(disk=False)
    producer, consumer = Client(rig), Client(rig)
    consumer.subscribe()
    for _ in range(200):
        producer.send(bytes(900))
    before = consumer.session.writer
    assert len(before) > WRITER_KEPT_OCTETS
    consumer.hear()
    assert consumer.session.writer is before, "there may be more"
    assert consumer.session.deadline() == rig.now + WRITER_QUIET
    rig.wait(5000)
    consumer.session.advance(rig.now)
    assert consumer.session.writer is not before
    assert consumer.session.deadline() == NEVER
    assert consumer.session.outlet.out is consumer.session.writer
    producer.send(b"still here")
    assert bodies(consumer.hear()) == [b"still here"]


# -- the end ----------------------------------------------------------------------------------------------------------


def test_who_says_goodbye_gets_no_more_messages() -> None:
    rig = Rig()
    producer, consumer = Client(rig), Client(rig)
    consumer.subscribe()
    consumer.say("DISCONNECT", {"receipt": "bye"})
    producer.send(b"for somebody else", persistent="true")
    rig.turn()
    assert kinds(consumer.hear()) == ["RECEIPT"]
    assert consumer.session.closing
    assert rig.queue("q").count == 1


@pytest.mark.parametrize(
    ("command", "headers"),
    [
        ("SUBSCRIBE", {"id": "1", "destination": "/queue/q", "ack": "maybe"}),
        ("SUBSCRIBE", {"destination": "/queue/q"}),
        ("CONNECT", {}),
    ],
)
def test_an_error_that_closes_names_the_frame_too(command: str, headers: dict[str, str]) -> None:
    client = Client(Rig())
    client.say(command, {**headers, "receipt": "17"})
    (error,) = client.hear()
    assert (error.command, error.headers["receipt-id"]) == ("ERROR", "17")
    assert client.session.closing
    assert client.session.describe()["refused"]


@pytest.mark.parametrize(
    "headers",
    [
        {"expires": "9" * 30},
        {"expires": "²"},
        {"priority": "1_0"},
        {"timestamp": "9" * 5000},
        {"JMSXGroupID": "g", "JMSXGroupSeq": "99999999999"},
        {"destination-type": "é"},
    ],
)
def test_numbers_that_nobody_means_are_refused_and_nothing_is_taken(headers: dict[str, str]) -> None:
    rig = Rig()
    client = Client(rig)
    client.say("SEND", {"destination": "/queue/q", "persistent": "true", "receipt": "1", **headers}, b"x")
    rig.turn()
    (error,) = client.hear()
    assert (error.command, error.headers["receipt-id"]) == ("ERROR", "1")
    assert not client.session.closing
    assert "q" not in rig.broker.table.queues or rig.queue("q").count == 0


def test_octets_that_are_no_text_close_the_connection() -> None:
    for name in (b"destination-type", b"transaction", b"expires"):
        client = Client(Rig())
        client.feed(b"SEND\ndestination:/queue/q\n" + name + b":\xff\xfe\n\nx\0")
        assert kinds(client.hear()) == ["ERROR"]
        assert client.session.closing


# -- heart-beats ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("0,0", "0,0"),
        ("1000,2000", "2000,1000"),
        ("10,0", "0,500"),
        ("0,10", "500,0"),
        ("99999999999,99999999999", "2147483648,2147483648"),
        (" 1000 , 2000 ", "2000,1000"),
    ],
)
def test_the_agreement(asked: str, answer: str) -> None:
    assert Client(Rig(), heart_beat=asked).connected.headers["heart-beat"] == answer


@pytest.mark.parametrize("asked", ["1", "a,b", "-1,0", "²,0", "1,2,3", "", "1.5,0"])
def test_what_is_no_agreement_closes(asked: str) -> None:
    client = Client(Rig(), heart_beat=asked)
    assert client.connected.command == "ERROR"
    assert client.session.closing


def test_beats_go_out_in_time_and_a_silent_peer_is_cut_off_after_twice_its_interval() -> None:
    rig = Rig()
    client = Client(rig, heart_beat="1000,2000")
    start = rig.now
    assert client.session.deadline() == start + 1800 * MILLISECOND
    rig.wait(1800)
    client.session.advance(rig.now)
    assert client.session.outgoing() == b"\n"
    assert client.session.deadline() == start + 2 * SECOND
    rig.wait(200)
    client.session.advance(rig.now)
    (error,) = client.hear()
    assert "nothing came for 2000 ms" in error.headers["message"]
    assert client.session.closing


def test_silence_does_not_count_while_the_broker_does_not_read() -> None:
    rig = Rig(full="BLOCK", max_octets="2000")
    client = Client(rig, heart_beat="1000,0")
    while client.session.readable:
        client.send(bytes(900))
    rig.wait(10_000)
    assert client.session.deadline() > rig.now
    client.session.advance(rig.now)
    assert not client.session.closing
    rig.queue("q").taking.purge()
    rig.turn()
    assert client.session.readable
    assert client.session.deadline() == rig.now + 2 * SECOND


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_the_place_for_answers_reaches_a_reader_of_any_version_whole(version: str) -> None:
    rig = Rig()
    asking = Client(rig, version)
    asking.subscribe("/temp-queue/answers")
    (receipt,) = asking.send(b"?", reply_to="/temp-queue/answers", colour="red")
    assert receipt.command == "RECEIPT"
    for reader in ("1.0", "1.1", "1.2"):
        answering = Client(rig, reader)
        (frame,) = answering.subscribe(ack="client")
        assert frame.headers["colour"] == "red"
        place = frame.headers["reply-to"]
        assert "\\" not in place
        answering.send(b"!", place)
        assert asking.hear()[-1].body == b"!"
        answering.cut()


def test_a_connection_is_told_of_once_when_it_comes_and_once_when_it_is_gone() -> None:
    rig = Rig()
    client = Client(rig, client_id="me")
    client.subscribe()
    told = rig.notices.of("connection.opened")
    assert told == [(client.session.peer, {"protocol": "stomp", "client": "me", "user": ""})]
    client.cut()
    client.cut()
    assert rig.notices.of("connection.closed") == told
    assert [fact.name for fact in rig.notices.facts][-2:] == ["consumer.detached", "connection.closed"]


@pytest.mark.parametrize("first", [8, 97, 996, 1_994, 9_997, 999_996, 123_455_997])
@pytest.mark.parametrize("ack", ["auto", "client"])
def test_each_message_says_its_number_wherever_digits_are_added(first: int, ack: str) -> None:
    rig = Rig()
    rig.broker.ids.number = first
    client = Client(rig)
    for place in ("/queue/q", "/topic/t"):
        client.say("SUBSCRIBE", {"id": place, "destination": place, "ack": ack})
    for _ in range(6):
        client.say("SEND", {"destination": "/queue/q"}, b"x")
        client.say("SEND", {"destination": "/topic/t"}, b"x")
    prefix = rig.broker.ids.node.message_prefix
    got = [frame.headers["message-id"] for frame in client.hear()]
    assert got == [f"{prefix}{first + at}" for at in range(1, 13)]


def test_a_connection_is_one_session_once_it_is_let_in() -> None:
    rig = Rig()
    for _ in range(3):
        Client(rig)
    StompSession(Shell(), rig.broker, StompOptions(), 99, "silent")
    assert rig.broker.access.counts.sessions == 3
