"""Every command of OpenWire, to every kind of destination, without the right: refused, and nothing has happened.

A command that is new to the protocol is tried by itself, with every field naming what is somebody else's; it fails
`test_every_command_is_here` until it is said whether there is anything that it may do.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from entrepot.core.addressing.definition import QueueDefinition
from entrepot.protocols.openwire import commands, schema
from entrepot.protocols.openwire.codec import prototypes
from entrepot.protocols.openwire.commands import (
    BrokerId,
    BrokerInfo,
    Command,
    ConnectionError,
    ConnectionId,
    ConnectionInfo,
    ConsumerControl,
    ConsumerId,
    ConsumerInfo,
    Destination,
    DestinationInfo,
    ExceptionResponse,
    MessageAck,
    MessageDispatch,
    MessagePull,
    ProducerId,
    ProducerInfo,
    RemoveInfo,
    RemoveSubscriptionInfo,
    Response,
    SessionId,
    TransactionInfo,
)
from entrepot.protocols.openwire.frames import Structure
from entrepot.protocols.openwire.ids import TransactionStep
from entrepot.protocols.openwire.schema import Kind

from ..guarded import BRANCH, KINDS, PASSWORD, REPLYING, STRANGERS, Scene, spoken
from .wired import Client

Steps = Callable[[Scene, Client, Destination], list[Command]]

VERSION = schema.VERSION_MAX
READING = tuple(kind for kind in KINDS if kind != "untyped")
SENDING = tuple(kind for kind in READING if kind not in REPLYING)
WILDCARDS = tuple(kind for kind in READING if "wildcard" in kind)
UNREAD = ("advisory", "queue of a durable subscription")  # nobody reads there; the name of a queue is no address
SERVED = (
    "management",
    "management as a topic",
    "scheduler",
    "scheduler as a queue",
    "statistics",
    "statistics of all",
)
FOREIGN = ("temporary queue", "temporary topic")  # of a client of STOMP: not even boss's over OpenWire
NO_QUEUES = (*(kind for kind in READING if "topic" in kind and "queue" not in kind), *WILDCARDS, "advisory", *FOREIGN)


class Row:
    """One way of using a command; ``useless``: kinds of destination where it is of no use to boss."""

    def __init__(
        self, steps: Steps, kinds: tuple[str, ...] = ("",), useless: tuple[str, ...] = (), client_id: str | None = None
    ) -> None:
        self.steps = steps
        self.kinds = kinds
        self.useless = useless
        self.client_id = client_id


def producing(scene: Scene, client: Client, where: Destination) -> list[Command]:
    return [ProducerInfo(producer_id=ProducerId(client.name, 9, 1), destination=where)]


def sending(scene: Scene, client: Client, where: Destination) -> list[Command]:
    return [client.text(where, "x", persistent=True)]


def sending_by_a_producer(scene: Scene, client: Client, where: Destination) -> list[Command]:
    """A producer of what one may write to, and a message of his that goes elsewhere."""
    return [
        ProducerInfo(producer_id=ProducerId(client.name, 1, 1), destination=commands.ActiveMQQueue("open")),
        client.text(where, "x", persistent=True),
    ]


def in_a_transaction(scene: Scene, client: Client, where: Destination) -> list[Command]:
    identity = commands.LocalTransactionId(1, ConnectionId(client.name))
    return [
        TransactionInfo(transaction_id=identity, type=int(TransactionStep.BEGIN)),
        client.text(commands.ActiveMQQueue("open"), "good", persistent=True, transaction=identity),
        client.text(where, "bad", persistent=True, transaction=identity),
        TransactionInfo(transaction_id=identity, type=int(TransactionStep.COMMIT_ONE_PHASE)),
    ]


def consuming(number: int = 9, **fields: object) -> Steps:
    def steps(scene: Scene, client: Client, where: Destination) -> list[Command]:
        info = ConsumerInfo(consumer_id=ConsumerId(client.name, 1, number), destination=where, prefetch_size=10)
        for name, value in fields.items():
            setattr(info, name, value)
        return [info]

    return steps


def destined(kind: int) -> Steps:
    return lambda scene, client, where: [DestinationInfo(destination=where, operation_type=kind)]


def stepping(kind: TransactionStep) -> Steps:
    return lambda scene, client, where: [TransactionInfo(transaction_id=BRANCH, type=int(kind))]


def named(name: str) -> Destination:
    return commands.ActiveMQTopic(name)


ROWS: dict[str, Row] = {
    "ProducerInfo": Row(producing, SENDING, (*WILDCARDS, *SENDING)),
    "Message": Row(sending, SENDING, (*WILDCARDS, *UNREAD)),
    "Message of a producer": Row(sending_by_a_producer, SENDING, (*WILDCARDS, *UNREAD)),
    "Message in a transaction": Row(in_a_transaction, SENDING, (*WILDCARDS, *UNREAD)),
    "ConsumerInfo": Row(consuming(), READING, FOREIGN),
    "ConsumerInfo without prefetch": Row(consuming(prefetch_size=0), READING, FOREIGN),
    "ConsumerInfo, exclusive": Row(consuming(exclusive=True, priority=127), READING, FOREIGN),
    "ConsumerInfo, retroactive": Row(consuming(retroactive=True), READING, FOREIGN),
    "ConsumerInfo of a bridge": Row(consuming(network_subscription=True), READING, FOREIGN),
    "ConsumerInfo to browse": Row(consuming(browser=True), READING, NO_QUEUES),
    "ConsumerInfo with a selector": Row(consuming(selector="TRUE"), READING, FOREIGN),
    "ConsumerInfo, durable": Row(
        consuming(subscription_name="mine"),
        tuple(kind for kind in READING if kind != "advisory"),  # which nobody may read durably
        (*FOREIGN, *(kind for kind in READING if "topic" not in kind), "Java's temporary topic"),
        client_id="mine",
    ),
    "ConsumerInfo of another's durable subscription": Row(
        lambda scene, client, where: [
            *consuming(8, subscription_name="s")(scene, client, named("secret")),
            *consuming(9, subscription_name="s")(scene, client, named("open")),
        ],
        client_id="me",
    ),
    "RemoveSubscriptionInfo": Row(
        lambda scene, client, where: [RemoveSubscriptionInfo(subscription_name="s")], client_id="me"
    ),
    "RemoveSubscriptionInfo of another client": Row(
        lambda scene, client, where: [RemoveSubscriptionInfo(client_id="me", subscription_name="s")]
    ),
    "DestinationInfo, add": Row(destined(0), ("new queue", "new topic")),
    "DestinationInfo, add several": Row(
        lambda scene, client, where: [
            DestinationInfo(destination=commands.ActiveMQQueue("open.new,fresh"), operation_type=0)
        ]
    ),
    "DestinationInfo, remove": Row(
        destined(1), tuple(kind for kind in SENDING if kind != "new queue of the own address"), SENDING
    ),
    **{
        f"TransactionInfo, {step.name}": Row(stepping(step))
        for step in TransactionStep
        if step is not TransactionStep.RECOVER
    },
}
DIFFERENT = {  # of more than rights: what exists, what is empty, what is read; of these other tests tell
    "TransactionInfo, COMMIT_ONE_PHASE": "it is prepared",
    "TransactionInfo, PREPARE": "it has to be begun first",
}

HARMLESS = {  # what these say is of their own connection, or is heard and not heeded
    "ConnectionInfo",
    "SessionInfo",
    "KeepAliveInfo",
    "ShutdownInfo",
    "RemoveInfo",
    "ControlCommand",
    "FlushCommand",
    "ConnectionError",
    "ConsumerControl",
    "ConnectionControl",
    "ProducerAck",
    "MessagePull",
    "MessageDispatch",
    "MessageAck",
    "MessageDispatchNotification",
    "BrokerInfo",
    "BrokerSubscriptionInfo",
    "ReplayCommand",
    "Response",
    "ExceptionResponse",
    "DataResponse",
    "DataArrayResponse",
    "IntegerResponse",
}


def every_command() -> list[str]:
    """Return the names of all that a peer may send as a frame of its own."""
    return [type(made).__name__ for made in prototypes(VERSION) if isinstance(made, Command)]


def test_every_command_is_here() -> None:
    known = {name.partition(",")[0].partition(" ")[0] for name in ROWS} | HARMLESS
    missing = [name for name in every_command() if name not in known and not issubclass(_type(name), commands.Message)]
    assert not missing, f"no row of this test is about {missing}"
    assert len(every_command()) > 25


def _type(name: str) -> type[Structure]:
    found: type[Structure] = getattr(commands, name)
    return found


def say(scene: Scene, client: Client, steps: list[Command]) -> list[Response]:
    found: list[Response] = []
    for command in steps:
        number = client.post(command, answer=True)
        scene.settle()
        client.exchange()
        found.append(client.answer_to(number))
    return found


def refusals(found: list[Response]) -> list[str]:
    return [
        f"{answer.exception.class_name}: {answer.exception.message}"
        for answer in found
        if isinstance(answer, ExceptionResponse) and answer.exception is not None
    ]


def dispatched(client: Client) -> list[MessageDispatch]:
    return [each for each in client.heard_of(MessageDispatch) if each.message is not None]


@pytest.mark.parametrize("verb", ROWS)
def test_without_the_right_nothing_happens(verb: str) -> None:
    row = ROWS[verb]
    scene = Scene()
    before = scene.picture()
    for user in STRANGERS:
        for kind in row.kinds:
            client = scene.java(user, row.client_id)
            where = spoken(scene, kind) if kind else named("")
            told = refusals(say(scene, client, row.steps(scene, client, where)))
            context = f"{user}: {verb} {kind}: {told}"
            ours = [each for each in told if "SecurityException" in each or "another connection" in each]
            assert ours, context
            assert not dispatched(client), context
            assert not client.session.closing, context
            client.session.detach("gone", scene.rig.now)
            scene.settle()
            assert scene.picture() == before, context


@pytest.mark.parametrize(
    ("verb", "kind"), [(verb, kind) for verb, row in ROWS.items() for kind in row.kinds if kind not in row.useless]
)
def test_with_the_right_it_happens(verb: str, kind: str) -> None:
    """Else a refusal proves nothing: the command might be wrong."""
    if verb in DIFFERENT:
        return
    row = ROWS[verb]
    scene = Scene()
    client = scene.java_boss
    if row.client_id is not None:
        client = scene.java("boss", row.client_id)
    before = scene.picture()
    told = refusals(say(scene, client, row.steps(scene, client, spoken(scene, kind) if kind else named(""))))
    if verb == "ConsumerInfo of another's durable subscription":
        assert len(told) == 1, told  # the first of two reads it
    else:
        assert not told
    alike = ("TransactionInfo, BEGIN", "TransactionInfo, END", "ConsumerInfo to browse")
    if verb not in alike and not (kind in SERVED and verb.startswith("Message")):
        assert scene.picture() != before, "nothing has happened"


def test_destinations_and_producers_are_made_by_who_may() -> None:
    scene = Scene()
    boss = scene.java_boss
    for kind in SENDING:
        if kind in WILDCARDS or kind in UNREAD:
            continue
        where = spoken(scene, kind)
        assert refusals(say(scene, boss, producing(scene, boss, where))) == [], kind
        boss.session.need_sending().producers.clear()
        assert refusals(say(scene, boss, destined(0)(scene, boss, where))) == [], kind
    free = commands.ActiveMQQueue("free")
    scene.rig.broker.queues.create(QueueDefinition(name="free", address="free"))
    assert refusals(say(scene, boss, destined(1)(scene, boss, free))) == []
    assert "free" not in scene.rig.broker.table.queues


# -- commands that name what is another connection's ------------------------------------------------------------------


def hostile(scene: Scene, structure: Structure, kind: schema.Type) -> None:
    """Let every field of ``structure`` name what is boss's."""
    java = scene.java_boss
    first = scene.dispatches[0]
    assert first.message is not None
    given: dict[str, object] = {
        "ConnectionId": ConnectionId(java.name),
        "SessionId": SessionId(java.name, 1),
        "ConsumerId": scene.consumer,
        "ProducerId": ProducerId(java.name, 1, 1),
        "BrokerId": BrokerId(value=scene.rig.broker.ids.node_id),
        "MessageId": first.message.message_id,
        "TransactionId": BRANCH,
        "Destination": commands.ActiveMQQueue("secret"),
    }
    for field in kind.fields:
        value = _hostile_value(field, given)
        if value is not None:
            setattr(structure, field.name, value)


