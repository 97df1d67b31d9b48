"""Notifications: what happens, told on an address as Artemis tells it; nothing is made of it while nobody reads."""

from __future__ import annotations

from typing import Any

import pytest

from entrepot.base.errors import InvalidDestination
from entrepot.base.primitive import Primitive
from entrepot.config.artemis import interpret
from entrepot.config.findings import Findings
from entrepot.config.sources import Sources
from entrepot.config.xml import parse
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.security.access import EVERYTHING, SEND, Rule
from entrepot.core.security.directory import Directory, User
from entrepot.model.address import UNTYPED
from entrepot.protocols.artemis.codec import Decoder
from entrepot.protocols.artemis.doorbell import Doorbell, install
from entrepot.protocols.artemis.headers import headers_at, properties_in, read_headers
from entrepot.protocols.artemis.notifying import DELIVERED, TOLD_A_TURN, Elsewhere, Notifications, QueueInfo, is_meant
from entrepot.protocols.artemis.packets import (
    Close,
    CloseConsumer,
    CreateConsumer,
    CreateSession,
    DeleteQueue,
    ExceptionReply,
    Receive,
)
from entrepot.protocols.session import Shell
from entrepot.protocols.stomp.options import StompOptions
from entrepot.protocols.stomp.server import StompSession

from .recorded import lines
from .wired import MULTICAST, Client, Hub

ADDRESS = "activemq.notifications"
TYPE = "_AMQ_NotifType"
RESET = "_AMQ_RESET_QUEUE_DATA"
COMPLETE = "_AMQ_RESET_QUEUE_DATA_COMPLETE"


@pytest.fixture
def hub() -> Hub:
    return Hub()


@pytest.fixture
def doorbell(hub: Hub) -> Doorbell:
    return install(hub.rig.broker, ADDRESS)


def watch(hub: Hub, **queue: Any) -> Client:
    """Return a client that reads notifications; what is told of itself is forgotten."""
    client = Client(hub)
    client.open()
    client.make("watching", address=ADDRESS, routing=MULTICAST, durable=False, temporary=True, **queue)
    client.consume("watching")
    settle(hub)
    client.take(Receive)
    return client


def settle(hub: Hub) -> None:
    for _ in range(20):
        hub.rig.wait(0)
        hub.turn()


def told(hub: Hub, client: Client) -> list[dict[str, Any]]:
    """Return the notifications that came, as properties with their types."""
    settle(hub)
    return [properties_in(one.message, typed=True) for one in client.take(Receive)]


def plain(value: object) -> object:
    return value.value if isinstance(value, Primitive) else value


def kinds(found: list[dict[str, Any]]) -> list[object]:
    return [plain(one[TYPE]) for one in found]


def shape(properties: dict[str, Any]) -> dict[str, int]:
    """Return the type of each property."""
    return {name: value.tag for name, value in properties.items()}


def recorded(name: str) -> list[tuple[str, dict[str, Any]]]:
    """Return address and properties of the notifications in a recording of real brokers."""
    found = []
    decoders: dict[tuple[int, str], Decoder] = {}
    for line in lines(name):
        if "hex" not in line:
            continue
        key = (line["conn"], line["dir"])
        if key not in decoders:
            decoders[key] = Decoder(preface=line["dir"] == "c>s")
            decoders[key].speak(136)
        for packet in decoders[key].feed(bytes.fromhex(line["hex"])):
            if isinstance(packet, Receive):
                properties = properties_in(packet.message, typed=True)
                if TYPE in properties:
                    headers = read_headers(packet.message, headers_at(packet.message))
                    found.append((headers.address or "", properties))
    return found


