"""Messages read again from the files of a journal: which are found, and where a file makes no sense."""

from __future__ import annotations

import pytest

from entrepot.base.errors import StorageError
from entrepot.journal import retained
from entrepot.journal.keeping import is_written
from entrepot.journal.retained import Archive, Extent, Scan
from journals import World, message

RESERVED = 16
QUEUE = 20


class Octets:
    def __init__(self, octets: bytes | None) -> None:
        self._octets = octets

    def done(self) -> bool:
        return True

    def octets(self) -> bytes:
        if self._octets is None:
            raise StorageError("gone")
        return self._octets


class Files(Archive):
    """Files in memory."""

    def __init__(self, world: World) -> None:
        self.files = {name: world.disk.read(name, 0, world.disk.size(name)) for name in world.disk.names()}

    def extents(self) -> list[Extent]:
        return [Extent(name, 0) for name in sorted(self.files) if is_written(name)]

    def fetch(self, name: str, offset: int, length: int) -> Octets:
        found = self.files.get(name)
        return Octets(None if found is None else found[offset : offset + length])

    def report(self) -> dict[str, object]:
        return {}


def store(world: World, number: int, *queues: int, size: int = 100, durable: bool = True, address: str = "Q") -> None:
    made = message(number, size, durable=durable)
    made.address = address
    world.journal.store(made, list(queues))


def numbers(files: Files, address: str = "Q") -> tuple[list[int], list[str]]:
    scan = Scan(files, files.extents(), RESERVED)
    return [int(each.number) for each in scan.messages(address) if each is not None], scan.passed


def test_what_is_for_an_address_and_was_sent_is_found() -> None:
    world = World(segment_bytes=1 << 16)
    store(world, 1, QUEUE)
    store(world, 2, 2)  # of a branch that is prepared
    store(world, 3, QUEUE, address="Qs")
    store(world, 4, 1, QUEUE)
    paged = message(5)
    paged.address = "Q"
    world.journal.page(paged, [QUEUE])
    world.journal.settle(1, QUEUE)
    store(world, 6, QUEUE + 1)
    world.confirm()
    assert numbers(Files(world)) == ([1, 4, 6], [])
    assert numbers(Files(world), "Qs") == ([3], [])


@pytest.mark.parametrize("read", [64, 500, 4096, 1 << 20])
def test_batches_of_any_length_are_found_however_much_is_read_at_once(
    monkeypatch: pytest.MonkeyPatch, read: int
) -> None:
    monkeypatch.setattr(retained, "READ", read)
    world = World(segment_bytes=4096)
    for number in range(1, 80):
        store(world, number, QUEUE, size=number * number % 3000)
        if number % 3 == 0:
            world.confirm()
    world.confirm()
    files = Files(world)
    assert len(files.extents()) > 3
    assert numbers(files) == (list(range(1, 80)), [])


def bracket(world: World, first: int, last: int, *, end: bool) -> None:
    parts = world.journal.parts
    parts.begin({9: True})
    for number in range(first, last + 1):
        parts.enter()
        store(world, number, QUEUE, size=1500)
        parts.leave()
    if end:
        parts.enter()
        parts.end()


def test_a_large_transaction_counts_when_its_end_is_there_in_a_later_file_too() -> None:
    world = World(segment_bytes=4096)
    store(world, 1, QUEUE)
    bracket(world, 2, 10, end=True)
    store(world, 11, QUEUE)
    world.confirm()
    files = Files(world)
    assert len(files.extents()) > 2
    assert numbers(files) == (list(range(1, 12)), [])


def test_a_large_transaction_without_its_end_never_was() -> None:
    world = World(segment_bytes=4096)
    store(world, 1, QUEUE)
    bracket(world, 2, 10, end=False)
    store(world, 11, QUEUE)
    world.confirm()
    files = Files(world)
    assert numbers(files) == ([1, 11], [])


def test_damage_ends_a_file_and_not_the_others() -> None:
    world = World(segment_bytes=4096)
    for number in range(1, 40):
        store(world, number, QUEUE, size=300)
        world.confirm()
    files = Files(world)
    first, second, third = [one.name for one in files.extents()][:3]
    whole, _ = numbers(files)
    octets = bytearray(files.files[first])
    octets[2000] ^= 1
    files.files[first] = bytes(octets)
    del files.files[second]
    files.extents = lambda: [Extent(name, 0) for name in sorted([*files.files, second])]  # type: ignore[method-assign]
    found, passed = numbers(files)
    assert 0 < len(found) < len(whole)
    assert found[-1] == whole[-1]
    assert third not in str(passed)
    assert len(passed) == 2
    assert passed[1] == "gone"


def test_a_file_is_read_up_to_its_end() -> None:
    world = World(segment_bytes=1 << 16)
    ends = []
    for number in range(1, 4):
        store(world, number, QUEUE)
        world.confirm()
        ends.append(int(world.journal.tail.active.end))
    files = Files(world)
    name = files.extents()[0].name
    for count, end in enumerate(ends, 1):
        scan = Scan(files, [Extent(name, 0, end)], RESERVED)
        assert len([each for each in scan.messages("Q") if each is not None]) == count


def test_what_was_staged_is_found_where_it_was_published_and_nothing_else_of_it() -> None:
    world = World(segment_bytes=1500)
    for number in range(1, 31):
        store(world, number, 7, address="Q" if number % 3 else "P")
        world.confirm()
    store(world, 31, QUEUE)
    assert world.journal.move(5, 20, 7, QUEUE, 101)
    store(world, 121, QUEUE)
    for number in range(101, 121):
        world.journal.settle(number, QUEUE)
    world.confirm()
    files = Files(world)
    assert numbers(files) == ([31, *[96 + old for old in range(5, 25) if old % 3], 121], [])
    assert numbers(files, "P") == ([96 + old for old in range(5, 25) if old % 3 == 0], [])


def test_of_what_was_staged_nothing_is_remembered_that_was_published() -> None:
    """One batch, published by three records: the middle first. What is looked through for the next one stays small."""
    world = World()
    for number in range(1, 31):
        store(world, number, 7)
    world.confirm()
    for first, count, fresh in ((11, 10, 101), (1, 10, 111), (21, 5, 121)):
        assert world.journal.move(first, count, 7, QUEUE, fresh)
        world.confirm()
    files = Files(world)
    scan = Scan(files, files.extents(), RESERVED)
    found = [int(each.number) for each in scan.messages("Q") if each is not None]
    assert found == list(range(101, 126))
    assert [(one.low, one.high) for one in scan._kept] == [(11, 30)]

    for number in range(31, 51):
        store(world, number, 7)
        world.confirm()
        assert world.journal.move(number, 1, 7, QUEUE, 200 + number)
        world.confirm()
    files = Files(world)
    scan = Scan(files, files.extents(), RESERVED)
    assert len([each for each in scan.messages("Q") if each is not None]) == 45
    assert [(one.low, one.high) for one in scan._kept] == [(11, 30)]
