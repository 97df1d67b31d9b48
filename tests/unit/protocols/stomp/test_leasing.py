"""Leases and stages over a whole session: back-pressure, large bodies, several connections, and how they end."""

from __future__ import annotations

import pytest

from entrepot.protocols.stomp.frames import Frame
from entrepot.protocols.stomp.leasing import PAGE_OCTETS
from entrepot.protocols.stomp.ranges import OCTETS, PERSISTENT, Range, decode, headers_of
from kit import Rig

from .test_server import BODY, Client, blobs, bodies, kinds

ORDERS = {"queue": "/queue/q", "group": "g"}


def attached(rig: Rig, count: str = "100000") -> Client:
    client = Client(rig)
    client.ask("ATTACH", **ORDERS, receipt="a")
    client.ask("CLAIM", **ORDERS, epoch="1", max=count, receipt="b")
    return client


def spread(found: list[Frame]) -> tuple[Range, list[Frame]]:
    """Return the messages of all batches, and the other frames."""
    read = Range()
    others: list[Frame] = []
    for frame in found:
        if frame.headers.get("form") == "batch":
            before = len(read)
            decode(frame.body, read)
            assert len(read) - before == int(frame.headers["count"])
            assert read.positions[before] == int(frame.headers["position"])
        else:
            others.append(frame)
    return read, others


@pytest.mark.parametrize("disk", [True, False])
def test_a_wide_range_is_written_as_fast_as_its_reader_reads(disk: bool) -> None:
    rig = Rig(disk=disk)
    producer = Client(rig)
    for number in range(3000):
        producer.say("SEND", {"destination": "/queue/q", "persistent": "true"}, b"%04d" % number + b"." * 950)
    rig.turn()
    reader = attached(rig)
    reader.session.writable(False, rig.now)
    for form in ("batch", "message"):
        reader.say("READ", {**ORDERS, "epoch": "1", "form": form, "receipt": f"r-{form}"})
        assert len(reader.session.writer) < 2 * PAGE_OCTETS
    # what is settled or fenced while it waits is refused, not skipped
    reader.say("READ", {**ORDERS, "epoch": "1", "start": "0", "end": "1", "receipt": "late"})
    other = Client(rig)
    assert kinds(other.ask("SETTLE", **ORDERS, epoch="1", end="0", receipt="s")) == ["RECEIPT"]
    reader.session.writable(True, rig.now)
    peak = 0
    found: list[Frame] = []
    while more := reader.hear(1):
        found += more
        peak = max(peak, len(reader.session.writer))
        rig.turn()
    assert peak < 4 * PAGE_OCTETS
    read, others = spread(found)
    assert [int(body[:4]) for body in read.bodies] == list(range(3000)) == read.positions
    assert [int(body[:4]) for body in bodies(others)] == [*range(3000), 0]
    assert [frame.headers["receipt-id"] for frame in others if frame.command == "RECEIPT"] == [
        "r-batch",
        "r-message",
        "late",
    ]
    assert set(read.flags) == {PERSISTENT}


def test_a_reader_that_is_replaced_in_the_middle_is_told() -> None:
    rig = Rig()
    producer = Client(rig)
    for _ in range(2000):
        producer.say("SEND", {"destination": "/queue/q"}, b"." * 950)
    reader = attached(rig)
    reader.say("READ", {**ORDERS, "epoch": "1", "form": "batch", "receipt": "r"})
    Client(rig).ask("ATTACH", **ORDERS, receipt="x")
    read, others = spread(reader.hear())
    assert 0 < len(read) < 2000
    assert [(frame.command, frame.headers["receipt-id"]) for frame in others] == [("ERROR", "r")]


def test_bodies_from_disk_come_in_their_place_between_batches() -> None:
    rig = Rig()
    producer = Client(rig)
    wanted = [b"a", b"b", BODY, b"c", BODY + b"2", BODY + b"3", b"d"]
    for body in wanted:
        producer.send(body, persistent="true", colour="r:d")
    reader = attached(rig)
    for _ in range(2):
        found = reader.ask("READ", **ORDERS, epoch="1", form="batch", receipt="c")
        seen: dict[int, bytes] = {}
        for frame in found:
            if frame.headers.get("form") == "batch":
                read = decode(frame.body)
                seen.update(zip(read.positions, read.bodies, strict=True))
                assert {headers_of(lines)["colour"] for lines in read.headers} == {"r:d"}
                assert set(read.flags) == {PERSISTENT | OCTETS}
            elif frame.command == "MESSAGE":
                seen[int(frame.headers["position"])] = frame.body
                assert frame.headers["colour"] == "r:d"
        assert list(seen.items()) == list(enumerate(wanted))
        assert found[-1].headers["count"] == "7"


