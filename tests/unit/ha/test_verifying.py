"""Whether replicas in sync have what their primary has: found, judged, and never copied over the last sound copy."""

from __future__ import annotations

from entrepot.base.environment import SECOND
from entrepot.base.errors import StorageError
from entrepot.ha.comparison import COMPARING, CUT_OFF, DAMAGED, DIFFERS
from entrepot.ha.comparison import SAME as AGREED
from entrepot.ha.follower import Stage
from entrepot.ha.replication import facts_of
from entrepot.ha.stream import JOINED, LACKS, PIECE, PROBE, RECEIVED, SAME, SYNC, SYNCED, WRITE, Frame
from entrepot.ha.verifying import Verifying
from entrepot.journal.inspect import Damage

from .primaries import Primary


class Compared(Primary):
    """A primary with one replica in sync, and a file of two pieces that both have."""

    def __init__(self, bandwidth: int = 0) -> None:
        super().__init__()
        self.mirror.create("1.seg", 0)
        self.mirror.write("1.seg", 0, b"h", b"x" * (2 * PIECE - 1))
        self.follower = self.greet()
        self.hear(self.follower)
        self.hear(self.follower, Frame(SYNCED, first=self.said(SYNC)[-1].first), Frame(JOINED, first=3))
        self.hear(self.follower, Frame(RECEIVED, first=0, second=2**40), Frame(JOINED, first=3))
        self.replication.recorded(1)
        assert self.follower.stage is Stage.IN_SYNC
        self.told.frames.clear()
        self.verifying: Verifying = self.replication.verifying
        assert self.verifying.begin(SECOND, bandwidth) == 1
        self.read()

    def answer(self, kind: int, first: int) -> None:
        self.hear(self.follower, Frame(kind, "1.seg", first=first, second=PIECE))

    def verdict(self) -> tuple[str, str]:
        (found,) = facts_of(self.replication, SECOND)["verified"]
        return found["state"], found["found"]


def test_a_replica_in_sync_is_asked_whether_it_has_the_same_and_is_told_of_writes_meanwhile() -> None:
    primary = Compared()
    assert [(frame.first, frame.second) for frame in primary.said(PROBE)] == [(0, PIECE), (PIECE, PIECE)]
    primary.mirror.write("1.seg", 2 * PIECE, b"", b"more")
    assert [frame.octets for frame in primary.said(WRITE)] == [b"more"]
    primary.answer(SAME, 0)
    assert primary.verdict() == (COMPARING, "")
    primary.answer(SAME, PIECE)
    assert primary.verdict() == (AGREED, "")
    assert primary.follower.stage is Stage.IN_SYNC
    assert len(primary.said(PROBE)) == 2  # what was written meanwhile was told


def test_a_replica_that_differs_counts_no_longer_where_this_store_is_sound() -> None:
    primary = Compared()
    primary.answer(LACKS, 0)
    primary.answer(SAME, PIECE)
    assert primary.verdict() == (COMPARING, "")  # not before it is known that nothing is damaged here
    (examined,) = primary.told.examined
    assert examined[0] == "1.seg"
    examined[1]([Damage(PIECE, 2 * PIECE, "1.seg has no valid batch there")])  # the replica has the same of that
    assert primary.verdict() == (DIFFERS, "1.seg at octet 0")
    assert "it is not the same" in primary.told.closed
    assert primary.told.proposals[-1] == (2, {"a": 3})
    assert not primary.said(WRITE)


def test_a_replica_that_differs_stays_where_this_store_is_damaged() -> None:
    primary = Compared()
    primary.answer(LACKS, 0)
    primary.answer(LACKS, PIECE)
    ((_, then),) = primary.told.examined
    then([Damage(9, 10, "1.seg has no valid batch at octet 9")])
    assert primary.verdict() == (DAMAGED, "1.seg has no valid batch at octet 9")
    assert primary.follower.stage is Stage.IN_SYNC
    assert not primary.told.closed
    assert any("ha demote" in each for each in primary.told.said)


def test_what_cannot_be_read_here_is_damaged_here() -> None:
    primary = Compared()
    primary.verifying.begin(SECOND)  # it goes on with that
    primary.answer(SAME, 0)
    primary.answer(SAME, PIECE)
    assert primary.verifying.begin(SECOND) == 1
    for _, _, _, then in list(primary.told.reads):
        then(StorageError("an error of the disk"))
    assert primary.verdict()[0] == DAMAGED
    assert not primary.told.closed


