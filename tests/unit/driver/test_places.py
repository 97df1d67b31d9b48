"""Which place of an announced broker is used, and what is never sent there."""

from __future__ import annotations

import pytest

from entrepot.base.errors import InvalidOption
from entrepot.base.uri import Endpoint
from entrepot.driver.places import reachable, read_list
from entrepot.pipeline.options import READ, STREAM, read

PLAIN = Endpoint("stomp", "b", 1)
SECURE = Endpoint("stomp+ssl", "b", 2)


def test_a_list_is_read_and_what_is_not_understood_is_passed_over() -> None:
    assert read_list("A=stomp://b:1 stomp+ssl://b:2,B=,C=quic:///,, D=stomp://[::1]:3,nonsense") == {
        "A": [PLAIN, SECURE],
        "B": [],
        "C": [],
        "D": [Endpoint("stomp", "::1", 3)],
    }


def test_credentials_follow_and_never_leave_tls() -> None:
    tls = {"trustStorePath": "/ca"}
    named = Endpoint("stomp", "a", 1, user="u", password="p")
    assert reachable([SECURE, PLAIN], named, tls) == Endpoint("stomp", "b", 1, user="u", password="p")
    assert reachable([SECURE], named, tls) == Endpoint("stomp+ssl", "b", 2, options=tls, user="u", password="p")
    safe = Endpoint("stomp+ssl", "a", 1, options={"verifyHostName": "false"})
    assert reachable([PLAIN], safe, tls) is None
    assert reachable([PLAIN, SECURE], safe, tls) == SECURE.with_options({"verifyHostName": "false", **tls})
    assert reachable([], named, tls) is None


def test_discovery_is_for_queues_and_can_be_switched_off() -> None:
    given = {"url": "stomp://a:1", "subscription": "s"}
    assert read({**given, "queue": "q"}, STREAM).discovers
    assert not read({**given, "queue": "q", "discover": "False"}, STREAM).discovers
    assert not read({**given, "topic": "t"}, STREAM).discovers
    assert read({"url": "stomp://a:1", "queue": "q"}, READ).discovers
    with pytest.raises(InvalidOption, match="brokers of a topic"):
        read({**given, "topic": "t", "discover": "true"}, STREAM)
    with pytest.raises(InvalidOption, match="discover is"):
        read({**given, "queue": "q", "discover": "maybe"}, STREAM)