def test_what_was_delivered_before_is_marked_and_what_the_broker_added_is_a_header() -> None:
    rig = Rig()
    producer = Client(rig)
    producer.send(b"x", persistent="true", colour="red")
    consumer = Client(rig)
    (message,) = consumer.subscribe(ack="client-individual")
    consumer.ask("NACK", id=message.headers["ack"])
    reader = Client(rig)
    letters = {"queue": "/queue/ActiveMQ.DLQ", "group": "g"}
    reader.ask("ATTACH", **letters, receipt="a")
    reader.ask("CLAIM", **letters, epoch="1", receipt="b")
    read, _ = spread(reader.ask("READ", **letters, epoch="1", form="batch", receipt="c"))
    headers = headers_of(read.headers[0])
    assert (headers["colour"], headers["original-destination"], headers["_AMQ_ORIG_QUEUE"]) == ("red", "q", "q")
    reader.ask("RELEASE", **letters, receipt="d")
    reader.ask("ATTACH", **letters, receipt="e")
    reader.ask("CLAIM", **letters, epoch="3", receipt="f")
    read, _ = spread(reader.ask("READ", **letters, epoch="3", form="batch", receipt="g"))
    assert read.deliveries == [1]


def test_large_bodies_are_staged_and_published_and_leave_nothing_behind() -> None:
    rig = Rig()
    writer = Client(rig)
    for part in ("a", "b"):
        writer.ask("STAGE", sink="s", batch="0", part=part, receipt="1")
        assert kinds(writer.send(BODY, persistent="true", stage=part)) == ["RECEIPT"]
        writer.send(b"small " + part.encode(), persistent="true", stage=part)
        assert writer.ask("STAGED", sink="s", batch="0", part=part, receipt="2")[0].headers["count"] == "2"
    assert len(blobs(rig)) == 2
    rig.restart("crash")
    writer = Client(rig)
    assert writer.ask("PUBLISH", sink="s", batch="0", parts="a", receipt="3")[0].headers["count"] == "2"
    rig.turn()
    assert len(blobs(rig)) == 1
    assert bodies(Client(rig).subscribe()) == [BODY, b"small a"]
    rig.turn()
    assert blobs(rig) == []


def test_a_stage_stops_its_writer_when_there_is_no_room_and_goes_on() -> None:
    rig = Rig(full="BLOCK", max_octets="2000")
    writer = Client(rig)
    writer.ask("STAGE", sink="s", batch="0", part="a", receipt="1")
    for _ in range(4):
        Client(rig).send(b"." * 500)
    assert kinds(writer.send(b"held up", stage="a")) == ["RECEIPT"]
    assert not writer.session.readable
    reader = Client(rig)
    reader.subscribe()
    rig.turn()
    assert writer.session.readable
    assert writer.ask("STAGED", sink="s", batch="0", part="a", receipt="2")[0].headers["count"] == "1"


def test_receipts_are_asked_for_by_nobody_and_nothing_breaks() -> None:
    rig = Rig()
    client = Client(rig)
    assert client.ask("ATTACH", **ORDERS) == []
    assert client.ask("CLAIM", **ORDERS, epoch="1", wait="50") == []
    assert client.ask("STAGE", sink="s", batch="0", part="a") == []
    client.say("SEND", {"destination": "/queue/q", "stage": "a"}, b"x")
    assert client.ask("STAGED", sink="s", batch="0", part="a") == []
    assert client.ask("PUBLISH", sink="s", batch="0", parts="a") == []
    rig.wait(100)
    assert client.hear() == []
    lease = next(iter(rig.broker.leases.held.values()))
    assert lease.tail == 1
    assert lease.queue.stock.watcher is None


def test_a_damaged_record_among_many_is_shown_without_its_body_and_the_others_as_they_are() -> None:
    rig = Rig()
    producer = Client(rig)
    for number in range(1200):
        producer.say("SEND", {"destination": "/queue/q", "persistent": "true"}, b"%04d" % number + b"." * 950)
    rig.turn()
    reader = attached(rig)
    lease = next(iter(rig.broker.leases.held.values()))
    damage(rig, lease.numbers[700])
    found = reader.ask("READ", **ORDERS, epoch="1", form="batch", receipt="r")
    assert "RECEIPT" not in kinds(found), "that it was shown so is not on disk yet"
    rig.turn()
    read, others = spread(found + reader.hear())
    assert read.positions == list(range(1200))
    assert [body[:4] for body in read.bodies] == [b"" if number == 700 else b"%04d" % number for number in range(1200)]
    assert "fails its checksum" in headers_of(read.headers[700])["dlqDeliveryFailureCause"]
    assert [frame.command for frame in others] == ["RECEIPT"]
    assert [position for position in range(1200) if lease.lost.has(position)] == [700]


def damage(rig: Rig, number: int) -> None:
    """Turn the last bit of the body of a message over, on disk."""
    rig.sync()
    assert rig.disk is not None
    index = rig.journal.tail.index
    segment = index.find(number)
    assert segment is not None
    at = int(segment.offsets[index.slot]) + int(segment.lengths[index.slot]) - 2
    octet = rig.disk.read(segment.name, at, 1)
    rig.disk.write(segment.name, at, b"", bytes([octet[0] ^ 1]))


