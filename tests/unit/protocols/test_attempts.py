"""Attempts on what is somebody else's, by ways that no table of verbs leads to: names, ids, bridges, headers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from entrepot.cluster.networks.lists import Place
from entrepot.core.security.access import CREATE, EVERYTHING, Rule
from entrepot.model.address import UNTYPED
from entrepot.protocols.openwire import commands, schema
from entrepot.protocols.openwire.codec import prototypes
from entrepot.protocols.openwire.commands import (
    ActiveMQQueue,
    ActiveMQTempQueue,
    ActiveMQTempTopic,
    ActiveMQTopic,
    BrokerId,
    BrokerInfo,
    Command,
    ConnectionId,
    ConnectionInfo,
    ConsumerId,
    ConsumerInfo,
    Destination,
    DestinationInfo,
    ExceptionResponse,
    MessageDispatch,
    ProducerId,
    ProducerInfo,
    RemoveInfo,
    Response,
)

from .guarded import PASSWORD, STRANGERS, Scene
from .openwire.wired import Client as JavaClient

RAW: dict[str, bytes] = {
    "two destinations": b"SEND\ndestination:/queue/secret\ndestination:/queue/open\n\nx\0",
    "blanks around a name": b"SEND\ndestination:/queue/ secret \n\nx\0",
    "blanks around a destination": b"SEND\ndestination: /queue/secret \n\nx\0",
    "an escaped name": b"SEND\ndestination:/queue/se\\cret\n\nx\0",
    "a prefix twice": b"SEND\ndestination:/queue//queue/secret\n\nx\0",
    "another prefix": b"SEND\ndestination:queue:///queue/secret\n\nx\0",
    "a third part": b"SEND\ndestination:/queue/open::secret::open\n\nx\0",
    "a part of nothing": b"SEND\ndestination:/queue/open,,/queue/secret\n\nx\0",
    "a composite of one": b"SEND\ndestination:/queue/secret,/queue/secret\n\nx\0",
    "an option in front": b"SEND\ndestination:/queue/secret?consumer.priority=1\n\nx\0",
    "a type that says otherwise": b"SEND\ndestination:/queue/secret\ndestination-type:MULTICAST\n\nx\0",
    "the name of the original": b"SEND\ndestination:/queue/secret\noriginal-destination:/queue/open\n\nx\0",
    "a stage that is another's": b"STAGED\nsink:orders\nbatch:0\npart:p2\n\n\0",
    "a transaction of nobody": b"SEND\ndestination:/queue/open\ntransaction:boss\n\nx\0",
    "a subscription of an option": b"SUBSCRIBE\nid:1\ndestination:/topic/secret?consumer.subscriptionName=s\n\n\0",
    "a subscription of a header": b"SUBSCRIBE\nid:1\ndestination:/topic/secret\nactivemq.subscriptionName:s\n\n\0",
    "a type of a subscription": b"SUBSCRIBE\nid:1\ndestination:secret\nsubscription-type:MULTICAST\n\n\0",
    "a selector of nothing": b"SUBSCRIBE\nid:1\ndestination:/queue/secret\nselector:1=0\n\n\0",
    "a browser of a composite": b"SUBSCRIBE\nid:1\ndestination:/queue/open,/queue/secret\nbrowser:true\n\n\0",
    "a lease by destination": b"ATTACH\ndestination:/queue/secret\ngroup:g\n\n\0",
    "a lease of a name": b"ATTACH\nqueue:me.s\ngroup:g\n\n\0",
    "a lease of a lease": b"CLAIM\nqueue:ActiveMQ.DLQ\ngroup:g\nepoch:1\n\n\0",
    "a lease of a temporary topic": b"ATTACH\ntopic:/queue/secret\ngroup:g\n\n\0",
    "a sink in other words": b"DECIDE\nsink:orders\nbatch:1\nparts:p9\n\n\0",
    "settled by message id": b"ACK\nid:1-1\n\n\0",
}


@pytest.mark.parametrize("user", STRANGERS)
@pytest.mark.parametrize("name", RAW)
def test_frames_in_other_words(name: str, user: str) -> None:
    scene = Scene()
    if name == "two destinations":  # the first one counts (STOMP 1.2, Repeated Header Entries)
        assert b"secret" in RAW[name].split(b"\n")[1]
    before = scene.picture()
    client = scene.stomp(user)
    client.session.receive(RAW[name], scene.rig.now)
    scene.settle()
    found = client.hear()
    assert "ERROR" in [each.command for each in found], found
    assert "MESSAGE" not in [each.command for each in found]
    client.cut()
    scene.settle()
    assert {key: value for key, value in scene.picture().items() if key != "queues"} == {
        key: value for key, value in before.items() if key != "queues"
    }
    queues, was = scene.picture()["queues"], before["queues"]
    assert isinstance(queues, dict)
    assert isinstance(was, dict)
    assert {name: each for name, each in queues.items() if name != "open"} == {
        name: each for name, each in was.items() if name != "open"
    }


# -- ids ---------------------------------------------------------------------------------------------------------------


def refused(client: JavaClient, command: Command) -> str:
    answer = client.ask(command)
    assert isinstance(answer, ExceptionResponse), answer
    assert answer.exception is not None
    return answer.exception.message or ""


def test_ids_of_another_connection_are_its_own() -> None:
    """Bridges are told of consumers by their ids: who took one could end the demand of another."""
    scene = Scene()
    before = scene.picture()
    told = dict(scene.hub.acceptor.advisories.consumers), dict(scene.hub.acceptor.advisories.producers)
    client = scene.java("app")
    java = scene.java_boss
    info = ConsumerInfo(consumer_id=scene.consumer, destination=ActiveMQQueue("open"), prefetch_size=1)
    assert "another connection" in refused(client, info)
    mine = ProducerInfo(producer_id=ProducerId(java.name, 1, 1), destination=ActiveMQQueue("open"))
    assert "another connection" in refused(client, mine)
    for each in (scene.consumer, ProducerId(java.name, 1, 1)):
        client.ask(RemoveInfo(object_id=each))
    client.session.detach("gone", scene.rig.now)
    advisories = scene.hub.acceptor.advisories
    assert (advisories.consumers, advisories.producers) == told
    assert scene.picture() == before


def resending(scene: Scene, name: str) -> JavaClient:
    """Return a failover client that comes back."""
    client = scene.hub.client(name, connected=False)
    info = ConnectionInfo(
        connection_id=ConnectionId(name), user_name="boss", password=PASSWORD, failover_reconnect=True
    )
    assert type(client.ask(info)) is Response
    return client


@pytest.mark.parametrize("away", [True, False])
def test_nobody_makes_us_believe_that_another_has_sent(away: bool) -> None:
    """What a failover client sends again is dropped if it came before: by a number that anybody may say."""
    scene = Scene()
    java = scene.java_boss
    assert type(java.ask(java.text(ActiveMQQueue("secret"), "one", persistent=True))) is Response
    if away:
        java.session.detach("the wire was cut", scene.rig.now)
    thief = scene.java("app", name=java.name if away else "")
    forged = thief.text(ActiveMQQueue("open"), "x", persistent=True)
    forged.message_id = commands.MessageId(producer_id=ProducerId(java.name, 1, 1), producer_sequence_id=1 << 40)
    thief.ask(forged)
    thief.ask(RemoveInfo(object_id=ProducerId(java.name, 1, 1)))
    thief.session.detach("gone", scene.rig.now)
    count = scene.rig.broker.table.queues["secret"].accepted
    again = resending(scene, java.name)
    again.sent = dict(java.sent)
    sequence = java.sent[1]
    for number, comes in ((sequence, 0), (sequence + 1, 1)):
        assert type(again.ask(again.text(ActiveMQQueue("secret"), "x", persistent=True, sequence=number))) is Response
        assert scene.rig.broker.table.queues["secret"].accepted == count + comes


def test_names_of_temporary_destinations_to_come_are_not_taken() -> None:
    """They are counted: who has one of his own knows the next one's."""
    scene = Scene()
    victim = scene.stomp("boss")
    number = victim.session.number
    key = scene.rig.broker.ids.next_key + 1
    for more in range(3):
        name = f"ID:{scene.rig.broker.ids.node_id}-c{number}:{int(scene.rig.broker.ids.run):x}-{key + more}"
        for kind, where in (("queue", ActiveMQTempQueue(f"{name}:in")), ("topic", ActiveMQTempTopic(f"{name}:in"))):
            thief = scene.hub.client(name, connected=False)
            thief.ask(ConnectionInfo(connection_id=ConnectionId(name), user_name="app", password=PASSWORD))
            assert "made by another" in refused(thief, DestinationInfo(destination=where)), kind
            consumer = ConsumerInfo(consumer_id=ConsumerId(name, 1, 1), destination=where, prefetch_size=1)
            assert isinstance(thief.ask(consumer), ExceptionResponse)
            thief.session.detach("gone", scene.rig.now)
    assert [each.command for each in victim.ask("SUBSCRIBE", id="1", destination="/temp-topic/in", receipt="r")] == [
        "RECEIPT"
    ]


