"""Announcements of brokers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.base.uri import Endpoint
from entrepot.client import discovery
from entrepot.client.discovery import GroupListening, Listening
from entrepot.client.options import GroupOptions
from entrepot.io.datagram import Group
from entrepot.protocols.announcement import PLACES_MAX, MulticastOptions, announcement, parse_announcement


def test_the_layout_is_activemqs() -> None:
    assert announcement("default", "tcp://a:1", alive=True) == b"default.ActiveMQ-4.alive.%localhost%tcp://a:1"
    assert parse_announcement(b"default.ActiveMQ-4.dead.%localhost%tcp://a:1", "default") == (False, "tcp://a:1")
    assert parse_announcement(b"default.ActiveMQ-4.alive.%localhost%tcp://a:1?x=%20y", "default") == (
        True,
        "tcp://a:1?x=%20y",
    )


def test_other_groups_and_rubbish_say_nothing() -> None:
    for data in (b"other.ActiveMQ-4.alive.%localhost%tcp://a:1", b"default.ActiveMQ-4.alive.", b"\xff", b""):
        assert parse_announcement(data, "default") is None


@given(st.binary())
def test_any_octets_are_borne(data: bytes) -> None:
    parse_announcement(b"default.ActiveMQ-4." + data, "default")


def test_found_lost_and_bounded() -> None:
    loop = asyncio.new_event_loop()
    found: list[Endpoint] = []
    lost: list[Endpoint] = []
    listening = Listening(MulticastOptions(), loop, found.append, lost.append)
    for _ in range(2):
        listening.heard(announcement("default", "tcp://a:1", alive=True), "x")
    listening.heard(announcement("default", "::nonsense", alive=True), "x")
    assert [place.host for place in found] == ["a"]
    listening.heard(announcement("default", "tcp://a:1", alive=False), "x")
    assert [place.host for place in lost] == ["a"]
    for port in range(1, PLACES_MAX + 100):
        listening.heard(announcement("default", f"tcp://a:{port}", alive=True), "x")
    assert len(found) == PLACES_MAX + 1
    loop.close()


def test_who_is_cancelled_while_nobody_is_heard_leaves_no_socket_open(monkeypatch: pytest.MonkeyPatch) -> None:
    class Quiet(Group):
        def __init__(self) -> None:
            super().__init__("231.7.7.7", 9876, lambda data, sender: None)
            self.closed = 0

        def close(self) -> None:
            self.closed += 1

    group = Quiet()

    async def listen(*given: Any, **named: Any) -> Group:
        return group

    async def act() -> None:
        loop = asyncio.get_running_loop()
        listening = GroupListening(GroupOptions(), loop, lambda place: None, lambda place: None)
        opening = loop.create_task(listening.open(Endpoint("udp", host="231.7.7.7", port=9876)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening

    monkeypatch.setattr(discovery, "listen", listen)
    asyncio.run(act())
    assert group.closed == 1
