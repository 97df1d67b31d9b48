"""Who asks for his store back is obeyed only while he goes on asking."""

from __future__ import annotations

from entrepot.ha.failback import Heard


def test_a_request_counts_once_it_was_seen_to_change() -> None:
    heard = Heard()
    assert [heard.look(one) for one in (None, ("p", 1), ("p", 1), ("p", 2))] == [False, False, False, True]


def test_another_asker_has_to_ask_twice_too() -> None:
    heard = Heard()
    assert [heard.look(one) for one in (("p", 7), ("q", 8), ("q", 9))] == [False, False, True]


def test_a_request_that_went_away_says_nothing() -> None:
    heard = Heard()
    assert [heard.look(one) for one in (("p", 1), None, ("p", 2))] == [False, False, False]
