"""Every packet of CORE that the server takes, to every kind of address, without the right: nothing has happened.

A packet that is new to the server fails `test_every_packet_is_here` until there is a row for it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

from entrepot.protocols.artemis import commanding, packets, server
from entrepot.protocols.artemis.packets import (
    Acknowledge,
    BindingQuery,
    BindingQueryReply,
    CloseConsumer,
    ClusterConnect,
    ClusterConnectReply,
    Commit,
    CreateAddress,
    CreateConsumer,
    CreateProducer,
    CreateQueue,
    CreateSession,
    CreateSessionReply,
    CreateSharedQueue,
    DeleteQueue,
    ExceptionReply,
    Expired,
    FlowToken,
    ForceDelivery,
    IndividualAcknowledge,
    Packet,
    QueueQuery,
    QueueQueryReply,
    ReattachSession,
    ReattachSessionReply,
    Receive,
    RequestCredits,
    Rollback,
    Send,
    SendContinuation,
    SendLarge,
    XaCommit,
    XaEnd,
    XaForget,
    XaInDoubtXids,
    XaInDoubtXidsReply,
    XaJoin,
    XaPrepare,
    XaReply,
    XaRollback,
    XaStart,
)
from entrepot.protocols.artemis.primitives import Xid
from entrepot.protocols.artemis.refusals import SECURITY

from ..guarded import BRANCH, KINDS, PASSWORD, REPLYING, STRANGERS, Scene, written
from .wired import ANYCAST, MULTICAST, NEWEST, Client, Hub, message

SPOKEN = tuple(kind for kind in KINDS if "composite" not in kind and "wildcard" not in kind)
ANSWERED = tuple(kind for kind in SPOKEN if kind in REPLYING or kind.endswith("plain name"))  # a reply-to has no prefix
SENDING = tuple(kind for kind in SPOKEN if kind not in ANSWERED)
SERVED = ("management", "management as a topic", "scheduler", "scheduler as a queue", "statistics", "statistics of all")
UNREAD = (*SERVED, "advisory", "virtual topic", "new topic", "queue of a durable subscription")  # nobody reads there
OWN = "own queue on another's address"  # a queue is found by its own name, as Artemis does: this one is his
READING = tuple(kind for kind in SPOKEN if kind != OWN)
THERE = ("queue", "queue of its address", "queue of a virtual topic", "dead letters")
XID = Xid(BRANCH.format_id, bytes(BRANCH.branch_qualifier or b""), bytes(BRANCH.global_transaction_id or b""))


class World(Scene):
    """The scene, with CORE in it: a session of boss's with a delivery that is not acknowledged, and one in a branch."""

    def __init__(self) -> None:
        super().__init__()
        self.core_hub = Hub(self.rig)
        self.core_boss = self.core("boss", window=1 << 20)
        self.core_boss.consume("secret", credits=1)
        (self.kept,) = self.core_boss.take(Receive)
        self.session_name = self.core_boss.session.channels[10].session.name
        self.settle()

    def core(self, user: str, password: str = PASSWORD, **fields: object) -> Client:
        client = Client(self.core_hub)
        client.open(user=user, password=password, **fields)
        return client

    def settle(self) -> None:
        super().settle()
        if hasattr(self, "core_hub"):
            self.core_hub.turn()

    def picture(self) -> dict[str, object]:
        boss = self.core_boss.session
        return {
            **super().picture(),
            "declared": dict(self.rig.broker.table.declared),
            "core": (boss.closing, {number: len(one.session.consumers) for number, one in boss.channels.items()}),
            "core branches": sorted(self.core_hub.acceptor.branches),
        }


def plain(scene: Scene, kind: str) -> tuple[str, int]:
    """Return the name, and the routing type that the kind has."""
    text = written(scene, kind)
    prefix, _, name = text.removeprefix("/").partition("/")
    if not name:
        return text, ANYCAST
    return name, MULTICAST if "topic" in prefix else ANYCAST