def test_they_have_the_properties_and_types_of_recorded_ones(hub: Hub, doorbell: Doorbell) -> None:
    client = watch(hub)
    busy = Client(hub)
    busy.open(name="busy")
    busy.make("orders")
    busy.consume("orders")
    busy.consume("orders", 1, filter="color = 'red'")
    busy.say(CloseConsumer(consumer=1), 10)
    busy.say(CloseConsumer(consumer=0), 10)
    busy.say(DeleteQueue(queue="orders"), 10)
    ours = told(hub, client)
    assert kinds(ours) == [
        "SESSION_CREATED",
        "BINDING_ADDED",
        "CONSUMER_CREATED",
        "CONSUMER_CREATED",
        "CONSUMER_CLOSED",
        "CONSUMER_CLOSED",
        "BINDING_REMOVED",
    ]
    artemis = [one for name in ("cluster-up", "cluster-forward") for where, one in recorded(name) if where == ADDRESS]
    compared = 0
    for one in ours:
        alike = [other for other in artemis if plain(other[TYPE]) == plain(one[TYPE])]
        same = [other for other in alike if shape(other).keys() == shape(one).keys()]
        assert same, one
        fits = [
            all(shape(one)[name] == tag or 0 in (tag, shape(one)[name]) for name, tag in shape(other).items())
            for other in same
        ]
        assert any(fits), one
        compared += 1
    assert compared == 7
    node = hub.rig.broker.ids.node.uuid_text
    created = {name: plain(value) for name, value in ours[3].items()}
    assert created["_AMQ_ClusterName"] == f"orders{node}"
    assert created["_AMQ_ConsumerCount"] == 2
    assert created["_AMQ_ConsumerName"] == 1
    assert created["_AMQ_FilterString"] == "color = 'red'"
    assert created["_AMQ_SessionName"] == "busy"
    assert plain(ours[5]["_AMQ_ConsumerCount"]) == 0


def test_nothing_listens_until_somebody_reads(hub: Hub, doorbell: Doorbell) -> None:
    listeners = hub.rig.broker.hub
    before = listeners.kinds
    client = watch(hub)
    assert any(isinstance(one, Notifications) for one in listeners.listeners)
    client.say(CloseConsumer(consumer=0), 10)
    client.say(DeleteQueue(queue="watching"), 10)
    settle(hub)
    assert not any(isinstance(one, Notifications) for one in listeners.listeners)
    assert listeners.kinds == before


def test_an_anycast_queue_there_is_told_nothing(hub: Hub, doorbell: Doorbell) -> None:
    client = Client(hub)
    client.open()
    client.make("deaf", address=ADDRESS)
    client.make("other")
    settle(hub)
    assert hub.rig.broker.table.queues["deaf"].count == 0
    assert not doorbell.listening


def test_a_durable_queue_keeps_them_and_a_wildcard_hears_them(hub: Hub, doorbell: Doorbell) -> None:
    client = Client(hub)
    client.open()
    client.make("kept", address=ADDRESS, routing=MULTICAST)
    settle(hub)
    client.make("wide", address="activemq.*", routing=MULTICAST)
    client.make("third")
    settle(hub)
    queues = hub.rig.broker.table.queues
    assert queues["kept"].count == 3  # its own binding, too
    assert queues["wide"].count == 2


def test_the_name_of_a_group_is_the_address_where_it_is_anycast(hub: Hub, doorbell: Doorbell) -> None:
    client = watch(hub)
    client.make("one", address="place")
    client.make("two", address="place", routing=MULTICAST, filter="a = 1")
    anycast, multicast = told(hub, client)
    assert plain(anycast["_AMQ_RoutingName"]) == "place"
    assert "_AMQ_FilterString" not in anycast
    assert plain(multicast["_AMQ_RoutingName"]) == "two"
    assert plain(multicast["_AMQ_FilterString"]) == "a = 1"


def test_sessions_end_and_browsers_are_none(hub: Hub, doorbell: Doorbell) -> None:
    client = watch(hub)
    client.make("seen")
    told(hub, client)
    busy = Client(hub)
    busy.open(name="busy", user="ann")
    busy.say(CreateConsumer(consumer=4, queue="seen", browse=True), 10)
    busy.say(Close(), 10)
    found = told(hub, client)
    assert kinds(found) == ["SESSION_CREATED", "SESSION_CLOSED"]
    assert [plain(one["_AMQ_SessionName"]) for one in found] == ["busy", "busy"]
    assert plain(found[0]["_AMQ_User"]) == "ann"


def test_a_connection_of_another_protocol_is_one_session(hub: Hub, doorbell: Doorbell) -> None:
    client = watch(hub)
    other = StompSession(Shell(), hub.rig.broker, StompOptions(), 77, "peer-77")
    other.receive(b"CONNECT\naccept-version:1.2\nhost:x\nclient-id:me\n\n\0", hub.rig.now)
    other.detach("gone", hub.rig.now)
    came, gone = told(hub, client)
    assert (plain(came[TYPE]), plain(gone[TYPE])) == ("SESSION_CREATED", "SESSION_CLOSED")
    assert plain(came["_AMQ_Protocol_Name"]) == "STOMP"
    assert plain(came["_AMQ_ConnectionName"]) == "77"
    assert plain(came["_AMQ_Client_ID"]) == "me"


