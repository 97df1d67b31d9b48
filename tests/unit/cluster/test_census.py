"""Who is in the network: introductions, lists from neighbours, versions, those who come and go."""

from __future__ import annotations

from entrepot.base.environment import SECOND
from entrepot.cluster.census import EXPIRY, HEARTBEAT, SETTLE, UNKNOWN, Census, Facts


def census(name: str, wall: int = 1000) -> Census:
    return Census(Facts(name, name, f"tcp://{name}:1", "z"), wall)


def names(one: Census) -> list[str]:
    return [facts.id for facts in one.brokers()]


def test_a_bridge_tells_name_and_place_and_its_end_ends_that() -> None:
    a = census("a")
    a.joined("link", Facts("b", "B", "tcp://b:1"), 0)
    assert a.brokers() == [Facts("b", "B", "tcp://b:1", "", UNKNOWN, 0)]
    assert a.changed
    a.left("link", SECOND)
    assert names(a) == []


def test_two_bridges_to_one_broker_count_once_and_the_last_one_ends_it() -> None:
    a = census("a")
    a.joined("one", Facts("b", "B", "tcp://b:1"), 0)
    a.joined("two", Facts("b", "B", "tcp://b:1"), 0)
    a.left("one", 1)
    assert names(a) == ["b"]
    a.left("two", 2)
    assert names(a) == []


def test_brokers_behind_a_neighbour_are_known_and_their_clients() -> None:
    a, b, c = census("a"), census("b"), census("c")
    c.count(7)
    b.heard(c.tell(0, 2000), 0)
    a.heard(b.tell(0, 2000), 0)
    assert names(a) == ["b", "c"]
    assert a.members["c"].facts.clients == 7


def test_an_old_entry_that_is_repeated_does_not_bring_a_dead_broker_back() -> None:
    a, b = census("a"), census("b")
    old = b.tell(0, 2000)
    a.heard(old, 0)
    a.joined("link", Facts("b", "B", "tcp://b:1"), 0)
    a.left("link", 1)
    a.heard(old, 2)
    assert names(a) == []
    a.heard(b.tell(HEARTBEAT, 2001), 3)
    assert names(a) == ["b"]


def test_a_version_that_stands_still_is_a_broker_that_is_gone() -> None:
    a, b = census("a"), census("b")
    told = b.tell(0, 2000)
    a.heard(told, 0)
    a.heard(told, EXPIRY)
    a.advance(EXPIRY)
    assert names(a) == ["b"]
    a.advance(EXPIRY + 1)
    assert names(a) == []


def test_who_comes_and_goes_is_believed_later_each_time() -> None:
    a = census("a")
    waits = []
    now = 0
    for _ in range(7):
        a.joined("link", Facts("b", "B", "tcp://b:1"), now)
        waits.append(a.members["b"].settle // SETTLE)
        assert not a.members["b"].settled(now)
        assert a.members["b"].settled(now + a.members["b"].settle)
        now += SECOND
        a.left("link", now)
    assert waits == [1, 2, 4, 8, 16, 30, 30]


def test_what_cannot_be_read_and_ourselves_are_ignored() -> None:
    a = census("a")
    for token in (b"entrepot-census\n{", b"entrepot-census\n[1]", b"entrepot-census\n" + b"[" * 10_000):
        a.heard(token, 0)
    a.heard(census("a", 9_000_000).tell(0, 9_000_000), 0)
    a.joined("loop", a.here, 0)
    assert names(a) == []
    a.check()


def test_news_is_told_soon_and_life_now_and_then() -> None:
    a = census("a")
    assert a.tell(0, 1)
    assert not a.tell(1, 1)
    a.count(5)
    assert not a.tell(SECOND // 10, 1)
    assert a.tell(SECOND, 1)
    assert not a.tell(2 * SECOND, 1)
    assert a.tell(3 * SECOND, 1)


def test_last_words_end_a_broker_at_once_also_behind_a_neighbour_and_it_may_come_back() -> None:
    a, b, c = census("a"), census("b"), census("c")
    b.heard(c.tell(0, 2000), 0)
    a.heard(b.tell(0, 2000), 0)
    assert names(a) == ["b", "c"]
    old = b.token()
    b.heard(c.leave(1, 2001), 1)
    assert names(b) == []
    a.heard(b.tell(HEARTBEAT, 2002), HEARTBEAT)
    assert names(a) == ["b"]
    assert a.changed
    a.heard(old, HEARTBEAT + 1)
    assert names(a) == ["b"]
    for one in (a, b, c):
        one.check()
    c = census("c", 3000)
    b.heard(c.tell(0, 3000), HEARTBEAT + 2)
    a.heard(b.tell(2 * HEARTBEAT, 2003), 2 * HEARTBEAT)
    assert names(a) == ["b", "c"]


def test_last_words_are_repeated_for_a_while_only() -> None:
    a, b = census("a"), census("b")
    a.heard(b.tell(0, 2000), 0)
    a.heard(b.leave(1, 2001), 1)
    assert b'"b"' in a.token()
    a.advance(EXPIRY + 2)
    assert b'"b"' not in a.token()
    a.check()


def test_last_words_of_a_broker_that_nobody_knew_are_no_news() -> None:
    a, b = census("a"), census("b")
    a.heard(b.leave(0, 2000), 0)
    assert names(a) == []
    assert not a.changed
