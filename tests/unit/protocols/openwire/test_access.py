"""Users and rights as an OpenWire client meets them."""

from __future__ import annotations

import pytest

from entrepot.base.errors import StorageFull
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.operators.management import install
from entrepot.core.security.access import ADMIN, EVERYTHING, READ, WRITE, Rule
from entrepot.core.security.directory import Directory, User
from entrepot.core.security.passwords import hashed
from entrepot.model.address import ANYCAST, UNTYPED
from entrepot.protocols.openwire.commands import (
    ActiveMQQueue,
    ActiveMQTempQueue,
    ActiveMQTempTopic,
    ActiveMQTopic,
    Command,
    ConnectionId,
    ConnectionInfo,
    ConsumerId,
    ConsumerInfo,
    DataArrayResponse,
    Destination,
    DestinationInfo,
    ExceptionResponse,
    IntegerResponse,
    ProducerId,
    ProducerInfo,
    RemoveSubscriptionInfo,
    Response,
    TransactionInfo,
    XATransactionId,
)
from entrepot.protocols.openwire.ids import TransactionStep
from entrepot.protocols.openwire.options import OpenWireOptions
from kit import Rig

from ..stomp.test_access import Slow
from ..stomp.test_server import Client as StompClient
from .wired import Client, Hub


@pytest.fixture
def hub() -> Hub:
    rig = Rig()
    install(rig.broker)
    users = [User("app", "plain:secret", ["shop"]), User("boss", "plain:manager", ["admins"])]
    rules = [
        Rule(">", UNTYPED, {"admins": EVERYTHING}),
        Rule("shop.>", UNTYPED, {"shop": READ | WRITE | ADMIN}),
        Rule("outbox", ANYCAST, {"shop": WRITE}),
    ]
    rig.broker.access.protect(Directory(users), rules, Rule(">", UNTYPED, {"admins": EVERYTHING}))
    rig.broker.queues.create(QueueDefinition(name="outbox", address="outbox"))
    return Hub(rig)


def enter(hub: Hub, user: str = "app", password: str = "secret", client_id: str | None = None) -> Client:
    client = hub.client(connected=False)
    info = ConnectionInfo(
        connection_id=ConnectionId(client.name), user_name=user, password=password, client_id=client_id
    )
    assert type(client.ask(info)) is Response
    client.take()
    return client


def said(client: Client, command: Command) -> str:
    """Return "" or the message of what Java sees."""
    answer = client.ask(command)
    if not isinstance(answer, ExceptionResponse):
        return ""
    assert answer.exception is not None
    assert answer.exception.class_name == "java.lang.SecurityException"
    return (answer.exception.message or "").removeprefix("User app is not authorized to ")


def consumer(client: Client, where: Destination, number: int, **fields: object) -> ConsumerInfo:
    info = ConsumerInfo(consumer_id=ConsumerId(client.name, 1, number), destination=where, prefetch_size=10)
    for name, value in fields.items():
        setattr(info, name, value)
    return info


def test_who_is_not_admitted_is_told_in_the_words_of_activemq(hub: Hub) -> None:
    for user, password in (("app", "guess"), ("nobody", "secret"), (None, None)):
        client = hub.client(connected=False)
        info = ConnectionInfo(connection_id=ConnectionId(client.name), user_name=user, password=password)
        assert said(client, info) == f"User name [{user or 'null'}] or password is invalid."
        assert not hub.acceptor.connections
        client.wait(2_100)
        assert client.session.closing
    assert enter(hub).session.describe()["login"] == "app"


def test_producers_consumers_and_browsers_need_their_right(hub: Hub) -> None:
    client = enter(hub)
    outbox, secret = ActiveMQQueue("outbox"), ActiveMQQueue("secret")
    producer = ProducerId(client.name, 1, 1)
    assert said(client, ProducerInfo(producer_id=producer, destination=secret)) == "write to: queue://secret"
    assert said(client, ProducerInfo(producer_id=producer, destination=outbox)) == ""
    assert said(client, client.text(secret, "x")) == "write to: queue://secret"
    assert said(client, client.text(ActiveMQQueue("shop.a,secret"), "x")) == "write to: shop.a,secret"
    assert said(client, client.text(outbox, "x")) == ""
    assert said(client, consumer(client, outbox, 1)) == "read from: queue://outbox"
    assert said(client, consumer(client, outbox, 2, browser=True)) == "read from: queue://outbox"
    for where in ("shop.a,outbox", "outbox,shop.a", "*", "outbox.>", ">"):
        assert said(client, consumer(client, ActiveMQQueue(where), 6, browser=True)).startswith("read from: "), where
    assert said(client, consumer(client, ActiveMQQueue("shop.*"), 7, browser=True)) == ""
    assert said(client, consumer(client, ActiveMQTopic("secret"), 3)) == "read from: topic://secret"
    assert said(client, consumer(client, ActiveMQQueue("shop.a,outbox"), 4)) == "read from: shop.a,outbox"
    assert said(client, consumer(client, ActiveMQQueue("shop.a"), 5)) == ""
    assert not [one for one in client.session.need_consuming().consumers.values() if one.info.destination == outbox]