@pytest.mark.parametrize("number", [each.number for each in schema.TYPES if each.number])
def test_what_is_no_command_ends_the_connection_and_nothing_else(number: int) -> None:
    made = prototypes(schema.VERSION_MAX)[number]
    if made is None or isinstance(made, (Command, commands.WireFormatInfo)):
        return
    scene = Scene()
    before = scene.picture()
    client = scene.java("none")
    client.post_octets(client.encoder.encode(made.fresh()))
    assert client.session.closing
    client.session.detach("gone", scene.rig.now)
    assert scene.picture() == before


# -- who calls himself a broker ----------------------------------------------------------------------------------------


def bridge(scene: Scene, user: str, broker_id: str = "other", client_id: str | None = None) -> JavaClient:
    """Return what another broker's duplex bridge would be, of ``user``."""
    from entrepot.cluster.networks.advising import Advising
    from entrepot.cluster.networks.neighbourhood import Neighbourhood
    from entrepot.cluster.networks.reception import Reception
    from entrepot.protocols.openwire.negotiation import WireFormatOptions
    from entrepot.protocols.openwire.options import OpenWireOptions
    from entrepot.protocols.openwire.server import OpenWireSession
    from entrepot.protocols.session import Shell

    if not hasattr(scene, "neighbourhood"):
        scene.neighbourhood = Neighbourhood(Advising(scene.hub.acceptor))  # type: ignore[attr-defined]
    scene.hub.made += 1
    session = OpenWireSession(
        Shell(),
        scene.hub.acceptor,
        OpenWireOptions(),
        scene.hub.made,
        "peer",
        Reception(scene.neighbourhood),  # type: ignore[attr-defined]
    )
    client = JavaClient(scene.rig, session, f"ID:bridge-{scene.hub.made}", WireFormatOptions())
    client.exchange()
    client.post(
        BrokerInfo(
            broker_id=BrokerId(value=broker_id),
            broker_name=broker_id,
            network_connection=True,
            duplex_connection=True,
            network_properties="#\nname=x\nduplex=true\n",
        )
    )
    info = ConnectionInfo(
        connection_id=ConnectionId(client.name), user_name=user, password=PASSWORD, client_id=client_id
    )
    client.post(info, answer=True)
    client.exchange()
    return client


