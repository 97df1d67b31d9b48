"""A bracket in parts: there whole or not at all, and what others say meanwhile is theirs."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from entrepot.journal.inspect import check, records
from entrepot.journal.salvage import Salvage
from journals import Told, World, message

OWN, PLAIN = 9, 5  # kinds of documents: the bracket's, and not


def bracket(world: World, numbers: list[int], *, end: bool = True) -> None:
    """Store ``numbers`` in a bracket, each in a part of its own."""
    parts = world.journal.parts
    parts.begin({OWN: True})
    for number in numbers:
        parts.enter()
        world.journal.store(message(number), [1])
        parts.leave()
    if end:
        parts.enter()
        parts.end()


def alive(world: World) -> list[int]:
    return [number for _, number, _ in world.told.messages]


def test_it_is_there_when_its_end_is_on_disk() -> None:
    world = World()
    bracket(world, [1, 2, 3])
    world.confirm()
    world.crash()
    assert alive(world) == [1, 2, 3]
    assert world.report.undone == 0


def test_without_its_end_there_is_nothing_of_it_and_all_that_others_said() -> None:
    world = World()
    world.journal.store(message(1), [1])
    bracket(world, [2, 4], end=False)
    world.journal.store(message(5), [1])
    world.confirm(b"5")
    assert world.waiter.tokens == [b"5"]
    world.crash()
    assert alive(world) == [1, 5]
    assert world.report.undone == 1
    assert "passed over 1 large transactions" in world.report.describe()
    assert world.report.number_highest == 5
    world.journal.settle(1, 1)
    world.confirm()
    world.crash()  # and once more, though the parts are still there
    assert alive(world) == [5]


def test_numbers_of_what_never_counted_are_not_given_again() -> None:
    world = World()
    bracket(world, [7], end=False)
    world.confirm()
    world.crash()
    assert alive(world) == []
    assert world.report.number_highest == 7


def test_who_relies_on_it_is_confirmed_with_it() -> None:
    world = World()
    bracket(world, [1, 2], end=False)
    world.journal.settle(1, 1)  # somebody saw what nobody should: it waits for the end
    world.journal.store(message(3), [1])
    world.confirm(b"3")
    assert world.waiter.tokens == []
    world.journal.parts.end()
    world.settle_down()
    assert world.waiter.tokens == [b"3"]
    world.crash()
    assert alive(world) == [2, 3]


def test_what_is_in_a_part_is_on_disk_when_the_end_is() -> None:
    world = World()
    bracket(world, [1, 2], end=False)
    world.confirm()
    reading = world.journal.reading
    world.journal.parts.end()
    assert not reading.on_disk(1)
    world.confirm()
    assert reading.on_disk(1)


def test_what_relies_on_it_goes_with_it() -> None:
    world = World()
    bracket(world, [1, 2], end=False)
    world.journal.parts.rely()
    world.journal.store(message(3), [1])
    world.confirm(b"3")
    world.crash()
    assert alive(world) == []


def test_documents_that_are_not_its_own_stay() -> None:
    world = World()
    parts = world.journal.parts
    parts.begin({OWN: True})
    parts.enter()
    world.journal.put(OWN, b"k", b"its own")
    world.journal.put(PLAIN, b"k", b"a queue")
    world.journal.store(message(1), [1])
    parts.leave()
    world.confirm()
    world.crash()
    assert world.told.documents == [(PLAIN, b"k", b"a queue")]
    assert alive(world) == []


def test_its_end_stays_as_long_as_the_segments_with_its_parts() -> None:
    world = World(segments_min=1000)  # nothing is rewritten
    bracket(world, [1, 2], end=False)
    for number in range(100, 140):  # others fill segments meanwhile
        world.journal.store(message(number, 400), [2])
        world.journal.flush()
    world.journal.parts.enter()
    world.journal.parts.end()
    world.confirm()
    for number in range(100, 140):
        world.journal.settle(number, 2)
    for number in range(200, 220):  # and the segment with the end is full, too
        world.journal.store(message(number, 400), [2])
        world.confirm()
        world.journal.settle(number, 2)
    world.confirm()
    world.crash()
    assert alive(world) == [1, 2]


def test_a_settlement_in_a_part_that_never_counted_is_not_copied_by_a_rewriting() -> None:
    world = World(garbage_percent=1, segments_min=1)
    world.journal.store(message(1), [1])
    for number in range(100, 140):
        world.journal.store(message(number, 400), [2])
    world.confirm()
    parts = world.journal.parts
    parts.begin({})
    parts.enter()
    world.journal.settle(1, 1)
    parts.leave()
    world.confirm()
    world.crash()
    assert 1 in alive(world)
    for number in range(100, 140):
        world.journal.settle(number, 2)
    world.confirm()
    world.compact()
    world.crash()
    assert alive(world) == [1]


def test_a_body_of_what_it_settles_stays_until_its_end() -> None:
    world = World()
    overflow = world.journal.overflow
    overflow.create(50)
    overflow.write(50, b"a large body")
    overflow.seal(50)
    large = message(1)
    rare = large.need_rare()
    rare.large_id, rare.large_length, rare.large_checked = 50, 12, True
    world.journal.store(large, [1])
    overflow.release(50)
    world.confirm()
    parts = world.journal.parts
    parts.begin({})
    parts.enter()
    world.journal.settle(1, 1)
    parts.leave()
    world.journal.store(message(2), [1])
    world.confirm()
    assert world.disk.blobs() == [50]
    world.crash()
    assert alive(world) == [1, 2]
    assert world.disk.blobs() == [50]
    parts = world.journal.parts
    parts.begin({})
    parts.enter()
    world.journal.settle(1, 1)
    parts.end()
    world.confirm()
    world.confirm()
    assert world.disk.blobs() == []


def test_what_is_looked_at_says_it_too() -> None:
    world = World()
    bracket(world, [1, 2])
    bracket(world, [3], end=False)
    world.confirm()
    world.disk.stop()
    told = Told()
    assert check(world.disk, told).damage is None
    assert [number for _, number, _ in told.messages] == [1, 2]
    words = [line.text.split(" ")[0] for line in records(world.disk)]
    assert words.count("PART") == 4
    assert words.count("WHOLE") == 1


def test_salvage_takes_none_of_what_never_counted() -> None:
    world = World()
    world.journal.store(message(1), [1])
    bracket(world, [2, 3], end=False)
    world.journal.store(message(4), [1])
    world.confirm()
    world.disk.stop()
    salvage = Salvage(world.disk)
    salvage.run()
    told = Told()
    salvage.tell(told)
    assert [number for _, number, _ in told.messages] == [1, 4]
    assert salvage.losses == []


Change = Callable[[dict[str, bytes]], None]


class Course:
    """Random work on a journal, and what may be there after a crash at any moment."""

    def __init__(self, seed: int) -> None:
        self.lots = random.Random(seed)
        self.world = World(seed, garbage_percent=20, segments_min=2, batch_bytes=3000, unsynced_bytes_max=20_000)
        self.number = 0
        self.begin({})

    def begin(self, found: dict[str, bytes]) -> None:
        """Go on from what a restart found."""
        self.start = found
        self.now = dict(found)  # as who works sees it
        self.changes: list[tuple[Change, bool]] = []  # and whether it is the bracket's
        self.relied = -1
        self.ended: list[int] = []  # at which change brackets ended
        self.world.waiter.tokens.clear()

    @property
    def parts(self):
        return self.world.journal.parts

    def changed(self, change: Change) -> None:
        change(self.now)
        self.changes.append((change, bool(self.parts.inside)))

    def store(self) -> None:
        self.number += 1
        key = f"m{self.number}"
        self.world.journal.store(message(self.number, self.lots.choice((20, 300, 1500))), [1])
        self.changed(lambda state: state.update({key: b""}))

    def settle(self) -> None:
        keys = [key for key in self.now if key.startswith("m")]
        if keys:
            key = self.lots.choice(keys[:20] if self.lots.random() < 0.9 else keys)
            self.world.journal.settle(int(key[1:]), 1)

            def gone(state: dict[str, bytes]) -> None:
                state.pop(key, None)

            self.changed(gone)

    def put(self) -> None:
        kind = self.lots.choice((OWN, PLAIN)) if self.parts.inside else PLAIN
        key, value = self.lots.choice("abc"), self.lots.randbytes(5)
        inside = kind == OWN or self.parts.relied
        self.world.journal.put(kind, key.encode(), value)

        def change(state: dict[str, bytes]) -> None:
            state[f"d{kind}{key}"] = value

        change(self.now)
        self.changes.append((change, bool(self.parts.inside) and bool(inside)))

    def work(self) -> None:
        for _ in range(self.lots.randint(1, 6)):
            self.lots.choice((self.store, self.store, self.settle, self.put))()

    def step(self) -> None:
        lots, world, parts = self.lots, self.world, self.parts
        what = lots.random()
        if what < 0.3:
            self.work()
        elif what < 0.5:
            if not parts.open:
                parts.begin({OWN: True})
            parts.enter()
            self.work()
            if lots.random() < 0.3:
                parts.end()
                self.changes.append((lambda state: None, False))  # its last word, which may be lost by itself
                self.ended.append(len(self.changes))
            else:
                parts.leave()
        elif what < 0.6:
            world.journal.confirm(world.waiter, b"%d %d" % (len(self.changes), bool(parts.inside)))
        elif what < 0.9:
            world.journal.flush()
            world.journal.compact(5000)
            world.timeline.step()
            world.journal.check()
        elif what < 0.95:
            self.restart(lots.choice(("crash", "kill", "restart")))

    def restart(self, how: str) -> None:
        open_now = bool(self.parts.open)
        if how == "restart" and not open_now:
            self.world.journal.confirm(self.world.waiter, b"%d 0" % len(self.changes))
        getattr(self.world, how)()
        told = self.world.told
        found = {f"m{number}": b"" for _, number, _ in told.messages}
        found |= {f"d{kind}{key.decode()}": value for kind, key, value in told.documents}
        floor = 0
        for token in self.world.waiter.tokens:
            asked, waited = (int(each) for each in token.split())
            if waited:  # for the end of the bracket that was open: it came
                asked = next(end for end in self.ended if end >= asked)
            floor = max(floor, asked)
        assert any(self.state(at) == found for at in range(floor, len(self.changes) + 1)), (floor, found)
        self.begin(found)

    def state(self, at: int) -> dict[str, bytes]:
        """Return what there is with the first ``at`` changes on disk."""
        complete = max([0, *(end for end in self.ended if end <= at)])
        state = dict(self.start)
        for place, (change, inside) in enumerate(self.changes[:at]):
            if not inside or place < complete:
                change(state)
        return state


@pytest.mark.parametrize("seed", range(150))
def test_a_restart_finds_what_was_confirmed_and_brackets_whole_or_not_at_all(seed: int) -> None:
    course = Course(seed)
    for _ in range(120):
        course.step()
    course.restart("crash")
