"""What a primary may confirm, and whom it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from entrepot.base.environment import MILLISECOND, SECOND
from entrepot.base.errors import Refused, StorageError
from entrepot.ha.follower import Follower, Stage
from entrepot.ha.pieces import READING_MAX
from entrepot.ha.replication import FOLLOWERS_MAX
from entrepot.ha.stream import (
    LACKS,
    PIECE,
    PROBE,
    RECEIVED,
    SAME,
    SYNCED,
    WRITE,
    Frame,
)

from .primaries import Primary


def test_a_replica_is_waited_for_before_it_is_in_the_record() -> None:
    primary = Primary()
    follower = primary.join()
    assert follower.stage is Stage.RECORDING
    primary.mirror.sync(10)
    assert primary.told.confirmed == []
    assert primary.told.proposals == [(1, {"a": 3, "b": 3})]
    primary.replication.recorded(1)
    assert follower.stage is Stage.IN_SYNC
    primary.hear(follower, Frame(RECEIVED, first=1, second=0))
    assert primary.told.confirmed == []
    primary.hear(follower, Frame(SYNCED, first=1))
    assert primary.told.confirmed == [10]


def test_nothing_is_confirmed_without_a_replica_until_the_record_says_so() -> None:
    primary = Primary()
    follower = primary.join()
    primary.replication.recorded(1)
    primary.mirror.sync(10)
    primary.replication.lost(follower, "cut", SECOND)
    assert primary.told.confirmed == []
    assert primary.told.proposals[-1] == (2, {"a": 3})
    primary.replication.recorded(2)
    assert primary.told.confirmed == [10]
    assert any("may not serve until it is in sync again" in each for each in primary.told.said)


def test_a_proposal_that_may_be_under_way_is_still_waited_for() -> None:
    primary = Primary()
    follower = primary.join()
    primary.replication.lost(follower, "cut", SECOND)  # its record is asked for, and asked to be undone
    primary.mirror.sync(10)
    assert [serial for serial, _ in primary.told.proposals] == [1, 2]
    assert primary.told.confirmed == []
    primary.replication.recorded(1)
    assert primary.told.confirmed == []
    primary.replication.recorded(2)
    assert primary.told.confirmed == [10]


def test_with_two_copies_nothing_is_confirmed_alone_and_the_lost_one_stays_eligible() -> None:
    primary = Primary(copies_min=2)
    primary.mirror.sync(10)
    assert primary.told.confirmed == []
    follower = primary.join()
    primary.replication.recorded(1)
    primary.hear(follower, Frame(SYNCED, first=1))
    assert primary.told.confirmed == [10]
    primary.mirror.sync(11)
    primary.replication.lost(follower, "cut", SECOND)
    assert primary.told.confirmed == [10]
    assert len(primary.told.proposals) == 1
    assert primary.replication.held


def test_a_replica_that_owes_an_answer_for_too_long_is_given_up() -> None:
    primary = Primary()
    follower = primary.join()
    primary.replication.recorded(1)
    primary.mirror.sync(10)
    follower.heard = 5 * SECOND
    primary.replication.tick(6 * SECOND + 2 * MILLISECOND)
    assert "owed an answer" in primary.told.closed
    assert primary.told.proposals[-1] == (2, {"a": 3})


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"layout": 99}, "layout"),
        ({"copy": "a"}, "made by hand"),
        ({"store": "t"}, "store of its own"),
        ({"store": "", "files": {"1.blob": 3}}, "store of its own"),
        ({"seen": 4}, "has seen epoch 4"),
        ({"files": []}, "layout"),
    ],
)
def test_who_does_not_belong_here_is_told_why(facts: dict[str, Any], why: str) -> None:
    primary = Primary()
    with pytest.raises(Refused, match=why):
        primary.greet(**facts)
    assert not primary.replication.followers


def _with_a_file() -> tuple[Primary, Follower]:
    """Return a primary with a file of two pieces, and a replica that is asked whether it has the same."""
    primary = Primary()
    primary.mirror.create("1.seg", 0)
    primary.mirror.write("1.seg", 0, b"h", b"x" * (2 * PIECE - 1))
    follower = primary.greet(files={"1.seg": 2 * PIECE})
    primary.hear(follower)
    assert [(frame.first, frame.second) for frame in primary.said(PROBE)] == [(0, PIECE), (PIECE, PIECE)]
    return primary, follower


def test_a_replica_is_sent_what_it_lacks() -> None:
    primary, follower = _with_a_file()
    primary.hear(follower, Frame(SAME, "1.seg", first=0, second=PIECE))
    primary.hear(follower, Frame(LACKS, "1.seg", first=PIECE, second=PIECE))
    assert not primary.said(WRITE)
    ((_, then),) = primary.told.examined
    then([])  # it is sound here
    primary.read()
    assert [(frame.first, len(frame.octets)) for frame in primary.said(WRITE)] == [(PIECE, PIECE)]
    assert not primary.told.closed


@pytest.mark.parametrize(("first", "length"), [(0, 2 * PIECE), (0, 2**40), (0, 0), (-1, 8), (0, -8)])
def test_a_replica_cannot_have_more_read_at_once_than_it_was_asked_about(first: int, length: int) -> None:
    primary, follower = _with_a_file()
    primary.hear(follower, Frame(LACKS, "1.seg", first=first, second=length))
    assert primary.told.closed == "it answers what nobody asked"
    assert not primary.said(WRITE)


def test_a_replica_cannot_lack_more_than_it_was_asked_about() -> None:
    primary, follower = _with_a_file()
    for _ in range(2):
        primary.hear(follower, Frame(LACKS, "1.seg", first=0, second=PIECE))
    assert not primary.told.closed
    primary.hear(follower, Frame(LACKS, "1.seg", first=0, second=PIECE))
    assert primary.told.closed == "it answers what nobody asked"


def test_there_are_only_so_many_replicas() -> None:
    primary = Primary()
    for number in range(FOLLOWERS_MAX):
        primary.greet(copy=f"copy{number}")
    with pytest.raises(Refused, match="takes no more"):
        primary.greet(copy="one more")
    primary.greet(copy="copy0")  # who connects anew is none more


def test_only_so_much_is_read_ahead_of_a_replica() -> None:
    primary = Primary()
    primary.mirror.create("1.seg", 0)
    primary.mirror.write("1.seg", 0, b"h", b"x" * (8 * PIECE))
    follower = primary.greet()
    primary.replication.take(follower, [], SECOND)
    assert [offset for _, offset, _, _ in primary.told.reads] == [each * PIECE for each in range(READING_MAX)]
    assert not primary.said(WRITE)
    primary.read()
    assert len(primary.said(WRITE)) == 9


def test_a_file_that_cannot_be_read_ends_the_copy() -> None:
    primary = Primary()
    primary.mirror.create("1.seg", 0)
    primary.mirror.write("1.seg", 0, b"h", b"x")
    follower = primary.greet()
    primary.replication.take(follower, [], SECOND)
    primary.told.reads.pop()[3](StorageError("cannot read 1.seg"))
    assert "what it lacks cannot be read" in primary.told.closed
    assert follower not in primary.replication.followers


def test_who_comes_back_and_never_left_the_record_is_in_sync() -> None:
    """Nothing was to be proposed, so nothing was ever recorded: no verify, no demote and no failback for it."""
    primary = Primary(copies_min=2)
    follower = primary.join()
    primary.replication.recorded(1)
    assert follower.stage is Stage.IN_SYNC
    primary.replication.lost(follower, "cut", SECOND)
    assert "b" in primary.replication.recorded_now
    again = primary.join()
    assert [serial for serial, _ in primary.told.proposals] == [1]
    assert again.stage is Stage.IN_SYNC