Said = Callable[[World, str, int], list[Packet]]


class Row:
    """One way of using packets. ``useless``: kinds where they are of no use to boss."""

    def __init__(self, said: Said, kinds: tuple[str, ...] = ("",), useless: tuple[str, ...] = (), **session: object):
        self.said = said
        self.kinds = kinds
        self.useless = useless
        self.session = session


def sending(scene: World, name: str, routing: int) -> list[Packet]:
    return [Send(message=message(name, "x", routing=routing), require_response=True, correlation=1)]


def sending_through_a_producer(scene: World, name: str, routing: int) -> list[Packet]:
    return [CreateProducer(sender=3, address="open"), *sending(scene, name, routing)]


def sending_in_a_transaction(scene: World, name: str, routing: int) -> list[Packet]:
    good = Send(message=message("open", "good"), require_response=True, correlation=1)
    bad = Send(message=message(name, "bad", routing=routing), require_response=True, correlation=2)
    return [good, bad, Commit(correlation=3)]


def sending_a_large_one(scene: World, name: str, routing: int) -> list[Packet]:
    octets = message(name, "", routing=routing)
    at = int.from_bytes(octets[:4], "big") - 13 + 4
    begun = octets[at:]
    body = SendContinuation(body=b"x" * 2000, continues=False, body_size=2000, require_response=True, correlation=1)
    return [SendLarge(headers=begun), body]


def reading(*, browse: bool = False) -> Said:
    def said(scene: World, name: str, routing: int) -> list[Packet]:
        return [
            CreateConsumer(consumer=1, queue=name, browse=browse, require_response=True),
            FlowToken(consumer=1, credits=1 << 20),
            ForceDelivery(consumer=1, sequence=1),
        ]

    return said


def making_an_address(scene: World, name: str, routing: int) -> list[Packet]:
    return [CreateAddress(address=name, routing_types=[0, 1], require_response=True)]


def making_a_queue(*, temporary: bool = False) -> Said:
    def said(scene: World, name: str, routing: int) -> list[Packet]:
        return [
            CreateQueue(
                address=name, queue="made", durable=not temporary, temporary=temporary, routing=routing,
                require_response=True,
            )
        ]  # fmt: skip

    return said


def making_a_shared_queue(scene: World, name: str, routing: int) -> list[Packet]:
    return [CreateSharedQueue(address=name, queue="made", durable=True, routing=routing, require_response=True)]


def deleting(scene: World, name: str, routing: int) -> list[Packet]:
    return [DeleteQueue(queue=name)]


def branch(*said: Packet) -> Said:
    return lambda scene, name, routing: list(said)


def others(kind: type[Acknowledge] | type[IndividualAcknowledge] | type[Expired]) -> Said:
    """Say of a consumer of one's own what is a delivery of boss's."""

    def said(scene: World, name: str, routing: int) -> list[Packet]:
        numbers = range(1, 60)
        return [kind(consumer=0, message=number) for number in numbers]

    return said


