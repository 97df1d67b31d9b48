"""READ with ``form:located`` over a whole session: who is told what, and what is where it was told to be."""

from __future__ import annotations

import itertools

import pytest

from entrepot.protocols.stomp.frames import Frame
from entrepot.protocols.stomp.located import FORM, Locations
from entrepot.protocols.stomp.locating import PLACES_MAX
from entrepot.simulation.disk import SimulatedDisk
from entrepot.simulation.placed import found_at
from kit import Rig

from .test_leasing import ORDERS, attached
from .test_server import BODY, Client


class Beside(Client):
    """A client on the broker's machine."""

    def __init__(self, rig: Rig) -> None:
        self.beside = True
        super().__init__(rig)


def filled(rig: Rig, count: int) -> None:
    producer = Client(rig)
    for number in range(count):
        producer.say("SEND", {"destination": "/queue/q", "persistent": "true", "colour": "r:d"}, b"%d" % number)
    rig.sync()


def told(reader: Client, epoch: str = "1", **more: str) -> list[Frame]:
    return reader.ask("READ", **{**ORDERS, **more}, epoch=epoch, form=FORM, receipt="r")


def attached_beside(rig: Rig) -> Beside:
    attached(rig)
    return Beside(rig)


def bodies_at(rig: Rig, frame: Frame) -> dict[int, bytes]:
    assert isinstance(rig.disk, SimulatedDisk)
    return {position: body for position, _, body in found_at(rig.disk, frame)}  # type: ignore[arg-type]


def test_a_reader_beside_the_broker_is_told_where_messages_are() -> None:
    rig = Rig()
    filled(rig, 50)
    reader = attached_beside(rig)
    frame, receipt = told(reader)
    assert (frame.headers["position"], frame.headers["count"], receipt.headers["count"]) == ("0", "50", "50")
    assert bodies_at(rig, frame) == {number: b"%d" % number for number in range(50)}
    known = {
        int(each.headers["position"]): each.headers
        for each in reader.ask("READ", **ORDERS, epoch="1", receipt="m")[:-1]
    }
    assert rig.disk is not None
    for position, headers, _ in found_at(rig.disk, frame):  # type: ignore[arg-type]
        assert headers["message-id"] == known[position]["message-id"]
        assert headers["timestamp"] == known[position]["timestamp"]
        assert headers["colour"] == "r:d"
    frame, receipt = told(reader, start="7", end="9")
    assert bodies_at(rig, frame) == {7: b"7", 8: b"8"}
    assert rig.broker.leases.held["q", "g"].located == 52
    rig.restart()
    frame, _ = told(Beside(rig))
    assert bodies_at(rig, frame) == {number: b"%d" % number for number in range(50)}


def test_one_answer_tells_so_many_and_no_more() -> None:
    rig = Rig()
    rig.thorough = False
    filled(rig, PLACES_MAX + 10)
    reader = attached_beside(rig)
    frame, receipt = told(reader)
    assert (frame.headers["count"], receipt.headers["count"]) == (str(PLACES_MAX), str(PLACES_MAX))
    frame, receipt = told(reader, start=str(PLACES_MAX))
    assert list(bodies_at(rig, frame)) == list(range(PLACES_MAX, PLACES_MAX + 10))


def test_who_is_elsewhere_is_told_nothing_and_reads_as_ever() -> None:
    rig = Rig()
    filled(rig, 3)
    reader = attached(rig)
    (receipt,) = told(reader)
    assert (receipt.command, receipt.headers["count"]) == ("RECEIPT", "0")
    assert rig.broker.leases.held["q", "g"].located == 0
    assert len(reader.ask("READ", **ORDERS, epoch="1", form="batch", receipt="b")) == 2


def test_a_broker_without_a_disk_tells_nothing() -> None:
    rig = Rig(disk=False)
    filled(rig, 3)
    (receipt,) = told(attached_beside(rig))
    assert receipt.headers["count"] == "0"


