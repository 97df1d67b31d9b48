"""Clusters, from seeds; and the bugs of clusters, planted."""

from __future__ import annotations

import pytest

from cluster_bugs import BUGS, planted, world_of
from entrepot.base.compiled import is_compiled
from entrepot.simulation.campaign import run_clusters

FOUND = {  # the first seed that finds it
    "consumers behind a node are counted again after a lost connection": 2,
    "the broker's own reader is told of as a consumer": 14,
    "what was for a subscription that is gone goes to others": 20,
    "a subscription that is moved cannot be read": 4,
    "the echo of what a node told stands for the queue": 2,
    "what comes for a queue behind a node that does not know it yet is lost": 44,
    "a message that moves stays, too": 1,
    "a message that moves arrives nowhere": 1,
    "nobody looks when a consumer comes elsewhere": 1,
    "consumers elsewhere are not forgotten": 1,
    "consumers elsewhere are not noticed": 1,
    "the counts of before a lost connection stay": 3,
    "two queues have one id": 3,
    "on the way: a message is settled before the answer": 3,
    "on the way: the duplicate id is forgotten at reconnect": 6,
    "on the way: the ids of bridges are not remembered": 6,
    "a cluster connection that is started again meets nobody": 3,
    "what waits for other nodes goes when a cluster connection is stopped": 79,
    "what is decided about a group is not kept": 5,
    "a message of a group overtakes what waited before a crash": 17,
    "each node decides about a group for itself": 4,
    "a queue beyond a node that fell is taken for gone": 17255,
    "groups are moved as all else": 13,
}


@pytest.mark.parametrize("first", range(101, 117, 4))
def test_seeds_keep_every_promise(first: int) -> None:
    for seed in range(first, first + 4):
        assert not run_clusters(seed).violations


@pytest.mark.parametrize("first", [101, 104])
def test_groups_are_read_at_one_node_in_their_order(first: int) -> None:
    for seed in range(first, first + 3):
        assert not run_clusters(seed, groups=True).violations


def test_a_bridge_that_is_closed_while_it_is_greeted() -> None:
    assert not run_clusters(1247, groups=True).violations  # the compiled build raised a TypeError


def test_a_seed_is_one_world() -> None:
    assert run_clusters(2).trace == run_clusters(2).trace


@pytest.mark.skipif(is_compiled(), reason="native callers do not notice a method that is replaced")
@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_found(bug: str) -> None:
    seed, world = FOUND[bug], world_of(bug)
    assert not run_clusters(seed, **world).violations
    with planted(bug):
        assert run_clusters(seed, **world).violations