def test_what_is_not_written_yet_is_read_and_what_was_published_has_its_new_name() -> None:
    rig = Rig()
    writer = Client(rig)
    writer.ask("STAGE", sink="s", batch="0", part="a", receipt="1")
    for number in range(5):
        writer.send(b"%d" % number, persistent="true", stage="a")
    writer.ask("STAGED", sink="s", batch="0", part="a", receipt="2")
    writer.ask("PUBLISH", sink="s", batch="0", parts="a", receipt="3")
    writer.send(b"5", persistent="true")
    reader = attached(rig)
    frames = reader.ask("READ", **ORDERS, epoch="1", receipt="c")
    known = [frame.headers["message-id"] for frame in frames if frame.command == "MESSAGE"]
    read, _ = spread(reader.ask("READ", **ORDERS, epoch="1", form="batch", receipt="d"))
    assert (read.ids, read.bodies) == (known, [b"%d" % number for number in range(6)])
    assert len(set(known)) == 6
    for client in (writer, reader):  # one turn: what comes is claimed and read before the disk has it
        client.session.outgoing()
    writer.say("SEND", {"destination": "/queue/q", "persistent": "true"}, b"6")
    reader.say("CLAIM", {**ORDERS, "epoch": "1", "receipt": "e"})
    reader.say("READ", {**ORDERS, "epoch": "1", "form": "batch", "start": "6", "receipt": "f"})
    read, _ = spread(reader.hear())
    assert (read.positions, read.bodies) == ([6], [b"6"])


@pytest.mark.parametrize("size", [1, 80, 900])
def test_a_frame_says_how_long_it_is_however_many_digits_that_takes(size: int) -> None:
    rig = Rig()
    producer = Client(rig)
    for number in range(1030):
        producer.say("SEND", {"destination": "/queue/q"}, b"%04d" % number + b"." * size)
    reader = attached(rig)
    for low, high in ((0, 1030), (3, 12), (0, 101), (1, 1030)):
        found = reader.ask("READ", **ORDERS, epoch="1", form="batch", start=str(low), end=str(high), receipt="r")
        read, others = spread(found)
        assert read.positions == list(range(low, high))
        assert [int(body[:4]) for body in read.bodies] == list(range(low, high))
        for frame in found[:-1]:
            assert not frame.headers["count"].startswith("0")
            assert frame.headers["content-length"] == str(len(frame.body))
        assert [frame.headers["count"] for frame in others] == [str(high - low)]


def test_a_subscription_of_a_topic_is_read_as_what_was_published_there() -> None:
    rig = Rig()
    reader = Client(rig)
    news = {"topic": "/topic/news", "group": "g"}
    epoch = reader.ask("ATTACH", **news, receipt="a")[0].headers["epoch"]
    Client(rig).send(b"x", "/topic/news", persistent="true")
    reader.ask("CLAIM", **news, epoch=epoch, receipt="b")
    read, _ = spread(reader.ask("READ", **news, epoch=epoch, form="batch", receipt="c"))
    assert (read.destinations, read.flags) == (["/topic/news"], [PERSISTENT | OCTETS])


@pytest.mark.parametrize("form", ["batch", "message"])
def test_a_record_that_rotted_since_keeps_its_place_and_says_so(form: str) -> None:
    rig = Rig()
    producer = Client(rig)
    wanted = [b"body-%d" % number + b"." * 50 for number in range(5)]
    for body in wanted:
        producer.send(body, persistent="true")
    attached(rig)
    rig.restart()
    assert rig.disk is not None
    for name in rig.disk.names():
        at = bytes(rig.disk.read(name, 0, rig.disk.size(name))).find(wanted[2])
        if at >= 0:
            rig.disk.medium.damage(name, at)
    reader = Client(rig)
    seen: dict[int, tuple[bytes, dict[str, str]]] = {}
    found = reader.ask("READ", **ORDERS, epoch="1", form=form, receipt="c")
    for frame in found:
        if frame.headers.get("form") == "batch":
            read = decode(frame.body)
            heads = [headers_of(lines) for lines in read.headers]
            seen.update(zip(read.positions, zip(read.bodies, heads, strict=True), strict=True))
        elif frame.command == "MESSAGE":
            seen[int(frame.headers["position"])] = (frame.body, frame.headers)
    assert (found[-1].command, found[-1].headers["count"]) == ("RECEIPT", "5")
    assert [body for body, _ in seen.values()] == [*wanted[:2], b"", *wanted[3:]]
    assert list(seen) == list(range(5))
    _, heads_of_lost = seen[2]
    assert heads_of_lost["entrepotBodyLost"] == "unknown"
    assert "fails its checksum" in heads_of_lost["dlqDeliveryFailureCause"]
    settled = reader.ask("SETTLE", **ORDERS, epoch="1", end="5", receipt="s")
    assert [(frame.command, frame.headers["settled"]) for frame in settled] == [("RECEIPT", "5")]
    (letter,) = Client(rig).subscribe("/queue/ActiveMQ.DLQ")
    assert "fails its checksum" in letter.headers["dlqDeliveryFailureCause"]
