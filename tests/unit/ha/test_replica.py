"""A replica answers for what its disk has done, and reads and keeps files where that holds up nobody."""

from __future__ import annotations

from collections.abc import Callable

from entrepot.base.errors import StorageError
from entrepot.ha.catchup import digest
from entrepot.ha.replica import Replica, Store
from entrepot.ha.standing import Standing
from entrepot.ha.stream import (
    CREATE,
    CUT,
    DROP,
    HELLO,
    JOIN,
    JOINED,
    LAYOUT,
    PROBE,
    RECEIVED,
    SAME,
    SORRY,
    SYNC,
    SYNCED,
    WELCOME,
    WRITE,
    Frame,
    Frames,
    encode,
    greeting,
)
from entrepot.simulation.disk import SimulatedDisk
from journals import Lots

NAME = "1.seg"


class Shelf(Store):
    def __init__(self) -> None:
        self.kept: list[str] = []
        self.persisted = 0
        self.full = False

    def persist(self, standing: Standing) -> None:
        self.persisted += 1

    def keep(self, name: str, first: int) -> None:
        if self.full:
            raise StorageError("it cannot be kept")
        self.kept.append(name)

    def greet(self) -> None:
        """Nothing is kept yet."""


class Copy:
    """A replica whose thread works when it is told to."""

    def __init__(self) -> None:
        self.disk = SimulatedDisk(Lots(1), lambda delay, action: action())
        self.shelf = Shelf()
        self.told: list[Frame] = []
        self.asked: list[tuple[Callable[[], None], Callable[[], None]]] = []
        self.moved = 0
        self.replica = Replica(
            self.disk, Standing("b"), self.shelf, self._send, lambda work, then: self.asked.append((work, then))
        )
        self.replica.moved = self._moved

    def _send(self, octets: bytes) -> None:
        self.told += Frames().feed(octets)

    def _moved(self) -> None:
        self.moved += 1

    def hear(self, *frames: Frame) -> None:
        self.replica.take(Frames().feed(b"".join(encode(each) for each in frames)))

    def work(self) -> None:
        """Let the thread do all that it was asked for."""
        while self.asked:
            work, then = self.asked.pop(0)
            work()
            then()

    def welcome(self) -> None:
        self.replica.greeting("beta")
        facts = {"layout": LAYOUT, "store": "s", "epoch": 3, "name": "alpha", "confirm": "synced"}
        self.replica.take(Frames().feed(greeting(WELCOME, facts)))
        self.work()
        self.told.clear()

    def kinds(self) -> list[int]:
        return [each.kind for each in self.told]


def test_what_came_is_answered_for_when_the_disk_has_done_it() -> None:
    copy = Copy()
    copy.welcome()
    before = copy.moved
    copy.hear(Frame(CREATE, NAME), Frame(WRITE, NAME, octets=b"x" * 1000), Frame(SYNC, first=7))
    assert RECEIVED not in copy.kinds()
    assert copy.replica.waits > 1000
    copy.work()
    assert [each.first for each in copy.told if each.kind == RECEIVED] == [7]
    assert copy.replica.waits == 0
    assert copy.moved == before + 1


def test_one_question_to_the_disk_is_enough_for_all_that_came_meanwhile() -> None:
    copy = Copy()
    copy.welcome()
    copy.hear(Frame(CREATE, NAME))
    for number in range(5):
        copy.hear(Frame(WRITE, NAME, first=number, octets=b"x"))
    assert len(copy.asked) == 1
    copy.work()
    assert copy.kinds() == [RECEIVED, RECEIVED]
    assert copy.replica.waits == 0


def test_the_standing_is_on_disk_before_the_first_file_changes() -> None:
    copy = Copy()
    facts = {"layout": LAYOUT, "store": "s", "epoch": 3, "name": "alpha", "confirm": "synced"}
    copy.replica.take(Frames().feed(greeting(WELCOME, facts) + encode(Frame(CREATE, NAME))))
    assert (copy.shelf.persisted, copy.disk.names()) == (0, [])
    copy.work()
    assert (copy.shelf.persisted, copy.disk.names()) == (1, [NAME])


def test_it_says_that_it_joined_when_that_is_on_disk() -> None:
    copy = Copy()
    copy.welcome()
    copy.hear(Frame(SYNC, first=1), Frame(JOIN, first=3))
    assert JOINED not in copy.kinds()
    assert not copy.replica.in_sync
    copy.work()
    assert SYNCED in copy.kinds()
    assert JOINED in copy.kinds()
    assert copy.replica.in_sync


def test_what_goes_is_kept_first_and_what_came_behind_waits() -> None:
    copy = Copy()
    copy.disk.create(NAME, 0)
    copy.disk.write(NAME, 0, b"old", b"")
    copy.welcome()
    copy.hear(Frame(DROP, NAME), Frame(CREATE, "2.seg"))
    assert copy.disk.names() == [NAME]
    copy.work()
    assert copy.shelf.kept == [NAME]
    assert copy.disk.names() == ["2.seg"]


def test_what_came_with_this_catch_up_is_not_kept_when_it_goes() -> None:
    """A new replica of a busy store was left with ``oldreplica.1``: what its primary had compacted meanwhile."""
    copy = Copy()
    copy.disk.create(NAME, 0)
    copy.disk.write(NAME, 0, b"old", b"")
    copy.welcome()
    copy.hear(Frame(CREATE, "2.seg"), Frame(WRITE, "2.seg", octets=b"new"), Frame(DROP, "2.seg"))
    copy.hear(Frame(CREATE, "3.seg"), Frame(WRITE, "3.seg", octets=b"new"))
    copy.hear(Frame(PROBE, "3.seg", first=0, second=3, octets=digest(b"not")), Frame(CUT, "3.seg", first=1))
    copy.work()
    assert copy.shelf.kept == []
    assert copy.disk.names() == [NAME, "3.seg"]
    copy.hear(Frame(DROP, NAME))
    copy.work()
    assert copy.shelf.kept == [NAME]
    assert copy.disk.names() == ["3.seg"]


def test_what_cannot_be_kept_is_not_removed() -> None:
    copy = Copy()
    copy.disk.create(NAME, 0)
    copy.welcome()
    copy.shelf.full = True
    copy.hear(Frame(DROP, NAME), Frame(CREATE, "2.seg"))
    copy.work()
    assert copy.disk.names() == [NAME]
    assert SORRY in copy.kinds()
    assert copy.replica.ended


def test_a_tail_and_a_stretch_are_read_where_they_hold_up_nobody() -> None:
    copy = Copy()
    copy.disk.create(NAME, 0)
    copy.disk.write(NAME, 0, b"12345678", b"")
    copy.welcome()
    copy.hear(Frame(CUT, NAME, first=4), Frame(PROBE, NAME, first=0, second=4, octets=digest(b"1234")))
    assert copy.disk.size(NAME) == 8
    copy.work()
    assert copy.disk.size(NAME) == 4
    assert copy.shelf.kept == [NAME]
    assert SAME in copy.kinds()


def test_what_was_asked_for_before_the_end_does_nothing_behind_it() -> None:
    copy = Copy()
    copy.disk.create(NAME, 0)
    copy.welcome()
    copy.hear(Frame(DROP, NAME))
    copy.replica.end("it is primary now")
    copy.work()
    assert copy.disk.names() == [NAME]
    assert copy.kinds() == []
    assert HELLO not in copy.kinds()
