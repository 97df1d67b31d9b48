"""Which addresses a cluster connection or a mirror is about."""

from __future__ import annotations

import pytest

from entrepot.cluster.address_filter import AddressFilter


@pytest.mark.parametrize(
    ("text", "yes", "no"),
    [
        ("", ["a", "b"], []),
        ("eu", ["eu", "eu.uk"], ["us"]),
        ("!eu", ["us", "e"], ["eu", "eu.uk"]),
        ("eu.uk, eu.de", ["eu.uk.a", "eu.de"], ["eu", "eu.fr"]),
        ("eu,!eu.uk", ["eu", "eu.de"], ["eu.uk", "eu.uk.a", "us"]),
    ],
)
def test_a_filter_is_of_beginnings_and_exclusions_count_more(text: str, yes: list[str], no: list[str]) -> None:
    meant = AddressFilter(text)
    assert all(meant.covers(name) for name in yes)
    assert not any(meant.covers(name) for name in no)


@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        ("", "", True),
        ("eu", "", True),
        ("eu", "us", False),
        ("eu,us", "us.west", True),
        ("eu,!eu.uk", "eu.uk", False),
        ("eu", "eu.uk,!eu", False),
        ("eu,!eu.uk", "eu", True),
    ],
)
def test_two_may_be_about_the_same_addresses(one: str, other: str, meet: bool) -> None:
    mine, theirs = AddressFilter(one), AddressFilter(other)
    assert mine.meets(theirs) == theirs.meets(mine) == meet
