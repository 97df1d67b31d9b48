"""Broadcast and discovery groups: the datagram, who is heard, who is forgotten, who has another's id."""

from __future__ import annotations

import pytest

from clustered import connector
from entrepot.base.errors import MalformedFrame
from entrepot.cluster.clusters.groups import (
    HEARD_MAX,
    Announcement,
    DiscoveryGroup,
    Event,
    Found,
    Hearing,
    Lost,
    Twin,
    decode,
    encode,
)

SECOND = 1_000_000_000
GROUP = DiscoveryGroup(name="g", address="231.7.7.7", port=9876, refresh=10 * SECOND)


def said(node: str, token: str = "t", *numbers: int) -> bytes:
    return encode(Announcement(node, token, tuple(connector(one) for one in numbers or (1,))))


def hearing() -> Hearing:
    return Hearing(GROUP, "me", {"mine": None})


def test_the_datagram_is_that_of_artemis() -> None:
    """Two texts, a count, and connectors: name, factory, parameters with a key, a kind and a value (artemis.md 1.3)."""
    data = said("n", "u", 1)
    assert data.startswith(b"\0\0\0\1\0n\0\0\0\1\0u\0\0\0\1\0\0\0\2\0n\0001")
    assert decode(data) == Announcement("n", "u", (connector(1),))
    assert decode(data + b"more") == decode(data)


@pytest.mark.parametrize("cut", range(0, 60, 7))
def test_a_truncated_datagram_is_counted_and_changes_nothing(cut: int) -> None:
    ears = hearing()
    assert ears.heard(said("a")[:cut], 0) == []
    assert ears.malformed == 1


def test_an_announcement_that_does_not_fit_a_datagram_is_refused() -> None:
    with pytest.raises(MalformedFrame):
        encode(Announcement("n" * 40_000, "u", ()))


def test_only_changes_are_told() -> None:
    ears = hearing()
    assert ears.heard(said("a"), 0) == [Found("a", connector(1))]
    assert ears.heard(said("a"), SECOND) == []
    assert ears.heard(said("a", "t", 2), SECOND) == [Lost("a", connector(1)), Found("a", connector(2))]
    assert ears.heard(said("b", "t", 3, 4), SECOND) == [Found("b", connector(4))], "of several the last one counts"


def test_who_is_silent_is_forgotten_even_when_nobody_speaks() -> None:
    ears = hearing()
    ears.heard(said("a"), 0)
    ears.heard(said("a"), 5 * SECOND)
    assert ears.deadline() == 15 * SECOND
    assert ears.advance(15 * SECOND - 1) == []
    assert ears.advance(15 * SECOND) == [Lost("a", connector(1))]
    assert ears.report() == []


def test_two_nodes_with_one_id_are_told_once_a_change() -> None:
    ears = hearing()
    ears.heard(said("a", "one"), 0)
    assert ears.heard(said("a", "two"), 0) == [Twin("a")]
    assert ears.heard(said("a", "two"), 0) == []
    ears.heard(said("a", "one"), 0)
    assert ears.heard(said("a", "two"), 1) == [Twin("a")]


def test_the_own_id_in_another_mouth_is_a_copied_directory() -> None:
    ears = hearing()
    assert ears.heard(said("me", "mine"), 0) == []
    assert ears.heard(said("me", "other"), 0) == [Twin("me")]
    assert ears.heard(said("me", "other"), 0) == []
    assert ears.report() == []


def test_forged_nodes_do_not_fill_memory() -> None:
    ears = hearing()
    found: list[Event] = []
    for number in range(HEARD_MAX + 50):
        found += ears.heard(said(f"n{number}"), 0)
    assert len(found) == HEARD_MAX