def test_sessions_may_be_left_out(hub: Hub) -> None:
    install(hub.rig.broker, ADDRESS, sessions=False)
    client = watch(hub)
    Client(hub).open()
    client.make("made")
    assert kinds(told(hub, client)) == ["BINDING_ADDED"]


def test_who_may_not_is_told_of(hub: Hub, doorbell: Doorbell) -> None:
    users = [User("boss", "plain:x", frozenset({"all"})), User("ann", "plain:x", frozenset({"few"}))]
    hub.protect(Directory(users), [Rule(">", UNTYPED, {"all": EVERYTHING, "few": SEND})])
    client = Client(hub)
    client.open(user="boss", password="x")
    client.make("watching", address=ADDRESS, routing=MULTICAST, durable=False, temporary=True)
    client.consume("watching")
    client.make("secret")
    told(hub, client)
    stranger = Client(hub)
    stranger.say(CreateSession(name="s", session_channel=10, version=136, user="ann", password="no", window=-1), 1)
    friend = Client(hub)
    friend.open(user="ann", password="x", name="friend")
    friend.say(CreateConsumer(consumer=0, queue="secret", require_response=True), 10)
    assert friend.take(ExceptionReply)
    found = told(hub, client)
    assert kinds(found) == [
        "SECURITY_AUTHENTICATION_VIOLATION",
        "SESSION_CREATED",
        "SECURITY_PERMISSION_VIOLATION",
    ]
    assert plain(found[0]["_AMQ_User"]) == "ann"
    assert {name: plain(found[2][name]) for name in ("_AMQ_Address", "_AMQ_CheckType", "_AMQ_User")} == {
        "_AMQ_Address": "secret",
        "_AMQ_CheckType": "CONSUME",
        "_AMQ_User": "ann",
    }


# -- what queues there are ---------------------------------------------------------------------------------------------


class Neighbour(Elsewhere):
    """One queue of another broker."""

    def infos(self) -> list[QueueInfo]:
        info = QueueInfo("far", "far", "farX", 9)
        info.distance = 1
        info.consumers = ["", "a = 1"]
        return [info]


def test_queue_info_is_what_a_real_broker_sends(hub: Hub, doorbell: Doorbell) -> None:
    client = watch(hub, filter="_AMQ_Distance < 2 AND _AMQ_Address NOT LIKE 'activemq%'")
    client.make("near")
    client.consume("near", 1, filter="b = 2")
    client.consume("near", 2)
    doorbell.notifications.elsewhere = Neighbour()
    told(hub, client)
    hub.rig.broker.informant.send_queue_info("watching", "")
    client.make("later")
    settle(hub)
    came = client.take(Receive)
    found = [properties_in(one.message, typed=True) for one in came]
    assert list(found[0]) == [RESET]
    said = [(plain(one[TYPE]), plain(one["_AMQ_RoutingName"]), plain(one["_AMQ_Distance"])) for one in found[1:7]]
    assert said == [
        ("BINDING_ADDED", "near", 0),
        ("CONSUMER_CREATED", "near", 0),
        ("CONSUMER_CREATED", "near", 0),
        ("BINDING_ADDED", "far", 1),
        ("CONSUMER_CREATED", "far", 1),
        ("CONSUMER_CREATED", "far", 1),
    ]
    assert ["_AMQ_FilterString" in one for one in found[2:4]] == [False, True]
    assert list(found[7]) == [COMPLETE]
    assert plain(found[8]["_AMQ_RoutingName"]) == "later"
    heads = [read_headers(one.message, headers_at(one.message)) for one in came]
    assert [(one.address, one.durable) for one in heads] == [("watching", False)] * 8 + [(ADDRESS, True)]
    artemis = [one for where, one in recorded("cluster-up") if where.startswith("notif.")]
    bindings = [one for one in artemis if plain(one[TYPE]) == "BINDING_ADDED"]
    assert shape(found[1]) == shape(bindings[0])


