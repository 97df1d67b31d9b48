"""What an acknowledgement covers, compared with a plain list of what was delivered."""

from __future__ import annotations

import random

import pytest

from entrepot.protocols.artemis.order import SLACK, Order


class Delivered:
    """What one consumer has, in the order of delivery: as a list, and as its order remembers it."""

    def __init__(self) -> None:
        self.order = Order()
        self.held: dict[int, None] = {}
        self.plain: list[int] = []

    def deliver(self, number: int) -> None:
        self.held[number] = None
        self.plain.append(number)
        self.order.add(number, len(self.held))

    def gone(self, number: int) -> None:
        del self.held[number]
        self.plain.remove(number)

    def acknowledge(self, last: int) -> None:
        covered = self.order.up_to(last, self.held)
        assert covered == self.plain[: self.plain.index(last) + 1]
        for number in covered:
            self.gone(number)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("rising", [True, False])
def test_all_up_to_the_last_is_covered_in_the_order_of_delivery(seed: int, rising: bool) -> None:
    chance = random.Random(seed)
    here = Delivered()
    number = 0
    given_back: list[int] = []
    for _ in range(2_000):
        what = chance.random()
        if what < 0.5 or not here.plain:
            if given_back and not rising and chance.random() < 0.3:
                here.deliver(given_back.pop(chance.randrange(len(given_back))))
            else:
                number += 1
                here.deliver(number)
        elif what < 0.75:
            here.acknowledge(here.plain[min(int(chance.expovariate(0.5)), len(here.plain) - 1)])
        elif what < 0.95:
            one = chance.choice(here.plain)
            here.gone(one)
            given_back.append(one)
        else:
            here.acknowledge(here.plain[-1])


def test_what_is_given_back_and_comes_again_stands_behind() -> None:
    here = Delivered()
    for number in (1, 2, 3):
        here.deliver(number)
    here.gone(1)
    here.deliver(1)
    here.acknowledge(2)
    assert here.plain == [3, 1]
    here.acknowledge(1)


def test_who_settles_one_at_a_time_makes_nothing_grow() -> None:
    """The first one is never settled: what stands behind it in the list is not remembered for ever."""
    here = Delivered()
    here.deliver(1)
    for number in range(2, 10_000):
        here.deliver(number)
        here.gone(number)
    assert len(here.order._numbers) <= 2 * (2 * 2 + SLACK)
    here.deliver(10_000)
    here.acknowledge(10_000)


def test_a_wide_window_costs_no_look_at_what_is_settled() -> None:
    here = Delivered()
    for number in range(1, 3_001):
        here.deliver(number)
    for number in range(3_001, 30_000):
        assert here.order.up_to(number - 3_000, here.held) == [number - 3_000]
        del here.held[number - 3_000]
        here.held[number] = None
        here.order.add(number, len(here.held))
    assert len(here.order._numbers) <= 2 * 3_000 + 2 * SLACK
