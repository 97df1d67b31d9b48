"""A connection of another process: the password, signs of life, each question answered once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from entrepot.core.operators.together.line import WAITING_MAX, Said
from entrepot.core.operators.together.visit import LENGTH, Visit, content, frame


class House:
    """``asked``: questions with whom to tell; ``said``: what was sent."""

    def __init__(self, most: int = 1 << 20) -> None:
        self.asked: list[Callable[[Said], None]] = []
        self.said: list[Said] = []
        self.visit = Visit(lambda word: word == "word", lambda said, told: self.asked.append(told), self._write, most)

    def _write(self, octets: bytes) -> None:
        assert int.from_bytes(octets[:LENGTH], "big") == len(octets) - LENGTH
        self.said.append(content(octets[LENGTH:]))


def test_nothing_is_said_to_who_does_not_know_the_password() -> None:
    for first in ({}, {"password": "wrong"}, {"password": 7}, {"id": 1}):
        house = House()
        assert not house.visit.heard(first)
        assert (house.said, house.asked) == ([], [])


def test_questions_are_answered_once_in_any_order_and_signs_at_once() -> None:
    house = House(100)
    assert house.visit.heard({"password": "word"})
    house.visit.heard({"id": 1})
    house.visit.heard({"id": 2})
    house.visit.heard({})
    assert house.said == [{}, {}]
    house.asked[1]({"value": 7})
    house.asked[1]({"value": 8})
    house.asked[0]({"value": "x" * 100})
    assert house.said[2] == {"value": 7, "id": 2}
    assert (house.said[3]["id"], "longer" in house.said[3]["message"]) == (1, True)
    assert (len(house.said), house.visit.under_way) == (4, 0)


def test_what_is_under_way_is_bounded() -> None:
    house = House()
    house.visit.heard({"password": "word"})
    for number in range(WAITING_MAX):
        assert not house.visit.full
        house.visit.heard({"id": number})
    assert house.visit.full
    house.asked[5]({})
    assert not house.visit.full


@pytest.mark.parametrize("octets", [b"", b"7", b"[]", b'"text"', b"{", b"[" * 100_000])
def test_what_is_no_object_is_refused(octets: bytes) -> None:
    with pytest.raises(ValueError, match="no object"):
        content(octets)
    assert frame({"a": 1})[LENGTH:] == b'{"a":1}'