DESTINATIONS: dict[str, Callable[[Scene], Destination]] = {
    "a queue": lambda scene: ActiveMQQueue("secret"),
    "a topic": lambda scene: ActiveMQTopic("secret"),
    "a new queue": lambda scene: ActiveMQQueue("fresh"),
    "a temporary queue that is none": lambda scene: ActiveMQTempQueue("fresh"),
    "a temporary queue of that name": lambda scene: ActiveMQTempQueue("secret"),
    "another's temporary queue": lambda scene: ActiveMQTempQueue(scene.temporary_queue),
    "management": lambda scene: ActiveMQQueue("activemq.management"),
    "an advisory": lambda scene: ActiveMQTopic("ActiveMQ.Advisory.Consumer.Queue.secret"),
    "everything": lambda scene: ActiveMQQueue(">"),
}


@pytest.mark.parametrize("user", STRANGERS)
@pytest.mark.parametrize("kind", DESTINATIONS)
def test_a_duplex_bridge_has_the_rights_of_its_user(kind: str, user: str) -> None:
    scene = Scene()
    bridge(scene, user).session.detach("gone", scene.rig.now)
    before = scene.picture()
    for verb in range(4):
        client = bridge(scene, user)
        where = DESTINATIONS[kind](scene)
        made: list[Command] = [
            client.text(where, "x", persistent=True),
            ConsumerInfo(consumer_id=ConsumerId(client.name, 1, 1), destination=where, prefetch_size=10),
            DestinationInfo(destination=where, operation_type=0),
            DestinationInfo(destination=where, operation_type=1),
        ]
        if verb == 0 and kind == "another's temporary queue":
            continue  # whoever has the name may send there
        client.post(made[verb], answer=True)
        scene.settle()
        client.exchange()
        client.hear()
        leaked = [each for each in client.heard_of(MessageDispatch) if each.message is not None]
        assert not [
            each for each in leaked if "Advisory" not in str(each.destination and each.destination.physical_name)
        ]
        client.session.detach("gone", scene.rig.now)
        scene.settle()
        assert scene.picture() == before, f"{user}: {type(made[verb]).__name__} {kind}"


def test_temporary_destinations_are_made_over_a_bridge_by_who_may_make_some() -> None:
    scene = Scene()
    access = scene.rig.broker.access
    rules = access._rules
    assert rules is not None
    access.protect(access._directory, [rule for _, rule in rules.items()], Rule(">", UNTYPED, {"boss": EVERYTHING}))
    where = Place("ID:elsewhere-1:1", topic=False, temporary=True)
    for user, made in (("app", False), ("none", False), ("boss", True)):
        client = bridge(scene, user)
        client.session.peering.bridge.temporaries.make(where, ())
        assert (where.name in scene.rig.broker.table.queues) is made, user
        client.session.detach("gone", scene.rig.now)
        scene.settle()
    assert CREATE & EVERYTHING


def test_a_stale_bridge_gives_way_to_its_own_user_only() -> None:
    """Who says the id and client id of another broker's bridge ended that."""
    scene = Scene()
    first = bridge(scene, "boss", "B", "NC_B")
    thief = bridge(scene, "app", "B", "NC_B")
    assert not first.session.closing
    thief.session.detach("gone", scene.rig.now)
    again = bridge(scene, "boss", "B", "NC_B")
    assert first.session.closing
    assert not again.session.closing