def test_many_queues_are_told_of_in_several_turns(hub: Hub, doorbell: Doorbell) -> None:
    broker = hub.rig.broker
    client = watch(hub)
    for number in range(3 * TOLD_A_TURN):
        broker.queues.create(QueueDefinition(name=f"q{number}", address=f"q{number}"))
    waiting = doorbell.notifications.waiting
    broker.informant.send_queue_info("watching", "q")
    before = len(waiting)
    assert before == 6 * TOLD_A_TURN + 2
    doorbell.notifications.turn()
    assert len(waiting) == before - before // 4
    found = told(hub, client)
    assert not waiting
    assert kinds(found[: 3 * TOLD_A_TURN]) == ["BINDING_ADDED"] * (3 * TOLD_A_TURN)
    assert list(found[3 * TOLD_A_TURN]) == [RESET]
    assert list(found[-1]) == [COMPLETE]


def test_who_asks_for_a_queue_that_is_not_there_hears_so(hub: Hub, doorbell: Doorbell) -> None:
    with pytest.raises(InvalidDestination, match="no queue 'none'"):
        hub.rig.broker.informant.send_queue_info("none", "")


@pytest.mark.parametrize(
    ("rule", "meant"),
    [("", ["eu.a", "us.b"]), ("eu", ["eu.a"]), ("!eu", ["us.b"]), ("eu,us,!us.b", ["eu.a"]), ("x", [])],
)
def test_rules_about_addresses(rule: str, meant: list[str]) -> None:
    assert [one for one in ("eu.a", "us.b") if is_meant(one, rule)] == meant


def test_the_address_is_that_of_the_configuration() -> None:
    text = (
        '<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">'
        "<management-notification-address>told.here</management-notification-address>"
        "<suppress-session-notifications>true</suppress-session-notifications></core></configuration>"
    )
    sources = Sources(Findings())
    reading = interpret(parse(text.encode(), "f.xml"), sources, spoken=("core",))
    assert reading.draft is not None
    assert (reading.draft.notices.address, reading.draft.notices.sessions) == ("told.here", False)


@pytest.mark.parametrize(
    ("pattern", "reads"), [(">", False), ("#", False), ("*.notifications", False), ("activemq.#", True)]
)
def test_who_reads_all_topics_is_told_nothing(hub: Hub, doorbell: Doorbell, pattern: str, reads: bool) -> None:
    """An application that reads everything means what applications send."""
    client = Client(hub)
    client.open()
    client.make("watching", address=pattern, routing=MULTICAST, durable=False, temporary=True)
    client.consume("watching")
    settle(hub)
    client.take(Receive)
    hub.rig.reader("other", 1)
    assert bool(told(hub, client)) is reads


def test_messages_that_go_out_are_told_where_the_plugin_asks_for_it(hub: Hub) -> None:
    install(hub.rig.broker, ADDRESS, DELIVERED)
    client = watch(hub)
    queue = hub.rig.broker.queues.create(QueueDefinition(name="q", address="a"))
    hub.rig.send("queue://a::q", "1")
    hub.rig.reader("queue://a::q")
    found = [one for one in told(hub, client) if plain(one[TYPE]) == "MESSAGE_DELIVERED"]
    (one,) = found
    assert {name: plain(value) for name, value in one.items() if not name.startswith("_AMQ_Notif")} == {
        "_AMQ_Address": "a",
        "_AMQ_Routing_Type": 1,
        "_AMQ_RoutingName": "q",
        "_AMQ_Message_ID": hub.rig.handed[-1][1].number,
        "_AMQ_ConsumerName": int(queue.roster.consumers[0].key),
    }
    assert shape(one)["_AMQ_ConsumerName"] == shape(one)["_AMQ_Message_ID"]
    assert queue.count == 1
    assert not told(hub, client), "what tells of it is not told of"


def test_nothing_of_single_messages_is_made_without_it_or_without_a_reader(hub: Hub, doorbell: Doorbell) -> None:
    client = watch(hub)
    hub.rig.broker.queues.create(QueueDefinition(name="q", address="a"))
    hub.rig.send("queue://a::q", "1")
    hub.rig.reader("queue://a::q")
    assert "MESSAGE_DELIVERED" not in kinds(told(hub, client))
    assert hub.rig.queue("q").fates.tells == 0
