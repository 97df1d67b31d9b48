from __future__ import annotations

from entrepot.journal.inspect import Counted, Damage, check, damages, records
from entrepot.journal.log import JournalCore
from journals import World, message


def filled() -> World:
    world = World()
    for number in range(1, 40):
        world.journal.store(message(number, 150), [1, 2] if number == 7 else [1])
        world.confirm()
    world.journal.settle(1, 1)
    for number in range(10, 20):
        world.journal.settle(number, 1)
    world.journal.redelivered(2, 1, 4)
    world.journal.add(2, 5)
    world.journal.put(9, b"key", b"value")
    world.journal.delete(9, b"key")
    world.journal.page(message(50, 10), [3])
    world.confirm()
    return world


def test_every_record_is_described() -> None:
    world = filled()
    lines = list(records(world.disk))
    assert all(line.valid for line in lines)
    text = "\n".join(line.text for line in lines)
    assert "META format 4 segments 1..1 node 'n1'" in text
    assert "MESSAGE 7 to 'orders.1' queues 1 2 raw 150 octets priority 7" in text
    assert "MESSAGE 50 to 'orders.2' queues 3 raw 10 octets priority 0 transient" in text
    assert "SETTLE queue 1 numbers 10..19" in text
    assert "SETTLE queue 1 numbers 1" in text
    assert "REDELIVERED 2 queue 1 count 4" in text
    assert "ADD 2 queue 5" in text
    assert "PUT kind 9 key b'key' 5 octets" in text
    assert "DELETE kind 9 key b'key'" in text
    assert "SEAL" in text


def test_damage_is_shown_and_what_stands_behind_it_too() -> None:
    world = filled()
    world.disk.stop()
    name = world.segments()[0]
    before = len(list(records(world.disk)))
    world.disk.medium.damage(name, 500)
    lines = list(records(world.disk))
    assert [line.valid for line in lines].count(False) == 1
    assert before - 3 <= len(lines) < before


def test_a_check_finds_what_a_start_would_find_and_changes_nothing() -> None:
    world = filled()
    world.journal.store(message(60, 2000), [1])
    world.journal.flush()
    world.disk.stop()
    last = world.segments()[-1]
    world.disk.medium.damage(last, world.disk.size(last) - 5)  # a torn tail
    before = {name: world.disk.read(name, 0, 1 << 30) for name in world.disk.names()}
    counted = Counted()
    found = check(world.disk, counted)
    assert found.damage is None
    assert found.report.torn_segment == last
    assert counted.queues == {1: 28, 2: 1, 5: 1}
    assert {name: world.disk.read(name, 0, 1 << 30) for name in world.disk.names()} == before
    world.journal = world._open()
    assert isinstance(world.journal, JournalCore)
    assert world.report.torn_bytes == found.report.torn_bytes
    world.disk.stop()
    world.disk.medium.damage(world.segments()[0], 700)
    found = check(world.disk, Counted())
    assert found.damage is not None
    assert world.segments()[0] in str(found.damage)
    assert "data check" in found.damage.remedy


def damaged(name: str, octets: bytes) -> list[Damage]:
    return damages(name, lambda at, length: octets[at : at + length], len(octets))


def test_a_file_says_by_itself_whether_it_is_sound() -> None:
    world = filled()
    world.disk.stop()
    for name in world.segments():
        octets = world.disk.read(name, 0, world.disk.size(name))
        assert damaged(name, octets) == []
        assert damaged(name, octets + bytes(500)) == []  # a file is longer than what stands there
        middle = len(octets.rstrip(b"\0")) // 2
        wrong = octets[:middle] + bytes([octets[middle] ^ 1]) + octets[middle + 1 :]
        (found,) = damaged(name, wrong)
        assert found.at <= middle < found.end
        assert name in found.what
        assert damaged(name, octets[: found.at] + octets[found.end :])[:1] != [found]
    assert damaged("1-1.tmp", b"whatever") == []


def test_each_damaged_place_of_a_file_is_named_and_no_sound_one() -> None:
    world = filled()
    world.disk.stop()
    name = world.segments()[0]
    octets = bytearray(world.disk.read(name, 0, world.disk.size(name)))
    heads = [at for at in range(len(octets)) if octets[at : at + 4] == b"EJB1"]
    assert len(heads) > 4
    for head in (heads[1], heads[3]):
        octets[head + 20] ^= 1
    assert [(each.at, each.end) for each in damaged(name, bytes(octets))] == [
        (heads[1], heads[2]),
        (heads[3], heads[4]),
    ]
