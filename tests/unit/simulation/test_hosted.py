"""Nodes that host one another's copies, in the seeded world: every store has a place, and planted bugs are found."""

from __future__ import annotations

import os

import pytest

from entrepot.simulation.__main__ import main
from entrepot.simulation.hosted import PLANTED, Hosts

SEEDS = int(os.environ.get("HOSTED_SEEDS", "5"))

CROSSED = 37
"""Each of two nodes waits for a store whose last copy the other hosts."""

FOUND_BY: dict[str, int] = {}


def test_each_store_has_a_place_and_each_message_comes_once() -> None:
    counts: dict[str, int] = {}
    for seed in range(SEEDS):
        hosts = Hosts(seed)
        assert hosts.run() == [], f"seed {seed}"
        for what, count in hosts.world.counts.items():
            counts[what] = counts.get(what, 0) + count
    for what in (
        "confirmed: stored",
        "confirmed: settled",
        "copies read",
        "guests",
        "guests that serve",
        "kills",
        "partitions",
        "pauses",
        "power cuts",
        "stores given back",
    ):
        assert counts.get(what, 0) > 0, f"no seed had any {what}"


def test_two_nodes_that_each_have_the_last_copy_of_the_other_do_not_wait_for_one_another() -> None:
    """A node hosted nothing before it served itself, and neither could."""
    assert Hosts(CROSSED, "hosts nothing while it waits").run()
    assert Hosts(CROSSED).run() == []
