"""Hops within TTLs, against a walk of every single way."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from entrepot.analysis.graph import (
    UNREACHED,
    circle,
    components,
    distances,
    passes,
    served,
    shortest,
)
from entrepot.analysis.model import Channel, Link, Spot

NODES = 5


def link(source: int, target: int, message: int = 1, consumer: int = 1) -> Link:
    return Link(source, target, Channel(name="n", spot=Spot(), message_ttl=message, consumer_ttl=consumer), 0)


LINKS = st.lists(
    st.builds(
        link,
        st.integers(0, NODES - 1),
        st.integers(0, NODES - 1),
        st.sampled_from([-1, 0, 1, 2, 3]),
        st.sampled_from([-1, 0, 1, 2, 3]),
    ).filter(lambda one: one.source != one.target),
    max_size=12,
)


def ways(source: int, target: int, links: list[Link], gone: tuple[Link, ...] = ()) -> list[tuple[Link, ...]]:
    """Every way without a circle."""
    if source == target:
        return [gone]
    seen = {one.source for one in gone} | {source}
    found = []
    for one in links:
        if one.source == source and one.target not in seen:
            found += ways(one.target, target, links, (*gone, one))
    return found


@settings(max_examples=60, deadline=None)
@given(LINKS)
def test_hops_are_those_of_the_best_way_that_every_ttl_allows(links: list[Link]) -> None:
    far, real = distances(NODES, links), served(NODES, links)
    for one in range(NODES):
        for two in range(NODES):
            every = ways(one, two, links)
            allowed = [way for way in every if all(passes(each, at, len(way)) for at, each in enumerate(way))]
            assert far[one][two] == min((len(way) for way in every), default=UNREACHED)
            assert real[one][two] == min((len(way) for way in allowed), default=UNREACHED)
            if one != two:
                assert len(shortest(one, two, NODES, links)) == max(far[one][two], 0)


@settings(max_examples=60, deadline=None)
@given(LINKS)
def test_a_circle_is_one_and_a_tree_has_none(links: list[Link]) -> None:
    edges = {frozenset((one.source, one.target)) for one in links}
    found = circle(NODES, links)
    parts = components(NODES, links)
    assert sorted(node for part in parts for node in part) == list(range(NODES))
    if found:
        assert len(set(found)) == len(found) >= 3
        assert all(frozenset(pair) in edges for pair in pairwise([*found, found[0]]))
    else:
        assert len(edges) == NODES - len(parts), "a graph without circles has one edge less than nodes in each part"
