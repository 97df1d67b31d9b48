"""Requests of Jolokia, names of MBeans, and what becomes of them: against a broker that is a table."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("starlette")

from entrepot.base.errors import InvalidDestination, LimitExceeded, Refused
from entrepot.console.jolokia.answering import answer
from entrepot.console.jolokia.artemis import ArtemisBeans, _ours, _typed, composite
from entrepot.console.jolokia.classic import ClassicBeans
from entrepot.console.jolokia.names import ObjectName, plain, quoted, unquoted
from entrepot.console.jolokia.requests import BODY_MAX, BULK_MAX, JolokiaRequest, echoed, of_body, of_path, split
from entrepot.console.jolokia.world import World, shape
from entrepot.console.numbers import count, whole
from entrepot.core.operators.views import QueueView

NUMBERS = ("messages", "waiting", "in_flight", "delayed", "leased", "on_disk", "consumers", "octets", "oldest_ms")
COUNTS = ("accepted", "delivered", "settled", "expired", "dead", "dropped", "requeued")
FACTS = {
    "name": "b",
    "nodeID": "n",
    "version": "1",
    "active": True,
    "acceptorsAsJSON": "[]",
    "connectionCount": 1,
    "totalConsumerCount": 0,
    "totalMessageCount": 7,
    "totalMessagesAdded": 9,
    "totalMessagesAcknowledged": 2,
    "addressMemoryUsagePercentage": 0,
    "globalMaxSize": 5,
    "diskStoreUsage": 0.5,
    "diskStoreLimit": 1000,
    "diskTempUsage": 0.25,
    "diskTempLimit": 400,
    "totalConnectionCount": 3,
    "uptime": "1 second",
    "uptimeMillis": 1000,
}


def queue(name: str, messages: int) -> dict[str, Any]:
    numbers = dict.fromkeys((*NUMBERS, *COUNTS), 0) | {"messages": messages, "waiting": messages, "accepted": 9}
    flags = {"paused": False, "durable": True, "temporary": False, "auto_created": True}
    return {
        "name": name,
        "address": name,
        "routing": "ANYCAST",
        "selector": "",
        "repeated": 0,
        "limit_octets": 0,
        "when_full": "PAGE",
        **numbers,
        **flags,
    }


class Table:
    """Answers as a broker would, and notes what it was asked."""

    def __init__(self, *queues: dict[str, Any]) -> None:
        self.queues = {one["name"]: one for one in queues}
        self.asked: list[tuple[object, ...]] = []

    async def ask(self, resource: str, operation: str, *values: object) -> Any:
        self.asked.append((resource, operation, *values))
        if operation == "describeAttributes" and resource == "broker":
            return dict(FACTS)
        if operation == "describeQueues":
            return sorted(
                (one for one in self.queues.values() if one["name"] > str(values[1])), key=lambda one: one["name"]
            )
        if operation in ("describeBridges", "describeTuned"):
            return []
        if operation in ("listProducers", "listConsumers", "listAddresses", "listConnections"):
            return '{"data":[],"count":0}'
        if operation == "describeResources":
            rows = [
                {"name": name, "address": name, "routingType": "ANYCAST", "messageCount": 1} for name in self.queues
            ]
            return [row for row in rows if row["name"] > str(values[2])] if values[0] == "queue" else []
        kind, _, name = resource.partition(".")
        if kind == "queue" and name not in self.queues:
            raise InvalidDestination(f"AMQ229017: Queue {name} does not exist")
        if operation == "describe":
            return self.queues[name]
        return {"purge": 3, "moveMessages": 2, "browse": []}.get(operation)


def ask(table: Table, raw: dict[str, Any], *, artemis: bool = False, **config: str) -> dict[str, Any]:
    request = JolokiaRequest(raw, config)
    beans = ArtemisBeans(World(table), None) if artemis else ClassicBeans(World(table), None)
    return asyncio.run(answer(request, beans))


QUEUES = "org.apache.activemq:type=Broker,brokerName=b,destinationType=Queue,destinationName="


def test_paths_are_split_where_no_escape_stands_before_the_slash() -> None:
    assert split('/read/a!/b/c!!d//e!"/') == ["read", "a/b", "c!d", 'e"']
    assert of_path("/read/x:y=z/A,B/0/c!/d") == {
        "type": "read", "mbean": "x:y=z", "attribute": ["A", "B"], "path": "0/c!/d",
    }  # fmt: skip
    assert of_path('/exec/x:y=z/op/[null]/""/1')["arguments"] == [None, "", "1"]
    assert of_path("") == {"type": "version"}
    with pytest.raises(Refused):
        of_path("/read")


def test_names_are_canonical_and_patterns_cover_them() -> None:
    name = ObjectName.parse('d:b="x,y",a=1')
    assert str(name) == 'd:a=1,b="x,y"'
    assert ObjectName.parse("d:*").covers(name)
    assert ObjectName.parse('d:b="x*",*').covers(name)
    assert not ObjectName.parse("d:a=1").covers(name)
    assert not ObjectName.parse("e:*").covers(name)
    assert unquoted(quoted('a"*?\\\nb')) == 'a"*?\\\nb'
    assert not ObjectName.parse(f"d:a={quoted('x*')}").is_pattern
    assert plain('a:b,c*?="') == "a_b_c&ast;&qe;&eq;_"
    for text in ("none", "d:a", "d:a=1,a=2", "d:a=" + "x" * 5000):
        with pytest.raises(Refused):
            ObjectName.parse(text)


def test_a_pattern_of_stars_takes_no_time() -> None:
    pattern = ObjectName.parse("d:a=" + "*" * 4000 + "b")
    assert not pattern.covers(ObjectName("d", {"a": "x" * 4000}))


def test_bodies_that_are_too_much_or_no_requests_are_refused() -> None:
    with pytest.raises(LimitExceeded):
        of_body(b" " * (BODY_MAX + 1), {})
    with pytest.raises(LimitExceeded):
        of_body(b"[" + b",".join([b'{"type":"version"}'] * (BULK_MAX + 1)) + b"]", {})
    for body in (b"", b"{", b"[1]", b"3", b"[" * 100_000):
        with pytest.raises(Refused):
            of_body(body, {})
    with pytest.raises(Refused):
        JolokiaRequest({"type": "exec", "mbean": "a:b=c", "arguments": "x"}, {})
    with pytest.raises(Refused):
        JolokiaRequest({"type": "reap"}, {})


def test_attributes_are_read_alone_together_by_pattern_and_by_path() -> None:
    table = Table(queue("orders", 7), queue("other", 0))
    assert ask(table, {"type": "read", "mbean": QUEUES + "orders", "attribute": "QueueSize"})["value"] == 7
    several = ask(table, {"type": "read", "mbean": QUEUES + "orders", "attribute": ["QueueSize", "EnqueueCount"]})
    assert several["value"] == {"QueueSize": 7, "EnqueueCount": 9}
    both = ask(table, {"type": "read", "mbean": QUEUES + "*", "attribute": "QueueSize"})["value"]
    assert {name.partition("destinationName=")[2].partition(",")[0]: one for name, one in both.items()} == {
        "orders": {"QueueSize": 7}, "other": {"QueueSize": 0},
    }  # fmt: skip
    found = ask(
        table, {"type": "read", "mbean": "org.apache.activemq:type=Broker,brokerName=b", "path": "Queues/0/objectName"}
    )
    assert found["value"].startswith("org.apache.activemq:brokerName=b,destinationName=orders")
    assert len(ask(table, {"type": "search", "mbean": "org.apache.activemq:destinationType=Queue,*"})["value"]) == 2


def test_what_is_not_there_is_404_as_jolokia_says_it() -> None:
    table = Table(queue("orders", 7))
    for mbean, attribute, kind in (
        (QUEUES + "none", "QueueSize", "InstanceNotFoundException"),
        (QUEUES + "orders", "Nothing", "AttributeNotFoundException"),
        ("java.lang:type=Memory", "HeapMemoryUsage", "InstanceNotFoundException"),
    ):
        told = ask(table, {"type": "read", "mbean": mbean, "attribute": attribute})
        assert (told["status"], told["error_type"]) == (404, f"javax.management.{kind}")
    ignored = ask(
        table,
        {
            "type": "read",
            "mbean": QUEUES + "orders",
            "attribute": ["QueueSize", "No"],
            "config": {"ignoreErrors": True},
        },
    )
    assert ignored["value"] == {"QueueSize": 7, "No": "ERROR: No such attribute: No"}


def test_operations_become_those_of_management_with_types_that_fit() -> None:
    table = Table(queue("orders", 7))
    bean = QUEUES + "orders"
    raw = {"type": "exec", "mbean": bean, "operation": "moveMatchingMessagesTo(java.lang.String,java.lang.String)"}
    assert ask(table, {**raw, "arguments": ["a > 1", "queue://old"]})["value"] == 2
    assert table.asked[-1] == ("queue.orders", "moveMessages", "a > 1", "old", False, -1)
    assert ask(table, {"type": "exec", "mbean": bean, "operation": "destroyAll"})["status"] == 400
    assert ask(table, {"type": "exec", "mbean": QUEUES + "*", "operation": "purge"})["status"] == 400
    keys = 'component=addresses,address="orders",subcomponent=queues,routing-type="anycast",queue="orders"'
    name = f'org.apache.activemq.artemis:broker="b",{keys}'
    raw = {"type": "exec", "mbean": name, "operation": "browse(int,int)", "arguments": ["1", "50"]}
    table.queues["orders"] |= {"routingType": "ANYCAST"}

    async def attributes(resource: str, operation: str, *values: object) -> Any:
        if operation == "describeAttributes" and resource == "queue.orders":
            return {"name": "orders", "address": "orders", "routingType": "ANYCAST"}
        return await Table.ask(table, resource, operation, *values)

    table.ask = attributes  # type: ignore[method-assign]
    assert ask(table, raw, artemis=True)["status"] == 200
    assert table.asked[-1] == ("queue.orders", "browse", 1, 50)


def test_list_shows_types_and_its_depth_is_bounded() -> None:
    table = Table(queue("orders", 7))
    listed = ask(table, {"type": "list", "path": "org.apache.activemq"})["value"]
    (name,) = [one for one in listed if "destinationName=orders" in one]
    assert listed[name]["attr"]["QueueSize"]["type"] == "long"
    assert listed[name]["op"]["purge"]["ret"] == "void"
    shallow = ask(table, {"type": "list", "config": {"maxDepth": 1}})["value"]
    assert shallow == {"org.apache.activemq": 1}


def test_names_keep_the_order_of_their_properties_for_who_wants_that() -> None:
    table = Table(queue("orders", 7))
    keys = ('broker="b"', "component=addresses", 'address="orders"')
    keys += ("subcomponent=queues", 'routing-type="anycast"', 'queue="orders"')
    pattern = "org.apache.activemq.artemis:subcomponent=queues,*"
    for raw in ({"type": "search", "mbean": pattern}, {"type": "read", "mbean": pattern, "attribute": "MessageCount"}):
        (kept,) = ask(table, raw, artemis=True, canonicalNaming="false")["value"]
        assert kept == "org.apache.activemq.artemis:" + ",".join(keys)
        (sorted_,) = ask(table, raw, artemis=True)["value"]
        assert sorted_ == "org.apache.activemq.artemis:" + ",".join(sorted(keys))
    listed = ask(table, {"type": "list", "path": "org.apache.activemq.artemis"}, artemis=True, canonicalNaming="false")
    assert ",".join(keys) in listed["value"]


def test_a_browsed_message_is_written_as_artemis_does() -> None:
    row = dict.fromkeys(("userID", "protocol", "durable", "redelivered", "timestamp", "expiration", "priority"), 0)
    row |= {"messageID": 2**40, "address": "a", "size": 9, "type": 4, "largeMessage": True, "preview": "00ff7f"}
    row["properties"] = {"s": "x", "i": 7, "l": 2**31, "b": True, "d": 1.5, "none": None}
    said = composite(row)
    assert (said["messageID"], said["persistentSize"], said["type"]) == (str(2**40), 9, 4)
    assert said["BodyPreview"] == [0, -1, 127]
    typed = {kind: said[f"{kind}Properties"] for kind in ("String", "Int", "Long", "Boolean", "Double", "Short")}
    assert typed == {
        "String": {"s": "x"},
        "Int": {"i": 7},
        "Long": {"l": 2**31},
        "Boolean": {"b": True},
        "Double": {"d": 1.5},
        "Short": None,
    }
    older = {name: row[name] for name in row if name not in ("type", "largeMessage", "preview")} | {"text": "hello"}
    assert [composite(older)[name] for name in ("type", "largeMessage", "text")] == [3, False, "hello"]


def test_every_attribute_that_list_shows_can_be_read() -> None:
    table = Table(queue("orders", 7))
    listed = ask(table, {"type": "list", "path": "org.apache.activemq"})["value"]
    for name, info in listed.items():
        told = ask(table, {"type": "read", "mbean": f"org.apache.activemq:{name}", "attribute": sorted(info["attr"])})
        assert told["status"] == 200, told


def test_what_is_listed_has_its_class_without_which_the_java_client_sees_no_mbean() -> None:
    listed = ask(Table(queue("orders", 7)), {"type": "list", "path": "org.apache.activemq"})["value"]
    assert {info["class"].rpartition(".")[2] for info in listed.values()} >= {"BrokerView", "QueueView"}
    path = 'org.apache.activemq.artemis/broker="b"/class'
    told = ask(Table(), {"type": "list", "path": path}, artemis=True)["value"]
    assert told == "org.apache.activemq.artemis.core.management.impl.ActiveMQServerControlImpl"
    assert ask(Table(), {"type": "list", "path": "no.such"})["value"] == {}


def test_mistakes_have_the_class_that_the_real_broker_throws_and_a_trace_only_if_asked_for() -> None:
    keys = 'component=addresses,address="a",subcomponent=queues,routing-type="anycast",queue="a"'
    name = f'org.apache.activemq.artemis:broker="b",{keys}'
    gone = Table(queue("a", 1))
    find, gone.ask = gone.ask, _vanishing(gone)  # type: ignore[method-assign]
    told = ask(gone, {"type": "EXEC", "mbean": name, "operation": "pause"}, artemis=True)
    kind = "org.apache.activemq.artemis.api.core.ActiveMQNonExistentQueueException"
    assert (told["error_type"], told["status"], told["request"]["type"]) == (kind, 500, "exec")
    assert "stacktrace" not in told
    gone.ask = find  # type: ignore[method-assign]
    traced = ask(gone, {"type": "read", "mbean": QUEUES + "x", "attribute": "Y"}, includeStackTrace="true")
    assert traced["stacktrace"].startswith("javax.management.InstanceNotFoundException")


def _vanishing(table: Table) -> Any:
    """Return what answers as ``table``, whose queues go before anything is done to one."""
    find = table.ask

    async def ask(resource: str, operation: str, *values: object) -> Any:
        if operation == "pause":
            raise InvalidDestination("AMQ229017: Queue a does not exist")
        if operation == "describeAttributes" and resource.startswith("queue."):
            return {"name": "a", "address": "a", "routingType": "ANYCAST"}
        return await find(resource, operation, *values)

    return ask


def test_memory_of_a_queue_is_a_part_of_its_own_limit_or_of_that_of_the_broker() -> None:
    known = {"own": {"octets": 30, "limit_octets": 40}, "all": {"octets": 30, "limit_octets": 0}}
    table = Table(*({**queue(name, 1), **numbers} for name, numbers in known.items()))
    for name, limit in (("own", 40), ("all", FACTS["globalMaxSize"])):
        told = ask(table, {"type": "read", "mbean": QUEUES + name})["value"]
        assert told["MemoryLimit"] == limit
        assert told["MemoryPercentUsage"] == (100 * 30 // limit if limit else 0)


def test_the_rows_here_are_those_of_a_broker() -> None:
    assert set(queue("a", 1)) == set(QueueView.__struct_fields__)


@pytest.mark.parametrize("odd", ["²", "١٢٣", "9" * 5000, "--5", "1e3", " 7"])
def test_a_number_that_is_none_is_the_mistake_of_who_asks(odd: str) -> None:
    table = Table(queue("orders", 7))
    bean = QUEUES + "orders"
    listed = {"type": "read", "mbean": "org.apache.activemq:type=Broker,brokerName=b", "path": f"Queues/{odd}"}
    assert ask(table, listed)["status"] == 404
    for name in ("maxDepth", "maxCollectionSize"):
        assert ask(table, {"type": "read", "mbean": bean, "config": {name: odd}})["status"] == 400
    sends = {"type": "exec", "mbean": bean, "operation": "sendTextMessage"}
    for header in ("JMSTimeToLive", "JMSPriority"):
        assert ask(table, {**sends, "arguments": [{header: odd}, "x"]})["status"] == 400
    assert ask(table, {"type": "exec", "mbean": bean, "operation": "purge", "arguments": [odd]})["status"] == 400
    with pytest.raises(Refused, match=r"f takes \(int\)"):
        _typed({"op": {"f": {"args": [{"type": "int"}]}}}, "f", [odd])
    assert (whole(odd), count(odd)) == (None, None)
    assert (whole("-5"), count("-5"), count(7, 6), whole(True), whole(10**18)) == (-5, None, None, None, None)


@pytest.mark.parametrize(
    ("operation", "arguments"),
    [
        ("purge", [1, 2]),
        ("browse", [None, None]),
        ("removeMessage", []),
        ("removeMessage", [["a"]]),
        ("copyMessageTo", [{"a": 1}, "x"]),
        ("moveMatchingMessagesTo", ["a = 1", True]),
        ("sendTextMessageWithProperties", [3.5]),
    ],
)
def test_arguments_that_an_operation_does_not_take_are_refused(operation: str, arguments: list[Any]) -> None:
    raw = {"type": "exec", "mbean": QUEUES + "orders", "operation": operation, "arguments": arguments}
    told = ask(Table(queue("orders", 7)), raw)
    assert told["status"] == 400, told


def test_numbers_are_taken_where_an_operation_takes_texts() -> None:
    table = Table(queue("orders", 7))
    ask(table, {"type": "exec", "mbean": QUEUES + "orders", "operation": "removeMessage", "arguments": [17]})
    assert table.asked[-1] == ("queue.orders", "removeMessage", "17")


def test_a_path_is_a_text_or_a_list() -> None:
    with pytest.raises(Refused):
        JolokiaRequest({"type": "read", "mbean": "a:b=c", "path": 5}, {})


def test_requests_of_one_post_ask_a_broker_once() -> None:
    table = Table(queue("orders", 7), queue("other", 0))
    world = World(table)
    for name in ("orders", "other", "orders"):
        for family, bean in ((ClassicBeans, QUEUES + name), (ArtemisBeans, "org.apache.activemq.artemis:*")):
            request = JolokiaRequest({"type": "search", "mbean": bean}, {})
            assert asyncio.run(answer(request, family(world, None)))["value"]
    assert len(table.asked) == len({(one[0], one[1], *map(str, one[2:])) for one in table.asked}), table.asked


@pytest.mark.parametrize("operation", ["addUser", "resetUser(java.lang.String,java.lang.String,java.lang.String)"])
def test_a_password_is_not_called_back(operation: str) -> None:
    raw = {"type": "exec", "mbean": "a:b=c", "operation": operation, "arguments": ["ann", "secret", "all"]}
    asked = JolokiaRequest(raw, {})
    assert asked.arguments[1] == "secret"
    assert asked.raw["arguments"] == ["ann", "****", "all"]
    assert echoed({"operation": operation, "arguments": ["ann", None]})["arguments"] == ["ann", None]
    assert echoed({"operation": operation}) == {"operation": operation}


def test_what_changes_settings_users_and_counters_is_listed_with_its_forms() -> None:
    operations = shape("artemis", "broker")["op"]
    assert [len(form["args"]) for form in operations["addSecuritySettings"]] == [8, 9, 11, 13]
    assert {"addAddressSettings", "addUser", "listUser", "enableMessageCounters", "scaleDown"} <= set(operations)
    assert "listMessageCounter" in shape("artemis", "queue")["op"]


def test_names_of_attributes_are_ours_by_their_first_letter_but_for_what_is_an_abbreviation() -> None:
    assert [_ours(name) for name in ("HAPolicy", "ID", "MessageCount")] == ["HAPolicy", "id", "messageCount"]


BROKER = "org.apache.activemq:type=Broker,brokerName=b"
ARTEMIS = 'org.apache.activemq.artemis:broker="b"'


def write(table: Table, mbean: str, attribute: object, value: object, **more: Any) -> dict[str, Any]:
    raw = {"type": "write", "mbean": mbean, "attribute": attribute, "value": value, **more}
    return ask(table, raw, artemis=mbean.startswith("org.apache.activemq.artemis:"))


@pytest.mark.parametrize(
    ("mbean", "attribute", "value", "before", "asked"),
    [
        (BROKER, "MemoryLimit", 70, 5, ("broker", "setMemoryLimit", 70)),
        (BROKER, "StoreLimit", "71", 1000, ("broker", "setStoreLimit", 71)),
        (BROKER, "TempLimit", 72, 400, ("broker", "setTempLimit", 72)),
        (QUEUES + "orders", "MemoryLimit", 73, 5, ("address.orders", "tune", "ANYCAST", '{"maxSizeBytes": 73}')),
        (QUEUES + "orders", "ProducerFlowControl", "TRUE", False,
         ("address.orders", "tune", "ANYCAST", '{"addressFullMessagePolicy": "BLOCK"}')),
        (ARTEMIS, "MessageCounterSamplePeriod", 5000, 10_000, ("broker", "setMessageCounterSamplePeriod", 5000)),
        (ARTEMIS, "MessageCounterMaxDayCount", 3, 10, ("broker", "setMessageCounterMaxDayCount", 3)),
    ],
)  # fmt: skip
def test_what_can_be_written_is_and_the_answer_is_what_was_there(
    mbean: str, attribute: str, value: object, before: object, asked: tuple[object, ...], monkeypatch: Any
) -> None:
    monkeypatch.setitem(FACTS, "messageCounterSamplePeriod", 10_000)
    monkeypatch.setitem(FACTS, "messageCounterMaxDayCount", 10)
    table = Table(queue("orders", 7))
    told = write(table, mbean, attribute, value)
    assert (told["status"], told.get("value")) == (200, before), told
    assert table.asked[-1] == asked


def test_a_queue_whose_producers_are_refused_is_controlled_as_it_is() -> None:
    table = Table({**queue("orders", 7), "when_full": "FAIL"})
    assert write(table, QUEUES + "orders", "ProducerFlowControl", True)["value"] is True
    assert "tune" not in {one[1] for one in table.asked}
    write(table, QUEUES + "orders", "ProducerFlowControl", False)
    assert table.asked[-1][-1] == '{"addressFullMessagePolicy": "PAGE"}'


@pytest.mark.parametrize(
    ("attribute", "value", "status"),
    [
        ("QueueSize", 5, 404),
        ("Nothing", 5, 404),
        (["MemoryLimit"], 5, 400),
        (None, 5, 400),
        ("MemoryLimit", "many", 400),
        ("MemoryLimit", None, 400),
        ("MemoryLimit", True, 400),
        ("MemoryLimit", 1.5, 400),
        ("MemoryLimit", 1 << 63, 400),
        ("MemoryLimit", 0, 400),
        ("MemoryLimit", [5], 400),
        ("ProducerFlowControl", "yes", 400),
        ("ProducerFlowControl", 1, 400),
    ],
)
def test_what_cannot_be_written_is_refused_and_the_broker_is_not_asked(
    attribute: object, value: object, status: int
) -> None:
    table = Table(queue("orders", 7))
    told = write(table, QUEUES + "orders", attribute, value)
    assert told["status"] == status, told
    if status == 404:
        assert told["error_type"] == "javax.management.AttributeNotFoundException"
    assert not {one[1] for one in table.asked} & {"tune", "setMemoryLimit"}
    for mbean in (QUEUES + "*", QUEUES + "none"):
        assert write(table, mbean, "MemoryLimit", 5)["status"] == (400 if "*" in mbean else 404)
    assert write(table, QUEUES + "orders", "MemoryLimit", 5, path="a")["status"] == 400


def test_what_is_listed_as_writable_is_what_can_be_written() -> None:
    """And nothing else: a tool offers a field for each."""
    for family in (ClassicBeans, ArtemisBeans):
        beans: Any = family(World(Table(queue("orders", 7))), None)
        for bean in asyncio.run(beans.find(ObjectName.parse(f"{beans.domain}:*"))):
            told = {name for name, one in bean.shape["attr"].items() if one["rw"] and name in bean.attributes}
            assert told == set(bean.writes), bean.name


def test_a_password_that_is_written_is_neither_called_back_nor_kept_for_the_log() -> None:
    raw = {"type": "write", "mbean": "a:b=c", "attribute": "Password", "value": "secret"}
    assert JolokiaRequest(raw, {}).raw["value"] == "****"
    assert JolokiaRequest({**raw, "attribute": "MemoryLimit", "value": 5}, {}).raw["value"] == 5


class Tuned:
    """A broker with addresses that have limits of their own; an older one tells all of them each time."""

    def __init__(self, *, older: bool) -> None:
        self.older = older
        self.asked = 0
        self.rows = [{"address": f"a.{number:04}", "routing": "MULTICAST", "settings": {}} for number in range(1100)]

    async def ask(self, resource: str, operation: str, *values: object) -> Any:
        assert (resource, operation) == ("broker", "describeTuned")
        self.asked += 1
        after, most = ("", len(self.rows)) if self.older else (str(values[0]), int(str(values[1])))
        return [row for row in self.rows if str(row["address"]) > after][:most]


@pytest.mark.parametrize("older", [False, True])
def test_all_that_is_tuned_is_read_page_by_page_from_any_broker(older: bool) -> None:
    asker = Tuned(older=older)
    found = asyncio.run(World(asker).tuned())
    assert [row["address"] for row in found] == [row["address"] for row in asker.rows]
    assert asker.asked == (2 if older else 3)