def test_what_is_not_on_disk_yet_is_not_told_of() -> None:
    rig = Rig()
    filled(rig, 3)
    reader = attached_beside(rig)
    writer = Client(rig)
    for client in (writer, reader):  # one turn: what comes is claimed and told of before the disk has it
        client.session.outgoing()
    writer.say("SEND", {"destination": "/queue/q", "persistent": "true"}, b"3")
    reader.say("CLAIM", {**ORDERS, "epoch": "1", "receipt": "c"})
    reader.say("READ", {**ORDERS, "epoch": "1", "form": FORM, "end": "4", "receipt": "r"})
    (frame,) = reader.hear()
    assert list(bodies_at(rig, frame)) == [0, 1, 2]
    rig.turn()
    assert [each.headers.get("count") for each in reader.hear()] == [None, "3"]
    frame, _ = told(reader)
    assert list(bodies_at(rig, frame)) == [0, 1, 2, 3]


def test_the_rules_of_reading_hold_as_ever() -> None:
    rig = Rig()
    filled(rig, 3)
    reader = attached_beside(rig)
    (error,) = told(reader, epoch="7")
    assert error.headers["code"] == "ENT-3028"
    (error,) = told(reader, end="9")
    assert error.headers["code"] == "ENT-3008"
    reader.ask("SETTLE", **ORDERS, epoch="1", end="2", receipt="s")
    frame, _ = told(reader)
    assert (frame.headers["position"], frame.headers["count"]) == ("2", "1")
    (error,) = told(reader, start="0")
    assert error.headers["code"] == "ENT-3008"
    (receipt,) = told(reader, start="3")
    assert receipt.headers["count"] == "0"


def test_a_large_body_and_what_was_delivered_before_are_told_of_as_they_are() -> None:
    rig = Rig()
    Client(rig).send(b"small", persistent="true")
    Client(rig).send(BODY, persistent="true")
    first = Client(rig)
    first.subscribe(ack="client-individual")
    first.cut()
    reader = attached_beside(rig)
    frame, receipt = told(reader)
    assert receipt.headers["count"] == "2"
    places = Locations(frame.body)
    assert [int(places.deliveries(row)) for row in range(2)] == [1, 1]
    assert bodies_at(rig, frame) == {0: b"small"}, "the other is no plain record: its reader has to ask for it"


@pytest.mark.parametrize("topic", [False, True])
def test_addresses_are_said_with_what_they_are_of(topic: bool) -> None:
    rig = Rig()
    shard = {"topic": "/topic/news", "group": "g"} if topic else ORDERS
    reader = Beside(rig)
    epoch = reader.ask("ATTACH", **shard, receipt="a")[0].headers["epoch"]
    Client(rig).send(b"x", shard.get("topic", "/queue/q"), persistent="true")
    reader.ask("CLAIM", **shard, epoch=epoch, receipt="b")
    frame, _ = reader.ask("READ", **shard, epoch=epoch, form=FORM, receipt="c")
    assert frame.headers["kind"] == ("/topic/" if topic else "/queue/")
    assert bodies_at(rig, frame) == {0: b"x"}


def test_a_file_is_named_once_however_often_the_range_comes_back_to_it() -> None:
    rig = Rig(segment_bytes=4096)
    producer = Client(rig)
    for number in range(60):  # what is urgent is claimed first, and lies among the others
        headers = {"destination": "/queue/q", "persistent": "true", "priority": str(4 + number % 2)}
        producer.say("SEND", headers, b"%d" % number + b"." * 300)
        rig.sync()
    frame, _ = told(attached_beside(rig))
    places = Locations(frame.body)
    used = [int(places.file(row)) for row in range(60)]
    assert len(places.files) == len({each.path for each in places.files}) == len(set(used)) > 3
    assert sum(a != b for a, b in itertools.pairwise(used)) > len(places.files)
    assert [body.rstrip(b".") for body in bodies_at(rig, frame).values()] == [
        *(b"%d" % number for number in range(1, 60, 2)),
        *(b"%d" % number for number in range(0, 60, 2)),
    ]


@pytest.mark.parametrize("there", [True, False])
def test_to_look_for_places_counts_as_work_whether_there_are_any_or_not(there: bool) -> None:
    rig = Rig()
    rig.thorough = False
    filled(rig, 2_000)
    reader = attached_beside(rig)
    if not there:
        rig.broker.journal.tail.whole = 1 << 60  # as while a large transaction is not on disk
    effort = rig.broker.effort
    effort.begin()
    reader.say("READ", {**ORDERS, "epoch": "1", "form": FORM, "receipt": "r"})
    assert effort.spent >= 250
    rig.broker.journal.tail.whole = 0
    rig.turn()
    found = reader.hear()
    assert [frame.headers["count"] for frame in found if frame.command == "RECEIPT"] == ["2000" if there else "0"]
