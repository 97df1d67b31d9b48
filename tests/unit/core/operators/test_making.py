"""Management by messages as Artemis' tools use it: addresses, queues, lists of who is there, refusals in its words."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from entrepot.base.errors import EntrepotError
from entrepot.core.addressing.definition import QueueDefinition
from entrepot.core.operators.broker_control import spoken
from entrepot.core.operators.census import Census
from entrepot.core.operators.controls import control
from entrepot.core.operators.tables import LOOKED_A_STEP
from entrepot.model.address import ANYCAST, MULTICAST, parse
from entrepot.model.connected import ConnectionView, SessionView
from entrepot.model.headers import ADD_HEADERS
from kit import Rig
from steps import stepped, usual

BROKER = "broker"


class Office(Census):
    """Two connections, of which one has two sessions."""

    def __init__(self) -> None:
        self.closed: list[tuple[str, ...]] = []

    def views(self) -> Iterable[ConnectionView]:
        one = SessionView("s1", "1", "ann", "", 2, {"4": "orders"}, 0)
        other = SessionView("s2", "1", "bob", "", 0, {}, 0)
        third = SessionView("2", "2", "ann", "me", 1, {}, 5000)
        return iter(
            [
                ConnectionView("1", "10.0.0.1:5000", "tcp://here:1", "CORE", "", "ann,bob", 0, [one, other]),
                ConnectionView("2", "10.0.0.2:6000", "tcp://here:1", "STOMP", "me", "ann", 5000, [third]),
            ]
        )

    def close(self, connection: str, why: str) -> bool:
        self.closed.append((connection,))
        return True

    def close_session(self, connection: str, session: str, why: str) -> bool:
        self.closed.append((connection, session))
        return session == "s1"


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.fixture
def office() -> Office:
    return Office()


def do(rig: Rig, office: Census, resource: str, name: str, *values: Any) -> Any:
    """Do an operation to its end."""
    outcome: Any = control(rig.broker, office, resource).call(name, list(values))
    if hasattr(outcome, "step"):
        while not outcome.step():
            pass
        outcome = outcome.result()
    rig.turn()
    return outcome


def fail(rig: Rig, office: Census, resource: str, name: str, *values: Any) -> str:
    with pytest.raises(EntrepotError) as found:
        do(rig, office, resource, name, *values)
    return str(found.value).partition(" →")[0]


def listed(rig: Rig, office: Census, name: str, options: dict[str, str] | None = None) -> list[dict[str, Any]]:
    page = json.loads(do(rig, office, BROKER, name, json.dumps(options or {}), 1, 100))
    assert page["count"] == len(page["data"])
    return list(page["data"])


def test_addresses_come_change_and_go(rig: Rig, office: Office) -> None:
    made = do(rig, office, BROKER, "createAddress", "one", "ANYCAST")
    assert made == "Address [name=one, routingTypes={ANYCAST}, autoCreated=false]"
    assert "AMQ229204: Address already exists: one" in fail(rig, office, BROKER, "createAddress", "one", "ANYCAST")
    both = do(rig, office, BROKER, "updateAddress", "one", "ANYCAST,MULTICAST")
    assert both == "Address [name=one, routingTypes={MULTICAST,ANYCAST}, autoCreated=false]"
    assert do(rig, office, BROKER, "getAddressInfo", "one") == both
    rig.broker.queues.create(QueueDefinition(name="q", address="one", routing=ANYCAST))
    assert "AMQ229209" in fail(rig, office, BROKER, "updateAddress", "one", "MULTICAST")
    assert "AMQ229205: Address one has bindings" in fail(rig, office, BROKER, "deleteAddress", "one")
    rig.send_all("one::q", range(700))
    assert do(rig, office, BROKER, "deleteAddress", "one", True) is None
    assert "one" not in rig.broker.table.addresses
    assert "q" not in rig.broker.table.queues
    for verb in ("deleteAddress", "getAddressInfo"):
        assert "AMQ229203: Address Does Not Exist: one" in fail(rig, office, BROKER, verb, "one")
    assert "no routing type" in fail(rig, office, BROKER, "createAddress", "two", "SIDEWAYS")


def test_an_address_without_queues_stays_until_it_is_removed(rig: Rig, office: Office) -> None:
    do(rig, office, BROKER, "createAddress", "kept", "MULTICAST")
    reader = rig.reader("topic://kept")
    reader.close()
    assert "kept" in rig.broker.table.addresses
    assert json.loads(do(rig, office, "address.kept", "getRoutingTypesAsJSON")) == ["MULTICAST"]
    do(rig, office, BROKER, "deleteAddress", "kept")
    assert "kept" not in rig.broker.table.addresses


def test_queues_are_made_with_the_answers_of_artemis(rig: Rig, office: Office) -> None:
    said = json.dumps({"name": "q", "address": "a", "routing-type": "MULTICAST", "filter-string": "n > 1"})
    made = json.loads(do(rig, office, BROKER, "createQueue", said))
    wanted = {"name": "q", "address": "a", "routing-type": "MULTICAST", "filter-string": "n > 1", "durable": True}
    assert {name: made[name] for name in wanted} == wanted
    assert (made["max-consumers"], made["ring-size"], made["auto-created"]) == (-1, -1, False)
    assert made["id"] == int(rig.queue("q").identity)
    again = "AMQ229019: Queue q already exists on address a"
    assert again in fail(rig, office, BROKER, "createQueue", said)
    assert json.loads(do(rig, office, BROKER, "createQueue", said, True)) == made
    assert do(rig, office, BROKER, "createQueue", "plain", "plain", "ANYCAST") is None
    assert "AMQ229017: Queue none does not exist" in fail(rig, office, BROKER, "destroyQueue", "none")
    rig.reader("plain")
    assert "AMQ229025: Cannot delete queue plain" in fail(rig, office, BROKER, "destroyQueue", "plain")


def test_what_is_there_is_listed_with_the_columns_of_artemis(rig: Rig, office: Office) -> None:
    rig.send_all("orders", range(3))
    rig.reader("orders", 1)
    (queue,) = listed(rig, office, "listQueues")
    assert (queue["name"], queue["messageCount"], queue["consumerCount"]) == ("orders", "3", "1")
    assert (queue["deliveringCount"], queue["filter"], queue["internalQueue"]) == ("1", "", "false")
    (address,) = listed(rig, office, "listAddresses")
    assert (address["name"], address["routingTypes"], address["queueCount"]) == ("orders", '["ANYCAST"]', "1")
    assert do(rig, office, BROKER, "listAddresses", ",") == "orders"
    (consumer,) = listed(rig, office, "listConsumers")
    assert (consumer["queue"], consumer["messagesInTransit"], consumer["status"]) == ("orders", "1", "OK")
    rows = listed(rig, office, "listConnections", {"sortColumn": "connectionID", "sortOrder": "desc"})
    assert [(one["connectionID"], one["users"], one["sessionCount"]) for one in rows] == [
        ("2", "ann", 1),
        ("1", "ann,bob", 2),
    ]
    assert rows[0]["creationTime"] == "Thu Jan 01 00:00:05 UTC 1970"
    found = listed(rig, office, "listSessions", {"field": "user", "operation": "EQUALS", "value": "ann"})
    assert [(one["id"], one["connectionID"], one["consumerCount"]) for one in found] == [("s1", "1", 2), ("2", "2", 1)]
    (producer,) = listed(rig, office, "listProducers")
    assert (producer["id"], producer["session"], producer["address"]) == ("4", "s1", "orders")
    assert len(listed(rig, office, "listQueues", {"field": "MESSAGE_COUNT", "value": "3"})) == 1  # older consoles


def test_a_long_list_is_made_in_steps(rig: Rig, office: Office) -> None:
    for number in range(3 * LOOKED_A_STEP):
        rig.broker.queues.create(QueueDefinition(name=f"q{number:05}", address="a", routing=MULTICAST, durable=False))
    found, times = stepped(control(rig.broker, office, BROKER).call("listQueues", ['{"field": "name"}', 1, 500]))
    assert usual(times) < 1
    rig.broker.effort.alone = False  # in the few turns of a flood
    again, flood = stepped(control(rig.broker, office, BROKER).call("listQueues", ['{"sortColumn": "name"}', 1, 500]))
    assert again == found
    assert len(flood) < len(times) / 10
    rows = json.loads(str(again))
    assert rows["count"] == 3 * LOOKED_A_STEP
    assert [rows["data"][0]["name"], rows["data"][-1]["name"]] == ["q00000", "q00499"]
    last = json.loads(do(rig, office, BROKER, "listQueues", "", 7, 500))
    assert (last["count"], last["data"]) == (3 * LOOKED_A_STEP, [])


def test_who_is_closed(rig: Rig, office: Office) -> None:
    assert do(rig, office, BROKER, "closeConnectionsForAddress", "10.0.0.2") is True
    assert do(rig, office, BROKER, "closeConnectionsForUser", "bob") is True
    assert do(rig, office, BROKER, "closeConnectionsForUser", "nobody") is False
    assert do(rig, office, BROKER, "closeSessionWithID", "1", "s1") is True
    assert office.closed == [("2",), ("1",), ("1", "s1")]


def test_one_consumer_is_closed_and_gives_back_what_it_has(rig: Rig, office: Office) -> None:
    rig.send_all("Q", range(3))
    reader = rig.reader("Q", 2)
    (row,) = listed(rig, office, "listConsumers")
    assert do(rig, office, BROKER, "closeConsumerWithID", "nobody", row["id"]) is False
    assert do(rig, office, BROKER, "closeConsumerWithID", row["session"], row["id"]) is True
    assert len(reader.endings) == 1
    assert rig.queue("Q").in_flight == 0
    assert listed(rig, office, "listConsumers") == []


def test_queues_are_made_by_many_arguments(rig: Rig, office: Office) -> None:
    """The 21 arguments that the ``artemis`` tool sends; what is said in words comes back so."""
    arguments = ["a", "ANYCAST", "q", "n = 1", True, -1, False, False, False, -1, None, False, None, False, 0, -1]
    arguments += [False, -1, -1, True, -1]
    said = do(rig, office, BROKER, "createQueue", *arguments)
    assert said == (
        "Queue [name=q, address=a, routingType=ANYCAST, filter=n = 1, durable=true, purgeOnNoConsumers=false, "
        "autoCreateAddress=false, exclusive=false, lastValue=false, lastValueKey=null, nonDestructive=false, "
        "consumersBeforeDispatch=0, delayBeforeDispatch=-1, autoCreateAddress=false]"
    )
    assert rig.queue("q").address == "a"
    with pytest.raises(EntrepotError, match="no 'bogus'"):
        do(rig, office, BROKER, "createQueue", '{"name": "r", "bogus": 1}')


def test_a_queue_is_changed_and_the_rest_of_it_stays(rig: Rig, office: Office) -> None:
    do(
        rig,
        office,
        BROKER,
        "createQueue",
        '{"name": "q", "routing-type": "ANYCAST", "max-consumers": 3, "ring-size": 9}',
    )
    now = json.loads(
        do(rig, office, BROKER, "updateQueue", '{"name": "q", "exclusive": true, "filter-string": "n = 1"}')
    )
    wanted = {"max-consumers": 3, "ring-size": 9, "exclusive": True, "enabled": True, "filter-string": "n = 1"}
    assert {name: now[name] for name in wanted} == wanted
    said = do(rig, office, BROKER, "updateQueue", "q", "ANYCAST", 5, None)
    assert "maxConsumers=5" in said
    assert control(rig.broker, office, "queue.q").get("MaxConsumers") == 5
    assert control(rig.broker, office, "queue.q").get("Exclusive") is True
    assert "stays so" in fail(rig, office, BROKER, "updateQueue", '{"name": "q", "routing-type": "MULTICAST"}')
    assert "AMQ229017: Queue none" in fail(rig, office, BROKER, "updateQueue", '{"name": "none"}')
    do(rig, office, "queue.q", "disable")
    assert control(rig.broker, office, "queue.q").get("Enabled") is False
    rig.restart()
    assert control(rig.broker, office, "queue.q").get("MaxConsumers") == 5
    assert control(rig.broker, office, "queue.q").get("Enabled") is False


def test_diverts_come_and_go(rig: Rig, office: Office) -> None:
    assert do(rig, office, BROKER, "createDivert", "d", "d", "from", "to", True, "n = 1", None) is None
    one = control(rig.broker, office, "divert.d")
    names = ("Address", "ForwardingAddress", "Exclusive", "Filter", "RoutingType", "UniqueName")
    assert [one.get(name) for name in names] == ["from", "to", True, "n = 1", "STRIP", "d"]
    assert control(rig.broker, office, BROKER).get("divertNames") == ["d"]
    assert "already" in fail(
        rig, office, BROKER, "createDivert", '{"name": "d", "address": "a", "forwarding-address": "b"}'
    )
    rig.broker.queues.create(QueueDefinition(name="to", address="to"))
    message = rig.message("x", "from", properties={"n": 1})
    rig.broker.send(message, rig.broker.target(parse("from")))
    assert (rig.queue("to").count, rig.queue("from").count) == (1, 0)
    do(rig, office, BROKER, "destroyDivert", "d")
    assert "AMQ229012: No binding for divert d" in fail(rig, office, BROKER, "destroyDivert", "d")
    wrong = '{"name": "e", "address": "a", "forwarding-address": "b", "transformer-class-name": "X"}'
    assert "transformer" in fail(rig, office, BROKER, "createDivert", wrong)
    right = {
        "name": "e", "address": "e", "forwarding-address": "to",
        "transformer-configuration": {"class-name": ADD_HEADERS, "properties": {"colour": "red"}},
    }  # fmt: skip
    do(rig, office, BROKER, "createDivert", json.dumps(right))
    message = rig.message("x", "e", properties={"colour": "blue", "n": 1})
    rig.broker.send(message, rig.broker.target(parse("e")))
    (made,) = [one for one in rig.queue("to").backlog.references() if one.message.fact("n") == 1][-1:]
    assert (made.message.fact("colour"), message.fact("colour")) == ("red", "blue")


def test_messages_expire_when_they_are_told_to() -> None:
    rig, office = Rig(expiry_address="late"), Office()
    rig.send_all("Q", range(600))
    row = do(rig, office, "queue.Q", "browse", 1, 1)[0]
    assert do(rig, office, "queue.Q", "expireMessage", row["messageID"]) is True
    assert do(rig, office, "queue.Q", "expireMessages", "") == 599
    assert (rig.queue("Q").count, rig.queue("late").count) == (0, 600)
    assert control(rig.broker, office, "queue.Q").get("MessagesExpired") == 600


def test_what_is_being_delivered_is_listed(rig: Rig, office: Office) -> None:
    rig.send_all("Q", range(3))
    rig.reader("Q", 2)
    (consumer,) = json.loads(do(rig, office, "queue.Q", "listDeliveringMessagesAsJSON"))
    assert len(consumer["elements"]) == 2
    assert do(rig, office, "queue.Q", "listScheduledMessagesAsJSON") == "[]"


def test_attributes_are_found_whatever_the_case_of_their_letters(rig: Rig, office: Office) -> None:
    rig.send("Q")
    queue = control(rig.broker, office, "queue.Q")
    assert queue.get("ID") == int(rig.queue("Q").identity)
    assert queue.get("MessageCount") == 1
    assert queue.get("Filter") is None
    assert json.loads(str(queue.get("FirstMessageAsJSON")))[0]["address"] == "Q"
    broker = control(rig.broker, office, BROKER)
    assert broker.get("SessionCount") == 3
    assert broker.get("Clustered") is False
    assert do(rig, office, BROKER, "listNetworkTopology") == "[]"


@pytest.mark.parametrize(
    ("milliseconds", "said"),
    [
        (7, "7ms"),
        (1000, "1 second"),
        (61_000, "1 minute"),
        (3_780_000, "1 hour 3 minutes"),
        (90_000_000, "1 day 1 hour"),
    ],
)
def test_times_are_said_as_artemis_says_them(milliseconds: int, said: str) -> None:
    assert spoken(milliseconds) == said