ROWS: dict[str, Row] = {
    "Send": Row(sending, SENDING, UNREAD),
    "Send behind CreateProducer": Row(sending_through_a_producer, SENDING, UNREAD),
    "Send in a transaction": Row(sending_in_a_transaction, SENDING, UNREAD, auto_commit_sends=False),
    "SendLarge": Row(sending_a_large_one, SENDING, UNREAD),
    "CreateConsumer": Row(reading(), READING, tuple(kind for kind in SPOKEN if kind not in THERE)),
    "CreateConsumer to browse": Row(reading(browse=True), READING, tuple(kind for kind in SPOKEN if kind not in THERE)),
    "CreateAddress": Row(making_an_address, ("queue", "topic", "new queue", "dead letters"), ()),
    "CreateQueue": Row(making_a_queue(), ("queue", "topic", "new queue", "new topic", "dead letters")),
    "CreateQueue, temporary": Row(making_a_queue(temporary=True), ("queue", "topic", "new queue", "dead letters")),
    "CreateSharedQueue": Row(making_a_shared_queue, ("topic", "new topic")),
    "DeleteQueue": Row(deleting, READING, tuple(kind for kind in SPOKEN if kind != "queue of a virtual topic")),
    "XaCommit": Row(branch(XaCommit(xid=XID)), xa=True),
    "XaRollback": Row(branch(XaRollback(xid=XID)), xa=True),
}
ALIEN: dict[str, Row] = {
    "Acknowledge": Row(others(Acknowledge)),
    "IndividualAcknowledge": Row(others(IndividualAcknowledge)),
    "Expired": Row(others(Expired)),
    "CloseConsumer": Row(branch(CloseConsumer(consumer=0))),
    "FlowToken": Row(branch(FlowToken(consumer=0, credits=1 << 20))),
    "ForceDelivery": Row(branch(ForceDelivery(consumer=0, sequence=1))),
    "Commit": Row(branch(Commit(correlation=1)), auto_commit_acks=False),
    "Rollback": Row(branch(Rollback()), auto_commit_acks=False),
    "XaJoin": Row(branch(XaJoin(xid=XID)), xa=True),
    "XaPrepare": Row(branch(XaPrepare(xid=XID)), xa=True),
    "XaEnd": Row(branch(XaEnd(xid=XID)), xa=True),
    "XaForget": Row(branch(XaForget(xid=XID)), xa=True),
    "RequestCredits": Row(lambda scene, name, routing: [RequestCredits(address="secret", credits=1 << 20)]),
    "SendContinuation": Row(branch(SendContinuation(body=b"x", correlation=1))),
}
"""What is said of a session's own, or of nothing: without effect on anybody else, whatever it names."""

ASKING = {"QueueQuery", "BindingQuery", "XaInDoubtXids"}
TRIED_BELOW = {"CreateSession", "ReattachSession", "ClusterConnect", "CreateProducer"}
HARMLESS = {
    "AddMetadata", "CheckForFailover", "Close", "Disconnect", "PacketsConfirmed", "Ping", "RemoveProducer", "Start",
    "Stop", "SubscribeTopology", "UniqueAddMetadata", "XaFailed", "XaGetTimeout", "XaResume", "XaSetTimeout", "XaStart",
    "XaSuspend",
}  # fmt: skip
"""What names nothing of anybody else's: one's own life, one's own branch, a name among metadata."""


def test_every_packet_is_here() -> None:
    words = {name.partition(",")[0].partition(" ")[0] for name in (*ROWS, *ALIEN)} | ASKING | TRIED_BELOW | HARMLESS
    known = {name for module in (commanding, server) for name in vars(module)}
    taken = {
        name
        for name, kind in inspect.getmembers(packets, inspect.isclass)
        if issubclass(kind, Packet) and kind is not Packet and name in known
    }
    answers = {name for name in taken if name.endswith("Reply") or name in ("ClusterTopology", "DisconnectConsumer")}
    assert len(taken) > 30
    assert not taken - answers - words, f"no row of this test is about {taken - answers - words}"


def codes(client: Client) -> list[int]:
    found = [int(one.code) for one in client.take(ExceptionReply)]
    return found + [int(one.code) for one in client.take(XaReply) if one.error]


def say(scene: World, client: Client, said: list[Packet]) -> None:
    for packet in said:
        if not client.session.closing and 10 in client.session.channels:
            client.say(packet, 10)
    scene.settle()


@pytest.mark.parametrize("verb", ROWS)
def test_without_the_right_nothing_happens(verb: str) -> None:
    row = ROWS[verb]
    scene = World()
    before = scene.picture()
    for user in STRANGERS:
        for kind in row.kinds:
            client = scene.core(user, **row.session)
            name, routing = plain(scene, kind) if kind else ("", ANYCAST)
            say(scene, client, row.said(scene, name, routing))
            told = codes(client)
            context = f"{user}: {verb} {kind} ({name}): {told}"
            assert client.take(Receive) == [], context
            assert told, context
            client.cut()
            scene.settle()
            assert scene.picture() == before, context


