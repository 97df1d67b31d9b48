"""Where records are told to be: only what no crash takes back, and it is what is there."""

from __future__ import annotations

from librt.vecs import vec
from mypy_extensions import i64

from entrepot.journal.locating import Locating
from entrepot.journal.record import RECORD_HEAD, envelope_at
from entrepot.model.message import read_envelope
from journals import World, message, octets_of


def told(world: World, numbers: list[int]) -> dict[int, bytes]:
    """Return what stands where messages are told to be, up to the first that is not told of."""
    places = Locating(world.journal.tail, vec[i64](numbers))
    found: dict[int, bytes] = {}
    for position, number in enumerate(numbers):
        if not places.go_to(position):
            break
        segment = places.segment
        assert segment is not None
        data = world.disk.read(segment.name, int(places.offset), int(places.length))
        assert int(places.number) == number
        found[number] = read_envelope(data, envelope_at(data, RECORD_HEAD)).raw
    return found


def test_only_what_is_on_disk_is_told_of() -> None:
    world = World(segment_bytes=1 << 20)
    numbers = list(range(1, 8))
    for number in numbers[:3]:
        world.journal.store(message(number, 300), [1])
    assert told(world, numbers) == {}, "it is in the open batch"
    world.journal.confirm(world.waiter, b"?")
    world.journal.flush()
    assert told(world, numbers) == {}, "it is written, and the disk has not answered"
    world.settle_down()
    for number in numbers[3:]:
        world.journal.store(message(number, 300), [1])
    assert told(world, numbers) == {number: octets_of(number, 300) for number in numbers[:3]}
    world.confirm()
    assert list(told(world, numbers)) == numbers


def test_it_is_found_in_each_segment_and_what_is_settled_ends_it() -> None:
    world = World(segment_bytes=4096)
    numbers = list(range(1, 61))
    for number in numbers:
        world.journal.store(message(number, 300), [1])
        world.confirm()
    assert len(world.segments()) > 3
    assert told(world, numbers) == {number: octets_of(number, 300) for number in numbers}
    world.journal.settle(30, 1)
    assert list(told(world, numbers)) == numbers[:29]
    assert told(world, [90]) == {}


def test_behind_a_restart_and_a_compaction_it_is_where_it_is_now() -> None:
    world = World(segment_bytes=4096)
    numbers = list(range(1, 121))
    for number in numbers:
        world.journal.store(message(number, 300), [1])
        world.confirm()
    before = {name: bytes(world.disk.medium.view[name]) for name in world.segments()}
    for number in numbers[:100]:
        if number % 7:
            world.journal.settle(number, 1)
    world.confirm()
    world.compact()
    kept = [number for number in numbers if number > 100 or number % 7 == 0]
    assert told(world, kept) == {number: octets_of(number, 300) for number in kept}
    for name in set(before).intersection(world.segments()):
        here = bytes(world.disk.medium.view[name])
        assert here.startswith(before[name]), "nothing is written over what was told of"
    assert len(before) > len(set(before).intersection(world.segments())), "and some files are gone"
    world.crash()
    assert told(world, kept) == {number: octets_of(number, 300) for number in kept}