def test_a_file_that_goes_while_it_is_compared_is_no_difference() -> None:
    primary = Compared()
    primary.mirror.drop("1.seg")
    primary.answer(SAME, 0)  # it was asked before
    primary.answer(SAME, PIECE)
    assert primary.verdict() == (AGREED, "")


def test_a_comparison_with_who_is_gone_came_to_nothing() -> None:
    primary = Compared()
    primary.replication.lost(primary.follower, "cut", SECOND)
    assert primary.verdict() == (CUT_OFF, "cut")
    assert primary.verifying.begin(SECOND) == 0
    assert (
        facts_of(primary.replication, SECOND)["verified"] == []
    )  # else a removed one would be said to differ for ever


def test_a_limit_holds_for_what_is_read_to_be_compared() -> None:
    primary = Compared(bandwidth=PIECE // 2)
    assert primary.said(PROBE) == []
    primary.follower.heard = 2 * SECOND
    primary.replication.tick(2 * SECOND)
    primary.read()
    assert len(primary.said(PROBE)) == 1
    for second in (3, 4, 5):
        primary.follower.heard = second * SECOND
        primary.replication.tick(second * SECOND)
        primary.read()
    assert len(primary.said(PROBE)) == 2


class Returning(Primary):
    """A primary to which a replica comes back, with a file of two pieces that it has otherwise in the first."""

    def __init__(self) -> None:
        super().__init__()
        self.mirror.create("1.seg", 0)
        self.mirror.write("1.seg", 0, b"h", b"x" * (2 * PIECE - 1))
        self.come()

    def come(self) -> None:
        self.told.frames.clear()
        self.follower = self.greet(files={"1.seg": 2 * PIECE})
        self.hear(self.follower)
        self.hear(
            self.follower,
            Frame(LACKS, "1.seg", first=0, second=PIECE),
            Frame(SAME, "1.seg", first=PIECE, second=PIECE),
        )

    def found(self, *damaged: Damage) -> None:
        _, then = self.told.examined.pop()
        then(list(damaged))
        self.read()


def test_what_a_replica_has_otherwise_is_sent_once_it_is_known_to_be_sound_here() -> None:
    primary = Returning()
    assert not primary.said(WRITE)
    primary.found(Damage(PIECE, PIECE + 1, "damaged where both have the same"))
    assert [(frame.first, len(frame.octets)) for frame in primary.said(WRITE)] == [(0, PIECE)]
    assert primary.said(SYNC)
    assert not primary.told.closed


def test_a_replica_that_comes_back_is_not_made_the_same_where_this_store_is_damaged() -> None:
    primary = Returning()
    for _ in range(3):  # it tries again
        primary.found(Damage(7, 9, "1.seg has no valid batch at octet 7"))
        assert "is damaged here: 1.seg has no valid batch at octet 7" in primary.told.closed
        assert not primary.said(WRITE)
        assert not primary.said(SYNC)
        assert primary.replication.followers == []
        primary.come()
    (shown,) = facts_of(primary.replication, SECOND)["verified"]
    assert (shown["name"], shown["state"]) == ("beta", DAMAGED)
    assert len([each for each in primary.told.said if "is not made the same" in each]) == 1
    primary.replication.verifying.begin(SECOND)  # of nobody
    assert facts_of(primary.replication, SECOND)["verified"] == [shown]
    primary.found()  # compaction has taken away what was damaged
    primary.hear(primary.follower, Frame(SYNCED, first=primary.said(SYNC)[-1].first), Frame(JOINED, first=3))
    primary.hear(primary.follower, Frame(RECEIVED, first=0, second=2**40), Frame(JOINED, first=3))
    primary.replication.recorded(1)
    assert primary.follower.stage is Stage.IN_SYNC
    assert facts_of(primary.replication, SECOND)["verified"] == []


def test_a_file_is_looked_at_once_however_much_of_it_a_replica_lacks() -> None:
    primary = Returning()
    primary.follower.catch_up.probing = 2  # more answers are to come
    primary.hear(primary.follower, Frame(LACKS, "1.seg", first=PIECE, second=PIECE - 1))
    primary.found()
    primary.hear(primary.follower, Frame(LACKS, "1.seg", first=2 * PIECE - 1, second=1))
    assert primary.told.examined == []
    assert [frame.first for frame in primary.said(WRITE)] == [0, PIECE, 2 * PIECE - 1]


def test_what_is_in_doubt_goes_with_its_file() -> None:
    primary = Returning()
    primary.mirror.drop("1.seg")
    primary.found(Damage(7, 9, "of a file that is gone"))
    assert not primary.told.closed
    assert primary.said(SYNC)
