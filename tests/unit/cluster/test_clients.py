"""Failover clients of one broker: what they are told of others, and how one is moved."""

from __future__ import annotations

import msgspec
import pytest

from entrepot.base.environment import MILLISECOND, SECOND
from entrepot.base.errors import InvalidOption
from entrepot.cluster.balance import PATIENCE
from entrepot.cluster.census import SETTLE, TOKEN, UNKNOWN, Census, Facts
from entrepot.cluster.channel import CensusPort
from entrepot.cluster.clients import DRAIN_PATIENCE, ZONE_KEY, ClientCluster, read_filter
from entrepot.cluster.zones import ZoneRules
from entrepot.protocols.openwire.commands import (
    ActiveMQQueue,
    BrokerId,
    BrokerInfo,
    ConnectionControl,
    ConnectionId,
    ConnectionInfo,
    LocalTransactionId,
    MessageDispatch,
    Response,
    TransactionInfo,
)
from entrepot.protocols.openwire.departure import OBEY_PATIENCE
from entrepot.protocols.openwire.ids import TransactionStep
from entrepot.protocols.openwire.options import OpenWireOptions, read_option
from kit import Rig
from unit.protocols.openwire.wired import Client, Hub

B = BrokerInfo(broker_id=BrokerId("b"), broker_name="bee", broker_url="tcp://b:1")
C = BrokerInfo(broker_id=BrokerId("c"), broker_name="sea", broker_url="tcp://c:1")


QUEUE = ActiveMQQueue("q")


class Wire(CensusPort):
    def __init__(self) -> None:
        self.told: list[bytes] = []

    def tell_census(self, token: bytes) -> None:
        self.told.append(token)