def test_destinations_are_made_and_removed_by_who_may(hub: Hub) -> None:
    client = enter(hub)
    for name, verdict in (("shop.new", ""), ("secret", "create: queue://secret")):
        assert said(client, DestinationInfo(destination=ActiveMQQueue(name), operation_type=0)) == verdict
    assert "secret" not in hub.rig.broker.table.queues
    for name, verdict in (("shop.new", ""), ("outbox", "remove: queue://outbox")):
        assert said(client, DestinationInfo(destination=ActiveMQQueue(name), operation_type=1)) == verdict
    assert "outbox" in hub.rig.broker.table.queues
    own = ActiveMQTempQueue(f"{client.name}:1")
    assert said(client, DestinationInfo(destination=own, operation_type=0)).startswith("create: temp-queue://")
    operator = enter(hub, "boss", "manager")
    own = ActiveMQTempQueue(f"{operator.name}:1")
    assert said(operator, DestinationInfo(destination=own, operation_type=0)) == ""


def test_a_durable_subscription_is_removed_by_who_may_read_its_topic(hub: Hub) -> None:
    owner = enter(hub, "boss", "manager", client_id="me")
    owner.ask(consumer(owner, ActiveMQTopic("secret"), 1, subscription_name="s"))
    owner.session.detach("closed", hub.rig.now)
    client = enter(hub)
    info = RemoveSubscriptionInfo(client_id="me", subscription_name="s")
    assert said(client, info) == "read from: topic://secret"
    assert hub.rig.broker.reading.durable("me", "s") is not None
    assert said(enter(hub, "boss", "manager"), info) == ""


def test_management_requests_need_their_right(hub: Hub) -> None:
    where = ActiveMQQueue("activemq.management")
    client = enter(hub)
    assert said(client, client.text(where, "[]")) == "manage: queue://activemq.management"
    operator = enter(hub, "boss", "manager")
    assert said(operator, operator.text(where, "[]")) == ""


def test_a_client_id_is_taken_over_where_the_connector_allows_it(hub: Hub) -> None:
    first = enter(hub, "boss", "manager", client_id="me")
    first.ask(consumer(first, ActiveMQTopic("news"), 1, subscription_name="s"))
    options = OpenWireOptions()
    options.link_stealing = True
    second = hub.client(options=options, connected=False)
    info = ConnectionInfo(connection_id=ConnectionId(second.name), client_id="me", user_name="boss", password="manager")
    assert type(second.ask(info)) is Response
    assert first.session.closing
    assert "newer connection" in first.session.refused
    assert type(second.ask(consumer(second, ActiveMQTopic("news"), 1, subscription_name="s"))) is Response
    first.session.detach("closed", hub.rig.now)
    assert list(hub.rig.broker.clients.held) == ["me"]


def refused(client: Client, command: Command) -> str:
    answer = client.ask(command)
    assert isinstance(answer, ExceptionResponse), answer
    assert answer.exception is not None
    return answer.exception.message or ""


def test_the_id_that_a_client_chooses_does_not_make_it_the_owner_of_a_temporary_destination(hub: Hub) -> None:
    """Names of temporary destinations are told to everybody; a connection id is whatever its client says."""
    for kind, temporary in (("queue", ActiveMQTempQueue), ("topic", ActiveMQTempTopic)):
        theirs = StompClient(hub.rig, login="boss", passcode="manager")
        theirs.subscribe(f"/temp-{kind}/inbox")
        (name,) = theirs.session.places.temporary.values()
        thief = hub.client(name.rpartition(":")[0], connected=False)
        info = ConnectionInfo(connection_id=ConnectionId(thief.name), user_name="boss", password="manager")
        assert type(thief.ask(info)) is Response
        where = temporary(name)
        assert "another connection made it" in refused(thief, consumer(thief, where, 1))
        assert "another connection made it" in refused(thief, consumer(thief, where, 2, browser=True))
        assert "was made by another connection" in refused(thief, DestinationInfo(destination=where, operation_type=0))
        assert "another connection made it" in refused(thief, consumer(thief, where, 3))
        thief.ask(DestinationInfo(destination=where, operation_type=1))
        thief.session.detach("gone", hub.rig.now)
        theirs.send(b"mine", f"/remote-temp-{kind}/{name}")
        assert [frame.body for frame in theirs.got if frame.command == "MESSAGE"] == [b"mine"]


