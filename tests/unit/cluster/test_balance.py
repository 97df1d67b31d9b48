"""Who moves and where to: even shares, the fewest moves, patience, home."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.environment import SECOND
from entrepot.cluster.balance import HOMESICK, PATIENCE, WAVE, Balance, Client, Move, shares, transfers
from entrepot.cluster.census import UNKNOWN, Facts


def broker(name: str, clients: int = 0, zone: str = "") -> Facts:
    return Facts(name, name, f"tcp://{name}:1", zone, clients, 1)


def look(
    balance: Balance, here: Facts, others: list[Facts], clients: list[Client], *, leaving: int, now: int
) -> list[Move]:
    guests = any(one.zone not in ("", here.zone) for one in clients)
    return balance.look(here, others, lambda: clients, count=len(clients), guests=guests, leaving=leaving, now=now)


def decided(
    balance: Balance, here: Facts, others: list[Facts], clients: list[Client], at: int = 0, leaving: int = 0
) -> list[Move]:
    """Return what is decided once the imbalance has lasted."""
    assert look(balance, here, others, clients, leaving=leaving, now=at) == []
    return look(balance, here, others, clients, leaving=leaving, now=at + max(PATIENCE, HOMESICK))


def some(count: int, zone: str = "") -> list[Client]:
    return [Client(number, zone) for number in range(count)]


@given(st.dictionaries(st.text("abcdef", min_size=1), st.integers(0, 500), min_size=1))
def test_shares_are_even_and_transfers_reach_them_with_the_fewest_moves(loads: dict[str, int]) -> None:
    wanted = shares(loads)
    assert sum(wanted.values()) == sum(loads.values())
    assert max(wanted.values()) - min(wanted.values()) <= 1
    after = dict(loads)
    for giver, taker, count in transfers(loads, wanted):
        assert count > 0
        after[giver] -= count
        after[taker] += count
    assert after == wanted
    moved = sum(count for _, _, count in transfers(loads, wanted))
    assert moved == sum(max(0, loads[key] - wanted[key]) for key in loads)


def test_one_that_joins_gets_its_share_and_no_more_move() -> None:
    moves = decided(Balance(), broker("a", 15), [broker("b", 15), broker("c", 0)], some(15))
    assert [move.to.id for move in moves] == ["c"] * 5


def test_an_imbalance_must_last() -> None:
    balance = Balance()
    others = [broker("b", 0)]
    assert look(balance, broker("a", 9), others, some(9), leaving=0, now=0) == []
    assert look(balance, broker("a", 9), others, some(9), leaving=0, now=PATIENCE - 1) == []
    assert look(balance, broker("a", 5), others, some(1), leaving=0, now=PATIENCE) == []  # even for a moment
    assert look(balance, broker("a", 9), others, some(9), leaving=0, now=PATIENCE + 1) == []
    assert look(balance, broker("a", 8), others, some(8), leaving=0, now=PATIENCE + 2) == []
    assert look(balance, broker("a", 8), others, some(8), leaving=0, now=2 * PATIENCE + 1) == []
    assert len(look(balance, broker("a", 8), others, some(8), leaving=0, now=2 * PATIENCE + 2)) == 4


def test_clients_that_always_come_and_go_put_it_off_only_for_a_while() -> None:
    balance = Balance()
    found = [
        look(balance, broker("a", 9 + at % 2), [broker("b", 0)], some(9 + at % 2), leaving=0, now=at * SECOND)
        for at in range(14)
    ]
    assert [bool(moves) for moves in found].index(True) == 11


def test_moves_go_in_waves_and_the_next_one_waits_for_the_last() -> None:
    balance = Balance()
    others = [broker("b", 0), broker("c", 0)]
    moves = decided(balance, broker("a", 90), others, some(90))
    assert len(moves) == WAVE
    assert {move.to.id for move in moves} == {"b", "c"}
    at = 10 * SECOND
    assert look(balance, broker("a", 90), others, some(80), leaving=10, now=at) == []
    assert look(balance, broker("a", 74), others, some(74), leaving=0, now=at + 1) == []
    assert look(balance, broker("a", 74), others, some(74), leaving=0, now=at + SECOND) == []  # who left is nowhere yet
    others = [broker("b", 8), broker("c", 8)]
    assert look(balance, broker("a", 74), others, some(74), leaving=0, now=at + 2 * SECOND) == []
    assert len(look(balance, broker("a", 74), others, some(74), leaving=0, now=at + 4 * SECOND)) == WAVE


def test_the_cheapest_move_and_those_who_cannot_stay() -> None:
    clients = [Client(1, cost=5), Client(2), Client(3, movable=False), Client(4)]
    moves = decided(Balance(), broker("a", 4), [broker("b", 0)], clients)
    assert [move.key for move in moves] == [4, 2]


def test_a_little_unevenness_of_many_is_left_alone() -> None:
    assert decided(Balance(), broker("a", 104), [broker("b", 96)], some(104)) == []
    assert len(decided(Balance(), broker("a", 120), [broker("b", 80)], some(120))) == WAVE


def test_other_zones_get_no_clients() -> None:
    assert decided(Balance(), broker("a", 30, "ams"), [broker("b", 0, "fra")], some(30)) == []


def test_guests_go_home_once_home_has_lasted() -> None:
    balance = Balance()
    here, home = broker("a", 4, "ams"), [broker("b", 1, "fra"), broker("c", 0, "fra")]
    guests = [Client(1, "fra"), Client(2), Client(3, "fra"), Client(4, "ams")]
    assert look(balance, here, home, guests, leaving=0, now=0) == []
    assert look(balance, here, home, guests, leaving=0, now=HOMESICK - 1) == []
    moves = look(balance, here, home, guests, leaving=0, now=HOMESICK)
    assert [(move.key, move.to.id) for move in moves] == [(3, "c"), (1, "b")]
    assert all(move.homeward for move in moves)


def test_a_broker_that_does_not_count_gets_its_share_once() -> None:
    balance = Balance()
    others = [broker("classic", UNKNOWN)]
    moves = decided(balance, broker("a", 10), others, some(10))
    assert len(moves) == 5
    assert decided(balance, broker("a", 5), others, some(5), at=20 * SECOND) == []