def _hostile_value(field: schema.Field, given: dict[str, object]) -> object:
    for name, value in given.items():
        if name.lower() in field.name.replace("_", "").lower() and field.kind in (Kind.NESTED, Kind.CACHED):
            return value
    if field.name == "object_id":
        return given["ConnectionId"]
    if field.name in ("client_id", "user_name"):
        return "me"
    if field.name in ("subscription_name", "subcription_name"):
        return "s"
    if field.name in ("close", "exit", "network_connection", "duplex_connection", "master_broker", "persistent"):
        return True
    return None


@pytest.mark.parametrize("name", every_command())
def test_a_command_about_what_is_another_connections_does_nothing_to_it(name: str) -> None:
    scene = Scene()
    before = scene.picture()
    (kind,) = [each for each in schema.TYPES if each.name == name]
    for user in (*STRANGERS, ""):
        for answered in (True, False):
            client = scene.java(user) if user else scene.hub.client(connected=False)
            made = _type(name)()
            assert isinstance(made, Command)
            hostile(scene, made, kind)
            client.post(made, answer=answered)
            scene.settle()
            client.hear()
            assert not dispatched(client), f"{user}: {name}"
            client.session.detach("gone", scene.rig.now)
            scene.settle()
            assert scene.picture() == before, f"{user}: {name}"


