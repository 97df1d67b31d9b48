"""Users and rights as a STOMP client meets them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.operators.management import install
from entrepot.core.security.access import ADMIN, CONSUME, EVERYTHING, READ, WRITE, Rule
from entrepot.core.security.directory import Directory, User
from entrepot.core.security.logins import Hasher
from entrepot.core.security.passwords import Kept, hashed
from entrepot.model.address import ANYCAST, UNTYPED
from entrepot.protocols.serving.life import OPENING
from entrepot.protocols.session import Shell
from entrepot.protocols.stomp.frames import Frame
from entrepot.protocols.stomp.options import StompOptions
from entrepot.protocols.stomp.server import StompSession
from kit import Rig

from .test_server import Client, bodies, kinds

PASSES = {"login": "app", "passcode": "secret"}


@pytest.fixture
def rig() -> Rig:
    made = Rig(disk=False)
    install(made.broker)
    users = [User("app", "plain:secret", ["shop"]), User("boss", "plain:manager", ["admins"])]
    rules = [
        Rule(">", UNTYPED, {"admins": EVERYTHING}),
        Rule("shop.>", UNTYPED, {"shop": READ | WRITE | ADMIN}),
        Rule("outbox", ANYCAST, {"shop": WRITE}),
    ]
    made.broker.access.protect(Directory(users), rules)
    made.broker.queues.create(QueueDefinition(name="outbox", address="outbox"))
    return made


def boss(rig: Rig) -> Client:
    return Client(rig, login="boss", passcode="manager")


def said(found: list[Frame]) -> str:
    (error,) = found
    assert error.command == "ERROR", error
    return error.headers["message"]


def test_a_wrong_password_closes_the_connection(rig: Rig) -> None:
    for given in ({"login": "app", "passcode": "wrong"}, {"login": "nobody"}, {}):
        client = Client(rig, **given)
        name = given.get("login", "null")
        assert client.connected.command == "ERROR"
        assert client.connected.headers["message"] == f"User name [{name}] or password is invalid."
        assert client.connected.headers["code"] == "ENT-3016"
        assert client.session.closing
        assert client.send(b"x") == []
    assert Client(rig, **PASSES).connected.command == "CONNECTED"


def test_a_refusal_leaves_the_connection_open(rig: Rig) -> None:
    client = Client(rig, **PASSES)
    assert said(client.send(b"x", "/queue/secret")) == "User app is not authorized to write to: queue://secret"
    assert said(client.subscribe("/queue/outbox")) == "User app is not authorized to read from: queue://outbox"
    assert said(client.subscribe("/queue/outbox", browser="true")).endswith("read from: queue://outbox")
    assert said(client.subscribe("/topic/secret.*")) == "User app is not authorized to read from: topic://secret.*"
    assert said(client.send(b"x", "/queue/shop.a,/queue/secret")).endswith("write to: queue://secret")
    assert kinds(client.send(b"out", "/queue/outbox")) == ["RECEIPT"]
    assert kinds(client.send(b"in", "/queue/shop.a")) == ["RECEIPT"]
    assert bodies(client.subscribe("/queue/shop.a")) == [b"in"]
    assert bodies(boss(rig).subscribe("/queue/outbox")) == [b"out"]


def test_a_transaction_with_a_refused_send_does_not_commit(rig: Rig) -> None:
    client = Client(rig, **PASSES)
    client.ask("BEGIN", transaction="t")
    assert kinds(client.send(b"good", "/queue/shop.a", transaction="t")) == ["RECEIPT"]
    assert said(client.send(b"bad", "/queue/secret", transaction="t")).endswith("write to: queue://secret")
    assert "not authorized" in said(client.ask("COMMIT", transaction="t", receipt="c"))
    assert bodies(client.subscribe("/queue/shop.a")) == []


def test_leases_are_for_readers(rig: Rig) -> None:
    client = Client(rig, **PASSES)
    assert said(client.ask("ATTACH", queue="/queue/outbox", group="g")).endswith("read from: queue://outbox")
    assert kinds(client.ask("ATTACH", queue="/queue/shop.a", group="g", receipt="r")) == ["RECEIPT"]
    assert said(client.ask("ATTACH", topic="secret", group="g")).endswith("read from: topic://secret")
    assert kinds(client.ask("ATTACH", topic="shop.news", group="g", receipt="r")) == ["RECEIPT"]
    assert said(client.ask("ATTACH", queue="/topic/outbox", group="g")).endswith("read from: queue://outbox")
    boss(rig).ask("ATTACH", queue="/queue/outbox", group="g")
    for command in ("CLAIM", "READ", "SETTLE", "RELEASE"):
        assert said(client.ask(command, queue="/queue/outbox", group="g", epoch="1")).endswith("queue://outbox")


def test_a_sink_is_its_first_users_and_a_staged_send_is_a_send(rig: Rig) -> None:
    client = Client(rig, **PASSES)
    ours = {"sink": "s", "batch": "0", "receipt": "r"}
    assert kinds(client.ask("STAGE", **ours, part="a")) == ["RECEIPT"]
    assert kinds(client.send(b"good", "/queue/shop.a", stage="a")) == ["RECEIPT"]
    assert kinds(client.ask("STAGED", **ours, part="a")) == ["RECEIPT"]
    assert kinds(client.ask("STAGE", **ours, part="b")) == ["RECEIPT"]
    assert said(client.send(b"bad", "/queue/secret", stage="b")).endswith("write to: queue://secret")
    assert "cannot be closed" in said(client.ask("STAGED", **ours, part="b"))
    for command in ("STAGE", "DECIDE", "PUBLISH", "ABANDON"):
        assert said(boss(rig).ask(command, **ours, part="c", parts="a")) == "the sink 's' is another user's"
    assert kinds(client.ask("PUBLISH", **ours, parts="a")) == ["RECEIPT"]
    assert bodies(client.subscribe("/queue/shop.a")) == [b"good"]
    rig.broker.stages.forget("s")
    assert kinds(boss(rig).ask("STAGE", **ours, part="c")) == ["RECEIPT"]


def test_management_is_for_managers(rig: Rig) -> None:
    question = {"_AMQ_ResourceName": "broker", "_AMQ_OperationName": "listQueues", "reply_to": "/temp-queue/a"}
    client = Client(rig, **PASSES)
    assert said(client.send(b"[]", "/queue/activemq.management", **question)).endswith(
        "manage: queue://activemq.management"
    )
    operator = boss(rig)
    operator.subscribe("/temp-queue/a")
    operator.send(b"[]", "/queue/activemq.management", **question)
    rig.turn()
    rig.wait(1)
    assert kinds(operator.hear()) == ["MESSAGE"]


def test_a_temporary_queue_is_read_by_its_own_connection(rig: Rig) -> None:
    client, other = Client(rig, **PASSES), boss(rig)
    client.subscribe("/temp-queue/mine")
    (name,) = client.session.places.temporary.values()
    assert said(other.subscribe(f"/remote-temp-queue/{name}")).endswith("is read by the connection that made it")
    assert kinds(other.send(b"answer", f"/remote-temp-queue/{name}")) == ["RECEIPT"]
    assert bodies(client.hear()) == [b"answer"]


def test_a_durable_subscription_of_a_topic_that_is_not_his_is_not_removed(rig: Rig) -> None:
    owner = Client(rig, client_id="me", login="boss", passcode="manager")
    owner.subscribe("/topic/secret", durable_subscription_name="s")
    owner.cut()
    client = Client(rig, client_id="me", **PASSES)
    assert "not authorized" in said(client.subscribe("/topic/shop.news", durable_subscription_name="s"))
    assert "not authorized" in said(client.ask("UNSUBSCRIBE", id="1", durable_subscription_name="s"))
    assert rig.broker.reading.durable("me", "s") is not None


def test_consuming_without_subscribing_durably(rig: Rig) -> None:
    rig.broker.access.protect(None, [Rule("news", UNTYPED, {"*": CONSUME}), Rule(">", UNTYPED, {"*": ADMIN})])
    client = Client(rig, client_id="me")
    assert "not authorized" in said(client.subscribe("/topic/news", durable_subscription_name="s"))
    assert client.subscribe("/topic/news", receipt="r")[0].command == "RECEIPT"


def test_a_client_id_is_taken_over_where_the_connector_allows_it() -> None:
    rig = Rig(disk=False)
    first = Client(rig, client_id="me")
    first.subscribe("/topic/news", durable_subscription_name="s")
    second = Client(rig, client_id="me")
    assert second.connected.command == "ERROR"
    thief = Client(rig, client_id="")
    thief.session.options.link_stealing = True
    thief.session.life, thief.session.reader.connected = OPENING, False
    thief.say("CONNECT", {"accept-version": "1.2", "host": "x", "client-id": "me"})
    assert kinds(thief.hear()) == ["CONNECTED"]
    assert "newer connection" in said(first.hear())
    assert first.session.closing
    assert kinds(thief.subscribe("/topic/news", durable_subscription_name="s", receipt="r")) == ["RECEIPT"]
    first.cut()
    assert list(rig.broker.clients.held) == ["me"]
    thief.cut()
    assert not rig.broker.clients.held


def test_no_way_of_reading_leads_to_the_temporary_destination_of_another_connection(rig: Rig) -> None:
    """With rights on everything, and without rules at all: whose a temporary destination is, is no matter of rights."""
    for guarded in (True, False):
        if not guarded:
            rig.broker.access.protect(None)
        client, other = Client(rig, **PASSES), boss(rig)
        client.subscribe("/temp-queue/inbox", ack="client")
        (name,) = client.session.places.temporary.values()
        client.ask("UNSUBSCRIBE", id="1")
        other.send(b"secret", f"/remote-temp-queue/{name}")
        theirs = f"/remote-temp-queue/{name}"
        for where in (theirs, f"temp-queue://{name}", f"/queue/mine,{theirs}", f"{theirs},/queue/mine"):
            for fields in ({}, {"browser": "true"}):
                assert said(other.subscribe(where, **fields)).endswith("is read by the connection that made it")
        for lease in ({"queue": theirs}, {"topic": f"/remote-temp-topic/{name}"}):
            assert said(other.ask("ATTACH", group="g", **lease)).endswith("is read by the connection that made it")
        assert not rig.broker.leases.held
        assert bodies(client.subscribe("/temp-queue/inbox", browser="true")) == [b"secret", b""]
        client.cut()


def test_a_wildcard_does_not_reach_temporary_topics(rig: Rig) -> None:
    client, other = Client(rig, **PASSES), boss(rig)
    client.subscribe("/temp-topic/news")
    (name,) = client.session.places.temporary.values()
    other.subscribe("/topic/>")
    other.subscribe("/queue/Consumer.x.>", id="2")
    other.send(b"for one", f"/remote-temp-topic/{name}")
    other.send(b"for all", "/topic/news")
    assert bodies(client.hear()) == [b"for one"]
    assert bodies(other.got) == [b"for all"]


STAGING = {
    "STAGE": {"part": "p"},
    "STAGED": {"part": "p"},
    "DECIDE": {"parts": "p"},
    "PUBLISH": {"parts": ""},
    "ABANDON": {},
}


def test_who_may_send_nowhere_stages_and_decides_nothing(rig: Rig) -> None:
    """He locked names of sinks against their writers, and filled the memory."""
    rules = [
        Rule(">", UNTYPED, {"admins": EVERYTHING}),
        Rule("news", UNTYPED, {"shop": READ | ADMIN}),
    ]
    rig.broker.access.protect(rig.broker.access._directory, rules)
    client = Client(rig, **PASSES)
    for command, fields in STAGING.items():
        for more in ({}, {"forget": "true"}):
            refusal = said(client.ask(command, sink="orders", batch="0", receipt="r", **fields, **more))
            assert refusal == "User app is not authorized to stage for the sink 'orders': it may send nowhere"
    assert not rig.broker.stages.ledger.sinks
    assert kinds(boss(rig).ask("DECIDE", sink="orders", batch="0", parts="p", receipt="r")) == ["RECEIPT"]


def test_rules_say_who_may_use_which_sink(rig: Rig) -> None:
    rules = [
        Rule(">", UNTYPED, {"admins": EVERYTHING}),
        Rule("shop.>", UNTYPED, {"shop": EVERYTHING}),
        Rule("ActiveMQ.Sink.shop.>", ANYCAST, {"shop": WRITE}),
    ]
    rig.broker.access.protect(rig.broker.access._directory, rules)
    client = Client(rig, **PASSES)
    assert kinds(client.ask("DECIDE", sink="shop.a", batch="0", parts="p", receipt="r")) == ["RECEIPT"]
    for name in ("orders", ">", "#", "*.a", "*", "shop*", "Shop.a", " shop.a"):
        for command, fields in STAGING.items():
            refusal = said(client.ask(command, sink=name, batch="0", receipt="r", **fields))
            assert "write to: queue://ActiveMQ.Sink." in refusal
    assert kinds(boss(rig).ask("DECIDE", sink="orders", batch="0", parts="p", receipt="r")) == ["RECEIPT"]


def test_a_frame_without_effect_makes_nobody_the_owner_of_a_sink(rig: Rig) -> None:
    client = Client(rig, **PASSES)
    for command, fields in STAGING.items():
        if command not in ("STAGE", "DECIDE", "PUBLISH"):
            client.ask(command, sink="s", batch="0", receipt="r", **fields)
    client.ask("STAGE", sink="s", batch="0", part="a,b")
    client.ask("DECIDE", sink="s", batch="-1", parts="p")
    client.ask("PUBLISH", sink="s", batch="0", parts="p")
    client.ask("STAGE", sink="s", batch="0", part="p")
    client.cut()
    assert not rig.broker.stages.ledger.sinks
    assert kinds(boss(rig).ask("DECIDE", sink="s", batch="0", parts="p", receipt="r")) == ["RECEIPT"]
    assert [sink.owner for sink in rig.broker.stages.ledger.sinks.values()] == ["boss"]


class Waiter(Shell):
    """Notes that its session may go on."""

    def __init__(self) -> None:
        self.called = 0

    def go_on(self) -> None:
        self.called += 1


class Slow(Hasher):
    """Looks at a password when it is told to."""

    def __init__(self) -> None:
        self.under_way: list[Callable[[], None]] = []

    def look(self, kept: Kept, password: str, done: Callable[[bool], None]) -> None:
        self.under_way.append(lambda: done(kept.matches(password)))


def test_what_comes_behind_connect_waits_until_the_password_was_looked_at(rig: Rig) -> None:
    access = rig.broker.access
    access.protect(Directory([User("app", hashed("secret", b"0123456789abcdef"))]))
    assert access.logins is not None
    slow = access.logins.hasher = Slow()
    for password, answer in (("secret", b"CONNECTED"), ("wrong", b"ERROR")):
        shell = Waiter()
        session = StompSession(shell, rig.broker, StompOptions(), 1, "192.0.2.1:1")
        start = b"CONNECT\naccept-version:1.2\nhost:x\nlogin:app\npasscode:%s\n\n\0" % password.encode()
        session.receive(start + b"SEND\ndestination:/queue/q\nreceipt:1\n\nx\0", rig.now)
        assert session.unfinished
        assert not session.closing
        assert session.outgoing() == b""
        session.resume(rig.now)  # too early
        assert session.unfinished
        slow.under_way.pop()()
        assert shell.called == 0
        rig.broker.effort.go_on()
        assert shell.called == 1
        session.resume(rig.now)
        rig.turn()
        assert session.outgoing().startswith(answer)
        assert not session.unfinished
        assert session.closing is (answer == b"ERROR")
        assert rig.broker.table.queues["q"].count == 1
        session.detach("gone", rig.now)
    gone = StompSession(Waiter(), rig.broker, StompOptions(), 1, "192.0.2.1:1")
    gone.receive(b"CONNECT\naccept-version:1.2\nhost:x\nlogin:app\npasscode:other\n\n\0", rig.now)
    gone.detach("gone", rig.now)
    slow.under_way.pop()()
    assert not rig.broker.effort.waits()


def test_who_came_in_and_who_did_not_is_counted() -> None:
    rig = Rig()
    rig.broker.access.protect(Directory([User("app", "plain:word")]))
    Client(rig, login="app", passcode="word")
    Client(rig, login="app", passcode="guess")
    counts = rig.broker.access.counts
    assert (counts.admitted, counts.turned_away) == (1, 1)
