"""What leaves over a core bridge, against the disk of this broker."""

from __future__ import annotations

from entrepot.base.errors import StorageFull
from entrepot.protocols.artemis.linking.shelf import Parcel, Sender, Shelf
from entrepot.protocols.artemis.packets import Send
from entrepot.protocols.outflow import Outflow
from journals import World, message


class Written(Sender):
    """Remembers what left, and why the rest did not."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.why: list[str] = []
        self.shelf: Shelf | None = None

    def write(self, parcel: Parcel) -> None:
        self.numbers.append(int(parcel.number))

    def spoiled(self, why: str) -> None:
        self.why.append(why)
        assert self.shelf is not None
        self.shelf.clear()


class Body(Outflow):
    def __init__(self) -> None:
        super().__init__(0, b"", b"")
        self.let_go = False

    def finish(self, gone: bool) -> None:
        self.let_go = True


class Place:
    def __init__(self) -> None:
        self.world = World()
        self.written = Written()
        self.shelf = Shelf(self.world.journal, self.written)
        self.written.shelf = self.shelf

    def put(self, number: int, *, durable: bool = True, body: Outflow | None = None) -> None:
        if durable:
            self.world.journal.store(message(number), [1])
        self.shelf.pass_on(Parcel(number, Send(), 1, body), number)


def test_what_is_on_disk_leaves_at_once() -> None:
    place = Place()
    place.world.journal.store(message(1), [1])
    place.world.confirm()
    place.shelf.pass_on(Parcel(1, Send(), 1, None), 1)
    assert place.written.numbers == [1]
    assert not place.world.journal.flush(), "and asks for no sync"


def test_what_is_not_waits_and_what_is_behind_it_keeps_its_place() -> None:
    place = Place()
    place.put(1)
    place.put(2, durable=False)
    place.world.journal.flush()  # a sync of 1
    place.put(3)
    place.put(4, durable=False)
    assert place.written.numbers == []
    place.world.timeline.run()
    assert place.written.numbers[:2] == [1, 2]
    place.world.settle_down()
    assert place.written.numbers == [1, 2, 3, 4]
    assert not place.shelf.parcels


def test_what_is_not_durable_waits_for_nothing() -> None:
    place = Place()
    place.put(1, durable=False)
    assert place.written.numbers == [1]


def test_without_a_connection_nothing_is_kept() -> None:
    place = Place()
    body = Body()
    place.put(1, body=body)
    place.shelf.clear()
    assert body.let_go
    place.put(2)  # over the next connection
    place.world.settle_down()
    assert place.written.numbers == [2]


def test_a_full_disk_ends_the_connection_once() -> None:
    place = Place()
    place.put(1)
    place.put(2)
    place.world.journal.failed(StorageFull("no space is left"))
    assert place.written.why == ["the disk does not take it: no space is left"]
    assert not place.written.numbers