@pytest.mark.parametrize("user", STRANGERS)
def test_consumers_and_connections_of_others_are_not_ended_nor_read_nor_settled(user: str) -> None:
    scene = Scene()
    before = scene.picture()
    java = scene.java_boss
    first = scene.dispatches[0]
    assert first.message is not None
    tried: list[Command] = [
        MessagePull(consumer_id=scene.consumer, destination=commands.ActiveMQQueue("secret"), timeout=0),
        ConsumerControl(consumer_id=scene.consumer, close=True),
        ConsumerControl(consumer_id=scene.consumer, prefetch=1000),
        *(
            RemoveInfo(object_id=each)
            for each in (scene.consumer, ProducerId(java.name, 1, 1), SessionId(java.name, 1))
        ),
        RemoveInfo(object_id=ConnectionId(java.name)),
    ]
    for kind in range(7):
        tried.append(
            MessageAck(
                destination=commands.ActiveMQQueue("secret"),
                consumer_id=scene.consumer,
                ack_type=kind,
                first_message_id=first.message.message_id,
                last_message_id=first.message.message_id,
                message_count=1,
            )
        )
    for command in tried:
        client = scene.java(user)
        client.post(command, answer=True)
        scene.settle()
        client.hear()
        assert not dispatched(client), command
        client.session.detach("gone", scene.rig.now)
        scene.settle()
        assert scene.picture() == before, command