class Place:
    """One broker with clients that are failover clients."""

    def __init__(self, query: str = "updateClusterClients=true&rebalanceClusterClients=true", zone: str = "") -> None:
        self.hub = Hub(Rig(disk=False))
        self.hub.acceptor.set_url("tcp://a:1")
        self.cluster = ClientCluster(self.hub.acceptor, zone=zone, rules=ZoneRules(["far=client:far-*"]))
        self.hub.acceptor.cluster = self.cluster
        self.cluster.activate()
        self.options = OpenWireOptions()
        for pair in query.split("&"):
            assert read_option(self.options, *pair.split("="))

    def client(self, name: str = "", *, tolerant: bool = True) -> Client:
        client = self.hub.client(connected=False, options=self.options, client_id=name)
        client.take()
        if tolerant:
            client.post(ConnectionControl(fault_tolerant=True))
        client.ask(
            ConnectionInfo(connection_id=ConnectionId(client.name), client_id=name or client.name, manageable=True)
        )
        return client

    def pass_time(self, ns: int) -> None:
        for _ in range(max(1, ns // (10 * MILLISECOND))):
            self.hub.rig.wait(10)

    def told(self, client: Client) -> list[ConnectionControl]:
        client.exchange()
        return [one for one in client.take() if isinstance(one, ConnectionControl)]


def test_clients_know_the_brokers_and_hear_of_one_that_joins() -> None:
    place = Place()
    client = place.client()
    assert [one.connected_brokers for one in place.told(client)] == ["tcp://a:1"]
    wire = Wire()
    place.cluster.joined(wire, B)
    place.cluster.joined(Wire(), C)
    assert [one.connected_brokers for one in place.told(client)] == [
        "tcp://a:1,tcp://b:1",
        "tcp://a:1,tcp://c:1,tcp://b:1",
    ]
    late = place.client()
    (control,) = place.told(late)
    assert control.connected_brokers == "tcp://a:1,tcp://b:1,tcp://c:1"  # the next client begins with another one
    assert not control.rebalance_connection
    place.cluster.left(wire)
    assert place.told(client) == []  # only with updateClusterClientsOnRemove
    assert len(place.hub.acceptor.cluster.infos(place.options)) == 2


def test_a_broker_that_is_gone_leaves_the_lists_if_that_is_wanted() -> None:
    place = Place("updateClusterClients=true&updateClusterClientsOnRemove=true")
    client = place.client()
    wire = Wire()
    place.cluster.joined(wire, B)
    place.cluster.left(wire)
    lists = [one.connected_brokers for one in place.told(client)]
    assert lists == ["tcp://a:1", "tcp://a:1,tcp://b:1", "tcp://a:1"]


REMOVES = "updateClusterClients=true&rebalanceClusterClients=true&updateClusterClientsOnRemove=true"


def lists(place: Place, client: Client) -> list[str | None]:
    return [one.connected_brokers for one in place.told(client)]


@pytest.mark.parametrize("removes", ["true", "false"])
def test_a_broker_that_stops_tells_its_clients_the_others_once_and_never_itself(removes: str) -> None:
    place = Place(REMOVES + f"&updateClusterClientsOnRemove={removes}")
    client = place.client()
    wires = [Wire(), Wire()]
    for wire, info in zip(wires, (B, C), strict=True):
        place.cluster.joined(wire, info)
    place.told(client)
    place.cluster.retire()
    assert lists(place, client) == ["tcp://c:1,tcp://b:1"]
    for wire in wires:  # its bridges close one after the other
        place.cluster.left(wire)
    place.pass_time(SECOND)
    assert lists(place, client) == []
    late = place.client()  # it had connected, and introduces itself only now
    assert lists(place, late) == ["tcp://b:1,tcp://c:1"]
    place.cluster.retire()
    assert lists(place, client) == []


def test_a_broker_that_stops_alone_tells_of_those_it_knew_and_itself_behind_them() -> None:
    place = Place(REMOVES)
    client = place.client()
    wire = Wire()
    place.cluster.joined(wire, B)
    place.cluster.left(wire)
    assert lists(place, client)[-1] == "tcp://a:1"
    place.cluster.retire()
    assert lists(place, client) == ["tcp://b:1,tcp://a:1"]


def test_a_broker_that_never_had_others_has_nothing_to_tell() -> None:
    place = Place(REMOVES)
    client = place.client()
    assert lists(place, client) == ["tcp://a:1"]
    place.cluster.retire()
    assert lists(place, client) == []


def test_who_is_told_nothing_of_brokers_is_told_nothing_when_one_stops() -> None:
    place = Place("updateClusterClients=false")
    client = place.client()
    place.cluster.joined(Wire(), B)
    place.told(client)
    place.cluster.retire()
    assert place.told(client) == []


def test_a_broker_that_stops_moves_nobody_and_tells_the_others_that_it_goes() -> None:
    place, clients = crowded(4)
    place.pass_time(SETTLE + PATIENCE + SECOND // 2)
    for client in clients:
        place.told(client)
    wire = Wire()
    place.cluster.joined(
        wire, BrokerInfo(broker_id=BrokerId("c"), broker_url="tcp://c:1", network_properties=f"{ZONE_KEY}=\n")
    )
    other = Census(Facts("c", "sea", "tcp://c:1"), 1)
    other.heard(wire.told[-1], 0)
    (known,) = other.brokers()
    place.cluster.retire()
    other.heard(wire.told[-1], SECOND)
    assert other.brokers() == []
    told = len(wire.told)
    place.pass_time(20 * SECOND)
    assert [reconnects(place, client) for client in clients] == [[]] * 4
    assert len(wire.told) == told
    assert known.url not in place.cluster.places()


def test_only_brokers_whose_name_fits_whole() -> None:
    place = Place("updateClusterClients=true&updateClusterFilter=be,s.*")
    place.cluster.joined(Wire(), B)
    place.cluster.joined(Wire(), C)
    (control,) = place.told(place.client())
    assert control.connected_brokers == "tcp://a:1,tcp://c:1"
    with pytest.raises(InvalidOption):
        read_filter("a(")


def test_who_is_no_failover_client_hears_of_the_brokers_once_and_never_moves() -> None:
    place = Place()
    client = place.client(tolerant=False)
    assert len(place.told(client)) == 1
    place.cluster.joined(Wire(), B)
    assert place.told(client) == []
    assert place.cluster.clients() == []


def crowded(count: int = 2, **fields: str) -> tuple[Place, list[Client]]:
    """Return a broker with ``count`` clients that has just met an empty one."""
    place = Place(**fields)
    clients = [place.client() for _ in range(count)]
    place.cluster.joined(Wire(), B)
    for client in clients:
        place.told(client)
    return place, clients


def reconnects(place: Place, client: Client) -> list[str]:
    return [one.reconnect_to for one in place.told(client) if one.reconnect_to]


def test_half_of_the_clients_move_to_an_empty_broker_and_only_when_it_is_believed() -> None:
    place, clients = crowded(4)
    place.pass_time(SETTLE)
    assert [reconnects(place, client) for client in clients] == [[]] * 4
    place.pass_time(PATIENCE + SECOND)
    assert [reconnects(place, client) for client in clients] == [[], [], ["tcp://b:1"], ["tcp://b:1"]]
    for client in clients[2:]:
        client.session.detach("it moved", place.hub.rig.now)
    assert place.cluster.moved == 2
    place.pass_time(30 * SECOND)
    assert [reconnects(place, client) for client in clients[:2]] == [[]] * 2


def test_the_cheapest_goes_and_what_it_asks_then_is_left_for_the_next_broker() -> None:
    place, (first, client) = crowded()
    first.consume(QUEUE)
    first.send("q", "held")
    assert first.texts() == ["held"]
    place.pass_time(SETTLE + PATIENCE + SECOND // 2)
    assert reconnects(place, client) == ["tcp://b:1"]
    number = client.post(client.text(QUEUE, "asked"), answer=True)
    client.post(client.text(QUEUE, "told"))
    client.exchange()
    with pytest.raises(AssertionError, match="no answer"):
        client.answer_to(number)
    first.session.detach("gone", place.hub.rig.now)
    reader = place.client()
    reader.consume(QUEUE)
    assert reader.texts() == ["held", "told"]


def holder() -> tuple[Place, Client, MessageDispatch]:
    """Return a client that is to move, and what it holds."""
    place = Place()
    fixed = place.client()
    fixed.session.steering.options = OpenWireOptions()
    fixed.session.steering.options.update_clients = True
    client = place.client()
    place.cluster.joined(Wire(), B)
    client.consume(QUEUE)
    client.send("q", "one")
    (dispatch,) = client.dispatches()
    place.pass_time(SETTLE + PATIENCE + SECOND)
    assert client.session.confirmations.settled is not None
    return place, client, dispatch


def test_a_client_settles_what_it_holds_before_it_is_told_and_gets_nothing_more() -> None:
    place, client, dispatch = holder()
    place.client(tolerant=False).send("q", "two")
    place.pass_time(SECOND)
    assert client.heard_of(MessageDispatch) == []
    assert reconnects(place, client) == []
    client.ack(dispatch, dispatch)
    place.pass_time(SECOND // 10)
    assert reconnects(place, client) == ["tcp://b:1"]


def test_a_client_in_a_transaction_is_told_when_it_has_ended() -> None:
    place, client, dispatch = holder()
    transaction = LocalTransactionId(value=1, connection_id=ConnectionId(client.name))
    client.post(TransactionInfo(transaction_id=transaction, type=int(TransactionStep.BEGIN)))
    client.ack(dispatch, dispatch)
    place.pass_time(SECOND)
    assert reconnects(place, client) == []
    committed = client.ask(TransactionInfo(transaction_id=transaction, type=int(TransactionStep.COMMIT_ONE_PHASE)))
    assert type(committed) is Response
    place.pass_time(SECOND // 10)
    assert reconnects(place, client) == ["tcp://b:1"]


def test_who_does_not_settle_stays_and_gets_messages_again() -> None:
    place, client, _ = holder()
    place.pass_time(DRAIN_PATIENCE + SECOND)
    assert client.session.confirmations.settled is None
    place.client(tolerant=False).send("q", "two")
    assert client.texts() == ["two"]
    assert reconnects(place, client) == []


def test_who_does_not_go_is_disconnected() -> None:
    place, client, dispatch = holder()
    client.ack(dispatch, dispatch)
    place.pass_time(OBEY_PATIENCE // 2)
    assert not client.session.closing
    place.pass_time(OBEY_PATIENCE)
    assert client.session.closing


def test_brokers_of_this_kind_tell_each_other_how_many_clients_they_have() -> None:
    place = Place(zone="near")
    wire = Wire()
    place.cluster.joined(
        wire, BrokerInfo(broker_id=BrokerId("b"), broker_url="tcp://b:1", network_properties=f"{ZONE_KEY}=z\n")
    )
    place.client()
    place.pass_time(SECOND)
    other = Census(Facts("b", "b", "tcp://b:1"), 1)
    other.heard(wire.told[-1], 0)
    (facts,) = other.brokers()
    assert (facts.url, facts.zone, facts.clients) == ("tcp://a:1", "near", 1)


def test_a_list_begins_at_home() -> None:
    place = Place(zone="near")
    place.cluster.joined(Wire(), B)
    there = Census(Facts("c", "sea", "tcp://c:1", "far", clients=0), 1)
    place.cluster.heard(Wire(), there.tell(0, 1))
    assert place.told(place.client("far-1"))[-1].connected_brokers == "tcp://c:1,tcp://a:1,tcp://b:1"
    assert place.told(place.client())[-1].connected_brokers == "tcp://a:1,tcp://b:1,tcp://c:1"


def test_guests_are_sent_home() -> None:
    place = Place(zone="near")
    there = Census(Facts("c", "sea", "tcp://c:1", "far", clients=0), 1)
    client = place.client("far-1")
    moved: list[str] = []
    for second in range(12):
        place.cluster.heard(Wire(), there.tell(second * 3 * SECOND, second + 1))
        place.pass_time(SECOND)
        moved += reconnects(place, client)
    assert moved == ["tcp://c:1"]


def test_a_broker_that_shares_out_nobody_tells_where_it_is_and_is_on_no_list_but_its_neighbours() -> None:
    place = Place()
    near, far = (
        Census(Facts("b", "bee", "tcp://b:1", stomp="stomp://b:2"), 1),
        Facts("c", "sea", "tcp://c:1", stomp="x"),
    )
    place.cluster.heard(Wire(), near.tell(0, 1))
    place.cluster.heard(Wire(), Census(far, 1).tell(0, 1))
    client, other = place.client(), place.client()
    assert [one.connected_brokers for one in place.told(client)] == ["tcp://a:1"]
    place.told(other)
    for _ in range(4):  # both are believed by now, and neither is sent anybody
        place.pass_time(SECOND)
        near.here, far = (msgspec.structs.replace(one, version=one.version + 1) for one in (near.here, far))
        place.cluster.heard(Wire(), near.token())
        place.cluster.heard(Wire(), Census(far, far.version).token())
    place.pass_time(PATIENCE)
    assert reconnects(place, client) == reconnects(place, other) == []
    place.cluster.joined(Wire(), B)
    assert [one.connected_brokers for one in place.told(client)] == ["tcp://a:1,tcp://b:1"]
    assert place.cluster.places() == "b=stomp://b:2,c=x"


def test_readers_by_lease_are_told_of_every_broker_and_of_those_that_only_tell_where_they_are() -> None:
    hub = Hub(Rig(disk=False))
    cluster = ClientCluster(hub.acceptor)
    cluster.introduce()
    assert hub.acceptor.introduction == f"{ZONE_KEY}=\n"
    assert hub.rig.broker.neighbours.places() == ""
    cluster.activate(sharing=False, stomp="stomp://a:2 stomp+ssl://a:3")
    wire = Wire()
    cluster.joined(wire, B)
    cluster.joined(
        wire, BrokerInfo(broker_id=BrokerId("d"), broker_url="tcp://d:1", network_properties=f"{ZONE_KEY}=\n")
    )
    cluster.heard(wire, Census(Facts("c", "sea", "", stomp="stomp://c:2"), 1).tell(0, 1))
    me = hub.rig.broker.ids.node_id
    assert hub.rig.broker.neighbours.places() == f"{me}=stomp://a:2 stomp+ssl://a:3,c=stomp://c:2"
    told = msgspec.json.decode(wire.told[0].removeprefix(TOKEN), type=list[Facts])
    assert (told[0].stomp, told[0].clients) == ("stomp://a:2 stomp+ssl://a:3", UNKNOWN)
