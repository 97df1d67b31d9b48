"""Who asks for his store back is obeyed only while he goes on asking."""

from __future__ import annotations

import pytest

from entrepot.base.environment import MILLISECOND, SECOND
from entrepot.ha.failback import REMEMBERED, RETURNS_MAX, STEADY, Heard, Returns
from entrepot.ha.standing import Standing, read_standing
from entrepot.ha.stream import ASK_BACK, Frame
from unit.ha.primaries import Primary

WALL = 1_800_000_000_000  # ms


def test_a_request_counts_once_it_was_seen_to_change() -> None:
    heard = Heard()
    assert [heard.look(one) for one in (None, ("p", 1), ("p", 1), ("p", 2))] == [False, False, False, True]


def test_another_asker_has_to_ask_twice_too() -> None:
    heard = Heard()
    assert [heard.look(one) for one in (("p", 7), ("q", 8), ("q", 9))] == [False, False, True]


def test_a_request_that_went_away_says_nothing() -> None:
    heard = Heard()
    assert [heard.look(one) for one in (("p", 1), None, ("p", 2))] == [False, False, False]


def test_a_store_is_given_back_to_who_is_in_sync_for_a_while() -> None:
    returns = Returns(Standing("b"), allowed=True)
    assert not returns.due(-1, 1000 * SECOND, WALL)  # not in sync
    assert not returns.due(5 * SECOND, 5 * SECOND + STEADY - 1, WALL)
    assert returns.due(5 * SECOND, 5 * SECOND + STEADY, WALL)
    assert not Returns(Standing("b"), allowed=False).due(5 * SECOND, 1000 * SECOND, WALL)


def test_it_is_given_back_once_in_a_tenure() -> None:
    returns = Returns(Standing("b"), allowed=True)
    returns.note(WALL)
    assert not returns.due(0, 1000 * SECOND, WALL + 1000)


def test_each_time_takes_twice_as_long_and_a_day_knows_five() -> None:
    standing = Standing("b")
    waits = []
    for turn in range(RETURNS_MAX):
        returns = Returns(standing, allowed=True)  # of the next tenure
        wall = WALL + turn * 1000
        assert returns.withheld(wall) == ""
        wait = next(wait for wait in range(1000) if returns.due(0, wait * SECOND, wall))
        waits.append(wait)
        returns.note(wall)
    assert waits == [10, 20, 40, 80, 160]
    again = Returns(standing, allowed=True)
    assert not again.due(0, 10**9 * SECOND, WALL + 5000)
    assert "5 times within 24 h" in again.withheld(WALL + 5000)
    day = REMEMBERED // MILLISECOND
    assert again.due(0, 160 * SECOND, WALL + day)  # the first is forgotten
    assert again.withheld(WALL + day) == ""
    again.note(WALL + day)
    assert len(standing.returned) == RETURNS_MAX


def test_a_clock_that_was_set_back_forgets_nothing_and_waits_no_longer_than_a_day() -> None:
    standing = Standing("b")
    standing.returned = [WALL] * RETURNS_MAX
    returns = Returns(standing, allowed=True)
    assert returns.withheld(WALL - 10**9)
    returns.standing.returned = returns.recent(WALL - 10**9)
    assert not returns.withheld(WALL - 10**9 + REMEMBERED // MILLISECOND)


def test_the_standing_remembers() -> None:
    standing = Standing("b")
    assert "returned" not in standing.facts()
    Returns(standing, allowed=True).note(WALL)
    assert read_standing(standing.encode(), part="", boot="").returned == [WALL]


def test_who_is_in_sync_is_known_with_the_time_and_asks_in_vain_before() -> None:
    one = Primary()
    follower = one.join()
    asks = Frame(ASK_BACK)
    one.hear(follower, asks)
    assert follower.since == -1
    assert "beta asks" not in one.told.said
    one.replication.recorded(one.told.proposals[-1][0])
    one.hear(follower, asks)
    assert follower.since == SECOND
    assert one.told.said[-1] == "beta asks"


def test_a_replica_says_whether_it_would_give_the_store_back() -> None:
    assert not Primary().greet().gives_back
    assert Primary().greet(gives_back=True).gives_back
    assert not Primary().greet(gives_back="yes").gives_back


@pytest.mark.parametrize(
    ("said", "known"),
    [
        ({"pair": "tcp://b:61616"}, {"pair": "tcp://b:61616"}),
        ("tcp://b:61616", {}),
        ({"pair": "t" * 1001, "other": "tcp://b:1"}, {"other": "tcp://b:1"}),
        ({str(number): "tcp://b:1" for number in range(99)}, {str(number): "tcp://b:1" for number in range(16)}),
    ],
    ids=["one", "no table", "too long", "too many"],
)
def test_a_replica_says_where_clients_find_it(said: object, known: dict[str, str]) -> None:
    assert Primary().greet(connectors=said).connectors == known
    assert Primary().greet().connectors == {}
