"""Handles of links that this side asks for: which it chooses, and which the peer calls them by."""

from __future__ import annotations

import pytest

from entrepot.base.errors import LimitExceeded
from entrepot.model.address import ANYCAST, Destination
from entrepot.protocols.amqp import performatives as said
from entrepot.protocols.amqp.calling.asking import Asking
from entrepot.protocols.amqp.session import AmqpSession

from .wired import Client, Hub

WHERE = Destination("Q", ANYCAST)


def asking(client: Client, first: int, last: int) -> tuple[AmqpSession, Asking]:
    session = client.session.channels[0]
    made = Asking(session, first, last, False)
    session.asked = made
    client.hub.fill("Q", "x")
    return session, made


def test_each_side_calls_a_link_by_a_handle_of_its_own() -> None:
    client = Client(Hub())
    session, links = asking(client, 5_000, 6_000)
    link = links.take_from("L", "there", [], WHERE, None)
    client.hub.turn()
    (asked,) = client.take(said.Attach)
    assert (asked.name, asked.handle, asked.role) == ("L", 5_000, True)
    client.sender("Q", 7)  # a link of the peer's own, in the midst
    answer = said.Attach(name="L", handle=9, role=False, source=asked.source, target=asked.target)
    answer.initial_delivery_count = 0
    client.say(answer)
    (flow,) = [one for one in client.take(said.Flow) if one.handle == 5_000]
    assert flow.link_credit > 0
    client.say(said.Transfer(handle=9, delivery_id=0, delivery_tag=b"1"), b"\0\x53\x77\xa1\x01a")
    client.hub.turn()
    assert link.received == 1
    assert int(client.hub.rig.queue("Q").count) == 2
    client.say(said.Detach(handle=9, closed=True))
    assert [one.handle for one in client.take(said.Detach)] == [5_000]
    assert 7 in session.links, "the peer's own link is another one"
    assert links.ours(9) == 9, "the handle is free again"


def test_when_no_handle_is_left_it_is_said() -> None:
    client = Client(Hub())
    _, links = asking(client, 5_000, 5_001)
    for name in "ab":
        links.take_from(name, "there", [], WHERE, None)
    with pytest.raises(LimitExceeded, match="no link above the handle 5001"):
        links.take_from("c", "there", [], WHERE, None)
