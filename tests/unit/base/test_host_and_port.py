"""HOST:PORT: one reading and one error text for all who are told a place."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from entrepot.base.errors import InvalidOption
from entrepot.base.places import host_and_port
from entrepot.cli import console
from entrepot.io import replicating, voting
from entrepot.io.status import StatusPage
from entrepot.pipeline.landing import configuration


@pytest.mark.parametrize(
    ("text", "read"),
    [("a:1", ("a", 1)), ("10.0.0.1:0", ("10.0.0.1", 0)), ("[::1]:65535", ("::1", 65535)), ("::1:7", ("::1", 7))],
)
def test_a_place_is_read(text: str, read: tuple[str, int]) -> None:
    assert host_and_port(text, "a:1") == read


@pytest.mark.parametrize(
    "text", ["", "a", "1", "a:", ":1", "a:65536", "a:-1", "a:²", "a: 1", "a:1_0", "a:٣", "a:" + "1" * 5000]
)
def test_what_is_no_place_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidOption, match="is not HOST:PORT") as refused:
        host_and_port(text, "b:2")
    assert "b:2" in (refused.value.remedy or "")


def test_no_host_is_all_addresses_where_that_is_meant() -> None:
    assert host_and_port(":1", "a:1", everywhere=True) == ("", 1)


def test_what_is_set_so_is_named() -> None:
    with pytest.raises(InvalidOption, match="metrics 'here' is not"):
        configuration.place("here")


def _status(text: str) -> object:
    return StatusPage(text, dict)


@pytest.mark.parametrize(
    "read",
    [console.place, replicating.place_of, voting.place_of, configuration.place, _status],
    ids=lambda read: f"{read.__module__}.{read.__name__}",
)
def test_all_who_are_told_a_place_refuse_what_only_looks_like_a_digit(read: Callable[[str], object]) -> None:
    with pytest.raises(InvalidOption, match="is not HOST:PORT"):
        read("127.0.0.1:²")
