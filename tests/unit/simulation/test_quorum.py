"""Brokers whose lease voters keep, in the seeded world; every planted bug is found; and the checker finds its own."""

from __future__ import annotations

import os

import pytest

from entrepot.simulation.__main__ import main
from entrepot.simulation.linear import FOREVER, Call, History
from entrepot.simulation.quorum import PLANTED, Quorum

SEEDS = int(os.environ.get("QUORUM_SEEDS", "10"))
FOUND_AT = {"promise is not kept": 88, "a doubt is a no": 196}
"""The first seed that finds a bug, where that is not one of the first."""


def test_never_two_hold_the_lease_and_the_register_is_one() -> None:
    counts: dict[str, int] = {}
    for seed in range(SEEDS):
        quorum = Quorum(seed)
        assert quorum.run() == [], f"seed {seed}"
        for what, count in quorum.world.counts.items():
            counts[what] = counts.get(what, 0) + count
    for what in (
        "acknowledged",
        "changes of voters",
        "crashes",
        "cuts",
        "deaths that were seen",
        "leases lost",
        "pauses",
        "stores that are lost",
        "voters that crash",
    ):
        assert counts.get(what, 0) > 0, f"no seed had any {what}"


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_bug_is_found(planted: str) -> None:
    first = FOUND_AT.get(planted, 0)
    assert any(Quorum(seed, planted).run() for seed in range(first, first + 20)), f"{planted!r} goes unnoticed"


def test_they_are_run_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--quorum", "--seeds", "1"]) == 0
    assert "reads and swaps" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["--quorum", "--seed", "2", "--shrink"])


def read(called: int, answered: int, version: int, octets: bytes = b"x") -> Call:
    return Call("r", called, answered, None, octets if version else b"", version)


def swap(called: int, answered: int, expected: int, version: int, octets: bytes = b"x") -> Call:
    return Call("s", called, answered, expected, octets, version)


@pytest.mark.parametrize(
    ("calls", "possible"),
    [
        ([read(0, 1, 0), swap(2, 3, 0, 1), read(4, 5, 1)], True),
        ([swap(2, 9, 0, 1), read(3, 4, 1), read(5, 6, 1)], True),
        ([swap(2, 9, 0, 1), read(3, 4, 0), read(5, 6, 1)], True),
        ([swap(2, 9, 0, 1), read(3, 4, 1), read(5, 6, 0)], False),  # it was there, and is not any more
        ([swap(2, 3, 0, 1), read(4, 5, 0)], False),  # a stale read
        ([read(0, 1, 1), swap(2, 3, 0, 1)], False),  # seen before it was asked for
        ([read(0, 1, 1)], False),  # out of nothing
        ([swap(0, 1, 0, 1, b"a"), swap(0, 1, 0, 1, b"b")], False),  # two winners
        ([swap(0, FOREVER, 0, 0, b"a"), read(5, 6, 1, b"a")], True),  # nobody knew, and it was done
        ([swap(0, FOREVER, 0, 0, b"a"), read(5, 6, 0)], True),  # or not
        ([swap(0, FOREVER, 0, 0, b"a"), read(5, 6, 1, b"a"), read(7, 8, 0)], False),
        ([swap(0, 1, 0, -1), read(2, 3, 0)], False),  # refused for no reason
        ([swap(0, 1, 0, 1), swap(2, 3, 0, -1)], True),
        ([swap(0, 9, 0, 1), swap(2, 3, 0, -1)], True),
        ([swap(0, 1, 0, 1), swap(2, 3, 1, -1), read(4, 5, 1)], False),
    ],
)
def test_what_the_checker_takes_for_possible(calls: list[Call], possible: bool) -> None:
    history = History()
    history.calls = calls
    assert (history.check() == []) == possible