@pytest.mark.parametrize("verb", ALIEN)
def test_what_is_another_sessions_stays(verb: str) -> None:
    row = ALIEN[verb]
    scene = World()
    before = scene.picture()
    for user in STRANGERS:
        client = scene.core(user, **row.session)
        say(scene, client, row.said(scene, "", ANYCAST))
        assert client.take(Receive) == []
        client.cut()
        scene.settle()
        assert scene.picture() == before, f"{user}: {verb}"


@pytest.mark.parametrize(
    ("verb", "kind"), [(verb, kind) for verb, row in ROWS.items() for kind in row.kinds if kind not in row.useless]
)
def test_with_the_right_it_happens(verb: str, kind: str) -> None:
    """Else a refusal proves nothing: the packet might be wrong."""
    row = ROWS[verb]
    scene = World()
    client = scene.core("boss", **row.session)
    before = scene.picture()
    name, routing = plain(scene, kind) if kind else ("", ANYCAST)
    say(scene, client, row.said(scene, name, routing))
    told = codes(client)
    assert SECURITY not in told, told
    assert client.take(Receive) or scene.picture() != before, f"nothing has happened: {told}"


@pytest.mark.parametrize("user", STRANGERS)
def test_a_session_is_brought_elsewhere_by_its_name_alone_and_nobody_guesses_that(user: str) -> None:
    """Its name is the key, as at Artemis: chance makes it, and a client has not said who it is when it comes back."""
    scene = World()
    before = scene.picture()
    client = scene.core(user)
    for name in ("", "boss", scene.session_name[:-1], scene.session_name + "0", scene.session_name.upper(), "10"):
        client.say(ReattachSession(name=name, last_confirmed=-1), 1)
        assert not [one for one in client.take(ReattachSessionReply) if one.reattached]
    client.cut()
    scene.settle()
    assert scene.picture() == before


@pytest.mark.parametrize("user", STRANGERS)
def test_who_asks_is_told_of_no_branch_of_others(user: str) -> None:
    scene = World()
    client = scene.core(user, xa=True)
    reply = client.ask(XaInDoubtXids(), XaInDoubtXidsReply)
    assert not reply.xids
    assert scene.core("boss", xa=True).ask(XaInDoubtXids(), XaInDoubtXidsReply).xids == [XID]


@pytest.mark.parametrize("user", STRANGERS)
def test_who_asks_changes_nothing(user: str) -> None:
    scene = World()
    before = scene.picture()
    client = scene.core(user)
    for kind in SPOKEN:
        name, _ = plain(scene, kind)
        client.say(QueueQuery(queue=name), 10)
        client.say(BindingQuery(address=name), 10)
    assert client.take(QueueQueryReply)
    assert client.take(BindingQueryReply)
    client.cut()
    scene.settle()
    assert scene.picture() == before


def test_who_may_not_come_in() -> None:
    scene = World()
    before = scene.picture()
    for user, password in (("boss", "wrong"), ("nobody", PASSWORD), ("boss", None), (None, None), ("boss ", PASSWORD)):
        client = Client(scene.core_hub)
        client.say(CreateSession(name="s", session_channel=10, version=NEWEST, user=user, password=password), 1)
        assert client.take(CreateSessionReply) == []
        client.say(ClusterConnect(user=user or "", password=password or ""), 0)
        assert not [one for one in client.take(ClusterConnectReply) if one.authorized]
        if not client.session.closing:
            client.say(XaStart(xid=XID), 10)
            client.say(Send(message=message("secret", "x")), 10)
        client.cut()
        scene.settle()
        assert scene.picture() == before
