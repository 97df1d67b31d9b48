"""What a broker.xml bounds for clients of CORE: time of branches, sessions and queues of a user, memory."""

from __future__ import annotations

import pytest

from entrepot.core.arrival import Stamps
from entrepot.core.security.access import EVERYTHING, Rule
from entrepot.core.security.directory import Directory, User
from entrepot.model.address import UNTYPED
from entrepot.protocols.artemis.packets import (
    CreateSession,
    ExceptionReply,
    XaEnd,
    XaGetTimeout,
    XaGetTimeoutReply,
    XaReply,
    XaSetTimeout,
    XaSetTimeoutReply,
    XaStart,
)
from entrepot.protocols.artemis.primitives import Xid
from kit import Rig

from .wired import MULTICAST, Client, Hub

ONE, OTHER = Xid(1, b"one", b"b"), Xid(1, b"other", b"b")


@pytest.fixture
def hub() -> Hub:
    return Hub()


def begin(client: Client, xid: Xid) -> None:
    assert not client.ask(XaStart(xid=xid), XaReply).error
    client.send("q", "x")
    assert not client.ask(XaEnd(xid=xid), XaReply).error


def pass_by(hub: Hub, seconds: float) -> None:
    hub.rig.wait(int(seconds * 1000))
    hub.turn()


def test_a_branch_lasts_as_long_as_the_broker_or_its_session_says(hub: Hub) -> None:
    hub.acceptor.branch_ms = 5_000
    client = Client(hub)
    client.open()
    client.make("q")
    assert client.ask(XaGetTimeout(), XaGetTimeoutReply).seconds == 5
    begin(client, ONE)
    assert client.ask(XaSetTimeout(seconds=1), XaSetTimeoutReply).ok
    begin(client, OTHER)
    pass_by(hub, 1.5)
    assert [branch.key[8:] for branch in hub.acceptor.branches.values()] == [b"bone"]
    pass_by(hub, 4)
    assert not hub.acceptor.branches
    assert client.ask(XaSetTimeout(seconds=0), XaSetTimeoutReply).ok
    begin(client, ONE)
    pass_by(hub, 4)
    assert hub.acceptor.branches
    assert not client.ask(XaSetTimeout(seconds=-1), XaSetTimeoutReply).ok


def known(hub: Hub) -> None:
    rules = [Rule("#", UNTYPED, {"r": EVERYTHING})]
    hub.protect(Directory([User("ada", "plain:p", ["r"]), User("bob", "plain:p", ["r"])]), rules)


def refusals(client: Client) -> list[tuple[int, str]]:
    return [(int(one.code), (one.text or "").partition(":")[0]) for one in client.take(ExceptionReply)]


def test_a_user_has_as_many_sessions_as_he_may(hub: Hub) -> None:
    known(hub)
    hub.acceptor.limits["ada"] = (2, -1)
    clients = [Client(hub) for _ in range(3)]
    for client in clients[:2]:
        client.open(user="ada", password="p")
    ask = CreateSession(name="third", session_channel=10, version=136, min_large=102_400, user="ada", password="p")
    clients[2].say(ask, 1)
    assert refusals(clients[2]) == [(112, "AMQ229110")]
    clients[2].open(user="bob", password="p")
    clients[0].cut()
    last = Client(hub)
    last.open(user="ada", password="p")


def test_a_user_has_as_many_queues_as_he_may(hub: Hub) -> None:
    known(hub)
    hub.acceptor.limits["ada"] = (-1, 1)
    client = Client(hub)
    client.open(user="ada", password="p")
    client.make("one")
    client.make("two")
    assert refusals(client) == [(105, "AMQ229111")]
    hub.rig.broker.queues.delete(hub.rig.queue("one"), "test")
    client.make("two")
    assert not refusals(client)


def test_what_carries_no_user_is_refused_with_the_code_of_artemis(hub: Hub) -> None:
    hub.rig.broker.options.stamps = Stamps("b", users=True, demands=True)
    client = Client(hub)
    client.open()
    client.make("q")
    client.send("q", "x", correlation=7)
    assert refusals(client) == [(104, "AMQ229225")]


def test_without_wildcards_a_queue_has_what_is_sent_to_its_own_name(hub: Hub) -> None:
    hub.rig.broker.table.wildcards = False
    client = Client(hub)
    client.open()
    client.make("reads", address="a.#", routing=MULTICAST)
    client.send("a.b", "x", routing=MULTICAST)
    assert hub.rig.queue("reads").count == 0
    client.send("a.#", "x", routing=MULTICAST)
    assert hub.rig.queue("reads").count == 1


def test_a_broker_has_as_many_messages_in_memory_as_it_may() -> None:
    rig = Rig(full="FAIL")
    rig.plan.options.messages_max = 3
    rig.restart()
    for _ in range(3):
        rig.send("q", "x")
    assert rig.broker.memory.crowded
    with pytest.raises(Exception, match="is full"):
        rig.send("p", "x")
    rig.reader("q", 1).ack(1)
    assert not rig.broker.memory.crowded
    rig.send("p", "x")