@pytest.mark.parametrize("user", STRANGERS)
def test_who_calls_himself_a_broker_has_his_rights_and_no_others(user: str) -> None:
    """A duplex bridge may be anybody's: what comes over it is looked at as what comes from its user."""
    for duplex in (True, False):
        scene = Scene()
        before = scene.picture()
        for verb in ("Message", "ConsumerInfo", "DestinationInfo, add", "DestinationInfo, remove"):
            row = ROWS[verb]
            for kind in row.kinds:
                client = scene.hub.client(connected=False)
                client.post(
                    BrokerInfo(
                        broker_id=BrokerId(value="other"),
                        broker_name="other",
                        network_connection=True,
                        duplex_connection=duplex,
                        network_properties="#\nname=x\nduplex=true\n",
                    )
                )
                info = ConnectionInfo(connection_id=ConnectionId(client.name), user_name=user, password=PASSWORD)
                client.post(info, answer=True)
                for command in row.steps(scene, client, spoken(scene, kind)):
                    client.post(command, answer=True)
                scene.settle()
                client.hear()
                assert not dispatched(client), f"{verb} {kind}"
                client.session.detach("gone", scene.rig.now)
                scene.settle()
                assert scene.picture() == before, f"{verb} {kind}"


def test_who_may_not_come_in() -> None:
    scene = Scene()
    before = scene.picture()
    for user, password, connection in (
        ("boss", "wrong", ""),
        ("nobody", PASSWORD, ""),
        ("boss", None, ""),
        (None, None, ""),
        (None, PASSWORD, ""),
        ("app", PASSWORD, scene.java_boss.name),
        ("none", PASSWORD, scene.java_boss.name),
    ):
        client = scene.hub.client(connection, connected=False)
        answer = client.ask(
            ConnectionInfo(connection_id=ConnectionId(client.name), user_name=user, password=password, manageable=True)
        )
        assert isinstance(answer, ExceptionResponse)
        for command in sending(scene, client, commands.ActiveMQQueue("secret")):
            client.post(command, answer=True)
        for command in consuming()(scene, client, commands.ActiveMQQueue("secret")):
            client.post(command, answer=True)
        scene.settle()
        client.hear()
        assert not dispatched(client)
        assert not client.heard_of(ConnectionError)
        client.session.detach("gone", scene.rig.now)
        assert scene.picture() == before
