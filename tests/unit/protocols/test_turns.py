"""One client's flood and another one's frame, over turns as both worlds have them."""

from __future__ import annotations

import itertools

import pytest

from entrepot.protocols.openwire.acceptor import Acceptor
from entrepot.protocols.openwire.commands import ActiveMQQueue
from entrepot.protocols.session import Session, Shell
from entrepot.protocols.stomp.options import StompOptions
from entrepot.protocols.stomp.server import StompSession
from entrepot.protocols.turns import WRITES_MAX, TurnCore
from kit import Rig

from .openwire.wired import Hub

QUEUE = ActiveMQQueue("q")

READERS = 20


class Plug(Shell):
    """A connection without a socket: ``said`` is what was written, ``turn`` in which turn each piece was."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.said: list[tuple[int, bytes]] = []
        self.noted = False
        house.made += 1
        self.session: Session = StompSession(self, house.rig.broker, StompOptions(), house.made, f"peer-{house.made}")
        self.hear(b"CONNECT\naccept-version:1.2\nhost:x\n\n\0")

    def dirty(self) -> None:
        if not self.noted:
            self.noted = True
            self.house.course.note(self)

    def go_on(self) -> None:
        self.session.resume(self.house.rig.now)

    def flush(self) -> None:
        self.noted = False
        data = self.session.outgoing()
        if data:
            self.said.append((self.house.turns, data))

    def hear(self, data: bytes) -> None:
        self.house.turn(lambda: self.session.receive(data, self.house.rig.now))

    @property
    def text(self) -> bytes:
        return b"".join(data for _, data in self.said)


class House:
    """A broker and its turns."""

    def __init__(self) -> None:
        self.rig = Rig(disk=False)
        self.course = TurnCore(self.rig.broker)
        self.made = self.turns = 0

    def turn(self, action) -> None:  # type: ignore[no-untyped-def]
        self.turns += 1
        self.course.begin(self.rig.now, self.rig.wall)
        action()
        self.course.settle()
        self.course.write()
        self.course.finish()

    def rest(self) -> int:
        """Have turns until nothing is left; return how many."""
        count = 0
        while self.course.more():
            self.turn(self.course.go_on)
            count += 1
        return count


def sends(count: int, destination: bytes = b"/topic/t") -> bytes:
    frames = [b"SEND\ndestination:%s\n\n%d\0" % (destination, number) for number in range(count)]
    return b"".join(frames)


def test_a_flood_stops_in_the_middle_of_a_chunk_and_others_are_served_in_between() -> None:
    house = House()
    readers = [Plug(house) for _ in range(READERS)]
    for reader in readers:
        reader.hear(b"SUBSCRIBE\nid:1\ndestination:/topic/t\n\n\0")
    flooder, other = Plug(house), Plug(house)
    house.rig.broker.effort.units = 400
    flooder.hear(sends(300))
    assert flooder.session.unfinished
    reached = readers[0].text.count(b"MESSAGE\n")
    assert 0 < reached < 50
    other.hear(b"SEND\ndestination:/queue/q\nreceipt:r\n\nx\0")
    assert other.said[-1] == (
        house.turns,
        b"RECEIPT\nreceipt-id:r\n\n\0\n",
    )  # before the flood is over
    assert readers[0].text.count(b"MESSAGE\n") == reached
    assert house.rest() > 10
    assert not flooder.session.unfinished
    for reader in readers:
        bodies = [frame.rpartition(b"\n")[2] for frame in reader.text.split(b"\0") if b"MESSAGE\n" in frame]
        assert bodies == [b"%d" % number for number in range(300)]


def test_two_floods_take_turns() -> None:
    house = House()
    first, second, reader = Plug(house), Plug(house), Plug(house)
    reader.hear(b"SUBSCRIBE\nid:1\ndestination:/queue/>\n\n\0")
    house.rig.broker.effort.units = 30
    first.hear(sends(200, b"/queue/first"))
    second.hear(sends(200, b"/queue/second"))
    house.rest()
    order = [b"first" in frame for frame in reader.text.split(b"\0") if b"MESSAGE\n" in frame]
    assert len(order) == 400
    changes = sum(1 for one, other in itertools.pairwise(order) if one is not other)
    assert changes > 20


def test_many_writes_are_spread_over_turns_and_what_comes_meanwhile_joins_them() -> None:
    house = House()
    readers = [Plug(house) for _ in range(2 * WRITES_MAX + 10)]
    for reader in readers:
        reader.hear(b"SUBSCRIBE\nid:1\ndestination:/topic/t\n\n\0")
    sender, other = Plug(house), Plug(house)
    sender.hear(sends(1))
    began = house.turns
    assert sum(1 for reader in readers if b"MESSAGE\n" in reader.text) == WRITES_MAX
    other.hear(b"SEND\ndestination:/queue/q\nreceipt:r\n\nx\0")
    assert other.said[-1][0] == house.turns  # it does not stand behind a thousand others
    house.rest()
    assert all(reader.text.count(b"MESSAGE\n") == 1 for reader in readers)
    assert {turn for reader in readers for turn, data in reader.said if b"MESSAGE\n" in data} == {
        began,
        began + 2,
        began + 3,
    }


def test_the_end_of_a_connection_ends_its_rest() -> None:
    house = House()
    flooder = Plug(house)
    house.rig.broker.effort.units = 10
    flooder.hear(sends(100, b"/queue/q"))
    count = house.rig.queue("q").count
    house.turn(lambda: flooder.session.detach("cut", house.rig.now))
    house.rest()
    assert house.rig.queue("q").count == count
    assert house.rig.broker.effort.waits() is False


@pytest.mark.parametrize("units", [1, 7, 10_000])
def test_openwire_commands_wait_in_order(units: int) -> None:
    hub = Hub(Rig(disk=False))
    assert isinstance(hub.acceptor, Acceptor)
    client, reader = hub.client(), hub.client()
    hub.rig.broker.effort.units = units
    octets = b"".join(client.encoder.encode(client.text(QUEUE, str(number))) for number in range(50))
    hub.rig.broker.effort.begin()
    client.session.receive(octets, hub.rig.now)
    assert client.session.unfinished == (units < 100)
    while client.session.unfinished:
        hub.rig.broker.effort.go_on()
        client.session.resume(hub.rig.now)
    hub.rig.broker.effort.units = 10_000
    hub.rig.broker.effort.begin()
    reader.consume(QUEUE)
    assert reader.texts() == [str(number) for number in range(50)]