def test_a_connection_is_taken_over_by_its_own_user_only(hub: Hub) -> None:
    """A failover client comes back under its id before the broker knows that the old socket is dead."""
    first = enter(hub, "boss", "manager")
    inbox = ActiveMQTempQueue(f"{first.name}:1")
    first.ask(DestinationInfo(destination=inbox, operation_type=0))
    thief = hub.client(first.name, connected=False)
    info = ConnectionInfo(connection_id=ConnectionId(first.name), user_name="app", password="secret")
    assert "is another user's" in refused(thief, info)
    assert not first.session.closing
    assert inbox.physical_name in hub.rig.broker.table.queues
    again = hub.client(first.name, connected=False)
    info = ConnectionInfo(connection_id=ConnectionId(first.name), user_name="boss", password="manager")
    assert type(again.ask(info)) is Response
    assert first.session.closing


BRANCH = XATransactionId(7, b"global", b"branch")


def step(client: Client, kind: TransactionStep, branch: XATransactionId | None = BRANCH) -> Response:
    info = TransactionInfo(connection_id=ConnectionId(client.name), transaction_id=branch, type=int(kind))
    return client.ask(info)


def prepare(client: Client, *texts: str, sequence: int = 1, where: str = "shop.a") -> Response:
    step(client, TransactionStep.BEGIN)
    for number, text in enumerate(texts):
        message = client.text(
            ActiveMQQueue(where), text, persistent=True, transaction=BRANCH, sequence=sequence + number
        )
        client.ask(message)
    return step(client, TransactionStep.PREPARE)


def branches(client: Client) -> list[XATransactionId]:
    answer = step(client, TransactionStep.RECOVER, None)
    assert isinstance(answer, DataArrayResponse)
    return [one for one in answer.data or [] if isinstance(one, XATransactionId)]


@pytest.mark.parametrize("restart", ["", "kill"])
def test_a_prepared_branch_is_its_users(hub: Hub, restart: str) -> None:
    """Anybody who was let in saw it, committed it, rolled it back, or put another one in its place."""
    owner = enter(hub, "boss", "manager")
    hub.rig.broker.access.protect(
        hub.rig.broker.access._directory,
        [Rule("shop.>", UNTYPED, {"shop": EVERYTHING, "admins": EVERYTHING}), Rule("bare", ANYCAST, {"admins": ADMIN})],
    )
    assert isinstance(prepare(owner, "x"), IntegerResponse)
    owner.session.detach("gone", hub.rig.now)
    access = hub.rig.broker.access
    if restart:
        hub.rig.restart(restart)
        install(hub.rig.broker)
        hub.rig.broker.access.protect(access._directory, [rule for _, rule in access._rules.items()])
        hub = Hub(hub.rig)
    stranger = enter(hub)
    assert branches(stranger) == []
    for kind in TransactionStep:
        if kind is not TransactionStep.RECOVER:
            assert "another user's prepared branch" in refused_step(stranger, kind)
    assert len(hub.rig.broker.branches.prepared) == 1
    owner = enter(hub, "boss", "manager")
    assert branches(owner) == [BRANCH]
    assert type(step(owner, TransactionStep.COMMIT_TWO_PHASE)) is Response
    assert hub.rig.broker.table.queues["shop.a"].count == 1


def refused_step(client: Client, kind: TransactionStep) -> str:
    answer = step(client, kind)
    assert isinstance(answer, ExceptionResponse), answer
    assert answer.exception is not None
    assert answer.exception.class_name == "java.lang.SecurityException"
    return answer.exception.message or ""


def test_who_may_manage_finishes_the_branch_of_another(hub: Hub) -> None:
    assert isinstance(prepare(enter(hub), "x"), IntegerResponse)
    operator = enter(hub, "boss", "manager")
    assert branches(operator) == [BRANCH]
    assert type(step(operator, TransactionStep.ROLLBACK)) is Response
    assert not hub.rig.broker.branches.prepared


def test_a_branch_of_an_older_journal_is_for_who_may_manage(hub: Hub) -> None:
    app = enter(hub)
    assert isinstance(prepare(app, "x"), IntegerResponse)
    (branch,) = hub.rig.broker.branches.prepared.values()
    branch.user = None
    assert branches(app) == []
    assert branches(enter(hub, "boss", "manager")) == [BRANCH]


