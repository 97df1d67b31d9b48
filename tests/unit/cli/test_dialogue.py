from __future__ import annotations

import asyncio

import pytest

from entrepot.base.errors import InvalidURI
from entrepot.cli.dialogue import in_thread, places


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("localhost:61613", ["stomp://localhost:61613"]),
        ("stomp://u:p@h:1", ["stomp://u:p@h:1"]),
        ("failover:(stomp://a:1,tcp://b:2)?randomize=false", ["stomp://a:1", "tcp://b:2"]),
    ],
)
def test_places(url: str, expected: list[str]) -> None:
    assert [endpoint.format() for endpoint in places(url)] == expected


def test_a_socket_file_is_a_place() -> None:
    (endpoint,) = places("stomp+unix:///run/entrepot.sock")
    assert endpoint.path == "/run/entrepot.sock"
    assert places(endpoint.format()) == [endpoint]


def test_what_names_no_place() -> None:
    with pytest.raises(InvalidURI):
        places("failover:()")


def test_a_thread_gives_its_result_or_its_error() -> None:
    def fail() -> None:
        raise OSError("no")

    assert asyncio.run(in_thread(lambda: 7)) == 7
    with pytest.raises(OSError, match="no"):
        asyncio.run(in_thread(fail))