def test_a_branch_that_is_prepared_again_is_a_repetition_or_refused(hub: Hub) -> None:
    """A failover client repeats all of it; the first one was forgotten then, with what it had sent."""
    app = enter(hub)
    assert isinstance(prepare(app, "x", "y"), IntegerResponse)
    assert isinstance(prepare(app, "x", "y"), IntegerResponse)
    answer = prepare(app, "z", sequence=9)
    assert isinstance(answer, ExceptionResponse)
    assert answer.exception is not None
    assert (answer.exception.message or "").endswith("xaErrorCode:-8")
    assert type(step(app, TransactionStep.COMMIT_TWO_PHASE)) is Response
    assert hub.rig.broker.table.queues["shop.a"].count == 2
    hub.rig.broker.check()
    app.session.detach("gone", hub.rig.now)
    hub.rig.restart("kill")
    assert hub.rig.broker.table.queues["shop.a"].count == 2
    assert hub.rig.journal.usage().messages == 2


def code_of(answer: Response) -> int:
    """Return the code of XA that an answer says."""
    assert isinstance(answer, ExceptionResponse), answer
    assert answer.exception is not None
    assert answer.exception.class_name == "javax.transaction.xa.XAException"
    return int((answer.exception.message or "").rpartition(" xaErrorCode:")[2])


@pytest.mark.parametrize("end", [TransactionStep.COMMIT_TWO_PHASE, TransactionStep.ROLLBACK, TransactionStep.FORGET])
def test_a_branch_that_another_session_ends_now_is_neither_done_nor_undone(hub: Hub, end: TransactionStep) -> None:
    app = enter(hub)
    assert isinstance(prepare(app, "x"), IntegerResponse)
    (branch,) = hub.rig.broker.branches.prepared.values()
    branch.ending = True
    assert code_of(step(app, end)) == (4 if end is TransactionStep.COMMIT_TWO_PHASE else -7)
    assert list(hub.rig.broker.branches.prepared.values()) == [branch]
    branch.ending = False
    assert type(step(app, end)) is Response


def test_a_full_disk_keeps_a_branch_prepared_and_rolls_back_what_was_to_be_committed_at_once(hub: Hub) -> None:
    app = enter(hub)
    assert isinstance(prepare(app, "x"), IntegerResponse)
    hub.rig.journal.tight(StorageFull("no space"))
    assert code_of(step(app, TransactionStep.COMMIT_TWO_PHASE)) == 4
    assert branches(app) == [BRANCH]
    hub.rig.journal.relieved()
    assert type(step(app, TransactionStep.COMMIT_TWO_PHASE)) is Response
    assert hub.rig.broker.table.queues["shop.a"].count == 1
    step(app, TransactionStep.BEGIN)
    app.ask(app.text(ActiveMQQueue("shop.a"), "y", persistent=True, transaction=BRANCH, sequence=7))
    hub.rig.journal.tight(StorageFull("no space"))
    assert code_of(step(app, TransactionStep.COMMIT_ONE_PHASE)) == 101
    hub.rig.journal.relieved()
    assert code_of(step(app, TransactionStep.COMMIT_ONE_PHASE)) == -4, "it is gone"
    assert hub.rig.broker.table.queues["shop.a"].count == 1


def test_what_comes_behind_connection_info_waits_until_the_password_was_looked_at(hub: Hub) -> None:
    access = hub.rig.broker.access
    access.protect(Directory([User("app", hashed("secret", b"0123456789abcdef"))]))
    assert access.logins is not None
    slow = access.logins.hasher = Slow()
    for password, let_in in (("secret", True), ("wrong", False)):
        client = hub.client(connected=False)
        client.take()
        info = ConnectionInfo(connection_id=ConnectionId(client.name), user_name="app", password=password)
        number = client.post(info, answer=True)
        sent = client.text(ActiveMQQueue("q"), "x", persistent=True)
        sent.command_id, sent.response_required = 99, True
        client.session.undone.append(sent)  # as if it had come in the same chunk
        assert client.session.unfinished
        assert client.heard == []
        slow.under_way.pop()()
        hub.rig.broker.effort.go_on()
        client.session.resume(hub.rig.now)
        client.exchange()
        answer = client.answer_to(number)
        assert isinstance(answer, ExceptionResponse) is not let_in
        assert client.session.received == (3 if let_in else 2)  # the WireFormatInfo, too
        assert hub.rig.broker.table.queues["q"].count == 1
        client.session.detach("gone", hub.rig.now)
